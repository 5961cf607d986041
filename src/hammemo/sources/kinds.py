"""Kinds: what each column of the input holds, so that another file is read as the model learned it.

``"3"`` and ``3`` are two tokens, and a CSV file has only strings. So a column has a kind: numbers,
dates or ordered categories, which the model cuts into cells (:mod:`hammemo.tokens.column_kinds`),
or one of the kinds of names. Values of another file are read the same way: in a column of numbers
or of whole numbers the text ``3`` is the number 3; in one of strings the number 3 is the text.

What a column of a text file holds follows from all of its rows
(:mod:`hammemo.tokens.text_evidence`). Rows without any value say nothing about it.
"""

from __future__ import annotations

import re
from dataclasses import replace
from enum import Enum, StrEnum
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from hammemo._arrays.integers import object_array
from hammemo.tokens.column_evidence import column_kinds
from hammemo.tokens.column_kinds import ColumnKind
from hammemo.tokens.missing import MISSING, is_missing
from hammemo.tokens.text_evidence import NAMES_ONLY, TextEvidence
from hammemo.tokens.vocabulary import NO_TOKEN

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from hammemo._arrays.types import Array
    from hammemo.tokens.column_kinds import ColumnKinds


class InputKind(Enum):
    """What a column of the input holds; the values are the letters of the note ``kinds``."""

    NUMBERS = "n"
    DATES = "d"
    ORDERED_CATEGORIES = "o"
    STRINGS = "s"
    """Names, all of them strings."""
    WHOLE_NUMBERS = "i"
    """Names, all of them whole numbers."""
    MIXED = "m"
    """Names of both sorts or of another one, or not known of which."""
    UNKNOWN = "?"
    """No value is known yet, so the next ones decide. No note holds it."""

    @property
    def is_ordered(self) -> bool:
        """Whether the model cuts the column into cells."""
        return self in _COLUMN_KINDS

    @property
    def column_kind(self) -> ColumnKind:
        """The kind of the column for the model."""
        return _COLUMN_KINDS.get(self, ColumnKind.NAMES)

    @classmethod
    def from_column_kind(cls, kind: ColumnKind) -> InputKind:
        """Return what is known of an input column from its kind for the model alone."""
        return _INPUT_KINDS.get(kind, cls.MIXED)


InputKinds: TypeAlias = tuple[InputKind, ...]

_COLUMN_KINDS: Final = {
    InputKind.NUMBERS: ColumnKind.NUMBERS,
    InputKind.DATES: ColumnKind.DATES,
    InputKind.ORDERED_CATEGORIES: ColumnKind.ORDERED_CATEGORIES,
}

_INPUT_KINDS: Final = {kind: input_kind for input_kind, kind in _COLUMN_KINDS.items()}

_TRUTHS: Final = {"True": 1, "False": 0, "true": 1, "false": 0}
"""How text files write truth values, which are learned as the numbers 1 and 0."""

_LONGEST_NOTE: Final = 1024
"""Characters of the note ``kinds``; a longer one is left out, and the kept rows tell the kinds."""

_MOST_COLUMNS: Final = 10**7
"""A note of more columns than these was not written by us: a short one could ask for billions."""

_RUN_OF_A_NOTE: Final = r"([simndo])([0-9]{1,6})?"


def merge_kinds(before: InputKinds, after: InputKinds) -> InputKinds:
    """Return what columns hold after two batches, of which the first may be none.

    Examples
    --------
    >>> from hammemo.sources.kinds import InputKind, merge_kinds
    >>> strings, whole = InputKind.STRINGS, InputKind.WHOLE_NUMBERS
    >>> [kind.name for kind in merge_kinds((strings, InputKind.UNKNOWN), (whole, whole))]
    ['MIXED', 'WHOLE_NUMBERS']
    """
    if not before:
        return after
    return tuple(merge_kind(old, new) for old, new in zip(before, after, strict=True))


def merge_kind(before: InputKind, after: InputKind) -> InputKind:
    """Return what a column holds after two batches."""
    if before in (after, InputKind.UNKNOWN):
        return after
    if after == InputKind.UNKNOWN:
        return before
    return InputKind.MIXED


Truths: TypeAlias = "tuple[bool | None, ...]"
"""Whether columns hold truth values only; None for a column without values."""


def merge_truths(before: Truths, after: Truths) -> Truths:
    """Return whether columns hold truth values only in two batches; the first may be none.

    Examples
    --------
    >>> from hammemo.sources.kinds import merge_truths
    >>> merge_truths((True, True, None), (True, None, False))
    (True, True, False)
    """
    if not before:
        return after
    merged = []
    for old, new in zip(before, after, strict=True):
        if old is None or new is None:
            merged.append(new if old is None else old)
        else:
            merged.append(old and new)
    return tuple(merged)


def settle_kinds(kinds: Iterable[InputKind]) -> InputKinds:
    """Return the kinds of columns all of whose values were read.

    Columns without a value hold something else: nothing is known of them.
    """
    return tuple(InputKind.MIXED if kind == InputKind.UNKNOWN else kind for kind in kinds)


