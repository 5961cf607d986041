"""Bounds of answers: they clip everything that a model of numbers answers, refuse targets, and change nothing else."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone

from hammemo import MemoryRegressor, Rolling
from hammemo.files.contents import file_bytes, from_bytes
from hammemo.files.descriptions import Restorer
from hammemo.files.registry import Registry
from hammemo.votes.bounds import Bounds

pytestmark = pytest.mark.quick


def counts(n: int = 200) -> tuple[Any, Any]:
    """Return rows, and counts that depend on the first column."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 3))
    return X, rng.poisson(np.exp(X[:, 0])).astype(float)


@given(st.lists(st.floats(-9, 9), min_size=1), st.floats(-5, 0), st.floats(0.5, 5))
def test_clipping_is_that_of_python(numbers: list[float], low: float, high: float) -> None:
    found = Bounds(low, high).clip(np.array(numbers)).tolist()
    assert found == [min(max(number, low), high) for number in numbers]


def test_answers_are_those_without_bounds_clipped() -> None:
    X, y = counts()
    y = y.clip(0, 4)
    plain = MemoryRegressor().fit(X, y)
    bounded = MemoryRegressor(bounds=(0, 4)).fit(X, y)
    asked = 3 * X  # further out than any row
    assert plain.predict(asked).min() < 0
    assert plain.predict(asked).max() > 4
    assert np.array_equal(bounded.predict(asked), plain.predict(asked).clip(0, 4))
    assert np.array_equal(bounded.predict_interval(asked), plain.predict_interval(asked).clip(0, 4))
    levels = [0.05, 0.5, 0.99]
    assert np.array_equal(bounded.predict_quantiles(asked, levels), plain.predict_quantiles(asked, levels).clip(0, 4))
    window = Rolling(bounded, last=10**6).fit(X, y)
    others: list[Any] = [bounded.compile(), from_bytes(file_bytes(bounded)), window]
    for same in others:
        assert np.array_equal(same.predict(asked), bounded.predict(asked))
        assert np.array_equal(same.predict_interval(asked), bounded.predict_interval(asked))
    assert plain.set_params(bounds=(0, 4)).digest() == bounded.digest()


def test_bounds_change_the_parameters_alone() -> None:
    X, y = counts()
    plain = MemoryRegressor().fit(X, y).digest(parts=True)
    bounded = MemoryRegressor(bounds=(0, None)).fit(X, y).digest(parts=True)
    assert {name for name in plain if plain[name] != bounded[name]} == {"parameters"}
    for same in ([0.0, None], (np.int64(0), np.inf), (-0.0, None)):
        assert MemoryRegressor(bounds=same).fit(X, y).digest(parts=True) == bounded
    for none in ((None, None), (-np.inf, None)):
        assert MemoryRegressor(bounds=none).fit(X, y).digest(parts=True) == plain


def test_scikit_learn_s_clone_and_files_keep_bounds() -> None:
    X, y = counts(60)
    model = MemoryRegressor(bounds=(0, None))
    assert clone(model).get_params()["bounds"] == (0, None)
    data = file_bytes(model.fit(X, y))
    again: Any = from_bytes(data)
    assert again.bounds == (0.0, None)
    assert file_bytes(again) == data
    assert again.digest() == model.digest()
    assert file_bytes(again.forget(X[:9], y[:9]).refit()) == file_bytes(model.fit(X[9:], y[9:]))


@pytest.mark.parametrize("bounds", [3, (1,), "ab", (1, 0), (0, 0), (None, np.nan), ("0", None), (True, None)])
def test_bounds_that_are_refused(bounds: Any) -> None:
    X, y = counts(40)
    with pytest.raises(ValueError, match="bounds="):
        MemoryRegressor(bounds=bounds).fit(X, y)
    model = MemoryRegressor().fit(X, y).set_params(bounds=bounds)
    with pytest.raises(ValueError, match="bounds="):
        model.predict(X)


