"""The values of columns as tokens: names, numbers, dates or ordered categories.

- Strings, booleans, intervals, periods and the categories of pandas are names, but for categories
  that are dates.
- Floats and whole numbers are numbers. Where the kernel is given, whole numbers of lists and arrays
  are names. In lists and object arrays a column with any string holds names, one with any fraction
  holds numbers.
- Dates and times are dates, durations are numbers (of seconds).

A number is a token like any other: what makes it a number is that the layout cuts it into cells
(:mod:`hammemo.features.cells`). A date is the token of its microseconds since 1970, on the clock of
its column's zone (:mod:`hammemo.tokens.zones`), and an ordered category that of its place in the
order (:mod:`hammemo.tokens.orders`). An infinite number becomes the largest number that there is.

Learning and asking differ in what they do with a value that does not fit its column, such as a text
in a column of numbers: learning refuses it, a question takes it for missing.
"""

from __future__ import annotations

import warnings
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hammemo._arrays.integers import distinct_numbers, object_array
from hammemo.tokens.column_kinds import DATES, NAMES, NUMBERS, ORDERED_CATEGORIES
from hammemo.tokens.column_times import read_times, to_microseconds
from hammemo.tokens.missing import MISSING, fill_missing, is_missing
from hammemo.tokens.orders import PlacedCategories, find_places
from hammemo.tokens.table_columns import array_values, quote_column
from hammemo.tokens.vocabulary import NO_TOKEN, as_token
from hammemo.tokens.zones import choose_zone, read_clock

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hammemo._arrays.types import Array, Bools, Floats
    from hammemo.tokens.column_kinds import ColumnKind, ColumnKinds
    from hammemo.tokens.scales import Scale, Scales

LARGEST: Final = float(np.finfo(np.float64).max)
"""What an infinite number becomes."""

_EXACT_FLOATS: Final = 2**53
"""Below this, a float holds every whole number exactly."""

_FEW_ROWS: Final = 100
"""Rows of a question up to which all columns of numbers are read in one step.

For so few rows, calls of NumPy take more time than values do.
"""

_MANY_ROWS: Final = 50
"""Rows from which on a column is checked for ids: fewer whole numbers often all differ."""

