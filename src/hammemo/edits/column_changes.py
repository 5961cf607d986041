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
from hammemo.tokens.column_evidence import Evidence, Holds, HowGiven, asked_columns, converted, holds_time, is_time
from hammemo.tokens.columns import ColumnKind, table_columns
from hammemo.tokens.contexts import Examples, refuse_masked
from hammemo.tokens.missing import is_missing
from hammemo.tokens.token_types import TokenTypes
from hammemo.tokens.user_input import ReadingRules, evidence_of

if TYPE_CHECKING:
    from hammemo.edits.state import AnyState
    from hammemo.stores.kept import ModelStore
    from hammemo.stores.kept_rows import KeptRows
    from hammemo.tokens.column_evidence import Asked
    from hammemo.tokens.column_schema import ColumnSchema


_NO_TIMES: Final = frozenset({str, int, float, bool})
"""The types of most values: they are not asked whether they are a date."""

_UNTYPED: Final = HowGiven.UNTYPED  # for single edits: to look up a member takes time in Python 3.11


def asked(settings: ReadingRules, columns: ColumnSchema) -> Asked:
    """Return which columns the parameter says are numbers; those that are, where it names columns without names."""
    numeric = "none" if settings.numeric is None else settings.numeric
    is_list = isinstance(numeric, (Sequence, np.ndarray)) and not isinstance(numeric, str)
    if columns.names is None and is_list and any(isinstance(column, str) for column in numeric):
        return {j for j, kind in enumerate(columns.letters) if kind != ColumnKind.NAMES}
    return asked_columns(numeric, columns.listed(), columns.n)


def can_decide(state: AnyState) -> bool:
    """Return whether kinds can be decided again: the rows are all there, and no layout was given."""
    if state.columns.types is None or state.pinned:
        return False
    return state.can_choose_by_rows or ((state.store is None or state.rows is not None) and state.holds_nothing)


def undecided(settings: ReadingRules, columns: ColumnSchema) -> ColumnSchema:
    """Return columns as of unknown kinds: those that `numeric` names are numbers."""
    if settings.numeric is None:
        return replace(columns, types=None)
    types = _UNTYPED * columns.n
    kinds = Evidence(types, Holds.NOTHING * columns.n).kinds(asked(settings, columns))
    return replace(columns, types=types).of_kinds(kinds)


def check_numeric(settings: ReadingRules, state: AnyState) -> None:
    """Refuse a parameter that was set since, where kinds cannot be decided again."""
    columns = state.columns
    if columns.types is None or can_decide(state):
        return
    numbers = asked(settings, columns)
    for j, kind in enumerate(columns.letters if numbers is not None else ""):
        if (kind != ColumnKind.NAMES) != (numbers is not None and j in numbers):
            raise ValueError(
                f"numeric={settings.numeric!r} was set after column {columns.shown(j)} was learnt as another kind, and "
                "the model cannot decide it again: its layout was given, or it does not keep all rows. Fit a new model."
            )


def rows_of(store: ModelStore) -> Examples:
    """Return the rows that a store keeps, in the order of their hashes."""
    rows: KeptRows | None = store.kept_rows
    assert rows is not None
    return rows.examples()


def decided_by_rows(
    settings: ReadingRules, columns: ColumnSchema, store: ModelStore
) -> tuple[ColumnSchema, ModelStore]:
    """Decide kinds by the kept rows and the parameter; return the columns, and the rows as of these kinds."""
    if columns.types is None:
        return columns, store
    found = Evidence.of_rows(columns.types, rows_of(store).contexts)
    kinds, columns = found.kinds(asked(settings, columns)), replace(columns, types=found.types)
    return (columns, store) if kinds == columns.letters else with_kinds(settings, columns, store, kinds)


def decided_by_tables(settings: ReadingRules, state: AnyState, tables: Iterable[Any]) -> ColumnSchema:
    """Decide kinds by tables that hold all rows."""
    columns = state.columns
    if columns.types is None or state.pinned:
        check_numeric(settings, state)
        return columns
    found = Evidence(columns.types, Holds.NOTHING * columns.n)
    for X in tables:
        listed = table_columns(X)
        if listed is not None and len(listed) == len(found.types):
            found = Evidence(found.types, found.plus(evidence_of(settings, X, listed)).contents)
    return columns.of_kinds(found.kinds(asked(settings, columns)))


def with_kinds(
    settings: ReadingRules, columns: ColumnSchema, store: ModelStore, kinds: str
) -> tuple[ColumnSchema, ModelStore]:
    """Return columns of these kinds, and the kept rows as of them."""
    examples = as_kinds(settings, columns, rows_of(store), columns.letters, kinds)
    columns = replace(columns.of_kinds(kinds), learnt=TokenTypes.of(examples.contexts))
    return columns, store.emptied().changed(examples, 1)


def as_kinds(settings: ReadingRules, columns: ColumnSchema, examples: Examples, before: str, after: str) -> Examples:
    """Return examples whose columns were of some kinds as of other kinds."""
    contexts = converted(examples.contexts, before, after, settings.missing, columns.listed())
    return replace(examples, contexts=contexts)


