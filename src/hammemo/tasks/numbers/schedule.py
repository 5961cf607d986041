"""When a regressor that learns in pieces chooses, and whether its choice depends on rows."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Final

import numpy as np

from hammemo.tasks.numbers.layout import extract_targets

if TYPE_CHECKING:
    from hammemo.tasks.numbers.layout import NumberLayout
    from hammemo.tasks.numbers.settings import NumberSettings
    from hammemo.tasks.numbers.state import NumberState
    from hammemo.tokens.contexts import Examples

FIRST_ROWS: Final = 200
"""A choice by fewer rows is provisional: `learn_one` makes it again when rows have doubled, too."""

_LEAST_SQUARES: Final = 2**40
"""A unit is too coarse where the squared distances of targets from their mean add up to less.

When the unit was chosen, they added up to 2^49 at least, because one target was 2^25 units away
from the median: so it cannot happen at once.
"""

_COARSER_BITS: Final = 16
"""How many bits coarser a unit becomes before there is a warning.

It leaves fewer than 1,024 units to the targets that chose the former one.
"""


def chooses_by_first_rows() -> bool:
    """Return True: few rows give few cuts, and everything is chosen again when rows double."""
    return True


def begins_again(state: NumberState, *, choose_again: bool) -> bool:
    """Return False: whatever the first rows are, everything is chosen by them."""
    del state, choose_again
    return False


def is_choice_due(settings: NumberSettings, state: NumberState, since: int = 0) -> bool:
    """Return whether the rows have doubled since the last choice, or `since`."""
    del settings
    return state.can_choose and state.n_examples >= 2 * max(1, state.chosen_at, since)


def is_choice_due_at_once(state: NumberState) -> bool:
    """Return whether single rows choose again, too.

    They do while the choice is provisional, and where its unit is too coarse.
    """
    n = state.n_examples
    is_provisional = n > 0 and state.chosen_at < FIRST_ROWS and n >= 2 * state.chosen_at
    return (is_provisional or _has_coarse_unit(state)) and state.can_choose


def is_layout_open(state: NumberState) -> bool:
    """Return whether the layout has no unit: all targets were equal when it was chosen."""
    return not state.layout.has_unit


def make_room(layout: NumberLayout, examples: Examples) -> NumberLayout:
    """Return the layout with a unit, where it has none and targets of more rows have a spread."""
    if layout.has_unit:
        return layout
    return layout.with_unit_for(extract_targets(examples))


def warn_of_choice(before: NumberState, after: NumberState, examples: Examples) -> None:
    """Warn where a far target made everything be chosen again, with a much coarser unit."""
    if not (before.layout.has_unit and after.layout.has_unit):
        return
    if before.layout.exponent - after.layout.exponent <= _COARSER_BITS:
        return
    targets = extract_targets(examples)
    worst = float(targets[np.argmax(np.abs(targets - before.layout.center))])
    warnings.warn(
        f"The target {worst:.6g} is more than {2**_COARSER_BITS:,} times as far from "
        "the other targets as any before, and everything was chosen again: targets are now "
        f"whole numbers of {after.layout.unit:.2g}, so that smaller differences are lost. "
        "If it is a mistake, forget this row and call refit().",
        UserWarning,
        stacklevel=2,
    )


def _has_coarse_unit(state: NumberState) -> bool:
    """Return whether the far targets that chose the unit are gone, so that it rounds the others."""
    gram = state.memory.gram
    return state.layout.has_unit and gram.deviations < _LEAST_SQUARES * gram.n


def chooses_at_refit(settings: NumberSettings, state: NumberState) -> bool:
    """Return whether rows are kept: a refit fits at least weights, with the sizes of errors."""
    del settings
    return state.rows is not None


def layout_is_by_rows(settings: NumberSettings, state: NumberState) -> bool:
    """Return True: cuts and trees always are."""
    del settings, state
    return True
