r"""Weights at the minimum of their loss, rounded to a grid: a function of the rows alone.

The loss of :mod:`hammemo.votes.fitting` is strictly convex, so it has one minimum :math:`z^*`. Each
weight is rounded to the nearest multiple of a power of two. So the result does not depend on where
the search begins, on the number of its steps or on the processor, as long as it is known which
multiple is the nearest. This is proved, in two stages:

1. **Doubles.** The ridge alone gives the loss a curvature of :math:`\mu = 2 \lambda / M` or more in
   every direction and at every point. So a point z with the slope g(z) is near the minimum:

   .. math:: |z - z^*| \le |g(z)| / \mu.

   The computed slope differs from g(z) by at most what rounding errors add up to
   (`_bound_slope_errors`). Where no weight lies that near to the middle between two multiples, the
   rounded weights are those of the minimum.
2. **More digits.** Else the slope is computed with twice the digits, and Newton's steps go on,
   until it is decided. A weight within 2^-40 of the grid from the middle counts as the middle, in
   both stages, and goes to the even multiple.

Newton's steps take the slope from compiled code, whose sums have one order on every processor
(``src/native/selection/dense_weights.cpp``), and the curvature from products of matrices, which
need not be exact: they change the way to the minimum, not the minimum.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from hammemo import _native
from hammemo._arrays.double_double import DoubleDouble
from hammemo._arrays.logarithms import log
from hammemo._arrays.types import Array
from hammemo._versions import Cached, cached_property
from hammemo.votes.base import softmax
from hammemo.votes.fitting import FittedWeights, VectorLayout

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from hammemo._arrays.types import Floats, Ints

GRID: Final = 2.0**-16
"""Weights that answer are multiples of this: far below their sampling errors, and far above the
errors of doubles."""

TRIAL_GRID: Final = 2.0**-10
"""Weights of trials are multiples of this: losses of trials differ by more, and it is decided at
once nearly always."""


class MinimumNotFoundError(ArithmeticError):
    """The minimum is out of reach."""


NOT_FOUND: Final = (MinimumNotFoundError, np.linalg.LinAlgError)
"""Raised where doubles do not reach the minimum. No rows within `OptimalFits.can_fit` are known to
raise it; a fit takes the steps of :class:`hammemo.votes.fitting.CompiledFits` then, and goes on."""

_MAX_WEIGHTS: Final = 640
"""Labels times features up to which there are Newton's steps, which take the cube of it."""

_MAX_COPIES: Final = 2**18
"""Copies of rows up to which the ridge keeps curvatures well conditioned: one copy's share of it is
2 ridge / copies. A trial with up to 200,000 copies and the features of trees found no failure; with
millions, doubles did not reach the minimum of every second problem."""

_LARGEST_FEATURE: Final = 256.0
"""Features are log-ratios, and what an additive base says in nats: tens at most."""

_LEAST_RIDGE: Final = 0.01
"""With less, rows that weights tell apart without error have their minimum too far away."""

_BLOCK_ROWS: Final = 2**12
"""Rows whose curvature is computed at a time, which bounds the memory that it takes."""

_FIRST_CURVATURE_ROWS: Final = 2**11
"""Rows of the first curvature, which is far from the minimum in any case."""

_MOST_STEPS: Final = 60
"""Steps at most. Five to ten are usual; what is not at its minimum then is left to more digits."""

_NEAR: Final = 1e-3
"""A step below which the curvature hardly changes any more."""

_SHORT: Final = 2.0**-14
"""Doubles first look for the minimum within this share of the grid. About one problem in a hundred
needs more: with 90 weights, twice this share of the grid lies around a middle for each."""

_SLOW: Final = 0.05
"""A step that is not shorter than the one before by this factor asks for a new curvature."""

_SUFFICIENT: Final = 1e-4
"""A step is halved until it gains this share of what the slope promises."""

_LEAST_LENGTH: Final = 2.0**-20
"""Steps are not halved further: what they gain is lost in rounding."""

Factor: TypeAlias = tuple[Array, bool]
"""A Cholesky factor, as SciPy has it."""

_ROUNDOFF: Final = 2.0**-53
"""The relative error of an operation."""

_TIE: Final = 2.0**-40
"""A weight this near to the middle between two multiples, as a share of the grid, counts as the
middle: wider than what twice the digits leave open, and 2^13 times as wide as what a double can
tell of a distance from the middle."""

_PRECISE_ROUNDOFF: Final = 2.0**-100
"""The relative error of an operation with twice the digits, with room to spare."""

