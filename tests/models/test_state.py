"""The state of a model is a value, and its edits are functions from state to state."""

from __future__ import annotations

import ast
import copy
import dataclasses
from dataclasses import FrozenInstanceError
from pathlib import Path

import pytest

from hammemo import MemoryClassifier
from hammemo.edits import state
from hammemo.edits.state import ModelState
from places import ROOT

STEPS = ["column_changes", "forget", "learn", "learn_one", "merge", "refit"]
LABEL_STEPS = ["choose", "count", "counted_tables", "streams", "weigh"]
PATHS = [*(f"edits/{name}.py" for name in STEPS), *(f"tasks/labels/{name}.py" for name in LABEL_STEPS)]
X, Y = [["a", "b"], ["a", "c"], ["d", "c"], ["d", "b"]] * 20, ["no", "no", "yes", "yes"] * 20


@pytest.mark.parametrize("place", PATHS)
def test_no_step_takes_an_estimator(place: str) -> None:
    path = Path(state.__file__).parents[1] / place
    functions = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.FunctionDef)]
    assert len(functions) >= 2
    for function in functions:
        for argument in [*function.args.args, *function.args.kwonlyargs]:
            assert argument.arg not in ("model", "estimator", "clf")
            assert argument.annotation is None or "Classifier" not in ast.unparse(argument.annotation)


def test_a_state_stays_as_it_is() -> None:
    clf = MemoryClassifier().fit(X, Y)
    before, bytes_before = clf.state, clf.memory_.state_bytes()
    clf.forget(X[:1], Y[:1]).learn_one(X[0], "other").refit()
    assert before.memory.state_bytes() == bytes_before
    assert before.n_examples == 80
    assert not before.stale
    with pytest.raises(FrozenInstanceError):
        before.stale = True  # type: ignore[misc]
    for name in ("memory_", "vote_", "sites_", "kernel_", "label_dtype_", "cutting_", "choices_", "state"):
        with pytest.raises(AttributeError):
            setattr(clf, name, None)


def test_before_a_fit_there_is_no_state() -> None:
    clf = MemoryClassifier()
    assert not hasattr(clf, "memory_")
    with pytest.raises(AttributeError, match="has learnt nothing yet"):
        _ = clf.state


def test_copies_share_no_witness() -> None:
    clf = MemoryClassifier().fit(X, Y)
    marked = clf.state.with_changes(witness=object())
    assert copy.deepcopy(marked).witness is None


def test_states_are_changed_in_fields_that_they_have() -> None:
    """`with_changes` is too quick to check names: a name of former days would change nothing, and say nothing."""
    fields = {field.name for field in dataclasses.fields(ModelState)}
    folders = ("src", "server/src", "benchmarks", "tests/support", "tests/stores", "tests/models")
    unknown = []
    n_calls = 0
    for path in (path for folder in folders for path in (ROOT / folder).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "with_changes":
                n_calls += 1
                names = {keyword.arg for keyword in node.keywords if keyword.arg is not None}
                unknown += [f"{path}:{node.lineno}: {name}" for name in sorted(names - fields)]
    assert n_calls > 50
    assert not unknown
