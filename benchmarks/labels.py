"""Many labels: the live table of `Exact` beside other ways to the same answers, in one run.

    python benchmarks/labels.py [--data FOLDER] [--edits N | --agreement] [--json]

The labels are the whole vocabulary of a text, the contexts are the eight tokens before each.
Contenders, for the same counts and the same questions:

- the dense path: one score for every label, from a sparse matrix of all rows (`TableRows`). It is
  the oracle, too: all others must give its answers;
- the live table (`LiveRows`), which is meant to look at the leading labels only;
- a bare loop that only copies the entries of the rows that a question reads, and adds nothing up;
- a dictionary of counters in Python, of the rows that its few questions read.

What is counted is processor time, the best of several repeats, in one thread; batches are given as
numbered tokens, `predictor(tokens)` as strings. The dense path is so slow that it gets the first
questions only, and so does the log-linear vote. The peak of memory and the time of `fit` are taken
in fresh processes.
"""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from threadpoolctl import threadpool_limits

import label_edits
from hammemo import MemoryClassifier
from hammemo._progress import progress_bar
from hammemo.memories import Exact
from hammemo.paper.experiments.measuring import Row, ignore_progress, seconds
from hammemo.paper.experiments.wikitext import build_task, read_folder
from hammemo.tokens.labels import top_columns
from label_data import KERNELS, RACED, VOTES, Counters, LabelledText, TwoReaders
from measures import after, in_turns, options, peak_mebibytes, show

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from hammemo.tokens.contexts import Contexts
    from hammemo.votes import Vote

TOP = 10
_DENSE_QUERIES = 1000
_COUNTER_QUERIES = 100
_EDITS = 500
_PIECE = 64


def race(
    data: LabelledText,
    repeats: int,
    on_progress: Callable[[int, int], None] = ignore_progress,
    kernels: Sequence[str] = tuple(KERNELS),
) -> dict[str, Any]:
    """Return what each contender takes for a question, as a ratio to the dense path.

    Return what a table takes, too.
    """
    rates = []
    sizes = []
    with threadpool_limits(1):
        for done, name in enumerate(kernels):
            readers = TwoReaders.of(data.fit_model(name))
            for step, vote in enumerate(RACED):
                rates += [
                    {"kernel": name, "vote": vote, **row}
                    for row in _race_vote(data, readers, vote, repeats)
                ]
                on_progress(len(RACED) * done + step + 1, len(RACED) * len(kernels))
            sizes.append({"kernel": name, **_sizes(readers)})
    labels = len(readers.reader.labels)
    return {
        "examples": len(data.X),
        "labels": labels,
        "queries": len(data.queries),
        "rates": rates,
        "sizes": sizes,
    }


def _race_vote(data: LabelledText, readers: TwoReaders, name: str, repeats: int) -> Iterator[Row]:
    vote = data.fit_vote(VOTES[name], readers.dense, readers.model.sites_)
    live, dense = (readers.predictor(reader, vote) for reader in (readers.reader, readers.dense))
    ours, plain = (predictor.view().scorer.ranker for predictor in (live, dense))
    some, every = (
        data.contexts(n) for n in (_DENSE_QUERIES, None if name == "sum" else _DENSE_QUERIES)
    )
    for question, of_ours, of_theirs in (
        ("top-1 in batches", ours.winners, plain.winners),
        (f"top-{TOP} in batches", partial(ours.leaders, k=TOP), partial(plain.leaders, k=TOP)),
    ):
        base, expected = _best(partial(of_theirs, some), len(some), repeats)
        took, answers = _best(partial(of_ours, every), len(every), repeats)
        _expect_equal(f"{name}, {question}", answers[: len(some)], expected)
        bare = (
            {"bare loop, entries only": _bare(readers, some, repeats)}
            if question.startswith("top-1 ")
            else {}
        )
        yield from _rows(question, {"dense path": base, "live table": took, **bare})
    yield from _after_edits(data, readers, vote, some, repeats=repeats)
    lists = data.names[data.queries].tolist()
    few = lists[:_COUNTER_QUERIES]
    base, expected = _best(lambda: [dense(query) for query in few], len(few), repeats)
    took, answers = _best(
        lambda: [live(query) for query in lists[:_DENSE_QUERIES]], len(some), repeats
    )
    _expect_equal(f"{name}, predictor(tokens)", answers[: len(few)], expected)
    counters = (
        {"dict of Counters": _counters(data, readers, few, expected)} if name == "sum" else {}
    )
    yield from _rows("predictor(tokens)", {"dense path": base, "live table": took, **counters})


