"""What a model of numbers says of kept rows without them, and the errors by which it gives intervals.

When weights are fitted, errors are those that the frozen base leaves. They stay as they are until a refit. But when
many rows are forgotten, what answers has lost them: the base is solved from the rest, cells are emptier, and trees are
trusted less. Errors grow, and sizes that were measured with all rows become too small. So when a third of the rows is
gone, the errors of the remaining kept rows are measured again, by what answers now: cells without the row's own share,
trees that the row did not grow, and the live base solved without the fold of the row. Nothing of that is stored: it is
a function of the state.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from hammemo.features.additive.additive_base import score_rows
from hammemo.features.additive.base_folds import FOLDS
from hammemo.features.additive.fit_numbers import compute_gram, solve_coefficients
from hammemo.features.additive.levels import HAT
from hammemo.features.cells.error_sizes import ErrorSizes
from hammemo.features.cells.forest import KINDS, out_of_bag
from hammemo.features.cells.number_trees import NumberCells, number_features, weighted
from hammemo.tasks.numbers.answer import answering, remember
from hammemo.tasks.numbers.sums import NUMBER_TREES, NumberRows
from hammemo.votes.number_weights import UnseenRows

if TYPE_CHECKING:
    from hammemo._arrays.types import Bools, Floats, Ints
    from hammemo.tasks.numbers.sums import NumberLayout, NumberMemory, NumberState
    from hammemo.votes.number_answers import NumberAnswers

MOST_MEASURED_ROWS: Final = 4000
"""Kept rows whose errors are measured after a fit, at most: those with the lowest hashes."""
_FEWER_ROWS: Final = 1.5
"""With so many times fewer rows errors are measured again, as weights are fitted again with so many times more."""


@dataclass(frozen=True, eq=False)
class OutOfBag:
    """Rows that some tree of each kind did not grow by.

    Parameters
    ----------
    places : ndarray of int64
        Which of the rows they are.
    is_out : tuple of ndarray of bool, shape (rows, trees)
        For each part, which trees did not grow by them.
    """

    places: Ints
    is_out: tuple[Bools, ...]

    def take_first(self, number: int) -> OutOfBag:
        """Return the first of them."""
        return OutOfBag(self.places[:number], tuple(is_out[:number] for is_out in self.is_out))


def find_out_of_bag(layout: NumberLayout, rows: NumberRows) -> OutOfBag:
    """Return the rows of which trees of each kind and part can judge."""
    is_out = [
        out_of_bag(forest, rows.words, rows.counts, layout.last_word, rules.first)
        for forest, rules in zip(layout.forests, NUMBER_TREES, strict=True)
    ]
    judged = [
        out[:, kind :: len(KINDS)].any(axis=1) for out in is_out for kind in range(len(KINDS))
    ]
    places = np.flatnonzero(np.logical_and.reduce(judged))
    return OutOfBag(places, tuple(out[places] for out in is_out))


def ask_trees(
    layout: NumberLayout, memory: NumberMemory, rows: NumberRows, unseen: OutOfBag
) -> UnseenRows:
    """Return what the trees of each part say of rows that they did not grow by, without the rows."""
    places = unseen.places
    left = tuple(of_part[places] for of_part in rows.left)
    features = [
        number_features(
            forest, rows.leaves[part][places], unseen.is_out[part], memory.cells[part], left[part]
        )
        for part, forest in enumerate(layout.forests)
    ]
    return UnseenRows(
        targets=(rows.whole[places] - layout.mean).astype(np.float64),
        left=left,
        features=tuple(features),
        counts=rows.counts[places],
        words=rows.words[places],
    )


@dataclass(frozen=True, eq=False)
class HeldOutRows:
    """Kept rows, and what a model expects of each without it.

    Parameters
    ----------
    rows : NumberRows
        All that are looked at.
    places : ndarray of int64, shape (m,)
        Those of them that are predicted.
    predicted : ndarray of float64, shape (m,)
        In units.
    """

    rows: NumberRows
    places: Ints
    predicted: Floats

    @property
    def targets(self) -> Ints:
        """The targets of the predicted rows, in units."""
        return self.rows.whole[self.places]

    @property
    def counts(self) -> Ints:
        """How often each predicted row occurs."""
        return self.rows.counts[self.places]


def predict_held_out(state: NumberState) -> HeldOutRows | None:
    """Return what answers now expect of kept rows without them; None where too few rows are kept to tell.

    The weights alone are fitted to these rows, too.
    """
    kept = state.rows
    if kept is None or state.vote.errors is None or not len(kept):
        return None
    layout = state.layout
    examples = kept.examples()
    first = np.arange(min(len(examples), MOST_MEASURED_ROWS))
    rows = NumberRows.of(layout, examples.rows(first), state.seed)
    unseen = find_out_of_bag(layout, rows)
    places = unseen.places
    if not len(places):
        return None
    asked = ask_trees(layout, state.memory, rows, unseen)
    live = (_live_base(state, rows)[places], _live_mean(state, rows)[places])
    predicted = np.full(len(places), float(layout.mean))
    for part, weight in enumerate(state.vote.blend.tolist()):
        said = weighted(asked.features[part], state.vote.weights[part])
        trust = _trust_trees(state, part, rows, unseen)
        frozen = rows.whole[places] - asked.left[part]
        predicted += weight * (live[part] + trust * (frozen - live[part]) + said - layout.mean)
    return HeldOutRows(rows, places, predicted)


def _live_base(state: NumberState, rows: NumberRows) -> Floats:
    """Return what the base expects of rows when it is solved without their fold, in units."""
    base = state.layout.base
    values = rows.rows.values
    names = rows.rows.names
    folds = (rows.words % np.uint64(FOLDS)).astype(np.int64)
    scores = np.zeros(len(rows.whole))
    for fold in range(FOLDS):
        own = np.flatnonzero(folds == fold)
        in_fold = compute_gram(
            base.design, values[own], names[own], rows.whole[own], rows.counts[own]
        )
        coefficients = solve_coefficients(base.design, base.penalties, state.memory.gram - in_fold)
        scores[own] = score_rows(base.design.encode_rows(values[own], names[own]), coefficients)[
            :, 0
        ]
    return scores


def _live_mean(state: NumberState, rows: NumberRows) -> Floats:
    """Return the mean of all other targets for each row, in units."""
    gram = state.memory.gram
    total = int(gram.targets[0]) / HAT  # coordinate 0 is constant
    return np.asarray((total - rows.whole) / max(gram.n - 1, 1))


def _trust_trees(state: NumberState, part: int, rows: NumberRows, unseen: OutOfBag) -> Floats:
    """Return how far the trees of a part are trusted for rows without them, from 0 to 1.

    What a cell with n rows and the sum s says is s / (n + a), and it is trusted as far as n / (n + a): so these are the
    features of rows whose numbers are all 1.
    """
    cells = state.memory.cells[part]
    ones = np.ones(len(unseen.places), np.int64)
    leaves = rows.leaves[part][unseen.places]
    counted = NumberCells(cells.counts, cells.counts)
    features = number_features(
        state.layout.forests[part], leaves, unseen.is_out[part], counted, ones
    )
    return np.clip(weighted(features, state.vote.weights[part]), 0.0, 1.0)


def has_lost_many_rows(state: NumberState) -> bool:
    """Return whether a third of the rows is gone since weights and sizes of errors were fitted."""
    return _FEWER_ROWS * state.n_examples <= state.vote.rows


def interval_answers(state: NumberState) -> NumberAnswers:
    """Return what answers with intervals: `answering`, with errors of now where many rows are gone."""
    if state.rows is None or not has_lost_many_rows(state):
        return answering(state)
    return remember(state, "_interval_answers", _answer_with_errors_of_now)


def _answer_with_errors_of_now(state: NumberState) -> NumberAnswers:
    return replace(answering(state), errors=_measure_errors(state))


def _measure_errors(state: NumberState) -> ErrorSizes | None:
    """Return sizes and quantiles of the errors that answers now leave of kept rows."""
    held_out = predict_held_out(state)
    if held_out is None:
        return state.vote.errors
    rows = held_out.rows
    places = held_out.places
    return ErrorSizes.chosen(
        rows.rows.codes[places],
        state.layout.codes.is_name,
        held_out.targets - held_out.predicted,
        rows.counts[places],
        rows.words[places],
        state.seed,
    )
