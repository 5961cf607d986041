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

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from datetime import date, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hammemo.tokens.column_kinds import ColumnContent, ColumnKind, ColumnType
from hammemo.tokens.column_times import zone_of_column
from hammemo.tokens.column_values import LARGEST, is_number, number_of
from hammemo.tokens.contexts import Contexts
from hammemo.tokens.missing import MISSING, is_missing
from hammemo.tokens.orders import NO_ORDERS, check_order
from hammemo.tokens.scales import NO_SCALES
from hammemo.tokens.table_columns import array_values, quote_column
from hammemo.tokens.vocabulary import NO_TOKEN, Vocabulary

if TYPE_CHECKING:
    from hammemo._arrays.types import Array
    from hammemo.tokens.column_kinds import ColumnContents, ColumnKinds, ColumnTypes
    from hammemo.tokens.orders import Order
    from hammemo.tokens.scales import Scale, Scales


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
    scales: Scales = field(default_factory=dict)
    """Of the columns whose dates have a zone, or whose categories have an order."""

    @classmethod
    def of_columns(
        cls,
        columns: Sequence[Array],
        *,
        has_types: bool,
        categories: Set[int] = frozenset(),
        declared: Mapping[int, Order] = NO_ORDERS,
    ) -> Evidence:
        """Return what the columns of a table show.

        Parameters
        ----------
        has_types : bool
            Whether whole numbers are numbers: in data frames, and wherever the kernel is automatic.
        categories : set of int
            The places of categories: their numbers are names.
        declared : mapping of int to tuple
            The orders of categories that a user has declared.
        """
        types: list[ColumnType] = []
        contents: list[ColumnContent] = []
        scales: dict[int, Scale] = {}
        for j, column in enumerate(columns):
            column_type, content = _look_at_column(column, has_types=has_types)
            order = declared.get(j, getattr(column, "order", None))
            if order is not None:
                column_type = ColumnType.ORDERED
                if content is not ColumnContent.NOTHING:
                    content = ColumnContent.WHOLE  # places in the order
                scales[j] = order
            elif column_type is ColumnType.DATES:
                zone = zone_of_column(column)
                if zone is not None:
                    scales[j] = zone
            elif j in categories:
                column_type = ColumnType.CATEGORIES
            types.append(column_type)
            contents.append(content)
        return cls._from_columns(types, contents, scales)

    @classmethod
    def of_rows(
        cls, types: ColumnTypes, contexts: Contexts, scales: Scales = NO_SCALES
    ) -> Evidence:
        """Return what rows of tokens show that came with these types, on these scales."""
        tokens = contexts.vocabulary
        levels = np.zeros(len(tokens) + 1, np.int64)  # rank -1, no token, reads the last entry
        fractional = (tokens.floats != np.floor(tokens.floats)) | (np.abs(tokens.floats) >= LARGEST)
        strings = np.where(tokens.strings == MISSING, 0, 3)
        levels[:-1] = np.concatenate([np.ones(len(tokens.ints), np.int64), 1 + fractional, strings])
        highest = levels[contexts.ranks].max(axis=0, initial=0)
        return cls._from_columns(types, [_CONTENTS[level] for level in highest.tolist()], scales)

    @classmethod
    def _from_columns(
        cls, types: Sequence[ColumnType], contents: Sequence[ColumnContent], scales: Scales
    ) -> Evidence:
        """Return evidence where a column without values has no type and no scale of its own."""
        pairs = zip(types, contents, strict=True)
        types_of_values = tuple(
            ColumnType.UNTYPED if content is _NOTHING else column_type
            for column_type, content in pairs
        )
        scales_of_values = {j: scale for j, scale in scales.items() if contents[j] is not _NOTHING}
        return cls(types_of_values, tuple(contents), scales_of_values)

    def plus(self, other: Evidence) -> Evidence:
        """Return what both show."""
        types = tuple(
            _join_types(
                self.types[j],
                other.types[j],
                has_values=self.contents[j] is not _NOTHING,
                has_new_values=other.contents[j] is not _NOTHING,
            )
            for j in range(len(self.types))
        )
        pairs = zip(self.contents, other.contents, strict=True)
        contents = tuple(max(pair, key=_CONTENTS.index) for pair in pairs)
        # The first values of a column decide its scale.
        scales = {j: scale for j, scale in other.scales.items() if self.contents[j] is _NOTHING}
        scales.update(self.scales)
        return Evidence(types, contents, scales)

    def decide_kinds(self, numbers: Asked) -> ColumnKinds:
        """Return the kind of each column; `numbers` are those that the user lists."""
        if numbers is None:
            return tuple(map(_decide_kind, self.types, self.contents))
        kinds = []
        for j, column_type in enumerate(self.types):
            if column_type is ColumnType.DATES and numbers:
                kinds.append(ColumnKind.DATES)  # a list of numbers does not say what dates are
            elif j in numbers:
                kinds.append(ColumnKind.NUMBERS)
            elif column_type is ColumnType.ORDERED:
                kinds.append(ColumnKind.ORDERED_CATEGORIES)  # an order is declared apart
            else:
                kinds.append(ColumnKind.NAMES)
        return tuple(kinds)


