"""Wide tables: the rule holds, sparse and dense forms are one table, and time does not grow with columns cubed."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.preprocessing import OneHotEncoder

from hammemo import MemoryClassifier, MemoryRegressor, load, save

if TYPE_CHECKING:
    from pathlib import Path

MODELS = [MemoryClassifier, MemoryRegressor]
N = 600


def make_table(n_rows: int, share: float, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, N)).round(2)
    X[rng.random((n_rows, N)) > share] = 0.0
    X[rng.random((n_rows, N)) < 0.01] = np.nan
    return X


def make_targets(model: Any, X: np.ndarray) -> np.ndarray:
    sums = np.nan_to_num(X[:, :3]).sum(axis=1)
    return np.asarray((sums > 0).astype(int) if model is MemoryClassifier else sums)


def make_product_targets(model: Any, X: np.ndarray) -> np.ndarray:
    """Return labels or numbers that show only in the product of two columns."""
    product = np.nan_to_num(X[:, 100]) * np.nan_to_num(X[:, 200])
    return np.asarray((product > 0).astype(int) if model is MemoryClassifier else product)


def forms_of(X: np.ndarray) -> dict[str, Any]:
    frame = pd.DataFrame.sparse.from_spmatrix(sparse.csr_matrix(X))
    return {
        "array": X,
        "csr": sparse.csr_matrix(X),
        "dok": sparse.dok_matrix(X),
        "csc": sparse.csc_array(X),
        "coo": sparse.coo_array(X),
        "lists": X.tolist(),
        "frame": pd.DataFrame(X, columns=[f"c{j}" for j in range(N)]),
        "sparse frame": frame.set_axis([f"c{j}" for j in range(N)], axis=1),
    }


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("share", [0.05, 1.0])
def test_all_forms_give_the_same_model(model: Any, share: float) -> None:
    X = make_table(40, share)
    y = make_targets(model, X)
    fitted = {name: model(random_state=0).fit(form, y) for name, form in forms_of(X).items()}
    digests = {name: one.digest() for name, one in fitted.items()}
    assert len({digests[name] for name in ("array", "csr", "dok", "csc", "coo", "lists")}) == 1
    assert digests["frame"] == digests["sparse frame"]
    answers = fitted["array"].predict(X)
    for form in ("csr", "dok", "csc", "coo"):
        np.testing.assert_array_equal(fitted["array"].predict(forms_of(X)[form]), answers)


@pytest.mark.parametrize("model", MODELS)
@given(data=st.data())
@settings(max_examples=5)
def test_refit_after_any_history_is_a_fit(model: Any, data: st.DataObject) -> None:
    share = data.draw(st.sampled_from([0.05, 1.0]))
    X = make_table(60, share, seed=data.draw(st.integers(0, 100)))
    y = data.draw(st.sampled_from([make_targets, make_product_targets]))(model, X)
    forms: list[Any] = [lambda rows: rows, sparse.csr_matrix, sparse.csc_array]
    left = list(range(30))
    learner = model(random_state=0).fit(X[:30], y[:30])
    for _ in range(data.draw(st.integers(1, 5))):
        form = data.draw(st.sampled_from(forms))
        step = data.draw(st.sampled_from(["learn", "forget", "learn one", "forget one", "sync", "refit", "merge"]))
        some = data.draw(st.lists(st.integers(0, 59), min_size=1, max_size=8, unique=True))
        gone = [row for row in dict.fromkeys(some) if row in left]
        if step == "learn":
            learner.partial_fit(form(X[some]), y[some])
            left += some
        elif step == "forget" and gone:
            learner.forget(form(X[gone]), y[gone])
            for row in gone:
                left.remove(row)
        elif step == "learn one":
            learner.learn_one(X[some[0]].tolist(), y[some[0]])
            left.append(some[0])
        elif step == "forget one" and gone:
            learner.forget_one(X[gone[0]].tolist(), y[gone[0]])
            left.remove(gone[0])
        elif step == "sync":
            left = sorted({*left, *some})
            learner.sync(form(X[left]), y[left])
        elif step == "refit":
            learner.refit()
        elif step == "merge":
            learner.merge(model(random_state=0).fit(form(X[some]), y[some]))
            left += some
    if left:
        expected = model(random_state=0).fit(X[left], y[left])
        assert learner.refit().digest() == expected.digest()


@pytest.mark.parametrize("model", MODELS)
def test_files_and_compiled_models_answer_alike(model: Any, tmp_path: Path) -> None:
    X = make_table(60, 0.1)
    y = make_targets(model, X)
    learner = model(random_state=0).fit(sparse.csr_matrix(X), y)
    save(learner, tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert loaded.digest() == learner.digest()
    np.testing.assert_array_equal(loaded.predict(X), learner.predict(X))
    np.testing.assert_array_equal(learner.compile().predict(sparse.csc_array(X)), learner.predict(X))
    more = make_table(5, 0.1, seed=9)
    loaded.partial_fit(more, make_targets(model, more)).forget(more, make_targets(model, more)).refit()
    assert loaded.digest() == learner.digest()
    if model is MemoryClassifier:
        save(learner.compile(), tmp_path / "predictor")
        np.testing.assert_array_equal(load(tmp_path / "predictor").predict_proba(X), learner.predict_proba(X))


@pytest.mark.parametrize("model", MODELS)
def test_sparse_rows_are_never_made_dense(model: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    m, n = 60, 20_000
    X: Any = sparse.random(m, n, density=0.002, random_state=0, format="lil")
    X[:, 5] = np.arange(m).reshape(-1, 1) % 2
    X = X.tocsr()
    y = np.arange(m) % 2

    def refuse(self: Any, *_: Any, **__: Any) -> np.ndarray:
        assert self.shape[0] * self.shape[1] < m * n / 20, "a sparse matrix was made dense"
        return plain(self)

    plain = sparse.csr_array.toarray
    for form in (sparse.csr_array, sparse.csr_matrix):
        monkeypatch.setattr(form, "toarray", refuse)
        monkeypatch.setattr(form, "todense", refuse)
    learner = model(random_state=0).fit(X, y)
    learner.partial_fit(X[:5], y[:5]).forget(X[:5], y[:5])
    learner.sync(X, y)
    answers = learner.refit().predict(X)
    np.testing.assert_array_equal(learner.compile().predict(X), answers)
    save(learner, tmp_path / "model")
    np.testing.assert_array_equal(load(tmp_path / "model").predict(X), answers)


@pytest.mark.parametrize("model", MODELS)
def test_contributions_are_of_the_columns_of_the_table(model: Any) -> None:
    X = make_table(80, 1.0)
    learner = model(random_state=0).fit(X, make_targets(model, X))
    values, base = learner.contributions(X[:3])
    whole = learner.class_scores(X[:3]) if model is MemoryClassifier else learner.predict(X[:3])
    assert values.shape[:2] == (3, N)
    np.testing.assert_allclose(values.sum(axis=1) + base, whole, atol=1e-9)
    assert learner.feature_importances_.shape == (N,)
    assert learner.feature_importances_.argmax() < 3
    assert "all columns" in str(learner.report()) or len(str(learner.explain(X[0])))


@pytest.mark.parametrize("model", MODELS)
def test_names_and_dates_beside_many_numbers(model: Any) -> None:
    X = make_table(60, 1.0)
    y = make_targets(model, X)
    frame = pd.DataFrame(X, columns=[f"c{j}" for j in range(N)])
    frame["name"] = ["a", "b", "c"] * 20
    frame["date"] = pd.date_range("2026-01-01", periods=60)
    fitted = model(random_state=0).fit(frame, y)
    learner = model(random_state=0).fit(frame[:40], y[:40])
    learner.partial_fit(frame[40:], y[40:]).forget(frame[:3], y[:3]).partial_fit(frame[:3], y[:3])
    assert learner.refit().digest() == fitted.digest()
    np.testing.assert_array_equal(fitted.compile().predict(frame), fitted.predict(frame))
    assert fitted.contributions(frame[:2])[0].shape[:2] == (2, N + 2)


@pytest.mark.parametrize("model", MODELS)
def test_products_of_columns_are_learned(model: Any) -> None:
    X = np.random.default_rng(0).normal(size=(600, N))
    y = make_product_targets(model, X)
    learner = model(random_state=0).fit(X[:300], y[:300])
    assert learner.score(X[300:], y[300:]) > 0.8


def test_the_number_of_columns_hardly_limits() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 70_000))
    y = (X[:, 0] > 0).astype(int)
    assert MemoryClassifier(random_state=0).fit(X, y).score(X, y) > 0.9
    assert MemoryRegressor(random_state=0).fit(X, X[:, 0]).predict(X[:2]).shape == (2,)


def test_graphs_of_wide_tables_are_refused_with_a_way_out() -> None:
    X = make_table(40, 1.0)
    for model in MODELS:
        with pytest.raises(NotImplementedError, match=f"{N} columns"):
            model(random_state=0).fit(X, make_targets(model, X)).compile().graph(None)


def test_sparse_tables_that_need_every_value_are_refused() -> None:
    X = sparse.random(20, 30_000, density=0.001, random_state=0, format="csr")
    with pytest.raises(ValueError, match=r"sparse matrix of 20 by 30,000.*toarray"):
        MemoryClassifier(kernel="positions").fit(X, np.arange(20) % 2)


def test_missing_values_are_refused_by_their_column() -> None:
    X = make_table(40, 1.0)
    X[:] = np.nan_to_num(X)
    X[3, 17] = np.nan
    for form in (X, sparse.csr_matrix(X)):
        with pytest.raises(ValueError, match="Column 17 has missing values"):
            MemoryClassifier(missing="refuse").fit(form, np.arange(40) % 2)


@pytest.mark.parametrize("model", MODELS)
def test_time_does_not_grow_faster_than_columns(model: Any) -> None:
    """Of defects/wide_tables.py: with twice the columns, a fit took eight times as long."""
    rng = np.random.default_rng(0)
    seconds = {}
    for n in (500, 2000):
        X = rng.normal(size=(60, n))
        y = (X[:, 0] > 0).astype(int)
        runs = []
        for _ in range(2):
            started = time.process_time()
            model(random_state=0).fit(X, y)
            runs.append(time.process_time() - started)
        seconds[n] = min(runs)
    assert seconds[2000] < 5 * seconds[500]


@pytest.mark.parametrize("model", MODELS)
def test_too_many_columns_of_names_are_refused_with_the_way_out(model: Any) -> None:
    X = np.random.default_rng(0).integers(0, 3, size=(12, 4_097)).astype(str).astype(object)
    y = np.arange(12) % 2
    expected = r"X has 4,097 columns of names, and a model takes at most 4,096\. Leave out columns.*OneHotEncoder"
    for learn in (model(random_state=0).fit, model(random_state=0).partial_fit):
        with pytest.raises(ValueError, match=expected):
            learn(X, y)
    encoded = OneHotEncoder().fit_transform(X)
    assert model(random_state=0).fit(encoded, y).predict(encoded).shape == (12,)
