r"""Weights that all labels share, by Newton's method, and the gain that more features promise.

Scores are :math:`s_{i,c} = \log p_c + \sum_f w_f x_{i,f,c}`. With probabilities P = softmax(s), residuals R, one for
the label of a row and zero for the others less P, and features *centred* under the probabilities of their row,
:math:`z_{i,f,c} = x_{i,f,c} - \sum_b P_{i,b} \, x_{i,f,b}`, the log-loss has

.. math:: g_f = \sum_{i,c} R_{i,c} \, z_{i,f,c}, \qquad H_{f,e} = \sum_{i,c} P_{i,c} \, z_{i,f,c} \, z_{i,e,c}.

H is computed as a matrix times its own transpose. The equal form "mean of the products less product of the means"
subtracts large numbers of nearly the same size: in single precision its H has negative eigenvalues at 100,000 rows.
With two labels one number a row is enough: :math:`x_1 - x_0`, with weight :math:`P_0 P_1`.

A step solves :math:`(H + 2 \lambda) \, \delta = g - 2 \lambda (w - w^0)`, with every starting weight :math:`w^0` one
over the number of features. Both g and H are sums over folds, so one more step without a fold gives weights that have
hardly seen it: scores of the fold by these are the *cross-fitted* ones. A step that raises the loss of the rows it is
made from is halved until it does not. For features that are not in the scores yet,
:math:`\tfrac12 \, g^\top (H + 2 \lambda)^{-1} g` is what they promise to take off the loss, in nats: the score test.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from hammemo import _native
from hammemo._arrays.threads import in_threads

if TYPE_CHECKING:
    from hammemo._arrays.types import Floats
    from hammemo.kernels.selection.features import Features

RIDGE = 5.0
"""How strongly weights are pulled towards where they start."""

_CURVATURES = 12
_LATER_CURVATURES = 2
"""Curvatures, which cost most, that a fit makes at most; and those after the first, which start near their end."""
_TRIES = 24
"""Steps, and halves of steps, of a fit."""
_HALVINGS = 6
"""How often a cross-fitted step is halved before it is refused."""


def promises(gradients: Floats, curvatures: Floats) -> tuple[Floats, Floats]:
    """Return what groups of features would take off the loss, in nats, and the steps that do so: the score test.

    Shapes
    ------
    gradients : (groups, J); curvatures : (groups, J, J); returned : (groups,), (groups, J)
    """
    ridge = 2 * RIDGE * np.eye(gradients.shape[1])
    steps = np.asarray(np.linalg.solve(curvatures + ridge, gradients[..., None])[..., 0], np.float64)
    return np.asarray(0.5 * (gradients * steps).sum(axis=1)), steps


class SharedWeights:
    """Fits shared weights to rows that lie fold by fold.

    Parameters
    ----------
    features : Features
    ends : sequence of int
        Where the folds start and, at the end, the number of rows.
    """

    def __init__(self, features: Features, ends: list[int]) -> None:
        self._features, self._ends = features, ends
        self._most_curvatures = _CURVATURES

    def fit(self, start: Floats) -> tuple[Floats, Floats]:
        """Return the weights of the first features and the cross-fitted scores.

        Shapes
        ------
        start : (F,); returned : (F,), (m, columns)
        """
        even = np.full(len(start), 1.0 / len(start))
        enough = 1e-4 * len(self._features.rows) ** 0.5
        weights, best, last, made = start, start, np.inf, 0
        at, losses_there, gradients, curvatures = start, np.zeros(0), np.zeros((1, 0)), np.zeros((1, 0, 0))
        for _ in range(_TRIES):
            probabilities, losses = self._features.softmax(self._features.scores(weights))
            value = float(losses.sum() + RIDGE * ((weights - even) ** 2).sum())
            if value > last + 1e-9:  # a step too long: half of it
                weights = (weights + best) / 2
                continue
            is_last = made == self._most_curvatures or (made > 0 and last - value < enough)
            best, last = weights, value
            if is_last:
                break
            at, losses_there, made = weights, losses, made + 1
            gradients, curvatures = self._by_fold(probabilities, len(start))
            weights = at + _newton(curvatures.sum(axis=0), gradients.sum(axis=0), at - even)
        self._most_curvatures = _LATER_CURVATURES
        return best, self._crossed(at, losses_there, even, gradients, curvatures)

    def _crossed(self, at: Floats, losses: Floats, even: Floats, gradients: Floats, curvatures: Floats) -> Floats:
        """Return the scores of each fold by the weights that a step without it gives."""

        def without(fold: int) -> Floats:
            others = np.arange(len(gradients)) != fold
            step = _newton(curvatures[others].sum(axis=0), gradients[others].sum(axis=0), at - even)
            scores = self._shortened(at, losses, step, even, fold)
            return scores[self._ends[fold] : self._ends[fold + 1]].copy()  # the others are not needed any more

        return np.concatenate(in_threads(without, range(len(self._ends) - 1)))

    def _shortened(self, weights: Floats, losses: Floats, step: Floats, even: Floats, fold: int) -> Floats:
        """Return the scores after a step, halved until it does not raise the loss outside of the fold, or left out.

        Shapes
        ------
        weights, step, even : (F,); losses, those of the rows by the weights : (m,); returned : (m, columns)
        """
        outside = np.ones(len(losses), bool)
        outside[self._ends[fold] : self._ends[fold + 1]] = False

        def value(at: Floats, losses: Floats) -> float:
            return float(losses[outside].sum() + RIDGE * ((at - even) ** 2).sum())

        most = value(weights, losses) + 1e-9
        for halvings in range(_HALVINGS):
            at = weights + step / 2**halvings
            scores = self._features.scores(at)
            if value(at, self._features.softmax(scores)[1]) <= most:
                return scores
        return self._features.scores(weights)

    def _by_fold(self, probabilities: Floats, n_features: int) -> tuple[Floats, Floats]:
        """Return the gradient of each fold, and its curvature."""
        folds = list(pairwise(self._ends))
        sums = in_threads(lambda ends: self._features.sums(probabilities, n_features, *ends), folds)
        return np.array([gradient for gradient, _ in sums]), np.array([curvature for _, curvature in sums])


def _newton(curvature: Floats, gradient: Floats, away: Floats) -> Floats:
    ridge = 2 * RIDGE
    wanted, step = (gradient - ridge * away)[None], np.empty((1, len(gradient)))
    if _native.solve_positive(curvature, ridge, wanted, step):
        return np.asarray(step[0])
    return np.asarray(np.linalg.solve(curvature + ridge * np.eye(len(gradient)), wanted[0]))
