"""``hammemo predict``: one answer for each row or document."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hammemo.cli import options as opt
from hammemo.cli.answers import answer_writer
from hammemo.cli.console import counted, one_line_errors, progress_bar, say_where_from
from hammemo.cli.input_options import InputOptions  # noqa: TC001  (typer reads annotations at run time)
from hammemo.sources.formats import STANDARD_INPUT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import numpy as np
    from numpy.typing import NDArray

    from hammemo.cli.answers import Answers
    from hammemo.sources.examples import Queries

Files = Annotated[
    list[str] | None,
    typer.Argument(metavar="FILE", help="Rows or documents to predict.", show_default="standard input"),
]
Out = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="Write the inputs and the answers: .csv, .tsv, .jsonl or .parquet (.txt: answers only)."
    ),
]


def predict_rows(
    model: opt.Model,
    files: Files = None,
    out: Out = None,
    proba: Annotated[
        bool, typer.Option("--proba", help="Add the probability of the answer (log-linear vote or mixture).")
    ] = False,
    certify: Annotated[
        bool, typer.Option("--certify", help="Add whether the answer is proven to be that of the exact classifier.")
    ] = False,
    *,
    given: InputOptions,
    key_file: opt.KeyFile = None,
    as_json: opt.AsJson = False,
) -> None:
    """Print the most likely label of each row, or the most likely next token of each document, one per line."""

    def answer(model: Any, queries: Queries) -> Answers:
        predicted = model.predict(queries.X)
        answers: Answers = {"prediction": predicted.tolist()}
        if proba:
            answers["probability"] = probabilities(model, queries).max(axis=1).tolist()
        if certify:
            answers["proven"] = model.certify(queries.X).tolist()
        return answers

    with one_line_errors():
        answer_files(model, files, given, key_file, out, answer, as_json=as_json)


def probabilities(model: Any, queries: Queries) -> NDArray[np.float64]:
    """Return the probabilities of all labels, or refuse a vote that has none and name the way out."""
    try:
        found: NDArray[np.float64] = model.predict_proba(queries.X)
    except AttributeError as error:
        raise ValueError(
            "The scores of this model's vote are not probabilities: fit with --vote log-linear, or use top-k --scores."
        ) from error
    return found


def answer_files(
    path: Path,
    files: list[str] | None,
    given: InputOptions,
    key_file: Path | None,
    out: Path | None,
    answer: Callable[[Any, Queries], Answers],
    *,
    as_json: bool,
) -> None:
    """Answer all that is in files, batch by batch, and write the answers."""
    from hammemo.cli.models import open_model, say_what_is_left

    opened = open_model(path, opt.read_key(key_file))
    say_what_is_left(opened, path)
    schema = given.changed(opened.schema)
    files = files or [STANDARD_INPUT]
    say_where_from(files)
    answered = 0
    with answer_writer(out, as_json=as_json) as write, progress_bar("Answering") as tell:
        batches: Iterable[Queries] = schema.queries(files, opened.h, given.file_format, whole=out is not None)
        for queries in batches:
            write(queries, answer(opened.model, queries))
            answered += len(queries.X)
            tell(answered, None)
        if not answered:
            raise ValueError("There is nothing to answer: the input has no row or document.")
    if out is not None:
        typer.echo(f"{counted(answered, 'answer')}. Written to {out}", err=as_json)
