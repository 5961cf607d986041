"""``hammemo send`` and ``hammemo erase``: edits of a served model, from a shell."""

from __future__ import annotations

import uuid
import warnings
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from pathlib import Path  # noqa: TC003  (typer reads annotations at run time)
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, NamedTuple, TypeAlias

import typer

from hammemo.cli import options as opt  # noqa: TC001  (typer reads annotations at run time)
from hammemo.cli.console import UsageError, check_writable, format_count, print_result, progress_bar
from hammemo.cli.options import flag, option
from hammemo_server.commands.sent_files import SentFiles  # noqa: TC001  (as above)

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
        if self.in_one_step:
            return "learnt or forgotten"
        return "forgotten" if self.forget else "learnt"

    @property
    def in_one_step(self) -> bool:
        """Whether all rows make one edit, which may forget and learn."""
        return self.everything or bool(self.forgetting) or self.position is not None or self.sync

    def check(self) -> None:
        """Refuse options that do not belong together, and a receipt that cannot be written."""
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
    url: Url, model: Name, source: SentFiles, sending: Sending, as_json: opt.AsJson = False
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
    source.check()
    sending.check()
    if sending.in_one_step and source.is_log:
        raise UsageError(
            "--forgetting, --everything, --sync and --position are for tables with --label."
        )
    if sending.sync and source.subject is not None:
        raise UsageError(
            "--sync cannot tell which person a row of the model belongs to: leave --subject out."
        )
    base = sending.op or uuid.uuid4().hex
    sent = _send_edits(url, model, source, sending, base=base)
    facts = {f"{source.unit}s": sent.rows, "version": sent.version, "id": base}
    rows = format_count(sent.rows, source.unit)
    sentence = f"{rows} {sending.verb}; the model has version {sent.version}."
    if sending.receipt is not None:
        _write_receipts(sending.receipt, sent.receipts)
        facts["receipts"] = str(sending.receipt)
        sentence += f" {format_count(len(sent.receipts), 'receipt')} in {sending.receipt}."
    print_result(facts, sentence, as_json=as_json)


@dataclass
class _Sent:
    """What was sent so far."""

    rows: int = 0
    """Rows or documents."""
    version: int = 0
    receipts: list[str] = field(default_factory=list)


def _send_edits(url: str, model: str, source: SentFiles, sending: Sending, *, base: str) -> _Sent:
    """Send all edits, each with an id that begins with `base`."""
    from hammemo.client import Client, ServerError

    sent = _Sent()
    options: dict[str, Any] = {} if sending.receipt is None else {"receipt": True}
    with Client(url) as client, progress_bar("Sending") as tell:
        send = getattr(client, _method_of(source, sending))
        try:
            columns = client.describe(model)["column_names"]
            if sending.in_one_step:
                done, sent.rows = _send_one_edit(
                    client, model, source, sending, columns=columns, base=base
                )
                sent.version = done.version
            else:
                for number, (content, n_rows) in enumerate(source.edits(columns)):
                    done = send(model, **content, op=f"{base}-{number}", **options)
                    sent.version = done.version
                    sent.rows += n_rows
                    sent.receipts.append(done.receipt)
                    tell(sent.rows, None)
            if sending.refit:
                done = client.refit(model, op=f"{base}-refit", **options)
                sent.version = done.version
                sent.receipts.append(done.receipt)
        except ServerError as error:
            so_far = f"{format_count(sent.rows, source.unit)} of id {base} are done"
            raise ValueError(
                f"{error} {so_far}; send the rest with --id {base}, or repeat all."
            ) from error
    return sent


def _method_of(source: SentFiles, sending: Sending) -> str:
    """Return the name of the client's method that sends one edit."""
    kind = "forget" if sending.forget else "learn"
    return f"{kind}_stream" if source.is_log else kind


def _send_one_edit(
    client: Client,
    model: str,
    source: SentFiles,
    sending: Sending,
    *,
    columns: list[str] | None,
    base: str,
) -> tuple[Acknowledgement, int]:
    """Send all rows as one edit, and return how many these were."""
    from hammemo.client import Acknowledgement

    version = client.describe(model)["version"] if sending.sync else 0
    learned: Any = None
    if source.files is not None or not sending.everything:
        learned = source.as_one(columns)
    gone: Any = "everything" if sending.everything else None
    if sending.forgetting:
        gone = replace(source, files=sending.forgetting).as_one(columns)
    if sending.sync:
        difference = _compare(client, model, learned.rows, learned.labels)
        learned = difference.learned
        gone = difference.gone
        if difference.is_equal and sending.position is None:
            return Acknowledgement(version, "applied"), 0
    done = client.apply(model, learned, gone, position=sending.position, op=f"{base}-0")
    if sending.sync and done.status == "applied" and done.version > version + 1:
        typer.echo(
            "Other edits came in between: run the command again to compare the table with these.",
            err=True,
        )
    n_rows = 0
    for part in (learned, gone):
        if part is not None and not isinstance(part, str):
            n_rows += len(part[0])
    return done, n_rows


