r"""An additive function of the bytes of rows, as tables: scoring a row needs no search.

The function knows a number only by its step (:mod:`hammemo.features.cells.column_codes`), so a
column adds one of 256 entries. A pair of columns adds a mixture of four entries of its block, since
each of the two bytes lies between two coarse levels. With levels a and b, and shares r and s of the
way to the next ones, in units of 1:

.. math:: (1 - r)(1 - s) B_{a,b} + (1 - r) s B_{a,b+1} + r (1 - s) B_{a+1,b} + r s B_{a+1,b+1}.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hammemo.features.additive.levels import HAT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from hammemo._arrays.types import Ints

BYTES = 256
"""How many values a byte has."""


class Term(NamedTuple):
    """What one column, or one pair of columns, adds to rows.

    Parameters
    ----------
    columns : tuple of int
        The column, or both columns of the pair.
    added : ndarray of int64, shape (m, outputs)
        In 1/1024 of the unit of scores.
    """

    columns: tuple[int, ...]
    added: Ints


@dataclass(frozen=True, eq=False)
class StepTables:
    """All tables of an additive function, in 1/1024 of the unit of its scores.

    Parameters
    ----------
    columns : ndarray of int64, shape (columns, 256, outputs)
        What each byte of each column adds.
    levels, rights : ndarray of int32, shape (columns, 256)
        In pairs, a byte lies between a level and the next one, by `right` of 1,024. Level -1: it
        lies at none.
    pairs : ndarray of int64, shape (P, 2)
        Which two columns each pair has.
    widths : ndarray of int64, shape (P,)
        How many levels the second column of each pair has.
    starts : ndarray of int64, shape (P + 1,)
        Where the block of each pair starts, and the end.
    blocks : ndarray of int64, shape (entries, outputs)
        The coefficients of each pair, and zeros behind them, because a byte at the last level reads
        the entries of a next one.
    constant : ndarray of int64, shape (outputs,)
        What every row has.
    """

    columns: Ints
    levels: NDArray[np.int32]
    rights: NDArray[np.int32]
    pairs: Ints
    widths: Ints
    starts: Ints
    blocks: Ints
    constant: Ints

    def iterate_terms(self, rows: NDArray[np.uint8]) -> Iterator[Term]:
        """Yield what each column, and then each pair of columns, adds to rows: (m, columns)."""
        for j, table in enumerate(self.columns):
            yield Term((j,), table[rows[:, j]])
        for place, (first, second) in enumerate(self.pairs.tolist()):
            yield Term((first, second), self._add_pair(place, rows[:, first], rows[:, second]))

    def _add_pair(self, place: int, firsts: NDArray[np.uint8], seconds: NDArray[np.uint8]) -> Ints:
        """Return what one pair adds, by the bytes of its two columns: (m, outputs)."""
        first, second = self.pairs[place].tolist()
        width = int(self.widths[place])
        a = self.levels[first][firsts].astype(np.int64)
        b = self.levels[second][seconds].astype(np.int64)
        right_a = self.rights[first][firsts].astype(np.int64)
        right_b = self.rights[second][seconds].astype(np.int64)
        is_present = (a >= 0) & (b >= 0)
        entries = self.starts[place] + np.where(is_present, a * width + b, 0)
        right_ab = right_a * right_b // HAT
        corners = (
            (0, HAT - right_a - right_b + right_ab),
            (1, right_b - right_ab),
            (width, right_a - right_ab),
            (width + 1, right_ab),
        )
        added = np.zeros((len(firsts), self.blocks.shape[1]), np.int64)
        for step, shares in corners:
            added += (shares * is_present)[:, None] * self.blocks[entries + step]
        return added
