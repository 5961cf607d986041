"""Forget rows: the exact inverse of learning. Layout and weights stay until a refit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hammemo.memories.errors import NotStoredError, not_held

if TYPE_CHECKING:
    from hammemo.edits.settings import EditSettings
    from hammemo.edits.state import ModelState
    from hammemo.edits.task import L, M, V
    from hammemo.stores.kept import Kept, ModelStore
    from hammemo.stores.kept_rows import KeptRows
    from hammemo.tokens.contexts import Examples


def forget(
    settings: EditSettings[L, M, V], state: ModelState[L, M, V], examples: Examples, *, is_known: bool = False
) -> ModelState[L, M, V]:
    """Remove examples: all of them, or `NotStoredError` is raised.

    With `is_known`, the caller knows that the model has learned each of them.
    """
    task, rows = state.task, state.rows
    try:
        store = None if state.store is None else state.store.edit(examples, -1)
        memory = task.counting.count(state, [examples], -1)
    except NotStoredError as error:
        raise name_lacking(error, rows, examples) from None
    memory = task.counting.trust(memory, state) if is_known else trust_if_known(state, memory)
    after = state.with_changes(memory=memory, store=store)
    if not len(examples):
        return after
    return note_forgotten(settings, after, examples)


def name_lacking(error: NotStoredError, rows: KeptRows | None, examples: Examples) -> NotStoredError:
    """Return an error that names rows which are not stored, where all stored rows are kept."""
    lacking = rows.lacking(examples) if rows is not None and rows.holds_all else []
    return not_held(lacking, len(examples)) if lacking else error


def forget_kept(state: ModelState[L, M, V], kept: Kept) -> ModelState[L, M, V]:
    """Remove rows or documents that another model keeps, or some of its own."""
    memory = trust_if_known(state, state.task.counting.count(state, kept.batches(), -1))
    store = None if state.store is None else state.store.plus(kept, -1)
    return state.with_changes(memory=memory, store=store)


def forget_everything(settings: EditSettings[L, M, V], state: ModelState[L, M, V]) -> ModelState[L, M, V]:
    """Remove all that was learned, as `forget` of all rows does. Declared labels stay."""
    if state.holds_nothing:
        return state
    task = state.task
    memory = task.counting.declare(task.counting.empty_memory(state), state.declared)
    store = state.store
    if store is not None:
        store = _empty_room(settings, state, store)
    return note_forgotten(settings, state.with_changes(memory=memory, store=store), None)


def _empty_room(settings: EditSettings[L, M, V], state: ModelState[L, M, V], store: ModelStore) -> ModelStore:
    """Return an empty store: of an empty model all rows are kept again, from the next one on."""
    is_of_documents = state.documents is not None
    room = settings.empty_store(store.h, store.seed, state.vote, documents=is_of_documents)
    if room is not None and room.stores_like(store):
        return room
    return store.empty_copy()


def note_forgotten(
    settings: EditSettings[L, M, V], state: ModelState[L, M, V], examples: Examples | None
) -> ModelState[L, M, V]:
    """Note that rows were forgotten, so that the model may be stale; None where it is not known which."""
    witness = state.witness
    if witness is not None and examples is not None:
        witness = witness.plus_examples(examples)
    is_stale = state.stale or state.task.weighing.depends_on_rows(settings, state)
    if witness is state.witness and is_stale == state.stale:
        return state  # there is nothing to note, and a copy takes a microsecond
    return state.with_changes(witness=witness, stale=is_stale)


def trust_if_known(before: ModelState[L, M, V], memory: M) -> M:
    """Return a memory that has forgotten rows, noting that each was looked up where the store knows all rows."""
    if before.store is not None and before.store.knows_all:
        return before.task.counting.trust(memory, before)
    return memory
