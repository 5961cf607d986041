"""``hammemo explain``: a model and a context in, the votes out, mistakes in one line."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from hammemo import MemoryClassifier, save
from hammemo.cli.app import app
from hammemo.memories import Exact, Hashed

if TYPE_CHECKING:
    from pathlib import Path

runner = CliRunner()
X, Y = [["order", "pay"], ["order", "pay"], ["order", "cancel"]], ["ship", "ship", "refund"]
SECRET = b"sixteen bytes or more"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    save(MemoryClassifier(memory=Exact(), vote="sum").fit(X, Y), tmp_path / "model")
    return tmp_path / "model"


def run(*arguments: Any, lines: str | None = None) -> Any:
    return runner.invoke(app, ["explain", *map(str, arguments)], input=lines)


def test_tokens_after_the_model_are_one_context(model: Path) -> None:
    result = run(model, "gift", "pay")
    assert result.exit_code == 0, result.output
    for part in ("'ship'", "position -2: 'gift' *", "'ship' leads 'refund' by 1; exact counts", "never seen: 'gift'"):
        assert part in result.stdout


def test_lines_of_the_input_are_contexts(model: Path) -> None:
    result = run(model, "--json", "--k", 1, "--no-header", lines="order,pay\n\norder,cancel\n")
    facts = [json.loads(line) for line in result.stdout.splitlines()]
    assert [one["labels"] for one in facts] == [["ship"], ["refund"]]
    assert [one["certified"] for one in facts] == [True, True]


def test_a_compiled_predictor_explains_too(tmp_path: Path) -> None:
    save(MemoryClassifier(memory="hashed", vote="sum").fit(X, Y).compile(), tmp_path / "predictor")
    assert json.loads(run(tmp_path / "predictor", "order", "pay", "--json").stdout)["margin"] == 1.5


@pytest.mark.parametrize("memory", [Exact(), Hashed(4, 2), Hashed(1, 0)], ids=repr)
def test_whole_numbers_are_read_as_the_model_learnt_them(memory: Any, tmp_path: Path) -> None:
    path = tmp_path / "model"
    for tokens, labels in (([[1, 2], [1, 3]], [3, 4]), ([["1", "2"], ["1", "3"]], ["3", "4"])):
        save(MemoryClassifier("positional", memory, "sum").fit(tokens, labels), path)
        assert json.loads(run(path, "1", "2", "--json").stdout)["tokens"] == tokens[0]
    save(
        MemoryClassifier(memory=Exact(), vote="sum").fit([["1", "2"], ["1", "3"]], [3, 4]), path
    )  # strings with whole labels
    assert json.loads(run(path, "1", "2", "--json").stdout)["tokens"] == ["1", "2"]


def test_a_figure_is_written(model: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    assert run(model, "order", "pay", "--plot", tmp_path / "votes.png").exit_code == 0
    assert (tmp_path / "votes.png").read_bytes().startswith(b"\x89PNG")


def test_a_secret_key_comes_from_a_file(tmp_path: Path) -> None:
    path, key = tmp_path / "model", tmp_path / "key"
    key.write_bytes(SECRET)
    save(MemoryClassifier(memory=Hashed(key=SECRET), vote="sum").fit(X, Y), path)
    assert run(path, "order", "pay", "--key-file", key).exit_code == 0
    refused = run(path, "order", "pay")
    assert refused.exit_code == 1
    assert "secret key" in refused.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere", "a", "b"], "nowhere"),
        (["model", "a"], "There are 1 values, and the model was fitted on 2"),
        (["model"], "standard input is empty"),
        (["model", "order", "pay", "--plot", "."], "--plot . cannot be written"),
        (["model", "order", "pay", "--plot", "votes.nonsense"], "nonsense"),
        (["model", "order", "pay", "--key-file", "missing"], "missing"),
    ],
)
def test_a_mistake_is_one_line(
    arguments: list[str], message: str, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(model.parent)
    result = run(*arguments, lines="")
    assert result.exit_code == 1
    assert result.stderr.startswith("Error: ")
    assert message in result.stderr
    assert result.stderr.count("\n") == 1


def test_the_first_rows_are_explained(model: Path) -> None:
    result = run(model, "--json", "--first", 2, "--no-header", lines="order,pay\n" * 3)
    assert result.exit_code == 0
    assert len(result.stdout.splitlines()) == 2
    assert "Explained the first 2 only, and there are more: --first N explains N." in result.stderr


def test_a_model_of_a_text_explains_a_text(tmp_path: Path) -> None:
    (tmp_path / "orders.txt").write_text("order pay ship deliver\norder pay ship return\norder cancel refund\n")
    path = str(tmp_path / "model")
    fitted = ["fit", str(tmp_path / "orders.txt"), "--tokens", "words", "--h", "2", "--memory", "exact", "--out", path]
    assert runner.invoke(app, fitted).exit_code == 0
    for words in (["pay", "ship"], ["order pay ship"]):
        assert json.loads(run(path, *words, "--json").stdout)["tokens"] == ["pay", "ship"]
    assert json.loads(run(path, "--json", lines="order pay\n").stdout)["labels"][0] == "ship"


def test_a_missing_matplotlib_is_one_line(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    result = run(model, "order", "pay", "--plot", tmp_path / "votes.png")
    assert result.exit_code == 1
    assert result.stderr.strip() == "Error: Figures need Matplotlib: pip install 'hammemo[plot]'"
