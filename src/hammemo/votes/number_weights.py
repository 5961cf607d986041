"""The weights of trees of numbers and of their parts, and the errors that they leave of rows that they have not seen.

Trees say of each row what they know without it: the row did not grow them, and its own share is taken out of their
cells. One thing is still fitted to the row: the weights, some twenty numbers. With thousands of rows that is nothing.
With twenty rows, weights that were fitted to a row make its error smaller than that of a new row. So the errors of few
rows are *crossed*: those of the rows of a fold are left by weights that were fitted to the other folds.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import fsum, sqrt
from typing import TYPE_CHECKING, Final

import numpy as np

from hammemo.features.additive.base_folds import FOLDS
from hammemo.features.cells.nonnegative import nonnegative_solution
from hammemo.features.cells.number_trees import fitted_weights, weighted

if TYPE_CHECKING:
    from hammemo._arrays.types import Floats, Ints, Words

_RIDGE: Final = 1e-6
_PULL: Final = 1e-3
_MOST_CROSSED_ROWS: Final = 40
"""Rows up to which errors are crossed. By a trial on the tables of ``benchmarks/intervals.py``: intervals of 95 % hold
.89 to .95 of the targets with 20 rows and errors that are not crossed, .935 to .967 with crossed ones; with 50 rows,
they hold .95 to .97 without.
"""


@dataclass(frozen=True, eq=False)
class UnseenRows:
    """Rows, and what each part of a model says of them without them.

    Parameters
    ----------
    targets : ndarray of float64, shape (m,)
        In units, less the mean of the layout.
    left : tuple of ndarray of int64, shape (m,)
        What the base, or the mean, leaves of each target: for each part.
    features : tuple of ndarray of float64, shape (m, `N_FEATURES`)
        What the trees of each part say of what is left.
    counts : ndarray of int64, shape (m,)
        How often each row occurs.
    words : ndarray of uint64, shape (m,)
        The hash of each row.
    """

    targets: Floats
    left: tuple[Ints, ...]
    features: tuple[Floats, ...]
    counts: Ints
    words: Words

    def __len__(self) -> int:
        return len(self.targets)

    def take(self, places: Ints) -> UnseenRows:
        """Return some of the rows."""
        return UnseenRows(
            targets=self.targets[places],
            left=tuple(left[places] for left in self.left),
            features=tuple(features[places] for features in self.features),
            counts=self.counts[places],
            words=self.words[places],
        )


@dataclass(frozen=True, eq=False)
class NumberWeights:
    """The weights of the trees of each part, shape (parts, `N_FEATURES`), and those of the parts."""

    weights: Floats
    blend: Floats

    def predict(self, rows: UnseenRows) -> Floats:
        """Return what is expected of rows, in units less the mean."""
        return weighted(np.column_stack(_predict_parts(rows, self.weights)), self.blend)


def fit_weights(rows: UnseenRows) -> NumberWeights:
    """Return the weights with the least squared error; those of the parts are pulled to equal ones."""
    weights = np.array(
        [
            fitted_weights(features, left, rows.counts, _RIDGE)
            for features, left in zip(rows.features, rows.left, strict=True)
        ]
    )
    said = _predict_parts(rows, weights)
    n = int(rows.counts.sum())
    m = len(said)
    pull = (1 + _PULL * sqrt(n)) ** 2 * max(
        _sum_products(rows.targets, rows.targets, rows.counts) / n, 1.0
    )
    gram = np.array([[_sum_products(one, other, rows.counts) for one in said] for other in said])
    wanted = np.array([_sum_products(one, rows.targets, rows.counts) for one in said])
    blend = nonnegative_solution(gram + pull * np.eye(m), wanted + pull / m)
    return NumberWeights(weights, blend)


def unseen_errors(rows: UnseenRows, fitted: NumberWeights) -> Floats:
    """Return the errors of rows by weights that were fitted to them or, of few rows, to the other folds."""
    if len(rows) > _MOST_CROSSED_ROWS:
        return rows.targets - fitted.predict(rows)
    folds = (rows.words % np.uint64(FOLDS)).astype(np.int64)
    errors = rows.left[0].astype(np.float64)  # where there is no other fold, the base alone
    for fold in range(FOLDS):
        inside = np.flatnonzero(folds == fold)
        outside = np.flatnonzero(folds != fold)
        if len(inside) and len(outside):
            own = rows.take(inside)
            errors[inside] = own.targets - fit_weights(rows.take(outside)).predict(own)
    return errors


def _predict_parts(rows: UnseenRows, weights: Floats) -> list[Floats]:
    """Return what each part, with its trees, expects of rows."""
    return [
        rows.targets - (left - weighted(features, own))
        for left, features, own in zip(rows.left, rows.features, weights, strict=True)
    ]


def _sum_products(one: Floats, other: Floats, counts: Ints) -> float:
    return fsum((one * other * counts).tolist())
