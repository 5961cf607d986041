"""Kinds: what each column of the input holds, so that another file is read as the model learnt it.

``"3"`` and ``3`` are two tokens, and a CSV file has only strings. So a column has a kind: numbers or dates, which the
model cuts into cells (:mod:`hammemo.tokens.column_values`), or one of the kinds of names below. Values of another
file are read the same way: in a column of numbers or of whole numbers the text ``3`` is the number 3; in one of strings
the number 3 is the text.

What a column of a text file holds follows from all of its rows (:mod:`hammemo.tokens.text_evidence`). Some rows without
any value say nothing about it.
"""

from __future__ import annotations

import re
from dataclasses import replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hammemo._arrays.integers import object_array
from hammemo.tokens.column_evidence import column_kinds
from hammemo.tokens.column_kinds import ColumnKind
from hammemo.tokens.column_letters import encode_letters
from hammemo.tokens.missing import MISSING, is_missing
from hammemo.tokens.text_evidence import NAMES_ONLY, UNKNOWN, TextEvidence
from hammemo.tokens.vocabulary import NO_TOKEN

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from hammemo._arrays.types import Array

ORDERED: Final = (ColumnKind.NUMBERS, ColumnKind.DATES)
"""The kinds of columns that the model cuts into cells."""

STRINGS, WHOLE_NUMBERS, MIXED = "s", "i", "m"
"""The kinds of names: MIXED for something else or both; UNKNOWN while no value is known. Notes hold these letters."""

ONLY_TRUTHS, OTHERS = "t", "f"
"""Whether a column holds truth values only; UNKNOWN without values."""

_TRUTHS: Final = {"True": 1, "False": 0, "true": 1, "false": 0}
"""How text files write truth values, which are learnt as the numbers 1 and 0."""


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


def kinds_of_model(columns: Iterable[ColumnKind]) -> str:
    """Return what is known of a model's input from the kinds of its columns alone, the label last.

    Examples
    --------
    >>> from hammemo.sources.kinds import kinds_of_model
    >>> from hammemo.tokens.column_kinds import ColumnKind
    >>> kinds_of_model((ColumnKind.NAMES, ColumnKind.NUMBERS))
    'mnm'
    """
    return "".join(kind.value if kind.is_ordered else MIXED for kind in columns) + MIXED


def ordered_columns(kinds: str) -> list[int]:
    """Return the places of the columns that are numbers or dates; `kinds` has the label last.

    Examples
    --------
    >>> from hammemo.sources.kinds import ordered_columns
    >>> ordered_columns("snds")
    [1, 2]
    """
    return [place for place, kind in enumerate(kinds[:-1]) if kind in ORDERED]


def found_kind(values: Array) -> str:
    """Return what some values with types say: n, d, s for all else, or that there is none.

    Examples
    --------
    >>> import numpy as np
    >>> from hammemo.sources.kinds import found_kind
    >>> found_kind(np.array([1, 2])), found_kind(np.array([None, "a"], object)), found_kind(np.array([None], object))
    ('n', 's', '?')
    """
    if values.dtype.kind == "O" and all(map(is_missing, values.tolist())):
        return UNKNOWN
    return encode_letters(column_kinds([values], "auto", None, has_types=True))


class Typing(StrEnum):
    """What a format says about the types of its values."""

    TEXTS = "texts"
    """Nothing, as CSV and TSV: what a text means follows from all texts of its column."""
    NO_DATES = "no dates"
    """Numbers and strings, as JSON: dates and missing values may be written as strings."""
    ALL = "all"
    """Everything, as Parquet and databases: a string is a string."""


def evidence_of_values(values: Array, typing: Typing, na: Collection[str]) -> TextEvidence:
    """Return what some values of a column say about it; texts of `na` may stand for missing values.

    Examples
    --------
    >>> import numpy as np
    >>> from hammemo.sources.kinds import Typing, evidence_of_values
    >>> days = np.array(["2024-01-31", "NA"], object)
    >>> [str(evidence_of_values(days, typing, ("NA",)).kind) for typing in Typing]
    ['d', 'd', 's']
    """
    if typing == Typing.TEXTS:
        return TextEvidence.of_texts(values.tolist(), na)
    listed = values.tolist() if values.dtype.kind == "O" else []
    strings = [value for value in listed if isinstance(value, str)]
    if not strings:
        return TextEvidence.of_kind(found_kind(values))
    others = [value for value in listed if not isinstance(value, str) and not is_missing(value)]
    of_strings = TextEvidence.of_texts(strings, na)
    if typing == Typing.ALL:
        return NAMES_ONLY if others else replace(of_strings, is_typed=True)
    of_others = TextEvidence.of_kind(found_kind(object_array(others)))
    return of_strings.without_numbers().plus(of_others)


def ordered_kinds(found: str, numeric: Any, names: Sequence[str]) -> str:
    """Return the kinds of columns, s for names, given what their values say and which the user takes for numbers."""
    one_of_each = [_ONE_OF_EACH.get(kind, np.array(["a"])) for kind in found]
    return encode_letters(column_kinds(one_of_each, numeric, names, has_types=True))


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
