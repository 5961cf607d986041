"""Models of tables with numbers in torch and ONNX Runtime: the scores of the library, to the bit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.pipeline import make_pipeline

from hammemo import MemoryClassifier
from hammemo.memories import Exact, Hashed
from hammemo.tokens.column_kinds import NAMES

if TYPE_CHECKING:
    from pathlib import Path

torch = pytest.importorskip("torch")
onnxruntime = pytest.importorskip("onnxruntime")
skl2onnx = pytest.importorskip("skl2onnx")

from hammemo.sklearn_onnx import register  # noqa: E402  (after the packages that it needs)


def table(seed: int, n: int = 80, *, names: bool = True) -> tuple[pd.DataFrame, Any]:
    """Return numbers, some missing, and names, some rare; and three labels."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.normal(size=(n, 3)).round(1), columns=["a", "b", "c"])
    X.loc[rng.random(n) < 0.1, "b"] = np.nan
    if names:
        X.insert(1, "town", rng.choice(["Ulm", "Bonn", "Trier", "Celle"], n, p=[0.4, 0.4, 0.19, 0.01]))
        X.insert(3, "kind", rng.choice(["x", "y"], n))
    y = np.digitize(X["a"] - X["c"] + rng.normal(scale=0.3, size=n), [-1, 1])
    return X, np.array(["low", "middle", "high"])[y]


def in_onnx(predictor: Any, X: pd.DataFrame, path: Path) -> tuple[Any, Any]:
    predictor.to_onnx(path)
    session = onnxruntime.InferenceSession(path.read_bytes(), providers=["CPUExecutionProvider"])
    is_name = np.array([kind is NAMES for kind in predictor.cells.kinds])
    given: dict[str, Any] = {"numbers": X.loc[:, ~is_name].to_numpy(np.float64)}
    if is_name.any():
        given["names"] = X.loc[:, is_name].to_numpy(object)
    return tuple(session.run(["label", "scores"], given))


@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 1000), names=st.booleans())
def test_the_scores_are_those_of_the_library(seed: int, names: bool, tmp_path_factory: pytest.TempPathFactory) -> None:
    X, y = table(seed, names=names)
    predictor: Any = MemoryClassifier().fit(X, y).compile()
    asked = pd.concat([X, table(seed + 1, names=names)[0]], ignore_index=True)
    if names:
        asked.loc[0, "town"] = "never seen"
    asked.loc[[1, 2, 3], "a"] = [np.inf, -np.inf, -0.0]
    expected, labels = predictor.class_scores(asked), predictor.predict(asked).tolist()
    module = predictor.to_torch()
    assert np.array_equal(module(module.numbers(asked)).numpy(), expected)
    assert module.predict(asked).tolist() == labels
    label, scores = in_onnx(predictor, asked, tmp_path_factory.mktemp("onnx") / "model.onnx")
    assert np.array_equal(scores, expected)
    assert label.tolist() == labels


def test_a_pipeline_of_a_frame_is_exported_whole() -> None:
    register()
    X, y = table(3)
    model = make_pipeline(MemoryClassifier()).fit(X, y)
    types = skl2onnx.common.data_types
    kinds: dict[str, Any] = {"town": types.StringTensorType, "kind": types.StringTensorType}
    inputs = [(name, kinds.get(name, types.DoubleTensorType)([None, 1])) for name in X]
    graph = skl2onnx.convert_sklearn(model, initial_types=inputs)
    session = onnxruntime.InferenceSession(graph.SerializeToString(), providers=["CPUExecutionProvider"])
    label, probabilities = session.run(None, {name: X[[name]].to_numpy() for name in X})
    assert label.tolist() == model.predict(X).tolist()
    np.testing.assert_allclose(probabilities, model.predict_proba(X), rtol=1e-12, atol=1e-15)
    with pytest.raises(TypeError, match="'town' is a DoubleTensorType: this column was learnt as names"):
        skl2onnx.convert_sklearn(model, initial_types=[(name, types.DoubleTensorType([None, 1])) for name in X])
    with pytest.raises(ValueError, match="fitted on 5 columns; the graph is given 2"):
        skl2onnx.convert_sklearn(model, initial_types=inputs[:2])
    with pytest.raises(ValueError, match=r"inputs of the graph are .* in this order"):
        skl2onnx.convert_sklearn(model, initial_types=inputs[::-1])
    anonymous = [(f"input{place}", kind) for place, (_, kind) in enumerate(inputs)]
    skl2onnx.convert_sklearn(model, initial_types=anonymous)  # these are taken in order


def test_what_has_no_graph_says_so(tmp_path: Path) -> None:
    X, y = table(0)
    for model in (MemoryClassifier("positional", Exact(), "sum"), MemoryClassifier(memory=Hashed(64, 4))):
        with pytest.raises(NotImplementedError, match="numeric='none'"):
            model.fit(X, y).compile().to_torch()
    with pytest.raises(ValueError, match="no dates"):
        MemoryClassifier().fit(X.assign(day=pd.Timestamp("2026-01-01")), y).compile().to_onnx(tmp_path / "m")
    with pytest.raises(ValueError, match="leave out tokens="):
        MemoryClassifier().fit(X, y).compile().to_torch(tokens=["Ulm"])


def test_tuples_of_names_are_found_beside_numbers(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    codes = rng.integers(0, 4, (900, 5))
    X = pd.DataFrame({f"n{i}": [f"v{k}" for k in codes[:, i]] for i in range(5)}).assign(amount=rng.normal(size=900))
    y = np.where(codes[:, :3].sum(axis=1) % 2 == 1, "odd", "even")
    predictor: Any = MemoryClassifier(random_state=0).fit(X[:700], y[:700]).compile()
    assert max(map(len, predictor.cells.tuples)) > 2
    asked = X[700:].copy()
    asked.loc[asked.index[:20], "n1"] = "never seen"
    labels, scores = in_onnx(predictor, asked, tmp_path / "model.onnx")
    np.testing.assert_array_equal(scores, predictor.class_scores(asked))
    assert labels.tolist() == predictor.predict(asked).tolist() == predictor.to_torch().predict(asked).tolist()
