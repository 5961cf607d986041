"""The rows of hammemo itself. Nothing of them was tuned on this draw."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from hammemo import Exact, Hashed, LogLinear, MemoryClassifier
from hammemo.experiments.votes import BUCKETS, RESERVED, kernel, small_kernel

from .peer import Choice, Data, Peer

if TYPE_CHECKING:
    from numpy.typing import NDArray


class _Ours(Peer):
    """A classifier, asked through its compiled predictor."""

    package = ("hammemo", "hammemo")
    online = True
    forgets = True

    def model(self) -> MemoryClassifier:
        """Return the classifier, not fitted."""
        raise NotImplementedError

    def fit(self, data: Data, choice: Choice) -> None:  # noqa: ARG002  (there is nothing to choose)
        """Learn in one pass, fit weights if the vote has any, compile."""
        self._fitted = self.model().fit(data.train.X, data.train.y)
        self._predictor = self._fitted.compile()

    def scores(self, X: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the vote's scores."""
        return np.asarray(self._predictor.class_scores(X), np.float64)

    def answers(self, X: NDArray[np.int64]) -> NDArray[Any]:
        """Return the predicted labels."""
        return self._predictor.predict(X)

    def state_bytes(self) -> int:
        """Return the size of the counts, from which all else is made, and of the vote's weights."""
        return int(self._fitted.memory_.nbytes + sum(part.nbytes for part in self._fitted.vote_.state().values()))


class LogLinearExact(_Ours):
    """The log-linear vote over sparse counts."""

    name = "hammemo: log-linear vote, exact"
    sees = "16 sites"
    probabilistic = True

    def model(self) -> MemoryClassifier:
        """Return the classifier, not fitted."""
        return MemoryClassifier(kernel(), Exact(), LogLinear())


class LogLinearHashed(_Ours):
    """The log-linear vote over hashed counts."""

    name = "hammemo: log-linear vote, hashed"
    sees = "12 of the sites"
    probabilistic = True

    def model(self) -> MemoryClassifier:
        """Return the classifier, not fitted."""
        return MemoryClassifier(small_kernel(), Hashed(list(BUCKETS), list(RESERVED)), LogLinear())


class Default(_Ours):
    """The paper's kernel and vote over hashed counts."""

    name = "hammemo: sum vote, hashed (the default)"
    sees = "positions"

    def model(self) -> MemoryClassifier:
        """Return the classifier, not fitted."""
        return MemoryClassifier(memory="hashed", vote="sum")
