"""Edits of single rows, in microseconds: no table is checked, and nothing is chosen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hammemo._arrays.integers import object_array
from hammemo.edits.column_changes import waits_for
from hammemo.edits.forget import mark_as_checked
from hammemo.edits.learn import admit, label_ends
from hammemo.edits.state import ModelState, Part
from hammemo.explain.explanations import one_context
from hammemo.tasks.labels.weigh import depends_on_rows
from hammemo.tokens.columns import is_own_token, tokens_of
from hammemo.tokens.contexts import Examples
from hammemo.tokens.labels import common_label_dtype, holds_label, label_array
from hammemo.tokens.missing import filled_tokens
from hammemo.tokens.vocabulary import as_token
from hammemo.tokens.wide_tables import pack_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hammemo.tasks.labels.settings import ModelSettings
    from hammemo.tokens.column_schema import ColumnSchema
    from hammemo.tokens.user_input import ReadingRules


def change_one(settings: ModelSettings, state: ModelState, tokens: Sequence[Any], label: Any, by: int) -> ModelState:
    """Learn one example or, with -1, forget it: in microseconds."""
    names, n = state.columns.names, state.columns.n
    context = one_context(tokens, names, "learn_one" if by > 0 else "forget_one")
    (context,) = state.cut([context])
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
        context = one_row(settings, state.columns, state.columns.kinds, context)
    (layout, held), store = state.parts[0], state.store
    memory, cells = held.snapshot(), layout.cells
    if store is not None:
        store = store.edit_one(context, label, by)
    if cells is None:
        memory.update_one(context, label, by)
    else:
        memory.update_one_row(cells, context, label, by)
    parts = (Part(layout, memory),)
    if by > 0:
        return state.but(parts=parts, label_dtype=dtype, store=store)
    mark_as_checked(state, memory)
    witness = state.witness
    if witness is not None:
        witness = witness.plus_examples(Examples.of([context], [label]))
    return state.but(parts=parts, store=store, witness=witness, stale=state.stale or depends_on_rows(settings, state))


def one_row(settings: ReadingRules, columns: ColumnSchema, kinds: str, context: Sequence[Any]) -> list[Any]:
    """Return the tokens of one row with numbers."""
    if columns.packed:
        return pack_table([list(context)], settings.missing, columns.listed())[0].tolist()  # type: ignore[no-any-return]
    if all(map(is_own_token, context, kinds)):
        return [as_token(value) for value in context]
    listed = [object_array([value]) for value in context]
    table = tokens_of(listed, kinds, settings.missing, columns.listed(), learning=True, zones=columns.zones)
    row: list[Any] = table[0].tolist()
    return [as_token(token) for token in row]
