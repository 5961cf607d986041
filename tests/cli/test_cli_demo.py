"""``hammemo demo``: it shows what it says, and what it shows can be run again."""

from __future__ import annotations

import csv
import shlex
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from hammemo import MemoryClassifier, load
from hammemo.cli.app import app
from hammemo.receipts import ReceiptFile

if TYPE_CHECKING:
    from pathlib import Path

pytest.importorskip("cryptography")
runner = CliRunner()


def test_the_demo_follows_a_table_and_proves_a_deletion(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib").use("agg")
    folder = tmp_path / "demo"
    shown = runner.invoke(app, ["demo", str(folder)])
    assert shown.exit_code == 0, (shown.output, shown.exception)
    assert "1 row forgotten, 0 learnt, 499 unchanged" in shown.output
    assert "Proven: a model that learns only these 499 rows is the same to the byte." in shown.output
    assert (folder / "stays.png").read_bytes().startswith(b"\x89PNG")
    (signed,) = ReceiptFile(folder / "receipts").read()
    assert (signed.receipt.request, signed.receipt.rows) == ("customer-17", 1)
    with (folder / "remaining.csv").open(encoding="utf-8") as file:
        rows: list[Any] = [
            [plan, int(calls), int(months), stays] for plan, calls, months, stays in list(csv.reader(file))[1:]
        ]
    fresh = MemoryClassifier().fit([row[:3] for row in rows], [row[3] for row in rows])
    model = load(folder / "stays.model")
    assert model.digest(parts=True)["counts"] == fresh.digest(parts=True)["counts"]
    verify = [line for line in shown.output.splitlines() if line.startswith("$ hammemo verify")]
    monkeypatch.chdir(folder)
    assert runner.invoke(app, shlex.split(verify[0])[2:]).exit_code == 0
    refused = runner.invoke(app, ["demo", str(folder)])
    assert (refused.exit_code, "is not empty" in refused.stderr) == (1, True)


def test_a_step_that_fails_ends_the_demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hammemo.cli.demo._SYNC", "hammemo sync stays.model --database sqlite:///none.db --query x")
    monkeypatch.setattr("hammemo.cli.demo._CUSTOMERS", 20)
    failed = runner.invoke(app, ["demo", str(tmp_path)])
    assert failed.exit_code == 1
    assert "The database refused" in failed.stderr
    assert "An auditor" not in failed.output
