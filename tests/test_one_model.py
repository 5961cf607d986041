"""Code asks a model or its task what differs between labels and numbers: nothing else tells the two apart."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hammemo import MemoryClassifier, MemoryRegressor
from hammemo.estimators.base import MemoryModel

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT: Final = Path(__file__).parents[1]

ONE_TASK: Final = re.compile(r"(MemoryClassifier|MemoryRegressor|ModelState|ModelSettings|Number\w*|Label(?!ler)\w+)$")
"""Classes of models of labels, or of models of numbers, alone."""

ALLOWED: Final[dict[str, str]] = {}
"""Checks that are there for a reason, as ``file: expression``, and the reason. At most five."""

IN_BOTH: Final = {
    "__init__": "they have other parameters",
    "settings": "which become other settings",
    "partial_fit": "a classifier takes classes= and layout=, in another order",
    "compile": "the predictors differ, and a classifier has several compiled forms",
    "report": "the reports differ",
    "feature_importances_": "shares of bits, and shares of R²",
}
"""Methods that both estimators define, and why. At most six."""


def find_checks() -> Iterator[str]:
    """Yield the places outside of the tasks that ask which task a model has."""
    for folder in ("src/hammemo", "server/src"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            relative = path.relative_to(ROOT)
            if relative.is_relative_to("src/hammemo/tasks"):
                continue
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                if is_check(node):
                    yield f"{relative}: {ast.unparse(node)}"


def is_check(node: ast.AST) -> bool:
    """Return whether a node of a syntax tree asks which task a model has."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("isinstance", "issubclass"):
        return any(map(names_one_task, ast.walk(node.args[1])))
    if not isinstance(node, ast.Compare):
        return False
    sides = [node.left, *node.comparators]
    if any(map(names_one_task, sides)):
        return True
    asks_name = any(isinstance(side, ast.Attribute) and side.attr in ("predicts", "family", "task") for side in sides)
    names = [side.id for side in sides if isinstance(side, ast.Name)]
    return asks_name and (
        bool({"LABELS", "NUMBERS"} & set(names)) or any(isinstance(side, ast.Constant) for side in sides)
    )


def names_one_task(node: ast.AST) -> bool:
    """Return whether a node is the name of a class of one task."""
    name = node.id if isinstance(node, ast.Name) else getattr(node, "attr", "")
    return ONE_TASK.match(str(name)) is not None


def test_nothing_tells_labels_from_numbers() -> None:
    assert len(ALLOWED) <= 5
    assert sorted(set(find_checks()) - set(ALLOWED)) == []


def test_the_check_sees_what_it_is_for() -> None:
    asked = ["isinstance(model, MemoryRegressor)", "isinstance(part, (int, votes.NumberVote))", "state.task is LABELS"]
    asked += ["model.predicts == 'numbers'", "type(model) is MemoryClassifier"]
    others = ["isinstance(model, Learner)", "model.predicts == other.predicts", "isinstance(value, float)"]
    assert [is_check(ast.parse(text, mode="eval").body) for text in asked + others] == [True] * 5 + [False] * 3


def test_few_methods_are_defined_in_both_estimators() -> None:
    both = list_methods(MemoryClassifier) & list_methods(MemoryRegressor)
    assert both == set(IN_BOTH)
    assert len(IN_BOTH) <= 6
    assert {"fit", "forget", "apply", "sync", "merge", "refit", "plot_column"} <= list_methods(MemoryModel)


def list_methods(estimator: type) -> set[str]:
    """Return the methods and properties that are written in a class itself."""
    (written,) = ast.parse(textwrap.dedent(inspect.getsource(estimator))).body
    assert isinstance(written, ast.ClassDef)
    return {node.name for node in written.body if isinstance(node, ast.FunctionDef)}
