"""Many labels, edited one example at a time.

Measured is what an edit of `Exact` takes, and whether the counts stay right.

`timings` edits a model and asks it in turn, and a second one of the same examples is only asked.
`interleave_edits` makes many single edits, a question after each, and compares: answers with those
of a dictionary of counters that is edited alike, and the bytes of the state with those of a model
that has learnt what remains, and nothing else.

What is counted is the time that the thread itself works. The command is ``python
benchmarks/labels.py --edits N``.
"""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from sklearn.base import clone
from threadpoolctl import threadpool_limits

from edits import edit_seconds
from hammemo import MemoryClassifier
from hammemo.memories import Exact
from hammemo.paper.experiments.measuring import Row, ignore_progress
from label_data import KERNELS, RACED, Counters, LabelledText, TwoReaders
from measures import after, latencies, thread_seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

MAX_TIMED_EDITS = 200
_NEW_EVERY = 50
"""Examples from one with a token and a label of its own to the next."""


def run(
    data: LabelledText,
    n_edits: int,
    on_progress: Callable[[int, int], None] = ignore_progress,
    kernels: Sequence[str] = tuple(KERNELS),
) -> dict[str, Any]:
    """Time single edits, then make many: with each kernel."""
    timed = [
        timings(data, kernel, vote, min(n_edits, MAX_TIMED_EDITS))
        for kernel in kernels
        for vote in RACED
    ]
    race_rows: list[Row] = []
    for kernel in kernels:
        on_race = after(on_progress, len(race_rows) * n_edits, n_edits * len(kernels))
        race_rows.append(interleave_edits(data, kernel, n_edits, on_race))
    return {"edits": timed, "interleaved": race_rows}


def timings(data: LabelledText, kernel: str, vote: str, n_edits: int) -> Row:
    """Return the latencies, in microseconds, of edits of one example and of questions."""
    examples = data.late_examples()[:n_edits]
    questions = [data.names[query][None] for query in data.queries[::-1][:n_edits]]
    with threadpool_limits(1):
        still = data.fit_model(kernel, vote)
        took = {
            "native": _native_edits(TwoReaders.of(still), examples),
            "query_after_learn_one": [],
        }
        edited = still.snapshot()
        for name in ("learn_one", "forget_one"):
            took[name] = [thread_seconds(getattr(edited, name), *example) for example in examples]
        for example, query in zip(examples, questions, strict=True):
            edited.learn_one(*example)
            took["query_after_learn_one"].append(thread_seconds(edited.predict, query))
            edited.forget_one(*example)
        rows = [
            (np.array([tokens], object), np.array([label], object)) for tokens, label in examples
        ]
        edits = [(*row, query) for row, query in zip(rows, questions, strict=True)]
        took |= edit_seconds(still, edits, lambda: None)
    return {
        "kernel": kernel,
        "vote": vote,
        "edits": len(examples),
        **{k: latencies(v) for k, v in took.items()},
    }


def _native_edits(readers: TwoReaders, examples: list[tuple[list[str], str]]) -> list[float]:
    """Return the seconds of edits by the compiled code alone; the versions are let go of again."""
    tokens = readers.live.store.tokens
    labels = readers.live.store.labels
    version: Any = readers.live.version
    times = []
    for row, label in examples:
        numbers = [tokens.get(token) for token in row]
        number = labels.get(label)
        if number < 0 or -1 in numbers:
            continue  # what is new must be numbered first
        started = time.thread_time()
        version = version.edit_one(numbers, number, 1)
        times.append(time.thread_time() - started)
    return times


class SingleEdit(NamedTuple):
    """An example that comes or goes."""

    tokens: list[str]
    label: str
    sign: int
    """1 where it comes, -1 where it goes."""


class _Present:
    """The examples that a model should hold."""

    def __init__(self, data: LabelledText, seed: int) -> None:
        self.examples = [
            *zip(data.names[data.X].tolist(), data.names[data.y].tolist(), strict=True)
        ]
        self._late = data.late_examples()
        self._random = random.Random(seed)

    def edit(self, number: int) -> SingleEdit:
        """Choose what comes or goes."""
        if self.examples and self._random.random() < 0.5:
            place = self._random.randrange(len(self.examples))
            self.examples[place], self.examples[-1] = self.examples[-1], self.examples[place]
            tokens, label = self.examples.pop()
            return SingleEdit(tokens, label, -1)
        tokens, label = self._late[self._random.randrange(len(self._late))]
        if number % _NEW_EVERY == 0:
            tokens = [*tokens[:-1], f"<new token {number}>"]
            label = f"<new label {number}>"
        self.examples.append((tokens, label))
        return SingleEdit(tokens, label, 1)

    def arrays(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return contexts and labels."""
        tokens, labels = zip(*self.examples, strict=True)
        return np.array(tokens, object), np.array(labels, object)


def interleave_edits(
    data: LabelledText,
    kernel: str,
    n_edits: int,
    on_progress: Callable[[int, int], None] = ignore_progress,
    *,
    compared: int = 2000,
    fits: int = 2,
    seed: int = 0,
) -> Row:
    """Make single edits with a question after each.

    Return how many edits were made a second, and how many answers were wrong.

    Parameters
    ----------
    data : LabelledText
    kernel : str
    n_edits : int
    on_progress : callable
    compared : int How many answers, evenly spread, are compared with those of a dictionary of
        counters, which takes milliseconds for each.
    fits : int
        How often the state is compared with that of a fresh fit; the last time is at the end.
    seed : int
    """
    present = _Present(data, seed)
    queries = data.names[data.queries].tolist()
    every = max(1, n_edits // compared)
    stretch = -(-n_edits // fits)
    model = data.fit_model(kernel)
    counters = Counters(model.sites_, [queries[i % len(queries)] for i in range(0, n_edits, every)])
    for tokens, label in present.examples:
        counters.change(tokens, label, 1)
    spent = 0.0
    wrong = 0
    same_bytes = []
    for i in range(n_edits):
        tokens, label, by = present.edit(i)
        query = queries[i % len(queries)]
        started = time.thread_time()
        (model.learn_one if by > 0 else model.forget_one)(tokens, label)
        answer = model.predict([query])[0]
        spent += time.thread_time() - started
        counters.change(tokens, label, by)
        if i % every == 0:
            wrong += bool(answer != counters.answer(query))
        if (i + 1) % stretch == 0 or i + 1 == n_edits:
            anew = MemoryClassifier(clone(KERNELS[kernel]), Exact(), vote="sum").fit(
                *present.arrays()
            )
            same_bytes.append(model.memory_.state_bytes() == anew.memory_.state_bytes())
        on_progress(i + 1, n_edits)
    return {
        "kernel": kernel,
        "edits": n_edits,
        "edits_with_query_per_second": n_edits / spent if spent else None,
        "compared": len(range(0, n_edits, every)),
        "wrong": wrong,
        "fresh_fits": len(same_bytes),
        "fresh_fits_with_other_bytes": same_bytes.count(False),
    }
