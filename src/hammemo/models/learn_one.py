"""Edits of single rows, in microseconds: no table is checked, and nothing is chosen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hammemo._arrays.integers import object_array
from hammemo.explain.explanations import one_context
from hammemo.memories.ledgered import not_held
from hammemo.models.column_changes import waits_for
from hammemo.models.forget import ledger_rows, with_checked_memory
from hammemo.models.learn import admit, label_ends
from hammemo.models.weigh import with_forgotten
from hammemo.stores.kept_rows import row_of
from hammemo.tokens.columns import is_own_token, tokens_of
from hammemo.tokens.contexts import Examples
from hammemo.tokens.labels import common_label_dtype, holds_label, label_array
from hammemo.tokens.missing import filled_tokens
from hammemo.tokens.vocabulary import as_token

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hammemo.models.settings import ModelSettings
    from hammemo.models.state import ModelState
    from hammemo.tokens.column_schema import ColumnSchema


def change_one(settings: ModelSettings, state: ModelState, tokens: Sequence[Any], label: Any, by: int) -> ModelState:
    """Learn one example or, with -1, forget it: in microseconds."""
    names, n = state.columns.names, state.columns.n
    context = one_context(tokens, names, "learn_one" if by > 0 else "forget_one")
    if state.cutting is not None:
        (context,) = state.cutting.contexts([context], n)
    if by > 0 and waits_for(settings, state, context):
        state = admit(settings, state, [list(context)], choose_again=False)
    if state.columns.kinds is None:
        context = filled_tokens(context, settings.missing)
    if len(context) != n:
        raise ValueError(f"The model was fitted on rows of {n} values; this has {len(context)}.")
    dtype = state.label_dtype
    if by > 0 and not holds_label(dtype, label):
        dtype = common_label_dtype(label_array([label]), label_ends(state))
    if state.columns.kinds is not None:
        context = _one_row(settings, state.columns, state.columns.kinds, context)
    memory, rows = state.memory.snapshot(), state.rows
    row = () if rows is None else row_of(context, label)
    ledger = ledger_rows(state) if by < 0 else None
    if ledger is not None and ledger.times(row) + by < 0:
        raise not_held([0], 1)
    if state.cells is None:
        memory.update_one(context, label, by)
    else:
        memory.update_one_row(state.cells, context, label, by)
    store = state.store
    if rows is not None:
        store = rows.changed_one(row, by)
    elif store is not None:
        store = store.changed(Examples.of([context], [label]), by)
    if by > 0:
        return state.with_memory(memory, label_dtype=dtype, store=store)
    state = with_checked_memory(state, memory, store)
    return with_forgotten(settings, state, None if state.witness is None else Examples.of([context], [label]))


def _one_row(settings: ModelSettings, columns: ColumnSchema, kinds: str, context: Sequence[Any]) -> list[Any]:
    """Return the tokens of one row with numbers."""
    if all(map(is_own_token, context, kinds)):
        return [as_token(value) for value in context]
    listed = [object_array([value]) for value in context]
    row: list[Any] = tokens_of(listed, kinds, settings.missing, columns.listed(), learning=True)[0].tolist()
    return [as_token(token) for token in row]
