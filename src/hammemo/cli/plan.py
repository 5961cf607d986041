"""``hammemo plan``: which memory, and how large, before anything is learnt."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields, replace
from typing import TYPE_CHECKING, Annotated, Any

from hammemo.cli.console import UsageError, as_options, print_result, progress_bar, say_where_from
from hammemo.cli.input_options import ExampleOptions, SequenceOptions  # noqa: TC001  (read at run time)
from hammemo.cli.model_options import ModelOptions, part_of
from hammemo.cli.options import AsJson, argument, setting

if TYPE_CHECKING:
    from hammemo._arrays.types import Array
    from hammemo.planning import Plan
    from hammemo.sources.schemas import Schema

_HELD = 2**17
"""Examples that are held, a random sample where there are more."""


@dataclass(frozen=True)
class PlanOptions:
    """What is wanted of a memory, and what is known about all the data."""

    budget: str | None = setting("SIZE", "Maximal size of the state, for example '2 MiB'.")
    agreement: float | None = setting("SHARE", "Required agreement with the exact classifier, from 0 to 1.")
    n_examples: int | None = setting("N", "Total number of examples.", "those of the files", min=2)
    n_labels: int | None = setting("N", "Total number of labels.", "extrapolated", min=1)


def plan_files(
    files: Annotated[list[str], argument("FILE", "All the data, or a random sample of it; - for standard input.")],
    *,
    given: ExampleOptions,
    wanted: PlanOptions,
    sequences: SequenceOptions,
    parameters: ModelOptions,
    as_json: AsJson = False,
) -> None:
    """Predict which memory fits a budget or reaches an agreement, with its size and speed.

    The options are those of fit, but for what the plan says. A plan is for sums of counts (--vote sum or mean; auto is
    taken for sum, and a kernel that is auto for positions).
    """
    from hammemo.sources.schemas import TableSchema

    if (wanted.budget is None) == (wanted.agreement is None):
        raise UsageError("Give one of the two: --budget '2 MiB' or --agreement 0.99.")
    _refuse_what_is_planned(parameters)
    schema, classes = sequences.refined(given.schema())
    if isinstance(schema, TableSchema):
        schema = replace(schema, numeric="none")  # a plan is for counts of names
    kernel = "positional" if parameters.kernel == "auto" else parameters.kernel
    compared: Any = part_of("kernel", kernel)
    part_of("vote", parameters.vote)  # refuses a name that is not known
    say_where_from(files)
    X, y, found = _held_examples(schema, files, given.file_format, classes)
    from hammemo.planning import plan

    goal = asdict(replace(wanted, n_examples=wanted.n_examples or found))
    planned = plan(X, y, kernel=compared, vote=parameters.vote, random_state=parameters.seed, **goal)
    planned = replace(planned, notes=[*map(as_options, planned.notes)])
    options = fit_options(planned, kernel) + (" --numeric none" if isinstance(schema, TableSchema) else "")
    facts = {**planned.to_dict(), "fit_options": options}
    print_result(facts, planned, f"hammemo fit with: {options}", as_json=as_json)


def _refuse_what_is_planned(parameters: ModelOptions) -> None:
    """Refuse options of fit that a plan is to answer, or that have no meaning before it."""
    for field in fields(parameters):
        if field.name not in ("kernel", "vote", "seed") and getattr(parameters, field.name) != field.default:
            raise UsageError(f"--{field.name.replace('_', '-')}: the plan says which memory to take. Leave it out.")


def _held_examples(schema: Schema, files: list[str], file_format: str | None, classes: Any) -> tuple[Array, Array, int]:
    """Return at most this many examples of the files, drawn at random, and how many there are."""
    from hammemo.cli.batches import with_labels
    from hammemo.tokens.labels import most_frequent_labels
    from hammemo.tokens.stream_blocks import UniformSample

    held, found = UniformSample(_HELD, seed=0), 0
    with progress_bar("Reading") as tell:
        for batch in schema.examples(files, file_format):
            if isinstance(classes, int):
                classes = most_frequent_labels(batch.y, classes)
            X, y = with_labels(batch, classes)
            held.add(held.draw(len(y)), X, y)
            found += len(y)
            tell(found, None)
    if not found:
        raise ValueError("There is nothing to plan for: the input has no example.")
    X, y = held.columns
    return X, y, found


def fit_options(planned: Plan, kernel: str = "positional") -> str:
    """Return the options of ``hammemo fit`` that make the planned model; a plan is for sums of counts.

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
    sized = [f"--memory {name}", *(f"--{size} {getattr(memory, size)}" for size in sizes)]
    return " ".join([f"--kernel {kernel}", *sized, f"--vote {planned.estimator.vote}"])