_PRECISE_STEPS: Final = 40


@dataclass(frozen=True, eq=False)
class OptimalFits(Cached):
    """Features of rows that weights can be fitted to.

    Shapes
    ------
    features : (L, m, F); labels, multiplicity : (m,); prior : (L,)
    """

    features: NDArray[np.float32]
    labels: Ints
    multiplicity: Ints
    prior: Floats
    grid: float = GRID

    @staticmethod
    def has_few_weights(n_labels: int, n_features: int) -> bool:
        """Return whether so many weights are few enough for Newton's steps."""
        return n_labels * (n_features + 1) <= _MAX_WEIGHTS

    def can_fit(self, ridge: float) -> bool:
        """Return whether there is a minimum within reach of doubles, for a ridge or a stronger one.

        It depends on the rows alone. Weights are few enough for Newton's steps, features are those
        of trees and not arbitrarily large, and the ridge is not lost beside many copies of rows.
        """
        is_small = self.has_few_weights(len(self.prior), self.n_features)
        has_few_copies = int(self.multiplicity.sum()) <= _MAX_COPIES
        if not is_small or not has_few_copies or ridge < _LEAST_RIDGE:
            return False
        return bool((np.abs(self.features) <= _LARGEST_FEATURE).all())  # False for NaN

    @property
    def n_features(self) -> int:
        """How many features a label has."""
        return int(self.features.shape[2])

    @cached_property
    def tables(self) -> _native.DenseRatios:
        """The features in blocks of rows, for compiled code."""
        return _native.DenseRatios.of_rows(
            ratios=np.ascontiguousarray(self.features),
            rows=np.arange(len(self.labels)),
            labels=self.labels.astype(np.int32),
        )

    def fit(
        self,
        *,
        start: Floats,
        ridge: float,
        per_label: bool,
        steps: int = 0,
        warm: FittedWeights | None = None,
    ) -> FittedWeights:
        """Return the weights that minimise the log-loss, rounded to the grid.

        It goes on to the minimum, whatever the number of steps, and `warm` does not change the
        result; see :meth:`hammemo.votes.fitting.Fits.fit`.
        """
        del steps
        problem = _Problem.of_fits(self, start=start, ridge=ridge, per_label=per_label)
        near = minimize(problem, problem.layout.pack(start, warm), tolerance=_SHORT * self.grid)
        return problem.layout.unpack(round_to_minimum(problem, near, self.grid))

    def fit_ridges(self, *, start: Floats, ridges: Sequence[float]) -> list[FittedWeights]:
        """Return the weights of each label with each of some ridges.

        Each search begins where the one before ended, which saves most of its steps and changes
        nothing else.
        """
        fitted = []
        near: NearMinimum | None = None
        for ridge in ridges:
            problem = _Problem.of_fits(self, start=start, ridge=ridge, per_label=True)
            point = problem.layout.pack(start, None)
            curvature = None
            if near is not None:
                point = near.point
                curvature = near.curvature
            near = minimize(problem, point, curvature, tolerance=_SHORT * self.grid)
            rounded = round_to_minimum(problem, near, self.grid)
            fitted.append(problem.layout.unpack(rounded))
        return fitted


class _MeasuredPoint(NamedTuple):
    """A point, with the loss and its slope there."""

    point: Floats
    loss: float
    slope: Floats


