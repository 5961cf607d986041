"""Typical mistakes of every command: one line that names what is wrong and the way out, never a traceback."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

pytest.importorskip("pyarrow")

from hammemo import MemoryClassifier, save
from hammemo.cli.app import app
from hammemo.memories import Exact, Hashed
from hammemo.stores import Digests
from hammemo.tasks.labels.names import MEMORIES, VOTES

if TYPE_CHECKING:
    from pathlib import Path

runner = CliRunner()

FRUIT = "colour,size,fruit\nred,small,cherry\ngreen,large,melon\nred,large,apple\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with files that are right, and some that are wrong in one way each."""
    path = tmp_path_factory.mktemp("mistakes")
    texts = {
        "fruit.csv": FRUIT,
        "semicolons.csv": FRUIT.replace(",", ";"),
        "ragged.csv": FRUIT + "red,small\n",
        "twice.csv": "a,a,b\n1,2,3\n",
        "gap.csv": FRUIT + "red,,apple\n",
        "nolabel.csv": FRUIT + "red,small,\n",
        "empty.csv": "",
        "header.csv": "colour,size,fruit\n",
        "label.csv": "fruit\napple\n",
        "quotes.csv": 'a,b\n"x"y,1\n',
        "never.csv": "colour,size,fruit\nred,small,cherry\ngreen,small,apple\n",
        "narrow.csv": "colour\nred\n",
        "wide.csv": "red,small,cherry,1\n",
        "bare.csv": "red,small,cherry\ngreen,large,melon\n",
        "rows.jsonl": '{"a": 1, "b": "x"}\n{"a": 2, "b": "y"}\n',
        "broken.jsonl": '{"a": 1, "b": "x"}\n{"a": 2,\n',
        "list.jsonl": '{"a": [1, 2], "b": "x"}\n',
        "scalars.jsonl": "1\n2\n",
        "more.jsonl": '{"a": 1, "b": "x"}\n{"a": 2, "b": "y", "c": 3}\n',
        "text.txt": "the cat sat on the mat\nthe cat ate the rat\n",
        "log.csv": "case,event\n1,open\n1,work\n1,close\n2,open\n2,work\n",
        "labels.txt": "cat\n",
        "key": "an entirely different key",
        "short-key": "short",
        "data": "a,b\n1,2\n",
        "array.json": '[{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]\n',
        "pretty.json": '[\n  {"a": 1, "b": "x"}\n]\n',
        "plain.csv.gz": FRUIT,
    }
    for name, text in texts.items():
        (path / name).write_text(text)
    (path / "junk.csv").write_bytes(bytes(range(128, 256)) * 20)
    (path / "junk.parquet").write_bytes(bytes(range(256)))
    (path / "cut.csv.gz").write_bytes(gzip.compress(FRUIT.encode())[:30])
    (path / "folder").mkdir()
    models = {
        "fruit.model": ["fruit.csv", "--label", "fruit", "--memory", "exact", "--vote", "sum"],
        "hashed.model": ["fruit.csv", "--label", "fruit", "--memory", "hashed"],
        "seeded.model": [
            "fruit.csv",
            "--label",
            "fruit",
            "--memory",
            "exact",
            "--kernel",
            "suffixes:2",
            "--vote",
            "sum",
        ],
        "gaussian.model": ["fruit.csv", "--label", "fruit", "--memory", "gaussian", "--d", "16"],
        "digests.model": ["fruit.csv", "--label", "fruit", "--keep", "auto+digests"],
        "bare.model": ["bare.csv", "--label", "3", "--no-header"],
        "text.model": ["text.txt", "--h", "2", "--tokens", "words", "--engine", "threads"],
        "log.model": ["log.csv", "--h", "1", "--case", "case", "--event", "event"],
    }
    for name, arguments in models.items():
        places = [str(path / part) if part.endswith((".csv", ".txt")) else part for part in arguments]
        result = runner.invoke(app, ["fit", *places, "--out", str(path / name)])
        assert result.exit_code == 0, result.output
    keyed = MemoryClassifier(memory=Hashed(8, 2), keep=Digests("auto", b"sixteen bytes or more"), vote="sum")
    save(keyed.fit([["a", "b"]], ["x"]), path / "keyed.model")
    save(MemoryClassifier(memory=Exact(), vote="sum").fit([["a", "b"]], ["x"]).compile(), path / "compiled.model")
    damaged = bytearray((path / "fruit.model").read_bytes())
    damaged[-1] ^= 1
    (path / "damaged.model").write_bytes(damaged)
    return path


