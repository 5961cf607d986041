"""``hammemo predict``: one answer for each row or document."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hammemo.cli import options as opt
from hammemo.cli.answers import Answers, answer_writer
from hammemo.cli.console import counted, one_line_errors, progress_bar, say_where_from
from hammemo.cli.input_options import InputOptions, refuse
from hammemo.cli.options import option
from hammemo.sources.formats import STANDARD_INPUT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import numpy as np
    from numpy.typing import NDArray

    from hammemo.sources.examples import Queries

Files = Annotated[
    list[str] | None,
    typer.Argument(metavar="FILE", help="Rows or documents to predict.", show_default="standard input"),
]
Out = Annotated[
    Path | None,
    option("FILE", "Write the inputs and the answers: .csv, .tsv, .jsonl or .parquet (.txt: answers only)."),
]


@dataclass(frozen=True)
class AnswerOptions:
    """What is printed beside each answer."""

    proba: Annotated[
        bool, typer.Option("--proba", help="Add the probability of the answer (log-linear vote or mixture).")
    ] = False
    certify: Annotated[
        bool, typer.Option("--certify", help="Add whether the answer is proven to be that of the exact classifier.")
    ] = False
    interval: Annotated[
        float | None,
        option("SHARE", "Numbers: add the ends of an interval that holds this share of targets, such as 0.8."),
    ] = None

    def check(self, model: Any) -> None:
        """Refuse what the model has no answers for."""
        predicts_numbers = hasattr(model, "predict_interval")
        of_labels = {"proba": self.proba or None, "certify": self.certify or None}
        if predicts_numbers:
            refuse(of_labels, "is for a model of labels, and this one predicts numbers: leave it out")
        else:
            refuse({"interval": self.interval}, "is for a model of numbers, and this one predicts labels: leave it out")


def predict_rows(
    model: opt.Model,
    files: Files = None,
    out: Out = None,
    *,
    wanted: AnswerOptions,
    given: InputOptions,
    key_file: opt.KeyFile = None,
    as_json: opt.AsJson = False,
) -> None:
    """Print the most likely label, the expected number, or the most likely next token of a document, one per line."""

    def answer(model: Any, queries: Queries) -> Answers:
        wanted.check(model)
        predicted = model.predict(queries.X)
        answers: Answers = {"prediction": predicted.tolist()}
        if wanted.interval is not None:
            low, high = model.predict_interval(queries.X, wanted.interval).T.tolist()
            answers |= {"low": low, "high": high}
        if wanted.proba:
            answers["probability"] = probabilities(model, queries).max(axis=1).tolist()
        if wanted.certify:
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
