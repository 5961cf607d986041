"""How the input is read: options that every command with rows or documents has, and the schema that they make."""

from __future__ import annotations

import csv
from dataclasses import dataclass, replace
from pathlib import Path  # noqa: TC003  (typer reads annotations at run time)
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, TypeAlias

import typer

from hammemo.cli.console import UsageError, say_once
from hammemo.cli.options import option, setting, switch

if TYPE_CHECKING:
    from hammemo.sources.schemas import Schema, SequenceSchema

_PANEL: Final = "How the input is read (a model file remembers it)"

_FOR_BOTH: Final = ("header", "delimiter", "time")
_FOR_TABLES: Final = ("columns", "missing", "na", "date_format")
_FOR_SEQUENCES: Final = ("tokens", "column", "case", "event")
"""Which parameters of a schema these options set, by the kind of input."""

_NOT_FOR_TABLES: Final = "is for sequences: leave it out, or use --h instead of --label"

_COLUMN = "The column with the labels or targets (its number with --no-header)."
KnownLabel: TypeAlias = Annotated[
    str | None, option("COLUMN", _COLUMN, True, "--label", "--target", rich_help_panel=_PANEL)
]


@dataclass(frozen=True)
class InputOptions:
    """What the command line says about its input; None and False say nothing."""

    panel: ClassVar = _PANEL

    columns: str | None = setting("A,B,…", "The columns of the context, in this order.", "all but the label")
    no_header: bool = switch("--no-header", "The first row of a CSV file is not a header.")
    delimiter: str | None = setting("C", "The delimiter of a CSV file.", "comma")
    missing: str | None = setting(
        "WHAT", "Empty cells: token (a value of their own), empty (match nothing) or refuse.", "token"
    )
    na: list[str] | None = setting(
        "TEXT",
        "A text that is a missing value in columns of numbers and dates (repeatable); '' for none.",
        "NA, N/A, null, nan, ? and others",
        "--na",
    )
    date_format: list[str] | None = setting(
        "COLUMN=FORMAT",
        "How a column of dates is written, as in 'when=%d.%m.%Y' (repeatable).",
        "found by its values",
        "--date-format",
    )
    file_format: str | None = setting(
        "NAME", "csv, tsv, jsonl, parquet, arrow or text.", "by the file's ending", "--format"
    )
    tokens: str | None = setting("HOW", "Tokens of a text: ids, words, characters, bytes or a tokenizer.json.", "ids")
    column: str | None = setting("NAME", "The Parquet column or JSON field with the documents.")
    case: str | None = setting("COLUMN", "Event logs: the column with the case.")
    event: str | None = setting("COLUMN", "Event logs: the column with the event.")
    time: str | None = setting(
        "COLUMN", "The time of each event or row: sorts the events of a case; not part of a context."
    )

    def changed(self, schema: Schema, label: str | None = None) -> Schema:
        """Return the schema of a model with what the command line says otherwise."""
        from hammemo.sources.schemas import TableSchema

        if isinstance(schema, TableSchema):
            for name in self._given(*_FOR_SEQUENCES):
                raise UsageError(f"This model learnt rows of a table: --{name} is for sequences. Leave it out.")
            labelled: dict[str, Any] = {} if label is None else {"label": label}
            return replace(schema, **self._given(*_FOR_BOTH, *_FOR_TABLES), **labelled, tell=say_once())
        if label is not None or self.columns is not None:
            raise UsageError("This model learnt sequences: --label and --columns are for tables. Leave them out.")
        refuse({"na": self.na, "date-format": self.date_format}, "is for tables, and this model learnt sequences")
        return replace(schema, **self._given(*_FOR_BOTH, *_FOR_SEQUENCES))

    def _given(self, *names: str) -> dict[str, Any]:
        """Return which of these parameters of a schema are given, and their values."""
        from hammemo.sources.reading_notes import read_date_formats, read_na

        values: dict[str, Any] = {
            **vars(self),
            "columns": None if self.columns is None else column_list(self.columns),
            "header": False if self.no_header else None,
            "na": None if self.na is None else read_na(self.na),
            "date_format": None if self.date_format is None else read_date_formats(self.date_format),
        }
        return {name: values[name] for name in names if values[name] is not None}


