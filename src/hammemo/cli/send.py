"""``hammemo send`` and ``hammemo erase``: edits of a served model, from a shell."""

from __future__ import annotations

import math
import uuid
from pathlib import Path  # noqa: TC003  (typer reads annotations at run time)
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias

import typer

from hammemo.cli import options as opt  # noqa: TC001  (typer reads annotations at run time)
from hammemo.cli.console import UsageError, check_writable, counted, one_line_errors, print_json, progress_bar
from hammemo.sources.formats import STANDARD_INPUT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hammemo.sources.tables import Batch

_ROWS: Final = 1_000
"""Rows of one edit."""

Url: TypeAlias = Annotated[
    str, typer.Argument(metavar="URL", help="The server, such as http://127.0.0.1:8080; HAMMEMO_TOKEN is its token.")
]
Name: TypeAlias = Annotated[str, typer.Argument(metavar="MODEL", help="The name of a model there.")]
Id: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--id", metavar="TEXT", help="Repeated with the same id, it is done once.", show_default="a random one"
    ),
]


def send_files(
    url: Url,
    model: Name,
    label: Annotated[str, typer.Option(metavar="COLUMN", help="The column with the labels.")],
    files: Annotated[
        list[str] | None, typer.Argument(metavar="FILE", help="Tables.", show_default="standard input")
    ] = None,
    subject: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="The column that says whose a row is; it is not learnt.")
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option(metavar="A,B,…", help="The columns of the context.", show_default="those of the model, or all"),
    ] = None,
    forget: Annotated[bool, typer.Option("--forget", help="Forget the rows.")] = False,
    refit: Annotated[
        bool, typer.Option("--refit", help="Refit the model when all rows are learnt or forgotten.")
    ] = False,
    receipt: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="With --forget: write signed receipts here, one line for each edit."),
    ] = None,
    op: Id = None,
    file_format: Annotated[
        str | None, typer.Option("--format", metavar="NAME", help="csv, tsv, jsonl or parquet.")
    ] = None,
    as_json: opt.AsJson = False,
) -> None:
    """Let a served model learn the rows of tables, a thousand at a time, or forget them.

    Values of JSON lines and Parquet keep their types; those of CSV files are texts.

    --receipt needs a server with a key file. hammemo verify checks the receipts with the downloaded model.
    """
    with one_line_errors():
        from hammemo.client import Client, ServerError
        from hammemo.sources.tables import read_table

        if receipt is not None:
            if not forget:
                raise UsageError("--receipt is for rows that are forgotten: add --forget.")
            check_writable(receipt, "--receipt")
        base, sent, version = op or uuid.uuid4().hex, 0, 0
        receipts: list[str] = []
        asked: dict[str, Any] = {} if receipt is None else {"receipt": True}
        with Client(url) as client, progress_bar("Sending") as tell:
            try:
                known = columns.split(",") if columns else client.describe(model)["column_names"]
                edit = client.forget if forget else client.learn
                batches = (
                    batch
                    for where in files or [STANDARD_INPUT]
                    for batch in read_table(where, format=file_format, batch_rows=_ROWS)
                )
                for number, batch in enumerate(batches):
                    rows, labels, subjects = _examples(batch, label, subject, known)
                    done = edit(model, rows, labels, op=f"{base}-{number}", subjects=subjects, **asked)
                    version, sent = done.version, sent + len(rows)
                    receipts.append(done.receipt)
                    tell(sent, None)
                if refit:
                    done = client.refit(model, op=f"{base}-refit", **asked)
                    version = done.version
                    receipts.append(done.receipt)
            except ServerError as error:
                so_far = f"{counted(sent, 'row')} of id {base} are done; send the rest with --id {base}, or repeat all."
                raise ValueError(f"{error} {so_far}") from error
        if receipt is not None:
            _write_receipts(receipt, receipts)
    if as_json:
        print_json({"rows": sent, "version": version, "id": base, **({"receipts": str(receipt)} if receipt else {})})
    else:
        where = "" if receipt is None else f" {counted(len(receipts), 'receipt')} in {receipt}."
        did = f"{counted(sent, 'row')} {'forgotten' if forget else 'learnt'}"
        typer.echo(f"{did}; the model has version {version}.{where}")


def erase_subject(
    url: Url,
    model: Name,
    subject: Annotated[str, typer.Argument(metavar="SUBJECT", help="Whose rows are erased.")],
    no_refit: Annotated[bool, typer.Option("--no-refit", help="Do not refit the model with it.")] = False,
    receipt: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the signed receipt here.")] = None,
    op: Id = None,
    as_json: opt.AsJson = False,
) -> None:
    """Erase a subject from a served model: its rows, and the key of its journal. Exit with 1 if it is not erased yet.

    Then its rows are removed, and the same command with the same --id waits for the rest and writes the receipt.
    """
    with one_line_errors():
        from hammemo.client import Client, ServerError

        if receipt is not None:
            check_writable(receipt)
        base = op or uuid.uuid4().hex
        with Client(url) as client:
            try:
                found = client.forget_subject(model, subject, op=base, refit=not no_refit)
            except ServerError as error:
                raise ValueError(str(error)) from error
        if receipt is not None and found.receipt:
            _write_receipts(receipt, [found.receipt])
    if as_json:
        print_json({**found._asdict(), "id": base})
    else:
        where = f" The receipt is in {receipt}." if receipt is not None and found.receipt else ""
        typer.echo(f"The subject is {found.state}, request {base}, version {found.version}.{where}")
    if found.state != "erased":
        raise typer.Exit(1)


def _write_receipts(path: Path, receipts: list[str]) -> None:
    from hammemo.files.atomic import write_file

    write_file(path, [f"{receipt}\n".encode() for receipt in receipts])


def _examples(
    batch: Batch, label: str, subject: str | None, columns: list[str] | None
) -> tuple[list[list[Any]], list[Any], list[str]]:
    """Return rows, labels and subjects of a batch as JSON can say them."""
    apart = (label, subject)
    named = columns or [name for name in batch.names if name not in apart]
    if subject in named or label in named:
        raise UsageError(
            "--label and --subject name columns that the model does not learn: leave them out of --columns."
        )
    values = [list(_plain(batch, name)) for name in named]
    rows = [list(row) for row in zip(*values, strict=True)]
    subjects = [] if subject is None else [_subject(batch, i, one) for i, one in enumerate(_plain(batch, subject))]
    return rows, list(_plain(batch, label)), subjects


def _plain(batch: Batch, name: str) -> Iterator[Any]:
    for i, value in enumerate(batch.column(name).tolist()):
        if isinstance(value, float) and not math.isfinite(value):
            yield None
        elif value is None or isinstance(value, (str, int, float)):
            yield value
        else:
            kind = type(value).__name__
            raise ValueError(f"{batch.place(i)}: column {name!r} holds a {kind}, and a server takes texts and numbers.")


def _subject(batch: Batch, row: int, value: Any) -> str:
    if value is None or value == "" or isinstance(value, float):
        raise ValueError(f"{batch.place(row)}: the subject is missing or no text: every row belongs to one subject.")
    return str(value)
