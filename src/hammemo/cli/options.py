"""Options that several commands share, and what their short spellings mean."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from hammemo.cli.console import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from hammemo.kernels import SiteKernel
    from hammemo.memories import Memory
    from hammemo.sources.schemas import Schema

_INPUT = "How the input is read (a model file remembers it)"

Format: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--format",
        metavar="NAME",
        help="csv, tsv, jsonl, parquet or text.",
        show_default="by the file's ending",
        rich_help_panel=_INPUT,
    ),
]
Label: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN", help="The column with the labels (its number with --no-header).", rich_help_panel=_INPUT
    ),
]
Columns: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="A,B,…",
        help="The columns of the context, in this order.",
        show_default="all but the label",
        rich_help_panel=_INPUT,
    ),
]
NoHeader: TypeAlias = Annotated[
    bool, typer.Option("--no-header", help="The first row of a CSV file is no header.", rich_help_panel=_INPUT)
]
Delimiter: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="C", help="What stands between the values of a CSV file.", show_default="comma", rich_help_panel=_INPUT
    ),
]
Missing: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="WHAT",
        help="Empty cells: refuse them, or empty for positions that match nothing.",
        show_default="refuse",
        rich_help_panel=_INPUT,
    ),
]
Tokens: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="HOW",
        help="Tokens of a text: ids, words, characters, bytes or a tokenizer.json.",
        show_default="ids",
        rich_help_panel=_INPUT,
    ),
]
Column: TypeAlias = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="The Parquet column or JSON field with the documents.", rich_help_panel=_INPUT),
]
Case: TypeAlias = Annotated[
    str | None, typer.Option(metavar="COLUMN", help="Event logs: the column with the case.", rich_help_panel=_INPUT)
]
Event: TypeAlias = Annotated[
    str | None, typer.Option(metavar="COLUMN", help="Event logs: the column with the event.", rich_help_panel=_INPUT)
]
KeyFile: TypeAlias = Annotated[
    Path | None, typer.Option(metavar="FILE", help="The secret key of a keyed model: 16 to 64 bytes, as they are.")
]
AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]


NOT_FOR_TABLES = "is for sequences: leave it out, or use --h instead of --label"


def new_schema(
    h: int | None,
    label: str | None,
    for_tables: dict[str, str | None],
    for_sequences: dict[str, Any],
    *,
    header: bool,
    delimiter: str | None,
) -> Schema:
    """Return how input is to be read that no model knows yet: rows of a table with --label, sequences with --h."""
    from hammemo.sources.schemas import SequenceSchema, TableSchema

    if h is None and label is None:
        raise UsageError("Name the column that is to be predicted with --label, or learn sequences with --h.")
    if h is not None and label is not None:
        raise UsageError("--label is for rows of a table, --h for sequences: give one of them.")
    if h is not None:
        refuse(for_tables, "is for tables: leave it out, or use --label instead of --h")
        given = {name: value for name, value in for_sequences.items() if value is not None}
        return SequenceSchema(h, header=header, delimiter=delimiter, **given)
    refuse(for_sequences, NOT_FOR_TABLES)
    columns, missing = for_tables["columns"], for_tables["missing"]
    names = None if columns is None else column_list(columns)
    return TableSchema(label, names, header, delimiter, missing or "refuse")


def refuse(given: dict[str, Any], reason: str) -> None:
    """Refuse options that were given but have no meaning here."""
    for name, value in given.items():
        if value is not None:
            raise UsageError(f"--{name} {reason}.")


def overridden(schema: Schema, **options: Any) -> Schema:
    """Return a schema with what the command line says otherwise; None says nothing."""
    from hammemo.sources.schemas import TableSchema

    given = {name: value for name, value in options.items() if value not in (None, False)}
    if given.pop("no_header", False):
        given["header"] = False
    if "columns" in given:
        given["columns"] = column_list(given["columns"])
    if not isinstance(schema, TableSchema) and {"label", "columns"} & set(given):
        raise UsageError("This model learnt sequences: --label and --columns are for tables. Leave them out.")
    if isinstance(schema, TableSchema) and {"tokens", "column", "case", "event"} & set(given):
        wrong = next(name for name in ("tokens", "column", "case", "event") if name in given)
        raise UsageError(f"This model learnt rows of a table: --{wrong} is for sequences. Leave it out.")
    if not isinstance(schema, TableSchema):
        given.pop("missing", None)
    return replace(schema, **given)


def column_list(text: str) -> tuple[str, ...]:
    """Return the names in a list with commas; a name with a comma is put in quotes, as in CSV.

    Examples
    --------
    >>> from hammemo.cli.options import column_list
    >>> column_list('colour,"size, in cm"')
    ('colour', 'size, in cm')
    """
    import csv

    names = tuple(next(csv.reader([text]), []))
    if not names or not all(names):
        raise UsageError(f"--columns {text!r} has an empty name in it: write the names with commas between, as in A,B.")
    return names


def read_key(file: Path | None) -> bytes | None:
    """Return the bytes of a key file; a line end that an editor put there is no part of the key."""
    return None if file is None else file.read_bytes().rstrip(b"\r\n")


def kernel_of(text: str) -> SiteKernel:
    """Return the kernel of a short spelling.

    Examples
    --------
    >>> from hammemo.cli.options import kernel_of
    >>> kernel_of("suffixes:4"), kernel_of("positions+skip-pairs:3")
    (Suffixes(), Joined(kernels=[PositionalHamming(), SkipPairs(reach=3)]))
    """
    from hammemo.kernels import Decaying, PositionalHamming, SkipPairs, Suffixes

    makers: dict[str, tuple[Any, list[Any]]] = {
        "positions": (PositionalHamming, []),
        "decaying": (Decaying, [float]),
        "suffixes": (Suffixes, [int, float]),
        "skip-pairs": (SkipPairs, [int]),
    }
    kernels: list[SiteKernel] = []
    for part in text.split("+"):
        name, *numbers = part.strip().split(":")
        maker, types = makers.get(name, (None, []))
        try:
            if maker is None or len(numbers) > len(types):
                raise ValueError
            kernels.append(maker(*(kind(number) for kind, number in zip(types, numbers, strict=False))))
        except ValueError:
            raise UsageError(
                f"--kernel {part!r} is not known: use positions, decaying:RATE, suffixes:K, suffixes:K:BASE or "
                "skip-pairs:K, or several with + between."
            ) from None
    joined = kernels[0]
    for kernel in kernels[1:]:
        joined = joined + kernel
    return joined


def memory_of(name: str, buckets: int, reserved: int, d: int, key: bytes | None, *, ledger: bool) -> Memory:
    """Return the memory of these options."""
    from hammemo.memories import Exact, Gaussian, Hashed, Ledgered

    makers: dict[str, Callable[[], Memory]] = {
        "hashed": lambda: Hashed(buckets, reserved, key=key),
        "exact": lambda: Exact(),
        "gaussian": lambda: Gaussian(d),
    }
    if name not in makers:
        raise UsageError(f"--memory {name!r} is not known: use {', '.join(makers)}.")
    if key is not None and name != "hashed" and not ledger:
        raise UsageError(f"--key-file: the {name} memory has no key. Use --memory hashed, or --ledger.")
    memory = makers[name]()
    return Ledgered(memory, key=key) if ledger else memory


def vote_of(name: str) -> str:
    """Return the name of a vote, or refuse it."""
    known = ("sum", "mean", "log-linear")
    if name not in known:
        raise UsageError(f"--vote {name!r} is not known: use {', '.join(known)}.")
    return name
