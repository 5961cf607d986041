"""Linear scores of wide rows: exact sums, and fits that agree with plain ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize

from hammemo.features.additive.base_folds import FOLDS
from hammemo.features.wide import descent
from hammemo.features.wide import fit_scores as fitting
from hammemo.features.wide.choose_columns import choose_narrowing
from hammemo.features.wide.scaling import UNIT, Scaling
from hammemo.features.wide.score_targets import LabelTargets
from hammemo.tokens.column_kinds import NUMBERS
from hammemo.tokens.columns import Columns
from hammemo.tokens.contexts import Contexts, Examples
from hammemo.tokens.packed_rows import NumberEntries, pack_rows, unpack_rows

pytestmark = pytest.mark.quick


def read(X: np.ndarray) -> NumberEntries:
    return unpack_rows(Contexts(pack_rows(X)), X.shape[1])


def make_table(rng: np.random.Generator, m: int, n: int, share: float) -> np.ndarray:
    X = rng.normal(size=(m, n)) * rng.uniform(0.01, 1000, n) + rng.normal(size=n)
    X[rng.random((m, n)) > share] = 0.0
    X[rng.random((m, n)) < 0.02] = np.nan
    X[:, 0] = 7.0  # constant
    return X


@pytest.mark.parametrize("share", [0.05, 0.4, 1.0])
def test_scaled_numbers_are_those_of_a_plain_table(share: float) -> None:
    rng = np.random.default_rng(0)
    X = make_table(rng, 40, 30, share)
    counts = rng.integers(1, 4, 40)
    scaling = Scaling.from_rows(read(X), counts)
    used = scaling.columns
    assert 0 not in used
    mean = np.nansum(X * counts[:, None], axis=0) / (~np.isnan(X) * counts[:, None]).sum(axis=0)
    spread = np.sqrt(np.nansum((X - mean) ** 2 * counts[:, None], axis=0) / (~np.isnan(X) * counts[:, None]).sum(0))
    n_zero = ((X == 0) * counts[:, None]).sum(axis=0)
    center = np.where(2 * n_zero > (~np.isnan(X) * counts[:, None]).sum(axis=0), 0.0, mean)
    plain = np.nan_to_num((X - center)[:, used] / spread[used])
    matrix: Any = scaling.matrix(read(X))
    whole: Any = matrix.toarray() if hasattr(matrix, "toarray") else matrix
    assert (whole == np.rint(whole)).all()
    np.testing.assert_allclose(whole / UNIT, plain, atol=0.51 / UNIT)


def test_scores_are_exact_sums_of_whole_numbers() -> None:
    rng = np.random.default_rng(1)
    X = make_table(rng, 50, 200, 0.3)
    labels = (np.nan_to_num(X[:, 3]) > 0).astype(int)
    examples = Examples.of_arrays(pack_rows(X), labels)
    found = choose_narrowing(Columns((NUMBERS,) * 200).as_packed(), examples, 0)
    scores = found.scores
    assert scores is not None
    entries = read(X)
    differences = scores.scaling.differences(entries).toarray() + scores.scaling.of_zero
    for fit in range(1 + FOLDS):
        coefficients = scores.coefficients[fit].astype(object)
        sums = [
            sum(int(z) * int(w) for z, w in zip(row, coefficients[:, 0], strict=True)) + int(scores.constants[fit, 0])
            for row in differences
        ]
        expected = [total / 2**scores.exponent for total in sums]
        folds = np.full(len(X), max(fit - 1, 0))
        one = scores.score_rows(entries) if fit == 0 else scores.score_left_out(entries, folds)
        assert one[:, 0].tolist() == expected
    # rows that are scored together change nothing
    alone = np.vstack([scores.score_rows(entries.take_rows(np.array([i]))) for i in range(len(X))])
    np.testing.assert_array_equal(alone, scores.score_rows(entries))


@pytest.mark.parametrize("n_labels", [2, 3])
@pytest.mark.parametrize("space", ["rows", "columns"])
def test_fits_find_the_minimum_of_a_plain_loss(monkeypatch: pytest.MonkeyPatch, n_labels: int, space: str) -> None:
    rng = np.random.default_rng(2)
    X = rng.normal(size=(30, 40))
    labels = rng.integers(0, n_labels, 30).astype(np.int32)
    counts = rng.integers(1, 3, 30)
    folds = rng.integers(0, FOLDS, 30)
    scaling = Scaling.from_rows(read(X), counts)
    matrix = scaling.matrix(read(X))
    outputs = 1 if n_labels == 2 else n_labels
    monkeypatch.setattr(fitting, "_PENALTIES", 1)
    monkeypatch.setattr(fitting, "_FIRST_PENALTY", 0.5)
    monkeypatch.setattr(fitting, "_LAST_STEPS", 60)
    monkeypatch.setattr(descent, "MOST_KERNEL_ROWS", 4096 if space == "rows" else 0)
    found = fitting.fit_scores(scaling, matrix, LabelTargets(labels, outputs), counts=counts, folds=folds)
    penalty = 0.5 * fitting._mean_square(matrix)
    constant = round(fitting._CONSTANT * np.sqrt(fitting._mean_square(matrix)) * UNIT) / UNIT
    Z = np.hstack([matrix / UNIT, np.full((30, 1), constant)])

    def loss(w: np.ndarray) -> float:
        scores = Z @ w.reshape(-1, outputs)
        if outputs == 1:
            scores = np.hstack([np.zeros((30, 1)), scores])
        scores = scores - scores.max(axis=1, keepdims=True)
        own = scores[np.arange(30), labels] - np.log(np.exp(scores).sum(axis=1))
        return float(-(own * counts).sum() + 0.5 * penalty * (w**2).sum())

    best = minimize(loss, np.zeros(Z.shape[1] * outputs), method="L-BFGS-B", options={"maxiter": 2000})
    expected = Z @ best.x.reshape(-1, outputs)
    np.testing.assert_allclose(found.score_rows(read(X)), expected, atol=5e-3)


def test_columns_that_tell_are_chosen_and_noise_is_not() -> None:
    rng = np.random.default_rng(3)
    X = rng.normal(size=(100, 2000))
    labels = (X[:, 70] + X[:, 1234] > 0).astype(int)
    columns = Columns((NUMBERS,) * 2000).as_packed()
    found = choose_narrowing(columns, Examples.of_arrays(pack_rows(X), labels), 0)
    assert {70, 1234} <= set(found.chosen.tolist())
    assert len(found.chosen) <= 4
    targets = X[:, 70] - X[:, 1234]
    examples = Examples.of_arrays(pack_rows(X), targets)
    by_number = choose_narrowing(columns, examples, 0, targets=targets)
    assert {70, 1234} <= set(by_number.chosen.tolist())


def test_one_row_less_changes_few_chosen_columns() -> None:
    rng = np.random.default_rng(4)
    X = rng.normal(size=(200, 1000))
    labels = (X[:, 100:108].sum(axis=1) > 0).astype(int)
    columns = Columns((NUMBERS,) * 1000).as_packed()
    whole = choose_narrowing(columns, Examples.of_arrays(pack_rows(X), labels), 0).chosen
    for gone in range(5):
        left = np.delete(np.arange(200), gone)
        part = choose_narrowing(columns, Examples.of_arrays(pack_rows(X[left]), labels[left]), 0).chosen
        assert len(np.setxor1d(whole, part)) <= 2
