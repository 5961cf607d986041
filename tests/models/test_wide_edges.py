"""Wide tables at their edges: the rule holds with one label, one row, constant or missing columns, and each store."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from hammemo import MemoryClassifier, MemoryRegressor, NotStoredError
from hammemo.tokens.column_kinds import ColumnKind

MODELS = [MemoryClassifier, MemoryRegressor]
N = 600
N_ROWS = 40
LABELS = np.arange(N_ROWS) % 2


def make_table() -> np.ndarray:
    X = np.random.default_rng(0).normal(size=(N_ROWS, N))
    X[:, 0] = LABELS
    return X


def check_refit(model: Any, X: Any, y: np.ndarray, **settings: Any) -> None:
    """Forget five rows one way, learn them again another way, and forget other ones: refit is a fit of what remains."""
    learner = model(random_state=0, **settings).fit(X, y)
    learner.forget(X[:5], y[:5])
    learner.partial_fit(X[:5], y[:5])
    learner.forget(X[5:8], y[5:8])
    remaining = np.r_[0:5, 8 : len(y)]
    expected = model(random_state=0, **settings).fit(X[remaining], y[remaining])
    assert learner.refit().digest() == expected.digest()


def make_edge_tables() -> dict[str, np.ndarray]:
    X = make_table()
    is_odd = np.arange(N) % 2 == 1
    return {
        "constant columns": np.where(is_odd, 3.0, X),
        "all constant": np.full((N_ROWS, N), 3.0),
        "zeros": np.zeros((N_ROWS, N)),
        "missing columns": np.where(is_odd, np.nan, X),
        "all missing": np.full((N_ROWS, N), np.nan),
        "infinite": np.where(is_odd, np.inf, X),
        "large": X * 1e300,
        "small": X * 1e-300,
        "equal rows": np.repeat(X[:1], N_ROWS, axis=0),
    }


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("name", make_edge_tables())
def test_refit_of_edge_tables_is_a_fit(model: Any, name: str) -> None:
    X = make_edge_tables()[name]
    check_refit(model, X, LABELS)
    check_refit(model, sparse.csr_matrix(X), LABELS)
    assert np.isfinite(model(random_state=0).fit(X, LABELS).predict(X)).all()


@pytest.mark.parametrize("model", MODELS)
def test_one_label_and_few_rows(model: Any) -> None:
    X = make_table()
    ones = np.ones(N_ROWS, int)
    check_refit(model, X, ones)
    assert (model(random_state=0).fit(X, ones).predict(X) == 1).all()
    for n_rows in (1, 2, 3):
        answers = model(random_state=0).fit(X[:n_rows], LABELS[:n_rows]).predict(X[:2])
        assert ((answers >= 0) & (answers <= 1)).all()


@pytest.mark.parametrize("model", MODELS)
def test_models_begin_again_after_the_last_row_is_forgotten(model: Any) -> None:
    X = make_table()
    learner = model(random_state=0).fit(X, LABELS).forget(X, LABELS)
    learner.refit()
    with pytest.raises(ValueError, match=r"empty|no rows"):
        learner.predict(X[:1])
    learner.partial_fit(X[:10], LABELS[:10]).refit()
    assert learner.digest() == model(random_state=0).fit(X[:10], LABELS[:10]).digest()


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.filterwarnings("ignore:Rows were forgotten")
def test_models_without_rows_are_edited_and_fitted_to_rows_that_are_passed(model: Any) -> None:
    X = make_table()
    learner = model(random_state=0, keep=False).fit(X, LABELS)
    learner.forget(X[:3], LABELS[:3])
    assert learner.predict(X).shape == (N_ROWS,)
    learner.refit(rows=(X[3:], LABELS[3:]))
    expected = model(random_state=0, keep=False).fit(X[3:], LABELS[3:])
    np.testing.assert_array_equal(learner.predict(X), expected.predict(X))


@pytest.mark.parametrize("keep", ["digests", "rows+digests"])
@pytest.mark.filterwarnings("ignore:Rows were forgotten")
def test_digests_know_packed_rows(keep: str) -> None:
    X = make_table()
    learner = MemoryClassifier(random_state=0, keep=keep).fit(X, LABELS)
    learner.forget(sparse.csr_matrix(X[:3]), LABELS[:3])
    with pytest.raises(NotStoredError):
        learner.forget(X[:3], LABELS[:3])
    with pytest.raises(NotStoredError):
        learner.forget(X[3:5] + 1, LABELS[3:5])
    learner.partial_fit(X[:3], LABELS[:3])
    learner.forget(X[:3], LABELS[:3])


def test_three_hundred_labels() -> None:
    labels = np.arange(600) % 300
    X = np.random.default_rng(0).normal(size=(600, N))
    X[:, 70] = labels
    check_refit(MemoryClassifier, X, labels)
    learner = MemoryClassifier(random_state=0).fit(X, labels)
    cells: Any = learner.state.layout.cells
    assert 70 in cells.narrowing.chosen
    assert cells.narrowing.scores is None
    np.testing.assert_allclose(learner.predict_proba(X[:3]).sum(axis=1), 1)


@pytest.mark.parametrize("model", MODELS)
def test_booleans_of_wide_tables_of_numbers_are_zeros_and_ones(model: Any) -> None:
    X = make_table() > 0
    check_refit(model, X, LABELS)
    digests = {model(random_state=0).fit(form, LABELS).digest() for form in (X, X.astype(float), X.tolist())}
    assert len(digests) == 1
    frame = pd.DataFrame(make_table(), columns=[f"c{j}" for j in range(N)])
    numbers = frame.assign(flag=LABELS)
    booleans = frame.assign(flag=LABELS.astype(bool))
    fitted = model(random_state=0).fit(booleans, LABELS)
    assert fitted.state.columns.packed
    assert fitted.digest() == model(random_state=0).fit(numbers, LABELS).digest()
    # beside a column of names rows are not packed, and booleans are names as in narrow tables
    mixed = booleans.assign(word=["u", "v"] * (N_ROWS // 2))
    assert model(random_state=0).fit(mixed, LABELS).state.columns.kinds[-2:] == (ColumnKind.NAMES,) * 2


@pytest.mark.parametrize("model", MODELS)
def test_mixed_wide_tables_follow_the_rule(model: Any) -> None:
    columns = [f"c{j}" for j in range(N)]
    frame = pd.DataFrame(make_table(), columns=columns)
    frame["word"] = ["u", None, "v", "w"] * (N_ROWS // 4)
    frame["day"] = pd.date_range("2026-01-01", periods=N_ROWS)
    frame["flag"] = LABELS.astype(bool)
    learner = model(random_state=0).fit(frame[:30], LABELS[:30])
    other = model(random_state=0).fit(frame[30:], LABELS[30:])
    learner.merge(other)
    learner.forget(frame[:4], LABELS[:4])
    expected = model(random_state=0).fit(frame[4:], LABELS[4:])
    assert learner.refit().digest() == expected.digest()
    learner.sync(frame, LABELS)
    assert learner.refit().digest() == model(random_state=0).fit(frame, LABELS).digest()


@pytest.mark.parametrize("model", MODELS)
def test_merged_sparse_models_are_fits_of_both(model: Any) -> None:
    X: Any = sparse.random(N_ROWS, 5_000, density=0.01, random_state=0, format="csr")
    left = model(random_state=0).fit(X[:20], LABELS[:20])
    right = model(random_state=0).fit(X[20:], LABELS[20:])
    left.merge(right)
    assert left.refit().digest() == model(random_state=0).fit(X, LABELS).digest()
