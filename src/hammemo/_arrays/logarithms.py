"""Logarithms with the same bytes on any x86-64 processor.

NumPy's depend on whether it has AVX-512. These are compiled
(``src/native/selection/portable_math.hpp``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from hammemo import _native

if TYPE_CHECKING:
    from hammemo._arrays.types import Array, Floats


def log(values: Array) -> Floats:
    """Return the logarithms of numbers above zero, of any shape.

    Examples
    --------
    >>> import numpy as np
    >>> from hammemo._arrays.logarithms import log
    >>> log(np.array([[1, 8]])) / log(np.array([2]))
    array([[0., 3.]])
    """
    return _of_each(_native.portable_log, values)


def log1p(values: Array) -> Floats:
    """Return the logarithms of 1 plus numbers from zero on, of any shape."""
    return _of_each(_native.portable_log1p, values)


def _of_each(function: Any, values: Array) -> Floats:
    numbers = np.ascontiguousarray(values, np.float64)
    logarithms = np.empty(numbers.shape)
    function(numbers.reshape(-1), logarithms.reshape(-1))
    return logarithms
