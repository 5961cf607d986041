"""The theorems as functions of their parameters, and every bound compared with independent draws of the codes."""

from __future__ import annotations

from math import inf, log, sqrt
from typing import Any

import numpy as np
import pytest
from scipy import stats

from hammemo.paper.experiments import bounds as experiment
from hammemo.paper.theory import (
    CONTEXT_CONSTANT,
    DIMENSION_CONSTANT,
    coherence_dimension,
    context_bound,
    data_context_bound,
    data_recovery,
    margin_preserved,
    output_bound,
    projection_dimension,
    recovery,
    required_dimension,
    sharp_context_bound,
    square_recovery,
)


def test_the_constants_are_those_of_the_derivation() -> None:
    z = 1 / sqrt(DIMENSION_CONSTANT)
    assert 2 * sqrt(2) * z + 4 * z**2 == pytest.approx(1)  # a_d = 1 at d = c_0 L
    for rate in np.geomspace(1e-6, 1e3, 50):  # a_D <= 4 (sqrt(L/D) + L/D)
        assert 2 * sqrt(2 * rate) + 4 * rate <= 4 * (sqrt(rate) + rate)
    assert CONTEXT_CONSTANT == 2 * 4


@pytest.mark.parametrize("d_h", [16, 128, 1024])
def test_the_sharp_context_bound_is_below_the_paper_s_form(d_h: int) -> None:
    rounded = context_bound(1024, 1024, d_h, 64, 0.05)
    assert rounded.applies
    assert sharp_context_bound(1024, 1024, d_h, 64, 0.05) <= rounded.value


