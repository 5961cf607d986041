"""``hammemo fit`` with everything automatic: what it learns is what the library learns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from typer.testing import CliRunner

from hammemo import Exact, Hashed, Ledgered, MemoryClassifier, load
from hammemo.cli import batches
from hammemo.cli.app import app

if TYPE_CHECKING:
    from pathlib import Path

runner = CliRunner()


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
    model, same = fitted(file, "--label", "label"), MemoryClassifier().fit(X.astype(object), y.astype(object))
    assert (0, 2) in model.sites_.positions
    assert model.sites_.positions == same.sites_.positions
    assert model.memory_.label_counts.tolist() == same.memory_.label_counts.tolist()
    assert model.get_params()["kernel"] == "auto"


def test_beyond_the_first_rows_the_rest_is_counted_and_weights_are_fitted_to_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "CHOICE_ROWS", 100)
    file, _, y = table(tmp_path)
    header, *rows = file.read_text().splitlines()
    names = ["first", "second", "third"]
    for k, name in enumerate(names):  # each file is a batch
        (tmp_path / f"{name}.csv").write_text("\n".join([header, *rows[k::3]]) + "\n")
    model = fitted(tmp_path / "first.csv", *(str(tmp_path / f"{name}.csv") for name in names[1:]), "--label", "label")
    assert int(model.memory_.label_counts.sum()) == len(y)
    assert (0, 2) in model.sites_.positions
    before = [array.tobytes() for array in model.vote_.state().values()]
    assert [array.tobytes() for array in model.refit().vote_.state().values()] == before


def test_sites_are_chosen_by_a_random_sample_of_all_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "CHOICE_ROWS", 400)
    file, _, y = table(tmp_path, 2000)
    header, *rows = file.read_text().splitlines()
    file.write_text("\n".join([header, *(["0,0,0,0,even"] * 500), *rows]) + "\n")  # the first rows tell nothing
    model = fitted(file, "--label", "label")
    assert (0, 2) in model.sites_.positions
    assert int(model.memory_.label_counts.sum()) == len(y) + 500
    assert model.sample_ is not None
    assert int(model.sample_.examples().multiplicity.sum()) == len(y) + 500
    piped = tmp_path / "piped.model"  # what cannot be read twice is chosen by its first rows, as before
    result = runner.invoke(app, ["fit", "-", "--label", "label", "--out", str(piped)], input=file.read_text())
    assert result.exit_code == 0, result.output
    assert int(load(piped).memory_.label_counts.sum()) == len(y) + 500


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
        (["--ledger"], Ledgered),
        (["--vote", "sum"], Exact),
    ],
)
def test_what_an_automatic_memory_is(options: list[str], memory: type, tmp_path: Path) -> None:
    model = fitted(table(tmp_path, 60)[0], "--label", "label", *options)
    assert type(model.memory_) is memory
    if memory is Ledgered:
        assert isinstance(model.memory_.memory, Exact)
