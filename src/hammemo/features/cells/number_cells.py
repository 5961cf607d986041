"""What the cells of trees of numbers hold: how many rows, and the sum of the number of each row.

Numbers are whole: sums are exact, do not depend on the order of rows, and rows that are added and
subtracted again leave no trace.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hammemo import _native
from hammemo._arrays.integers import row_pieces
from hammemo._arrays.wide_sums import (
    NARROW_BITS,
    add_sums,
    as_wide,
    exact_sum,
    in_form,
    largest_size,
    needs_words,
    no_sums,
    number_of,
    take_sums,
    words_of,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hammemo._arrays.checked import StoredArrays
    from hammemo._arrays.types import Array, Ints
    from hammemo.features.cells.forest import Forest


@dataclass(frozen=True, eq=False)
class NumberCells:
    """What the cells of trees hold: a value that never changes.

    Parameters
    ----------
    counts : ndarray of int64, shape (n,)
        How many rows each cell holds, in the order of `Forest.cell_rows`: below 2^40, as the
        rows of a model are.
    sums : ndarray, shape (n,) or (2, n)
        The sums of their numbers: the form of `hammemo._arrays.wide_sums` that belongs to `size`.
    size : int
        The sum over all rows of the absolute number: no sum of a cell is larger.
    """

    counts: Ints
    sums: Array
    size: int = 0

    @classmethod
    def empty(cls, forest: Forest) -> NumberCells:
        """Return cells without rows."""
        n = int(forest.cell_sizes.sum())
        return cls(np.zeros(n, np.int64), no_sums(n))

    def with_rows(
        self, forest: Forest, leaves: NDArray[np.int32], numbers: Ints, times: Ints
    ) -> NumberCells:
        """Return the cells with rows added so many times, or subtracted.

        They are subtracted where all times are below zero. Rows are added at their leaves; a cell
        holds what its leaves hold.

        Shapes
        ------
        leaves : (m, trees); numbers, times : (m,)
        """
        added_size = exact_sum(np.abs(numbers), times)
        size = self.size + added_size
        # A difference may be one of rows that were never there: until `is_possible` has looked,
        # both sizes count.
        if needs_words(self.size + abs(added_size)):
            return self._with_rows_widely(forest, leaves, numbers, times=times, size=size)
        products = numbers * times
        counts = self.counts.copy()
        sums = self.sums.copy()

        # Few rows: only their cells are touched.
        if len(leaves) * forest.n_trees < len(forest.column):
            cells = forest.cell_rows[:, leaves]
            np.add.at(counts, cells, times[:, None])
            np.add.at(sums, cells, products[:, None])
            return NumberCells(counts, sums, size)

        # Many rows: they are added up at the leaves, and leaves at the cells around them.
        one_label = np.zeros(len(leaves), np.int64)
        counts += forest.counts(leaves, one_label, times, 1)[:, 0]
        sums += forest.counts(leaves, one_label, products, 1)[:, 0]
        return NumberCells(counts, sums, size)

    def _with_rows_widely(
        self, forest: Forest, leaves: NDArray[np.int32], numbers: Ints, *, times: Ints, size: int
    ) -> NumberCells:
        """Return the cells with rows added to sums of two words, row by row.

        It is slower, and rarely needed.
        """
        counts = self.counts.copy()
        sums = as_wide(self.sums)
        for piece in row_pieces(len(leaves), forest.n_trees):
            repeated_times = np.repeat(times[piece], forest.n_trees)
            repeated_numbers = np.repeat(numbers[piece], forest.n_trees)
            for cells in forest.cell_rows:
                places = cells[leaves[piece].ravel()].astype(np.int64)
                np.add.at(counts, places, repeated_times)
                _native.add_products(
                    places=places, numbers=repeated_numbers, times=repeated_times, sums=sums
                )
        return NumberCells(counts, in_form(sums, max(size, largest_size(sums))), size)

    def plus(self, other: NumberCells, sign: int) -> NumberCells:
        """Return the cells with those of other rows added or, with sign -1, subtracted."""
        is_wide = needs_words(self.size + other.size)
        sums = add_sums(self.sums, other.sums, sign=sign, is_wide=is_wide)
        size = self.size + sign * other.size
        if is_wide:
            sums = in_form(sums, max(size, largest_size(sums)))
        return NumberCells(self.counts + sign * other.counts, sums, size)

    @property
    def is_possible(self) -> bool:
        """Whether there may be rows with these sums.

        A difference with rows that were not in the cells goes beyond a bound.
        """
        has_no_deficit = self.size >= 0 and int(self.counts.min()) >= 0
        return has_no_deficit and largest_size(self.sums) <= self.size

    def arrays(self) -> dict[str, Array]:
        """Return the cells as arrays, with sums in their narrowest form."""
        return {
            "counts": self.counts,
            "sums": self.sums,
            "size": np.array(words_of(self.size), np.uint64),
        }

    @classmethod
    def from_stored(cls, forest: Forest, stored: StoredArrays, n_rows: int) -> NumberCells:
        """Return the cells of a file that hold so many rows, checked: undo `arrays`."""
        n = int(forest.cell_sizes.sum())
        counts = stored.take("counts", "int64", (n,))
        words = stored.take("size", "uint64", (None,)).tolist()
        if len(words) not in (1, 2) or (counts < 0).any() or (counts > n_rows).any():
            raise ValueError("its cells hold sums that no rows have")
        size = number_of(words)
        if size > n_rows << NARROW_BITS:
            raise ValueError("its cells hold sums that no rows have")
        sums = take_sums(stored, "sums", n, size)
        # Every row lies in one cell of each tree and level. Each count is at most n_rows < 2^40, so
        # sums of 2^22 cells are exact; floats see larger ones.
        sizes = forest.cell_sizes.ravel()
        starts = np.cumsum(sizes) - sizes
        rows_of_trees = np.add.reduceat(counts, starts)
        about = np.add.reduceat(counts.astype(np.float64), starts)
        if (rows_of_trees != n_rows).any() or (about > 2.0 * n_rows).any():
            raise ValueError("its cells do not hold all rows")
        return cls(counts, sums, size)
