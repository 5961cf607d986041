"""Every bound of the theory against what really happens: how often it fails, and how loose it is.

On each of three data sets one query is answered under many independent draws of the codes. A bound
with failure probability delta may be violated in at most that share of the draws; its looseness is
the median over the draws of the bound divided by the largest error realised. A perfect bound is the
1 - delta quantile of that error itself; its looseness, the quantile divided by the median, stands
beside the others: no valid constant can show less.

- *planted*: the synthetic instance with h = 8, 1024 tokens, 64 labels of 64 examples, 960 more
  candidates;
- *zipf*: 2,000 contexts of 4 tokens from a Zipf law over 200 types, 20 labels of uneven size, 10
  more candidates;
- *repeated*: three contexts that share tokens, each stored 50 times under its own label: errors
  repeat coherently, the case for which the paper's dependence on M_max cannot be avoided.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy import stats

from hammemo._versions import cached_property
from hammemo.estimators.classifiers import MemoryClassifier
from hammemo.memories import Exact
from hammemo.paper import theory
from hammemo.paper.experiments.expected import by_draws
from hammemo.paper.experiments.measuring import (
    OnProgress,
    Row,
    generator,
    ignore_progress,
    in_parallel,
    table,
)
from hammemo.paper.experiments.synthetic import MERGED_LENGTH, N_TOKENS, plant_instance
from hammemo.paper.memo import MeMoClassifier
from hammemo.tokens.hashing import key_words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hammemo._arrays.types import Array, Floats

BOUNDS = {
    "context": "Theorem 4 (C_0 = 8)",
    "context, sharp": "Theorem 4 before rounding its constants",
    "context, from counts": "ours, from the count table",
    "output": "Theorem 5",
    "score": "Theorem 6 (C_0 = 8)",
    "score, square": "Corollary 7 (C_0 = 16)",
    "score, from counts": "ours, from the count table",
}
PERFECT = "the quantile of the error itself"


@dataclass(frozen=True)
class BoundSettings:
    """What determines the results."""

    seed: int = 20270
    draws: int = 2000
    delta: float = 0.1
    names: tuple[str, ...] = ("planted", "zipf", "repeated")

    @classmethod
    def quick(cls, seed: int = 20270) -> BoundSettings:
        """Return settings for a first look, not for conclusions."""
        return cls(seed, draws=50)


@dataclass(frozen=True, eq=False)
class DataSet:
    """Examples, candidate labels, one query, and the dimension of the sketch."""

    X: Array
    y: Array
    classes: Array
    query: Array
    d: int

    @property
    def n(self) -> int:
        """Size of the vocabulary that both tokens and labels come from, as in the paper."""
        return max(len(np.unique(np.concatenate([self.X.ravel(), self.query]))), len(self.classes))

    @cached_property
    def twin(self) -> MemoryClassifier:
        """The exact classifier."""
        exact = MemoryClassifier("positional", memory=Exact(), vote="sum")
        return exact.partial_fit(self.X, self.y, classes=self.classes)

    @cached_property
    def norms(self) -> tuple[Floats, Floats]:
        """The norms of the query's count matrices."""
        return theory.count_norms(self.twin, self.query[None])


def data_set(name: str, seed: int) -> DataSet:
    """Return one of the three data sets."""
    rng = generator(seed, "bounds", name)
    if name == "planted":
        instance = plant_instance(MERGED_LENGTH, seed)
        return DataSet(
            instance.contexts, instance.labels, np.arange(1, N_TOKENS + 1), instance.query, d=256
        )
    if name == "zipf":
        X = rng.zipf(1.4, (2000, 4)) % 200
        y = (X[:, 3] + rng.zipf(1.6, 2000)) % 20
        return DataSet(X, y, np.arange(30), X[0], d=256)
    contexts = np.array([[1, 2, 3, 4], [1, 2, 5, 6], [7, 8, 3, 1]])
    return DataSet(
        np.repeat(contexts, 50, axis=0),
        np.repeat([1, 2, 3], 50),
        np.arange(1, 6),
        contexts[0],
        d=128,
    )


class BoundDraw(NamedTuple):
    """One bound under one draw of the codes: its value, the largest error and violations."""

    bound: float
    error: float
    violated: bool


