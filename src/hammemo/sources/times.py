"""Times: what a column of a table says about when each row was.

A time is a number, or a date with or without a time of day as ISO 8601 writes it (``2024-01-31``,
``2024-01-31 12:00:05.25``, ``2024-01-31T12:00Z``), or a value that Parquet keeps as one. Moments of one column can be
compared: numbers become numbers, all others microseconds since 1970 (times without a zone are taken as UTC). Texts that
can be read both ways, such as ``20240131``, are numbers, which are in the same order.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from hammemo.sources.tables import Batch

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


def moment_of(value: Any) -> float | int | None:
    """Return a time as a number; None for what is none.

    Examples
    --------
    >>> from hammemo.sources.times import moment_of
    >>> moment_of("2.5"), moment_of(7), moment_of("1970-01-01 00:00:01"), moment_of("soon")
    (2.5, 7, 1000000, None)
    """
    if isinstance(value, str):
        value = _read(value.strip())
    if isinstance(value, datetime):
        aware = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
        return (aware - _EPOCH) // _MICROSECOND
    if isinstance(value, date):
        return (datetime(value.year, value.month, value.day, tzinfo=UTC) - _EPOCH) // _MICROSECOND
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool) and value == value
    return value if is_number else None


def moments_of(batch: Batch, name: str) -> list[Any]:
    """Return the times of a column, or refuse a value that is none and name its place."""
    moments = [moment_of(value) for value in batch.column(name).tolist()]
    for row, moment in enumerate(moments):
        if moment is None:
            value = batch.column(name)[row]
            found = "has no value" if value is None else f"holds {value!r}, which is not a time"
            raise ValueError(
                f"{batch.place(row)}: column {name!r} {found}. Write times as 2024-01-31 12:00:00 or as numbers."
            )
    return moments


def _read(text: str) -> Any:
    for read in (int, float, datetime.fromisoformat):
        try:
            return read(text)
        except ValueError:
            continue
    return None
