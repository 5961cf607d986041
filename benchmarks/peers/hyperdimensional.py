"""Random ±1 vectors of tokens with torchhd, bound to vectors of their positions and summed.

Each label has a prototype.

The binding is `torchhd.hash_table`: the sum over positions of key times value. `Centroid.add` sums
what a label's examples encode to; `add_adapt` (AdaptHD) and `add_online` (OnlineHD) correct
prototypes by examples that are answered wrongly, in several passes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from .peer import Choice, Peer, PeerData, Peers

if TYPE_CHECKING:
    from numpy.typing import NDArray

_BATCH = 500


@dataclass(eq=False)
class HyperDimensional(Peer):
    """Prototypes in so many dimensions.

    `method` is that of `Centroid` which changes them by a batch.
    """

    package: tuple[str, str] = ("torchhd", "torch-hd")
    method: str = "add"

    def fit(self, data: PeerData, choice: Choice) -> None:
        """Draw vectors, then add the examples in passes."""
        import torch
        import torchhd
        from torchhd.models import Centroid

        torch.manual_seed(0)
        dimensions = int(choice["dimensions"])
        self._dot = bool(choice.get("dot", False))
        self._tokens = torchhd.embeddings.Random(data.n_tokens, dimensions)
        self._positions = torchhd.embeddings.Random(data.train.X.shape[1], dimensions)
        self._model = Centroid(dimensions, data.n_labels)
        learn = getattr(self._model, self.method)
        rate = {"lr": choice["lr"]} if "lr" in choice else {}
        X = torch.from_numpy(data.train.X)
        y = torch.from_numpy(data.train.y)
        for _ in range(int(choice.get("passes", 1))):
            for first in range(0, len(y), _BATCH):
                learn(self._encode(X[first : first + _BATCH]), y[first : first + _BATCH], **rate)

    def _encode(self, X: Any) -> Any:
        import torchhd

        return torchhd.hash_table(self._positions.weight, self._tokens(X))

    def scores(self, X: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the similarity to each prototype."""
        import torch

        parts = [
            self._model(self._encode(torch.from_numpy(X[first : first + _BATCH])), dot=self._dot)
            for first in range(0, len(X), _BATCH)
        ]
        return np.asarray(torch.cat(parts).numpy(), np.float64)

    def answers(self, X: NDArray[np.int64]) -> NDArray[Any]:
        """Return the nearest prototypes."""
        return np.asarray(self.scores(X).argmax(axis=1))

    def state_bytes(self) -> int:
        """Return the size of the vectors of tokens, positions and labels."""
        parts = (self._tokens.weight, self._positions.weight, self._model.weight)
        return int(sum(part.numel() * part.element_size() for part in parts))


_passes = ({"dimensions": 4_000, "passes": 3, "lr": 1.0},)
_sees = "positions, bound"
PEERS: Peers = {
    "hd-centroid": partial(
        HyperDimensional,
        "torchhd Centroid",
        _sees,
        tuple({"dimensions": 4_000, "dot": dot} for dot in (False, True)),
        forgets=True,
    ),  # sums of whole numbers, so that adding the negative takes back
    "hd-adapt": lambda: HyperDimensional("torchhd AdaptHD", _sees, _passes, method="add_adapt"),
    "hd-online": lambda: HyperDimensional("torchhd OnlineHD", _sees, _passes, method="add_online"),
}
