"""What a regressor answers with: the base solved for the rows that are held, and the values of the leaves."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from hammemo.features.additive.fit_numbers import solve_coefficients
from hammemo.features.additive.levels import HAT
from hammemo.features.cells.number_trees import column_values, leaf_sums, leaf_values
from hammemo.votes.number_answers import NumberAnswers, SeenRows

if TYPE_CHECKING:
    from collections.abc import Callable

    from hammemo._arrays.types import Floats
    from hammemo.stores.kept import ModelStore
    from hammemo.tasks.numbers.sums import NumberState, NumberVote

T = TypeVar("T")


def answering(state: NumberState) -> NumberAnswers:
    """Return what answers for all rows that are held now, which must be at least one.

    It is made at the first question and kept with the memory, for the vote that it was made with.
    """
    cached: tuple[NumberVote, NumberAnswers] | None = vars(state.memory).get("_answering")
    if cached is None or cached[0] is not state.vote:
        cached = (state.vote, _solve(state))
        vars(state.memory)["_answering"] = cached
    return cached[1]


class _ResultOfRows(NamedTuple):
    """A result, and what it was made of beside the memory."""

    vote: NumberVote
    store: ModelStore | None
    result: Any


def remember(state: NumberState, name: str, make: Callable[[NumberState], T]) -> T:
    """Return what a function makes of memory, vote and kept rows; the same ones are not asked for again.

    The result is kept with the memory, under this name: a state hands its attributes on to the next one.
    """
    cache = vars(state.memory)
    cached: _ResultOfRows | None = cache.get(name)
    if cached is None or cached.vote is not state.vote or cached.store is not state.store:
        cached = _ResultOfRows(state.vote, state.store, make(state))
        cache[name] = cached
    result: T = cached.result
    return result


def _solve(state: NumberState) -> NumberAnswers:
    layout, vote, gram = state.layout, state.vote, state.memory.gram
    live = solve_coefficients(layout.base.design, layout.base.penalties, gram)
    return NumberAnswers(
        codes=layout.codes,
        narrowing=layout.narrowing,
        center=layout.center,
        exponent=layout.exponent,
        design=layout.base.design,
        coefficients=np.hstack([live, layout.base.coefficients]),
        means=(gram.target_sum / (HAT * gram.n), float(layout.mean)),
        forests=layout.forests,
        leaves=tuple(map(leaf_values, layout.forests, state.memory.cells, vote.weights)),
        blend=vote.blend,
        errors=vote.errors,
    )


def contributions(state: NumberState, rows: SeenRows) -> Floats:
    """Return what each column of the table adds to the answers to rows, in units: (m, columns)."""
    layout, blend = state.layout, state.vote.blend.tolist()
    owned = layout.codes.owned_shares()
    added = np.zeros((len(rows), owned.shape[1]))
    for part, (forest, cells) in enumerate(zip(layout.forests, state.memory.cells, strict=True)):
        values = column_values(forest, cells, state.vote.weights[part], owned)
        added += blend[part] * leaf_sums(forest, values)(rows.codes)
    answers = answering(state)
    _, trust = answers.trusted(0, rows.codes)
    both = replace(layout.base, coefficients=answers.coefficients)
    live, frozen = both.contributions(rows.codes, layout.codes.step_middles).transpose(2, 1, 0)
    added += blend[0] * (live + trust[:, None] * (frozen - live))  # the mean belongs to no column
    return added
