"""river: models that learn one example at a time, on dictionaries of what each position holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .peer import Choice, Data, Peer

if TYPE_CHECKING:
    from numpy.typing import NDArray

_FLOOR = 1e-12
"""Probabilities are at least this, so that their logarithms are finite."""


class _River(Peer):
    """A river classifier."""

    sees = "positions"
    package = ("river", "river")
    probabilistic = True
    online = True

    def make(self, choice: Choice) -> Any:
        """Return the model, not fitted."""
        raise NotImplementedError

    def features(self, row: list[int]) -> dict[Any, Any]:
        """Return one context as a dictionary: a one for each position and token."""
        return dict.fromkeys(enumerate(row), 1)

    def fit(self, data: Data, choice: Choice) -> None:
        """Learn the examples one by one, in one pass."""
        self._model = self.make(choice)
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


class RiverBayes(_River):
    """Multinomial naive Bayes."""

    name = "river MultinomialNB"
    choices = tuple({"alpha": alpha} for alpha in (0.01, 0.1, 1.0))

    def make(self, choice: Choice) -> Any:
        """Return the model, not fitted."""
        from river import naive_bayes

        return naive_bayes.MultinomialNB(**choice)


class RiverSoftmax(_River):
    """Softmax regression by stochastic gradients."""

    name = "river SoftmaxRegression"
    choices = tuple({"rate": rate} for rate in (0.1, 0.5))
    most = 30_000

    def make(self, choice: Choice) -> Any:
        """Return the model, not fitted."""
        from river import linear_model, optim

        return linear_model.SoftmaxRegression(optim.SGD(choice["rate"]))


class RiverTree(_River):
    """A Hoeffding tree with naive Bayes in its leaves, positions as nominal attributes."""

    name = "river HoeffdingTreeClassifier"

    def make(self, choice: Choice) -> Any:  # noqa: ARG002
        """Return the model, not fitted."""
        from river import tree

        return tree.HoeffdingTreeClassifier(nominal_attributes=list(range(8)))

    def features(self, row: list[int]) -> dict[Any, Any]:
        """Return one context as a dictionary: the token of each position."""
        return dict(enumerate(row))
