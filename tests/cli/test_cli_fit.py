"""``hammemo fit``: large files in, a model out, mistakes in one line."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

pytest.importorskip("pyarrow")

from hammemo import MemoryClassifier, load
from hammemo.cli.app import app
from hammemo.memories import Exact, Hashed
from hammemo.sources.documents import open_source

if TYPE_CHECKING:
    from pathlib import Path

runner = CliRunner()


@pytest.fixture
def text(tmp_path: Path) -> Path:
    folder = tmp_path / "text"
    folder.mkdir()
    (folder / "a.txt").write_text("the cat sat on the mat and the cat ate the rat\n" * 20)
    (folder / "b.txt").write_text("and the dog sat on the cat\n" * 20)
    return folder


def run(*arguments: Any) -> Any:
    return runner.invoke(app, ["fit", *map(str, arguments)])


@pytest.mark.parametrize("memory", ["hashed", "exact"])
def test_files_become_a_model(memory: str, text: Path, tmp_path: Path) -> None:
    out = tmp_path / "model"
    options = ["--h", 2, "--tokens", "words", "--memory", memory, "--engine", "threads", "--out", out, "--vote", "sum"]
    result = run(text, *options, "--resume", tmp_path / "states")
    assert result.exit_code == 0, result.output
    assert result.stdout == f"300 examples of 9 labels from 380 tokens. Written to {out}\n"  # no word of workers
    model = MemoryClassifier(memory=Hashed() if memory == "hashed" else Exact(), vote="sum")
    model.fit_stream(open_source(text, tokens="words").documents(), 2)
    assert load(out).memory_.state_bytes() == model.memory_.state_bytes()
    again = json.loads(run(text, *options, "--resume", tmp_path / "states", "--json").stdout)
    assert (again["groups"], again["groups_resumed"], again["tokens"]) == (1, 1, 0)
    shown = run(text, *options, "--resume", tmp_path / "states").stdout
    assert shown == f"300 examples of 9 labels; 1 of 1 group done before. Written to {out}\n"
    assert load(out).memory_.state_bytes() == model.memory_.state_bytes()


def test_labels_are_the_most_frequent_or_those_in_a_file(text: Path, tmp_path: Path) -> None:
    out, labels = tmp_path / "model", tmp_path / "labels"
    options = ["--h", 2, "--tokens", "words", "--engine", "threads", "--out", out, "--json"]
    assert json.loads(run(text, *options, "--classes-top", 3).stdout)["labels"] == 3
    labels.write_text("cat\ndog\n")
    found = json.loads(run(text, *options, "--classes-file", labels).stdout)
    assert (found["labels"], found["examples"]) == (2, 60)
    numbers = tmp_path / "numbers.txt"
    numbers.write_text("1 2 3 1 2 4\n")
    labels.write_text("3\n4\n")
    found = json.loads(run(numbers, "--h", 2, "--out", out, "--json", "--classes-file", labels).stdout)
    assert (found["labels"], found["examples"]) == (2, 2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere"], "nowhere does not exist."),
        (["text", "--tokens", "ids"], "'the' is not a token id"),
        (["text", "--out", "."], "--out . cannot be written"),
        (["text", "--h", 50], "more than h=50 tokens"),
        (["text", "--engine", "spark"], "--engine 'spark' is not known"),
    ],
)
def test_a_mistake_is_one_line(
    arguments: list[Any], message: str, text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    defaults = {"--h": 2, "--tokens": "words", "--out": "model"}
    rest = [part for name, value in defaults.items() if name not in arguments for part in (name, value)]
    result = run(*arguments, *rest)
    assert result.exit_code == 1
    assert result.stderr.startswith("Error: ")
    assert message in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "options", [["--memory", "quantum"], ["--classes-top", 3, "--classes-file", "x"], ["--workers", 0]]
)
def test_wrong_usage_exits_with_two(options: list[Any], text: Path, tmp_path: Path) -> None:
    assert run(text, "--h", 2, "--out", tmp_path / "model", *options).exit_code == 2


def test_a_missing_ray_is_one_line(text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    result = run(text, "--h", 2, "--tokens", "words", "--engine", "ray", "--out", tmp_path / "model")
    assert result.exit_code == 1
    assert (
        result.stderr.strip() == "Error: --engine 'ray' needs Ray, which is not installed: pip install 'hammemo[ray]'"
    )


def test_all_parameters_of_the_paper_s_model_are_options(tmp_path: Path) -> None:
    table, model = tmp_path / "t.csv", tmp_path / "m"
    table.write_text("a,b,y\nx,y,x\nx,z,y\n")
    options = [
        "--memory",
        "gaussian",
        "--kernel",
        "positional",
        "--vote",
        "sum",
        "--d",
        "64",
        "--d-h",
        "16",
        "--tied",
        "--exact",
    ]
    done = CliRunner().invoke(app, ["fit", str(table), "--label", "y", "--out", str(model), *options])
    assert done.exit_code == 0, done.output
    loaded: Any = load(model)
    assert {name: getattr(loaded.memory_, name) for name in ("d", "d_h", "tied", "exact")} == {
        "d": 64,
        "d_h": 16,
        "tied": True,
        "exact": True,
    }
    for option in (["--tied"], ["--exact"], ["--d", "8"], ["--d-h", "8"]):
        refused = CliRunner().invoke(app, ["fit", str(table), "--label", "y", "--out", str(model), *option])
        assert refused.exit_code == 2
        assert f"{option[0]} is for the gaussian memory" in refused.output
