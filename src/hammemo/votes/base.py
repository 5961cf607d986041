"""What every vote is: a way from the counts that a query reads to one score a label."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator

from hammemo.memories.base import Ranker

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from hammemo._arrays.checked import StoredArrays
    from hammemo.kernels.sites import Sites
    from hammemo.memories.base import Reader
    from hammemo.memories.contributions import SiteScores
    from hammemo.memories.row_rules import RuledRanker
    from hammemo.tokens.contexts import Contexts, Examples


class Vote(BaseEstimator, ABC):
    """How the sites' counts become one score a label."""

    certifiable: ClassVar[bool] = True
    """Whether scores are weighted sums of counts over a divisor: what certificates speak of."""

    @abstractmethod
    def divisor(self, reader: Reader, sites: Sites) -> NDArray[np.float64]:
        """Return what the weighted sums of each label are divided by, shape (number of labels,)."""

    def scores(self, reader: Reader, contexts: Contexts, sites: Sites) -> NDArray[np.float64]:
        """Return one score for each context and label.

        Shapes
        ------
        contexts : m of them; returned : (m, number of labels)
        """
        return reader.scores(contexts, sites.weights) / self.divisor(reader, sites)

    def site_scores(self, reader: Reader, contexts: Contexts, sites: Sites, columns: NDArray[np.int64]) -> SiteScores:
        """Return what each site adds to the scores of the labels in these columns: the terms of `scores`.

        Shapes
        ------
        contexts : m of them; columns : (K,); returned values : (m, S, K)
        """
        return reader.site_scores(contexts, sites.weights, columns).divided(self.divisor(reader, sites)[columns])

    def ranker(self, reader: Reader, sites: Sites) -> RuledRanker | None:
        """Return what finds the best labels without all scores, if the reader has a way to do it."""
        return _Divided(reader, sites, self.divisor(reader, sites)) if isinstance(reader, Ranker) else None

    def fit_to(self, memory: Reader, examples: Examples, sites: Sites, *, leave_one_out: bool = True) -> None:
        """Fit what the vote has to fit, to examples that the memory holds or, without leaving one out, to others."""

    def wanted(self) -> int:
        """Return the most examples that a first `fit_to` makes use of; 0 for a vote that has nothing to fit."""
        return 0

    def state(self) -> dict[str, NDArray[Any]]:
        """Return what was fitted, as named arrays; empty for a vote that fits nothing."""
        return {}

    def restore(self, stored: StoredArrays, sites: Sites) -> None:
        """Take what was fitted from a file, checked: undo `state`."""


class _Divided:
    """A reader that ranks by itself, with the weights and the divisor of one vote."""

    def __init__(self, reader: Any, sites: Sites, divisor: NDArray[np.float64]) -> None:
        self._reader = reader
        self._weights = sites.weights
        self._divisor = divisor

    def winners(self, contexts: Contexts) -> NDArray[np.int64]:
        """Return the column of the highest score of each context, the first one among equals."""
        winners: NDArray[np.int64] = self._reader.winners(contexts, self._weights, self._divisor)
        return winners

    def leaders(self, contexts: Contexts, k: int) -> NDArray[np.int64]:
        """Return the columns of the k highest scores of each context, best first, equals in column order."""
        leaders: NDArray[np.int64] = self._reader.leaders(contexts, self._weights, self._divisor, k)
        return leaders

    def single(self) -> Callable[[Sequence[Any]], int] | None:
        """Return the reader's own way to answer one context, if it has one."""
        find = getattr(self._reader, "single", None)
        return None if find is None else find(self._weights, self._divisor)


def softmax(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the probabilities whose logarithms the scores are, up to a number a row.

    Shapes
    ------
    scores : (m, L); returned : (m, L)
    """
    odds = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(odds / odds.sum(axis=1, keepdims=True))
