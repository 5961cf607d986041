"""Single columns of data frames as arrays, where what NumPy makes of them is not what they hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
from scipy import sparse

from hammemo._arrays.integers import object_array
from hammemo.tokens.orders import PlacedCategories

if TYPE_CHECKING:
    from hammemo._arrays.types import Array

_PLAIN_ARROW: Final = ("int", "uint", "float", "double", "halffloat", "bool")
"""How the names of some types of Arrow begin: of their columns without nulls, NumPy reads the
values as they are."""

_FEW_CATEGORIES: Final = 10
"""Values of an Enum of polars up to which it holds names. Enums are often made for names, and from
so few names, a model can tell all that their order could."""


def is_arrow(column: Any) -> bool:
    """Return whether a column, or labels, are an array of Arrow."""
    return hasattr(column, "to_pylist")


def read_arrow(column: Any) -> Array:
    """Return the values of an array of Arrow, None where one is missing.

    NumPy would take a null in a dictionary column for another category, and other nulls for values.

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


def read_placed_categories(column: Any) -> PlacedCategories | None:
    """Return a column of a frame as places in its order; None where its values have none.

    Categories of pandas and Arrow say whether they have an order. An Enum of polars has that of its
    values, which counts where they are many. Categories that are dates are dates, which have an
    order of their own.

    Examples
    --------
    >>> import pandas as pd
    >>> from hammemo.tokens.frame_columns import read_placed_categories
    >>> sizes = pd.Series(pd.Categorical(["L", None, "S"], ["S", "M", "L"], ordered=True))
    >>> read_placed_categories(sizes)
    PlacedCategories([ 2., nan,  0.])
    >>> read_placed_categories(sizes.cat.as_unordered()) is None
    True
    """
    if is_arrow(column):
        return _read_placed_arrow(column)
    dtype = column.dtype
    where = f"Column {column.name!r}"
    if type(dtype).__name__ == "CategoricalDtype":
        if not dtype.ordered or dtype.categories.dtype.kind == "M" or not len(dtype.categories):
            return None
        codes = column.cat.codes.to_numpy()
        return PlacedCategories.from_codes(codes, dtype.categories.tolist(), where)
    if type(dtype).__name__ == "Enum" and len(dtype.categories) > _FEW_CATEGORIES:
        codes = column.to_physical().cast(float).to_numpy()  # a missing value becomes NaN
        return PlacedCategories.from_codes(codes, dtype.categories.to_list(), where)
    return None


def _read_placed_arrow(column: Any) -> PlacedCategories | None:
    if not getattr(column.type, "ordered", False):
        return None
    if hasattr(column, "unify_dictionaries"):  # chunks may differ in their dictionaries
        column = column.unify_dictionaries().combine_chunks()
    categories = column.dictionary.to_pylist()
    if not categories or not all(isinstance(value, (str, int, float)) for value in categories):
        return None
    codes = column.indices.cast("float64").to_numpy(zero_copy_only=False)
    return PlacedCategories.from_codes(codes, categories, "A column")


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
