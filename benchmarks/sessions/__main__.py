"""The command: measure the learners on each set, and print one table a set."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

# before a library reads them
for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_variable] = "1"
sys.path.insert(0, str(Path(__file__).parents[1]))  # for python -m

import numpy as np  # noqa: E402

from measures import describe_run, options  # noqa: E402

from .copying import copying  # noqa: E402
from .counts import ItemNeighbours, Markov, Popularity  # noqa: E402
from .data import RATINGS, SETS, facts, read_task  # noqa: E402
from .linear import MOST_ITEMS, Ease  # noqa: E402
from .neighbours import VSKNN, VMISkNN  # noqa: E402
from .networks import GRU4Rec  # noqa: E402
from .ours import Ours  # noqa: E402
from .running import (  # noqa: E402
    SessionOutcome,
    describe_published,
    evaluate,
    heading,
    outcome_table,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from .data import SessionTask
    from .learner import Learner


class WithoutDiscount(Ours):
    """The same model ranked by probabilities, whatever discount of popular items it has chosen."""

    name = "ours, without discount"

    def _divisors(self) -> NDArray[np.float64]:
        return np.ones(len(self.model.classes_))


LEARNERS: dict[str, type[Learner]] = {
    learner.name: learner
    for learner in (
        Popularity,
        Markov,
        ItemNeighbours,
        Ease,
        VSKNN,
        VMISkNN,
        GRU4Rec,
        Ours,
        WithoutDiscount,
    )
}
COPYING = ("Markov, order 1", "item-kNN", "V-SKNN", "VMIS-kNN")
"""Learners that are measured once more with a copy term, if the set is one of clicks."""


def outcomes(task: SessionTask, names: list[str]) -> Iterator[SessionOutcome]:
    """Yield what was measured of each learner, and of its variant."""
    for name in names:
        learner = LEARNERS[name]
        if learner is GRU4Rec and importlib.util.find_spec("torch") is None:
            print(f"{name} is left out: pip install torch", file=sys.stderr)
            continue
        if learner is Ease and task.test.n_items > MOST_ITEMS:
            print(
                f"{name} is left out: {task.name} has more than {MOST_ITEMS:,} items",
                file=sys.stderr,
            )
            continue
        outcome = evaluate(task, learner)
        yield outcome
        if name in COPYING and task.kind == "clicks":
            yield evaluate(task, copying(learner, outcome.settings))


def main() -> None:
    """Print the tables, or the rows as JSON.

    What is left out, and how far it is, go to the error stream.
    """
    parser = options(__doc__, data="bol-train.tsv and the like", as_json="the rows")
    parser.add_argument("--sets", nargs="+", choices=[*SETS, *RATINGS], default=list(SETS))
    parser.add_argument(
        "--learners", nargs="+", choices=LEARNERS, metavar="NAME", help=f"of {', '.join(LEARNERS)}"
    )
    arguments = parser.parse_args()
    everything: list[dict[str, Any]] = []
    for name in arguments.sets:
        task = read_task(arguments.data, name)
        all_outcomes = []
        for outcome in outcomes(task, arguments.learners or list(LEARNERS)):
            all_outcomes.append(outcome)
            print(
                f"{name}, {outcome.learner}: {outcome.second:.4f} ({outcome.settings})",
                file=sys.stderr,
                flush=True,
            )
        everything.append(
            {
                "measured": describe_run(),
                **facts(task),
                "learners": [outcome.plain() for outcome in all_outcomes],
            }
        )
        if not arguments.json:
            lines = [
                heading(task),
                "",
                *outcome_table(task, all_outcomes),
                *describe_published(name),
            ]
            print("\n".join(lines) + "\n", flush=True)
    if arguments.json:
        print(json.dumps(everything, indent=2))


if __name__ == "__main__":
    main()