@dataclass(frozen=True, eq=False)
class _Problem:
    """A loss to minimise: that of :mod:`hammemo.votes.fitting`, for points as in `VectorLayout`."""

    fits: OptimalFits
    shares: Floats
    """The share of each row: (m,)."""
    base: Floats
    start: Floats
    strength: float
    layout: VectorLayout

    @classmethod
    def of_fits(
        cls, fits: OptimalFits, *, start: Floats, ridge: float, per_label: bool
    ) -> _Problem:
        """Return the problem of some rows with a ridge."""
        total = float(fits.multiplicity.sum())
        return cls(
            fits=fits,
            shares=fits.multiplicity / total,
            base=log(fits.prior),
            start=start,
            strength=ridge / total,
            layout=VectorLayout(len(start), len(fits.prior), per_label),
        )

    @property
    def least_curvature(self) -> float:
        """What the ridge alone gives in every direction."""
        return 2 * self.strength

    def measure(self, point: Floats) -> _MeasuredPoint:
        """Return a point with the loss and its slope there."""
        slope = np.empty(len(point))
        loss = self.fits.tables.loss(
            base=self.base,
            shares=self.shares,
            start=self.start,
            strength=self.strength,
            by_label=self.layout.per_label,
            at=point,
            gradient=slope,
        )
        return _MeasuredPoint(point, loss, slope)

    def compute_curvature(self, point: Floats, n_rows: int) -> Floats:
        """Return the curvature of the loss without the ridge at a point, by the first rows."""
        shared, differences, offsets = self.layout.split(point)
        scale = 1.0 / self.shares[:n_rows].sum()
        curvature = np.zeros((self._curvature_size, self._curvature_size))
        for first in range(0, n_rows, _BLOCK_ROWS):
            rows = slice(first, min(first + _BLOCK_ROWS, n_rows))
            features = self.fits.features[:, rows].astype(np.float64)
            block = _CurvatureBlock(
                features=features,
                shares=self.shares[rows] * scale,
                probabilities=compute_probabilities(
                    features, shared + differences, self.base + offsets
                ),
            )
            if not self.layout.per_label:
                curvature += block.curve_shared()
            elif len(self.base) == 2:
                curvature += block.curve_two_labels()
            else:
                curvature += block.curve_each_label()
        if not self.layout.per_label:
            return curvature
        width = self.layout.n_features + 1
        return _join_blocks(curvature.reshape(len(self.base), width, len(self.base), width))

    @property
    def _curvature_size(self) -> int:
        """Shared weights, or the weights and the offset of each label."""
        n_features = self.layout.n_features
        return len(self.base) * (n_features + 1) if self.layout.per_label else n_features

    def factor(self, curvature: Floats) -> Factor:
        """Return the Cholesky factor of a curvature with the ridge."""
        ridged = curvature.copy()
        diagonal = np.diag_indices(len(ridged))
        ridged[diagonal] += self.least_curvature
        # Rounding errors of this size must not make it indefinite.
        ridged[diagonal] *= 1 + 1e-12
        factor: Factor = cho_factor(ridged, lower=True, check_finite=False)
        return factor


def compute_probabilities(features: Array, weights: Floats, constants: Floats) -> Floats:
    """Return the probabilities of labels.

    Shapes
    ------
    features : (L, m, F); weights : (L, F); constants : (L,); returned : (m, L)
    """
    columns = [
        label_features @ label_weights
        for label_features, label_weights in zip(features, weights, strict=True)
    ]
    return softmax(np.stack(columns, axis=1) + constants)


class _CurvatureBlock(NamedTuple):
    """Some rows, and what their curvature is computed from.

    Shapes
    ------
    features : (L, m, F); shares : (m,); probabilities : (m, L)
    """

    features: Floats
    shares: Floats
    probabilities: Floats

    @property
    def _two_label_roots(self) -> Floats:
        """The root of the curvature of each row along the difference of its two scores."""
        spreads = self.probabilities[:, 0] * self.probabilities[:, 1]
        return np.asarray(np.sqrt(self.shares * spreads))

    def curve_shared(self) -> Floats:
        """Return the curvature for weights that all labels share: (F, F)."""
        if len(self.features) == 2:  # only what the features say more for one label counts
            contrasts = (self.features[1] - self.features[0]) * self._two_label_roots[:, None]
            return np.asarray(contrasts.T @ contrasts)
        n_features = self.features.shape[2]
        curvature = np.zeros((n_features, n_features))
        mean = np.zeros(self.features.shape[1:])
        for features, column in zip(self.features, self.probabilities.T, strict=True):
            rooted = features * np.sqrt(self.shares * column)[:, None]
            curvature += rooted.T @ rooted
            mean += features * column[:, None]
        mean *= np.sqrt(self.shares)[:, None]
        return np.asarray(curvature - mean.T @ mean)

    def curve_two_labels(self) -> Floats:
        """Return the curvature for the weights and the offset of each of two labels."""
        roots = self._two_label_roots[:, None]
        rooted = np.hstack(
            [-self.features[0] * roots, -roots, self.features[1] * roots, roots],
        )
        return np.asarray(rooted.T @ rooted)

    def curve_each_label(self) -> Floats:
        """Return the curvature for the weights and the offset of each label."""
        n_labels, n_rows, n_features = self.features.shape
        width = n_features + 1
        extended = np.ones((n_rows, width))
        blocks = np.zeros((n_labels, width, n_labels, width))
        weighted = np.empty((n_rows, n_labels, width))
        roots = np.sqrt(self.shares)
        for c in range(n_labels):
            extended[:, :-1] = self.features[c]
            column = self.probabilities[:, c]
            rooted = extended * (roots * np.sqrt(column))[:, None]
            blocks[c, :, c] = rooted.T @ rooted
            weighted[:, c] = extended * (roots * column)[:, None]
        flat = weighted.reshape(n_rows, -1)
        return np.asarray(blocks.reshape(n_labels * width, -1) - flat.T @ flat)


