"""``hammemo plan``: which memory, and how large, before anything is learned."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from hammemo.cli.console import UsageError, as_options, print_result, progress_bar, say_where_from
from hammemo.cli.input_options import (  # noqa: TC001  (read at run time)
    ExampleOptions,
    SequenceOptions,
)
from hammemo.cli.model_options import ModelOptions, parse_part
from hammemo.cli.options import AsJson, argument, setting

if TYPE_CHECKING:
    from hammemo._arrays.types import Array
    from hammemo.planning import Plan
    from hammemo.sources.schemas import Schema

_MOST_EXAMPLES = 2**17
"""Examples that a plan is made from, a random sample where there are more."""


@dataclass(frozen=True)
class PlanOptions:
    """The goal of a plan, and what the user knows about all the data."""

    budget: str | None = setting("SIZE", "Maximal size of the state, for example '2 MiB'.")
    agreement: float | None = setting(
        "SHARE", "Required agreement with the exact classifier, from 0 to 1."
    )
    n_examples: int | None = setting("N", "Total number of examples.", "those of the files", min=2)
    n_labels: int | None = setting("N", "Total number of labels.", "extrapolated", min=1)


def plan_files(
    files: Annotated[
        list[str], argument("FILE", "All the data, or a random sample of it; - for standard input.")
    ],
    *,
    reading: ExampleOptions,
    goal: PlanOptions,
    sequences: SequenceOptions,
    parameters: ModelOptions,
    as_json: AsJson = False,
) -> None:
    """Predict which memory fits a budget or reaches an agreement, with its size and speed.

    The options are those of fit, but for what the plan says. A plan is for sums of counts (--vote
    sum or mean; auto is taken for sum, and a kernel that is auto for positions).
    """
    from hammemo.sources.schemas import TableSchema

    if (goal.budget is None) == (goal.agreement is None):
        raise UsageError("Give one of the two: --budget '2 MiB' or --agreement 0.99.")
    _refuse_what_is_planned(parameters)
    schema, classes = sequences.refine(reading.schema())
    is_table = False
    if isinstance(schema, TableSchema):
        is_table = True
        schema = replace(schema, numeric="none")  # a plan is for counts of names
    kernel_name = parameters.kernel
    if kernel_name == "auto":
        kernel_name = "positional"
    kernel: Any = parse_part("kernel", kernel_name)
    parse_part("vote", parameters.vote)  # refuses an unknown name
    say_where_from(files)
    sample = _draw_examples(schema, files, reading.file_format, classes)
    from hammemo.planning import plan

    result = plan(
        sample.X,
        sample.y,
        kernel=kernel,
        vote=parameters.vote,
        random_state=parameters.seed,
        budget=goal.budget,
        agreement=goal.agreement,
        n_examples=goal.n_examples or sample.n_examples,
        n_labels=goal.n_labels,
    )
    result = replace(result, notes=[as_options(note) for note in result.notes])
    options = fit_options(result, kernel_name)
    if is_table:
        options = f"{options} --numeric none"
    facts = {**result.to_dict(), "fit_options": options}
    print_result(facts, result, f"hammemo fit with: {options}", as_json=as_json)


def _refuse_what_is_planned(parameters: ModelOptions) -> None:
    """Refuse options of fit that a plan answers, or that have no meaning before it."""
    for field in fields(parameters):
        is_set = getattr(parameters, field.name) != field.default
        if is_set and field.name not in ("kernel", "vote", "seed"):
            raise UsageError(
                f"--{field.name.replace('_', '-')}: the plan says which memory to take. Leave it "
                "out."
            )


class _Sample(NamedTuple):
    """Examples of files, drawn at random if there are many."""

    X: Array
    y: Array
    n_examples: int
    """How many examples the files have."""


def _draw_examples(
    schema: Schema, files: list[str], file_format: str | None, classes: Any
) -> _Sample:
    """Draw examples of files; take all of them if they are not too many."""
    from hammemo.cli.batches import with_labels
    from hammemo.tokens.labels import most_frequent_labels
    from hammemo.tokens.window_samples import UniformSample

    sample = UniformSample(_MOST_EXAMPLES, seed=0)
    n_examples = 0
    with progress_bar("Reading") as on_progress:
        for batch in schema.examples(files, file_format):
            if isinstance(classes, int):
                classes = most_frequent_labels(batch.y, classes)
            X, y = with_labels(batch, classes)
            sample.add(sample.draw(len(y)), X, y)
            n_examples += len(y)
            on_progress(n_examples, None)
    if not n_examples:
        raise ValueError("There is nothing to plan for: the input has no example.")
    X, y = sample.columns
    return _Sample(X, y, n_examples)


def fit_options(planned: Plan, kernel: str = "positional") -> str:
    """Return the options of ``hammemo fit`` that make the planned model; sums of counts only.

    Examples
    --------
    >>> import numpy as np
    >>> from hammemo.planning import plan
    >>> from hammemo.cli.plan import fit_options
    >>> X = np.random.default_rng(0).integers(0, 9, (100, 2))
    >>> fit_options(plan(X, X[:, 1], budget="1 MiB"))
    '--kernel positional --memory exact --vote sum'
    """
    from hammemo.tasks.labels.names import MEMORIES

    memory: Any = planned.estimator.memory
    name = MEMORIES.name_of(memory)
    sizes = {"hashed": ("buckets", "reserved"), "gaussian": ("d",)}.get(name, ())
    options = [f"--kernel {kernel}", f"--memory {name}"]
    options += [f"--{size} {getattr(memory, size)}" for size in sizes]
    options.append(f"--vote {planned.estimator.vote}")
    return " ".join(options)
