"""``hammemo predict`` and ``hammemo top-k``: the answers for each row or document.

Where answers go: lines of text or JSON on standard output, or a table of the inputs with the answers beside them.
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

from hammemo.cli.console import UsageError, check_writable, format_count, progress_bar, say_where_from
from hammemo.cli.input_options import InputOptions, refuse
from hammemo.cli.model_options import parse_bounds
from hammemo.cli.options import AsJson, KeyFile, Model, argument, flag, read_key, setting, switch
from hammemo.sources.formats import FORMATS, STANDARD_INPUT, compression_of, format_of, require_arrow

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from hammemo._arrays.types import Array, Floats
    from hammemo.sources.schemas import Queries

    Write = Callable[[Queries, "Answers"], None]

Answers = dict[str, list[Any]]
"""Columns of answers, by name."""


@contextmanager
def answer_writer(out: Path | None, *, as_json: bool) -> Iterator[Write]:
    """Yield a function that is given queries and their answers; a file is there only when all of them are written."""
    if out is None:
        lines = _printed_json if as_json else _lines
        yield lambda queries, answers: sys.stdout.writelines(lines(queries, answers))
        return
    check_writable(out)
    kind = format_of(str(out), "?")
    if kind not in FORMATS or compression_of(out.name):
        raise UsageError(f"--out {out}: the name of a table of answers ends in .csv, .tsv, .jsonl, .parquet or .txt.")
    from hammemo.files.atomic import replacement  # not before it is needed: it loads all that models need

    with replacement(out) as temporary, _WRITERS[kind](Path(temporary)) as write:
        yield write


def with_answers(queries: Queries, answers: Answers) -> dict[str, list[Any]]:
    """Return the columns of the input and of the answers; an answer whose name is taken gets an underscore."""
    columns = {name: column.tolist() for name, column in zip(queries.names, queries.columns, strict=True)}
    for name, values in answers.items():
        while name in columns:
            name += "_"
        columns[name] = values
    return columns


def _spread(queries: Queries, answers: Answers) -> dict[str, list[Any]]:
    """Return the columns of the input and of the answers, one for each of several labels: first, second and so on."""
    spread: Answers = {}
    for name, values in answers.items():
        if values and isinstance(values[0], list):
            spread |= {f"{name}_{place + 1}": [value[place] for value in values] for place in range(len(values[0]))}
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


def _printed_json(queries: Queries, answers: Answers) -> Iterator[str]:
    return _json_lines(answers if queries.identity is None else with_answers(queries, answers))


def _filed_json(queries: Queries, answers: Answers) -> Iterator[str]:
    return _json_lines(with_answers(queries, answers))


def _lines(queries: Queries, answers: Answers) -> Iterator[str]:
    """Yield answers as lines; those of an event log come in no order that is seen, so the case is written before."""
    columns = answers if queries.identity in (None, "document") else with_answers(queries, answers)
    for row in zip(*columns.values(), strict=True):
        yield "\t".join(map(_shown, row)) + "\n"


def _shown(value: Any) -> str:
    """Return a value as one word of a line, several with tabs: a text that would break the line is written as JSON."""
    if isinstance(value, list):
        return "\t".join(map(_shown, value))
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.6g}"
    text = str(value)
    return json.dumps(text, ensure_ascii=False) if "\n" in text or "\r" in text else text


@contextmanager
def _file_of_lines(lines: Callable[[Queries, Answers], Iterable[str]], path: Path) -> Iterator[Write]:
    with path.open("w", encoding="utf-8", newline="\n") as file:
        yield lambda queries, answers: file.writelines(lines(queries, answers))


@contextmanager
def _delimited_file(delimiter: str, path: Path) -> Iterator[Write]:
    with path.open("w", encoding="utf-8", newline="") as file:
        # it ends lines with \r\n, because only then it quotes a value with a bare \r; the file has the ends of Unix
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
    "csv": partial(_delimited_file, ","),
    "tsv": partial(_delimited_file, "\t"),
    "jsonl": partial(_file_of_lines, _filed_json),
    "parquet": _parquet_file,
    "text": partial(_file_of_lines, _lines),
}


_LINE_ENDS = {ord(mark): f"\\u{ord(mark):04x}" for mark in "\x85\u2028\u2029"}
"""Characters that many programs take for the end of a line; JSON allows them as they are, and escaped."""


@dataclass(frozen=True)
class Questions:
    """The question that a command sends to a model, and where its answers go."""

    model: Model
    files: Annotated[list[str] | None, argument("FILE", "Rows or documents to predict.", "standard input")] = None
    out: Path | None = setting(
        "FILE", "Write the inputs and the answers: .csv, .tsv, .jsonl or .parquet (.txt: answers only)."
    )
    key_file: KeyFile = None
    as_json: AsJson = False


@dataclass(frozen=True)
class AnswerOptions:
    """What is printed beside each answer."""

    proba: bool = switch("--proba", "Add the probability of the answer (log-linear vote or mixture).")
    certify: bool = switch("--certify", "Add whether the answer is proven to be that of the exact classifier.")
    interval: float | None = setting(
        "SHARE", "Numbers: add the ends of an interval that holds this share of targets, such as 0.8."
    )

    bounds: str | None = setting(
        "LOW,HIGH", "Numbers: these answers never leave these bounds, whatever those of the model are.", "the model's"
    )

    def check(self, model: Any) -> None:
        """Refuse what the model has no answers for."""
        if hasattr(model, "predict_interval"):
            of_labels = {"proba": self.proba or None, "certify": self.certify or None}
            refuse(of_labels, "is for a model of labels, and this one predicts numbers: leave it out")
        else:
            refuse(
                {"interval": self.interval, "bounds": self.bounds},
                "is for a model of numbers, and this one predicts labels: leave it out",
            )


def predict_rows(asked: Questions, wanted: AnswerOptions, given: InputOptions) -> None:
    """Print the most likely label, the expected number, or the most likely next token of a document, one per line."""

    def answer(model: Any, queries: Queries) -> Answers:
        wanted.check(model)
        if wanted.bounds is not None:
            model.set_params(bounds=parse_bounds(wanted.bounds))
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

    answer_files(asked, given, answer)


def probabilities(model: Any, queries: Queries) -> Floats:
    """Return the probabilities of all labels, or refuse a vote that has none and name the way out."""
    if not hasattr(model, "predict_proba"):
        raise ValueError(
            "The scores of this model's vote are not probabilities: fit with --vote log-linear, or use top-k --scores."
        )
    found: Floats = model.predict_proba(queries.X)
    return found


def answer_files(asked: Questions, given: InputOptions, answer: Callable[[Any, Queries], Answers]) -> None:
    """Answer all that is in files, batch by batch, and write the answers."""
    from hammemo.cli.models import open_model, say_what_is_left
    from hammemo.sources.reading_notes import name_columns_in_warnings

    opened = open_model(asked.model, read_key(asked.key_file))
    say_what_is_left(opened, asked.model)
    schema = given.apply_to(opened.schema)
    files, out = asked.files or [STANDARD_INPUT], asked.out
    say_where_from(files)
    answered = 0
    with answer_writer(out, as_json=asked.as_json) as write, progress_bar("Answering") as tell:
        for queries in schema.queries(files, opened.h, given.file_format, whole=out is not None):
            with name_columns_in_warnings(getattr(schema, "columns", None)):
                answers = answer(opened.model, queries)
            write(queries, answers)
            answered += len(queries.X)
            tell(answered, None)
        if not answered:
            raise ValueError("There is nothing to answer: the input has no row or document.")
    if out is not None:
        typer.echo(f"{format_count(answered, 'answer')}. Written to {out}", err=asked.as_json)


@dataclass(frozen=True)
class TopKOptions:
    """How many labels are printed, which of them, and with which numbers."""

    k: int = setting("N", "Number of labels.", default=5, min=1)
    scores: bool = switch("--scores", "Add the labels' scores.")
    proba: bool = switch("--proba", "Add the labels' probabilities (log-linear vote or mixture).")
    unseen: bool = switch("--unseen", "Leave out labels that the row or document contains.")
    exclude: Annotated[Path | None, flag("--exclude", "A file with labels to leave out, one per line.")] = None
    allow: Annotated[Path | None, flag("--allow", "A file with the allowed labels, one per line.")] = None


def top_k_rows(asked: Questions, wanted: TopKOptions, given: InputOptions) -> None:
    """Print the k most likely labels of each row or document, best first, separated by tabs."""

    def answer(model: Any, queries: Queries) -> Answers:
        if not hasattr(model, "top_k"):
            raise ValueError("The model predicts numbers, not labels: use hammemo predict --interval.")
        seen = queries.documents or "seen"
        gone, only = _listed(wanted.exclude, model.classes_), _listed(wanted.allow, model.classes_)
        if wanted.unseen and gone is not None:
            only = np.setdiff1d(model.classes_ if only is None else only, gone)
        lists = {"exclude": seen if wanted.unseen else gone, "allow": only}
        best, of_best = model.top_k(queries.X, wanted.k, **lists, return_scores=True)
        best = [[label for label in row if label is not None] for row in best.tolist()]
        answers: Answers = {"top": best}
        if wanted.scores:
            answers["score"] = [own[: len(row)] for own, row in zip(of_best.tolist(), best, strict=True)]
        if wanted.proba:
            places = [np.searchsorted(model.classes_, row) for row in best]
            found = probabilities(model, queries)
            answers["probability"] = [own[place].tolist() for own, place in zip(found, places, strict=True)]
        return answers

    answer_files(asked, given, answer)


def _listed(path: Path | None, classes: Array) -> Any:
    """Return the labels that a file names, one a line; whole numbers where those of the model are; None for no file."""
    if path is None:
        return None
    lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    if classes.dtype.kind not in "iu":
        return np.array(lines, object)
    wrong = next((line for line in lines if not line.lstrip("-").isdecimal()), None)
    if wrong is not None:
        raise ValueError(f"{path} holds {wrong!r}, and the labels of the model are whole numbers: write one per line.")
    return np.array([int(line) for line in lines], object)
