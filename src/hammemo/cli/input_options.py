"""How the input is read: options of all commands with rows or documents, and their schema."""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass, replace
from pathlib import Path  # noqa: TC003  (typer reads annotations at run time)
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, TypeAlias

import typer

from hammemo.cli.console import UsageError, say_once
from hammemo.cli.options import option, setting, switch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hammemo.sources.schemas import Schema, SequenceSchema
    from hammemo.tokens.orders import Order

_PANEL: Final = "How the input is read (a model file remembers it)"

_FOR_BOTH: Final = ("header", "delimiter", "time")
_FOR_TABLES: Final = ("columns", "missing", "na", "date_format")
_FOR_SEQUENCES: Final = ("tokens", "column", "case", "event")
"""Which parameters of a schema these options set, by the kind of input."""

_NOT_FOR_TABLES: Final = "is for sequences: leave it out, or use --h instead of --label"

_PLAIN_NUMBER: Final = r"-?(0|[1-9][0-9]{0,17})(\.[0-9]{1,9})?"
"""A category that is a number; one with zeros before it, such as 007, is a name."""

_COLUMN = "The column with the labels or targets (its number with --no-header)."
KnownLabel: TypeAlias = Annotated[
    str | None, option("COLUMN", _COLUMN, True, "--label", "--target", rich_help_panel=_PANEL)
]


