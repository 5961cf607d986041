"""Times with a zone: a column has one, and its values are read by the clock on the wall there.

The parts of a date that a model compares (month, weekday, hour) are those of this clock, and so is
the token of a value: microseconds since 1970 on the clock. What is learned says which zone a column
has:

- A zone has a name, such as Europe/Berlin. UTC is one. An offset such as +02:00 names none: it says
  when something was, but not how the clock moves. Times with offsets only are read in UTC, with a
  warning.
- Times in UTC or with offsets beside times in a named zone are converted to that zone: they say the
  same moment.
- Two named zones in what is learned, or forgotten, are refused, since a column has one clock. A
  question may come in any zone: it is converted.
- Times without a zone beside times with one are refused everywhere. What their clock was is not
  known.

The hour that the clock shows twice when summer ends is one hour here: two times in it, an hour
apart, are one value.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, tzinfo
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from zoneinfo import ZoneInfo

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hammemo._arrays.types import Array, Bools, Floats

UTC_NAME: Final = "UTC"
_NAMES_OF_UTC: Final = frozenset(
    {
        "UTC",
        "Etc/UTC",
        "UCT",
        "Etc/UCT",
        "Zulu",
        "Etc/Zulu",
        "Universal",
        "Etc/Universal",
        "GMT",
        "Etc/GMT",
    }
)
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_+\-]*(/[A-Za-z0-9_+\-]+){0,3}", re.ASCII)
"""Names of the tz database; no path that leads out of it."""
_LONGEST_NAME: Final = 64

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_DAY: Final = 86_400_000_000
"""Microseconds of a day."""
_FIRST: Final = (datetime(1, 1, 3, tzinfo=UTC) - _EPOCH) // _MICROSECOND
_LAST: Final = (datetime(9999, 12, 29, tzinfo=UTC) - _EPOCH) // _MICROSECOND
"""The moments between which Python's dates have offsets; beyond them, that of the end is taken."""


class AwareTimes(np.ndarray):
    """A column of moments in UTC, of a type of dates, whose values came in a zone.

    Parameters
    ----------
    moments : ndarray of datetime64
    zone : str
        The name of the zone.
    has_offset : bool
        Whether the values came with an offset from UTC that names no zone.
    """

    zone: str
    has_offset: bool

    @classmethod
    def from_moments(cls, moments: Array, clock: tzinfo) -> AwareTimes:
        """Return moments in UTC that came in a zone."""
        times = np.asarray(moments).view(cls)
        times.zone = name_zone(clock)
        times.has_offset = is_offset(clock)
        return times

    def __array_finalize__(self, other: Any) -> None:
        self.zone = getattr(other, "zone", UTC_NAME)
        self.has_offset = getattr(other, "has_offset", False)


class ReadTimes(NamedTuple):
    """The dates of a column.

    Shapes
    ------
    microseconds, is_aware : (m,)
    """

    microseconds: Floats
    """Since 1970: in UTC for times with a zone, by their own clock for others; NaN if missing."""
    is_aware: Bools
    """Which came with a zone or an offset."""
    zones: frozenset[str]
    """The names of their zones."""


def name_zone(clock: tzinfo) -> str:
    """Return the name of a zone; UTC for an offset, and for a zone without a name.

    Examples
    --------
    >>> from datetime import timedelta, timezone
    >>> from zoneinfo import ZoneInfo
    >>> from hammemo.tokens.zones import name_zone
    >>> clocks = ZoneInfo("Europe/Berlin"), timezone(timedelta(hours=2)), ZoneInfo("Etc/UTC")
    >>> [name_zone(clock) for clock in clocks]
    ['Europe/Berlin', 'UTC', 'UTC']
    """
    name = getattr(clock, "key", None) or getattr(clock, "zone", None)  # of zoneinfo, and of pytz
    if not isinstance(name, str) or name in _NAMES_OF_UTC or not is_zone_name(name):
        return UTC_NAME
    return name


def is_zone_name(name: str) -> bool:
    """Return whether a text may be the name of a zone; a zone of this name need not exist."""
    return len(name) <= _LONGEST_NAME and _NAME.fullmatch(name) is not None


def is_offset(clock: tzinfo) -> bool:
    """Return whether this is an offset from UTC, other than none, without the name of a zone."""
    if name_zone(clock) != UTC_NAME:
        return False
    offset = clock.utcoffset(datetime(2000, 1, 1))
    return offset is None or bool(offset)


def choose_zone(zones: Iterable[str]) -> str | None:
    """Return the zone of a column whose times came in these; None where they came in none.

    Examples
    --------
    >>> from hammemo.tokens.zones import choose_zone
    >>> choose_zone(["UTC", "Europe/Berlin"]), choose_zone(["UTC"]), choose_zone([])
    ('Europe/Berlin', 'UTC', None)
    """
    names = sorted(zones)
    return next((name for name in names if name != UTC_NAME), names[0] if names else None)


