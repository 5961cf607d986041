"""A small GRU4Rec in torch: embeddings, one recurrent layer, a softmax over all items.

Trained on all prefixes of sessions at once. The cross-entropy of a target is taken against items
drawn by the root of their frequency, their logits corrected by how likely they were to be drawn
(sampled softmax). The most recent twentieth of the sessions given to `fit` decides by its loss over
all items how many passes are best; then all sessions are learnt anew for so many.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .learner import Learner

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from .data import Session

LONGEST = 20
PASSES = 12
BATCH = 64
DRAWN = 1024
MAX_LATE_SESSIONS = 500


class GRU4Rec(Learner):
    """A recurrent network; it does not forget."""

    name = "GRU4Rec (torch)"
    choices = ({"width": 100, "dropout": 0.25},)

    def fit(self, sessions: Sequence[Session], n_items: int) -> None:
        """Find the number of passes that is best on recent sessions, and learn all in as many."""
        longer = [session for session in sessions if len(session) > 1]
        counts = np.bincount([item for session in longer for item in session], minlength=n_items)
        self._chances = np.sqrt(counts + 1) / np.sqrt(counts + 1).sum()
        late = min(max(1, len(longer) // 20), MAX_LATE_SESSIONS)
        passes = self._train(longer[:-late], longer[-late:], PASSES)
        self._train(longer, [], passes)

    def scores(self, prefixes: Sequence[Session]) -> NDArray[np.float64]:
        """Return the logits."""
        import torch

        self._network.eval()
        inputs, _ = _pad([[*prefix, 0] for prefix in prefixes])
        ends = torch.tensor([min(len(prefix), LONGEST) - 1 for prefix in prefixes])
        with torch.inference_mode():
            states = self._network.states(inputs)[torch.arange(len(prefixes)), ends]
            return np.asarray(self._network.logits(states).numpy(), np.float64)

    def _train(self, sessions: list[Session], late: list[Session], passes: int) -> int:
        """Train anew; return after how many passes the loss on late sessions was lowest."""
        import torch

        torch.manual_seed(0)
        rng = np.random.default_rng(0)
        self._network = _network(
            len(self._chances), self.settings["width"], self.settings["dropout"]
        )
        optimiser = torch.optim.Adam(self._network.parameters(), 3e-3)
        losses: list[float] = []
        for _ in range(passes):
            self._network.train()
            for rows in np.array_split(rng.permutation(len(sessions)), -(-len(sessions) // BATCH)):
                optimiser.zero_grad()
                self._compute_loss_of_sample([sessions[row] for row in rows], rng).backward()
                optimiser.step()
            if late:
                losses.append(self._loss(late))
                if len(losses) > 2 and min(losses[-2:]) > min(losses):
                    break
        return int(np.argmin(losses)) + 1 if late else passes

    def _compute_loss_of_sample(self, sessions: list[Session], rng: np.random.Generator) -> Any:
        """Return the mean cross-entropy of the targets, each against itself and the items drawn."""
        import torch

        inputs, targets = _pad(sessions)
        states = self._network.states(inputs)[targets >= 0]
        targets = targets[targets >= 0]
        drawn = torch.from_numpy(rng.choice(len(self._chances), DRAWN, p=self._chances))
        expected = torch.from_numpy(np.log(DRAWN * self._chances)).float()
        others = self._network.logits(states, drawn) - expected[drawn]
        # a target is no rival of its own
        others = others.masked_fill(drawn == targets[:, None], -torch.inf)
        target_logits = self._network.own_logits(states, targets) - expected[targets]
        return (
            torch.logsumexp(torch.cat([target_logits[:, None], others], 1), 1) - target_logits
        ).mean()

    def _loss(self, sessions: list[Session]) -> float:
        """Return the mean cross-entropy over all items."""
        import torch
        from torch.nn.functional import cross_entropy

        self._network.eval()
        inputs, targets = _pad(sessions)
        with torch.inference_mode():
            logits = self._network.logits(self._network.states(inputs)[targets >= 0])
            return float(cross_entropy(logits, targets[targets >= 0]))


def _pad(sessions: Sequence[Session]) -> tuple[Any, Any]:
    """Return the last items of each session but the very last, and what follows each.

    Both are -1 where there is nothing.

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
            return self.drop(self.recurrent(self.drop(self.items(inputs)))[0])

        def logits(self, states: Any, items: Any = slice(None)) -> Any:
            """Return one logit for every state and item."""
            return states @ self.items.weight[items].T + self.offsets.weight[items, 0]

        def own_logits(self, states: Any, items: Any) -> Any:
            """Return the logit of one item a state."""
            return (states * self.items(items)).sum(1) + self.offsets(items)[:, 0]

    return Network()
