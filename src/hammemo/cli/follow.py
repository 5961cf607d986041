"""``hammemo follow``: keep a model equal to a table of PostgreSQL."""

from __future__ import annotations

import json
from contextlib import AbstractContextManager, closing, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path  # noqa: TC003  (typer reads annotations at run time)
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from hammemo.cli.console import (
    UsageError,
    check_model_writable,
    check_writable,
    print_json,
    print_result,
)
from hammemo.cli.input_options import parse_column_list, refuse
from hammemo.cli.model_options import parse_bounds
from hammemo.cli.options import AsJson, argument, flag, option, setting

if TYPE_CHECKING:
    from hammemo.follow.follower import Follower
    from hammemo.follow.served import Target


@dataclass(frozen=True)
class FollowedOptions:
    """What is followed."""

    table: Annotated[str, option("TABLE", "The table, with its schema if that is not public.")]
    label: str | None = setting("COLUMN", "The column with the labels.", False)
    target: str | None = setting("COLUMN", "The column with the numbers to predict.", False)
    bounds: str | None = setting(
        "LOW,HIGH",
        "With --target: answers never leave these bounds; either may be missing, as in 0, for "
        "counts.",
        "those of the model",
    )
    columns: str | None = setting("A,B", "The columns to learn from.", "all others")
    where: str | None = setting("CONDITION", "Follow only rows that meet this condition in SQL.")
    publication: str | None = setting(
        "NAME", "Use this publication, which is for the table alone.", "its own"
    )

    @property
    def predicted(self) -> str:
        """The column that is predicted."""
        columns = [name for name in (self.label, self.target) if name is not None]
        if len(columns) != 1:
            raise UsageError(
                "Name the column to predict: --label COLUMN, or --target COLUMN for numbers."
            )
        return columns[0]

    @property
    def checked_bounds(self) -> tuple[float | None, float | None] | None:
        """The bounds of a model of numbers; None where none are given."""
        if self.target is None:
            refuse(
                {"bounds": self.bounds},
                "is for numbers: leave it out, or use --target instead of --label",
            )
        return parse_bounds(self.bounds)


@dataclass(frozen=True)
class SignedRefits:
    """Which refits get a receipt."""

    panel: ClassVar = "Receipts (needs the extra erase)"

    receipt: Path | None = setting(
        "FILE", "Append a signed receipt for each refit that followed a deletion."
    )
    keys: Path | None = setting("FILE", "The key file that hammemo keys new wrote.")


@dataclass(frozen=True)
class TargetOptions(SignedRefits):
    """Which model follows."""

    panel: ClassVar = "The model"

    model: Path | None = setting("FILE", "A model file; it need not exist.")
    server: str | None = setting("URL", "A server, with --name; token: HAMMEMO_TOKEN.")
    name: str | None = setting("MODEL", "The model on the server.")
    subject: str | None = setting("COLUMN", "The column with the person (with --server).")

    def open(self) -> AbstractContextManager[Target]:
        """Return the model as a context manager: the block of its with statement may edit it.

        UsageError where the options do not name one model, or do not go together.
        """
        has_file = self.model is not None
        has_server = self.server is not None
        has_name = self.name is not None
        if has_file == has_server or has_server != has_name:
            raise UsageError("Name one model: --model FILE, or --server URL and --name MODEL.")
        if self.receipt is not None:
            check_writable(self.receipt, "--receipt")
        if self.model is not None:
            return nullcontext(self._open_file(self.model))
        assert self.server is not None
        assert self.name is not None
        return self._connect(self.server, self.name)

    def _open_file(self, path: Path) -> Target:
        """Return a model file, which needs no closing."""
        from hammemo.follow.targets import FileTarget

        if self.subject is not None:
            raise UsageError("--subject is for a model on a server: leave it out.")
        if (self.receipt is None) != (self.keys is None):
            raise UsageError(
                "--receipt FILE and --keys FILE go together: hammemo keys new FILE writes keys."
            )
        check_model_writable(path)
        if self.receipt is None or self.keys is None:
            return FileTarget(path)
        from hammemo.receipts import ReceiptFile, read_keys

        return FileTarget(path, ReceiptFile(self.receipt), read_keys(self.keys))

    def _connect(self, url: str, name: str) -> AbstractContextManager[Target]:
        """Return a model on a server; the connection lasts as long as the with statement."""
        refuse(
            {"keys": self.keys},
            "is for a model file, and a server signs receipts with its own keys: leave it out",
        )
        from hammemo.follow.served import connect_to_model

        return connect_to_model(url, name, self.receipt)


