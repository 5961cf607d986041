"""``hammemo plan``: which memory, and how large, for a table of examples."""

from __future__ import annotations

import csv
import json
from pathlib import Path  # noqa: TC003  (typer reads annotations at run time)
from typing import Annotated, Any

import typer

from hammemo.cli.console import console, one_line_errors


def plan_file(
    file: Annotated[Path, typer.Argument(help="A CSV file with a header: all the data, or a random sample of it.")],
    label: Annotated[str, typer.Option(help="The column that is predicted; all others are the context.")],
    budget: Annotated[str | None, typer.Option(help="The most bytes of the state, for example '2 MiB'.")] = None,
    agreement: Annotated[
        float | None, typer.Option(min=0, max=1, help="How often to agree with the exact classifier, from 0 to 1.")
    ] = None,
    n_examples: Annotated[
        int | None, typer.Option(min=2, help="How many examples there are in all.", show_default="those of the file")
    ] = None,
    n_labels: Annotated[
        int | None, typer.Option(min=1, help="How many labels there are in all.", show_default="as many as expected")
    ] = None,
    seed: Annotated[int, typer.Option(help="The random_state of the estimator.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
) -> None:
    """Say which memory fits a budget, or reaches an agreement, before anything is learnt."""
    from hammemo import plan

    with one_line_errors():
        X, y = read_examples(file, label)
        planned = plan(
            X, y, budget=budget, agreement=agreement, n_examples=n_examples, n_labels=n_labels, random_state=seed
        )
    if as_json:
        typer.echo(json.dumps(planned.to_dict(), indent=2))
        return
    console().print(planned)
    typer.echo(repr(planned.estimator))


def read_examples(path: Path, label: str) -> tuple[list[list[Any]], list[Any]]:
    """Return the contexts and labels of a CSV file with a header."""
    with path.open(newline="", encoding="utf-8") as file:
        rows = csv.DictReader(file)
        names = rows.fieldnames or []
        if label not in names or len(names) < 2:
            raise ValueError(f"{path} has the columns {', '.join(names) or 'none'}: --label names one of several.")
        X, y = [], []
        for row in rows:
            if None in row or None in row.values():
                raise ValueError(f"Line {rows.line_num} of {path} has another number of columns than the header.")
            y.append(row.pop(label))
            X.append(list(row.values()))
    return X, y