def _join_blocks(blocks: Floats) -> Floats:
    """Return a curvature for points as in `VectorLayout`, of that by label and weight.

    Shapes
    ------
    blocks : (L, F + 1, L, F + 1), offsets last; returned : (F + L F + L, F + L F + L)
    """
    n_labels, width = blocks.shape[:2]
    n_features = width - 1
    ends = np.cumsum([0, n_features, n_labels * n_features, n_labels])
    shared, differences, offsets = (slice(*pair) for pair in pairwise(ends))
    weights = blocks[:, :-1, :, :-1]
    cross = blocks[:, :-1, :, -1]
    joined = np.zeros((ends[-1], ends[-1]))
    joined[shared, shared] = weights.sum(axis=(0, 2))
    joined[shared, differences] = weights.sum(axis=0).reshape(n_features, -1)
    joined[differences, differences] = weights.reshape(n_labels * n_features, -1)
    joined[shared, offsets] = cross.sum(axis=0)
    joined[differences, offsets] = cross.reshape(-1, n_labels)
    joined[offsets, offsets] = blocks[:, -1, :, -1]
    lower = np.tril_indices(len(joined), -1)
    joined[lower] = joined.T[lower]
    return joined


# The way to the minimum


class NearMinimum(NamedTuple):
    """A point near the minimum, its slope, and a curvature near it, without the ridge."""

    point: Floats
    slope: Floats
    curvature: Floats


def minimize(
    problem: _Problem, start: Floats, curvature: Floats | None = None, *, tolerance: float
) -> NearMinimum:
    """Return a point whose slope says that the minimum is within a tolerance.

    Where doubles do not come so near, it is as near as they come.

    Parameters
    ----------
    curvature : ndarray, optional
        A curvature near the start, where one is known.
    """
    position = problem.measure(start)
    n_rows = len(problem.shares)
    is_of_all_rows = curvature is not None or n_rows <= _FIRST_CURVATURE_ROWS
    if curvature is None:
        # Far from the minimum, few rows show the way as well.
        curvature = problem.compute_curvature(start, min(n_rows, _FIRST_CURVATURE_ROWS))
    factor = problem.factor(curvature)
    last_size = np.inf
    best = NearMinimum(start, position.slope, curvature)
    for _ in range(_MOST_STEPS):
        if _norm(position.slope) < tolerance * problem.least_curvature:
            break
        step = -cho_solve(factor, position.slope, check_finite=False)
        size = float(np.abs(step).max())
        if size < _NEAR:
            # So near to the minimum a full step is right, and the loss shows no gain any more.
            position = problem.measure(position.point + step)
        else:
            position = _walk(problem, position, step)
        if _norm(position.slope) < _norm(best.slope):
            best = NearMinimum(position.point, position.slope, curvature)
        elif size < _NEAR:
            if is_of_all_rows:
                break  # rounding errors are all that is left
            position = problem.measure(best.point)  # the curvature of few rows led astray
        if size > _SLOW * last_size or not is_of_all_rows:
            curvature = problem.compute_curvature(position.point, n_rows)
            factor = problem.factor(curvature)
            is_of_all_rows = True
        last_size = size
    return best


def _walk(problem: _Problem, position: _MeasuredPoint, step: Floats) -> _MeasuredPoint:
    """Return the position after a step that gains enough, halved until it does."""
    promised = float(position.slope @ step)
    length = 1.0
    while True:
        after = problem.measure(position.point + length * step)
        has_gained = after.loss <= position.loss + _SUFFICIENT * length * promised
        if has_gained or length < _LEAST_LENGTH:
            return after
        length /= 2


# Rounding


def round_to_minimum(problem: _Problem, near: NearMinimum, grid: float) -> Floats:
    """Return the minimum of a problem, each number rounded to a multiple of the grid."""
    rounded = _round_if_proved(problem, near, grid)
    if rounded is None:
        near = minimize(problem, near.point, tolerance=0.0)
        rounded = _round_if_proved(problem, near, grid)
    if rounded is None:
        rounded = _round_precisely(problem, near, grid)
    return rounded


