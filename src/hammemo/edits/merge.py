"""Sums and differences of two models: each is a sum over its examples, so the sum has learnt what both have."""

from __future__ import annotations

import warnings
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from hammemo.edits.column_changes import (
    asked,
    can_decide,
    check_kinds,
    check_zones,
    evidence,
    kinds_of_both,
    may_become,
    with_kinds,
)
from hammemo.edits.forget import forget_kept
from hammemo.edits.learn import with_other_kinds
from hammemo.memories.errors import LayoutError
from hammemo.tasks.labels.count import count
from hammemo.tasks.labels.weigh import with_forgotten
from hammemo.tokens.labels import common_label_dtype

if TYPE_CHECKING:
    from collections.abc import Callable

    from hammemo.edits.state import ModelState, RowsState, State
    from hammemo.memories import Memory
    from hammemo.stores.kept import ModelStore
    from hammemo.tasks.labels.settings import ModelSettings
    from hammemo.tokens.column_schema import ColumnSchema
    from hammemo.tokens.cutting import Cutting
    from hammemo.tokens.user_input import ReadingRules
    from hammemo.votes import Vote


def merge(settings: ModelSettings, state: ModelState, given: ModelState) -> ModelState:
    """Add all that another model has learnt; where the layouts differ, the rows of one are counted under the other."""
    state, other = with_same_kinds(settings, state, given, partial(with_other_kinds, settings, choose_again=False))
    dtype = common_label_dtype(state.classes, other.classes)
    cutting = joint_cutting(state, other.cutting, other.memory)
    memory = state.memory.snapshot()
    try:
        _check_cells(state, other)
        memory.merge(other.memory)
        state = state.with_memory(memory, store=store_with(state, other, 1))
    except LayoutError as error:
        state = _merge_rows(state, other, error)
    learnt = state.columns.learnt
    columns = state.columns if learnt is None else replace(state.columns, learnt=learnt.plus(other.columns.learnt))
    return state.but(cutting=cutting, label_dtype=dtype, stale=state.stale or given.stale, columns=columns)


def unmerge(settings: ModelSettings, state: ModelState, given: ModelState) -> ModelState:
    """Remove all that another model has learnt."""
    other = as_kinds_of(settings, state, given)
    memory, rows = state.memory.snapshot(), other.all_kept
    try:
        _check_cells(state, other)
        memory.unmerge(other.memory)
        store = store_with(state, other, -1)
        if store is not None and store.knows_all:  # it has looked up every row
            memory.forgot_unchecked = state.memory.forgot_unchecked or other.memory.forgot_unchecked
        state = state.with_memory(memory, store=store)
    except LayoutError:
        if rows is None:
            raise
        state = forget_kept(state, rows)
    return state if other.holds_nothing else with_forgotten(settings, state, None)


def joint_cutting(state: ModelState, theirs: Cutting | None, memory: Memory | None = None) -> Cutting | None:
    """Return how streams are cut of which some more were learnt, cut so; None where the two differ."""
    if theirs == state.cutting or state.holds_nothing:
        return theirs
    return state.cutting if memory is not None and not memory.label_counts.any() else None


def _merge_rows(state: ModelState, other: ModelState, error: LayoutError) -> ModelState:
    """Count the rows of one model under the layout of the other, whose layout is another one."""
    mine, theirs = state.all_kept, other.all_kept
    if (state.pinned and other.pinned) or state.columns.n != other.columns.n:
        raise error
    rows, left = (theirs, state) if theirs is not None else (mine, other)
    if rows is None:
        raise error
    memory = left.memory.snapshot()
    memory.declare_labels((other if left is state else state).memory.declared)
    count(memory, left.cells, rows.batches())
    store = None if left.store is None else _sum(left.store, rows, 1)
    merged = state if left is state else state.like_layout_of(other)
    return merged.with_memory(memory, store=store, pinned=state.pinned or other.pinned)


