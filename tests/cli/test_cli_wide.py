"""The command line on wide tables: what it learns, forgets and syncs is what the library makes of the same rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from hammemo import MemoryClassifier, MemoryRegressor, load
from hammemo.cli.app import app

if TYPE_CHECKING:
    from pathlib import Path

runner = CliRunner()
N = 600
N_ROWS = 40


def make_frame() -> pd.DataFrame:
    X = np.random.default_rng(0).normal(size=(N_ROWS, N)).round(3)
    X[:, 0] = np.arange(N_ROWS) % 2
    return pd.DataFrame(X, columns=[f"c{j}" for j in range(N)])


def make_targets(model: Any) -> np.ndarray:
    is_odd = np.arange(N_ROWS) % 2 == 1
    return np.where(is_odd, "odd", "even").astype(object) if model is MemoryClassifier else is_odd * 1.5


def run(*arguments: Any) -> str:
    result = runner.invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == 0, result.output
    return result.output


@pytest.mark.parametrize(("model", "option"), [(MemoryClassifier, "--label"), (MemoryRegressor, "--target")])
def test_commands_do_with_wide_tables_what_the_library_does(model: Any, option: str, tmp_path: Path) -> None:
    frame = make_frame()
    targets = make_targets(model)
    table = frame.assign(target=targets)
    table.to_csv(tmp_path / "all.csv", index=False)
    table[:30].to_csv(tmp_path / "first.csv", index=False)
    table[:5].to_csv(tmp_path / "five.csv", index=False)
    run("fit", tmp_path / "all.csv", option, "target", "--seed", 0, "--out", tmp_path / "fitted")
    run("forget", tmp_path / "fitted", tmp_path / "five.csv", "--out", tmp_path / "forgotten")
    run("sync", tmp_path / "fitted", tmp_path / "first.csv", "--out", tmp_path / "synced")
    for name, rows in (("fitted", slice(None)), ("forgotten", slice(5, None)), ("synced", slice(30))):
        learner = load(tmp_path / name)
        assert learner.state.columns.packed
        expected = model(random_state=0).fit(frame[rows], targets[rows])
        assert learner.refit().digest() == expected.digest(), name
    answers = run("predict", tmp_path / "fitted", tmp_path / "five.csv").split()
    expected_answers = model(random_state=0).fit(frame, targets).predict(frame[:5])
    assert len(answers) == len(expected_answers)
    if model is MemoryClassifier:
        assert answers == expected_answers.tolist()
