r"""The count-based and the instance-based classifier that the paper compares memories with.

Both are exact, read the same contexts as a memory and resolve every tie by a rule, so that a run
can be repeated.

*Suffix back-off.* Let :math:`N_l(c)` be how often label c followed the last l tokens of a query.
The model answers from the longest suffix it has seen. Labels that tie there are told apart by the
next shorter suffix, and so on; a label not seen there at all is a tie at zero. Labels are hence
ranked by :math:`(N_L(c), N_{L-1}(c), \dots, N_0(c))` in lexicographic order, then by their order in
`classes_`. A suffix not seen adds only zeros, so L may be the same for all queries.

That order needs no large numbers. With C labels, the labels seen after a suffix of length l get the
scores

.. math:: l \, C + \rho, \qquad \rho \in \{0, \dots, C - 1\},

:math:`\rho` being the rank of :math:`(N_l(c), \text{score of } c \text{ after the suffix of length
} l - 1)` among them, equals sharing one; all other labels keep their score after the suffix of
length l - 1, which is below :math:`l \, C`. By induction over l the scores are in the lexicographic
order, with equal scores only for labels whose counts are equal at every length. They depend on the
suffix alone, so `fit` computes them and a query only reads them. They are integers up to
:math:`(L + 1) C`: nothing is rounded.

With ``ties="frequency"`` only the longest suffix seen counts: labels that tie there, and those not
seen there, are ranked by how often they occur overall, :math:`(N_L(c), N_0(c))`. In the scores
above, the score after the shorter suffix is replaced by that after the empty one.

*Hamming neighbours.* With :math:`m_i` the number of positions at which stored context i and the
query hold the same token, the k nearest are the first k examples in the order of :math:`(-m_i, i)`.
If :math:`V_c` of them have label c and their matches sum to :math:`M_c \le k h`, the score of c is
:math:`V_c + M_c / (k h + 1)`: the fraction is below one, so it only separates labels with equal
votes. The numerators :math:`V_c (k h + 1) + M_c` are integers kept below :math:`2^{51}`; two such
integers that differ still do after the division, as it moves neither by more than one part in
:math:`2^{53}`. With ``ties="frequency"`` the score is :math:`V_c + N_0(c) / (M + 1)` for M stored
examples.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from hammemo._arrays.integers import find_sorted, narrow, unique_ranks
from hammemo.tokens.labels import classes_array, top_columns
from hammemo.tokens.user_input import TOKEN_RULES, CheckedRows, get_fitted_columns, read_question

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike

    from hammemo._arrays.types import Array, Floats, Ints
    from hammemo.tokens.contexts import Examples
    from hammemo.tokens.vocabulary import Vocabulary

_CHUNK_NUMBERS = 2**21
"""Scores that are held at once: 16 MiB of float64."""
_MAX_NUMERATOR = 2**51
"""Two different whole numbers below this one still differ after a division in float64."""


class _Baseline(ClassifierMixin, BaseEstimator):
    """What both share: labels in, a score per label out, in batches that bound memory."""

    classes_: Array
    vocabulary_: Vocabulary

    def class_scores(self, X: Any) -> Floats:
        """Return one score for each context and label, for any number of labels.

        Shapes
        ------
        X : (m, h); returned : (m, len(classes_))
        """
        return self._answers(X, lambda scores: scores)

    def decision_function(self, X: Any) -> Floats:
        """Return `class_scores`; for two labels the lead of the second, as scikit-learn expects."""
        scores = self.class_scores(X)
        return scores[:, 1] - scores[:, 0] if len(self.classes_) == 2 else scores

    def predict(self, X: Any) -> Array:
        """Return the label with the highest score; ties go to the first one in `classes_`."""
        columns = self._answers(X, lambda scores: scores.argmax(axis=1))
        return np.asarray(self.classes_[columns])

    def top_k(self, X: Any, k: int = 5) -> Array:
        """Return the k labels with the highest scores, best first, ties in the order of `classes_`.

        Shapes
        ------
        X : (m, h); returned : (m, min(k, len(classes_)))
        """
        columns = self._answers(X, lambda scores: top_columns(scores, k))
        return np.asarray(self.classes_[columns])

    def _examples(self, X: Any, y: Any, multiplicity: ArrayLike | None) -> Examples:
        """Return the training examples, checked, and set what prediction reads of them."""
        rows = CheckedRows.from_user(self, TOKEN_RULES, None, X, y=y, sample_weight=multiplicity)
        examples = rows.examples()
        if not len(examples):
            raise ValueError(
                "There is nothing to learn: every sample_weight or multiplicity is zero. "
                "Give one above zero."
            )
        self.classes_ = classes_array(examples.labels, rows.labels.dtype)
        self.vocabulary_ = examples.contexts.vocabulary
        return examples

    def _answers(self, X: Any, answer: Callable[[Floats], Array]) -> Array:
        check_is_fitted(self)
        ranks = read_question(self, TOKEN_RULES, get_fitted_columns(self), X).ranks_in(
            self.vocabulary_
        )
        step = max(1, _CHUNK_NUMBERS // len(self.classes_))
        return np.concatenate(
            [answer(self._scores(ranks[i : i + step])) for i in range(0, len(ranks), step)]
        )

    def _scores(self, ranks: Ints) -> Floats:
        """Return the scores of contexts of ranks in `vocabulary_`; rank -1 matches nothing."""
        raise NotImplementedError

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = tags.input_tags.string = True
        return tags


class SuffixBackoff(_Baseline):
    """Next-token model that counts the labels after the longest suffix known from training.

    Parameters
    ----------
    max_length : int
        Tokens of the longest suffix that is counted; contexts shorter than that are counted whole.
        With 0 the model always answers the most frequent label.
    ties : {"suffix", "frequency"}
        What ranks labels that are equally frequent after the longest known suffix, or were never
        seen after it: the next shorter suffix, or how frequent they are overall. The paper does not
        say; its figures are close to those of "frequency".

    Attributes
    ----------
    classes_ : ndarray
        Labels in sorted order.
    vocabulary_ : Vocabulary
        The tokens of the training contexts.
    n_features_in_ : int
        Tokens per context, the paper's h.

    See Also
    --------
    HammingNeighbors : the paper's other baseline.

    Notes
    -----
    A position that holds `NO_TOKEN`, or a token never seen, ends the suffixes that can match.

    Only the order of a context's scores has a meaning. Divided by the number of labels, a score
    gives the length of the longest suffix that the label was seen after (the quotient) and the
    label's rank there (the remainder).

    Examples
    --------
    >>> from hammemo.paper.baselines import SuffixBackoff
    >>> X = [["a", "b"], ["a", "b"], ["c", "b"], ["d", "e"]]
    >>> clf = SuffixBackoff().fit(X, ["x", "y", "y", "z"])
    >>> clf.predict([["a", "b"], ["?", "e"]]).tolist()
    ['y', 'z']
    >>> clf.top_k([["a", "b"], ["?", "e"]], k=3).tolist()
    [['y', 'x', 'z'], ['z', 'y', 'x']]
    """

    def __init__(self, max_length: int = 5, ties: str = "suffix") -> None:
        self.max_length = max_length
        self.ties = ties

    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Forget everything and count the labels after each suffix of the contexts.

        Parameters
        ----------
        X : array-like or data frame of shape (m, h)
            Contexts, oldest token first.
        y : array-like of shape (m,)
            Labels.
        sample_weight : array-like of shape (m,), optional
            How often each example occurred: non-negative whole numbers.
        """
        longest = _whole_number(
            "max_length", self.max_length, 0, "a suffix cannot have fewer than no tokens"
        )
        self._by_frequency = _by_frequency(self.ties, "suffix")
        examples = self._examples(X, y, sample_weight)
        self._levels = _count_suffixes(
            examples, min(longest, examples.contexts.h), self._by_frequency
        )
        return self

    def _scores(self, ranks: Ints) -> Floats:
        scores = np.empty((len(ranks), len(self.classes_)))
        suffixes = np.zeros(len(ranks), np.int64)
        for length, level in enumerate(self._levels):
            if length:
                suffixes = level.find(suffixes, ranks[:, -length], len(self.vocabulary_))
            queries = np.flatnonzero(suffixes >= 0)
            if length and self._by_frequency:
                scores[queries] = self._levels[0].scores.toarray()
            # Labels after this suffix replace their scores after the shorter one: the induction
            # in the module's docstring.
            level_scores = level.scores[suffixes[queries]]
            rows = np.repeat(queries, np.diff(level_scores.indptr))
            scores[rows, level_scores.indices] = level_scores.data
        return scores


