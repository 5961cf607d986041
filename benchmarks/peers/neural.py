"""Small models in torch, trained in passes until the validation loss rises.

They are a neural n-gram, and softmax on the sites.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from hammemo.kernels import SiteOneHot
from votes import kernel

from .peer import Choice, Peer, PeerData, Peers

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

_PASSES = 12


def train_network(
    network: Any, data: tuple[Any, Any], valid: tuple[Any, Any], optimisers: list[Any], batch: int
) -> Any:
    """Return the network as it was after the pass with the lowest validation loss.

    Stop at the second worse pass.
    """
    import torch
    from torch.nn.functional import cross_entropy

    generator = torch.Generator().manual_seed(0)
    inputs, labels = data
    best = np.inf
    kept = None
    worse = 0
    for _ in range(_PASSES):
        network.train()
        order: Any = torch.randperm(len(labels), generator=generator)
        for rows in order.split(batch):
            for optimiser in optimisers:
                optimiser.zero_grad()
            loss: Any = cross_entropy(network(inputs[rows]), labels[rows])
            loss.backward()
            for optimiser in optimisers:
                optimiser.step()
        network.eval()
        with torch.no_grad():
            checked = float(cross_entropy(network(valid[0]), valid[1]))
        if checked < best:
            best = checked
            kept = copy.deepcopy(network.state_dict())
            worse = 0
        else:
            worse += 1
        if worse == 2:
            break
    network.load_state_dict(kept)
    return network.eval()


@dataclass(eq=False)
class _Torch(Peer):
    """A network from rows of integers to one logit a label.

    It learns online by one more step of the gradient.
    """

    package: tuple[str, str] = ("torch", "torch")
    probabilistic: bool = True
    _inputs: Callable[[NDArray[np.int64]], NDArray[np.int64]] = field(init=False)
    _network: Any = field(init=False)

    def _train(self, data: PeerData, network: Any, optimisers: list[Any], batch: int) -> None:
        import torch

        train, valid = (
            (torch.from_numpy(self._inputs(part.X)), torch.from_numpy(part.y))
            for part in (data.train, data.valid)
        )
        self._network = train_network(network, train, valid, optimisers, batch=batch)

    def scores(self, X: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the logits."""
        import torch

        with torch.inference_mode():
            return np.asarray(self._network(torch.from_numpy(self._inputs(X))).numpy(), np.float64)

    def answers(self, X: NDArray[np.int64]) -> NDArray[Any]:
        """Return the labels with the highest logits."""
        import torch

        with torch.inference_mode():
            logits: NDArray[Any] = (
                self._network(torch.from_numpy(self._inputs(X))).argmax(dim=1).numpy()
            )
            return logits

    def state_bytes(self) -> int:
        """Return the size of the parameters."""
        return int(
            sum(part.numel() * part.element_size() for part in self._network.state_dict().values())
        )


class NeuralNgram(_Torch):
    """Embeddings of the eight tokens side by side, one hidden layer, softmax."""

    def fit(self, data: PeerData, choice: Choice) -> None:
        """Train until the validation loss rises."""
        import torch
        from torch import nn

        torch.manual_seed(0)
        h = data.train.X.shape[1]
        width = choice["width"]
        network = nn.Sequential(
            nn.Embedding(data.n_tokens, width, sparse=True),
            nn.Flatten(),
            nn.Dropout(choice["dropout"]),
            nn.Linear(h * width, choice["hidden"]),
            nn.ReLU(),
            nn.Dropout(choice["dropout"]),
            nn.Linear(choice["hidden"], data.n_labels),
        )
        self._inputs = lambda X: X
        embedding, *rest = network.parameters()
        self._train(
            data,
            network,
            [torch.optim.SparseAdam([embedding], 1e-3), torch.optim.Adam(rest, 1e-3)],
            256,
        )


class SoftmaxSites(_Torch):
    """Softmax regression on the sites: one row of logits for each value of a site, summed."""

    def fit(self, data: PeerData, choice: Choice) -> None:
        """Train until the validation loss rises."""
        import torch

        torch.manual_seed(0)
        encoder = SiteOneHot(kernel(), normalize=False).fit(data.train.X)
        n_columns = sum(map(len, encoder.tuples_))

        def inputs(X: NDArray[np.int64]) -> NDArray[np.int64]:
            features = encoder.transform(X)
            widths = np.diff(features.indptr)
            # the last row stays zero: a value never seen
            rows = np.full((len(X), len(encoder.tuples_)), n_columns)
            rows[np.arange(rows.shape[1]) < widths[:, None]] = features.indices
            return rows

        self._inputs = inputs
        network = _site_sum(n_columns, data.n_labels)
        self._train(data, network, network.optimisers(choice["optimiser"], choice["rate"]), 512)


def _site_sum(n_columns: int, n_labels: int) -> Any:
    import torch
    from torch import nn

    class SiteSum(nn.Module):
        """The sum of the rows of a context's sites, and an offset."""

        def __init__(self) -> None:
            super().__init__()
            self.rows = nn.EmbeddingBag(
                n_columns + 1, n_labels, mode="sum", sparse=True, padding_idx=n_columns
            )
            nn.init.zeros_(self.rows.weight)
            self.offset = nn.Parameter(torch.zeros(n_labels))

        def forward(self, inputs: Any) -> Any:
            return self.rows(inputs) + self.offset

        def optimisers(self, name: str, rate: float) -> list[Any]:
            """Return what changes the rows that a batch touches, and the offset."""
            return [
                getattr(torch.optim, name)([self.rows.weight], rate),
                torch.optim.Adam([self.offset], 1e-2),
            ]

    return SiteSum()


PEERS: Peers = {
    "softmax-sites": partial(
        SoftmaxSites,
        "softmax regression (torch)",
        "16 sites",
        ({"optimiser": "SparseAdam", "rate": 3e-3}, {"optimiser": "SGD", "rate": 30.0}),
    ),
    "neural": partial(
        NeuralNgram,
        "neural n-gram (torch)",
        "positions",
        (
            {"width": 32, "hidden": 128, "dropout": 0.2},
            {"width": 64, "hidden": 256, "dropout": 0.4},
        ),
    ),
}
