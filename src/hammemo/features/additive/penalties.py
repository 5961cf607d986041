r"""How far coefficients are pulled to zero, and which pairs of columns are worth coordinates.

Coordinates of a fit have groups (:attr:`AdditiveDesign.groups`), and each group g has one penalty
:math:`\lambda_g`: MacKay's fixed point of the evidence. With :math:`\gamma_g` the number of
coefficients :math:`\phi_i` of the group that the rows determine and H the curvature of the loss,

.. math:: \lambda_g = \frac{\gamma_g}{\sum_{i \in g} \phi_i^2}, \qquad
          \gamma_g = \sum_{i \in g} \Bigl( 1 - \lambda_g \bigl[(H + \Lambda)^{-1}\bigr]_{ii} \Bigr).

The number of steps is fixed, so that penalties are a smooth function of the rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from hammemo import _native
from hammemo._arrays.logarithms import log
from hammemo.tokens.hashing import mix

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hammemo._arrays.types import Floats, Ints
    from hammemo.features.additive.design import AdditiveDesign

PAIRS_A_ROUND: Final = 4
"""Pairs that a fit adds before it tests again."""

_LEAST_SCORE: Final = 2.0
"""Scores of pairs that say nothing are about normal: one of these is above two."""

_STEPS_OF_A_DOUBLING: Final = 4
"""Scores of pairs are compared by quarters of doublings."""

_TESTED: Final = 2**26
"""Rows times pairs times outputs that are tested, at most: it bounds the time of a test."""

_LEAST_TESTED: Final = 2000
"""Rows that are tested however many pairs there are."""

_LEAST_WORTH: Final = 1e-3
"""Coefficients that the rows of a group determine, at least: its penalty stays above zero."""

_DOUBLINGS: Final = np.array(
    [_LEAST_SCORE * 2 ** (k / _STEPS_OF_A_DOUBLING) for k in range(1, 256)]
)
"""The bounds between steps of scores, which grow with the rows, of which there may be 2^53."""


def expand_penalties(groups: Ints, penalties: Floats, constant_penalty: float) -> Floats:
    """Return the penalty of each coordinate."""
    # the constant has group -1, which reads the last entry
    return np.append(penalties, constant_penalty)[groups]


def invert_curvature(curvature: Floats, penalties: Floats) -> Floats:
    """Return T, an upper triangle with T T^T the inverse of the curvature with penalties."""
    inverse_root = np.empty(curvature.shape)
    penalized = curvature.copy()
    penalized[np.diag_indices(len(penalized))] += penalties
    if not _native.inverse_root(penalized, inverse_root.reshape(-1)):
        raise ArithmeticError("a matrix with penalties is not positive")
    return inverse_root


def sum_groups(groups: Ints, numbers: Floats) -> Floats:
    """Return the sum of numbers in each group, the constant left out."""
    has_group = groups >= 0
    n_groups = int(groups.max()) + 1
    sums = np.bincount(groups[has_group], weights=numbers[has_group], minlength=n_groups)
    return sums.astype(np.float64)


def count_determined(
    groups: Ints, penalties: Floats, inverse_root: Floats, n_outputs: int
) -> Floats:
    """Return how many coefficients of each group the rows determine.

    `inverse_root` is what `invert_curvature` returns; all outputs share it.
    """
    variances = np.zeros(len(inverse_root))
    for column in inverse_root.T:  # in this order, whatever the processor
        variances += column**2
    sizes = sum_groups(groups, np.ones(len(groups)))
    determined = n_outputs * (sizes - penalties * sum_groups(groups, variances))
    return np.maximum(determined, _LEAST_WORTH)


def choose_pairs(
    design: AdditiveDesign,
    bins: NDArray[np.uint8],
    *,
    residuals: Ints,
    variances: Ints,
    shrinkage: float,
    max_pairs: int,
) -> Ints:
    """Return the pairs of columns whose bins explain most of the residuals, none of the design's.

    Where nothing is left to explain, scores are about normal, and the highest of P scores is
    near the root of 2 log P: a pair must be above that. Scores are compared by quarters of
    doublings, and near-equal pairs by a hash: a row rarely changes the choice.

    Parameters
    ----------
    residuals : ndarray of int64, shape (m, outputs)
        What the function leaves of each row, in 1/65536.
    variances : ndarray of int64, shape (m, outputs)
        What noise would leave of each row, squared, in 1/65536.
    shrinkage : float
        What is added to the variance of a bin, so that a bin with few rows explains little.
    max_pairs : int
        Pairs to return, at most; no more than `PAIRS_A_ROUND` are.

    Shapes
    ------
    bins : (columns, m), from `AdditiveDesign.bin_columns`; returned : (pairs, 2)
    """
    # All pairs of columns that are not constant.
    columns = np.flatnonzero(bins.max(axis=1, initial=0) > bins.min(axis=1, initial=255))
    firsts, seconds = (columns[places] for places in np.triu_indices(len(columns), 1))
    if not len(firsts) or max_pairs <= 0:
        return np.empty((0, 2), np.int64)

    # Their scores, by the first rows.
    n_tested = max(_LEAST_TESTED, _TESTED // (len(firsts) * residuals.shape[1]))
    tested_bins = np.ascontiguousarray(bins[columns][:, :n_tested])
    scores = np.empty(len(firsts))
    _native.pair_scores(
        cells=tested_bins,
        sizes=tested_bins.max(axis=1).astype(np.int64) + 1,
        left=np.ascontiguousarray(residuals[:n_tested]),
        spread=np.ascontiguousarray(variances[:n_tested]),
        shrinkage=shrinkage,
        out=scores,
    )

    # The best new ones that are better than noise.
    old_pairs = set(map(tuple, design.pairs.tolist()))
    pairs = zip(firsts.tolist(), seconds.tolist(), strict=True)
    is_new = np.array([pair not in old_pairs for pair in pairs])
    best_of_noise = float(np.sqrt(2 * log(np.array([len(firsts)]))[0]))
    is_good = scores > max(_LEAST_SCORE, best_of_noise)
    candidates = np.flatnonzero(is_good & is_new)
    steps = np.searchsorted(_DOUBLINGS, scores[candidates])
    high_words = firsts[candidates].astype(np.uint64) << np.uint64(32)
    hashes = mix(high_words | seconds[candidates].astype(np.uint64))
    best = candidates[np.lexsort((hashes, -steps))][: min(PAIRS_A_ROUND, max_pairs)]
    return np.stack([firsts[best], seconds[best]], axis=1)
