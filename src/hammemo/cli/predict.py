"""``hammemo predict`` and ``hammemo top-k``: the answers for each row or document.

Answers go to standard output, as lines of text or JSON, or to a table of the inputs with the
answers beside them.
"""

from __future__ import annotations

import csv
import json
import math
import sys
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from hammemo.cli.console import (
    UsageError,
    check_writable,
    format_count,
    progress_bar,
    say_where_from,
)
from hammemo.cli.input_options import InputOptions, refuse
from hammemo.cli.model_options import parse_bounds
from hammemo.cli.options import AsJson, KeyFile, Model, argument, flag, read_key, setting, switch
from hammemo.sources.formats import (
    FORMATS,
    STANDARD_INPUT,
    compression_of,
    format_of,
    require_arrow,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from hammemo._arrays.types import Array, Floats
    from hammemo.sources.schemas import Queries

    Write = Callable[[Queries, "Answers"], None]

Answers = dict[str, list[Any]]
"""Columns of answers, by name."""


@contextmanager
def answer_writer(out: Path | None, *, as_json: bool) -> Iterator[Write]:
    """Yield a function that writes queries and their answers.

    A file is there only when all of them are written.
    """
    if out is None:
        lines = _json_of_printed if as_json else _lines
        yield lambda queries, answers: sys.stdout.writelines(lines(queries, answers))
        return
    check_writable(out)
    kind = format_of(str(out), "?")
    if kind not in FORMATS or compression_of(out.name):
        raise UsageError(
            f"--out {out}: the name of a table of answers ends in .csv, .tsv, .jsonl, .parquet or "
            ".txt."
        )
    # It is imported where it is needed: it loads all that models need.
    from hammemo.files.atomic import replacement

    with replacement(out) as temporary, _WRITERS[kind](Path(temporary)) as write:
        yield write


def with_answers(queries: Queries, answers: Answers) -> dict[str, list[Any]]:
    """Return the columns of the input and of the answers.

    An answer whose name is taken gets an underscore.
    """
    columns = {
        name: column.tolist() for name, column in zip(queries.names, queries.columns, strict=True)
    }
    for name, values in answers.items():
        while name in columns:
            name += "_"
        columns[name] = values
    return columns


def _spread(queries: Queries, answers: Answers) -> dict[str, list[Any]]:
    """Return the columns of the input and of the answers.

    Of several labels, each has a column: the first, the second and so on.
    """
    spread: Answers = {}
    for name, values in answers.items():
        if values and isinstance(values[0], list):
            for place in range(len(values[0])):
                spread[f"{name}_{place + 1}"] = [value[place] for value in values]
        else:
            spread[name] = values
    return with_answers(queries, spread)


def _json_lines(columns: Answers) -> Iterator[str]:
    for row in zip(*columns.values(), strict=True):
        value = {name: _finite(cell) for name, cell in zip(columns, row, strict=True)}
        yield json.dumps(value, ensure_ascii=False, default=str).translate(_LINE_ENDS) + "\n"


def _finite(value: Any) -> Any:
    """Return a value as JSON has it: an infinite end of an interval is null."""
    return None if isinstance(value, float) and math.isinf(value) else value


def _json_of_printed(queries: Queries, answers: Answers) -> Iterator[str]:
    """Yield answers as JSON lines on standard output, where rows are known by their order."""
    if queries.identity is None:
        return _json_lines(answers)
    return _json_lines(with_answers(queries, answers))


def _json_of_file(queries: Queries, answers: Answers) -> Iterator[str]:
    """Yield the inputs and their answers as JSON lines."""
    return _json_lines(with_answers(queries, answers))


def _lines(queries: Queries, answers: Answers) -> Iterator[str]:
    """Yield answers as lines.

    Those of an event log come in an order that the input does not show, so each has its case.
    """
    columns = answers
    if queries.identity not in (None, "document"):
        columns = with_answers(queries, answers)
    for row in zip(*columns.values(), strict=True):
        yield "\t".join(map(_format_value, row)) + "\n"


def _format_value(value: Any) -> str:
    """Return a value as one word of a line, several values with tabs between them.

    A text that would break the line is written as JSON.
    """
    if isinstance(value, list):
        return "\t".join(map(_format_value, value))
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.6g}"
    text = str(value)
    if "\n" in text or "\r" in text:
        return json.dumps(text, ensure_ascii=False)
    return text


