r"""Trees of numbers: how many rows lie in each cell, and the sum of what each row adds there.

The trees are those of the classifier (:mod:`hammemo.features.cells.forest`), grown by sums in place of label counts. A
site is a tree and a level; with n rows in a cell and the sum s of their numbers, it says :math:`s / (n + a)` for two
amounts a. All trees of a kind say the same kind of thing, so their means are the features of the vote, which has one
weight for each kind, level and amount. Weights are not negative. They are fitted to rows that each tree has not grown
by, and without the row itself.

Numbers are whole: sums are exact, and do not depend on the order of rows. The features are rounded to whole numbers
before they are multiplied, so that the weights do not depend on the processor.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from hammemo import _native
from hammemo._arrays.integers import row_pieces
from hammemo._arrays.threads import in_threads, thread_pieces
from hammemo._arrays.wide_sums import (
    NARROW_BITS,
    add_sums,
    as_floats,
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
from hammemo.features.cells.forest import KINDS, LEAF, LEVELS, Forest, cut_shares
from hammemo.features.cells.nonnegative import nonnegative_solution

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from hammemo._arrays.checked import StoredArrays
    from hammemo._arrays.types import Array, Bools, Floats, Ints

AMOUNTS: Final = (1.0, 10.0)
N_FEATURES: Final = len(KINDS) * len(LEVELS) * len(AMOUNTS)

_UNIT: Final = 2.0**14
"""Parts of the scale that features are rounded to."""
_MOST: Final = 2**19
"""The largest of these whole numbers: 2^24 products of two of them have a sum below 2^63."""
_COPIES: Final = 2**23
FITTED_ROWS: Final = 2**17
"""Rows that weights are fitted to, and about how many copies of them."""
_FEATURE_ROWS: Final = 500
"""Rows from which on a thread of its own pays."""


@dataclass(frozen=True, eq=False)
class NumberCells:
    """What the cells of trees hold: a value that never changes.

    Parameters
    ----------
    counts : ndarray of int64, shape (n,)
        How many rows each cell holds, in the order of `Forest.cell_rows`: below 2^40, as the rows of a model are.
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

    def changed(self, forest: Forest, leaves: NDArray[np.int32], numbers: Ints, times: Ints) -> NumberCells:
        """Return the cells with rows added so many times or, where all times are below zero, subtracted.

        Rows are added at their leaves; a cell holds what its leaves hold.

        Shapes
        ------
        leaves : (m, trees); numbers, times : (m,)
        """
        more = exact_sum(np.abs(numbers), times)
        # A difference may be one of rows that were never there: until `is_possible` has looked, both sizes count.
        if needs_words(self.size + abs(more)):
            return self._changed_widely(forest, leaves, numbers, times, self.size + more)
        size = self.size + more
        counts, sums = self.counts.copy(), self.sums.copy()
        if len(leaves) * forest.n_trees < len(forest.column):  # few rows: only their cells are touched
            cells = forest.cell_rows[:, leaves]
            np.add.at(counts, cells, times[:, None])
            np.add.at(sums, cells, (numbers * times)[:, None])
            return NumberCells(counts, sums, size)
        at_nodes = np.zeros((2, len(forest.column)), np.int64)
        for part in row_pieces(len(leaves), forest.n_trees):
            places = leaves[part].ravel()
            np.add.at(at_nodes[0], places, np.repeat(times[part], forest.n_trees))
            np.add.at(at_nodes[1], places, np.repeat((numbers * times)[part], forest.n_trees))
        nodes = np.flatnonzero(forest.column == LEAF)
        for cells in forest.cell_rows[:, nodes]:
            np.add.at(counts, cells, at_nodes[0, nodes])
            np.add.at(sums, cells, at_nodes[1, nodes])
        return NumberCells(counts, sums, size)

    def _changed_widely(
        self, forest: Forest, leaves: NDArray[np.int32], numbers: Ints, times: Ints, size: int
    ) -> NumberCells:
        """Return the cells with rows added, and sums with two words, row by row: a rare case may be slower."""
        counts = self.counts.copy()
        sums = as_wide(self.sums)
        for part in row_pieces(len(leaves), forest.n_trees):
            often = np.repeat(times[part], forest.n_trees)
            added = np.repeat(numbers[part], forest.n_trees)
            for cells in forest.cell_rows:
                places = cells[leaves[part].ravel()].astype(np.int64)
                np.add.at(counts, places, often)
                _native.add_products(places, added, often, sums)
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
        """Whether there may be rows with these sums: a difference of rows that are not in it goes beyond a bound."""
        return self.size >= 0 and int(self.counts.min()) >= 0 and largest_size(self.sums) <= self.size

    def arrays(self) -> dict[str, Array]:
        """Return the cells as arrays, with sums in their narrowest form."""
        return {"counts": self.counts, "sums": self.sums, "size": np.array(words_of(self.size), np.uint64)}

    @classmethod
    def restored(cls, forest: Forest, stored: StoredArrays, n_rows: int) -> NumberCells:
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
        sizes = forest.cell_sizes.ravel()
        starts = np.cumsum(sizes) - sizes
        # Each count is at most n_rows < 2^40, so sums of 2^22 cells are exact; floats see larger ones.
        in_trees = np.add.reduceat(counts, starts)
        about = np.add.reduceat(counts.astype(np.float64), starts)
        if (in_trees != n_rows).any() or (about > 2.0 * n_rows).any():
            raise ValueError("its cells do not hold all rows")
        return cls(counts, sums, size)


