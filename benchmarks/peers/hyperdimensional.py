"""torchhd: random ±1 vectors of tokens, bound to vectors of their positions and summed; prototypes of the labels.

The binding is `torchhd.hash_table`: the sum over positions of key times value. `Centroid.add` sums what a label's
examples encode to; `add_adapt` (AdaptHD) and `add_online` (OnlineHD) correct prototypes by examples that are answered
wrongly, in several passes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .peer import Choice, Data, Peer

if TYPE_CHECKING:
    from numpy.typing import NDArray

_BATCH = 500


class _HyperDimensional(Peer):
    """Prototypes in so many dimensions."""

    sees = "positions, bound"
    package = ("torchhd", "torch-hd")
    online = True

    def fit(self, data: Data, choice: Choice) -> None:
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
        X, y = torch.from_numpy(data.train.X), torch.from_numpy(data.train.y)
        for _ in range(int(choice.get("passes", 1))):
            for first in range(0, len(y), _BATCH):
                self.learn(self._encoded(X[first : first + _BATCH]), y[first : first + _BATCH], choice)

    def learn(self, encoded: Any, labels: Any, choice: Choice) -> None:
        """Change the prototypes by a batch."""
        raise NotImplementedError

    def _encoded(self, X: Any) -> Any:
        import torchhd

        return torchhd.hash_table(self._positions.weight, self._tokens(X))

    def scores(self, X: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the similarity to each prototype."""
        import torch

        parts = [
            self._model(self._encoded(torch.from_numpy(X[first : first + _BATCH])), dot=self._dot)
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


class HdCentroid(_HyperDimensional):
    """Sums of what a label's examples encode to; sums of whole numbers, so that adding the negative takes back."""

    name = "torchhd Centroid"
    choices = tuple({"dimensions": 4_000, "dot": dot} for dot in (False, True))
    forgets = True

    def learn(self, encoded: Any, labels: Any, choice: Choice) -> None:  # noqa: ARG002
        """Add the batch to its labels' prototypes."""
        self._model.add(encoded, labels)


class HdAdapt(_HyperDimensional):
    """AdaptHD: wrong answers move two prototypes."""

    name = "torchhd AdaptHD"
    choices = ({"dimensions": 4_000, "passes": 3, "lr": 1.0},)

    def learn(self, encoded: Any, labels: Any, choice: Choice) -> None:
        """Correct the prototypes by wrong answers."""
        self._model.add_adapt(encoded, labels, lr=choice["lr"])


class HdOnline(_HyperDimensional):
    """OnlineHD: wrong answers move two prototypes, the more the less similar they were."""

    name = "torchhd OnlineHD"
    choices = ({"dimensions": 4_000, "passes": 3, "lr": 1.0},)

    def learn(self, encoded: Any, labels: Any, choice: Choice) -> None:
        """Correct the prototypes by wrong answers, by how wrong they are."""
        self._model.add_online(encoded, labels, lr=choice["lr"])
