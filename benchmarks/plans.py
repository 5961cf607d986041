"""Plans held against what happens.

Each of 60 plans is made from 10,000 examples and then carried out on all the data.

Four shapes of data: the paper's WikiText-2 task, and three synthetic ones with tokens of a Zipf
law. For each shape, three draws of the data (each with its own seed of the estimator) and five
goals: a budget of a quarter, a third and a half of the sparse exact table, and an agreement of 97 %
and of 99 %. The planner sees 10,000 examples, their full number and the number of labels. Then the
planned estimator learns all examples, and its state, its agreement with the exact classifier on
unambiguous test queries and its certified share are measured.

    python benchmarks/plans.py --data FOLDER [--draws 3] [--json]
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from hammemo import MemoryClassifier
from hammemo.memories import Exact, Gaussian
from hammemo.paper.experiments.measuring import Row, cells, generator, heading, table
from hammemo.paper.experiments.wikitext import (
    LONGEST,
    N_TARGETS,
    Judge,
    Task,
    build_task,
    read_folder,
)
from hammemo.planning import plan
from measures import options

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from numpy.typing import NDArray

SAMPLED = 10_000
QUERIES = 20_000
GOALS: tuple[dict[str, float], ...] = (
    {"exact_over": 4},
    {"exact_over": 3},
    {"exact_over": 2},
    {"agreement": 0.97},
    {"agreement": 0.99},
)


@dataclass(frozen=True, eq=False)
class PlanData:
    """All examples of one draw, and queries that are not among them."""

    X: NDArray[Any]
    y: NDArray[Any]
    queries: NDArray[Any]
    n_labels: int


@dataclass(frozen=True)
class Shape:
    """Synthetic data: labels of one Zipf law, tokens of another.

    With probability `dependence`, rising to that from zero over the positions, a token is drawn
    from the label's own law, in which the ranks of all tokens are shuffled, and else from the law
    that all labels share.
    """

    n: int
    h: int
    n_tokens: int
    token_exponent: float
    n_labels: int
    label_exponent: float
    dependence: float

    def draw(self, seed: int) -> PlanData:
        """Return one draw."""
        rng = generator(seed, "plans")
        size = (self.n + QUERIES, self.h)
        y = rng.choice(self.n_labels, size[0], p=_zipf(self.n_labels, self.label_exponent))
        ranks = rng.choice(self.n_tokens, size, p=_zipf(self.n_tokens, self.token_exponent))
        shuffled = np.stack([rng.permutation(self.n_tokens) for _ in range(self.n_labels)])
        is_dependent = rng.random(size) < np.linspace(0, self.dependence, self.h + 1)[1:]
        X = np.where(is_dependent, shuffled[y[:, None], ranks], ranks)
        return PlanData(X[: self.n], y[: self.n], X[self.n :], len(np.unique(y[: self.n])))


SHAPES = {
    "events": Shape(
        n=60_000,
        h=5,
        n_tokens=2_000,
        token_exponent=1.1,
        n_labels=20,
        label_exponent=0.8,
        dependence=0.7,
    ),
    "many labels": Shape(
        n=120_000,
        h=8,
        n_tokens=40_000,
        token_exponent=1.0,
        n_labels=150,
        label_exponent=0.8,
        dependence=0.5,
    ),
    "long contexts": Shape(
        n=100_000,
        h=12,
        n_tokens=20_000,
        token_exponent=1.2,
        n_labels=12,
        label_exponent=0.5,
        dependence=0.3,
    ),
}


def _zipf(number: int, exponent: float) -> NDArray[np.float64]:
    weights = np.arange(1, number + 1) ** -exponent
    return np.asarray(weights / weights.sum())


def wikitext_draw(task: Task, seed: int, n: int = 100_000, h: int = 8) -> PlanData:
    """Return one draw of the paper's task."""
    rng = generator(seed, "plans, wikitext")
    stored = rng.permutation(task.candidate_positions("train"))[:n]
    places = rng.permutation(task.candidate_positions("test"))[:QUERIES]
    contexts = task.contexts
    tokens = task.tokens
    X = contexts["train"][stored, LONGEST - h :]
    y = tokens["train"][stored]
    return PlanData(X, y, contexts["test"][places, LONGEST - h :], N_TARGETS)


