"""Take what another version of a model has chosen, as every process does that applies a log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hammemo.edits.column_changes import convert_store
from hammemo.edits.learn import choose_again_by_rows
from hammemo.edits.task import DoesNotFitError

if TYPE_CHECKING:
    from hammemo.edits.settings import EditSettings
    from hammemo.edits.state import ModelState
    from hammemo.edits.task import L, M, V


def take_choice(
    settings: EditSettings[L, M, V], state: ModelState[L, M, V], chosen: ModelState[L, M, V]
) -> ModelState[L, M, V]:
    """Take layout, vote and weights that another version has chosen.

    If its layout is another one, the kept rows are counted again.
    """
    columns = state.columns
    store = state.store
    if chosen.columns.n != columns.n or chosen.seed != state.seed:
        raise ValueError("the layout is of a model with other columns, or with another seed")
    task = state.task
    if task.counting.has_layout_of(state, chosen):
        return state.with_layout_of(chosen).with_changes(stale=False)
    if store is None or not state.can_choose:
        raise ValueError("only a model that keeps all its rows can take another layout")
    if state.rows is not None and chosen.columns.kinds != columns.kinds:
        columns, store = convert_store(settings, columns, store, chosen.columns.kinds)
    columns = columns.with_types_of(chosen.columns)  # as `refit` does
    assert store.kept is not None
    memory = task.counting.declare(task.counting.empty_memory(chosen), state.declared)
    after = state.with_layout_of(chosen).with_changes(memory=memory)
    try:
        memory = task.counting.count(after, store.kept.batches())
    except DoesNotFitError:  # such rows came since: the choice is outdated
        return choose_again_by_rows(settings, state)
    if state.documents is not None and not len(store.kept):  # a model without documents is open
        store = settings.empty_store(store.h, store.seed, chosen.vote)
    return after.with_changes(
        memory=memory, columns=columns, store=store, cutting=chosen.cutting, stale=False
    )
