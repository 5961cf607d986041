"""``hammemo compact``: write changes into the segments of a model."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from hammemo.cli.console import format_count, print_result, progress_bar
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
    """Write additions and removals into the segments of MODEL, a folder.

    Then no file holds forgotten data.
    """
    from hammemo import files

    with progress_bar("Compacting") as on_progress:
        files.compact(
            model,
            segments=segments,
            key=read_key(key_file),
            wait=wait,
            tell=partial(typer.echo, err=True),
            on_progress=on_progress,
        )
        facts = files.inspect(model)
    names = ("segments", "segment_bytes", "segment_rows", "segment_entries", "checksum")
    n_segments = format_count(facts["segments"], "segment")
    sentence = f"{n_segments} of {facts['segment_bytes']:,} bytes in {model}"
    print_result({name: facts[name] for name in names}, sentence, as_json=as_json)