def measure_plans(
    data: PlanData, seed: int, goals: tuple[dict[str, float], ...] = GOALS
) -> Iterator[Row]:
    """Yield for each goal what was planned and what happened."""
    exact = MemoryClassifier("positional", memory=Exact(), vote="sum").fit(data.X, data.y)
    # what was observed is not asked for
    judge = Judge.from_exact(exact, data.queries, data.queries[:, 0])
    size = exact.memory_.nbytes
    rows = generator(seed, "plans, sample").permutation(len(data.X))[:SAMPLED]
    for goal in goals:
        request: Row = (
            {"budget": int(size / goal["exact_over"])} if "exact_over" in goal else dict(goal)
        )
        request |= {"n_examples": len(data.X), "n_labels": data.n_labels, "random_state": seed}
        begun = time.process_time()
        planned = plan(data.X[rows], data.y[rows], **request)
        took = time.process_time() - begun
        chosen = planned.chosen
        model = planned.estimator.fit(data.X, data.y)
        agreement = float((model.predict(data.queries) == judge.winners)[judge.unambiguous].mean())
        certified = None if chosen.certified is None else float(model.certify(data.queries).mean())
        exact_row = next(option for option in planned.options if isinstance(option.memory, Exact))
        sketches = [option for option in planned.options if isinstance(option.memory, Gaussian)]
        yield {
            "goal": _goal_name(goal),
            "memory": chosen.name,
            "agreement": agreement,
            "predicted": _interval(chosen.agreement),
            "hit": chosen.agreement.low <= agreement <= chosen.agreement.high,
            "certified": certified,
            "predicted_certified": _interval(chosen.certified),
            "certified_hit": None
            if chosen.certified is None
            else _inside(certified, chosen.certified),
            "bytes": model.memory_.nbytes,
            "predicted_bytes": int(chosen.state_bytes.value),
            "exact_bytes": size,
            "exact_predicted": int(exact_row.state_bytes.value),
            "gaussian_bytes": [_gaussian_bytes(data, option) for option in sketches],
            "queries_per_second": chosen.queries_per_second and chosen.queries_per_second.value,
            "cpu_seconds": took,
            "seconds": planned.seconds,
        }


def _goal_name(goal: dict[str, float]) -> str:
    return (
        f"1/{goal['exact_over']:g} of exact"
        if "exact_over" in goal
        else f"{100 * goal['agreement']:g} %"
    )


def _interval(estimate: Any) -> list[float] | None:
    return None if estimate is None else [estimate.low, estimate.value, estimate.high]


def _inside(value: float | None, estimate: Any) -> bool:
    return value is not None and estimate.low <= value <= estimate.high


def _gaussian_bytes(data: PlanData, option: Any) -> list[int]:
    """Return the predicted size and that of a model that has learnt one example of each label."""
    rows = np.unique(data.y, return_index=True)[1]
    counts = np.unique(data.y, return_counts=True)[1]
    fitted = MemoryClassifier("positional", memory=option.memory, vote="sum").fit(
        data.X[rows], data.y[rows], sample_weight=counts
    )
    return [int(option.state_bytes.value), fitted.memory_.nbytes]


def all_rows(
    draws: Mapping[str, Callable[[int], PlanData]], seeds: range, *, shown: bool
) -> list[Row]:
    rows = []
    for (name, draw), seed in product(draws.items(), seeds):
        for row in measure_plans(draw(seed), seed):
            rows.append({"shape": name, "seed": seed, **row})
            if shown:
                print(line(rows[-1]), flush=True)
    return rows


