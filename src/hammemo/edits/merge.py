"""Sums and differences of two models.

Each model is a sum over its examples, so the sum of two has learned what both have.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hammemo.edits.column_changes import (
    can_decide,
    check_kinds,
    check_scales,
    collect_evidence,
    convert_store,
    find_numbers,
    join_kinds,
    may_become,
)
from hammemo.edits.forget import forget_kept, note_forgotten
from hammemo.edits.learn import choose_again_by_rows, recount_as_kinds
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
    settings: EditSettings[L, M, V], state: ModelState[L, M, V], other: ModelState[L, M, V]
) -> ModelState[L, M, V]:
    """Add all that another model has learned; nothing is chosen or fitted here.

    Where the layouts differ, the rows of one model are counted under the layout of the other.
    """
    task = state.task
    other_kinds = other.columns.kinds
    state, other = _give_same_kinds(settings, state, other)
    target_dtype = task.reading.common_dtype(state, other)
    cutting = join_cuttings(state, other.cutting, is_other_empty=other.holds_nothing)
    try:
        memory = task.counting.merge(state, other, 1)
        merged = state.with_changes(memory=memory, store=_merge_stores(state, other, 1))
    except LayoutError as error:
        # only the rows were converted: the layout has columns of the kinds of before
        is_converted = other.columns.kinds != other_kinds
        merged = _merge_rows(settings, state, other, error, is_converted=is_converted)
    columns = merged.columns
    if columns.token_types is not None:
        token_types = columns.token_types.plus(other.columns.token_types)
        columns = replace(columns, token_types=token_types)
    is_stale = state.stale or other.stale
    is_chosen_again = merged.refitted == EVERYTHING_FITTED
    return merged.with_changes(
        columns=columns,
        cutting=cutting,
        target_dtype=target_dtype,
        stale=is_stale and not is_chosen_again,
    )


def _merge_rows(
    settings: EditSettings[L, M, V],
    state: ModelState[L, M, V],
    other: ModelState[L, M, V],
    error: LayoutError,
    *,
    is_converted: bool,
) -> ModelState[L, M, V]:
    """Count the rows of one model under the layout of the other; `error` says how they differ.

    The layout of a model that was converted to other kinds does not fit its rows.
    """
    if (state.pinned and other.pinned) or state.columns.n != other.columns.n:
        raise error
    if other.all_kept is not None and (is_converted or not _is_other_layout_better(state, other)):
        merged = state
        added = other
    else:
        merged = state.with_layout_of(other).with_changes(memory=other.memory, store=other.store)
        added = state
    rows = added.all_kept
    if rows is None:
        raise error
    merged = merged.with_changes(
        memory=state.task.counting.declare(merged.memory, added.declared),
        store=None if merged.store is None else _add_stores(merged.store, rows, 1),
        pinned=state.pinned or other.pinned,
    )
    try:
        return _count_with_room(merged, rows)
    except DoesNotFitError:
        if not merged.can_choose:
            raise
        return choose_again_by_rows(settings, merged)


def _is_other_layout_better(state: ModelState[L, M, V], other: ModelState[L, M, V]) -> bool:
    """Return whether the layout of a model says little, and its rows can be counted under another.

    Too few rows have chosen it, and the layout of the other model takes the hashes of its rows.
    """
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
    settings: EditSettings[L, M, V], state: ModelState[L, M, V], other: ModelState[L, M, V]
) -> ModelState[L, M, V]:
    """Remove all that another model has learned."""
    task = state.task
    other = _convert_to_kinds_of(settings, state, other)
    try:
        memory = task.counting.merge(state, other, -1)
        store = _merge_stores(state, other, -1)
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


def join_cuttings(
    state: ModelState[L, M, V], other: Cutting | None, *, is_other_empty: bool = False
) -> Cutting | None:
    """Return how the streams of a model are cut together with streams that are cut like `other`.

    None where the two differ. What holds nothing, the model or the streams, has no say.
    """
    if other == state.cutting or state.holds_nothing:
        return other
    return state.cutting if is_other_empty else None


# Columns of the same kinds


def _give_same_kinds(
    settings: EditSettings[L, M, V], state: ModelState[L, M, V], other: ModelState[L, M, V]
) -> tuple[ModelState[L, M, V], ModelState[L, M, V]]:
    """Return both models with columns of the same kinds, where rows decide them.

    The rows of this model are counted again. Of the other one only the rows are converted.
    """
    columns = state.columns
    others = other.columns
    if columns.types is None or others.types is None or columns.n != others.n:
        check_kinds(columns, others)
        return state, other
    has_same_kinds = columns.kinds == others.kinds
    if has_same_kinds and columns.types == others.types and columns.scales == others.scales:
        return state, other
    evidence = collect_evidence(state)
    other_evidence = collect_evidence(other)
    check_scales(columns, evidence, other_evidence)
    together = evidence.plus(other_evidence)
    numbers = find_numbers(settings, columns)
    kinds = join_kinds(columns.kinds, others.kinds, together, numbers)
    can_convert = (columns.kinds == kinds or can_decide(state)) and (
        others.kinds == kinds or can_decide(other)
    )
    may_convert = may_become(columns.kinds, kinds, evidence) and may_become(
        others.kinds, kinds, other_evidence
    )
    if not can_convert or not may_convert:
        check_kinds(columns, others)
    if columns.kinds == kinds:
        state = state.with_changes(columns=columns.with_types_of(together))
    else:
        columns = columns.with_types_of(together).with_kinds(kinds)
        state = recount_as_kinds(settings, state, columns, choose_again=False)
    if others.kinds != kinds:
        other = _convert_rows(settings, other, kinds)
    return state, other


def _convert_to_kinds_of(
    settings: EditSettings[L, M, V], state: ModelState[L, M, V], other: ModelState[L, M, V]
) -> ModelState[L, M, V]:
    """Return another model with its rows as rows of the kinds that this one's columns have."""
    columns = state.columns
    others = other.columns
    if columns.kinds == others.kinds or columns.n != others.n:
        check_kinds(columns, others)
        return other
    if other.rows is None or not other.rows.holds_all:
        check_kinds(columns, others)
    try:
        return _convert_rows(settings, other, columns.kinds)
    except ValueError as error:
        raise LayoutError(str(error)) from None


