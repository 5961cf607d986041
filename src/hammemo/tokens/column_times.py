"""Columns of dates and times: their moments, and the zones that they came in.

A moment is a number of microseconds since 1970, in UTC for times with a zone, and on their own
clock for others. :mod:`hammemo.tokens.zones` turns moments into the clock of a column.
"""

from __future__ import annotations

import warnings
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from hammemo.tokens.missing import is_missing
from hammemo.tokens.table_columns import array_values, quote_column
from hammemo.tokens.zones import (
    UTC_NAME,
    AwareTimes,
    ReadTimes,
    choose_zone,
    is_offset,
    name_zone,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hammemo._arrays.types import Array, Floats
    from hammemo.tokens.scales import Scales

_COARSE_UNITS: Final = ("Y", "M", "W", "D", "h", "m", "s", "ms")
"""The units of NumPy in which a date or a duration may be too far away for microseconds."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def read_times(column: Array, where: str) -> ReadTimes:
    """Return the dates of a column, NaN for what is missing or no date.

    Examples
    --------
    >>> import numpy as np
    >>> from hammemo.tokens.column_times import read_times
    >>> texts = np.array(["1970-01-01T00:00:01", "1970-01-01T01:00:00+01:00", None], object)
    >>> times = read_times(texts, "Column 0")
    >>> times.microseconds.tolist(), times.is_aware.tolist(), times.zones
    ([1000000.0, 0.0, nan], [False, True, False], frozenset({'UTC'}))
    """
    if column.dtype.kind == "M":
        zone = zone_of_column(column)
        return ReadTimes(
            to_microseconds(np.asarray(column), where),
            is_aware=np.full(len(column), zone is not None),
            zones=frozenset() if zone is None else frozenset({zone}),
        )
    moments = [_read_moment(value, where) for value in array_values(column)]
    return ReadTimes(
        np.array([moment.microseconds for moment in moments], np.float64),
        is_aware=np.array([moment.zone is not None for moment in moments], bool),
        zones=frozenset(moment.zone for moment in moments if moment.zone is not None),
    )


def to_microseconds(values: Array, where: str) -> Floats:
    """Return dates or durations of NumPy as microseconds, NaN for what is missing."""
    kind = values.dtype.kind
    converted = values.astype(f"{kind}8[us]")
    lacking = np.isnat(values)
    if np.datetime_data(values.dtype)[0] in _COARSE_UNITS:
        # NumPy wraps around without an error, so a value that is too far away does not come back.
        has_wrapped = (converted.astype(values.dtype) != values) & ~lacking
        if has_wrapped.any():
            raise ValueError(
                f"{where} holds {values[has_wrapped][0]}: dates and durations are at most "
                "290,000 years from 1970, the most that 64 bits of microseconds hold. "
                "Replace it by a missing value, or leave the column out."
            )
    return np.where(lacking, np.nan, converted.astype(np.int64))


class _ZonedMoment(NamedTuple):
    microseconds: float
    """Since 1970; NaN for what is no date."""
    zone: str | None
    """The name of the zone that it came in; None for a date without a zone."""


_NO_MOMENT: Final = _ZonedMoment(float("nan"), None)


def _read_moment(value: Any, where: str) -> _ZonedMoment:
    """Return the moment of one value: a date or a text of Python, pandas or NumPy."""
    if is_missing(value):
        return _NO_MOMENT
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            return _NO_MOMENT
    clock = getattr(value, "tzinfo", None)
    zone = None if clock is None else name_zone(clock)
    if hasattr(value, "to_datetime64"):  # of pandas, whose years go beyond those of Python
        value = value.to_datetime64()
    if isinstance(value, np.datetime64):
        return _ZonedMoment(float(to_microseconds(np.array([value]), where)[0]), zone)
    if isinstance(value, date) and not isinstance(value, datetime):
        value = datetime.combine(value, time())
    if not isinstance(value, datetime):
        return _NO_MOMENT
    if clock is None:
        value = value.replace(tzinfo=UTC)
    return _ZonedMoment(float((value - _EPOCH) // timedelta(microseconds=1)), zone)


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
    clocks = (getattr(value, "tzinfo", None) for value in column.tolist())
    by_id = {id(clock): clock for clock in clocks if clock is not None}
    return list(by_id.values())


def warn_of_offsets(columns: list[Array], scales: Scales, names: Sequence[Any] | None) -> None:
    """Warn of the first column that is read in UTC because an offset names no zone."""
    for j, scale in scales.items():
        if scale == UTC_NAME and _has_offsets(columns[j]):
            warnings.warn(
                f"{quote_column(j, names)} holds times with an offset from UTC, "
                "which names no zone, so its hours and weekdays are those of UTC: "
                "tz_convert('Europe/Berlin'), with the name of its zone, "
                "makes them those of a clock there.",
                UserWarning,
                stacklevel=2,
            )
            return


def _has_offsets(column: Array) -> bool:
    """Return whether some times of a column came with an offset that names no zone."""
    if isinstance(column, AwareTimes):
        return column.has_offset
    return any(map(is_offset, _clocks(column)))
