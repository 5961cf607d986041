r"""Fits the linear scores of wide rows: penalised logistic or linear regression on all columns.

.. math:: \min_w \sum_i n_i \, \ell(y_i, w \cdot z_i) + \tfrac{\lambda}{2} |w|^2

The minimum lies in the span of the rows, :math:`w = \sum_i a_i z_i`. So with fewer rows than columns the fit
works on a, with the *kernel* :math:`K = Z Z^T` in place of the columns, which costs as much for 100,000 columns
as for none; with more rows than columns it works on w. Either way it takes steps of L-BFGS [1]_ in the metric of
the penalty. There are six fits at once, to all rows and without each fold, which share every matrix product. The
penalty is the one with the lowest loss on the folds left out, from a path that begins where almost nothing is
fitted.

The factors of all matrix products are rounded to whole numbers so small that sums of products stay below 2^53: BLAS
adds them up exactly, so coefficients do not depend on the processor or on threads.

.. [1] Liu and Nocedal (1989), On the limited memory BFGS method for large scale optimization.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

import numpy as np

from hammemo import _native
from hammemo.features.additive.additive_base import NAT
from hammemo.features.additive.base_folds import FOLDS
from hammemo.features.wide.scaling import UNIT, Scaling
from hammemo.features.wide.scores import COEFFICIENT_BITS, LinearScores

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hammemo._arrays.types import Floats, Ints

FITS: Final = 1 + FOLDS
MOST_KERNEL_ROWS: Final = 4096
"""Rows up to which a fit may work on them in place of columns: the kernel has their square."""
_FACTOR_BITS: Final = 18
"""Bits of what is multiplied with scaled numbers or with the kernel."""
_KERNEL_BITS: Final = 22
_FIRST_PENALTY: Final = 64.0
"""Of the mean square of rows: with it, scores are nearly the shares of labels."""
_PENALTY_STEP: Final = 0.25
_PENALTIES: Final = 14
_WORSE: Final = 2
"""Penalties in a row that are worse than the best one before the path ends."""
_PATH_STEPS: Final = 6
_LAST_STEPS: Final = 14
_MEMORY: Final = 6
"""Steps that L-BFGS remembers."""
_CONSTANT: Final = 4.0
"""The constant column, in roots of the mean square of rows: large, so that its penalty hardly counts."""
_MOST_LOSS: Final = 13.0
"""Nats that a row on a fold left out adds at most, where penalties are compared."""
_HALVINGS: Final = 4
_LEAST_CURVATURE: Final = 0.1
"""Of the penalty, below which the curvature along a step is rounding."""


class Targets(Protocol):
    """What is fitted to, and its loss; rows are in the order of the fit."""

    @property
    def outputs(self) -> int:
        """How many scores a row has."""

    def slopes(self, scores: Floats, weights: Floats) -> Slopes:
        """Return the loss of rows with these weights, its slopes and what curvatures are made of."""

    def curvature(self, slopes: Slopes, direction: Floats, weights: Floats) -> float:
        """Return the second derivative of the loss along a direction of scores: (m, outputs)."""

    def held_out_loss(self, scores: Floats, weights: Floats) -> float:
        """Return the loss of rows that were left out."""


class Slopes(NamedTuple):
    """The loss, its derivative by each score, and the shares of labels."""

    loss: float
    residuals: Floats
    shares: Floats


@dataclass(frozen=True)
class LabelTargets:
    """Labels: of two, the score is that of the second one."""

    labels: NDArray[np.int32]
    outputs: int

    def slopes(self, scores: Floats, weights: Floats) -> Slopes:
        """Return the loss, its slopes and the shares of labels."""
        shares = np.empty(scores.shape)
        loss = _native.label_shares(_whole_scores(scores), self.labels, weights, np.inf, shares.reshape(-1))
        return Slopes(loss, (shares - self._observed) * weights[:, None], shares)

    def curvature(self, slopes: Slopes, direction: Floats, weights: Floats) -> float:
        """Return the variance of the direction under the shares, summed over rows."""
        shares = slopes.shares
        if self.outputs == 1:
            return _sum(shares * (1 - shares) * direction**2 * weights[:, None])
        mean = (shares * direction).sum(axis=1)
        return _sum(((shares * direction**2).sum(axis=1) - mean**2) * weights)

    def held_out_loss(self, scores: Floats, weights: Floats) -> float:
        """Return the sum of the losses, none above a most."""
        shares = np.empty(scores.shape)
        return _native.label_shares(_whole_scores(scores), self.labels, weights, _MOST_LOSS, shares.reshape(-1))

    @property
    def _observed(self) -> NDArray[np.bool_]:
        of_outputs = np.ones(1, int) if self.outputs == 1 else np.arange(self.outputs)
        return np.asarray(self.labels[:, None] == of_outputs)


@dataclass(frozen=True)
class NumberTargets:
    """Numbers of mean zero and spread one, and half of the squared error."""

    numbers: Floats
    outputs: int = 1

    def slopes(self, scores: Floats, weights: Floats) -> Slopes:
        """Return the loss and its slopes."""
        left = scores[:, 0] - self.numbers
        return Slopes(0.5 * _sum(weights * left**2), (weights * left)[:, None], scores)

    def curvature(self, slopes: Slopes, direction: Floats, weights: Floats) -> float:  # noqa: ARG002
        """Return the sum of the squares of the direction."""
        return _sum(weights * direction[:, 0] ** 2)

    def held_out_loss(self, scores: Floats, weights: Floats) -> float:
        """Return half of the squared error."""
        return self.slopes(scores, weights).loss


class _Vector(NamedTuple):
    """A direction of all fits: coordinates, what inner products take in their place, and scores of rows."""

    coordinates: Floats
    image: Floats
    scores: Floats

    def plus(self, other: _Vector, factor: Floats) -> _Vector:
        """Return it with so much of another one added; one factor for each column."""
        return _Vector(*(mine + factor * theirs for mine, theirs in zip(self, other, strict=True)))


class _Move(NamedTuple):
    """A step, the change of the gradient, one over their product, and the product over the square of the change."""

    move: _Vector
    change: _Vector
    inverses: Floats
    scales: Floats


class _Space(Protocol):
    """Where coordinates live: on rows, or on columns."""

    size: int

    def gradient(self, residuals: Floats, position: _Vector, penalty: float) -> _Vector:
        """Return the gradient of the penalised loss, in the metric of the penalty."""

    def coefficients(self, position: _Vector) -> tuple[Floats, Floats]:
        """Return coefficients of scaled numbers, (q, fits times outputs), and of the constant column."""


class _RowSpace:
    """Coordinates are the factors of rows: inner products and scores take the kernel."""

    def __init__(self, matrix: Any, constant: float) -> None:
        self._matrix = matrix
        self._constant = constant
        self.size = matrix.shape[0]
        products = matrix @ matrix.T
        kernel = np.asarray(products if isinstance(products, np.ndarray) else products.toarray(), np.float64)
        # whole numbers: exact up to here, then rounded so that products with factors are exact, too
        kernel += round((constant * UNIT) ** 2)
        self._exponent = int(np.frexp(kernel.diagonal().max(initial=1.0))[1]) - _KERNEL_BITS
        self._kernel = np.rint(np.ldexp(kernel, -self._exponent))

    def gradient(self, residuals: Floats, position: _Vector, penalty: float) -> _Vector:
        coordinates = residuals + penalty * position.coordinates
        whole, exponents = _round(coordinates)
        image = np.ldexp(self._kernel @ whole, exponents + self._exponent) / UNIT**2
        return _Vector(coordinates, image, image)

    def coefficients(self, position: _Vector) -> tuple[Floats, Floats]:
        whole, exponents = _round(position.coordinates)
        found = np.ldexp(self._matrix.T @ whole, exponents) / UNIT
        return found, np.ldexp(whole.sum(axis=0), exponents) * self._constant


class _ColumnSpace:
    """Coordinates are coefficients of columns; the last one is that of the constant column."""

    def __init__(self, matrix: Any, constant: float) -> None:
        self._matrix = matrix
        self._turned = matrix.T if isinstance(matrix, np.ndarray) else matrix.T.tocsr()
        self._constant = constant
        self.size = matrix.shape[1] + 1

    def gradient(self, residuals: Floats, position: _Vector, penalty: float) -> _Vector:
        whole, exponents = _round(residuals)
        slopes = np.ldexp(self._turned @ whole, exponents) / UNIT
        of_constant = np.ldexp(whole.sum(axis=0), exponents) * self._constant
        coordinates = np.vstack([slopes, of_constant]) + penalty * position.coordinates
        whole, exponents = _round(coordinates)
        scores = np.ldexp(self._matrix @ whole[:-1], exponents) / UNIT + coordinates[-1] * self._constant
        return _Vector(coordinates, coordinates, scores)

    def coefficients(self, position: _Vector) -> tuple[Floats, Floats]:
        return position.coordinates[:-1], position.coordinates[-1]


def fit_scores(scaling: Scaling, matrix: Any, targets: Targets, counts: Ints, folds: Ints) -> LinearScores:
    """Return the scores that are fitted to rows in these units, which occur so often and lie in these folds.

    Shapes
    ------
    matrix : (m, q), from `Scaling.matrix`; counts, folds : (m,)
    """
    mean_square = _mean_square(matrix)
    constant = round(_CONSTANT * np.sqrt(mean_square) * UNIT) / UNIT
    m, q = matrix.shape
    space: _Space = _RowSpace(matrix, constant) if m <= min(q, MOST_KERNEL_ROWS) else _ColumnSpace(matrix, constant)
    fits = [np.where(folds == fold, 0, counts).astype(np.float64) for fold in range(-1, FOLDS)]
    left_out = [np.where(folds == fold, counts, 0).astype(np.float64) for fold in range(FOLDS)]
    descent = _Descent(space, targets, fits)
    best_loss = np.inf
    best = descent.position
    best_penalty = penalty = _FIRST_PENALTY * mean_square
    n_worse = 0
    for _ in range(_PENALTIES):
        descent.go(penalty, _PATH_STEPS)
        loss = sum(targets.held_out_loss(descent.scores(1 + fold), left_out[fold]) for fold in range(FOLDS))
        if loss < best_loss:
            best_loss, best_penalty, best, n_worse = loss, penalty, descent.position, 0
        else:
            n_worse += 1
        if n_worse == _WORSE:
            break
        penalty *= _PENALTY_STEP
    descent.start_at(best)
    descent.go(best_penalty, _LAST_STEPS)
    return _round_scores(scaling, *space.coefficients(descent.position), targets.outputs, constant)


class _Descent:
    """Steps of L-BFGS for all fits at once."""

    def __init__(self, space: _Space, targets: Targets, weights: list[Floats]) -> None:
        self._space = space
        self._targets = targets
        self._weights = weights
        nothing = np.zeros((space.size, FITS * targets.outputs))
        self.start_at(_Vector(nothing, nothing, np.zeros((len(weights[0]), FITS * targets.outputs))))

    def start_at(self, position: _Vector) -> None:
        """Begin there, without a memory of steps."""
        self.position = position
        self._slopes = [self._slopes_of(fit, position.scores) for fit in range(FITS)]

    def scores(self, fit: int) -> Floats:
        """Return the scores of one of the fits: (m, outputs)."""
        return self._part(self.position.scores, fit)

    def go(self, penalty: float, steps: int) -> None:
        """Take so many steps towards the minimum of the loss with this penalty."""
        moves: list[_Move] = []
        before = None
        move = None
        for _ in range(steps):
            residuals = np.hstack([slopes.residuals for slopes in self._slopes])
            gradient = self._space.gradient(residuals, self.position, penalty)
            if before is not None and move is not None:
                change = gradient.plus(before, -np.ones(1))
                moves = [*moves, self._remember(move, change, penalty)][-_MEMORY:]
            direction = self._direction(gradient, moves)
            lengths = self._lengths(gradient, direction, penalty)
            before = gradient
            factor = self._spread(lengths)
            move = _Vector(*(factor * part for part in direction))
            self.position = self.position.plus(direction, factor)
            self._slopes = [self._slopes_of(fit, self.position.scores) for fit in range(FITS)]

    def _remember(self, move: _Vector, change: _Vector, penalty: float) -> _Move:
        """Return a step and the change of the gradient along it; without effect for fits that it taught nothing.

        Along any step the penalty alone changes the gradient by itself times the step. What is less is rounding: the
        fit has arrived.
        """
        products = self._inner(move, change)
        squares = self._inner(move, move)
        is_sound = (squares > 0) & (products > _LEAST_CURVATURE * penalty * squares)
        inverses = np.where(is_sound, 1 / np.where(is_sound, products, 1.0), 0.0)
        changes = self._inner(change, change)
        is_known = is_sound & (changes > 0)
        scales = np.where(is_known, products / np.where(is_known, changes, 1.0), 1.0)
        return _Move(move, change, inverses, scales)

    def _direction(self, gradient: _Vector, moves: list[_Move]) -> _Vector:
        """Return minus the gradient, bent by the steps before: the two loops of L-BFGS."""
        found = _Vector(*(-part for part in gradient))
        factors = []
        for before in reversed(moves):
            factors.append(self._inner(before.move, found) * before.inverses)
            found = found.plus(before.change, self._spread(-factors[-1]))
        if moves:
            found = _Vector(*(self._spread(moves[-1].scales) * part for part in found))
        for before, factor in zip(moves, reversed(factors), strict=True):
            back = self._inner(before.change, found) * before.inverses
            found = found.plus(before.move, self._spread(factor - back))
        return found

    def _lengths(self, gradient: _Vector, direction: _Vector, penalty: float) -> Floats:
        """Return how far to go: one step of Newton along the direction, halved while the loss rises."""
        slopes = self._inner(gradient, direction)
        squares = self._inner(direction, direction)
        inner = self._inner(self.position, direction)
        found = np.zeros(FITS)
        for fit in range(FITS):
            along = self._part(direction.scores, fit)
            curvature = self._targets.curvature(self._slopes[fit], along, self._weights[fit]) + penalty * squares[fit]
            if not slopes[fit] < 0 or not curvature > 0:
                continue  # at the minimum, up to rounding
            length = -slopes[fit] / curvature
            here = self.scores(fit)
            for _ in range(_HALVINGS):
                after = self._targets.slopes(here + length * along, self._weights[fit]).loss
                more = penalty * length * (inner[fit] + 0.5 * length * squares[fit])
                if after + more <= self._slopes[fit].loss:
                    found[fit] = length
                    break
                length *= 0.5
        return found

    def _slopes_of(self, fit: int, scores: Floats) -> Slopes:
        return self._targets.slopes(self._part(scores, fit), self._weights[fit])

    def _part(self, columns: Floats, fit: int) -> Floats:
        outputs = self._targets.outputs
        return np.ascontiguousarray(columns[:, fit * outputs : (fit + 1) * outputs])

    def _inner(self, left: _Vector, right: _Vector) -> Floats:
        products = np.add.reduce(left.coordinates * right.image, axis=0)
        return np.asarray(products.reshape(FITS, -1).sum(axis=1))

    def _spread(self, factors: Floats) -> Floats:
        return np.repeat(factors, self._targets.outputs)


def _round_scores(
    scaling: Scaling, coefficients: Floats, of_constant: Floats, outputs: int, constant: float
) -> LinearScores:
    """Return functions whose coefficients are whole numbers."""
    q = len(coefficients)
    largest = max(float(np.abs(coefficients).max(initial=0.0)), 2.0**-30)
    bits = COEFFICIENT_BITS - int(np.frexp(largest)[1])
    whole = np.rint(np.ldexp(coefficients, bits)).astype(np.int32).reshape(q, FITS, outputs)
    exponent = bits + int(np.log2(UNIT))  # scores are sums of coefficients times parts of a spread
    constants = np.rint(np.ldexp(of_constant * constant, exponent)).astype(np.int64).reshape(FITS, outputs)
    return LinearScores(scaling, np.ascontiguousarray(whole.transpose(1, 0, 2)), constants, exponent)


def _mean_square(matrix: Any) -> float:
    """Return the mean over rows of the sum of the squares of their scaled numbers, in squared spreads."""
    squares = np.einsum("ij,ij->i", matrix, matrix) if isinstance(matrix, np.ndarray) else matrix.power(2).sum(axis=1)
    return max(float(np.mean(squares)) / UNIT**2, 1.0)


def _round(factors: Floats) -> tuple[Floats, Ints]:
    """Return columns of factors as whole numbers, and the exponents of their units."""
    exponents = np.frexp(np.abs(factors).max(axis=0, initial=0.0))[1] - _FACTOR_BITS
    return np.rint(np.ldexp(factors, -exponents)), exponents


def _whole_scores(scores: Floats) -> Ints:
    return np.rint(np.clip(scores, -1e4, 1e4) * NAT).astype(np.int64)


def _sum(numbers: Floats) -> float:
    return float(np.add.reduce(numbers.ravel()))
