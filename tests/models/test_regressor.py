"""MemoryRegressor: the rule (refit is fit of the rest), refusals, edge cases, intervals; and what its parts promise."""

from __future__ import annotations

import json
import os
import pickle
import warnings
from typing import TYPE_CHECKING, Any
from unittest.mock import Mock

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import nnls
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

from hammemo import FileError, LayoutError, MemoryClassifier, MemoryRegressor, NotStoredError, _native, load, save
from hammemo.features.cells import error_sizes, number_cells, number_trees
from hammemo.features.cells.nonnegative import solve_nonnegative
from hammemo.files.contents import file_bytes, from_bytes
from hammemo.tasks.numbers.memory import NumberRows
from hammemo.votes import number_answers
from twins import trees as plain_trees

if TYPE_CHECKING:
    from pathlib import Path


def table(n: int, seed: int = 0) -> tuple[pd.DataFrame, Any]:
    """Return a table of numbers, names, dates and missing values, and its targets."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(
        {
            "a": rng.normal(size=n).round(2),
            "b": rng.integers(0, 5, n),
            "c": rng.choice(["red", "green", "blue"], n),
            "d": pd.Timestamp("2026-01-01") + pd.to_timedelta(rng.integers(0, 9000, n), unit="h"),
        }
    )
    y = X["a"] * 2 + (X["a"] > 0.5) * (X["c"] == "red") + X["b"] ** 0.5 + rng.normal(size=n) / 4
    X.loc[rng.random(n) < 0.1, "a"] = np.nan
    return X, y.to_numpy().round(3)


def restored(data: bytes) -> MemoryRegressor:
    model = from_bytes(data)
    assert isinstance(model, MemoryRegressor)
    return model


def saved(model: Any) -> bytes:
    return file_bytes(model)


@parametrize_with_checks([MemoryRegressor()])  # type: ignore[untyped-decorator]
def test_scikit_learn_s_own_checks(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.mark.parametrize("n", [1, 2, 7, 60, 300])
def test_order_and_threads_do_not_matter(n: int) -> None:
    X, y = table(n)
    order = np.random.default_rng(1).permutation(n)
    whole = saved(MemoryRegressor().fit(X, y))
    assert saved(MemoryRegressor(n_jobs=2).fit(X.iloc[order], y[order])) == whole
    assert saved(from_bytes(whole)) == whole


@settings(max_examples=40, deadline=None)
@pytest.mark.examples(12)
@given(st.integers(0, 2**32 - 1))
def test_after_any_history_refit_is_fit_of_the_rows_that_are_left(seed: int) -> None:
    check_history(seed)


@pytest.mark.slow
def test_after_300_histories_refit_is_fit_of_the_rows_that_are_left() -> None:
    for seed in range(300):
        check_history(seed)


def check_history(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 90))
    X, y = table(n, seed)
    held = np.zeros(n, np.int64)
    first = rng.permutation(n)[: rng.integers(1, n)]
    model = MemoryRegressor().fit(X.iloc[first], y[first])
    held[first] += 1
    for _ in range(rng.integers(1, 7)):
        some, step = rng.permutation(n)[: rng.integers(1, n)], rng.integers(6)
        if step == 0:
            model.partial_fit(X.iloc[some], y[some], choose=bool(rng.integers(2)))
            held[some] += 1
        elif step == 1:
            some = some[held[some] > 0]
            model.forget(X.iloc[some], y[some]) if len(some) else None
            held[some] -= 1
        elif step == 2:
            other = MemoryRegressor().fit(X.iloc[some], y[some])
            kinds = model.state.columns.kinds, other.state.columns.kinds
            try:
                model = model + other
            except LayoutError:  # as in the classifier: choose=False leaves a column that had no values as names
                assert kinds[0] != kinds[1]
                continue
            held[some] += 1
        elif step == 3:
            model.learn_one(X.iloc[some[0]].tolist(), y[some[0]])
            held[some[0]] += 1
        elif step == 4 and held[some[0]]:
            model.forget_one(X.iloc[some[0]].tolist(), y[some[0]])
            held[some[0]] -= 1
        else:
            model = pickle.loads(pickle.dumps(model)).refit("weights") if held.any() else model  # noqa: S301
    if not held.any():
        model.partial_fit(X, y)
        held += 1
    fresh = MemoryRegressor().fit(X, y, sample_weight=held)
    assert saved(model.refit()) == saved(fresh)
    assert model.digest() == fresh.digest()


def test_forgetting_is_the_inverse_of_learning() -> None:
    X, y = table(200)
    model = MemoryRegressor().fit(X[:150], y[:150])
    before, answers = model.digest(parts=True), model.predict(X)
    model.partial_fit(X[150:], y[150:], choose=False)
    assert model.digest(parts=True)["counts"] != before["counts"]
    assert not np.array_equal(model.predict(X), answers)
    for start in (150, 170):  # in another order, and in pieces
        model.forget(
            X[start : start + 30 if start > 150 else 170][::-1], y[start : start + 30 if start > 150 else 170][::-1]
        )
    assert model.digest(parts=True) == before
    with pytest.warns(UserWarning, match="Rows were forgotten"):
        assert np.array_equal(model.predict(X), answers)
    model.learn_one(X.iloc[160].tolist(), y[160]).forget_one(X.iloc[160].tolist(), y[160])
    assert model.digest(parts=True) == before


def test_memories_add_up() -> None:
    X, y = table(200)
    whole = MemoryRegressor().fit(X, y)
    shards = [whole.empty_like().partial_fit(X[k::3], y[k::3]) for k in range(3)]
    assert (shards[0] + shards[1] + shards[2]).digest(parts=True)["counts"] == whole.digest(parts=True)["counts"]
    assert (whole - shards[0]).digest(parts=True)["counts"] == (shards[1] + shards[2]).digest(parts=True)["counts"]
    apart = MemoryRegressor().fit(X[:90], y[:90]) + MemoryRegressor().fit(X[90:], y[90:])
    assert saved(apart.refit()) == saved(whole)
    assert saved((apart - MemoryRegressor().fit(X[:50], y[:50])).refit()) == saved(
        MemoryRegressor().fit(X[50:], y[50:])
    )
    without = [MemoryRegressor(keep=False).fit(X[k::2], y[k::2]) for k in range(2)]
    with pytest.raises(LayoutError, match="different layouts"):
        without[0].merge(without[1])


def test_only_stored_rows_are_forgotten() -> None:
    X, y = table(60)
    model = MemoryRegressor().fit(X, y)
    before = model.digest()
    for wrong in (y[:2] + 1, y[[1, 0]]):
        with pytest.raises(NotStoredError):
            model.forget(X[:2], wrong)
    with pytest.raises(NotStoredError):
        model.forget(X[:1], y[:1], sample_weight=[2])
    with pytest.raises(NotStoredError):
        model.forget_one(X.iloc[0].tolist(), y[0] + 1)
    with pytest.raises(NotStoredError):
        MemoryRegressor(keep=False).fit(X[:30], y[:30]).forget(X, y)
    assert model.digest() == before


@pytest.mark.parametrize("keep", [False, 40])
def test_a_model_that_does_not_keep_all_rows(keep: Any) -> None:
    X, y = table(150)
    model = MemoryRegressor(keep=keep).fit(X, y)
    model.partial_fit(X[:20], y[:20]).forget(X[:20], y[:20])
    assert model.state.n_examples == 150
    rest = MemoryRegressor(keep=keep).fit(X[50:], y[50:])
    model.forget(X[:50], y[:50]).refit(rows=[(X[50:90], y[50:90]), (X[90:], y[90:])])
    assert saved(model) == saved(rest)
    if keep is False:
        with pytest.raises(ValueError, match="keeps none"):
            model.refit()


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([1.0, np.nan, 2.0], "contains NaN, a missing value, in row 1"),
        ([1.0, 2.0, np.inf], "contains infinity, in row 2"),
        ([1.0, None, 2.0], "missing value"),
        ([[1.0, 2.0]] * 3, "y has 2 columns"),
        (["a", "b", "c"], "a target is a number"),
        ([1, "b", 2.5], "'b' in row 1|a target is a number"),
        (None, "requires y"),
        ([1e308, 0, 0], "4e307"),
    ],
)
def test_targets_that_are_refused(y: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        MemoryRegressor().fit([[1.0], [2.0], [3.0]], np.array(y, object) if y and "b" in y else y)


def test_weights_levels_and_coverages_that_are_refused() -> None:
    X, y = table(30)
    for weights in ([-1] * 30, [0.5] * 30):
        with pytest.raises(ValueError, match="sample_weight"):
            MemoryRegressor().fit(X, y, sample_weight=weights)
    with pytest.raises(ValueError, match="nothing to learn"):
        MemoryRegressor().fit(X, y, sample_weight=[0] * 30)
    model = MemoryRegressor().fit(X, y)
    for levels in (0.5, [1.1], [np.nan]):
        with pytest.raises(ValueError, match="from 0 to 1"):
            model.predict_quantiles(X, levels)
    with pytest.raises(ValueError, match="coverage="):
        model.predict_interval(X, coverage=80)
    with pytest.raises(ValueError, match="what="):
        model.refit("nothing")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="merge takes another MemoryRegressor"):
        model.merge(clone(model).fit)


def test_targets_and_rows_that_do_not_fit_are_refused() -> None:
    X, y = table(60)
    model = MemoryRegressor().fit(X, y)
    before = model.digest()
    model.learn_one(X.iloc[0].tolist(), 500 * np.abs(y).max()).forget_one(X.iloc[0].tolist(), 500 * np.abs(y).max())
    with pytest.raises(ValueError, match=r"The target 1e\+09 is more than 1024 times as far"):
        model.partial_fit(X[:1], [1e9], choose=False)
    with pytest.raises(ValueError, match=r"holds 60 rows and 1,125,899,906,842,624 are .* Divide all sample_weight"):
        model.partial_fit(X[:1], [y[0]], sample_weight=[2**50])
    assert model.digest(parts=True)["counts"] == MemoryRegressor().fit(X, y).digest(parts=True)["counts"]
    assert before == model.refit().digest()


@pytest.mark.parametrize("value", [0.0, -3.25, 1e300, 5e-324])
def test_a_constant_target(value: float) -> None:
    X, _ = table(80)
    model = MemoryRegressor().fit(X, np.full(80, value))
    assert np.allclose(model.predict(X), value)
    assert np.allclose(model.predict_interval(X), value)


def test_one_row_and_none() -> None:
    X, y = table(3)
    model = MemoryRegressor().fit(X[:1], y[:1])
    assert np.allclose(model.predict(X), y[0])
    with pytest.warns(UserWarning, match="The error of one row is known"):
        assert np.isinf(model.predict_interval(X)).all()
    model.forget(X[:1], y[:1])
    with pytest.raises(ValueError, match="holds no rows"):
        model.predict(X)
    empty = saved(model.refit())
    assert empty == saved(MemoryRegressor().fit(X[1:], y[1:]).forget(X[1:], y[1:]).refit())
    assert saved(restored(empty).partial_fit(X, y).refit()) == saved(MemoryRegressor().fit(X, y))


@pytest.mark.parametrize(("scale", "shift"), [(1e-9, 0.0), (1e9, 0.0), (1.0, 1e9), (1e-200, 0.0), (1e200, 0.0)])
def test_targets_of_any_size(scale: float, shift: float) -> None:
    X, y = table(300)
    plain, other = (MemoryRegressor().fit(X[:200], (y * a + b)[:200]) for a, b in ((1.0, 0.0), (scale, shift)))
    errors = [plain.predict(X[200:]) - y[200:], (other.predict(X[200:]) - shift) / scale - y[200:]]
    assert np.std(errors[1]) < 1.2 * np.std(errors[0])


def test_answers_are_good_and_intervals_cover() -> None:
    X, y = table(3000)
    model = MemoryRegressor().fit(X[:2000], y[:2000])
    errors = model.predict(X[2000:]) - y[2000:]
    known = X["a"][2000:].notna().to_numpy()
    assert np.sqrt(np.mean(errors[known] ** 2)) < 0.32  # the noise alone is .25
    for coverage in (0.5, 0.8, 0.95):
        low, high = model.predict_interval(X[2000:], coverage).T
        assert abs(((low <= y[2000:]) & (y[2000:] <= high)).mean() - coverage) < 0.04
    # errors are larger where a is missing, and so are the intervals
    wide = np.diff(model.predict_interval(X[2000:]), axis=1)[:, 0]
    assert np.median(wide[~known]) > 2 * np.median(wide[known])
    found = model.predict_quantiles(X[2000:], [0.1, 0.5, 0.9])
    assert (np.diff(found, axis=1) >= 0).all()


def test_rows_that_come_later_are_learnt_without_a_refit() -> None:
    X, y = table(3000)
    model = MemoryRegressor().fit(X[:1000], y[:1000]).partial_fit(X[1000:2000], y[1000:2000] + 1, choose=False)
    moved = (model.predict(X[2000:]) - MemoryRegressor().fit(X[:1000], y[:1000]).predict(X[2000:])).mean()
    assert 0.35 < moved < 0.65  # half of the rows say one more


def test_wrong_targets_that_are_forgotten() -> None:
    X, y = table(2000)
    wrong = np.where(np.arange(2000) < 150, y + 5 * y.std(), y)
    model = MemoryRegressor().fit(X[:1500], wrong[:1500])

    def loss(model: MemoryRegressor) -> float:
        return float(np.sqrt(np.mean((model.predict(X[1500:]) - y[1500:]) ** 2)))

    before, _ = loss(model), model.forget(X[:150], wrong[:150])
    with pytest.warns(UserWarning, match="forgotten"):
        forgotten = loss(model)
    assert before - forgotten > 0.7 * (before - loss(model.refit()))


def test_names_alone_and_arrays() -> None:
    rng = np.random.default_rng(0)
    X = rng.integers(0, 4, (400, 3)).astype(str)
    y = (X[:, 0] == X[:, 1]) * 3.0 + (X[:, 2] == "1")
    model = MemoryRegressor().fit(X[:300], y[:300])
    assert np.abs(model.predict(X[300:]) - y[300:]).mean() < 0.1
    assert model.predict(X[300:].tolist()).shape == (100,)
    numbers_only = rng.normal(size=(200, 2))
    whole = MemoryRegressor().fit(numbers_only, numbers_only.sum(axis=1))
    kept, codes = whole.state.rows, whole.state.layout.codes
    assert kept is not None
    seen, _ = codes.plain(codes.rows(kept.examples().contexts))  # a base knows numbers by their steps
    assert np.abs(whole.predict(seen) - seen.sum(axis=1)).max() < 0.2


def test_files(tmp_path: Path) -> None:
    X, y = table(150)
    model = MemoryRegressor(random_state=np.random.RandomState(3), keep=100).fit(X, y)
    save(model, tmp_path / "model", notes={"source": "made up"})
    again = load(tmp_path / "model")
    assert np.array_equal(again.predict(X), model.predict(X))
    assert np.array_equal(again.predict_interval(X), model.predict_interval(X))
    assert again.forget(X[:9], y[:9]).digest() == model.forget(X[:9], y[:9]).digest()
    data = bytearray((tmp_path / "model").read_bytes())
    data[len(data) // 2] ^= 1
    (tmp_path / "model").write_bytes(bytes(data))
    with pytest.raises(FileError):
        load(tmp_path / "model")
    with pytest.raises(FileError, match="cannot be saved"):
        save(type("Mine", (MemoryRegressor,), {"__init__": MemoryRegressor.__init__})().fit(X, y), tmp_path / "other")
    assert "other" not in os.listdir(tmp_path)


@pytest.mark.parametrize("estimator", [MemoryRegressor, MemoryClassifier])
def test_a_parameter_numeric_that_is_no_list(estimator: Any) -> None:
    X, y = np.random.default_rng(0).normal(size=(40, 2)), np.arange(40) % 3
    model = estimator().fit(X, y).set_params(numeric=5)
    with pytest.raises(FileError, match="cannot be saved: numeric is not valid"):
        file_bytes(model)
    with pytest.raises(ValueError, match="numeric=5 is not known"):
        model.refit()


def test_a_number_is_known_only_by_the_cuts_around_it() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 2))
    y = X[:, 0] + np.abs(X[:, 1]) + rng.normal(size=2000) / 9
    model = MemoryRegressor().fit(X, y)
    codes, kept = model.state.layout.codes, model.state.rows
    assert kept is not None
    contexts = kept.examples().contexts
    values, (middles, _) = codes.values(contexts), codes.plain(codes.rows(contexts))
    assert not np.array_equal(middles, values)
    assert np.array_equal(model.predict(middles), model.predict(values))


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_compiled_features_of_numbers_are_those_of_the_plain_twin(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, n_trees, n_nodes, n_cells = rng.integers(1, 30), int(rng.integers(3, 9)), rng.integers(1, 20), rng.integers(1, 9)
    leaves = rng.integers(0, n_nodes, (n, n_trees)).astype(np.int32)
    is_out = rng.integers(0, 2, (n, n_trees)).astype(np.uint8)
    cells = rng.integers(0, n_cells, (3, n_nodes)).astype(np.int32)
    counts, sums = rng.integers(0, 5, n_cells), rng.integers(-(2**60), 2**60, n_cells)
    arrays = (leaves, is_out, cells, counts, sums, rng.integers(-(2**40), 2**40, n), np.array([1.0, 10.0]))
    found = [np.empty((n, number_trees.N_FEATURES)) for _ in range(2)]
    _native.number_features(*arrays, found[0])
    plain_trees.number_features(*arrays, found[1])
    assert np.array_equal(found[0], found[1])


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_weights_that_are_not_negative_are_those_of_scipy(seed: int) -> None:
    rng = np.random.default_rng(seed)
    p = int(rng.integers(1, 19))
    A = rng.normal(size=(40, p)) @ rng.normal(size=(p, p))
    b = A @ np.maximum(rng.normal(size=p), 0) + rng.normal(size=40)
    A, b = np.concatenate([A, 0.01 * np.eye(p)]), np.append(b, np.zeros(p))
    found = solve_nonnegative(A.T @ A, A.T @ b)
    assert (found >= 0).all()
    best = nnls(A, b, maxiter=1000)[1] ** 2
    assert ((A @ found - b) ** 2).sum() <= best * (1 + 1e-6)


def test_few_rows_are_counted_as_many_are() -> None:
    X, y = table(300)
    state = MemoryRegressor().fit(X, y).state
    assert state.rows is not None
    rows = NumberRows.from_examples(state.layout, state.rows.examples(), state.seed)
    forest, leaves, left = state.layout.forests[1], rows.leaves[1], rows.residuals[1]
    one_by_one = number_cells.NumberCells.empty(forest)
    for i in range(len(left)):
        at = slice(i, i + 1)
        one_by_one = one_by_one.with_rows(forest, leaves[at], left[at], rows.counts[at])
    held = state.memory.cells[1]
    assert np.array_equal(one_by_one.counts, held.counts)
    assert np.array_equal(one_by_one.sums, held.sums)
    assert one_by_one.size == held.size


def test_compiled_walks_give_the_sums_of_the_plain_twin() -> None:
    X, y = table(200)
    state = MemoryRegressor().fit(X, y).state
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 256, (50, len(state.layout.codes.is_name))).astype(np.uint8)
    values = rng.normal(size=(len(state.layout.forests[0].column), 2))
    forest = state.layout.forests[0]
    assert np.array_equal(
        number_trees.make_leaf_sums(forest, values)(codes), plain_trees.leaf_sums(forest, values, codes)
    )
    assert np.array_equal(forest.leaves(codes), plain_trees.leaves_of(forest, codes))


def test_contributions_add_up_also_after_edits() -> None:
    X, y = table(300)
    model = MemoryRegressor().fit(X, y)
    model.forget(X[:40], y[:40]).partial_fit(X[:20], y[:20] + 1, choose=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        values, base = model.contributions(X)
        assert values.shape == X.shape
        assert np.allclose(values.sum(axis=1) + base, model.predict(X))
        assert base.std() < 0.1 * np.std(y)
        told = model.explain(X.iloc[7])
    assert np.allclose(told.contributions[:, 0], values[7])
    assert told.scores[0] == pytest.approx(model.predict(X[7:8])[0])
    low, high = model.predict_interval(X[7:8])[0]
    assert told.interval == pytest.approx((low, high))
    assert json.loads(json.dumps(told.to_dict()))["prediction"] == pytest.approx(told.scores[0])
    assert [line.split(":")[0].split("  ")[0] for line in str(told).splitlines()[1:-1]] == ["base", *X, "prediction"]


def test_columns_that_matter_have_the_highest_importances() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 4))
    model = MemoryRegressor().fit(X, 3 * X[:, 2] + X[:, 0] * X[:, 1] + 0.1 * rng.normal(size=400))
    found = model.feature_importances_
    assert found.argmax() == 2
    assert found.argmin() == 3
    assert found.sum() == pytest.approx(model.score(X, 3 * X[:, 2] + X[:, 0] * X[:, 1]), abs=0.05)
    assert "feature_importances_" in dir(model)
    assert not hasattr(MemoryRegressor(keep=False).fit(X, X[:, 0]), "feature_importances_")
    assert "0 x 1" in str(model.report())


def test_an_empty_model_has_nothing_to_explain() -> None:
    model = MemoryRegressor().fit([[1.0]], [2.0]).forget([[1.0]], [2.0])
    with pytest.warns(UserWarning, match="forgotten"), pytest.raises(ValueError, match="holds no rows"):
        model.explain([1.0])
    assert MemoryRegressor().fit([[1.0]], [2.0]).explain([1.0]).scores.tolist() == [2.0]


def test_a_column_is_drawn_by_the_means_of_its_values() -> None:
    pytest.importorskip("matplotlib").use("Agg")
    X = pd.DataFrame({"town": ["a", "b", "a", "c"], "size": [1.5, 2.5, None, 4.5]})
    model = MemoryRegressor().fit(X, [1.0, 5.0, 3.0, 4.0])
    axes = model.plot_column("town")
    assert [text.get_text() for text in axes.get_xticklabels()] == ["a", "b", "c"]
    [dots, *_] = axes.get_lines()
    assert np.asarray(dots.get_ydata()).tolist() == [2.0, 5.0, 4.0]
    assert "missing" in [text.get_text() for text in model.plot_column(1).get_xticklabels()]
    with pytest.raises(ValueError, match="There is no column 'street'"):
        model.plot_column("street")
    with pytest.raises(ValueError, match="keeps no rows"):
        MemoryRegressor(keep=False).fit(X, [1.0, 5.0, 3.0, 4.0]).plot_column("town")


def test_trees_are_made_ready_once_for_many_questions(monkeypatch: pytest.MonkeyPatch) -> None:
    X = np.random.default_rng(0).normal(size=(200, 2))
    model, made = MemoryRegressor().fit(X, X[:, 0]), Mock(wraps=number_trees.make_leaf_sums)
    monkeypatch.setattr(number_answers, "make_leaf_sums", made)
    monkeypatch.setattr(error_sizes, "make_leaf_sums", made)
    wanted = model.predict_interval(X[:5])
    assert np.array_equal(np.vstack([model.predict_interval(X[i : i + 1]) for i in range(5)]), wanted)
    assert made.call_count == 3  # two parts, and the sizes of errors
    assert np.array_equal(pickle.loads(pickle.dumps(model)).predict_interval(X[:5]), wanted)  # noqa: S301


def test_targets_over_many_orders_of_magnitude_warn() -> None:
    X = np.arange(60.0)[:, None]
    with pytest.warns(UserWarning, match="eight of ten lie between .* Fit their logarithms"):
        MemoryRegressor().fit(X, 10 ** (X[:, 0] / 4))
    MemoryRegressor().fit(X, 10 ** (X[:, 0] / 20))  # a warning would be an error
