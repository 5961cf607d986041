"""Edits of rows, from one state to the next: fit, learn, and a choice when rows have doubled.

Each is a composition of `choose`, `count` and `weigh`. With a model that learns in pieces, nothing is chosen before
200 examples; from then on, everything is chosen again whenever their number has doubled.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from hammemo.edits.column_changes import (
    check_kinds,
    check_names,
    decided_by_rows,
    decided_with,
    like_layout,
    rows_of,
    undecided,
    with_kinds,
)
from hammemo.edits.state import EVERYTHING_FITTED, ModelState, Part, RowsState
from hammemo.kernels.cells import Cells
from hammemo.memories import Memory
from hammemo.tasks.labels import choose
from hammemo.tasks.labels.count import count, count_batch, empty_memory
from hammemo.tasks.labels.names import is_auto
from hammemo.tasks.labels.weigh import check_class_weight, weigh
from hammemo.tokens.column_schema import ColumnSchema
from hammemo.tokens.contexts import Examples, check_column_names
from hammemo.tokens.labels import classes_array, common_label_dtype, label_array
from hammemo.tokens.token_types import TokenTypes
from hammemo.tokens.vocabulary import Vocabulary

if TYPE_CHECKING:
    from hammemo._arrays.types import Array
    from hammemo.stores.kept import ModelStore
    from hammemo.tasks.labels.choose import LayoutPlan
    from hammemo.tasks.labels.settings import ModelSettings
    from hammemo.tokens.user_input import CheckedRows

CountAll = Callable[[Memory, Cells | None], Memory]
"""Returns an empty memory, which is given with the cells, with all rows."""


def fit(settings: ModelSettings, before: ModelState | None, rows: CheckedRows, classes: Any) -> ModelState:
    """Learn rows that are all that there is, so that everything is chosen by them."""
    refuse_to_record(before)
    examples, declared, dtype = _labelled(rows, classes)
    columns = rows.columns
    del rows  # a large table is not held twice
    state = fit_examples(settings, columns, dtype, examples, settings.seed(), Vocabulary.of(declared))
    check_class_weight(state)
    return state.but(columns=replace(columns, learnt=TokenTypes.of(examples.contexts)))


def fit_examples(
    settings: ModelSettings,
    columns: ColumnSchema,
    label_dtype: np.dtype[Any],
    examples: Examples,
    seed: int,
    declared: Vocabulary,
    store: ModelStore | None = None,
    *,
    quickly: bool = False,
) -> ModelState:
    """Choose all that is automatic by examples, count them and fit the vote: what both `fit` and `refit` do.

    Everything is a function of the multiset of examples. `store` holds these rows, where they are stored already; with
    `quickly`, one fold is held out, however few there are.
    """
    room = settings.empty_store(examples.contexts.h, seed, settings.vote_for(len(examples.labels)))
    if room is None or not room.stores_like(store):  # or `keep` was set since
        store = None if room is None else room.edit(examples, 1)
    rows = None if store is None else store.kept_rows
    all_rows = rows.examples() if rows is not None and rows.holds_all else examples

    def count_all(memory: Memory, cells: Cells | None) -> Memory:
        count_batch(memory, cells, all_rows)
        return memory

    by = examples if rows is None else choose.choice_rows(rows)
    plan = choose.by_rows(settings, columns, by, seed, quickly=quickly)
    state = counted(settings, plan, columns, label_dtype, store, declared, count_all)
    return weigh(settings, state, examples, plan.weighted).but(refitted=EVERYTHING_FITTED)


def counted(
    settings: ModelSettings,
    plan: LayoutPlan,
    columns: ColumnSchema,
    label_dtype: np.dtype[Any],
    store: ModelStore | None,
    declared: Vocabulary,
    count_all: CountAll,
) -> ModelState:
    """Return the state of a plan with all rows counted, and these stored.

    The layout of the memory is a function of the kept rows too: they settle what is open in it.
    """
    memory = empty_memory(plan, None if store is None else store.kept)
    if len(declared):
        memory.declare_labels(declared)
    memory = count_all(memory, plan.layout.cells)
    state = started(settings, plan, columns, label_dtype)
    return state.with_memory(memory, store=store, chosen_at=int(memory.label_counts.sum()))


def started(
    settings: ModelSettings,
    plan: LayoutPlan,
    columns: ColumnSchema,
    label_dtype: np.dtype[Any],
    layout: ModelState | None = None,
    *,
    documents: bool = False,
) -> ModelState:
    """Return the state of a plan with nothing stored; `layout` is the model whose layout it has, if that was given."""
    parts, memory = (Part(plan.layout, plan.memory),), plan.memory
    store = settings.empty_store(columns.width, memory.seed, plan.vote, documents=documents)
    if layout is None:
        return ModelState(parts, plan.vote, columns, label_dtype, store)
    if store is not None and layout.store is not None and type(layout.kept) is type(store.kept):
        store = store.with_kept(layout.store.empty_copy().kept)
    cutting, stale = layout.cutting, layout.stale
    return ModelState(parts, plan.vote, columns, label_dtype, store, cutting, pinned=True, stale=stale)


def opened(settings: ModelSettings, h: int) -> ModelState:
    """Return the state of a model of h columns that has learnt nothing."""
    columns = undecided(settings, ColumnSchema(h))
    nothing = Examples.of(np.empty((0, h), object), np.empty(0, object))
    plan = choose.by_first_rows(settings, columns, 0, nothing, settings.seed())
    return started(settings, plan, columns, np.dtype(object))


def like_given(settings: ModelSettings, columns: ColumnSchema, layout: ModelState, n_labels: int) -> LayoutPlan:
    """Return the plan of a given layout; LayoutError where the columns are others."""
    check_names(columns, layout.columns)
    check_kinds(columns, layout.columns)
    return choose.like(settings, columns, layout, n_labels)


def learn(
    settings: ModelSettings,
    before: ModelState | None,
    rows: CheckedRows,
    classes: Any,
    layout: ModelState | None = None,
    *,
    choose_again: bool = True,
) -> ModelState:
    """Learn a batch of rows; with `choose_again`, choose by all rows where they have doubled since the last choice."""
    state, examples = _with_batch(settings, before, rows, classes, layout, choose_again=choose_again)
    if choose_again:
        chosen = chosen_if_doubled(settings, state)
        if chosen is not state:
            return chosen
    is_fitted = before is None and layout is None and is_auto(settings.vote)
    if is_fitted and examples.multiplicity.sum() >= choose.FIRST_BATCH:
        return weigh(settings, state, examples)
    return state


def _with_batch(
    settings: ModelSettings,
    before: ModelState | None,
    rows: CheckedRows,
    classes: Any,
    layout: ModelState | None,
    *,
    choose_again: bool,
) -> tuple[ModelState, Examples]:
    """Return the state with a batch counted and kept, and the batch as examples."""
    refuse_to_record(before)
    examples, declared, dtype = _labelled(rows, classes, before)
    if layout is not None and before is not None:
        raise ValueError("layout= is fixed at the first call, and this model has already learnt rows.")
    if before is None:
        columns, n_labels = rows.columns, len(examples.labels.union(Vocabulary.of(declared)))
        if layout is not None:
            columns, examples = like_layout(settings, columns, examples, layout.columns)
            plan = like_given(settings, columns, layout, n_labels)
        else:
            plan = choose.by_first_rows(settings, columns, n_labels, examples, settings.seed())
        state = started(settings, plan, columns, dtype, layout)
    else:
        state, kinds = before, None if before.cells is None else before.cells.table_kinds
        has_cells = before.columns.kinds == kinds
        may_cut = before.columns.kinds is not None and (choose_again or not has_cells) and not before.pinned
        if may_cut and before.holds_nothing:
            state = started_again(settings, before, examples)
    learnt = TokenTypes.of(examples.contexts)
    columns = state.columns.also_learnt(learnt, first=state.holds_nothing)
    memory = state.memory.snapshot()
    if len(declared):
        memory.declare_labels(Vocabulary.of(declared))
    count_batch(memory, state.cells, examples)
    store = None if state.store is None else state.store.edit(examples, 1)
    return state.with_memory(memory, columns=columns, label_dtype=dtype, store=store), examples


def _labelled(
    rows: CheckedRows, classes: Any, before: ModelState | None = None
) -> tuple[Examples, Array, np.dtype[Any]]:
    """Return rows as examples, the declared labels, and the type of all labels."""
    declared = rows.labels[:0] if classes is None else label_array(classes)
    dtype = common_label_dtype(rows.labels, declared, *([] if before is None else [label_ends(before)]))
    examples = rows.examples()
    if before is None and not len(examples) and not len(declared):
        raise ValueError("There is nothing to learn: every sample_weight is zero and no class was declared.")
    if before is None:
        check_column_names(() if rows.columns.names is None else rows.columns.names)
    return examples, declared, dtype


def label_ends(state: ModelState) -> Array:
    """Return a few labels that have the type of all, and their largest and smallest number."""
    return classes_array(state.memory.labels.ends(), state.label_dtype)


def started_again(settings: ModelSettings, state: ModelState, examples: Examples) -> ModelState:
    """Return a state as for a first batch, with nothing stored; declared labels and the seed stay."""
    declared, seed = state.memory.declared, state.memory.seed
    n_labels = len(examples.labels.union(declared))
    plan = choose.by_first_rows(settings, state.columns, n_labels, examples, seed)
    again = started(settings, plan, state.columns, state.label_dtype)
    memory = again.memory.snapshot()
    memory.declare_labels(declared)
    return again.with_memory(memory, cutting=state.cutting, **state.carried)


def chosen_if_doubled(settings: ModelSettings, state: ModelState) -> ModelState:
    """Choose again where twice as many examples are held as at the last choice."""
    if not (is_auto(settings.vote) or settings.kernel_is_automatic):
        return state
    if state.store is None or not state.can_choose_by_rows or not has_doubled(state):
        return state
    columns, store = decided_by_rows(settings, state.columns, state.store)
    return _fit_stored(settings, state, columns, store)


def has_doubled(state: ModelState, since: int = 0) -> bool:
    """Return whether enough examples are held to choose, and twice as many as at the last choice, or `since`."""
    return state.n_examples >= max(choose.FIRST_BATCH, 2 * state.chosen_at, 2 * since)


def _fit_stored(settings: ModelSettings, state: ModelState, columns: ColumnSchema, store: ModelStore) -> ModelState:
    """Choose quickly by all kept rows, and count them."""
    examples, declared = rows_of(store), state.memory.declared
    again = fit_examples(settings, columns, state.label_dtype, examples, store.seed, declared, store, quickly=True)
    return again.but(**state.carried)


def admit(settings: ModelSettings, state: ModelState, X: Any, *, choose_again: bool = True) -> ModelState:
    """Let a table that is to be learnt decide kinds of columns, and count the rows as of these kinds."""
    columns = decided_with(settings, state, X, choose=choose_again)
    if columns is state.columns:
        return state
    if columns.letters == state.columns.letters:
        return state.but(columns=columns)
    return with_other_kinds(settings, state, columns, choose_again=choose_again)


def with_other_kinds(
    settings: ModelSettings, state: ModelState, columns: ColumnSchema, *, choose_again: bool
) -> ModelState:
    """Return a state whose columns are of other kinds, with the rows counted again."""
    if state.store is None or state.rows is None or not len(state.rows):
        return state.but(columns=columns)  # the first rows start over
    known = state.columns.with_types_of(columns)
    columns, store = with_kinds(settings, known, state.store, columns.letters)
    if choose_again:
        return _fit_stored(settings, state, columns, store)
    examples = rows_of(store)
    again = started_again(settings, state.but(columns=columns), examples)
    return again.with_memory(count(again.memory.snapshot(), again.cells, [examples]), store=store)


def refuse_to_record(state: RowsState | None) -> None:
    """Refuse an edit that learns or merges while a receipt is made of what is forgotten."""
    if state is not None and state.witness is not None:
        raise ValueError(
            "A receipt is being made, and it counts the rows that forget and forget_stream remove: learn and merge "
            "before or after the block. Nothing was changed."
        )