@contextmanager
def _file_of_lines(
    lines: Callable[[Queries, Answers], Iterable[str]], path: Path
) -> Iterator[Write]:
    with path.open("w", encoding="utf-8", newline="\n") as file:
        yield lambda queries, answers: file.writelines(lines(queries, answers))


@contextmanager
def _file_of_delimited_rows(delimiter: str, path: Path) -> Iterator[Write]:
    with path.open("w", encoding="utf-8", newline="") as file:
        # The writer ends lines with \r\n, because only then it quotes a value with a bare \r. The
        # lines of the file end with \n.
        unix = SimpleNamespace(write=lambda row: file.write(row.removesuffix("\r\n") + "\n"))
        writer = csv.writer(unix, delimiter=delimiter)

        def write(queries: Queries, answers: Answers) -> None:
            columns = _spread(queries, answers)
            if not file.tell():
                writer.writerow(columns)
            writer.writerows(zip(*columns.values(), strict=True))

        yield write


@contextmanager
def _parquet_file(path: Path) -> Iterator[Write]:
    arrow = require_arrow("Parquet", "parquet")
    writers: list[Any] = []
    with ExitStack() as stack:

        def write(queries: Queries, answers: Answers) -> None:
            table = arrow.table(_spread(queries, answers))
            if not writers:
                writers.append(stack.enter_context(arrow.parquet.ParquetWriter(path, table.schema)))
            writers[0].write_table(table.cast(writers[0].schema))

        yield write


_WRITERS: dict[str, Callable[[Path], Any]] = {
    "csv": partial(_file_of_delimited_rows, ","),
    "tsv": partial(_file_of_delimited_rows, "\t"),
    "jsonl": partial(_file_of_lines, _json_of_file),
    "parquet": _parquet_file,
    "text": partial(_file_of_lines, _lines),
}


_LINE_ENDS = {ord(mark): f"\\u{ord(mark):04x}" for mark in "\x85\u2028\u2029"}
"""Characters that many programs take for the end of a line.

JSON allows them as they are, and escaped.
"""


@dataclass(frozen=True)
class Questions:
    """The question that a command sends to a model, and where its answers go."""

    model: Model
    files: Annotated[
        list[str] | None, argument("FILE", "Rows or documents to predict.", "standard input")
    ] = None
    out: Path | None = setting(
        "FILE",
        "Write the inputs and the answers: .csv, .tsv, .jsonl or .parquet (.txt: answers only).",
    )
    key_file: KeyFile = None
    as_json: AsJson = False


@dataclass(frozen=True)
class AnswerOptions:
    """What is printed beside each answer."""

    proba: bool = switch(
        "--proba", "Add the probability of the answer (log-linear vote or mixture)."
    )
    certify: bool = switch(
        "--certify", "Add whether the answer is proven to be that of the exact classifier."
    )
    interval: float | None = setting(
        "SHARE",
        "Numbers: add the ends of an interval that holds this share of targets, such as 0.8.",
    )

    bounds: str | None = setting(
        "LOW,HIGH",
        "Numbers: these answers never leave these bounds, whatever those of the model are.",
        "the model's",
    )

    def check(self, model: Any) -> None:
        """Refuse what the model has no answers for."""
        if hasattr(model, "predict_interval"):
            of_labels = {"proba": self.proba or None, "certify": self.certify or None}
            refuse(
                of_labels, "is for a model of labels, and this one predicts numbers: leave it out"
            )
        else:
            refuse(
                {"interval": self.interval, "bounds": self.bounds},
                "is for a model of numbers, and this one predicts labels: leave it out",
            )


def predict_rows(questions: Questions, options: AnswerOptions, reading: InputOptions) -> None:
    """Print the most likely label, the expected number, or a document's most likely next token.

    There is one answer per line.
    """

    def answer(model: Any, queries: Queries) -> Answers:
        options.check(model)
        if options.bounds is not None:
            model.set_params(bounds=parse_bounds(options.bounds))
        predicted = model.predict(queries.X)
        answers: Answers = {"prediction": predicted.tolist()}
        if options.interval is not None:
            low, high = model.predict_interval(queries.X, options.interval).T.tolist()
            answers["low"] = low
            answers["high"] = high
        if options.proba:
            answers["probability"] = probabilities(model, queries).max(axis=1).tolist()
        if options.certify:
            answers["proven"] = model.certify(queries.X).tolist()
        return answers

    answer_files(questions, reading, answer)


