"""``hammemo compact``: write changes into the segments of a model."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from hammemo.cli.console import counted, print_result, progress_bar
from hammemo.cli.options import AsJson, KeyFile, Model, Wait, option, read_key


def compact_folder(
    model: Model,
    segments: Annotated[
        int | None, option("N", "Split it again into about this many segments.", "unchanged", min=1)
    ] = None,
    wait: Wait = None,
    key_file: KeyFile = None,
    as_json: AsJson = False,
) -> None:
    """Write additions and removals into the segments of MODEL, a folder; then no file holds forgotten data."""
    from hammemo import files

    with progress_bar("Compacting") as tell:
        key, say = read_key(key_file), partial(typer.echo, err=True)
        files.compact(model, segments=segments, key=key, wait=wait, tell=say, on_progress=tell)
        facts = files.inspect(model)
    names = ("segments", "segment_bytes", "segment_rows", "segment_entries", "checksum")
    told = f"{counted(facts['segments'], 'segment')} of {facts['segment_bytes']:,} bytes in {model}"
    print_result({name: facts[name] for name in names}, told, as_json=as_json)
