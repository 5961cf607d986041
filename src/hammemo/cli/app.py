"""All commands of ``hammemo``; each has a module of its own beside this one.

Results go to standard output, everything else (progress, notes) to standard error, and a progress bar appears only on a
terminal. Exit codes: 0 success; 1 a claim that was to be checked does not hold, or the work failed; 2 wrong usage.
"""

from __future__ import annotations

from typing import Annotated

import typer

from hammemo import __version__
from hammemo.cli.bench import bench
from hammemo.cli.inspect import inspect_file
from hammemo.cli.learn import fit_files
from hammemo.cli.plan import plan_file
from hammemo.cli.reproduce import reproduce

app = typer.Typer(
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    help="One-pass, editable, mergeable classification of categorical sequences.",
)
app.command("fit")(fit_files)
app.command("inspect")(inspect_file)
app.command("plan")(plan_file)
app.add_typer(reproduce, name="reproduce")
app.add_typer(bench, name="bench")


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