def test_the_context_bound_says_where_it_does_not_apply() -> None:
    needed = DIMENSION_CONSTANT * log(2 * 1000 / sqrt(0.1))
    assert context_bound(1000, int(needed) + 1, 10, 5, 0.1).applies
    below = context_bound(1000, int(needed), 10, 5, 0.1)
    assert (below.value, below.applies) == (inf, False)
    assert not recovery(1000, int(needed) // 2, 10, 5, 1.0, 1e9, 0.1).guaranteed
    assert not square_recovery(1000, 64, 8, 5, 1.0, 3, 1e9, 0.1).guaranteed


def test_theorem_4_context_sketch_written_out() -> None:
    n, d, d_h, largest, delta = 50, 2000, 300, 7, 0.2
    L = log(2 * n / sqrt(delta))
    rates = sqrt(L / d) + L / d + sqrt(L / d_h) + L / d_h
    assert context_bound(n, d, d_h, largest, delta).value == pytest.approx(8 * largest * rates)
    tokens, projection = (2 * sqrt(2 * L / D) + 4 * L / D for D in (d, d_h))
    sharp = sharp_context_bound(n, d, d_h, largest, delta)
    assert sharp == pytest.approx(largest * (tokens + (1 + tokens) * projection))


def test_theorem_5_output_interference_written_out() -> None:
    n, d, energy, delta = 50, 300, 81.0, 0.2
    t = log(4 * n / delta)
    alpha = 2 * sqrt(t / d) + 2 * t / d
    assert output_bound(n, d, energy, delta) == pytest.approx(9 * (alpha + sqrt(2 * t * (1 + alpha) / d)))


def test_theorem_6_recovery_splits_delta_and_compares_with_half_the_margin() -> None:
    parts = recovery(100, 10**6, 10**6, 7, 30.0, 5.0, 0.1)
    assert parts.context == context_bound(100, 10**6, 10**6, 7, 0.05).value
    assert parts.output == output_bound(100, 10**6, 30.0, 0.05)
    assert parts.guaranteed == margin_preserved(parts.total, 5.0)
    assert parts.guaranteed
    assert not recovery(100, 10**6, 10**6, 7, 30.0, 2 * parts.total, 0.1).guaranteed


def test_corollary_7_needs_h_to_divide_d() -> None:
    with pytest.raises(ValueError, match="does not divide"):
        square_recovery(10, 1000, 3, 5, 1.0, 3, 1.0, 0.1)


def test_corollary_7_bounds_theorem_6_at_its_own_energy_envelope() -> None:
    n, d, h, largest, energy, observed = 64, 2**20, 8, 20, 900.0, 6
    corollary = square_recovery(n, d, h, largest, energy, observed, 3.0, 0.1)
    context = context_bound(n, d, d // h, largest, 0.05).value
    envelope = (sqrt(energy) + sqrt(observed) * context) ** 2
    assert recovery(n, d, d // h, largest, envelope, 3.0, 0.1).total <= corollary.total


def test_corollary_7_written_out() -> None:
    n, d, h, largest, energy, observed, delta = 64, 2**12, 8, 20, 900.0, 6, 0.1
    L = log(16 * n / delta)
    alpha = 2 * sqrt(L / d) + 2 * L / d
    gamma = sqrt(2 * L * (1 + alpha) / d)
    context = 16 * largest * (sqrt(h * L / d) + h * L / d)
    corollary = square_recovery(n, d, h, largest, energy, observed, 3.0, delta)
    assert corollary.context == pytest.approx(context)
    assert corollary.output == pytest.approx((30 + sqrt(6) * context) * (alpha + gamma))
    assert not corollary.guaranteed
    assert square_recovery(n, d, h, largest, energy, observed, 2.01 * corollary.total, delta).guaranteed


def test_theorem_3_compares_with_half_the_margin() -> None:
    assert margin_preserved(7.99, 16)
    assert not margin_preserved(8.0, 16)


@pytest.mark.parametrize("function", [coherence_dimension, projection_dimension])
def test_the_dimensions_of_section_2_have_the_paper_s_rate(function: Any) -> None:
    base = function(1000, 0.1, 0.01)
    assert function(1000, 0.05, 0.01) == pytest.approx(4 * base, rel=0.1)  # about 1/epsilon^2
    more = function(1000**2, 0.1, 0.01) - base
    assert more == pytest.approx(function(1000**3, 0.1, 0.01) - base - more, abs=2)  # linear in log n
    assert function(1000, 0.1, 0.01 / 1000**2) - base == pytest.approx(more, abs=2)  # and in log 1/delta
    with pytest.raises(ValueError, match="between 0 and 1"):
        function(1000, 1.0, 0.01)


def test_the_dimensions_of_section_2_are_the_smallest_that_suffice() -> None:
    n, epsilon, delta = 100, 0.3, 0.05
    for dimension, pairs in (
        (coherence_dimension(n, epsilon, delta), n * (n + 1)),
        (projection_dimension(n, epsilon, delta), n * (n - 1)),
    ):
        t = log(pairs / delta)
        assert 2 * sqrt(t / dimension) + 2 * t / dimension <= epsilon
        assert 2 * sqrt(t / (dimension - 1)) + 2 * t / (dimension - 1) > epsilon


def coherence(d: int, n: int, rng: np.random.Generator) -> float:
    """Return how far n token codes are from orthonormal."""
    codes = rng.normal(0, 1 / sqrt(d), (n, d))
    return float(np.abs(codes @ codes.T - np.eye(n)).max())


def distortion(d_h: int, n: int, rng: np.random.Generator) -> float:
    """Return how far a projection moves the squared distances between n codes, relative to them."""
    codes = rng.normal(size=(n, 3 * d_h))
    pairs = np.stack([codes[i] - codes[j] for i in range(n) for j in range(i)])
    projected = pairs @ rng.normal(0, 1 / sqrt(d_h), (3 * d_h, d_h))
    return float(np.abs(np.square(projected).sum(axis=1) / np.square(pairs).sum(axis=1) - 1).max())


@pytest.mark.parametrize(
    ("function", "measure"), [(coherence_dimension, coherence), (projection_dimension, distortion)]
)
def test_the_dimensions_of_section_2_suffice_in_draws_and_a_tenth_does_not(function: Any, measure: Any) -> None:
    n, epsilon, delta, draws, rng = 12, 0.5, 0.1, 200, np.random.default_rng(0)
    enough = function(n, epsilon, delta)
    failures = sum(measure(enough, n, rng) > epsilon for _ in range(draws))
    assert stats.binomtest(failures, draws, delta, alternative="greater").pvalue > FALSE_ALARM
    assert np.mean([measure(enough // 10, n, rng) > epsilon for _ in range(draws)]) > 0.5


def test_remark_8_the_asymptotic_requirement() -> None:
    base = required_dimension(1000, 8, 4000, 60, 16.0, 0.1)
    assert required_dimension(1000, 8, 4000, 60, 8.0, 0.1) == pytest.approx(4 * base)
    assert base == pytest.approx(log(160_000) * (8 * 3600 + 240_000) / 256)
    assert required_dimension(1000, 8, 4000, 60, 0.0, 0.1) == inf


@pytest.mark.parametrize("arguments", [{"delta": 0}, {"delta": 1.0}, {"d": 0}, {"largest_class": -1}])
def test_impossible_parameters_are_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="="):
        context_bound(**{"n": 10, "d": 100, "d_h": 10, "largest_class": 3, "delta": 0.1, **arguments})


def test_labels_without_counts_have_no_context_error() -> None:
    ideal, norms = np.array([[3.0, 0.0]]), np.array([[2.0, 0.0]])
    bound = data_context_bound(ideal, norms, norms, d=64, d_h=16, delta=0.1)
    assert bound[0, 1] == 0 < bound[0, 0]
    total, certain = data_recovery(ideal, norms, norms, d=64, d_h=16, delta=0.1)
    assert (total > bound).all()
    assert not certain[0]
    assert data_recovery(ideal, norms, norms, d=10**7, d_h=10**6, delta=0.1)[1][0]


def test_the_context_bound_from_counts_written_out() -> None:
    d, d_h, delta, observed = 64, 16, 0.1, 1
    t = log((2 * observed + 4) / delta)
    spread = ((d * (d + d_h + 1) / d_h) ** (1 / 4) + sqrt(2 * t / d_h)) ** 2
    largest = (1 + sqrt(d / d_h) + sqrt(2 * t / d_h)) ** 2
    trace = 2 * sqrt(t / (d * d_h)) + 2 * t / (d * d_h)
    expected = 3.0 * trace + 2 * 2.0 * sqrt(t) * spread / d + 2 * 1.5 * t * largest / d
    bound = data_context_bound(np.array([[3.0]]), np.array([[2.0]]), np.array([[1.5]]), d, d_h, delta)
    assert bound[0, 0] == pytest.approx(expected)


# A bound that fails with probability at most delta is violated in a Binomial(draws, at most delta) number of draws. A
# test fails where that many have a chance below 1e-6 at delta itself: its false-alarm rate, for each bound.
FALSE_ALARM = 1e-6


@pytest.mark.parametrize(
    ("name", "draws"),
    [
        ("repeated", 400),
        *(pytest.param(name, 2000, marks=pytest.mark.slow) for name in ("planted", "zipf", "repeated")),
    ],
)
def test_no_bound_is_violated_more_often_than_it_may(name: str, draws: int) -> None:
    rows = experiment.run(experiment.BoundSettings(names=(name,), draws=draws), jobs=1 if draws < 2000 else 2)
    assert {row["bound"] for row in rows} == set(experiment.BOUNDS)
    looseness = {row["bound"]: row["looseness"] for row in rows}
    for row in rows:
        assert row["draws"] >= draws
        assert row["chance_of_as_many_at_delta"] > FALSE_ALARM, row
        assert row["looseness"] > row["perfect"] > 1
    assert looseness["context, from counts"] < looseness["context, sharp"] / 3
    assert looseness["score, from counts"] < looseness["score"]


def test_a_bound_that_is_too_small_would_be_caught() -> None:
    """A tenth of Theorem 5's bound is violated far more often than delta: the test above has teeth."""
    data = experiment.data_set("repeated", 0)
    drawn = [experiment.draw(data, seed, 0.1)["output"] for seed in range(60)]
    assert np.mean([outcome.error > outcome.bound / 10 for outcome in drawn]) > 0.5


def test_a_perfect_bound_shows_the_spread_of_the_largest_error() -> None:
    """The largest of 64 independent normal errors: its 90 % quantile is 1.23 times its median, not 4.8."""
    errors = np.abs(np.random.default_rng(0).normal(size=(20_000, 64))).max(axis=1)
    quantile, median = (stats.norm.ppf((1 + p ** (1 / 64)) / 2) for p in (0.9, 0.5))
    assert experiment.perfect_looseness(errors, 0.1) == pytest.approx(quantile / median, rel=0.01)
    assert quantile / median == pytest.approx(1.23, abs=0.005)


def test_the_table_of_the_docs() -> None:
    rows = experiment.run(experiment.BoundSettings(draws=3, names=("repeated",)), jobs=1)
    table = experiment.markdown(rows)
    assert table.count("\n") == 2 + len(experiment.BOUNDS) + 3  # and one perfect bound for each kind of error
    assert "| output | Theorem 5 | " in table
    row = next(row for row in rows if row["bound"] == "output")
    assert f"| output, perfect | {experiment.PERFECT} | {row['perfect']:.2f} |" in table
    assert experiment.summary(experiment.BoundSettings(), rows)["bounds"] == rows
