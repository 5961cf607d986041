"""What every experiment leaves behind: numbers for programs, a table for people, and how they came about.

``results.json`` and ``results.csv`` depend on the settings only, so that equal settings give equal bytes; all that
differs from run to run (times, versions, the machine) is in ``manifest.json``.
"""

from __future__ import annotations

import csv
import json
import platform
import sys
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from hammemo.files.atomic import replacement, write_file

if TYPE_CHECKING:
    from pathlib import Path

_PACKAGES = ("hammemo", "numpy", "scipy", "scikit-learn")


def write_records(
    folder: Path, results: dict[str, Any], tables: dict[str, list[dict[str, Any]]], seconds: float
) -> None:
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
    manifest = {
        "settings": results["settings"],
        "seconds": round(seconds, 1),
        "python": sys.version.split()[0],
        "platform": platform.platform(),
        "packages": {name: version(name) for name in _PACKAGES},
    }
    _write_json(folder / "manifest.json", manifest)


def write_csv(path: Path, tables: dict[str, list[dict[str, Any]]]) -> None:
    """Write all tables into one file, with a column that names the table."""
    rows = [{"table": name, **row} for name, table in tables.items() for row in table]
    columns = list(dict.fromkeys(column for row in rows for column in row))
    with replacement(path) as temporary, open(temporary, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns, restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def _write_json(path: Path, value: dict[str, Any]) -> None:
    write_file(path, [(json.dumps(value, indent=2) + "\n").encode()])
