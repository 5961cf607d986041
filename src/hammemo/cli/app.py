"""All commands of ``hammemo``.

Results go to standard output, everything else (progress, notes) to standard error, and a progress bar appears only on a
terminal. Exit codes: 0 success; 1 a claim that was to be checked does not hold, or the work failed; 2 wrong usage.
"""

from __future__ import annotations

import json
import os
import sys
import time
from contextlib import contextmanager
from pathlib import Path  # noqa: TC003  (typer reads annotations at run time)
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from hammemo import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hammemo.experiments.synthetic import Claim

app = typer.Typer(
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    help="One-pass, editable, mergeable classification of categorical sequences.",
)
reproduce = typer.Typer(no_args_is_help=True, help="Regenerate the paper's experiments: tables, figures, numbers.")
app.add_typer(reproduce, name="reproduce")


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    pass


@contextmanager
def progress_bar(title: str) -> Iterator[Callable[[int, int], None]]:
    """Yield a function that is told (done, total) and draws a bar, on a terminal only."""
    console = Console(stderr=True)
    columns = (TextColumn(title), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task(title, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


@reproduce.command()
def synthetic(
    out: Annotated[Path, typer.Option(help="Folder for results.json, results.csv, manifest.json and the figure.")],
    quick: Annotated[
        bool, typer.Option("--quick", help="20 realisations, d up to 1024: seconds, for a first look.")
    ] = False,
    realisations: Annotated[int, typer.Option(min=2, help="Draws of the codes per point; the paper has 160.")] = 160,
    seed: Annotated[int, typer.Option(help="Seed of data and codes.")] = 20270,
    jobs: Annotated[int, typer.Option(min=1, help="Processes.", show_default="all cores")] = os.cpu_count() or 1,
    check: Annotated[
        bool, typer.Option("--check", help="Exit with 1 if one of the paper's claims does not hold.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the claims as JSON.")] = False,
) -> None:
    """Validate the analysis on planted data: context error, output error, recovery (three panels)."""
    from hammemo.experiments import synthetic as experiment
    from hammemo.experiments.figures import require_matplotlib, synthetic_figure
    from hammemo.experiments.records import write_records

    require_matplotlib()
    out.mkdir(parents=True, exist_ok=True)
    settings = experiment.Settings.quick(seed) if quick else experiment.Settings(seed, realisations)
    started = time.perf_counter()
    with progress_bar("Drawing codes") as on_progress:
        points = experiment.run(settings, jobs, on_progress)
    results = experiment.summary(settings, points)
    tables = {name: results[name] for name in ("context_error", "output_error", "agreement")}
    write_records(out, results, tables, seconds=time.perf_counter() - started)
    synthetic_figure(results, out)
    _report_claims(experiment.claims(results), as_json=as_json)
    Console(stderr=True).print(
        f"Written to {out}: results.json, results.csv, manifest.json, synthetic.png, synthetic.svg"
    )
    if check and not all(claim.holds for claim in experiment.claims(results)):
        raise typer.Exit(1)


@reproduce.command()
def bounds(
    out: Annotated[Path, typer.Option(help="Folder for results.json, results.csv, manifest.json and bounds.md.")],
    quick: Annotated[bool, typer.Option("--quick", help="A few draws only, for a first look.")] = False,
    draws: Annotated[int, typer.Option(min=1, help="Draws of the codes per data set.")] = 2000,
    seed: Annotated[int, typer.Option(help="Seed of data and codes.")] = 20270,
    jobs: Annotated[int, typer.Option(min=1, help="Processes.", show_default="all cores")] = os.cpu_count() or 1,
) -> None:
    """Hold every bound of the theory against independent draws: violations, and how loose it is."""
    from hammemo.experiments import bounds as experiment
    from hammemo.experiments.records import write_records

    out.mkdir(parents=True, exist_ok=True)
    settings = experiment.Settings(seed, experiment.QUICK_DRAWS if quick else draws)
    started = time.perf_counter()
    with progress_bar("Drawing codes") as on_progress:
        rows = experiment.run(settings, jobs, on_progress)
    results = experiment.summary(settings, rows)
    write_records(out, results, {"bounds": rows}, seconds=time.perf_counter() - started)
    (out / "bounds.md").write_text(experiment.markdown(rows), encoding="utf-8")
    typer.echo("Bound divided by the realised error, median over draws (violations in brackets):\n")
    typer.echo(experiment.markdown(rows))


def _report_claims(claims: list[Claim], *, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps([vars(claim) for claim in claims], indent=2))
        return
    table = Table("claim", "figures", "holds")
    for claim in claims:
        table.add_row(claim.text, claim.figures, "yes" if claim.holds else "[bold red]no[/]")
    Console(width=None if sys.stdout.isatty() else 160).print(table)
