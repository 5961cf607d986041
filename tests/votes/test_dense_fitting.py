"""Fits to features in blocks of rows: the loss of the definition, in the same bytes for vectors of any width."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hammemo import _native
from hammemo._arrays.logarithms import log, log1p
from hammemo.votes.fitting import CompiledFits, DenseFits, FittedWeights
from twins.dense_fits import BoundedFits

RIDGE = 3.0


class Drawn:
    """Features of rows, with labels and multiplicities."""

    def __init__(self, n_labels: int, m: int, n_features: int, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        self.ratios = rng.normal(0, 2, (n_labels, m, n_features)).astype(np.float32)
        self.labels = rng.integers(0, n_labels, m)
        self.multiplicity = rng.integers(1, 5, m)
        self.prior = rng.dirichlet(np.ones(n_labels))
        self.start = np.abs(rng.normal(0, 0.2, n_features))
        self.rng = rng

    def size(self, *, by_label: bool) -> int:
        n_labels, _, n_features = self.ratios.shape
        return int(n_features + (n_labels * (n_features + 1) if by_label else 0))

    def loss(self, at: Any, *, by_label: bool) -> tuple[float, Any]:
        """Return the loss and its gradient by their definition, in float64."""
        (n_labels, m, n_features), total = self.ratios.shape, self.multiplicity.sum()
        shared, rest = at[:n_features], at[n_features:]
        own = rest[: n_labels * n_features].reshape(n_labels, n_features) if by_label else np.zeros((n_labels, 1))
        offsets = rest[n_labels * n_features :] if by_label else np.zeros(n_labels)
        x, times = self.ratios.astype(np.float64), self.multiplicity / total
        scores = ((shared + own)[:, None] * x).sum(axis=2).T + np.log(self.prior) + offsets
        norms = np.logaddexp.reduce(scores, axis=1)
        away = at - np.concatenate([self.start, np.zeros(len(rest))])
        excess = np.exp(scores - norms[:, None])
        excess[np.arange(m), self.labels] -= 1
        excess *= times[:, None]
        by_weight = (excess.T[:, :, None] * x).sum(axis=1)
        parts = [by_weight.sum(axis=0), *([by_weight.ravel(), excess.sum(axis=0)] if by_label else [])]
        missed = times @ (norms - scores[np.arange(m), self.labels])
        return float(missed + RIDGE / total * away @ away), np.concatenate(parts) + 2 * RIDGE / total * away

    def compiled(self, at: Any, width: int, *, by_label: bool, rows: Any = None) -> tuple[float, Any]:
        rows = np.arange(len(self.labels)) if rows is None else rows
        made = _native.DenseRatios.of_rows(self.ratios, rows, self.labels[rows].astype(np.int32))
        gradient, total = np.empty(len(at)), self.multiplicity[rows].sum()
        shares = self.multiplicity[rows] / total
        value = made.loss(log(self.prior), shares, self.start, RIDGE / total, by_label, at, gradient, width)
        return value, gradient


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 5), st.integers(1, 300), st.integers(1, 13), st.booleans(), st.integers(0, 2**32 - 1))
def test_the_loss_is_that_of_the_definition(n_labels: int, m: int, n_features: int, by_label: bool, seed: int) -> None:
    drawn = Drawn(n_labels, m, n_features, seed)
    at = drawn.rng.normal(0, 1, drawn.size(by_label=by_label))
    expected, slope = drawn.loss(at, by_label=by_label)
    value, gradient = drawn.compiled(at, 0, by_label=by_label)
    assert value == pytest.approx(expected, rel=1e-12)
    np.testing.assert_allclose(gradient, slope, rtol=1e-10, atol=1e-13)
    for width in (1, 2, 4, 8):
        other, turned = drawn.compiled(at, width, by_label=by_label)
        assert (other, turned.tobytes()) == (value, gradient.tobytes())


def test_scores_that_are_far_apart() -> None:
    drawn = Drawn(3, 40, 4)
    at = 1e4 * drawn.rng.normal(0, 1, drawn.size(by_label=True))
    expected, slope = drawn.loss(at, by_label=True)
    value, gradient = drawn.compiled(at, 0, by_label=True)
    assert value == pytest.approx(expected, rel=1e-12)
    np.testing.assert_allclose(gradient, slope, rtol=1e-9, atol=1e-9)


def test_some_rows_are_those_rows_alone() -> None:
    drawn, rows = Drawn(3, 500, 7), np.flatnonzero(np.arange(500) % 5)
    at = drawn.rng.normal(0, 1, drawn.size(by_label=True))
    value, gradient = drawn.compiled(at, 0, by_label=True, rows=rows)
    drawn.ratios = np.ascontiguousarray(drawn.ratios[:, rows])
    drawn.labels, drawn.multiplicity = drawn.labels[rows], drawn.multiplicity[rows]
    alone, slope = drawn.compiled(at, 0, by_label=True)
    assert (value, gradient.tobytes()) == (alone, slope.tobytes())


@pytest.mark.parametrize("is_bounded", [False, True])
@pytest.mark.parametrize("per_label", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_the_fit_ends_where_that_of_arrays_does(per_label: bool, is_bounded: bool, seed: int) -> None:
    drawn, rows = Drawn(3, 400, 6, seed), np.arange(0, 400, 2)
    compiled = CompiledFits.from_features(
        drawn.ratios,
        labels=drawn.labels,
        multiplicity=drawn.multiplicity,
        prior=drawn.prior,
        rows=rows,
        is_bounded=is_bounded,
    )
    assert compiled.n_features == 6
    twin = BoundedFits if is_bounded else DenseFits
    arrays = twin(drawn.ratios[:, rows], drawn.labels[rows], drawn.multiplicity[rows], drawn.prior)
    ends = [fits.fit(start=drawn.start, ridge=RIDGE, per_label=per_label, steps=200) for fits in (compiled, arrays)]
    drawn.ratios, drawn.labels, drawn.multiplicity = arrays.ratios, arrays.labels, arrays.multiplicity

    def reached(end: FittedWeights) -> float:
        parts = [end.differences.T.ravel(), end.offsets] if per_label else []
        return drawn.loss(np.concatenate([end.shared, *parts]), by_label=per_label)[0]

    assert reached(ends[0]) == pytest.approx(reached(ends[1]), abs=1e-5)
    assert all((end.shared[:, None] + end.differences >= 0).all() == is_bounded for end in ends)
    assert reached(ends[0]) < drawn.loss(np.zeros(drawn.size(by_label=per_label)), by_label=per_label)[0]


def test_what_does_not_fit_is_refused() -> None:
    ratios, rows, labels = np.zeros((2, 5, 3), np.float32), np.arange(5), np.zeros(5, np.int32)
    make: Any = _native.DenseRatios.of_rows
    for wrong in ((ratios, rows + 1, labels), (ratios, rows - 1, labels), (ratios, rows, labels + 2),
                  (ratios, rows[:4], labels), (ratios[:0], rows, labels)):  # fmt: skip
        with pytest.raises(ValueError, match=r"row|label"):
            make(*wrong)
    made, numbers = make(ratios, rows, labels), np.zeros
    for sizes, width, match in (
        ((1, 5, 3, 3), 0, "one number a label"),
        ((2, 4, 3, 3), 0, "one a row"),
        ((2, 5, 2, 2), 0, "other features"),
        ((2, 5, 3, 4), 0, "other features"),
        ((2, 5, 3, 3), 3, "a vector has"),
    ):
        with pytest.raises(ValueError, match=match):
            made.loss(*map(numbers, sizes[:3]), 1.0, False, numbers(sizes[3]), numbers(sizes[3]), width)
    with pytest.raises(ValueError, match="above zero"):
        made.fit(numbers(2), numbers(5), numbers(3), 0.0, False, 5, 1e-6, numbers(3))
    with pytest.raises(ValueError, match="not negative"):
        made.fit(numbers(2), numbers(5), numbers(3) - 1, 1.0, False, 5, 1e-6, numbers(3), True)


def test_logarithms_are_those_of_numpy_but_for_rounding() -> None:
    values = np.concatenate([np.geomspace(1e-12, 1e12, 5001), [0.5, 1.0, 2.0]]).reshape(4, -1)
    np.testing.assert_allclose(log(values), np.log(values), rtol=4e-16, atol=4e-16)
    np.testing.assert_allclose(log1p(values), np.log1p(values), rtol=4e-16)
    np.testing.assert_array_equal(log1p(np.zeros((2, 3), np.int64)), np.zeros((2, 3)))
    assert log(values[:0]).shape == values[:0].shape
