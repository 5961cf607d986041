"""The experiments on votes and on event logs, on small data made for the purpose."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import numpy as np
import pytest
from typer.testing import CliRunner

import events
import votes
from experiments import app
from hammemo.evaluation.measures import expected_calibration_error
from hammemo.paper.experiments.wikitext import build_task

if TYPE_CHECKING:
    from pathlib import Path


def lines(n: int, seed: int) -> list[list[str]]:
    """Return lines in which a word mostly follows from the two before it."""
    rng = np.random.default_rng(seed)
    words = []
    for _ in range(n):
        line = [f"w{i}" for i in rng.integers(0, 70, 2)]
        while len(line) < 40:
            told = rng.random() < 0.7
            follows = (int(line[-1][1:]) * 3 + int(line[-2][1:])) % 70
            line.append(f"w{follows if told else rng.integers(0, 70)}")
        words.append([*line, "<eos>"])
    return words


def test_log_linear_votes_are_weighed() -> None:
    task = build_task({"train": lines(200, 0), "valid": lines(20, 1), "test": lines(60, 2)})
    settings = votes.VoteSettings(seed=1, draws=2, stored=300, queries=200, everything=True, sample=300)
    done: list[tuple[int, int]] = []
    results = votes.run(task, settings, lambda *step: done.append(step))
    assert done[-1] == (5, 5)
    rows = {(row["examples"], row["model"]): row for row in results["table"]}
    assert len(rows) == 7
    everything = max(examples for examples, _ in rows)
    exact = rows[everything, "log-linear, exact"]
    assert rows[everything, "the default, fit_stream"]["top1"] > rows[300, "positions, sum (the paper)"]["top1"]
    assert rows[300, "the default, fit"]["log_loss"] is not None
    assert exact["top1"] > rows[300, "positions, sum (the paper)"]["top1"]
    assert exact["top1_sd"] is not None
    assert 0 <= exact["ece"] < 1
    assert all(row["equal_states"] and row["equal_scores"] for row in results["forgetting"])
    page = votes.markdown(results)
    assert page.count("| log-linear") == 3
    assert "DIFFERENT" not in page


def test_the_calibration_error_is_its_definition() -> None:
    rng = np.random.default_rng(0)
    sure, right = rng.random(500), rng.random(500) < 0.5
    expected = 0.0
    for b in range(15):
        inside = (sure >= b / 15) & (sure < (b + 1) / 15)
        if inside.any():
            expected += inside.mean() * abs(sure[inside].mean() - right[inside].mean())
    assert expected_calibration_error(sure, right) == pytest.approx(expected, rel=1e-9)


def write_log(path: Path, n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = ["CaseID,ActivityID,CompleteTimestamp"]
    for case in range(n):
        moment = datetime(2020, 1, 1) + timedelta(hours=int(rng.integers(0, 2000)))
        for activity in ["1", "2", *rng.choice(["3", "4"], rng.integers(1, 4)).tolist(), "5"]:
            rows.append(f"{case},{activity},{moment:%Y-%m-%d %H:%M:%S}")
            moment += timedelta(seconds=int(rng.integers(1, 9999)))
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")


def test_prefixes_are_cut_as_the_protocol_says(tmp_path: Path) -> None:
    write_log(tmp_path / "log.csv", 30, 0)
    cases = events.read_log(tmp_path / "log.csv")
    training, test = events.split(cases)
    assert (len(training), len(test)) == (20, 10)
    asked = events.Prefixes.of(test, 2)
    assert len(asked.y) == sum(len(case) - 1 for case in test)
    assert (asked.y == events.END).sum() == len(test)
    assert asked.X[0, : events.H].tolist() == [events.START] * 6 + ["1", "2"]
    assert asked.X[0, events.H].startswith("gap ")
    assert len(set(events.activity_sites())) == len(events.activity_sites())


def test_the_command_prints_and_writes_the_table(tmp_path: Path) -> None:
    for i, log in enumerate(events.LSTM):
        write_log(tmp_path / f"{log}.csv", 60, i)
    found = CliRunner().invoke(
        app, ["events", "--data", str(tmp_path), "--out", str(tmp_path / "out")], catch_exceptions=False
    )
    assert found.exit_code == 0
    assert found.stdout.count("| activities") == 6
    assert (tmp_path / "out" / "events.md").read_text(encoding="utf-8") in found.stdout
    assert (tmp_path / "out" / "manifest.json").is_file()
    missing = CliRunner().invoke(app, ["events", "--data", str(tmp_path / "nowhere")])
    assert missing.exit_code == 2