def probabilities(model: Any, queries: Queries) -> Floats:
    """Return the probabilities of all labels, or refuse a vote that has none."""
    if not hasattr(model, "predict_proba"):
        raise ValueError(
            "The scores of this model's vote are not probabilities: fit with --vote log-linear, "
            "or use top-k --scores."
        )
    shares: Floats = model.predict_proba(queries.X)
    return shares


def answer_files(
    questions: Questions, reading: InputOptions, answer: Callable[[Any, Queries], Answers]
) -> None:
    """Answer all that is in files, batch by batch, and write the answers."""
    from hammemo.cli.models import open_model, say_what_is_left
    from hammemo.sources.reading_notes import name_columns_in_warnings

    opened = open_model(questions.model, read_key(questions.key_file))
    say_what_is_left(opened, questions.model)
    schema = reading.apply_to(opened.schema)
    files = questions.files or [STANDARD_INPUT]
    out = questions.out
    say_where_from(files)
    answered = 0
    with answer_writer(out, as_json=questions.as_json) as write, progress_bar("Answering") as tell:
        for queries in schema.queries(files, opened.h, reading.file_format, whole=out is not None):
            with name_columns_in_warnings(getattr(schema, "columns", None)):
                answers = answer(opened.model, queries)
            write(queries, answers)
            answered += len(queries.X)
            tell(answered, None)
        if not answered:
            raise ValueError("There is nothing to answer: the input has no row or document.")
    if out is not None:
        typer.echo(f"{format_count(answered, 'answer')}. Written to {out}", err=questions.as_json)


@dataclass(frozen=True)
class TopKOptions:
    """How many labels are printed, which of them, and with which numbers."""

    k: int = setting("N", "Number of labels.", default=5, min=1)
    scores: bool = switch("--scores", "Add the labels' scores.")
    proba: bool = switch("--proba", "Add the labels' probabilities (log-linear vote or mixture).")
    unseen: bool = switch("--unseen", "Leave out labels that the row or document contains.")
    exclude: Annotated[
        Path | None, flag("--exclude", "A file with labels to leave out, one per line.")
    ] = None
    allow: Annotated[
        Path | None, flag("--allow", "A file with the allowed labels, one per line.")
    ] = None


def top_k_rows(questions: Questions, options: TopKOptions, reading: InputOptions) -> None:
    """Print the k most likely labels of each row or document, best first, separated by tabs."""

    def answer(model: Any, queries: Queries) -> Answers:
        if not hasattr(model, "top_k"):
            raise ValueError(
                "The model predicts numbers, not labels: use hammemo predict --interval."
            )
        excluded = _read_listed_labels(options.exclude, model.classes_)
        allowed = _read_listed_labels(options.allow, model.classes_)
        if options.unseen:
            if excluded is not None:  # `exclude` is taken by the labels of the context
                every = model.classes_ if allowed is None else allowed
                allowed = np.setdiff1d(every, excluded)
            excluded = queries.documents or "seen"
        best, best_scores = model.top_k(
            queries.X, options.k, exclude=excluded, allow=allowed, return_scores=True
        )
        best = [[label for label in row if label is not None] for row in best.tolist()]
        answers: Answers = {"top": best}
        if options.scores:
            pairs = zip(best_scores.tolist(), best, strict=True)
            answers["score"] = [scores[: len(labels)] for scores, labels in pairs]
        if options.proba:
            shares = probabilities(model, queries)
            answers["probability"] = [
                row[np.searchsorted(model.classes_, labels)].tolist()
                for row, labels in zip(shares, best, strict=True)
            ]
        return answers

    answer_files(questions, reading, answer)


def _read_listed_labels(path: Path | None, classes: Array) -> Any:
    """Return the labels that a file names, one per line; None if there is no file.

    They are whole numbers if those of the model are.
    """
    if path is None:
        return None
    lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
    lines = [line for line in lines if line]
    if classes.dtype.kind not in "iu":
        return np.array(lines, object)
    wrong = next((line for line in lines if not line.lstrip("-").isdecimal()), None)
    if wrong is not None:
        raise ValueError(
            f"{path} holds {wrong!r}, and the labels of the model are whole numbers: write one per "
            "line."
        )
    return np.array([int(line) for line in lines], object)
