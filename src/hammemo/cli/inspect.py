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
    """Show the contents of a model file without loading it; exit with 1 if its checksum is wrong."""
    from hammemo import files
    from hammemo.files.archive import FileError

    try:
        facts = files.inspect(file)
    except (FileError, OSError) as error:
        reason = f"{file}: {error.strerror}." if isinstance(error, OSError) else error
        print_error(f"{reason} {NAME_A_MODEL}")
        raise typer.Exit(1) from error
    if digest:
        model = files.load(file, key=read_key(key_file))
        if not hasattr(model, "digest"):
            raise ValueError(f"{file} is a compiled model, which has no digest: leave out --digest.")
        facts["digest"] = model.digest()
    print_result(facts, _facts_table(facts), as_json=as_json)
    if not facts["checksum_ok"]:
        print_error(f"{file} is damaged: its checksum is not that of its contents. Use another copy of it.")
        raise typer.Exit(1)
    if wrong := facts.get("wrong_segments"):
        print_error(f"Segments of {file} are damaged or missing: {', '.join(wrong)}. Use another copy.")
        raise typer.Exit(1)


def _facts_table(facts: dict[str, Any]) -> Table:
    table = Table("what", "value")
    apart = ("bytes", "checksum_ok", "columns", "notes", "wrong_segments", "keeps_all")
    rows = {name: value for name, value in facts.items() if name not in apart and value is not None}
    if facts["columns"]:
        rows["columns"] = ", ".join(map(str, facts["columns"]))
    rows |= {f"note {name}": text for name, text in facts["notes"].items()}
    rows["checksum"] = f"{facts['checksum']} ({'ok' if facts['checksum_ok'] else 'WRONG'})"
    rows["needs_key"] = "yes: --key-file, or load(path, key=...)" if facts["needs_key"] else "no"
    if "kept_rows" in facts:
        which = "in plain text, all that it holds" if facts["keeps_all"] else "in plain text, some of those it holds"
        shown = f"{facts['kept_rows']:,} {which}; keep=False stores none" if facts["kept_rows"] else "none"
        rows["kept_rows"] = shown
        rows["stale"] = "yes: it has forgotten examples since the last refit" if facts["stale"] else "no"
    unchecked = facts["forgot_unchecked"]
    rows["forgot_unchecked"] = "yes: certificates hold only if all of it was learnt" if unchecked else "no"
    for name, value in rows.items():
        table.add_row(name.replace("_", " "), Text(str(value)))  # as it is: no markup from a file
    for group, size in facts["bytes"].items():
        table.add_row(Text(f"bytes of {group}"), f"{size:,}")
    return table
