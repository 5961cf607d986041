"""The examples that sites are chosen from, in an order that depends only on what they hold.

An example that occurs m times has copies 0 to m - 1. Every example has a hash under the seed, every
copy another one, and copies are put in the order of their hashes. So the order of the rows does not
matter, a weight of 2 is the row twice, any part of the order is a random sample, and a fold is one
more hash.

Above `MAX_COPIES` copies each example keeps its share of them: m times the share, rounded down
or up by its hash.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from hammemo._arrays.integers import unique_ranks
from hammemo._versions import cached_property
from hammemo.tokens.distinct import distinct_examples
from hammemo.tokens.hashing import mix

if TYPE_CHECKING:
    from hammemo._arrays.types import Ints, Words
    from hammemo.tokens.contexts import Examples

MAX_COPIES: Final = 2**17
"""The most copies that a choice looks at."""


@dataclass(frozen=True, eq=False)
class Copies:
    """Copies of examples.

    Parameters
    ----------
    codes : ndarray of int64, shape (n, h)
        What each column holds, numbered from 0 column by column; -1 where it holds nothing.
    labels : ndarray of int64, shape (n,)
        Ranks of the labels.
    words : ndarray of uint64, shape (n,)
        The hash of each example, the same for its copies.
    hashes : ndarray of uint64, shape (n,)
        The hash of each copy.
    n_labels : int

    Examples
    --------
    >>> from hammemo.kernels.selection.copies import Copies
    >>> from hammemo.tokens.contexts import Examples
    >>> twice = Examples.of([["a"], ["b"], ["a"]], ["x", "y", "x"])
    >>> heavy = Examples.of([["b"], ["a"]], ["y", "x"], [1, 2])
    >>> left, right = Copies.from_examples(twice, seed=0), Copies.from_examples(heavy, seed=0)
    >>> bool((left.hashes == right.hashes).all() and (left.codes == right.codes).all())
    True
    """

    codes: Ints
    labels: Ints
    words: Words
    hashes: Words
    n_labels: int

    @classmethod
    def from_examples(cls, examples: Examples, seed: int, limit: int = MAX_COPIES) -> Copies:
        """Return the copies of examples in the order of their hashes, at most about `limit`."""
        rows, words, counts = distinct_examples(examples, seed)
        n_copies = _share_copies(words, counts, limit)

        # Number the copies of each example from 0 on, and hash example and number.
        ends = np.cumsum(n_copies)
        total = ends[-1] if len(ends) else 0
        numbers = np.arange(total) - np.repeat(ends - n_copies, n_copies)
        example_words = np.repeat(words, n_copies)
        hashes = mix(example_words + numbers.astype(np.uint64))

        order = np.argsort(hashes, kind="stable")
        places = np.repeat(rows, n_copies)[order]
        return cls(
            codes=_number_by_column(examples.contexts.ranks[places]),
            labels=examples.label_ranks[places],
            words=example_words[order],
            hashes=hashes[order],
            n_labels=len(examples.labels),
        )

    def __len__(self) -> int:
        return len(self.labels)

    def folds(self, number: int) -> Ints:
        """Return the fold of each copy, a second hash of it."""
        folds: Ints = (mix(self.hashes + np.uint64(1)) % np.uint64(number)).astype(np.int64)
        return folds

    def take(self, rows: Ints) -> Copies:
        """Return some of the copies, in this order."""
        return Copies(
            codes=self.codes[rows],
            labels=self.labels[rows],
            words=self.words[rows],
            hashes=self.hashes[rows],
            n_labels=self.n_labels,
        )

    @cached_property
    def sizes(self) -> Ints:
        """How many values each column has, 1 where it has none: shape (h,)."""
        return np.asarray(self.codes.max(axis=0, initial=0) + 1, np.int64)


def _share_copies(words: Words, counts: Ints, limit: int) -> Ints:
    """Return how many copies each example keeps."""
    total = int(counts.sum())
    if total <= limit:
        return counts
    shares = counts * (limit / total)
    floors = np.floor(shares)
    draws = (mix(words + np.uint64(2)) >> np.uint64(11)) / 2.0**53  # from 0 to 1
    return np.asarray(floors + (draws < shares - floors), np.int64)


def _number_by_column(ranks: Ints) -> Ints:
    """Return ranks numbered again column by column, without tokens that a column does not hold."""
    codes = np.full(ranks.shape, -1, np.int64)
    for j, column in enumerate(ranks.T):
        is_token = column >= 0
        if is_token.any():
            codes[is_token, j] = unique_ranks(column[is_token], int(column.max()) + 1)[1]
    return codes