_DISTINCT_SHARE: Final = 0.9
"""The share of different whole numbers from which on they may be ids."""


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

    Parameters
    ----------
    columns : list of ndarray
    kinds : tuple of ColumnKind
        What each column holds.
    missing : str
        What takes the place of missing values: "token", "empty" or "refuse".
    names : sequence, optional
        The names of the columns, for messages.
    learning : bool
        Whether the rows are learned or forgotten: then values that do not fit are refused.
    scales : mapping of int to str or tuple, optional
        The zones of dates and the orders of categories. By default they are those of the values.
    """
    at_once: dict[int, Floats] = {}
    if not learning and missing != "refuse":
        at_once = _read_few_numbers(columns, kinds)
        if at_once and len(at_once) == len(columns):
            return np.stack(list(at_once.values()), axis=1)
    token_columns: list[Array] = []
    for j, (column, kind) in enumerate(zip(columns, kinds, strict=True)):
        where = quote_column(j, names)
        if j in at_once:
            tokens = at_once[j]
        elif kind is NAMES:
            tokens = fill_missing(_read_names(column, where, learning=learning), missing)
            _check_names(tokens, where)
        else:
            column = _without_unused_order(column, kind)
            values = _read_values(column, kind, where, j=j, scales=scales, learning=learning)
            if missing == "refuse":
                _refuse_missing(values, where)
            if learning:
                tokens = _make_learned_tokens(values, column, kind, where)
            else:
                tokens = _make_asked_tokens(values, column)
        token_columns.append(tokens)
    if all(tokens.dtype.kind == "f" for tokens in token_columns):
        return np.column_stack(token_columns)
    table = np.empty((len(columns[0]), len(columns)), object)
    for j, tokens in enumerate(token_columns):
        table[:, j] = tokens
    return table


def is_own_token(value: Any, kind: ColumnKind) -> bool:
    """Return whether a value of a column of this kind is certainly its own token.

    It is for single rows: False only means that one must look closer.
    """
    if kind is NUMBERS:
        return type(value) in (float, int) and abs(value) < _EXACT_FLOATS  # False for NaN
    return kind is NAMES and type(value) is str


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
    return read_times(column, where).microseconds if kind is DATES else _read_numbers(column, where)


# Names


def _read_names(column: Array, where: str, *, learning: bool) -> Array:
    """Return a column of names as objects: dates are refused, or match nothing in a question."""
    column = _without_unused_order(column, NAMES)
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


def _check_names(names: Array, where: str) -> None:
    """Refuse a value that is no token, with an error that names the column."""
    values = names.tolist()
    if set(map(type, values)) <= {str, int, bool}:
        return
    try:
        for value in values:
            as_token(value)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{where}: {error}") from None


def _without_unused_order(column: Array, kind: ColumnKind) -> Array:
    """Return the categories of a column itself where the model does not use their order."""
    if isinstance(column, PlacedCategories) and kind is not ORDERED_CATEGORIES:
        return column.as_values()
    return column


# Numbers, dates and ordered categories: first floats, NaN for what is missing or does not fit


def _read_values(
    column: Array,
    kind: ColumnKind,
    where: str,
    *,
    j: int,
    scales: Scales | None,
    learning: bool,
) -> Floats:
    """Return the numbers of a column, its times on its clock, or its places in its order."""
    if kind is DATES:
        times = read_times(column, where)
        zone = choose_zone(times.zones) if scales is None else scales.get(j)
        assert not isinstance(zone, tuple)
        return read_clock(times, zone, where, learning=learning)
    if kind is ORDERED_CATEGORIES:
        order = None if scales is None else scales.get(j)
        return _read_places(column, order, where, learning=learning)
    return _read_numbers(column, where)


def _read_places(column: Array, order: Scale | None, where: str, *, learning: bool) -> Floats:
    """Return places in the order of a model or, where no model says one, in that of the values."""
    if order is None and isinstance(column, PlacedCategories):
        order = column.order
    if not isinstance(order, tuple):
        raise ValueError(f"{where} holds ordered categories, and their order is not known.")
    return find_places(column, order, where, learning=learning)


def _read_numbers(column: Array, where: str) -> Floats:
    """Return a column as floats, NaN for what is missing or no number."""
    kind = column.dtype.kind
    if kind in "iufb":
        if column.dtype.itemsize > 8:
            raise TypeError(f"{where} is of {column.dtype}: convert it to float64.")
        numbers = column.astype(np.float64)
        return np.where(column == NO_TOKEN, np.nan, numbers) if kind == "i" else numbers
    if kind == "m":
        return to_microseconds(column, where) / 1e6
    return np.fromiter(map(number_of, array_values(column)), np.float64, len(column))


def number_of(value: Any) -> float:
    """Return a value as a float, NaN for what is missing or no number; durations are seconds."""
    if is_missing(value) or (type(value) is int and value == NO_TOKEN):
        return float("nan")
    if isinstance(value, timedelta):
        return value // timedelta(microseconds=1) / 1e6  # rounded as in a column with a type
    if isinstance(value, np.timedelta64):
        return float(to_microseconds(np.array([value]), "A column")[0] / 1e6)
    if is_number(value) or isinstance(value, (bool, np.bool_)):
        try:
            return float(value)
        except OverflowError:
            return LARGEST if value > 0 else -LARGEST
    return float("nan")


def is_number(value: Any) -> bool:
    """Return whether a value is a number; truth values are not."""
    number_types = (int, float, np.integer, np.floating, Decimal, Fraction)
    return isinstance(value, number_types) and not isinstance(value, bool)


def _read_few_numbers(columns: list[Array], kinds: ColumnKinds) -> dict[int, Floats]:
    """Return the tokens of columns of numbers, by their places, for a question of few rows.

    They are the columns all of whose values are numbers or missing by their type.
    """
    if not columns or len(columns[0]) > _FEW_ROWS:
        return {}
    places = [
        j
        for j, (column, kind) in enumerate(zip(columns, kinds, strict=True))
        if kind is NUMBERS and column.dtype.kind in "iuf" and column.dtype.itemsize <= 8
    ]
    if not places:
        return {}
    values = np.array([columns[j] for j in places], np.float64)
    lacking = np.isnan(values)
    for row, j in enumerate(places):
        if columns[j].dtype.kind == "i":
            lacking[row] = columns[j] == NO_TOKEN
    return dict(zip(places, _make_number_tokens(values, lacking), strict=True))


# ... and then tokens


def _refuse_missing(values: Floats, where: str) -> None:
    if np.isnan(values).any():
        raise ValueError(
            f"{where} has missing values, and missing='refuse' was given: use missing='token'."
        )


def _make_learned_tokens(values: Floats, column: Array, kind: ColumnKind, where: str) -> Array:
    """Return the tokens of values that are learned or forgotten: refuse those that do not fit."""
    lacking = np.isnan(values)
    if column.dtype.kind not in kind.dtype_codes:
        for _, value in _find_misfits(column, lacking):
            raise ValueError(
                f"{where} holds {kind.word}, and {value!r} is not one. Convert it, "
                "or fit a new model with numeric='none' or a list of the columns that are numbers."
            )
    tokens = _make_number_tokens(values, lacking)
    return with_large_numbers(tokens, column, lacking, where)


def _make_asked_tokens(values: Floats, column: Array) -> Array:
    """Return the tokens of the values of a question, texts for those that do not fit.

    Such a text counts as missing, and the question gives a warning.
    """
    lacking = np.isnan(values)
    tokens = _make_number_tokens(values, lacking)
    misfits = dict(_find_misfits(column, lacking))
    if not misfits:
        return tokens
    mixed = tokens.astype(object)
    for i, value in misfits.items():
        mixed[i] = str(value)
    return mixed


def _make_number_tokens(values: Floats, lacking: Bools) -> Floats:
    """Return numbers as tokens: finite, and with one zero; `NO_TOKEN` for what is missing."""
    # A number that equals `NO_TOKEN` becomes its neighbor, so that it is not taken for missing.
    values = np.where(values == NO_TOKEN, np.nextafter(NO_TOKEN, 0.0), values)
    return np.asarray(np.where(lacking, float(NO_TOKEN), np.clip(values, -LARGEST, LARGEST) + 0.0))


def _find_misfits(column: Array, lacking: Bools) -> Iterator[tuple[int, Any]]:
    """Yield the place and the value of what gave no number, though it is not missing."""
    if column.dtype.kind == "f":
        lacking = lacking & ~np.isnan(column)
    places = np.flatnonzero(lacking)
    values = column[places]
    if isinstance(values, PlacedCategories):  # in an order that is not the model's
        values = values.as_values()
    for i, value in zip(places.tolist(), array_values(values), strict=True):
        stands_for_none = type(value) in (int, str) and value in (NO_TOKEN, MISSING)
        if not stands_for_none and not is_missing(value):
            yield i, value


def with_large_numbers(
    tokens: Array, column: Array, lacking: Bools, where: str = "A column"
) -> Array:
    """Return the floats of a column with whole numbers from 2^53 on as they are.

    Floats would round them, and ids must stay apart.

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
    places = np.flatnonzero(~lacking & (np.abs(tokens) >= _EXACT_FLOATS))
    if not len(places):
        return tokens
    mixed = tokens.astype(object)
    for place in places:
        mixed[place] = _make_large_token(column[place], tokens[place], where)
    return mixed


