"""How far coefficients are pulled to zero, and which pairs of columns are worth coordinates.

Coordinates of a fit have groups (:attr:`AdditiveDesign.groups`), and each group has one penalty: MacKay's fixed point
of the evidence, where a penalty is the number of coefficients that the rows determine, divided by the sum of their
squares. The number of steps is fixed, so that penalties are a smooth function of the rows.
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
    from hammemo.features.additive.additive import AdditiveDesign

PAIRS_A_ROUND: Final = 4
_LEAST_SCORE: Final = 2.0
_STEPS_OF_A_DOUBLING: Final = 4
_TESTED: Final = 2**26
"""Rows times pairs times outputs that are tested at most."""
_LEAST_TESTED: Final = 2000


def ridge(groups: Ints, penalties: Floats, of_constant: float) -> Floats:
    """Return the penalty of each coordinate."""
    return np.append(penalties, of_constant)[groups]  # group -1 is the constant


def inverse_of(curvature: Floats, penalties: Floats) -> Floats:
    """Return T, an upper triangle with T T^T the inverse of the curvature with penalties."""
    found = np.empty(curvature.shape)
    whole = curvature.copy()
    whole[np.diag_indices(len(whole))] += penalties
    if not _native.inverse_root(whole, found.reshape(-1)):
        raise ArithmeticError("a matrix with penalties is not positive")
    return found


def group_sums(groups: Ints, numbers: Floats) -> Floats:
    """Return the sum of numbers in each group, the constant left out."""
    held = groups >= 0
    found = np.bincount(groups[held], weights=numbers[held], minlength=int(groups.max()) + 1)
    return found.astype(np.float64)


def worth(groups: Ints, penalties: Floats, inverse: Floats, outputs: int) -> Floats:
    """Return how many coefficients of each group the rows determine."""
    variances = np.zeros(len(inverse))
    for column in inverse.T:  # in this order, whatever the processor
        variances += column**2
    size = group_sums(groups, np.ones(len(groups)))
    return np.maximum(outputs * (size - penalties * group_sums(groups, variances)), 1e-3)


def next_pairs(
    design: AdditiveDesign, cells: NDArray[np.uint8], left: Ints, spread: Ints, shrinkage: float, room: int
) -> Ints:
    """Return the pairs of columns whose cells explain most of what is left over, none that the design has.

    Where nothing is left over, scores are about normal, and the highest of P scores is near the root of 2 log P: a pair
    must be above that. Scores are compared by quarters of doublings, and near-equal pairs by a hash: a row rarely
    changes the choice.

    Shapes
    ------
    cells : (columns, m); left, spread : (m, outputs), in 1/65536; returned : (pairs, 2)
    """
    columns = np.flatnonzero(cells.max(axis=1, initial=0) > cells.min(axis=1, initial=255))
    firsts, seconds = (columns[places] for places in np.triu_indices(len(columns), 1))
    if not len(firsts) or room <= 0:
        return np.empty((0, 2), np.int64)
    most = max(_LEAST_TESTED, _TESTED // (len(firsts) * left.shape[1]))
    own = np.ascontiguousarray(cells[columns][:, :most])
    scores = np.empty(len(firsts))
    sizes = own.max(axis=1).astype(np.int64) + 1
    _native.pair_scores(
        cells=own,
        sizes=sizes,
        left=np.ascontiguousarray(left[:most]),
        spread=np.ascontiguousarray(spread[:most]),
        shrinkage=shrinkage,
        out=scores,
    )
    known = set(map(tuple, design.pairs.tolist()))
    is_new = np.array([pair not in known for pair in zip(firsts.tolist(), seconds.tolist(), strict=True)])
    least = max(_LEAST_SCORE, float(np.sqrt(2 * log(np.array([len(firsts)]))[0])))
    found = np.flatnonzero((scores > least) & is_new)
    rounded = np.searchsorted(_DOUBLINGS, scores[found])
    names = mix(firsts[found].astype(np.uint64) << np.uint64(32) | seconds[found].astype(np.uint64))
    best = found[np.lexsort((names, -rounded))][: min(PAIRS_A_ROUND, room)]
    return np.stack([firsts[best], seconds[best]], axis=1)


_DOUBLINGS: Final = np.array([_LEAST_SCORE * 2 ** (k / _STEPS_OF_A_DOUBLING) for k in range(1, 256)])
"""Scores grow with the rows, of which there may be 2^53."""
