"""Quantiles of errors by rank: those of a plain sort, for exact fractions, and what they cover of one more error."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hammemo.features.cells.finite_sample import largest_coverage, take_quantiles
from twins.ranks import finite_sample_quantile

pytestmark = pytest.mark.quick

RATIOS = st.lists(st.floats(-5, 5), min_size=1, max_size=60)
LEVELS = st.lists(st.integers(0, 1000), min_size=1, max_size=8)


@given(RATIOS, LEVELS)
def test_quantiles_are_those_of_a_plain_sort(ratios: list[float], thousandths: list[int]) -> None:
    levels = np.array(thousandths) / 1000
    found = take_quantiles(np.sort(np.array(ratios, np.float64)), levels)
    expected = [finite_sample_quantile(ratios, Fraction(level, 1000)) for level in thousandths]
    assert found.tolist() == expected


@given(RATIOS)
def test_quantiles_rise_with_their_levels(ratios: list[float]) -> None:
    found = take_quantiles(np.sort(np.array(ratios, np.float64)), np.arange(101) / 100)
    assert (found[1:] >= found[:-1]).all()
    assert found[0] == -np.inf
    assert found[-1] == np.inf


@pytest.mark.parametrize("n", [1, 4, 9, 19, 20, 39, 1000])
def test_the_largest_coverage_has_finite_ends_and_more_has_not(n: int) -> None:
    most = largest_coverage(n)
    ratios = np.arange(n, dtype=np.float64) - n / 3
    ends = np.array([0.5 - most / 2, 0.5 + most / 2])
    assert np.isfinite(take_quantiles(ratios, ends)).all()
    beyond = most + (1 - most) / 100
    assert np.isinf(take_quantiles(ratios, np.array([0.5 - beyond / 2, 0.5 + beyond / 2]))).all()


@pytest.mark.parametrize(("n", "coverage"), [(10, 0.8), (19, 0.95), (20, 0.95), (50, 0.95), (100, 0.5)])
def test_one_more_error_is_covered(n: int, coverage: float) -> None:
    """The share of 4,000 draws is a binomial one.

    It lies more than 4.5 standard deviations below the asked coverage with a probability below 4e-6.
    """
    draws = np.random.default_rng(n).standard_t(3, size=(4_000, n + 1)) + 0.3
    ends = np.array([0.5 - coverage / 2, 0.5 + coverage / 2])
    intervals = np.array([take_quantiles(np.sort(ratios[:-1]), ends) for ratios in draws])
    covered = ((intervals[:, 0] <= draws[:, -1]) & (draws[:, -1] <= intervals[:, 1])).mean()
    assert covered >= coverage - 4.5 * np.sqrt(coverage * (1 - coverage) / len(draws))
