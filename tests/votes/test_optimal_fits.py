"""Weights at the minimum of their loss, rounded: against decimals, and from any start."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal, localcontext
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hammemo._arrays.double_double import DoubleDouble
from hammemo.votes import optimal_fits
from hammemo.votes.fitting import DenseFits, FittedWeights
from hammemo.votes.optimal_fits import GRID, OptimalFits, compute_precise_slope, minimize, round_to_minimum

pytestmark = pytest.mark.quick

DIGITS = 60


class Case(NamedTuple):
    """Rows to fit, the weights that a ridge pulls to, and the ridge."""

    fits: OptimalFits
    start: np.ndarray
    ridge: float
    per_label: bool


def draw_case(seed: int, n_rows: int = 40, n_labels: int = 2, n_features: int = 3) -> Case:
    """Return rows whose features say something of their labels."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, n_labels, n_rows)
    features = rng.normal(size=(n_labels, n_rows, n_features))
    features[labels, np.arange(n_rows)] += 0.5
    fits = OptimalFits(
        features=features.astype(np.float32),
        labels=labels,
        multiplicity=rng.integers(1, 4, n_rows),
        prior=rng.dirichlet(np.ones(n_labels) * 5),
    )
    return Case(fits, np.full(n_features, 1 / n_features), float(rng.uniform(0.5, 20)), bool(seed % 2))


def make_problem(case: Case) -> optimal_fits._Problem:
    return optimal_fits._Problem.of_fits(case.fits, start=case.start, ridge=case.ridge, per_label=case.per_label)


def slope_in_decimals(case: Case, point: list[Decimal]) -> list[Decimal]:
    """Return the slope of the loss with many digits, by its formula."""
    problem = make_problem(case)
    n_labels, n_rows, n_features = case.fits.features.shape
    shared = point[:n_features]
    differences = [[Decimal(0)] * n_features for _ in range(n_labels)]
    offsets = [Decimal(0)] * n_labels
    if case.per_label:
        for c in range(n_labels):
            differences[c] = point[n_features * (c + 1) : n_features * (c + 2)]
        offsets = point[n_features * (n_labels + 1) :]
    by_weight = [[Decimal(0)] * n_features for _ in range(n_labels)]
    by_offset = [Decimal(0)] * n_labels
    for row in range(n_rows):
        values = [[Decimal(float(x)) for x in case.fits.features[c, row]] for c in range(n_labels)]
        odds = []
        for c in range(n_labels):
            score = Decimal(float(problem.base[c])) + offsets[c]
            for f in range(n_features):
                score += (shared[f] + differences[c][f]) * values[c][f]
            odds.append(score.exp())
        for c in range(n_labels):
            excess = odds[c] / sum(odds) - (case.fits.labels[row] == c)
            excess *= Decimal(float(problem.shares[row]))
            by_offset[c] += excess
            for f in range(n_features):
                by_weight[c][f] += excess * values[c][f]
    slope = [sum(by_weight[c][f] for c in range(n_labels)) for f in range(n_features)]
    if case.per_label:
        slope += [s for label in by_weight for s in label] + by_offset
    center = problem.layout.pack(case.start, None)
    strength = 2 * Decimal(problem.strength)
    return [s + strength * (x - Decimal(float(c))) for s, x, c in zip(slope, point, center, strict=True)]


cases = st.builds(
    draw_case,
    seed=st.integers(0, 10**6),
    n_rows=st.integers(2, 60),
    n_labels=st.integers(2, 4),
    n_features=st.integers(1, 4),
)


@settings(max_examples=20, deadline=None)
@given(cases, st.integers(0, 1000))
def test_slopes_are_those_of_decimals_within_their_bounds(case: Case, seed: int) -> None:
    problem = make_problem(case)
    rng = np.random.default_rng(seed)
    point = rng.normal(size=problem.layout.size) * rng.choice([0.1, 1.0, 30.0])
    with localcontext() as context:
        context.prec = DIGITS
        exact = slope_in_decimals(case, [Decimal(float(x)) for x in point])
        plain = problem.measure(point).slope
        bounds = optimal_fits._bound_slope_errors(problem, point)
        for computed, true, bound in zip(plain, exact, bounds, strict=True):
            assert abs(Decimal(float(computed)) - true) <= Decimal(float(bound))
        precise = compute_precise_slope(problem, DoubleDouble.from_doubles(point))
        allowed = Decimal(optimal_fits._bound_precise_errors(problem, point))
        for high, low, true in zip(precise.high, precise.low, exact, strict=True):
            assert abs(Decimal(float(high)) + Decimal(float(low)) - true) <= allowed