def _round_if_proved(problem: _Problem, near: NearMinimum, grid: float) -> Floats | None:
    """Return the rounded minimum; None where it may lie on either side of a middle."""
    errors = _bound_slope_errors(problem, near.point)
    distance = (_norm(near.slope) + _norm(errors)) / problem.least_curvature
    return _round_within(DoubleDouble.from_doubles(near.point), distance, grid)


def _round_precisely(problem: _Problem, near: NearMinimum, grid: float) -> Floats:
    """Return the rounded minimum, computed with twice the digits until it is decided."""
    point = DoubleDouble.from_doubles(near.point)
    # That of all rows: few rows may not show the way where some have many copies.
    factor = problem.factor(problem.compute_curvature(near.point, len(problem.shares)))
    for _ in range(_PRECISE_STEPS):
        slope = compute_precise_slope(problem, point)
        size = _norm(slope.high) + _bound_precise_errors(problem, point.high)
        rounded = _round_within(point, size / problem.least_curvature, grid)
        if rounded is not None:
            return rounded
        step = -cho_solve(factor, slope.high, check_finite=False)
        point = point + DoubleDouble.from_doubles(step)
    raise MinimumNotFoundError(
        "weights have no minimum that twice the digits of a double would find"
    )


def _round_within(point: DoubleDouble, distance: float, grid: float) -> Floats | None:
    """Return multiples of the grid for a point that is known to within a distance.

    None where another point within the distance has other ones.
    """
    rounded = _round(point, grid)
    tie = _TIE * grid
    is_decided = np.abs(rounded.margins - tie) > distance + _ROUNDOFF * grid
    if not is_decided.all():  # so it is for a distance that is no number
        return None
    below = np.floor(point.high / grid)
    even = np.where(below % 2 == 0, below, below + 1) * grid
    return np.where(rounded.margins < tie, even, rounded.numbers)


class _Rounded(NamedTuple):
    """Multiples of a grid, and how far each number is from another multiple being nearer."""

    numbers: Floats
    margins: Floats


def _round(point: DoubleDouble, grid: float) -> _Rounded:
    """Return the nearest multiples of a power of two."""
    scaled = point.scale(1 / grid)
    nearest = np.rint(scaled.high)
    rest = (scaled.high - nearest) + scaled.low
    # the lower digits may lead across the middle
    nearest = nearest + np.where(rest > 0.5, 1.0, 0.0) - np.where(rest < -0.5, 1.0, 0.0)
    rest = (scaled.high - nearest) + scaled.low
    return _Rounded(nearest * grid, (0.5 - np.abs(rest)) * grid)


def _bound_slope_errors(problem: _Problem, point: Floats) -> Floats:
    """Return bounds of the rounding errors of a computed slope, number by number.

    With u = 2^-53: a score is a sum of F + 3 rounded products, so its error is at most (F + 3) u
    times the sum of their sizes, t. A probability has a relative error of at most 4 (F + 3) u t +
    (L + 16) u: two scores, exponentials that are good to a unit in the last place, a sum of L, and
    two divisions. The slope of a weight is a sum over rows in blocks: 16 additions in a block, then
    one for each block, and for each of eight parts. That of an offset is a sum in eight parts.
    """
    shared, differences, offsets = problem.layout.split(point)
    features = problem.fits.features
    n_labels, n_rows, n_features = features.shape
    probabilities = compute_probabilities(features, shared + differences, problem.base + offsets)
    sizes_of_weights = np.abs(shared + differences)
    sizes_of_features = np.abs(features)
    sizes = np.zeros(n_rows)
    for c in range(n_labels):
        constant = abs(problem.base[c]) + abs(offsets[c])
        sizes = np.maximum(sizes, sizes_of_features[c] @ sizes_of_weights[c] + constant)
    relative = (4 * (n_features + 3) * sizes + n_labels + 16) * _ROUNDOFF
    n_weight_additions = 16 + n_rows / 128 + 1 + 8 + n_labels
    n_offset_additions = n_rows / 8 + 1 + 8
    errors_by_weight = np.empty((n_labels, n_features))
    errors_by_offset = np.empty(n_labels)
    for c in range(n_labels):
        column = probabilities[:, c]
        excess = np.abs(column - (problem.fits.labels == c))
        score_errors = problem.shares * column * relative
        row_errors = score_errors + problem.shares * excess * n_weight_additions * _ROUNDOFF
        errors_by_weight[c] = row_errors @ sizes_of_features[c]
        row_errors = score_errors + problem.shares * excess * n_offset_additions * _ROUNDOFF
        errors_by_offset[c] = row_errors.sum()
    errors = [errors_by_weight.sum(axis=0)]
    if problem.layout.per_label:
        errors += [errors_by_weight.ravel(), errors_by_offset]
    deviation = np.abs(point - problem.layout.pack(problem.start, None))
    ridge_errors = 4 * _ROUNDOFF * 2 * problem.strength * deviation
    # The bounds are sums of doubles, too: one part in a hundred more is plenty.
    return 1.01 * (np.concatenate(errors) + ridge_errors)