MISTAKES: list[tuple[str, int, list[str]]] = [
    # fit: rows of a table
    ("fit fruit.csv --out m", 2, ["--label", "--h"]),
    ("fit fruit.csv --label fruit --h 2 --out m", 2, ["--label", "--h", "one of them"]),
    ("fit nowhere.csv --label x --out m", 1, ["nowhere.csv does not exist", "name a file"]),
    ("fit folder --label x --format csv --out m", 1, ["is a folder"]),
    ("fit data --label a --out m", 1, ["format", "--format"]),
    ("fit fruit.csv --label price --out m", 1, ["no column 'price'", "colour, size, fruit"]),
    ("fit fruit.csv --label fruit --columns colour,weight --out m", 1, ["no column 'weight'", "colour, size, fruit"]),
    ("fit fruit.csv --label fruit --columns colour,colour --out m", 1, ["twice"]),
    ("fit fruit.csv --label fruit --columns colour,fruit --out m", 1, ["own context"]),
    ("fit semicolons.csv --label fruit --out m", 1, ["one column only", "--delimiter"]),
    ("fit fruit.csv --label fruit --delimiter ;; --out m", 1, ["--delimiter", "one character"]),
    ("fit ragged.csv --label fruit --out m", 1, ["line 5", "2 values", "3 columns"]),
    ("fit twice.csv --label b --out m", 1, ["two columns named 'a'", "--no-header"]),
    ("fit gap.csv --label fruit --missing refuse --out m", 1, ["line 5", "'size' has no value", "--missing 'token'"]),
    ("fit nolabel.csv --label fruit --out m", 1, ["line 5", "'fruit' has no value"]),
    ("fit empty.csv --label fruit --out m", 1, ["is empty"]),
    ("fit header.csv --label fruit --out m", 1, ["nothing to learn", "header"]),
    ("fit label.csv --label fruit --out m", 1, ["only", "at least one more"]),
    ("fit quotes.csv --label b --out m", 1, ["line 2", "quotes"]),
    ("fit junk.csv --label fruit --out m", 1, ["not text in UTF-8"]),
    ("fit junk.parquet --label fruit --out m", 1, ["not a Parquet file"]),
    ("fit broken.jsonl --label b --out m", 1, ["line 2", "is not JSON"]),
    ("fit list.jsonl --label b --out m", 1, ["line 1", "'a' holds a list", "--h"]),
    ("fit scalars.jsonl --label b --out m", 1, ["line 1", "not a JSON object"]),
    ("fit more.jsonl --label b --out m", 1, ["line 2", "'c'", "--columns"]),
    ("fit rows.jsonl --label z --out m", 1, ["no column 'z'", "a, b"]),
    ("fit rows.jsonl --label b --columns z --out m", 1, ["no column 'z'", "a, b"]),
    ("fit fruit.csv --label fruit --format xml --out m", 1, ["--format", "csv, tsv, jsonl, parquet"]),
    ("fit fruit.csv --label fruit --out folder", 1, ["--out", "cannot be written"]),
    ("fit fruit.csv --label fruit --out nowhere/m", 1, ["--out", "folder that exists"]),
    ("fit fruit.csv --label fruit --memory big --out m", 2, ["--memory 'big'", ", ".join(map(repr, MEMORIES))]),
    (
        "fit fruit.csv --label fruit --kernel cubic --out m",
        2,
        ["--kernel 'cubic'", *map(repr, ("auto", "positional", "suffixes:K:BASE"))],
    ),
    ("fit fruit.csv --label fruit --kernel positions --out m", 2, ["--kernel 'positions'", "'positional'"]),
    ("fit fruit.csv --label fruit --kernel suffixes:x --out m", 2, ["--kernel 'suffixes:x'", "suffixes:K"]),
    ("fit fruit.csv --label fruit --kernel suffixes:9 --out m", 1, ["k=9", "2"]),
    ("fit fruit.csv --label fruit --vote loud --out m", 2, ["--vote 'loud'", ", ".join(map(repr, VOTES))]),
    ("fit fruit.csv --label fruit --missing drop --out m", 1, ["--missing 'drop'", "use 'token', 'empty' or 'refuse'"]),
    ("fit fruit.csv --label fruit --tokens words --out m", 2, ["--tokens is for sequences"]),
    ("fit fruit.csv --label fruit --classes-top 3 --out m", 2, ["--classes-top is for sequences"]),
    ("fit fruit.csv --label fruit --key-file short-key --out m", 1, ["16"]),
    ("fit fruit.csv --label fruit --key-file nokey --out m", 1, ["nokey", "No such file"]),
    ("fit fruit.csv --label fruit --memory exact --key-file key --out m", 2, ["--key-file", "--keep digests"]),
    ("fit fruit.csv --label fruit --memory hashed --layout fruit.model --out m", 1, ["layout", "Exact"]),
    ("fit array.json --label b --out m", 1, ["line 1", "jq -c '.[]'"]),
    ("fit pretty.json --label b --out m", 1, ["line 1", "jq -c '.[]'"]),
    ("fit cut.csv.gz --label fruit --out m", 1, ["cut.csv.gz is damaged", "another copy"]),
    ("fit plain.csv.gz --label fruit --out m", 1, ["not compressed", "another copy"]),
    ("fit fruit.csv --label fruit --columns , --out m", 2, ["--columns ','", "empty name"]),
    ("fit text.txt --label fruit --out m", 1, ["text.txt has no columns", "--h"]),
    ("fit fruit.csv --label fruit --buckets 99999999999 --out m", 1, ["--buckets 99999999999", "2^31"]),
    ("fit fruit.csv --label fruit --memory gaussian --d 9999999 --out m", 1, ["not enough memory", "smaller"]),
    # fit: what is wrong with the line itself
    ("fit", 2, ["FILE is missing", "Try 'hammemo fit --help'."]),
    ("fit fruit.csv --label fruit", 2, ["--out MODEL is missing (the model file to write).", "hammemo fit --help"]),
    ("fit fruit.csv --label", 2, ["--label needs a value after it."]),
    ("fit fruit.csv --lable fruit --out m", 2, ["There is no option --lable. Did you mean --label?"]),
    ("fit fruit.csv -o m", 2, ["There is no option -o. Did you mean --ordered or --out?"]),
    ("fit -h", 2, ["Did you mean --h or --help?"]),
    ("fit text.txt --h two --out m", 2, ["--h two is not a whole number."]),
    ("evaluate fruit.csv --label price --holdout x", 2, ["--holdout x is not a number."]),
    ("fit text.txt --h 0 --out m", 2, ["--h 0 is too small: use 1 or more.", "hammemo fit --help"]),
    ("fti fruit.csv", 2, ["No such command 'fti'.", "hammemo --help"]),
    ("--vresion", 2, ["There is no option --vresion. Did you mean --version?"]),
    (
        "fit - --label fruit --engine processes --out m",
        1,
        ["Standard input can be read once"],
    ),
    ("fit fruit.csv --label fruit --engine spark --out m", 1, ["--engine 'spark'", "threads"]),
    ("fit fruit.csv --label colour,size --workers 2 --out m", 1, ["fruit.csv has no column 'colour,size'"]),
    # fit: sequences
    ("fit log.csv --h 2 --case case --event event --engine threads --out m", 2, ["--engine needs plain files"]),
    ("fit log.csv --h 2 --case case --event event --workers 2 --out m", 2, ["--workers needs plain files"]),
    ("fit text.txt --h 2 --tokens words --resume fruit.csv --out m", 2, ["fruit.csv is a file", "name a folder"]),
    ("fit text.txt --h 2 --out m", 1, ["'the' is not a token id", "words"]),
    ("fit text.txt --h 2 --tokens wurds --out m", 1, ["'wurds'", "words"]),
    ("fit text.txt --h 90 --tokens words --out m", 1, ["more than h=90 tokens"]),
    ("fit text.txt --h 2 --tokens words --classes-top 3 --classes-file labels.txt --out m", 2, ["--classes-file"]),
    ("fit text.txt --h 2 --classes-file labels.txt --out m", 1, ["'cat'", "--tokens words"]),
    ("fit text.txt --h 2 --tokens words --columns a --out m", 2, ["--columns is for tables"]),
    ("fit log.csv --h 2 --out m", 2, ["event log", "--case", "--event"]),
    ("fit log.csv --h 2 --case case --out m", 1, ["--case and --event"]),
    ("fit log.csv --h 2 --case case --event activity --out m", 1, ["no column 'activity'", "case, event"]),
    ("fit log.csv --h 9 --case case --event event --out m", 1, ["more than h=9"]),
    ("fit log.csv --h 2 --case case --event event --short cut --out m", 1, ["--short 'cut'", "drop or pad"]),
    ("fit log.csv --h 2 --case case --event event --resume x --out m", 2, ["--resume"]),
    ("fit text.txt --h 2 --tokens words --engine spark --out m", 1, ["--engine 'spark'", "threads"]),
    # evaluate: sequences
    ("evaluate text.txt --h 90 --tokens words", 1, ["no document has more than h=90 tokens"]),
    ("evaluate empty.csv --format text --h 9 --tokens words --short pad", 1, ["no document has a token"]),
    # predict and top-k
    ("predict nowhere.model fruit.csv", 1, ["nowhere.model does not exist", "hammemo fit"]),
    ("predict fruit.csv fruit.csv", 1, ["is not a model of hammemo", "hammemo fit"]),
    ("predict folder fruit.csv", 1, ["folder"]),
    ("predict damaged.model fruit.csv", 1, ["damaged", "another copy"]),
    ("predict keyed.model fruit.csv", 1, ["secret key", "--key-file"]),
    ("predict keyed.model fruit.csv --key-file key", 1, ["--key-file is not the secret key", "the same bytes"]),
    ("predict fruit.model fruit.csv --key-file key", 1, ["no secret key", "leave out --key-file"]),
    ("predict fruit.model nowhere.csv", 1, ["nowhere.csv does not exist"]),
    ("predict fruit.model nowhere", 1, ["nowhere does not exist"]),
    ("predict fruit.model narrow.csv", 1, ["no column 'size'", "colour"]),
    ("predict fruit.model fruit.csv --columns size", 1, ["1 columns", "2"]),
    ("predict fruit.model fruit.csv --tokens words", 2, ["--tokens is for sequences"]),
    ("predict fruit.model fruit.csv --proba", 1, ["not probabilities", "--vote log-linear"]),
    ("predict gaussian.model fruit.csv --certify", 1, ["no certificate"]),
    ("predict fruit.model header.csv", 1, ["nothing to answer"]),
    ("predict fruit.model empty.csv", 1, ["is empty"]),
    ("predict fruit.model junk.csv", 1, ["UTF-8"]),
    ("predict fruit.model data", 1, ["--format"]),
    ("predict fruit.model fruit.csv --out answers.xls", 2, [".csv"]),
    ("predict bare.model wide.csv --columns 1,9", 1, ["4 columns", "2"]),
    ("predict bare.model narrow.csv", 1, ["1 columns", "2"]),
    ("predict compiled.model fruit.csv", 1, ["3 columns", "--columns"]),
    ("predict text.model fruit.csv --label fruit", 2, ["--label"]),
    ("predict text.model fruit.csv --columns fruit", 2, ["sequences"]),
    ("predict log.model fruit.csv", 1, ["no column 'event'", "colour, size, fruit"]),
    ("predict", 2, ["MODEL is missing (a model file)."]),
    ("predict fruit.model --json=yes", 2, ["--json takes no value"]),
    ("predict fruit.model semicolons.csv", 1, ["one column only", "--delimiter ';'"]),
    ("top-k fruit.model fruit.csv --k x", 2, ["--k x is not a whole number."]),
    ("top-k fruit.model narrow.csv", 1, ["no column 'size'"]),
    ("top-k fruit.model fruit.csv --k 0", 2, ["--k"]),
    ("top-k nowhere.model", 1, ["does not exist"]),
    # add and forget
    ("add compiled.model fruit.csv", 1, ["compiled", "compiled from"]),
    ("add fruit.model narrow.csv", 1, ["no column 'fruit'", "columns are colour"]),
    ("add fruit.model header.csv", 1, ["nothing to learn"]),
    ("forget fruit.model never.csv", 1, ["never.csv, line 3", "never learnt"]),
    ("forget hashed.model never.csv", 1, ["never.csv, line 3", "never learnt"]),
    ("forget digests.model never.csv", 1, ["never.csv, line 3", "never learnt"]),
    ("forget fruit.model header.csv", 1, ["nothing to forget"]),
    ("forget fruit.model narrow.csv", 1, ["no column 'fruit'", "columns are colour"]),
    ("forget compiled.model fruit.csv", 1, ["compiled"]),
    ("forget text.model log.csv", 1, ["table", "--case"]),
    ("forget log.model log.csv --out folder", 1, ["cannot be written"]),
    # refit
    ("refit", 2, ["MODEL is missing (a model file)."]),
    ("refit nowhere.model", 1, ["nowhere.model does not exist"]),
    ("refit compiled.model", 1, ["compiled", "compiled from"]),
    ("refit digests.model fruit.csv", 2, ["'fruit.csv' is one argument too many"]),
    ("refit digests.model --out folder", 1, ["cannot be written"]),
    # merge
    ("merge fruit.model", 2, ["--out"]),
    ("merge fruit.model gaussian.model --out m", 1, ["cannot be added", "memory"]),
    ("merge fruit.model seeded.model --out m", 1, ["cannot be added", "--layout"]),
    ("merge fruit.model fruit.csv --out m", 1, ["not a model of hammemo"]),
    ("merge fruit.model compiled.model --out m", 1, ["compiled"]),
    ("merge fruit.model --minus nowhere.model --out m", 1, ["nowhere.model does not exist"]),
    ("merge fruit.model --minus fruit.model --minus fruit.model --out m", 1, ["cannot be subtracted"]),
    # explain
    ("explain", 2, ["MODEL is missing", "hammemo explain --help"]),
    ("explain fruit.model red", 1, ["colour, size"]),
    ("explain fruit.model red small --plot votes.xyz", 1, ["--plot votes.xyz", ".png"]),
    # inspect
    ("inspect fruit.model hashed.model", 2, ["'hashed.model' is one argument too many", "hammemo inspect --help"]),
    ("inspect nowhere.model", 1, ["nowhere.model", "Name a file"]),
    ("inspect fruit.csv", 1, ["not a model of hammemo"]),
    ("inspect folder", 1, ["folder", "Name a file"]),
    # reproduce
    ("reproduce inference --device gpu", 2, ["'gpu' is not known", "cuda"]),
    ("reproduce inference --data nowhere", 2, ["nowhere", "wiki.train.tokens"]),
    ("reproduce inference --threads 0", 2, ["--threads 0 is too small: use 1 or more.", "reproduce inference --help"]),
    ("reproduce synthetic", 2, ["--out"]),
    ("reproduce nonsense", 2, ["nonsense"]),
    ("reproduce synthetic --quick --realisations 9 --out r", 2, ["--quick", "--realisations"]),
    ("reproduce bounds --quick --draws 9 --out r", 2, ["--quick", "--draws"]),
    ("reproduce bounds --quick --out fruit.csv", 2, ["not a folder to write to"]),
    ("reproduce wikitext --data nowhere --out r", 2, ["nowhere", "wiki.train.tokens"]),
]


