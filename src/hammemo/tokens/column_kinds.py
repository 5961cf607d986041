"""What is known of the columns of a table: four facts about each, every one of which is an enum.

- Its *kind* (`ColumnKind`): what the model takes its values for.
- Its *type* (`ColumnType`): how its values came. Types and contents decide the kind
  (:mod:`hammemo.tokens.column_evidence`).
- Its *content* (`ColumnContent`): what its values are.
- Its *token type* (`TokenType`): whether its tokens were numbers or strings
  (:mod:`hammemo.tokens.token_types`).

The facts about all columns of a table are tuples of members, never strings: what a function takes
is then said by its signature, and checked. Files and notes hold the values of the members, which
are letters (:mod:`hammemo.tokens.column_letters`).

What differs from kind to kind stands here, as an attribute of the members.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from hammemo._arrays.types import Bools


class ColumnKind(StrEnum):
    """What the values of a column are for a model."""

    NAMES = ("s", False, "")
    NUMBERS = ("n", True, "iufbm")
    DATES = ("d", True, "M", True)
    ORDERED_CATEGORIES = ("o", True, "", True)

    is_ordered: bool
    """Whether values have an order, so that columns of this kind are cut into cells."""
    dtype_codes: str
    """The kinds of NumPy's types all of whose values are of this kind, or missing."""

    has_scale: bool
    """Whether a token is a place on a clock or in an order, and not the value itself: a column of
    this kind becomes one of no other kind while it has values.
    """

    def __new__(
        cls, letter: str, is_ordered: bool, dtype_codes: str, has_scale: bool = False
    ) -> ColumnKind:
        """Return a member whose value is its letter."""
        member = str.__new__(cls, letter)
        member._value_ = letter
        member.is_ordered = is_ordered
        member.dtype_codes = dtype_codes
        member.has_scale = has_scale
        return member

    @property
    def word(self) -> str:
        """The kind as messages name it."""
        return self.name.lower().replace("_", " ")


class ColumnType(StrEnum):
    """How the values of a column came; of two types, the later one holds for both."""

    CATEGORIES = "s"
    """Truth values, and categories of data frames: names."""
    UNTYPED = "o"
    """Lists and arrays of a model with a given kernel, but for floats and durations: whole numbers
    are names.
    """
    TYPED = "t"
    """All else: whole numbers are numbers."""
    DATES = "d"
    ORDERED = "r"
    """Categories with an order."""


class ColumnContent(StrEnum):
    """What the values of a column are; what two batches hold together is the later one."""

    NOTHING = "-"
    """None but missing ones."""
    WHOLE = "w"
    FRACTIONS = "f"
    STRINGS = "x"


class TokenType(StrEnum):
    """The type of the tokens of a column."""

    NUMBERS = "n"
    STRINGS = "s"
    UNKNOWN = "?"
    """Both, or only missing values."""


ColumnKinds: TypeAlias = tuple[ColumnKind, ...]
ColumnTypes: TypeAlias = tuple[ColumnType, ...]
ColumnContents: TypeAlias = tuple[ColumnContent, ...]

# For code that runs for every row or value: to look up a member takes time in Python 3.11.
NAMES = ColumnKind.NAMES
NUMBERS = ColumnKind.NUMBERS
DATES = ColumnKind.DATES
ORDERED_CATEGORIES = ColumnKind.ORDERED_CATEGORIES


def has_ordered(kinds: ColumnKinds) -> bool:
    """Return whether some columns are cut into cells."""
    return any(kind.is_ordered for kind in kinds)


def find_ordered(kinds: ColumnKinds) -> Bools:
    """Return which columns are cut into cells.

    Examples
    --------
    >>> from hammemo.tokens.column_kinds import ColumnKind, find_ordered
    >>> find_ordered((ColumnKind.NAMES, ColumnKind.DATES)).tolist()
    [False, True]
    """
    return np.fromiter((kind.is_ordered for kind in kinds), bool, len(kinds))


def find_names(kinds: ColumnKinds) -> list[int]:
    """Return the places of the columns of names.

    Examples
    --------
    >>> from hammemo.tokens.column_kinds import ColumnKind, find_names
    >>> find_names((ColumnKind.NAMES, ColumnKind.DATES, ColumnKind.NAMES))
    [0, 2]
    """
    return [place for place, kind in enumerate(kinds) if kind is NAMES]
