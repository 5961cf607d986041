r"""A discount of popular labels, for ranking: probabilities are divided by a power of the labels' numbers of examples.

.. math:: r(c) = P(c) / (n_c + 1/2)^e

Popular items are likely, and shown anyway: among the first ten of a list a rare item that fits is worth more often than
its probability says. The exponent e is a multiple of 1/64, so that the power is a product of square roots, which every
machine rounds alike.

It is chosen by how high the labels of kept examples are ranked, **each without its whole document or case**: by the
mean of :math:`1 / \log_2(1 + rank)`. Where no exponent is better than none by more than two standard errors, there is
none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from hammemo._arrays.integers import row_pieces
from hammemo.memories.ranker import Ranker

if TYPE_CHECKING:
    from collections.abc import Callable

    from hammemo._arrays.types import Floats, Ints
    from hammemo.memories.ranker import SiteScores
    from hammemo.tokens.contexts import Contexts

STEPS: Final = 64
"""Exponents are multiples of 1 / STEPS, below one."""

TRIED: Final = (0, 4, 8, 12, 16)
"""The exponents among which one is chosen, in such steps: up to a quarter."""

LEAST: Final = 1000
"""With fewer examples nothing is chosen."""

MOST_SCORES: Final = 2**25
"""The most scores that are made for the choice: there are fewer examples where labels are many."""

_NUMBERS_A_SCORE: Final = 128
"""About how many entries are read for a score: the pieces of the choice stay in the processor's cache."""


def popularity(examples: Ints, power: int) -> Floats:
    """Return what probabilities of labels with these numbers of examples are divided by, for an exponent in steps.

    Examples
    --------
    >>> import numpy as np
    >>> from hammemo.votes.mixture.popularity import popularity
    >>> popularity(np.array([1, 100, 10_000]), 8).round(3)
    array([1.052, 1.779, 3.162])
    """
    root, product = examples + 0.5, np.ones(len(examples))
    for bit in (32, 16, 8, 4, 2, 1):
        root = np.sqrt(root)
        if power & bit:
            product = product * root
    return np.asarray(product)


class DiscountedRanker(Ranker):
    """Ranks labels by the scores of another ranker, divided by their popularity."""

    def __init__(self, inner: Ranker, divisors: Floats) -> None:
        super().__init__(inner.n_labels, inner.row_width)
        self._inner = inner
        self._divisors = divisors

    def scores(self, contexts: Contexts) -> Floats:
        """Return the discounted score of each label."""
        return np.asarray(self._inner.scores(contexts) / self._divisors)

    def site_scores(self, contexts: Contexts, columns: Ints) -> SiteScores:
        """Return what each site adds to the scores that are not discounted."""
        return self._inner.site_scores(contexts, columns)


def chosen_power(
    scores: Callable[[slice, Ints], Floats], counts: Ints, labels: Ints, cases: Ints
) -> int:
    """Return the exponent, in steps, that ranks the labels of examples highest; 0 where none is surely better.

    Parameters
    ----------
    scores : callable
        From some of the examples, and the examples of each label without those of their cases, to the scores of all
        labels without what their cases have added.
    counts : ndarray of shape (L,)
        The examples of each label.
    labels, cases : ndarray of shape (m,)
        The label of each example, and its case; all examples of a case are there.
    """
    own = _OwnLabels(labels, cases)
    gains = np.zeros((len(labels), len(TRIED)))
    for part in row_pieces(len(labels), _NUMBERS_A_SCORE * len(counts)):
        left = own.left_of(counts, part)
        found = np.where(left > 0, scores(part, left), 0.0)  # what has no example is never answered
        less = np.nonzero(left != counts)
        for number, power in enumerate(TRIED):
            ranked = found / popularity(counts, power)
            ranked[less] = found[less] / popularity(left[less], power)
            gains[part, number] = _gains(ranked, labels[part])
    return TRIED[_surely_best(gains, cases)]


def _gains(scores: Floats, labels: Ints) -> Floats:
    """Return 1 / log2(1 + rank) of each label, ties half; 0 where its score is none."""
    own = scores[np.arange(len(labels)), labels][:, None]
    ranks = 1 + (scores > own).sum(axis=1) + ((scores == own).sum(axis=1) - 1) / 2
    return np.where(own[:, 0] > 0, 1 / np.log2(1 + ranks), 0.0)


def whole_cases(cases: Ints, most: int) -> Ints:
    """Return the places of the first cases, as many as have no more examples than this."""
    _, numbers = np.unique(cases, return_inverse=True)
    sizes = np.cumsum(np.bincount(numbers))
    return np.flatnonzero(numbers < np.searchsorted(sizes, most, side="right"))


def _surely_best(gains: Floats, cases: Ints) -> int:
    """Return the column with the highest mean, if it is above the first by more than two standard errors; else 0.

    A case is one draw: its examples share most of their tokens.
    """
    best = int(gains.mean(axis=0).argmax())
    differences = gains[:, best] - gains[:, 0]
    _, numbers = np.unique(cases, return_inverse=True)
    sums = np.bincount(numbers, differences - differences.mean())
    error = float(np.sqrt((sums**2).sum())) / len(gains)
    return best if differences.mean() > 2 * error else 0


class _OwnLabels:
    """How often each case has each label."""

    def __init__(self, labels: Ints, cases: Ints) -> None:
        _, self._cases = np.unique(cases, return_inverse=True)
        order = np.argsort(self._cases, kind="stable")
        self._labels = labels[order]
        self._starts = np.searchsorted(
            self._cases[order], np.arange(self._cases.max(initial=-1) + 2)
        )

    def left_of(self, counts: Ints, part: slice) -> Ints:
        """Return the examples of each label without those of the case of each example: (m, L)."""
        left = np.tile(counts, (len(self._cases[part]), 1))
        for row, case in zip(left, self._cases[part], strict=True):
            np.subtract.at(row, self._labels[self._starts[case] : self._starts[case + 1]], 1)
        return np.maximum(left, 0)
