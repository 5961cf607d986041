"""``hammemo keys``: the key file that signs receipts and encrypts the rows of subjects."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from hammemo.cli.commands import Commands
from hammemo.cli.console import check_writable, format_count
from hammemo.cli.options import argument

keys = Commands(
    help="Create the key file that signs receipts, show its public key, let backups expire."
)

File: TypeAlias = Annotated[Path, argument("FILE", "A key file.")]


@keys.command()
def new(file: File) -> None:
    """Write a new key file that only its owner may read, and print its public key.

    An existing file is refused. Store it outside databases and backups. Without it no receipt can
    be signed; anyone who has it can sign in your name.
    """
    from hammemo.receipts import new_key_file

    check_writable(file, "FILE")
    typer.echo(new_key_file(file).public_key)
    typer.echo(
        f"{file} holds secrets: keep it outside of databases and backups. "
        "The line above is public.",
        err=True,
    )


@keys.command()
def public(file: File) -> None:
    """Print the public key, for those who verify receipts."""
    from hammemo.receipts import read_keys

    typer.echo(read_keys(file).public_key)


@keys.command()
def expire(file: File) -> None:
    """Drop the keys of expired backups; then nothing can read these backups.

    A server does so, too.
    """
    from hammemo.receipts.keys import drop_expired, drop_unneeded_records, read_keys

    expired = drop_expired(file)
    drop_unneeded_records(file, read_keys(file))
    for name in expired:
        typer.echo(name)
    n_left = len(read_keys(file).backups)
    typer.echo(
        f"The keys of {format_count(len(expired), 'backup')} were dropped; {n_left} are left.",
        err=True,
    )
