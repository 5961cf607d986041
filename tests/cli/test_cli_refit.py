"""``hammemo refit`` and ``--refit``: the weights of a model file are fitted again to what the model keeps."""

from __future__ import annotations

import json
import threading
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from hammemo import MemoryClassifier, editing, load, save
from hammemo.cli.app import app
from hammemo.files.models import read_notes
from hammemo.votes import LogLinear

if TYPE_CHECKING:
    from pathlib import Path

DIGESTS = ("--keep", "auto+digests")
HEADER = "a,b,c,d,label"
N = 400


def run(*arguments: object, code: int = 0) -> Any:
    result = CliRunner().invoke(app, [*map(str, arguments)])
    assert result.exit_code == code, result.output
    return result


def weights(path: Path) -> dict[str, bytes]:
    return {name: array.tobytes() for name, array in load(path).vote_.state().items()}


@pytest.fixture
def lines() -> list[str]:
    """Return rows of a table with a rule and some noise."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 3, (N, 4)).astype(str)
    y = np.where((X[:, 0] == X[:, 2]) ^ (rng.random(N) < 0.1), "odd", "even")
    return [",".join([*row, label]) for row, label in zip(X, y, strict=True)]


@pytest.fixture
def model(lines: list[str], tmp_path: Path) -> Path:
    for name, rows in (("all", lines), ("gone", lines[:60]), ("rest", lines[60:])):
        (tmp_path / f"{name}.csv").write_text("\n".join([HEADER, *rows]) + "\n")
    run(
        "fit",
        tmp_path / "all.csv",
        "--label",
        "label",
        "--numeric",
        "none",
        "--keep",
        "auto+digests",
        "--out",
        tmp_path / "m",
    )
    return tmp_path / "m"


def read(path: Path) -> tuple[Any, Any]:
    frame = pd.read_csv(path, dtype=str)
    return frame[["a", "b", "c", "d"]], frame["label"]


def test_after_forget_and_refit_the_weights_are_those_of_the_rest(model: Path, tmp_path: Path) -> None:
    run(
        "fit",
        tmp_path / "rest.csv",
        "--label",
        "label",
        "--numeric",
        "none",
        "--keep",
        "auto+digests",
        "--out",
        tmp_path / "never",
    )
    wanted = weights(tmp_path / "never")
    before, notes = weights(model), read_notes(model)
    run("forget", model, tmp_path / "gone.csv", "--out", tmp_path / "forgotten")
    assert weights(tmp_path / "forgotten") == before  # they stay until they are fitted again
    shown = run("refit", tmp_path / "forgotten").stdout
    kept = len(load(tmp_path / "forgotten").state.kept)
    sentence = f"The weights were fitted to {kept} kept examples and have changed."
    written, changed = shown.splitlines()
    assert written == f"{sentence} Written to {tmp_path}/forgotten"
    assert changed.startswith("The refit changed ")
    assert changed.endswith(" % of the labels of the last kept rows.")
    assert weights(tmp_path / "forgotten") == wanted != before
    assert read_notes(tmp_path / "forgotten") == notes
    shown = run("forget", model, tmp_path / "gone.csv", "--refit").stdout
    assert shown == (
        f"60 examples forgotten; the model holds 340 examples of 2 labels. {sentence} Written to {model}\n"
    )
    assert model.read_bytes() == (tmp_path / "forgotten").read_bytes()
    again = run("refit", model).stdout
    assert "and are as they were." in again


def test_adding_and_merging_fit_again_too(model: Path, tmp_path: Path) -> None:
    before = weights(model)
    run("forget", model, tmp_path / "gone.csv", "--out", tmp_path / "less", "--refit")
    told = json.loads(run("add", tmp_path / "less", tmp_path / "gone.csv", "--refit", "--json").stdout)
    assert (told["added"], told["weights"]) == (60, "changed")
    assert weights(tmp_path / "less") == before
    run(
        "fit",
        tmp_path / "gone.csv",
        "--label",
        "label",
        "--keep",
        "auto+digests",
        "--layout",
        model,
        "--out",
        tmp_path / "part",
    )
    run("refit", tmp_path / "part")
    run("forget", model, tmp_path / "gone.csv", "--refit")
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # whose weights are kept does not matter then
        shown = run("merge", model, tmp_path / "part", "--refit", "--out", tmp_path / "whole").stdout
    assert shown.startswith("400 examples of 2 labels. The weights were fitted to ")
    with pytest.warns(UserWarning, match="different fitted weights"):
        both = (load(model) + load(tmp_path / "part")).refit()
    assert weights(tmp_path / "whole") == {name: array.tobytes() for name, array in both.vote_.state().items()}
    told = json.loads(run("merge", model, tmp_path / "part", "--refit", "--json", "--out", tmp_path / "whole").stdout)
    assert told["weights"] == "changed"


def test_json_says_what_became_of_the_weights(model: Path, tmp_path: Path) -> None:
    unchanged = {"weights": "unchanged", "changed_labels": 0.0, "out": str(model)}
    assert json.loads(run("refit", model, "--json").stdout) == unchanged
    told = json.loads(run("forget", model, tmp_path / "gone.csv", "--json").stdout)
    assert "weights" not in told  # not requested
    assert json.loads(run("refit", model, "--json").stdout)["weights"] == "changed"


@pytest.mark.parametrize("vote", ["sum", LogLinear(weights=[1.0, 1.0, 1.0, 1.0])], ids=["sum", "given"])
def test_a_vote_without_weights_is_nothing_to_do(vote: Any, tmp_path: Path) -> None:
    path = tmp_path / "m"
    save(MemoryClassifier("positional", vote=vote).fit([["a", "b", "c", "d"]] * 3, ["x", "y", "x"]), path)
    before = path.read_bytes()
    assert run("refit", path).stdout == f"The vote has no weights to fit. {path} is as it was.\n"
    assert json.loads(run("refit", path, "--json").stdout)["weights"] == "none"
    assert path.read_bytes() == before
    assert run("refit", path, "--out", tmp_path / "copy").stdout.endswith(f"Written to {tmp_path}/copy\n")
    assert load(tmp_path / "copy").memory_.state_bytes() == load(path).memory_.state_bytes()


def test_when_everything_is_forgotten_no_weights_are_left(model: Path, tmp_path: Path) -> None:
    shown = run("forget", model, tmp_path / "all.csv", "--refit").stdout
    assert "the model holds 0 examples of 0 labels. There are too few examples" in shown
    assert weights(model) == {}
    run("add", model, tmp_path / "rest.csv", "--refit")
    assert weights(model) != {}


def test_sessions_are_forgotten_and_the_mixture_is_fitted_again(tmp_path: Path) -> None:
    rng, clicks, rest = np.random.default_rng(0), tmp_path / "clicks.csv", tmp_path / "rest.csv"
    lines = [f"{session},{item}" for session in range(300) for item in rng.integers(0, 400, rng.integers(2, 7))]
    for file, kept in ((clicks, lines), (rest, [line for line in lines if not line.startswith("17,")])):
        file.write_text("\n".join(["session,item", *kept]) + "\n")
    given = ("--h", 5, "--short", "pad", "--case", "session", "--event", "item")
    run("fit", clicks, *given, "--out", tmp_path / "m")
    before = weights(tmp_path / "m")
    told = json.loads(run("forget", tmp_path / "m", clicks, "--only", "17", "--refit", "--json").stdout)
    assert told["weights"] == "changed"
    run("fit", rest, *given, "--layout", tmp_path / "m", "--out", tmp_path / "never")
    run("refit", tmp_path / "never")
    assert weights(tmp_path / "m") == weights(tmp_path / "never") != before


def test_a_model_in_segments_is_fitted_again(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    text = "the cat sat on the mat and the cat ate the rat\n" * 5 + "and the dog sat on the cat\n" * 3
    (tmp_path / "a.txt").write_text(text)
    (tmp_path / "b.txt").write_text("the cat sat on the mat and the cat ate the rat\n" * 3)
    given = ("--h", 2, "--tokens", "words", "--memory", "exact", "--vote", "log-linear", "--engine", "threads")
    run("fit", tmp_path / "a.txt", *given, "--segments", 3, "--out", tmp_path / "segments")
    run("fit", tmp_path / "a.txt", *given, "--out", tmp_path / "whole")
    for path in (tmp_path / "segments", tmp_path / "whole"):
        run("forget", path, tmp_path / "b.txt")
        assert json.loads(run("refit", path, "--json").stdout)["weights"] == "changed"
    assert weights(tmp_path / "segments") == weights(tmp_path / "whole")
    run("compact", tmp_path / "segments")
    assert weights(tmp_path / "segments") == weights(tmp_path / "whole")


def test_a_few_examples_have_even_weights(tmp_path: Path) -> None:
    path = tmp_path / "m"
    save(MemoryClassifier().fit([["a", "b"], ["c", "d"]], ["x", "y"]), path)
    shown = run("refit", path).stdout
    assert shown == (
        f"There are too few examples to fit weights to (2 kept examples): all are the same. Written to {path}\n"
    )


def test_a_model_that_keeps_no_sample_says_what_to_do(lines: list[str], tmp_path: Path) -> None:
    path, table = tmp_path / "m", tmp_path / "gone.csv"
    rows = np.array([line.split(",") for line in lines], object)
    save(MemoryClassifier(vote=LogLinear(), keep=False).fit(rows[:, :4], rows[:, 4]), path)
    table.write_text("\n".join(lines[:60]) + "\n")
    before = path.read_bytes()
    for line in (["refit", path], ["forget", path, table, "--refit", "--label", "5", "--no-header"]):
        shown = run(*line, code=1).stderr
        assert shown.startswith(f"Error: {path} keeps no sample of its examples")
        assert "hammemo fit" in shown
        assert "fit_vote(X, y)" in shown
        assert shown.count("\n") == 1
    assert path.read_bytes() == before


def test_a_compiled_model_and_other_files_are_refused(model: Path, tmp_path: Path) -> None:
    save(load(model).compile(), tmp_path / "compiled")
    assert "compiled from" in run("refit", tmp_path / "compiled", code=1).stderr
    assert "not a model" in run("refit", tmp_path / "all.csv", code=1).stderr
    assert "does not exist" in run("refit", tmp_path / "nowhere", code=1).stderr
    assert not list(tmp_path.glob("nowhere*"))


def test_it_waits_for_the_lock_of_the_file(model: Path, tmp_path: Path) -> None:
    """An edit during a refit is not undone."""
    begun, done = threading.Event(), threading.Event()

    def edit() -> None:
        with editing(model) as held:
            begun.set()
            done.wait(60)
            held.forget(*read(tmp_path / "gone.csv"))

    thread = threading.Thread(target=edit)
    thread.start()
    begun.wait(60)
    assert "is locked by" in run("refit", model, "--wait", 0, code=1).stderr
    done.set()
    assert "have changed" in run("refit", model).stdout
    thread.join()
    assert load(model).memory_.label_counts.sum() == N - 60


def test_a_fit_that_fails_leaves_the_file(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: object) -> None:
        raise MemoryError

    before = model.read_bytes()
    monkeypatch.setattr(MemoryClassifier, "refit", fail)
    assert "not enough memory" in run("forget", model, tmp_path / "gone.csv", "--refit", code=1).stderr
    assert model.read_bytes() == before


def test_verify_says_whether_a_model_is_what_its_rows_make(model: Path, tmp_path: Path) -> None:
    assert "DIFFERENT" not in run("verify", model).stdout
    run("forget", model, tmp_path / "gone.csv")
    told = run("verify", model, "--json", code=1)
    facts = json.loads(told.stdout)
    assert not facts["same"]["weights"]
    assert facts["same"]["kept rows"]
    assert facts["digest"] == load(model).digest()
    assert "hammemo refit" in told.stderr
    run("refit", model)
    run("verify", model)
    assert "in plain text, all that it holds" in " ".join(run("inspect", model).stdout.split())
    save(MemoryClassifier(vote="sum").fit([["a"]], ["x"]), tmp_path / "plain")
    assert "does not keep all rows" in run("verify", tmp_path / "plain", code=1).stderr
    assert json.loads(run("inspect", tmp_path / "plain", "--json").stdout)["kept_rows"] == 0
