r"""Fits the linear scores of wide rows: penalised logistic or linear regression on all columns.

.. math:: \min_w \sum_i n_i \, \ell(y_i, w \cdot z_i) + \tfrac{\lambda}{2} |w|^2

The penalty is the one with the lowest loss on the folds left out, from a path that begins where
almost nothing is fitted. How each minimum is found is said in
:mod:`hammemo.features.wide.descent`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hammemo.features.additive.base_folds import FOLDS
from hammemo.features.wide.descent import FITS, Descent, choose_space
from hammemo.features.wide.scaling import UNIT, Scaling
from hammemo.features.wide.scores import COEFFICIENT_BITS, LinearScores

if TYPE_CHECKING:
    from hammemo._arrays.types import Floats, Ints
    from hammemo.features.wide.score_targets import Targets

_FIRST_PENALTY: Final = 64.0
"""Of the mean square of rows: with it, scores are nearly the shares of labels."""

_PENALTY_STEP: Final = 0.25
"""Each penalty of the path is this share of the one before."""

_PENALTIES: Final = 14
"""Penalties of the path, at most."""

_WORSE: Final = 2
"""Penalties that are worse than the best one before the path ends."""

_PATH_STEPS: Final = 6
"""Steps with each penalty of the path, from the minimum of the one before on."""

_LAST_STEPS: Final = 14
"""Steps with the chosen penalty."""

_CONSTANT: Final = 4.0
"""The constant column, in roots of the mean square of rows: large, so that its penalty hardly
counts."""


def fit_scores(
    scaling: Scaling, matrix: Any, targets: Targets, *, counts: Ints, folds: Ints
) -> LinearScores:
    """Return the scores that are fitted to rows in these units.

    Shapes
    ------
    matrix : (m, q), from `Scaling.matrix`; counts, how often each row occurs : (m,);
    folds, in which each row lies : (m,)
    """
    mean_square = _mean_square(matrix)
    constant = round(_CONSTANT * np.sqrt(mean_square) * UNIT) / UNIT
    space = choose_space(matrix, constant)
    weights = [counts.astype(np.float64)]
    weights += [np.where(folds == fold, 0, counts).astype(np.float64) for fold in range(FOLDS)]
    left_out = [np.where(folds == fold, counts, 0).astype(np.float64) for fold in range(FOLDS)]
    descent = Descent(space, targets, weights)

    # Smaller and smaller penalties, until rows left out say that it is enough.
    penalty = _FIRST_PENALTY * mean_square
    best_loss = np.inf
    best_penalty = penalty
    best_position = descent.position
    n_worse = 0
    for _ in range(_PENALTIES):
        descent.descend(penalty, _PATH_STEPS)
        loss = 0.0
        for fold in range(FOLDS):
            loss += targets.measure_left_out(descent.scores(1 + fold), left_out[fold])
        if loss < best_loss:
            best_loss = loss
            best_penalty = penalty
            best_position = descent.position
            n_worse = 0
        else:
            n_worse += 1
        if n_worse == _WORSE:
            break
        penalty *= _PENALTY_STEP

    # On to the minimum with the best penalty.
    descent.move_to(best_position)
    descent.descend(best_penalty, _LAST_STEPS)
    coefficients, constant_coefficients = space.coefficients(descent.position)
    return _round_scores(scaling, coefficients, constant_coefficients * constant, targets.outputs)


def _round_scores(
    scaling: Scaling, coefficients: Floats, constants: Floats, outputs: int
) -> LinearScores:
    """Return functions whose coefficients are whole numbers.

    Shapes
    ------
    coefficients : (q, fits times outputs); constants : (fits times outputs,)
    """
    q = len(coefficients)
    largest = max(float(np.abs(coefficients).max(initial=0.0)), 2.0**-30)
    bits = COEFFICIENT_BITS - int(np.frexp(largest)[1])
    rounded = np.rint(np.ldexp(coefficients, bits)).astype(np.int32).reshape(q, FITS, outputs)
    exponent = bits + int(np.log2(UNIT))  # scores are sums of coefficients times parts of a spread
    rounded_constants = np.rint(np.ldexp(constants, exponent)).astype(np.int64)
    return LinearScores(
        scaling=scaling,
        coefficients=np.ascontiguousarray(rounded.transpose(1, 0, 2)),
        constants=rounded_constants.reshape(FITS, outputs),
        exponent=exponent,
    )


def _mean_square(matrix: Any) -> float:
    """Return the mean over rows of the sum of the squares of their scaled numbers.

    Its unit is a squared spread.
    """
    if isinstance(matrix, np.ndarray):
        squares = np.einsum("ij,ij->i", matrix, matrix)
    else:
        squares = matrix.power(2).sum(axis=1)
    return max(float(np.mean(squares)) / UNIT**2, 1.0)
