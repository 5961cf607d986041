"""What ``hammemo bench`` and ``hammemo reproduce`` share: their options, their data and where results go."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias

import typer
from rich.console import Console

from hammemo.cli.console import UsageError, print_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hammemo.experiments.wikitext import Task

BenchData: TypeAlias = Annotated[
    Path | None,
    typer.Option(metavar="FOLDER", help="Folder with WikiText-2.", show_default="tokens drawn from a Zipf law"),
]
Rounds: TypeAlias = Annotated[int, typer.Option(min=1, help="Rounds; each runs every contender once.")]
AllAsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="Print everything as JSON.")]

WikiText: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER",
        help="Folder with wiki.train.tokens, .valid and .test.",
        show_default="the Hugging Face hub",
    ),
]
Draws: TypeAlias = Annotated[int | None, typer.Option(min=2, help="Draws of positions.", show_default="5")]
DataSeed: TypeAlias = Annotated[int, typer.Option(help="Seed of data and codes.")]
DrawSeed: TypeAlias = Annotated[int, typer.Option(help="Seed of the draws.")]
Jobs: TypeAlias = Annotated[int, typer.Option(min=1, help="Processes.", show_default="all cores")]
ResultsAsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="Print all results as JSON.")]

SEED: Final = 20270
RECORDS: Final = ("results.json", "results.csv", "manifest.json")
"""The files that every experiment writes."""

ALL_CORES: Final = os.cpu_count() or 1


def results_folder(holds: str) -> Any:
    """Return the option of the folder that an experiment writes its results to."""
    return typer.Option(metavar="FOLDER", help=f"Folder for {holds}.")


def check_quick(quick: bool, name: str, number: int | None) -> None:
    """Refuse a number of draws beside --quick, which has one of its own."""
    if quick and number is not None:
        raise UsageError(f"{name} {number} does not go with --quick, which has a number of its own: leave out one.")


@dataclass
class Results:
    """The folder of an experiment's results, made before any work is done; the clock starts then."""

    out: Path
    started: float = field(default_factory=time.perf_counter)

    def __post_init__(self) -> None:
        try:
            self.out.mkdir(parents=True, exist_ok=True)
            (self.out / "results.json").touch()
        except OSError as error:
            raise UsageError(
                f"--out {self.out} is not a folder to write to ({error.strerror}): name another one."
            ) from error

    def write(self, results: dict[str, Any], tables: Sequence[str], page: tuple[str, str] | None = None) -> None:
        """Write the results, the tables among them as CSV, and a page: its name and its text."""
        from hammemo.experiments.records import write_records

        named = {name: results[name] for name in tables}
        write_records(self.out, results, named, seconds=time.perf_counter() - self.started)
        if page is not None:
            name, text = page
            (self.out / name).write_text(text, encoding="utf-8")

    def say_written(self, *names: str) -> None:
        """Name the files that were written."""
        Console(stderr=True).print(f"Written to {self.out}: {', '.join(names)}")


def print_results(results: dict[str, Any], page: str, *, as_json: bool) -> None:
    """Print all results as JSON, or the page that tells them."""
    if as_json:
        print_json(results)
    else:
        typer.echo(page)


def wikitext_task(data: Path | None) -> Task:
    """Return the paper's task, from a folder or from the hub."""
    from hammemo.experiments import wikitext as experiment

    try:
        return experiment.build_task(experiment.read_hub() if data is None else experiment.read_folder(data))
    except FileNotFoundError as error:
        raise UsageError(f"--data: {error}") from error
