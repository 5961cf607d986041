r"""What kernels of sites and log-linear votes are worth on the paper's WikiText-2 task (h = 8).

The task and its draws are those of :mod:`hammemo.paper.experiments.wikitext`. The kernel has the
eight positions, the suffixes of length two to four and all pairs among the last four positions but
the last two, a suffix; the hashed model has the suffixes to length three and two pairs. What was
chosen (the sites, the amounts of smoothing, the ridge, the sizes of the hashed tables) was chosen
on the validation split. *The default* is `MemoryClassifier()`, with nothing chosen.

**Measures.** Top-1, top-5 and macro-F1 as in the paper, the mean log-loss in nats, and the expected
calibration error: over 15 bins of equal width of the highest probability, the mean of |its mean -
share of right answers|, weighted by the queries in the bin. With n queries, perfectly calibrated
answers have an error of up to :math:`\sqrt{15/n}/2` (0.027 at n = 5,000) by chance alone; in
practice, with most queries in a few bins, about a third of that.

**All eligible examples** are the same in every draw, so these models are fitted once; the draws
differ in their test positions. **Forgetting**: a random tenth of the examples is removed, and every
score is compared with those of a model that learnt the rest only and has the same weights.
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from hammemo.estimators.classifiers import MemoryClassifier
from hammemo.evaluation.measures import expected_calibration_error
from hammemo.kernels import PositionalHamming, SkipPairs, Suffixes
from hammemo.memories import Exact, Hashed
from hammemo.paper.experiments.measuring import (
    Row,
    averages,
    generator,
    ignore_progress,
    seconds,
    table,
)
from hammemo.paper.experiments.wikitext import LONGEST, Judge, TaskSettings, draw_sample
from hammemo.tokens.labels import top_columns
from hammemo.votes import LogLinear

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from hammemo.kernels import SiteKernel
    from hammemo.memories import Memory
    from hammemo.paper.experiments.wikitext import Task, TaskSample

H = 8
MEASURES = ("top1", "top5", "macro_f1", "log_loss", "ece")
BUCKETS = (1024, 1024, 1024, 1024, 4096, 8192, 16384, 24576, 40960, 32768, 28672, 16384)
RESERVED = (1024,) * 8 + (12288, 6144, 8192, 4096)
"""Rows of the hashed memory: the eight positions, the suffixes of length 2 and 3, and two pairs;
near 16 MiB.
"""


@dataclass(frozen=True)
class VoteSettings:
    """What determines the results."""

    seed: int = 20270
    draws: int = 5
    stored: int = 100_000
    queries: int = 5_000
    everything: bool = True
    sample: int = 50_000

    @classmethod
    def quick(cls, seed: int = 20270) -> VoteSettings:
        """Return settings for a look within two minutes, not for conclusions."""
        return cls(seed, 2, 20_000, 1_000, everything=False, sample=5_000)

    def task_settings(self) -> TaskSettings:
        """Return the settings of the paper's task that draw these positions."""
        return TaskSettings(
            self.seed, self.draws, sizes=(self.stored, min(self.stored, 2_000), self.queries)
        )


def kernel() -> SiteKernel:
    """Return the sites of all log-linear models here."""
    return PositionalHamming() + Suffixes(4) + SkipPairs(4)


def small_kernel() -> SiteKernel:
    """Return the sites of the hashed model: those that earn most for the rows they need."""
    return PositionalHamming() + Suffixes(3) + SkipPairs(3)


def measure_answers(model: MemoryClassifier, queries: NDArray[Any], observed: NDArray[Any]) -> Row:
    """Return the measures of one model on one set of queries.

    They are in percent, but for the log-loss and the error.
    """
    scores = model.class_scores(queries)
    judge = Judge(observed, observed, np.ones(len(observed), bool), model.classes_)
    shares = judge.measures(model.classes_[top_columns(scores, 5)])
    row: Row = {name: shares[name] for name in ("top1", "top5", "macro_f1")} | {
        "log_loss": None,
        "ece": None,
    }
    if hasattr(model, "predict_proba"):
        probabilities = model.predict_proba(queries)
        columns = np.searchsorted(model.classes_, observed)
        row["log_loss"] = float(-np.log(probabilities[np.arange(len(columns)), columns]).mean())
        row["ece"] = expected_calibration_error(
            probabilities.max(axis=1), scores.argmax(axis=1) == columns
        )
    return row


def _models(settings: VoteSettings) -> dict[str, MemoryClassifier]:
    vote = LogLinear(sample=settings.sample)
    return {
        "positions, sum (the paper)": MemoryClassifier(PositionalHamming(), Exact(), vote="sum"),
        "suffixes to 5, base 30, sum": MemoryClassifier(Suffixes(5, base=30), Exact(), vote="sum"),
        "log-linear, exact": MemoryClassifier(kernel(), Exact(), vote),
        "the default, fit": MemoryClassifier(numeric="none"),
    }


def _fit(model: MemoryClassifier, *examples: Any) -> tuple[MemoryClassifier, Row]:
    took = seconds(model.fit, *examples, clock=time.perf_counter)
    return model, {"fit_seconds": took, "state_mebibytes": model.memory_.nbytes / 2**20}


def _fit_to_stream(task: Task, X: NDArray[Any], y: NDArray[Any]) -> tuple[MemoryClassifier, Row]:
    """Return the default, fitted to documents of one window, each an example."""
    model = MemoryClassifier()
    documents = np.column_stack([X, y])
    fit = partial(
        model.fit_stream, starts=np.arange(0, documents.size, H + 1), classes=task.targets
    )
    took = seconds(fit, documents.ravel(), H, clock=time.perf_counter)
    return model, {"fit_seconds": took, "state_mebibytes": model.memory_.nbytes / 2**20}


