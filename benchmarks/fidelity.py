r"""Where the hashed memory earns its place.

Printed are fidelity and proofs against the size of the state, and as examples grow.

The paper's WikiText-2 task (:mod:`hammemo.paper.experiments.wikitext`) at h = 8, two questions:

* **Size.** At one number of stored examples: how large is each memory, and how faithful to the
exact classifier?
* **Growth.** The sparse exact table grows with what it has seen and a hashed memory hardly does
  (only its integers widen with the counts). From how many examples on is the exact table the larger
  one, and how faithful is the hashed memory on the way?

**Measures.** *Agreement*: the share of test queries with a unique exact winner on which the memory
answers the same. *Certified*: the share of all test queries whose answer the memory proves to be
the exact one. *Wrong*: certified answers that differ from the exact ones; a proof allows none.

**State.** For counts the canonical form, which is all that prediction and every later edit need;
for the Gaussian memory what the paper counts: its fused form in float32 with the codes of all
tokens, the smaller of its two forms. *As compiled* is the form made for fast answers.

**Error.** Each repetition draws its own order of the training positions (the first n of it are
stored, so larger sets contain the smaller ones) and its own test positions, and has its own seed of
hashes and codes. Standard deviations are over repetitions and cover all of it.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from itertools import pairwise
from math import exp, log
from typing import TYPE_CHECKING, Any, NamedTuple

from hammemo.estimators.classifiers import MemoryClassifier
from hammemo.memories import Exact, Gaussian, Hashed
from hammemo.paper.experiments.measuring import (
    Row,
    averages,
    generator,
    ignore_progress,
    in_parallel,
    table,
)
from hammemo.paper.experiments.wikitext import LONGEST, Judge

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

    from hammemo.memories import Memory
    from hammemo.paper.experiments.wikitext import Task

H = 8
MEASURES = ("state_mebibytes", "compiled_mebibytes", "agreement", "certified")


@dataclass(frozen=True)
class FidelitySettings:
    """What determines the results.

    The growing sets end with all training positions that have a candidate.
    """

    seed: int = 20270
    repetitions: int = 5
    stored: int = 100_000
    tables: tuple[tuple[int, int], ...] = (
        (32, 64),
        (64, 128),
        (120, 248),
        (256, 512),
        (512, 960),
        (1024, 2048),
        (4096, 6144),
    )
    dimensions: tuple[int, ...] = (128, 256, 512, 1024)
    growing: tuple[int, ...] = (10_000, 30_000, 100_000, 300_000)
    fixed_table: tuple[int, int] = (1024, 2048)
    fixed_dimension: int = 128
    queries: int = 5_000

    @classmethod
    def quick(cls, seed: int = 20270) -> FidelitySettings:
        """Return settings for a look within a minute, not for conclusions."""
        return cls(
            seed,
            repetitions=2,
            stored=20_000,
            tables=((64, 128), (256, 512), (1024, 2048)),
            dimensions=(128, 256),
            growing=(30_000, 100_000),
            queries=1_000,
        )


@dataclass(frozen=True, eq=False)
class Draw:
    """One repetition's data: all training examples in a random order, and its test queries."""

    X: NDArray[np.int32]
    y: NDArray[np.int32]
    queries: NDArray[np.int32]
    observed: NDArray[np.int32]


def draw(task: Task, settings: FidelitySettings, repetition: int) -> Draw:
    """Draw an order of the training positions and a set of test positions."""
    rng = generator(settings.seed, "fidelity", repetition)
    order = rng.permutation(task.candidate_positions("train"))
    places = rng.permutation(task.candidate_positions("test"))[: settings.queries]
    return Draw(
        task.contexts["train"][order, LONGEST - H :],
        task.tokens["train"][order],
        task.contexts["test"][places, LONGEST - H :],
        task.tokens["test"][places],
    )


def evaluate(
    data: Draw, settings: FidelitySettings, n_tokens: int, repetition: int
) -> dict[str, list[Row]]:
    """Return one repetition.

    It has a row for each memory at one number of examples, and rows of three as examples grow.
    """
    every = [*map(_name_hashed, settings.tables), *map(_name_gaussian, settings.dimensions)]
    fixed = [_name_hashed(settings.fixed_table), _name_gaussian(settings.fixed_dimension)]
    total = len(data.y)
    numbers = [*(n for n in settings.growing if n < total), total]
    return {
        "size": _compare_with_exact(data, settings.stored, every, n_tokens, seed=repetition),
        "growth": [
            row
            for n in numbers
            for row in _compare_with_exact(data, n, fixed, n_tokens, seed=repetition)
        ],
    }


class NamedMemory(NamedTuple):
    """A memory under test."""

    kind: str
    name: str
    memory: Memory


def _name_hashed(size: tuple[int, int]) -> NamedMemory:
    reserved, buckets = size
    return NamedMemory("hashed", f"hashed, {reserved} + {buckets}", Hashed(buckets, reserved))


def _name_gaussian(d: int) -> NamedMemory:
    return NamedMemory("Gaussian", f"Gaussian, d = {d}", Gaussian(d))


def _compare_with_exact(
    data: Draw, n: int, memories: list[NamedMemory], n_tokens: int, *, seed: int
) -> list[Row]:
    """Compare the answers of each memory with those of the exact table, with n stored examples."""
    X = data.X[:n]
    y = data.y[:n]
    exact = MemoryClassifier("positional", memory=Exact(), vote="sum").fit(X, y)
    judge = Judge.from_exact(exact, data.queries, data.observed)
    rows = [
        {
            "kind": "exact",
            "memory": "exact, sparse",
            **_measure_memory(exact, judge, data.queries, n_tokens),
        }
    ]
    for kind, name, memory in memories:
        model = MemoryClassifier("positional", memory=memory, random_state=seed, vote="sum").fit(
            X, y
        )
        rows.append(
            {"kind": kind, "memory": name, **_measure_memory(model, judge, data.queries, n_tokens)}
        )
    return [{"examples": len(y), **row} for row in rows]


