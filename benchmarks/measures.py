"""What benchmarks share.

These are turns, latencies, memory, runs that go on where they were stopped, and command lines.

Rows, averages and tables as text are those of :mod:`hammemo.paper.experiments.measuring`.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import time
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hammemo.engines.jobs import peak_memory
from hammemo.paper.experiments.measuring import Row, cell, ignore_progress, seconds, table

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


def after(
    on_progress: Callable[[int, int], None], before: int, total: int
) -> Callable[[int, int], None]:
    """Return what reports the progress of one part of a run after `before` other steps."""
    return lambda done, _: on_progress(before + done, total)


def thread_seconds(call: Callable[..., Any], *arguments: Any) -> float:
    """Return the seconds that this thread works.

    A call of microseconds feels nothing of what else the machine does.

    Where that clock is too coarse, as on Windows, the clock on the wall is read.
    """
    fine = time.get_clock_info("thread_time").resolution < 1e-6
    return seconds(call, *arguments, clock=time.thread_time if fine else time.perf_counter)


def in_turns(
    runs: Mapping[str, Callable[[], Any]],
    rounds: int,
    clock: Callable[[], float] = time.process_time,
    on_progress: Callable[[int, int], None] = ignore_progress,
) -> dict[str, list[float]]:
    """Return the seconds of each run in each round.

    All runs take turns, so that other work falls on all of them.
    """
    took: dict[str, list[float]] = {name: [] for name in runs}
    for done in range(rounds):
        for name, run in runs.items():
            took[name].append(seconds(run, clock=clock))
        on_progress(done + 1, rounds)
    return took


def rate(call: Callable[[], Any], size: int, least: float = 0.2) -> float:
    """Return how much is done in a processor second by calls that each do `size`.

    They are repeated for at least this many seconds.
    """
    started = time.process_time()
    calls = 0
    spent = 0.0
    while spent < least:
        call()
        calls += 1
        spent = time.process_time() - started
    return calls * size / spent


def latencies(samples: Sequence[float]) -> dict[str, float] | None:
    """Return the median, the 99th percentile and the longest of some seconds, in microseconds.

    Return None for no samples.
    """
    if not samples:
        return None
    return dict(
        zip(
            ("median", "p99", "longest"),
            (1e6 * np.percentile(samples, [50, 99, 100])).tolist(),
            strict=True,
        )
    )


def peak_mebibytes() -> float:
    """Return the most memory that this process has had."""
    return peak_memory() / 2**20


def show(results: Mapping[str, Any], *, as_json: bool) -> None:
    """Print results as JSON; or tables by their titles, and groups of figures line by line."""
    if as_json:
        print(json.dumps(results, indent=2, ensure_ascii=False))
        return
    for title, result in results.items():
        if isinstance(result, list):
            print("\n".join([f"{title}:", "", *table(result), ""]))
        elif isinstance(result, dict):
            print(
                "\n".join(
                    [title, *(f"  {name:55s} {cell(value):>12}" for name, value in result.items())]
                )
            )
        else:
            print(f"{title.replace('_', ' ')}: {cell(result)}")


@cache
def describe_run() -> dict[str, str]:
    """Return the commit that is measured, the date and the machine.

    The commit ends with "-dirty" if code has changed since.
    """
    root = Path(__file__).parents[1]

    def git(*arguments: str) -> str:
        try:
            return subprocess.run(
                ["git", *arguments], cwd=root, capture_output=True, text=True
            ).stdout.strip()
        except OSError:  # no git
            return ""

    dirty = (
        "-dirty"
        if git("status", "--porcelain", "--untracked-files=no", "--", "src", "benchmarks")
        else ""
    )
    cpu_file = Path("/proc/cpuinfo")
    lines = cpu_file.read_text(encoding="utf-8").splitlines() if cpu_file.exists() else []
    names = [line.partition(": ")[2] for line in lines if line.startswith("model name")]
    return {
        "commit": (git("rev-parse", "--short=8", "HEAD") or "unknown") + dirty,
        "date": datetime.now(UTC).date().isoformat(),
        "machine": f"{os.cpu_count()} processors, {names[0] if names else platform.machine()}",
    }


class JsonLines:
    """Rows in a file, one JSON object a line, so that a run that was stopped goes on where it was.

    A line also has `measured`, which rows do not.

    Parameters
    ----------
    *paths : Path or None
        Files to read; what is missing holds nothing. New rows are appended to the first of them, if
        there is one.
    """

    def __init__(self, *paths: Path | None) -> None:
        self.path = paths[0] if paths else None
        texts = [
            path.read_text(encoding="utf-8") for path in paths if path is not None and path.exists()
        ]
        lines = [json.loads(line) for text in texts for line in text.splitlines()]
        self.rows: list[Row] = [
            {name: row[name] for name in row if name != "measured"} for row in lines
        ]

    def find(self, **known: Any) -> Row | None:
        """Return the last row with these values."""
        matches = (
            row
            for row in reversed(self.rows)
            if all(row.get(name) == value for name, value in known.items())
        )
        return next(matches, None)

    def add(self, row: Row) -> Row:
        """Keep one more row."""
        self.rows.append(row)
        if self.path is not None:
            with self.path.open("a", encoding="utf-8") as file:
                print(json.dumps({**row, "measured": describe_run()}), file=file)
        return row


def options(
    page: str | None, *, data: str | None = None, as_json: str | None = None
) -> argparse.ArgumentParser:
    """Return a parser whose help is the docstring of a module.

    Parameters
    ----------
    page : str
    data, as_json : str, optional
        What the folder of ``--data``, which is then required, holds; and what ``--json`` prints.
    """
    parser = argparse.ArgumentParser(
        description=page, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    if data is not None:
        parser.add_argument(
            "--data", type=Path, required=True, metavar="FOLDER", help=f"folder with {data}"
        )
    if as_json is not None:
        parser.add_argument("--json", action="store_true", help=f"print {as_json} as JSON")
    return parser
