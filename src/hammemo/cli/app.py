"""All commands of ``hammemo``; each has a module of its own beside this one.

Results go to standard output, everything else (progress, notes) to standard error, and a progress bar appears only on a
terminal. Exit codes: 0 success; 1 a claim that was to be checked does not hold, or the work failed; 2 wrong usage.
"""

from __future__ import annotations

from typing import Annotated

import typer

from hammemo import __version__
from hammemo.cli.commands import Commands
from hammemo.cli.compact import compact_folder
from hammemo.cli.complete import complete_text
from hammemo.cli.edit import add_files, forget_files
from hammemo.cli.evaluate import evaluate_files
from hammemo.cli.explain import explain_contexts
from hammemo.cli.inspect import inspect_file
from hammemo.cli.learn import fit_files
from hammemo.cli.merge import merge_models
from hammemo.cli.plan import plan_files
from hammemo.cli.predict import predict_rows
from hammemo.cli.refit import refit_model
from hammemo.cli.reproduce import reproduce
from hammemo.cli.serve import serve_folder
from hammemo.cli.tokens import tokens
from hammemo.cli.top_k import top_k_rows
from hammemo.cli.verify import verify_model

_ASK, _CHANGE = "Learn and ask", "Change and look into a model"
_SERVE, _REPRODUCE = "Serve", "Reproduce"

app = Commands(
    help="""One-pass, editable, mergeable classification of categorical sequences.

    To begin: hammemo fit table.csv --label COLUMN --out MODEL, then hammemo predict MODEL table.csv
    """
)
for _panel, _name, _function, _summary in (
    (_ASK, "plan", plan_files, "Say which memory fits a budget, before anything is learnt."),
    (_ASK, "fit", fit_files, "Learn a table or sequences and write a model file."),
    (_ASK, "evaluate", evaluate_files, "Say how good a model would be on what it has not learnt."),
    (_ASK, "predict", predict_rows, "Answer each row or document with the most likely label."),
    (_ASK, "top-k", top_k_rows, "Answer each row or document with the k most likely labels."),
    (_ASK, "explain", explain_contexts, "Show which tokens voted for which labels."),
    (_ASK, "complete", complete_text, "Go on where a prompt stops, as a memorised text does."),
    (_CHANGE, "add", add_files, "Learn more examples."),
    (_CHANGE, "forget", forget_files, "Take examples back, as if they had never been learnt."),
    (_CHANGE, "refit", refit_model, "Choose and fit again, by what the model keeps."),
    (_CHANGE, "merge", merge_models, "Add models, or take some away."),
    (_CHANGE, "compact", compact_folder, "Fold what was changed into the parts of a model."),
    (_CHANGE, "inspect", inspect_file, "Tell what a model file holds."),
    (_CHANGE, "verify", verify_model, "Make a model again from its rows, and compare."),
    (_SERVE, "serve", serve_folder, "Serve models over HTTP; no acknowledged edit is lost."),
):
    app.command(_name, short_help=_summary, rich_help_panel=_panel)(_function)
app.add_typer(tokens, name="tokens", rich_help_panel=_SERVE)
app.add_typer(reproduce, name="reproduce", rich_help_panel=_REPRODUCE)


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
