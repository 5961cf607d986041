"""What a model of numbers expects of kept rows without them, and the errors of its intervals.

When weights are fitted, errors are those that the frozen base leaves. They stay as they are until a
refit. But when many rows are forgotten, what answers has lost them: the base is solved from the
rest, cells are emptier, and trees are trusted less. Errors grow, and sizes that were measured with
all rows become too small.

So when a third of the rows is gone, the errors of the remaining kept rows are measured again, by
what answers now: cells without the row's share, trees that the row did not grow, and the live base
solved without the fold of the row. Nothing of that is stored: it is a function of the state.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from hammemo.features.additive.additive_base import score_rows
from hammemo.features.additive.base_folds import FOLDS
from hammemo.features.additive.fit_numbers import compute_gram, solve_coefficients
from hammemo.features.additive.levels import HAT
from hammemo.features.cells.error_sizes import ErrorSizes, fit_error_sizes
from hammemo.features.cells.forest import KINDS
from hammemo.features.cells.grow_forest import mark_out_of_bag
from hammemo.features.cells.number_cells import NumberCells
from hammemo.features.cells.number_trees import compute_number_features, sum_weighted
from hammemo.tasks.numbers.answer import get_answers, remember
from hammemo.tasks.numbers.layout import NUMBER_TREES
from hammemo.tasks.numbers.memory import NumberRows
from hammemo.votes.tree_number_weights import UnseenRows

if TYPE_CHECKING:
    from hammemo._arrays.types import Bools, Floats, Ints
    from hammemo.tasks.numbers.layout import NumberLayout
    from hammemo.tasks.numbers.memory import NumberMemory
    from hammemo.tasks.numbers.state import NumberState
    from hammemo.votes.number_answers import NumberAnswers

MOST_MEASURED_ROWS: Final = 4000
"""Kept rows whose errors are measured after a fit, at most: those with the lowest hashes."""

_FEWER_ROWS: Final = 1.5
"""With so many times fewer rows errors are measured again.