@dataclass(frozen=True, eq=False)
class _SuffixLevel:
    """The suffixes of one length and the scores of their labels: a level of a trie.

    The trie grows towards older tokens.

    Parameters
    ----------
    keys : ndarray of int64, ascending
        ``shorter * n + token`` for each suffix: the rank of the suffix without its oldest token,
        and that token.
    scores : csr_array of int64, shape (number of suffixes, number of labels)
        One entry for each label seen after the suffix; an entry may be an explicit zero.
    """

    keys: Ints
    scores: sparse.csr_array

    def find(self, shorter: Ints, tokens: Ints, n: int) -> Ints:
        """Return the ranks of shorter suffixes with one older token each, -1 for unknown ones."""
        # A shorter suffix that was never seen has rank -1, so its key is negative and not found.
        ranks = find_sorted(self.keys, shorter * n + tokens)
        return np.where(tokens >= 0, ranks, -1)


def _count_suffixes(examples: Examples, longest: int, by_frequency: bool) -> list[_SuffixLevel]:
    """Count the labels after the suffixes of each length from 0 to `longest`.

    Ties go to the score after the next shorter suffix or, by frequency, after the empty one.
    """
    ranks = examples.contexts.ranks
    n_tokens = len(examples.contexts.vocabulary)
    # The examples whose suffix of the current length is complete, that suffix of each, and the
    # score of its label after the shorter suffix.
    complete = np.arange(len(ranks))
    suffixes = np.zeros(len(ranks), np.int64)
    shorter_scores = np.zeros(len(ranks), np.int64)
    keys = np.zeros(1, np.int64)
    levels = []
    for length in range(longest + 1):
        if length:
            has_token = ranks[complete, -length] >= 0
            complete = complete[has_token]
            shorter_scores = shorter_scores[has_token]
            longer_keys = suffixes[has_token] * n_tokens + ranks[complete, -length]
            keys, suffixes = unique_ranks(longer_keys, len(keys) * n_tokens)
        table, entry_of_example = _rank_labels(
            examples, complete, suffixes, n_suffixes=len(keys), shorter_scores=shorter_scores
        )
        # Above every score after a shorter suffix, which is below length * labels.
        table.data += length * len(examples.labels)
        levels.append(_SuffixLevel(keys, table))
        if length == 0 or not by_frequency:
            shorter_scores = table.data[entry_of_example]
    return levels


