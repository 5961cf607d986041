r"""Weights that all labels share, by Newton's method, and the gain that more features promise.

Scores are :math:`s_{i,c} = \log p_c + \sum_f w_f x_{i,f,c}`. With probabilities P = softmax(s) and residuals R, one for
the label of a row and zero for the others less P, the log-loss has

.. math:: g_f = \sum_{i,c} R_{i,c} \, x_{i,f,c}, \qquad
    H_{f,e} = \sum_i \Bigl[ \sum_c P_{i,c} \, x_{i,f,c} \, x_{i,e,c}
    - \sum_c P_{i,c} \, x_{i,f,c} \sum_c P_{i,c} \, x_{i,e,c} \Bigr].

A step solves :math:`(H + 2 \lambda) \, \delta = g - 2 \lambda (w - w^0)`, with every starting weight :math:`w^0` one
over the number of features. Both g and H are sums over folds, so one more step without a fold gives weights that have
hardly seen it: scores of the fold by these are the *cross-fitted* ones. For features that are not in the scores yet,
:math:`\tfrac12 \, g^\top (H + 2 \lambda)^{-1} g` is what they promise to take off the loss, in nats: the score test.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

RIDGE = 5.0
"""How strongly weights are pulled towards where they start."""

_STEPS = 12
_FEW = 8
"""Below so many labels NumPy adds up a row from left to right: column by column gives the same number."""


def softmax(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the probabilities of scores, row by row."""
    largest = reduce(np.maximum, scores.T) if scores.shape[1] < _FEW else scores.max(axis=1)
    odds: NDArray[np.float64] = np.exp(scores - largest[:, None])
    odds /= row_sums(odds)[:, None]
    return odds


def row_sums(values: NDArray[Any]) -> NDArray[Any]:
    """Return the sums over the last axis; of few entries column by column, which takes a fraction of the time."""
    if values.shape[-1] >= _FEW:
        return np.asarray(values.sum(axis=-1))
    total = values[..., 0].copy()
    for column in range(1, values.shape[-1]):
        total += values[..., column]
    return total


@dataclass(frozen=True, eq=False)
class Residuals:
    """Probabilities of rows, and what the observed labels exceed them by.

    Shapes
    ------
    probabilities, residuals : (m, L), float32
    """

    probabilities: NDArray[np.float32]
    residuals: NDArray[np.float32]

    @classmethod
    def of(cls, scores: NDArray[np.float64], observed: NDArray[np.float32]) -> Residuals:
        """Return those of scores; `observed` has a one at each row's label."""
        probabilities = softmax(scores).astype(np.float32)
        return cls(probabilities, observed - probabilities)

    def promise(self, features: NDArray[np.float32]) -> tuple[float, NDArray[np.float64]]:
        """Return what these features would take off the loss, in nats, and the step that does so: the score test.

        Shapes
        ------
        features : (J, m, L); returned step : (J,)
        """
        expected = self.probabilities * features
        means = row_sums(expected)
        gradient = np.array([np.vdot(self.residuals, feature) for feature in features], np.float64)
        curvature = np.array(
            [
                [np.vdot(f, e) - np.vdot(mean_f, mean_e) for e, mean_e in zip(expected, means, strict=True)]
                for f, mean_f in zip(features, means, strict=True)
            ],
            np.float64,
        )
        step = np.asarray(np.linalg.solve(curvature + 2 * RIDGE * np.eye(len(features)), gradient), np.float64)
        return 0.5 * float(gradient @ step), step


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
        crossed = np.empty(self._shape)
        for fold, (first, last_row) in enumerate(pairwise(self._ends)):
            without = curvatures.sum(axis=0) - curvatures[fold], gradients.sum(axis=0) - gradients[fold]
            part = features[:, first * self._shape[1] : last_row * self._shape[1]]
            crossed[first:last_row] = self._scores(part, best + _newton(*without, best - even))
        return best, crossed

    def loss(self, probabilities: NDArray[np.float64], least: float = 1e-12) -> NDArray[np.float64]:
        """Return the loss of each row."""
        return np.asarray(-np.log(probabilities[np.arange(len(self._labels)), self._labels] + least))

    def _scores(self, features: NDArray[np.float32], weights: NDArray[np.float64]) -> NDArray[np.float64]:
        linear = (weights.astype(np.float32) @ features).reshape(-1, self._shape[1])
        return np.asarray(linear + self._base, np.float64)

    def _by_fold(
        self, features: NDArray[np.float32], probabilities: NDArray[np.float32]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the gradient of each fold, and its curvature."""
        residuals = self.observed - probabilities
        gradients, curvatures, n_labels = [], [], self._shape[1]
        for first, last in pairwise(self._ends):
            part = features[:, first * n_labels : last * n_labels]
            expected = part * probabilities[first:last].ravel()
            means = row_sums(expected.reshape(len(part), last - first, n_labels))
            curvatures.append((expected @ part.T - means @ means.T).astype(np.float64))
            gradients.append((part @ residuals[first:last].ravel()).astype(np.float64))
        return np.array(gradients), np.array(curvatures)


def _newton(
    curvature: NDArray[np.float64], gradient: NDArray[np.float64], away: NDArray[np.float64]
) -> NDArray[np.float64]:
    ridge = 2 * RIDGE
    return np.asarray(np.linalg.solve(curvature + ridge * np.eye(len(gradient)), gradient - ridge * away))