It is the factor by which rows must grow for weights to be fitted again.
"""


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
        mark_out_of_bag(
            forest, rows.words, rows.counts, last_word=layout.last_word, first=rules.first
        )
        for forest, rules in zip(layout.forests, NUMBER_TREES, strict=True)
    ]
    has_judge = np.ones(len(rows.words), bool)
    for is_out_of_part in is_out:
        for kind in range(len(KINDS)):
            has_judge &= is_out_of_part[:, kind :: len(KINDS)].any(axis=1)
    places = np.flatnonzero(has_judge)
    return OutOfBag(places, tuple(is_out_of_part[places] for is_out_of_part in is_out))


def ask_trees(
    layout: NumberLayout, memory: NumberMemory, rows: NumberRows, unseen: OutOfBag
) -> UnseenRows:
    """Return what trees say of rows that they did not grow by, without what cells have of them."""
    places = unseen.places
    residuals = tuple(part_residuals[places] for part_residuals in rows.residuals)
    features = []
    for part_number, forest in enumerate(layout.forests):
        features.append(
            compute_number_features(
                forest,
                rows.leaves[part_number][places],
                unseen.is_out[part_number],
                cells=memory.cells[part_number],
                numbers=residuals[part_number],
            )
        )
    return UnseenRows(
        targets=(rows.targets[places] - layout.mean).astype(np.float64),
        left=residuals,
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
        return self.rows.targets[self.places]

    @property
    def counts(self) -> Ints:
        """How often each predicted row occurs."""
        return self.rows.counts[self.places]


def predict_held_out(state: NumberState) -> HeldOutRows | None:
    """Return what answers now expect of kept rows without them; None where too few rows are kept.

    The weights alone are fitted to these rows, too.
    """
    kept_rows = state.rows
    if kept_rows is None or state.vote.errors is None or not len(kept_rows):
        return None
    layout = state.layout
    examples = kept_rows.examples()
    first = np.arange(min(len(examples), MOST_MEASURED_ROWS))
    rows = NumberRows.from_examples(layout, examples.rows(first), state.seed)
    unseen = find_out_of_bag(layout, rows)
    places = unseen.places
    if not len(places):
        return None

    # A part answers live + trust * (frozen - live) + trees, as `NumberAnswers` does, where live
    # and frozen are its base or its mean.
    by_trees = ask_trees(layout, state.memory, rows, unseen)
    live_parts = (_solve_without_folds(state, rows)[places], _average_others(state, rows)[places])
    predicted = np.full(len(places), float(layout.mean))
    for part_number, share in enumerate(state.vote.blend.tolist()):
        live = live_parts[part_number]
        frozen = rows.targets[places] - by_trees.left[part_number]
        trees = sum_weighted(by_trees.features[part_number], state.vote.weights[part_number])
        trust = _trust_trees(state, part_number, rows, unseen)
        predicted += share * (live + trust * (frozen - live) + trees - layout.mean)
    return HeldOutRows(rows, places, predicted)


def _solve_without_folds(state: NumberState, rows: NumberRows) -> Floats:
    """Return what the base expects of rows when it is solved without their fold, in units."""
    base = state.layout.base
    values = rows.inputs.values
    names = rows.inputs.names
    folds = (rows.words % np.uint64(FOLDS)).astype(np.int64)
    scores = np.zeros(len(rows.targets))
    for fold in range(FOLDS):
        places = np.flatnonzero(folds == fold)
        fold_gram = compute_gram(
            base.design,
            values[places],
            names[places],
            targets=rows.targets[places],
            counts=rows.counts[places],
        )
        coefficients = solve_coefficients(
            base.design, base.penalties, state.memory.gram - fold_gram
        )
        coordinates = base.design.encode_rows(values[places], names[places])
        scores[places] = score_rows(coordinates, coefficients)[:, 0]
    return scores


def _average_others(state: NumberState, rows: NumberRows) -> Floats:
    """Return the mean of all other targets for each row, in units."""
    gram = state.memory.gram
    total = gram.target_sum / HAT
    return np.asarray((total - rows.targets) / max(gram.n - 1, 1))


def _trust_trees(
    state: NumberState, part_number: int, rows: NumberRows, unseen: OutOfBag
) -> Floats:
    """Return how far the trees of a part are trusted for rows without them, from 0 to 1.

    What a cell with n rows and the sum s says is s / (n + a), and it is trusted as far as
    n / (n + a): so these are the features of rows whose numbers are all 1.
    """
    cells = state.memory.cells[part_number]
    counting_cells = NumberCells(cells.counts, cells.counts)
    features = compute_number_features(
        state.layout.forests[part_number],
        rows.leaves[part_number][unseen.places],
        unseen.is_out[part_number],
        cells=counting_cells,
        numbers=np.ones(len(unseen.places), np.int64),
    )
    return np.clip(sum_weighted(features, state.vote.weights[part_number]), 0.0, 1.0)


def has_lost_many_rows(state: NumberState) -> bool:
    """Return whether a third of the rows is gone since weights and sizes of errors were fitted."""
    return _FEWER_ROWS * state.n_examples <= state.vote.rows


def get_interval_answers(state: NumberState) -> NumberAnswers:
    """Return what answers with intervals; where many rows are gone, with errors of now."""
    if state.rows is None or not has_lost_many_rows(state):
        return get_answers(state)
    return remember(state, "_interval_answers", _answer_with_errors_of_now)


def _answer_with_errors_of_now(state: NumberState) -> NumberAnswers:
    return replace(get_answers(state), errors=_measure_errors(state))


def _measure_errors(state: NumberState) -> ErrorSizes | None:
    """Return sizes and quantiles of the errors that answers now leave of kept rows."""
    held_out = predict_held_out(state)
    if held_out is None:
        return state.vote.errors
    rows = held_out.rows
    places = held_out.places
    return fit_error_sizes(
        rows.inputs.codes[places],
        state.layout.codes.is_name,
        errors=held_out.targets - held_out.predicted,
        counts=rows.counts[places],
        words=rows.words[places],
        seed=state.seed,
    )
