"""The examples that sites are chosen from, in an order that depends on nothing but what they are.

An example that occurs m times has copies 0 to m - 1. Every example has a hash under the seed, every copy another one,
and copies are put in the order of their hashes. So the order of the rows does not matter, a weight of 2 is the row
twice, any part of the order is a random sample, and a fold is one more hash.

Above `MAX_COPIES` copies each example keeps its share of them: m times the share, rounded down or up by its hash.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hammemo._arrays.integers import unique_ranks
from hammemo._versions import cached_property
from hammemo.tokens.distinct import distinct_examples
from hammemo.tokens.hashing import mix

if TYPE_CHECKING:
    from hammemo._arrays.types import Ints, Words
    from hammemo.tokens.contexts import Examples

MAX_COPIES = 2**17
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
    >>> twice = Copies.of(Examples.of([["a"], ["b"], ["a"]], ["x", "y", "x"]), seed=0)
    >>> heavy = Copies.of(Examples.of([["b"], ["a"]], ["y", "x"], [1, 2]), seed=0)
    >>> bool((twice.hashes == heavy.hashes).all() and (twice.codes == heavy.codes).all())
    True
    """

    codes: Ints
    labels: Ints
    words: Words
    hashes: Words
    n_labels: int

    @classmethod
    def of(cls, examples: Examples, seed: int, most: int = MAX_COPIES) -> Copies:
        """Return the copies of examples in the order of their hashes, at most about `most` of them."""
        rows, words, counts = distinct_examples(examples, seed)
        kept = _shares(words, counts, most)
        ends = np.cumsum(kept)
        numbers = np.arange(ends[-1] if len(ends) else 0) - np.repeat(ends - kept, kept)
        repeated = np.repeat(words, kept)
        hashes = mix(repeated + numbers.astype(np.uint64))
        order = np.argsort(hashes, kind="stable")
        chosen = np.repeat(rows, kept)[order]
        codes = _column_codes(examples.contexts.ranks[chosen])
        return cls(codes, examples.label_ranks[chosen], repeated[order], hashes[order], len(examples.labels))

    def __len__(self) -> int:
        return len(self.labels)

    def folds(self, number: int) -> Ints:
        """Return the fold of each copy, a second hash of it."""
        folds: Ints = (mix(self.hashes + np.uint64(1)) % np.uint64(number)).astype(np.int64)
        return folds

    def taken(self, rows: Ints) -> Copies:
        """Return some of the copies, in the order asked for."""
        return Copies(self.codes[rows], self.labels[rows], self.words[rows], self.hashes[rows], self.n_labels)

    @cached_property
    def sizes(self) -> Ints:
        """How many values each column has, 1 where it has none: shape (h,)."""
        return np.asarray(self.codes.max(axis=0, initial=0) + 1, np.int64)


def _shares(words: Words, counts: Ints, most: int) -> Ints:
    """Return how many copies of each example are kept."""
    total = int(counts.sum())
    if total <= most:
        return counts
    wanted = counts * (most / total)
    lucky = (mix(words + np.uint64(2)) >> np.uint64(11)) / 2.0**53  # from 0 to 1
    return np.asarray(np.floor(wanted) + (lucky < wanted - np.floor(wanted)), np.int64)


def _column_codes(ranks: Ints) -> Ints:
    """Return ranks numbered again column by column, without the tokens that a column does not hold."""
    codes = np.full(ranks.shape, -1, np.int64)
    for j, column in enumerate(ranks.T):
        held = column >= 0
        if held.any():
            codes[held, j] = unique_ranks(column[held], int(column.max()) + 1)[1]
    return codes
