"""The finite-sample rule for quantiles of errors: sort, and take the value at a rank."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def finite_sample_quantile(ratios: Sequence[float], level: Fraction) -> float:
    """Return the value below which one more ratio lies with at least this probability.

    The level is an exact fraction, so that no rank depends on rounding.
    """
    n = len(ratios)
    ascending = sorted(ratios)
    if level == Fraction(1, 2):  # the median
        lower = ascending[math.floor(Fraction(n - 1, 2))]
        upper = ascending[math.ceil(Fraction(n - 1, 2))]
        return (lower + upper) / 2
    if level < Fraction(1, 2):
        return -finite_sample_quantile([-ratio for ratio in ratios], 1 - level)
    rank = math.ceil((n + 1) * level)
    if rank <= n:
        return ascending[rank - 1]
    # Too few ratios for this side alone: an interval between both levels has to cover 2 level - 1,
    # and for that the sizes of both sides count.
    coverage = 2 * level - 1
    rank = math.ceil((n + 1) * coverage)
    if rank > n:
        return math.inf
    sizes = sorted(abs(ratio) for ratio in ratios)
    return sizes[rank - 1]
