"""The commands of the benchmarks, on small data."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from typing import TYPE_CHECKING

import numpy as np
import pytest
from typer.testing import CliRunner

import edits
import experiments
import forked
import rows as row_histories
from hammemo.tokens.contexts import Examples
from hammemo.tokens.distinct import example_words
from places import ROOT

if TYPE_CHECKING:
    from pathlib import Path


def printed(*arguments: str) -> str:
    """Run a module or a file of the repository and return what it prints."""
    command = forked.Command(*arguments, cwd=ROOT)
    printed, said = command.communicate()
    assert command.poll() == 0, said
    return printed


def documented_modules() -> list[str]:
    """Return the modules that the page of benchmarks runs with ``python -m``."""
    page = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    return sorted(set(re.findall(r"`python -m (benchmarks[\w.]+)", page)))


@pytest.mark.parametrize("module", documented_modules())
def test_a_module_runs_in_a_clone(module: str) -> None:
    """The path of these tests has the folder of benchmarks; that of ``python -m`` has not."""
    script = f"""
import runpy, sys
sys.path[:] = [{str(ROOT)!r}, *(path for path in sys.path if not path.endswith("benchmarks"))]
sys.argv = ["benchmark", "--help"]
runpy.run_module({module!r}, run_name="__main__", alter_sys=True)
"""
    ended = forked.run(script)
    assert ended.returncode == 0, ended.stderr
    assert "usage" in ended.stdout.lower()


def test_sessions(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for part in ("train", "valid", "test"):
        rows = [f"{session}\t{item}\t{session}" for session in range(40) for item in rng.integers(0, 5, 4)]
        (tmp_path / f"bol-{part}.tsv").write_text("\n".join(["SessionId\tItemId\tTime", *rows]) + "\n")
    page = printed(
        "benchmarks.sessions", "--data", str(tmp_path), "--sets", "bol", "--learners", "Markov, order 1", "VMIS-kNN"
    )
    assert "bol: 40 sessions, 160 events, 5 items; 120 validation and 120 test queries" in page
    for learner in ("Markov, order 1", "Markov, order 1 + copy", "VMIS-kNN", "VMIS-kNN + copy"):
        assert f"| {learner} |" in page
    assert "NO" not in page  # all forget exactly


def test_rates_of_a_mixture(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for part in ("train", "valid", "test"):
        rows = [f"{session}\t{item}\t{session}" for session in range(200) for item in rng.integers(0, 300, 4)]
        (tmp_path / f"bol-{part}.tsv").write_text("\n".join(["SessionId\tItemId\tTime", *rows]) + "\n")
    page = printed("benchmarks.sessions.rates", "--sessions", str(tmp_path))
    for learner in ("VMIS-kNN", "mixture", "mixture, all scores"):
        assert f"| {learner} |" in page


def test_threads_of_a_fit(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rows = [",".join(map(str, row)) for row in rng.integers(0, 3, (120, 4))]
    (tmp_path / "small.csv").write_text("\n".join(["a,b,c,label", *rows]) + "\n")
    page = printed("benchmarks/fit_threads.py", str(tmp_path / "small.csv"), "--repeats", "1")
    assert page.count("| small |") == page.count(" yes |") == 2


def test_a_shop() -> None:
    pytest.importorskip("pyarrow", reason="needs pyarrow: pip install hammemo[text]")
    pytest.importorskip("uvicorn", reason="needs a server: pip install hammemo[serve]")
    sizes = ("--clicks", "5000", "--items", "900", "--questions", "20", "--serve", "--seconds", "0.2", "--json")
    figures = {row["figure"]: row["value"] for row in json.loads(printed("benchmarks/shop.py", *sizes))["shop"]}
    assert 4990 < figures["clicks"] < 5500
    assert figures["items"] <= 900
    rate = figures.pop("served_a_second")
    assert rate in (0, figures["served_asked_a_second"])  # a busy machine may hold none
    assert all(value > 0 for value in figures.values())


def test_a_shop_that_does_not_fit_says_so() -> None:
    pytest.importorskip("pyarrow", reason="needs pyarrow: pip install hammemo[text]")
    command = ["benchmarks/shop.py", "--clicks", "300000", "--items", "20000", "--memory", "0.4"]
    done = subprocess.run([sys.executable, *command], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (3, "")
    assert "300,000 clicks do not fit in 0.4 GiB." in done.stderr


def test_a_rate_is_held_or_not() -> None:
    import shop_serving

    class Served(shop_serving.OpenLoop):
        """A server that takes 1,000 questions a second for a while, and 700 for longer."""

        def run(self, rate: float, seconds: float) -> shop_serving.Held:
            asked.append((rate, seconds))
            return shop_serving.Held(rate, 1, 2, 3, is_held=rate < (1000 if seconds < 10 else 700))

    asked: list[tuple[float, float]] = []
    found = shop_serving.highest(Served(0, []), 60, 3)
    assert found.is_held
    assert 0.9 * 700 <= found.rate < 700
    short, long = ([rate for rate, took in asked if took == seconds] for seconds in (3, 60))
    assert short == sorted(short)
    assert long == sorted(long, reverse=True)
    assert long[0] == short[-2]  # the highest that held


def test_language(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for part in ("train", "valid", "test"):
        lines = [" ".join(f"w{token}" for token in rng.integers(0, 5, 8)) for _ in range(30)]
        (tmp_path / f"wiki.{part}.tokens").write_text("\n".join(lines) + "\n")
    results = json.loads(printed("benchmarks.language", "--data", str(tmp_path), "--models", "Kneser-Ney 5", "--json"))
    plain, with_caches = results["table"]
    assert plain["targets"] == with_caches["targets"] == 30 * 9
    assert plain["perplexity"] < 8


def test_threads_of_blas() -> None:
    page = printed("benchmarks.blas_threads", "--sets", "car", "--threads", "1", "--repeats", "1")
    assert "| car | fit | 1 |" in page
    assert "| car | refit | 1 |" in page


@pytest.mark.slow
def test_rates_of_the_hashed_memory() -> None:
    results = json.loads(printed("benchmarks/hashed.py", "predict", "--rounds", "1", "--json"))
    names = [row["name"] for row in results["rates"]]
    assert names[:3] == ["hammemo: compiled loop", "hammemo: Predictor.predict", "paper: fused product, d = 1024"]
    assert results["rates"][0]["ratio"] == 1
    single = results["one query from Python, µs"]
    assert single["predictor(tokens)"] < single["predictor.predict([tokens])"]
    page = printed("benchmarks/hashed.py", "fit", "--rounds", "1", "--tokens", "50000")
    assert "| bare scatter, rows given |" in page
    assert "A stream of 50,000 tokens" in page


@pytest.mark.parametrize("first", range(10_000, 10_100, 25))
def test_a_model_is_a_function_of_the_rows_it_holds(first: int) -> None:
    """Random histories against `fit`, a tenth of those of ``.ci/nightly histories``."""
    found = row_histories.run(25, first)
    assert [row for row in found if row["files that differ"] or row["exceptions"]] == []
    assert sum(row["histories"] for row in found if row["way"] != "Python") >= 8


def test_some_rows_of_random_histories_have_equal_hashes() -> None:
    first, second = row_histories.rows_of_equal_hash(seed=0)
    words = example_words(Examples.of([first, second], ["x", "x"]), seed=0)
    assert words[0] == words[1]


def test_edits_of_every_vote() -> None:
    rows = edits.run(5, 300, 4)
    assert [(row["vote"], row["labels"], row["edits"]) for row in rows] == [
        (vote, 5, 4) for vote in ("sum", "mean", "log-linear", "sum")
    ]
    assert [row["keep"] for row in rows] == ["auto", "auto", "auto", "digests"]
    for row in rows:
        for name in ("query", "edit", "query_after", "edit_and_query", "checks", "query_checks", "ratio"):
            assert 0 < row[name]["median"] <= row[name]["p99"]
    page = printed("benchmarks/edits.py", "--labels", "5", "--examples", "300", "--edits", "2")
    assert "| Hashed() | log-linear | auto | 5 | 2 |" in page


@pytest.mark.slow
def test_many_labels() -> None:
    small = ("benchmarks/labels.py", "--train", "400", "--queries", "40", "--repeats", "1", "--kernel", "positions")
    page = printed(*small)
    for word in ("live table", "dense path", "bare loop, entries only", "dict of Counters", "canonical bytes an entry"):
        assert word in page
    found = json.loads(printed(*small, "--edits", "30", "--json"))
    assert [(row["edits"], row["wrong"]) for row in found["interleaved"]] == [(30, 0)]
    assert {row["vote"] for row in found["edits"]} == {"sum", "log-linear, shared weights"}
    found = json.loads(printed(*small, "--agreement", "--json"))["agreement"]
    assert [(row["kernel"], row["other_top_1"]) for row in found] == [("positions", 0)] * 4


def test_tables_go_on_where_they_were_stopped(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rows = [f"v{a},w{b},{'same' if a == b else 'other'}" for a, b in rng.integers(0, 3, (90, 2))]
    (tmp_path / "small.csv").write_text("\n".join(["a,b,label", *rows]) + "\n")
    arguments = ("--data", str(tmp_path), "--learners", "ours", "naive Bayes", "--json", str(tmp_path / "found"))
    first, again = (printed("benchmarks.tables", *arguments) for _ in range(2))
    assert "| small | naive Bayes |" in first
    assert "a tenth forgotten, then refit, equal to the byte: 1 of 1 sets" in first
    assert "| small | naive Bayes |" not in again
    assert first.endswith(again.partition("accuracy / log-loss:")[2])


def test_two_versions() -> None:
    """One version beside itself: every kind of figure is there, and states and answers are equal."""
    only = "^start: import hammemo$|^Hashed, sum, 64 labels: (predict, ints|edits|fit|load)$"
    interpreters = ("--before", sys.executable, "--after", sys.executable)
    options = ("--rounds", "1", "--seconds", "0.001", "--only", only, "--json")
    rows = json.loads(printed("benchmarks.commits", *interpreters, *options))["rows"]
    figures = {row["figure"]: row["median"] for row in rows if "figure" in row}
    assert set(figures) == {
        "import hammemo",
        "predict, ints",
        "partial_fit",
        "forget",
        "learn_one",
        "forget_one",
        "predict after an edit",
        "fit",
        "load",
    }
    assert all(ratio > 0 for ratio in figures.values())
    assert [row["equal"] for row in rows if "equal" in row] == [{"state": True, "answers": True}]


@pytest.mark.slow  # server/tests/test_subjects.py kills at every step, too
@pytest.mark.skipif(sys.platform == "win32", reason="processes kill themselves")
def test_erasure() -> None:
    page = json.loads(
        printed("benchmarks/erasure.py", "--edits", "600", "--subjects", "40", "--rounds", "1", "--timed", "400")
    )
    assert set(page["killed"].values()) == {1}
    assert page["equal to the byte"]
    assert page["files with markers"] == {}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("hashed --data nowhere --out r", "wiki.train.tokens"),
        ("votes --data nowhere --out r", "wiki.train.tokens"),
        ("events --data nowhere", "helpdesk.csv"),
        ("deletion --table iris", "tic-tac-toe"),
        ("sessions --data nowhere", "bol-train.tsv"),
        ("sessions --data nowhere --set amazon", "beauty"),
        ("language --data nowhere", "wiki.train.tokens"),
    ],
)
def test_an_experiment_says_what_is_missing(
    arguments: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # the results are written there
    result = CliRunner().invoke(experiments.app, arguments.split())
    assert result.exit_code == 2
    assert said in " ".join(result.output.split())
