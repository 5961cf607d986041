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
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TextIO

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


class ListColumn(list[list[Any]]):
    """A column of answers that are lists, such as the best labels of each query.

    Lists may be shorter than others: where few labels are allowed, a query has few answers.

    Parameters
    ----------
    lists : list of list
        One for each query.
    width : int
        How many columns a table has for them. It is the same in all batches, whose own longest
        lists may be shorter.
    example : object
        A value such as the lists hold: a column without any value gets its type.
    """

    def __init__(self, lists: list[list[Any]], width: int, example: Any) -> None:
        super().__init__(lists)
        self.width = width
        self.example = example

    def spread(self, name: str) -> Answers:
        """Return the columns ``name_1``, ``name_2``, …: None where a list has ended.

        Examples
        --------
        >>> from hammemo.cli.predict import ListColumn
        >>> ListColumn([["a"], ["b", "c"]], width=2, example="a").spread("top")
        {'top_1': ['a', 'b'], 'top_2': [None, 'c']}
        """
        columns: Answers = {}
        for place in range(self.width):
            columns[f"{name}_{place + 1}"] = [
                values[place] if place < len(values) else None for values in self
            ]
        return columns


@contextmanager
def answer_writer(out: Path | None, *, as_json: bool) -> Iterator[Write]:
    """Yield a function that writes queries and their answers.

    A file is there only when all of them are written.
    """
    if out is None:
        lines = _json_of_printed if as_json else _text_lines
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


def _make_table(queries: Queries, answers: Answers) -> dict[str, list[Any]]:
    """Return the columns of the input and of the answers, without lists.

    Of several labels, each has a column: the first, the second and so on.
    """
    plain: Answers = {}
    for name, values in answers.items():
        if isinstance(values, ListColumn):
            plain.update(values.spread(name))
        else:
            plain[name] = values
    return with_answers(queries, plain)


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


def _text_lines(queries: Queries, answers: Answers) -> Iterator[str]:
    """Yield answers as lines of text.

    Answers to rows and to documents come in the order of the input. Those to the cases of an event
    log do not, so each has the name of its case before it.
    """
    columns = answers
    is_log = queries.identity is not None and queries.identity != "document"
    if is_log:
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
def _open_lines(lines: Callable[[Queries, Answers], Iterable[str]], path: Path) -> Iterator[Write]:
    """Yield what writes these lines of queries and answers to a file."""
    with path.open("w", encoding="utf-8", newline="\n") as file:
        yield lambda queries, answers: file.writelines(lines(queries, answers))


class _UnixLines:
    """A file for a CSV writer, whose lines end with a line feed alone.

    The writer itself ends them with a carriage return, too, because only then it quotes a value
    that has a bare carriage return.
    """

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def write(self, line: str) -> None:
        self._file.write(line.removesuffix("\r\n") + "\n")