def _decide_kind(column_type: ColumnType, content: ColumnContent) -> ColumnKind:
    if content is _NOTHING or column_type is ColumnType.CATEGORIES:
        return ColumnKind.NAMES
    if column_type is ColumnType.DATES:
        return ColumnKind.DATES
    if column_type is ColumnType.ORDERED:
        return ColumnKind.ORDERED_CATEGORIES
    if content is _FRACTIONS or (content is _WHOLE and column_type is ColumnType.TYPED):
        return ColumnKind.NUMBERS
    return ColumnKind.NAMES


def _join_types(
    before: ColumnType, after: ColumnType, *, has_values: bool, has_new_values: bool
) -> ColumnType:
    """Return the type of a column that came with two types: values decide, missing ones do not."""
    if has_values and not has_new_values:
        return before
    if has_new_values and not has_values:
        return after
    if ColumnType.DATES in (before, after) or ColumnType.ORDERED in (before, after):
        # the first type stays: what does not fit it is refused where tokens are made
        return before
    if before is ColumnType.CATEGORIES:
        return before
    return max(before, after, key=_TYPES.index)


def _look_at_column(column: Array, *, has_types: bool) -> tuple[ColumnType, ColumnContent]:
    """Return the type and the content of one column."""
    plain = ColumnType.TYPED if has_types else ColumnType.UNTYPED
    match column.dtype.kind:
        case "M":
            return ColumnType.DATES, _NOTHING if np.isnat(column).all() else _WHOLE
        case "m":
            return ColumnType.TYPED, _NOTHING if np.isnat(column).all() else _WHOLE
        case "i":
            return plain, _WHOLE if (column != NO_TOKEN).any() else _NOTHING
        case "u":
            return plain, _WHOLE if len(column) else _NOTHING
        case "b":
            truths = ColumnType.CATEGORIES if has_types else plain
            return truths, _WHOLE if len(column) else _NOTHING
        case "f":
            return ColumnType.TYPED, _look_at_floats(column)
        case "O":
            return _look_at_objects(array_values(column), plain)
    return plain, _STRINGS if any(map(_is_present, column.tolist())) else _NOTHING


def _look_at_floats(column: Array) -> ColumnContent:
    present = column[~np.isnan(column)]
    if not len(present):
        return _NOTHING
    is_whole = np.isfinite(present) & (present == np.floor(present))
    return _WHOLE if is_whole.all() else _FRACTIONS


