"""Deleting rows of a real table, beside learners that must be fitted again."""

from __future__ import annotations

import importlib.util
import json
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from sklearn.tree import DecisionTreeClassifier
from typer.testing import CliRunner

import deletion
from experiments import app
from hammemo import MemoryClassifier
from hammemo.datasets import load_table

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray


class Tree:
    """In place of LightGBM's classifier: it is told the same."""

    def __init__(self, n_jobs: int, verbose: int) -> None:
        self.tree = DecisionTreeClassifier(random_state=0)

    def fit(self, X: NDArray[Any], y: NDArray[Any], categorical_feature: list[int]) -> Tree:
        assert categorical_feature == list(range(X.shape[1]))
        assert X.dtype == np.int64
        self.classes_ = self.tree.fit(X, y).classes_
        return self

    def predict_proba(self, X: NDArray[Any]) -> Any:
        return self.tree.predict_proba(X)


@pytest.fixture
def small_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave 300 rows of the cars, a stand-in for LightGBM, and 20 rows to delete."""
    X, y = load_table("car")
    rows = np.random.default_rng(1).permutation(len(y))[:300]
    monkeypatch.setattr(deletion, "load_table", lambda _: (X[rows], y[rows]))
    monkeypatch.setattr(deletion, "N_DELETED", 20)
    monkeypatch.setitem(sys.modules, "lightgbm", SimpleNamespace(LGBMClassifier=Tree, __spec__=object()))


@pytest.mark.usefixtures("small_table")
def test_ours_equals_the_model_of_the_other_rows(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["deletion", "--out", str(tmp_path)])
    assert done.exit_code == 0, done.output
    rows = {row["learner"]: row for row in json.loads((tmp_path / "results.json").read_text())["table"]}
    assert list(rows) == ["hammemo", "hammemo, sites stay", "LightGBM", "scikit-learn's boosting"]
    assert [row["equal"] for row in rows.values()] == [True, None, None, None]
    assert all(row["accuracy"] > 0.75 and row["delete_seconds"] > 0 for row in rows.values())
    assert "| these rows | the model of the other rows, to the byte |" in (tmp_path / "deletion.md").read_text()


def test_a_difference_would_be_said(monkeypatch: pytest.MonkeyPatch) -> None:
    forget = MemoryClassifier.forget
    monkeypatch.setattr(MemoryClassifier, "forget", lambda model, X, y: forget(model, X[1:], y[1:]))  # one row stays
    X, y = load_table("tic-tac-toe")
    found = deletion.deletion(MemoryClassifier, X, y, np.arange(len(y)) < 100)
    assert found["equal"] is False
    row = {"learner": "hammemo", "accuracy": 1.0, "log_loss": 0.0, **found}
    page = deletion.markdown(
        {"settings": {"table": "car", "rows": 300, "deleted": 100}, "table": [row], "left_out": []}
    )
    assert "**not** the model of the other rows" in page


def test_learners_that_are_missing_or_cannot_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    made, left_out = deletion.learners(load_table("car")[0])
    assert list(made) == ["hammemo", "scikit-learn's boosting"]
    assert left_out == ["LightGBM is left out: it is not installed (pip install lightgbm)."]
    made, left_out = deletion.learners(load_table("flights")[0])
    assert list(made) == ["hammemo"]
    why = "scikit-learn's boosting is left out: a column has 2,781 values, and it takes categories of 255 at most."
    assert left_out[1] == why
    results = {"settings": {"table": "flights", "rows": 1, "deleted": 1}, "table": [], "left_out": left_out}
    assert deletion.markdown(results).endswith(f"\n\n{why}\n")
