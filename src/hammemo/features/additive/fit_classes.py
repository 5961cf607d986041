r"""The additive base for classes: a penalised log-linear function.

With coordinates :math:`z_i` of row i, its label :math:`y_i` and its count :math:`n_i`, it minimises

.. math:: \sum_i n_i \bigl(\log \textstyle\sum_c e^{\phi_c \cdot z_i} - \phi_{y_i} \cdot z_i\bigr)
          + \frac12 \sum_{c, k} \lambda_{g(k)} \, (\phi_{ck} - \phi^0_{ck})^2.

Two labels have one score, that of the second one. Steps are those of L-BFGS in coordinates in which
the curvature is about one. The curvature is the mean of those of the labels, by the rows with the
lowest hashes; the loss and its gradient are of all rows. So the curvature changes the way to the
minimum, not the minimum.

A fit has rounds. Each fits coefficients and penalties, then coefficients without each fold, and
tests pairs of columns by what these leave of the rows left out. The best pairs become
coordinates of the next round, until the loss of rows left out hardly falls.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from hammemo import _native
from hammemo._arrays.logarithms import log
from hammemo._arrays.threads import in_threads
from hammemo.features.additive.additive_base import (
    NAT,
    AdditiveBase,
    count_outputs,
    round_coefficients,
    score_rows,
)
from hammemo.features.additive.base_folds import FOLDS, count_in_folds, order_rows
from hammemo.features.additive.choose_design import choose_design
from hammemo.features.additive.design import MAX_PAIRS, AdditiveDesign
from hammemo.features.additive.penalties import (
    choose_pairs,
    count_determined,
    expand_penalties,
    invert_curvature,
    sum_groups,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hammemo._arrays.types import Floats, Ints, Words
    from hammemo.features.cells.column_codes import ColumnCodes

_CURVATURE_ROWS: Final = 20_000
"""Rows by which the curvature is computed, at most."""

_CURVATURE_WORK: Final = 2**28
"""Rows times the squared number of their entries, at most."""

_DESIGN_ROWS: Final = 2**14
"""Rows with the lowest hashes by which pairs and penalties are chosen; coefficients are fitted to
all rows. `_MAX_CHOICE_ROWS` in :mod:`hammemo.votes.tree_label_weights` has the trial."""

_FIRST_ROUNDS: Final = 6
"""Steps of the evidence where penalties start anywhere."""

_NEXT_ROUNDS: Final = 3
"""Steps of the evidence after pairs were added, which leave most penalties near where they are."""

_FOLD_ROUNDS: Final = 2
"""Steps of the evidence without a fold, which starts from the penalties of all rows."""

_STEPS_OF_A_CURVATURE: Final = 3
"""Steps of the evidence that share one curvature, which costs more than they do."""

_CONSTANT_PENALTY: Final = 1e-3
"""The penalty of the constant: hardly any, but with it a minimum exists for any labels."""

_FIRST_PENALTY: Final = 1.0
"""The penalty of each group before the first step of the evidence."""

_PAIR_PENALTY: Final = 3.0
"""The same for a pair that is added."""

_LEAST_PENALTY: Final = 1e-3
"""A penalty is at least this, so that a curvature with penalties can be inverted."""

_MOST_PENALTY: Final = 1e6
"""With it a group is practically zero."""

_LEAST_GAIN: Final = 0.002
"""The share of the loss of rows left out that a round must gain, or it is not taken."""

_ROWS_OF_A_PAIR: Final = 100
"""Rows for each pair of a function, at least."""

_OWN_PENALTY_ROWS: Final = 1000
"""Rows up to which each fold chooses its own penalties: those of all rows know the rows left out.