@pytest.mark.parametrize("stored", [["0", 1.0], [9.0, 0.0], "0,", [0, None], [None, None], [0.0], {"low": 0.0}, 3.0])
def test_bounds_of_a_crafted_file(stored: Any) -> None:
    with pytest.raises(ValueError, match="bounds"):
        Restorer(Registry(), None).restore_parameter(MemoryRegressor, "bounds", stored)


def test_targets_outside_are_refused_wherever_they_are_learned() -> None:
    X, y = counts(60)
    message = r"The target -1 in row 2 is below bounds=\(0.0, None\)"
    wrong = y.copy()
    wrong[2] = -1
    model = MemoryRegressor(bounds=(0, None))
    for learn in (model.fit, model.partial_fit):
        with pytest.raises(ValueError, match=message):
            learn(X, wrong)
    model.fit(X, y)
    before = model.digest()
    edits = (model.partial_fit, lambda X, y: model.apply(learn=(X, y)), model.sync)
    for edit in edits:
        with pytest.raises(ValueError, match=r"The target -1 in row \d+ is below"):
            edit(X, wrong)
    with pytest.raises(ValueError, match="The target -1 in row 0 is below"):
        model.learn_one(X[0].tolist(), -1)
    assert model.digest() == before


def test_a_row_outside_that_is_held_can_be_forgotten() -> None:
    X, y = counts(60)
    wrong = y.copy()
    wrong[2] = -1
    model = MemoryRegressor().fit(X, wrong).set_params(bounds=(0, None))
    with pytest.raises(ValueError, match="The target -1 of a row that the model holds is below"):
        model.refit()
    model.forget(X[2:3], wrong[2:3]).refit()
    assert model.digest() == MemoryRegressor(bounds=(0, None)).fit(np.delete(X, 2, 0), np.delete(y, 2)).digest()


def test_models_with_other_bounds_are_not_merged() -> None:
    X, y = counts(60)
    bounded = MemoryRegressor(bounds=(0, None))
    with pytest.raises(ValueError, match=r"different bounds, \(0.0, None\) and None"):
        bounded.fit(X[:30], y[:30]) + MemoryRegressor().fit(X[30:], y[30:])
    merged = bounded + MemoryRegressor(bounds=[0.0, None]).fit(X[30:], y[30:])
    assert merged.refit().digest() == MemoryRegressor(bounds=(0, None)).fit(X, y).digest()
    other = MemoryRegressor().fit(X[30:], y[30:])
    assert (merged - other).refit().digest() == bounded.fit(X[:30], y[:30]).digest()  # what is removed has no answers


def test_an_explanation_says_what_the_bounds_add() -> None:
    X, y = counts()
    model = MemoryRegressor(bounds=(0, None)).fit(X, y)
    lowest = X[model.set_params(bounds=None).predict(X).argmin()].tolist()
    lowest[0] -= 3
    unbounded = model.explain(lowest)
    explanation = model.set_params(bounds=(0, None)).explain(lowest)
    assert unbounded.scores[0] < 0
    assert unbounded.by_bounds == 0
    assert explanation.scores[0] == model.predict([lowest])[0] == 0
    assert explanation.by_bounds == pytest.approx(-unbounded.scores[0])
    assert explanation.interval[0] == 0
    assert "bounds" in str(explanation)
    assert "bounds" not in str(unbounded)


def test_one_bound_is_the_end_where_rows_are_too_few() -> None:
    X, y = counts(10)
    with pytest.warns(UserWarning, match=r"The errors of 10 rows are known.*at most 0.909") as told:
        ends = MemoryRegressor(bounds=(0, None)).fit(X, y).predict_interval(X, 0.95)
    assert len(told) == 1
    assert (ends[:, 0] == 0).all()
    assert np.isinf(ends[:, 1]).all()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ends = MemoryRegressor(bounds=(0, 9)).fit(X, y).predict_interval(X, 0.95)
        assert (ends == [0, 9]).all()
        assert np.isfinite(MemoryRegressor().fit(X, y).predict_interval(X, 0.9)).all()
