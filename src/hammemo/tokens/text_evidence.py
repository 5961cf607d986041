"""What the texts of a column say: whether it holds numbers, dates of one format, or names.

A text file has only texts, so what a column holds follows from all of its texts. `TextEvidence` is
what some rows say about it. Evidence of more rows is added with `plus`, in any order, so that files
of any size, read in any batches, give the same kinds:

- the *readings* of a column are those that all of its values allow, so readings of two batches are
  intersected;
- texts such as ``NA`` (`NA_TEXTS`) say nothing about it. They are missing values where the column
  turns out to hold numbers or dates, and names otherwise;
- everything else is a sum, or a few texts with the lowest ones kept.

What is probably misread in a column is its doubt: `TextEvidence.doubt`.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from hammemo.tokens.column_kinds import ColumnKind
from hammemo.tokens.date_formats import COMPACT, KNOWN_FORMATS, choose_format, formats_of, orders_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

NA_TEXTS: Final = (
    *("#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN"),
    *("<NA>", "?", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null"),
)
"""The texts that pandas reads as missing values, and ``?``, which many published tables have.

Model files without a note of their own mean this list, so it does not change.
"""

NUMBER: Final = "number"
"""The reading of a column of numbers; the others are formats of dates."""

DATES: Final = frozenset(KNOWN_FORMATS)
_ALL: Final = DATES | {NUMBER}
_NOTHING: Final = frozenset[str]()
_NUMBER_ONLY: Final = frozenset((NUMBER,))
_NUMBER_OR_COMPACT: Final = frozenset((NUMBER, COMPACT))
_NOT_COMPACT: Final = DATES - {COMPACT}

UNKNOWN: Final = "?"
"""The letter of a column without any value."""

_MAX_OTHERS: Final = 6
"""A column with more different texts that are neither numbers nor dates certainly holds names."""

_MOST_STRAYS: Final = 3
_LEAST_NUMBERS: Final = 20
_SHARE_OF_NUMBERS: Final = 0.9
"""A column of names gets a hint if it has so many numbers, they are this share of its values, and
few texts are no numbers."""

_LEAST_COMPACT: Final = 5
"""A column of so many whole numbers, each of which is a date as eight digits, gets a hint."""

_SHOWN_TEXTS: Final = 2
_NUMBER_TEXT: Final = re.compile(
    r"[ \t]*[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?[ \t]*", re.ASCII
)
_WHOLE_TEXT: Final = re.compile(r"[ \t]*[+-]?[0-9]+[ \t]*", re.ASCII)
_LEADING_ZERO: Final = re.compile(r"[ \t]*[+-]?0[0-9]", re.ASCII)
_PLAUSIBLE_COMPACT: Final = re.compile(r"(19|20)[0-9]{6}", re.ASCII)
"""Dates as eight digits of these two centuries; others are more likely ids."""


def number_in(text: str) -> float | None:
    """Return the finite number that a text is, in plain or exponent form; None for any other text.

    A whole number that a float does not hold is an int.

    Examples
    --------
    >>> from hammemo.tokens.text_evidence import number_in
    >>> [number_in(text) for text in ("-2.50", "1e3", " 7", "007", "", "1e999", "inf", "1_000")]
    [-2.5, 1000.0, 7.0, 7.0, None, None, None, None]
    >>> number_in("9007199254740993")
    9007199254740993
    """
    number = float(text) if _NUMBER_TEXT.fullmatch(text) else math.inf
    if 2**53 <= abs(number) <= 2**63 and _WHOLE_TEXT.fullmatch(text):
        integer = int(text)
        return integer if -(2**63) < integer < 2**63 else number
    return number if math.isfinite(number) else None


def is_blank_or_na(text: str, na: Collection[str]) -> bool:
    """Return whether a text is a missing value in a column of numbers or dates."""
    text = text.strip()
    return not text or text in na


class Doubt(StrEnum):
    """What may be misread in a column, see `TextEvidence.doubt`."""

    ORDER = "order"
    """Dates that are valid with day and month in either order."""
    CENTURY = "century"
    """Dates with two-digit years."""
    FORMATS = "formats"
    """Dates in more than one format."""
    COMPACT = "compact"
    """Whole numbers, each of which is a date as eight digits."""
    STRAYS = "strays"
    """Numbers and a few other texts."""
    NUMBER_STRINGS = "number strings"
    """Strings that are numbers, where values have types."""
    DATE_STRINGS = "date strings"
    """Strings that are dates of one format, where values have types."""


class _Tally:
    """What the texts of a batch say of a column, while they are read one by one."""

    def __init__(self, na: Collection[str]) -> None:
        self.na = na
        self.n_numbers = 0
        self.n_dates = 0
        self.n_others = 0
        self.readings = _ALL
        self.missing = Counter[str]()
        self.others: set[str] = set()
        self.shown: list[str] = []

    def add(self, text: str, count: int) -> None:
        """Count a text that is not blank and that occurs so many times."""
        if text in self.na or text.strip() in self.na:
            self.missing[text.strip()] += count
        elif number_in(text) is not None and not _LEADING_ZERO.match(text):
            self.n_numbers += count
            if COMPACT not in self.readings:
                self.readings &= _NUMBER_ONLY
            elif _PLAUSIBLE_COMPACT.fullmatch(text.strip()) and COMPACT in formats_of(text):
                self.readings &= _NUMBER_OR_COMPACT
                self._show(text)
            else:
                self.readings &= _NUMBER_ONLY
                self.shown = []
        elif formats := formats_of(text):
            if COMPACT in self.readings:
                self.shown = []  # forget the whole numbers shown so far
            self.n_dates += count
            self.readings &= formats
            self._show(text)
        else:
            self.n_others += count
            self.others.add(text)
            if COMPACT in self.readings:
                self.shown = []
            self.readings = _NOTHING

    def _show(self, text: str) -> None:
        if len(self.shown) < _SHOWN_TEXTS or text < self.shown[-1]:
            self.shown = sorted({*self.shown, text})[:_SHOWN_TEXTS]

    def evidence(self) -> TextEvidence:
        """Return what was counted."""
        return TextEvidence(
            n_values=self.n_numbers + self.n_dates + self.n_others,
            n_numbers=self.n_numbers,
            n_dates=self.n_dates,
            readings=self.readings,
            missing=tuple(sorted(self.missing.items())),
            others=tuple(sorted(self.others)),
            shown=tuple(self.shown),
        )


@dataclass(frozen=True)
class TextEvidence:
    """What some rows say about a column.

    Parameters
    ----------
    n_values, n_numbers, n_dates : int
        How many values there are that are not missing, and how many of them are numbers and dates
        of any format.
    readings : frozenset of str
        `NUMBER`, and the formats of dates, that all values allow.
    missing : tuple of (str, int)
        Which texts may stand for missing values, and how often each occurs.
    others : tuple of str, or None
        The texts that are neither numbers nor dates; None if there are too many to doubt that they
        are names.
    shown : tuple of str
        The lowest texts that are dates, for messages; the lowest whole numbers while all of them
        are dates as eight digits.
    is_typed : bool
        Whether the texts are strings of a format with types: they are names, whatever they say.

    Examples
    --------
    >>> from hammemo.tokens.text_evidence import NA_TEXTS, TextEvidence
    >>> first = TextEvidence.of_texts(["1.5", "NA", None], NA_TEXTS)
    >>> more = TextEvidence.of_texts(["2", "NA"], NA_TEXTS)
    >>> first.plus(more).kind, first.plus(more).missing
    (<ColumnKind.NUMBERS: 'n'>, (('NA', 2),))
    >>> days = TextEvidence.of_texts(["2012/01/31", "2012/02/01"], NA_TEXTS)
    >>> days.kind, days.date_format, days.plus(first).kind
    (<ColumnKind.DATES: 'd'>, '%Y/%m/%d', <ColumnKind.NAMES: 's'>)
    """

    n_values: int = 0
    n_numbers: int = 0
    n_dates: int = 0
    readings: frozenset[str] = _ALL
    missing: tuple[tuple[str, int], ...] = ()
    others: tuple[str, ...] | None = ()
    shown: tuple[str, ...] = ()
    is_typed: bool = False

    @classmethod
    def of_kind(cls, kind: str) -> TextEvidence:
        """Return the evidence of a column whose values have a type, given its kind."""
        if kind == UNKNOWN:
            return NO_EVIDENCE
        if kind == ColumnKind.NUMBERS:
            return cls(n_values=1, n_numbers=1, readings=_NUMBER_ONLY)
        if kind == ColumnKind.DATES:
            return cls(n_values=1, n_dates=1, readings=DATES)
        return NAMES_ONLY

    @classmethod
    def of_texts(cls, values: Iterable[str | None], na: Collection[str]) -> TextEvidence:
        """Return what texts say; None and blank ones are missing, those of `na` may be."""
        tally = _Tally(na)
        for text, count in Counter(values).items():
            if text is None or not text.strip():
                continue
            tally.add(text, count)
            if len(tally.others) > _MAX_OTHERS:
                return NAMES_ONLY
        return tally.evidence()

    def plus(self, other: TextEvidence) -> TextEvidence:
        """Return what both say."""
        if self.others is None or other.others is None:
            return NAMES_ONLY
        others = {*self.others, *other.others}
        if len(others) > _MAX_OTHERS:
            return NAMES_ONLY
        missing = Counter(dict(self.missing)) + Counter(dict(other.missing))
        readings = self.readings & other.readings
        shown = {*self.shown, *other.shown}
        if COMPACT not in readings:
            shown = {text for text in shown if number_in(text) is None}
        return TextEvidence(
            n_values=self.n_values + other.n_values,
            n_numbers=self.n_numbers + other.n_numbers,
            n_dates=self.n_dates + other.n_dates,
            readings=readings,
            missing=tuple(sorted(missing.items())),
            others=tuple(sorted(others)),
            shown=tuple(sorted(shown)[:_SHOWN_TEXTS]),
            is_typed=self.is_typed or other.is_typed,
        )

    def without_numbers(self) -> TextEvidence:
        """Return the evidence of strings where numbers have a type: they may only be dates."""
        if not self.n_values:
            return self
        return replace(self, readings=_NOTHING if self.n_numbers else self.readings & _NOT_COMPACT)

    def as_dates(self) -> TextEvidence:
        """Return the evidence of a column that holds dates, as the user says; it is not checked."""
        if not self.n_values:
            return self
        return replace(TextEvidence.of_kind(ColumnKind.DATES), missing=self.missing)

    def as_categories(self) -> TextEvidence:
        """Return the evidence of a column whose categories have an order.

        A value that is none of them is refused later.
        """
        if not self.n_values:
            return self
        return TextEvidence(n_values=1, readings=_NOTHING, missing=self.missing, is_typed=True)

    @property
    def is_closed(self) -> bool:
        """Whether the column holds names, whatever more rows say."""
        return self.others is None

    @property
    def date_format(self) -> str | None:
        """The format of a column of dates that are written as texts; None for any other column."""
        if not self.n_values or NUMBER in self.readings or self.readings == DATES:
            return None
        return choose_format(self.readings)

    @property
    def kind(self) -> str:
        """The kind of the column, `UNKNOWN` without any value."""
        if not self.n_values:
            return UNKNOWN
        if self.is_typed:
            return ColumnKind.NAMES
        if NUMBER in self.readings:
            return ColumnKind.NUMBERS
        has_dates = self.readings == DATES or self.date_format is not None
        return ColumnKind.DATES if has_dates else ColumnKind.NAMES

    @property
    def n_missing(self) -> int:
        """How many texts stand for missing values, if the column holds numbers or dates."""
        return sum(count for _, count in self.missing)

    @property
    def doubt(self) -> Doubt | None:
        """What is probably misread in the column, or None."""
        if not self.n_values or self.others is None:
            return None
        if self.kind == ColumnKind.NUMBERS:
            is_compact = COMPACT in self.readings and self.n_values >= _LEAST_COMPACT
            return Doubt.COMPACT if is_compact else None
        if self.kind == ColumnKind.DATES:
            return None
        if self.n_dates == self.n_values:
            return self._doubt_of_dates()
        are_numbers = self.n_numbers >= max(_LEAST_NUMBERS, _SHARE_OF_NUMBERS * self.n_values)
        if not are_numbers or self.n_dates or len(self.others) > _MOST_STRAYS:
            return None
        return Doubt.STRAYS if self.others else Doubt.NUMBER_STRINGS

    def _doubt_of_dates(self) -> Doubt:
        """Return why a column whose values are all dates is read as names."""
        if not self.readings:
            return Doubt.FORMATS
        if len(orders_of(self.readings)) > 1:
            return Doubt.ORDER
        return Doubt.CENTURY if self.date_format is None else Doubt.DATE_STRINGS

    def pack(self) -> list[Any]:
        """Return the evidence as a value of JSON; `from_packed` undoes it."""
        readings: Any = sorted(self.readings)
        if self.readings == _ALL:
            readings = "all"
        elif self.readings == DATES:
            readings = "dates"
        return [
            self.n_values,
            self.n_numbers,
            self.n_dates,
            readings,
            self.missing,
            self.others,
            self.shown,
            self.is_typed,
        ]

    @classmethod
    def from_packed(cls, packed: Sequence[Any]) -> TextEvidence:
        """Return the evidence that `pack` packed."""
        n_values, n_numbers, n_dates, readings, missing, others, shown, is_typed = packed
        named = {"all": _ALL, "dates": DATES}
        return cls(
            n_values=n_values,
            n_numbers=n_numbers,
            n_dates=n_dates,
            readings=named[readings] if isinstance(readings, str) else frozenset(readings),
            missing=tuple((text, count) for text, count in missing),
            others=None if others is None else tuple(others),
            shown=tuple(shown),
            is_typed=is_typed,
        )


NO_EVIDENCE: Final = TextEvidence()
NAMES_ONLY: Final = TextEvidence(n_values=1, readings=_NOTHING, others=None)
"""The evidence of a column of names, of which nothing more is kept."""


def quote_texts(texts: Iterable[str]) -> str:
    """Return texts in quotes for a message.

    Examples
    --------
    >>> from hammemo.tokens.text_evidence import quote_texts
    >>> quote_texts(["NA", "?"])
    "'NA' and '?'"
    """
    return " and ".join(repr(text) for text in texts)


def describe_missing(counts: Mapping[str, int]) -> str:
    """Return in words how often which texts are read as missing.

    Examples
    --------
    >>> from hammemo.tokens.text_evidence import describe_missing
    >>> describe_missing({"NA": 2}), describe_missing({"NA": 1200, "?": 3})
    ("2 values 'NA' are read as missing", "1,203 values 'NA' and '?' are read as missing")
    """
    total = sum(counts.values())
    values = "1 value" if total == 1 else f"{total:,} values"
    return f"{values} {quote_texts(counts)} {'is' if total == 1 else 'are'} read as missing"
