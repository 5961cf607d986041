"""A column with only missing values in the first file: the files that are added decide what it holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from hammemo import load
from hammemo.cli.app import app
from hammemo.tokens.column_letters import encode_letters

if TYPE_CHECKING:
    from pathlib import Path

N = 60
DAYS = pd.date_range("2024-01-20", periods=N)

LATER: dict[str, Any] = {
    "days.csv": DAYS.strftime("%Y-%m-%d"),
    "slashes.csv": DAYS.strftime("%Y/%m/%d"),
    "moments.csv": DAYS.strftime("%Y-%m-%dT%H:%M"),
    "zones.csv": DAYS.strftime("%Y-%m-%dT%H:%M+00:00"),
    "fractions.csv": [str(k / 7) for k in range(N - 1)] + ["NA"],
    "whole.csv": [str(k) for k in range(N - 1)] + ["NA"],
    "names.csv": [f"name {k % 5}" for k in range(N)],
    "still-empty.csv": [None] * N,
    "days.parquet": DAYS,
    "zones.parquet": DAYS.tz_localize("Europe/Berlin"),
    "fractions.parquet": np.arange(N) / 7,
    "whole.parquet": np.arange(N),
    "truths.parquet": np.arange(N) % 2 == 0,
    "names.parquet": [f"name {k % 5}" for k in range(N)],
    "days.jsonl": DAYS.strftime("%Y-%m-%d"),
    "whole.jsonl": np.arange(N),
}
"""The values of the column in the file that is added, by the name of the file."""


def run(*arguments: object, code: int = 0) -> Any:
    result = CliRunner().invoke(app, [*map(str, arguments)])
    assert result.exit_code == code, result.output
    return result


def write(path: Path, values: Any, label: str = "label") -> Path:
    """Write a table with these values of the column `late`; labels depend on them."""
    numbers = np.arange(N)
    frame = pd.DataFrame({"size": numbers * 0.5, "late": values})
    frame[label] = np.where(numbers < N // 2, "low", "high") if label == "label" else numbers * 1.5
    if path.suffix == ".csv":
        frame.to_csv(path, index=False)
    elif path.suffix == ".jsonl":
        frame.to_json(path, orient="records", lines=True)
    else:
        frame.to_parquet(path)
    return path


CASES = [
    *(("first.csv", name, "label") for name in LATER),
    *(("first.parquet", name, "label") for name in ("days.csv", "fractions.csv", "days.parquet", "whole.parquet")),
    *(("first.csv", name, "target") for name in ("slashes.csv", "whole.csv", "days.parquet", "names.parquet")),
]


@pytest.mark.parametrize(("first_name", "name", "column"), CASES)
def test_adding_a_file_is_fitting_both(tmp_path: Path, first_name: str, name: str, column: str) -> None:
    first = write(tmp_path / first_name, [None] * N, column)
    later = write(tmp_path / name, LATER[name], column)
    model = tmp_path / "model"
    run("fit", first, later, f"--{column}", column, "--out", tmp_path / "both")
    run("fit", first, f"--{column}", column, "--out", model)
    run("add", model, later)
    answers = run("predict", model, later).stdout
    assert len(answers.splitlines()) == N
    run("refit", model)
    assert model.read_bytes() == (tmp_path / "both").read_bytes()
    run("add", model, later)
    run("forget", model, later, "--refit")
    assert model.read_bytes() == (tmp_path / "both").read_bytes()


@pytest.mark.parametrize("name", ["slashes.csv", "fractions.csv", "days.parquet", "names.csv"])
def test_syncing_and_merging_decide_too(tmp_path: Path, name: str) -> None:
    first = write(tmp_path / "first.csv", [None] * N)
    later = write(tmp_path / name, LATER[name])
    for model, file in (("first", first), ("later", later)):
        run("fit", file, "--label", "label", "--out", tmp_path / model)
    run("merge", tmp_path / "first", tmp_path / "later", "--out", tmp_path / "merged", "--refit")
    run("add", tmp_path / "merged", later)
    run("forget", tmp_path / "merged", first, "--refit")
    run("forget", tmp_path / "merged", later, "--refit")
    run("sync", tmp_path / "first", later, "--refit")
    fresh = load(tmp_path / "later").digest()
    assert load(tmp_path / "merged").digest() == load(tmp_path / "first").digest() == fresh
    assert len(run("predict", tmp_path / "first", later).stdout.splitlines()) == N


def test_doubts_about_added_columns_are_said(tmp_path: Path) -> None:
    first = write(tmp_path / "first.csv", [None] * N)
    later = write(tmp_path / "later.csv", [f"{1 + k % 12:02d}/{1 + k % 11:02d}/2024" for k in range(N)])
    run("fit", first, "--label", "label", "--out", tmp_path / "model")
    added = run("add", tmp_path / "model", later)
    assert "Column 'late' holds dates" in added.output
    assert "--date-format 'late=%d/%m/%Y'" in added.output
    assert "pd.to_datetime" not in added.output
    run("fit", first, "--label", "label", "--out", tmp_path / "model")
    run("add", tmp_path / "model", later, "--date-format", "late=%d/%m/%Y")
    assert encode_letters(load(tmp_path / "model").state.columns.kinds) == "nd"
    run("predict", tmp_path / "model", later)