def with_same_kinds(
    settings: ReadingRules, state: State, other: State, with_columns: Callable[[State, ColumnSchema], State]
) -> tuple[State, State]:
    """Return both models with columns of the same kinds, where rows decide them.

    `with_columns` returns a state whose columns are of other kinds, with the rows counted again.
    """
    mine, theirs = state.columns, other.columns
    if mine.types is None or theirs.types is None or mine.n != theirs.n:
        check_kinds(mine, theirs)
        return state, other
    if mine.letters == theirs.letters and mine.types == theirs.types and mine.zones == theirs.zones:
        return state, other
    held, shown = evidence(state), evidence(other)
    check_zones(mine, held, shown)
    together = held.plus(shown)
    after = kinds_of_both(mine.letters, theirs.letters, together, asked(settings, mine))
    can_be = (mine.letters == after or can_decide(state)) and (theirs.letters == after or can_decide(other))
    if not can_be or not may_become(mine.letters, after, held) or not may_become(theirs.letters, after, shown):
        check_kinds(mine, theirs)
    columns = mine.with_types_of(together)
    state = state.but(columns=columns) if mine.letters == after else with_columns(state, columns.of_kinds(after))
    return state, other if theirs.letters == after else _as_kinds(settings, other, after)


def as_kinds_of(settings: ReadingRules, state: State, other: State) -> State:
    """Return another model with its rows as those of a table with the kinds of this one's columns."""
    mine, theirs = state.columns, other.columns
    if mine.kinds == theirs.kinds or mine.n != theirs.n:
        check_kinds(mine, theirs)
        return other
    if other.rows is None or not other.rows.holds_all:
        check_kinds(mine, theirs)
    try:
        return _as_kinds(settings, other, mine.letters)
    except ValueError as error:
        raise LayoutError(str(error)) from None


def _as_kinds(settings: ReadingRules, state: State, kinds: str) -> State:
    """Return a model of which only the rows are needed, with these as of other kinds."""
    if state.store is None or state.rows is None:
        return state.but(columns=state.columns.of_kinds(kinds))
    columns, store = with_kinds(settings, state.columns, state.store, kinds)
    return state.but(columns=columns, store=store)


def _check_cells(state: ModelState, other: ModelState) -> None:
    if state.cells is not other.cells and state.cells != other.cells:
        raise LayoutError("The two models cut numbers differently: give the second one layout= of the first.")


def store_with(state: RowsState, other: RowsState, sign: int) -> ModelStore | None:
    """Return what is stored with the other's added or subtracted; None where one of them stores nothing."""
    mine, theirs = state.store, other.store
    if _has_digests(mine) != _has_digests(theirs):
        raise LayoutError("Only one of the two models has digests of its rows: give both the same keep=.")
    return None if mine is None or theirs is None else _sum(mine, theirs, sign)


def _has_digests(store: ModelStore | None) -> bool:
    return store is not None and store.kept is not store


def _sum(mine: ModelStore, theirs: ModelStore, sign: int) -> ModelStore | None:
    """Return what both hold; where nothing was learnt here, documents stay documents and rows stay rows."""
    kept, more = mine.kept, theirs.kept
    if kept is not None and more is not None and type(kept) is not type(more) and kept.holds_all and not len(kept):
        mine = mine.with_kept(replace(more.empty_copy(), seed=kept.seed, threshold=kept.threshold))
    return mine.plus(theirs, sign)


def emptied(state: ModelState) -> ModelState:
    """Return a state of the same layout with nothing stored, whose layout counts as given."""
    store = None if state.store is None else state.store.empty_copy()
    return state.with_memory(state.memory.empty_like(), store=store, pinned=True, chosen_at=0, position=None)


def warn_of_other_weights(mine: Vote, theirs: Vote) -> None:
    """Say that of two sets of fitted weights one is kept."""
    if mine.state() and theirs.state() and not mine.is_fitted_like(theirs):
        warnings.warn(
            "The two models have different fitted weights: the merged one has those of the left. Fit them to what "
            "both have learnt with refit(), or with fit_vote(X, y).",
            UserWarning,
            stacklevel=3,
        )