def draw(data: DataSet, seed: int, delta: float) -> dict[str, BoundDraw]:
    """Return what one draw of the codes says about each bound."""
    sketch = MeMoClassifier(data.d, random_state=seed)
    sketch.partial_fit(data.X, data.y, classes=data.classes)
    scores = theory.decompose(sketch, data.twin, data.query[None])
    d_h = sketch.memory_.codes.d_h
    frobenius, operator = data.norms
    sizes = {
        "n": data.n,
        "d": data.d,
        "d_h": d_h,
        "largest_class": scores.largest_class,
    }
    counts: dict[str, Any] = {
        "ideal": scores.ideal,
        "frobenius": frobenius,
        "operator": operator,
        "d": data.d,
        "d_h": d_h,
        "delta": delta,
    }
    energy = float(scores.realised_energy[0])
    margin = float(scores.margin[0])
    context_error = np.abs(scores.context_error[0])
    output_error = np.abs(scores.output_interference[0])
    score_error = np.abs((scores.decoded - scores.ideal)[0])
    complete = theory.recovery(**sizes, energy=energy, margin=margin, delta=delta)
    square = theory.square_recovery(
        n=data.n,
        d=data.d,
        h=len(data.query),
        largest_class=scores.largest_class,
        energy=float(scores.ideal_energy[0]),
        n_observed_labels=scores.n_observed_labels,
        margin=margin,
        delta=delta,
    )
    score_bound, is_certain = theory.data_recovery(**counts)
    is_guaranteed = complete.guaranteed or square.guaranteed or is_certain[0]
    is_within_bound = score_error.max() <= complete.total
    if is_guaranteed and is_within_bound and not scores.agrees[0]:
        raise AssertionError("A winner was guaranteed and lost although no bound was violated.")
    bounds: dict[str, tuple[Any, Floats]] = {
        "context": (theory.context_bound(**sizes, delta=delta).value, context_error),
        "context, sharp": (theory.sharp_context_bound(**sizes, delta=delta), context_error),
        "context, from counts": (theory.data_context_bound(**counts)[0], context_error),
        "output": (theory.output_bound(data.n, data.d, energy, delta), output_error),
        "score": (complete.total, score_error),
        "score, square": (square.total, score_error),
        "score, from counts": (score_bound[0], score_error),
    }
    return {name: _compare(bound, errors) for name, (bound, errors) in bounds.items()}


def _compare(bound: Any, errors: Floats) -> BoundDraw:
    """Compare the errors of all labels with a bound: one number, or one for each label."""
    return BoundDraw(
        bound=float(np.max(bound)),
        error=float(errors.max()),
        violated=bool((errors > bound + 1e-9).any()),  # room for the rounding of float64
    )


def estimate_seconds(settings: BoundSettings, jobs: int) -> float:
    """Return how long `run` will take here: one draw of each data set is timed."""
    draws = []
    for name in settings.names:
        data = data_set(name, settings.seed)
        draws.append((partial(draw, data, settings.seed, settings.delta), settings.draws))
    return by_draws(draws, jobs)


def run(
    settings: BoundSettings, jobs: int = 2, on_progress: OnProgress = ignore_progress
) -> list[Row]:
    """Return one row for each data set and bound: draws, violations, looseness."""
    sets = {name: data_set(name, settings.seed) for name in settings.names}
    for data in sets.values():
        _ = data.norms  # once here, not once in every process
    tasks = [(name, i) for name in settings.names for i in range(settings.draws)]
    seeds = [key_words(settings.seed, "bounds codes", name, i)[0] for name, i in tasks]
    arguments = [
        (sets[name], seed, settings.delta) for (name, _), seed in zip(tasks, seeds, strict=True)
    ]
    drawn: dict[tuple[str, str], list[BoundDraw]] = {}
    for (name, _), outcomes in zip(
        tasks, in_parallel(draw, arguments, jobs, on_progress), strict=True
    ):
        for bound, outcome in outcomes.items():
            drawn.setdefault((name, bound), []).append(outcome)
    return [_row(settings, name, bound, outcomes) for (name, bound), outcomes in drawn.items()]


def _row(settings: BoundSettings, name: str, bound: str, outcomes: list[BoundDraw]) -> Row:
    violations = sum(outcome.violated for outcome in outcomes)
    test = stats.binomtest(violations, len(outcomes), settings.delta, alternative="greater")
    excess = test.pvalue
    looseness = float(np.median([outcome.bound / outcome.error for outcome in outcomes]))
    perfect = perfect_looseness([outcome.error for outcome in outcomes], settings.delta)
    return {
        "data": name,
        "bound": bound,
        "source": BOUNDS[bound],
        "delta": settings.delta,
        "draws": len(outcomes),
        "violations": violations,
        "chance_of_as_many_at_delta": float(excess),
        "looseness": looseness,
        "perfect": perfect,
    }


def perfect_looseness(errors: Sequence[float] | Floats, delta: float) -> float:
    """Return what a perfect bound shows: the 1 - delta quantile of errors over their median.

    Examples
    --------
    >>> from hammemo.paper.experiments.bounds import perfect_looseness
    >>> perfect_looseness([1.0, 2.0, 3.0, 4.0, 6.0], delta=0.25)
    1.33...
    """
    return float(np.quantile(errors, 1 - delta) / np.median(errors))


def summary(settings: BoundSettings, rows: list[Row]) -> Row:
    """Return the settings and the rows, as plain numbers."""
    return {"settings": asdict(settings), "bounds": rows}


def markdown(rows: list[Row]) -> str:
    """Return the table of the docs: looseness and (violations), by bound and data set.

    The first row for each kind of error is the perfect bound.
    """
    by_bound: dict[str, dict[str, str]] = {}
    for row in rows:
        kind = row["bound"].split(",")[0]
        perfect_line = {"bound on": f"{kind}, perfect", "from": PERFECT}
        perfect_line = by_bound.setdefault(f"{kind}, perfect", perfect_line)
        perfect_line[row["data"]] = f"{row['perfect']:.2f}"
        line = {"bound on": row["bound"], "from": row["source"]}
        line = by_bound.setdefault(row["bound"], line)
        line[row["data"]] = f"{row['looseness']:.1f} ({row['violations']})"
    return "\n".join(table(by_bound.values())) + "\n"
