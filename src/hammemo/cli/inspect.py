"""``hammemo inspect``: what a model file holds."""

from __future__ import annotations

import json
from pathlib import Path  # noqa: TC003  (typer reads annotations at run time)
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from hammemo.cli.console import console


def inspect_file(
    file: Annotated[Path, typer.Argument(help="A file that hammemo.save wrote.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print the facts as JSON.")] = False,
) -> None:
    """Tell what a model file holds, without loading it; exit with 1 if its checksum is wrong."""
    from hammemo import files

    try:
        facts = files.inspect(file)
    except (files.FileError, OSError) as error:
        reason = f"{file}: {error.strerror}." if isinstance(error, OSError) else error
        typer.echo(f"{reason} Name a file that hammemo.save wrote.", err=True)
        raise typer.Exit(1) from error
    if as_json:
        typer.echo(json.dumps(facts, indent=2))
    else:
        console().print(_facts_table(facts))
    if not facts["checksum_ok"]:
        typer.echo(f"{file} is damaged: its checksum is not that of its contents. Use another copy of it.", err=True)
        raise typer.Exit(1)


def _facts_table(facts: dict[str, Any]) -> Table:
    table = Table("what", "value")
    rows = {name: value for name, value in facts.items() if name not in ("bytes", "checksum_ok") and value is not None}
    rows["checksum"] = f"{facts['checksum']} ({'ok' if facts['checksum_ok'] else 'WRONG'})"
    rows["needs_key"] = "yes: load(path, key=...)" if facts["needs_key"] else "no"
    for name, value in rows.items():
        table.add_row(name.replace("_", " "), Text(str(value)))  # as it is: no markup from a file
    for group, size in facts["bytes"].items():
        table.add_row(Text(f"bytes of {group}"), f"{size:,}")
    return table
