"""What experiments and benchmarks share: times, memory, spreads over draws, tables as text, and runs that go on.

A row is a dictionary of plain numbers and strings, so that it can be printed, kept as JSON and averaged. Benchmarks,
which are outside the package, use this module too: ``options`` is their command line, `JsonLines` keeps what a run
that was stopped has measured, and `show` prints results.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from string import Formatter
from typing import TYPE_CHECKING, Any

import numpy as np

from hammemo.engines.jobs import peak_memory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

Row = dict[str, Any]


def unseen(done: int, total: int) -> None:
    """Take note of progress where nothing shows it."""


def after(on_progress: Callable[[int, int], None], before: int, total: int) -> Callable[[int, int], None]:
    """Return what tells the progress of one part of a longer run, of which `before` steps were done earlier."""
    return lambda done, _: on_progress(before + done, total)


# Times and memory


def seconds(call: Callable[..., Any], *arguments: Any, clock: Callable[[], float] = time.process_time) -> float:
    """Return what a call takes, in seconds of the processor unless another clock is given."""
    started = clock()
    call(*arguments)
    return clock() - started


def thread_seconds(call: Callable[..., Any], *arguments: Any) -> float:
    """Return the seconds that this thread works: a call of microseconds feels nothing of what else the machine does.

    Where that clock is too coarse, as on Windows, the clock on the wall is read.
    """
    fine = time.get_clock_info("thread_time").resolution < 1e-6
    return seconds(call, *arguments, clock=time.thread_time if fine else time.perf_counter)


def in_turns(
    runs: Mapping[str, Callable[[], Any]],
    rounds: int,
    clock: Callable[[], float] = time.process_time,
    on_progress: Callable[[int, int], None] = unseen,
) -> dict[str, list[float]]:
    """Return the seconds of each run in each round; all runs take turns, so that other work falls on all of them."""
    took: dict[str, list[float]] = {name: [] for name in runs}
    for done in range(rounds):
        for name, run in runs.items():
            took[name].append(seconds(run, clock=clock))
        on_progress(done + 1, rounds)
    return took


def rate(call: Callable[[], Any], size: int, least: float = 0.2) -> float:
    """Return what is done a processor second by calls that each do `size`, repeated for at least this many seconds."""
    started, calls, spent = time.process_time(), 0, 0.0
    while spent < least:
        call()
        calls += 1
        spent = time.process_time() - started
    return calls * size / spent


def latencies(taken: Sequence[float]) -> dict[str, float] | None:
    """Return the median, the 99th percentile and the longest of some seconds, in microseconds; None of nothing."""
    if not taken:
        return None
    return dict(zip(("median", "p99", "longest"), (1e6 * np.percentile(taken, [50, 99, 100])).tolist(), strict=True))


def peak_mebibytes() -> float:
    """Return the most memory that this process has had."""
    return peak_memory() / 2**20


# Rows


def averages(rows: Sequence[Mapping[str, Any]], names: Iterable[str]) -> Row:
    """Return mean and standard deviation (``…_sd``) of each measure; None where a measure or a second value is missing.

    Examples
    --------
    >>> from hammemo.paper.experiments.measuring import averages
    >>> averages([{"top1": 1.0, "proven": None}, {"top1": 3.0, "proven": None}], ["top1", "proven"])
    {'top1': 2.0, 'top1_sd': 1.4142135623730951, 'proven': None, 'proven_sd': None}
    """
    found: Row = {}
    for name in names:
        values = [row[name] for row in rows if row[name] is not None]
        found[name] = float(np.mean(values)) if values else None
        found[f"{name}_sd"] = float(np.std(values, ddof=1)) if len(values) > 1 else None
    return found


# Tables


class _CellFormatter(Formatter):
    """What `cells` formats with."""

    def get_value(self, key: Any, args: Any, kwargs: Any) -> Any:
        if isinstance(key, str) and key.endswith("±"):
            name = key.removesuffix("±")
            return None if kwargs[name] is None else (kwargs[name], kwargs[f"{name}_sd"])
        return super().get_value(key, args, kwargs)

    def format_field(self, value: Any, format_spec: str) -> str:
        how, _, missing = format_spec.partition("|")
        if value is None:
            return missing if "|" in format_spec else "none"
        if isinstance(value, bool):
            return how.split("/")[not value]
        if isinstance(value, tuple):
            return " ± ".join(format(part, how) for part in value if part is not None)
        return f"{float(format(value, '.2g')):,.0f}" if how == "~" else format(value, how)


def cells(template: str, row: Mapping[str, Any]) -> str:
    """Fill the values of a row into a template like those of `str.format`, with four additions.

    ``{top1±:.2f}`` is a mean and its deviation, ``top1_sd``; ``{rate:~}`` is rounded to two digits; ``{equal:yes/NO}``
    is for truth values; and what follows ``|`` stands where there is no value ("none" if nothing is said).

    Examples
    --------
    >>> from hammemo.paper.experiments.measuring import cells
    >>> row = {"top1": 2.0, "top1_sd": 1.414, "rate": 12345.6, "equal": True, "loss": None}
    >>> cells("{top1±:.2f} | {rate:~} | {equal:yes/NO} | {loss:.3f} | {loss:.3f|fit again}", row)
    '2.00 ± 1.41 | 12,000 | yes | none | fit again'
    """
    return _CellFormatter().vformat(template, (), row)


def cell(value: Any) -> str:
    """Return a value as it is shown where no template is given; values of a dictionary stand in one cell."""
    if isinstance(value, dict):
        return " / ".join(map(cell, value.values()))
    if value is None or isinstance(value, bool):
        return {None: "", True: "yes", False: "no"}[value]
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def heading(names: str) -> str:
    """Return the first two lines of a table whose columns are named in one string, ``a | b``."""
    return f"| {names} |\n" + "|---" * (names.count(" | ") + 1) + "|"


def table(rows: Iterable[Mapping[str, Any]], names: str | None = None, template: str | None = None) -> list[str]:
    r"""Return the lines of a table in Markdown: columns and cells as they are named, or all values of the rows.

    Examples
    --------
    >>> from hammemo.paper.experiments.measuring import table
    >>> table([{"model": "ours", "queries_a_second": 25_000.0, "loss": None}])
    ['| model | queries a second | loss |\n|---|---|---|', '| ours | 25,000 |  |']
    >>> table([{"model": "ours", "loss": None}], "model | loss (nats)", "{model} | {loss:.3f}")[1]
    '| ours | none |'
    """
    rows = list(rows)
    if names is None:
        names = " | ".join(rows[0]).replace("_", " ") if rows else ""
    shown = (" | ".join(map(cell, row.values())) if template is None else cells(template, row) for row in rows)
    return [heading(names), *(f"| {line} |" for line in shown)]


def show(results: Mapping[str, Any], *, as_json: bool) -> None:
    """Print results as JSON; or tables by their titles, and groups of figures line by line."""
    if as_json:
        print(json.dumps(results, indent=2, ensure_ascii=False))
        return
    for title, found in results.items():
        if isinstance(found, list):
            print("\n".join([f"{title}:", "", *table(found), ""]))
        elif isinstance(found, dict):
            print("\n".join([title, *(f"  {name:55s} {cell(value):>12}" for name, value in found.items())]))
        else:
            print(f"{title.replace('_', ' ')}: {cell(found)}")


# Commands outside the package


class JsonLines:
    """Rows in a file, one JSON object a line, so that a run that was stopped goes on where it was.

    Parameters
    ----------
    *paths : Path or None
        Files to read; what is missing holds nothing. New rows are appended to the first of them, if there is one.
    """

    def __init__(self, *paths: Path | None) -> None:
        self.path = paths[0] if paths else None
        texts = [path.read_text(encoding="utf-8") for path in paths if path is not None and path.exists()]
        self.rows: list[Row] = [json.loads(line) for text in texts for line in text.splitlines()]

    def find(self, **known: Any) -> Row | None:
        """Return the last row with these values."""
        found = (row for row in reversed(self.rows) if all(row.get(name) == value for name, value in known.items()))
        return next(found, None)

    def add(self, row: Row) -> Row:
        """Keep one more row."""
        self.rows.append(row)
        if self.path is not None:
            with self.path.open("a", encoding="utf-8") as file:
                print(json.dumps(row), file=file)
        return row


def options(page: str | None, *, data: str | None = None, as_json: str | None = None) -> argparse.ArgumentParser:
    """Return a parser whose help is the docstring of a module.

    Parameters
    ----------
    page : str
    data, as_json : str, optional
        What the folder of ``--data``, which is then required, holds; and what ``--json`` prints.
    """
    parser = argparse.ArgumentParser(description=page, formatter_class=argparse.RawDescriptionHelpFormatter)
    if data is not None:
        parser.add_argument("--data", type=Path, required=True, metavar="FOLDER", help=f"folder with {data}")
    if as_json is not None:
        parser.add_argument("--json", action="store_true", help=f"print {as_json} as JSON")
    return parser
