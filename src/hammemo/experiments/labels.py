"""Many labels: the live table of `Exact` beside other ways to the same answers, in one run.

The labels are the whole vocabulary of a text, the contexts are the eight tokens before each. Contenders, for the same
counts and the same questions:

- the dense path: one score for every label, from a sparse matrix of all rows (`TableRows`). It is the oracle, too:
  whoever is raced must give its answers;
- the live table (`LiveRows`), which is meant to look at the leading labels only;
- a bare loop that only copies the entries of the rows that a question reads, and adds nothing up;
- a dictionary of counters in Python, of the rows that its few questions read.

What is counted is processor time, the best of several repeats, in one thread; batches are given as numbered tokens,
`predictor(tokens)` as strings. The dense path is so slow that it gets the first questions only, and so does the
log-linear vote. Resident memory and the time of `fit` are taken in fresh processes, which use public names only, so
that another installation of the library can be asked as well.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone
from threadpoolctl import threadpool_limits

from hammemo.experiments.speed import zipf_stream
from hammemo.kernels import PositionalHamming, SiteKernel, Suffixes
from hammemo.memories import Exact
from hammemo.memories.exact import Live, SignedSum, SparseCounts
from hammemo.models.classifiers import MemoryClassifier
from hammemo.models.predictor import Predictor
from hammemo.tokens.contexts import Contexts, Examples
from hammemo.tokens.labels import top_columns
from hammemo.votes import LogLinear, Mean, Sum, Vote

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from hammemo.experiments.wikitext import Task
    from hammemo.kernels.sites import Sites
    from hammemo.memories.reader import Compiled

H, TOP = 8, 10
KERNELS: dict[str, SiteKernel] = {"positions": PositionalHamming(), "Suffixes(5)": Suffixes(5)}
VOTES: dict[str, Vote] = {
    "sum": Sum(),
    "mean": Mean(),
    "log-linear, shared weights": LogLinear(per_label=False, sample=200, steps=10),
    "log-linear, weights a label": LogLinear(sample=200, steps=10),
}
"""Fitted to few examples: how fast answers are found, and that they are equal, does not depend on good weights."""
RACED = ("sum", "log-linear, shared weights")
_DENSE_QUERIES, _COUNTER_QUERIES, _EDITS, _PIECE = 1000, 100, 500, 64


@dataclass(frozen=True, eq=False)
class Data:
    """Examples to learn and questions to ask, as numbers of tokens, and the name of each number.

    Shapes
    ------
    X : (n, 8); y : (n,); queries : (m, 8); observed : (m,); names : (numbers,)
    """

    X: NDArray[Any]
    y: NDArray[Any]
    queries: NDArray[Any]
    observed: NDArray[Any]
    names: NDArray[Any]

    @classmethod
    def of(cls, task: Task, n_train: int | None = None, n_queries: int | None = None, *, targets: bool = False) -> Data:
        """Return the positions of the paper's task: all of the training text, and those of the test text.

        With `targets` the questions are those that the paper's task asks: positions whose token is a candidate.
        """
        chosen = task.chosen("test") if targets else np.arange(len(task.tokens["test"]))
        if n_queries is not None and n_queries < len(chosen):
            chosen = np.random.default_rng(0).choice(chosen, n_queries, replace=False)
        X, y = task.contexts["train"][:n_train, -H:], task.tokens["train"][:n_train]
        queries, observed = task.contexts["test"][chosen, -H:], task.tokens["test"][chosen]
        highest = max(int(part.max(initial=-1)) for part in (X, y, queries, observed))
        late = [f"<late {number}>" for number in range(len(task.vocabulary), highest + 1)]  # in no training text
        return cls(X, y, queries, observed, np.array([*task.vocabulary, *late], object))

    @classmethod
    def drawn(cls, n_train: int, n_queries: int, n_tokens: int = 33_278) -> Data:
        """Return examples with the token frequencies of text, where no text is at hand."""
        stream = zipf_stream(n_train + n_queries + H, n_tokens)
        X = np.lib.stride_tricks.sliding_window_view(stream, H)[:-1]
        y, names = stream[H:], np.array([f"w{number}" for number in range(n_tokens)], object)
        return cls(X[:n_train], y[:n_train], X[n_train:], y[n_train:], names)

    def fitted(self, kernel: str, vote: str = "sum") -> MemoryClassifier:
        """Return the exact model of the examples, with strings as tokens and labels."""
        model = MemoryClassifier(clone(KERNELS[kernel]), Exact(), vote=clone(VOTES[vote]))
        return model.fit(self.names[self.X], self.names[self.y])

    def contexts(self, n: int | None = None) -> Contexts:
        """Return the first questions, tokens numbered."""
        return Contexts.of(self.names[self.queries[:n]])

    def fitted_vote(self, vote: Vote, reader: Compiled, sites: Sites) -> Vote:
        """Return the vote, fitted to the first examples where it has weights."""
        fitted: Vote = clone(vote)
        n = min(fitted.wanted(), len(self.X))
        fitted.fit_to(reader, Examples.of(self.names[self.X[:n]], self.names[self.y[:n]]), sites)
        return fitted


@dataclass(frozen=True, eq=False)
class Pair:
    """The same counts twice: the live table and the dense path."""

    model: MemoryClassifier
    live: Live
    reader: Compiled
    dense: SparseCounts

    @classmethod
    def of(cls, model: MemoryClassifier) -> Pair:
        """Return both readers of what a model holds."""
        memory = model.memory_
        assert isinstance(memory, Exact)
        reader, table = memory.compile(), memory.table()
        live = reader.rows.live_table() if isinstance(reader, SparseCounts) else None
        if live is None:
            raise SystemExit("There is nothing to race: hammemo's compiled loops are not installed here.")
        return cls(model, live, reader, SparseCounts(SignedSum.of(table), memory.declared, static=True))

    def predictor(self, reader: Compiled, vote: Vote) -> Predictor:
        """Return what answers from one of the readers."""
        return Predictor(reader, self.model.label_dtype_, self.model.sites_, vote).prepare()


class Counters:
    """A dictionary of counters, as one writes it without a library; only rows that some queries read are kept."""

    def __init__(self, sites: Sites, queries: Sequence[Sequence[Any]]) -> None:
        self._sites = [*zip(sites.positions, sites.weights.tolist(), strict=True)]
        self._labels: Counter[Any] = Counter()
        self._rows: dict[Any, Counter[Any]] = {key: Counter() for query in queries for key in self._keys(query)}

    def _keys(self, tokens: Sequence[Any]) -> Iterator[Any]:
        for site, (positions, _) in enumerate(self._sites):
            yield (site, *(tokens[position] for position in positions))

    def change(self, tokens: Sequence[Any], label: Any, by: int) -> None:
        """Count an example, or take it back."""
        rows = (self._rows[key] for key in self._keys(tokens) if key in self._rows)
        for counter in (self._labels, *rows):
            counter[label] += by
            if not counter[label]:
                del counter[label]

    def answer(self, tokens: Sequence[Any]) -> Any:
        """Return the label with the largest weighted sum, the first one among equals."""
        totals: dict[Any, float] = {}
        for (_, weight), key in zip(self._sites, self._keys(tokens), strict=True):
            for label, count in self._rows[key].items():
                totals[label] = totals.get(label, 0.0) + weight * count
        best = max(totals.values(), default=0.0)
        return min((label for label, total in totals.items() if total == best) if totals else self._labels)


def race(
    data: Data, repeats: int, on_progress: Callable[[int, int], None], kernels: Sequence[str] = tuple(KERNELS)
) -> dict[str, Any]:
    """Return what each contender takes for a question, as a ratio to the dense path, and what a table takes."""
    rates, sizes = [], []
    with threadpool_limits(1):
        for done, name in enumerate(kernels):
            pair = Pair.of(data.fitted(name))
            for step, vote in enumerate(RACED):
                rates += [{"kernel": name, "vote": vote, **row} for row in _race_vote(data, pair, vote, repeats)]
                on_progress(len(RACED) * done + step + 1, len(RACED) * len(kernels))
            sizes.append({"kernel": name, **_sizes(pair)})
    return {
        "examples": len(data.X),
        "labels": len(pair.reader.labels),
        "queries": len(data.queries),
        "rates": rates,
        "sizes": sizes,
    }


def _race_vote(data: Data, pair: Pair, name: str, repeats: int) -> Iterator[dict[str, Any]]:
    vote = data.fitted_vote(VOTES[name], pair.dense, pair.model.sites_)
    live, dense = (pair.predictor(reader, vote) for reader in (pair.reader, pair.dense))
    ours, theirs = (predictor._scorer().ranker for predictor in (live, dense))
    some, every = (data.contexts(n) for n in (_DENSE_QUERIES, None if name == "sum" else _DENSE_QUERIES))
    for asked, of_ours, of_theirs in (
        ("top-1 in batches", ours.winners, theirs.winners),
        (f"top-{TOP} in batches", partial(ours.leaders, k=TOP), partial(theirs.leaders, k=TOP)),
    ):
        base, expected = _best(partial(of_theirs, some), len(some), repeats)
        took, answers = _best(partial(of_ours, every), len(every), repeats)
        _expect_equal(f"{name}, {asked}", answers[: len(some)], expected)
        bare = {"bare loop, entries only": _bare(pair, some, repeats)} if asked.startswith("top-1 ") else {}
        yield from _rows(asked, {"dense path": base, "live table": took, **bare})
    yield from _after_edits(data, pair, vote, some, repeats)
    lists = data.names[data.queries].tolist()
    few = lists[:_COUNTER_QUERIES]
    base, expected = _best(lambda: [dense(query) for query in few], len(few), repeats)
    took, answers = _best(lambda: [live(query) for query in lists[:_DENSE_QUERIES]], len(some), repeats)
    _expect_equal(f"{name}, predictor(tokens)", answers[: len(few)], expected)
    own = {"dict of Counters": _counters(data, pair, few, expected)} if name == "sum" else {}
    yield from _rows("predictor(tokens)", {"dense path": base, "live table": took, **own})


def _after_edits(data: Data, pair: Pair, vote: Vote, contexts: Contexts, repeats: int) -> Iterator[dict[str, Any]]:
    """Learn the last questions one by one, and race the readers of what is stored then."""
    edited = pair.model.snapshot()
    for tokens, label in zip(
        data.names[data.queries[-_EDITS:]].tolist(), data.names[data.observed[-_EDITS:]], strict=True
    ):
        edited.learn_one(tokens, label)
    later = Pair.of(edited)
    ours, theirs = (vote.ranker(reader, edited.sites_) for reader in (later.reader, later.dense))
    base, expected = _best(partial(theirs.winners, contexts), len(contexts), 1)
    took, answers = _best(partial(ours.winners, contexts), len(contexts), repeats)
    _expect_equal("after edits", answers, expected)
    yield from _rows(f"top-1 in batches, after {_EDITS} edits", {"dense path": base, "live table": took})


def _bare(pair: Pair, contexts: Contexts, repeats: int) -> float:
    """Return the seconds that it takes to copy the entries of the rows that a question reads."""
    numbers = pair.live.token_numbers(contexts)
    pieces = [np.ascontiguousarray(numbers[i : i + _PIECE]) for i in range(0, len(numbers), _PIECE)]
    took, _ = _best(lambda: [len(pair.live.version.read(piece)[0]) for piece in pieces], len(numbers), repeats)
    return took


def _counters(data: Data, pair: Pair, few: list[list[str]], expected: list[str]) -> float:
    """Return the seconds that a dictionary of counters takes for a question."""
    counters = Counters(pair.model.sites_, few)
    for tokens, label in zip(data.names[data.X].tolist(), data.names[data.y].tolist(), strict=True):
        counters.change(tokens, label, 1)
    took, answers = _best(lambda: [counters.answer(query) for query in few], len(few), 1)
    _expect_equal("the dictionary of counters", answers, expected)
    return took


def _rows(asked: str, seconds: dict[str, float]) -> Iterator[dict[str, Any]]:
    for name, took in seconds.items():
        ratio = seconds["dense path"] / took
        yield {"asked": asked, "name": name, "microseconds": 1e6 * took, "ratio": ratio}


def _sizes(pair: Pair) -> dict[str, Any]:
    entries = len(pair.live.total.entry_counts)
    canonical = sum(array.nbytes for array in pair.live.total.arrays_for(pair.reader.labels).values())
    return {
        "entries": entries,
        "rows": pair.live.version.n_rows,
        "live_bytes_an_entry": pair.live.version.nbytes / max(entries, 1),
        "canonical_bytes_an_entry": canonical / max(entries, 1),
    }


def agreement(data: Data, kernel: str, vote: str, on_progress: Callable[[int, int], None]) -> dict[str, Any]:
    """Ask every question of both readers, for the best label and for the best ten; return how many answers differ."""
    pair = Pair.of(data.fitted(kernel))
    fitted = data.fitted_vote(VOTES[vote], pair.dense, pair.model.sites_)
    live, dense = (fitted.ranker(reader, pair.model.sites_) for reader in (pair.reader, pair.dense))
    contexts = data.contexts()
    first, leading = live.winners(contexts), live.leaders(contexts, TOP)
    other_first = other_leading = 0
    for start in range(0, len(contexts), _PIECE):
        part = slice(start, start + _PIECE)
        scores = dense.scores(contexts[part])
        other_first += int((first[part] != scores.argmax(axis=1)).sum())
        other_leading += int((leading[part] != top_columns(scores, TOP)).any(axis=1).sum())
        on_progress(min(start + _PIECE, len(contexts)), len(contexts))
    return {
        "kernel": kernel,
        "vote": vote,
        "labels": len(pair.reader.labels),
        "queries": len(contexts),
        "other_top_1": other_first,
        f"other_top_{TOP}": other_leading,
    }


def agreements(
    data: Data, on_progress: Callable[[int, int], None], kernels: Sequence[str] = tuple(KERNELS)
) -> list[dict[str, Any]]:
    """Compare the readers with each kernel and every vote."""
    rows: list[dict[str, Any]] = []
    total = len(kernels) * len(VOTES) * len(data.queries)
    with threadpool_limits(1):
        for kernel in kernels:
            for vote in VOTES:
                told = after(on_progress, len(rows) * len(data.queries), total)
                rows.append(agreement(data, kernel, vote, told))
    return rows


_FRESH = """
import json, sys, time
import numpy as np
import hammemo
folder, kernel = sys.argv[1:]
X, y, query = (np.load(f"{folder}/{name}.npy") for name in ("X", "y", "query"))
kernels = {"positions": hammemo.PositionalHamming, "Suffixes(5)": lambda: hammemo.Suffixes(5)}
def kibibytes(name):
    with open("/proc/self/status") as file:
        return int(next(line for line in file if line.startswith(name)).split()[1])