def forgetting(
    model: MemoryClassifier, X: NDArray[Any], y: NDArray[Any], queries: NDArray[Any], seed: int
) -> Row:
    """Take a random tenth back from a fitted model and compare it with a fit of the rest."""
    gone = np.zeros(len(y), bool)
    gone[generator(seed, "forgetting").choice(len(y), len(y) // 10, replace=False)] = True
    took = seconds(model.forget, X[gone], y[gone], clock=time.perf_counter)
    fresh = model.empty_like().partial_fit(X[~gone], y[~gone])
    return {
        "examples": len(y),
        "forgotten": int(gone.sum()),
        "forget_seconds": took,
        "equal_states": model.memory_.state_bytes() == fresh.memory_.state_bytes(),
        "equal_scores": bool(
            np.array_equal(model.class_scores(queries), fresh.class_scores(queries))
        ),
    }


def run(
    task: Task, settings: VoteSettings, on_progress: Callable[[int, int], None] = ignore_progress
) -> dict[str, Any]:
    """Return all figures as plain numbers: over draws, each draw, and what forgetting did."""
    samples = [draw_sample(task, settings.task_settings(), draw) for draw in range(settings.draws)]
    total = len(samples) + 3 * settings.everything
    done = 0
    rows: list[Row] = []
    for draw, sample in enumerate(samples):
        rows += _one_draw(sample, settings, draw)
        on_progress(done := done + 1, total)
    X, y = samples[0].split("train", H)
    queries = samples[0].split("test", H)[0]
    last = MemoryClassifier(kernel(), Exact(), LogLinear(sample=settings.sample)).fit(X, y)
    forgot = [{"memory": "exact", **forgetting(last, X, y, queries, seed=settings.seed)}]
    if settings.everything:
        chosen = task.candidate_positions("train")
        X = task.contexts["train"][chosen, LONGEST - H :]
        y = task.tokens["train"][chosen]
        memories: dict[str, tuple[SiteKernel, Memory]] = {
            "exact": (kernel(), Exact()),
            "hashed": (small_kernel(), Hashed(list(BUCKETS), list(RESERVED))),
        }
        for name, (sites, memory) in memories.items():
            model, facts = _fit(
                MemoryClassifier(sites, memory, LogLinear(sample=settings.sample)), X, y
            )
            rows += _in_every_draw(model, facts, f"log-linear, {name}", samples, n_examples=len(y))
            forgot.append({"memory": name, **forgetting(model, X, y, queries, seed=settings.seed)})
            on_progress(done := done + 1, total)
        rows += _in_every_draw(
            *_fit_to_stream(task, X, y), "the default, fit_stream", samples, n_examples=len(y)
        )
        on_progress(done + 1, total)
    return {
        "settings": asdict(settings),
        "table": over_draws(rows),
        "forgetting": forgot,
        "draws": rows,
    }


def _in_every_draw(
    model: MemoryClassifier, facts: Row, name: str, samples: list[TaskSample], n_examples: int
) -> list[Row]:
    """Return the measures of one fitted model on the queries of every draw."""
    return [
        {
            "examples": n_examples,
            "model": name,
            "draw": draw,
            **measure_answers(model, *sample.split("test", H)),
            **facts,
        }
        for draw, sample in enumerate(samples)
    ]


def _one_draw(sample: TaskSample, settings: VoteSettings, draw: int) -> list[Row]:
    rows = []
    for name, model in _models(settings).items():
        fitted, facts = _fit(model, *sample.split("train", H))
        figures = measure_answers(fitted, *sample.split("test", H))
        rows.append({"examples": settings.stored, "model": name, "draw": draw, **figures, **facts})
    return rows


def over_draws(rows: list[Row]) -> list[Row]:
    """Return the mean and the standard deviation over draws of every model."""
    by_model: dict[tuple[int, str], list[Row]] = {}
    for row in rows:
        by_model.setdefault((row["examples"], row["model"]), []).append(row)
    names = (*MEASURES, "fit_seconds", "state_mebibytes")
    return [
        {"examples": key[0], "model": key[1], **averages(rows_of_draws, names)}
        for key, rows_of_draws in by_model.items()
    ]


def markdown(results: dict[str, Any]) -> str:
    """Return the table, and what forgetting did, as text."""
    settings = results["settings"]
    lines = [
        (
            f"WikiText-2, h = {H}, mean ± standard deviation over {settings['draws']} draws of "
            f"positions, {settings['queries']:,} test queries each (top-1, top-5, "
            "macro-F1 in percent):"
        ),
        "",
        *table(
            results["table"],
            "examples | model | top-1 | top-5 | macro-F1 | log-loss | ECE | state (MiB) | fit (s)",
            "{examples:,} | {model} | {top1±:.2f} | {top5±:.2f} | {macro_f1±:.2f} | "
            "{log_loss±:.3f} | {ece±:.3f} | {state_mebibytes:.2f} | {fit_seconds:.1f}",
        ),
        "",
        "Forgetting a random tenth, against a fresh model of the rest with the same weights:",
        "",
        *(
            (
                f"- {row['memory']}, {row['examples']:,} examples: "
                f"{row['forgotten']:,} forgotten in {row['forget_seconds']:.1f} s; "
                f"states {'equal' if row['equal_states'] else 'DIFFERENT'} to the byte, "
                f"scores {'equal' if row['equal_scores'] else 'DIFFERENT'} to the bit."
            )
            for row in results["forgetting"]
        ),
    ]
    return "\n".join(lines) + "\n"
