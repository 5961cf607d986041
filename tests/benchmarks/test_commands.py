"""The commands of the benchmarks, on small data."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import numpy as np

from places import ROOT

if TYPE_CHECKING:
    from pathlib import Path


def printed(*arguments: str) -> str:
    """Run a module of the repository and return what it prints."""
    done = subprocess.run([sys.executable, "-m", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


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
