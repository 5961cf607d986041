"""One learner on one set.

Settings are chosen on validation; then come one look at the test, times, and forgetting.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from hammemo.paper.experiments.measuring import ignore_progress, seconds, table
from measures import thread_seconds

from .data import facts, read_task
from .measures import NAMES, difference, gains, ranks

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from .data import SessionQueries, SessionSplit, SessionTask
    from .learner import Learner

BATCH = 256
TUNED = 2000
"""The most validation queries that settings are chosen with, evenly spread."""
TIMED = 2000
SINGLE = 200
"""Questions that are timed in batches, and one by one."""
FORGOTTEN = 5
CLICKS_FORGOTTEN = 20
"""Sessions that are forgotten, and the length that theirs is nearest to."""
ANSWERS = 20

PUBLISHED = {
    "bol": {"VMIS-kNN (its authors' README)": "MRR@20 .3401"},
    "beauty": {"SASRec (as S3-Rec reports it)": ".0605 / .0318", "S3-Rec": ".0647 / .0327"},
    "toys": {"SASRec (as S3-Rec reports it)": ".0675 / .0374", "S3-Rec": ".0700 / .0376"},
}
"""Figures of others, the two of the kind of data unless said otherwise; no command here prints
them.
"""


@dataclass
class SessionOutcome:
    """What was measured.

    Times are those of the processor, one thread; `gains` are by query, for paired differences.
    """

    set: str
    learner: str
    settings: dict[str, Any]
    valid: float | None
    first: float
    second: float
    fit_seconds: float
    tuning_seconds: float
    answers_per_second: float
    single_microseconds: float
    forget_milliseconds: float | None = None
    answer_after_milliseconds: float | None = None
    forgets_exactly: bool | None = None
    gains: tuple[NDArray[np.float64], NDArray[np.float64]] | None = field(default=None, repr=False)

    def plain(self) -> dict[str, Any]:
        """Return everything but what is by query."""
        return {name: value for name, value in vars(self).items() if name != "gains"}


def evaluate(task: SessionTask, learner: type[Learner]) -> SessionOutcome:
    """Choose settings, fit, ask the test queries once, time, forget."""
    with threadpool_limits(1):
        started = time.process_time()
        settings, valid = choose_settings(task, learner)
        tuned = time.process_time()
        model = learner(task.kind, **settings)
        model.fit(task.test.sessions, task.test.n_items)
        fitted = time.process_time()
        by_query = gains(rank_targets(model, task.test.queries), task.kind)
        rate, single = speed(model, task.test.queries)
        outcome = SessionOutcome(
            task.name,
            learner.name,
            dict(settings),
            valid,
            first=float(by_query[0].mean()),
            second=float(by_query[1].mean()),
            fit_seconds=fitted - tuned,
            tuning_seconds=tuned - started,
            answers_per_second=rate,
            single_microseconds=single,
            gains=by_query,
        )
        if learner.forgets:
            took = forgetting(model, task.test)
            outcome.forget_milliseconds = took.forget_milliseconds
            outcome.answer_after_milliseconds = took.answer_milliseconds
            outcome.forgets_exactly = took.is_exact
    return outcome


def choose_settings(
    task: SessionTask, learner: type[Learner]
) -> tuple[Mapping[str, Any], float | None]:
    """Return the settings with the highest second figure on validation, and the figure.

    Of equal ones, return the first.

    Where there is no choice to make, validation is not asked.
    """
    if len(learner.choices) == 1:
        return learner.choices[0], None
    queries = task.valid.queries.spread(TUNED)
    tried: list[tuple[Mapping[str, Any], float]] = []
    for settings in learner.choices:
        model = learner(task.kind, **settings)
        model.fit(task.valid.sessions, task.valid.n_items)
        _, second = gains(rank_targets(model, queries), task.kind)
        tried.append((settings, float(second.mean())))
    return max(tried, key=lambda pair: pair[1])


def rank_targets(model: Learner, queries: SessionQueries) -> NDArray[np.float64]:
    """Return the rank of every query's target."""
    answers = []
    for start in range(0, len(queries), BATCH):  # all scores at once would take gigabytes
        prefixes = queries.prefixes[start : start + BATCH]
        left_out = prefixes if model.kind == "purchases" else None
        answers.append(
            ranks(model.scores(prefixes), queries.targets[start : start + BATCH], left_out)
        )
    return np.concatenate(answers)


def speed(model: Learner, queries: SessionQueries) -> tuple[float, float]:
    """Return answers of 20 items a second in batches, and the microseconds of a single one."""
    prefixes = queries.prefixes[:TIMED]
    batches = [prefixes[start : start + BATCH] for start in range(0, len(prefixes), BATCH)]
    rate = len(prefixes) / seconds(lambda: [model.top_k(batch, ANSWERS) for batch in batches])
    return rate, 1e6 * float(
        np.median([thread_seconds(model.top_k, [prefix], ANSWERS) for prefix in prefixes[:SINGLE]])
    )