@dataclass(frozen=True)
class ExampleOptions(InputOptions):
    """What the command line says about examples that no model knows yet."""

    label: str | None = setting("COLUMN", "Table: the column of labels to predict (its number with --no-header).")
    h: Annotated[int | None, typer.Option("--h", min=1, help="Sequences: tokens per context.")] = None

    def schema(self) -> Schema:
        """Return how the input is read."""
        return self._schema(None, None)

    def _schema(self, numeric: str | None, target: str | None) -> Schema:
        """Return how new input is read: rows of a table with --label or --target, sequences with --h."""
        from hammemo.sources.schemas import SequenceSchema, TableSchema

        if self.h is None and self.label is None and target is None:
            raise UsageError(
                "Name the column that is to be predicted with --label, or learn sequences with --h. For numbers, "
                "hammemo fit and evaluate take --target."
            )
        if self.h is not None and self.label is not None:
            raise UsageError("--label is for rows of a table, --h for sequences: give one of them.")
        if target is not None and (self.label is not None or self.h is not None):
            raise UsageError("--target predicts numbers, --label names and --h sequences: give one of them.")
        if self.h is not None:
            for_tables = {name.replace("_", "-"): value for name, value in self._given(*_FOR_TABLES).items()}
            for_tables["numeric"] = numeric
            refuse(for_tables, "is for tables: leave it out, or use --label instead of --h")
            return SequenceSchema(self.h, **self._given(*_FOR_BOTH, *_FOR_SEQUENCES))
        refuse(self._given(*_FOR_SEQUENCES), _NOT_FOR_TABLES)
        listed: Any = "auto" if numeric is None else numeric
        if listed not in ("auto", "none"):
            listed = column_list(listed, "--numeric")
        reading = {**self._given(*_FOR_BOTH, *_FOR_TABLES), "numeric": listed, "tell": say_once()}
        return TableSchema(self.label if target is None else target, **reading, is_target=target is not None)


@dataclass(frozen=True)
class NewInputOptions(ExampleOptions):
    """What the command line says about input that a new model learns."""

    target: str | None = setting("COLUMN", "Table: the column of numbers to predict (its number with --no-header).")
    numeric: str | None = setting(
        "auto|none|A,B,…",
        "The numeric columns: auto (those with only numbers), none, or a list.",
        "auto",
        rich_help_panel=_PANEL,
    )

    def schema(self) -> Schema:
        """Return how the input is read."""
        return self._schema(self.numeric, self.target)


@dataclass(frozen=True)
class SequenceOptions:
    """What is learnt of sequences, and how they are cut into examples."""

    panel: ClassVar = "Sequences"

    end: str | None = setting("TOKEN", "Append this token to each document.")
    short: str = setting("WHAT", "Tokens with fewer than h tokens before them: drop or pad.", default="drop")
    classes_top: int | None = setting("N", "Predict only the most frequent tokens of a sample, this many.", min=1)
    classes_file: Path | None = setting("FILE", "Predict only the tokens in this file, one per line.")

    def refined(self, schema: Schema) -> tuple[Schema, Any]:
        """Return the schema with these options, and the labels that are predicted or how many: all, if None."""
        from hammemo.sources.schemas import TableSchema

        if isinstance(schema, TableSchema):
            given = {"classes-top": self.classes_top, "classes-file": self.classes_file, "end": self.end}
            refuse(given, _NOT_FOR_TABLES)
            return schema, None
        chosen = self.classes_top is not None or self.classes_file is not None
        schema = replace(schema, end=self.end, short=self.short, chosen=chosen)
        return schema, self.classes_top if self.classes_file is None else _labels_in(self.classes_file, schema)


def refuse(given: dict[str, Any], reason: str) -> None:
    """Refuse options that were given but have no meaning here."""
    for name, value in given.items():
        if value is not None:
            raise UsageError(f"--{name} {reason}.")


def column_list(text: str, option: str = "--columns") -> tuple[str, ...]:
    """Return the names in a list with commas; a name with a comma is put in quotes, as in CSV.

    Examples
    --------
    >>> from hammemo.cli.input_options import column_list
    >>> column_list('colour,"size, in cm"')
    ('colour', 'size, in cm')
    """
    names = tuple(next(csv.reader([text]), []))
    if not names or not all(names):
        raise UsageError(f"{option} {text!r} contains an empty name: separate names by single commas, as in A,B.")
    return names


def _labels_in(path: Path, schema: SequenceSchema) -> list[Any]:
    """Return the labels in a file, one a line: whole numbers, unless the source's tokens are strings."""
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line]
    if schema.is_log or schema.tokens in ("words", "characters"):
        return lines
    try:
        return [int(line) for line in lines]
    except ValueError as error:
        raise ValueError(
            f"{path} holds {str(error).split(': ')[-1]}, which is not a token id: use --tokens words."
        ) from error