def encode_kinds(kinds: Iterable[InputKind]) -> str:
    """Return kinds as a note: a letter, and how often it follows itself, so that it stays short.

    A note that is too long is empty.

    Examples
    --------
    >>> from hammemo.sources.kinds import InputKind, decode_kinds, encode_kinds
    >>> kinds = (InputKind.STRINGS,) * 4 + (InputKind.WHOLE_NUMBERS,)
    >>> encode_kinds(kinds), decode_kinds("s4i") == kinds
    ('s4i', True)
    """
    letters = "".join(kind.value for kind in kinds)
    note = re.sub(r"(.)\1+", lambda run: f"{run[1]}{len(run[0])}", letters)
    return note if len(note) <= _LONGEST_NOTE else ""


def decode_kinds(note: str) -> InputKinds:
    """Return the kinds of a note; none for a note that `encode_kinds` did not write."""
    if not re.fullmatch(f"({_RUN_OF_A_NOTE})*", note, re.ASCII):
        return ()
    runs = [(letter, int(times or 1)) for letter, times in re.findall(_RUN_OF_A_NOTE, note)]
    if sum(times for _, times in runs) > _MOST_COLUMNS:
        return ()
    kinds: list[InputKind] = []
    for letter, times in runs:
        kinds += [InputKind(letter)] * times
    return tuple(kinds)


def kinds_of_model(columns: Iterable[ColumnKind]) -> InputKinds:
    """Return what is known of a model's input from the kinds of its columns, the label last.

    Examples
    --------
    >>> from hammemo.sources.kinds import kinds_of_model
    >>> from hammemo.tokens.column_kinds import ColumnKind
    >>> [kind.name for kind in kinds_of_model((ColumnKind.NAMES, ColumnKind.NUMBERS))]
    ['MIXED', 'NUMBERS', 'MIXED']
    """
    return (*map(InputKind.from_column_kind, columns), InputKind.MIXED)


def find_numeric_columns(kinds: InputKinds) -> list[int]:
    """Return the places that the parameter `numeric` of a model lists: of numbers and of dates.

    `kinds` has the label last. Ordered categories are declared by another parameter.

    Examples
    --------
    >>> from hammemo.sources.kinds import decode_kinds, find_numeric_columns
    >>> find_numeric_columns(decode_kinds("sndos"))
    [1, 2]
    """
    numeric = (InputKind.NUMBERS, InputKind.DATES)
    return [place for place, kind in enumerate(kinds[:-1]) if kind in numeric]


def _find_kind(values: Array) -> InputKind:
    """Return the kind of values that have types: STRINGS for names of any sort."""
    if values.dtype.kind == "O" and all(map(is_missing, values.tolist())):
        return InputKind.UNKNOWN
    (kind,) = column_kinds([values], "auto", None, has_types=True)
    return InputKind(kind.value)


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
        return TextEvidence.of_kind(_find_kind(values).value)
    others = [value for value in listed if not isinstance(value, str) and not is_missing(value)]
    of_strings = TextEvidence.of_texts(strings, na)
    if typing == Typing.ALL and others:
        return NAMES_ONLY
    if typing == Typing.ALL:
        return replace(of_strings, is_typed=True)
    of_others = TextEvidence.of_kind(_find_kind(object_array(others)).value)
    return of_strings.without_numbers().plus(of_others)


def choose_kinds(
    evidence: Iterable[TextEvidence], numeric: Any, names: Sequence[str]
) -> ColumnKinds:
    """Return the kinds of columns, given what their values say and which the user names numbers."""
    # The choice is that of a table with one value of each kind.
    one_of_each = [_ONE_OF_EACH.get(column.kind, np.array(["a"])) for column in evidence]
    return column_kinds(one_of_each, numeric, names, has_types=True)


_ONE_OF_EACH: Final[dict[str, Array]] = {
    ColumnKind.NUMBERS: np.array([0.5]),
    ColumnKind.DATES: np.array(["1970-01-01"], "datetime64[us]"),
}


def kind_of_names(values: Array) -> InputKind:
    """Return whether names are all strings, all whole numbers, or neither; missing ones aside."""
    if values.dtype.kind in "iu":
        return InputKind.WHOLE_NUMBERS
    present = (value for value in values.tolist() if value not in (NO_TOKEN, MISSING))
    types = {type(value) for value in present}
    if not types:
        return InputKind.UNKNOWN
    if types == {str}:
        return InputKind.STRINGS
    return InputKind.WHOLE_NUMBERS if types == {int} else InputKind.MIXED


def as_kind(values: Array, kind: InputKind) -> Array:
    """Return names as the model learned them.

    Texts become whole numbers, or the other way round, where that is possible.
    """
    if kind == InputKind.WHOLE_NUMBERS and values.dtype.kind == "O":
        numbers = [_number(value) for value in values.tolist()]
        if all(type(value) is int for value in numbers):
            return np.array(numbers, np.int64)
        return object_array(numbers)
    if kind == InputKind.STRINGS and kind_of_names(values) != InputKind.STRINGS:
        return object_array(_text(value) for value in values.tolist())
    return values


def _number(value: Any) -> Any:
    """Return the whole number of 64 bits that a text is; any other value as it is."""
    if not isinstance(value, str):
        return value
    if value in _TRUTHS:
        return _TRUTHS[value]
    if not re.fullmatch(r"[+-]?[0-9]{1,19}", value, re.ASCII):
        return value
    number = int(value)
    return number if -(2**63) < number < 2**63 else value


def _text(value: Any) -> Any:
    """Return a whole number as its text; any other value as it is."""
    if type(value) is int and value != NO_TOKEN:
        return str(value)
    return value
