"""What it costs to learn or to forget one example and to ask one question, over and over.

For every vote there are two models of the same examples. One is only asked: its tables are compiled, so that this is
the fastest query there is. The other is edited and asked in turn: an example is learnt, then forgotten again, then
another one. The two take turns, so that whatever else the machine does is felt by both alike.

Every call is one that users make: `partial_fit` or `forget` of one row, `predict` of one row. A good part of what a
call takes are scikit-learn's own checks of its arguments; they are timed beside, on the same rows, as `checks` (what
an edit checks) and `query_checks`.

What is counted is the time that the thread itself works: nothing here waits for anything, and on a machine that does
other things too the clock on the wall would show, in one call out of a hundred, for how long those were let in.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone
from threadpoolctl import threadpool_limits

from hammemo.experiments.speed import zipf_stream
from hammemo.memories import Hashed, Ledgered
from hammemo.models.classifiers import MemoryClassifier
from hammemo.tokens.contexts import validated_array
from hammemo.tokens.labels import label_array

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from hammemo.kernels import SiteKernel
    from hammemo.memories import Memory
    from hammemo.votes import Vote

VOTES = ("sum", "mean", "log-linear")
H, N_TOKENS = 8, 33_278
_ENOUGH = 50_000  # queries after which every reader has compiled its tables, if it ever does


def zipf_examples(n_examples: int, n_labels: int, seed: int = 0) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return contexts of eight tokens with the frequencies of text, and labels of which the first are more frequent.

    Shapes
    ------
    returned : (n_examples, 8), (n_examples,)
    """
    X = zipf_stream(n_examples * H, N_TOKENS, seed).reshape(n_examples, H)
    rng = np.random.default_rng(seed + 1)
    y = rng.integers(0, n_labels, (2, n_examples)).min(axis=0)
    y[:n_labels] = np.arange(n_labels)[: len(y)]  # every label occurs
    return X, y


def race(
    memory: Memory,
    vote: str | Vote,
    X: NDArray[Any],
    y: NDArray[Any],
    n_edits: int,
    *,
    kernel: SiteKernel | None = None,
    on_progress: Callable[[int, int], None] = lambda *_: None,
) -> dict[str, Any]:
    """Return the median and the 99th percentile, in microseconds, of a query, an edit, and an edit and a query.

    Parameters
    ----------
    memory, vote, kernel
        Parts of the model.
    X, y
        What it has learnt before; single rows of it are learnt once more and forgotten again.
    n_edits : int
    on_progress : callable
        Called with what is done and how much there is.
    """
    still = MemoryClassifier(kernel, clone(memory), vote).fit(X, y)
    for _ in range(-(-_ENOUGH // len(X))):
        still.predict(X[:_ENOUGH])
    edited = still.snapshot()
    took: dict[str, list[float]] = {
        name: [] for name in ("query", "edit", "query_after", "edit_and_query", "checks", "query_checks")
    }
    for i in range(n_edits):
        rows, labels = X[i % len(X), None], y[i % len(X), None]
        asked = X[(7 * i + 1) % len(X), None]
        change = edited.forget if i % 2 else edited.partial_fit
        if i % 2:  # what was learnt just before
            rows, labels = X[(i - 1) % len(X), None], y[(i - 1) % len(X), None]
        took["query"].append(_seconds(still.predict, asked))
        took["edit"].append(_seconds(change, rows, labels))
        took["query_after"].append(_seconds(edited.predict, asked))
        took["edit_and_query"].append(took["edit"][-1] + took["query_after"][-1])
        took["checks"].append(_seconds(_checked, edited, rows, labels))
        took["query_checks"].append(_seconds(_checked, edited, asked))
        on_progress(i + 1, n_edits)
    if n_edits % 2 == 0 and edited.memory_.state_bytes() != still.memory_.state_bytes():
        raise AssertionError("What was learnt and forgotten again left something behind.")
    figures = {name: _summary(seconds) for name, seconds in took.items()}
    return {
        "memory": repr(memory),
        "vote": vote if isinstance(vote, str) else repr(vote),
        "labels": len(still.classes_),
        "edits": n_edits,
        **figures,
        "ratio": {name: figures["edit_and_query"][name] / figures["query"]["median"] for name in ("median", "p99")},
    }


def hashed(
    n_labels: int, n_edits: int, n_examples: int, on_progress: Callable[[int, int], None], seed: int = 0
) -> list[dict[str, Any]]:
    """Race `Hashed(2048, 1024)` with every vote, and in a ledger; one thread."""
    X, y = zipf_examples(n_examples, n_labels, seed)
    contenders: list[tuple[Memory, str]] = [(Hashed(2048, 1024), vote) for vote in VOTES]
    contenders.append((Ledgered(Hashed(2048, 1024)), "sum"))
    results = []
    with threadpool_limits(1):
        for j, (memory, vote) in enumerate(contenders):

            def progress(done: int, _: int, before: int = j * n_edits) -> None:
                on_progress(before + done, len(contenders) * n_edits)

            results.append(race(memory, vote, X, y, n_edits, on_progress=progress))
    return results


def _checked(model: MemoryClassifier, rows: NDArray[Any], labels: NDArray[Any] | None = None) -> None:
    """Check what an edit checks or, without labels, a query."""
    if labels is None:
        validated_array(model, rows, reset=False)
    else:
        validated_array(model, rows, reset=False, y=labels)
        label_array(labels)


def _clock() -> Callable[[], float]:
    """Return the clock of this thread, or that on the wall where the first is too coarse, as on Windows."""
    return time.thread_time if time.get_clock_info("thread_time").resolution < 1e-6 else time.perf_counter


def _seconds(call: Callable[..., Any], *arguments: Any) -> float:
    clock = _clock()
    started = clock()
    call(*arguments)
    return clock() - started


def _summary(seconds: list[float]) -> dict[str, float]:
    return {"median": 1e6 * float(np.median(seconds)), "p99": 1e6 * float(np.percentile(seconds, 99))}