@pytest.mark.parametrize(("line", "code", "words"), MISTAKES, ids=[line for line, _, _ in MISTAKES])
def test_a_mistake_names_the_way_out(
    line: str, code: int, words: list[str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    before = sorted(path.name for path in folder.iterdir())
    result = runner.invoke(app, line.split(), input="", prog_name="hammemo")
    shown = result.stderr
    assert result.exit_code == code, result.output
    assert result.exception is None or isinstance(result.exception, SystemExit)
    assert "Traceback" not in result.output
    for word in words:
        assert word in shown
    assert shown.startswith("Error: ")
    assert shown.count("\n") == 1
    assert result.stdout == ""
    left = {"r", "results.json"}
    assert set(before) | left >= {path.name for path in folder.iterdir()}, "a mistake leaves no file behind"


def test_every_command_has_help_without_types_of_flags() -> None:
    commands: list[list[str]] = [[]]
    root: Any = __import__("typer").main.get_command(app)
    for name, command in root.commands.items():
        commands += [[name], *([name, inner] for inner in getattr(command, "commands", ()))]
    for command in commands:
        result = runner.invoke(app, [*command, "--help"])
        assert result.exit_code == 0
        assert "<" not in result.stdout


def test_help_groups_the_commands_and_shows_the_usual_options_first() -> None:
    shown = runner.invoke(app, ["--help"]).stdout.split("--help")[1]
    places = [shown.index(f" {word} ") for word in ("Begin here", "demo", "verify", "More", "top-k")]
    assert places == sorted(places)
    shown = runner.invoke(app, ["fit", "--help"]).stdout
    places = [shown.index(word) for word in ("--out ", "--label ", "--h ", "--columns ", "--kernel ", "--engine ")]
    assert places == sorted(places)


def test_an_interrupt_while_packages_load_is_silent(tmp_path: Path) -> None:
    slow = tmp_path / "sklearn" / "__init__.py"
    slow.parent.mkdir()
    slow.write_text("import os, signal, time\nos.kill(os.getpid(), signal.SIGINT)\ntime.sleep(9)\n")
    (tmp_path / "a.csv").write_text(FRUIT)
    line = [sys.executable, "-m", "hammemo", "fit", "a.csv", "--label", "fruit", "--out", "m"]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    ended = subprocess.run(
        line,
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # jobs in the background ignore it
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "")


def test_a_model_is_as_it_was_after_a_refused_change(folder: Path) -> None:
    model = folder / "digests.model"
    before = model.read_bytes()
    assert runner.invoke(app, ["forget", str(model), str(folder / "never.csv")]).exit_code == 1
    assert model.read_bytes() == before


def test_errors_of_json_mode_go_to_standard_error(folder: Path) -> None:
    result = runner.invoke(app, ["predict", str(folder / "fruit.model"), str(folder / "narrow.csv"), "--json"])
    assert result.exit_code == 1
    assert result.stdout == ""
    result = runner.invoke(app, ["inspect", str(folder / "fruit.model"), "--json"])
    assert json.loads(result.stdout)["notes"]["label"] == "fruit"


def test_keys_are_not_for_a_model_on_a_server() -> None:
    pytest.importorskip("psycopg")
    line = "follow postgresql://u@h/d --table t --label l --server http://127.0.0.1:1 --name m --keys k"
    refused = runner.invoke(app, line.split())
    assert refused.exit_code == 2, refused.output
    assert "--keys is for a model file" in refused.stderr
