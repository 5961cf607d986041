"""vote = weigh(layout, memory, rows): the vote of a regressor, fitted to kept rows that did not grow its trees."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from hammemo._progress import progress_bar
from hammemo.features.cells.error_sizes import ErrorSizes
from hammemo.features.cells.number_trees import FITTED_ROWS
from hammemo.tasks.numbers.errors import ask_trees, find_out_of_bag
from hammemo.tasks.numbers.sums import NO_VOTE, NumberRows, NumberVote
from hammemo.votes.number_weights import fit_weights, unseen_errors

if TYPE_CHECKING:
    from hammemo.tasks.numbers.choose import SeenByChoice
    from hammemo.tasks.numbers.settings import NumberSettings
    from hammemo.tasks.numbers.sums import NumberLayout, NumberMemory, NumberState
    from hammemo.tokens.contexts import Examples

_MORE_ROWS: Final = 1.5
"""With so many times as many rows the vote is fitted again: weights make up for the shrinkage of small cells."""


def weigh(
    settings: NumberSettings,
    state: NumberState,
    learned: Examples | None = None,
    seen: SeenByChoice | None = None,
) -> NumberVote:
    """Return the vote fitted to the kept rows; as it is where none are kept.

    `seen` are these rows as the layout sees them, where it was chosen by them just now.
    """
    del settings, learned  # nothing is learned of rows that are not kept
    if state.rows is None or not len(state.rows) or state.holds_nothing:
        return state.vote
    if seen is not None:
        return _weighed(state.layout, state.memory, seen.rows, state.seed)
    rows = NumberRows.of(state.layout, state.rows.examples(), state.seed)
    return _weighed(state.layout, state.memory, rows, state.seed)


def weigh_learned(
    settings: NumberSettings,
    state: NumberState,
    examples: Examples,
    *,
    is_first: bool,
    choose_again: bool,
) -> NumberVote:
    """Return the vote after a batch of rows: it is fitted again where there are many more than it was fitted to."""
    del examples, is_first
    if not choose_again or state.pinned or state.n_examples < _MORE_ROWS * state.vote.rows:
        return state.vote
    return weigh(settings, state)


def unfitted(settings: NumberSettings, vote: NumberVote) -> NumberVote:
    """Return a vote that trusts the base alone."""
    del settings, vote
    return NO_VOTE


def check_fit(state: NumberState) -> None:
    """Refuse nothing: no parameter depends on the targets."""


def depends_on_rows(settings: NumberSettings, state: NumberState) -> bool:
    """Return True: cuts, trees and weights depend on rows."""
    del settings, state
    return True


def _weighed(layout: NumberLayout, memory: NumberMemory, rows: NumberRows, seed: int) -> NumberVote:
    """Return the vote that is fitted to kept rows: each is judged by trees that it did not grow, without itself."""
    unseen = find_out_of_bag(layout, rows)
    chosen = unseen.places[:FITTED_ROWS]
    vote, errors = NO_VOTE, rows.left[0].astype(np.float64)
    with progress_bar("Fitting weights"):
        if len(chosen):
            asked = ask_trees(layout, memory, rows, unseen.take_first(len(chosen)))
            fitted = fit_weights(asked)
            errors = unseen_errors(asked, fitted)
            vote = NumberVote(fitted.weights, fitted.blend)
        else:  # too few rows: the base alone
            chosen = np.arange(len(rows.whole))
        seen = rows.rows.codes[chosen], layout.codes.is_name
        sizes = ErrorSizes.chosen(*seen, errors, rows.counts[chosen], rows.words[chosen], seed)
    return replace(vote, errors=sizes, rows=memory.gram.n)