@dataclass(frozen=True)
class TimeOptions:
    """When the model is refitted and compared."""

    panel: ClassVar = "When"

    refit_after: float = setting(
        "SECONDS", "The longest time from a deletion to a refit.", default=3_600.0, min=0
    )
    check: float = setting(
        "SECONDS",
        "Time between comparisons with the whole table; 0 for none.",
        default=86_400.0,
        min=0,
    )
    check_timeout: float = setting(
        "SECONDS", "Stop a comparison that takes longer.", default=3_600.0, min=1
    )


def follow_table(
    address: Annotated[
        str, argument("ADDRESS", "postgresql://user@host/database, without a password.")
    ],
    *,
    table: FollowedOptions,
    target: TargetOptions,
    times: TimeOptions,
    status: Annotated[
        bool, flag("--status", "Show how far the model is behind, and stop.")
    ] = False,
    once: Annotated[bool, flag("--once", "Read the log to its end, and stop.")] = False,
    drop_slot: Annotated[
        bool, flag("--drop-slot", "Stop following: drop the slot, and stop.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Keep a model equal to a table of PostgreSQL: insert = learn, delete = forget, update = both.

    The table needs REPLICA IDENTITY FULL, and PostgreSQL wal_level = logical. A password is read
    from ~/.pgpass or PGPASSWORD. After a stop or a crash, the same command goes on where the model
    is.
    """
    from hammemo.follow.follower import Follower, FollowOptions

    def tell(sentence: str, event: dict[str, Any]) -> None:
        if as_json:
            typer.echo(json.dumps(event))
        else:
            typer.echo(sentence, err=event["event"] in ("warning", "retry"))

    columns = None
    if table.columns is not None:
        columns = parse_column_list(table.columns)
    options = FollowOptions(
        table.predicted,
        columns=columns,
        where=table.where,
        subject=target.subject,
        refit_after=times.refit_after,
        check_every=times.check,
        check_timeout=times.check_timeout,
        is_target=table.target is not None,
        bounds=table.checked_bounds,
    )
    with target.open() as opened:
        follower = Follower(
            address, table.table, opened, options, tell=tell, publication=table.publication
        )
        with closing(follower.source):
            if status:
                _show_status(follower, as_json=as_json)
            elif drop_slot:
                is_dropped = follower.drop()
                slot = follower.source.slot
                result = "dropped" if is_dropped else "there is none"
                facts = {"slot": slot, "dropped": is_dropped}
                print_result(facts, f"Slot {slot}: {result}.", as_json=as_json)
            else:
                with suppress(KeyboardInterrupt):
                    follower.run(once=once)


def _show_status(follower: Follower, *, as_json: bool) -> None:
    facts = follower.status()
    if as_json:
        print_json(facts)
        return
    state = "in use" if facts["in_use"] else "not in use"
    typer.echo(f"Slot {facts['slot']}: {facts['slot_state']}, {state}")
    if facts["lsn"] is not None:
        typer.echo(f"The model holds {facts['rows']:,} rows, up to {facts['lsn']} in the log.")
        typer.echo(f"It is {facts['behind_bytes']:,} bytes of the log behind.")
    if facts["held_bytes"] is not None:
        typer.echo(f"PostgreSQL keeps {facts['held_bytes']:,} bytes of its log for it.")
    if facts["deleted_since_refit"]:
        typer.echo(f"{facts['deleted_since_refit']:,} rows were deleted since the last refit.")
    if facts["keeps_without_limit"]:
        typer.echo(
            "Warning: max_slot_wal_keep_size is not set: PostgreSQL keeps its log without a limit.",
            err=True,
        )