def _measure_memory(
    model: MemoryClassifier, judge: Judge, queries: NDArray[Any], n_tokens: int
) -> Row:
    predictor = model.compile(vocabulary=range(n_tokens))
    same = predictor.predict(queries) == judge.winners
    proven = model.certify(queries) if model.memory_.reader().has_bounds else None
    state = predictor.nbytes if isinstance(model.memory_, Gaussian) else model.memory_.nbytes
    return {
        "state_mebibytes": state / 2**20,
        "compiled_mebibytes": predictor.nbytes / 2**20,
        "agreement": 100 * float(same[judge.unambiguous].mean()),
        "certified": None if proven is None else 100 * float(proven.mean()),
        "proofs": 0 if proven is None else int(proven.sum()),
        "wrong": 0 if proven is None else int((proven & ~same).sum()),
        "unambiguous": 100 * float(judge.unambiguous.mean()),
    }


def run(
    task: Task,
    settings: FidelitySettings,
    jobs: int = 1,
    on_progress: Callable[[int, int], None] = ignore_progress,
) -> list[dict[str, list[Row]]]:
    """Return `evaluate` of every repetition, computed in `jobs` processes."""
    n_tokens = len(task.vocabulary)
    numbers = range(settings.repetitions)
    return list(
        in_parallel(
            evaluate,
            [(draw(task, settings, i), settings, n_tokens, i) for i in numbers],
            jobs,
            on_progress,
        )
    )


def summary(settings: FidelitySettings, outcomes: list[dict[str, list[Row]]]) -> dict[str, Any]:
    """Return all figures as plain numbers.

    They are means over repetitions, where the sizes cross, and each repetition.
    """
    tables = {
        name: [
            {key: entries[0][key] for key in ("examples", "kind", "memory")}
            | averages(entries, MEASURES)
            for entries in zip(*(outcome[name] for outcome in outcomes), strict=True)
        ]
        for name in ("size", "growth")
    }
    rows = [
        (i, row)
        for i, outcome in enumerate(outcomes)
        for table in outcome.values()
        for row in table
    ]
    hashed_rows = {  # a memory that is in both tables counts once
        (i, row["examples"], row["memory"]): row for i, row in rows if row["kind"] == "hashed"
    }
    exact, hashed = (_sizes(tables["growth"], kind) for kind in ("exact", "hashed"))
    return {
        "settings": asdict(settings),
        **tables,
        "crossing": crossing(exact, hashed),
        "unambiguous": min(row["unambiguous"] for _, row in rows),
        "proofs": sum(row["proofs"] for row in hashed_rows.values()),
        "wrong": sum(row["wrong"] for row in hashed_rows.values()),
        "repetitions": outcomes,
    }


def crossing(growing: dict[int, float], steady: dict[int, float]) -> int | None:
    """Return the number of examples, to three digits, at which one size passes another.

    Return None where it does not.

    Between two numbers of examples both sizes are taken as powers of the number: lines in a log-log
    plot.

    Examples
    --------
    >>> from fidelity import crossing
    >>> crossing({100: 1.0, 400: 4.0}, {100: 2.0, 400: 2.0}), crossing({100: 1.0}, {100: 2.0})
    (200, None)
    """
    for before, after in pairwise(sorted(growing)):
        below, above = (log(growing[n] / steady[n]) for n in (before, after))
        if below <= 0 < above:
            examples = exp(log(before) + log(after / before) * below / (below - above))
            return int(float(f"{examples:.3g}"))
    return None


def markdown(results: dict[str, Any]) -> str:
    """Return the two tables, and what follows from them, as text."""
    settings = results["settings"]
    first = results["size"][0]
    hashed = [row for row in results["growth"] if row["kind"] == "hashed"]
    low, high = (f(row["state_mebibytes"] for row in hashed) for f in (min, max))
    crossed = results["crossing"]
    lines = [
        (
            f"{first['examples']:,} stored examples. "
            f"Mean ± standard deviation over {settings['repetitions']} repetitions, "
            f"each with its own draw of positions, {settings['queries']:,} test queries and its "
            "own seed:"
        ),
        "",
        *table(
            results["size"],
            "memory | state (MiB) | as compiled (MiB) | agreement (%) | certified (%)",
            "{memory} | {state_mebibytes:.2f} | {compiled_mebibytes:.2f} | "
            "{agreement±:.2f} | {certified±:.2f}",
        ),
        "",
        "As the stored examples grow:",
        "",
        *table(
            results["growth"],
            "examples | memory | state (MiB) | agreement (%) | certified (%)",
            "{examples:,} | {memory} | {state_mebibytes:.2f} | {agreement±:.2f} | {certified±:.2f}",
        ),
        "",
        (
            f"The state of {hashed[0]['memory']} is {low:.2f} to {high:.2f} MiB on the way; "
            "the sparse exact table "
        )
        + ("does not pass it." if crossed is None else f"passes it at about {crossed:,} examples."),
        f"The exact winner is unique on at least {results['unambiguous']:.2f} % of the queries.",
        (
            f"Certified answers of hashed memories: {results['proofs']:,}. "
            f"Wrong ones among them: {results['wrong']:,}."
        ),
    ]
    return "\n".join(lines) + "\n"


def _sizes(rows: list[Row], kind: str) -> dict[int, float]:
    return {row["examples"]: row["state_mebibytes"] for row in rows if row["kind"] == kind}
