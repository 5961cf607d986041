"""What all commands share: progress bars, tables, errors in one line, checks of where results go."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from hammemo.experiments.wikitext import Task


@contextmanager
def progress_bar(title: str) -> Iterator[Callable[[int, int], None]]:
    """Yield a function that is told (done, total) and draws a bar, on a terminal only."""
    console = Console(stderr=True)
    columns = (TextColumn(title), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task(title, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


@contextmanager
def one_line_errors() -> Iterator[None]:
    """Say what is wrong with files, parameters or extras in one line."""
    try:
        yield
    except (ValueError, TypeError, OSError, RuntimeError, ModuleNotFoundError) as error:
        Console(stderr=True, soft_wrap=True).print(f"Error: {' '.join(str(error).split())}", markup=False)
        raise typer.Exit(1) from error


def check_writable(out: Path, option: str = "--out") -> None:
    """Refuse a file that cannot be written before any work is done; one that is there is not touched."""
    if out.is_dir() or not os.access(out if out.exists() else out.parent, os.W_OK):
        raise ValueError(f"{option} {out} cannot be written: name a file in a folder that exists.")


def prepare_folder(out: Path) -> None:
    """Make the folder and try to write there, before any work is done."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        (out / "results.json").touch()
    except OSError as error:
        raise typer.BadParameter(f"{out} is no folder to write to ({error.strerror}).", param_hint="--out") from error


def wikitext_task(data: Path | None) -> Task:
    """Return the paper's task, from a folder or from the hub."""
    from hammemo.experiments import wikitext as experiment

    try:
        return experiment.build_task(experiment.read_hub() if data is None else experiment.read_folder(data))
    except FileNotFoundError as error:
        raise typer.BadParameter(str(error), param_hint="--data") from error


def console() -> Console:
    """Return a console for results: as wide as the terminal, or wide enough for a file."""
    return Console(width=None if sys.stdout.isatty() else 160)