class _TableDifference(NamedTuple):
    """What makes a served model equal to a table."""

    is_equal: bool
    learned: Any
    """Rows and labels to learn; None for nothing."""
    gone: Any
    """Rows and labels to forget, or "everything"; None for nothing."""


def _compare(client: Client, model: str, rows: list[Any], labels: list[Any]) -> _TableDifference:
    """Compare a table with the model that a server has now."""
    from hammemo.edits.editing import name_columns
    from hammemo.files.models import load
    from hammemo.tokens.column_kinds import ColumnKind

    with TemporaryDirectory() as folder:
        client.download(model, f"{folder}/model")
        learner = load(f"{folder}/model")
    name_columns(learner, None)  # rows of a server have no names
    dates = [j for j, kind in enumerate(learner.state.columns.kinds) if kind is ColumnKind.DATES]
    table = [list(row) for row in rows]
    for row in table:
        for j in dates:
            if isinstance(row[j], str):
                row[j] = datetime.fromisoformat(row[j])
    with warnings.catch_warnings():
        # The server reads the rows by its own rules: it may know that a column without values is to
        # hold dates, which the copy of its model does not say.
        warnings.filterwarnings("ignore", ".* so it is read as names", UserWarning)
        synced: Synced = learner.sync(table, labels, dry_run=True)
    typer.echo(str(synced), err=True)
    if synced.gone is None:  # the model has digests only
        return _TableDifference(synced.is_equal, (rows, labels) if labels else None, "everything")
    learned = _pair_as_json(synced.learnt_rows())
    gone = _pair_as_json(synced.forgotten_rows())
    return _TableDifference(synced.is_equal, learned, gone)


def _pair_as_json(pair: Any) -> tuple[list[Any], list[Any]] | None:
    """Return rows and labels as JSON says them; None where there are none."""
    rows, labels = pair
    listed = (_as_json(rows), _as_json(labels))
    return listed if listed[1] else None


def _as_json(values: Any) -> list[Any]:
    """Return rows or labels as JSON says them: a date as a string."""
    plain: list[Any] = []
    for value in values.tolist() if hasattr(values, "tolist") else values:
        if isinstance(value, list):
            plain.append(_as_json(value))
        elif isinstance(value, date):
            plain.append(value.isoformat())
        else:
            plain.append(value)
    return plain


def erase_subject(  # noqa: PLR0917  typer takes these as options
    url: Url,
    model: Name,
    subject: Annotated[str, typer.Argument(metavar="SUBJECT", help="The subject to erase.")],
    no_refit: Annotated[bool, flag("--no-refit", "Do not refit the model.")] = False,
    receipt: Annotated[Path | None, option("FILE", "Write the signed receipt here.")] = None,
    op: Id = None,
    as_json: opt.AsJson = False,
) -> None:
    """Erase a subject from a served model: its rows, and the key of its journal.

    Exit with 1 if it is not erased yet. Then its rows are removed, and the same command with the
    same --id waits for the rest and writes the receipt.
    """
    from hammemo.client import Client

    if receipt is not None:
        check_writable(receipt)
    base = op or uuid.uuid4().hex
    with Client(url) as client:
        erasure = client.forget_subject(model, subject, op=base, refit=not no_refit)
    sentence = f"The subject is {erasure.state}, request {base}, version {erasure.version}."
    if receipt is not None and erasure.receipt:
        _write_receipts(receipt, [erasure.receipt])
        sentence += f" The receipt is in {receipt}."
    print_result({**erasure._asdict(), "id": base}, sentence, as_json=as_json)
    if erasure.state != "erased":
        raise typer.Exit(1)


def _write_receipts(path: Path, receipts: list[str]) -> None:
    from hammemo.files.atomic import write_file

    write_file(path, [f"{receipt}\n".encode() for receipt in receipts])
