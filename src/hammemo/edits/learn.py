"""Learn a batch of rows: they are counted under the layout that is there.

A model that learns in pieces chooses everything again whenever its rows have doubled. A table may
also decide of which kind a column is that held no value before: then the rows are counted again.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hammemo.edits.column_changes import (
    adopt_kinds,
    convert_store,
    decide_by_next_table,
    decide_by_rows,
    get_kept_rows,
)
from hammemo.edits.fit import choose_like_given, fit_batch, fit_stored, start
from hammemo.edits.state import NOTHING_FITTED, ModelState, refuse_to_record
from hammemo.edits.task import DoesNotFitError, L, M, RowBatch, V
from hammemo.tokens.token_types import TokenTypes

if TYPE_CHECKING:
    from hammemo.edits.settings import EditSettings
    from hammemo.tokens.columns import Columns
    from hammemo.tokens.contexts import Examples
    from hammemo.tokens.user_input import CheckedRows


def learn(
    settings: EditSettings[L, M, V],
    before: ModelState[L, M, V] | None,
    rows: CheckedRows,
    declared: Any = None,
    layout: ModelState[L, M, V] | None = None,
    *,
    choose_again: bool = True,
) -> ModelState[L, M, V]:
    """Return the state after a batch of rows.

    Parameters
    ----------
    settings : EditSettings
    before : ModelState or None
        None for a model that begins.
    rows : CheckedRows
    declared : array-like, optional
        Labels to keep without examples.
    layout : ModelState, optional
        A model whose layout the first rows get.
    choose_again : bool
        Whether to choose everything by all rows, where these have doubled since the last choice.
    """
    task = settings.task
    refuse_to_record(before)
    batch = task.reading.read_batch(settings, rows, declared, before)
    if layout is not None and before is not None:
        raise ValueError(
            "layout= is fixed at the first call, and this model has already learnt rows."
        )
    is_empty = before is None or (before.holds_nothing and not before.pinned)
    chooses_now = layout is None and task.schedule.chooses_by_first_rows()
    if is_empty and chooses_now and len(batch.examples):
        return _fit_first_rows(settings, before, batch)
    if before is None:
        state, batch = _begin(settings, batch, layout)
    elif is_empty and task.schedule.begins_again(before, choose_again=choose_again):
        state = _begin_again(settings, before, batch)
    else:
        state = before
    state = _add(settings, state, batch, choose_again=choose_again)
    if choose_again and _is_choice_due(settings, state):
        return choose_again_by_rows(settings, state)
    vote = task.weighing.weigh_learned(
        settings,
        state,
        batch.examples,
        is_first=before is None and layout is None,
        choose_again=choose_again,
    )
    return state.with_changes(vote=vote)


def _fit_first_rows(
    settings: EditSettings[L, M, V], before: ModelState[L, M, V] | None, batch: RowBatch
) -> ModelState[L, M, V]:
    """Choose everything by the first rows."""
    token_types = TokenTypes.from_contexts(batch.examples.contexts)
    batch = replace(batch, columns=replace(batch.columns, token_types=token_types))
    if before is None:
        return fit_batch(settings, batch, settings.seed())
    return fit_batch(settings, batch, before.seed).with_changes(**before.carried)


def _begin(
    settings: EditSettings[L, M, V], batch: RowBatch, layout: ModelState[L, M, V] | None
) -> tuple[ModelState[L, M, V], RowBatch]:
    """Return the first state of a model, without rows, and its first rows.

    With a layout, these are rows of the kinds that the columns of the layout have.
    """
    n_labels = len(batch.examples.labels.union(batch.declared))
    if layout is None:
        plan = settings.task.choosing.choose_by_first_rows(
            settings, batch.columns, batch, n_labels=n_labels, seed=settings.seed()
        )
    else:
        columns, examples = adopt_kinds(settings, batch.columns, batch.examples, layout.columns)
        batch = replace(batch, columns=columns, examples=examples)
        plan = choose_like_given(settings, columns, layout, n_labels)
    return start(settings, plan, batch.columns, batch.target_dtype, layout=layout), batch


def _begin_again(
    settings: EditSettings[L, M, V], state: ModelState[L, M, V], batch: RowBatch
) -> ModelState[L, M, V]:
    """Return a state as for a first batch, with nothing stored; declared labels and seed stay."""
    task = settings.task
    declared = state.declared
    plan = task.choosing.choose_by_first_rows(
        settings,
        state.columns,
        batch,
        n_labels=len(batch.examples.labels.union(declared)),
        seed=state.seed,
    )
    after = start(settings, plan, state.columns, state.target_dtype)
    memory = task.counting.declare(after.memory, declared)
    return after.with_changes(memory=memory, cutting=state.cutting, **state.carried)


def _add(
    settings: EditSettings[L, M, V],
    state: ModelState[L, M, V],
    batch: RowBatch,
    *,
    choose_again: bool,
) -> ModelState[L, M, V]:
    """Count and store a batch of rows."""
    counting = state.task.counting
    examples = batch.examples
    token_types = TokenTypes.from_contexts(examples.contexts)
    state = state.with_changes(
        columns=state.columns.with_tokens(token_types, first=state.holds_nothing),
        memory=counting.declare(state.memory, batch.declared),
    )
    try:
        memory = counting.count(state, [examples])
    except DoesNotFitError:
        return learn_what_does_not_fit(settings, state, examples, choose_again=choose_again)
    store = state.edit_store(examples, 1)
    return state.with_changes(memory=memory, target_dtype=batch.target_dtype, store=store)


def _is_choice_due(settings: EditSettings[L, M, V], state: ModelState[L, M, V]) -> bool:
    schedule = settings.task.schedule
    return schedule.is_choice_due(settings, state) or schedule.is_choice_due_at_once(state)


def learn_what_does_not_fit(
    settings: EditSettings[L, M, V],
    state: ModelState[L, M, V],
    examples: Examples,
    *,
    choose_again: bool,
) -> ModelState[L, M, V]:
    """Learn rows that have no place in the layout.

    With `choose_again`, a model that keeps all its rows chooses everything by all of them.
    Otherwise an open layout gets room for these rows, and another one refuses them.
    """
    task = state.task
    stored = state.with_changes(store=state.edit_store(examples, 1))
    if choose_again and state.can_choose and stored.can_choose:
        after = choose_again_by_rows(settings, stored)
        task.schedule.warn_of_choice(state, after, examples)
        return after
    stored = stored.with_changes(layout=task.schedule.make_room(stored.layout, examples))
    return stored.with_changes(memory=task.counting.count(stored, [examples]))


def choose_again_by_rows(
    settings: EditSettings[L, M, V], state: ModelState[L, M, V]
) -> ModelState[L, M, V]:
    """Choose everything again by the kept rows, which are all, and count them."""
    assert state.store is not None
    columns, store = decide_by_rows(settings, state.columns, state.store)
    return fit_stored(settings, state, columns, store, quickly=True)


def admit(
    settings: EditSettings[L, M, V],
    state: ModelState[L, M, V],
    X: Any,
    *,
    choose_again: bool = True,
) -> ModelState[L, M, V]:
    """Let a table that is to be learned decide kinds of columns.

    Where they change, the rows of the model are counted again as rows of these kinds.
    """
    columns = decide_by_next_table(settings, state, X, choose=choose_again)
    if columns is state.columns:
        return state
    if columns.kinds == state.columns.kinds:
        return state.with_changes(columns=columns)
    return recount_as_kinds(settings, state, columns, choose_again=choose_again)


def recount_as_kinds(
    settings: EditSettings[L, M, V],
    state: ModelState[L, M, V],
    columns: Columns,
    *,
    choose_again: bool,
) -> ModelState[L, M, V]:
    """Return a state whose columns are of other kinds, with the rows counted again."""
    if state.store is None or state.rows is None or not len(state.rows):
        return state.with_changes(columns=columns)  # the first rows start over
    task = settings.task
    before = state.columns.with_types_of(columns)
    columns, store = convert_store(settings, before, state.store, columns.kinds)
    if choose_again or task.schedule.chooses_by_first_rows():
        after = fit_stored(settings, state, columns, store, quickly=True)
        return after.with_changes(refitted=NOTHING_FITTED)  # rows that follow are in no choice
    batch = RowBatch(get_kept_rows(store), columns, state.target_dtype, state.declared)
    after = _begin_again(settings, state.with_changes(columns=columns), batch)
    return after.with_changes(memory=task.counting.count(after, [batch.examples]), store=store)
