"""``hammemo inspect``: show the contents of a model file."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from hammemo.cli.console import NAME_A_MODEL, print_error, print_result
from hammemo.cli.options import AsJson, KeyFile, Model, flag, read_key


def inspect_file(
    file: Model,
    digest: Annotated[bool, flag("--digest", "Load the model and also show its digest.")] = False,
    key_file: KeyFile = None,
    as_json: AsJson = False,
) -> None:
    """Show the contents of a model file without loading it.

    Exit with 1 if its checksum is wrong.
    """
    from hammemo import files
    from hammemo.files.archive import FileError

    try:
        facts = files.inspect(file)
    except (FileError, OSError) as error:
        reason = str(error)
        if isinstance(error, OSError):
            reason = f"{file}: {error.strerror}."
        print_error(f"{reason} {NAME_A_MODEL}")
        raise typer.Exit(1) from error
    if digest:
        model = files.load(file, key=read_key(key_file))
        if not hasattr(model, "digest"):
            raise ValueError(
                f"{file} is a compiled model, which has no digest: leave out --digest."
            )
        facts["digest"] = model.digest()
    print_result(facts, _make_table(facts), as_json=as_json)
    if not facts["checksum_ok"]:
        print_error(
            f"{file} is damaged: its checksum is not that of its contents. Use another copy of it."
        )
        raise typer.Exit(1)
    if facts.get("wrong_segments"):
        names = ", ".join(facts["wrong_segments"])
        print_error(f"Segments of {file} are damaged or missing: {names}. Use another copy.")
        raise typer.Exit(1)


def _make_table(facts: dict[str, Any]) -> Table:
    """Return a table with a row for each fact."""
    without_row = ("bytes", "checksum_ok", "columns", "notes", "wrong_segments", "keeps_all")
    rows = {
        name: value
        for name, value in facts.items()
        if name not in without_row and value is not None
    }
    if facts["columns"]:
        rows["columns"] = ", ".join(map(str, facts["columns"]))
    for name, text in facts["notes"].items():
        rows[f"note {name}"] = text
    is_right = "ok" if facts["checksum_ok"] else "WRONG"
    rows["checksum"] = f"{facts['checksum']} ({is_right})"
    rows["needs_key"] = "no"
    if facts["needs_key"]:
        rows["needs_key"] = "yes: --key-file, or load(path, key=...)"
    if "kept_rows" in facts:
        rows["kept_rows"] = _describe_kept_rows(facts)
        rows["stale"] = "no"
        if facts["stale"]:
            rows["stale"] = "yes: it has forgotten examples since the last refit"
    rows["forgot_unchecked"] = "no"
    if facts["forgot_unchecked"]:
        rows["forgot_unchecked"] = "yes: certificates hold only if all of it was learnt"
    table = Table("what", "value")
    for name, value in rows.items():
        table.add_row(name.replace("_", " "), Text(str(value)))  # as it is: no markup from a file
    for group, size in facts["bytes"].items():
        table.add_row(Text(f"bytes of {group}"), f"{size:,}")
    return table


def _describe_kept_rows(facts: dict[str, Any]) -> str:
    if not facts["kept_rows"]:
        return "none"
    which = "some of those it holds"
    if facts["keeps_all"]:
        which = "all that it holds"
    return f"{facts['kept_rows']:,} in plain text, {which}; keep=False stores none"