def _look_at_objects(values: list[Any], plain: ColumnType) -> tuple[ColumnType, ColumnContent]:
    """Return the type and the content of a column of objects.

    The types of its values say most of it: single values are looked at where they do not.
    """
    kinds = {_value_kind(value_type) for value_type in set(map(type, values))}
    if "name" in kinds:
        names = (value for value in values if _value_kind(type(value)) == "name")
        if any(map(_is_present, names)):
            return plain, _STRINGS
    if not any(map(_is_present, values)):
        return plain, _NOTHING
    if "fraction" in kinds:  # NaN is of their type, and no fraction
        kinds = {_value_kind(type(value)) for value in values if _is_present(value)}
    kinds -= {"name", "missing"}  # a name here is a text for a missing value
    if kinds == {"moment"}:
        return ColumnType.DATES, _WHOLE
    if "moment" in kinds:
        return plain, _STRINGS  # dates beside others, which are refused where tokens are made
    if "truth" in kinds and plain is ColumnType.TYPED:
        return ColumnType.CATEGORIES, _WHOLE
    content = _WHOLE
    if "fraction" in kinds and any(_is_present(value) and _is_fraction(value) for value in values):
        content = _FRACTIONS
    return ColumnType.TYPED if "duration" in kinds else plain, content


def _is_present(value: Any) -> bool:
    """Return whether a value is neither missing nor stands for a missing one."""
    if type(value) in (str, int):
        return bool(value != MISSING and value != NO_TOKEN)
    return not is_missing(value)


def _value_kind(value_type: type) -> str:
    """Return what values of a type of Python or NumPy are."""
    if value_type.__name__ in ("NoneType", "NAType", "NaTType"):
        return "missing"
    if issubclass(value_type, (bool, np.bool_)):
        return "truth"
    if issubclass(value_type, (int, np.integer)):
        return "whole"
    if issubclass(value_type, (timedelta, np.timedelta64)):
        return "duration"
    if issubclass(value_type, (float, np.floating, Decimal, Fraction)):
        return "fraction"
    return "moment" if issubclass(value_type, (date, np.datetime64)) else "name"


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
    return {_place(column, names, n, "numeric") for column in numeric}


def declare_orders(ordered: Any, names: Sequence[Any] | None, n: int) -> dict[int, Order]:
    """Return the orders that the parameter `ordered` gives to columns, by their places.

    Examples
    --------
    >>> from hammemo.tokens.column_evidence import declare_orders
    >>> declare_orders({"size": ["S", "M", "L"]}, ["price", "size"], 2)
    {1: ('S', 'M', 'L')}
    """
    if ordered is None:
        return {}
    if not isinstance(ordered, Mapping):
        raise TypeError(
            f"ordered={ordered!r} is not known: use a dict from columns to their categories, "
            "from low to high."
        )
    orders: dict[int, Order] = {}
    for column, categories in ordered.items():
        place = _place(column, names, n, "ordered")
        if place in orders:
            raise ValueError(f"ordered= names the column {column!r} twice.")
        orders[place] = check_order(categories, f"Column {column!r}")
    return orders


def _place(column: Any, names: Sequence[Any] | None, n: int, parameter: str) -> int:
    """Return the place of a column that a parameter gives by its name or by its place."""
    all_names = [] if names is None else list(names)
    if not isinstance(column, bool):
        if isinstance(column, (str, int, np.integer)) and column in all_names:
            return all_names.index(column)
        if isinstance(column, (int, np.integer)) and 0 <= column < n:
            return int(column)
    raise ValueError(f"{parameter}= names the column {column!r}, which the table does not have.")


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
    (missing_rank,) = vocabulary.find(Vocabulary.of([MISSING])).tolist()
    first_string = len(vocabulary) - len(vocabulary.strings)
    for j, (old, new) in enumerate(zip(before, after, strict=True)):
        if old is new:
            continue
        column = ranks[:, j]
        present = column[(column >= 0) & (column != missing_rank)]
        is_on_other_scale = old.has_scale or new.has_scale
        has_no_number = new is ColumnKind.NUMBERS and bool((present >= first_string).any())
        if len(present) and (is_on_other_scale or has_no_number):
            raise ValueError(
                f"{quote_column(j, names)} holds {old.word}, which cannot become {new.word}: "
                "fit a new model, on a table with this column converted."
            )
        if new is ColumnKind.NAMES:
            rank_of_missing_name = missing_rank if missing == "token" else -1
            ranks[:, j] = np.where(column < 0, rank_of_missing_name, column)
        else:
            ranks[:, j] = np.where(column == missing_rank, -1, column)
    return Contexts.with_ranks(vocabulary, ranks).with_used_tokens()
