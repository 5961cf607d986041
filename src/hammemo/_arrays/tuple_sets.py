"""Sorted sets of token tuples: what one site of a kernel holds.

A site that compares several positions holds tuples of tokens. With n token types and l positions a
tuple does not fit in 64 bits, so a set of tuples is kept as a trie, one ascending integer array a
level: level j holds the keys ``parent * n + token``, where parent is the rank at level j - 1 of the
tuple's first j - 1 tokens. The rank at the last level is the rank of the tuple in lexicographic
order. Nothing is hashed, so nothing collides.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hammemo._arrays.checked import is_ascending
from hammemo._arrays.integers import find_sorted, pieces, unique_ranks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hammemo._arrays.types import Array, Ints


@dataclass(frozen=True, eq=False)
class TupleSet:
    """An immutable set of tuples of l ranks below n, in lexicographic order.

    Examples
    --------
    >>> import numpy as np
    >>> from hammemo._arrays.tuple_sets import TupleSet
    >>> tuples, index = TupleSet.collect(np.array([[2, 0], [1, 3], [2, 0], [1, -1]]), n=4)
    >>> tuples.rows()
    array([[1, 3],
           [2, 0]])
    >>> index, tuples.find(np.array([[2, 0], [0, 0]]))
    (array([ 1,  0,  1, -1]), array([ 1, -1]))
    """

    n: int
    levels: tuple[Array, ...]
    """Integers of any width: 64 bits as collected, narrow ones as they come from a file."""

    @classmethod
    def of_levels(cls, levels: Sequence[Array], n: int, *, trusted: bool = False) -> TupleSet:
        """Return the set with these levels; unless they are trusted, check that they are a trie."""
        parents = 1
        for j, level in enumerate([] if trusted else levels):
            bound = parents * n
            is_too_large = bound >= 2**63 or (len(level) and int(level[-1]) >= bound)
            if is_too_large or not is_ascending(level):
                raise ValueError(
                    "a set of token tuples is not in ascending order, or names tokens that do not "
                    "exist"
                )
            if j and _number_of_parents(level, n) != parents:
                raise ValueError("a set of token tuples has a beginning that no tuple continues")
            parents = len(level)
        return cls(n, tuple(levels))

    @classmethod
    def collect(cls, rows: Ints, n: int) -> tuple[TupleSet, Ints]:
        """Return the set of the rows and the rank of each; -1 for a row with a negative entry.

        Shapes
        ------
        rows : (m, l), entries below n; returned ranks : (m,)
        """
        complete = (rows >= 0).all(axis=1)
        if complete.all():
            complete_rows = rows
        else:
            complete_rows = rows[complete]
        ranks = np.zeros(len(complete_rows), np.int64)
        parents = 1
        levels = []
        for column in complete_rows.T:
            level, ranks = unique_ranks(ranks * n + column, parents * n)
            levels.append(level)
            parents = len(level)
        index = np.full(len(rows), -1, np.int64)
        index[complete] = ranks
        return cls(n, tuple(levels)), index

    @classmethod
    def of_sorted(cls, rows: Ints, n: int) -> TupleSet:
        """Return the set of rows that are distinct and in lexicographic order."""
        if rows.shape[1] == 1:
            return cls(n, (rows[:, 0],))
        tuples, _ = cls.collect(rows, n)
        return tuples

    def __len__(self) -> int:
        return len(self.levels[-1])

    def find(self, rows: Ints) -> Ints:
        """Return the rank of each row, -1 where the set does not hold it.

        Shapes
        ------
        rows : (m, l), entries below n; returned ranks : (m,)
        """
        ranks = np.zeros(len(rows), np.int64)
        for level, column in zip(self.levels, rows.T, strict=True):
            next_ranks = find_sorted(level, ranks * self.n + column)
            ranks = np.where((ranks >= 0) & (column >= 0), next_ranks, -1)
        return ranks

    def rows(self) -> Ints:
        """Return the tuples, one a row, in lexicographic order."""
        if len(self.levels) == 1:
            return self.levels[0].astype(np.int64, copy=False)[:, None]
        ranks = np.arange(len(self))
        columns = []
        for level in reversed(self.levels):
            ranks, column = np.divmod(level[ranks].astype(np.int64, copy=False), self.n)
            columns.append(column)
        return np.stack(columns[::-1], axis=1)


def _number_of_parents(level: Array, n: int) -> int:
    """Return how many distinct parents the keys of a level have.

    Equal parents are neighbours, because keys ascend.
    """
    number = 0
    last = -1
    for piece in pieces(len(level)):
        parents = level[piece].astype(np.int64) // n
        number += int((np.diff(parents, prepend=last) != 0).sum())
        last = int(parents[-1])
    return number