def _after_edits(
    data: LabelledText, readers: TwoReaders, vote: Vote, contexts: Contexts, repeats: int
) -> Iterator[Row]:
    """Learn the last questions one by one, and race the readers of what is stored then."""
    edited = readers.model.snapshot()
    for tokens, label in data.late_examples()[-_EDITS:]:
        edited.learn_one(tokens, label)
    later = TwoReaders.of(edited)
    ours, plain = (vote.ranker(reader, edited.sites_) for reader in (later.reader, later.dense))
    base, expected = _best(partial(plain.winners, contexts), len(contexts), 1)
    took, answers = _best(partial(ours.winners, contexts), len(contexts), repeats)
    _expect_equal("after edits", answers, expected)
    yield from _rows(
        f"top-1 in batches, after {_EDITS} edits", {"dense path": base, "live table": took}
    )


def _bare(readers: TwoReaders, contexts: Contexts, repeats: int) -> float:
    """Return the seconds that it takes to copy the entries of the rows that a question reads."""
    numbers = readers.live.token_numbers(contexts)
    read = readers.live.version.read
    pieces = [np.ascontiguousarray(numbers[i : i + _PIECE]) for i in range(0, len(numbers), _PIECE)]
    return _best(lambda: [len(read(piece)[0]) for piece in pieces], len(numbers), repeats)[0]


def _counters(
    data: LabelledText, readers: TwoReaders, few: list[list[str]], expected: list[str]
) -> float:
    """Return the seconds that a dictionary of counters takes for a question."""
    counters = Counters(readers.model.sites_, few)
    for tokens, label in zip(data.names[data.X].tolist(), data.names[data.y].tolist(), strict=True):
        counters.change(tokens, label, 1)
    took, answers = _best(lambda: [counters.answer(query) for query in few], len(few), 1)
    _expect_equal("the dictionary of counters", answers, expected)
    return took


def _rows(question: str, seconds_by_reader: dict[str, float]) -> Iterator[Row]:
    for name, took in seconds_by_reader.items():
        yield {
            "asked": question,
            "name": name,
            "microseconds": 1e6 * took,
            "ratio": seconds_by_reader["dense path"] / took,
        }


def _sizes(readers: TwoReaders) -> Row:
    live = readers.live
    entries = len(live.total.entry_counts)
    canonical = sum(array.nbytes for array in live.total.arrays_for(readers.reader.labels).values())
    return {
        "entries": entries,
        "rows": live.version.n_rows,
        "live_bytes_an_entry": live.version.nbytes / max(entries, 1),
        "canonical_bytes_an_entry": canonical / max(entries, 1),
    }


def agreement(
    data: LabelledText,
    kernel: str,
    vote: str,
    on_progress: Callable[[int, int], None] = ignore_progress,
) -> Row:
    """Ask every question of both readers, for the best label and for the best ten.

    Return how many answers differ.
    """
    readers = TwoReaders.of(data.fit_model(kernel))
    fitted = data.fit_vote(VOTES[vote], readers.dense, readers.model.sites_)
    live, dense = (
        fitted.ranker(reader, readers.model.sites_) for reader in (readers.reader, readers.dense)
    )
    contexts = data.contexts()
    first = live.winners(contexts)
    leading = live.leaders(contexts, TOP)
    other_first = other_leading = 0
    for start in range(0, len(contexts), _PIECE):
        part = slice(start, start + _PIECE)
        scores = dense.scores(contexts[part])
        other_first += int((first[part] != scores.argmax(axis=1)).sum())
        other_leading += int((leading[part] != top_columns(scores, TOP)).any(axis=1).sum())
        on_progress(min(start + _PIECE, len(contexts)), len(contexts))
    about = {
        "kernel": kernel,
        "vote": vote,
        "labels": len(readers.reader.labels),
        "queries": len(contexts),
    }
    return {**about, "other_top_1": other_first, f"other_top_{TOP}": other_leading}


