"""A table that others read and count, as engines do: the model chooses and fits its vote."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from hammemo.edits.fit import choose_like_given, count_plan, start
from hammemo.edits.task import RowBatch
from hammemo.kernels import AutoSites
from hammemo.tasks.labels.automatic import make_kernel
from hammemo.tasks.labels.choose import choice_rows, choose
from hammemo.tasks.labels.count import add_batches, declare, settle
from hammemo.tasks.labels.layout import is_in_segments
from hammemo.tasks.labels.size_warning import warn_if_large
from hammemo.tasks.labels.weigh import check_fit, weigh
from hammemo.tokens.contexts import Contexts, Examples
from hammemo.tokens.labels import classes_array, common_label_dtype, label_array
from hammemo.tokens.missing import check_missing_rule
from hammemo.tokens.vocabulary import Vocabulary

if TYPE_CHECKING:
    from collections.abc import Callable

    from hammemo.edits.task import TableFacts
    from hammemo.memories import Memory
    from hammemo.stores.kept import ModelStore
    from hammemo.tasks.labels.layout import LabelState
    from hammemo.tasks.labels.settings import ModelSettings
    from hammemo.tokens.columns import Columns


def check_request(*, classes: Any, layout: Any) -> None:
    """Refuse nothing: labels can be declared, and counts can have the layout of a model."""
    del classes, layout


def empty_store(
    settings: ModelSettings, columns: Columns, seed: int, layout: LabelState | None
) -> ModelStore | None:
    """Return the empty store of a table of these columns, which others are to read.

    Where no rows are kept, nothing may depend on them.
    """
    check_missing_rule(settings.missing)
    if layout is not None:
        plan = choose_like_given(settings, columns, layout, 2)
        store = settings.empty_store(columns.width, layout.seed, plan.vote)
        if store is None or layout.rows is None:
            return store
        store_like_layout: ModelStore = store.with_kept(layout.rows.empty_copy())
        return store_like_layout
    memory = settings.new_memory()
    vote = settings.vote_for(2, memory)
    kernel = make_kernel(settings.kernel, memory, vote)
    store = settings.empty_store(columns.width, seed, vote)
    if store is not None and store.kept is not None:
        return store
    if (
        columns.has_ordered
        or vote.fits_weights
        or isinstance(kernel, AutoSites)
        or memory.open(kernel.resolve(columns.n), seed).list_undecided()
    ):
        raise ValueError(
            "Engines choose from the rows that a model keeps, and this one keeps none: "
            "use keep=True, and set_params(keep=False).refit() afterwards, "
            "or what depends on no rows (names only, memory='exact' and vote='sum')."
        )
    return store


def learn_table(
    settings: ModelSettings,
    facts: TableFacts,
    classes: Any,
    layout: LabelState | None,
    *,
    count_all: Callable[[LabelState], Memory],
    kept_are_counted: bool,
) -> LabelState:
    """Learn a table that others have read, as `fit` does.

    Parameters
    ----------
    settings : ModelSettings
    facts : TableFacts
    classes : array-like, optional
        Labels that stay while they have no row.
    layout : LabelState, optional
        The model whose layout is taken, so that the two can be merged.
    count_all : callable
        Returns the memory of a state with all rows of the table.
    kept_are_counted : bool
        Whether rows are counted here, without `count_all`, where all of them are kept.
    """
    kept_examples = None if facts.store is None else facts.store.kept
    columns = facts.columns()
    if classes is None:
        class_array = np.empty(0, facts.target_dtype)
    else:
        class_array = label_array(classes)
    declared = Vocabulary.of(class_array)
    label_dtype = common_label_dtype(classes_array(facts.labels, facts.target_dtype), class_array)

    def count_table(state: LabelState) -> Memory:
        memory = state.memory
        if kept_examples is not None and kept_examples.holds_all and kept_are_counted:
            return add_batches(memory, state.layout, kept_examples.batches())
        if kept_examples is not None:
            memory = settle(memory, state.layout, kept_examples)
        return declare(count_all(state.with_changes(memory=memory)), declared)

    if layout is not None:
        plan = choose_like_given(settings, columns, layout, len(facts.labels.union(declared)))
        state = start(settings, plan, columns, label_dtype, layout=layout)
        state = state.with_changes(memory=declare(state.memory, declared), store=facts.store)
        state = state.with_changes(memory=count_table(state))
    else:
        examples = _get_choice_rows(facts)
        plan = choose(settings, columns, examples, facts.seed)
        batch = RowBatch(examples, columns, label_dtype, declared)
        state = count_plan(settings, plan, batch, store=facts.store, count_all=count_table)
        state = state.with_changes(vote=weigh(settings, state))
    check_fit(state)
    if settings.memory_is_auto and not is_in_segments(state.memory):
        warn_if_large(state.memory)
    return state


def _get_choice_rows(facts: TableFacts) -> Examples:
    """Return the rows to choose by.

    Without kept rows, where nothing depends on rows, they are the labels alone.
    """
    if facts.store is not None and facts.store.kept_rows is not None:
        return choice_rows(facts.store.kept_rows)
    no_rows = np.empty(0, np.int64)
    contexts = Contexts.with_ranks(Vocabulary(), no_rows.reshape(0, len(facts.names)))
    return Examples(contexts, no_rows, facts.labels, no_rows)