def _convert_rows(
    settings: EditSettings[L, M, V], state: ModelState[L, M, V], kinds: ColumnKinds
) -> ModelState[L, M, V]:
    """Return a model, of which only the rows are needed, with rows of other kinds."""
    if state.store is None or state.rows is None:
        return state.with_changes(columns=state.columns.with_kinds(kinds))
    columns, store = convert_store(settings, state.columns, state.store, kinds)
    return state.with_changes(columns=columns, store=store)


# What is stored


def _merge_stores(
    state: ModelState[L, M, V], other: ModelState[L, M, V], sign: int
) -> ModelStore | None:
    """Return what is stored with the other's added or, with sign -1, removed.

    None where one of the two stores nothing.
    """
    if _has_digests(state.store) != _has_digests(other.store):
        raise LayoutError(
            "Only one of the two models has digests of its rows: give both the same keep=."
        )
    if state.store is None or other.store is None:
        return None
    return _add_stores(state.store, other.store, sign)


def _has_digests(store: ModelStore | None) -> bool:
    return store is not None and store.kept is not store


def _add_stores(store: ModelStore, other: ModelStore, sign: int) -> ModelStore | None:
    """Return what both hold; an empty store takes rows or documents, whichever the other has."""
    before = store.kept
    added = other.kept
    if before is None or added is None or type(before) is type(added):
        return store.plus(other, sign)
    if before.holds_all and not len(before):  # one keeps rows, and the other one documents
        empty = added.empty_copy()
        store = store.with_kept(replace(empty, seed=before.seed, threshold=before.threshold))
    return store.plus(other, sign)