def _rank_labels(
    examples: Examples, chosen: Ints, suffixes: Ints, *, n_suffixes: int, shorter_scores: Ints
) -> tuple[sparse.csr_array, Ints]:
    """Return the rank of each label after each suffix, and the entry of each chosen example.

    Shapes
    ------
    chosen, suffixes, shorter_scores : (m,); returned table : (n_suffixes, labels)
    """
    n_labels = len(examples.labels)
    pairs = suffixes * n_labels + examples.label_ranks[chosen]
    entries, entry_of_example = unique_ranks(pairs, n_suffixes * n_labels)
    counts = np.bincount(
        entry_of_example, weights=examples.multiplicity[chosen], minlength=len(entries)
    )
    shorter = np.empty(len(entries), np.int64)
    shorter[entry_of_example] = shorter_scores  # the same for all examples of an entry
    rows, columns = np.divmod(entries, n_labels)
    starts = np.searchsorted(rows, np.arange(n_suffixes + 1))
    ranks = _rank_in_rows(rows, counts.astype(np.int64), shorter)  # exact: counts are below 2^53
    table = sparse.csr_array((ranks, columns, starts), shape=(n_suffixes, n_labels))
    return table, entry_of_example


def _rank_in_rows(rows: Ints, counts: Ints, shorter: Ints) -> Ints:
    """Return the rank of each entry by (count, shorter) among those of its row; equals share one.

    Rows must ascend.
    """
    order = np.lexsort((shorter, counts, rows))
    # Rows ascend, so each begins at the same place before and after the sort.
    begins_row = np.diff(rows, prepend=-1) > 0
    count_rises = np.diff(counts[order], prepend=0) != 0
    shorter_rises = np.diff(shorter[order], prepend=0) != 0
    steps = np.cumsum(count_rises | shorter_rises)
    ranks = np.empty(len(rows), np.int64)
    ranks[order] = steps - steps[begins_row][np.cumsum(begins_row) - 1]
    return ranks