def agreements(
    data: LabelledText,
    on_progress: Callable[[int, int], None] = ignore_progress,
    kernels: Sequence[str] = tuple(KERNELS),
) -> list[Row]:
    """Compare the readers with each kernel and every vote."""
    rows: list[Row] = []
    total = len(kernels) * len(VOTES) * len(data.queries)
    with threadpool_limits(1):
        for kernel in kernels:
            for vote in VOTES:
                rows.append(
                    agreement(
                        data, kernel, vote, after(on_progress, len(rows) * len(data.queries), total)
                    )
                )
    return rows


def fresh(data: LabelledText, repeats: int, kernels: Sequence[str] = tuple(KERNELS)) -> list[Row]:
    """Fit and ask one question in processes of their own.

    Return times and peaks of memory, the best of the repeats.
    """
    rows = []
    for kernel in kernels:
        with ProcessPoolExecutor(1, get_context("spawn"), max_tasks_per_child=1) as process:
            runs = [
                process.submit(_fit_and_ask, data.X, data.y, data.queries[:1], kernel).result()
                for _ in range(repeats)
            ]
        rows.append(
            {"kernel": kernel, **{name: min(run[name] for run in runs) for name in runs[0]}}
        )
    return rows


def _fit_and_ask(X: Any, y: Any, query: Any, kernel: str) -> dict[str, float]:
    model = MemoryClassifier(KERNELS[kernel], Exact(), vote="sum")
    figures = {"mebibytes_before": peak_mebibytes(), "fit_seconds": seconds(model.fit, X, y)}
    return {
        **figures,
        "first_query_seconds": seconds(model.predict, query),
        "peak_mebibytes": peak_mebibytes(),
    }


def _best(run: Callable[[], Any], size: int, repeats: int) -> tuple[float, Any]:
    """Return the least processor time of several runs for each question, and the answers."""
    answers = run()  # a first time that does not count: what is made once is made now
    return min(in_turns({"": run}, repeats)[""]) / max(size, 1), answers


def _expect_equal(what: str, answers: Any, expected: Any) -> None:
    if not np.array_equal(answers, expected):
        raise AssertionError(f"Answers differ from those of the dense path: {what}.")


def main() -> None:
    parser = options(__doc__, as_json="everything")
    parser.add_argument(
        "--data",
        type=Path,
        metavar="FOLDER",
        help="folder with WikiText-2; else tokens of a Zipf law",
    )
    parser.add_argument(
        "--train", type=int, help="examples that are learnt (default: all; drawn: 1,000,000)"
    )
    parser.add_argument(
        "--queries", type=int, help="questions (default: 20,000; with --agreement and --data: all)"
    )
    parser.add_argument("--repeats", type=int, default=3, help="the best counts")
    parser.add_argument("--kernel", choices=KERNELS, help="one of the two kernels only")
    instead = parser.add_mutually_exclusive_group()
    instead.add_argument(
        "--edits", type=int, help="edit so many times instead, a question after each, and compare"
    )
    instead.add_argument(
        "--agreement", action="store_true", help="compare all answers instead, with every vote"
    )
    arguments = parser.parse_args()
    kernels = [arguments.kernel] if arguments.kernel else [*KERNELS]
    if arguments.data is None:
        data = LabelledText.draw(arguments.train or 1_000_000, arguments.queries or 20_000)
    else:
        task = build_task(read_folder(arguments.data))
        n_queries = arguments.queries if arguments.agreement else arguments.queries or 20_000
        data = LabelledText.of(task, arguments.train, n_queries, targets=arguments.agreement)
    with progress_bar("Racing") as on_progress:
        if arguments.edits:
            results = label_edits.run(data, arguments.edits, on_progress, kernels)
        elif arguments.agreement:
            results = {"agreement": agreements(data, on_progress, kernels)}
        else:
            results = race(data, arguments.repeats, on_progress, kernels)
            results["fresh"] = fresh(data, arguments.repeats, kernels)
    show(results, as_json=arguments.json)


if __name__ == "__main__":
    main()
