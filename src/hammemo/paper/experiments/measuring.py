"""What experiments share: times, spreads over draws, and tables as text.

A row is a dictionary of plain numbers and strings, so that it can be printed, kept as JSON and averaged.
"""

from __future__ import annotations

import time
from string import Formatter
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

Row = dict[str, Any]


def unseen(done: int, total: int) -> None:
    """Take note of progress where nothing shows it."""


# Times


def seconds(call: Callable[..., Any], *arguments: Any, clock: Callable[[], float] = time.process_time) -> float:
    """Return what a call takes, in seconds of the processor unless another clock is given."""
    started = clock()
    call(*arguments)
    return clock() - started


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
