"""Fit: choose by rows, count them, weigh the votes.

The rows are those of a user, or those that a model keeps.

Everything is a function of the multiset of rows, so `fit` of a table and `refit` after any history
make the same model.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hammemo.edits.column_changes import check_kinds, check_names, get_kept_rows
from hammemo.edits.state import EVERYTHING_FITTED, ModelState, refuse_to_record
from hammemo.edits.task import L, M, RowBatch, V
from hammemo.tokens.token_types import TokenTypes

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np

    from hammemo.edits.settings import EditSettings
    from hammemo.edits.task import LayoutPlan
    from hammemo.stores.kept import ModelStore
    from hammemo.tokens.columns import Columns
    from hammemo.tokens.user_input import CheckedRows


def fit(
    settings: EditSettings[L, M, V],
    before: ModelState[L, M, V] | None,
    rows: CheckedRows,
    declared: Any = None,
) -> ModelState[L, M, V]:
    """Learn rows that are all that there is, so that everything is chosen by them."""
    refuse_to_record(before)
    batch = settings.task.reading.read_batch(settings, rows, declared, None)
    del rows  # a large table is not held twice
    state = fit_batch(settings, batch, settings.seed())
    settings.task.weighing.check_fit(state)
    token_types = TokenTypes.from_contexts(batch.examples.contexts)
    return state.with_changes(columns=replace(batch.columns, token_types=token_types))


def fit_again(
    settings: EditSettings[L, M, V], before: ModelState[L, M, V], rows: CheckedRows, declared: Any
) -> ModelState[L, M, V]:
    """Fit a model again to other rows, with the seed that it has."""
    after = fit(settings.with_seed(before.seed), before, rows, declared)
    return after.with_changes(**before.carried)


def fit_stored(
    settings: EditSettings[L, M, V],
    state: ModelState[L, M, V],
    columns: Columns,
    store: ModelStore,
    *,
    quickly: bool = False,
) -> ModelState[L, M, V]:
    """Fit a model to the rows that a store keeps.

    `columns` are of the kinds that these rows have.
    """
    batch = RowBatch(get_kept_rows(store), columns, state.target_dtype, state.declared)
    after = fit_batch(settings, batch, store.seed, store, quickly=quickly)
    return after.with_changes(**state.carried)


def fit_batch(
    settings: EditSettings[L, M, V],
    batch: RowBatch,
    seed: int,
    store: ModelStore | None = None,
    *,
    quickly: bool = False,
) -> ModelState[L, M, V]:
    """Choose everything by a batch of rows, count them and fit the vote.

    `store` holds these rows, where they are stored already. With `quickly`, one fold is held out,
    however few rows there are.
    """
    task = settings.task
    store = _store_batch(settings, batch, seed, store)
    kept_rows = None if store is None else store.kept_rows
    if kept_rows is None:
        chosen_by = batch.examples
    else:
        chosen_by = task.choosing.choice_rows(kept_rows)
    plan = task.choosing.choose(settings, batch.columns, chosen_by, seed, quickly=quickly)

    if kept_rows is not None and not kept_rows.holds_all:
        # Rows that are not kept have chosen nothing, and may not fit in what the others chose.
        plan = replace(plan, layout=task.schedule.make_room(plan.layout, batch.examples))

    def count_all(state: ModelState[L, M, V]) -> M:
        if kept_rows is not None and kept_rows.holds_all:
            batches = [kept_rows.examples()]  # in the order in which `plan` has computed them
            return task.counting.count(state, batches, precomputed=plan.precomputed)
        return task.counting.count(state, [batch.examples])

    state = count_plan(settings, plan, batch, store=store, count_all=count_all)
    return weigh_plan(settings, state, plan, batch)


def _store_batch(
    settings: EditSettings[L, M, V], batch: RowBatch, seed: int, store: ModelStore | None
) -> ModelStore | None:
    """Return the store of a batch of rows, as `keep` says now; `store` may be it already."""
    vote = settings.vote_for(len(batch.examples.labels))
    empty = settings.empty_store(batch.examples.contexts.h, seed, vote)
    if empty is None:
        return None
    if empty.stores_like(store):
        return store
    return empty.edit(batch.examples, 1)  # `keep` was set since, or nothing is stored yet


def count_plan(
    settings: EditSettings[L, M, V],
    plan: LayoutPlan[L, M, V],
    batch: RowBatch,
    store: ModelStore | None,
    count_all: Callable[[ModelState[L, M, V]], M],
) -> ModelState[L, M, V]:
    """Return the state of a plan with all rows counted, and these stored.

    `count_all` returns the memory of a state, which is empty, with all rows. The layout of the
    memory is a function of the kept rows, too: they settle what is open in it.
    """
    task = settings.task
    memory = task.counting.open_memory(plan, None if store is None else store.kept)
    state = start(settings, plan, batch.columns, batch.target_dtype)
    state = state.with_changes(memory=task.counting.declare(memory, batch.declared), store=store)
    state = state.with_changes(memory=count_all(state))
    return state.with_changes(chosen_at=state.n_examples)


def weigh_plan(
    settings: EditSettings[L, M, V],
    state: ModelState[L, M, V],
    plan: LayoutPlan[L, M, V],
    batch: RowBatch,
) -> ModelState[L, M, V]:
    """Fit the vote of a state that was chosen by a plan and has counted all rows."""
    vote = settings.task.weighing.weigh(settings, state, batch.examples, plan.precomputed)
    return state.with_changes(
        vote=vote, store=settings.keep_after_fit(state.store), refitted=EVERYTHING_FITTED
    )


def start(
    settings: EditSettings[L, M, V],
    plan: LayoutPlan[L, M, V],
    columns: Columns,
    target_dtype: np.dtype[Any],
    layout: ModelState[L, M, V] | None = None,
    *,
    documents: bool = False,
) -> ModelState[L, M, V]:
    """Return the state of a plan with nothing stored.

    `layout` is the model whose layout it has, if that was given.
    """
    store = settings.empty_store(columns.width, plan.seed, plan.vote, documents=documents)
    state = ModelState(
        task=settings.task,
        layout=plan.layout,
        memory=plan.memory,
        vote=plan.vote,
        columns=columns,
        seed=plan.seed,
        target_dtype=target_dtype,
        store=store,
    )
    if layout is None:
        return state
    if store is not None and layout.store is not None and type(layout.kept) is type(store.kept):
        store = store.with_kept(layout.store.empty_copy().kept)
    return state.with_changes(store=store, cutting=layout.cutting, pinned=True, stale=layout.stale)


def choose_like_given(
    settings: EditSettings[L, M, V], columns: Columns, layout: ModelState[L, M, V], n_labels: int
) -> LayoutPlan[L, M, V]:
    """Return the plan of a given layout; LayoutError where the columns are others."""
    check_names(columns, layout.columns)
    check_kinds(columns, layout.columns)
    return settings.task.choosing.choose_like(settings, columns, layout, n_labels)
