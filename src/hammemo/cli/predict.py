"""``hammemo predict``: one answer for each row or document."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hammemo.cli import options as opt
from hammemo.cli.answers import answer_writer
from hammemo.cli.console import counted, one_line_errors, progress_bar, say_where_from

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from hammemo.cli.answers import Answers
    from hammemo.sources.examples import Queries

Model = Annotated[Path, typer.Argument(metavar="MODEL", help="A model file.")]
Files = Annotated[
    list[str] | None,
    typer.Argument(metavar="FILE", help="Rows or documents to answer.", show_default="standard input"),
]
Out = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="Write the inputs and the answers: .csv, .tsv, .jsonl or .parquet (.txt: answers only)."
    ),
]


def predict_rows(
    model: Model,
    files: Files = None,
    out: Out = None,
    proba: Annotated[
        bool, typer.Option("--proba", help="Add the answer's probability (of a log-linear vote).")
    ] = False,
    certify: Annotated[
        bool, typer.Option("--certify", help="Add whether the answer is proven to be that of the exact classifier.")
    ] = False,
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
    """Print the most likely label of each row, or the most likely next token of each document: one answer a line."""

    def answer(model: Any, queries: Queries) -> Answers:
        predicted = model.predict(queries.X)
        answers: Answers = {"prediction": predicted.tolist()}
        if proba:
            answers["probability"] = _probabilities(model, queries)
        if certify:
            answers["proven"] = model.certify(queries.X).tolist()
        return answers

    given = {"columns": columns, "no_header": no_header, "delimiter": delimiter, "missing": missing}
    given |= {"tokens": tokens, "column": column, "case": case, "event": event}
    with one_line_errors():
        answer_files(model, files or ["-"], file_format, given, key_file, out, answer, as_json=as_json)


def _probabilities(model: Any, queries: Queries) -> list[float]:
    try:
        highest: list[float] = model.predict_proba(queries.X).max(axis=1).tolist()
    except AttributeError as error:
        raise ValueError(
            "The scores of this model's vote are no probabilities: fit with --vote log-linear, or use top-k --scores."
        ) from error
    return highest


def answer_files(
    path: Path,
    files: list[str],
    file_format: str | None,
    given: dict[str, Any],
    key_file: Path | None,
    out: Path | None,
    answer: Callable[[Any, Queries], Answers],
    *,
    as_json: bool,
) -> None:
    """Answer all that is in files, batch by batch, and write the answers."""
    from hammemo.cli.models import open_model

    opened = open_model(path, opt.read_key(key_file))
    schema = opt.overridden(opened.schema, **given)
    say_where_from(files)
    answered = 0
    with answer_writer(out, as_json=as_json) as write, progress_bar("Answering") as tell:
        batches: Iterable[Queries] = schema.queries(files, opened.h, file_format, whole=out is not None)
        for queries in batches:
            write(queries, answer(opened.model, queries))
            answered += len(queries.X)
            tell(answered, None)
        if not answered:
            raise ValueError("There is nothing to answer: the input has no row or document.")
    if out is not None:
        typer.echo(f"{counted(answered, 'answer')}. Written to {out}", err=as_json)
