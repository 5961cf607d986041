"""What it costs to learn or to forget one example and to ask one question, over and over.

    python benchmarks/edits.py [--labels 64] [--examples 100000] [--edits 2000] [--json]

For every vote there are two models of the same examples. One is only asked: its tables are
compiled, so that this is the fastest query there is. The other is edited and asked in turn: an
example is learnt, then forgotten again, then another one. The two take turns, so that whatever else
the machine does is felt by both alike.

Every call is one that users make: `partial_fit` or `forget` of one row, `predict` of one row. A
good part of what a call takes are scikit-learn's own checks of its arguments; they are timed
beside, on the same rows, as `checks` (what an edit checks) and `query checks`. Printed are the
median and the 99th percentile, in microseconds.

What is counted is the time that the thread itself works: nothing here waits for anything, and on a
machine that does other things too the clock on the wall would show, in one call out of a hundred,
for how long those were let in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from threadpoolctl import threadpool_limits

from hammemo import MemoryClassifier
from hammemo._progress import progress_bar
from hammemo.edits.editing import read_rows
from hammemo.memories import Hashed
from hammemo.paper.experiments.measuring import Row, ignore_progress, zipf_examples
from measures import after, latencies, options, show, thread_seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray

    from hammemo.memories import Memory

_ENOUGH = 50_000  # queries after which every reader has compiled its tables, if it ever does

Edit = tuple["NDArray[Any]", "NDArray[Any]", "NDArray[Any]"]
"""One row to learn and to forget, its label, and one row to ask about; each an array of one."""


def edit_seconds(
    still: MemoryClassifier, edits: Iterable[Edit], on_edit: Callable[[], Any]
) -> dict[str, list[float]]:
    """Learn and forget rows one by one.

    Return the seconds of edits, of queries after them and of queries of `still`.

    Parameters
    ----------
    still : MemoryClassifier
        It is only asked; a snapshot of it is edited, and must hold the same in the end.
    edits : iterable of Edit
    on_edit : callable
        Called after each edit.
    """
    edited = still.snapshot()
    names = ("query", "partial_fit", "forget", "query_after", "checks", "query_checks")
    took: dict[str, list[float]] = {name: [] for name in names}
    for rows, labels, question in edits:
        for name in ("partial_fit", "forget"):
            took["query"].append(thread_seconds(still.predict, question))
            took[name].append(thread_seconds(getattr(edited, name), rows, labels))
            took["query_after"].append(thread_seconds(edited.predict, question))
            took["checks"].append(thread_seconds(_check, edited, rows, labels))
            took["query_checks"].append(thread_seconds(_check, edited, question))
            on_edit()
    if edited.memory_.state_bytes() != still.memory_.state_bytes():
        raise AssertionError("What was learnt and forgotten again left something behind.")
    return took


def _check(model: MemoryClassifier, rows: NDArray[Any], labels: NDArray[Any] | None = None) -> None:
    """Check what an edit checks of its arguments or, without labels, a query."""
    if labels is None:
        model.contexts(rows)
    else:
        read_rows(model, rows, labels, model.state)


def measure_model(
    model: tuple[Memory, str, str],
    examples: tuple[NDArray[Any], NDArray[Any]],
    n_edits: int,
    on_progress: Callable[[int, int], None],
) -> Row:
    """Return the latencies of one model that has learnt the examples.

    Single rows are learnt once more.
    """
    (memory, vote, keep) = model
    (X, y) = examples
    still = MemoryClassifier("positional", memory=memory, vote=vote, keep=keep).fit(X, y)
    for _ in range(-(-_ENOUGH // len(X))):
        still.predict(X[:_ENOUGH])
    places = [i % len(X) for i in range(n_edits // 2)]
    edits = [(X[i, None], y[i, None], X[(7 * i + 1) % len(X), None]) for i in places]
    steps = iter(range(1, n_edits + 1))
    took = edit_seconds(still, edits, lambda: on_progress(next(steps), n_edits))
    took["edit"] = [
        one
        for pair in zip(took.pop("partial_fit"), took.pop("forget"), strict=True)
        for one in pair
    ]
    took["edit_and_query"] = [
        sum(pair) for pair in zip(took["edit"], took["query_after"], strict=True)
    ]
    names = ("query", "edit", "query_after", "edit_and_query", "checks", "query_checks")
    figures = {name: _two(took[name]) for name in names}
    ratio = {
        name: figure / figures["query"]["median"]
        for name, figure in figures["edit_and_query"].items()
    }
    about = {
        "memory": repr(memory),
        "vote": vote,
        "keep": keep,
        "labels": len(still.classes_),
        "edits": n_edits,
    }
    return {**about, **figures, "ratio": ratio}


def _two(samples: list[float]) -> dict[str, float]:
    """Return the median and the 99th percentile."""
    figures = latencies(samples)
    assert figures is not None
    return {name: figures[name] for name in ("median", "p99")}


def run(
    n_labels: int,
    n_examples: int,
    n_edits: int,
    on_progress: Callable[[int, int], None] = ignore_progress,
) -> list[Row]:
    """Measure `Hashed(2048, 1024)` with every vote, and with digests; one thread."""
    X, y = zipf_examples(n_examples, n_labels)
    hashed = Hashed(2048, 1024)
    models: list[tuple[Memory, str, str]] = [
        (hashed, vote, "auto") for vote in ("sum", "mean", "log-linear")
    ]
    models.append((hashed, "sum", "digests"))
    with threadpool_limits(1):
        return [
            measure_model(
                model, (X, y), n_edits, after(on_progress, j * n_edits, len(models) * n_edits)
            )
            for j, model in enumerate(models)
        ]


def main() -> None:
    parser = options(__doc__, as_json="everything")
    parser.add_argument("--labels", type=int, default=64)
    parser.add_argument(
        "--examples", type=int, default=100_000, help="examples that are learnt before"
    )
    parser.add_argument(
        "--edits", type=int, default=2000, help="edits of one example, a query after each"
    )
    arguments = parser.parse_args()
    with progress_bar("Editing") as on_progress:
        rows = run(arguments.labels, arguments.examples, arguments.edits, on_progress)
    show({"median / p99 in µs": rows}, as_json=arguments.json)


if __name__ == "__main__":
    main()
