"""Squares and products of columns: their strengths are those of plain sums, and what only they show is chosen."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from hammemo.features.wide import products
from hammemo.features.wide.choose_columns import choose_narrowing
from hammemo.tokens.column_kinds import NUMBERS
from hammemo.tokens.columns import Columns
from hammemo.tokens.contexts import Examples
from hammemo.tokens.packed_rows import pack_rows

pytestmark = pytest.mark.quick

N_COLUMNS = 600
FIRST = 70
SECOND = 345


def explain_plainly(values: np.ndarray, labels: np.ndarray) -> float:
    """Return n R^2 of some values between labels, row by row."""
    spread = ((values - values.mean()) ** 2).sum()
    if spread == 0:
        return 0.0
    within = sum(((values[labels == one] - values[labels == one].mean()) ** 2).sum() for one in set(labels.tolist()))
    return float(len(values) * (1 - within / spread))


def correlate_plainly(values: np.ndarray, targets: np.ndarray) -> float:
    """Return n R^2 of a line from some values to targets."""
    if values.std() == 0 or targets.std() == 0:
        return 0.0
    return float(len(values) * np.corrcoef(values, targets)[0, 1] ** 2)


@given(seed=st.integers(0, 2**32), n_labels=st.integers(1, 4), is_sparse=st.booleans())
@settings(max_examples=30)
def test_strengths_are_those_of_plain_sums(seed: int, n_labels: int, *, is_sparse: bool) -> None:
    rng = np.random.default_rng(seed)
    m = int(rng.integers(2, 30))
    whole = np.rint(rng.normal(size=(m, 5)) * 256 * rng.choice([0.0, 1.0, 9.0], size=(m, 5)))
    counts = rng.integers(1, 4, m)
    labels = rng.integers(0, n_labels, m)
    numbers = rng.normal(size=m)
    every_row = np.repeat(np.arange(m), counts)
    coarse = np.clip(np.rint(whole / 8), -96, 96)[every_row]
    targets = np.clip(np.rint(numbers * 256), -4096, 4096)[every_row]
    matrix: Any = sparse.csr_array(whole) if is_sparse else whole

    def by_labels(rows: Any, sum_products: products.SumProducts) -> np.ndarray:
        return products.measure_by_labels(rows, sum_products, labels, counts)

    def by_numbers(rows: Any, sum_products: products.SumProducts) -> np.ndarray:
        return products.measure_by_numbers(rows, sum_products, numbers, counts)

    plain_labels = [[explain_plainly(a * b, labels[every_row]) for b in coarse.T] for a in coarse.T]
    plain_numbers = [[correlate_plainly(a * b, targets) for b in coarse.T] for a in coarse.T]
    for measure, plain in ((by_labels, np.array(plain_labels)), (by_numbers, np.array(plain_numbers))):
        squares = products.measure_squares(matrix, measure)
        np.testing.assert_allclose(squares, plain.diagonal(), rtol=1e-7, atol=1e-7)
        if not is_sparse:
            np.fill_diagonal(plain, 0.0)
            pairs = products.measure_pairs(matrix, measure)
            np.testing.assert_allclose(pairs, plain.max(axis=1), rtol=1e-7, atol=1e-7)


def test_strengths_do_not_depend_on_the_order_of_rows() -> None:
    rng = np.random.default_rng(0)
    matrix = np.rint(rng.normal(size=(101, 40)) * 256)
    labels = rng.integers(0, 3, 101)
    counts = rng.integers(1, 1000, 101)
    numbers = np.rint(rng.normal(size=101) * 256) / 256
    order = rng.permutation(101)

    def measure(places: np.ndarray) -> list[bytes]:
        def by_labels(rows: Any, sum_products: products.SumProducts) -> np.ndarray:
            return products.measure_by_labels(rows, sum_products, labels[places], counts[places])

        def by_numbers(rows: Any, sum_products: products.SumProducts) -> np.ndarray:
            return products.measure_by_numbers(rows, sum_products, numbers[places], counts[places])

        rows = matrix[places]
        measures = (by_labels, by_numbers)
        pairs = [products.measure_pairs(rows, one).tobytes() for one in measures]
        squares = [products.measure_squares(rows, one).tobytes() for one in measures]
        return pairs + squares

    assert measure(order) == measure(np.arange(101))


def test_blocks_of_columns_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    matrix = np.rint(np.random.default_rng(0).normal(size=(30, 50)) * 256)
    labels = np.arange(30) % 2
    counts = np.ones(30, np.int64)

    def measure(rows: Any, sum_products: products.SumProducts) -> np.ndarray:
        return products.measure_by_labels(rows, sum_products, labels, counts)

    at_once = products.measure_squares(matrix, measure)
    monkeypatch.setattr(products, "_COLUMNS_AT_ONCE", 7)
    np.testing.assert_array_equal(products.measure_squares(matrix, measure), at_once)


def make_shape(shape: str, X: np.ndarray) -> np.ndarray:
    if shape == "squares":
        return np.asarray(X[:, FIRST] ** 2 + X[:, SECOND] ** 2 - 2)
    return np.asarray(X[:, FIRST] * X[:, SECOND])


@pytest.mark.parametrize("shape", ["squares", "products"])
@pytest.mark.parametrize("are_numbers", [False, True])
def test_columns_that_tell_by_products_are_chosen(shape: str, *, are_numbers: bool) -> None:
    rng = np.random.default_rng(5)
    X = rng.normal(size=(300, N_COLUMNS))
    targets = make_shape(shape, X)
    columns = Columns((NUMBERS,) * N_COLUMNS).as_packed()
    if are_numbers:
        examples = Examples.of_arrays(pack_rows(X), targets)
        narrowing = choose_narrowing(columns, examples, 0, targets=targets)
    else:
        examples = Examples.of_arrays(pack_rows(X), (targets > 0).astype(int))
        narrowing = choose_narrowing(columns, examples, 0)
    chosen = set(narrowing.chosen.tolist())
    assert {FIRST, SECOND} <= chosen
    assert len(chosen) <= 4


@pytest.mark.parametrize("n_rows", [30, 60, 300])
def test_products_of_noise_choose_nothing(n_rows: int) -> None:
    columns = Columns((NUMBERS,) * N_COLUMNS).as_packed()
    for seed in range(3):
        rng = np.random.default_rng(seed)
        X = rng.standard_t(2, size=(n_rows, N_COLUMNS))  # with far values
        examples = Examples.of_arrays(pack_rows(X), rng.integers(0, 2, n_rows))
        chosen = choose_narrowing(columns, examples, 0, with_scores=False).chosen
        assert len(chosen) <= 3


def test_wide_and_sparse_tables_have_no_pairs() -> None:
    assert products.can_measure_pairs(np.zeros((100, 600)), 2)
    assert not products.can_measure_pairs(np.zeros((100, 3_000)), 2)
    assert not products.can_measure_pairs(np.zeros((100, 2_000)), 10_000)
    assert not products.can_measure_pairs(sparse.csr_array((100, 600)), 2)
