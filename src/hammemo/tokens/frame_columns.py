"""Single columns of data frames as arrays, where what NumPy makes of them is not what they hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
from scipy import sparse

from hammemo._arrays.integers import object_array

if TYPE_CHECKING:
    from hammemo._arrays.types import Array

_PLAIN_ARROW: Final = ("int", "uint", "float", "double", "halffloat", "bool")
"""How the names of those types of Arrow begin whose columns without nulls NumPy reads as they are.
"""

_FEW_CATEGORIES: Final = 10
"""Values of an Enum of polars up to which nothing is said of their order: it is often made for
names.
"""


def is_arrow(column: Any) -> bool:
    """Return whether a column, or labels, are an array of Arrow."""
    return hasattr(column, "to_pylist")


def read_arrow(column: Any) -> Array:
    """Return the values of an array of Arrow, None where one is missing.

    NumPy's way takes a null in a dictionary column for another category, and for nothing that can
    be told from a value.

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


def column_at(frame: Any, place: int) -> Any:
    """Return a column of a frame of pandas or polars, or of a table of Arrow."""
    if hasattr(frame, "iloc"):
        return frame.iloc[:, place]
    if hasattr(frame, "to_series"):
        return frame.to_series(place)
    return frame.column(place)


def advise_on_order(column: Any) -> str | None:
    """Return how a category whose values have an order becomes numbers, as advice.

    It is None for every other column.

    The order of an Enum of polars is that of its values. It counts where they are many: of a few
    names, a model can tell all that their order could.

    Examples
    --------
    >>> import pandas as pd
    >>> from hammemo.tokens.frame_columns import advise_on_order
    >>> sizes = pd.Series(pd.Categorical(["S", "L"], categories=["S", "M", "L"], ordered=True))
    >>> advise_on_order(sizes)
    'Pass its .cat.codes, where a missing value is -1, or .cat.as_unordered() if names are meant.'
    >>> advise_on_order(sizes.cat.as_unordered()) is None
    True
    """
    if is_arrow(column):
        if getattr(column.type, "ordered", False):
            return (
                "Pass its indices in the dictionary, or its values with cast(pa.string()) if names "
                "are meant."
            )
        return None
    dtype = column.dtype
    if getattr(dtype, "ordered", False):
        return (
            "Pass its .cat.codes, where a missing value is -1, or .cat.as_unordered() if names are "
            "meant."
        )
    if type(dtype).__name__ == "Enum" and len(dtype.categories) > _FEW_CATEGORIES:
        return "Pass its .to_physical(), or .cast(pl.String) if names are meant."
    return None


def refuse_other_tables(X: Any) -> None:
    """Refuse what holds rows but is no table yet, with the line that makes one of it."""
    if type(X).__name__ == "LazyFrame":
        raise TypeError("X is a polars LazyFrame, whose rows are not read yet: pass X.collect().")
    if isinstance(X, dict) and not sparse.issparse(X):  # SciPy's dictionary of keys is a dict
        raise TypeError(
            "X is a dict, and a table has rows: pass pd.DataFrame(X), or pl.DataFrame(X)."
        )
    if isinstance(X, (list, tuple)) and len(X) and isinstance(X[0], dict):
        raise TypeError(
            f"X is a {type(X).__name__} of dicts, whose keys say nothing of the order of columns: "
            "pass pd.DataFrame(X)."
        )