def _make_large_token(value: Any, number: float, where: str) -> int | float:
    """Return the token of a number from 2^53 on, where `number` is its float.

    A whole number that fits in 64 bits is its own token. A larger one is refused, unless its float
    is exact.
    """
    # An infinite number has become the largest one, and a Decimal beyond it would fill memory.
    if isinstance(value, (Decimal, Fraction)) and abs(number) < LARGEST and value == int(value):
        value = int(value)
    if not isinstance(value, (int, np.integer)):
        return float(number)
    integer = int(value)
    if -(2**63) < integer < 2**63:
        return integer
    if abs(number) < LARGEST and int(number) != integer:
        raise ValueError(
            f"{where} holds {integer}: whole numbers from 2^63 on have no exact form here, "
            "and neighbors would become one number. Use astype(str) if they are ids, "
            "or astype(float) if they are measurements."
        )
    return float(number)


# Ids


def warn_of_ids(
    columns: list[Array], kinds: ColumnKinds, names: Sequence[Any] | None, *, has_types: bool
) -> bool:
    """Warn of the first column of whole numbers that nearly all differ.

    As names they match nothing, and as numbers they may be ids. Return whether there was a warning.
    """
    for j, (column, kind) in enumerate(zip(columns, kinds, strict=True)):
        if column.dtype.kind not in "iu" or len(column) < _MANY_ROWS:
            continue
        many = _DISTINCT_SHARE * len(column)
        n_possible = int(column.max()) - int(column.min()) + 1
        if n_possible < many:  # no need to count
            continue
        n_distinct = len(distinct_numbers(column))
        if n_distinct < many:
            continue
        if kind is NAMES:
            advice = (
                "its values are read as names, so almost none of them will match later: "
                "numeric=[…] makes it a number, and so does a data frame; "
                "numeric='none' says that names are meant."
            )
        elif has_types and n_distinct == len(column):
            advice = "if these are ids, leave the column out."
        else:
            continue
        warnings.warn(
            f"{quote_column(j, names)} holds whole numbers that nearly all differ; {advice}",
            UserWarning,
            stacklevel=2,
        )
        return True
    return False
