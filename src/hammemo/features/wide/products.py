r"""How much squares of columns, and products of two columns, say of labels or of the target.

A label that follows :math:`x_1^2 + x_2^2`, or the sign of :math:`x_1 x_2`, does not show in the
mean of any column. It shows in the mean of a product :math:`p_i = z_{ij} z_{ik}`, where a square
is the product with j = k. Its strength is

.. math:: n R^2 = n \,
          \frac{\text{what labels, or a line through the target, explain of the spread of } p}
          {\text{the spread of } p}.

Of noise this is about a chi-squared variable, like the F statistic of
:mod:`hammemo.features.wide.choose_columns`. It is never above n, so few rows never choose a pair
out of hundreds of thousands by chance, as the long tail of F would.

Numbers are coarser here than for linear scores, and cut off at three standard deviations: a
single far row decides nothing, and sums of fourth powers are exact in float64, whatever the
order of rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hammemo.features.wide.scaling import UNIT

if TYPE_CHECKING:
    from collections.abc import Callable

    from hammemo._arrays.types import Floats, Ints

    SumProducts = Callable[[Any, Floats], Floats]
    """From rows and their weights to the weighted sums of products of columns."""
    Measure = Callable[[Any, SumProducts], Floats]
    """From rows, and how products are summed, to the strengths of the products."""

_COARSE_UNIT: Final = 32
"""Parts of a standard deviation."""
_MOST_COARSE: Final = 3 * _COARSE_UNIT
"""Fourth powers of it have 27 bits, so 2^26 of them have a sum below 2^53."""
_TARGET_UNIT: Final = 256
"""Parts of the spread of targets."""
_MOST_TARGET: Final = 16 * _TARGET_UNIT
"""Targets are cut off here. Times the square of a number it has 26 bits."""
_MOST_PAIR_COLUMNS: Final = 2_048
"""Columns up to which all pairs are looked at: a matrix of their products takes 32 MB."""
_MOST_PAIR_WORK: Final = 2**31
"""Rows times products of pairs, at most: about a second."""
_ROWS_OF_A_LABEL: Final = 16
"""Rows whose products take as long as the sums of one more label."""
_COLUMNS_AT_ONCE: Final = 1_024
"""Columns whose squares are measured together, so that little memory is needed."""


def can_measure_pairs(matrix: Any, n_labels: int) -> bool:
    """Return whether all pairs of columns can be looked at: few columns, and no sparse ones."""
    if not isinstance(matrix, np.ndarray):
        return False
    m: int = matrix.shape[0]
    q: int = matrix.shape[1]
    return q <= _MOST_PAIR_COLUMNS and (m + _ROWS_OF_A_LABEL * n_labels) * q**2 <= _MOST_PAIR_WORK


def measure_squares(matrix: Any, measure: Measure) -> Floats:
    """Return the strength of the square of each column: (q,)."""
    if not isinstance(matrix, np.ndarray):
        return measure(_make_coarse(matrix), _sum_squares)
    firsts = range(0, matrix.shape[1], _COLUMNS_AT_ONCE)
    blocks = [matrix[:, first : first + _COLUMNS_AT_ONCE] for first in firsts]
    return np.concatenate([measure(_make_coarse(block), _sum_squares) for block in blocks])


def measure_pairs(matrix: Any, measure: Measure) -> Floats:
    """Return the strength of the strongest product of each column with another one: (q,)."""
    strengths = measure(_make_coarse(matrix), _sum_pairs)
    np.fill_diagonal(strengths, 0.0)
    return np.asarray(strengths.max(axis=1, initial=0.0))


def measure_by_labels(coarse: Any, sum_products: SumProducts, labels: Ints, counts: Ints) -> Floats:
    """Return n R^2 of products between labels, whose ranks are given row by row."""
    weights = counts.astype(np.float64)
    sums: Any = 0.0
    explained: Any = 0.0
    for label in np.unique(labels).tolist():
        rows = np.flatnonzero(labels == label)
        label_sums = sum_products(coarse[rows], weights[rows])
        sums = sums + label_sums
        explained = explained + label_sums**2 / float(weights[rows].sum())
    n = float(weights.sum())
    spreads = sum_products(_square(coarse), weights) - sums**2 / n
    return n * _divide(explained - sums**2 / n, spreads)


def measure_by_numbers(
    coarse: Any, sum_products: SumProducts, numbers: Floats, counts: Ints
) -> Floats:
    """Return n R^2 of lines from products to targets, which have mean zero and spread one."""
    weights = counts.astype(np.float64)
    targets = np.clip(np.rint(numbers * _TARGET_UNIT), -_MOST_TARGET, _MOST_TARGET)
    n = float(weights.sum())
    target_sum = float(np.add.reduce(targets * weights))
    target_spread = float(np.add.reduce(targets**2 * weights)) - target_sum**2 / n
    sums = sum_products(coarse, weights)
    spreads = sum_products(_square(coarse), weights) - sums**2 / n
    covariances = sum_products(coarse, weights * targets) - sums * (target_sum / n)
    return n * _divide(covariances**2, spreads * target_spread)


def _make_coarse(matrix: Any) -> Any:
    """Return scaled numbers with fewer bits, as whole numbers; a sparse matrix stays sparse."""
    if isinstance(matrix, np.ndarray):
        return np.clip(np.rint(matrix * (_COARSE_UNIT / UNIT)), -_MOST_COARSE, _MOST_COARSE)
    coarse = matrix.copy()
    coarse.data = _make_coarse(matrix.data)
    return coarse


def _square(coarse: Any) -> Any:
    return coarse**2 if isinstance(coarse, np.ndarray) else coarse.power(2)


def _sum_squares(coarse: Any, weights: Floats) -> Floats:
    return np.asarray(_square(coarse).T @ weights)


def _sum_pairs(coarse: Any, weights: Floats) -> Floats:
    return np.asarray(coarse.T @ (coarse * weights[:, None]))


def _divide(explained: Floats, spreads: Floats) -> Floats:
    """Return shares of spreads that are explained.

    Products are whole numbers, so a spread below one is rounding.
    """
    return np.where(spreads >= 1.0, np.maximum(explained, 0.0) / np.maximum(spreads, 1.0), 0.0)
