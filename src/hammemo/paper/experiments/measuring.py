"""What experiments share: times, tables as text, random draws, tasks on several cores, and records.

A row is a dictionary of plain numbers and strings, so that it can be printed, kept as JSON and
averaged. A generator depends on a seed and a purpose only, so that no draw depends on another.

Every experiment writes ``results.json`` and ``results.csv``, which depend on the settings only:
equal settings give equal bytes. All that differs from run to run (times, versions, the machine) is
in ``manifest.json``.
"""

from __future__ import annotations

import csv
import json
import platform
import sys
import time
from importlib.metadata import version
from string import Formatter
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np
from joblib import Parallel, delayed
from threadpoolctl import threadpool_limits

from hammemo.files.atomic import replacement, write_file
from hammemo.tokens.hashing import key_words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from hammemo._arrays.types import Ints

Row = dict[str, Any]
OnProgress: TypeAlias = "Callable[[int, int], None]"
"""Called with (tasks done, tasks)."""


def ignore_progress(done: int, total: int) -> None:
    """Do nothing: progress where nothing shows it."""


# Times


def seconds(
    call: Callable[..., Any], *arguments: Any, clock: Callable[[], float] = time.process_time
) -> float:
    """Return what a call takes, in seconds of the processor unless another clock is given."""
    started = clock()
    call(*arguments)
    return clock() - started


# Rows


def averages(rows: Sequence[Mapping[str, Any]], names: Iterable[str]) -> Row:
    """Return mean and standard deviation (``…_sd``) of each measure.

    They are None where a measure or a second value is missing.

    Examples
    --------
    >>> from hammemo.paper.experiments.measuring import averages
    >>> averages([{"top1": 1.0, "proven": None}, {"top1": 3.0, "proven": None}], ["top1", "proven"])
    {'top1': 2.0, 'top1_sd': 1.4142135623730951, 'proven': None, 'proven_sd': None}
    """
    means: Row = {}
    for name in names:
        values = [row[name] for row in rows if row[name] is not None]
        means[name] = None
        means[f"{name}_sd"] = None
        if values:
            means[name] = float(np.mean(values))
        if len(values) > 1:
            means[f"{name}_sd"] = float(np.std(values, ddof=1))
    return means


# Tables


class _CellFormatter(Formatter):
    """What `cells` formats with."""

    def get_value(self, key: Any, args: Any, kwargs: Any) -> Any:
        if isinstance(key, str) and key.endswith("±"):
            name = key.removesuffix("±")
            if kwargs[name] is None:
                return None
            return kwargs[name], kwargs[f"{name}_sd"]
        return super().get_value(key, args, kwargs)

    def format_field(self, value: Any, format_spec: str) -> str:
        style, _, missing = format_spec.partition("|")
        if value is None:
            return missing if "|" in format_spec else "none"
        if isinstance(value, bool):
            yes, no = style.split("/")
            return yes if value else no
        if isinstance(value, tuple):  # a mean and its deviation, which may be missing
            return " ± ".join(format(number, style) for number in value if number is not None)
        if style == "~":
            two_digits = float(format(value, ".2g"))
            return f"{two_digits:,.0f}"
        return format(value, style)


def cells(template: str, row: Mapping[str, Any]) -> str:
    """Fill the values of a row into a template like those of `str.format`, with four additions.

    ``{top1±:.2f}`` is a mean and its deviation, ``top1_sd``; ``{rate:~}`` is rounded to two digits;
    ``{equal:yes/NO}`` is for truth values; and what follows ``|`` stands where there is no value
    ("none" if nothing is said).

    Examples
    --------
    >>> from hammemo.paper.experiments.measuring import cells
    >>> row = {"top1": 2.0, "top1_sd": 1.414, "rate": 12345.6, "equal": True, "loss": None}
    >>> cells("{top1±:.2f} | {rate:~} | {equal:yes/NO} | {loss:.3f} | {loss:.3f|fit again}", row)
    '2.00 ± 1.41 | 12,000 | yes | none | fit again'
    """
    return _CellFormatter().vformat(template, (), row)


def cell(value: Any) -> str:
    """Return the text of a value without a template; a dictionary fills one cell."""
    if isinstance(value, dict):
        return " / ".join(map(cell, value.values()))
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
    if isinstance(value, int):
        return f"{value:,}"
    return str(value)


