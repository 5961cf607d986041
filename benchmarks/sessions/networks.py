"""A small GRU4Rec in torch: embeddings, one recurrent layer, a softmax over all items.

Trained on all prefixes of sessions at once, cross-entropy over every item. The most recent twentieth of the sessions
given to `fit` decides when to stop, and is then learnt for as many passes as the rest was.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from hammemo.experiments.sessions.learner import Learner

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from hammemo.experiments.sessions.data import Session

LONGEST = 20
PASSES = 15
BATCH = 64


class GRU4Rec(Learner):
    """A recurrent network; it does not forget."""

    name = "GRU4Rec (torch)"
    choices = tuple({"width": width, "dropout": dropout} for width, dropout in ((100, 0.25), (200, 0.5)))

    def fit(self, sessions: Sequence[Session], n_items: int) -> None:
        """Find the number of passes with the lowest loss on recent sessions, then learn all for so many."""
        self._n_items = n_items
        longer = [session for session in sessions if len(session) > 1]
        late = max(1, len(longer) // 20)
        passes = self._train(longer[:-late], longer[-late:], PASSES)
        self._train(longer, [], passes)

    def scores(self, prefixes: Sequence[Session]) -> NDArray[np.float64]:
        """Return the logits."""
        import torch

        self._network.eval()
        inputs, _ = _padded([[*prefix, 0] for prefix in prefixes])
        ends = torch.tensor([min(len(prefix), LONGEST) - 1 for prefix in prefixes])
        with torch.inference_mode():
            states = self._network.states(inputs)[torch.arange(len(prefixes)), ends]
            return np.asarray(self._network.logits(states).numpy(), np.float64)

    def _train(self, sessions: list[Session], late: list[Session], passes: int) -> int:
        """Train anew; return the number of passes after which the loss on late sessions was lowest."""
        import torch

        torch.manual_seed(0)
        self._network = _network(self._n_items, self.settings["width"], self.settings["dropout"])
        optimiser = torch.optim.Adam(self._network.parameters(), 2e-3)
        rng, losses = np.random.default_rng(0), []
        for _ in range(passes):
            self._network.train()
            for rows in np.array_split(rng.permutation(len(sessions)), -(-len(sessions) // BATCH)):
                optimiser.zero_grad()
                loss = self._loss([sessions[row] for row in rows])
                loss.backward()
                optimiser.step()
            if late:
                self._network.eval()
                with torch.no_grad():
                    losses.append(float(self._loss(late)))
                if len(losses) > 2 and min(losses[-2:]) > min(losses):
                    break
        return int(np.argmin(losses)) + 1 if late else passes

    def _loss(self, sessions: list[Session]) -> Any:
        from torch.nn.functional import cross_entropy

        inputs, targets = _padded(sessions)
        asked = targets >= 0
        return cross_entropy(self._network.logits(self._network.states(inputs)[asked]), targets[asked])


def _padded(sessions: Sequence[Session]) -> tuple[Any, Any]:
    """Return the last items of each session but the very last, and what follows each; -1 where there is nothing.

    Shapes
    ------
    both : (len(sessions), longest)
    """
    import torch

    cut = [session[-LONGEST - 1 :] for session in sessions]
    inputs = np.zeros((len(cut), max(map(len, cut)) - 1), np.int64)
    targets = np.full(inputs.shape, -1)
    for row, session in enumerate(cut):
        inputs[row, : len(session) - 1] = session[:-1]
        targets[row, : len(session) - 1] = session[1:]
    return torch.from_numpy(inputs), torch.from_numpy(targets)


def _network(n_items: int, width: int, dropout: float) -> Any:
    from torch import nn

    class Network(nn.Module):
        """One embedding of the items, for what goes in and for what comes out."""

        def __init__(self) -> None:
            super().__init__()
            self.items = nn.Embedding(n_items, width)
            self.offsets = nn.Embedding(n_items, 1)
            self.drop = nn.Dropout(dropout)
            self.recurrent = nn.GRU(width, width, batch_first=True)
            nn.init.normal_(self.items.weight, std=width**-0.5)
            nn.init.zeros_(self.offsets.weight)

        def states(self, inputs: Any) -> Any:
            """Return what the network remembers after every item."""
            return self.recurrent(self.drop(self.items(inputs)))[0]

        def logits(self, states: Any) -> Any:
            """Return one logit an item."""
            return self.drop(states) @ self.items.weight.T + self.offsets.weight[:, 0]

    return Network()
