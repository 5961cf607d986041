r"""A discount of popular labels, for ranking: probabilities over a power of the labels' examples.

.. math:: r(c) = P(c) / (n_c + 1/2)^e

Popular items are likely, and users see them anyway: among the first ten of a list, a rare item that
fits is more valuable than its probability says. The exponent e is a multiple of 1/64, so that the
power is a product of square roots, which every machine rounds alike.

The exponent is chosen by the ranks of the labels of kept examples, **each without its whole
document or case**: by the mean of :math:`1 / \log_2(1 + rank)`. It is 0 unless another one is
better by more than two standard errors.
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
"""About how many entries are read for a score: pieces stay in the processor's cache."""

_STANDARD_ERRORS: Final = 2
"""By how many standard errors an exponent must be better than none."""


def popularity(label_counts: Ints, power: int) -> Floats:
    """Return what probabilities are divided by: a power of the numbers of examples of labels.

    The exponent `power` is in steps. Its bits say which of the roots 1/2, 1/4, …, 1/64 to multiply.

    Examples
    --------
    >>> import numpy as np
    >>> from hammemo.votes.mixture.popularity import popularity
    >>> popularity(np.array([1, 100, 10_000]), 8).round(3)
    array([1.052, 1.779, 3.162])
    """
    root = label_counts + 0.5
    product = np.ones(len(label_counts))
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


def choose_power(
    compute_scores: Callable[[slice, Ints], Floats], counts: Ints, labels: Ints, cases: Ints
) -> int:
    """Return the exponent, in steps, that ranks the labels of examples highest; 0 if none surely.

    Parameters
    ----------
    compute_scores : callable
        From a slice of the examples, and the examples of each label without those of their cases,
        (m, L), to the scores of all labels without what their cases have added, (m, L).
    counts : ndarray of shape (L,)
        The examples of each label.
    labels, cases : ndarray of shape (m,)
        The label of each example, and its case; all examples of a case are present.
    """
    case_labels = _CaseLabels(labels, cases)
    gains = np.zeros((len(labels), len(TRIED)))
    for piece in row_pieces(len(labels), _NUMBERS_A_SCORE * len(counts)):
        other_counts = case_labels.count_others(counts, piece)
        scores = compute_scores(piece, other_counts)
        scores = np.where(other_counts > 0, scores, 0.0)  # labels without examples are no answers
        changed = np.nonzero(other_counts != counts)  # few: most labels keep their popularity
        for number, power in enumerate(TRIED):
            discounted = scores / popularity(counts, power)
            divisors = popularity(other_counts[changed], power)
            discounted[changed] = scores[changed] / divisors
            gains[piece, number] = _compute_gains(discounted, labels[piece])
    return TRIED[_find_surely_best(gains, cases)]


def _compute_gains(scores: Floats, labels: Ints) -> Floats:
    """Return 1 / log2(1 + rank) of each label, ties half; 0 where its score is none."""
    label_scores = scores[np.arange(len(labels)), labels][:, None]
    n_higher = (scores > label_scores).sum(axis=1)
    n_ties = (scores == label_scores).sum(axis=1) - 1
    ranks = 1 + n_higher + n_ties / 2
    return np.where(label_scores[:, 0] > 0, 1 / np.log2(1 + ranks), 0.0)


def take_whole_cases(cases: Ints, max_examples: int) -> Ints:
    """Return the places of the first cases, as many as have at most `max_examples` together."""
    _, numbers = np.unique(cases, return_inverse=True)
    sizes = np.cumsum(np.bincount(numbers))
    return np.flatnonzero(numbers < np.searchsorted(sizes, max_examples, side="right"))


def _find_surely_best(gains: Floats, cases: Ints) -> int:
    """Return the column with the highest mean, if it is surely above the first; otherwise 0.

    The standard error takes a case as one draw: its examples share most of their tokens.
    """
    best = int(gains.mean(axis=0).argmax())
    differences = gains[:, best] - gains[:, 0]
    _, numbers = np.unique(cases, return_inverse=True)
    sums = np.bincount(numbers, differences - differences.mean())
    error = float(np.sqrt((sums**2).sum())) / len(gains)
    is_sure = differences.mean() > _STANDARD_ERRORS * error
    return best if is_sure else 0


class _CaseLabels:
    """How often each case has each label."""

    def __init__(self, labels: Ints, cases: Ints) -> None:
        _, self._cases = np.unique(cases, return_inverse=True)
        order = np.argsort(self._cases, kind="stable")
        n_cases = self._cases.max(initial=-1) + 1
        self._labels = labels[order]
        self._starts = np.searchsorted(self._cases[order], np.arange(n_cases + 1))

    def count_others(self, counts: Ints, piece: slice) -> Ints:
        """Return the examples of each label without those of the case of each example: (m, L)."""
        cases = self._cases[piece]
        others = np.tile(counts, (len(cases), 1))
        for row, case in zip(others, cases, strict=True):
            case_labels = self._labels[self._starts[case] : self._starts[case + 1]]
            np.subtract.at(row, case_labels, 1)
        return np.maximum(others, 0)
