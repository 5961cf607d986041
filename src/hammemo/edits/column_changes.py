"""Which kinds the columns of a model are, decided again when its rows, or its parameter `numeric`, say something else.

Kinds are a function of the rows (:mod:`hammemo.tokens.column_evidence`). A first batch may hold missing values or whole
numbers only, where later ones hold fractions or dates. So kinds are decided when rows are learnt, when models are
merged, and by `refit`, while all rows are kept: then the rows become rows of these kinds and are counted again. Where
some rows are not kept, or the layout was given, kinds stay. So they do in single edits, and with ``choose=False``, but
for a column without values that gets dates or durations, which cannot be names.

What is learnt never turns numbers into names: a string in a column of numbers is refused. Only `refit` does, where the
rows that are left hold no fraction.

Here kinds are decided and kept rows converted; who decides counts the rows again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hammemo.memories.errors import LayoutError
from hammemo.tokens.column_evidence import Evidence, convert_kinds, find_number_columns, holds_time, is_time
from hammemo.tokens.column_kinds import ColumnContent, ColumnKind, ColumnType
from hammemo.tokens.column_values import table_columns
from hammemo.tokens.contexts import Examples, refuse_masked
from hammemo.tokens.missing import is_missing
from hammemo.tokens.orders import describe_order
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
    from hammemo.tokens.orders import Order


_NO_TIMES: Final = frozenset({str, int, float, bool})
"""The types of most values: they are not asked whether they are a date."""

_UNTYPED: Final = ColumnType.UNTYPED  # for single edits: to look up a member takes time in Python 3.11
_NO_VALUES: Final = ColumnContent.NOTHING


def asked(settings: ReadingRules, columns: Columns) -> Asked:
    """Return which columns the parameter says are numbers; those that are, where it names columns without names."""
    numeric = "none" if settings.numeric is None else settings.numeric
    is_list = isinstance(numeric, (Sequence, np.ndarray)) and not isinstance(numeric, str)
    if columns.names is None and is_list and any(isinstance(column, str) for column in numeric):
        return {j for j, kind in enumerate(columns.kinds) if kind.is_ordered}
    return find_number_columns(numeric, columns.list_names(), columns.n)


def can_decide(state: AnyState) -> bool:
    """Return whether kinds can be decided again: the rows are all there, and no layout was given."""
    if state.columns.types is None or state.pinned:
        return False
    return state.can_choose_by_rows or ((state.store is None or state.rows is not None) and state.holds_nothing)


def undecided(settings: ReadingRules, columns: Columns) -> Columns:
    """Return columns as of unknown kinds: those that `numeric` names are numbers; those of packed rows are anyway."""
    if columns.packed:
        return columns
    if settings.numeric is None:
        return replace(columns, types=None, scales={})
    nothing = Evidence((_UNTYPED,) * columns.n, (_NO_VALUES,) * columns.n)
    return columns.with_types_of(nothing).with_kinds(nothing.decide_kinds(asked(settings, columns)))


def check_numeric(settings: ReadingRules, state: AnyState) -> None:
    """Refuse a parameter that was set since, where kinds cannot be decided again."""
    columns = state.columns
    if columns.types is None or can_decide(state):
        return
    numbers = asked(settings, columns)
    if numbers is None:
        return
    for j, kind in enumerate(columns.kinds):
        # a list of numbers leaves dates as they are, and any `numeric` leaves ordered categories
        is_declared_apart = kind is ColumnKind.ORDERED_CATEGORIES
        is_declared_apart |= kind is ColumnKind.DATES and bool(numbers)
        if kind.is_ordered != (j in numbers) and not is_declared_apart:
            raise ValueError(
                f"numeric={settings.numeric!r} was set after column {columns.quote_name(j)} was learnt as another "
                "kind, and the model cannot decide it again: its layout was given, or it does not keep all rows. Fit a "
                "new model."
            )


def rows_of(store: ModelStore) -> Examples:
    """Return the rows that a store keeps, in the order of their hashes."""
    rows: KeptRows | None = store.kept_rows
    assert rows is not None
    return rows.examples()


def decided_by_rows(settings: ReadingRules, columns: Columns, store: ModelStore) -> tuple[Columns, ModelStore]:
    """Decide kinds by the kept rows and the parameter; return the columns, and the rows as of these kinds."""
    if columns.types is None:
        return columns, store
    shown = Evidence.of_rows(columns.types, rows_of(store).contexts, columns.scales)
    kinds = shown.decide_kinds(asked(settings, columns))
    columns = columns.with_types_of(shown)
    return (columns, store) if kinds == columns.kinds else with_kinds(settings, columns, store, kinds)


def decided_by_tables(settings: ReadingRules, state: AnyState, tables: Iterable[Any]) -> Columns:
    """Decide kinds by tables that hold all rows."""
    columns = state.columns
    if columns.types is None or state.pinned:
        check_numeric(settings, state)
        return columns
    found = Evidence(columns.types, (_NO_VALUES,) * columns.n)
    for X in tables:
        listed = table_columns(X)
        if listed is not None and len(listed) == len(found.types):
            found = Evidence(found.types, found.plus(evidence_of(settings, X, listed)).contents)
    return columns.with_kinds(found.decide_kinds(asked(settings, columns)))


def with_kinds(
    settings: ReadingRules, columns: Columns, store: ModelStore, kinds: ColumnKinds
) -> tuple[Columns, ModelStore]:
    """Return columns of these kinds, and the kept rows as of them."""
    examples = as_kinds(settings, columns, rows_of(store), columns.kinds, kinds)
    columns = replace(columns.with_kinds(kinds), token_types=TokenTypes.from_contexts(examples.contexts))
    return columns, store.empty_copy().edit(examples, 1)


def as_kinds(
    settings: ReadingRules, columns: Columns, examples: Examples, before: ColumnKinds, after: ColumnKinds
) -> Examples:
    """Return examples whose columns were of some kinds as of other kinds."""
    contexts = convert_kinds(examples.contexts, before, after, settings.missing, columns.list_names())
    return replace(examples, contexts=contexts)


def decided_with(settings: ReadingRules, state: AnyState, X: Any, *, choose: bool) -> Columns:
    """Return the columns after a table that is to be learnt has decided kinds that no value has decided before.

    Without `choose`, only columns without values become of another kind: those that get times, which cannot be names,
    and those that `numeric` lists.
    """
    columns = state.columns
    if not can_decide(state) or not (choose or columns.has_untyped):
        return columns
    refuse_masked(X, "X")
    listed = table_columns(X)
    if not listed or len(listed) != columns.n:
        return columns  # what is wrong with it is said where it is learnt
    shown, numbers, before = evidence_of(settings, X, listed), asked(settings, columns), columns.kinds
    if not _may_change(shown, columns, shown.decide_kinds(numbers)):
        return columns
    held = evidence(state)
    together = held.plus(shown)
    empty = [content is _NO_VALUES for content in held.contents]
    after = list(before)
    first_names = set()
    for j, new in enumerate(together.decide_kinds(numbers)):
        cannot_be_names = holds_time(listed[j]) or shown.types[j] is ColumnType.ORDERED
        can_change = choose or cannot_be_names or (numbers is not None and j in numbers)
        if (choose and before[j] is ColumnKind.NAMES) or (empty[j] and can_change):
            after[j] = new
        if empty[j] and shown.contents[j] is not _NO_VALUES and after[j] is ColumnKind.NAMES:
            first_names.add(j)
    if first_names:  # these are their first values, so they get the warnings that a first table gets
        warn_of_names(settings, X, listed, tuple(after), first_names)
    return columns.with_types_of(together).with_kinds(tuple(after))


def places_without_values(state: AnyState) -> set[int]:
    """Return the places of columns whose kind the first values to come decide: all of theirs are missing so far."""
    types = state.columns.types
    if types is None or not state.columns.has_untyped or not can_decide(state):
        return set()
    pairs = zip(types, evidence(state).contents, strict=True)
    return {j for j, (how, content) in enumerate(pairs) if how is _UNTYPED and content is _NO_VALUES}


def waits_for(settings: ReadingRules, state: AnyState, row: Sequence[Any]) -> bool:
    """Return whether one row declares types of columns that have none; most rows do not."""
    types = state.columns.types
    if types is None or not state.columns.has_untyped or len(row) != len(types):
        return False
    if not settings.kernel_is_automatic:
        return any(type(value) not in _NO_TIMES and is_time(value) for value in row)
    return any(kind is _UNTYPED and not is_missing(value) for kind, value in zip(types, row, strict=True))


def evidence(state: AnyState) -> Evidence:
    """Return what the rows show; a model that keeps not all of them shows that there are values."""
    types, scales = state.columns.types, state.columns.scales
    assert types is not None
    if state.rows is not None and state.rows.holds_all:
        return Evidence.of_rows(types, state.rows.examples().contexts, scales)
    if state.holds_nothing:
        return Evidence(types, (_NO_VALUES,) * len(types))
    return Evidence(types, (ColumnContent.WHOLE,) * len(types), scales)


def like_layout(
    settings: ReadingRules, columns: Columns, examples: Examples, layout: Columns
) -> tuple[Columns, Examples]:
    """Return the first rows of a model as of the kinds of a layout, where their values do not say otherwise."""
    theirs, mine = layout.kinds, columns.kinds
    if columns.types is None or theirs == mine or len(theirs) != len(mine):
        return columns, examples
    shown = Evidence.of_rows(columns.types, examples.contexts, columns.scales)
    as_names = tuple(  # with a layout, whole numbers are names where it has names
        new if content is ColumnContent.WHOLE and new is ColumnKind.NAMES else old
        for old, new, content in zip(mine, theirs, shown.contents, strict=True)
    )
    if may_become(as_names, theirs, shown):
        return columns.with_kinds(theirs), as_kinds(settings, columns, examples, mine, theirs)
    return columns, examples  # what differs is refused with the layout


def kinds_of_both(mine: ColumnKinds, theirs: ColumnKinds, together: Evidence, numbers: Asked) -> ColumnKinds:
    """Return the kinds of the columns of two models."""
    return tuple(map(_kind_of_both, mine, theirs, together.decide_kinds(numbers), together.contents))


def _kind_of_both(mine: ColumnKind, theirs: ColumnKind, together: ColumnKind, content: ColumnContent) -> ColumnKind:
    """Return the kind of a column of two models; whole numbers whose fractions were forgotten stay numbers here."""
    if mine is theirs:
        return mine
    is_whole = together is ColumnKind.NAMES and content is ColumnContent.WHOLE
    return ColumnKind.NUMBERS if is_whole and ColumnKind.NUMBERS in (mine, theirs) else together


def may_become(before: ColumnKinds, after: ColumnKinds, rows: Evidence) -> bool:
    """Return whether columns may become of other kinds by what is learnt: without values, or with whole numbers."""
    numbers = (ColumnKind.NAMES, ColumnKind.NUMBERS, ColumnContent.WHOLE)
    return all(
        old is new or content is _NO_VALUES or ((old, new, content) == numbers and kind is not ColumnType.CATEGORIES)
        for old, new, kind, content in zip(before, after, rows.types, rows.contents, strict=True)
    )


def _may_change(shown: Evidence, before: Columns, kinds: ColumnKinds) -> bool:
    """Return whether a table may change types, scales or kinds; most do not, and the rows need not be looked at.

    `kinds` are those that the table alone shows.
    """
    types = before.types or ()
    for j, content in enumerate(shown.contents):
        if content is _NO_VALUES:
            continue
        if shown.types[j] is not types[j] or _is_other_scale(before.scales.get(j), shown.scales.get(j)):
            return True
        kind = before.kinds[j]
        if not kind.has_scale and kinds[j] not in (kind, ColumnKind.NAMES):
            return True
    return False


def check_names(mine: Columns, theirs: Columns) -> None:
    """Refuse a model whose columns have other names, or come in another order."""
    names, others = mine.list_names(), theirs.list_names()
    if names is None or others is None or len(names) != len(others) or names == others:
        return  # of their number, the layouts tell
    at = next(j for j, pair in enumerate(zip(names, others, strict=True)) if pair[0] != pair[1])
    same = " The columns are the same in another order." if set(names) == set(others) else ""
    raise LayoutError(
        f"Column {at} is {names[at]!r} here and {others[at]!r} there.{same} Give both tables the same columns in "
        "the same order."
    )


def _is_other_scale(before: str | Order | None, shown: str | Order | None) -> bool:
    """Return whether times cannot be read by the clock of a column; those in UTC become times of its zone."""
    return shown != before and not (before is not None and shown == UTC_NAME)


def check_scales(columns: Columns, mine: Evidence, theirs: Evidence) -> None:
    """Refuse a model whose times were read by the clock of another zone; columns without values have none."""
    for j, contents in enumerate(zip(mine.contents, theirs.contents, strict=True)):
        here, there = mine.scales.get(j), theirs.scales.get(j)
        if here == there or _NO_VALUES in contents:
            continue
        if isinstance(here, tuple) and isinstance(there, tuple):
            raise LayoutError(
                f"Column {columns.quote_name(j)} has the order {describe_order(here)} here and "
                f"{describe_order(there)} there: give both tables one order, and fit again."
            )
        if {mine.types[j], theirs.types[j]} != {ColumnType.DATES}:
            continue
        shown = [f"in the zone {zone}" if zone is not None else "without a zone" for zone in (here, there)]
        raise LayoutError(
            f"Column {columns.quote_name(j)} holds times {shown[0]} here and {shown[1]} there: read both tables by one "
            "clock, with tz_convert or tz_localize, and fit again."
        )


def check_kinds(mine: Columns, theirs: Columns) -> None:
    """Refuse a model whose columns are of other kinds, or whose times are of another zone."""
    has_same_kinds = mine.kinds == theirs.kinds
    if not mine.has_ordered and not theirs.has_ordered:
        has_same_kinds = True  # of their number, the layouts tell
    if has_same_kinds and mine.packed == theirs.packed:
        if mine.scales != theirs.scales and mine.types is not None and theirs.types is not None:
            every = (ColumnContent.WHOLE,) * mine.n
            check_scales(mine, Evidence(mine.types, every, mine.scales), Evidence(theirs.types, every, theirs.scales))
        return
    if mine.n != theirs.n:
        raise LayoutError(f"The tables have {mine.n} columns here and {theirs.n} there.")
    if has_same_kinds:
        raise LayoutError(
            "Both tables are wide tables of numbers, but one was read column by column: give both models kernel='auto' "
            "and numeric='auto', and both tables as arrays, sparse matrices or frames of numbers."
        )
    at = next(j for j, pair in enumerate(zip(mine.kinds, theirs.kinds, strict=True)) if len(set(pair)) > 1)
    here, there = (columns.kinds[at].word for columns in (mine, theirs))
    raise LayoutError(
        f"Column {mine.quote_name(at)} holds {here} here and {there} there: give both tables the same types, or both "
        "models the same numeric=[…]; empty_like() copies the kinds."
    )
