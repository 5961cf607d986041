"""``hammemo add`` and ``hammemo forget``: change what a model file has learnt."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from hammemo.cli import options as opt
from hammemo.cli.console import check_writable, counted, one_line_errors, say_where_from
from hammemo.cli.predict import Model  # noqa: TC001  (typer reads annotations at run time)

Files = Annotated[
    list[str] | None,
    typer.Argument(metavar="FILE", help="Examples: rows or documents.", show_default="standard input"),
]
Target = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Write the changed model here.", show_default="MODEL itself")
]


def add_files(
    model: Model,
    files: Files = None,
    out: Target = None,
    label: opt.Label = None,
    columns: opt.Columns = None,
    no_header: opt.NoHeader = False,
    delimiter: opt.Delimiter = None,
    missing: opt.Missing = None,
    file_format: opt.Format = None,
    tokens: opt.Tokens = None,
    column: opt.Column = None,
    case: opt.Case = None,
    event: opt.Event = None,
    key_file: opt.KeyFile = None,
    as_json: opt.AsJson = False,
) -> None:
    """Learn more examples; MODEL is replaced when all of them are learnt, or stays as it was."""
    given = {"label": label, "columns": columns, "no_header": no_header, "delimiter": delimiter, "missing": missing}
    given |= {"tokens": tokens, "column": column, "case": case, "event": event}
    with one_line_errors():
        _change(model, files or ["-"], file_format, given, key_file, out, "added", as_json=as_json)


def forget_files(
    model: Model,
    files: Files = None,
    out: Target = None,
    label: opt.Label = None,
    columns: opt.Columns = None,
    no_header: opt.NoHeader = False,
    delimiter: opt.Delimiter = None,
    missing: opt.Missing = None,
    file_format: opt.Format = None,
    tokens: opt.Tokens = None,
    column: opt.Column = None,
    case: opt.Case = None,
    event: opt.Event = None,
    key_file: opt.KeyFile = None,
    as_json: opt.AsJson = False,
) -> None:
    """Take examples back, as if they had never been learnt; what was never learnt is refused, and nothing changes.

    A model fitted with --ledger refuses every example it has not learnt; others refuse what they can tell.
    """
    given = {"label": label, "columns": columns, "no_header": no_header, "delimiter": delimiter, "missing": missing}
    given |= {"tokens": tokens, "column": column, "case": case, "event": event}
    with one_line_errors():
        _change(model, files or ["-"], file_format, given, key_file, out, "forgotten", as_json=as_json)


def _change(
    path: Path,
    files: list[str],
    file_format: str | None,
    given: dict[str, Any],
    key_file: Path | None,
    out: Path | None,
    verb: str,
    *,
    as_json: bool,
) -> None:
    from hammemo.cli.batches import example_count, forget_batches, learn_batches
    from hammemo.cli.models import open_model

    target = path if out is None else out
    opened = open_model(path, opt.read_key(key_file))
    learner = opened.learner(path)
    check_writable(target)
    schema = opt.overridden(opened.schema, **given)
    say_where_from(files)
    if verb == "added":
        changed = learn_batches(learner, schema, files, file_format)[1]["examples"]
    else:
        changed = forget_batches(learner, schema, files, file_format)
    opened.write(target)
    facts: dict[str, Any] = {
        verb: changed,
        "examples": example_count(learner),
        "labels": len(learner.classes_),
        "out": str(target),
    }
    if as_json:
        typer.echo(json.dumps(facts, indent=2))
        return
    typer.echo(
        f"{counted(changed, 'example')} {verb}; the model holds {counted(facts['examples'], 'example')} of "
        f"{counted(facts['labels'], 'label')}. Written to {target}"
    )
