"""What each column of a table holds, and its values as tokens: names, numbers or dates.

- Strings, booleans, intervals, periods and the categories of pandas are names, but for categories
  that are dates.
- Floats and whole numbers are numbers. Where the kernel is given, whole numbers of lists and arrays
  are names. In lists and object arrays a column with any string holds names, one with any fraction
  holds numbers.
- Dates and times are dates, durations are numbers (of seconds).

A number is a token like any other: what makes it a number is that the layout cuts it into cells
(:mod:`hammemo.features.cells`). A date is the token of its microseconds since 1970, on the clock of
its column's zone (:mod:`hammemo.tokens.zones`). A missing number is no token here; an infinite one
is the largest number that there is.
"""

from __future__ import annotations

import warnings
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from scipy import sparse

from hammemo._arrays.integers import distinct_numbers, object_array
from hammemo.tokens.column_kinds import DATES, NAMES, NUMBERS, ORDERED_CATEGORIES
from hammemo.tokens.frame_columns import column_at, read_placed_categories, refuse_other_tables
from hammemo.tokens.missing import MISSING, fill_missing, is_missing
from hammemo.tokens.orders import PlacedCategories, find_places
from hammemo.tokens.packed_rows import MOST_PLAIN_COLUMNS
from hammemo.tokens.vocabulary import NO_TOKEN, as_token
from hammemo.tokens.zones import (
    UTC_NAME,
    AwareTimes,
    ReadTimes,
    choose_zone,
    is_offset,
    name_zone,
    read_clock,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hammemo._arrays.types import Array, Bools, Floats
    from hammemo.tokens.column_kinds import ColumnKind, ColumnKinds
    from hammemo.tokens.scales import Scales


LARGEST: Final = float(np.finfo(np.float64).max)
"""What an infinite number becomes."""

_COARSE: Final = ("Y", "M", "W", "D", "h", "m", "s", "ms")
"""The units of NumPy in which a date or a duration may be too far away for microseconds."""

_FEW_ROWS: Final = 100
"""Rows of a question up to which columns of numbers are read at once: calls then take more time
than values.
"""
_MANY_ROWS: Final = 50
_DISTINCT_SHARE: Final = 0.9


def dense(X: Any) -> Any:
    """Return a sparse matrix as an array, and everything else as it is.

    A matrix of many columns is refused.
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

    Each has a type of its own.

    Values of object columns are as they were.
    """
    refuse_other_tables(X)
    X = dense(X)
    if hasattr(X, "columns") and hasattr(X, "shape") and len(X.shape) == 2:
        if hasattr(X, "iloc"):
            if X.shape[1] > max(8, len(X) // 8):
                return _wide_columns(X)
            # of a frame, `items` is faster than `iloc` for each
            return [_pandas_column(column) for _, column in X.items()]  # noqa: PERF102
        return [_other_column(column_at(X, j)) for j in range(X.shape[1])]
    array = X if isinstance(X, np.ndarray) else _object_table(X)
    if array is None or array.ndim != 2:
        return None
    return list(array.T)


def _object_table(X: Any) -> Array | None:
    if not isinstance(X, (list, tuple)) or not len(X):
        return (
            None if isinstance(X, (list, tuple)) or not hasattr(X, "__array__") else np.asarray(X)
        )
    if not all(isinstance(row, (list, tuple, np.ndarray)) and len(row) == len(X[0]) for row in X):
        return None
    made = np.empty((len(X), len(X[0])), object)
    for i, row in enumerate(X):
        made[i] = object_array(array_values(row) if isinstance(row, np.ndarray) else row)
    return made


def array_values(array: Array) -> list[Any]:
    """Return the values of an array.

    NumPy's `tolist` makes integers of dates and durations in nanoseconds.
    """
    return list(array) if array.dtype.kind in "mM" else array.tolist()


def category_places(X: Any) -> set[int]:
    """Return which columns of a frame of pandas are categories."""
    return {
        j
        for j, dtype in enumerate(getattr(X, "dtypes", ()))
        if type(dtype).__name__ == "CategoricalDtype"
    }


def _wide_columns(X: Any) -> list[Array]:
    """Return the columns of a wide frame of pandas: numbers of one type at once.

    Each access takes 15 µs.
    """
    types: list[Any] = X.dtypes.tolist()
    found: dict[int, Array] = {}
    for dtype in {dtype for dtype in types if isinstance(dtype, np.dtype) and dtype.kind in "iuf"}:
        places = [j for j, own in enumerate(types) if own == dtype]
        of_type = X if len(places) == len(types) else X.iloc[:, places]
        found.update(zip(places, of_type.to_numpy().T, strict=True))
    return [found[j] if j in found else _pandas_column(X.iloc[:, j]) for j in range(len(types))]


def _pandas_column(column: Any) -> Array:
    dtype = column.dtype
    if isinstance(dtype, np.dtype):
        return column.to_numpy()  # type: ignore[no-any-return]
    if type(dtype).__name__ == "CategoricalDtype":
        placed = read_placed_categories(column)
        return object_array(column.astype(object).tolist()) if placed is None else placed
    if type(dtype).__name__ == "DatetimeTZDtype":
        return AwareTimes.from_moments(
            column.dt.tz_convert("UTC").dt.tz_localize(None).to_numpy(), dtype.tz
        )
    if getattr(dtype, "kind", "O") in "iuf":  # Int64, Float64 and those of Arrow
        return _as_floats(column.to_numpy(dtype=np.float64, na_value=np.nan), column)
    return np.asarray(column)


def _other_column(column: Any) -> Array:
    """Return a column of polars or of Arrow."""
    placed = read_placed_categories(column)
    if placed is not None:
        return placed
    name = str(getattr(column, "dtype", getattr(column, "type", ""))).lower()
    values = column.to_list() if hasattr(column, "to_list") else column.to_pylist()
    if name.startswith(("int", "uint", "float", "double", "halffloat", "decimal")):
        return _as_floats(
            np.array([np.nan if value is None else float(value) for value in values]), values
        )
    return object_array(values)


def _as_floats(floats: Floats, values: Any) -> Array:
    """Return the floats of a column, or its values where a float may not hold one.

    A whole number from 2^53 on may be a name.
    """
    return object_array(list(values)) if bool((np.abs(floats) >= 2**53).any()) else floats


def is_number(value: Any) -> bool:
    """Return whether a value is a number; truth values are none."""
    return isinstance(
        value, (int, float, np.integer, np.floating, Decimal, Fraction)
    ) and not isinstance(value, bool)


def is_own_token(value: Any, kind: ColumnKind) -> bool:
    """Return whether a value of a column of this kind is its own token, seen at a glance."""
    if kind is NUMBERS:
        return type(value) in (float, int) and abs(value) < 2**53  # not so NaN
    return kind is NAMES and type(value) is str


def warn_of_ids(
    columns: list[Array], kinds: ColumnKinds, names: Sequence[Any] | None, *, has_types: bool
) -> bool:
    """Warn of whole numbers that nearly all differ.

    As names they match nothing, and as numbers they may be ids.

    Return whether there was a warning.
    """
    for j, (column, kind) in enumerate(zip(columns, kinds, strict=True)):
        if column.dtype.kind not in "iu" or len(column) < _MANY_ROWS:
            continue
        if int(column.max()) - int(column.min()) + 1 < _DISTINCT_SHARE * len(
            column
        ):  # there are not so many values
            continue
        n_distinct = len(distinct_numbers(column))
        if n_distinct < _DISTINCT_SHARE * len(column):
            continue
        where = f"Column {names[j]!r}" if names is not None else f"Column {j}"
        if kind is NAMES:
            advice = (
                "its values are read as names, so almost none of them will match later: numeric="
            )
            advice += "[…] makes it a number, and so does a data frame; "
            advice += "numeric='none' says that names are meant."
        elif has_types and n_distinct == len(column):
            advice = "if these are ids, leave the column out."
        else:
            continue
        warnings.warn(
            f"{where} holds whole numbers that nearly all differ; {advice}",
            UserWarning,
            stacklevel=2,
        )
        return True
    return False


def tokens_of(
    columns: list[Array],
    kinds: ColumnKinds,
    missing: str,
    names: Sequence[Any] | None,
    *,
    learning: bool,
    scales: Scales | None = None,
) -> Array:
    """Return the tokens of a table: floats where all columns are numbers, else objects.

    A value that is no number in a column of numbers is refused in what is learnt, and missing in a
    question. `scales` are those of the columns that have one; by default each column of dates has
    the zone that it came in.
    """
    plain = {} if learning or missing == "refuse" else _few_numbers(columns, kinds)
    if plain and len(plain) == len(columns):
        return np.stack(list(plain.values()), axis=1)
    found = []
    for j, (column, kind) in enumerate(zip(columns, kinds, strict=True)):
        where = f"Column {names[j]!r}" if names is not None else f"Column {j}"
        if j in plain:
            found.append(plain[j])
            continue
        column = _without_order(column, kind)
        if kind is NAMES:
            found.append(fill_missing(_named(column, where, learning=learning), missing))
            _check_names(found[-1], where)
            continue
        scale = None if scales is None else scales.get(j)
        if kind is DATES:
            times = read_times(column, where)
            zone = choose_zone(times.zones) if scales is None else scale
            assert not isinstance(zone, tuple)
            values = read_clock(times, zone, where, learning=learning)
        elif kind is ORDERED_CATEGORIES:
            values = _read_places(column, scale, where, learning=learning)
        else:
            values = _numbers(column, where)
        lacking = np.isnan(values)
        if missing == "refuse" and lacking.any():
            raise ValueError(
                f"{where} has missing values, and missing='refuse' was given: use missing='token'."
            )
        if learning and column.dtype.kind not in kind.dtype_codes:
            _refuse_others(column, lacking, kind, where)
        tokens = _number_tokens(values, lacking)
        if learning:
            found.append(with_large_numbers(tokens, column, lacking, where))
        else:
            found.append(_with_others(tokens, column, lacking))
    if all(tokens.dtype.kind == "f" for tokens in found):
        return np.column_stack(found)
    table = np.empty((len(columns[0]), len(columns)), object)
    for j, values in enumerate(found):
        table[:, j] = values
    return table


def _without_order(column: Array, kind: ColumnKind) -> Array:
    """Return the values of a column of categories whose order the model does not use."""
    if isinstance(column, PlacedCategories) and kind is not ORDERED_CATEGORIES:
        return column.as_values()
    return column


def _read_places(column: Array, order: Any, where: str, *, learning: bool) -> Floats:
    """Return places in the order of a model or, where no model says one, in that of the values."""
    if order is None and isinstance(column, PlacedCategories):
        order = column.order
    if not isinstance(order, tuple):
        raise ValueError(f"{where} holds ordered categories, and their order is not known.")
    return find_places(column, order, where, learning=learning)


def _number_tokens(values: Floats, lacking: Bools) -> Floats:
    """Return numbers as tokens: finite, and with one zero; `NO_TOKEN` for what is missing."""
    values = np.where(
        values == NO_TOKEN, np.nextafter(NO_TOKEN, 0.0), values
    )  # this number stands for none
    return np.asarray(np.where(lacking, float(NO_TOKEN), np.clip(values, -LARGEST, LARGEST) + 0.0))


def _few_numbers(columns: list[Array], kinds: ColumnKinds) -> dict[int, Floats]:
    """Return the tokens of columns of numbers, for a question of few rows.

    They are made at once, because each call takes microseconds.

    These are columns whose values are numbers or missing by their type.
    """
    are_few = bool(columns) and len(columns[0]) <= _FEW_ROWS
    places = [
        j
        for j, (column, kind) in enumerate(zip(columns, kinds, strict=True))
        if are_few and kind is NUMBERS and column.dtype.kind in "iuf" and column.dtype.itemsize <= 8
    ]
    if not places:
        return {}
    values = np.array([columns[j] for j in places], np.float64)
    lacking = np.isnan(values)
    for row, j in enumerate(places):
        if columns[j].dtype.kind == "i":
            lacking[row] = columns[j] == NO_TOKEN
    return dict(zip(places, _number_tokens(values, lacking), strict=True))


def read_ordered(column: Array, kind: ColumnKind, where: str) -> Floats:
    """Return a column of numbers or of dates as floats, NaN for what is missing or of another kind.

    Times with a zone are moments in UTC here.

    Examples
    --------
    >>> import numpy as np
    >>> from hammemo.tokens.column_kinds import ColumnKind
    >>> from hammemo.tokens.column_values import read_ordered
    >>> read_ordered(np.array([2, None, "two"], object), ColumnKind.NUMBERS, "Column 0").tolist()
    [2.0, nan, nan]
    """
    return read_times(column, where).microseconds if kind is DATES else _numbers(column, where)


def _named(column: Array, where: str, *, learning: bool) -> Array:
    """Return a column of names as objects.

    Dates are refused in what is learned, and match nothing in a question.
    """
    if column.dtype.kind not in "mM":
        return column.astype(object)
    if np.isnat(column).all():
        return np.full(len(column), None, object)
    if learning:
        raise ValueError(
            f"{where} was learnt as names and now holds dates: convert it with astype(str)."
        )
    warnings.warn(
        f"{where} was learnt as names and is queried with dates: they match nothing. "
        "Convert it with astype(str).",
        UserWarning,
        stacklevel=2,
    )
    return object_array(None if np.isnat(value) else str(value) for value in column)


def with_large_numbers(
    tokens: Array, column: Array, lacking: Bools, where: str = "A column"
) -> Array:
    """Return the floats of a column with whole numbers from 2^53 on as they are.

    Ids must stay apart.

    Examples
    --------
    >>> import numpy as np
    >>> from hammemo.tokens.column_values import with_large_numbers
    >>> ids = np.array([1, 2**53 + 1])
    >>> with_large_numbers(ids.astype(float), ids, np.zeros(2, bool)).tolist()
    [1.0, 9007199254740993]
    """
    if column.dtype.kind not in "iuO":
        return tokens
    places = np.flatnonzero(~lacking & (np.abs(tokens) >= 2**53))
    if not len(places):
        return tokens
    mixed = tokens.astype(object)
    for place in places:
        mixed[place] = _token_of_large(column[place], tokens[place], where)
    return mixed


def _token_of_large(value: Any, number: float, where: str) -> int | float:
    """Return a number from 2^53 on as a token, given its float.

    It is refused where its neighbor has the same float.
    """
    # An infinite number has become the largest one, and a Decimal beyond it would fill memory.
    if isinstance(value, (Decimal, Fraction)) and abs(number) < LARGEST and value == int(value):
        value = int(value)
    if not isinstance(value, (int, np.integer)):
        return float(number)
    whole = int(value)
    if -(2**63) < whole < 2**63:
        return whole
    if abs(number) < LARGEST and int(number) != whole:
        raise ValueError(
            f"{where} holds {whole}: whole numbers from 2^63 on have no exact form here, "
            "and neighbors would become one number. Use astype(str) if they are ids, "
            "or astype(float) if they are measurements."
        )
    return float(number)


def _with_others(tokens: Array, column: Array, lacking: Bools) -> Array:
    """Return tokens with texts for what a question has in place of numbers.

    Such a text counts as missing, with a warning.
    """
    others = dict(_present(column, lacking))
    if not others:
        return tokens
    mixed = tokens.astype(object)
    for i, value in others.items():
        mixed[i] = str(value)
    return mixed


def _present(column: Array, lacking: Bools) -> Iterator[tuple[int, Any]]:
    """Yield the place and the value of what lacks a number, but is not missing."""
    places = np.flatnonzero(lacking & ~np.isnan(column) if column.dtype.kind == "f" else lacking)
    others = column[places]
    if isinstance(others, PlacedCategories):  # of another order than the model's
        others = others.as_values()
    for i, value in zip(places.tolist(), array_values(others), strict=True):
        if not is_missing(value) and not (
            type(value) in (int, str) and value in (NO_TOKEN, MISSING)
        ):
            yield i, value


def _refuse_others(column: Array, lacking: Bools, kind: ColumnKind, where: str) -> None:
    for _, value in _present(column, lacking):
        raise ValueError(
            f"{where} holds {kind.word}, and {value!r} is not one. Convert it, "
            "or fit a new model with numeric='none' or a list of the columns that are numbers."
        )


def _check_names(values: Array, where: str) -> None:
    """Refuse a value that is no token, and say in which column."""
    listed = values.tolist()
    if set(map(type, listed)) <= {str, int, bool}:
        return
    try:
        for value in listed:
            as_token(value)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{where}: {error}") from None


def _numbers(column: Array, where: str) -> Floats:
    """Return a column as floats, NaN for what is missing or no number."""
    if column.dtype.kind in "iufb":
        if column.dtype.itemsize > 8:
            raise TypeError(f"{where} is of {column.dtype}: convert it to float64.")
        numbers = column.astype(np.float64)
        return (
            np.where(column == NO_TOKEN, np.nan, numbers) if column.dtype.kind == "i" else numbers
        )
    if column.dtype.kind == "m":
        return _microseconds(column, where) / 1e6
    return np.fromiter(map(number_of, array_values(column)), np.float64, len(column))


def number_of(value: Any) -> float:
    """Return a value as a float, NaN for what is missing or no number."""
    if is_missing(value) or (type(value) is int and value == NO_TOKEN):
        return float("nan")
    if isinstance(value, timedelta):
        return value // timedelta(microseconds=1) / 1e6  # as of a column with a type
    if isinstance(value, np.timedelta64):
        return float(_microseconds(np.array([value]), "A column")[0] / 1e6)
    if is_number(value) or isinstance(value, (bool, np.bool_)):
        try:
            return float(value)
        except OverflowError:
            return LARGEST if value > 0 else -LARGEST
    return float("nan")


def read_times(column: Array, where: str) -> ReadTimes:
    """Return the dates of a column, NaN for what is missing or no date.

    Examples
    --------
    >>> import numpy as np
    >>> from hammemo.tokens.column_values import read_times
    >>> texts = np.array(["1970-01-01T00:00:01", "1970-01-01T01:00:00+01:00", None], object)
    >>> times = read_times(texts, "Column 0")
    >>> times.microseconds.tolist(), times.is_aware.tolist(), times.zones
    ([1000000.0, 0.0, nan], [False, True, False], frozenset({'UTC'}))
    """
    if column.dtype.kind == "M":
        zone = zone_of_column(column)
        zones = frozenset() if zone is None else frozenset({zone})
        return ReadTimes(
            _microseconds(np.asarray(column), where), np.full(len(column), zone is not None), zones
        )
    moments = [_read_moment(value, where) for value in array_values(column)]
    microseconds = np.array([moment for moment, _ in moments], np.float64)
    is_aware = np.array([zone is not None for _, zone in moments], bool)
    return ReadTimes(
        microseconds, is_aware, frozenset(zone for _, zone in moments if zone is not None)
    )


def _microseconds(column: Array, where: str) -> Floats:
    """Return dates or durations of NumPy as microseconds, NaN for what is missing."""
    found, lacking = column.astype(f"{column.dtype.kind}8[us]"), np.isnat(column)
    if np.datetime_data(column.dtype)[0] in _COARSE:
        wrapped = (found.astype(column.dtype) != column) & ~lacking
        if wrapped.any():
            raise ValueError(
                f"{where} holds {column[wrapped][0]}: dates and durations are at most "
                "290,000 years from 1970, the most that 64 bits of microseconds hold. "
                "Replace it by a missing value, or leave the column out."
            )
    return np.where(lacking, np.nan, found.astype(np.int64))


def _read_moment(value: Any, where: str) -> tuple[float, str | None]:
    """Return the microseconds of a date since 1970, and the name of its zone.

    They are NaN for what is no date, and None for a date without a zone.
    """
    if is_missing(value):
        return float("nan"), None
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            return float("nan"), None
    clock = getattr(value, "tzinfo", None)
    zone = None if clock is None else name_zone(clock)
    if hasattr(value, "to_datetime64"):  # of pandas, whose years go beyond those of Python
        value = value.to_datetime64()
    if isinstance(value, np.datetime64):
        return float(_microseconds(np.array([value]), where)[0]), zone
    if isinstance(value, date) and not isinstance(value, datetime):
        value = datetime.combine(value, time())
    if not isinstance(value, datetime):
        return float("nan"), None
    if clock is None:
        value = value.replace(tzinfo=UTC)
    return float((value - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)), zone


def zone_of_column(column: Array) -> str | None:
    """Return the zone of a column of dates; None where they have none."""
    if isinstance(column, AwareTimes):
        return column.zone
    if column.dtype.kind != "O":
        return None
    return choose_zone({name_zone(clock) for clock in _clocks(column)})


def clock_of_column(column: Array, where: str) -> str | None:
    """Return the zone of a column of dates: "" if they have none, None without any date."""
    if np.isnan(read_times(column, where).microseconds).all():
        return None
    return zone_of_column(column) or ""


def _clocks(column: Array) -> list[tzinfo]:
    """Return the zones and offsets of the values of a column of objects, each once."""
    clocks = {
        id(clock): clock for clock in (getattr(value, "tzinfo", None) for value in column.tolist())
    }
    return [clock for clock in clocks.values() if clock is not None]


def _has_offsets(column: Array) -> bool:
    """Return whether some times of a column came with an offset that names no zone."""
    if isinstance(column, AwareTimes):
        return column.has_offset
    return any(map(is_offset, _clocks(column)))


def warn_of_offsets(columns: list[Array], scales: Scales, names: Sequence[Any] | None) -> None:
    """Warn of the first column that is read in UTC because its times came with offsets.

    An offset names no zone.
    """
    for j, scale in scales.items():
        if scale != UTC_NAME:
            continue
        if _has_offsets(columns[j]):
            where = f"Column {names[j]!r}" if names is not None else f"Column {j}"
            warnings.warn(
                f"{where} holds times with an offset from UTC, which names no zone, "
                "so its hours and weekdays are those of UTC: tz_convert('Europe/Berlin'), "
                "with the name of its zone, makes them those of a clock there.",
                UserWarning,
                stacklevel=2,
            )
            return