def number_features(
    forest: Forest, leaves: NDArray[np.int32], is_out: Bools, cells: NumberCells, numbers: Ints
) -> Floats:
    """Return the features of rows: what their cells say without them, by kind, level and amount.

    Shapes
    ------
    leaves, is_out : (m, trees); numbers : (m,); returned : (m, `N_FEATURES`)
    """
    out = np.empty((len(leaves), N_FEATURES))
    amounts = np.array(AMOUNTS)

    def written(part: slice) -> None:
        _native.number_features(
            leaves=leaves[part],
            is_out=is_out[part].view(np.uint8),
            cells=forest.cell_rows,
            counts=cells.counts,
            sums=cells.sums,
            numbers=numbers[part],
            amounts=amounts,
            out=out[part],
        )

    in_threads(written, thread_pieces(len(leaves), _FEATURE_ROWS, each=1))
    return out


def fitted_weights(features: Floats, numbers: Ints, counts: Ints, ridge: float) -> Floats:
    """Return weights that are not negative, with the least squared error of rows that occur so often.

    The ridge is a share of the squared numbers.

    Shapes
    ------
    features : (m, `N_FEATURES`); numbers, counts : (m,); returned : (`N_FEATURES`,)
    """
    counts = np.maximum(counts >> max(int(counts.sum() // _COPIES).bit_length(), 0), 1)
    size = exact_sum(np.abs(numbers), np.ones(len(numbers), np.int64))
    scale = max(size / max(len(numbers), 1), 1.0)  # a whole number up to this division
    both = np.column_stack([features, numbers]) * (_UNIT / scale)
    whole = np.clip(np.rint(both), -_MOST, _MOST).astype(np.int64)
    # 2^38 a product, of at most 2^23 copies and one more for each of 2^17 rows: below 2^62. Whole numbers need no BLAS.
    products = (whole.T @ (whole * counts[:, None])).astype(np.float64)
    gram, wanted, squares = products[:-1, :-1], products[:-1, -1], float(products[-1, -1])
    gram[np.diag_indices(len(gram))] += ridge * squares
    return nonnegative_solution(gram, wanted)


def weighted(features: Floats, weights: Floats) -> Floats:
    """Return the weighted sum of features, added up in this order, which that of a matrix product would not be."""
    total = np.zeros(len(features))
    for column, weight in zip(features.T, weights.tolist(), strict=True):
        total += column * weight
    return total


def leaf_values(forest: Forest, cells: NumberCells, weights: Floats) -> Floats:
    """Return what each node says where it is a leaf: a share of the weighted sum, and of how far it is not shrunk.

    Shapes
    ------
    weights : (`N_FEATURES`,); returned : (nodes, 2)
    """
    found = np.zeros((len(forest.column), 2))
    for _, said, trusted in _level_values(forest, cells, weights):
        found[:, 0] += said
        found[:, 1] += trusted
    return found


def column_values(forest: Forest, cells: NumberCells, weights: Floats, owned: Floats) -> Floats:
    """Return how much of what each node says where it is a leaf belongs to each column of the table.

    What a cell says is divided by `cut_shares`; what a root says belongs to no column.

    Shapes
    ------
    weights : (`N_FEATURES`,); owned : (columns of codes, columns of the table); returned : (nodes, columns)
    """
    found = np.zeros((len(forest.column), owned.shape[1]))
    shares = cut_shares(forest, owned, np.arange(len(forest.column)))
    for level, said, _ in _level_values(forest, cells, weights):
        found += said[:, None] * shares[forest.cell_nodes[level]]
    return found


def _level_values(forest: Forest, cells: NumberCells, weights: Floats) -> Iterator[tuple[int, Floats, Floats]]:
    """Yield what the cells around each node say, level by level and amount by amount: its level, sum and count."""
    by_kind = weights.reshape(len(KINDS), len(LEVELS), len(AMOUNTS)) / (forest.n_trees // len(KINDS))
    kinds = np.repeat(forest.kinds, np.diff(forest.starts))
    all_sums = as_floats(cells.sums)
    for level, places in enumerate(forest.cell_rows):
        counts, sums = cells.counts[places].astype(float), all_sums[places]
        for amount, weight in zip(AMOUNTS, by_kind[:, level].T, strict=True):
            share = weight[kinds] / (counts + amount)
            yield level, share * sums, share * counts


def leaf_sums(forest: Forest, values: Floats) -> Callable[[NDArray[np.uint8]], Floats]:
    """Return the function from codes of rows to the sum of what their leaves say, tree by tree.

    It is made once for many calls, because that takes as long as there are nodes.

    Shapes
    ------
    values : (nodes, outputs); codes : (m, columns); returned : (m, outputs)
    """
    scores = forest.compiled.with_scores(np.arange(len(values), dtype=np.int32), values)

    def summed(codes: NDArray[np.uint8]) -> Floats:
        total = np.zeros((len(codes), values.shape[1]))
        scores.add(np.ascontiguousarray(codes), total)
        return total

    return summed
