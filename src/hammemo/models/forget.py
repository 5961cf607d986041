"""Forgetting, from one state to the next: the exact inverse of learning. Layout and weights stay until a refit."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hammemo.memories import Ledgered
from hammemo.memories.errors import NotStoredError
from hammemo.memories.ledgered import not_held
from hammemo.models.count import count, count_batch, with_ledger
from hammemo.models.weigh import with_forgotten
from hammemo.stores.kept import EVERYTHING

if TYPE_CHECKING:
    from hammemo.memories import Memory
    from hammemo.models.settings import ModelSettings
    from hammemo.models.state import ModelState
    from hammemo.stores.kept import Kept
    from hammemo.stores.kept_rows import KeptRows
    from hammemo.tokens.contexts import Examples


def forget(settings: ModelSettings, state: ModelState, examples: Examples) -> ModelState:
    """Remove examples: all of them, or `NotStoredError` is raised."""
    rows = ledger_rows(state)
    _refuse_lacking(rows, examples)
    memory = state.memory.snapshot()
    try:
        count_batch(memory, state.cells, examples, -1)
        store = None if state.store is None else state.store.changed(examples, -1)
    except NotStoredError:
        _refuse_lacking(state.rows if state.rows is not None and state.rows.holds_all else None, examples)
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
    store = None if state.store is None else replace(state.store.emptied(), threshold=EVERYTHING)
    emptied = with_ledger(state.with_memory(memory, store=store), None)
    return state if state.holds_nothing else with_forgotten(settings, emptied, None)


def with_checked_memory(state: ModelState, memory: Memory, store: Kept | None) -> ModelState:
    """Return a state with a memory that has forgotten rows."""
    mark_as_checked(state, memory)
    return state.with_memory(memory, store=store)


def mark_as_checked(state: ModelState, memory: Memory) -> None:
    """Note in a memory that has forgotten rows that each was looked up, where the state keeps all rows."""
    if state.store is not None and state.store.threshold == EVERYTHING:
        memory.forgot_unchecked = state.memory.forgot_unchecked


def ledger_rows(state: ModelState) -> KeptRows | None:
    """Return the kept rows where they are the ledger of the memory."""
    memory = state.memory
    return state.rows if isinstance(memory, Ledgered) and not memory.has_ledger else None


def _refuse_lacking(rows: KeptRows | None, examples: Examples) -> None:
    lacking = [] if rows is None else rows.lacking(examples)
    if lacking:
        raise not_held(lacking, len(examples)) from None
