"""Wide tables of numbers as users have them, read at once and packed; sparse ones stay sparse.

A table is wide if it has more than `MOST_PLAIN_COLUMNS` columns. It is packed if all of its columns
are numbers by their types, and the kernel is automatic, so that no kernel names single positions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
from scipy import sparse

from hammemo.tokens.column_kinds import NUMBERS
from hammemo.tokens.column_values import read_ordered
from hammemo.tokens.packed_rows import MOST_COLUMNS, MOST_PLAIN_COLUMNS, pack_rows
from hammemo.tokens.table_columns import quote_column, table_columns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hammemo._arrays.types import Array

_NUMBER_TYPES: Final = "iufb"
_MOST_DENSE_VALUES: Final = 2**26
"""Values of a frame with sparse columns whose common value is not zero, which are many anyway."""


def is_wide_table(X: Any) -> bool:
    """Return whether X has two dimensions and too many columns for a plain table."""
    shape = getattr(X, "shape", None)
    if shape is None:
        if not isinstance(X, (list, tuple)) or not X:
            return False
        return isinstance(X[0], (list, tuple, np.ndarray)) and len(X[0]) > MOST_PLAIN_COLUMNS
    return len(shape) == 2 and shape[1] > MOST_PLAIN_COLUMNS


def as_numbers_by_type(X: Any) -> Any:
    """Return a wide table all of whose columns have types of numbers as a matrix; else None."""
    if sparse.issparse(X):
        return X if X.dtype.kind in _NUMBER_TYPES else None  # type: ignore[attr-defined]
    if hasattr(X, "iloc"):
        return _frame_as_numbers(X)
    if hasattr(X, "columns"):
        columns = table_columns(X)
        if columns is None or any(column.dtype.kind not in _NUMBER_TYPES for column in columns):
            return None
        return np.column_stack([column.astype(np.float64) for column in columns])
    array = X if isinstance(X, np.ndarray) else np.asarray(X)
    is_numbers = array.ndim == 2 and array.dtype.kind in _NUMBER_TYPES and array.dtype.itemsize <= 8
    return array if is_numbers else None


def _frame_as_numbers(frame: Any) -> Any:
    """Return a frame of pandas whose columns are all numbers, sparse if all of them are."""
    types = frame.dtypes.tolist()
    if any(getattr(dtype, "kind", "O") not in _NUMBER_TYPES for dtype in types):
        return None
    if not all(type(dtype).__name__ == "SparseDtype" for dtype in types):
        return frame.to_numpy(dtype=np.float64, na_value=np.nan)
    if all(dtype.fill_value == 0 for dtype in types):
        return frame.sparse.to_coo()
    if frame.shape[0] * frame.shape[1] > _MOST_DENSE_VALUES:
        raise ValueError(
            f"X has sparse columns whose most common value is not zero, and {frame.shape[0]:,} "
            f"by {frame.shape[1]:,} values are too many to write them all out. "
            "Use fill_value=0, or fill in missing values first."
        )
    return frame.to_numpy(dtype=np.float64)


def pack_table(X: Any, missing: str, names: Sequence[Any] | None) -> Array:
    """Return a table packed, one token for each row; refuse a value that is no number."""
    numbers = as_numbers_by_type(X)
    if numbers is None:
        numbers = _columns_as_numbers(X, names)
    if numbers.shape[1] > MOST_COLUMNS:
        raise ValueError(
            f"X has {numbers.shape[1]:,} columns, and a model takes at most {MOST_COLUMNS:,}: "
            "leave out the rarest ones."
        )
    if missing == "refuse":
        _refuse_missing(numbers, names)
    return pack_rows(numbers)


def _columns_as_numbers(X: Any, names: Sequence[Any] | None) -> Array:
    """Return a table as an array of floats; refuse what is neither a number nor missing."""
    numbers = []
    for j, column in enumerate(table_columns(X) or []):
        where = quote_column(j, names)
        values = read_ordered(column, NUMBERS, where)
        for value in column[np.isnan(values)].tolist():
            if isinstance(value, str):
                raise ValueError(
                    f"{where} holds numbers, and {value!r} is not one. "
                    "Convert it, or leave the column out."
                )
        numbers.append(values)
    return np.column_stack(numbers) if numbers else np.empty((0, 0))


def _refuse_missing(numbers: Any, names: Sequence[Any] | None) -> None:
    if sparse.issparse(numbers):
        entries: Any = numbers.tocoo()  # type: ignore[attr-defined]
        places = entries.col[np.isnan(entries.data.astype(np.float64))]
    else:
        places = np.flatnonzero(np.isnan(numbers.astype(np.float64)).any(axis=0))
    if len(places):
        where = quote_column(int(places.min()), names)
        raise ValueError(
            f"{where} has missing values, and missing='refuse' was given: use missing='token'."
        )
