"""The best labels by a rule that depends on how many examples a label has, from a live table, without all scores.

The compiled code (`src/native/live/ratio_leaders.hpp`) reads rows by bands of labels that have nearly as many examples
each, and says of each answer whether it is sure: whether it is that of NumPy's arithmetic also where scores are nearly
equal. The few that are not sure are asked of the scores of all labels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hammemo._arrays.native import native
from hammemo._versions import cached_property
from hammemo.memories.ranker import Ranker

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from hammemo._native import LiveRule
    from hammemo.memories.contributions import SiteScores
    from hammemo.memories.exact.live_reader import LiveCounts
    from hammemo.tokens.contexts import Contexts

MOST_SITES: Final = 512
"""A rule has a table of about 50 KB for each site; for more sites all scores are made."""
_LARGEST_WEIGHT: Final = 1e9


class RatioRanker(Ranker):
    """Ranks by the log-linear rule with weights that all labels share.

    Parameters
    ----------
    reader : LiveCounts
    smoothing : tuple of J floats
    weights : ndarray of shape (S, J)
        Such as `has_rule` allows.
    plain : callable
        Makes what gives the scores of all labels.
    """

    def __init__(
        self,
        reader: LiveCounts,
        smoothing: tuple[float, ...],
        weights: NDArray[np.float64],
        plain: Callable[[], Ranker],
    ) -> None:
        super().__init__(len(reader.labels), len(reader.labels))
        self._reader = reader
        self._smoothing = smoothing
        self._weights = weights
        self._make_plain = plain

    @cached_property
    def rule(self) -> LiveRule:
        """The compiled rule, which the versions of a table share."""
        live = self._reader.live
        return live.store.rule_for(self._smoothing, self._weights, live.version.examples + self.n_labels / 2)

    @cached_property
    def _plain(self) -> Ranker:
        return self._make_plain()

    def scores(self, contexts: Contexts) -> NDArray[Any]:
        """Return the rule's score of each context and label."""
        return self._plain.scores(contexts)

    def site_scores(self, contexts: Contexts, columns: NDArray[np.int64]) -> SiteScores:
        """Return what each site adds to the scores of the labels in these columns."""
        return self._plain.site_scores(contexts, columns)

    def winners(self, contexts: Contexts) -> NDArray[np.int64]:
        """Return the column of the highest score of each context, the first one among equals."""
        if self._reader.answers_plainly(len(contexts)):
            return self._plain.winners(contexts)
        columns, sure = self._reader.leading_by_ratio(contexts, self.rule, 1)
        unsure = np.flatnonzero(~sure)
        if len(unsure):
            columns[unsure, 0] = self._plain.winners(contexts[unsure])
        return columns[:, 0]

    def leaders(self, contexts: Contexts, k: int) -> NDArray[np.int64]:
        """Return the columns of the k highest scores of each context, best first, equals in column order."""
        k = min(k, self.n_labels)
        if not k or 8 * k > self.n_labels or self._reader.answers_plainly(len(contexts)):  # nearly all: as fast
            return self._plain.leaders(contexts, k)
        columns, sure = self._reader.leading_by_ratio(contexts, self.rule, k)
        unsure = np.flatnonzero(~sure)
        if len(unsure):
            columns[unsure] = self._plain.leaders(contexts[unsure], k)
        return columns

    def single(self) -> Callable[[Sequence[Any]], int] | None:
        """Return a fast way to answer one context."""
        return self._reader.single_by_ratio(self.rule)


def has_rule(weights: NDArray[np.float64]) -> bool:
    """Return whether there is a compiled rule with these weights, (S, J)."""
    return len(weights) <= MOST_SITES and bool((np.abs(weights) < _LARGEST_WEIGHT).all())


def log_linear_rule(smoothing: tuple[float, ...], weights: NDArray[np.float64], octaves: int) -> LiveRule:
    """Return the compiled rule for up to 2^octaves examples.

    Shapes
    ------
    weights : (S, J)
    """
    compiled = native()
    assert compiled is not None
    return compiled.LiveRule.log_linear(np.array(smoothing), np.ascontiguousarray(weights, np.float64), octaves)


def mean_rule(
    weights: NDArray[np.float64], divisor: NDArray[np.float64], label_counts: NDArray[np.int64]
) -> LiveRule | None:
    """Return the compiled rule of weighted sums over this divisor, if it is one number times each label's examples.

    Shapes
    ------
    weights : (S,); divisor : (L,); label_counts : (L,)
    """
    compiled = native()
    if compiled is None or not len(divisor) or not (weights < _LARGEST_WEIGHT).all() or not (weights >= 0).all():
        return None
    total = float(divisor[0]) / max(int(label_counts[0]), 1)
    if not 0 < total < np.inf or not np.array_equal(divisor, total * np.maximum(label_counts, 1)):
        return None
    return compiled.LiveRule.mean(np.ascontiguousarray(weights, np.float64), total)
