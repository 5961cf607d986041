"""Kinds: what each column of the input holds, so that another file is read as the model learnt it.

``"3"`` and ``3`` are two tokens, and a CSV file has only strings. So a column has a kind: numbers or dates, which the
model cuts into cells (:mod:`hammemo.tokens.columns`), or one of the kinds of names below. Values of another
file are read the same way: in a column of numbers or of whole numbers the text ``3`` is the number 3; in one of strings
the number 3 is the text.

Some rows of a column without any value say nothing about its kind, which is unknown until others are read.
"""

from __future__ import annotations

import math
import re
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hammemo._arrays.integers import object_array
from hammemo.tokens.column_evidence import column_kinds
from hammemo.tokens.columns import ColumnKind
from hammemo.tokens.missing import MISSING, is_missing
from hammemo.tokens.vocabulary import NO_TOKEN

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hammemo._arrays.types import Array

ORDERED: Final = (ColumnKind.NUMBERS, ColumnKind.DATES)
"""The kinds of columns that the model cuts into cells."""

_DATE: Final = re.compile(
    r"[ \t]*[0-9]{4}-[0-9]{2}-[0-9]{2}"
    r"([T ][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,9})?)?(Z|[+-][0-9]{2}(:?[0-9]{2})?)?)?[ \t]*",
    re.ASCII,
)
STRINGS, WHOLE_NUMBERS, MIXED, UNKNOWN = "s", "i", "m", "?"
"""The kinds of names: MIXED for something else or both, UNKNOWN while no value is known. Notes hold these letters."""

ONLY_TRUTHS, OTHERS = "t", "f"
"""Whether a column holds truth values only; UNKNOWN without values."""

_NUMBER: Final = re.compile(r"[ \t]*[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?[ \t]*", re.ASCII)
_WHOLE: Final = re.compile(r"[ \t]*[+-]?[0-9]+[ \t]*", re.ASCII)
_TRUTHS: Final = {"True": 1, "False": 0, "true": 1, "false": 0}
"""How text files write truth values, which are learnt as the numbers 1 and 0."""
_LEADING_ZERO: Final = re.compile(r"[ \t]*[+-]?0[0-9]", re.ASCII)


def merged_kinds(before: str, after: str, other: str = MIXED) -> str:
    """Return what columns hold after two batches: `other` where they differ.

    Examples
    --------
    >>> from hammemo.sources.kinds import merged_kinds
    >>> merged_kinds("", "si"), merged_kinds("si", "ss"), merged_kinds("s?", "?i")
    ('si', 'sm', 'si')
    """
    pairs = zip(before or UNKNOWN * len(after), after, strict=True)
    return "".join(b if a in (b, UNKNOWN) else a if b == UNKNOWN else other for a, b in pairs)


def known_kinds(kinds: str) -> str:
    """Return the kinds of columns all of whose values were read: those without any value hold something else."""
    return kinds.replace(UNKNOWN, MIXED)


def packed_kinds(kinds: str) -> str:
    """Return runs of letters as a letter and a number, so that a note of many columns stays short.

    Examples
    --------
    >>> from hammemo.sources.kinds import packed_kinds, unpacked_kinds
    >>> packed_kinds("ssssi"), unpacked_kinds("s4i")
    ('s4i', 'ssssi')
    """
    packed = re.sub(r"(.)\1+", lambda run: f"{run[1]}{len(run[0])}", kinds)
    return packed if len(packed) <= 1024 else ""


def unpacked_kinds(packed: str) -> str:
    """Return the letters that `packed_kinds` packed; nothing for a note that it did not write."""
    if not re.fullmatch(r"([simnd]([0-9]{1,6})?)*", packed, re.ASCII):
        return ""
    return "".join(letter * int(number or 1) for letter, number in re.findall(r"([simnd])([0-9]*)", packed))


def kinds_of_model(columns: str | None, h: int) -> str:
    """Return what is known of a model's input from the kinds of its columns alone, the label last.

    Examples
    --------
    >>> from hammemo.sources.kinds import kinds_of_model
    >>> kinds_of_model("sn", 2), kinds_of_model(None, 2)
    ('mnm', 'mmm')
    """
    return "".join(kind if kind in ORDERED else MIXED for kind in columns or MIXED * h) + MIXED


def ordered_columns(kinds: str) -> list[int]:
    """Return the places of the columns that are numbers or dates; `kinds` has the label last.

    Examples
    --------
    >>> from hammemo.sources.kinds import ordered_columns
    >>> ordered_columns("snds")
    [1, 2]
    """
    return [place for place, kind in enumerate(kinds[:-1]) if kind in ORDERED]


def number_in(text: str) -> float | None:
    """Return the finite number that a text is, in plain or exponent form; None for any other text.

    A whole number that a float does not hold is an int.

    Examples
    --------
    >>> from hammemo.sources.kinds import number_in
    >>> [number_in(text) for text in ("-2.50", "1e3", " 7", "007", "", "1e999", "inf", "1_000")]
    [-2.5, 1000.0, 7.0, 7.0, None, None, None, None]
    >>> number_in("9007199254740993")
    9007199254740993
    """
    number = float(text) if _NUMBER.fullmatch(text) else math.inf
    if 2**53 <= abs(number) <= 2**63 and _WHOLE.fullmatch(text):
        whole = int(text)
        return whole if -(2**63) < whole < 2**63 else number
    return number if math.isfinite(number) else None


