"""Round binary numbers between two others: cuts and knots that few single values move."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from hammemo._arrays.types import Floats


def round_numbers(below: Floats, upto: Floats) -> Floats:
    """Return, for each pair, the roundest number above `below` and not above `upto`.

    The highest power of two divides it. Only bits are compared, so the result is exact for any
    finite numbers, also where no number lies between the two.

    Examples
    --------
    >>> import numpy as np
    >>> from hammemo._arrays.round_numbers import round_numbers
    >>> round_numbers(np.array([41_210.0, 0.3, -7.0, -7.0]), np.array([41_377.0, 0.31, -5.2, 9.0]))
    array([ 4.121600e+04,  3.046875e-01, -6.000000e+00,  0.000000e+00])
    """
    is_negative = upto < 0  # then the sizes run the other way: the larger one is left out
    low_size = np.where(is_negative, np.abs(upto), np.maximum(below, 0.0)) + 0.0
    high_size = np.where(is_negative, np.abs(below), np.abs(upto)) + 0.0
    low = low_size.view(np.int64) - is_negative
    high = high_size.view(np.int64) - is_negative
    # all bits from the first one that differs on
    differing = low ^ high
    for shift in (1, 2, 4, 8, 16, 32):
        differing |= differing >> shift
    # the bits below the first one that differs are cleared; the exponent stays
    cleared = np.minimum(differing >> 1, 2**52 - 1)
    sizes = (high & ~cleared).view(np.float64)
    return np.where(is_negative, -sizes, np.where(below < 0, 0.0, sizes))
