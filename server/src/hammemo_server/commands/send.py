"""``hammemo send`` and ``hammemo erase``: edits of a served model, from a shell."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from pathlib import Path  # noqa: TC003  (typer reads annotations at run time)
from typing import Annotated, Any, TypeAlias

import typer

from hammemo.cli import options as opt  # noqa: TC001  (typer reads annotations at run time)
from hammemo.cli.console import UsageError, check_writable, counted, one_line_errors, print_json, progress_bar
from hammemo_server.commands.sent_files import SentFiles  # noqa: TC001  (typer reads annotations at run time)

Url: TypeAlias = Annotated[
    str, typer.Argument(metavar="URL", help="The server, such as http://127.0.0.1:8080; HAMMEMO_TOKEN is its token.")
]
Name: TypeAlias = Annotated[str, typer.Argument(metavar="MODEL", help="The name of a model there.")]
Id: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--id", metavar="TEXT", help="A command repeated with the same id runs once.", show_default="a random one"
    ),
]


@dataclass(frozen=True)
class Sending:
    """What is done with the rows."""

    forget: Annotated[bool, typer.Option("--forget", help="Forget the rows.")] = False
    refit: Annotated[bool, typer.Option("--refit", help="Refit the model when all rows are learnt or forgotten.")] = (
        False
    )
    receipt: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="With --forget: write signed receipts here, one line for each edit."),
    ] = None
    op: Id = None

    def check(self) -> None:
        """Refuse a receipt that cannot be issued or written."""
        if self.receipt is not None:
            if not self.forget:
                raise UsageError("--receipt is for rows that are forgotten: add --forget.")
            check_writable(self.receipt, "--receipt")


def send_files(url: Url, model: Name, given: SentFiles, sending: Sending, as_json: opt.AsJson = False) -> None:
    """Let a served model learn the rows of tables, a thousand at a time, or forget them.

    With --case and --event, each case of an event log is sent as one document, for a model of documents.

    Values of JSON lines and Parquet keep their types; those of CSV files are texts.

    --receipt needs a server with a key file. hammemo verify checks the receipts with the downloaded model.
    """
    with one_line_errors():
        given.check()
        sending.check()
        base = sending.op or uuid.uuid4().hex
        sent, version, receipts = _sent(url, model, given, sending, base)
        if sending.receipt is not None:
            _write_receipts(sending.receipt, receipts)
    if as_json:
        where: dict[str, Any] = {} if sending.receipt is None else {"receipts": str(sending.receipt)}
        print_json({f"{given.unit}s": sent, "version": version, "id": base, **where})
        return
    told = "" if sending.receipt is None else f" {counted(len(receipts), 'receipt')} in {sending.receipt}."
    did = f"{counted(sent, given.unit)} {'forgotten' if sending.forget else 'learnt'}"
    typer.echo(f"{did}; the model has version {version}.{told}")


def _sent(url: str, model: str, given: SentFiles, sending: Sending, base: str) -> tuple[int, int, list[str]]:
    """Send all edits; return how many rows or documents these were, the last version, and the receipts."""
    from hammemo.client import Client, ServerError

    sent, version, receipts = 0, 0, list[str]()
    asked: dict[str, Any] = {} if sending.receipt is None else {"receipt": True}
    name = ("forget" if sending.forget else "learn") + ("_stream" if given.is_log else "")
    with Client(url) as client, progress_bar("Sending") as tell:
        try:
            for number, (content, n) in enumerate(given.edits(client.describe(model)["column_names"])):
                done = getattr(client, name)(model, **content, op=f"{base}-{number}", **asked)
                version, sent = done.version, sent + n
                receipts.append(done.receipt)
                tell(sent, None)
            if sending.refit:
                done = client.refit(model, op=f"{base}-refit", **asked)
                version = done.version
                receipts.append(done.receipt)
        except ServerError as error:
            so_far = f"{counted(sent, given.unit)} of id {base} are done"
            raise ValueError(f"{error} {so_far}; send the rest with --id {base}, or repeat all.") from error
    return sent, version, receipts


def erase_subject(
    url: Url,
    model: Name,
    subject: Annotated[str, typer.Argument(metavar="SUBJECT", help="The subject to erase.")],
    no_refit: Annotated[bool, typer.Option("--no-refit", help="Do not refit the model.")] = False,
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