@settings(max_examples=30, deadline=None)
@given(cases, st.integers(0, 1000))
def test_rounded_weights_are_those_of_any_start(case: Case, seed: int) -> None:
    cold = case.fits.fit(start=case.start, ridge=case.ridge, per_label=case.per_label)
    rng = np.random.default_rng(seed)
    n_labels, _, n_features = case.fits.features.shape
    warm = FittedWeights(
        np.asarray(rng.normal(size=n_features)),
        rng.normal(size=(n_features, n_labels)),
        np.asarray(rng.normal(size=n_labels)),
    )
    if not case.per_label:
        warm = FittedWeights.from_shared(warm.shared, n_labels)
    again = case.fits.fit(start=case.start, ridge=case.ridge, per_label=case.per_label, warm=warm)
    for before, after in zip(vars(cold).values(), vars(again).values(), strict=True):
        assert before.tobytes() == after.tobytes()
        assert (before / GRID == np.rint(before / GRID)).all()


@settings(max_examples=20, deadline=None)
@given(cases)
def test_weights_are_near_those_of_the_plain_twin(case: Case) -> None:
    fitted = case.fits.fit(start=case.start, ridge=case.ridge, per_label=case.per_label)
    plain = DenseFits(case.fits.features, case.fits.labels, case.fits.multiplicity, case.fits.prior)
    other = plain.fit(start=case.start, ridge=case.ridge, per_label=case.per_label, steps=2000)
    for weights, plain_weights in zip(vars(fitted).values(), vars(other).values(), strict=True):
        np.testing.assert_allclose(weights, plain_weights, atol=5e-3)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 4))
def test_a_path_of_ridges_gives_the_weights_of_each_alone(seed: int, n_labels: int) -> None:
    case = draw_case(seed, 60, n_labels)
    ridges = [5.0, 25.0, 100.0]
    path = case.fits.fit_ridges(start=case.start, ridges=ridges)
    for ridge, fitted in zip(ridges, path, strict=True):
        alone = case.fits.fit(start=case.start, ridge=ridge, per_label=True)
        for one, other in zip(vars(fitted).values(), vars(alone).values(), strict=True):
            assert one.tobytes() == other.tobytes()


def put_minimum_at(case: Case, point: np.ndarray) -> Case:
    """Return the case with the start by which a point of shared weights is the minimum, nearly.

    The slope of the ridge is 2 strength (w - start), so the start that makes up for the slope of
    the rows is w + slope / (2 strength).
    """
    problem = make_problem(case._replace(start=point))
    slope = compute_precise_slope(problem, DoubleDouble.from_doubles(point)).high
    return case._replace(start=point + slope / problem.least_curvature)


@pytest.mark.parametrize("distance", [0.0, 1e-9, 1e-11, 1e-13, 1e-14, 1e-15, 1e-16, -1e-9, -1e-12, -1e-15])
def test_minima_at_a_middle_of_the_grid_are_rounded_alike(distance: float) -> None:
    n_precise = 0
    for seed in range(0, 12, 2):
        case = draw_case(seed, 50, 2, 2)
        rng = np.random.default_rng(seed)
        middle = (rng.integers(-(2**15), 2**15, 2) + 0.5) * GRID
        case = put_minimum_at(case, middle + distance)
        problem = make_problem(case)
        results = []
        starts: list[np.ndarray] = [case.start, np.zeros(2), middle, np.array([2.0, -2.0])]
        for start in starts:
            near = minimize(problem, start, tolerance=GRID * 2.0**-14)
            results.append(round_to_minimum(problem, near, GRID).tobytes())
        assert len(set(results)) == 1
        rounded = np.frombuffer(results[0])
        if abs(distance) >= 1e-13:  # below, the start is not exact enough to tell the side
            assert (np.sign(rounded - middle) == np.sign(distance)).all()
        near = minimize(problem, np.asarray(middle), tolerance=0.0)
        n_precise += optimal_fits._round_if_proved(problem, near, GRID) is None
    if abs(distance) < 1e-15:
        assert n_precise == 6  # doubles prove nothing so near to a middle


def test_a_weight_exactly_in_the_middle_goes_to_the_even_multiple() -> None:
    # Both features are zero, so nothing but the ridge holds the weights: the minimum is the start.
    fits = OptimalFits(
        features=np.zeros((2, 4, 4), np.float32),
        labels=np.array([0, 1, 0, 1]),
        multiplicity=np.ones(4, np.int64),
        prior=np.array([0.5, 0.5]),
    )
    start = np.array([2.5, -3.5, 3.5, -2.5]) * GRID
    fitted = fits.fit(start=start, ridge=1.0, per_label=False)
    assert (fitted.shared / GRID).tolist() == [2.0, -4.0, 4.0, -2.0]


