r"""Steps of L-BFGS for several penalised fits at once, on rows or on columns.

The minimum of a penalised loss lies in the span of the rows, :math:`w = \sum_i a_i z_i`. So with
fewer rows than columns the fits work on a, with the *kernel* :math:`K = Z Z^\top` in place of the
columns, which costs as much for 100,000 columns as for none; with more rows than columns they work
on w. Either way they take steps of L-BFGS [1]_ in the metric of the penalty. There are `FITS` fits,
to all rows and without each fold, which share every matrix product.

The factors of all matrix products are rounded to whole numbers so small that sums of products stay
below 2^53: BLAS adds them up exactly, so coefficients do not depend on the processor or on threads.

.. [1] Liu and Nocedal (1989), On the limited memory BFGS method for large scale optimization.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

import numpy as np

from hammemo.features.additive.base_folds import FOLDS
from hammemo.features.wide.scaling import UNIT

if TYPE_CHECKING:
    from hammemo._arrays.types import Floats, Ints
    from hammemo.features.wide.score_targets import Slopes, Targets

FITS: Final = 1 + FOLDS
"""A fit to all rows, and one without each fold."""

MOST_KERNEL_ROWS: Final = 4096
"""Rows up to which a fit may work on them in place of columns: the kernel has their square."""

_FACTOR_BITS: Final = 18
"""Bits of what is multiplied with scaled numbers or with the kernel."""

_KERNEL_BITS: Final = 22
"""Bits of the numbers of the kernel."""

_MEMORY: Final = 6
"""Steps that L-BFGS remembers."""

_HALVINGS: Final = 4
"""How often a step is halved before it is refused."""

_LEAST_CURVATURE: Final = 0.1
"""Of the penalty, below which the curvature along a step is rounding."""


class Vector(NamedTuple):
    """A direction of all fits.

    Parameters
    ----------
    coordinates : ndarray of float64, shape (size, fits times outputs)
        On rows or on columns.
    image : ndarray of float64
        What inner products take in place of the coordinates of the other vector.
    scores : ndarray of float64, shape (m, fits times outputs)
        What the direction adds to the scores of rows.
    """

    coordinates: Floats
    image: Floats
    scores: Floats

    def plus(self, other: Vector, factor: Floats) -> Vector:
        """Return the vector with so much of another one added; one factor for each column."""
        return Vector(
            coordinates=self.coordinates + factor * other.coordinates,
            image=self.image + factor * other.image,
            scores=self.scores + factor * other.scores,
        )

    def scale(self, factor: Floats) -> Vector:
        """Return the vector times a factor for each column."""
        return Vector(
            coordinates=factor * self.coordinates,
            image=factor * self.image,
            scores=factor * self.scores,
        )


class _Move(NamedTuple):
    """A step that L-BFGS remembers.

    Parameters
    ----------
    move : Vector
        The step.
    change : Vector
        The change of the gradient along it.
    inverses : ndarray of float64, shape (fits,)
        One over the product of both; 0 for fits that the step taught nothing.
    scales : ndarray of float64, shape (fits,)
        The product of both over the square of the change.
    """

    move: Vector
    change: Vector
    inverses: Floats
    scales: Floats


class Space(Protocol):
    """Where coordinates live: on rows, or on columns."""

    size: int

    def gradient(self, residuals: Floats, position: Vector, penalty: float) -> Vector:
        """Return the gradient of the penalised loss, in the metric of the penalty."""

    def coefficients(self, position: Vector) -> tuple[Floats, Floats]:
        """Return coefficients of scaled numbers, and of the constant column.

        Shapes
        ------
        returned : (q, fits times outputs), (fits times outputs,)
        """


class _RowSpace:
    """Coordinates are the factors of rows: inner products and scores take the kernel."""

    def __init__(self, matrix: Any, constant: float) -> None:
        self._matrix = matrix
        self._constant = constant
        self.size = matrix.shape[0]
        products = matrix @ matrix.T
        if not isinstance(products, np.ndarray):
            products = products.toarray()
        kernel = np.asarray(products, np.float64)
        # whole numbers: exact up to here, then rounded so that products with factors are exact, too
        kernel += round((constant * UNIT) ** 2)
        largest = kernel.diagonal().max(initial=1.0)
        self._exponent = int(np.frexp(largest)[1]) - _KERNEL_BITS
        self._kernel = np.rint(np.ldexp(kernel, -self._exponent))

    def gradient(self, residuals: Floats, position: Vector, penalty: float) -> Vector:
        coordinates = residuals + penalty * position.coordinates
        factors, exponents = _round(coordinates)
        image = np.ldexp(self._kernel @ factors, exponents + self._exponent) / UNIT**2
        return Vector(coordinates, image, image)

    def coefficients(self, position: Vector) -> tuple[Floats, Floats]:
        factors, exponents = _round(position.coordinates)
        coefficients = np.ldexp(self._matrix.T @ factors, exponents) / UNIT
        return coefficients, np.ldexp(factors.sum(axis=0), exponents) * self._constant


class _ColumnSpace:
    """Coordinates are coefficients of columns; the last one is that of the constant column."""

    def __init__(self, matrix: Any, constant: float) -> None:
        self._matrix = matrix
        self._turned = matrix.T if isinstance(matrix, np.ndarray) else matrix.T.tocsr()
        self._constant = constant
        self.size = matrix.shape[1] + 1

    def gradient(self, residuals: Floats, position: Vector, penalty: float) -> Vector:
        factors, exponents = _round(residuals)
        slopes = np.ldexp(self._turned @ factors, exponents) / UNIT
        constant_slopes = np.ldexp(factors.sum(axis=0), exponents) * self._constant
        coordinates = np.vstack([slopes, constant_slopes]) + penalty * position.coordinates
        factors, exponents = _round(coordinates)
        scores = np.ldexp(self._matrix @ factors[:-1], exponents) / UNIT
        return Vector(coordinates, coordinates, scores + coordinates[-1] * self._constant)

    def coefficients(self, position: Vector) -> tuple[Floats, Floats]:
        return position.coordinates[:-1], position.coordinates[-1]


def choose_space(matrix: Any, constant: float) -> Space:
    """Return the space in which fits to scaled rows cost less.

    `constant` is the number of all rows in the constant column.
    """
    n_rows, n_columns = matrix.shape
    if n_rows <= min(n_columns, MOST_KERNEL_ROWS):
        return _RowSpace(matrix, constant)
    return _ColumnSpace(matrix, constant)


class Descent:
    """Steps of L-BFGS for all fits at once.

    Parameters
    ----------
    space : Space
    targets : Targets
    weights : list of ndarray of float64
        The weights of rows in each fit.
    """

    def __init__(self, space: Space, targets: Targets, weights: list[Floats]) -> None:
        self._space = space
        self._targets = targets
        self._weights = weights
        n_columns = FITS * targets.outputs
        zeros = np.zeros((space.size, n_columns))
        self.move_to(Vector(zeros, zeros, np.zeros((len(weights[0]), n_columns))))

    def move_to(self, position: Vector) -> None:
        """Go to a position."""
        self.position = position
        self._slopes = [self._compute_slopes(fit) for fit in range(FITS)]

    def scores(self, fit: int) -> Floats:
        """Return the scores of one of the fits: (m, outputs)."""
        return self._select_fit(self.position.scores, fit)

    def descend(self, penalty: float, steps: int) -> None:
        """Take so many steps towards the minimum of the loss with this penalty."""
        moves: list[_Move] = []
        last_gradient = None
        last_move = None
        for _ in range(steps):
            residuals = np.hstack([slopes.residuals for slopes in self._slopes])
            gradient = self._space.gradient(residuals, self.position, penalty)
            if last_gradient is not None and last_move is not None:
                change = gradient.plus(last_gradient, -np.ones(1))
                moves = [*moves, self._remember(last_move, change, penalty)][-_MEMORY:]
            direction = self._choose_direction(gradient, moves)
            lengths = self._choose_lengths(gradient, direction, penalty)
            factors = self._repeat(lengths)
            last_gradient = gradient
            last_move = direction.scale(factors)
            self.move_to(self.position.plus(direction, factors))

    def _remember(self, move: Vector, change: Vector, penalty: float) -> _Move:
        """Return a step and the change of the gradient along it.

        It has no effect for fits that it taught nothing: along any step the penalty alone changes
        the gradient by itself times the step. What is less is rounding: the fit has arrived.
        """
        products = self._inner(move, change)
        squares = self._inner(move, move)
        is_sound = (squares > 0) & (products > _LEAST_CURVATURE * penalty * squares)
        inverses = np.where(is_sound, 1 / np.where(is_sound, products, 1.0), 0.0)
        changes = self._inner(change, change)
        has_scale = is_sound & (changes > 0)
        scales = np.where(has_scale, products / np.where(has_scale, changes, 1.0), 1.0)
        return _Move(move, change, inverses, scales)

    def _choose_direction(self, gradient: Vector, moves: list[_Move]) -> Vector:
        """Return minus the gradient, bent by the steps before: the two loops of L-BFGS."""
        direction = gradient.scale(-np.ones(1))
        factors = []
        for step in reversed(moves):
            factors.append(self._inner(step.move, direction) * step.inverses)
            direction = direction.plus(step.change, self._repeat(-factors[-1]))
        if moves:
            direction = direction.scale(self._repeat(moves[-1].scales))
        for step, factor in zip(moves, reversed(factors), strict=True):
            back = self._inner(step.change, direction) * step.inverses
            direction = direction.plus(step.move, self._repeat(factor - back))
        return direction

    def _choose_lengths(self, gradient: Vector, direction: Vector, penalty: float) -> Floats:
        """Return how far each fit goes along the direction.

        It is one step of Newton, halved while the loss rises.
        """
        slopes = self._inner(gradient, direction)
        squares = self._inner(direction, direction)
        inner = self._inner(self.position, direction)
        lengths = np.zeros(FITS)
        for fit in range(FITS):
            weights = self._weights[fit]
            before = self._slopes[fit]
            along = self._select_fit(direction.scores, fit)
            curvature = self._targets.curvature(before, along, weights) + penalty * squares[fit]
            if not slopes[fit] < 0 or not curvature > 0:
                continue  # at the minimum, up to rounding
            length = -slopes[fit] / curvature
            scores = self.scores(fit)
            for _ in range(_HALVINGS):
                loss = self._targets.slopes(scores + length * along, weights).loss
                added_penalty = penalty * length * (inner[fit] + 0.5 * length * squares[fit])
                if loss + added_penalty <= before.loss:
                    lengths[fit] = length
                    break
                length *= 0.5
        return lengths

    def _compute_slopes(self, fit: int) -> Slopes:
        return self._targets.slopes(self.scores(fit), self._weights[fit])

    def _select_fit(self, columns: Floats, fit: int) -> Floats:
        """Return the columns of one of the fits."""
        outputs = self._targets.outputs
        return np.ascontiguousarray(columns[:, fit * outputs : (fit + 1) * outputs])

    def _inner(self, left: Vector, right: Vector) -> Floats:
        """Return the inner product of two vectors, fit by fit: (fits,)."""
        products = np.add.reduce(left.coordinates * right.image, axis=0)
        return np.asarray(products.reshape(FITS, -1).sum(axis=1))

    def _repeat(self, factors: Floats) -> Floats:
        """Return one factor for each column, of one for each fit."""
        return np.repeat(factors, self._targets.outputs)


def _round(factors: Floats) -> tuple[Floats, Ints]:
    """Return columns of factors as whole numbers, and the exponents of their units."""
    exponents = np.frexp(np.abs(factors).max(axis=0, initial=0.0))[1] - _FACTOR_BITS
    return np.rint(np.ldexp(factors, -exponents)), exponents
