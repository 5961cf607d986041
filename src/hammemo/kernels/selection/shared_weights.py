r"""Weights that all labels share, by Newton's method, and the gain that more features promise.

Scores are :math:`s_{i,c} = \log p_c + \sum_f w_f x_{i,f,c}`. With probabilities P = softmax(s), residuals R, one for
the label of a row and zero for the others less P, and features *centred* under the probabilities of their row,
:math:`z_{i,f,c} = x_{i,f,c} - \sum_b P_{i,b} \, x_{i,f,b}`, the log-loss has

.. math:: g_f = \sum_{i,c} R_{i,c} \, z_{i,f,c}, \qquad H_{f,e} = \sum_{i,c} P_{i,c} \, z_{i,f,c} \, z_{i,e,c}.

H is computed as a matrix times its own transpose. The equal form "mean of the products less product of the means"
subtracts large numbers of nearly the same size: in single precision its H has negative eigenvalues at 100,000 rows.

A step solves :math:`(H + 2 \lambda) \, \delta = g - 2 \lambda (w - w^0)`, with every starting weight :math:`w^0` one
over the number of features. Both g and H are sums over folds, so one more step without a fold gives weights that have
hardly seen it: scores of the fold by these are the *cross-fitted* ones. A step that raises the loss of the rows it is
made from is halved until it does not. For features that are not in the scores yet,
:math:`\tfrac12 \, g^\top (H + 2 \lambda)^{-1} g` is what they promise to take off the loss, in nats: the score test.
"""

from __future__ import annotations

from functools import reduce
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

RIDGE = 5.0
"""How strongly weights are pulled towards where they start."""

_STEPS = 12
_HALVINGS = 6
"""How often a cross-fitted step is halved before it is refused."""
_BLOCK = 2**20
"""Features times rows times labels that are centred at a time: they fit the cache; blocks are added in float64."""
_UNROLLED_LABELS = 8
"""Labels below which NumPy adds up a row from left to right: column by column gives the same number."""


