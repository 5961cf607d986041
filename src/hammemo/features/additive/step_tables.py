"""An additive function of the bytes of rows, as tables: what it says of a row needs no search.

The function knows a number only by its step (:mod:`hammemo.features.cells.column_codes`), so a column adds one of 256
entries. A pair of columns adds a mixture of four entries of its block: a byte lies between two coarse levels.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hammemo.features.additive.levels import HAT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from hammemo._arrays.types import Ints

BYTES = 256


@dataclass(frozen=True, eq=False)
class StepTables:
    """All tables of an additive function, in 1/1024 of the unit of its scores.

    Parameters
    ----------
    columns : ndarray of int64, shape (columns, 256, outputs)
    levels, rights : ndarray of int32, shape (columns, 256)
        In pairs, a byte lies between a level and the next one, by `right` of 1,024. Level -1: it lies in none.
    pairs : ndarray of int64, shape (P, 2)
    widths : ndarray of int64, shape (P,)
        How many levels the second column of each pair has.
    starts : ndarray of int64, shape (P + 1,)
    blocks : ndarray of int64, shape (entries, outputs)
        The coefficients of each pair, and zeros behind them.
    constant : ndarray of int64, shape (outputs,)
    """

    columns: Ints
    levels: NDArray[np.int32]
    rights: NDArray[np.int32]
    pairs: Ints
    widths: Ints
    starts: Ints
    blocks: Ints
    constant: Ints

    def terms(self, rows: NDArray[np.uint8]) -> Iterator[tuple[tuple[int, ...], Ints]]:
        """Go through what each column and each pair of columns adds to rows: (m, outputs)."""
        for j, table in enumerate(self.columns):
            yield (j,), table[rows[:, j]]
        blocks = zip(self.pairs.tolist(), self.widths.tolist(), self.starts.tolist(), strict=False)
        for (first, second), width, start in blocks:
            (a, right_a), (b, right_b) = (
                (self.levels[j][rows[:, j]].astype(np.int64), self.rights[j][rows[:, j]].astype(np.int64))
                for j in (first, second)
            )
            held, both = (a >= 0) & (b >= 0), right_a * right_b // HAT
            at = start + np.where(held, a * width + b, 0)
            shares = (HAT - right_a - right_b + both, right_b - both, right_a - both, both)
            entries = zip(shares, (0, 1, width, width + 1), strict=True)
            yield (first, second), sum((share * held)[:, None] * self.blocks[at + step] for share, step in entries)
