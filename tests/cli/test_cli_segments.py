"""Commands on a model in segments: fit --segments, then all that takes a model file takes the folder."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

pytest.importorskip("pyarrow")

from hammemo import MemoryClassifier, load
from hammemo.cli.app import app
from hammemo.memories import Exact
from hammemo.sources.documents import open_source

if TYPE_CHECKING:
    from pathlib import Path

runner = CliRunner()


def run(*arguments: Any) -> Any:
    result = runner.invoke(app, [*map(str, arguments)])
    assert result.exit_code == 0, result.output
    return result


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "a.txt"
    path.write_text("the cat sat on the mat and the cat ate the rat\n" * 5 + "and the dog sat on the cat\n" * 3)
    return path


@pytest.fixture
def model(text: Path, tmp_path: Path) -> Path:
    options = ["--h", 2, "--tokens", "words", "--memory", "exact", "--vote", "sum", "--engine", "threads"]
    run("fit", text, *options, "--segments", 3, "--out", tmp_path / "model")
    return tmp_path / "model"


def test_a_folder_is_learnt_changed_compacted_and_looked_into(model: Path, text: Path, tmp_path: Path) -> None:
    plain = MemoryClassifier(memory=Exact(), vote="sum").fit_stream(open_source(text, tokens="words").documents(), 2)
    assert load(model).memory_.state_digest() == plain.memory_.state_digest()
    facts = json.loads(run("inspect", model, "--json").stdout)
    assert (facts["segments"], facts["edits"], facts["wrong_segments"], facts["checksum_ok"]) == (3, 0, [], True)
    (tmp_path / "b.txt").write_text("the bird sat on the cat\n")
    run("add", model, tmp_path / "b.txt")
    run("forget", model, tmp_path / "b.txt")
    run("add", model, tmp_path / "b.txt")
    assert json.loads(run("inspect", model, "--json").stdout)["edits"] == 2
    assert "3 segments" in run("compact", model).stdout
    plain.partial_fit_stream(open_source(tmp_path / "b.txt", tokens="words").documents(), 2)
    assert load(model).memory_.state_digest() == plain.memory_.state_digest()
    run("merge", model, model, "--out", tmp_path / "twice")
    assert int(load(tmp_path / "twice").memory_.label_counts.sum()) == 2 * int(plain.memory_.label_counts.sum())
    run("merge", tmp_path / "twice", "--minus", model, "--out", tmp_path / "twice")
    assert load(tmp_path / "twice").memory_.state_digest() == plain.memory_.state_digest()
    (tmp_path / "q.txt").write_text("on the\n")
    assert run("predict", model, tmp_path / "q.txt").stdout


def test_two_tiers_with_a_key(text: Path, tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_bytes(bytes(range(32)))
    keyed = ["--key-file", key]
    options = ["--h", 2, "--tokens", "words", "--vote", "sum", "--engine", "threads", "--buckets", 8, "--reserved", 4]
    model, file = tmp_path / "model", tmp_path / "file"
    run("fit", text, *options, "--memory", "tiered", *keyed, "--segments", 3, "--out", model)
    run("fit", text, *options, "--memory", "tiered", *keyed, "--out", file)
    (tmp_path / "b.txt").write_text("the bird sat on the cat\n")
    for one in (model, file):
        run("add", one, tmp_path / "b.txt", *keyed)
    assert json.loads(run("inspect", model, "--json").stdout)["edits"] == 1
    assert runner.invoke(app, ["compact", str(model)]).exit_code == 1
    assert "3 segments" in run("compact", model, *keyed).stdout
    digests = {load(one, key=key.read_bytes()).memory_.state_digest() for one in (model, file)}
    assert len(digests) == 1


def test_mistakes_are_said_in_one_line(model: Path, text: Path, tmp_path: Path) -> None:
    sorted(model.glob("segment-*"))[0].unlink()
    result = runner.invoke(app, ["inspect", str(model)])
    assert result.exit_code == 1
    assert "damaged or missing: segment-" in result.output.replace("\n", " ")
    (tmp_path / "empty").mkdir()
    assert runner.invoke(app, ["inspect", str(tmp_path / "empty")]).exit_code == 1
    table = ["fit", str(text), "--label", "x", "--segments", "2", "--out", str(tmp_path / "t")]
    assert runner.invoke(app, table).exit_code == 1  # it has no such column
    file = ["fit", str(text), "--h", "2", "--segments", "2", "--out", str(text)]
    result = runner.invoke(app, file)
    assert result.exit_code == 1
    assert "is a file: with --segments" in result.output.replace("\n", " ")
