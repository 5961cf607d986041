"""Which kind a column is: a function of how its values came and of the rows that a model holds.

Two things for each column are all that it depends on:

- its *type*, how values came (`ColumnType`). Types are declared by what is learned, like the type
  of the labels, and stay when rows are forgotten;
- its *content*, what the values are (`ColumnContent`). The rows that are left tell it, so it
  changes when rows are forgotten.

A column without values is a column of names until values come: nothing is decided by missing ones,
and it has no type of its own (`ColumnType.UNTYPED`).
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass, field
from datetime import date, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hammemo.tokens.column_kinds import ColumnContent, ColumnKind, ColumnType
from hammemo.tokens.column_values import LARGEST, array_values, is_number, number_of, zone_of_column
from hammemo.tokens.contexts import Contexts
from hammemo.tokens.missing import MISSING, is_missing
from hammemo.tokens.vocabulary import NO_TOKEN, Vocabulary
from hammemo.tokens.zones import NO_ZONES

if TYPE_CHECKING:
    from hammemo._arrays.types import Array
    from hammemo.tokens.column_kinds import ColumnContents, ColumnKinds, ColumnTypes
    from hammemo.tokens.zones import Zones


_TYPES: Final = tuple(ColumnType)
_CONTENTS: Final = tuple(ColumnContent)
_NOTHING, _WHOLE, _FRACTIONS, _STRINGS = ColumnContent

Asked = Set[int] | None
"""The columns that the user said are numbers; None where that is automatic."""


@dataclass(frozen=True)
class Evidence:
    """The types and the contents of the columns of a table.

    Examples
    --------
    >>> import numpy as np
    >>> from hammemo.tokens.column_evidence import Evidence
    >>> whole = [np.array([None, 3], object), np.array([None, None], object)]
    >>> fractions = [np.array([0.5, 4.0]), np.array(["a", None], object)]
    >>> first = Evidence.of_columns(whole, has_types=False)
    >>> together = first.plus(Evidence.of_columns(fractions, has_types=False))
    >>> [kind.word for kind in together.decide_kinds(None)], [how.name for how in together.types]
    (['numbers', 'names'], ['TYPED', 'UNTYPED'])
    """

    types: ColumnTypes
    contents: ColumnContents
    zones: Zones = field(default_factory=dict)
    """Of the columns whose dates have a zone."""

    @classmethod
    def of_columns(
        cls, columns: Sequence[Array], *, has_types: bool, categories: Set[int] = frozenset()
    ) -> Evidence:
        """Return what the columns of a table show.

        Parameters
        ----------
        has_types : bool
            Whether whole numbers are numbers: in data frames, and wherever the kernel is automatic.
        categories : set of int
            The places of categories: their numbers are names.
        """
        found = [_shown(column, has_types=has_types) for column in columns]
        named = {j for j in categories if found[j][0] is not ColumnType.DATES}
        types = [ColumnType.CATEGORIES if j in named else kind for j, (kind, _) in enumerate(found)]
        dates = [j for j, (how, _) in enumerate(found) if how is ColumnType.DATES]
        zones = {j: zone_of_column(columns[j]) for j in dates}
        named_zones = {j: zone for j, zone in zones.items() if zone is not None}
        return cls._made(types, [content for _, content in found], named_zones)

    @classmethod
    def of_rows(cls, types: ColumnTypes, contexts: Contexts, zones: Zones = NO_ZONES) -> Evidence:
        """Return what rows of tokens show that came with these types, in these zones."""
        tokens = contexts.vocabulary
        levels = np.zeros(len(tokens) + 1, np.int64)  # rank -1, no token, reads the last entry
        fractional = (tokens.floats != np.floor(tokens.floats)) | (np.abs(tokens.floats) >= LARGEST)
        strings = np.where(tokens.strings == MISSING, 0, 3)
        levels[:-1] = np.concatenate([np.ones(len(tokens.ints), np.int64), 1 + fractional, strings])
        most = levels[contexts.ranks].max(axis=0, initial=0)
        return cls._made(types, [_CONTENTS[level] for level in most.tolist()], zones)

    @classmethod
    def _made(
        cls, types: Sequence[ColumnType], contents: Sequence[ColumnContent], zones: Zones
    ) -> Evidence:
        """Return evidence where a column without values has no type and no zone of its own."""
        pairs = zip(types, contents, strict=True)
        known = tuple(
            ColumnType.UNTYPED if content is _NOTHING else kind for kind, content in pairs
        )
        zones_of_values = {j: zone for j, zone in zones.items() if contents[j] is not _NOTHING}
        return cls(known, tuple(contents), zones_of_values)

    def plus(self, other: Evidence) -> Evidence:
        """Return what both show."""
        columns = zip(self.types, self.contents, other.types, other.contents, strict=True)
        types = tuple(
            _joined(mine, content, theirs, more) for mine, content, theirs, more in columns
        )
        pairs = zip(self.contents, other.contents, strict=True)
        contents = tuple(max(pair, key=_CONTENTS.index) for pair in pairs)
        zones = {
            j: zone for j, zone in other.zones.items() if self.contents[j] is _NOTHING
        }  # else mine were first
        zones.update(self.zones)
        return Evidence(types, contents, zones)

    def decide_kinds(self, asked: Asked) -> ColumnKinds:
        """Return the kind of each column."""
        kinds = []
        for j, (how, content) in enumerate(zip(self.types, self.contents, strict=True)):
            if asked is None:
                kinds.append(_kind(how, content))
            elif how is ColumnType.DATES and asked:  # who lists numbers does not say what dates are
                kinds.append(ColumnKind.DATES)
            else:
                kinds.append(ColumnKind.NUMBERS if j in asked else ColumnKind.NAMES)
        return tuple(kinds)


def _kind(how: ColumnType, content: ColumnContent) -> ColumnKind:
    if content is _NOTHING or how is ColumnType.CATEGORIES:
        return ColumnKind.NAMES
    if how is ColumnType.DATES:
        return ColumnKind.DATES
    is_ordered = content is _FRACTIONS or (content is _WHOLE and how is ColumnType.TYPED)
    return ColumnKind.NUMBERS if is_ordered else ColumnKind.NAMES


def _joined(
    mine: ColumnType, content: ColumnContent, theirs: ColumnType, more: ColumnContent
) -> ColumnType:
    """Return the type of a column that came with two types: values decide, missing ones do not."""
    if more is _NOTHING and content is not _NOTHING:
        return mine
    if content is _NOTHING and more is not _NOTHING:
        return theirs
    if ColumnType.DATES in (mine, theirs):
        return mine  # what is no date is refused where dates were learnt, and the other way round
    return mine if mine is ColumnType.CATEGORIES else max(mine, theirs, key=_TYPES.index)


def _shown(column: Array, *, has_types: bool) -> tuple[ColumnType, ColumnContent]:
    """Return the type and the content of one column."""
    kind = column.dtype.kind
    plain = ColumnType.TYPED if has_types else ColumnType.UNTYPED
    if kind in "mM":
        how = ColumnType.DATES if kind == "M" else ColumnType.TYPED
        return how, _NOTHING if np.isnat(column).all() else _WHOLE
    if kind in "iub":
        is_there = bool((column != NO_TOKEN).any()) if kind == "i" else len(column) > 0
        return (
            ColumnType.CATEGORIES if has_types and kind == "b" else plain,
            _WHOLE if is_there else _NOTHING,
        )
    if kind == "f":
        present = column[~np.isnan(column)]
        whole = bool((np.isfinite(present) & (present == np.floor(present))).all())
        return ColumnType.TYPED, _NOTHING if not len(present) else _WHOLE if whole else _FRACTIONS
    if kind != "O":
        return plain, _STRINGS if any(map(_is_there, column.tolist())) else _NOTHING
    return _shown_objects(array_values(column), plain)


def _shown_objects(values: list[Any], plain: ColumnType) -> tuple[ColumnType, ColumnContent]:
    """Return the type and the content of a column of objects.

    Most are clear from the types of their values and a few values.
    """
    kinds = {_value_kind(kind) for kind in set(map(type, values))}
    if "name" in kinds and any(
        _value_kind(type(value)) == "name" and _is_there(value) for value in values
    ):
        return plain, _STRINGS
    if not any(map(_is_there, values)):
        return plain, _NOTHING
    kinds = (
        {_value_kind(type(value)) for value in values if _is_there(value)}
        if "fraction" in kinds
        else kinds
    )
    kinds -= {"name", "missing"}
    if "moment" in kinds:
        return (
            (ColumnType.DATES, _WHOLE) if kinds == {"moment"} else (plain, _STRINGS)
        )  # which is refused
    if "truth" in kinds and plain is ColumnType.TYPED:
        return ColumnType.CATEGORIES, _WHOLE
    is_fraction = "fraction" in kinds and any(
        _is_there(value) and _is_fraction(value) for value in values
    )
    return ColumnType.TYPED if "duration" in kinds else plain, _FRACTIONS if is_fraction else _WHOLE


def _is_there(value: Any) -> bool:
    if type(value) in (str, int):
        return bool(value != MISSING and value != NO_TOKEN)
    return not is_missing(value)


def _value_kind(kind: type) -> str:
    if kind.__name__ in ("NoneType", "NAType", "NaTType"):
        return "missing"
    if issubclass(kind, (bool, np.bool_)):
        return "truth"
    if issubclass(kind, (int, np.integer)):
        return "whole"
    if issubclass(kind, (timedelta, np.timedelta64)):
        return "duration"
    if issubclass(kind, (float, np.floating, Decimal, Fraction)):
        return "fraction"
    return "moment" if issubclass(kind, (date, np.datetime64)) else "name"


def is_time(value: Any) -> bool:
    """Return whether a value is a date or a duration, which cannot be a name."""
    return _value_kind(type(value)) in ("moment", "duration") and not is_missing(value)


def holds_time(column: Array) -> bool:
    """Return whether a column holds a date or a duration."""
    return column.dtype.kind in "mM" or (
        column.dtype.kind == "O" and any(map(is_time, array_values(column)))
    )


def _is_fraction(value: Any) -> bool:
    """Return whether a value is no whole number; an infinite one is none."""
    number = number_of(value) if is_number(value) else 0.0
    return not number.is_integer() or (abs(number) >= LARGEST and not isinstance(value, int))


def find_number_columns(numeric: Any, names: Sequence[Any] | None, n: int) -> Asked:
    """Return the places of the columns that `numeric` says are numbers; None for "auto".

    Examples
    --------
    >>> from hammemo.tokens.column_evidence import find_number_columns
    >>> find_number_columns(["b", 0], ["a", "b"], 2), find_number_columns("none", None, 2)
    ({0, 1}, set())
    >>> find_number_columns("auto", None, 2) is None
    True
    """
    if isinstance(numeric, str) and numeric in ("auto", "none"):
        return None if numeric == "auto" else set()
    if isinstance(numeric, str) or not isinstance(numeric, (Sequence, np.ndarray)):
        raise ValueError(
            f"numeric={numeric!r} is not known: use 'auto', 'none' or a list of columns."
        )
    return {_place(column, names, n) for column in numeric}


def _place(column: Any, names: Sequence[Any] | None, n: int) -> int:
    known = [] if names is None else list(names)
    if (
        isinstance(column, (str, int, np.integer))
        and not isinstance(column, bool)
        and column in known
    ):
        return known.index(column)
    if isinstance(column, (int, np.integer)) and not isinstance(column, bool) and 0 <= column < n:
        return int(column)
    raise ValueError(f"numeric= names the column {column!r}, which the table does not have.")


def column_kinds(
    columns: Sequence[Array], numeric: Any, names: Sequence[Any] | None, *, has_types: bool
) -> ColumnKinds:
    """Return the kind of each column of a table; the parameters are those of the functions above.

    Examples
    --------
    >>> import numpy as np
    >>> from hammemo.tokens.column_evidence import column_kinds
    >>> columns = [np.array([1, 2]), np.array(["a", None])]
    >>> kinds = column_kinds(columns, "auto", None, has_types=True)
    >>> [kind.word for kind in kinds]
    ['numbers', 'names']
    """
    evidence = Evidence.of_columns(columns, has_types=has_types)
    return evidence.decide_kinds(find_number_columns(numeric, names, len(columns)))


def convert_kinds(
    contexts: Contexts,
    before: ColumnKinds,
    after: ColumnKinds,
    missing: str,
    names: Sequence[Any] | None,
) -> Contexts:
    """Return rows of tokens with columns of other kinds; ValueError where that cannot be.

    A missing number is no token, a missing name is the token `MISSING` or none.

    Examples
    --------
    >>> from hammemo.tokens.contexts import Contexts
    >>> from hammemo.tokens.column_evidence import convert_kinds
    >>> from hammemo.tokens.column_kinds import ColumnKind
    >>> before, after = (ColumnKind.NAMES, ColumnKind.NAMES), (ColumnKind.NUMBERS, ColumnKind.NAMES)
    >>> contexts = Contexts.of([["<missing>", "a"], [2, "<missing>"]])
    >>> rows = convert_kinds(contexts, before, after, "token", None)
    >>> rows.vocabulary.tolist(), rows.ranks.tolist()
    ([2, '<missing>', 'a'], [[-1, 2], [0, 1]])
    """
    if before == after:
        return contexts
    vocabulary = contexts.vocabulary.union(Vocabulary.of([MISSING]))
    ranks = contexts.ranks_in(vocabulary).copy()
    (lacking,) = vocabulary.find(Vocabulary.of([MISSING])).tolist()
    first_string = len(vocabulary) - len(vocabulary.strings)
    for j, (old, new) in enumerate(zip(before, after, strict=True)):
        if old is new:
            continue
        column = ranks[:, j]
        present = column[(column >= 0) & (column != lacking)]
        has_strings = bool((present >= first_string).any())
        if len(present) and (
            ColumnKind.DATES in (old, new) or (new is ColumnKind.NUMBERS and has_strings)
        ):
            where = repr(names[j]) if names is not None else str(j)
            raise ValueError(
                f"Column {where} holds {old.word}, which cannot become {new.word}: fit a new "
                "model, on a table with this column converted."
            )
        if new is ColumnKind.NAMES:
            ranks[:, j] = np.where(column < 0, lacking if missing == "token" else -1, column)
        else:
            ranks[:, j] = np.where(column == lacking, -1, column)
    used = np.zeros(len(vocabulary) + 1, bool)
    used[ranks] = True
    kept = vocabulary.keep(used[:-1])
    places = np.append(np.cumsum(used[:-1]) - 1, -1)
    return Contexts.with_ranks(kept, places[ranks])
