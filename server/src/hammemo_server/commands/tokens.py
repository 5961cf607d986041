"""``hammemo tokens``: who may use a server, and for what."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer
from rich.table import Table

from hammemo.cli import options as opt  # noqa: TC001  (typer reads annotations at run time)
from hammemo.cli.commands import Commands
from hammemo.cli.console import console, one_line_errors, print_json

if TYPE_CHECKING:
    from hammemo_server.http.tokens import StoredToken

tokens = Commands(help="Create, list and revoke access tokens of hammemo serve.")

File: TypeAlias = Annotated[Path, typer.Argument(metavar="FILE", help="A token file.")]


@tokens.command()
@one_line_errors()
def add(
    file: File,
    role: Annotated[
        list[str], typer.Option(metavar="NAME", help="read, learn, forget, admin, audit or metrics (repeatable).")
    ],
    tenant: Annotated[str, typer.Option(metavar="NAME", help="The tenant whose models it opens.")] = "default",
    name: Annotated[str, typer.Option(metavar="TEXT", help="What it is for.")] = "",
) -> None:
    """Create a token and print it once; the file stores only a hash of it."""
    from hammemo_server.http.tokens import change_entries, new_token

    token, entry = new_token(tenant, role, name)
    change_entries(file, lambda entries: [*entries, entry], make=True)
    typer.echo(token)
    typer.echo(f"Token {entry.id} of tenant {tenant}: {', '.join(entry.roles)}. It is not shown again.", err=True)


@tokens.command("list")
@one_line_errors()
def show(file: File, as_json: opt.AsJson = False) -> None:
    """List tokens: ids, names, tenants and roles."""
    from hammemo_server.http.tokens import read_entries

    rows = [
        {"id": entry.id, "name": entry.name, "tenant": entry.tenant, "roles": list(entry.roles)}
        for entry in read_entries(file)
    ]
    if as_json:
        print_json(rows)
        return
    table = Table("id", "name", "tenant", "roles")
    for row in rows:
        table.add_row(str(row["id"]), str(row["name"]), str(row["tenant"]), ", ".join(row["roles"]))
    console().print(table)


@tokens.command()
@one_line_errors()
def remove(file: File, key: Annotated[str, typer.Argument(metavar="ID", help="The id shown by list.")]) -> None:
    """Revoke a token; a running server notices within about a second."""
    from hammemo_server.http.tokens import change_entries

    def without(entries: list[StoredToken]) -> list[StoredToken]:
        left = [entry for entry in entries if entry.id != key]
        if len(left) == len(entries):
            raise ValueError(f"{file} holds no token with the id {key}: `hammemo tokens list {file}` shows all.")
        return left

    change_entries(file, without)
    typer.echo(f"Token {key} was revoked.", err=True)