class HammingNeighbors(_Baseline):
    """Exact k-nearest-neighbour classifier: the stored contexts with the most matches vote.

    Parameters
    ----------
    n_neighbors : int
        How many stored examples vote; all of them if there are fewer.
    ties : {"matches", "frequency"}
        Which of the labels with equally many votes wins: the one whose voters have more matches in
        sum, or the one that is more frequent among all stored examples. The paper does not say; its
        figures are close to those of "frequency".

    Attributes
    ----------
    classes_ : ndarray
        Labels in sorted order.
    vocabulary_ : Vocabulary
        The tokens of the stored contexts.
    n_features_in_ : int
        Tokens per context, the paper's h.

    See Also
    --------
    SuffixBackoff : the paper's other baseline.

    Notes
    -----
    Among examples with equally many matches the one stored first is nearer. Labels that are equal
    by votes and by `ties` follow the order of `classes_`. `NO_TOKEN` matches nothing.

    Because the order of the examples counts, their multiplicities are no ``sample_weight``, which
    scikit-learn defines to be independent of that order; `fit` therefore calls them
    ``multiplicity``.

    A query is compared with all stored contexts, in one vectorised pass a position over tokens in
    their narrowest width. On text an inverted index or a sparse product takes about as long; where
    a token fills a large share of a position they take many times as long.

    Examples
    --------
    >>> from hammemo.paper.baselines import HammingNeighbors
    >>> X = [["a", "b", "c"], ["a", "b", "d"], ["e", "f", "g"], ["e", "f", "h"]]
    >>> clf = HammingNeighbors(n_neighbors=3).fit(X, ["x", "x", "y", "y"])
    >>> clf.predict([["a", "b", "?"], ["?", "f", "c"]]).tolist()
    ['x', 'y']
    >>> clf.class_scores([["a", "b", "?"]])  # two votes with four matches, one vote with none
    array([[2.4, 1. ]])
    """

    def __init__(self, n_neighbors: int = 25, ties: str = "matches") -> None:
        self.n_neighbors = n_neighbors
        self.ties = ties

    def fit(self, X: Any, y: ArrayLike, multiplicity: ArrayLike | None = None) -> Self:
        """Forget everything and store the examples (X, y).

        Parameters
        ----------
        X : array-like or data frame of shape (m, h)
            Contexts.
        y : array-like of shape (m,)
            Labels.
        multiplicity : array-like of shape (m,), optional
            How often each example is stored, one copy right after the other: non-negative whole
            numbers.
        """
        n_neighbors = _whole_number(
            "n_neighbors", self.n_neighbors, 1, "at least one stored example votes"
        )
        by_frequency = _by_frequency(self.ties, "matches")
        examples = self._examples(X, y, multiplicity)
        n_stored = int(examples.multiplicity.sum())
        self._k = min(n_neighbors, n_stored)
        self._frequency: Ints | None = None
        if by_frequency:
            self._frequency = examples.label_counts()
            self._vote = n_stored + 1
        else:
            self._vote = self._k * int(self.n_features_in_) + 1
        if (self._k + 1) * self._vote >= _MAX_NUMERATOR:
            raise ValueError(
                f"n_neighbors={n_neighbors}: with contexts of {self.n_features_in_} tokens "
                f"and {n_stored} stored examples, scores are exact only while (k + 1) "
                f"* {self._vote} is below 2^51. Use fewer neighbours."
            )
        # One row for each position, 0 for no token.
        self._stored = np.ascontiguousarray(narrow(examples.contexts.ranks.T + 1))
        self._labels = examples.label_ranks
        self._multiplicity = examples.multiplicity
        return self

    def _scores(self, ranks: Ints) -> Floats:
        numerators = np.empty((len(ranks), len(self.classes_)))
        matches = np.empty(len(self._labels), np.min_scalar_type(ranks.shape[1]))
        equal = np.empty(len(matches), bool)
        for row, context in zip(numerators, (ranks + 1).tolist(), strict=True):
            matches[:] = 0
            for stored, token in zip(self._stored, context, strict=True):
                if token:
                    np.equal(stored, token, out=equal)
                    matches += equal.view(np.uint8)
            row[:] = self._numerators(matches)
        return numerators / self._vote

    def _numerators(self, matches: Array) -> Ints:
        """Return the votes of each label among the nearest, and what breaks their ties.

        Both are in one whole number: one vote counts `_vote`, a match or an example of the label
        counts one.
        """
        n_missing = self._k
        n_matches = int(matches.max())
        nearest = []
        weights = []
        while n_missing:  # ends: k is at most the number of stored examples
            examples = np.flatnonzero(matches == n_matches)[:n_missing]
            copies = self._multiplicity[examples]
            copies_before = np.cumsum(copies) - copies
            voting_copies = np.minimum(copies, np.maximum(n_missing - copies_before, 0))
            weight = self._vote
            if self._frequency is None:
                weight += n_matches
            nearest.append(examples)
            weights.append(voting_copies * weight)
            n_missing -= int(voting_copies.sum())
            n_matches -= 1
        labels = self._labels[np.concatenate(nearest)]
        sums = np.bincount(labels, weights=np.concatenate(weights), minlength=len(self.classes_))
        votes = sums.astype(np.int64)  # exact: they sum below 2^51
        if self._frequency is None:
            return votes
        return votes + self._frequency


def _by_frequency(ties: Any, default: str) -> bool:
    """Return whether ties go to the more frequent label, not by the default rule."""
    if ties not in (default, "frequency"):
        raise ValueError(f"ties={ties!r} is not known: use {default!r} or 'frequency'.")
    return bool(ties == "frequency")


def _whole_number(name: str, value: Any, least: int, why: str) -> int:
    if not isinstance(value, (int, np.integer)) or isinstance(value, bool) or value < least:
        raise ValueError(f"{name}={value!r}: {why}, so give a whole number from {least} upwards.")
    return int(value)
