"""Compiled models of numbers, in the library, in torch and in ONNX Runtime: predictions and quantiles, to the bit."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.pipeline import make_pipeline

from hammemo import MemoryRegressor
from hammemo.tokens.column_kinds import NAMES

if TYPE_CHECKING:
    from pathlib import Path

    from hammemo.estimators.number_predictor import NumberPredictor

LEVELS = [0.1, 0.5, 0.95]


def table(seed: int, n: int = 150) -> tuple[pd.DataFrame, Any]:
    """Return numbers, some missing, and names, some rare or missing, and targets of any scale."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.normal(size=(n, 3)).round(1), columns=["a", "b", "c"])
    X.loc[rng.random(n) < 0.1, "b"] = np.nan
    X.insert(
        1, "town", rng.choice(np.array(["Ulm", "Bonn", "Trier", "Celle", None], object), n, p=[0.4, 0.3, 0.1, 0.1, 0.1])
    )
    X.insert(3, "kind", rng.choice(["x", "y"], n))
    y = X["a"] + (X["c"] > 0) * (X["town"] == "Ulm") + X["a"] * X["c"] + rng.normal(size=n) / 5
    return X, y.to_numpy() * 10.0 ** rng.integers(-9, 9) + rng.integers(-5, 5)


def some_columns(X: pd.DataFrame, which: str) -> pd.DataFrame:
    return {"all": X, "numbers": X[["a", "b", "c"]], "names": X[["town", "kind"]]}[which]


def listed(X: pd.DataFrame) -> list[list[Any]]:
    """Return the rows of a frame without the names of its columns."""
    rows: list[list[Any]] = X.astype(object).to_numpy().tolist()
    return rows


def asked_rows(seed: int, which: str) -> list[list[Any]]:
    """Return rows with names never seen, with infinity and with missing values."""
    asked = table(seed + 1)[0]
    asked.loc[0, "town"] = "never seen"
    asked.loc[[1, 2, 3], "a"] = [np.inf, -np.inf, -0.0]
    return listed(some_columns(asked, which))


def in_onnx(predictor: NumberPredictor, rows: list[list[Any]], path: Path) -> tuple[Any, Any]:
    onnxruntime = pytest.importorskip("onnxruntime")
    predictor.to_onnx(path, LEVELS)
    session = onnxruntime.InferenceSession(path.read_bytes(), providers=["CPUExecutionProvider"])
    is_name = np.array([kind is NAMES for kind in predictor.answers.codes.kinds])
    given, array = {}, np.array(rows, object)
    if not is_name.all():
        given["numbers"] = array[:, ~is_name].astype(np.float64)
    if is_name.any():
        given["names"] = np.array(
            [["<missing>" if pd.isna(v) else v for v in row] for row in array[:, is_name]], object
        )
    return tuple(session.run(["prediction", "quantiles"], given))


@settings(max_examples=30, deadline=None)
@pytest.mark.examples(8)
@given(
    seed=st.integers(0, 1000),
    which=st.sampled_from(["all", "numbers", "names"]),
    missing=st.sampled_from(["token", "empty"]),
    edited=st.booleans(),
    ends=st.sampled_from([(None, None), (0.3, None), (None, 0.6), (0.3, 0.6)]),
)
@pytest.mark.filterwarnings("ignore:Rows were forgotten")
def test_answers_are_those_of_the_model(
    seed: int, which: str, missing: str, edited: bool, ends: Any, tmp_path_factory: pytest.TempPathFactory
) -> None:
    torch = pytest.importorskip("torch")
    X, y = table(seed)
    X, rows = some_columns(X, which), asked_rows(seed, which)
    model = MemoryRegressor(missing=missing).fit(listed(X[:120]), y[:120])
    if edited:  # the live base and the live mean are not the frozen ones
        model.forget(listed(X[:9]), y[:9])
        model.partial_fit(listed(X[120:]), y[120:] + y.std(), choose=False)
    low, high = (None if share is None else float(np.quantile(y, share)) for share in ends)
    model.set_params(bounds=(low, high))
    predictor = model.compile()
    numbers, quantiles = model.predict(rows), model.predict_quantiles(rows, LEVELS)
    for one in (predictor, pickle.loads(pickle.dumps(predictor))):  # noqa: S301
        assert np.array_equal(one.predict(rows), numbers)
        assert np.array_equal(one.predict_quantiles(rows, LEVELS), quantiles)
    assert np.array_equal(predictor.predict_interval(rows), model.predict_interval(rows))
    assert [predictor(row) for row in rows[:5]] == numbers[:5].tolist()
    module = predictor.to_torch(LEVELS)
    with torch.no_grad():
        assert np.array_equal(module(module.numbers(rows)).numpy(), np.column_stack([numbers, quantiles]))
    assert np.array_equal(module.predict(rows), numbers)
    found = in_onnx(predictor, rows, tmp_path_factory.mktemp("onnx") / "model.onnx")
    assert np.array_equal(found[0], numbers)
    assert np.array_equal(found[1], quantiles)


