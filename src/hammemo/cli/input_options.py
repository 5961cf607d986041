"""How the input is read: options that every command with rows or documents has, and the schema that they make."""

from __future__ import annotations

import csv
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, TypeAlias, TypeVar

import typer

from hammemo.cli.console import UsageError
from hammemo.cli.options import flag, option

if TYPE_CHECKING:
    from hammemo.sources.schemas import Schema

AnySchema = TypeVar("AnySchema", bound="Schema")

_PANEL: Final = "How the input is read (a model file remembers it)"

SEQUENCES: Final = "Sequences"
"""The panel of options that say what is learnt of sequences."""

NOT_FOR_TABLES: Final = "is for sequences: leave it out, or use --h instead of --label"

NewLabel: TypeAlias = Annotated[
    str | None, option("COLUMN", "Table: the column of labels to predict (its number with --no-header).")
]
NewTarget: TypeAlias = Annotated[
    str | None, option("COLUMN", "Table: the column of numbers to predict (its number with --no-header).")
]
NewLength: TypeAlias = Annotated[int | None, typer.Option("--h", min=1, help="Sequences: tokens per context.")]
Numeric: TypeAlias = Annotated[
    str | None,
    option(
        "auto|none|A,B,…",
        "The numeric columns: auto (those with only numbers), none, or a list.",
        "auto",
        rich_help_panel=_PANEL,
    ),
]
KnownLabel: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--label",
        "--target",
        metavar="COLUMN",
        help="The column with the labels or targets (its number with --no-header).",
        rich_help_panel=_PANEL,
    ),
]


@dataclass(frozen=True)
class InputOptions:
    """What the command line says about its input; None and False say nothing."""

    panel: ClassVar = _PANEL

    columns: Annotated[
        str | None, option("A,B,…", "The columns of the context, in this order.", "all but the label")
    ] = None
    no_header: Annotated[bool, flag("--no-header", "The first row of a CSV file is not a header.")] = False
    delimiter: Annotated[str | None, option("C", "The delimiter of a CSV file.", "comma")] = None
    missing: Annotated[
        str | None,
        option("WHAT", "Empty cells: token (a value of their own), empty (match nothing) or refuse.", "token"),
    ] = None
    file_format: Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar="NAME",
            help="csv, tsv, jsonl, parquet, arrow or text.",
            show_default="by the file's ending",
        ),
    ] = None
    tokens: Annotated[
        str | None, option("HOW", "Tokens of a text: ids, words, characters, bytes or a tokenizer.json.", "ids")
    ] = None
    column: Annotated[str | None, option("NAME", "The Parquet column or JSON field with the documents.")] = None
    case: Annotated[str | None, option("COLUMN", "Event logs: the column with the case.")] = None
    event: Annotated[str | None, option("COLUMN", "Event logs: the column with the event.")] = None
    time: Annotated[
        str | None,
        option("COLUMN", "The time of each event or row: sorts the events of a case; not part of a context."),
    ] = None

    def new_schema(
        self, label: str | None, h: int | None, numeric: str | None = None, target: str | None = None
    ) -> Schema:
        """Return how new input is read: rows of a table with --label or --target, sequences with --h."""
        from hammemo.sources.schemas import SequenceSchema, TableSchema

        if h is None and label is None and target is None:
            raise UsageError(
                "Name the column that is to be predicted with --label, or learn sequences with --h. For numbers, "
                "hammemo fit and evaluate take --target."
            )
        if h is not None and label is not None:
            raise UsageError("--label is for rows of a table, --h for sequences: give one of them.")
        if target is not None and (label is not None or h is not None):
            raise UsageError("--target predicts numbers, --label names and --h sequences: give one of them.")
        if h is not None:
            for_tables = {**self._for_tables, "numeric": numeric}
            refuse(for_tables, "is for tables: leave it out, or use --label instead of --h")
            return SequenceSchema(h, **self._for_both, **self._for_sequences)
        refuse(self._for_sequences, NOT_FOR_TABLES)
        if numeric not in (None, "auto", "none"):
            listed: Any = column_list(numeric, "--numeric")
        else:
            listed = numeric or "auto"
        reading = {**self._for_both, **self._for_tables, "numeric": listed}
        return TableSchema(label if target is None else target, **reading, is_target=target is not None)

    def changed(self, schema: Schema, label: str | None = None) -> Schema:
        """Return the schema of a model with what the command line says otherwise."""
        from hammemo.sources.schemas import TableSchema

        if isinstance(schema, TableSchema):
            for name in self._for_sequences:
                raise UsageError(f"This model learnt rows of a table: --{name} is for sequences. Leave it out.")
            labelled: dict[str, Any] = {} if label is None else {"label": label}
            return replace(schema, **self._for_both, **self._for_tables, **labelled)
        if label is not None or self.columns is not None:
            raise UsageError("This model learnt sequences: --label and --columns are for tables. Leave them out.")
        return replace(schema, **self._for_both, **self._for_sequences)

    @property
    def _for_both(self) -> dict[str, Any]:
        header = {"header": False} if self.no_header else {}
        return {**header, **self._given("delimiter", "time")}

    @property
    def _for_tables(self) -> dict[str, Any]:
        columns = {} if self.columns is None else {"columns": column_list(self.columns)}
        return {**columns, **self._given("missing")}

    @property
    def _for_sequences(self) -> dict[str, Any]:
        return self._given("tokens", "column", "case", "event")

    def _given(self, *names: str) -> dict[str, Any]:
        return {name: getattr(self, name) for name in names if getattr(self, name) is not None}


@dataclass(frozen=True)
class NewInputOptions(InputOptions):
    """What the command line says about input that no model knows yet."""

    label: NewLabel = None
    target: NewTarget = None
    h: NewLength = None
    numeric: Numeric = None

    def schema(self) -> Schema:
        """Return how the input is read."""
        return self.new_schema(self.label, self.h, self.numeric, self.target)


@dataclass(frozen=True)
class WindowOptions:
    """How new sequences are cut into examples."""

    panel: ClassVar = SEQUENCES

    end: Annotated[str | None, option("TOKEN", "Append this token to each document.")] = None
    short: Annotated[str, option("WHAT", "Tokens with fewer than h tokens before them: drop or pad.")] = "drop"

    def cut(self, schema: AnySchema) -> AnySchema:
        """Return the schema with these options; they have no meaning for the rows of a table."""
        from hammemo.sources.schemas import TableSchema

        if isinstance(schema, TableSchema):
            refuse({"end": self.end}, NOT_FOR_TABLES)
            return schema
        return replace(schema, end=self.end, short=self.short)


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
