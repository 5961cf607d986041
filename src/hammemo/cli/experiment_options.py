"""What the commands of ``hammemo reproduce`` share: options, data, and where results go."""

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
    Path | None,
    option("FOLDER", "Folder with wiki.train.tokens and others.", "the Hugging Face hub"),
]
Draws: TypeAlias = Annotated[
    int | None, typer.Option(min=2, help="Draws of positions.", show_default="5")
]
DataSeed: TypeAlias = Annotated[int, typer.Option(help="Seed of data and codes.")]
Jobs: TypeAlias = Annotated[int, typer.Option(min=1, help="Processes.", show_default="all cores")]
ResultsAsJson: TypeAlias = Annotated[bool, flag("--json", "Print all results as JSON.")]

SEED: Final = 20270
ALL_CORES: Final = os.cpu_count() or 1


def results_folder(contents: str) -> Any:
    """Return the option of the folder that an experiment writes its results to."""
    return typer.Option(metavar="FOLDER", help=f"Folder for {contents}.")


def choose_settings(
    settings: type[Any], seed: int, name: str, n_draws: int | None, *, quick: bool
) -> Any:
    """Return an experiment's settings: those of a first look, or with a number of draws.

    `name` is the option that sets the number.
    """
    if quick and n_draws is not None:
        raise UsageError(
            f"{name} {n_draws} does not go with --quick, which sets another number: leave out one "
            "of them."
        )
    if quick:
        return settings.quick(seed)
    if n_draws is None:
        return settings(seed)
    return settings(seed, n_draws)


def say_expected(seconds: float, jobs: int = 1) -> None:
    """Say on standard error how long an experiment will take on this machine."""
    from hammemo.paper.experiments.expected import format_duration

    with_jobs = ""
    if jobs != 1:
        with_jobs = f" with {jobs} processes"
    Console(stderr=True).print(
        f"This takes {format_duration(seconds)} here{with_jobs}, if no other program needs the "
        "cores."
    )


def say_expected_by_probe(
    name: str, *, quick: bool = False, share: float = 1.0, jobs: int = 1
) -> None:
    """Say how long a command will take on this machine, from what it took on another.

    `share` is how many of its draws are made.
    """
    from hammemo.paper.experiments.expected import by_probe

    if quick:
        name = f"{name}, quick"
    say_expected(by_probe(name, share, jobs), jobs)


@dataclass
class ResultsFolder:
    """The folder of an experiment's results, made before any work; the clock starts then."""

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
                f"--out {self.out} is not a folder to write to ({error.strerror}): name another "
                "one."
            ) from error

    def write(
        self, results: dict[str, Any], tables: Sequence[str], *others: str, pages: dict[str, str]
    ) -> None:
        """Write results, some of them as tables in CSV, and pages by their names.

        Then say what was written; `others` are files that were written before.
        """
        from hammemo.paper.experiments.measuring import write_records

        if self.out is None:
            return
        results_by_table = {name: results[name] for name in tables}
        seconds = time.perf_counter() - self.started
        write_records(self.out, results, results_by_table, seconds=seconds)
        for name, text in pages.items():
            (self.out / name).write_text(text, encoding="utf-8")
        files = [*pages, "results.json", "results.csv", "manifest.json", *others]
        Console(stderr=True).print(f"Written to {self.out}: {', '.join(files)}")


@contextmanager
def data_option() -> Iterator[None]:
    """Say of files that are missing that ``--data`` should have named them."""
    try:
        yield
    except FileNotFoundError as error:
        raise UsageError(f"--data: {error}") from error


def build_wikitext_task(data: Path | None) -> Task:
    """Build the paper's task, from a folder or from the hub."""
    from hammemo.paper.experiments import wikitext as experiment

    with data_option():
        if data is None:
            return experiment.build_task(experiment.read_hub())
        return experiment.build_task(experiment.read_folder(data))