On one split of the table ionosphere, penalties of all rows gave rows left out a log-loss of .14,
and penalties of each fold .21; that of test rows was .35 both times.
"""

_MOST_LOSS: Final = 13.0
"""Nats that a row left out costs, at most: no single row decides about pairs."""

_PAIR_SHRINKAGE: Final = 1.0
"""Variance of labels, in rows, that is added to that of each bin of a pair."""

_TESTED_BITS: Final = 45
"""Rows that test pairs of columns are at most two to this, copies counted."""


class _StopRule(NamedTuple):
    """When a fit of coefficients ends.

    Parameters
    ----------
    steps : int
        Steps of L-BFGS, at most.
    tolerance : float
        The relative gain below which a step is the last one.
    """

    steps: int
    tolerance: float


_SHORT: Final = _StopRule(3, 1e-5)
"""Of one score, between steps of the evidence."""

_LONG: Final = _StopRule(30, 1e-6)
"""Of one score, at the end. One score needs few steps to its minimum, where one row more or less
changes coefficients least."""

_SHARED_SHORT: Final = _StopRule(6, 1e-5)
"""Of several scores, which share a curvature, between steps of the evidence."""

_SHARED_LONG: Final = _StopRule(8, 1e-5)
"""Of several scores, at the end."""


def fit_class_base(
    codes: ColumnCodes,
    *,
    values: Floats,
    name_codes: NDArray[np.uint8],
    labels: Ints,
    n_labels: int,
    counts: Ints,
    words: Words,
    n_scores: int = 0,
) -> AdditiveBase:
    """Return the base for rows with these labels: a function of the multiset of rows.

    Parameters
    ----------
    counts : ndarray of int64
        How often each row occurs.
    words : ndarray of uint64
        The hash of each row, which decides its folds.
    n_scores : int
        The last ordered columns that are the scores of labels by another function, in nats:
        coefficients are pulled to those that repeat them, and not to zero.

    Shapes
    ------
    values : (m, ordered columns); name_codes : (m, columns of names); labels, counts, words : (m,)
    """
    order = order_rows(words, values, name_codes, labels)
    rows = _BaseRows(
        values=values[order],
        name_codes=name_codes[order],
        labels=labels[order],
        counts=counts[order],
        fold_counts=count_in_folds(words[order], counts[order]),
    )
    design = choose_design(codes, rows.values, rows.name_codes, rows.counts)
    if n_labels < 2 or not len(labels):
        return _zero_base(design, n_labels)

    # Coefficients start where they say how frequent labels are, or repeat the scores of columns.
    outputs = count_outputs(n_labels)
    phi = _prior_coefficients(labels, n_labels, counts, len(design.groups))
    center = np.zeros(phi.shape)
    if n_scores:
        center = _repeat_scores(design, n_scores, outputs)
        phi = center.copy()
    fitted = _fit_rounds(rows.take_first(_DESIGN_ROWS), design, phi, center)
    if len(rows.labels) > _DESIGN_ROWS:
        fitted = _fit_to_all(rows, fitted)
    return AdditiveBase(
        design=fitted.rows.design,
        n_labels=n_labels,
        coefficients=fitted.rows.round_fit(fitted.fit.phi),
        crossed=fitted.crossed,
        penalties=fitted.fit.penalties,
    )


@dataclass(frozen=True, eq=False)
class _BaseRows:
    """Distinct rows in the order of their hashes.

    Parameters
    ----------
    values : ndarray of float64, shape (m, ordered columns)
    name_codes : ndarray of uint8, shape (m, columns of names)
    labels : ndarray of int64, shape (m,)
    counts : ndarray of int64, shape (m,)
        How often each row occurs.
    fold_counts : ndarray of int64, shape (folds, m)
        How many of the copies lie in each fold.
    """

    values: Floats
    name_codes: NDArray[np.uint8]
    labels: Ints
    counts: Ints
    fold_counts: Ints

    def take_first(self, n: int) -> _BaseRows:
        """Return the rows with the lowest hashes, at most n."""
        return _BaseRows(
            values=self.values[:n],
            name_codes=self.name_codes[:n],
            labels=self.labels[:n],
            counts=self.counts[:n],
            fold_counts=self.fold_counts[:, :n],
        )

    def encode(self, design: AdditiveDesign, center: Floats) -> _LabelledRows:
        """Return the rows in the coordinates of a design."""
        return _LabelledRows(
            design=design,
            rows=design.encode_rows(self.values, self.name_codes),
            labels=self.labels.astype(np.int32),
            outputs=len(center),
            center=center,
        )


class _FittedRows(NamedTuple):
    """A fit to rows, and coefficients that are fitted without each fold: (folds, p, outputs)."""

    rows: _LabelledRows
    fit: _ClassFit
    crossed: Ints


def _fit_rounds(
    rows: _BaseRows, design: AdditiveDesign, phi: Floats, center: Floats
) -> _FittedRows:
    """Return the fit with the pairs of columns that lower the loss of rows left out.

    It starts from the coefficients `phi`.
    """
    bins = design.bin_columns(rows.values, rows.name_codes)
    max_pairs = min(MAX_PAIRS, int(rows.counts.sum()) // _ROWS_OF_A_PAIR)
    weights = rows.counts.astype(np.float64)
    penalties = np.full(design.n_groups, _FIRST_PENALTY)
    rounds = _FIRST_ROUNDS
    best: _FittedRows | None = None
    best_loss = math.inf
    while True:
        labelled = rows.encode(design, center)
        fit = labelled.fit_with_evidence(phi, penalties, weights, rounds)
        crossed = _fit_without_folds(labelled, fit, rows.counts, rows.fold_counts)
        held_out = _measure_held_out(labelled, crossed, rows.fold_counts)
        if best is not None and held_out.loss >= best_loss * (1 - _LEAST_GAIN):
            return best
        best_loss = held_out.loss
        best = _FittedRows(labelled, fit, crossed)
        pairs = choose_pairs(
            design,
            bins,
            residuals=held_out.residuals,
            variances=held_out.variances,
            shrinkage=_PAIR_SHRINKAGE,
            max_pairs=max_pairs - len(design.pairs),
        )
        if not len(pairs):
            return best
        # The next round starts here, with zeros for the coordinates of the new pairs.
        design = design.with_more_pairs(pairs)
        new_zeros = np.zeros((len(center), len(design.groups) - center.shape[1]))
        center = np.hstack([center, new_zeros])
        phi = np.hstack([fit.phi, new_zeros])
        penalties = np.append(fit.penalties, np.full(len(pairs), _PAIR_PENALTY))
        rounds = _NEXT_ROUNDS


def _fit_to_all(rows: _BaseRows, fitted: _FittedRows) -> _FittedRows:
    """Return the coefficients for all rows, with the design and the penalties of some of them."""
    labelled = rows.encode(fitted.rows.design, fitted.rows.center)
    weights = rows.counts.astype(np.float64)
    fit = labelled.fit_with_penalties(fitted.fit.phi, fitted.fit.penalties, weights)
    crossed = _fit_without_folds(labelled, fit, rows.counts, rows.fold_counts)
    return _FittedRows(labelled, fit, crossed)


class _ClassFit(NamedTuple):
    """Coefficients, with the penalties and the curvature that they were fitted with.

    Parameters
    ----------
    phi : ndarray of float64, shape (outputs, q)
        In the coordinates of `AdditiveDesign.modes`.
    penalties : ndarray of float64, shape (groups,)
    curvature : ndarray of float64, shape (q, q)
        The mean curvature of the outputs, without penalties.
    inverse_root : ndarray of float64, shape (q, q)
        `invert_curvature` of the curvature with penalties.
    """

    phi: Floats
    penalties: Floats
    curvature: Floats
    inverse_root: Floats


@dataclass(frozen=True, eq=False)
class _LabelledRows:
    """Rows with their labels, and fits to them, of coefficients phi: (outputs, q).

    Parameters
    ----------
    design : AdditiveDesign
    rows : AdditiveRows
    labels : ndarray of int32, shape (m,)
    outputs : int
        How many scores are fitted.
    center : ndarray of float64, shape (outputs, q)
        Where penalties pull coefficients to.
    """

    design: AdditiveDesign
    rows: _native.AdditiveRows
    labels: NDArray[np.int32]
    outputs: int
    center: Floats

    def fit_with_evidence(
        self, phi: Floats, penalties: Floats, weights: Floats, rounds: int
    ) -> _ClassFit:
        """Return the fit after so many steps of the evidence, from these coefficients on."""
        groups = self.design.groups
        stop_rule = _SHORT if self.outputs == 1 else _SHARED_SHORT
        for step in range(rounds):
            if step % _STEPS_OF_A_CURVATURE == 0:
                curvature = self._compute_curvature(phi, weights)
            inverse_root = invert_curvature(curvature, self._expand(penalties))
            fit = _ClassFit(phi, penalties, curvature, inverse_root)
            phi = self.minimize(fit, weights, stop_rule)
            # MacKay's fixed point
            determined = count_determined(groups, penalties, inverse_root, self.outputs)
            squares = sum(sum_groups(groups, output**2) for output in phi - self.center)
            ratios = determined / np.maximum(squares, 1e-9)
            penalties = np.clip(ratios, _LEAST_PENALTY, _MOST_PENALTY)
        return self.fit_with_penalties(phi, penalties, weights)

    def fit_with_penalties(self, phi: Floats, penalties: Floats, weights: Floats) -> _ClassFit:
        """Return the fit with these penalties, from these coefficients on."""
        curvature = self._compute_curvature(phi, weights)
        inverse_root = invert_curvature(curvature, self._expand(penalties))
        fit = _ClassFit(phi, penalties, curvature, inverse_root)
        return fit._replace(phi=self.minimize(fit, weights))

    def step_without_folds(self, fit: _ClassFit, fold_counts: Ints) -> Floats:
        """Return the coefficients of one score without each fold, one Newton step from the fit.

        At the minimum for all rows, the slopes of the rows of a fold are what the others lack. A
        fold has about a fifth of the curvature, too.

        Shapes
        ------
        fold_counts : (folds, m); returned : (folds, 1, q)
        """
        slopes = np.empty((len(fold_counts), *fit.phi.shape))
        self.rows.fold_slopes(
            labels=self.labels,
            fold_weights=fold_counts.astype(np.float64),
            modes=self.design.modes,
            phi=fit.phi,
            out=slopes.reshape(-1),
        )
        penalties = self._expand(fit.penalties)
        penalty_slopes = penalties * (fit.phi - self.center)
        slopes_without = slopes.sum(axis=0) + penalty_slopes - slopes
        rest = 1 - 1 / len(fold_counts)
        inverse_root = invert_curvature(rest * fit.curvature, penalties)
        # T T^T slopes, with sums in this order: a matrix product has another on each processor.
        turned = np.zeros(slopes.shape)
        for j, row in enumerate(inverse_root):
            turned += slopes_without[:, :, j, None] * row
        steps = np.zeros(slopes.shape)
        for j, column in enumerate(inverse_root.T):
            steps += turned[:, :, j, None] * column
        return np.asarray(fit.phi - steps)

    def minimize(
        self, fit: _ClassFit, weights: Floats, stop_rule: _StopRule | None = None
    ) -> Floats:
        """Return the coefficients with the lowest penalised loss, from those of the fit on.

        Without a rule of when to stop, it goes on to the end.
        """
        if stop_rule is None:
            stop_rule = _LONG if self.outputs == 1 else _SHARED_LONG
        phi = fit.phi.copy()
        self.rows.fit(
            labels=self.labels,
            weights=weights,
            modes=self.design.modes,
            inverse=fit.inverse_root,
            penalties=self._expand(fit.penalties),
            center=self.center,
            steps=stop_rule.steps,
            tolerance=stop_rule.tolerance,
            phi=phi,
        )
        return phi

    def round_fit(self, phi: Floats) -> Ints:
        """Return coefficients of the coordinates of rows, in whole numbers: shape (p, outputs)."""
        coefficients = np.empty((self.design.p, self.outputs))
        self.design.modes.apply(phi, coefficients.reshape(-1))
        n_labels = max(self.outputs, 2)
        return round_coefficients(coefficients, NAT, self.design.largest_coefficient(n_labels))

    def _compute_curvature(self, phi: Floats, weights: Floats) -> Floats:
        """Return the mean curvature of the outputs: shape (q, q)."""
        q = phi.shape[1]
        n_entries = self.rows.n_entries // max(self.rows.n, 1)
        curvature = np.empty((q, q))
        self.rows.curvature(
            labels=self.labels,
            weights=weights,
            modes=self.design.modes,
            phi=phi,
            most=min(_CURVATURE_ROWS, max(2 * q, _CURVATURE_WORK // n_entries**2)),
            out=curvature.reshape(-1),
        )
        return curvature

    def _expand(self, penalties: Floats) -> Floats:
        return expand_penalties(self.design.groups, penalties, _CONSTANT_PENALTY)


def _zero_base(design: AdditiveDesign, n_labels: int) -> AdditiveBase:
    """Return the base that says nothing about labels: of one label, or without rows."""
    zeros = np.zeros((design.p, count_outputs(n_labels)), np.int64)
    return AdditiveBase(
        design=design,
        n_labels=n_labels,
        coefficients=zeros,
        crossed=np.zeros((FOLDS, *zeros.shape), np.int64),
        penalties=np.ones(design.n_groups),
    )


def _prior_coefficients(labels: Ints, n_labels: int, counts: Ints, q: int) -> Floats:
    """Return coefficients that say how frequent labels are, shape (outputs, q)."""
    shares = np.bincount(labels, weights=counts, minlength=n_labels) + 0.5
    phi = np.zeros((count_outputs(n_labels), q))
    if n_labels == 2:
        phi[:, 0] = log(shares[1:] / shares[:1])
    else:
        phi[:, 0] = log(shares / shares.max())
    return phi


def _repeat_scores(design: AdditiveDesign, n_scores: int, outputs: int) -> Floats:
    """Return the coefficients with which each score of a label is that of its column: (outputs, q).

    The line of a column has mean zero and spread one over its knots, so with the spread of the
    knots as coefficient, and their mean added to the constant, it is the column.
    """
    phi = np.zeros((outputs, len(design.groups)))
    sizes = []
    for knots, has_missing in zip(design.knots, design.has_missing, strict=True):
        # a line and the bends of its inner knots: one fewer than there are knots
        sizes.append(max(len(knots) - 1, 0) + has_missing)
    starts = np.cumsum([1, *sizes])
    first_score = len(design.knots) - n_scores
    for output in range(outputs):
        knots = design.knots[first_score + output]
        if not len(knots):
            continue
        mean = sum(knots.tolist()) / len(knots)
        spread = math.sqrt(sum(((knots - mean) ** 2).tolist()) / len(knots))
        phi[output, starts[first_score + output]] = spread
        phi[output, 0] += mean
    return phi


def _fit_without_folds(
    rows: _LabelledRows, fit: _ClassFit, counts: Ints, fold_counts: Ints
) -> Ints:
    """Return coefficients without each fold, from the fit to all rows on: (folds, p, outputs)."""
    has_few_rows = counts.sum() <= _OWN_PENALTY_ROWS
    if rows.outputs == 1 and not has_few_rows:
        return np.stack(list(map(rows.round_fit, rows.step_without_folds(fit, fold_counts))))

    def fit_without(counts_of_fold: Ints) -> Ints:
        weights = (counts - counts_of_fold).astype(np.float64)
        if not has_few_rows:
            return rows.round_fit(rows.minimize(fit, weights))
        own_fit = rows.fit_with_evidence(fit.phi, fit.penalties, weights, _FOLD_ROUNDS)
        return rows.round_fit(own_fit.phi)

    return np.stack(in_threads(fit_without, list(fold_counts)))


class _HeldOutFold(NamedTuple):
    """What crossed coefficients say about the rows of their folds.

    Parameters
    ----------
    loss : float
        The sum of the log-losses, in nats.
    residuals : ndarray of int64, shape (m, outputs)
        What labels exceed their shares by, copies added up, in 1/65536.
    variances : ndarray of int64, shape (m, outputs)
        The spread of labels with these shares.
    """

    loss: float
    residuals: Ints
    variances: Ints


def _measure_held_out(rows: _LabelledRows, crossed: Ints, fold_counts: Ints) -> _HeldOutFold:
    """Return the loss of rows left out, and what is left of them for pairs to explain."""
    scored_labels = np.ones(1, int) if rows.outputs == 1 else np.arange(rows.outputs)
    observed = rows.labels[:, None] == scored_labels
    loss = 0.0
    residuals = np.zeros(observed.shape, np.int64)
    variances = np.zeros(observed.shape, np.int64)
    # Sums of both, in 17 bits a row, must stay below 2^63 in `pair_scores`: of more rows every
    # 2^k-th copy counts.
    spare_bits = max(int(fold_counts.sum()).bit_length() - _TESTED_BITS, 0)
    for coefficients, counts in zip(crossed, fold_counts, strict=True):
        shares = np.empty(observed.shape)
        loss += _native.label_shares(
            scores=score_rows(rows.rows, coefficients),
            labels=rows.labels,
            weights=counts.astype(np.float64),
            most=_MOST_LOSS,
            out=shares.reshape(-1),
        )
        tested = (counts >> spare_bits)[:, None]
        residuals += tested * np.rint((observed - shares) * NAT).astype(np.int64)
        variances += tested * np.rint(shares * (1 - shares) * NAT).astype(np.int64)
    return _HeldOutFold(loss, residuals, variances)
