"""What experiments and benchmarks share: turns, averages, tables, and rows that a run goes on from."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pytest

from hammemo.paper.experiments.measuring import averages, cells, table
from measures import JsonLines, in_turns, latencies, options, rate, show

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.quick


def test_runs_take_turns() -> None:
    called: list[str] = []
    took = in_turns({name: lambda name=name: called.append(name) for name in "ab"}, 3)  # type: ignore[misc]
    assert "".join(called) == "ababab"
    assert [len(taken) for taken in took.values()] == [3, 3]
    assert rate(lambda: sum(range(1000)), 10, least=0.001) > 0


def test_latencies_are_percentiles_in_microseconds() -> None:
    found = latencies([1e-6 * i for i in range(101)])
    assert found == pytest.approx({"median": 50, "p99": 99, "longest": 100})
    assert latencies([]) is None


def test_averages_leave_out_what_is_missing() -> None:
    found = averages([{"a": 1.0, "b": None}, {"a": 4.0, "b": 2.0}], ["a", "b"])
    assert found == {"a": 2.5, "a_sd": pytest.approx(np.std([1, 4], ddof=1)), "b": 2.0, "b_sd": None}
    assert cells("{a±:.1f} {b±:.1f} {c:yes/no|} {d:.1f|-}", {**found, "c": False, "d": None}) == "2.5 ± 2.1 2.0 no -"


def test_tables_without_a_template_show_all_values(capsys: pytest.CaptureFixture[str]) -> None:
    row = {"name": "x", "is_equal": True, "n": 12_345, "micro": 0.01234, "both": {"median": 1.0, "p99": 250.0}}
    heading, line = table([row])
    assert heading.splitlines() == ["| name | is equal | n | micro | both |", "|---|---|---|---|---|"]
    assert line == "| x | yes | 12,345 | 0.0123 | 1 / 250 |"
    show({"rows": [row], "sizes": {"a": 1.5}, "labels": 3}, as_json=False)
    printed = capsys.readouterr().out
    assert line in printed
    assert printed.endswith("labels: 3\n")
    show({"rows": [row]}, as_json=True)
    assert json.loads(capsys.readouterr().out) == {"rows": [row]}


def test_a_run_goes_on_where_it_was_stopped(tmp_path: Path) -> None:
    path = tmp_path / "rows.json"
    JsonLines(path).add({"set": "car", "seed": 0})
    kept = JsonLines(path, None, tmp_path / "nowhere")
    assert kept.find(set="car", seed=0) == {"set": "car", "seed": 0}
    assert kept.find(set="car", seed=1) is None
    kept.add({"set": "car", "seed": 1})
    assert JsonLines(path).rows == kept.rows
    assert JsonLines(None).add({"set": "led7"}) == {"set": "led7"}


def test_the_options_of_a_benchmark() -> None:
    parser = options("What it does.", data="WikiText-2", as_json="everything")
    assert parser.parse_args(["--data", "here", "--json"]).json
    assert "folder with WikiText-2" in parser.format_help()
