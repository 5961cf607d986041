"""CSV files from packages of PyPI, read by the command as they are.

Compared is the model with that of the clean frame.

    pip install palmerpenguins vega_datasets
    python -m benchmarks.wheel_files

Penguins have ``NA`` in columns of measurements; the weather in Seattle has dates with slashes,
stocks have names of months. A clean frame is what a careful user makes of the file in pandas:
missing values are NaN and dates are dates; ``NA`` in a column of names stays a name. Prints whether
both models have one digest, and the accuracy and log-loss that ``hammemo evaluate`` measures.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pandas as pd
from typer.testing import CliRunner

from hammemo import MemoryClassifier, load
from hammemo.cli.app import app


@dataclass(frozen=True)
class WheelFile:
    """A file of a package, and what a careful user knows of it.

    Parameters
    ----------
    package, path : str
    label : str
    numbers : tuple of str
        Columns of numbers with ``NA``.
    dates : dict
        Columns of dates with their formats.
    """

    package: str
    path: str
    label: str
    numbers: tuple[str, ...]
    dates: dict[str, str]

    @property
    def file(self) -> Path:
        """The file, or a sentence that says how to get it."""
        spec = find_spec(self.package)
        if spec is None or not spec.submodule_search_locations:
            raise SystemExit(f"{self.package} is not installed: pip install {self.package}")
        return Path(spec.submodule_search_locations[0]) / self.path

    def read(self) -> tuple[pd.DataFrame, pd.Series]:
        """Return the clean frame and its labels."""
        frame = pd.read_csv(self.file, keep_default_na=False)
        for name in self.numbers:
            frame[name] = pd.to_numeric(frame[name].replace("NA", None))
        for name, written in self.dates.items():
            frame[name] = pd.to_datetime(frame[name], format=written)
        return frame.drop(columns=self.label), frame[self.label]


MEASUREMENTS = ("bill_length_mm", "bill_depth_mm", "flipper_length_mm", "body_mass_g")
FILES = (
    WheelFile(
        "palmerpenguins", "data/penguins.csv", label="species", numbers=MEASUREMENTS, dates={}
    ),
    WheelFile(
        "vega_datasets",
        "_data/seattle-weather.csv",
        label="weather",
        numbers=(),
        dates={"date": "%Y/%m/%d"},
    ),
    WheelFile(
        "vega_datasets",
        "_data/stocks.csv",
        label="symbol",
        numbers=(),
        dates={"date": "%b %d %Y"},
    ),
)


def run(*arguments: Any) -> Any:
    """Run a command and return its result, or end with what it says."""
    result = CliRunner().invoke(app, [*map(str, arguments)])
    if result.exit_code:
        raise SystemExit(result.output)
    return result


def has_one_digest(table: WheelFile) -> bool:
    """Return whether the command's model of the file is the model of the clean frame."""
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder, "model")
        run("fit", table.file, "--label", table.label, "--out", model)
        return bool(load(model).digest() == MemoryClassifier().fit(*table.read()).digest())


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.parse_args()
    print("| file | the model of the clean frame | accuracy | log-loss |\n|---|---|---|---|")
    for table in FILES:
        measured = run("evaluate", table.file, "--label", table.label, "--json").stdout
        ours = json.loads(measured)["learners"]["this model"]
        same = "yes" if has_one_digest(table) else "NO"
        print(
            f"| {table.file.name} | {same} | {ours['accuracy']:.3f} | {ours['log_loss']:.3f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
