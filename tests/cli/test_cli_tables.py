"""The commands on tables and sequences: what they answer is what the Python interface answers on the same data."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

pytest.importorskip("pyarrow")

from hammemo import NO_TOKEN, MemoryClassifier, MemoryRegressor, load, save, windows
from hammemo.cli.app import app
from hammemo.files.models import read_notes
from hammemo.kernels import PositionalHamming, Suffixes
from hammemo.memories import Exact, Gaussian, Hashed
from hammemo.sources.read_tables import read_table
from hammemo.stores import Digests
from places import SHARED

runner = CliRunner()
LOGS = SHARED / "event-logs"

# Anything that CSV can hold in one cell and that is no empty cell; line ends are tried too.
TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1, max_size=4)
NUMBERS = st.integers(-(2**53), 2**53)


def run(*arguments: Any, code: int = 0, **options: Any) -> Any:
    result = runner.invoke(app, [str(part) for part in arguments], **options)
    assert result.exit_code == code, result.output
    return result


def write(path: Path, names: list[str], rows: list[list[Any]]) -> Path:
    """Write a table in the format that the ending names."""
    if path.suffix in (".csv", ".tsv"):
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, delimiter="\t" if path.suffix == ".tsv" else ",")
            writer.writerows([names, *rows])
    elif path.suffix == ".jsonl":
        lines = (json.dumps(dict(zip(names, row, strict=True)), ensure_ascii=False) for row in rows)
        path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    else:
        import pyarrow.parquet

        columns = {name: [row[j] for row in rows] for j, name in enumerate(names)}
        pyarrow.parquet.write_table(pyarrow.table(columns), path)
    return path


@st.composite
def tables(draw: st.DrawFn, *, numbers: bool) -> list[list[Any]]:
    """Return rows of two tokens and a label, each column of strings or, where the format has them, of numbers."""
    kinds = [draw(st.sampled_from([TEXTS, NUMBERS])) if numbers else TEXTS for _ in range(3)]
    pools = [draw(st.lists(kind, min_size=2, max_size=4, unique=True)) for kind in kinds]
    row = st.tuples(*(st.sampled_from(pool) for pool in pools)).map(list)
    return draw(st.lists(row, min_size=1, max_size=12))


def array(rows: list[list[Any]]) -> np.ndarray[Any, Any]:
    X = np.empty((len(rows), 2), object)
    for i, row in enumerate(rows):
        X[i] = row[:2]
    return X


@pytest.mark.parametrize("ending", [".csv", ".tsv", ".jsonl", ".parquet"])
@pytest.mark.examples(3)
@settings(max_examples=10, deadline=None)
@given(data=st.data())
def test_commands_answer_as_the_interface_does(ending: str, data: st.DataObject) -> None:
    rows = data.draw(tables(numbers=ending in (".jsonl", ".parquet")))
    queries = data.draw(st.lists(st.sampled_from(rows), min_size=1, max_size=4))
    X, y = array(rows), [row[2] for row in rows]
    clf = MemoryClassifier(memory=Exact(), vote="sum", numeric="none").fit(X, y)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model = folder / "model"
        run("fit", write(folder / f"rows{ending}", ["a", "b", "y"], rows), "--label", "y", "--numeric", "none",
            "--memory", "exact", "--vote", "sum", "--out", model)  # fmt: skip
        assert load(model).memory_.state_bytes() == clf.memory_.state_bytes()
        assert load(model).feature_names_in_.tolist() == ["a", "b"]
        asked = write(folder / f"asked{ending}", ["b", "a"], [[row[1], row[0]] for row in queries])  # found by name
        answers = [json.loads(line) for line in run("predict", model, asked, "--certify", "--json").stdout.splitlines()]
        assert [answer["prediction"] for answer in answers] == clf.predict(array(queries)).tolist()
        assert [answer["proven"] for answer in answers] == clf.certify(array(queries)).tolist()
        best = [json.loads(line)["top"] for line in run("top-k", model, asked, "--k", 2, "--json").stdout.splitlines()]
        assert best == clf.top_k(array(queries), 2).tolist()
        out = folder / f"answers{ending}"
        run("predict", model, asked, "--out", out)
        run(
            "fit",
            out,
            "--label",
            "prediction",
            "--columns",
            "a,b",
            "--numeric",
            "none",
            "--memory",
            "exact",
            "--vote",
            "sum",
            "--out",
            folder / "again",
        )
        again = MemoryClassifier(memory=Exact(), vote="sum", numeric="none").fit(
            array(queries), clf.predict(array(queries))
        )
        assert load(folder / "again").memory_.state_bytes() == again.memory_.state_bytes()


def test_a_line_of_json_is_one_line_for_every_reader(tmp_path: Path) -> None:
    """Found by Hypothesis: a label may hold a character that ends a line for some programs."""
    X, y = [["0", "0"]], ["a\x85b\u2028c\u2029d"]
    save(MemoryClassifier(memory=Exact(), vote="sum").fit(X, y), tmp_path / "model")
    asked = write(tmp_path / "asked.csv", ["a", "b"], X)
    [line] = run("predict", tmp_path / "model", asked, "--json").stdout.splitlines()
    assert json.loads(line) == {"prediction": y[0]}


@settings(max_examples=5, deadline=None)
@given(data=st.data())
def test_adding_forgetting_and_merging_files(data: st.DataObject) -> None:
    rows, more = data.draw(tables(numbers=False)), data.draw(tables(numbers=False))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        first = write(folder / "first.csv", ["a", "b", "y"], rows)
        second = write(folder / "second.csv", ["a", "b", "y"], more)
        model, other = folder / "model", folder / "other"
        run("fit", first, "--label", "y", "--numeric", "none", "--keep", "rows+digests", "--out", model)
        before = model.read_bytes()
        run("fit", second, "--label", "y", "--keep", "rows+digests", "--layout", model, "--out", other)
        facts = json.loads(run("add", model, second, "--json").stdout)
        assert (facts["added"], facts["examples"]) == (len(more), len(rows) + len(more))
        added = model.read_bytes()
        facts = json.loads(run("forget", model, second, "--json").stdout)
        assert (facts["forgotten"], facts["examples"]) == (len(more), len(rows))
        assert model.read_bytes() == before
        run("merge", model, other, "--out", folder / "both")
        assert (folder / "both").read_bytes() == added
        run("merge", folder / "both", "--minus", other, "--out", folder / "back")
        assert (folder / "back").read_bytes() == before


def test_a_model_of_numbers_reads_them_from_csv(tmp_path: Path) -> None:
    rows = [[1, "x", 10], [2, "y", 20], [3, "z", 30]]
    model = tmp_path / "model"
    run("fit", write(tmp_path / "rows.parquet", ["a", "b", "y"], rows), "--label", "y", "--out", model)
    asked = write(tmp_path / "asked.csv", ["a", "b"], [[row[0], row[1]] for row in rows])
    assert run("predict", model, asked).stdout == "10\n20\n30\n"
    taught = write(tmp_path / "taught.csv", ["a", "b", "y"], rows)
    run("forget", model, taught)
    run("fit", taught, "--label", "y", "--out", model)
    asked = write(tmp_path / "asked.jsonl", ["a", "b"], [[row[0], row[1]] for row in rows])
    assert run("predict", model, asked).stdout == "10\n20\n30\n"
    assert load(model).classes_.tolist() == ["10", "20", "30"]


def test_leading_zeros_stay(tmp_path: Path) -> None:
    rows = write(tmp_path / "rows.csv", ["code", "y"], [["007", "bond"], ["7", "seven"]])
    run("fit", rows, "--label", "y", "--memory", "exact", "--vote", "sum", "--out", tmp_path / "model")
    assert run("predict", tmp_path / "model", rows).stdout == "bond\nseven\n"


def test_columns_without_names_go_by_number(tmp_path: Path) -> None:
    bare, model = tmp_path / "bare.csv", tmp_path / "model"
    bare.write_text("yes,a,b\nno,c,d\n")
    run("fit", bare, "--label", 1, "--no-header", "--memory", "exact", "--vote", "sum", "--out", model)
    assert run("predict", model, bare).stdout == "yes\nno\n"  # as it was learnt
    assert run("predict", model, input="a,b\nc,d\n").stdout == "yes\nno\n"  # the context alone
    run("add", model, bare)
    run(
        "fit",
        bare,
        "--label",
        1,
        "--columns",
        "3,2",
        "--no-header",
        "--memory",
        "exact",
        "--vote",
        "sum",
        "--out",
        model,
    )
    assert load(model).feature_names_in_.tolist() == ["3", "2"]


def test_a_missing_value_is_an_empty_position_if_one_says_so(tmp_path: Path) -> None:
    rows, model = tmp_path / "rows.csv", tmp_path / "model"
    rows.write_text("a,b,y\nx,,no\nx,z,yes\n")
    run("fit", rows, "--label", "y", "--missing", "empty", "--memory", "exact", "--vote", "sum", "--out", model)
    X = np.array([["x", NO_TOKEN], ["x", "z"]], object)
    clf = MemoryClassifier(memory=Exact(), vote="sum").fit(X, ["no", "yes"])
    assert load(model).memory_.state_bytes() == clf.memory_.state_bytes()
    assert run("predict", model, rows).stdout.split() == clf.predict(X).tolist()
    lines = tmp_path / "rows.jsonl"
    lines.write_text('{"a": "x", "y": "no"}\n{"a": null, "b": "z", "y": "yes"}\n')
    run("fit", lines, "--label", "y", "--columns", "a,b", "--missing", "empty", "--out", model)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--buckets", 8, "--reserved", 2, "--vote", "sum"], MemoryClassifier(memory=Hashed(8, 2), vote="sum")),
        (["--memory", "gaussian", "--d", 32], MemoryClassifier(memory=Gaussian(32), vote="sum")),
        (
            ["--memory", "hashed", "--keep", "digests", "--vote", "mean"],
            MemoryClassifier(memory=Hashed(), keep="digests", vote="mean"),
        ),
        (["--keep", "auto+digests"], MemoryClassifier(keep="auto+digests")),
        (["--keep", "30+digests"], MemoryClassifier(keep=Digests(30))),
        (["--keep", "none"], MemoryClassifier(keep=False)),
        ([], MemoryClassifier()),
        (
            ["--kernel", "positional+suffixes:2:30", "--memory", "exact", "--vote", "log-linear", "--seed", 3],
            MemoryClassifier(PositionalHamming() + Suffixes(2, 30.0), Exact(), "log-linear", random_state=3),
        ),
    ],
)
def test_options_are_the_parameters_of_the_model(options: list[Any], expected: Any, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rows = [[f"{a}", f"{b}", f"{(a * b) % 3}"] for a, b in rng.integers(0, 4, (80, 2)).tolist()]
    model = tmp_path / "model"
    run("fit", write(tmp_path / "rows.csv", ["a", "b", "y"], rows), "--label", "y", "--numeric", "none", *options,
        "--out", model)  # fmt: skip
    expected.fit(array(rows), [row[2] for row in rows])
    loaded = load(model)
    assert loaded.memory_.state_bytes() == expected.memory_.state_bytes()
    answers = run("predict", model, tmp_path / "rows.csv").stdout.split()
    assert answers == expected.predict(array(rows)).tolist()
    if expected.vote == "log-linear":
        shown = run("predict", model, tmp_path / "rows.csv", "--proba").stdout.splitlines()
        assert [line.split("\t")[1] for line in shown] == [
            f"{p:.6g}" for p in expected.predict_proba(array(rows)).max(axis=1)
        ]


def test_a_large_table_is_read_in_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    defaults: Any = read_table.__kwdefaults__
    monkeypatch.setitem(defaults, "batch_rows", 7)
    rows = [[f"{i % 3}", f"{i % 5}", f"{i % 4}"] for i in range(50)]
    clf = MemoryClassifier(memory=Exact(), vote="sum").fit(array(rows), [row[2] for row in rows])
    for ending in (".csv", ".jsonl", ".parquet"):
        table = write(tmp_path / f"rows{ending}", ["a", "b", "y"], rows)
        options = ("--label", "y", "--numeric", "none", "--memory", "exact", "--vote", "sum")
        run("fit", table, *options, "--out", tmp_path / "model")
        assert load(tmp_path / "model").memory_.state_bytes() == clf.memory_.state_bytes()
        assert run("predict", tmp_path / "model", table).stdout.split() == clf.predict(array(rows)).tolist()
    table.with_suffix(".csv").write_text((tmp_path / "rows.csv").read_text() + "0,0,never\n")
    result = run("forget", tmp_path / "model", tmp_path / "rows.csv", code=1)
    assert "rows.csv, line 52" in result.stderr


def test_text_and_json_sequences_from_files_and_standard_input(tmp_path: Path) -> None:
    documents = ["the cat sat on the mat", "the cat ate the rat"]
    text, lines, model = tmp_path / "a.txt", tmp_path / "a.jsonl", tmp_path / "model"
    text.write_text("".join(f"{line}\n" for line in documents))
    lines.write_text("".join(json.dumps({"id": i, "words": doc.split()}) + "\n" for i, doc in enumerate(documents)))
    X, y = windows([doc.split() for doc in documents], 2)
    clf = MemoryClassifier(memory=Exact(), vote="sum").fit(X, y)
    fit = ["--h", 2, "--memory", "exact", "--vote", "sum", "--out", model]
    sources: list[tuple[list[Any], str | None]] = [
        ([text, "--tokens", "words", "--engine", "threads"], None),
        (["-", "--tokens", "words"], text.read_text()),
        ([lines, "--column", "words", "--engine", "threads"], None),
        (["-", "--format", "jsonl"], lines.read_text()),
    ]
    for arguments, given_ in sources:
        run("fit", *arguments, *fit, input=given_)
        assert load(model).memory_.state_bytes() == clf.memory_.state_bytes()
    run("fit", text, "--tokens", "words", *fit)
    assert (
        run("predict", model, input="on the\n\nmat the cat\ncat\n").stdout.split()
        == clf.predict(np.array([["on", "the"], ["the", "cat"], [NO_TOKEN, "cat"]], object)).tolist()
    )
    answer = json.loads(run("predict", model, "--json", input="on the\n").stdout)
    assert answer == {"document": 1, "prediction": "mat"}
    run("forget", model, input=documents[1] + "\n")
    one = MemoryClassifier(memory=Exact(), vote="sum").fit(*windows([documents[0].split()], 2))
    assert load(model).memory_.state_bytes() == one.memory_.state_bytes()
    run("add", model, input=documents[1] + "\n")
    assert load(model).memory_.state_bytes() == clf.memory_.state_bytes()


def test_chosen_labels_stay_chosen(tmp_path: Path) -> None:
    text, model = tmp_path / "a.txt", tmp_path / "model"
    text.write_text("a b c a b c a d c\n")
    for source, given_ in ((text, None), ("-", text.read_text())):
        run("fit", source, "--h", 2, "--tokens", "words", "--classes-top", 2, "--out", model, input=given_)
        assert load(model).classes_.tolist() == ["a", "c"]
        added = json.loads(run("add", model, "--json", input="a b c x\n").stdout)
        assert (added["added"], added["labels"]) == (1, 2)
        assert json.loads(run("forget", model, "--json", input="a b c x\n").stdout)["forgotten"] == 1


def test_cases_may_be_interleaved(tmp_path: Path) -> None:
    log, model = tmp_path / "log.csv", tmp_path / "model"
    log.write_text("case;event\n1;open\n2;open\n1;work\n2;wait\n1;close\n2;close\n")
    how = ["--case", "case", "--event", "event", "--end", "END", "--delimiter", ";", "--short", "pad"]
    run("fit", log, "--h", 2, *how, "--memory", "exact", "--vote", "sum", "--out", model)
    docs = [["open", "work", "close", "END"], ["open", "wait", "close", "END"]]
    clf = MemoryClassifier(memory=Exact(), vote="sum").fit(*windows(docs, 2, short="pad"))
    assert load(model).memory_.state_bytes() == clf.memory_.state_bytes()
    asked = "case;event\n7;open\n8;open\n8;wait\n"
    assert run("predict", model, input=asked, catch_exceptions=False).stdout.splitlines() == [
        f"{case}\t{label}"
        for case, label in zip(["7", "8"], clf.predict([[NO_TOKEN, "open"], ["open", "wait"]]), strict=True)
    ]


@pytest.mark.skipif(not LOGS.is_dir(), reason="the event logs are not part of the project")
def test_a_real_event_log(tmp_path: Path) -> None:
    with (LOGS / "helpdesk.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    cases: dict[str, list[str]] = {}
    for row in rows:
        cases.setdefault(row["CaseID"], []).append(row["ActivityID"])
    clf = MemoryClassifier(Suffixes(3), Exact(), "log-linear").fit(*windows(cases.values(), 3, short="pad"))
    model = tmp_path / "model"
    run("fit", LOGS / "helpdesk.csv", "--h", 3, "--case", "CaseID", "--event", "ActivityID", "--short", "pad",
        "--kernel", "suffixes:3", "--vote", "log-linear", "--memory", "exact", "--out", model)  # fmt: skip
    assert load(model).memory_.state_bytes() == clf.memory_.state_bytes()
    answers = dict(line.split("\t") for line in run("predict", model, LOGS / "helpdesk.csv").stdout.splitlines())
    last = np.array([([NO_TOKEN] * 3 + case)[-3:] for case in cases.values()], object)
    assert answers == dict(zip(cases, clf.predict(last).tolist(), strict=True))


def test_a_keyed_model(tmp_path: Path) -> None:
    rows, model, key = tmp_path / "rows.csv", tmp_path / "model", tmp_path / "key"
    rows.write_text("a,y\nx,yes\nz,no\n")
    key.write_text("sixteen bytes or more\n")
    run("fit", rows, "--label", "y", "--key-file", key, "--out", model)
    assert load(model, key=b"sixteen bytes or more").memory_.key == b"sixteen bytes or more"
    assert run("predict", model, rows, "--key-file", key).stdout == "yes\nno\n"
    run("forget", model, rows, "--key-file", key)


def test_a_model_without_notes_is_asked_by_its_columns(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": ["x", "z"], "b": ["u", "v"]})
    save(MemoryClassifier(memory=Exact(), vote="sum").fit(frame, ["yes", "no"]), tmp_path / "model")
    assert read_notes(tmp_path / "model") == {}
    assert run("predict", tmp_path / "model", input="b,c,a\nu,1,x\nv,1,z\n").stdout == "yes\nno\n"
    save(
        MemoryClassifier(memory=Exact(), vote="sum").fit([["x", "u"], ["z", "v"]], ["yes", "no"]).compile(),
        tmp_path / "model",
    )
    assert run("predict", tmp_path / "model", input="b,a\nx,u\nz,v\n").stdout == "yes\nno\n"
    assert run("predict", tmp_path / "model", "--columns", "a,b", input="b,c,a\nu,1,x\n").stdout == "yes\n"


def test_inspect_shows_how_the_input_was_read(tmp_path: Path) -> None:
    rows = write(tmp_path / "rows.csv", ["a", "b", "y"], [["1", "2", "3"]])
    run("fit", rows, "--label", "y", "--out", tmp_path / "model")
    shown = run("inspect", tmp_path / "model").stdout
    for words in ("a, b", "note label", "note reads", "table"):
        assert words in shown


def test_a_reader_who_has_seen_enough_is_no_error(tmp_path: Path) -> None:
    rows = tmp_path / "rows.csv"
    rows.write_text("a,y\n" + "x,yes\n" * 30_000)
    run("fit", rows, "--label", "y", "--out", tmp_path / "model")
    command = [sys.executable, "-m", "hammemo", "predict", str(tmp_path / "model"), str(rows)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == "yes\n"
        process.stdout.close()
        assert process.stderr.read() == ""
        process.wait()


def test_the_shell_is_offered_commands_and_options() -> None:
    for words, offered in (("hammemo fo", {"follow", "forget"}), ("hammemo top-k --sc", {"--scores"})):
        asked = {"COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - 1), "_HAMMEMO_COMPLETE": "complete_bash"}
        result = runner.invoke(app, [], prog_name="hammemo", env=asked)
        assert set(result.stdout.split()) == offered


def test_several_labels_and_their_scores(tmp_path: Path) -> None:
    rows = [["x", "u", "yes"], ["x", "v", "no"], ["z", "v", "no"]]
    table, model = write(tmp_path / "rows.csv", ["a", "b", "y"], rows), tmp_path / "model"
    clf = MemoryClassifier(memory=Exact(), vote="sum").fit(array(rows), [row[2] for row in rows])
    run("fit", table, "--label", "y", "--memory", "exact", "--vote", "sum", "--out", model)
    best = [json.loads(line) for line in run("top-k", model, table, "--scores", "--json").stdout.splitlines()]
    scores = clf.class_scores(array(rows))
    for row, answer in enumerate(best):
        assert answer["top"] == clf.top_k(array(rows))[row].tolist()
        assert answer["score"] == sorted(scores[row].tolist(), reverse=True)
    run("top-k", model, table, "--k", 2, "--out", tmp_path / "best.tsv")
    header, first, *_ = (tmp_path / "best.tsv").read_text().splitlines()
    assert (header, first) == ("a\tb\ty\ttop_1\ttop_2", "x\tu\tyes\tyes\tno")
    run("predict", model, table, "--certify", "--out", tmp_path / "answers.txt")
    assert (tmp_path / "answers.txt").read_text() == "yes\tyes\nno\tyes\nno\tyes\n"
    run("predict", model, table, tmp_path / "nowhere.csv", "--out", tmp_path / "answers.txt", code=1)
    assert (tmp_path / "answers.txt").read_text() == "yes\tyes\nno\tyes\nno\tyes\n"  # as it was
    assert not list(tmp_path.glob("*.tmp"))


@pytest.mark.parametrize("chosen", [None, ["a", "b"]])
def test_a_log_linear_vote_of_sequences_is_that_of_the_interface(chosen: list[str] | None, tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    documents = [[f"{'abc'[t]}" for t in rng.integers(0, 3, 30)] for _ in range(6)]
    text, labels, model = tmp_path / "a.txt", tmp_path / "labels", tmp_path / "model"
    text.write_text("".join(" ".join(tokens) + "\n" for tokens in documents))
    X, y = windows(documents, 2)
    kept = np.isin(y.astype(str), chosen or ["a", "b", "c"])
    clf = MemoryClassifier("positional", Exact(), "log-linear").fit(X[kept], y[kept])
    more = []
    if chosen:
        labels.write_text("".join(f"{label}\n" for label in chosen))
        more = ["--classes-file", labels]
    fit = ["--h", 2, "--tokens", "words", "--kernel", "positional", "--memory", "exact", "--vote", "log-linear"]
    fit += ["--out", model, *more]
    for source, given_ in (([text, "--engine", "threads"], None), (["-"], text.read_text())):
        run("fit", *source, *fit, input=given_)
        loaded = load(model)
        assert loaded.memory_.label_counts.tolist() == clf.memory_.label_counts.tolist()
        np.testing.assert_array_equal(loaded.predict_proba(X), clf.predict_proba(X))


def test_csv_and_text_need_no_extra_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("pyarrow", "pyarrow.fs", "pyarrow.parquet"):
        monkeypatch.setitem(sys.modules, name, None)
    rows, model = tmp_path / "rows.csv", tmp_path / "model"
    rows.write_text("a,y\nx,yes\nz,no\n")
    run("fit", rows, "--label", "y", "--out", model)
    assert run("predict", model, rows).stdout == "yes\nno\n"
    (tmp_path / "a.txt").write_text("to be or not\n")
    run("fit", "-", "--h", 1, "--tokens", "words", "--out", model, input="to be or not\n")
    run("fit", tmp_path / "a.txt", "--h", 1, "--tokens", "words", "--engine", "threads", "--out", model)
    for arguments in (
        ["fit", tmp_path / "a.parquet", "--label", "y", "--out", model],
        ["fit", tmp_path / "a.txt.zst", "--h", 1, "--out", model],
        ["fit", "s3://bucket/a.txt", "--h", 1, "--out", model],
        ["predict", model, rows, "--format", "text", "--out", tmp_path / "a.parquet"],
    ):
        (tmp_path / "a.parquet").touch()
        (tmp_path / "a.txt.zst").touch()
        assert "pip install 'hammemo[text]'" in run(*arguments, code=1).stderr


def test_answers_quote_a_value_with_a_bare_carriage_return(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b'a,b\n"x\r",1\n"y\rz",2\n')
    run("fit", tmp_path / "a.csv", "--label", "b", "--out", tmp_path / "m")
    run("predict", tmp_path / "m", tmp_path / "a.csv", "--out", tmp_path / "answers.csv")
    assert (tmp_path / "answers.csv").read_bytes() == b'a,b,prediction\n"x\r",1,1\n"y\rz",2,2\n'


@pytest.mark.parametrize("ending", [".csv", ".jsonl", ".parquet"])
def test_engines_write_the_file_that_one_process_writes(ending: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    colours = rng.choice(["red", "green", "blue"], 300).tolist()
    sizes = [None if i % 11 == 0 else int(size) for i, size in enumerate(rng.integers(0, 50, 300))]
    rows = [[c, s, "yes" if (s or 0) > 20 else "no"] for c, s in zip(colours, sizes, strict=True)]
    (tmp_path / "rows").mkdir()
    files = [
        write(tmp_path / "rows" / f"{k}{ending}", ["colour", "size", "big"], rows[100 * k : 100 * (k + 1)])
        for k in range(3)
    ]
    run("fit", *files, "--label", "big", "--out", tmp_path / "one")
    options = ["--label", "big", "--engine", "threads", "--resume", tmp_path / "states"]
    run("fit", tmp_path / "rows" / f"*{ending}", *options, "--out", tmp_path / "two")
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    if ending != ".csv":
        return  # how files are read is what can differ
    facts = json.loads(run("fit", tmp_path / "rows", *options, "--out", tmp_path / "three", "--json").stdout)
    assert (facts["examples"], facts["groups"], facts["groups_resumed"]) == (300, 1, 1)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "three").read_bytes()
    few = ["--memory", "exact", "--workers", 1, "--segments", 2, "--out", tmp_path / "segments"]
    run("fit", tmp_path / "rows", "--label", "big", *few)
    run("fit", *files, "--label", "big", "--memory", "exact", "--out", tmp_path / "four")
    assert load(tmp_path / "segments").digest() == load(tmp_path / "four").digest()
    assert read_notes(tmp_path / "segments") == read_notes(tmp_path / "four")


@pytest.mark.parametrize("rule", ["token", "empty"])
@pytest.mark.parametrize("estimator", [MemoryClassifier, MemoryRegressor])
def test_a_model_of_python_says_what_a_missing_value_is(estimator: Any, rule: str, tmp_path: Path) -> None:
    table = pd.DataFrame({"name": ["a", None, "b", "a", "b", None] * 5, "x": np.arange(30) / 4})
    y = np.arange(30) % 3 / 2 if estimator is MemoryRegressor else np.array(["no", "yes", "no"] * 10, object)
    model = tmp_path / "model"
    save(estimator(missing=rule).fit(table[:20], y[:20]), model)
    option = "--target" if estimator is MemoryRegressor else "--label"
    for command, rows in (("add", slice(20, 30)), ("forget", slice(10, 20))):
        table[rows].assign(label=y[rows]).to_csv(tmp_path / "rows.csv", index=False)
        run(command, model, tmp_path / "rows.csv", option, "label")
    rest = [*range(10), *range(20, 30)]
    loaded: Any = load(model)
    assert loaded.refit().digest() == estimator(missing=rule).fit(table.iloc[rest], y[rest]).digest()