def decided_with(settings: ReadingRules, state: AnyState, X: Any, *, choose: bool) -> ColumnSchema:
    """Return the columns after a table that is to be learnt has decided kinds that no value has decided before.

    Without `choose`, only columns that cannot stay names become of another kind.
    """
    columns = state.columns
    if not can_decide(state) or not (choose or _UNTYPED in (columns.types or "")):
        return columns
    refuse_masked(X, "X")
    listed = table_columns(X)
    if not listed or len(listed) != columns.n:
        return columns  # what is wrong with it is said where it is learnt
    shown, numbers, before = evidence_of(settings, X, listed), asked(settings, columns), columns.letters
    if not _may_change(shown, columns.types or "", shown.kinds(numbers), before):
        return columns
    held = evidence(state)
    together = held.plus(shown)
    empty = [content == Holds.NOTHING for content in held.contents]
    after = "".join(
        new if (choose and old == ColumnKind.NAMES) or (is_empty and (choose or holds_time(column))) else old
        for old, new, is_empty, column in zip(before, together.kinds(numbers), empty, listed, strict=True)
    )
    return replace(columns, types=together.types).of_kinds(after)


def waits_for(settings: ReadingRules, state: AnyState, row: Sequence[Any]) -> bool:
    """Return whether one row declares types of columns that have none; most rows do not."""
    types = state.columns.types
    if types is None or _UNTYPED not in types or len(row) != len(types):
        return False
    if not settings.kernel_is_automatic:
        return any(type(value) not in _NO_TIMES and is_time(value) for value in row)
    return any(kind == _UNTYPED and not is_missing(value) for kind, value in zip(types, row, strict=True))


def evidence(state: AnyState) -> Evidence:
    """Return what the rows show; a model that keeps not all of them shows that there are values."""
    types = state.columns.types
    assert types is not None
    if state.rows is not None and state.rows.holds_all:
        return Evidence.of_rows(types, state.rows.examples().contexts)
    return Evidence(types, (Holds.NOTHING if state.holds_nothing else Holds.WHOLE) * len(types))


def like_layout(
    settings: ReadingRules, columns: ColumnSchema, examples: Examples, layout: ColumnSchema
) -> tuple[ColumnSchema, Examples]:
    """Return the first rows of a model as of the kinds of a layout, where their values do not say otherwise."""
    theirs, mine = layout.kinds or ColumnKind.NAMES * examples.contexts.h, columns.letters
    if columns.types is None or theirs == mine or len(theirs) != len(mine):
        return columns, examples
    shown = Evidence.of_rows(columns.types, examples.contexts)
    as_names = "".join(  # with a layout, whole numbers are names where it has names
        new if content == Holds.WHOLE and new == ColumnKind.NAMES else old
        for old, new, content in zip(mine, theirs, shown.contents, strict=True)
    )
    if may_become(as_names, theirs, shown):
        return columns.of_kinds(theirs), as_kinds(settings, columns, examples, mine, theirs)
    return columns, examples  # what differs is refused with the layout


def kinds_of_both(mine: str, theirs: str, together: Evidence, numbers: Asked) -> str:
    """Return the kinds of the columns of two models."""
    return "".join(map(_kind_of_both, mine, theirs, together.kinds(numbers), together.contents))


def _kind_of_both(mine: str, theirs: str, together: str, content: str) -> str:
    """Return the kind of a column of two models; whole numbers whose fractions were forgotten stay numbers here."""
    if mine == theirs:
        return mine
    is_whole = together == ColumnKind.NAMES and content == Holds.WHOLE
    return ColumnKind.NUMBERS if is_whole and ColumnKind.NUMBERS in (mine, theirs) else together


def may_become(before: str, after: str, rows: Evidence) -> bool:
    """Return whether columns may become of other kinds by what is learnt: without values, or with whole numbers."""
    numbers = (ColumnKind.NAMES, ColumnKind.NUMBERS, Holds.WHOLE)
    return all(
        old == new or content == Holds.NOTHING or ((old, new, content) == numbers and kind != HowGiven.CATEGORIES)
        for old, new, kind, content in zip(before, after, rows.types, rows.contents, strict=True)
    )


def _may_change(shown: Evidence, types: str, found: str, before: str) -> bool:
    """Return whether a table may change types or kinds; most do not, and the rows need not be looked at."""
    columns = zip(shown.contents, shown.types, types, found, before, strict=True)
    return any(
        content != Holds.NOTHING and (kind != known or (old != ColumnKind.DATES and new not in (old, ColumnKind.NAMES)))
        for content, kind, known, new, old in columns
    )


def check_names(mine: ColumnSchema, theirs: ColumnSchema) -> None:
    """Refuse a model whose columns have other names, or come in another order."""
    names, others = mine.listed(), theirs.listed()
    if names is None or others is None or len(names) != len(others) or names == others:
        return  # of their number, the layouts tell
    at = next(j for j, pair in enumerate(zip(names, others, strict=True)) if pair[0] != pair[1])
    same = " The columns are the same in another order." if set(names) == set(others) else ""
    raise LayoutError(
        f"Column {at} is {names[at]!r} here and {others[at]!r} there.{same} Give both tables the same columns in "
        "the same order."
    )


def check_kinds(mine: ColumnSchema, theirs: ColumnSchema) -> None:
    """Refuse a model whose columns are of other kinds."""
    if mine.kinds == theirs.kinds:
        return
    if mine.n != theirs.n:
        raise LayoutError(f"The tables have {mine.n} columns here and {theirs.n} there.")
    at = next(j for j, pair in enumerate(zip(mine.letters, theirs.letters, strict=True)) if len(set(pair)) > 1)
    here, there = (ColumnKind(columns.letters[at]).word for columns in (mine, theirs))
    raise LayoutError(
        f"Column {mine.shown(at)} holds {here} here and {there} there: give both tables the same types, or both models "
        "the same numeric=[…]; empty_like() copies the kinds."
    )
