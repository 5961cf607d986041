r"""The additive base for numbers: ridge regression from one matrix of whole numbers.

Coefficients are a function of the memory of a fit (:mod:`hammemo.features.additive.gram`) and of
frozen penalties. With A and b the sums of products of coordinates, and of coordinates and targets,
in the coordinates of the fit,

.. math:: \phi = (A + \Lambda)^{-1} b.

As for classes (:mod:`hammemo.features.additive.fit_classes`), a fit has rounds: penalties and
coefficients, coefficients without each fold, and new pairs of columns, until the squared error of
rows left out hardly falls.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from hammemo._arrays.threads import in_threads
from hammemo._arrays.wide_sums import as_floats
from hammemo.features.additive.additive_base import (
    NAT,
    AdditiveBase,
    round_coefficients,
    score_rows,
)
from hammemo.features.additive.base_folds import count_in_folds, order_rows
from hammemo.features.additive.choose_design import choose_design
from hammemo.features.additive.design import MAX_PAIRS, AdditiveDesign
from hammemo.features.additive.gram import Gram
from hammemo.features.additive.levels import HAT
from hammemo.features.additive.penalties import (
    choose_pairs,
    count_determined,
    expand_penalties,
    invert_curvature,
    sum_groups,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hammemo._arrays.types import Floats, Ints, Words
    from hammemo.features.cells.column_codes import ColumnCodes

_CONSTANT_PENALTY: Final = 1e-8
"""The penalty of the constant: hardly any, but with it any matrix can be inverted."""

_FIRST_PENALTY: Final = 1.0
"""The penalty of each group before the first step of the evidence."""

_PAIR_PENALTY: Final = 10.0
"""The same for a pair that is added."""

_LEAST_PENALTY: Final = 1e-6
"""A penalty is at least this, so that a matrix with penalties can be inverted."""

_MOST_PENALTY: Final = 1e9
"""With it a group is practically zero."""

_FIRST_ROUNDS: Final = 12
"""Steps of the evidence where penalties start anywhere; each costs one inverse of a matrix."""

_NEXT_ROUNDS: Final = 6
"""Steps of the evidence after pairs were added."""

_FOLD_ROUNDS: Final = 3
"""Steps of the evidence without a fold, which starts from the penalties of all rows."""

_LEAST_GAIN: Final = 0.005
"""The share of the squared error of rows left out that a round must gain, or it is not taken."""

_ROWS_OF_A_PAIR: Final = 100
"""Rows for each pair of a function, at least."""

_OWN_PENALTY_ROWS: Final = 1000
"""Rows up to which each fold chooses its own penalties, as for classes."""

_PAIR_SHRINKAGE: Final = 5.0
"""Variance of residuals, in rows, that is added to that of each bin of a pair."""


def compute_gram(
    design: AdditiveDesign,
    values: Floats,
    name_codes: NDArray[np.uint8],
    targets: Ints,
    counts: Ints,
) -> Gram:
    """Return the memory of rows with these targets, each as often as its count."""
    return Gram.from_rows(design.encode_rows(values, name_codes), design.p, targets, counts)


def solve_coefficients(design: AdditiveDesign, penalties: Floats, gram: Gram) -> Ints:
    """Return the coefficients, shape (p, 1), that a memory and frozen penalties give."""
    if not gram.n:
        return np.zeros((design.p, 1), np.int64)
    equations = _Equations.from_gram(design, gram)
    coefficients = np.empty((design.p, 1))
    design.modes.apply(equations.solve(penalties).phi[None], coefficients.reshape(-1))
    return round_coefficients(coefficients, equations.scale, design.largest_coefficient(0))


def fit_number_base(
    codes: ColumnCodes,
    *,
    values: Floats,
    name_codes: NDArray[np.uint8],
    targets: Ints,
    counts: Ints,
    words: Words,
) -> tuple[AdditiveBase, Gram]:
    """Return the base for rows with these targets, a function of their multiset, and its memory.

    Parameters
    ----------
    counts : ndarray of int64
        How often each row occurs.
    words : ndarray of uint64
        The hash of each row, which decides its folds.

    Shapes
    ------
    values : (m, ordered columns); name_codes : (m, columns of names); targets, counts, words : (m,)
    """
    order = order_rows(words, values, name_codes, targets)
    values = values[order]
    name_codes = name_codes[order]
    targets = targets[order]
    counts = counts[order]
    fold_counts = count_in_folds(words[order], counts)
    design = choose_design(codes, values, name_codes, counts)
    penalties = np.full(design.n_groups, _FIRST_PENALTY)

    # Rounds: fit, compare the error of rows left out, add pairs.
    bins = design.bin_columns(values, name_codes)
    max_pairs = min(MAX_PAIRS, int(counts.sum()) // _ROWS_OF_A_PAIR)
    rounds = _FIRST_ROUNDS
    best: tuple[AdditiveBase, Gram] | None = None
    best_loss = math.inf
    while True:
        rows = design.encode_rows(values, name_codes)
        grams = in_threads(partial(Gram.from_rows, rows, design.p, targets), list(fold_counts))
        gram = sum(grams[1:], grams[0])
        penalties = _maximize_evidence(design, gram, penalties, rounds)
        crossed = _solve_without_folds(design, gram, grams, penalties)
        residuals = np.stack([targets - score_rows(rows, theta)[:, 0] for theta in crossed])
        loss = _sum_in_order((residuals.astype(np.float64) ** 2 * fold_counts).ravel())
        if best is not None and loss >= best_loss * (1 - _LEAST_GAIN):
            return best
        best_loss = loss
        base = AdditiveBase(
            design=design,
            n_labels=0,
            coefficients=solve_coefficients(design, penalties, gram),
            crossed=crossed,
            penalties=penalties,
        )
        best = base, gram
        # Residuals in units of their root mean square, in 1/65536, each by the fold without its
        # row. Sums are at most NAT times the rows: the squares in these units add up to the
        # rows, so their sizes add up to no more.
        unit = NAT / math.sqrt(max(loss, 1) / max(gram.n, 1))
        held_out = (np.rint(residuals * unit).astype(np.int64) * fold_counts).sum(axis=0)
        pairs = choose_pairs(
            design,
            bins,
            residuals=held_out[:, None],
            variances=(counts * NAT)[:, None],
            shrinkage=_PAIR_SHRINKAGE,
            max_pairs=max_pairs - len(design.pairs),
        )
        if not len(pairs):
            return best
        design = design.with_more_pairs(pairs)
        penalties = np.append(penalties, np.full(len(pairs), _PAIR_PENALTY))
        rounds = _NEXT_ROUNDS


class _Solution(NamedTuple):
    """Coefficients, and what gives them.

    Parameters
    ----------
    phi : ndarray of float64, shape (q,)
    inverse_root : ndarray of float64, shape (q, q)
        `invert_curvature` of the matrix with penalties.
    """

    phi: Floats
    inverse_root: Floats


@dataclass(frozen=True, eq=False)
class _Equations:
    """A memory in the coordinates of the fit, and in units of the standard deviation of targets.

    Parameters
    ----------
    design : AdditiveDesign
    products : ndarray of float64, shape (q, q)
        Sums of products of coordinates.
    targets : ndarray of float64, shape (q,)
        Sums of products of coordinates and targets.
    squares : float
        The sum of the squares of targets.
    n : int
        How many rows there are.
    scale : float
        The standard deviation of targets, in their unit.
    """

    design: AdditiveDesign
    products: Floats
    targets: Floats
    squares: float
    n: int
    scale: float

    @classmethod
    def from_gram(cls, design: AdditiveDesign, gram: Gram) -> _Equations:
        """Return the memory in these coordinates and units."""
        q = len(design.groups)
        scale = gram.scale
        products = np.empty((q, q))
        design.modes.turn(gram.products / HAT**2, products.reshape(-1))
        targets = np.empty(q)
        design.modes.apply_turned(as_floats(gram.targets) / (HAT * scale), targets)
        return cls(
            design=design,
            products=products,
            targets=targets,
            squares=gram.squares / scale**2,
            n=gram.n,
            scale=scale,
        )

    def solve(self, penalties: Floats) -> _Solution:
        """Return the coefficients with the lowest penalised squared error."""
        inverse_root = invert_curvature(self.products, self.expand(penalties))
        # the inverse is T T^T
        phi = _multiply(inverse_root, _multiply(inverse_root.T, self.targets))
        return _Solution(phi, inverse_root)

    def expand(self, penalties: Floats) -> Floats:
        """Return the penalty of each coordinate."""
        return expand_penalties(self.design.groups, penalties, _CONSTANT_PENALTY)


def _maximize_evidence(
    design: AdditiveDesign, gram: Gram, penalties: Floats, rounds: int
) -> Floats:
    r"""Return penalties after so many steps of the evidence.

    As for classes, times the variance of the noise: with :math:`\gamma` the number of coefficients
    that the rows determine, the constant not counted,

    .. math:: \sigma^2 = \frac{y \cdot y - b \cdot \phi - \phi^\top \Lambda \phi}
              {n - 1 - \sum_g \gamma_g}.
    """
    if gram.n < 2:
        return penalties
    equations = _Equations.from_gram(design, gram)
    groups = design.groups
    for _ in range(rounds):
        phi, inverse_root = equations.solve(penalties)
        determined = count_determined(groups, penalties, inverse_root, 1)
        explained = _sum_in_order(phi * equations.targets)
        explained += _sum_in_order(equations.expand(penalties) * phi**2)
        # rounding may make the error of an exact fit negative
        squared_error = max(equations.squares - explained, 1e-12 * equations.squares)
        noise = squared_error / max(gram.n - 1 - _sum_in_order(determined), 1.0)
        squares = np.maximum(sum_groups(groups, phi**2), 1e-30)
        penalties = np.clip(determined * noise / squares, _LEAST_PENALTY, _MOST_PENALTY)
    return penalties


def _solve_without_folds(
    design: AdditiveDesign, gram: Gram, grams: list[Gram], penalties: Floats
) -> Ints:
    """Return coefficients without each fold: shape (folds, p, 1)."""
    rounds = _FOLD_ROUNDS if gram.n <= _OWN_PENALTY_ROWS else 0

    def solve_without(gram_of_fold: Gram) -> Ints:
        other_folds = gram - gram_of_fold
        own_penalties = _maximize_evidence(design, other_folds, penalties, rounds)
        return solve_coefficients(design, own_penalties, other_folds)

    return np.stack(in_threads(solve_without, grams))


def _sum_in_order(numbers: Floats) -> float:
    """Return the sum of numbers, added one by one: other orders differ between processors."""
    return float(np.cumsum(np.append(0.0, numbers))[-1])


def _multiply(matrix: Floats, vector: Floats) -> Floats:
    """Return the product of a matrix and a vector, added column by column.

    BLAS has another order on each processor.
    """
    total = np.zeros(len(matrix))
    for column, number in zip(matrix.T, vector.tolist(), strict=True):
        total += column * number
    return total
