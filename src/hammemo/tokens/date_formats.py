"""Date formats: dates and times of day that are written as text.

A format is written as in ``datetime.strptime`` (``%d.%m.%Y %H:%M``), or it is `ISO`, which stands
for all that ISO 8601 writes with dashes: ``2024-01-31``, ``2024-01-31 12:00:05.25``,
``2024-01-31T12:00Z``. Names of months are English ones, whatever the locale of the process is, so
that a file is read alike on every machine.

A single text rarely tells its format: ``01.02.2012`` may be in January or in February. So a text
has a set of formats (`formats_of`), a column has the formats that all of its texts have in common,
and `choose_format` decides only where these agree on the order of day, month and year.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from functools import lru_cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

ISO: Final = "ISO8601"
"""The name of ISO 8601 as a format; pandas has the same one."""

COMPACT: Final = "%Y%m%d"
"""A date as eight digits, which are a whole number, too."""

MAX_FORMAT_LENGTH: Final = 64

_ISO_TEXT: Final = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
    r"([T ][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,9})?)?(Z|[+-][0-9]{2}(:?[0-9]{2})?)?)?",
    re.ASCII,
)

_MONTHS: Final = (
    *("january", "february", "march", "april", "may", "june", "july"),
    *("august", "september", "october", "november", "december"),
)
_MONTH_NUMBERS: Final = {
    **{name: number for number, name in enumerate(_MONTHS, 1)},
    **{name[:3]: number for number, name in enumerate(_MONTHS, 1)},
}

_DIRECTIVES: Final = {
    "Y": "[0-9]{4}",
    "y": "[0-9]{2}",
    "m": "[0-9]{1,2}",
    "d": "[0-9]{1,2}",
    "b": "[A-Za-z]{3,9}",
    "B": "[A-Za-z]{3,9}",
    "H": "[0-9]{1,2}",
    "I": "[0-9]{1,2}",
    "M": "[0-9]{2}",
    "S": "[0-9]{2}",
    "f": "[0-9]{1,9}",
    "p": "[AaPp][Mm]",
    "z": "Z|[+-][0-9]{2}:?(?:[0-9]{2})?",
}
"""What each directive stands for, as a regular expression."""

_FIELD_OF: Final = {
    "Y": "year",
    "y": "year",
    "m": "month",
    "b": "month",
    "B": "month",
    "d": "day",
    "H": "hour",
    "I": "hour",
    "M": "minute",
    "S": "second",
    "f": "fraction",
    "p": "half",
    "z": "zone",
}
"""The field of a date that each directive sets; two directives of one format set different ones."""

_PIVOT_YEAR: Final = 69
"""Two-digit years from here on are of the twentieth century, as in POSIX."""


@dataclass(frozen=True)
class DateFormat:
    """A format that was checked and compiled; `compile_format` makes it.

    Parameters
    ----------
    text : str
        As it was written.
    pattern : re.Pattern
        With a group for each field of a date that the format has.
    order : str
        The order of year, month and day: "YMD", "DMY", "MDY" and so on.
    has_century : bool
        Whether years have four digits.
    """

    text: str
    pattern: re.Pattern[str]
    order: str
    has_century: bool

    def read(self, text: str) -> datetime | None:
        """Return the date that a text is in this format; None for any other text."""
        match = self.pattern.fullmatch(text)
        return None if match is None else _date_of_fields(match.groupdict())


def _date_of_fields(fields: dict[str, str]) -> datetime | None:
    """Return the date with these fields, None where there is no such date."""
    if fields["month"].isalpha():
        month = _MONTH_NUMBERS.get(fields["month"].lower(), 0)
    else:
        month = int(fields["month"])
    hour = int(fields.get("hour", 0))
    if "half" in fields:
        if not 1 <= hour <= 12:
            return None
        hour = hour % 12 + (12 if fields["half"].lower() == "pm" else 0)
    fraction = fields.get("fraction", "0").ljust(6, "0")  # of a second; microseconds count
    try:
        return datetime(
            year=_full_year(fields["year"]),
            month=month,
            day=int(fields["day"]),
            hour=hour,
            minute=int(fields.get("minute", 0)),
            second=int(fields.get("second", 0)),
            microsecond=int(fraction[:6]),
            tzinfo=_zone(fields["zone"]) if "zone" in fields else None,
        )
    except ValueError:  # such as 31 February
        return None


def _full_year(digits: str) -> int:
    year = int(digits)
    if len(digits) == 4:
        return year
    return year + (1900 if year >= _PIVOT_YEAR else 2000)


def _zone(text: str) -> timezone:
    if text == "Z":
        return UTC
    digits = text[1:].replace(":", "")
    offset = timedelta(hours=int(digits[:2]), minutes=int(digits[2:] or 0))
    return timezone(-offset if text[0] == "-" else offset)


@lru_cache(maxsize=1024)
def compile_format(text: str) -> DateFormat:
    """Return a format that is written as in ``datetime.strptime``.

    ValueError for an unknown directive, for a field that is set twice, and for a format without the
    year, the month or the day.

    Examples
    --------
    >>> from hammemo.tokens.date_formats import compile_format
    >>> str(compile_format("%d.%m.%Y").read("31.1.2024"))
    '2024-01-31 00:00:00'
    >>> compile_format("%d.%m.%Y").read("31.13.2024") is None
    True
    """
    if len(text) > MAX_FORMAT_LENGTH:
        raise ValueError(
            f"The date format {text[:20]!r}… has more than {MAX_FORMAT_LENGTH} characters: "
            "shorten it."
        )
    pattern = ""
    fields: list[str] = []
    for symbol in re.findall(r"%.?|[ \t]+|[^%]", text, re.DOTALL):
        directive = symbol[1:]
        if not symbol.startswith("%"):
            pattern += "[ \t]+" if symbol.isspace() else re.escape(symbol)
        elif directive == "%":
            pattern += "%"
        elif directive not in _DIRECTIVES:
            directives = ", ".join(f"%{letter}" for letter in _DIRECTIVES)
            raise ValueError(
                f"The date format {text!r} has {symbol!r}, which is not known: "
                f"use {directives}, or {ISO}."
            )
        else:
            field = _FIELD_OF[directive]
            if field in fields:
                raise ValueError(
                    f"The date format {text!r} has two directives for the {field}: leave one out."
                )
            fields.append(field)
            pattern += f"(?P<{field}>{_DIRECTIVES[directive]})"
    _check_fields(text, fields)
    order = "".join(field[0].upper() for field in fields if field in ("year", "month", "day"))
    return DateFormat(text, re.compile(pattern, re.ASCII), order, has_century="%Y" in text)


def _check_fields(text: str, fields: list[str]) -> None:
    """Refuse a format that lacks a field: a part of the day, or one of %I and %p."""
    needed_fields = ["year", "month", "day"]
    if "%I" in text:
        needed_fields.append("half")  # AM or PM
    for field in needed_fields:
        if field not in fields:
            example = "%I:%M %p" if field == "half" else "%Y-%m-%d"
            raise ValueError(
                f"The date format {text!r} lacks the {field}: "
                f"write it as in {example}, or use {ISO}."
            )
    if "half" in fields and "%I" not in text:
        raise ValueError(f"The date format {text!r} has %p without %I: %H counts to 23, %I to 12.")


def check_format(text: str) -> str:
    """Return the name of a format, or refuse it."""
    if text != ISO:
        compile_format(text)
    return text


def read_date(text: str, written: str = ISO) -> datetime | None:
    """Return the date that a text is in a format; None for any other text.

    Examples
    --------
    >>> from hammemo.tokens.date_formats import read_date
    >>> [str(read_date(text)) for text in ("2024-01-31", " 2024-01-31T12:00:05.25Z")]
    ['2024-01-31 00:00:00', '2024-01-31 12:00:05.250000+00:00']
    >>> [read_date(text) for text in ("2024-02-30", "20240131", "May")]
    [None, None, None]
    >>> str(read_date("1/31/2024 2:05 pm", "%m/%d/%Y %I:%M %p"))
    '2024-01-31 14:05:00'
    """
    text = text.strip(" \t")
    if written != ISO:
        return compile_format(written).read(text)
    if not _ISO_TEXT.fullmatch(text):
        return None
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


# The formats that are looked for

_DAYS: Final = (
    *("%Y-%m-%d", "%Y/%m/%d", "%Y.%m.%d", COMPACT),
    *("%d.%m.%Y", "%d/%m/%Y", "%d-%m-%Y", "%d %b %Y", "%d-%b-%Y", "%d/%b/%Y"),
    *("%m/%d/%Y", "%m-%d-%Y", "%m.%d.%Y", "%b %d, %Y", "%b %d %Y"),
)
_SHORT_DAYS: Final = (
    *("%d.%m.%y", "%m.%d.%y", "%y.%m.%d", "%d/%m/%y", "%m/%d/%y", "%y/%m/%d"),
    *("%d-%m-%y", "%m-%d-%y", "%y-%m-%d", "%d-%b-%y", "%d %b %y"),
)
_TIMES: Final = ("", " %H:%M", " %H:%M:%S", " %H:%M:%S.%f", " %I:%M %p", " %I:%M:%S %p")

KNOWN_FORMATS: Final = (ISO, *(day + time for day in (*_DAYS, *_SHORT_DAYS) for time in _TIMES))
"""The formats that `formats_of` looks for.

