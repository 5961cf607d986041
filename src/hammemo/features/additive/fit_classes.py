"""The additive base for classes: a penalised log-linear function, by Newton steps.

Two labels have one score. Steps are those of L-BFGS in coordinates in which the curvature is about one. The curvature
is the mean of those of the labels, by the rows with the lowest hashes; the loss and its gradient are of all rows: the
curvature changes the way to the minimum, not the minimum.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from hammemo import _native
from hammemo._arrays.logarithms import log
from hammemo._arrays.threads import in_threads
from hammemo.features.additive.additive import (
    FOLDS,
    MAX_PAIRS,
    NAT,
    AdditiveBase,
    AdditiveDesign,
    fold_counts,
    n_outputs,
    row_order,
    row_scores,
    whole_coefficients,
)
from hammemo.features.additive.penalties import group_sums, inverse_of, next_pairs, ridge, worth

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hammemo._arrays.types import Floats, Ints, Words
    from hammemo.features.cells.column_codes import ColumnCodes

_CURVATURE_ROWS: Final = 20_000
_CURVATURE_WORK: Final = 2**28
"""Rows times entries squared, at most."""
_FIRST_ROUNDS, _NEXT_ROUNDS, _FOLD_ROUNDS = 6, 3, 2
_FRESH: Final = 3
"""Steps of the evidence with one curvature."""
_SHORT, _LONG = (3, 1e-5), (30, 1e-6)
_SHARED, _SHARED_LONG = (6, 1e-5), (8, 1e-5)
"""Steps of a fit, and the relative gain below which a step is the last one: of one score, and of several, which share a
curvature. One score needs few steps to its end, from where one row more changes least."""
_OF_CONSTANT: Final = 1e-3
_FIRST_PENALTY, _PAIR_PENALTY = 1.0, 3.0
_LEAST_GAIN: Final = 0.002
_ROWS_OF_A_PAIR: Final = 100
_OWN_PENALTY_ROWS: Final = 1000
"""Rows up to which folds have penalties of their own: those of all rows would tell of the rows left out."""
_MOST_LOSS: Final = 13.0
_PAIR_SHRINKAGE: Final = 1.0

_TESTED_BITS: Final = 45
"""Rows that test pairs of columns are at most two to this, copies counted."""


def class_base(
    codes: ColumnCodes,
    values: Floats,
    name_codes: NDArray[np.uint8],
    labels: Ints,
    n_labels: int,
    counts: Ints,
    words: Words,
    *,
    n_scores: int = 0,
) -> AdditiveBase:
    """Return the base for rows with these labels: a function of the multiset of rows.

    The last `n_scores` ordered columns are the scores of labels by another function, in nats: coefficients are pulled
    to those that repeat them, and not to zero.

    Shapes
    ------
    values : (m, ordered columns); name_codes : (m, columns of names); labels, counts, words : (m,)
    """
    order = row_order(words, values, name_codes, labels)
    values, name_codes, labels = values[order], name_codes[order], labels[order]
    counts, words = counts[order], words[order]
    design = AdditiveDesign.chosen(codes, values, name_codes, counts)
    outputs, n_groups = n_outputs(n_labels), int(design.groups.max()) + 1
    if n_labels < 2 or not len(labels):
        shape = (design.p, outputs)
        nothing = np.zeros(shape, np.int64)
        return AdditiveBase(design, n_labels, nothing, np.zeros((FOLDS, *shape), np.int64), np.ones(n_groups))
    cells, folded = design.cells(values, name_codes), fold_counts(words, counts)
    penalties, phi = np.full(n_groups, _FIRST_PENALTY), _prior(labels, n_labels, counts, len(design.groups))
    center = np.zeros(phi.shape)
    if n_scores:
        center = _repeated_scores(design, n_scores, outputs)
        phi = center.copy()
    most_pairs = min(MAX_PAIRS, int(counts.sum()) // _ROWS_OF_A_PAIR)
    best, rounds = None, _FIRST_ROUNDS
    while True:
        rows = _LabelledRows(design, design.rows(values, name_codes), labels.astype(np.int32), outputs, center)
        phi, penalties, inverse = rows.evidence(phi, penalties, counts.astype(np.float64), rounds)
        crossed = _crossed(rows, phi, penalties, inverse, counts, folded)
        loss, left, spread = _left_over(rows, crossed, folded)
        if best is not None and loss >= best[0] * (1 - _LEAST_GAIN):
            break
        best = loss, AdditiveBase(design, n_labels, rows.whole(phi), crossed, penalties)
        more = next_pairs(design, cells, left, spread, _PAIR_SHRINKAGE, most_pairs - len(design.pairs))
        if not len(more):
            break
        design, rounds = replace(design, pairs=np.concatenate([design.pairs, more])), _NEXT_ROUNDS
        more_zeros = np.zeros((outputs, len(design.groups) - phi.shape[1]))
        phi = np.hstack([phi, more_zeros])
        center = np.hstack([center, more_zeros])
        penalties = np.append(penalties, np.full(len(more), _PAIR_PENALTY))
    return best[1]


@dataclass(frozen=True, eq=False)
class _LabelledRows:
    """Rows with their labels, and fits to them; phi : (outputs, q), the coordinates of `AdditiveDesign.modes`."""

    design: AdditiveDesign
    rows: _native.AdditiveRows
    labels: NDArray[np.int32]
    outputs: int
    center: Floats
    """Where penalties pull coefficients to: (outputs, q)."""

    def evidence(self, phi: Floats, penalties: Floats, weights: Floats, rounds: int) -> tuple[Floats, Floats, Floats]:
        """Return coefficients, penalties and `inverse_of` the curvature, after so many steps of the evidence."""
        groups = self.design.groups
        for place in range(rounds):
            if place % _FRESH == 0:
                curvature = self.curvature(phi, weights)
            inverse = inverse_of(curvature, self.ridge(penalties))
            phi = self.fitted(phi, penalties, weights, inverse, _SHORT if self.outputs == 1 else _SHARED)
            worths = worth(groups, penalties, inverse, self.outputs)
            squares = sum(group_sums(groups, one**2) for one in phi - self.center)
            penalties = np.clip(worths / np.maximum(squares, 1e-9), 1e-3, 1e6)
        inverse = inverse_of(self.curvature(phi, weights), self.ridge(penalties))
        return self.fitted(phi, penalties, weights, inverse), penalties, inverse

    def curvature(self, phi: Floats, weights: Floats) -> Floats:
        """Return the mean curvature of the outputs: shape (q, q)."""
        q, entries = phi.shape[1], self.rows.n_entries // max(self.rows.n, 1)
        most = min(_CURVATURE_ROWS, max(2 * q, _CURVATURE_WORK // entries**2))
        found = np.empty((q, q))
        self.rows.curvature(
            labels=self.labels,
            weights=weights,
            modes=self.design.modes,
            phi=phi,
            most=most,
            out=found.reshape(-1),
        )
        return found

    def ridge(self, penalties: Floats) -> Floats:
        """Return the penalty of each coordinate."""
        return ridge(self.design.groups, penalties, _OF_CONSTANT)

    def fitted(
        self, phi: Floats, penalties: Floats, weights: Floats, inverse: Floats, end: tuple[int, float] | None = None
    ) -> Floats:
        """Return the coefficients with the lowest penalised loss, from phi on."""
        found = phi.copy()
        steps, tolerance = end or (_LONG if self.outputs == 1 else _SHARED_LONG)
        self.rows.fit(
            labels=self.labels,
            weights=weights,
            modes=self.design.modes,
            inverse=inverse,
            penalties=self.ridge(penalties),
            center=self.center,
            steps=steps,
            tolerance=tolerance,
            phi=found,
        )
        return found

    def whole(self, phi: Floats) -> Ints:
        """Return coefficients of the coordinates of rows, in whole numbers: shape (p, outputs)."""
        found = np.empty((self.design.p, self.outputs))
        self.design.modes.apply(phi, found.reshape(-1))
        n_labels = self.outputs if self.outputs > 1 else 2
        return whole_coefficients(found, NAT, self.design.largest_coefficient(n_labels))


def _prior(labels: Ints, n_labels: int, counts: Ints, q: int) -> Floats:
    """Return coefficients that say how frequent labels are, shape (outputs, q)."""
    shares = np.bincount(labels, weights=counts, minlength=n_labels) + 0.5
    found = np.zeros((n_outputs(n_labels), q))
    found[:, 0] = log(shares[1:] / shares[:1]) if n_labels == 2 else log(shares / shares.max())
    return found


def _repeated_scores(design: AdditiveDesign, n_scores: int, outputs: int) -> Floats:
    """Return the coefficients with which each score of a label is its own score: (outputs, q).

    The line of a column has mean zero and spread one over its knots, so the spread of the knots makes the column of it.
    """
    found = np.zeros((outputs, len(design.groups)))
    # a line and the bends of its inner knots: one fewer than there are knots
    sizes = [max(len(known) - 1, 0) + has for known, has in zip(design.knots, design.has_missing, strict=True)]
    starts = np.cumsum([1, *sizes])
    first = len(design.knots) - n_scores
    for output in range(outputs):
        knots = design.knots[first + output]
        if not len(knots):
            continue
        mean = sum(knots.tolist()) / len(knots)
        spread = math.sqrt(sum(((knots - mean) ** 2).tolist()) / len(knots))
        found[output, starts[first + output]] = spread
        found[output, 0] += mean
    return found


def _crossed(rows: _LabelledRows, phi: Floats, penalties: Floats, inverse: Floats, counts: Ints, folded: Ints) -> Ints:
    """Return coefficients without each fold: shape (folds, p, outputs)."""
    few = counts.sum() <= _OWN_PENALTY_ROWS

    def without(of_fold: Ints) -> Ints:
        weights = (counts - of_fold).astype(np.float64)
        if few:
            return rows.whole(rows.evidence(phi, penalties, weights, _FOLD_ROUNDS)[0])
        return rows.whole(rows.fitted(phi, penalties, weights, inverse))

    return np.stack(in_threads(without, list(folded)))


def _left_over(rows: _LabelledRows, crossed: Ints, folded: Ints) -> tuple[float, Ints, Ints]:
    """Return the loss of rows left out, and what their labels exceed the crossed shares by, with its spread."""
    observed = rows.labels[:, None] == (np.ones(1, int) if rows.outputs == 1 else np.arange(rows.outputs))
    loss, left, spread = 0.0, np.zeros(observed.shape, np.int64), np.zeros(observed.shape, np.int64)
    # Sums of both, in 17 bits a row, must stay below 2^63 in `pair_scores`: of more rows every 2^k-th copy counts.
    more_bits = max(int(folded.sum()).bit_length() - _TESTED_BITS, 0)
    for coefficients, counts in zip(crossed, folded, strict=True):
        shares = np.empty(observed.shape)
        scores = row_scores(rows.rows, coefficients)
        loss += _native.label_shares(
            scores=scores,
            labels=rows.labels,
            weights=counts.astype(np.float64),
            most=_MOST_LOSS,
            out=shares.reshape(-1),
        )
        tested = (counts >> more_bits)[:, None]
        left += tested * np.rint((observed - shares) * NAT).astype(np.int64)
        spread += tested * np.rint(shares * (1 - shares) * NAT).astype(np.int64)
    return loss, left, spread
