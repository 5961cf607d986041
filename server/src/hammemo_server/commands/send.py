"""``hammemo send`` and ``hammemo erase``: edits of a served model, from a shell."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, replace
from datetime import date, datetime
from pathlib import Path  # noqa: TC003  (typer reads annotations at run time)
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, TypeAlias

import typer

from hammemo.cli import options as opt  # noqa: TC001  (typer reads annotations at run time)
from hammemo.cli.console import UsageError, check_writable, counted, print_result, progress_bar
from hammemo.cli.options import flag, option
from hammemo_server.commands.sent_files import SentFiles  # noqa: TC001  (typer reads annotations at run time)

if TYPE_CHECKING:
    from hammemo.client import Acknowledgement, Client
    from hammemo.edits.sync import Synced

Url: TypeAlias = Annotated[
    str,
    typer.Argument(
        metavar="URL", help="The server, such as http://127.0.0.1:8080; HAMMEMO_TOKEN is its token."
    ),
]
Name: TypeAlias = Annotated[str, typer.Argument(metavar="MODEL", help="The name of a model there.")]
_ID: Final = "A command repeated with the same id runs once."
Id: TypeAlias = Annotated[
    str | None, typer.Option("--id", metavar="TEXT", help=_ID, show_default="a random one")
]


@dataclass(frozen=True)
class OneStep:
    """What makes all rows one edit, which may forget and learn."""

    panel: ClassVar = "One step (at most 10,000 rows to learn and as many to forget)"

    forgetting: Annotated[
        list[str] | None, option("FILE", "A table of rows to forget in the same step (repeatable).")
    ] = None
    everything: Annotated[bool, flag("--everything", "Forget all rows in the same step.")] = False
    sync: Annotated[
        bool,
        flag(
            "--sync", "FILE is the whole table: forget the rows that are gone, learn the new ones."
        ),
    ] = False
    position: Annotated[
        str | None, option("TEXT", "Store with the rows up to where their source was read.")
    ] = None


@dataclass(frozen=True)
class Sending(OneStep):
    """What is done with the rows."""

    forget: Annotated[bool, flag("--forget", "Forget the rows.")] = False
    refit: Annotated[
        bool, flag("--refit", "Refit the model when all rows are learnt or forgotten.")
    ] = False
    receipt: Annotated[
        Path | None,
        option("FILE", "With --forget: write signed receipts here, one line for each edit."),
    ] = None
    op: Id = None

    @property
    def verb(self) -> str:
        """What was done with the rows."""
        return (
            "learnt or forgotten" if self.in_one_step else "forgotten" if self.forget else "learnt"
        )

    @property
    def in_one_step(self) -> bool:
        """Whether all rows make one edit, which may forget and learn."""
        return self.everything or bool(self.forgetting) or self.position is not None or self.sync

    def check(self) -> None:
        """Refuse options that do not belong together, and a receipt that cannot be issued or written."""
        if self.in_one_step and self.forget:
            raise UsageError(
                "--forget is for the rows of FILE: name them with --forgetting instead."
            )
        if self.everything and self.forgetting:
            raise UsageError("--everything forgets all rows: leave --forgetting out.")
        if self.sync and (self.everything or self.forgetting):
            raise UsageError(
                "--sync finds the rows to forget: leave --forgetting and --everything out."
            )
        if self.receipt is not None:
            if not self.forget:
                raise UsageError("--receipt is for rows that are forgotten: add --forget.")
            check_writable(self.receipt, "--receipt")


def send_files(
    url: Url, model: Name, given: SentFiles, sending: Sending, as_json: opt.AsJson = False
) -> None:
    """Let a served model learn the rows of tables, a thousand at a time, or forget them.

    With --case and --event, each case of an event log is sent as one document, for a model of
    documents.

    Values of JSON lines and Parquet keep their types; those of CSV files are texts.

    With --forgetting, --everything, --sync or --position, all rows are one edit: no answer
    comes from the moment between. --sync downloads the model to compare it with the table, so
    other edits should wait until it is done.

    --receipt needs a server with a key file. hammemo verify checks the receipts with the
    downloaded model.
    """
    given.check()
    sending.check()
    if sending.in_one_step and given.is_log:
        raise UsageError(
            "--forgetting, --everything, --sync and --position are for tables with --label."
        )
    if sending.sync and given.subject is not None:
        raise UsageError(
            "--sync cannot tell which person a row of the model belongs to: leave --subject out."
        )
    base = sending.op or uuid.uuid4().hex
    sent, version, receipts = _sent(url, model, given, sending, base)
    if sending.receipt is not None:
        _write_receipts(sending.receipt, receipts)
    where = {} if sending.receipt is None else {"receipts": str(sending.receipt)}
    facts = {f"{given.unit}s": sent, "version": version, "id": base, **where}
    told = (
        ""
        if sending.receipt is None
        else f" {counted(len(receipts), 'receipt')} in {sending.receipt}."
    )
    did = f"{counted(sent, given.unit)} {sending.verb}"
    print_result(facts, f"{did}; the model has version {version}.{told}", as_json=as_json)


def _sent(
    url: str, model: str, given: SentFiles, sending: Sending, base: str
) -> tuple[int, int, list[str]]:
    """Send all edits.

    Return how many rows or documents these were, the last version, and the receipts.
    """
    from hammemo.client import Client, ServerError

    sent = 0
    version = 0
    receipts = list[str]()
    asked: dict[str, Any] = {} if sending.receipt is None else {"receipt": True}
    name = ("forget" if sending.forget else "learn") + ("_stream" if given.is_log else "")
    with Client(url) as client, progress_bar("Sending") as tell:
        try:
            known = client.describe(model)["column_names"]
            if sending.in_one_step:
                done, sent = _applied(client, model, given, sending, known, base)
                version = done.version
            for number, (content, n) in enumerate(
                () if sending.in_one_step else given.edits(known)
            ):
                done = getattr(client, name)(model, **content, op=f"{base}-{number}", **asked)
                version = done.version
                sent = sent + n
                receipts.append(done.receipt)
                tell(sent, None)
            if sending.refit:
                done = client.refit(model, op=f"{base}-refit", **asked)
                version = done.version
                receipts.append(done.receipt)
        except ServerError as error:
            so_far = f"{counted(sent, given.unit)} of id {base} are done"
            raise ValueError(
                f"{error} {so_far}; send the rest with --id {base}, or repeat all."
            ) from error
    return sent, version, receipts


def _applied(
    client: Client,
    model: str,
    given: SentFiles,
    sending: Sending,
    known: list[str] | None,
    base: str,
) -> tuple[Acknowledgement, int]:
    """Send all rows as one edit, and return how many these were."""
    from hammemo.client import Acknowledgement

    version = client.describe(model)["version"] if sending.sync else 0
    learnt: Any = None if given.files is None and sending.everything else given.as_one(known)
    gone: Any = "everything" if sending.everything else None
    if sending.forgetting:
        gone = replace(given, files=sending.forgetting).as_one(known)
    if sending.sync:
        is_equal, learnt, gone = _difference(client, model, *learnt[:2])
        if is_equal and sending.position is None:
            return Acknowledgement(version, "applied"), 0
    done = client.apply(model, learnt, gone, position=sending.position, op=f"{base}-0")
    if sending.sync and done.status == "applied" and done.version > version + 1:
        typer.echo(
            "Other edits came in between: run the command again to compare the table with these.",
            err=True,
        )
    return done, sum(
        len(part[0]) for part in (learnt, gone) if part is not None and not isinstance(part, str)
    )


def _difference(
    client: Client, model: str, rows: list[Any], labels: list[Any]
) -> tuple[bool, Any, Any]:
    """Return whether a table is equal to the model that a server has now, and what is to be learnt and forgotten."""
    from hammemo.edits.editing import name_columns
    from hammemo.files.models import load
    from hammemo.tokens.columns import ColumnKind

    with TemporaryDirectory() as folder:
        client.download(model, f"{folder}/model")
        learner = load(f"{folder}/model")
    name_columns(learner, None)  # rows of a server have no names
    dates = [j for j, kind in enumerate(learner.state.columns.letters) if kind == ColumnKind.DATES]
    table = [list(row) for row in rows]
    for row in table:
        for j in dates:
            row[j] = datetime.fromisoformat(row[j]) if isinstance(row[j], str) else row[j]
    synced: Synced = learner.sync(table, labels, dry_run=True)
    typer.echo(str(synced), err=True)
    if synced.gone is None:  # the model has digests only
        return synced.is_equal, (rows, labels) if labels else None, "everything"
    pairs = (tuple(map(_as_json, pair())) for pair in (synced.learnt_rows, synced.forgotten_rows))
    learnt, gone = (pair if pair[1] else None for pair in pairs)
    return synced.is_equal, learnt, gone


def _as_json(values: Any) -> list[Any]:
    """Return rows or labels as JSON says them: a date as a string."""
    return [
        _as_json(value)
        if isinstance(value, list)
        else value.isoformat()
        if isinstance(value, date)
        else value
        for value in (values.tolist() if hasattr(values, "tolist") else values)
    ]


def erase_subject(
    url: Url,
    model: Name,
    subject: Annotated[str, typer.Argument(metavar="SUBJECT", help="The subject to erase.")],
    no_refit: Annotated[bool, flag("--no-refit", "Do not refit the model.")] = False,
    receipt: Annotated[Path | None, option("FILE", "Write the signed receipt here.")] = None,
    op: Id = None,
    as_json: opt.AsJson = False,
) -> None:
    """Erase a subject from a served model: its rows, and the key of its journal.

    Exit with 1 if it is not erased yet.

    Then its rows are removed, and the same command with the same --id waits for the rest and
    writes the receipt.
    """
    from hammemo.client import Client

    if receipt is not None:
        check_writable(receipt)
    base = op or uuid.uuid4().hex
    with Client(url) as client:
        found = client.forget_subject(model, subject, op=base, refit=not no_refit)
    if receipt is not None and found.receipt:
        _write_receipts(receipt, [found.receipt])
    where = f" The receipt is in {receipt}." if receipt is not None and found.receipt else ""
    told = f"The subject is {found.state}, request {base}, version {found.version}.{where}"
    print_result({**found._asdict(), "id": base}, told, as_json=as_json)
    if found.state != "erased":
        raise typer.Exit(1)


def _write_receipts(path: Path, receipts: list[str]) -> None:
    from hammemo.files.atomic import write_file

    write_file(path, [f"{receipt}\n".encode() for receipt in receipts])
