"""From a table as users have it to its columns, each an array with a type of its own.

Tables are NumPy arrays, SciPy's sparse matrices, lists of rows, data frames of pandas or polars,
and tables of Arrow. What a column means is decided in :mod:`hammemo.tokens.column_evidence`, and
tokens are made of its values in :mod:`hammemo.tokens.column_values`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
from scipy import sparse

from hammemo._arrays.integers import object_array
from hammemo.tokens.frame_columns import column_at, read_placed_categories, refuse_other_tables
from hammemo.tokens.packed_rows import MOST_PLAIN_COLUMNS
from hammemo.tokens.zones import AwareTimes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hammemo._arrays.types import Array, Floats

_NUMBER_TYPES_OF_OTHERS: Final = ("int", "uint", "float", "double", "halffloat", "decimal")
"""How the names of the number types of polars and Arrow begin, in lower case."""

_EXACT_FLOATS: Final = 2**53
"""Below this, a float holds every whole number exactly."""


def quote_column(j: int, names: Sequence[Any] | Array | None) -> str:
    """Return a column as messages name it, at the start of a sentence.

    Examples
    --------
    >>> from hammemo.tokens.table_columns import quote_column
    >>> quote_column(1, ["age", "job"]), quote_column(1, None)
    ("Column 'job'", 'Column 1')
    """
    return f"Column {j}" if names is None else f"Column {names[j]!r}"


def dense(X: Any) -> Any:
    """Return a sparse matrix as an array, and everything else as it is.

    A sparse matrix of many columns is refused: as an array it could fill memory.
    """
    if not sparse.issparse(X):
        return X
    m, n = X.shape  # type: ignore[attr-defined]
    if n > MOST_PLAIN_COLUMNS:
        raise ValueError(
            f"X is a sparse matrix of {m:,} by {n:,}, and this needs every value of every row. "
            "Models with kernel='auto' and numeric='auto' learn and answer sparse rows "
            f"as they are; for anything else choose at most {MOST_PLAIN_COLUMNS} columns, "
            "or pass X.toarray() where there is memory for it."
        )
    return X.toarray()  # type: ignore[attr-defined]


def table_columns(X: Any) -> list[Array] | None:
    """Return the columns of a table as arrays; None for what is no table.

    Columns of different types keep their types, and values of object columns stay as they are.

    Examples
    --------
    >>> from hammemo.tokens.table_columns import table_columns
    >>> [column.tolist() for column in table_columns([["a", 1], ["b", None]])]
    [['a', 'b'], [1, None]]
    >>> table_columns(["a", "b"]) is None
    True
    """
    refuse_other_tables(X)
    X = dense(X)
    if hasattr(X, "columns") and hasattr(X, "shape") and len(X.shape) == 2:
        return _frame_columns(X)
    array = X if isinstance(X, np.ndarray) else _object_table(X)
    if array is None or array.ndim != 2:
        return None
    return list(array.T)


def _frame_columns(frame: Any) -> list[Array]:
    if not hasattr(frame, "iloc"):
        return [_other_column(column_at(frame, j)) for j in range(frame.shape[1])]
    if frame.shape[1] > max(8, len(frame) // 8):
        return _wide_columns(frame)
    # `items` is faster than `iloc` for each column
    return [_pandas_column(column) for _, column in frame.items()]  # noqa: PERF102


def _object_table(X: Any) -> Array | None:
    """Return rows as an array of objects, each value as it is; None for what has no rows."""
    if not isinstance(X, (list, tuple)):
        return np.asarray(X) if hasattr(X, "__array__") else None
    if not len(X) or not all(isinstance(row, (list, tuple, np.ndarray)) for row in X):
        return None
    width = len(X[0])
    if any(len(row) != width for row in X):
        return None
    table = np.empty((len(X), width), object)
    for i, row in enumerate(X):
        table[i] = object_array(array_values(row) if isinstance(row, np.ndarray) else row)
    return table


def array_values(array: Array) -> list[Any]:
    """Return the values of an array as a list.

    NumPy's `tolist` makes integers of dates and durations in nanoseconds; here they stay scalars.
    """
    return list(array) if array.dtype.kind in "mM" else array.tolist()


def category_places(X: Any) -> set[int]:
    """Return which columns of a frame of pandas are categories."""
    return {
        j
        for j, dtype in enumerate(getattr(X, "dtypes", ()))
        if type(dtype).__name__ == "CategoricalDtype"
    }


def _wide_columns(frame: Any) -> list[Array]:
    """Return the columns of a frame of pandas with few rows: all numbers of one type at once.

    To read a single column takes 15 µs, however short it is.
    """
    dtypes: list[Any] = frame.dtypes.tolist()
    columns: dict[int, Array] = {}
    number_types = {
        dtype for dtype in dtypes if isinstance(dtype, np.dtype) and dtype.kind in "iuf"
    }
    for number_type in number_types:
        places = [j for j, dtype in enumerate(dtypes) if dtype == number_type]
        numbers = frame if len(places) == len(dtypes) else frame.iloc[:, places]
        columns.update(zip(places, numbers.to_numpy().T, strict=True))
    for j in range(len(dtypes)):
        if j not in columns:
            columns[j] = _pandas_column(frame.iloc[:, j])
    return [columns[j] for j in range(len(dtypes))]


def _pandas_column(column: Any) -> Array:
    dtype = column.dtype
    if isinstance(dtype, np.dtype):
        return column.to_numpy()  # type: ignore[no-any-return]
    if type(dtype).__name__ == "CategoricalDtype":
        placed = read_placed_categories(column)
        return object_array(column.astype(object).tolist()) if placed is None else placed
    if type(dtype).__name__ == "DatetimeTZDtype":
        moments = column.dt.tz_convert("UTC").dt.tz_localize(None).to_numpy()
        return AwareTimes.from_moments(moments, dtype.tz)
    if getattr(dtype, "kind", "O") in "iuf":  # Int64, Float64 and those of Arrow
        floats = column.to_numpy(dtype=np.float64, na_value=np.nan)
        return _floats_or_values(floats, column)
    return np.asarray(column)


def _other_column(column: Any) -> Array:
    """Return a column of polars or of Arrow."""
    placed = read_placed_categories(column)
    if placed is not None:
        return placed
    type_name = str(getattr(column, "dtype", getattr(column, "type", ""))).lower()
    values = column.to_list() if hasattr(column, "to_list") else column.to_pylist()
    if type_name.startswith(_NUMBER_TYPES_OF_OTHERS):
        floats = np.array([np.nan if value is None else float(value) for value in values])
        return _floats_or_values(floats, values)
    return object_array(values)


def _floats_or_values(floats: Floats, values: Any) -> Array:
    """Return the floats of a column of numbers, or its values where floats may be rounded.

    A whole number from 2^53 on may be an id, and ids must stay apart.
    """
    may_be_rounded = bool((np.abs(floats) >= _EXACT_FLOATS).any())
    return object_array(list(values)) if may_be_rounded else floats
