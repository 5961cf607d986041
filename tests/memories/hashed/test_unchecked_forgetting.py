"""A hashed memory without digests forgets what it never learnt: its certificates say so, wherever the model goes."""

from __future__ import annotations

import copy
import pickle
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from hammemo import MemoryClassifier, NotStoredError, Rolling, load, save
from hammemo.cli.app import app
from hammemo.files import inspect
from hammemo.memories import Exact, Hashed, Tiered

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

X = [["r", "v"]] * 8 + [["r", "z"]] * 12
y = ["B"] * 8 + ["A"] * 12
QUERY = [["r", "v"]]


def _model(memory: Any, keep: str = "auto") -> MemoryClassifier:
    return MemoryClassifier("positional", memory, "sum", random_state=0, keep=keep).fit(X, y)


def _attacked(memory: Any, keep: str = "auto") -> MemoryClassifier:
    """Return a model that was told to forget what it never learnt, in the victim's bucket."""
    model = _model(memory, keep).partial_fit([["x", "z"]] * 8, ["B"] * 8)
    return model.forget([["x", "v2"]] * 8, ["B"] * 8)


def _warns(model: Any, ask: str = "certify") -> bool:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        getattr(model, ask)(QUERY if ask == "certify" else QUERY[0])
    assert all("without digests" in str(one.message) and "keep='digests'" in str(one.message) for one in caught)
    return bool(caught)


@pytest.mark.parametrize("key", [None, bytes(32)])
def test_a_certificate_that_is_wrong_comes_with_a_warning(key: bytes | None) -> None:
    model = _attacked(Hashed(1, 2, key=key))
    with pytest.warns(UserWarning, match="hold only if it had learnt every one of them"):
        proven = model.certify(QUERY)
    exact = _model(Exact()).partial_fit([["x", "z"]] * 8, ["B"] * 8)
    assert proven.tolist() == [True]
    assert model.predict(QUERY).tolist() != exact.predict(QUERY).tolist()


@pytest.mark.parametrize(
    "parts",
    [(Exact(),), (Tiered(Hashed(1, 2)),), (Hashed(1, 2), "digests"), (Hashed(1, 2), "rows+digests")],
    ids=str,
)
def test_what_checks_refuses_and_has_no_warning(parts: Any) -> None:
    with pytest.raises(NotStoredError):
        _attacked(*parts)
    assert not _warns(_model(*parts).forget(X[:1], y[:1]).forget_one(X[0], y[0]))
    assert not _warns(_model(*parts).partial_fit(X, y) - _model(*parts).empty_like().partial_fit(X, y))


def test_only_forgetting_sets_it() -> None:
    model = _model(Hashed(1, 2))
    assert not _warns(model.partial_fit(X[:1], y[:1]).learn_one(X[0], y[0]))
    with pytest.raises(NotStoredError):
        model.forget([["never", "never"]] * 50, ["B"] * 50)
    assert not _warns(model.forget(X[:1], y[:1], sample_weight=[0]))
    changes: list[Callable[[MemoryClassifier], MemoryClassifier]] = [
        lambda model: model.forget(X[:1], y[:1]),
        lambda model: model.forget(X[:2], y[:2]),
        lambda model: model.forget_one(X[0], y[0]),
        lambda model: model.unmerge(model.empty_like().partial_fit(X[:3], y[:3])),
    ]
    for change in changes:
        assert _warns(change(_model(Hashed(1, 2))))


def test_there_is_one_warning_for_each_version_and_for_explanations_too() -> None:
    model = _attacked(Hashed(1, 2))
    assert [_warns(model), _warns(model), _warns(model.partial_fit(X, y)), _warns(model)] == [True, False, True, False]
    model.partial_fit(X, y)
    assert [_warns(model, "explain"), _warns(model, "explain")] == [True, False]


def test_it_goes_with_the_model_and_not_with_the_state(tmp_path: Path) -> None:
    model, fresh = _model(Hashed(1, 2)).partial_fit(X, y).forget(X, y), _model(Hashed(1, 2))
    assert model.memory_.state_bytes() == fresh.memory_.state_bytes()
    save(model, tmp_path / "model")
    save(model.compile(), tmp_path / "compiled")
    save(fresh, tmp_path / "fresh")
    save(load(tmp_path / "model"), tmp_path / "again")
    assert load(tmp_path / "again").memory_.state_bytes() == fresh.memory_.state_bytes()
    for copied in (
        load(tmp_path / "model"),
        load(tmp_path / "model", verify=False),
        load(tmp_path / "again"),
        load(tmp_path / "compiled"),
        pickle.loads(pickle.dumps(model)),  # noqa: S301
        pickle.loads(pickle.dumps(model.compile())),  # noqa: S301
        copy.deepcopy(model),
        model.snapshot(),
        model + fresh,
        fresh + model,
        sum([fresh, model]),
    ):
        assert _warns(copied)
    for other in (load(tmp_path / "fresh"), fresh, fresh.compile(), model.empty_like().partial_fit(X, y)):
        assert not _warns(other)
    assert not _warns(model.fit(X, y))


def test_a_file_says_it(tmp_path: Path) -> None:
    save(_attacked(Hashed(1, 2)), tmp_path / "model")
    save(_model(Hashed(1, 2)), tmp_path / "fresh")
    assert [inspect(tmp_path / name)["forgot_unchecked"] for name in ("model", "fresh")] == [True, False]
    shown = CliRunner().invoke(app, ["inspect", str(tmp_path / "model")], env={"COLUMNS": "200"}).stdout
    assert "certificates hold only if" in shown


def test_a_window_has_learnt_what_it_forgets() -> None:
    model = Rolling(MemoryClassifier("positional", Hashed(1, 2), "sum"), last=5).fit(X, y)
    assert not _warns(model.partial_fit(X[:3], y[:3]))
    assert not _warns(model.compile())


ROWS = st.lists(st.tuples(st.tuples(*[st.sampled_from("abc")] * 2), st.sampled_from("xyz")), min_size=1, max_size=12)


@given(learnt=ROWS, asked=ROWS, digests=st.booleans())
def test_what_is_certified_is_the_exact_answer_where_removals_are_checked(
    learnt: list[Any], asked: list[Any], digests: bool
) -> None:
    """With digests, and of two tiers, whatever is to be forgotten: both answer as the exact memory does."""
    memory, keep = (Hashed(1, 1), "digests") if digests else (Tiered(Hashed(1, 1)), "auto")
    model, exact = (
        MemoryClassifier("positional", one, "sum", random_state=0, keep=keep).fit(
            [list(row) for row, _ in learnt], [label for _, label in learnt]
        )
        for one in (memory, Exact())
    )
    for row, label in asked:
        refused = []
        for one in (model, exact):
            try:
                one.forget_one(list(row), label)
            except NotStoredError:
                refused.append(one)
        assert len(refused) in (0, 2)
    queries = [[a, b] for a in "abcd" for b in "abcd"]
    if len(exact.classes_):
        proven = model.certify(queries)
        np.testing.assert_array_equal(model.predict(queries)[proven], exact.predict(queries)[proven])
