"""Sums and differences of two models: each is a sum over its examples, so the sum has learned what both have."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hammemo.edits.column_changes import (
    asked,
    can_decide,
    check_kinds,
    check_scales,
    evidence,
    kinds_of_both,
    may_become,
    with_kinds,
)
from hammemo.edits.forget import forget_kept, note_forgotten
from hammemo.edits.learn import choose_again_by_rows, with_other_kinds
from hammemo.edits.state import EVERYTHING_FITTED
from hammemo.edits.task import DoesNotFitError
from hammemo.memories.errors import LayoutError

if TYPE_CHECKING:
    from hammemo.edits.settings import EditSettings
    from hammemo.edits.state import ModelState
    from hammemo.edits.task import L, M, V
    from hammemo.stores.kept import Kept, ModelStore
    from hammemo.tokens.column_kinds import ColumnKinds
    from hammemo.tokens.cutting import Cutting


def merge(
    settings: EditSettings[L, M, V], state: ModelState[L, M, V], given: ModelState[L, M, V]
) -> ModelState[L, M, V]:
    """Add all that another model has learned; nothing is chosen or fitted here.

    Where the layouts differ, the rows of one model are counted under the layout of the other.
    """
    task = state.task
    state, other = _with_same_kinds(settings, state, given)
    target_dtype = task.reading.common_dtype(state, other)
    cutting = join_cuttings(state, other.cutting, is_other_empty=other.holds_nothing)
    try:
        memory = task.counting.merge(state, other, 1)
        merged = state.with_changes(memory=memory, store=_store_with(state, other, 1))
    except LayoutError as error:
        merged = _merge_rows(settings, state, other, error)
    columns = merged.columns
    if columns.token_types is not None:
        columns = replace(columns, token_types=columns.token_types.plus(other.columns.token_types))
    is_chosen_anew = merged.refitted == EVERYTHING_FITTED
    stale = (state.stale or given.stale) and not is_chosen_anew
    return merged.with_changes(columns=columns, cutting=cutting, target_dtype=target_dtype, stale=stale)


def _merge_rows(
    settings: EditSettings[L, M, V], state: ModelState[L, M, V], other: ModelState[L, M, V], error: LayoutError
) -> ModelState[L, M, V]:
    """Count the rows of one model under the layout of the other, whose layout is another one."""
    task = state.task
    if (state.pinned and other.pinned) or state.columns.n != other.columns.n:
        raise error
    rows: Kept | None
    if other.all_kept is not None and not _is_other_layout_better(state, other):
        merged, declared, rows = state, other.declared, other.all_kept
        store = state.store
    else:
        merged, declared, rows = state.with_layout_of(other), state.declared, state.all_kept
        merged = merged.with_changes(memory=other.memory)
        store = other.store
    if rows is None:
        raise error
    memory = task.counting.declare(merged.memory, declared)
    store = None if store is None else _sum(store, rows, 1)
    merged = merged.with_changes(memory=memory, store=store, pinned=state.pinned or other.pinned)
    try:
        return _count_with_room(merged, rows)
    except DoesNotFitError:
        if not merged.can_choose:
            raise
        return choose_again_by_rows(settings, merged)


def _is_other_layout_better(state: ModelState[L, M, V], other: ModelState[L, M, V]) -> bool:
    """Return whether too few rows chose the layout of a model, whose rows can be counted under that of the other."""
    can_change = state.all_kept is not None and not state.pinned and state.seed == other.seed
    return can_change and state.task.schedule.is_layout_open(state)


def _count_with_room(state: ModelState[L, M, V], rows: Kept) -> ModelState[L, M, V]:
    """Return a state with rows in its memory; an open layout gets room for them."""
    task = state.task
    if task.schedule.is_layout_open(state):
        for examples in rows.batches():
            state = state.with_changes(layout=task.schedule.make_room(state.layout, examples))
    return state.with_changes(memory=task.counting.count(state, rows.batches()))


def unmerge(
    settings: EditSettings[L, M, V], state: ModelState[L, M, V], given: ModelState[L, M, V]
) -> ModelState[L, M, V]:
    """Remove all that another model has learned."""
    task = state.task
    other = _as_kinds_of(settings, state, given)
    try:
        memory = task.counting.merge(state, other, -1)
        store = _store_with(state, other, -1)
        if store is not None and store.knows_all:  # it has looked up every row
            memory = task.counting.trust(memory, state, other)
        after = state.with_changes(memory=memory, store=store)
    except LayoutError:
        if other.all_kept is None:
            raise
        after = forget_kept(state, other.all_kept)
    if other.holds_nothing:
        return after
    return note_forgotten(settings, after, None)


def empty_copy(state: ModelState[L, M, V]) -> ModelState[L, M, V]:
    """Return a state of the same layout with nothing stored, whose layout counts as given."""
    return state.with_changes(
        memory=state.task.counting.empty_memory(state),
        store=None if state.store is None else state.store.empty_copy(),
        pinned=True,
        chosen_at=0,
        position=None,
    )


def join_cuttings(state: ModelState[L, M, V], other: Cutting | None, *, is_other_empty: bool = False) -> Cutting | None:
    """Return how the streams of a model are cut with more streams, which are cut so; None where the two differ."""
    if other == state.cutting or state.holds_nothing:
        return other
    return state.cutting if is_other_empty else None


def _with_same_kinds(
    settings: EditSettings[L, M, V], state: ModelState[L, M, V], other: ModelState[L, M, V]
) -> tuple[ModelState[L, M, V], ModelState[L, M, V]]:
    """Return both models with columns of the same kinds, where rows decide them; the rows are counted again."""
    mine, theirs = state.columns, other.columns
    if mine.types is None or theirs.types is None or mine.n != theirs.n:
        check_kinds(mine, theirs)
        return state, other
    if mine.kinds == theirs.kinds and mine.types == theirs.types and mine.scales == theirs.scales:
        return state, other
    my_rows, their_rows = evidence(state), evidence(other)
    check_scales(mine, my_rows, their_rows)
    together = my_rows.plus(their_rows)
    after = kinds_of_both(mine.kinds, theirs.kinds, together, asked(settings, mine))
    can_be = (mine.kinds == after or can_decide(state)) and (theirs.kinds == after or can_decide(other))
    may_be = may_become(mine.kinds, after, my_rows) and may_become(theirs.kinds, after, their_rows)
    if not can_be or not may_be:
        check_kinds(mine, theirs)
    columns = mine.with_types_of(together)
    if mine.kinds == after:
        state = state.with_changes(columns=columns)
    else:
        state = with_other_kinds(settings, state, columns.with_kinds(after), choose_again=False)
    return state, other if theirs.kinds == after else _as_kinds(settings, other, after)


def _as_kinds_of(
    settings: EditSettings[L, M, V], state: ModelState[L, M, V], other: ModelState[L, M, V]
) -> ModelState[L, M, V]:
    """Return another model with its rows as those of a table with the kinds of this one's columns."""
    mine, theirs = state.columns, other.columns
    if mine.kinds == theirs.kinds or mine.n != theirs.n:
        check_kinds(mine, theirs)
        return other
    if other.rows is None or not other.rows.holds_all:
        check_kinds(mine, theirs)
    try:
        return _as_kinds(settings, other, mine.kinds)
    except ValueError as error:
        raise LayoutError(str(error)) from None


def _as_kinds(settings: EditSettings[L, M, V], state: ModelState[L, M, V], kinds: ColumnKinds) -> ModelState[L, M, V]:
    """Return a model of which only the rows are needed, with these as of other kinds."""
    if state.store is None or state.rows is None:
        return state.with_changes(columns=state.columns.with_kinds(kinds))
    columns, store = with_kinds(settings, state.columns, state.store, kinds)
    return state.with_changes(columns=columns, store=store)


def _store_with(state: ModelState[L, M, V], other: ModelState[L, M, V], sign: int) -> ModelStore | None:
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