Among those that say the same of all texts, `choose_format` takes the first."""

_PREFERENCE: Final = {written: place for place, written in enumerate(KNOWN_FORMATS)}


def _shape(text: str) -> str:
    """Return a text with one 9 for each run of digits and one A for each word."""
    return re.sub("[A-Za-z]+", "A", re.sub("[0-9]+", "9", re.sub("[ \t]+", " ", text)))


def _formats_by_shape() -> dict[str, list[str]]:
    """Return the formats by the shape of what they write.

    Most texts have a shape of no date, and are then compared with no format.
    """
    shapes: dict[str, list[str]] = {}
    for written in KNOWN_FORMATS[1:]:
        digits = re.sub("(%[YymdHIMSf])+", "9", written)
        shapes.setdefault(re.sub("%[bBp]", "A", digits), []).append(written)
    return shapes


_BY_SHAPE: Final = _formats_by_shape()
_LONGEST_DATE: Final = 40
NO_FORMATS: Final = frozenset[str]()


def formats_of(text: str) -> frozenset[str]:
    """Return the known formats in which a text is a date.

    Examples
    --------
    >>> from hammemo.tokens.date_formats import formats_of
    >>> [sorted(formats_of(text)) for text in ("01.02.2012", "13.02.2012", "soon")]
    [['%d.%m.%Y', '%m.%d.%Y'], ['%d.%m.%Y'], []]
    """
    text = text.strip(" \t")
    if len(text) > _LONGEST_DATE or not text.isascii():
        return NO_FORMATS
    candidates = _BY_SHAPE.get(_shape(text), ())
    formats = {written for written in candidates if compile_format(written).read(text) is not None}
    if read_date(text) is not None:
        formats.add(ISO)
    return frozenset(formats)


def orders_of(formats: Iterable[str]) -> set[str]:
    """Return the orders of year, month and day of some formats."""
    return {"YMD" if written == ISO else compile_format(written).order for written in formats}


def choose_format(formats: Iterable[str]) -> str | None:
    """Return the one format of a column with these in common; None where they disagree.

    Formats disagree on the order of day, month and year. With two-digit years nothing is chosen:
    they do not say the century.

    Examples
    --------
    >>> from hammemo.tokens.date_formats import choose_format, formats_of
    >>> [choose_format(formats_of(text)) for text in ("13.02.2012", "01.02.2012")]
    ['%d.%m.%Y', None]
    >>> choose_format(["%d.%m.%y"]) is None
    True
    """
    listed = sorted(formats, key=lambda written: _PREFERENCE.get(written, len(_PREFERENCE)))
    if not listed or len(orders_of(listed)) > 1:
        return None
    has_century = listed[0] == ISO or compile_format(listed[0]).has_century
    return listed[0] if has_century else None