def join_zones(before: str | None, after: str | None, where: str) -> str | None:
    """Return the zone of a column whose dates came in two batches.

    ValueError where one clock cannot show both.

    Parameters
    ----------
    before, after : str or None
        A zone, "" for times without one, None for a batch without values.
    where : str
        The column as errors name it.

    Examples
    --------
    >>> from hammemo.tokens.zones import join_zones
    >>> join_zones(None, "", "Column 0"), join_zones("UTC", "Europe/Berlin", "Column 0")
    ('', 'Europe/Berlin')
    """
    if before is None or before == after:
        return after
    if after is None:
        return before
    if "" in (before, after):
        raise ValueError(
            f"{where} holds times without a zone and others in the zone {before or after}: "
            "give all of them one clock, with tz_localize or tz_convert."
        )
    first, second = sorted((before, after))
    if UTC_NAME not in (first, second):
        raise ValueError(
            f"{where} holds times in the zone {first}, and some are in {second}: "
            f"a column has one clock. Convert them with tz_convert({first!r})."
        )
    return first if second == UTC_NAME else second


def read_clock(times: ReadTimes, zone: str | None, where: str, *, learning: bool) -> Floats:
    """Return times as the clock of a column shows them, in microseconds since 1970.

    Times without a zone are refused in a column with one, and the other way round.

    Parameters
    ----------
    times : ReadTimes
    zone : str or None
        The zone of the column; None for one whose times have none.
    where : str
        The column as errors name it.
    learning : bool
        Whether rows are learned or forgotten: then times in another named zone are refused, too.
    """
    microseconds = times.microseconds
    is_other = times.is_aware if zone is None else ~times.is_aware
    is_other = is_other & ~np.isnan(microseconds)
    if is_other.any():
        _refuse_mixture(microseconds[is_other][0], zone, where)
    if zone is None:
        return microseconds
    others = sorted(times.zones - {zone, UTC_NAME})
    if learning and others:
        raise ValueError(
            f"{where} holds times in the zone {zone}, and some are in {others[0]}: "
            f"a column has one clock. Convert them with tz_convert({zone!r})."
        )
    return local_times(microseconds, zone, where)


def _refuse_mixture(microseconds: float, zone: str | None, where: str) -> None:
    shown = str(np.datetime64(int(microseconds), "us").astype("datetime64[s]"))
    if zone is None:
        raise ValueError(
            f"{where} holds times without a zone, and {shown} (in UTC) has one: "
            "read them by the clock of the others, with tz_convert('ZONE').tz_localize(None), "
            "or fit a new model on times that all have a zone."
        )
    raise ValueError(
        f"{where} holds times in the zone {zone}, and {shown} has no zone: "
        f"give it one, with tz_localize({zone!r}) if it was read on a clock there."
    )


def local_times(moments: Floats, zone: str, where: str = "A column") -> Floats:
    """Return moments in UTC as the clock of a zone shows them.

    Both are microseconds since 1970, NaN for none.

    Examples
    --------
    >>> import numpy as np
    >>> from hammemo.tokens.zones import local_times
    >>> moments = np.array(["2026-01-01T23:30", "2026-07-01T12:00"], "M8[us]").astype(np.int64)
    >>> local = local_times(moments.astype(float), "Europe/Berlin")
    >>> local.astype(np.int64).astype("M8[us]").astype("M8[m]").tolist()
    [datetime.datetime(2026, 1, 2, 0, 30), datetime.datetime(2026, 7, 1, 14, 0)]
    """
    if zone == UTC_NAME:
        return moments
    clock = _load_zone(zone, where)
    rows = np.flatnonzero(~np.isnan(moments))
    present = moments[rows]
    # To ask for an offset is slow. So ask at the start and at the end of each day, and moment by
    # moment only on the few days on which the clock is changed.
    days, day_numbers = np.unique(np.floor(present / _DAY), return_inverse=True)
    at_start = np.array([_offset_at(day * _DAY, clock) for day in days.tolist()], np.float64)
    at_end = np.array([_offset_at((day + 1) * _DAY, clock) for day in days.tolist()], np.float64)
    offsets = at_start[day_numbers]
    for k in np.flatnonzero((at_start != at_end)[day_numbers]).tolist():
        offsets[k] = _offset_at(float(present[k]), clock)
    local = moments.copy()
    local[rows] += offsets
    return local


def _offset_at(moment: float, clock: tzinfo) -> int:
    """Return how far ahead of UTC a clock is, in microseconds."""
    within = _EPOCH + timedelta(microseconds=min(max(int(moment), _FIRST), _LAST))
    offset = within.astimezone(clock).utcoffset()
    return 0 if offset is None else offset // _MICROSECOND


def _load_zone(zone: str, where: str) -> ZoneInfo:
    try:
        return ZoneInfo(zone)
    except (KeyError, ValueError, OSError):
        # KeyError: there is no such zone. The others: the files of the system are damaged.
        raise ValueError(
            f"{where} holds times in the zone {zone!r}, which this machine does not know: "
            "pip install tzdata."
        ) from None


def aware_time(microseconds: int, zone: str) -> datetime:
    """Return a time of a column, as the clock of its zone shows it, with the zone.

    Examples
    --------
    >>> from hammemo.tokens.zones import aware_time
    >>> aware_time(0, "Europe/Berlin").isoformat()
    '1970-01-01T00:00:00+01:00'
    """
    shown = _EPOCH + timedelta(microseconds=microseconds)
    return shown.replace(tzinfo=_load_zone(zone, "A column"))