def heading(names: str) -> str:
    """Return the first two lines of a table whose columns are named in one string, ``a | b``."""
    return f"| {names} |\n" + "|---" * (names.count(" | ") + 1) + "|"


def table(
    rows: Iterable[Mapping[str, Any]], names: str | None = None, template: str | None = None
) -> list[str]:
    r"""Return the lines of a table in Markdown, of the columns named or of all values of the rows.

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
    if template is None:
        texts = [" | ".join(map(cell, row.values())) for row in rows]
    else:
        texts = [cells(template, row) for row in rows]
    return [heading(names), *(f"| {text} |" for text in texts)]


Result = TypeVar("Result")


def generator(seed: int, *purpose: int | str) -> np.random.Generator:
    """Return a generator of the seed and the purpose only: no draw depends on another."""
    return np.random.Generator(np.random.Philox(key=np.array(key_words(seed, *purpose), np.uint64)))


def zipf_stream(length: int, n_tokens: int, seed: int = 0) -> Ints:
    """Return tokens with the frequencies of text: those of token i fall as 1 / (i + 1)."""
    shares = np.cumsum(1.0 / np.arange(1, n_tokens + 1))
    rng = np.random.default_rng(seed)
    sizes = [min(2**20, length - first) for first in range(0, length, 2**20)]
    return np.concatenate(
        [np.searchsorted(shares, rng.random(size) * shares[-1]) for size in sizes]
    )


def zipf_examples(
    n: int, n_labels: int = 64, *, n_tokens: int = 33_278, h: int = 8, seed: int = 0
) -> tuple[Ints, Ints]:
    """Return contexts and labels with frequencies of 1 / rank, where no text is at hand.

    Shapes
    ------
    returned : (n, h), (n,)
    """
    return zipf_stream(n * h, n_tokens, seed).reshape(n, h), zipf_stream(n, n_labels, seed + 1)


def in_parallel(
    function: Callable[..., Result],
    tasks: Sequence[tuple[Any, ...]],
    jobs: int,
    on_progress: OnProgress = ignore_progress,
) -> Iterator[Result]:
    """Yield ``function(*task)`` for each task, in order, computed in `jobs` processes.

    `on_progress` is called with how many tasks are done, and of how many. The results do not
    depend on `jobs`.
    """
    parallel = Parallel(n_jobs=jobs, return_as="generator")
    outcomes = parallel(delayed(_call_with_one_thread)(function, task) for task in tasks)
    for done, outcome in enumerate(outcomes, 1):
        on_progress(done, len(tasks))
        yield outcome


def _call_with_one_thread(function: Callable[..., Result], task: tuple[Any, ...]) -> Result:
    # One thread per process: the cores are shared out already, and sums keep their order.
    with threadpool_limits(1):
        return function(*task)


def write_records(folder: Path, results: Row, tables: dict[str, list[Row]], seconds: float) -> None:
    """Write the results, their tables in long form, and a manifest.

    Parameters
    ----------
    folder : Path
        An existing folder.
    results : dict
        Everything, as plain numbers; its "settings" go into the manifest too.
    tables : dict
        Rows by the name of their table.
    seconds : float
        How long the run took.
    """
    _write_json(folder / "results.json", results)
    write_csv(folder / "results.csv", tables)
    packages = ("hammemo", "numpy", "scipy", "scikit-learn")
    manifest = {
        "settings": results["settings"],
        "seconds": round(seconds, 1),
        "python": sys.version.split()[0],
        "platform": platform.platform(),
        "packages": {name: version(name) for name in packages},
    }
    _write_json(folder / "manifest.json", manifest)


def write_csv(path: Path, tables: dict[str, list[Row]]) -> None:
    """Write all tables into one file, with a column that names the table."""
    rows = [{"table": name, **row} for name, table in tables.items() for row in table]
    columns = list(dict.fromkeys(column for row in rows for column in row))
    with replacement(path) as temporary, open(temporary, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns, restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def _write_json(path: Path, value: Row) -> None:
    write_file(path, [(json.dumps(value, indent=2) + "\n").encode()])
