"""``hammemo fit`` with everything automatic: what it learns is what the library learns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from hammemo import MemoryClassifier, load
from hammemo.cli.app import app
from hammemo.memories import Exact, Hashed
from hammemo.stores import kept_rows
from hammemo.tasks.labels import choose

if TYPE_CHECKING:
    from pathlib import Path

runner = CliRunner()
NAMES = ["--label", "label", "--numeric", "none"]
"""The digits of these tables are names."""


def table(folder: Path, n: int = 300) -> tuple[Path, Any, Any]:
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, (n, 4)).astype(str)
    y = np.where(X[:, 0] != X[:, 2], "odd", "even")
    file = folder / "table.csv"
    rows = [",".join([*row, label]) for row, label in zip(X, y, strict=True)]
    file.write_text("\n".join(["a,b,c,d,label", *rows]) + "\n")
    return file, X, y


def fitted(file: Path, *options: str) -> MemoryClassifier:
    out = file.with_suffix(".model")
    result = runner.invoke(app, ["fit", str(file), *options, "--out", str(out)])
    assert result.exit_code == 0, result.output
    model: MemoryClassifier = load(out)
    return model


def test_a_table_is_learnt_as_fit_learns_it(tmp_path: Path) -> None:
    file, X, y = table(tmp_path)
    model = fitted(file, *NAMES)
    same = MemoryClassifier().fit(X.astype(object), y.astype(object))
    assert (0, 2) in model.sites_.positions
    assert model.sites_.positions == same.sites_.positions
    assert model.memory_.label_counts.tolist() == same.memory_.label_counts.tolist()
    assert model.get_params()["kernel"] == "auto"


def test_a_file_in_batches_gives_the_model_that_fit_makes_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, X, y = table(tmp_path)
    header, *rows = file.read_text().splitlines()
    names = ["first", "second", "third"]
    for k, name in enumerate(names):  # each file is a batch
        (tmp_path / f"{name}.csv").write_text("\n".join([header, *rows[k::3]]) + "\n")
    files = [str(tmp_path / f"{name}.csv") for name in names[1:]]
    model = fitted(tmp_path / "first.csv", *files, *NAMES)
    assert (0, 2) in model.sites_.positions
    frame = pd.DataFrame(X.astype(object), columns=header.split(",")[:-1])
    same = MemoryClassifier(numeric="none").fit(frame, y.astype(object))
    assert model.digest(parts=True) == same.digest(parts=True)
    monkeypatch.setattr(kept_rows, "MOST_ROWS", 10)  # now the files are read twice, and from a pipe once
    monkeypatch.setattr(choose, "CHOICE_ROWS", 5)
    model = fitted(tmp_path / "first.csv", *files, *NAMES)
    assert model.state.kept is not None
    assert not model.state.kept.holds_all
    assert model.memory_.label_counts.tolist() == same.memory_.label_counts.tolist()
    piped = tmp_path / "piped.model"
    result = runner.invoke(app, ["fit", "-", *NAMES, "--out", str(piped)], input=file.read_text())
    assert result.exit_code == 0, result.output
    assert load(piped).memory_.label_counts.tolist() == same.memory_.label_counts.tolist()


def test_events_compare_suffixes_and_skip_pairs(tmp_path: Path) -> None:
    file = tmp_path / "log.csv"
    events = [f"{case},{event}" for case in range(30) for event in ("open", "work", "check", "close")]
    file.write_text("\n".join(["case,event", *events]) + "\n")
    model = fitted(file, "--h", "3", "--case", "case", "--event", "event")
    assert {(2,), (1, 2), (0, 1, 2), (0, 2)} <= set(model.sites_.positions)


@pytest.mark.parametrize(
    ("options", "memory"),
    [
        ([], Exact),
        (["--buckets", "16"], Hashed),
        (["--reserved", "7"], Hashed),
        (["--keep", "digests"], Exact),
        (["--vote", "sum"], Exact),
    ],
)
def test_what_an_automatic_memory_is(options: list[str], memory: type, tmp_path: Path) -> None:
    model = fitted(table(tmp_path, 60)[0], "--label", "label", *options)
    assert type(model.memory_) is memory
