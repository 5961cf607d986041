r"""Quantiles of errors that hold for one more row: the finite-sample rule of conformal prediction.

Of n known errors and the error of one more row, exchangeable with them, each is the r-th
smallest with the same probability :math:`1/(n+1)`. So the new error is at most the r-th smallest
known one with a probability of at least :math:`r/(n+1)`, and the smallest rank that makes a
level q sure is :math:`\lceil (n+1) q \rceil`. The plain quantile, rank :math:`\lceil n q
\rceil`, falls short: of ten errors, the largest is exceeded by one new error in eleven.

Where that rank exceeds n, no error is large enough for one end alone. An interval that holds the
share c has two ends with the levels :math:`(1 \pm c)/2`; both can be had from the sizes of
errors at the rank :math:`\lceil (n+1) c \rceil`, which needs half as many rows. Beyond one end's
rank that is always the largest size. Where that rank exceeds n, too, the end is infinite.

The errors of a model are out of bag, so they are not quite exchangeable with the error of a new
row: here ranks are exact, and what intervals cover is measured (``benchmarks/intervals.py``).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from hammemo._arrays.types import Floats

_DIGITS: Final = 9
"""Decimals of a rank that count: with 1 - .05 in place of .95, 20 rows times it is above 19."""


def take_quantiles(ratios: Floats, levels: Floats) -> Floats:
    """Return the values that one more ratio lies below with these probabilities.

    The ratios are in ascending order. A level above one half is rounded up to a rank, one below
    it down; the median lies between the two.

    Examples
    --------
    >>> import numpy as np
    >>> from hammemo.features.cells.finite_sample import take_quantiles
    >>> levels = np.array([0.2, 0.5, 0.8, 0.9, 0.99])
    >>> take_quantiles(np.array([-3.0, 0.0, 1.0, 2.0]), levels).tolist()
    [-3.0, 0.5, 2.0, 3.0, inf]
    """
    return np.array([_take_quantile(ratios, level) for level in levels.tolist()])


def largest_coverage(n: int) -> float:
    """Return the share of targets up to which an interval has finite ends, with n known errors."""
    return n / (n + 1)


def _take_quantile(ratios: Floats, level: float) -> float:
    n = len(ratios)
    if level == 0.5:
        return float(ratios[(n - 1) // 2] + ratios[n // 2]) / 2
    if level < 0.5:
        return -_take_quantile(-ratios[::-1], 1 - level)
    rank = _round_up((n + 1) * level)
    if rank <= n:
        return float(ratios[rank - 1])
    rank = _round_up((n + 1) * (2 * level - 1))
    return float(np.abs(ratios).max()) if rank <= n else math.inf


def _round_up(rank: float) -> int:
    return math.ceil(round(rank, _DIGITS))
