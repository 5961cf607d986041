"""What the commands of ``hammemo reproduce`` share: their options, their data and where results go."""

from __future__ import annotations

import os
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias

import typer
from rich.console import Console

from hammemo.cli.console import UsageError
from hammemo.cli.options import flag, option

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hammemo.paper.experiments.wikitext import Task

WikiText: TypeAlias = Annotated[
    Path | None, option("FOLDER", "Folder with wiki.train.tokens and others.", "the Hugging Face hub")
]
Draws: TypeAlias = Annotated[int | None, typer.Option(min=2, help="Draws of positions.", show_default="5")]
DataSeed: TypeAlias = Annotated[int, typer.Option(help="Seed of data and codes.")]
Jobs: TypeAlias = Annotated[int, typer.Option(min=1, help="Processes.", show_default="all cores")]
ResultsAsJson: TypeAlias = Annotated[bool, flag("--json", "Print all results as JSON.")]

SEED: Final = 20270
ALL_CORES: Final = os.cpu_count() or 1


def results_folder(holds: str) -> Any:
    """Return the option of the folder that an experiment writes its results to."""
    return typer.Option(metavar="FOLDER", help=f"Folder for {holds}.")


def settings(kind: type[Any], seed: int, name: str, number: int | None, *, quick: bool) -> Any:
    """Return an experiment's settings: those of a first look, or those with this number of draws."""
    if quick and number is not None:
        raise UsageError(f"{name} {number} does not go with --quick, which sets another number: leave out one of them.")
    if quick:
        return kind.quick(seed)
    return kind(seed) if number is None else kind(seed, number)


def say_expected(expected: float, jobs: int = 1) -> None:
    """Say on standard error how long an experiment will take here."""
    from hammemo.paper.experiments.expected import format_duration

    how = "" if jobs == 1 else f" with {jobs} processes"
    Console(stderr=True).print(
        f"This takes {format_duration(expected)} here{how}, if no other program needs the cores."
    )


def say_measured(name: str, *, quick: bool = False, share: float = 1.0, jobs: int = 1) -> None:
    """Say how long a command will take here, from what it took once; `share` is how much of its draws is made."""
    from hammemo.paper.experiments.expected import by_probe

    say_expected(by_probe(f"{name}, quick" if quick else name, share, jobs), jobs)


@dataclass
class ResultsFolder:
    """The folder of an experiment's results, made before any work is done; the clock starts then."""

    out: Path | None
    started: float = field(default_factory=time.perf_counter)

    def __post_init__(self) -> None:
        if self.out is None:
            return
        try:
            self.out.mkdir(parents=True, exist_ok=True)
            (self.out / "results.json").touch()
        except OSError as error:
            raise UsageError(
                f"--out {self.out} is not a folder to write to ({error.strerror}): name another one."
            ) from error

    def write(self, results: dict[str, Any], tables: Sequence[str], *written: str, pages: dict[str, str]) -> None:
        """Write results, some of them as tables in CSV, and pages by their names; say so, and what else was written."""
        from hammemo.paper.experiments.measuring import write_records

        if self.out is None:
            return
        named = {name: results[name] for name in tables}
        write_records(self.out, results, named, seconds=time.perf_counter() - self.started)
        for name, text in pages.items():
            (self.out / name).write_text(text, encoding="utf-8")
        files = [*pages, "results.json", "results.csv", "manifest.json", *written]
        Console(stderr=True).print(f"Written to {self.out}: {', '.join(files)}")


@contextmanager
def data_option() -> Iterator[None]:
    """Say of files that are missing that ``--data`` should have named them."""
    try:
        yield
    except FileNotFoundError as error:
        raise UsageError(f"--data: {error}") from error


def wikitext_task(data: Path | None) -> Task:
    """Return the paper's task, from a folder or from the hub."""
    from hammemo.paper.experiments import wikitext as experiment

    with data_option():
        return experiment.build_task(experiment.read_hub() if data is None else experiment.read_folder(data))
