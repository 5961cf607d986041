"""Single columns of data frames as arrays, where what NumPy makes of them is not what they hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hammemo._arrays.integers import object_array

if TYPE_CHECKING:
    from hammemo._arrays.types import Array

_PLAIN_ARROW: Final = ("int", "uint", "float", "double", "halffloat", "bool")
"""How the names of those types of Arrow begin whose columns without nulls NumPy reads as they are."""


def is_arrow(column: Any) -> bool:
    """Return whether a column, or labels, are an array of Arrow."""
    return hasattr(column, "to_pylist")


def read_arrow(column: Any) -> Array:
    """Return the values of an array of Arrow, None where one is missing.

    NumPy's way takes a null in a dictionary column for another category, and for nothing that can be told from a value.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from hammemo.tokens.frame_columns import read_arrow
    >>> read_arrow(pa.array(["a", None, "b"]).dictionary_encode()).tolist()
    ['a', None, 'b']
    """
    if not column.null_count and str(column.type).startswith(_PLAIN_ARROW):
        return np.asarray(column)
    return object_array(column.to_pylist())
