"""``hammemo plan``: which memory, and how large, before anything is learnt."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hammemo.cli import options as opt  # noqa: TC001  (typer reads annotations at run time)
from hammemo.cli.console import UsageError, console, one_line_errors, print_json, progress_bar, say_where_from
from hammemo.cli.input_options import InputOptions, NewLabel, NewLength, WindowOptions  # noqa: TC001  (read at run time)
from hammemo.cli.model_options import Kernel, kernel_of
from hammemo.cli.parameters import as_options

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hammemo.sources.schemas import Schema
    from hammemo.theory import Plan

_HELD = 2**17
"""Examples that are held, a random sample where there are more."""


def plan_files(
    files: Annotated[
        list[str], typer.Argument(metavar="FILE", help="All the data, or a random sample of it; - for standard input.")
    ],
    label: NewLabel = None,
    h: NewLength = None,
    budget: Annotated[
        str | None, typer.Option(metavar="SIZE", help="The most bytes of the state, for example '2 MiB'.")
    ] = None,
    agreement: Annotated[
        float | None, typer.Option(metavar="SHARE", help="How often to agree with the exact classifier, from 0 to 1.")
    ] = None,
    n_examples: Annotated[
        int | None, typer.Option(min=2, help="How many examples there are in all.", show_default="those of the files")
    ] = None,
    n_labels: Annotated[
        int | None, typer.Option(min=1, help="How many labels there are in all.", show_default="as many as expected")
    ] = None,
    *,
    given: InputOptions,
    sequences: WindowOptions,
    kernel: Kernel = "positions",
    vote: Annotated[str, typer.Option(metavar="NAME", help="sum or mean.")] = "sum",
    seed: Annotated[int, typer.Option(help="The seed that fit will be given.")] = 0,
    as_json: opt.AsJson = False,
) -> None:
    """Say which memory fits a budget, or reaches an agreement, and what can be expected of it."""
    with one_line_errors():
        if (budget is None) == (agreement is None):
            raise UsageError("Say what is wanted: either --budget '2 MiB' or --agreement 0.99.")
        schema = sequences.cut(given.new_schema(label, h))
        compared: Any = None if kernel == "auto" else kernel_of(kernel)
        say_where_from(files)
        X, y, found = _held_examples(schema, files, given.file_format)
        from hammemo import plan

        planned = plan(
            X,
            y,
            budget=budget,
            agreement=agreement,
            kernel=compared,
            vote=vote,
            n_examples=n_examples or found,
            n_labels=n_labels,
            random_state=seed,
        )
        planned = replace(planned, notes=[*map(as_options, planned.notes)])
    if as_json:
        print_json({**planned.to_dict(), "fit_options": fit_options(planned, kernel)})
        return
    console().print(planned)
    typer.echo(f"hammemo fit with: {fit_options(planned, kernel)}")


def _held_examples(schema: Schema, files: list[str], file_format: str | None) -> tuple[NDArray[Any], NDArray[Any], int]:
    """Return at most so many examples of the files, drawn at random, and how many there are."""
    from hammemo.cli.batches import HeldExamples

    held, found = HeldExamples(_HELD, seed=0), 0
    with progress_bar("Reading") as tell:
        for batch in schema.examples(files, file_format):
            held.add(batch.X, batch.y)
            found += len(batch.y)
            tell(found, None)
    if held.X is None:
        raise ValueError("There is nothing to plan for: the input has no example.")
    return held.X, held.y, found


def fit_options(planned: Plan, kernel: str = "positions") -> str:
    """Return the options of ``hammemo fit`` that make the planned model; a plan is for sums of counts.

    Examples
    --------
    >>> import numpy as np
    >>> from hammemo import plan
    >>> from hammemo.cli.plan import fit_options
    >>> X = np.random.default_rng(0).integers(0, 9, (100, 2))
    >>> fit_options(plan(X, X[:, 1], budget="1 MiB"))
    '--kernel positions --memory exact --vote sum'
    """
    memory: Any = planned.estimator.memory
    name = type(memory).__name__.lower()
    sizes = {"hashed": ("buckets", "reserved"), "gaussian": ("d",)}.get(name, ())
    sized = [f"--memory {name}", *(f"--{size} {getattr(memory, size)}" for size in sizes)]
    return " ".join([f"--kernel {kernel}", *sized, f"--vote {planned.estimator.vote}"])
