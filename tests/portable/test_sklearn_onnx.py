"""Pipelines that skl2onnx exports whole: ONNX Runtime gives the labels of `predict`, ties included."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OrdinalEncoder

from hammemo import MeMoClassifier, MemoryClassifier
from hammemo.kernels import PositionalHamming, SiteKernel, Suffixes
from hammemo.memories import Exact, Gaussian, Hashed
from hammemo.votes import LogLinear

onnxruntime = pytest.importorskip("onnxruntime")
skl2onnx = pytest.importorskip("skl2onnx")

from hammemo.sklearn_onnx import register  # noqa: E402  (after the packages that it needs)

KERNELS = [PositionalHamming(), SiteKernel([0, (0, 2), (1, 2)]), Suffixes(3)]
VOTES = ["sum", "mean", LogLinear(steps=3, per_label=False), LogLinear(steps=3, uniform=0.01), "auto"]


@pytest.fixture(autouse=True)
def _registered() -> None:
    register()


def answers(model: Any, given: dict[str, Any], **options: Any) -> tuple[Any, Any]:
    """Return what ONNX Runtime answers to named inputs; the graph is made for their types."""
    types = [(name, skl2onnx.common.data_types.guess_data_type(values)[0][1]) for name, values in given.items()]
    for _, kind in types:
        kind.shape = [None, kind.shape[1]]
    graph = skl2onnx.convert_sklearn(model, initial_types=types, **options)
    session = onnxruntime.InferenceSession(graph.SerializeToString(), providers=["CPUExecutionProvider"])
    label, second = session.run(None, given)
    return label, second


def expect_same(model: Any, X: Any, given: dict[str, Any] | None = None, **options: Any) -> None:
    """Fail where ONNX Runtime gives another label or another probability than the model; `given` is X for the graph."""
    label, second = answers(model, {"tokens": X} if given is None else given, **options)
    assert label.tolist() == model.predict(X).tolist()
    last = model[-1] if isinstance(model, Pipeline) else model
    if last.vote_.has_probabilities:
        np.testing.assert_allclose(second, model.predict_proba(X), rtol=1e-12, atol=1e-15)


def columns(frame: pd.DataFrame) -> dict[str, Any]:
    """Return a frame as one input a column, as skl2onnx takes a pipeline of a frame."""
    return {name: frame[[name]].to_numpy() for name in frame.columns}


@st.composite
def frames(draw: Any, rows: int) -> pd.DataFrame:
    """Draw a table of a column of words, one of integers and one of floats, some of them missing."""
    words = draw(st.lists(st.sampled_from("abcd"), min_size=rows, max_size=rows))
    numbers = draw(st.lists(st.sampled_from([0, 1, 2, -5, 2**53 + 1, 2**63 - 1]), min_size=rows, max_size=rows))
    measured = st.sampled_from([0.0, 1.0, 2.5, 0.1, float(2**53), float(2**62), float("nan")])
    return pd.DataFrame(
        {
            "word": np.array(words, object),
            "number": np.array(numbers, np.int64),
            "measured": draw(st.lists(measured, min_size=rows, max_size=rows)),
        }
    )


@settings(max_examples=30)
@given(
    data=st.data(),
    kernel=st.sampled_from(KERNELS),
    vote=st.sampled_from(VOTES),
    missing=st.sampled_from(["token", "empty"]),
)
def test_a_frame_goes_straight_into_the_classifier(data: Any, kernel: Any, vote: Any, missing: str) -> None:
    X = data.draw(frames(10))
    y = data.draw(st.lists(st.sampled_from(["x", "y", "z"]), min_size=10, max_size=10))
    model = make_pipeline(MemoryClassifier(kernel, Exact(), vote, missing=missing, numeric="none")).fit(X, y)
    asked = pd.concat([X, data.draw(frames(8))], ignore_index=True)
    expect_same(model, asked, columns(asked))


@settings(max_examples=20)
@given(data=st.data(), vote=st.sampled_from(VOTES), memory=st.sampled_from([Exact(), Hashed(5, 4)]))
def test_columns_are_encoded_before(data: Any, vote: Any, memory: Any) -> None:
    X = data.draw(frames(10)).drop(columns="measured")
    y = data.draw(st.lists(st.sampled_from([3, 1, 2]), min_size=10, max_size=10))
    encoder = OrdinalEncoder(
        handle_unknown="use_encoded_value",
        unknown_value=-1,
        dtype=np.float64 if isinstance(memory, Exact) else np.int64,
    )
    transformer = ColumnTransformer([("words", encoder, ["word"]), ("numbers", encoder, ["number"])])
    model = make_pipeline(transformer, MemoryClassifier("positional", memory, vote, numeric="none")).fit(X, y)
    asked = pd.concat([X, data.draw(frames(8))], ignore_index=True).drop(columns="measured")
    expect_same(model, asked, columns(asked))


@settings(max_examples=8)
@given(data=st.data(), kernel=st.sampled_from(KERNELS), vote=st.sampled_from(VOTES))
def test_a_hashed_memory_takes_any_integer_or_what_was_listed(data: Any, kernel: Any, vote: Any) -> None:
    words = st.one_of(st.integers(0, 5), st.integers(-(2**63) + 1, 2**63 - 1))
    X = np.array(data.draw(st.lists(st.lists(words, min_size=3, max_size=3), min_size=4, max_size=9)), np.int64)
    y = data.draw(st.lists(st.booleans(), min_size=len(X), max_size=len(X)))
    model = MemoryClassifier(kernel, Hashed(5, 4), vote).fit(X, y)
    expect_same(model, X)
    letters = np.array(
        data.draw(st.lists(st.lists(st.sampled_from("abc"), min_size=3, max_size=3), min_size=4)), object
    )
    model = MemoryClassifier(kernel, Hashed(5, 4), vote).fit(letters, letters[:, 0])
    expect_same(model, letters, options={id(model): {"tokens": ["a", "b", "c"]}})


def test_the_automatic_model_of_a_table_has_tuples_and_is_exported() -> None:
    rng = np.random.default_rng(0)
    X = rng.integers(0, 4, (600, 5)).astype(str).astype(object)
    y = np.where((X[:, 0] == X[:, 1]) ^ (rng.random(600) < 0.05), "same", "other")
    model = make_pipeline(MemoryClassifier()).fit(X, y)
    assert any(len(site) > 1 for site in model[-1].sites_.positions)
    expect_same(model, rng.integers(0, 5, (400, 5)).astype(str).astype(object))


def test_a_search_over_parameters_and_the_papers_classifier() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.integers(0, 6, (120, 3)), rng.integers(0, 3, 120)
    search = GridSearchCV(MemoryClassifier("positional", Hashed(16, 4), "sum"), {"memory__buckets": [4, 16]}, cv=2)
    search.fit(X, y)
    label, _ = answers(search, {"tokens": X})
    assert label.tolist() == search.predict(X).tolist()
    expect_same(MeMoClassifier(d=64, random_state=0).fit(X, y), X)
    expect_same(MemoryClassifier("positional", memory=Gaussian(d=64), vote="mean", random_state=0).fit(X, y), X)


def test_one_row_no_row_and_one_label() -> None:
    X = np.array([["a", "b"], ["c", "d"]], object)
    model = MemoryClassifier().fit(X, ["only", "only"])
    for rows in (X[:1], X[:0]):
        label, probabilities = answers(model, {"tokens": rows}, options=None)
        assert label.tolist() == ["only"] * len(rows)
        assert probabilities.shape == (len(rows), 1)


def test_what_cannot_be_exported_says_what_to_do() -> None:
    X, y = np.array([[0.1, 2.0], [3.0, 4.0]]), ["x", "y"]
    with pytest.raises(NotImplementedError, match="numeric='none'"):
        answers(MemoryClassifier().fit(X, y), {"tokens": X})
    model = MemoryClassifier("positional", memory=Hashed(4, 2), vote="sum", numeric="none").fit(X, y)
    with pytest.raises(ValueError, match=r"OrdinalEncoder\(dtype=np.int64\)"):
        answers(model, {"tokens": X})
    model = MemoryClassifier(numeric="none").fit(X, y)
    with pytest.raises(ValueError, match="DoubleTensorType for 'tokens'"):
        answers(model, {"tokens": X.astype(np.float32)})
    with pytest.raises(NotFittedError):
        answers(MemoryClassifier(), {"tokens": X})
    with pytest.raises(ValueError, match="needs 18 or more"):
        answers(model, {"tokens": X}, target_opset=15)