def summary(rows: list[Row]) -> Row:
    """Return the figures that the plans are held to."""
    sketched = [row for row in rows if not row["memory"].startswith("Exact")]
    widths = [100 * (row["predicted"][2] - row["predicted"][0]) for row in rows]
    gaussian = [pair for row in rows for pair in row["gaussian_bytes"]]
    return {
        "plans": len(rows),
        "inside": sum(row["hit"] for row in rows),
        "plans_without_exact": len(sketched),
        "inside_without_exact": sum(row["hit"] for row in sketched),
        "certified_inside_without_exact": sum(bool(row["certified_hit"]) for row in sketched),
        "widest_interval_points": max(widths),
        "median_interval_points": float(np.median([w for w in widths if w > 0] or [0.0])),
        "hashed_bytes_exact": sum(map(_as_predicted, sketched)),
        "gaussian_bytes_exact": f"{sum(a == b for a, b in gaussian)} of {len(gaussian)}",
        "largest_exact_bytes_error_percent": max(
            abs(100 * (row["exact_predicted"] / row["exact_bytes"] - 1)) for row in rows
        ),
        "within_budget": sum(
            row["bytes"] <= row["exact_bytes"] / float(row["goal"].split()[0][2:])
            for row in rows
            if row["goal"].startswith("1/")
        ),
        "slowest_plan_cpu_seconds": max(row["cpu_seconds"] for row in rows),
        "slowest_plan_seconds": max(row["seconds"] for row in rows),
    }


def _as_predicted(row: Row) -> bool:
    return bool(row["bytes"] == row["predicted_bytes"])


def by_shape(rows: list[Row]) -> list[str]:
    """Return one line for each shape; agreement is of the plans that are not the exact table."""
    shapes = []
    for shape in dict.fromkeys(row["shape"] for row in rows):
        every = [row for row in rows if row["shape"] == shape]
        hashed = [row for row in every if not row["memory"].startswith("Exact")]
        agreement = [100 * row["agreement"] for row in hashed]
        widths = [100 * (row["predicted"][2] - row["predicted"][0]) for row in hashed]
        error = max(100 * abs(row["predicted"][1] - row["agreement"]) for row in hashed)
        worst = max((row["exact_predicted"] / row["exact_bytes"] - 1 for row in every), key=abs)
        shapes.append(
            {
                "shape": shape,
                "plans, exact table": f"{len(every)}, {len(every) - len(hashed)}",
                "agreement, %": f"{min(agreement):.2f} to {max(agreement):.2f}",
                "inside": f"{sum(row['hit'] for row in hashed)} of {len(hashed)}",
                "largest error, points": f"{error:.2f}",
                "width, median and most": f"{np.median(widths):.2f}, {max(widths):.2f}",
                "hashed size as predicted": f"{sum(map(_as_predicted, hashed))} of {len(hashed)}",
                "exact table's size, worst": f"{worst:+.1%}",
            }
        )
    return table(shapes)


NAMES = (
    "shape | goal | planned | state, KiB (predicted) | predicted agreement, % | measured | "
    "inside | CPU s"
)


def line(row: Row) -> str:
    low, value, high = (100 * figure for figure in row["predicted"])
    size = "same" if _as_predicted(row) else f"{row['predicted_bytes'] / row['bytes'] - 1:+.1%}"
    shown = {
        **row,
        "kibibytes": row["bytes"] / 1024,
        "size": size,
        "low": low,
        "value": value,
        "high": high,
    }
    return cells(
        "| {shape} | {goal} | {memory} | {kibibytes:.0f} ({size}) | "
        "{value:.2f} ({low:.2f} to {high:.2f}) | {percent:.2f} | {hit:yes/NO} | "
        "{cpu_seconds:.1f} |",
        shown | {"percent": 100 * row["agreement"]},
    )


def main() -> None:
    parser = options(__doc__, data="WikiText-2", as_json="everything")
    parser.add_argument("--draws", type=int, default=3, help="draws of each shape")
    arguments = parser.parse_args()
    task = build_task(read_folder(arguments.data))
    draws: dict[str, Callable[[int], PlanData]] = {
        "wikitext-2": lambda seed: wikitext_draw(task, seed)
    }
    draws |= {name: shape.draw for name, shape in SHAPES.items()}
    if not arguments.json:
        print(heading(NAMES))
    rows = all_rows(draws, range(31, 31 + arguments.draws), shown=not arguments.json)
    figures = summary(rows)
    if arguments.json:
        print(json.dumps({"summary": figures, "rows": rows}, indent=2))
    else:
        print("\n".join(["", *by_shape(rows), "", json.dumps(figures, indent=2)]))


if __name__ == "__main__":
    main()
