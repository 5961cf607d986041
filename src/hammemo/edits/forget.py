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
    settings: EditSettings[L, M, V],
    state: ModelState[L, M, V],
    examples: Examples,
    *,
    is_known: bool = False,
) -> ModelState[L, M, V]:
    """Remove examples: all of them, or `NotStoredError` is raised.

    With `is_known`, the caller knows that the model has learned each of them.
    """
    task = state.task
    try:
        store = state.edit_store(examples, -1)
        memory = task.counting.count(state, [examples], -1)
    except NotStoredError as error:
        raise name_lacking(error, state.rows, examples) from None
    if is_known:
        memory = task.counting.trust(memory, state)
    else:
        memory = trust_if_known(state, memory)
    after = state.with_changes(memory=memory, store=store)
    if not len(examples):
        return after
    return note_forgotten(settings, after, examples)


def name_lacking(
    error: NotStoredError, rows: KeptRows | None, examples: Examples
) -> NotStoredError:
    """Return an error that names rows which are not stored, where all stored rows are kept."""
    if rows is None or not rows.holds_all:
        return error
    lacking = rows.lacking(examples)
    return not_held(lacking, len(examples)) if lacking else error


def forget_kept(state: ModelState[L, M, V], examples: Kept) -> ModelState[L, M, V]:
    """Remove rows or documents that another model keeps, or some of its own."""
    memory = trust_if_known(state, state.task.counting.count(state, examples.batches(), -1))
    store = None if state.store is None else state.store.plus(examples, -1)
    return state.with_changes(memory=memory, store=store)


def forget_everything(
    settings: EditSettings[L, M, V], state: ModelState[L, M, V]
) -> ModelState[L, M, V]:
    """Remove all that was learned, as `forget` of all rows does. Declared labels stay."""
    if state.holds_nothing:
        return state
    store = state.store
    if store is not None:
        store = _empty_store(settings, state, store)
    after = state.with_changes(memory=state.empty_memory(), store=store)
    return note_forgotten(settings, after, None)


def _empty_store(
    settings: EditSettings[L, M, V], state: ModelState[L, M, V], store: ModelStore
) -> ModelStore:
    """Return an empty store.

    An empty model keeps all rows again, from the next one on, also if it has only kept a sample.
    """
    has_documents = state.documents is not None
    empty = settings.empty_store(store.h, store.seed, state.vote, documents=has_documents)
    if empty is not None and empty.stores_like(store):
        return empty
    return store.empty_copy()


def note_forgotten(
    settings: EditSettings[L, M, V], state: ModelState[L, M, V], examples: Examples | None
) -> ModelState[L, M, V]:
    """Note that rows were forgotten, so that the model may be stale.

    `examples` are None where the rows themselves are not at hand.
    """
    witness = state.witness
    if witness is not None and examples is not None:
        witness = witness.plus_examples(examples)
    is_stale = state.stale or state.task.weighing.depends_on_rows(settings, state)
    if witness is state.witness and is_stale == state.stale:
        return state  # there is nothing to note, and a copy takes a microsecond
    return state.with_changes(witness=witness, stale=is_stale)


def trust_if_known(before: ModelState[L, M, V], memory: M) -> M:
    """Return a memory that has forgotten rows, with a note if each of them was looked up.

    It was, if the store knows all rows.
    """
    if before.store is not None and before.store.knows_all:
        return before.task.counting.trust(memory, before)
    return memory
