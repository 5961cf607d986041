"""``hammemo tokens``: who may use a server, and for what."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer
from rich.table import Table

from hammemo.cli import options as opt  # noqa: TC001  (typer reads annotations at run time)
from hammemo.cli.commands import Commands
from hammemo.cli.console import print_result
from hammemo.cli.options import option

if TYPE_CHECKING:
    from hammemo_server.http.tokens import StoredToken

tokens = Commands(help="Create, list and revoke access tokens of hammemo serve.")

File: TypeAlias = Annotated[Path, typer.Argument(metavar="FILE", help="A token file.")]


@tokens.command()
def add(
    file: File,
    role: Annotated[
        list[str], option("NAME", "read, learn, forget, admin, audit or metrics (repeatable).")
    ],
    tenant: Annotated[str, option("NAME", "The tenant that owns the models.")] = "default",
    name: Annotated[str, option("TEXT", "What it is for.")] = "",
    days: Annotated[float | None, option("DAYS", "Days until it expires.", "never", min=0)] = None,
) -> None:
    """Create a token and print it once; the file stores only a hash of it."""
    from hammemo_server.http.tokens import change_entries, new_token

    token, entry = new_token(tenant, role, name, days)
    change_entries(file, lambda entries: [*entries, entry], make=True)
    typer.echo(token)
    typer.echo(
        f"Token {entry.id} of tenant {tenant}: {', '.join(entry.roles)}. It is not shown again.",
        err=True,
    )


@tokens.command("list")
def show(file: File, as_json: opt.AsJson = False) -> None:
    """List tokens: ids, names, tenants, roles and when they expire."""
    from hammemo_server.http.tokens import read_entries

    entries = read_entries(file)
    names = ("id", "name", "tenant", "roles")
    facts = [
        {name: getattr(entry, name) for name in names} | {"expires": _day(entry)}
        for entry in entries
    ]
    table = Table("id", "name", "tenant", "roles", "expires")
    for entry in entries:
        table.add_row(
            entry.id, entry.name, entry.tenant, ", ".join(entry.roles), _day(entry) or "never"
        )
    print_result(facts, table, as_json=as_json)


def _day(entry: StoredToken) -> str | None:
    """Return when a token expires, in UTC."""
    return None if entry.expires is None else datetime.fromtimestamp(entry.expires, UTC).isoformat()


@tokens.command()
def remove(
    file: File, key: Annotated[str, typer.Argument(metavar="ID", help="The id shown by list.")]
) -> None:
    """Revoke a token; a running server notices within about a second."""
    from hammemo_server.http.tokens import change_entries

    def without(entries: list[StoredToken]) -> list[StoredToken]:
        left = [entry for entry in entries if entry.id != key]
        if len(left) == len(entries):
            raise ValueError(
                f"{file} holds no token with the id {key}: `hammemo tokens list {file}` shows all."
            )
        return left

    change_entries(file, without)
    typer.echo(f"Token {key} was revoked.", err=True)
