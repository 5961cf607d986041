"""Edits of single rows, in microseconds: no table is checked, and nothing is chosen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hammemo._arrays.integers import object_array
from hammemo.edits.column_changes import declares_types
from hammemo.edits.forget import name_lacking, note_forgotten, trust_if_known
from hammemo.edits.learn import admit, choose_again_by_rows, learn_what_does_not_fit
from hammemo.edits.task import DoesNotFitError
from hammemo.explain.explanations import one_context
from hammemo.memories.errors import NotStoredError
from hammemo.tokens.column_values import is_own_token, tokens_of
from hammemo.tokens.contexts import Examples
from hammemo.tokens.missing import fill_tokens
from hammemo.tokens.vocabulary import as_token
from hammemo.tokens.wide_tables import pack_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hammemo.edits.settings import EditSettings
    from hammemo.edits.state import ModelState
    from hammemo.edits.task import L, M, V


def learn_one(
    settings: EditSettings[L, M, V], state: ModelState[L, M, V], row: Sequence[Any], target: Any
) -> ModelState[L, M, V]:
    """Learn one row. Nothing is chosen, unless there was too little to choose by before."""
    task = state.task
    (context,) = state.cut([one_context(row, state.columns.names, "learn_one")])
    if declares_types(settings, state, context):
        state = admit(settings, state, [list(context)], choose_again=False)
    context = read_row(settings, state, context)
    target, target_dtype = task.reading.read_target(settings, state, target, 1)
    store = state.store
    if store is not None:
        store = store.edit_one(context, target, 1)
    try:
        memory = task.counting.count_one(state, context, target, 1)
    except DoesNotFitError:
        return learn_what_does_not_fit(
            settings, state, Examples.of([context], [target]), choose_again=True
        )
    after = state.with_changes(memory=memory, target_dtype=target_dtype, store=store)
    if task.schedule.is_choice_due_at_once(after):
        return choose_again_by_rows(settings, after)
    return after


def forget_one(
    settings: EditSettings[L, M, V], state: ModelState[L, M, V], row: Sequence[Any], target: Any
) -> ModelState[L, M, V]:
    """Forget one row, or raise `NotStoredError`."""
    task = state.task
    (context,) = state.cut([one_context(row, state.columns.names, "forget_one")])
    context = read_row(settings, state, context)
    target, _ = task.reading.read_target(settings, state, target, -1)
    store = state.store
    try:
        if store is not None:
            store = store.edit_one(context, target, -1)
        memory = trust_if_known(state, task.counting.count_one(state, context, target, -1))
    except NotStoredError as error:
        raise name_lacking(error, state.rows, Examples.of([context], [target])) from None
    after = state.with_changes(memory=memory, store=store)
    examples = None
    if state.witness is not None:
        examples = Examples.of([context], [target])
    return note_forgotten(settings, after, examples)


def read_row(
    settings: EditSettings[L, M, V],
    state: ModelState[L, M, V],
    context: Sequence[Any],
    *,
    learning: bool = True,
) -> list[Any]:
    """Return the tokens of one row, or refuse it.

    `learning` says that the row is learned or forgotten: in a question, times of any zone are
    converted.
    """
    columns = state.columns
    if len(context) != columns.n:
        raise ValueError(
            f"The model was fitted on rows of {columns.n} values; this has {len(context)}."
        )
    kinds = columns.kinds
    if not columns.has_ordered:
        return fill_tokens(context, settings.missing)
    if columns.packed:
        table = pack_table([list(context)], settings.missing, columns.list_names())
        packed: list[Any] = table[0].tolist()
        return packed
    if all(map(is_own_token, context, kinds)):
        return [as_token(value) for value in context]
    listed = [object_array([value]) for value in context]
    table = tokens_of(
        listed,
        kinds,
        settings.missing,
        columns.list_names(),
        learning=learning,
        scales=columns.scales,
    )
    row: list[Any] = table[0].tolist()
    return [as_token(token) for token in row]
