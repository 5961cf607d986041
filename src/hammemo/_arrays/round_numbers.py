"""Round binary numbers between two others: places for cuts and knots that few single values move."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from hammemo._arrays.types import Floats


def round_numbers(below: Floats, upto: Floats) -> Floats:
    """Return, for each pair, the number above `below` and not above `upto` that the highest power of two divides.

    Only bits are compared, so the result is exact for any finite numbers, also where no number lies between the two.

    Examples
    --------
    >>> import numpy as np
    >>> from hammemo._arrays.round_numbers import round_numbers
    >>> round_numbers(np.array([41_210.0, 0.3, -7.0, -7.0]), np.array([41_377.0, 0.31, -5.2, 9.0]))
    array([ 4.121600e+04,  3.046875e-01, -6.000000e+00,  0.000000e+00])
    """
    is_negative = upto < 0  # then the sizes run the other way: the larger one is left out
    low = (np.where(is_negative, np.abs(upto), np.maximum(below, 0.0)) + 0.0).view(np.int64) - is_negative
    high = (np.where(is_negative, np.abs(below), np.abs(upto)) + 0.0).view(np.int64) - is_negative
    differing = low ^ high
    for shift in (1, 2, 4, 8, 16, 32):
        differing |= differing >> shift
    cleared = np.minimum(differing >> 1, 2**52 - 1)  # below the first bit that differs; the exponent stays
    found = (high & ~cleared).view(np.float64)
    return np.where(is_negative, -found, np.where(below < 0, 0.0, found))