def softmax(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the probabilities of scores, row by row."""
    largest = reduce(np.maximum, scores.T) if scores.shape[1] < _UNROLLED_LABELS else scores.max(axis=1)
    odds: NDArray[np.float64] = np.exp(scores - largest[:, None])
    odds /= row_sums(odds)[:, None]
    return odds


def row_sums(values: NDArray[Any]) -> NDArray[Any]:
    """Return the sums over the last axis; of few entries column by column, which takes a fraction of the time."""
    if values.shape[-1] >= _UNROLLED_LABELS:
        return np.asarray(values.sum(axis=-1))
    total = values[..., 0].copy()
    for column in range(1, values.shape[-1]):
        total += values[..., column]
    return total


def centred_sums(
    features: NDArray[np.float32], probabilities: NDArray[np.float32], observed: NDArray[np.float32]
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return the gradient and the curvature of some rows; `observed` has a one at each row's label.

    Shapes
    ------
    features : (F, m, L); probabilities, observed : (m, L); returned : (F,), (F, F)
    """
    means = row_sums(features * probabilities)
    centred = (features - means[..., None]).reshape(len(features), -1)
    gradient = centred @ (observed - probabilities).ravel()
    centred *= np.sqrt(probabilities).ravel()
    return gradient, centred @ centred.T


def promises(
    gradients: NDArray[np.float64], curvatures: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
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
    labels : ndarray of shape (m,)
        Label ranks of the rows.
    ends : sequence of int
        Where the folds start and, at the end, m.
    prior : ndarray of shape (L,)
    """

    def __init__(self, labels: NDArray[np.int64], ends: list[int], prior: NDArray[np.float64]) -> None:
        self._labels, self._ends, self._base = labels, ends, np.log(prior)
        self._shape = (len(labels), len(prior))
        self.observed = np.zeros(self._shape, np.float32)
        self.observed[np.arange(len(labels)), labels] = 1

    def fit(
        self, features: NDArray[np.float32], start: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the weights and the cross-fitted scores.

        Shapes
        ------
        features : (F, m * L); start : (F,); returned : (F,), (m, L)
        """
        even = np.full(len(features), 1.0 / len(features))
        weights, best, last = start, start, np.inf
        gradients, curvatures = np.zeros((1, 0)), np.zeros((1, 0, 0))
        for step in range(_STEPS):
            probabilities = softmax(self._scores(features, weights))
            value = self.loss(probabilities, 1e-300).sum() + RIDGE * ((weights - even) ** 2).sum()
            if value > last + 1e-9:  # a step too long: half of it
                weights = (weights + best) / 2
                continue
            if step and last - value < 1e-4 * len(self._labels) ** 0.5:
                break
            best, last = weights, value
            gradients, curvatures = self._by_fold(features, probabilities.astype(np.float32))
            weights = best + _newton(curvatures.sum(axis=0), gradients.sum(axis=0), best - even)
        crossed, losses = np.empty(self._shape), self._losses(features, best)
        for fold, (first, last_row) in enumerate(pairwise(self._ends)):
            others = np.arange(len(gradients)) != fold
            newton = _newton(curvatures[others].sum(axis=0), gradients[others].sum(axis=0), best - even)
            weights = best + self._shortened(features, best, losses, newton, even, fold)
            part = features[:, first * self._shape[1] : last_row * self._shape[1]]
            crossed[first:last_row] = self._scores(part, weights)
        return best, crossed

    def _shortened(
        self,
        features: NDArray[np.float32],
        weights: NDArray[np.float64],
        losses: NDArray[np.float64],
        step: NDArray[np.float64],
        even: NDArray[np.float64],
        fold: int,
    ) -> NDArray[np.float64]:
        """Return a step halved until it does not raise the loss of the rows outside of the fold, or no step.

        Shapes
        ------
        weights, step, even, returned : (F,); losses, those of the rows by the weights : (m,)
        """
        outside = np.ones(len(self._labels), bool)
        outside[self._ends[fold] : self._ends[fold + 1]] = False

        def value(at: NDArray[np.float64], losses: NDArray[np.float64]) -> float:
            return float(losses[outside].sum() + RIDGE * ((at - even) ** 2).sum())

        most = value(weights, losses) + 1e-9
        for halvings in range(_HALVINGS):
            at = weights + step / 2**halvings
            if value(at, self._losses(features, at)) <= most:
                return np.asarray(step / 2**halvings)
        return np.zeros_like(step)

    def loss(self, probabilities: NDArray[np.float64], least: float = 1e-12) -> NDArray[np.float64]:
        """Return the loss of each row."""
        return np.asarray(-np.log(probabilities[np.arange(len(self._labels)), self._labels] + least))

    def _losses(self, features: NDArray[np.float32], weights: NDArray[np.float64]) -> NDArray[np.float64]:
        return self.loss(softmax(self._scores(features, weights)), 1e-300)

    def _scores(self, features: NDArray[np.float32], weights: NDArray[np.float64]) -> NDArray[np.float64]:
        linear = (weights.astype(np.float32) @ features).reshape(-1, self._shape[1])
        return np.asarray(linear + self._base, np.float64)

    def _by_fold(
        self, features: NDArray[np.float32], probabilities: NDArray[np.float32]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the gradient of each fold, and its curvature."""
        folds, n_features, n_labels = len(self._ends) - 1, len(features), self._shape[1]
        gradients, curvatures = np.zeros((folds, n_features)), np.zeros((folds, n_features, n_features))
        block = max(1, _BLOCK // (n_features * n_labels))
        for fold, (start, end) in enumerate(pairwise(self._ends)):
            for first in range(start, end, block):
                last = min(first + block, end)
                part = features[:, first * n_labels : last * n_labels].reshape(n_features, last - first, n_labels)
                gradient, curvature = centred_sums(part, probabilities[first:last], self.observed[first:last])
                gradients[fold] += gradient
                curvatures[fold] += curvature
        return gradients, curvatures


def _newton(
    curvature: NDArray[np.float64], gradient: NDArray[np.float64], away: NDArray[np.float64]
) -> NDArray[np.float64]:
    ridge = 2 * RIDGE
    return np.asarray(np.linalg.solve(curvature + ridge * np.eye(len(gradient)), gradient - ridge * away))