def _norm(vector: Floats) -> float:
    return float(np.sqrt((vector**2).sum()))


# Twice the digits


def compute_precise_slope(problem: _Problem, point: DoubleDouble) -> DoubleDouble:
    """Return the slope of the loss at a point with about 30 digits."""
    layout = problem.layout
    n_labels = len(problem.base)
    n_features = layout.n_features
    shared = point[:n_features]
    differences = DoubleDouble.from_doubles(np.zeros((n_labels, n_features)))
    offsets = DoubleDouble.from_doubles(np.zeros(n_labels))
    if layout.per_label:
        end = n_features * (n_labels + 1)
        flat = point[n_features:end]
        differences = DoubleDouble(
            flat.high.reshape(n_labels, n_features), flat.low.reshape(n_labels, n_features)
        )
        offsets = point[end:]
    scores = [
        _score_precisely(
            problem.fits.features[c],
            shared + differences[c],
            offsets[c] + _constant(problem.base[c]),
        )
        for c in range(n_labels)
    ]
    excess = _compute_excess(problem, scores)
    by_weight = []
    by_offset = []
    for features, column in zip(problem.fits.features, excess, strict=True):
        values = features.astype(np.float64).T
        products = [(column * _constant(feature)).sum() for feature in values]
        by_weight.append(_stack(products))
        by_offset.append(column.sum())
    total = by_weight[0]
    for label_slopes in by_weight[1:]:
        total = total + label_slopes
    slope = total
    if layout.per_label:
        slope = _concatenate([total, *by_weight, _stack(by_offset)])
    center = _constant(layout.pack(problem.start, None))
    ridge = _constant(np.full(len(slope.high), 2 * problem.strength))
    return slope + (point - center) * ridge


def _constant(values: Floats) -> DoubleDouble:
    return DoubleDouble.from_doubles(values)


def _stack(numbers: list[DoubleDouble]) -> DoubleDouble:
    return DoubleDouble(
        np.array([float(number.high) for number in numbers]),
        np.array([float(number.low) for number in numbers]),
    )


def _concatenate(vectors: list[DoubleDouble]) -> DoubleDouble:
    return DoubleDouble(
        np.concatenate([vector.high for vector in vectors]),
        np.concatenate([vector.low for vector in vectors]),
    )


def _score_precisely(
    features: NDArray[np.float32], weights: DoubleDouble, constant: DoubleDouble
) -> DoubleDouble:
    """Return the scores of rows for one label."""
    n_rows = len(features)
    scores = DoubleDouble(np.full(n_rows, constant.high), np.full(n_rows, constant.low))
    for feature, high, low in zip(
        features.astype(np.float64).T, weights.high, weights.low, strict=True
    ):
        weight = DoubleDouble(np.full(n_rows, high), np.full(n_rows, low))
        scores = scores + _constant(feature) * weight
    return scores


def _compute_excess(problem: _Problem, scores: list[DoubleDouble]) -> list[DoubleDouble]:
    """Return what the probability of each label exceeds observations by, times the row's share."""
    highest = np.max([score.high for score in scores], axis=0)
    odds = []
    for score in scores:
        below = score - _constant(highest)
        # As in compiled code, what is less probable than e^-700 counts as that.
        is_low = below.high < -700
        below = DoubleDouble(np.where(is_low, -700.0, below.high), np.where(is_low, 0.0, below.low))
        odds.append(below.exp())
    total = odds[0]
    for label_odds in odds[1:]:
        total = total + label_odds
    excess = []
    for c, label_odds in enumerate(odds):
        observed = _constant((problem.fits.labels == c).astype(np.float64))
        excess.append((label_odds / total - observed) * _constant(problem.shares))
    return excess


def _bound_precise_errors(problem: _Problem, point: Floats) -> float:
    """Return a bound of the errors of a slope with twice the digits, by those with one."""
    return _norm(_bound_slope_errors(problem, point)) * (_PRECISE_ROUNDOFF / _ROUNDOFF)
