"""Forgetting, from one state to the next: the exact inverse of learning. Layout and weights stay until a refit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hammemo.memories.errors import NotStoredError, not_held
from hammemo.tasks.labels.count import count, count_batch
from hammemo.tasks.labels.weigh import with_forgotten

if TYPE_CHECKING:
    from hammemo.edits.state import ModelState
    from hammemo.memories import Memory
    from hammemo.stores.kept import Kept, ModelStore
    from hammemo.tasks.labels.settings import ModelSettings
    from hammemo.tokens.contexts import Examples


def forget(settings: ModelSettings, state: ModelState, examples: Examples) -> ModelState:
    """Remove examples: all of them, or `NotStoredError` is raised."""
    memory, rows = state.memory.snapshot(), state.rows
    try:
        store = None if state.store is None else state.store.edit(examples, -1)
        count_batch(memory, state.cells, examples, -1)
    except NotStoredError:
        lacking = rows.lacking(examples) if rows is not None and rows.holds_all else []
        if lacking:
            raise not_held(lacking, len(examples)) from None
        raise
    state = with_checked_memory(state, memory, store)
    return with_forgotten(settings, state, examples) if len(examples) else state


def forget_kept(state: ModelState, kept: Kept) -> ModelState:
    """Remove rows or documents that another model keeps, or some of its own."""
    memory = count(state.memory.snapshot(), state.cells, kept.batches(), -1)
    return with_checked_memory(state, memory, None if state.store is None else state.store.plus(kept, -1))


def forget_everything(settings: ModelSettings, state: ModelState) -> ModelState:
    """Remove all that was learnt, as `forget` of all rows does. Declared labels stay."""
    memory = state.memory.empty_like()
    memory.declare_labels(state.memory.declared)
    store = state.store
    if store is not None:  # of an empty model all rows are kept again, from the next one on
        room = settings.empty_store(store.h, store.seed, state.vote, documents=state.documents is not None)
        store = room if room is not None and room.stores_like(store) else store.empty_copy()
    emptied = state.with_memory(memory, store=store)
    return state if state.holds_nothing else with_forgotten(settings, emptied, None)


def with_checked_memory(state: ModelState, memory: Memory, store: ModelStore | None) -> ModelState:
    """Return a state with a memory that has forgotten rows."""
    mark_as_checked(state, memory)
    return state.with_memory(memory, store=store)


def mark_as_checked(state: ModelState, memory: Memory) -> None:
    """Note in a memory that has forgotten rows that each was looked up, where the store knows all rows."""
    if state.store is not None and state.store.knows_all:
        memory.forgot_unchecked = state.memory.forgot_unchecked
