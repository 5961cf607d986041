"""All commands of ``hammemo``; each has a module of its own beside this one.

Results go to standard output, everything else (progress, notes) to standard error, and a progress
bar appears only on a terminal. Exit codes: 0 success; 1 a claim that was to be checked does not
hold, or the work failed; 2 wrong usage.
"""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import Annotated, NoReturn

import typer

from hammemo import __version__
from hammemo.cli.commands import Commands
from hammemo.cli.compact import compact_folder
from hammemo.cli.console import print_error
from hammemo.cli.demo import run_demo
from hammemo.cli.edit import add_files, forget_files
from hammemo.cli.evaluate import evaluate_files
from hammemo.cli.explain import explain_contexts
from hammemo.cli.follow import follow_table
from hammemo.cli.inspect import inspect_file
from hammemo.cli.keys import keys
from hammemo.cli.learn import fit_files
from hammemo.cli.merge import merge_models
from hammemo.cli.plan import plan_files
from hammemo.cli.predict import predict_rows, top_k_rows
from hammemo.cli.refit import refit_model
from hammemo.cli.reproduce import reproduce
from hammemo.cli.sync import sync_table
from hammemo.cli.verify import verify_model

_FIRST = "Begin here"
_MORE = "More"
_SERVE = "Serve"
_REPRODUCE = "Reproduce"

_SERVER_COMMANDS = ("serve", "send", "erase", "audit", "backup", "restore", "tokens")
"""Commands that the package hammemo-server adds by an entry point."""


def _say_server_is_missing(context: typer.Context) -> NoReturn:
    print_error(
        f"hammemo {context.info_name} is a command of the server: pip install 'hammemo[serve]'"
    )
    raise typer.Exit(1)


app = Commands()
for _panel, _name, _function, _summary in (
    (_FIRST, "demo", run_demo, "Follow a table, delete a person and prove it, in one minute."),
    (_FIRST, "fit", fit_files, "Fit a model to a table or sequences."),
    (_FIRST, "evaluate", evaluate_files, "Measure the accuracy of a model on held-out data."),
    (_FIRST, "predict", predict_rows, "Print the most likely label of each row or document."),
    (_FIRST, "explain", explain_contexts, "Show how much each token adds to each label's score."),
    (_FIRST, "inspect", inspect_file, "Show the contents of a model file."),
    (_FIRST, "sync", sync_table, "Make a model hold just the rows of a table."),
    (_FIRST, "forget", forget_files, "Remove examples, as if they had never been learnt."),
    (_FIRST, "refit", refit_model, "Choose sites and fit weights again from the kept rows."),
    (_FIRST, "verify", verify_model, "Compare a model with a new fit, and check receipts."),
    (_MORE, "top-k", top_k_rows, "Print the k most likely labels of each row or document."),
    (_MORE, "add", add_files, "Learn more examples."),
    (_MORE, "follow", follow_table, "Keep a model equal to a table of PostgreSQL."),
    (_MORE, "merge", merge_models, "Add models, or subtract some."),
    (_MORE, "plan", plan_files, "Predict which memory fits a budget, before fitting."),
    (_MORE, "compact", compact_folder, "Write changes into the segments of a model folder."),
):
    app.command(_name, short_help=_summary, rich_help_panel=_panel)(_function)
app.add_typer(keys, name="keys", rich_help_panel=_MORE)
app.add_typer(reproduce, name="reproduce", rich_help_panel=_REPRODUCE)
_entry_points = entry_points(group="hammemo.commands")
for _entry_point in _entry_points:
    _entry_point.load()(app, _SERVE)
if not _entry_points:
    # Without the server, its commands say how to install it, with any options.
    _any_options = {"allow_extra_args": True, "ignore_unknown_options": True}
    for _name in _SERVER_COMMANDS:
        _declare = app.command(
            _name, hidden=True, add_help_option=False, context_settings=_any_options
        )
        _declare(_say_server_is_missing)


def _print_version(is_set: bool) -> None:
    if is_set:
        typer.echo(__version__)
        raise typer.Exit


_HELP = (
    "Models you can edit like a table: rows arrive, change and go, and a refit gives the model of "
    "the rows that are there.\n\nTo begin: hammemo fit table.csv --label COLUMN --out MODEL, then "
    "hammemo predict MODEL table.csv"
)


@app.callback(help=_HELP)
def _root(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and stop."
        ),
    ] = False,
) -> None:
    """Take the options that stand before a command."""