@dataclass(frozen=True)
class InputOptions:
    """How rows or documents are read; None and False leave it to the schema."""

    panel: ClassVar = _PANEL

    columns: str | None = setting(
        "A,B,…", "The columns of the context, in this order.", "all but the label"
    )
    no_header: bool = switch("--no-header", "The first row of a CSV file is not a header.")
    delimiter: str | None = setting("C", "The delimiter of a CSV file.", "comma")
    missing: str | None = setting(
        "WHAT",
        "Empty cells: token (a value of their own), empty (match nothing) or refuse.",
        "token",
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
    tokens: str | None = setting(
        "HOW", "Tokens of a text: ids, words, characters, bytes or a tokenizer.json.", "ids"
    )
    column: str | None = setting("NAME", "The Parquet column or JSON field with the documents.")
    case: str | None = setting("COLUMN", "Event logs: the column with the case.")
    event: str | None = setting("COLUMN", "Event logs: the column with the event.")
    time: str | None = setting(
        "COLUMN",
        "The time of each event or row: sorts the events of a case; not part of a context.",
    )

    def apply_to(self, schema: Schema, label: str | None = None) -> Schema:
        """Return the schema of a model with these options in place of its own."""
        from hammemo.sources.schemas import TableSchema

        if isinstance(schema, TableSchema):
            for name in self._parse(_FOR_SEQUENCES):
                raise UsageError(
                    f"This model learnt rows of a table: --{name} is for sequences. Leave it out."
                )
            values = self._parse((*_FOR_BOTH, *_FOR_TABLES))
            if label is not None:
                values["label"] = label
            return replace(schema, **values, tell=say_once())
        if label is not None or self.columns is not None:
            raise UsageError(
                "This model learnt sequences: --label and --columns are for tables. Leave them out."
            )
        refuse(
            {"na": self.na, "date-format": self.date_format},
            "is for tables, and this model learnt sequences",
        )
        return replace(schema, **self._parse((*_FOR_BOTH, *_FOR_SEQUENCES)))

    def _parse(self, names: tuple[str, ...]) -> dict[str, Any]:
        """Return the values of these parameters of a schema, without those that are not set."""
        from hammemo.sources.reading_notes import read_date_formats, read_na

        values = dict(vars(self))
        values["header"] = False if self.no_header else None
        if self.columns is not None:
            values["columns"] = parse_column_list(self.columns)
        if self.na is not None:
            values["na"] = read_na(self.na)
        if self.date_format is not None:
            values["date_format"] = read_date_formats(self.date_format)
        return {name: values[name] for name in names if values[name] is not None}


@dataclass(frozen=True)
class ExampleOptions(InputOptions):
    """How examples are read that no model knows yet."""

    label: str | None = setting(
        "COLUMN", "Table: the column of labels to predict (its number with --no-header)."
    )
    h: Annotated[int | None, typer.Option("--h", min=1, help="Sequences: tokens per context.")] = (
        None
    )

    def schema(self) -> Schema:
        """Return how the input is read."""
        return self._make_schema()

    def _make_schema(
        self,
        numeric: str | None = None,
        ordered: list[str] | None = None,
        target: str | None = None,
    ) -> Schema:
        """Make the schema: of a table with --label or --target, of sequences with --h."""
        from hammemo.sources.schemas import SequenceSchema, TableSchema

        if self.h is None and self.label is None and target is None:
            raise UsageError(
                "Name the column that is to be predicted with --label, or learn sequences with "
                "--h. For numbers, hammemo fit and evaluate take --target."
            )
        if self.h is not None and self.label is not None:
            raise UsageError("--label is for rows of a table, --h for sequences: give one of them.")
        if target is not None and (self.label is not None or self.h is not None):
            raise UsageError(
                "--target predicts numbers, --label names and --h sequences: give one of them."
            )
        if self.h is not None:
            for_tables = self._parse(_FOR_TABLES)
            options = {name.replace("_", "-"): value for name, value in for_tables.items()}
            options["numeric"] = numeric
            options["ordered"] = ordered
            refuse(options, "is for tables: leave it out, or use --label instead of --h")
            return SequenceSchema(self.h, **self._parse((*_FOR_BOTH, *_FOR_SEQUENCES)))
        refuse(self._parse(_FOR_SEQUENCES), _NOT_FOR_TABLES)
        numeric_columns: Any = "auto" if numeric is None else numeric
        if numeric_columns not in ("auto", "none"):
            numeric_columns = parse_column_list(numeric_columns, "--numeric")
        return TableSchema(
            self.label if target is None else target,
            **self._parse((*_FOR_BOTH, *_FOR_TABLES)),
            numeric=numeric_columns,
            ordered=parse_orders(ordered or ()),
            tell=say_once(),
            is_target=target is not None,
        )


@dataclass(frozen=True)
class NewInputOptions(ExampleOptions):
    """How the input of a new model is read."""

    target: str | None = setting(
        "COLUMN", "Table: the column of numbers to predict (its number with --no-header)."
    )
    numeric: str | None = setting(
        "auto|none|A,B,…",
        "The numeric columns: auto (those with only numbers), none, or a list.",
        "auto",
        rich_help_panel=_PANEL,
    )
    ordered: list[str] | None = setting(
        "COLUMN=A,B,…",
        "A column of ordered categories, from low to high, as in 'size=S,M,L' (repeatable).",
        "those that Parquet and Arrow files say",
        "--ordered",
        rich_help_panel=_PANEL,
    )

    def schema(self) -> Schema:
        """Return how the input is read."""
        return self._make_schema(self.numeric, self.ordered, self.target)


@dataclass(frozen=True)
class SequenceOptions:
    """What is learned of sequences, and how they are cut into examples."""

    panel: ClassVar = "Sequences"

    end: str | None = setting("TOKEN", "Append this token to each document.")
    short: str = setting(
        "WHAT", "Tokens with fewer than h tokens before them: drop or pad.", default="drop"
    )
    classes_top: int | None = setting(
        "N", "Predict only the most frequent tokens of a sample, this many.", min=1
    )
    classes_file: Path | None = setting(
        "FILE", "Predict only the tokens in this file, one per line."
    )

    def refine(self, schema: Schema) -> tuple[Schema, Any]:
        """Return the schema with these options, and the labels that are predicted or how many.

        None stands for all labels.
        """
        from hammemo.sources.schemas import TableSchema

        if isinstance(schema, TableSchema):
            options = {
                "classes-top": self.classes_top,
                "classes-file": self.classes_file,
                "end": self.end,
            }
            refuse(options, _NOT_FOR_TABLES)
            return schema, None
        are_chosen = self.classes_top is not None or self.classes_file is not None
        schema = replace(schema, end=self.end, short=self.short, chosen=are_chosen)
        if self.classes_file is None:
            return schema, self.classes_top
        return schema, _read_labels(self.classes_file, schema)


def refuse(options: dict[str, Any], reason: str) -> None:
    """Refuse options that are set but have no meaning for the command."""
    for name, value in options.items():
        if value is not None:
            raise UsageError(f"--{name} {reason}.")


def parse_column_list(text: str, option: str = "--columns") -> tuple[str, ...]:
    """Return the names in a list with commas; a name with a comma is put in quotes, as in CSV.

    Examples
    --------
    >>> from hammemo.cli.input_options import parse_column_list
    >>> parse_column_list('colour,"size, in cm"')
    ('colour', 'size, in cm')
    """
    names = tuple(next(csv.reader([text]), []))
    if not names or not all(names):
        raise UsageError(
            f"{option} {text!r} contains an empty name: separate names by single commas, as in A,B."
        )
    return names


def parse_orders(texts: Sequence[str]) -> tuple[tuple[str, Order], ...]:
    """Return columns and their categories from low to high; a category with a comma has quotes.

    Categories are numbers if all of one column are, as they are in a data frame.

    Examples
    --------
    >>> from hammemo.cli.input_options import parse_orders
    >>> parse_orders(["size=S,M,L", "grade=1,2,3"])
    (('size', ('S', 'M', 'L')), ('grade', (1, 2, 3)))
    """
    orders: dict[str, Order] = {}
    for text in texts:
        column, equals, written = text.partition("=")
        if not equals or not column:
            raise UsageError(
                f"--ordered {text!r} names no column: write COLUMN=A,B,… from low to high, as in "
                "'size=S,M,L'."
            )
        if column in orders:
            raise UsageError(f"--ordered names the column {column!r} twice: leave one out.")
        orders[column] = _parse_categories(column, written)
    return tuple(orders.items())


def _parse_categories(column: str, text: str) -> Order:
    """Return the categories in a list with commas, from low to high."""
    categories = next(csv.reader([text], strict=True), [])
    if not categories:
        raise UsageError(
            f"--ordered gives the column {column!r} no category: list them from low to high, as in "
            f"'{column}=S,M,L'."
        )
    for place, category in enumerate(categories):
        if not category.strip():
            raise UsageError(
                f"--ordered gives the column {column!r} the empty category {category!r} in "
                f"{text!r}: separate categories by single commas."
            )
        if category in categories[:place]:
            raise UsageError(
                f"--ordered gives the column {column!r} the category {category!r} twice: name each "
                "once."
            )
    from hammemo.tokens.orders import check_order

    values: list[Any] = categories
    if all(re.fullmatch(_PLAIN_NUMBER, category) for category in categories):
        values = [_read_number(category) for category in categories]
    return check_order(values, f"Column {column!r}")


def _read_number(text: str) -> int | float:
    if "." in text:
        return float(text)
    return int(text)


def _read_labels(path: Path, schema: SequenceSchema) -> list[Any]:
    """Return the labels in a file, one a line: whole numbers, unless tokens are strings."""
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line]
    if schema.is_log or schema.tokens in ("words", "characters"):
        return lines
    try:
        return [int(line) for line in lines]
    except ValueError as error:
        raise ValueError(
            f"{path} holds {str(error).split(': ')[-1]}, which is not a token id: use --tokens "
            "words."
        ) from error
