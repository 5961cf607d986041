"""river: models that learn one example at a time, on dictionaries of what each position holds."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from .peer import Choice, Peer, PeerData, Peers

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

_FLOOR = 1e-12
"""Probabilities are at least this, so that their logarithms are finite."""


@dataclass(eq=False)
class River(Peer):
    """A river classifier, by default on a one for each position and token.

    `nominal` gives it tokens by position.
    """

    package: tuple[str, str] = ("river", "river")
    probabilistic: bool = True
    make: Callable[..., Any] = dict
    nominal: bool = False

    def features(self, row: list[int]) -> dict[Any, Any]:
        """Return one context as a dictionary."""
        return dict(enumerate(row)) if self.nominal else dict.fromkeys(enumerate(row), 1)

    def fit(self, data: PeerData, choice: Choice) -> None:
        """Learn the examples one by one, in one pass."""
        self._model = self.make(**choice)
        self._n_labels = data.n_labels
        train = data.train.first(self.most)
        for row, label in zip(train.X.tolist(), train.y.tolist(), strict=True):
            self._model.learn_one(self.features(row), label)

    def scores(self, X: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return logarithms of probabilities."""
        probabilities = np.zeros((len(X), self._n_labels))
        for i, row in enumerate(X.tolist()):
            for label, probability in self._model.predict_proba_one(self.features(row)).items():
                probabilities[i, label] = probability
        return np.log(np.maximum(probabilities, _FLOOR))

    def answers(self, X: NDArray[np.int64]) -> NDArray[Any]:
        """Return the predicted labels."""
        return np.array([self._model.predict_one(self.features(row)) for row in X.tolist()])

    def state_bytes(self) -> int:
        """Return the size of the model's objects, as river counts it."""
        return int(self._model._raw_memory_usage)


def _bayes(alpha: float) -> Any:
    from river import naive_bayes

    return naive_bayes.MultinomialNB(alpha)


def _softmax(rate: float) -> Any:
    from river import linear_model, optim

    return linear_model.SoftmaxRegression(optim.SGD(rate))


def _tree() -> Any:
    """Return a Hoeffding tree with naive Bayes in its leaves."""
    from river import tree

    return tree.HoeffdingTreeClassifier(nominal_attributes=list(range(8)))


PEERS: Peers = {
    "river-bayes": partial(
        River,
        "river MultinomialNB",
        "positions",
        tuple({"alpha": alpha} for alpha in (0.01, 0.1, 1.0)),
        make=_bayes,
    ),
    "river-softmax": partial(
        River,
        "river SoftmaxRegression",
        "positions",
        ({"rate": 0.1}, {"rate": 0.5}),
        make=_softmax,
        most=30_000,
    ),
    "river-tree": partial(
        River, "river HoeffdingTreeClassifier", "positions", make=_tree, nominal=True
    ),
}
