"""What ``hammemo send`` sends: rows of tables with labels, or cases of event logs as documents."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

import typer

from hammemo.cli.console import UsageError
from hammemo.cli.options import option
from hammemo.sources.formats import STANDARD_INPUT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hammemo.sources.read_tables import Batch

_ROWS: Final = 1_000
"""Rows, or documents, of one edit."""

_TOKENS: Final = 50_000
"""Tokens of its documents after which an edit takes no more; a server takes 65,536 by default."""

_LOGS: Final = "Event logs"


class SentRows(NamedTuple):
    """Rows as the client takes them, each with its label, and its subject where there are any."""

    rows: list[Any]
    labels: list[Any]
    subjects: list[str]


@dataclass(frozen=True)
class SentFiles:
    """Files, and which of their columns are sent."""

    files: Annotated[
        list[str] | None,
        typer.Argument(metavar="FILE", help="Tables.", show_default="standard input"),
    ] = None
    label: Annotated[str | None, option("COLUMN", "The column with the labels.")] = None
    subject: Annotated[
        str | None,
        option("COLUMN", "The column with the person of each row or case; it is not learnt."),
    ] = None
    columns: Annotated[
        str | None, option("A,B,…", "The columns of the context.", "those of the model, or all")
    ] = None
    file_format: Annotated[
        str | None, typer.Option("--format", metavar="NAME", help="csv, tsv, jsonl or parquet.")
    ] = None
    case: Annotated[
        str | None, option("COLUMN", "The column with the case.", rich_help_panel=_LOGS)
    ] = None
    event: Annotated[
        str | None, option("COLUMN", "The column with the event.", rich_help_panel=_LOGS)
    ] = None
    time: Annotated[
        str | None,
        option("COLUMN", "Sorts the events of a case by this column.", rich_help_panel=_LOGS),
    ] = None

    @property
    def is_log(self) -> bool:
        """Whether cases are sent as documents."""
        return self.case is not None

    @property
    def unit(self) -> str:
        """What is counted."""
        return "document" if self.is_log else "row"

    def check(self) -> None:
        """Refuse options that do not belong together."""
        is_table = self.label is not None
        is_log = self.case is not None
        if is_table == is_log or is_log != (self.event is not None):
            raise UsageError(
                "Name the column of the labels with --label, or those of an event log: "
                "--case and --event."
            )
        if self.is_log and self.columns is not None:
            raise UsageError("--columns is for tables with --label: leave it out.")
        if not self.is_log and self.time is not None:
            raise UsageError("--time is for event logs: leave it out.")
        if self.is_log and self.subject is not None and STANDARD_INPUT in self._places:
            raise UsageError("An event log with --subject is read twice: name its file.")

    def edits(self, columns_of_model: list[str] | None) -> Iterator[tuple[dict[str, Any], int]]:
        """Yield what the client takes for each edit, and how many rows or documents that is."""
        if self.is_log:
            return self._documents()
        return self._rows(self.columns.split(",") if self.columns else columns_of_model)

    def as_one(self, columns_of_model: list[str] | None) -> SentRows:
        """Return rows, labels and subjects of all tables."""
        all_rows = SentRows([], [], [])
        for content, _ in self.edits(columns_of_model):
            all_rows.rows.extend(content["rows"])
            all_rows.labels.extend(content["labels"])
            all_rows.subjects.extend(content["subjects"])
        return all_rows

    @property
    def _places(self) -> list[str]:
        return self.files or [STANDARD_INPUT]

    def _rows(self, columns: list[str] | None) -> Iterator[tuple[dict[str, Any], int]]:
        from hammemo.sources.read_tables import read_table

        for where in self._places:
            for batch in read_table(where, format=self.file_format, batch_rows=_ROWS):
                rows = self._contexts(batch, columns)
                subjects = [] if self.subject is None else list(_subjects(batch, self.subject))
                labels = list(_plain(batch, str(self.label)))
                yield {"rows": rows, "labels": labels, "subjects": subjects}, len(rows)

    def _contexts(self, batch: Batch, columns: list[str] | None) -> list[list[Any]]:
        not_learned = (self.label, self.subject)
        named = columns or [name for name in batch.names if name not in not_learned]
        if any(name in named for name in not_learned):
            raise UsageError(
                "--label and --subject name columns that the model does not learn: "
                "leave them out of --columns."
            )
        values = [list(_plain(batch, name)) for name in named]
        return [list(row) for row in zip(*values, strict=True)]

    def _documents(self) -> Iterator[tuple[dict[str, Any], int]]:
        from hammemo.sources.schemas import SequenceSchema

        schema = SequenceSchema(1, case=self.case, event=self.event, time=self.time)
        for where in self._places:
            owners = self._owners(where)
            documents: list[list[Any]] = []
            subjects: list[str] = []
            size = 0
            for case, tokens in schema.documents([where], self.file_format):
                if documents and (len(documents) == _ROWS or size + len(tokens) > _TOKENS):
                    yield {"documents": documents, "subjects": subjects}, len(documents)
                    documents = []
                    subjects = []
                    size = 0
                documents.append(tokens.tolist())
                if owners:
                    subjects.append(owners[case])
                size += len(tokens)
            if documents:
                yield {"documents": documents, "subjects": subjects}, len(documents)

    def _owners(self, where: str) -> dict[Any, str]:
        """Return whose each case is; nothing where no column says it."""
        from hammemo.sources.read_tables import read_table

        owners: dict[Any, str] = {}
        if self.subject is None:
            return owners
        names = list(dict.fromkeys([str(self.case), self.subject]))
        for batch in read_table(where, format=self.file_format, columns=names):
            cases = batch.tokens(str(self.case)).tolist()
            for i, (case, subject) in enumerate(
                zip(cases, _subjects(batch, self.subject), strict=True)
            ):
                if owners.setdefault(case, subject) != subject:
                    raise ValueError(
                        f"{batch.place(i)}: the case {case!r} has two subjects: "
                        "a case belongs to one."
                    )
        return owners


def _plain(batch: Batch, name: str) -> Iterator[Any]:
    for i, value in enumerate(batch.column(name).tolist()):
        if isinstance(value, float) and not math.isfinite(value):
            yield None
        elif value is None or isinstance(value, (str, int, float)):
            yield value
        elif isinstance(value, date):
            yield value.isoformat()
        else:
            kind = type(value).__name__
            raise ValueError(
                f"{batch.place(i)}: column {name!r} holds a {kind}, "
                "and a server takes texts and numbers."
            )


def _subjects(batch: Batch, name: str) -> Iterator[str]:
    for row, value in enumerate(_plain(batch, name)):
        if value is None or value == "" or isinstance(value, float):
            raise ValueError(
                f"{batch.place(row)}: the subject is missing or not a text: "
                "every row belongs to one subject."
            )
        yield str(value)
