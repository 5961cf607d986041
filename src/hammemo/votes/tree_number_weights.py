r"""The weights of trees of numbers and of the parts of a model, and the errors that they leave.

A model of numbers is a blend of *parts*: an additive base with trees of what it leaves, and a mean
with trees of what that leaves. With :math:`l_{p,i}` what part p leaves of the target :math:`y_i`
without its trees, and :math:`\phi_{p,i}` what its trees say of it, the part expects

.. math:: e_{p,i} = y_i - l_{p,i} + \phi_{p,i} \cdot u_p,

and the model :math:`\sum_p v_p \, e_{p,i}`. :func:`fit_weights` fits :math:`u_p` by least squares,
then v.

Trees say of each row what they know without it: the row did not grow them, and its own share is
taken out of their cells. One thing is still fitted to the row: the weights, some twenty numbers.
With thousands of rows that is nothing. With twenty rows, weights that were fitted to a row make its
error smaller than that of a new row. So the errors of few rows are *crossed*: those of the rows of
a fold are left by weights that were fitted to the other folds.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import fsum, sqrt
from typing import TYPE_CHECKING, Final

import numpy as np

from hammemo.features.additive.base_folds import FOLDS
from hammemo.features.cells.nonnegative import solve_nonnegative
from hammemo.features.cells.number_trees import fit_feature_weights, sum_weighted

if TYPE_CHECKING:
    from hammemo._arrays.types import Floats, Ints, Words

_RIDGE: Final = 1e-6
"""The ridge of the weights of trees, which makes the solution unique."""

_PULL: Final = 1e-3
"""How strongly the weights of the parts are pulled to equal ones, with many rows. With n rows the
squared deviation costs ``(1 + _PULL sqrt(n))^2`` mean squared targets: as much as one row
where rows are few, and a millionth of all rows where they are many."""

_MOST_CROSSED_ROWS: Final = 40
"""Rows up to which errors are crossed. By a trial on the tables of ``benchmarks/intervals.py``:
intervals of 95 % hold .89 to .95 of the targets with 20 rows and errors that are not crossed, .935
to .967 with crossed ones; with 50 rows, they hold .95 to .97 without.
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
    """The weights of a model of numbers."""

    weights: Floats
    """Of the trees of each part: (parts, `N_FEATURES`)."""
    blend: Floats
    """Of the parts: (parts,)."""

    def predict(self, rows: UnseenRows) -> Floats:
        """Return what is expected of rows, in units less the mean."""
        return sum_weighted(np.column_stack(_predict_parts(rows, self.weights)), self.blend)


def fit_weights(rows: UnseenRows) -> NumberWeights:
    r"""Return the weights with the least squared error; those of parts are pulled to equal ones.

    The weights v of the P parts, none negative, minimise
    :math:`\sum_i m_i (y_i - \sum_p v_p e_{p,i})^2 + s \sum_p (v_p - 1/P)^2`, with the pull s.
    """
    tree_weights = np.array(
        [
            fit_feature_weights(features, left, rows.counts, _RIDGE)
            for features, left in zip(rows.features, rows.left, strict=True)
        ]
    )
    expected = _predict_parts(rows, tree_weights)
    n_parts = len(expected)
    n = int(rows.counts.sum())
    mean_square = max(_sum_products(rows.targets, rows.targets, rows.counts) / n, 1.0)
    pull = (1 + _PULL * sqrt(n)) ** 2 * mean_square
    gram = np.array(
        [[_sum_products(left, right, rows.counts) for left in expected] for right in expected]
    )
    products = np.array([_sum_products(part, rows.targets, rows.counts) for part in expected])
    blend = solve_nonnegative(gram + pull * np.eye(n_parts), products + pull / n_parts)
    return NumberWeights(tree_weights, blend)


def compute_unseen_errors(rows: UnseenRows, fitted: NumberWeights) -> Floats:
    """Return the errors of rows by weights fitted to them or, of few rows, to the other folds."""
    if len(rows) > _MOST_CROSSED_ROWS:
        return rows.targets - fitted.predict(rows)
    folds = (rows.words % np.uint64(FOLDS)).astype(np.int64)
    errors = rows.left[0].astype(np.float64)  # where there is no other fold, the base alone
    for fold in range(FOLDS):
        inside = np.flatnonzero(folds == fold)
        outside = np.flatnonzero(folds != fold)
        if len(inside) and len(outside):
            fold_rows = rows.take(inside)
            fold_weights = fit_weights(rows.take(outside))
            errors[inside] = fold_rows.targets - fold_weights.predict(fold_rows)
    return errors


def _predict_parts(rows: UnseenRows, tree_weights: Floats) -> list[Floats]:
    """Return what each part, with its trees, expects of rows."""
    return [
        rows.targets - (left - sum_weighted(features, weights))
        for left, features, weights in zip(rows.left, rows.features, tree_weights, strict=True)
    ]


def _sum_products(left: Floats, right: Floats, counts: Ints) -> float:
    """Return the sum of products over rows, correctly rounded: the order of rows is no matter."""
    return fsum((left * right * counts).tolist())
