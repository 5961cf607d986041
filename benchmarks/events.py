r"""Next-activity prediction on event logs, beside the published LSTM (Tax et al., CAiSE 2017).

**Protocol**, that of the paper and of its authors' published scripts. Cases are in the order of the
file; with n cases each fold has round((n + 1) / 3) of them, the first two folds train and the rest
tests. From every prefix of at least two events of a test case the next activity is predicted, among
all activities and one more, the end of the case; the figure is the share of right answers over all
prefixes. The authors' script writes no row for the prefix that is the whole case: the end may be
predicted, and is then wrong, but never is the truth. That is the figure compared here
(`continued`). Two more are given: with the ends of cases as truths too (`with_ends`), and among
continued prefixes for the most probable activity other than the end (`told_it_continues`), which no
published figure corresponds to.

**What differs.** The LSTM is trained on the same prefixes, with the time of every event beside its
activity, by many passes and early stopping on a fifth of them, for the next activity and its time
together. Ours sees the last eight activities; in the second model also, for the last event only,
the time since the one before, since the start of the case, hour, weekday and the number of events
so far, each as a token (times as powers of two of a second). It learns in one pass. Sites, ridge
and length were chosen on the last fifth of the training cases; the default model chooses its sites
by its examples.
"""

from __future__ import annotations

import csv
import time
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

import numpy as np

from hammemo.estimators.classifiers import MemoryClassifier
from hammemo.kernels import SiteKernel
from hammemo.memories import Exact
from hammemo.paper.experiments.measuring import seconds, table
from hammemo.votes import LogLinear

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

H = 8
END = "<end>"
START = "<start>"
MAX_EVENTS = 30
RIDGE = 200.0
LSTM = {"helpdesk": 0.7123, "bpi_12_w": 0.7600}
"""The published accuracies (Tax et al. 2017, table 2)."""

Case = list[tuple[str, datetime]]
Site = tuple[int, ...]


def read_log(path: Path) -> list[Case]:
    """Return the cases of a log in the order of the file, each a list of activities and times."""
    cases: dict[str, Case] = {}
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            moment = datetime.strptime(row["CompleteTimestamp"], "%Y-%m-%d %H:%M:%S")
            cases.setdefault(row["CaseID"], []).append((row["ActivityID"], moment))
    return list(cases.values())


def split(cases: list[Case]) -> tuple[list[Case], list[Case]]:
    """Return the training and the test cases."""
    fold = round((len(cases) + 1) / 3)
    return cases[: 2 * fold], cases[2 * fold :]


@dataclass(frozen=True, eq=False)
class Prefixes:
    """Contexts of the last activities and five tokens of time, and the activity that follows."""

    X: NDArray[Any]
    y: NDArray[Any]

    @classmethod
    def of(cls, cases: list[Case], shortest: int) -> Prefixes:
        """Return every prefix of at least `shortest` events."""
        contexts = []
        following = []
        for case in cases:
            activities = [activity for activity, _ in case]
            for i in range(shortest, len(case) + 1):
                contexts.append([*([START] * H + activities[:i])[-H:], *_times(case, i)])
                following.append(activities[i] if i < len(case) else END)
        return cls(np.array(contexts, object), np.array(following))


def _times(case: Case, i: int) -> list[str]:
    """Return what the clock says at the i-th event, as tokens."""
    now = case[i - 1][1]
    before = case[max(i - 2, 0)][1]
    gap, age = ((now - then).total_seconds() for then in (before, case[0][1]))
    steps = [int(np.log2(1 + max(seconds, 0.0))) for seconds in (gap, age)]
    return [
        f"gap {steps[0]}",
        f"age {steps[1]}",
        f"hour {now.hour}",
        f"day {now.weekday()}",
        f"event {min(i, MAX_EVENTS)}",
    ]


def activity_sites() -> list[Site]:
    """Return the sites of the last activities: five positions, all suffixes, three pairs."""
    last = [(H - 1 - i,) for i in range(5)]
    suffixes = [tuple(range(H - length, H)) for length in range(2, H + 1)]
    return [*last, *suffixes, (H - 3, H - 1), (H - 4, H - 1), (H - 3, H - 2)]


def time_sites() -> list[Site]:
    """Return the sites that hold tokens of time.

    They are alone, with the last activity, with the last two, and in pairs.
    """
    gap, age, hour, day, event = range(H, H + 5)
    each = (gap, age, hour, day, event)
    pairs = ((gap, age), (gap, event), (hour, day), (age, event))
    return [
        *((t,) for t in each),
        *((H - 1, t) for t in each),
        *((H - 2, H - 1, t) for t in each),
        *((H - 1, *pair) for pair in pairs),
    ]


def models() -> dict[str, MemoryClassifier]:
    """Return the models, not fitted.

    Two have given sites; the default chooses for itself.
    """
    vote = LogLinear(ridge=RIDGE)
    return {
        "activities": MemoryClassifier(SiteKernel(activity_sites()), Exact(), vote),
        "activities and times": MemoryClassifier(
            SiteKernel([*activity_sites(), *time_sites()]), Exact(), vote
        ),
        "activities and times, the default": MemoryClassifier(),
    }


def evaluate(cases: list[Case]) -> list[dict[str, Any]]:
    """Return the accuracies of all models on one log."""
    training, test = split(cases)
    learnt = Prefixes.of(training, 1)
    prefixes = Prefixes.of(test, 2)
    goes_on = prefixes.y != END
    rows = []
    for name, model in models().items():
        took = seconds(model.fit, learnt.X, learnt.y, clock=time.perf_counter)
        scores = model.class_scores(prefixes.X)
        right = model.classes_[scores.argmax(axis=1)] == prefixes.y
        scores[:, model.classes_ == END] = -np.inf
        rows.append(
            {
                "model": name,
                "cases": len(cases),
                "learnt": len(learnt.y),
                "prefixes": int(goes_on.sum()),
                "continued": float(right[goes_on].mean()),
                "with_ends": float(right.mean()),
                "told_it_continues": float(
                    (model.classes_[scores.argmax(axis=1)] == prefixes.y)[goes_on].mean()
                ),
                "fit_seconds": took,
            }
        )
    return rows


def run(folder: Path) -> dict[str, Any]:
    """Return the rows of every log with a published figure in a folder."""
    rows = []
    for log, published in LSTM.items():
        path = folder / f"{log}.csv"
        if not path.is_file():
            raise FileNotFoundError(
                f"{path} is missing: data= takes a folder with {' and '.join(LSTM)}, as .csv files."
            )
        rows += [{"log": log, "lstm": published, **row} for row in evaluate(read_log(path))]
    return {"settings": {"h": H, "ridge": RIDGE}, "table": rows}


def markdown(results: dict[str, Any]) -> str:
    """Return the table as text."""
    lines = [
        (
            "Accuracy of the next activity over prefixes of at least two events. "
            "*Its protocol*: prefixes that go on,"
        ),
        (
            "the end of the case among the answers. The other two columns are not comparable "
            "with the LSTM's figure."
        ),
        "",
        *table(
            results["table"],
            "log | model | prefixes | LSTM, published | ours, its protocol | with ends | "
            "told it goes on | fit (s)",
            "{log} | {model} | {prefixes:,} | {lstm:.4f} | {continued:.4f} | {with_ends:.4f} | "
            "{told_it_continues:.4f} | {fit_seconds:.1f}",
        ),
    ]
    return "\n".join(lines) + "\n"
