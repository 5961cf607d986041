"""Predictors as graphs for torch and ONNX Runtime: their labels and scores are those of the library."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crafted_tokens import tuples_like
from hammemo import MemoryClassifier
from hammemo.kernels import Bag, PositionalHamming, SiteKernel, Suffixes
from hammemo.memories import Exact, Gaussian, Hashed
from hammemo.portable import building
from hammemo.votes import LogLinear

if TYPE_CHECKING:
    from pathlib import Path

    from hammemo import Predictor

torch = pytest.importorskip("torch")
onnxruntime = pytest.importorskip("onnxruntime")
pytest.importorskip("onnx")

KERNELS = [
    PositionalHamming(),
    SiteKernel([0, 1, 2], weights=[1, 0.3, 2]),
    Suffixes(3),
    SiteKernel([0, (0, 2), (1, 2)]),
]
VOTES = ["sum", "mean", LogLinear(steps=3, per_label=False), LogLinear(steps=3)]
WORDS = st.one_of(st.integers(0, 9), st.integers(-(2**63) + 1, 2**63 - 1))


def in_onnx(predictor: Predictor, X: Any, path: Path, tokens: Any = None) -> tuple[Any, Any]:
    """Return the labels and the scores that ONNX Runtime gives."""
    predictor.to_onnx(path, tokens)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    label, scores = session.run(None, {"tokens": X})
    return label, scores


def expect_same(predictor: Predictor, X: Any, folder: Path, tokens: Any = None) -> None:
    """Fail where torch or ONNX Runtime gives another label or another score."""
    expected, scores = predictor.predict(X).tolist(), predictor.class_scores(X)
    module = predictor.to_torch(tokens)
    assert module.predict(X).tolist() == expected
    np.testing.assert_array_equal(module(module.numbers(X)).numpy(), scores)
    label, found = in_onnx(predictor, X, folder / "graph.onnx", tokens)
    assert label.tolist() == expected
    np.testing.assert_array_equal(found, scores)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("graphs")


@settings(max_examples=25)
@given(data=st.data(), kernel=st.sampled_from(KERNELS), vote=st.sampled_from(VOTES), reserved=st.sampled_from([0, 4]))
def test_hashed_memories_hash_any_integer(data: Any, kernel: Any, vote: Any, reserved: int, folder: Path) -> None:
    rows = st.lists(st.lists(WORDS, min_size=3, max_size=3), min_size=3, max_size=12)
    X = np.array(data.draw(rows), np.int64)
    y = data.draw(st.lists(st.sampled_from(["a", "b", "c"]), min_size=len(X), max_size=len(X)))
    predictor = MemoryClassifier(kernel, Hashed(5, reserved), vote).fit(X, y).compile()
    expect_same(predictor, np.concatenate([X, np.array(data.draw(rows), np.int64)]), folder)


@settings(max_examples=25)
@given(
    data=st.data(), kernel=st.sampled_from(KERNELS), vote=st.sampled_from(VOTES), key=st.sampled_from([None, b"k" * 16])
)
def test_hashed_memories_know_a_list_of_strings(data: Any, kernel: Any, vote: Any, key: Any, folder: Path) -> None:
    rows = st.lists(st.lists(st.sampled_from("abcdefgh"), min_size=3, max_size=3), min_size=3, max_size=12)
    X = np.array(data.draw(rows), object)
    y = data.draw(st.lists(st.sampled_from([3, 1, 2]), min_size=len(X), max_size=len(X)))
    predictor = MemoryClassifier(kernel, Hashed(5, 4, key=key), vote).fit(X, y).compile()
    expect_same(predictor, np.array(data.draw(rows), object), folder, tokens="abcdefgh")


@settings(max_examples=25)
@given(data=st.data(), kernel=st.sampled_from(KERNELS[:2]), vote=st.sampled_from(VOTES), strings=st.booleans())
def test_dense_exact_counts(data: Any, kernel: Any, vote: Any, strings: bool, folder: Path) -> None:
    rows = st.lists(
        st.lists(st.sampled_from("abcdefgh") if strings else WORDS, min_size=3, max_size=3), min_size=3, max_size=9
    )
    kind: Any = object if strings else np.int64
    X = np.array(data.draw(rows), kind)
    y = data.draw(st.lists(st.sampled_from(["a", "b", "c"]), min_size=len(X), max_size=len(X)))
    predictor = MemoryClassifier(kernel, Exact(), vote).fit(X, y).compile("dense")
    expect_same(predictor, np.concatenate([X, np.array(data.draw(rows), kind)]), folder)
    if strings:
        expect_same(predictor, np.array(data.draw(rows), kind), folder, tokens="abcdefgh")


@settings(max_examples=40)
@given(data=st.data(), kernel=st.sampled_from(KERNELS), vote=st.sampled_from(VOTES), strings=st.booleans())
def test_sparse_exact_counts(data: Any, kernel: Any, vote: Any, strings: bool, folder: Path) -> None:
    rows = st.lists(
        st.lists(st.sampled_from("abcdefgh") if strings else WORDS, min_size=3, max_size=3), min_size=3, max_size=12
    )
    kind: Any = object if strings else np.int64
    X = np.array(data.draw(rows), kind)
    y = data.draw(st.lists(st.sampled_from(["a", "b", "c", "d", "e"]), min_size=len(X), max_size=len(X)))
    model = MemoryClassifier(kernel, Exact(), vote).fit(X, y)
    asked = np.concatenate([X, np.array(data.draw(rows), kind)])
    expect_same(model.compile(), asked, folder)
    assert model.predict(asked).tolist() == model.compile().to_torch().predict(asked).tolist()
    if strings:
        expect_same(model.compile(), asked, folder, tokens="abcdefgh")


MISSING_VALUES = [None, float("nan"), np.nan]


def lacking(rng: np.random.Generator, values: list[Any], n: int = 60) -> Any:
    """Return rows of three names of which some are missing."""
    X = rng.choice(np.array(values, object), (n, 3))
    X[rng.random(X.shape) < 0.2] = None
    return X


@pytest.mark.parametrize("missing", ["token", "empty"])
@pytest.mark.parametrize("learned", [True, False], ids=["learned missing values", "learned none"])
@pytest.mark.parametrize("memory", [Exact(), Hashed(16, 4), Gaussian(d=32)], ids=str)
def test_missing_values_are_answered_as_by_the_model(memory: Any, learned: bool, missing: str, folder: Path) -> None:
    rng, words = np.random.default_rng(0), list("abcd")
    X = lacking(rng, words) if learned else rng.choice(np.array(words, object), (60, 3))
    y = [str(row[0]) for row in X]
    vote = "sum" if isinstance(memory, Gaussian) else LogLinear(steps=3)
    model = MemoryClassifier(PositionalHamming(), memory, vote, missing=missing, numeric="none").fit(X, y)
    predictor = model.compile()
    tokens = words if isinstance(memory, Hashed) else None
    asked = lacking(rng, [*words, "never seen"] if isinstance(memory, Exact) else words)
    asked[:3, 0] = MISSING_VALUES
    module = predictor.to_torch(tokens)
    assert module.predict(asked).tolist() == model.predict(asked).tolist()
    rtol = 1e-4 if isinstance(memory, Gaussian) else 0
    np.testing.assert_allclose(module(module.numbers(asked)).numpy(), model.class_scores(asked), rtol=rtol, atol=rtol)
    is_missing = np.array([[not isinstance(value, str) for value in row] for row in asked])
    texts = np.where(is_missing, "<missing>", asked)
    for tensor in (texts, asked):  # ONNX Runtime makes the texts "None" and "nan" of missing values
        label, scores = in_onnx(predictor, tensor, folder / "missing.onnx", tokens)
        assert label.tolist() == model.predict(asked).tolist()
        np.testing.assert_allclose(scores, model.class_scores(asked), rtol=rtol, atol=rtol)


def test_a_name_that_is_spelled_like_a_missing_value_stays_a_name(folder: Path) -> None:
    X = np.array([["None"], [None], ["nan"], ["a"]], object)
    predictor = MemoryClassifier("positional", Exact(), "sum").fit(X, ["w", "x", "y", "z"]).compile()
    asked = np.array([["None"], ["<missing>"], ["nan"], ["a"], ["<NA>"]], object)
    assert in_onnx(predictor, asked, folder / "names.onnx")[0].tolist() == ["w", "x", "y", "z", "x"]


@pytest.mark.parametrize("learned", [True, False], ids=["learned missing values", "learned none"])
@pytest.mark.parametrize("missing", ["token", "empty"])
def test_missing_values_among_integers(learned: bool, missing: str, folder: Path) -> None:
    rng = np.random.default_rng(0)
    X = lacking(rng, [1, 2, 3]) if learned else rng.integers(1, 4, (60, 3))
    y, asked = [str(row[0]) for row in X], lacking(rng, [1, 2, 3, 4])
    exact = MemoryClassifier("positional", Exact(), "sum", missing=missing, numeric="none").fit(X, y)
    assert exact.compile().to_torch().predict(asked).tolist() == exact.predict(asked).tolist()
    hashed = MemoryClassifier("positional", Hashed(16, 4), "sum", missing=missing, numeric="none").fit(X, y)
    listed = hashed.compile().to_torch(tokens=[1, 2, 3, 4])
    assert listed.predict(asked).tolist() == hashed.predict(asked).tolist()
    plain = hashed.compile().to_torch()
    if missing == "empty":
        assert plain.predict(asked).tolist() == hashed.predict(asked).tolist()
    else:
        with pytest.raises(ValueError, match=r"X holds missing values: list the tokens .* to_torch\(tokens=…\)"):
            plain.numbers(asked)
    whole = rng.integers(1, 5, (20, 3))
    label, _ = in_onnx(hashed.compile(), whole, folder / "integers.onnx", [1, 2, 3, 4])
    assert label.tolist() == hashed.predict(whole).tolist()


def test_missing_values_are_refused_where_the_model_refuses_them() -> None:
    model = MemoryClassifier("positional", Exact(), "sum", missing="refuse").fit([["a"], ["b"]], ["x", "y"])
    with pytest.raises(ValueError, match="None is not a token"):
        model.predict([[None]])
    with pytest.raises(ValueError, match="None is not a token"):
        model.compile().to_torch().predict([[None]])


def test_weights_that_were_not_fitted_tie_labels_as_the_model_does(folder: Path) -> None:
    """With equal weights, labels whose tokens are swapped between positions have sums of the same numbers."""
    rng = np.random.default_rng(0)
    X, y = rng.integers(0, 3, (40, 6)), rng.integers(0, 7, 40)
    model = MemoryClassifier(SiteKernel(list(range(6))), Exact(), "log-linear").partial_fit(X, y)
    expect_same(model.compile(), rng.integers(0, 3, (729, 6)), folder)


@pytest.mark.parametrize("form", ["fused", "two-stage"])
@pytest.mark.parametrize("vote", ["sum", "mean"])
def test_gaussian_codes_give_the_same_labels(form: str, vote: str, folder: Path) -> None:
    rng = np.random.default_rng(0)
    X, y = rng.integers(0, 30, (300, 4)), rng.integers(0, 5, 300)
    predictor = MemoryClassifier("positional", memory=Gaussian(d=64), vote=vote, random_state=0).fit(X, y).compile(form)
    expected, scores = predictor.predict(X), predictor.class_scores(X)
    module = predictor.to_torch()
    np.testing.assert_allclose(module(module.numbers(X)).numpy(), scores, rtol=1e-4, atol=1e-5)
    label, found = in_onnx(predictor, X, folder / "gaussian.onnx")
    np.testing.assert_allclose(found, scores, rtol=1e-4, atol=1e-5)
    assert module.predict(X).tolist() == expected.tolist() == label.tolist()


def test_tuples_made_to_have_the_hash_of_a_reserved_one_read_a_bucket(folder: Path) -> None:
    victims = np.array([(5, 7, 9), (1, 2, 3), (-7, 2**40, 0)], np.int64)
    X = np.tile(victims, (4, 1))
    kernel = SiteKernel([(0, 2), (0, 1, 2)])
    predictor = MemoryClassifier(kernel, Hashed(4, 3), "sum", random_state=0).fit(X, X[:, 1]).compile()
    twins = tuples_like(victims, victims[[1, 2, 0], :2], (0, 1, 2), 0)
    expect_same(predictor, np.concatenate([victims, twins]), folder)


def test_a_token_that_is_not_listed_is_none(folder: Path) -> None:
    predictor = (
        MemoryClassifier("positional", memory=Exact(), vote="sum")
        .fit([["a", "b"], ["c", "d"]], ["x", "y"])
        .compile("dense")
    )
    expect_same(predictor, np.array([["zzz", "d"], ["", "b"]], object), folder)


@pytest.mark.slow  # torch compiles for a minute
def test_the_module_is_exported_and_compiled() -> None:
    X = np.random.default_rng(0).integers(0, 30, (50, 4))
    predictor = MemoryClassifier(Suffixes(3), Hashed(16, 8), "sum").fit(X, X[:, 0] % 3).compile()
    module = predictor.to_torch()
    numbers = module.numbers(X)
    exported = torch.export.export(module, (numbers,), dynamic_shapes=({0: torch.export.Dim("n", min=2)},)).module()
    np.testing.assert_array_equal(exported(numbers[:7]).numpy(), predictor.class_scores(X[:7]))
    np.testing.assert_array_equal(module.to("cpu")(numbers).numpy(), predictor.class_scores(X))
    state = module.state_dict()
    assert sum(part.numel() for part in state.values()) > 0


def test_a_graph_that_would_be_too_large_is_refused_before_it_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    X = np.arange(40).reshape(20, 2)
    predictor = MemoryClassifier("positional", memory=Exact(), vote="sum").fit(X, X[:, 0]).compile()
    predictor.to_torch()
    monkeypatch.setattr(building, "_MAX_TABLE_BYTES", 8 * 40 * 20 - 1)  # 40 rows, 20 labels
    with pytest.raises(ValueError, match=r"40 rows and 20 labels.*memory=Hashed\(\)"):
        predictor.to_torch()


def test_what_has_no_graph_says_what_to_do(folder: Path) -> None:
    X, y = [["a", "b"], ["c", "d"]], ["x", "y"]
    with pytest.raises(TypeError, match="sum, mean and log-linear"):
        MemoryClassifier("positional", memory=Exact(), vote="mixture").fit(X, y).compile().to_torch()
    with pytest.raises(ValueError, match="is no Unicode text"):
        MemoryClassifier("positional", memory=Exact(), vote="sum").fit([["\ud800"]], y[:1]).compile().to_onnx(
            folder / "x.onnx"
        )
    with pytest.raises(ValueError, match="positions only"):
        MemoryClassifier(PositionalHamming() + Bag(2), Exact(), "sum").fit(X, y).compile().to_torch()
    with pytest.raises(ValueError, match="secret key"):
        MemoryClassifier("positional", memory=Hashed(4, 2, key=b"k" * 16), vote="sum").fit(X, y).compile().to_torch()
    module = MemoryClassifier("positional", memory=Hashed(4, 2), vote="sum").fit(X, y).compile().to_torch()
    with pytest.raises(ValueError, match="tokens=…"):
        module.numbers(X)
    with pytest.raises(ValueError, match="of one kind"):
        MemoryClassifier("positional", memory=Hashed(4, 2), vote="sum").fit(X, y).compile().to_onnx(
            folder / "x.onnx", tokens=["a", 1]
        )
