"""vote = weigh(layout, memory, rows): the vote of a regressor, fitted to kept rows.

Each row is judged by trees that it did not grow.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from hammemo._progress import progress_bar
from hammemo.features.cells.error_sizes import fit_error_sizes
from hammemo.features.cells.number_trees import FITTED_ROWS
from hammemo.tasks.numbers.errors import ask_trees, find_out_of_bag
from hammemo.tasks.numbers.memory import NumberRows
from hammemo.tasks.numbers.vote import NO_VOTE, NumberVote
from hammemo.votes.tree_number_weights import compute_unseen_errors, fit_weights

if TYPE_CHECKING:
    from hammemo.tasks.numbers.choose import RowsOfChoice
    from hammemo.tasks.numbers.settings import NumberSettings
    from hammemo.tasks.numbers.state import NumberState
    from hammemo.tokens.contexts import Examples

_MORE_ROWS: Final = 1.5
"""With so many times as many rows the vote is fitted again.

Weights make up for the shrinkage of small cells, and with more rows cells are larger.
"""


def weigh(
    settings: NumberSettings,
    state: NumberState,
    learned: Examples | None = None,
    precomputed: RowsOfChoice | None = None,
) -> NumberVote:
    """Return the vote fitted to the kept rows; as it is where none are kept.

    `precomputed` has these rows as the layout sees them, where it was chosen by them just now.
    """
    del settings, learned  # nothing is learned from rows that are not kept
    if state.rows is None or not len(state.rows) or state.holds_nothing:
        return state.vote
    if precomputed is not None:
        return _fit_vote(state, precomputed.rows)
    rows = NumberRows.from_examples(state.layout, state.rows.examples(), state.seed)
    return _fit_vote(state, rows)


def weigh_learned(
    settings: NumberSettings,
    state: NumberState,
    examples: Examples,
    *,
    is_first: bool,
    choose_again: bool,
) -> NumberVote:
    """Return the vote after a batch of rows.

    It is fitted again where there are many more rows than it was fitted to.
    """
    del examples, is_first
    if not choose_again or state.pinned or state.n_examples < _MORE_ROWS * state.vote.rows:
        return state.vote
    return weigh(settings, state)


def clear_vote(settings: NumberSettings, vote: NumberVote) -> NumberVote:
    """Return a vote that trusts the base alone."""
    del settings, vote
    return NO_VOTE


def check_fit(state: NumberState) -> None:
    """Refuse nothing: no parameter depends on the targets."""


def depends_on_rows(settings: NumberSettings, state: NumberState) -> bool:
    """Return True: cuts, trees and weights depend on rows."""
    del settings, state
    return True


def _fit_vote(state: NumberState, rows: NumberRows) -> NumberVote:
    """Return the vote that is fitted to kept rows.

    Each is judged by trees that it did not grow, without itself.
    """
    layout = state.layout
    memory = state.memory
    unseen = find_out_of_bag(layout, rows)
    places = unseen.places[:FITTED_ROWS]
    with progress_bar("Fitting weights"):
        if len(places):
            by_trees = ask_trees(layout, memory, rows, unseen.take_first(len(places)))
            weights = fit_weights(by_trees)
            errors = compute_unseen_errors(by_trees, weights)
            vote = NumberVote(weights.weights, weights.blend)
        else:  # too few rows: the base alone
            places = np.arange(len(rows.targets))
            errors = rows.residuals[0].astype(np.float64)
            vote = NO_VOTE
        error_sizes = fit_error_sizes(
            rows.inputs.codes[places],
            layout.codes.is_name,
            errors=errors,
            counts=rows.counts[places],
            words=rows.words[places],
            seed=state.seed,
        )
    return replace(vote, errors=error_sizes, rows=memory.gram.n)