def test_points_on_both_sides_of_a_middle_are_one_tie_until_they_are_far_enough() -> None:
    middles = np.array([2.5, 3.5, -2.5, -3.5]) * GRID
    even = np.array([2.0, 4.0, -2.0, -4.0]) * GRID
    tie = optimal_fits._TIE * GRID
    for side in (-1.0, 1.0):
        for far, expected in ((0.25, even), (4.0, np.rint(middles / GRID + side / 4) * GRID)):
            point = DoubleDouble(middles, np.full(4, side * far * tie))
            rounded = optimal_fits._round_within(point, tie / 8, GRID)
            assert rounded is not None
            assert rounded.tolist() == expected.tolist()
            assert optimal_fits._round_within(point, 8 * tie, GRID) is None
            assert optimal_fits._round_within(point, float("nan"), GRID) is None


def test_random_problems_are_rounded_alike_cold_and_warm() -> None:
    count_rounded_apart(300)


@pytest.mark.slow
def test_a_hundred_thousand_random_problems_are_rounded_alike_cold_and_warm() -> None:
    count_rounded_apart(100_000)


def count_rounded_apart(n_problems: int) -> None:
    """Compare fits from the start with fits from elsewhere, of small random problems."""
    for seed in range(n_problems):
        rng = np.random.default_rng(seed)
        case = draw_case(seed, int(rng.integers(2, 40)), int(rng.integers(2, 4)), int(rng.integers(1, 4)))
        problem = make_problem(case)
        cold = minimize(problem, problem.layout.pack(case.start, None), tolerance=GRID * 2.0**-14)
        elsewhere: np.ndarray = cold.point + rng.normal(size=len(cold.point)) * rng.choice([1e-6, 1e-2, 1.0])
        warm = minimize(problem, elsewhere, cold.curvature, tolerance=GRID * 2.0**-14)
        one = round_to_minimum(problem, cold, GRID)
        other = round_to_minimum(problem, warm, GRID)
        assert one.tobytes() == other.tobytes(), seed


def test_rows_that_weights_tell_apart_have_weights() -> None:
    # Without a ridge there would be no minimum: the further away, the better.
    rng = np.random.default_rng(0)
    labels = np.arange(60) % 2
    features = rng.normal(size=(2, 60, 3)).astype(np.float32)
    features[labels, np.arange(60)] += 20
    fits = OptimalFits(features, labels, np.ones(60, np.int64), np.array([0.5, 0.5]))
    start = np.full(3, 1 / 3)
    for per_label in (False, True):
        fitted = fits.fit(start=start, ridge=0.01, per_label=per_label)
        plain = DenseFits(features, labels, fits.multiplicity, fits.prior)
        other = plain.fit(start=start, ridge=0.01, per_label=per_label, steps=5000)
        np.testing.assert_allclose(fitted.shared, other.shared, atol=2e-2)


def test_one_row_and_labels_without_rows() -> None:
    fits = OptimalFits(np.ones((3, 1, 2), np.float32), np.array([1]), np.array([5]), np.array([0.2, 0.5, 0.3]))
    fitted = fits.fit(start=np.array([0.5, 0.5]), ridge=1.0, per_label=True)
    assert fitted.offsets.argmax() == 1
    assert np.isfinite(fitted.differences).all()


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 5), st.integers(1, 12), st.sampled_from([1.0, 30.0, 250.0]))
def test_many_rows_and_copies_and_large_features_are_rounded_alike(
    seed: int, n_labels: int, n_features: int, size: float
) -> None:
    rng = np.random.default_rng(seed)
    n_rows = 3000
    labels = rng.integers(0, n_labels, n_rows)
    common = rng.normal(size=(1, n_rows, n_features))  # what all labels have in common
    features = np.clip(size * (common + 0.1 * rng.normal(size=(n_labels, n_rows, n_features))), -256, 256)
    features[:, : n_rows // 2, 0] = 0.0
    multiplicity = np.ones(n_rows, np.int64)
    multiplicity[-3:] = 2**15  # behind the rows of the first curvature
    fits = OptimalFits(features.astype(np.float32), labels, multiplicity, rng.dirichlet(np.ones(n_labels)))
    assert fits.can_fit(5.0)
    start = np.full(n_features, 1 / n_features)
    for per_label in (False, True):
        cold = fits.fit(start=start, ridge=5.0, per_label=per_label)
        warm = FittedWeights.from_shared(np.asarray(rng.normal(size=n_features)), n_labels)
        again = fits.fit(start=start, ridge=5.0, per_label=per_label, warm=warm)
        for before, after in zip(vars(cold).values(), vars(again).values(), strict=True):
            assert before.tobytes() == after.tobytes()


def test_rows_beyond_the_reach_of_doubles_are_left_to_steps() -> None:
    case = draw_case(2)
    assert case.fits.can_fit(5.0)
    assert not case.fits.can_fit(0.001)
    for wrong in (np.nan, np.inf, -np.inf, 1e4):
        features = case.fits.features.copy()
        features[0, 0, 0] = wrong
        assert not replace(case.fits, features=features).can_fit(5.0)
    assert not replace(case.fits, multiplicity=case.fits.multiplicity * 2**20).can_fit(5.0)
