r"""Weights that all labels share, by Newton's method, and the gain that more features promise.

Scores are :math:`s_{i,c} = \log p_c + \sum_f w_f x_{i,f,c}`. With probabilities P = softmax(s),
residuals R, one for the label of a row and zero for the others less P, and features *centred* under
the probabilities of their row, :math:`z_{i,f,c} = x_{i,f,c} - \sum_b P_{i,b} \, x_{i,f,b}`, the
log-loss has

.. math:: g_f = \sum_{i,c} R_{i,c} \, z_{i,f,c}, \qquad
          H_{f,e} = \sum_{i,c} P_{i,c} \, z_{i,f,c} \, z_{i,e,c}.

H is computed as a matrix times its own transpose. The equal form "mean of the products less
product of the means" subtracts large numbers of nearly the same size: in single precision its H
has negative eigenvalues at 100,000 rows. With two labels one number a row is enough: :math:`x_1
- x_0`, with weight :math:`P_0 P_1`.

A step solves :math:`(H + 2 \lambda) \, \delta = g - 2 \lambda (w - w^0)`, with every starting
weight :math:`w^0` one over the number of features. Both g and H are sums over folds, so one more
step without a fold gives weights that have hardly seen it: scores of the fold by these are the
*cross-fitted* ones. A step that raises the loss of the rows it is made from is halved until it
does not. For features that are not in the scores yet, :math:`\tfrac12 \, g^\top (H + 2
\lambda)^{-1} g` is what they promise to take off the loss, in nats: the score test.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from hammemo import _native
from hammemo._arrays.threads import in_threads

if TYPE_CHECKING:
    from hammemo._arrays.types import Floats
    from hammemo.kernels.selection.site_features import Features

RIDGE: Final = 5.0
"""How strongly weights are pulled towards where they start."""

_CURVATURES: Final = 12
"""Curvatures, which cost most, that the first fit makes at most."""

_LATER_CURVATURES: Final = 2
"""The same for each fit after the first, which starts near its end."""

_TRIES: Final = 24
"""Steps, and halves of steps, of a fit."""

_HALVINGS: Final = 6
"""How often a cross-fitted step is halved before it is refused."""

_ROUNDING: Final = 1e-9
"""Nats by which a loss may rise and still count as not risen."""

_LEAST_GAIN: Final = 1e-4
"""Nats, times the root of the number of rows: a step that gains less is the last one."""


def compute_promises(gradients: Floats, curvatures: Floats) -> tuple[Floats, Floats]:
    """Return what groups of features would take off the loss, in nats, and the steps that do so.

    This is the score test.

    Shapes
    ------
    gradients : (groups, J); curvatures : (groups, J, J); returned : (groups,), (groups, J)
    """
    ridge = 2 * RIDGE * np.eye(gradients.shape[1])
    solutions = np.linalg.solve(curvatures + ridge, gradients[..., None])
    steps = np.asarray(solutions[..., 0], np.float64)
    return np.asarray(0.5 * (gradients * steps).sum(axis=1)), steps


class _SearchPosition(NamedTuple):
    """Weights at which gradient and curvature were computed.

    Parameters
    ----------
    weights : ndarray of float64, shape (F,)
    losses : ndarray of float64, shape (m,)
        The loss of each row.
    gradients : ndarray of float64, shape (folds, F)
    curvatures : ndarray of float64, shape (folds, F, F)
    """

    weights: Floats
    losses: Floats
    gradients: Floats
    curvatures: Floats


class SharedWeights:
    """Fits shared weights to rows that lie fold by fold.

    Parameters
    ----------
    features : Features
    ends : sequence of int
        Where the folds start and, at the end, the number of rows.
    """

    def __init__(self, features: Features, ends: list[int]) -> None:
        self._features = features
        self._ends = ends
        self._max_curvatures = _CURVATURES

    def fit(self, start: Floats) -> tuple[Floats, Floats]:
        """Return the weights of the first features and the cross-fitted scores.

        Shapes
        ------
        start : (F,); returned : (F,), (m, columns)
        """
        even = np.full(len(start), 1.0 / len(start))
        least_gain = _LEAST_GAIN * len(self._features.rows) ** 0.5
        position: _SearchPosition  # the first try sets it, as no loss is above an infinite one
        weights = start
        best_weights = start
        best_value = math.inf
        n_curvatures = 0
        for _ in range(_TRIES):
            probabilities, losses = self._features.softmax(self._features.scores(weights))
            value = float(losses.sum() + _penalty(weights, even))
            if value > best_value + _ROUNDING:  # a step too long: half of it
                weights = (weights + best_weights) / 2
                continue
            gain = best_value - value
            best_weights = weights
            best_value = value
            if n_curvatures == self._max_curvatures or (n_curvatures > 0 and gain < least_gain):
                break
            gradients, curvatures = self._sum_folds(probabilities, len(start))
            position = _SearchPosition(weights, losses, gradients, curvatures)
            n_curvatures += 1
            step = _newton_step(
                curvatures.sum(axis=0), gradients.sum(axis=0), position.weights - even
            )
            weights = position.weights + step
        self._max_curvatures = _LATER_CURVATURES
        return best_weights, self._score_without_folds(position, even)

    def _score_without_folds(self, position: _SearchPosition, even: Floats) -> Floats:
        """Return the scores of each fold by the weights that a step without it gives."""

        def score_fold(fold: int) -> Floats:
            is_other = np.arange(len(position.gradients)) != fold
            step = _newton_step(
                position.curvatures[is_other].sum(axis=0),
                position.gradients[is_other].sum(axis=0),
                position.weights - even,
            )
            scores = self._score_after(step, position, even, fold)
            # a copy, so that the scores of the other rows can be freed
            return scores[self._ends[fold] : self._ends[fold + 1]].copy()

        return np.concatenate(in_threads(score_fold, range(len(self._ends) - 1)))

    def _score_after(
        self, step: Floats, position: _SearchPosition, even: Floats, fold: int
    ) -> Floats:
        """Return the scores after a step that does not raise the loss outside of the fold.

        The step is halved until it does not, or left out.

        Shapes
        ------
        step, even : (F,); returned : (m, columns)
        """
        is_outside = np.ones(len(position.losses), bool)
        is_outside[self._ends[fold] : self._ends[fold + 1]] = False

        def evaluate(weights: Floats, losses: Floats) -> float:
            return float(losses[is_outside].sum() + _penalty(weights, even))

        limit = evaluate(position.weights, position.losses) + _ROUNDING
        for halvings in range(_HALVINGS):
            weights = position.weights + step / 2**halvings
            scores = self._features.scores(weights)
            if evaluate(weights, self._features.softmax(scores)[1]) <= limit:
                return scores
        return self._features.scores(position.weights)

    def _sum_folds(self, probabilities: Floats, n_features: int) -> tuple[Floats, Floats]:
        """Return the gradient of each fold, and its curvature."""

        def sum_fold(ends: tuple[int, int]) -> tuple[Floats, Floats]:
            first, last = ends
            return self._features.sum_rows(probabilities, n_features, first=first, last=last)

        sums = in_threads(sum_fold, list(pairwise(self._ends)))
        gradients = np.array([gradient for gradient, _ in sums])
        curvatures = np.array([curvature for _, curvature in sums])
        return gradients, curvatures


def _penalty(weights: Floats, even: Floats) -> float:
    """Return what the distance of weights from where they start costs."""
    return float(RIDGE * ((weights - even) ** 2).sum())


def _newton_step(curvature: Floats, gradient: Floats, distance: Floats) -> Floats:
    """Return the step of Newton's method at weights that are so far from where they start."""
    ridge = 2 * RIDGE
    downhill = (gradient - ridge * distance)[None]
    step = np.empty((1, len(gradient)))
    if _native.solve_positive(curvature, ridge, downhill, step):
        return np.asarray(step[0])
    # not positive, by rounding
    return np.asarray(np.linalg.solve(curvature + ridge * np.eye(len(gradient)), downhill[0]))
