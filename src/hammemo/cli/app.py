"""All commands of ``hammemo``; each has a module of its own beside this one.

Results go to standard output, everything else (progress, notes) to standard error, and a progress bar appears only on a
terminal. Exit codes: 0 success; 1 a claim that was to be checked does not hold, or the work failed; 2 wrong usage.
"""

from __future__ import annotations

from typing import Annotated

import typer

from hammemo import __version__
from hammemo.cli.bench import bench
from hammemo.cli.commands import Commands
from hammemo.cli.complete import complete_text
from hammemo.cli.edit import add_files, forget_files
from hammemo.cli.explain import explain_contexts
from hammemo.cli.inspect import inspect_file
from hammemo.cli.learn import fit_files
from hammemo.cli.merge import merge_models
from hammemo.cli.predict import predict_rows
from hammemo.cli.reproduce import reproduce
from hammemo.cli.top_k import top_k_rows

app = Commands(help="One-pass, editable, mergeable classification of categorical sequences.")
app.command("fit")(fit_files)
app.command("predict")(predict_rows)
app.command("top-k")(top_k_rows)
app.command("add")(add_files)
app.command("forget")(forget_files)
app.command("merge")(merge_models)
app.command("complete")(complete_text)
app.command("inspect")(inspect_file)
app.command("explain")(explain_contexts)
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