@contextmanager
def _open_delimited_table(delimiter: str, path: Path) -> Iterator[Write]:
    """Yield what writes queries and answers as rows of CSV or TSV, after one header."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(_UnixLines(file), delimiter=delimiter)
        has_header = False

        def write(queries: Queries, answers: Answers) -> None:
            nonlocal has_header
            columns = _make_table(queries, answers)
            if not has_header:
                writer.writerow(columns)
                has_header = True
            writer.writerows(zip(*columns.values(), strict=True))

        yield write


@contextmanager
def _open_parquet(path: Path) -> Iterator[Write]:
    """Yield what writes queries and answers to a Parquet file, with the types of the first batch.

    The file is opened with the first batch, because its schema is known only then.
    """
    arrow = require_arrow("Parquet", "parquet")
    writer: Any = None
    with ExitStack() as stack:

        def write(queries: Queries, answers: Answers) -> None:
            nonlocal writer
            table = arrow.table(_make_table(queries, answers))
            if writer is None:
                schema = _give_types_to_empty_columns(arrow, table.schema, answers)
                writer = stack.enter_context(arrow.parquet.ParquetWriter(path, schema))
            writer.write_table(table.cast(writer.schema))

        yield write


def _give_types_to_empty_columns(arrow: Any, schema: Any, answers: Answers) -> Any:
    """Return a schema in which columns of lists have a type also where no list is long enough.

    A later batch may have a value there.
    """
    for name, values in answers.items():
        if not isinstance(values, ListColumn):
            continue
        example_type = arrow.array([values.example]).type
        for column in values.spread(name):
            place = schema.get_field_index(column)
            if place >= 0 and arrow.types.is_null(schema.field(place).type):
                schema = schema.set(place, arrow.field(column, example_type))
    return schema


_WRITERS: dict[str, Callable[[Path], Any]] = {
    "csv": partial(_open_delimited_table, ","),
    "tsv": partial(_open_delimited_table, "\t"),
    "jsonl": partial(_open_lines, _json_of_file),
    "parquet": _open_parquet,
    "text": partial(_open_lines, _text_lines),
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
        """Refuse options for labels if the model predicts numbers, and the other way round."""
        predicts_numbers = hasattr(model, "predict_interval")
        if predicts_numbers:
            # A switch that is not set is False, and `refuse` passes over None only.
            refuse(
                {"proba": self.proba or None, "certify": self.certify or None},
                "is for a model of labels, and this one predicts numbers: leave it out",
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
    """Answer all rows or documents of files, batch by batch, and write the answers.

    `answer` is called with the model and the queries of a batch.
    """
    from hammemo.cli.models import open_model, say_what_is_left
    from hammemo.sources.reading_notes import name_columns_in_warnings

    opened = open_model(questions.model, read_key(questions.key_file))
    say_what_is_left(opened, questions.model)
    schema = reading.apply_to(opened.schema)
    column_names = getattr(schema, "columns", None)  # sequences have none
    files = questions.files or [STANDARD_INPUT]
    out = questions.out
    say_where_from(files)
    batches = schema.queries(files, opened.h, reading.file_format, whole=out is not None)
    n_answers = 0
    with (
        answer_writer(out, as_json=questions.as_json) as write,
        progress_bar("Answering") as on_progress,
    ):
        for queries in batches:
            with name_columns_in_warnings(column_names):
                answers = answer(opened.model, queries)
            write(queries, answers)
            n_answers += len(queries.X)
            on_progress(n_answers, None)
        if not n_answers:
            raise ValueError("There is nothing to answer: the input has no row or document.")
    if out is not None:
        # where standard output is JSON, this goes to standard error
        typer.echo(f"{format_count(n_answers, 'answer')}. Written to {out}", err=questions.as_json)


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
        return _rank_labels(model, queries, options)

    answer_files(questions, reading, answer)


def _rank_labels(model: Any, queries: Queries, options: TopKOptions) -> Answers:
    """Return the best labels of each query, and what the options add to them.

    A query that has fewer labels left than k gets a shorter list.
    """
    if not hasattr(model, "top_k"):
        raise ValueError("The model predicts numbers, not labels: use hammemo predict --interval.")
    masks = _choose_masks(model, queries, options)
    padded_labels, padded_scores = model.top_k(
        queries.X, options.k, exclude=masks.exclude, allow=masks.allow, return_scores=True
    )
    labels_of_rows = [
        [label for label in row if label is not None] for row in padded_labels.tolist()
    ]
    width = min(options.k, len(model.classes_))
    example_label = model.classes_[:1].tolist()[0]
    answers: Answers = {"top": ListColumn(labels_of_rows, width, example_label)}
    if options.scores:
        scores = [
            row[: len(labels)]
            for row, labels in zip(padded_scores.tolist(), labels_of_rows, strict=True)
        ]
        answers["score"] = ListColumn(scores, width, example=0.0)
    if options.proba:
        shares = [
            row[np.searchsorted(model.classes_, labels)].tolist()
            for row, labels in zip(probabilities(model, queries), labels_of_rows, strict=True)
        ]
        answers["probability"] = ListColumn(shares, width, example=0.0)
    return answers


class _Masks(NamedTuple):
    """Which labels `top_k` leaves out and which it allows, as its parameters have it."""

    exclude: Any
    allow: Any


def _choose_masks(model: Any, queries: Queries, options: TopKOptions) -> _Masks:
    """Return the labels that the options leave out and allow."""
    listed = _read_listed_labels(options.exclude, model.classes_)
    allowed = _read_listed_labels(options.allow, model.classes_)
    if not options.unseen:
        return _Masks(exclude=listed, allow=allowed)
    if listed is not None:
        # `exclude` is taken by the labels of each query, so the listed ones are not allowed.
        candidates = model.classes_ if allowed is None else allowed
        allowed = np.setdiff1d(candidates, listed)
    # Of a document, all tokens count as seen, also those before its context.
    return _Masks(exclude=queries.documents or "seen", allow=allowed)


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