def with_numbers(texts: Array) -> Array:
    """Return a column of a text file as floats if it holds numbers only, and as it is otherwise.

    None is a missing value. A number that begins with a zero, such as 007, is a code, so its column stays as it is; so
    does a column without any value.

    Examples
    --------
    >>> import numpy as np
    >>> from hammemo.sources.kinds import with_numbers
    >>> with_numbers(np.array(["1", None, "2.5"], object)).tolist()
    [1.0, nan, 2.5]
    >>> with_numbers(np.array(["007", "1"], object)).tolist()
    ['007', '1']
    """
    found = _read_all(texts, lambda text: None if _LEADING_ZERO.match(text) else number_in(text))
    return texts if found is None else np.array(found, np.float64)


def _read_all(texts: Array, read: Callable[[Any], Any]) -> list[Any] | None:
    """Return what each text says, None where it is missing; None if one says nothing, or if all are missing."""
    found = []
    for text in texts.tolist():
        value = None if text is None else read(text)
        if value is None and text is not None:
            return None
        found.append(value)
    return found if any(value is not None for value in found) else None


def date_in(text: str) -> datetime | None:
    """Return the date, with or without a time of day, that a text is as ISO 8601 writes it; None for any other text.

    Examples
    --------
    >>> from hammemo.sources.kinds import date_in
    >>> [str(date_in(text)) for text in ("2024-01-31", " 2024-01-31T12:00:05.25Z", "2024-02-30", "20240131", "May")]
    ['2024-01-31 00:00:00', '2024-01-31 12:00:05.250000+00:00', 'None', 'None', 'None']
    """
    if not _DATE.fullmatch(text):
        return None
    try:
        return datetime.fromisoformat(text.strip())
    except ValueError:
        return None


def with_dates(texts: Array) -> Array:
    """Return a column of a text file as dates if it holds dates only, None where one is missing; else as it is.

    Examples
    --------
    >>> import numpy as np
    >>> from hammemo.sources.kinds import with_dates
    >>> with_dates(np.array(["2024-01-31", None, "soon"], object)).tolist()
    ['2024-01-31', None, 'soon']
    """
    if texts.dtype.kind != "O":
        return texts
    found = _read_all(texts, lambda text: date_in(text) if isinstance(text, str) else None)
    return texts if found is None else object_array(found)


def found_kind(values: Array) -> str:
    """Return what some values of a column say: n, d, s for all else, or that there is none.

    Examples
    --------
    >>> import numpy as np
    >>> from hammemo.sources.kinds import found_kind
    >>> found_kind(np.array([1, 2])), found_kind(np.array([None, "a"], object)), found_kind(np.array([None], object))
    ('n', 's', '?')
    """
    if values.dtype.kind == "O" and all(map(is_missing, values.tolist())):
        return UNKNOWN
    return column_kinds([values], "auto", None, has_types=True)


def ordered_kinds(found: str, numeric: Any, names: Sequence[str]) -> str:
    """Return the kinds of columns, s for names, given what their values say and which the user takes for numbers."""
    one_of_each = [_ONE_OF_EACH.get(kind, np.array(["a"])) for kind in found]
    return column_kinds(one_of_each, numeric, names, has_types=True)


_ONE_OF_EACH: Final = dict(zip(ORDERED, (np.array([0.5]), np.array(["1970-01-01"], "datetime64[us]")), strict=True))


def kind_of(values: Array) -> str:
    """Return whether values are all strings, all whole numbers, or neither; missing ones aside."""
    if values.dtype.kind in "iu":
        return WHOLE_NUMBERS
    found = {type(value) for value in values.tolist() if value != NO_TOKEN and value != MISSING}
    return UNKNOWN if not found else STRINGS if found == {str} else WHOLE_NUMBERS if found == {int} else MIXED


def as_kind(values: Array, kind: str) -> Array:
    """Return values as the model learnt them: texts as whole numbers or the other way round where that is possible."""
    if kind == WHOLE_NUMBERS and values.dtype.kind == "O":
        return _narrowed([_number(value) for value in values.tolist()])
    if kind == STRINGS and kind_of(values) != STRINGS:
        return object_array(
            str(value) if type(value) is int and value != NO_TOKEN else value for value in values.tolist()
        )
    return values


def _number(value: Any) -> Any:
    if isinstance(value, str) and value in _TRUTHS:
        return _TRUTHS[value]
    is_whole = isinstance(value, str) and re.fullmatch(r"[+-]?[0-9]{1,19}", value, re.ASCII)
    return int(value) if is_whole and -(2**63) < int(value) < 2**63 else value


def _narrowed(values: list[Any]) -> Array:
    return np.array(values, np.int64) if all(type(value) is int for value in values) else object_array(values)