@pytest.mark.parametrize("scale", [1e-300, 1e300])
def test_units_beyond_the_powers_of_two_of_one_number(scale: float, tmp_path: Path) -> None:
    X, _ = table(3)
    model = MemoryRegressor().fit(listed(X), X["a"] * scale)
    predictor, rows = model.compile(), asked_rows(3, "all")
    assert np.array_equal(in_onnx(predictor, rows, tmp_path / "m")[0], predictor.predict(rows))


def test_a_predictor_holds_no_rows_and_stays_as_it_is() -> None:
    X, y = table(0)
    model = MemoryRegressor().fit(X, y)
    predictor = model.compile()
    assert repr(predictor).startswith("<NumberPredictor of numbers from 5 columns")
    assert predictor.nbytes < 5e6
    before = predictor.predict(X)
    model.partial_fit(X, y + y.std(), choose=False)
    assert np.array_equal(predictor.predict(X), before)
    assert not np.array_equal(model.predict(X), before)
    with pytest.raises(ValueError, match="X has 2"), pytest.warns(UserWarning, match="valid feature names"):
        predictor.predict([[1.0, "Ulm"]])
    with pytest.raises(ValueError, match="holds no rows"):
        MemoryRegressor().fit([[1.0]], [2.0]).forget([[1.0]], [2.0]).compile()


def test_a_pipeline_is_exported_whole() -> None:
    onnxruntime, skl2onnx = pytest.importorskip("onnxruntime"), pytest.importorskip("skl2onnx")
    from hammemo.sklearn_onnx import register

    register()
    X, y = table(5)
    model = make_pipeline(MemoryRegressor()).fit(X, y)
    types = skl2onnx.common.data_types
    kinds: dict[str, Any] = {"town": types.StringTensorType, "kind": types.StringTensorType}
    inputs = [(name, kinds.get(name, types.DoubleTensorType)([None, 1])) for name in X]
    graph = skl2onnx.convert_sklearn(model, initial_types=inputs)
    session = onnxruntime.InferenceSession(graph.SerializeToString(), providers=["CPUExecutionProvider"])
    given = X.assign(town=X["town"].fillna("<missing>")).astype({"town": object, "kind": object})
    [found] = session.run(["variable"], {name: given[[name]].to_numpy() for name in X})
    assert np.array_equal(found[:, 0], model.predict(X))


def test_what_has_no_graph_says_so(tmp_path: Path) -> None:
    X, y = table(0)
    with pytest.raises(ValueError, match="no dates"):
        MemoryRegressor().fit(X.assign(day=pd.Timestamp("2026-01-01")), y).compile().to_onnx(tmp_path / "m")
    with pytest.raises(ValueError, match="names that are strings"):
        MemoryRegressor(numeric="none").fit(np.arange(150)[:, None] % 9, y).compile().graph()
    keyless = MemoryRegressor(keep=False).fit(listed(X), y).compile()
    with pytest.raises(ValueError, match="tokens="):
        keyless.graph()
    rows = asked_rows(0, "all")
    names = [*X["town"].dropna().unique(), *X["kind"].unique(), "<missing>"]
    assert np.array_equal(keyless.to_torch(tokens=names).predict(rows), keyless.predict(rows))
