"""``hammemo verify``: whether a model is what `fit` makes of the rows that it keeps."""

from __future__ import annotations

import typer
from rich.table import Table

from hammemo.cli import options as opt
from hammemo.cli.console import console, one_line_errors, print_error, print_json


def verify_model(
    model: opt.Model,
    key_file: opt.KeyFile = None,
    as_json: opt.AsJson = False,
) -> None:
    """Make MODEL again from the rows that it keeps, and compare; exit with 1 if a part of it differs.

    After hammemo forget without --refit, the layout and the weights differ: they still depend on what was forgotten.
    """
    from hammemo.cli.models import open_model
    from hammemo.files import load

    with one_line_errors():
        key = opt.read_key(key_file)
        open_model(model, key).learner(model)  # refuses what is no model, or a compiled one
        learner = load(model, key=key)  # with the names of its columns, which are part of the digest
        kept = learner._kept
        if kept is None or not kept.holds_all:
            raise ValueError(
                f"{model} does not keep all rows that it has learnt, so it cannot be made again from them. "
                "In Python, refit(rows=(X, y)) makes it again from the rows, and digest() compares."
            )
        mine, again = learner.digest(parts=True), learner.snapshot().refit().digest(parts=True)
    same = {part: mine[part] == again[part] for part in mine}
    if as_json:
        print_json({"digest": learner.digest(), "rows": len(kept), "parts": mine, "same": same})
    else:
        table = Table("part", "digest", "made again from the rows")
        for part, digest in mine.items():
            table.add_row(part, f"{digest[:16]}…", "the same" if same[part] else "DIFFERENT")
        table.add_row("all", learner.digest(), "the same" if all(same.values()) else "DIFFERENT")
        console().print(table)
    if not all(same.values()):
        print_error(f"{model} is not what fit makes of its {len(kept):,} rows: hammemo refit makes it so.")
        raise typer.Exit(1)
