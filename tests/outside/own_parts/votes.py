"""Votes of three kinds: a weighted sum, a rule for rows of counts, and one with a ranker of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hammemo.memories import Ranker, RowRule, SiteScores
from hammemo.votes import Vote, WeightedSum

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hammemo.kernels import Sites
    from hammemo.memories import Reader
    from hammemo.tokens.contexts import Contexts


class RootMean(WeightedSum):
    """Between the sum and the mean: a label's sum is divided by a power of its number of examples."""

    def __init__(self, power: float = 0.5) -> None:
        self.power = power

    def divisor(self, reader: Reader, sites: Sites) -> NDArray[np.float64]:
        """Return the total weight times a power of each label's examples."""
        return np.asarray(sites.total_weight * np.maximum(reader.label_counts, 1) ** self.power, np.float64)


class SmoothedRatios(Vote):
    """Naive Bayes: the log-ratios of all sites, added up with equal weights. Its scores are log-probabilities."""

    has_probabilities = True

    def __init__(self, amount: float = 1.0) -> None:
        self.amount = amount

    def ranker(self, reader: Reader, sites: Sites) -> Ranker:
        """Return what ranks by the rule; a reader without rows of counts refuses."""
        prior = (reader.label_counts + 0.5) / (reader.label_counts + 0.5).sum()
        weights = np.ones((len(sites.positions), 1, len(prior)))
        return reader.with_rule(RowRule((float(self.amount),), weights, prior, np.log(prior)))


class Points(Vote):
    """Every site gives its weight to the label that it has seen most often; equals share it."""

    def ranker(self, reader: Reader, sites: Sites) -> Ranker:
        """Return a ranker of our own."""
        if not reader.has_rows:
            raise TypeError(f"Points() reads rows of counts, which {type(reader).__name__} does not keep.")
        return PointsRanker(reader, sites)


class PointsRanker(Ranker):
    """Scores from the largest entries of the rows."""

    def __init__(self, reader: Reader, sites: Sites) -> None:
        super().__init__(len(reader.labels), len(reader.labels) * len(sites.positions))
        self._reader = reader
        self._weights = sites.weights

    def _points(self, contexts: Contexts) -> NDArray[np.float64]:
        counts = self._reader.site_counts(contexts)
        largest = (counts > 0) & (counts == counts.max(axis=2, keepdims=True))
        return np.asarray(self._weights[:, None] * largest / np.maximum(largest.sum(axis=2, keepdims=True), 1))

    def scores(self, contexts: Contexts) -> NDArray[np.float64]:
        """Return the points of each label: (m, L)."""
        return np.asarray(self._points(contexts).sum(axis=1))

    def site_scores(self, contexts: Contexts, columns: NDArray[np.int64]) -> SiteScores:
        """Return the points that each site gives: (m, S, K)."""
        return SiteScores(self._points(contexts)[:, :, columns])
