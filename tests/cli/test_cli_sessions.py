"""Next items on the command line: clicks are fitted by whole sessions, asked for, and forgotten by session."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from hammemo import load
from hammemo.cli.app import app
from hammemo.cli.predict import ListColumn, _read_listed_labels, answer_writer
from hammemo.sources.schemas import Queries
from hammemo.votes import Mixture

if TYPE_CHECKING:
    from pathlib import Path


def run(*arguments: str, code: int = 0) -> str:
    result = CliRunner().invoke(app, list(arguments))
    assert result.exit_code == code, result.output
    return result.output


@pytest.fixture
def clicks(tmp_path: Path) -> Path:
    """Return clicks of 300 sessions, in no order."""
    rng = np.random.default_rng(0)
    lines = []
    for session in range(300):
        items = rng.integers(0, 400, rng.integers(2, 7))
        lines += [f"{session}\t{item}\t{1000 * session + step}" for step, item in enumerate(items)]
    rng.shuffle(lines)
    path = tmp_path / "clicks.tsv"
    path.write_text("\n".join(["SessionId\tItemId\tTime", *lines]) + "\n")
    return path


@pytest.fixture
def letters(tmp_path: Path) -> Path:
    """Fit a model of three labels, of which contexts hold one, two or all."""
    pytest.importorskip("pyarrow")
    rows = tmp_path / "letters.csv"
    rows.write_text("p,q,y\na,b,c\nb,c,a\nc,a,b\na,a,b\n")
    run("fit", str(rows), "--label", "y", "--memory", "exact", "--vote", "sum", "--out", str(tmp_path / "m"))
    return tmp_path / "m"


def read_answers(path: Path) -> pd.DataFrame:
    """Read a table that `--out` has written."""
    if path.suffix == ".csv":
        return pd.read_csv(path)
    return pd.read_parquet(path)


@pytest.mark.parametrize("ending", ["csv", "parquet"])
@pytest.mark.parametrize("questions", [["a,b", "a,a"], ["a,a", "a,b"], ["a,b", "b,a"]])
def test_a_table_has_the_same_columns_for_rows_with_few_labels_left(
    letters: Path, ending: str, questions: list[str]
) -> None:
    asked, out = letters.with_name("asked.csv"), letters.with_name(f"best.{ending}")
    asked.write_text("\n".join(["p,q", *questions]) + "\n")
    run("top-k", str(letters), str(asked), "--unseen", "--scores", "--out", str(out))
    table = read_answers(out)
    # there are three labels, fewer than k=5
    assert list(table.columns[2:]) == [f"{name}_{place}" for name in ("top", "score") for place in (1, 2, 3)]
    for question, (_, row) in zip(questions, table.iterrows(), strict=True):
        assert sorted(row[["top_1", "top_2", "top_3"]].dropna()) == sorted(set("abc") - set(question))


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_batches_with_few_labels_left_have_the_header_of_all(tmp_path: Path, ending: str) -> None:
    pytest.importorskip("pyarrow")
    out = tmp_path / f"best.{ending}"
    labels = [ListColumn([["x"]], width=2, example="x"), ListColumn([["y", "z"]], width=2, example="x")]
    with answer_writer(out, as_json=False) as write:
        for number, column in enumerate(labels):
            write(Queries(np.zeros((1, 1)), ("number",), (np.array([number]),)), {"top": column})
    table = read_answers(out)
    assert table["top_1"].tolist() == ["x", "y"]
    assert table["top_2"].fillna("none").tolist() == ["none", "z"]


FIT = ("--h", "5", "--short", "pad", "--case", "SessionId", "--event", "ItemId", "--time", "Time")


def test_sessions_are_learnt_asked_and_forgotten(clicks: Path, tmp_path: Path) -> None:
    model, rest, without = tmp_path / "m", tmp_path / "rest", tmp_path / "rest.tsv"
    run("fit", str(clicks), "--out", str(model), *FIT)
    learnt: Any = load(model)
    assert isinstance(learnt.vote_, Mixture)
    assert [site.kind for site in learnt.sites_.free] == ["bag", "together", "copy"]
    top = json.loads(run("top-k", str(model), str(clicks), "--k", "3", "--unseen", "--json").splitlines()[0])
    assert len(top["top"]) == 3
    stock = tmp_path / "stock.txt"
    stock.write_text("\n".join(map(str, learnt.classes_[:2].tolist())) + "\n\n")
    only = json.loads(
        run("top-k", str(model), str(clicks), "--allow", str(stock), "--scores", "--json").splitlines()[0]
    )
    assert sorted(only["top"]) == learnt.classes_[:2].tolist()
    assert only["score"] == sorted(only["score"], reverse=True)
    others = run("top-k", str(model), str(clicks), "--exclude", str(stock), "--unseen", "--k", "400")
    documents = {line.split("\t")[0] for line in clicks.read_text().splitlines()[1:]}
    assert len(others.splitlines()) == len(documents)
    for row in others.splitlines()[:20]:
        assert not set(row.split("\t")) & set(learnt.classes_[:2].tolist())
    assert _read_listed_labels(stock, np.array([3, 7])).tolist() == [int(label) for label in learnt.classes_[:2]]
    stock.write_text("one\n")
    with pytest.raises(ValueError, match="'one'"):
        _read_listed_labels(stock, np.array([3, 7]))
    head, *lines = clicks.read_text().splitlines()
    without.write_text("\n".join([head, *(line for line in lines if not line.startswith(("17\t", "23\t")))]) + "\n")
    answer = json.loads(run("forget", str(model), str(clicks), "--only", "17", "--only", "23", "--json"))
    assert answer["forgotten"] == sum(line.startswith(("17\t", "23\t")) for line in lines)
    run("fit", str(without), "--out", str(rest), *FIT)
    assert load(model).memory_.state_bytes() == load(rest).memory_.state_bytes()
    assert "no case '999'" in run("forget", str(model), str(clicks), "--only", "999", code=1)
    assert "never learnt" in run("forget", str(model), str(clicks), "--only", "17", code=1)
    run("add", str(model), str(clicks.parent / "rest.tsv"))
    assert load(model).memory_.label_counts.sum() == 2 * load(rest).memory_.label_counts.sum()


def test_only_is_for_event_logs(tmp_path: Path) -> None:
    table = tmp_path / "t.csv"
    table.write_text("a,b\nx,1\ny,2\n")
    run("fit", str(table), "--out", str(tmp_path / "m"), "--label", "b")
    assert "--only names cases" in run("forget", str(tmp_path / "m"), str(table), "--only", "1", code=2)


def test_a_case_in_two_files_is_forgotten_by_its_id(clicks: Path, tmp_path: Path) -> None:
    head, *lines = clicks.read_text().splitlines()
    parts = [tmp_path / f"{part}.tsv" for part in range(2)]
    rests = [tmp_path / f"rest-{part}.tsv" for part in range(2)]
    for i, (part, rest) in enumerate(zip(parts, rests, strict=True)):
        held = [line for line in lines if int(line.split("\t")[2]) % 2 == i]
        part.write_text("\n".join([head, *held]) + "\n")
        rest.write_text("\n".join([head, *(line for line in held if not line.startswith("17\t"))]) + "\n")
    model, wanted = str(tmp_path / "m"), str(tmp_path / "wanted")
    run("fit", *map(str, rests), "--out", wanted, *FIT)
    for forgotten in (("--only", "17"), (str(clicks), "--only", "17")):
        run("fit", str(parts[0]), "--out", model, *FIT)
        run("add", model, str(parts[1]))
        answer = json.loads(run("forget", model, *forgotten, "--refit", "--json"))
        assert answer["forgotten"] == sum(line.startswith("17\t") for line in lines)
        assert load(model).digest() == load(wanted).digest()
    assert "Case '17' was never learnt" in run("forget", model, "--only", "17", code=1)
    assert "Case '18': the events given" in run("forget", model, str(parts[0]), str(clicks), "--only", "18", code=1)
    shown = run("verify", model, "--rows", str(rests[0]), "--rows", str(rests[1]))
    assert "Proven" in shown
