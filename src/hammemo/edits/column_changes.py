"""Decide again which kinds the columns of a model are.

Kinds are a function of the rows (:mod:`hammemo.tokens.column_evidence`) and of the parameter
`numeric`. A first batch may hold missing values or whole numbers only, where later ones hold
fractions or dates. So kinds are decided when rows are learned, when models are merged, and by
`refit`, while all rows are kept: then the rows become rows of these kinds and are counted again.
Where some rows are not kept, or the layout was given, kinds stay. They also stay in single edits,
and with ``choose=False``, except for a column without values that gets dates or durations, which
cannot be names.

What is learned never turns numbers into names: a string in a column of numbers is refused. Only
`refit` does, where the remaining rows hold no fraction.

The functions here decide kinds and convert kept rows; their callers count the rows again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hammemo.memories.errors import LayoutError
from hammemo.tokens.column_evidence import (
    Evidence,
    convert_kinds,
    find_number_columns,
    holds_time,
    is_time,
)
from hammemo.tokens.column_kinds import ColumnContent, ColumnKind, ColumnType
from hammemo.tokens.contexts import Examples, refuse_masked
from hammemo.tokens.missing import is_missing
from hammemo.tokens.orders import describe_order
from hammemo.tokens.table_columns import table_columns
from hammemo.tokens.token_types import TokenTypes
from hammemo.tokens.user_input import ReadingRules, evidence_of, warn_of_names
from hammemo.tokens.zones import UTC_NAME

if TYPE_CHECKING:
    from hammemo.edits.state import AnyState
    from hammemo.stores.kept import ModelStore
    from hammemo.stores.kept_rows import KeptRows
    from hammemo.tokens.column_evidence import Asked
    from hammemo.tokens.column_kinds import ColumnKinds
    from hammemo.tokens.columns import Columns
    from hammemo.tokens.scales import Scale


_NO_TIMES: Final = frozenset({str, int, float, bool})
"""The types of most values: none of them can be a date."""

# Names for single edits: to look up a member of an enum takes time in Python 3.11.
_UNTYPED: Final = ColumnType.UNTYPED
_NO_VALUES: Final = ColumnContent.NOTHING


# Questions about a state


def find_numbers(settings: ReadingRules, columns: Columns) -> Asked:
    """Return the places of the columns that the parameter `numeric` says are numbers.

    None says that the rows decide. A parameter with names, for columns without names, changes
    nothing: the columns that are numbers stay numbers.
    """
    numeric = "none" if settings.numeric is None else settings.numeric
    is_list = isinstance(numeric, (Sequence, np.ndarray)) and not isinstance(numeric, str)
    if columns.names is None and is_list and any(isinstance(column, str) for column in numeric):
        # ordered categories are declared apart, by `ordered`
        numeric_kinds = (ColumnKind.NUMBERS, ColumnKind.DATES)
        return {j for j, kind in enumerate(columns.kinds) if kind in numeric_kinds}
    return find_number_columns(numeric, columns.list_names(), columns.n)


def can_decide(state: AnyState) -> bool:
    """Return whether kinds can be decided again.

    All rows must be kept, and the layout must not have been given.
    """
    if state.columns.types is None or state.pinned:
        return False
    if state.can_choose_by_rows:
        return True
    stores_rows_or_nothing = state.store is None or state.rows is not None
    return stores_rows_or_nothing and state.holds_nothing


def collect_evidence(state: AnyState) -> Evidence:
    """Return what the rows of a model show of its columns.

    Where not all of them are kept, it is only known that there are values.
    """
    columns = state.columns
    assert columns.types is not None
    if state.rows is not None and state.rows.holds_all:
        return Evidence.of_rows(columns.types, state.rows.examples().contexts, columns.scales)
    if state.holds_nothing:
        return Evidence(columns.types, (_NO_VALUES,) * columns.n)
    return Evidence(columns.types, (ColumnContent.WHOLE,) * columns.n, columns.scales)


def find_columns_without_values(state: AnyState) -> set[int]:
    """Return the places of columns whose values are all missing, where the next ones decide."""
    types = state.columns.types
    if types is None or not state.columns.has_untyped or not can_decide(state):
        return set()
    contents = collect_evidence(state).contents
    return {
        place
        for place, (column_type, content) in enumerate(zip(types, contents, strict=True))
        if column_type is _UNTYPED and content is _NO_VALUES
    }


def declares_types(settings: ReadingRules, state: AnyState, row: Sequence[Any]) -> bool:
    """Return whether one row declares types of columns that have none; most rows do not."""
    types = state.columns.types
    if types is None or not state.columns.has_untyped or len(row) != len(types):
        return False
    if not settings.kernel_is_automatic:
        return any(type(value) not in _NO_TIMES and is_time(value) for value in row)
    pairs = zip(types, row, strict=True)
    return any(column_type is _UNTYPED and not is_missing(value) for column_type, value in pairs)


def check_numeric(settings: ReadingRules, state: AnyState) -> None:
    """Refuse a parameter that was set since, where kinds cannot be decided again."""
    columns = state.columns
    if columns.types is None or can_decide(state):
        return
    numbers = find_numbers(settings, columns)
    if numbers is None:
        return
    for j, kind in enumerate(columns.kinds):
        # A list of numbers leaves dates as they are, and any `numeric` leaves ordered categories.
        is_left = kind is ColumnKind.ORDERED_CATEGORIES
        is_left |= kind is ColumnKind.DATES and bool(numbers)
        if kind.is_ordered != (j in numbers) and not is_left:
            raise ValueError(
                f"numeric={settings.numeric!r} was set after column {columns.quote_name(j)} was "
                "learnt as another kind, and the model cannot decide it again: its layout was "
                "given, or it does not keep all rows. Fit a new model."
            )


# Kinds that rows or tables decide


def reset_kinds(settings: ReadingRules, columns: Columns) -> Columns:
    """Return columns of which no value is known.

    Those that `numeric` lists are numbers. Columns of packed rows are numbers anyway.
    """
    if columns.packed:
        return columns
    if settings.numeric is None:
        return replace(columns, types=None, scales={})
    nothing = Evidence((_UNTYPED,) * columns.n, (_NO_VALUES,) * columns.n)
    kinds = nothing.decide_kinds(find_numbers(settings, columns))
    return columns.with_types_of(nothing).with_kinds(kinds)


def decide_by_rows(
    settings: ReadingRules, columns: Columns, store: ModelStore
) -> tuple[Columns, ModelStore]:
    """Decide kinds by the kept rows and the parameter `numeric`.

    Return the columns, and the rows as rows of these kinds.
    """
    if columns.types is None:
        return columns, store
    evidence = Evidence.of_rows(columns.types, get_kept_rows(store).contexts, columns.scales)
    kinds = evidence.decide_kinds(find_numbers(settings, columns))
    columns = columns.with_types_of(evidence)
    if kinds == columns.kinds:
        return columns, store
    return convert_store(settings, columns, store, kinds)


def decide_by_tables(settings: ReadingRules, state: AnyState, tables: Iterable[Any]) -> Columns:
    """Decide kinds by tables that hold all rows of a model; return its columns of these kinds."""
    columns = state.columns
    if columns.types is None or state.pinned:
        check_numeric(settings, state)
        return columns
    evidence = Evidence(columns.types, (_NO_VALUES,) * columns.n)
    for X in tables:
        listed = table_columns(X)
        if listed is not None and len(listed) == columns.n:
            of_table = evidence_of(settings, X, listed)
            # The types stay those of the model: only what values there are is new.
            evidence = Evidence(evidence.types, evidence.plus(of_table).contents)
    return columns.with_kinds(evidence.decide_kinds(find_numbers(settings, columns)))


def decide_by_next_table(
    settings: ReadingRules, state: AnyState, X: Any, *, choose: bool
) -> Columns:
    """Decide kinds by a table that is to be learned, where no value has decided them before.

    Without `choose`, only columns without values become of another kind: those that get times,
    which cannot be names, and those that `numeric` lists.
    """
    columns = state.columns
    if not can_decide(state) or not (choose or columns.has_untyped):
        return columns
    refuse_masked(X, "X")
    listed = table_columns(X)
    if not listed or len(listed) != columns.n:
        return columns  # what is wrong with it is said where it is learned
    of_table = evidence_of(settings, X, listed)
    numbers = find_numbers(settings, columns)
    if not _may_change(of_table, columns, of_table.decide_kinds(numbers)):
        return columns
    of_rows = collect_evidence(state)
    together = of_rows.plus(of_table)
    kinds = list(columns.kinds)
    for j, kind in enumerate(together.decide_kinds(numbers)):
        if of_rows.contents[j] is _NO_VALUES:
            cannot_be_names = holds_time(listed[j]) or of_table.types[j] is ColumnType.ORDERED
            is_listed = numbers is not None and j in numbers
            can_change = choose or cannot_be_names or is_listed
        else:
            can_change = choose and columns.kinds[j] is ColumnKind.NAMES
        if can_change:
            kinds[j] = kind
    first_names = {
        j
        for j, kind in enumerate(kinds)
        if kind is ColumnKind.NAMES
        and of_rows.contents[j] is _NO_VALUES
        and of_table.contents[j] is not _NO_VALUES
    }
    if first_names:  # these are their first values, so they get the warnings of a first table
        warn_of_names(settings, X, listed, tuple(kinds), places=first_names)
    return columns.with_types_of(together).with_kinds(tuple(kinds))


def _may_change(of_table: Evidence, columns: Columns, kinds: ColumnKinds) -> bool:
    """Return whether a table may change types, scales or kinds; `kinds` are what it shows alone.

    Most tables do not: then the rows of the model need not be looked at.
    """
    types = columns.types or ()
    for j, content in enumerate(of_table.contents):
        if content is _NO_VALUES:
            continue
        if of_table.types[j] is not types[j]:
            return True
        if _is_other_scale(columns.scales.get(j), of_table.scales.get(j)):
            return True
        kind = columns.kinds[j]
        if not kind.has_scale and kinds[j] not in (kind, ColumnKind.NAMES):
            return True
    return False


def _is_other_scale(before: Scale | None, after: Scale | None) -> bool:
    """Return whether values cannot be read by the scale of a column.

    Times in UTC become times of its zone.
    """
    is_converted = before is not None and after == UTC_NAME
    return after != before and not is_converted


# Rows as rows of other kinds


def get_kept_rows(store: ModelStore) -> Examples:
    """Return the rows that a store keeps, in the order of their hashes."""
    rows: KeptRows | None = store.kept_rows
    assert rows is not None
    return rows.examples()


def convert_store(
    settings: ReadingRules, columns: Columns, store: ModelStore, kinds: ColumnKinds
) -> tuple[Columns, ModelStore]:
    """Return columns of these kinds, and the kept rows as rows of them."""
    examples = convert_examples(
        settings, columns, get_kept_rows(store), before=columns.kinds, after=kinds
    )
    token_types = TokenTypes.from_contexts(examples.contexts)
    columns = replace(columns.with_kinds(kinds), token_types=token_types)
    return columns, store.empty_copy().edit(examples, 1)


def convert_examples(
    settings: ReadingRules,
    columns: Columns,
    examples: Examples,
    *,
    before: ColumnKinds,
    after: ColumnKinds,
) -> Examples:
    """Return examples whose columns were of some kinds as examples of other kinds."""
    contexts = convert_kinds(
        examples.contexts, before, after, settings.missing, names=columns.list_names()
    )
    return replace(examples, contexts=contexts)


# Two models


def adopt_kinds(
    settings: ReadingRules, columns: Columns, examples: Examples, layout: Columns
) -> tuple[Columns, Examples]:
    """Return the first rows of a model as rows of the kinds of a layout.

    They stay as they are where their values cannot be of these kinds: then the layout is refused.
    """
    types = columns.types
    if types is None or layout.kinds == columns.kinds or layout.n != columns.n:
        return columns, examples
    evidence = Evidence.of_rows(types, examples.contexts, columns.scales)
    # With a layout, whole numbers are names where it has names.
    kinds = tuple(
        new if content is ColumnContent.WHOLE and new is ColumnKind.NAMES else old
        for old, new, content in zip(columns.kinds, layout.kinds, evidence.contents, strict=True)
    )
    if not may_become(kinds, layout.kinds, evidence):
        return columns, examples
    examples = convert_examples(
        settings, columns, examples, before=columns.kinds, after=layout.kinds
    )
    return columns.with_kinds(layout.kinds), examples


def join_kinds(
    kinds: ColumnKinds, others: ColumnKinds, together: Evidence, numbers: Asked
) -> ColumnKinds:
    """Return the kinds of the columns of two models; `together` is what the rows of both show."""
    decided = together.decide_kinds(numbers)
    return tuple(map(_join_kinds_of_column, kinds, others, decided, together.contents))


def _join_kinds_of_column(
    kind: ColumnKind, other: ColumnKind, decided: ColumnKind, content: ColumnContent
) -> ColumnKind:
    """Return the kind of a column of two models, whose rows together decide for `decided`.

    Whole numbers whose fractions were forgotten stay numbers here.
    """
    if kind is other:
        return kind
    is_whole = decided is ColumnKind.NAMES and content is ColumnContent.WHOLE
    if is_whole and ColumnKind.NUMBERS in (kind, other):
        return ColumnKind.NUMBERS
    return decided


def may_become(before: ColumnKinds, after: ColumnKinds, rows: Evidence) -> bool:
    """Return whether what is learned may give columns other kinds.

    It may where a column has no values, and whole numbers may turn from names into numbers.
    """
    return all(map(_may_column_become, before, after, rows.types, rows.contents))


def _may_column_become(
    before: ColumnKind, after: ColumnKind, column_type: ColumnType, content: ColumnContent
) -> bool:
    if before is after or content is _NO_VALUES:
        return True
    if column_type is ColumnType.CATEGORIES:
        return False
    is_whole = content is ColumnContent.WHOLE
    return is_whole and before is ColumnKind.NAMES and after is ColumnKind.NUMBERS


def check_names(columns: Columns, others: Columns) -> None:
    """Refuse a model whose columns have other names, or come in another order."""
    names = columns.list_names()
    other_names = others.list_names()
    if names is None or other_names is None or len(names) != len(other_names):
        return  # layouts tell how many columns there are
    if names == other_names:
        return
    pairs = enumerate(zip(names, other_names, strict=True))
    place = next(j for j, (name, other) in pairs if name != other)
    same = ""
    if set(names) == set(other_names):
        same = " The columns are the same in another order."
    raise LayoutError(
        f"Column {place} is {names[place]!r} here and {other_names[place]!r} there.{same} Give "
        "both tables the same columns in the same order."
    )


def check_scales(columns: Columns, evidence: Evidence, other: Evidence) -> None:
    """Refuse a model whose times or categories were read by another scale.

    Columns without values have none.
    """
    for j, contents in enumerate(zip(evidence.contents, other.contents, strict=True)):
        scale = evidence.scales.get(j)
        other_scale = other.scales.get(j)
        if scale == other_scale or _NO_VALUES in contents:
            continue
        if isinstance(scale, tuple) and isinstance(other_scale, tuple):
            raise LayoutError(
                f"Column {columns.quote_name(j)} has the order {describe_order(scale)} here and "
                f"{describe_order(other_scale)} there: give both tables one order, and fit again."
            )
        if {evidence.types[j], other.types[j]} != {ColumnType.DATES}:
            continue
        raise LayoutError(
            f"Column {columns.quote_name(j)} holds times {_describe_zone(scale)} here and "
            f"{_describe_zone(other_scale)} there: read both tables by one clock, with tz_convert "
            "or tz_localize, and fit again."
        )


def _describe_zone(zone: Scale | None) -> str:
    return "without a zone" if zone is None else f"in the zone {zone}"


def check_kinds(columns: Columns, others: Columns) -> None:
    """Refuse a model whose columns are of other kinds, or were read by another scale."""
    has_same_kinds = columns.kinds == others.kinds
    if not columns.has_ordered and not others.has_ordered:
        has_same_kinds = True  # layouts tell how many columns of names there are
    if has_same_kinds and columns.packed == others.packed:
        _check_scales_of_columns(columns, others)
        return
    if columns.n != others.n:
        raise LayoutError(f"The tables have {columns.n} columns here and {others.n} there.")
    if has_same_kinds:
        raise LayoutError(
            "Both tables are wide tables of numbers, but one was read column by column: give both "
            "models kernel='auto' and numeric='auto', and both tables as arrays, sparse matrices "
            "or frames of numbers."
        )
    pairs = enumerate(zip(columns.kinds, others.kinds, strict=True))
    place = next(j for j, (kind, other) in pairs if kind is not other)
    raise LayoutError(
        f"Column {columns.quote_name(place)} holds {columns.kinds[place].word} here and "
        f"{others.kinds[place].word} there: give both tables the same types, or both models the "
        "same numeric=[…]; empty_like() copies the kinds."
    )


def _check_scales_of_columns(columns: Columns, others: Columns) -> None:
    """Refuse other scales, as if every column had values."""
    if columns.scales == others.scales or columns.types is None or others.types is None:
        return
    contents = (ColumnContent.WHOLE,) * columns.n
    check_scales(
        columns,
        Evidence(columns.types, contents, columns.scales),
        Evidence(others.types, contents, others.scales),
    )
