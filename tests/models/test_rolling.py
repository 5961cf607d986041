"""Rolling windows: at every step the state of a fresh fit on what remains."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone, is_regressor
from sklearn.exceptions import NotFittedError

from hammemo import MemoryClassifier, MemoryRegressor, Rolling
from hammemo.estimators import rolling
from hammemo.memories import Exact, Gaussian, Hashed

if TYPE_CHECKING:
    from hammemo.memories import Memory
    from hammemo.tokens.contexts import Examples

pytestmark = pytest.mark.quick

MEMORIES = [(Exact(), "auto"), (Hashed(4, 2), "auto"), (Gaussian(16, exact=True), "auto"), (Hashed(4, 2), "digests")]
every_memory = pytest.mark.parametrize(("memory", "keep"), [*MEMORIES, (Exact(), "rows+digests")], ids=str)

contexts = st.tuples(st.sampled_from(["a", "b", 1]), st.sampled_from(["a", 2, 0.5]))
row = st.tuples(contexts, st.sampled_from(["x", "y", "z"]), st.integers(0, 3), st.integers(0, 3))
streams = st.lists(st.lists(row, min_size=1, max_size=4), min_size=1, max_size=6)


def table(part: list[Any]) -> Any:
    X = np.empty((len(part), 2), object)
    X[:] = [context for context, *_ in part]
    return X


def kept(rows: list[Any], last: int | None, seconds: float | None, now: float) -> list[Any]:
    """Return what remains of (context, label, time), one row an example, by the definition of the window."""
    inside = [row for row in rows if seconds is None or row[2] > now - seconds]
    return inside if last is None else inside[max(0, len(inside) - last) :]


@every_memory
@given(stream=streams, last=st.none() | st.integers(1, 6), seconds=st.sampled_from([None, 1, 2.5, 7]))
@settings(max_examples=40, deadline=None)
def test_the_state_is_that_of_a_fresh_fit_on_what_remains(
    memory: Memory, keep: str, stream: Any, last: Any, seconds: Any
) -> None:
    if last is None and seconds is None:
        last = 3
    model = Rolling(MemoryClassifier(memory=memory, vote="sum", numeric="none", keep=keep), last=last, seconds=seconds)
    now, held = 0.0, list[Any]()
    for part in stream:
        times = now + np.cumsum([wait for *_, wait in part])
        now = float(times[-1])
        weights = [weight for _, _, weight, _ in part]
        labels = [label for _, label, _, _ in part]
        model.partial_fit(table(part), labels, classes=["x"], sample_weight=weights, times=times)
        for (context, label, weight, _), when in zip(part, times.tolist(), strict=True):
            held += [(context, label, when)] * weight
        held = kept(held, last, seconds, now)
        fresh = model.estimator_.empty_like()
        fresh.memory_.declare(model.estimator_.memory_.declared)
        if held:
            fresh.partial_fit(table(held), [label for _, label, _ in held])
        assert model.estimator_.memory_.state_bytes() == fresh.memory_.state_bytes()
        assert model.n_examples_ == len(held)


def test_what_falls_out_is_forgotten_in_one_batch() -> None:
    removed: list[int] = []

    class Watched(Exact):
        def update(self, examples: Examples, sign: int) -> None:
            if sign < 0:
                removed.append(len(examples))
            super().update(examples, sign)

    model = Rolling(MemoryClassifier(memory=Watched(), vote="sum"), last=2)
    for i in range(3):
        model.partial_fit([[i, i], [i, 9]], ["x", "y"])
    model.partial_fit([[i, i] for i in range(5)], ["x"] * 5)
    assert removed == [2, 2, 5]
    assert model.n_examples_ == 2


def test_long_parts_are_cut_and_mixed_types_keep_their_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rolling, "_CHUNK_ROWS", 2)
    model = Rolling(MemoryClassifier(memory=Exact(), keep="auto+digests", vote="sum", numeric="none"), last=1)
    model.partial_fit(np.arange(10).reshape(5, 2), ["x"] * 5)
    oldest, rest = model._chunks.pop()
    assert len(oldest.times) == 1
    assert not rest
    model.partial_fit(np.array([["1", "2"]]), ["y"]).partial_fit(np.array([[0.5, 2.0]]), ["z"])
    assert model.classes_.tolist() == ["z"]


def test_the_clock_is_the_system_s_by_default_and_never_goes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(time, "time", lambda: now[0])
    model = Rolling(MemoryClassifier(memory=Exact(), vote="sum"), seconds=10)
    model.partial_fit([["a"]], ["x"])
    now[0] = 95.0  # the system's clock was set back
    model.partial_fit([["b"]], ["y"])
    assert model.expire().n_examples_ == 2
    now[0] = 109.9
    assert model.expire().n_examples_ == 2
    now[0] = 110.0
    assert model.expire().n_examples_ == 0
    assert model.expire(now=0).n_examples_ == 0
    model.partial_fit([["c"]], ["z"], times=[100])  # late, and too old already
    assert model.n_examples_ == 0
    with pytest.raises(ValueError, match="memory is empty"):
        model.predict([["a"]])


def test_times_may_be_dates() -> None:
    model = Rolling(MemoryClassifier(memory=Exact(), vote="sum"), seconds=3600)
    times = np.array(["2026-01-01T00:00", "2026-01-01T00:30"], "datetime64[m]")
    model.partial_fit([["a"], ["b"]], ["x", "y"], times=times)
    assert model.expire(np.datetime64("2026-01-01T01:00")).classes_.tolist() == ["y"]


@pytest.mark.parametrize(
    "times", [[2, 1], [0, 0], [np.nan, 3], ["a", "b"], [1], np.array(["2026-01-01", "NaT"], "datetime64[D]")]
)
def test_impossible_times_are_refused_and_change_nothing(times: Any) -> None:
    model = Rolling(MemoryClassifier(memory=Exact(), vote="sum"), last=5).partial_fit([["a"]], ["x"], times=1)
    before = model.estimator_.memory_.state_bytes()
    with pytest.raises(ValueError, match="times"):
        model.partial_fit([["a"], ["b"]], ["x", "y"], times=times)
    assert model.estimator_.memory_.state_bytes() == before
    assert model.n_examples_ == 1


@pytest.mark.parametrize(
    ("parameters", "message"),
    [({}, "a limit"), ({"last": 0}, "at least 1"), ({"last": 2.5}, "at least 1"), ({"seconds": 0}, "positive")],
)
def test_impossible_windows_are_refused(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Rolling(MemoryClassifier(memory="hashed", vote="sum"), **parameters).fit([["a"]], ["x"])


def test_only_what_can_forget_can_roll() -> None:
    with pytest.raises(TypeError, match="is not a MemoryClassifier"):
        Rolling("model", last=2).fit([["a"]], ["x"])  # type: ignore[arg-type]


def test_it_answers_as_the_model_of_the_window() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.integers(0, 5, (200, 3)), rng.integers(0, 4, 200)
    model = Rolling(MemoryClassifier(memory=Hashed(8, 4), vote="sum"), last=50).fit(X, y)
    fresh = model.estimator_.empty_like().partial_fit(X[150:], y[150:])
    for name in ("predict", "class_scores", "decision_function", "top_k", "certify"):
        np.testing.assert_array_equal(getattr(model, name)(X), getattr(fresh, name)(X))
    np.testing.assert_array_equal(model.compile().predict(X), fresh.predict(X))
    assert model.score(X, y) == fresh.score(X, y)
    assert model.n_features_in_ == 3
    refitted = model.fit(X[:50], y[:50])
    assert refitted.n_examples_ == 50


def test_frames_keep_their_names_and_clones_start_anew() -> None:
    frame = pd.DataFrame({"first": ["a", "b"], "second": [1, 2]})
    model = Rolling(MemoryClassifier(memory=Exact(), vote="sum"), last=1).fit(frame, ["x", "y"])
    assert model.partial_fit(frame, ["x", "y"]).predict(frame).tolist() == ["y", "y"]
    assert model.feature_names_in_.tolist() == ["first", "second"]
    fresh = clone(model).set_params(estimator__vote="mean", last=7)
    assert (fresh.estimator.vote, fresh.last, hasattr(fresh, "estimator_")) == ("mean", 7, False)
    for name in ("classes_", "n_features_in_", "feature_names_in_"):
        assert not hasattr(fresh, name)
    with pytest.raises(NotFittedError):
        fresh.predict(frame)
    with pytest.raises(NotFittedError):
        fresh.expire()


def test_the_user_s_arrays_may_change_afterwards() -> None:
    X, y = np.array([[1, 2], [3, 4]]), np.array(["x", "y"])
    model = Rolling(MemoryClassifier(memory=Exact(), keep="auto+digests", vote="sum"), last=2).partial_fit(X, y)
    X[:], y[:] = 0, "z"
    assert model.partial_fit([[5, 6], [7, 8]], ["x", "x"]).classes_.tolist() == ["x"]


def test_two_clocks_cannot_be_mixed() -> None:
    window = Rolling(MemoryClassifier(memory="hashed", vote="sum"), seconds=10).partial_fit(
        [["a"], ["b"]], ["x", "y"], times=[0, 5]
    )
    with pytest.raises(ValueError, match="give times= in every call"):
        window.partial_fit([["c"]], ["x"])
    assert window.classes_.tolist() == ["x", "y"]


@pytest.mark.long
@given(parts=st.lists(st.integers(1, 9), min_size=1, max_size=5), last=st.integers(1, 12), seed=st.integers(0, 99))
@settings(max_examples=15, deadline=None)
def test_a_window_of_numbers_refits_to_the_model_of_what_remains(parts: list[int], last: int, seed: int) -> None:
    rng, n = np.random.default_rng(seed), sum(parts)
    X = pd.DataFrame({"size": rng.integers(0, 5, n) / 2, "town": rng.choice(list("abc"), n)})
    y = rng.normal(size=n)
    window, start = Rolling(MemoryRegressor(), last=last), 0
    for size in parts:
        window.partial_fit(X[start : start + size], y[start : start + size])
        start += size
        inside = slice(max(0, start - last), start)
        assert window.n_examples_ == window.estimator_.state.n_examples == inside.stop - inside.start
        fresh = MemoryRegressor().fit(X[inside], y[inside])
        assert window.estimator_.snapshot().refit().digest() == fresh.digest()


def test_a_window_of_numbers_answers_as_its_model() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    y = 3 * X[:, 0]
    window = Rolling(MemoryRegressor(), seconds=10)
    with pytest.raises(NotFittedError):
        window.predict(X)
    window.fit(X, y, times=np.arange(60) / 4).expire(20)
    assert window.n_examples_ == 19
    model: Any = window.estimator_
    assert np.array_equal(window.predict(X), model.predict(X))
    assert np.array_equal(window.predict_interval(X, 0.5), model.predict_quantiles(X, [0.25, 0.75]))
    assert np.array_equal(window.predict_quantiles(X, [0.5]), model.predict_quantiles(X, [0.5]))
    assert window.score(X, y) == model.score(X, y)
    assert is_regressor(window)
    assert not hasattr(window, "predict_proba")
    assert not hasattr(window, "classes_")
    assert not hasattr(Rolling(MemoryClassifier(), last=1), "predict_interval")
    assert np.array_equal(window.compile().predict(X), model.predict(X))
    for ask in (lambda: window.top_k(X), lambda: window.partial_fit(X, y, classes=[1], times=99)):
        with pytest.raises(AttributeError, match="predicts numbers"):
            ask()
