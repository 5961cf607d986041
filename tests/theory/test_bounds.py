"""The theorems as functions of their parameters, and every bound held against independent draws of the codes."""

from __future__ import annotations

from math import inf, log, sqrt
from typing import Any

import numpy as np
import pytest

from hammemo.experiments import bounds as experiment
from hammemo.theory import (
    CONTEXT_CONSTANT,
    DIMENSION_CONSTANT,
    context_bound,
    data_context_bound,
    data_recovery,
    output_bound,
    recovery,
    required_dimension,
    sharp_context_bound,
    square_recovery,
)
from hammemo.theory.bounds import margin_preserved


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


def test_theorem_3_written_out() -> None:
    n, d, energy, delta = 50, 300, 81.0, 0.2
    t = log(4 * n / delta)
    alpha = 2 * sqrt(t / d) + 2 * t / d
    assert output_bound(n, d, energy, delta) == pytest.approx(9 * (alpha + sqrt(2 * t * (1 + alpha) / d)))


def test_theorem_4_splits_delta_and_compares_with_half_the_margin() -> None:
    parts = recovery(100, 10**6, 10**6, 7, 30.0, 5.0, 0.1)
    assert parts.context == context_bound(100, 10**6, 10**6, 7, 0.05).value
    assert parts.output == output_bound(100, 10**6, 30.0, 0.05)
    assert parts.guaranteed == margin_preserved(parts.total, 5.0)
    assert parts.guaranteed
    assert not recovery(100, 10**6, 10**6, 7, 30.0, 2 * parts.total, 0.1).guaranteed


def test_the_corollary_needs_h_to_divide_d() -> None:
    with pytest.raises(ValueError, match="does not divide"):
        square_recovery(10, 1000, 3, 5, 1.0, 3, 1.0, 0.1)


def test_the_corollary_bounds_theorem_4_at_its_own_energy_envelope() -> None:
    n, d, h, largest, energy, observed = 64, 2**20, 8, 20, 900.0, 6
    corollary = square_recovery(n, d, h, largest, energy, observed, 3.0, 0.1)
    context = context_bound(n, d, d // h, largest, 0.05).value
    envelope = (sqrt(energy) + sqrt(observed) * context) ** 2
    assert recovery(n, d, d // h, largest, envelope, 3.0, 0.1).total <= corollary.total


def test_the_asymptotic_requirement() -> None:
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
        assert row["looseness"] > 1
    assert looseness["context, from counts"] < looseness["context, sharp"] / 3
    assert looseness["score, from counts"] < looseness["score"]


def test_a_bound_that_is_too_small_would_be_caught() -> None:
    """A tenth of Theorem 3's bound is violated far more often than delta: the test above has teeth."""
    data = experiment.data_set("repeated", 0)
    ratios = [experiment.draw(data, seed, 0.1)["output"][0] for seed in range(60)]
    assert np.mean([ratio < 10 for ratio in ratios]) > 0.5


def test_the_table_of_the_docs() -> None:
    rows = experiment.run(experiment.BoundSettings(draws=3, names=("repeated",)), jobs=1)
    table = experiment.markdown(rows)
    assert table.count("\n") == 2 + len(experiment.BOUNDS)
    assert "| output | Theorem 3 | " in table
    assert experiment.summary(experiment.BoundSettings(), rows)["bounds"] == rows
