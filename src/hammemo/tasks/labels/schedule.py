"""When a classifier that learns in pieces chooses, and whether its choice depends on rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hammemo.tasks.labels.names import is_auto

if TYPE_CHECKING:
    from hammemo.tasks.labels.layout import LabelState, Layout
    from hammemo.tasks.labels.settings import ModelSettings
    from hammemo.tokens.contexts import Examples

FIRST_BATCH: Final = 200
"""Examples from which on everything is chosen, and weights are fitted to the first batch."""


def chooses_by_first_rows() -> bool:
    """Return False: nothing can be chosen by the first of many rows that are to come."""
    return False


def begins_again(state: LabelState, *, choose_again: bool) -> bool:
    """Return whether the next rows are to cut the numbers of a state without rows.

    Names need no choice.
    """
    if not state.columns.has_ordered:
        return False
    cells = state.layout.cells
    has_cells = cells is not None and cells.table_kinds == state.columns.kinds
    return choose_again or not has_cells


def is_choice_due(settings: ModelSettings, state: LabelState, since: int = 0) -> bool:
    """Return whether there are enough rows, and twice as many as at the last choice, or `since`."""
    is_automatic = is_auto(settings.vote) or settings.kernel_is_automatic
    if not is_automatic or not state.can_choose_by_rows:
        return False
    return state.n_examples >= max(FIRST_BATCH, 2 * state.chosen_at, 2 * since)


def chooses_at_refit(settings: ModelSettings, state: LabelState) -> bool:
    """Return whether a refit looks for sites.

    Otherwise it fits weights, or counts again under the same sites.
    """
    return settings.kernel_is_automatic and state.can_choose


def is_choice_due_at_once(state: LabelState) -> bool:
    """Return False: a single row is counted in microseconds."""
    del state
    return False


def is_layout_open(state: LabelState) -> bool:
    """Return False: no label asks for another layout."""
    del state
    return False


def make_room(layout: Layout, examples: Examples) -> Layout:
    """Return the layout as it is: every row has a place."""
    del examples
    return layout


def warn_of_choice(before: LabelState, after: LabelState, examples: Examples) -> None:
    """Warn of nothing: nothing is lost by a choice."""
    del before, after, examples


def layout_is_by_rows(settings: ModelSettings, state: LabelState) -> bool:
    """Return whether numbers were cut, or tuples of columns were looked for."""
    return state.layout.cells is not None or settings.kernel_is_automatic
