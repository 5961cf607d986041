"""What a regressor answers with: the base solved for its rows, and the values of the leaves."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from hammemo.features.additive.fit_numbers import solve_coefficients
from hammemo.features.additive.levels import HAT
from hammemo.features.cells.number_trees import (
    compute_column_values,
    compute_leaf_values,
    make_leaf_sums,
)
from hammemo.votes.number_answers import NumberAnswers, SeenRows

if TYPE_CHECKING:
    from collections.abc import Callable

    from hammemo._arrays.types import Floats
    from hammemo.stores.kept import ModelStore
    from hammemo.tasks.numbers.state import NumberState
    from hammemo.tasks.numbers.vote import NumberVote

T = TypeVar("T")


def get_answers(state: NumberState) -> NumberAnswers:
    """Return what answers for all rows of a state, which must have at least one.

    It is computed at the first question and kept with the memory, for the vote that it is of.
    """
    cached: tuple[NumberVote, NumberAnswers] | None = vars(state.memory).get("_answers")
    if cached is None or cached[0] is not state.vote:
        cached = (state.vote, _solve(state))
        vars(state.memory)["_answers"] = cached
    return cached[1]


class _ResultOfRows(NamedTuple):
    """A result, and what it was computed from beside the memory."""

    vote: NumberVote
    store: ModelStore | None
    result: Any


def remember(state: NumberState, name: str, compute: Callable[[NumberState], T]) -> T:
    """Return what a function computes from memory, vote and kept rows: for the same ones only once.

    The result is kept with the memory, under this name: a state hands its attributes on to the
    next one.
    """
    cache = vars(state.memory)
    cached: _ResultOfRows | None = cache.get(name)
    if cached is None or cached.vote is not state.vote or cached.store is not state.store:
        cached = _ResultOfRows(state.vote, state.store, compute(state))
        cache[name] = cached
    result: T = cached.result
    return result


def _solve(state: NumberState) -> NumberAnswers:
    """Return what answers, with the live base solved from the matrix of the memory."""
    layout = state.layout
    base = layout.base
    gram = state.memory.gram
    live_coefficients = solve_coefficients(base.design, base.penalties, gram)
    live_mean = gram.target_sum / (HAT * gram.n)
    return NumberAnswers(
        codes=layout.codes,
        narrowing=layout.narrowing,
        center=layout.center,
        exponent=layout.exponent,
        design=base.design,
        coefficients=np.hstack([live_coefficients, base.coefficients]),
        means=(live_mean, float(layout.mean)),
        forests=layout.forests,
        leaves=tuple(
            map(compute_leaf_values, layout.forests, state.memory.cells, state.vote.weights)
        ),
        blend=state.vote.blend,
        errors=state.vote.errors,
    )


def compute_contributions(state: NumberState, rows: SeenRows) -> Floats:
    """Return what each column of the table adds to the answers to rows, in units: (m, columns)."""
    layout = state.layout
    vote = state.vote
    blend = vote.blend.tolist()

    # What trees say, by the columns that they cut.
    column_shares = layout.codes.column_shares()
    added = np.zeros((len(rows), column_shares.shape[1]))
    trees = zip(layout.forests, state.memory.cells, vote.weights, blend, strict=True)
    for forest, cells, weights, share in trees:
        values = compute_column_values(forest, cells, weights, column_shares)
        added += share * make_leaf_sums(forest, values)(rows.codes)

    # What the base says: the frozen one as far as the trees of its residuals are trusted, else the
    # live one. The mean belongs to no column.
    answers = get_answers(state)
    _, trust = answers.sum_trees(0, rows.codes)
    both_bases = replace(layout.base, coefficients=answers.coefficients)
    of_bases = both_bases.contributions(rows.codes, layout.codes.step_middles)
    live, frozen = of_bases.transpose(2, 1, 0)
    added += blend[0] * (live + trust[:, None] * (frozen - live))
    return added
