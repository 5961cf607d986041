r"""Trees of numbers: what their cells say of rows, and how much each kind of cell weighs.

The trees are those of the classifier (:mod:`hammemo.features.cells.forest`), grown by sums in place
of label counts. A site is a tree and a level. With n rows in a cell and the sum s of their numbers,
it says

.. math:: \frac{s}{n + a}

for two amounts a. All trees of a kind say the same kind of thing, so their means are the
features of the vote, which has one weight for each kind, level and amount. Weights are not
negative. They are fitted to rows that each tree has not grown by, and without the row itself.

The features are rounded to whole numbers before they are multiplied, so that the weights do not
depend on the processor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from hammemo import _native
from hammemo._arrays.threads import in_threads, thread_pieces
from hammemo._arrays.wide_sums import as_floats, exact_sum
from hammemo.features.cells.forest import KINDS, LEVELS, Forest
from hammemo.features.cells.nonnegative import solve_nonnegative

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from hammemo._arrays.types import Bools, Floats, Ints
    from hammemo.features.cells.number_cells import NumberCells

AMOUNTS: Final = (1.0, 10.0)
"""Rows of sum zero that are added to each cell: the more, the closer to zero is what it says."""

N_FEATURES: Final = len(KINDS) * len(LEVELS) * len(AMOUNTS)
"""One feature for each kind of trees, level and amount."""

FITTED_ROWS: Final = 2**17
"""Rows that weights are fitted to, at most."""

_FITTED_COPIES: Final = 2**23
"""Copies of these rows, about: of more, every 2^k-th counts."""

_UNIT: Final = 2.0**14
"""Parts of the scale that features are rounded to."""

_LARGEST: Final = 2**19
"""The largest of these whole numbers: 2^24 products of two of them have a sum below 2^63."""

_FEATURE_ROWS: Final = 500
"""Rows from which on a thread of its own pays."""


def compute_number_features(
    forest: Forest, leaves: NDArray[np.int32], is_out: Bools, *, cells: NumberCells, numbers: Ints
) -> Floats:
    """Return the features of rows: what their cells say without them, by kind, level and amount.

    Only trees that a row did not grow, `is_out`, say something about it.

    Shapes
    ------
    leaves, is_out : (m, trees); numbers : (m,); returned : (m, `N_FEATURES`)
    """
    features = np.empty((len(leaves), N_FEATURES))
    amounts = np.array(AMOUNTS)

    def compute_piece(piece: slice) -> None:
        _native.number_features(
            leaves=leaves[piece],
            is_out=np.ascontiguousarray(is_out[piece]).view(np.uint8),
            cells=forest.cell_rows,
            counts=cells.counts,
            sums=cells.sums,
            numbers=numbers[piece],
            amounts=amounts,
            out=features[piece],
        )

    in_threads(compute_piece, thread_pieces(len(leaves), _FEATURE_ROWS, each=1))
    return features


def fit_feature_weights(features: Floats, numbers: Ints, counts: Ints, ridge: float) -> Floats:
    r"""Return weights that are not negative, with the least squared error of rows.

    .. math:: \min_{w \ge 0} \sum_i n_i (y_i - w \cdot x_i)^2 + r \, \Bigl(\sum_i n_i y_i^2\Bigr)
              \, |w|^2

    Shapes
    ------
    features : (m, `N_FEATURES`); numbers, counts : (m,); returned : (`N_FEATURES`,)
    """
    spare_bits = int(counts.sum() // _FITTED_COPIES).bit_length()
    counts = np.maximum(counts >> max(spare_bits, 0), 1)

    # All in units of the mean absolute number, which is a whole number up to one division.
    size = exact_sum(np.abs(numbers), np.ones(len(numbers), np.int64))
    scale = max(size / max(len(numbers), 1), 1.0)
    columns = np.column_stack([features, numbers]) * (_UNIT / scale)
    units = np.clip(np.rint(columns), -_LARGEST, _LARGEST).astype(np.int64)

    # 2^38 a product, of at most 2^23 copies and one more for each of 2^17 rows: below 2^62. Whole
    # numbers need no BLAS.
    products = (units.T @ (units * counts[:, None])).astype(np.float64)
    gram = products[:-1, :-1]
    gram[np.diag_indices(len(gram))] += ridge * float(products[-1, -1])
    return solve_nonnegative(gram, products[:-1, -1])


def sum_weighted(features: Floats, weights: Floats) -> Floats:
    """Return the weighted sum of features, added in this order: a matrix product has its own."""
    total = np.zeros(len(features))
    for column, weight in zip(features.T, weights.tolist(), strict=True):
        total += column * weight
    return total


def compute_leaf_values(forest: Forest, cells: NumberCells, weights: Floats) -> Floats:
    """Return what each node says where it is a leaf.

    It is a share of the weighted sum, and of how far it is not shrunk.

    Shapes
    ------
    weights : (`N_FEATURES`,); returned : (nodes, 2)
    """
    values = np.zeros((len(forest.column), 2))
    for share in _iterate_shares(forest, cells, weights):
        values[:, 0] += share.sums
        values[:, 1] += share.counts
    return values


def compute_column_values(
    forest: Forest, cells: NumberCells, weights: Floats, code_shares: Floats
) -> Floats:
    """Return how much of what each node says where it is a leaf belongs to each column.

    What a cell says is divided by `Forest.share_nodes`; what a root says belongs to no column.

    Shapes
    ------
    weights : (`N_FEATURES`,); code_shares : (columns of bytes, columns of the table);
    returned : (nodes, columns of the table)
    """
    values = np.zeros((len(forest.column), code_shares.shape[1]))
    column_shares = forest.share_nodes(code_shares, np.arange(len(forest.column)))
    for share in _iterate_shares(forest, cells, weights):
        values += share.sums[:, None] * column_shares[forest.cell_nodes[share.level]]
    return values


class _Share(NamedTuple):
    """What the cells around nodes add to the answers of the trees, on one level.

    Parameters
    ----------
    level : int
    sums : ndarray of float64, shape (nodes,)
        Shares of the weighted sum.
    counts : ndarray of float64, shape (nodes,)
        The same for cells whose rows all have the number one.
    """

    level: int
    sums: Floats
    counts: Floats


def _iterate_shares(forest: Forest, cells: NumberCells, weights: Floats) -> Iterator[_Share]:
    """Yield what the cells around each node say, level by level and amount by amount."""
    trees_of_a_kind = forest.n_trees // len(KINDS)
    weights = weights.reshape(len(KINDS), len(LEVELS), len(AMOUNTS)) / trees_of_a_kind
    kinds = np.repeat(forest.kinds, np.diff(forest.starts))
    all_sums = as_floats(cells.sums)
    for level, places in enumerate(forest.cell_rows):
        counts = cells.counts[places].astype(float)
        sums = all_sums[places]
        for amount, kind_weights in zip(AMOUNTS, weights[:, level].T, strict=True):
            factors = kind_weights[kinds] / (counts + amount)
            yield _Share(level, factors * sums, factors * counts)


def make_leaf_sums(forest: Forest, values: Floats) -> Callable[[NDArray[np.uint8]], Floats]:
    """Return the function from codes of rows to the sum of what their leaves say, tree by tree.

    It is made once for many calls, because that takes as long as there are nodes.

    Shapes
    ------
    values : (nodes, outputs); codes : (m, columns); returned : (m, outputs)
    """
    scores = forest.compiled.with_scores(np.arange(len(values), dtype=np.int32), values)

    def sum_leaves(codes: NDArray[np.uint8]) -> Floats:
        total = np.zeros((len(codes), values.shape[1]))
        scores.add(np.ascontiguousarray(codes), total)
        return total

    return sum_leaves