class Forgetting(NamedTuple):
    """What forgetting sessions takes."""

    forget_milliseconds: float
    answer_milliseconds: float
    is_exact: bool


def forgetting(model: Learner, split: SessionSplit) -> Forgetting:
    """Forget sessions of about 20 clicks, one by one, and answer after each.

    Exact: the scores of the first queries are, to the bit, those of a model of the same layout that
    was fitted without the sessions.
    """
    lengths = np.array([len(session) for session in split.sessions])
    gone = np.argsort(np.abs(lengths - CLICKS_FORGOTTEN), kind="stable")[:FORGOTTEN].tolist()
    prefixes = split.queries.prefixes[:BATCH]
    took = []
    for place, number in enumerate(gone):
        forget = thread_seconds(model.forget, number, split.sessions[number])
        took.append(
            (forget, thread_seconds(model.top_k, [prefixes[place % len(prefixes)]], ANSWERS))
        )
    model.refit()
    rest = model.like()
    rest.fit(
        [session for number, session in enumerate(split.sessions) if number not in gone],
        split.n_items,
    )
    exactly = np.array_equal(model.scores(prefixes), rest.scores(prefixes))
    forget, answer = 1e3 * np.median(took, axis=0)
    return Forgetting(float(forget), float(answer), bool(exactly))


def run(
    folder: Path,
    sets: Sequence[str],
    learners: Sequence[type[Learner]],
    on_progress: Callable[[int, int], None] = ignore_progress,
) -> tuple[dict[str, Any], str]:
    """Measure learners on sets; return plain numbers, and a page with a table for each set."""
    results: list[dict[str, Any]] = []
    pages: list[str] = []
    for name in sets:
        task = read_task(folder, name)
        set_outcomes = []
        for learner in learners:
            set_outcomes.append(evaluate(task, learner))
            on_progress(len(pages) * len(learners) + len(set_outcomes), len(sets) * len(learners))
        results += [outcome.plain() for outcome in set_outcomes]
        pages.append(
            "\n".join(
                [heading(task), "", *outcome_table(task, set_outcomes), *describe_published(name)]
            )
            + "\n"
        )
    return {"settings": {"sets": list(sets)}, "table": results}, "\n".join(pages)


def describe_published(name: str) -> list[str]:
    """Return what others have published for a set, in one line."""
    figures_of_papers = "; ".join(
        f"{who} {figures}" for who, figures in PUBLISHED.get(name, {}).items()
    )
    return ["", f"Published: {figures_of_papers}."] if figures_of_papers else []


def heading(task: SessionTask) -> str:
    """Return the sizes of a set in one line."""
    sizes = facts(task)
    parts = ", ".join(f"{sizes[name]:,} {name}" for name in ("sessions", "events", "items"))
    return (
        f"{task.name}: {parts}; {sizes['valid_queries']:,} validation and "
        f"{sizes['test_queries']:,} test queries"
    )


def outcome_table(
    task: SessionTask, outcomes: Sequence[SessionOutcome], beside: str = "VMIS-kNN"
) -> list[str]:
    """Return the lines of a table of one set.

    Differences are those from one of the learners, if it is among them.
    """
    first, second = NAMES[task.kind]
    base = next((outcome for outcome in outcomes if outcome.learner == beside), None)
    rows = []
    for outcome in outcomes:
        settings = ", ".join(f"{name} {value}" for name, value in outcome.settings.items())
        apart = "" if base is None else _differences(outcome, base, task.test.queries.sessions)
        rows.append(outcome.plain() | {"settings": settings, "apart": apart})
    return table(
        rows,
        f"learner | {first} | {second} | "
        f"{f'{first}, difference | {second}, difference | ' if base else ''}fit (s) | "
        "top 20 a second | one (µs) | forget (ms) | then answer (ms) | exactly | settings",
        "{learner} | {first:.4f} | {second:.4f} | {apart}{fit_seconds:.2f} | "
        "{answers_per_second:~} | {single_microseconds:~} | "
        "{forget_milliseconds:.2f|fit again} | {answer_after_milliseconds:.2f|} | "
        "{forgets_exactly:yes/NO|} | {settings}",
    )


def _differences(outcome: SessionOutcome, base: SessionOutcome, sessions: NDArray[np.int64]) -> str:
    """Return two cells and what separates them from the next."""
    if outcome is base or outcome.gains is None or base.gains is None:
        return " |  | "
    differences = [
        difference(ours, base_gains, sessions)
        for ours, base_gains in zip(outcome.gains, base.gains, strict=True)
    ]
    return "".join(f"{mean:+.4f} ± {error:.4f} | " for mean, error in differences)
