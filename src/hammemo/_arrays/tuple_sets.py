"""Sorted sets of token tuples: what one site of a kernel holds.

A site that compares several positions holds tuples of tokens, given by their ranks in a vocabulary
of n tokens. A tuple of l ranks is one of n^l, which may need more than 64 bits. So a set of tuples
is kept as a trie, one ascending array of keys for each level:

- level 1 has the first tokens of tuples;
- level j has a key for each distinct beginning of j tokens. It is ``parent * n + token``, where
  `token` is the last of the j and `parent` is the place of the others, a beginning of j - 1 tokens,
  at level j - 1.

The place of a tuple at the last level is its rank in lexicographic order. The tuples (1, 3), (2, 0)
and (2, 3) with n = 4 have the levels [1, 2] and [0 * 4 + 3, 1 * 4 + 0, 1 * 4 + 3] = [3, 4, 7].
Nothing is hashed, so nothing collides.
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
    """How many tokens the vocabulary has."""
    levels: tuple[Array, ...]
    """The keys of each level. Integers of any width: 64 bits as collected, narrow ones from files.
    """

    @classmethod
    def of_levels(cls, levels: Sequence[Array], n: int, *, trusted: bool = False) -> TupleSet:
        """Return the set with these levels; unless they are trusted, check that they are a trie."""
        if not trusted:
            n_parents = 1  # above the first level, there is one beginning of no tokens
            for j, level in enumerate(levels):
                _check_level(level, n, n_parents)
                if j > 0 and _count_parents(level, n) != n_parents:
                    raise ValueError(
                        "a set of token tuples has a beginning that no tuple continues"
                    )
                n_parents = len(level)
        return cls(n, tuple(levels))

    @classmethod
    def collect(cls, rows: Ints, n: int) -> tuple[TupleSet, Ints]:
        """Return the set of the rows and the rank of each; -1 for a row with a negative entry.

        Shapes
        ------
        rows : (m, l), entries below n; returned ranks : (m,)
        """
        is_complete = (rows >= 0).all(axis=1)
        complete_rows = rows if is_complete.all() else rows[is_complete]
        # `places` are those of the beginnings of the rows at the level before.
        places = np.zeros(len(complete_rows), np.int64)
        n_places = 1
        levels = []
        for column in complete_rows.T:
            level, places = unique_ranks(places * n + column, bound=n_places * n)
            levels.append(level)
            n_places = len(level)
        ranks = np.full(len(rows), -1, np.int64)
        ranks[is_complete] = places
        return cls(n, tuple(levels)), ranks

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
        places = np.zeros(len(rows), np.int64)
        for level, column in zip(self.levels, rows.T, strict=True):
            next_places = find_sorted(level, places * self.n + column)
            # where there is no such beginning, or no token, the key may be that of another row
            places = np.where((places >= 0) & (column >= 0), next_places, -1)
        return places

    def rows(self) -> Ints:
        """Return the tuples, one a row, in lexicographic order."""
        if len(self.levels) == 1:
            return self.levels[0].astype(np.int64, copy=False)[:, None]
        # From the last tokens to the first: each key gives a token and the place of the others.
        places = np.arange(len(self))
        columns = []
        for level in reversed(self.levels):
            keys = level[places].astype(np.int64, copy=False)
            places, column = np.divmod(keys, self.n)
            columns.append(column)
        return np.stack(columns[::-1], axis=1)


def _check_level(level: Array, n: int, n_parents: int) -> None:
    """Refuse keys of a file that do not ascend, or have no parent or no token."""
    bound = n_parents * n
    is_too_large = bound >= 2**63 or (len(level) and int(level[-1]) >= bound)
    if is_too_large or not is_ascending(level):
        raise ValueError(
            "a set of token tuples is not in ascending order, or names tokens that do not exist"
        )


def _count_parents(level: Array, n: int) -> int:
    """Return how many distinct parents the keys of a level have.

    Keys ascend, so equal parents are neighbors, and a parent that differs from the one before is a
    new one.
    """
    n_parents = 0
    last = -1
    for piece in pieces(len(level)):
        parents = level[piece].astype(np.int64) // n
        n_parents += int((np.diff(parents, prepend=last) != 0).sum())
        last = int(parents[-1])
    return n_parents
