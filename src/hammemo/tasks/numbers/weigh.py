"""vote = weigh(layout, memory, rows): the vote of a regressor, fitted to kept rows that did not grow its trees."""

from __future__ import annotations

from dataclasses import replace
from math import fsum, sqrt
from typing import TYPE_CHECKING, Final

import numpy as np

from hammemo._progress import progress_bar
from hammemo.kernels.cells.error_sizes import ErrorSizes
from hammemo.kernels.cells.forest import KINDS, out_of_bag
from hammemo.kernels.cells.nonnegative import nonnegative_solution
from hammemo.kernels.cells.number_trees import FITTED_ROWS, fitted_weights, number_features, weighted
from hammemo.tasks.numbers.sums import NO_VOTE, NUMBER_TREES, NumberRows, NumberVote

if TYPE_CHECKING:
    from hammemo._arrays.types import Floats, Ints
    from hammemo.tasks.numbers.choose import SeenByChoice
    from hammemo.tasks.numbers.settings import NumberSettings
    from hammemo.tasks.numbers.sums import NumberLayout, NumberMemory, NumberState
    from hammemo.tokens.contexts import Examples

_RIDGE: Final = 1e-6
_PULL: Final = 1e-3
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
    settings: NumberSettings, state: NumberState, examples: Examples, *, is_first: bool, choose_again: bool
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
    of_rows = rows.words, rows.counts, layout.last_word
    is_out = [
        out_of_bag(forest, *of_rows, rules.first) for forest, rules in zip(layout.forests, NUMBER_TREES, strict=True)
    ]
    of_kinds = [out[:, kind :: len(KINDS)].any(axis=1) for out in is_out for kind in range(len(KINDS))]
    chosen = np.flatnonzero(np.logical_and.reduce(of_kinds))[:FITTED_ROWS]
    vote, errors = NO_VOTE, rows.left[0].astype(np.float64)
    with progress_bar("Fitting weights"):
        if len(chosen):
            counts, weights, after = rows.counts[chosen], [], []
            for part, forest in enumerate(layout.forests):
                left = rows.left[part][chosen]
                of_part = rows.leaves[part][chosen], is_out[part][chosen], memory.cells[part], left
                features = number_features(forest, *of_part)
                weights.append(fitted_weights(features, left, counts, _RIDGE))
                after.append(left - weighted(features, weights[-1]))
            blend, errors = _blended((rows.whole[chosen] - layout.mean).astype(np.float64), after, counts)
            vote = NumberVote(np.array(weights), blend)
        else:  # too few rows: the base alone
            chosen = np.arange(len(rows.whole))
        seen = rows.rows.codes[chosen], layout.codes.is_name
        sizes = ErrorSizes.chosen(*seen, errors, rows.counts[chosen], rows.words[chosen], seed)
    return replace(vote, errors=sizes, rows=memory.gram.n)


def _blended(targets: Floats, after: list[Floats], counts: Ints) -> tuple[Floats, Floats]:
    """Return the weights of the parts, pulled to equal ones, and the errors of the blend."""
    said = [targets - left for left in after]
    n, m = int(counts.sum()), len(said)
    pull = (1 + _PULL * sqrt(n)) ** 2 * max(_product(targets, targets, counts) / n, 1.0)
    gram = np.array([[_product(one, other, counts) for one in said] for other in said])
    wanted = np.array([_product(one, targets, counts) for one in said])
    blend = nonnegative_solution(gram + pull * np.eye(m), wanted + pull / m)
    return blend, targets - weighted(np.column_stack(said), blend)


def _product(one: Floats, other: Floats, counts: Ints) -> float:
    return fsum((one * other * counts).tolist())
