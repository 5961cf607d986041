"""When a regressor that learns in pieces chooses, and whether what it has chosen depends on rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hammemo.tasks.numbers.settings import NumberSettings
    from hammemo.tasks.numbers.sums import NumberState


def chooses_by_first_rows() -> bool:
    """Return True: a table of few rows has few cuts, and is chosen again when its rows have doubled."""
    return True


def begins_again(state: NumberState, *, choose_again: bool) -> bool:
    """Return False: whatever the first rows are, everything is chosen by them."""
    del state, choose_again
    return False


def is_choice_due(settings: NumberSettings, state: NumberState, since: int = 0) -> bool:
    """Return whether the rows have doubled since the last choice, or `since`."""
    del settings
    return state.can_choose and state.n_examples >= 2 * max(1, state.chosen_at, since)


def chooses_at_refit(settings: NumberSettings, state: NumberState) -> bool:
    """Return whether rows are kept: then a refit fits at least weights, with the sizes of errors."""
    del settings
    return state.rows is not None


def layout_is_by_rows(settings: NumberSettings, state: NumberState) -> bool:
    """Return True: cuts and trees always are."""
    del settings, state
    return True