started = time.process_time()
model = hammemo.MemoryClassifier(kernels[kernel](), hammemo.Exact(), vote="sum").fit(X, y)
fitted = time.process_time()
answer = model.predict(query)
asked = time.process_time()
print(json.dumps({
    "version": hammemo.__version__,
    "fit_seconds": fitted - started,
    "first_query_seconds": asked - fitted,
    "resident_mebibytes": kibibytes("VmRSS") / 1024,
    "peak_mebibytes": kibibytes("VmHWM") / 1024,
    "answer": answer.tolist(),
}))
"""


def fresh(
    data: Data, repeats: int, pythons: Sequence[str] = (), kernels: Sequence[str] = tuple(KERNELS)
) -> list[dict[str, Any]]:
    """Fit and ask one question in processes of their own; return times and memory, the best of the repeats.

    Parameters
    ----------
    data : Data
        Given as integers.
    repeats : int
    pythons : sequence of str
        Interpreters beside this one, with other installations of the library.
    kernels : sequence of str
    """
    if not Path("/proc/self/status").is_file():
        return []  # only Linux tells a process what it holds, and held at most
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for name, array in (("X", data.X), ("y", data.y), ("query", data.queries[:1])):
            np.save(f"{folder}/{name}.npy", array)
        for kernel in kernels:
            answers = []
            for python in (sys.executable, *pythons):
                runs = [_fresh_run(python, folder, kernel) for _ in range(repeats)]
                answers.append(runs[0]["answer"])
                names = ("fit_seconds", "first_query_seconds", "resident_mebibytes", "peak_mebibytes")
                best = {name: min(run[name] for run in runs) for name in names}
                rows.append({"kernel": kernel, "python": python, "version": runs[0]["version"], **best})
            _expect_equal("two installations", answers[1:], answers[:1] * len(pythons))
    return rows


def _fresh_run(python: str, folder: str, kernel: str) -> dict[str, Any]:
    command = [python, "-c", _FRESH, folder, kernel]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    if found.returncode:
        raise RuntimeError(f"{python} could not fit: {found.stderr.strip().splitlines()[-1]}")
    answer: dict[str, Any] = json.loads(found.stdout)
    return answer


def after(on_progress: Callable[[int, int], None], before: int, total: int) -> Callable[[int, int], None]:
    """Return what tells the progress of one part of a longer run, when so much was done before."""

    def tell(done: int, _: int) -> None:
        on_progress(before + done, total)

    return tell


def _best(run: Callable[[], Any], size: int, repeats: int) -> tuple[float, Any]:
    """Return the least processor time of several runs, for one of `size` questions, and the answers."""
    answers, best = run(), np.inf  # a first time that does not count: what is made once is made now
    for _ in range(repeats):
        started = time.process_time()
        answers = run()
        best = min(best, time.process_time() - started)
    return float(best) / max(size, 1), answers


def _expect_equal(what: str, found: Any, expected: Any) -> None:
    if not np.array_equal(found, expected):
        raise AssertionError(f"Answers differ from those of the dense path: {what}.")
