"""How fast the hashed memory answers and learns, beside what it could be compared with, in one run.

Machines are noisy, so nothing is timed alone: every round runs each contender once, and what is reported is the median
over the rounds of the ratio within a round, beside each contender's best. One thread everywhere.

Contenders on the paper's shape (eight positions, 64 labels, `Hashed(2048, 1024)`), queries as token ids:

- the paper's model, codes looked up and multiplied by CZ at d = 1024, in batches of 1,024, by NumPy's BLAS;
- torch's `embedding_bag` and `argmax` on a table of the same shape, its row numbers given;
- a bare loop: the same look-ups, additions and argmax, written for this shape alone in the extension module.

Learning is held against a bare scatter loop that is given the rows and only adds one to eight cells an example.
"""

from __future__ import annotations

import time
import tracemalloc
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from threadpoolctl import threadpool_limits

from hammemo._arrays.native import native
from hammemo.experiments.throughput import PAPER, memo_method
from hammemo.memories import Hashed
from hammemo.models.classifiers import MemoryClassifier
from hammemo.tokens.contexts import Contexts

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

BUCKETS, RESERVED = 2048, 1024
PAPER_HEADLINE = (
    f"{PAPER['sum prototype, dense'][3]:.0f} to {PAPER['MeMo fused, d = 128'][3]:.0f} million a second on a laptop "
    "GPU, batches of 1,024"
)

_FUSED_BATCH, _SLOW_QUERIES = 1024, 20_480


@dataclass(frozen=True)
class Contender:
    """Something to time: how many queries or examples one call handles, and the call."""

    name: str
    size: int
    run: Callable[[], Any]


def race(contenders: list[Contender], rounds: int, on_progress: Callable[[int, int], None]) -> list[dict[str, Any]]:
    """Return for each contender its best rate, and the median over rounds of the first one's rate over its own."""
    rates = np.empty((rounds, len(contenders)))
    for contender in contenders:
        contender.run()  # warm up: caches filled, pages touched
    for i in range(rounds):
        for j, contender in enumerate(contenders):
            started = time.perf_counter()
            contender.run()
            rates[i, j] = contender.size / (time.perf_counter() - started)
        on_progress(i + 1, rounds)
    ratios = np.median(rates[:, :1] / rates, axis=0)
    return [
        {"name": c.name, "best_per_second": rates[:, j].max(), "median_per_second": np.median(rates[:, j]), "ratio": r}
        for j, (c, r) in enumerate(zip(contenders, ratios, strict=True))
    ]


def predict(
    X: NDArray[Any],
    y: NDArray[Any],
    queries: NDArray[Any],
    n_tokens: int,
    rounds: int,
    on_progress: Callable[[int, int], None],
) -> dict[str, Any]:
    """Race the compiled predictor against its contenders on the given queries."""
    loops = _require_native()
    model = MemoryClassifier(memory=Hashed(BUCKETS, RESERVED), vote="sum").fit(X, y)
    predictor = model.compile()
    tables: Any = predictor.compiled
    table = tables._table(model.sites_.weights, None).loops
    ids = np.ascontiguousarray(queries, np.int64)
    answers, bare_answers = np.empty(len(ids), np.int32), np.empty(len(ids), np.int32)
    contenders = [Contender("hammemo: compiled loop", len(ids), lambda: table.winners(ids, None, None, answers, 1))]
    contenders.append(Contender("hammemo: Predictor.predict", len(ids), lambda: predictor.predict(ids)))
    contenders.append(_fused(X, y, ids, n_tokens))
    contenders.extend(_embedding_bag(model, ids))
    if loops.bare_predict(table, ids, bare_answers):
        contenders.append(
            Contender("bare loop for this shape", len(ids), lambda: loops.bare_predict(table, ids, bare_answers))
        )
    with threadpool_limits(1):
        rows = race(contenders, rounds, on_progress)
    if "bare loop for this shape" in {row["name"] for row in rows} and not (answers == bare_answers).all():
        raise AssertionError("The bare loop and the compiled loop disagree.")
    return {
        "rates": rows,
        "loops": table.path,
        "sum_bits": table.sum_bits,
        "state_mebibytes": model.memory_.nbytes / 2**20,
        "compiled_mebibytes": predictor.nbytes / 2**20,
        "one_query": _one_query(predictor, queries, rounds),
        "paper": PAPER_HEADLINE,
    }


def _fused(X: NDArray[Any], y: NDArray[Any], ids: NDArray[np.int64], n_tokens: int) -> Contender:
    method = memo_method(X, y, n_tokens, 1024, "fused")
    batches = [ids[i : i + _FUSED_BATCH] for i in range(0, min(len(ids), _SLOW_QUERIES), _FUSED_BATCH)]

    def run() -> None:
        for batch in batches:
            method.answer(*method.tensors, batch)

    return Contender("paper: fused product, d = 1024", sum(map(len, batches)), run)


def _embedding_bag(model: MemoryClassifier, ids: NDArray[np.int64]) -> list[Contender]:
    """Return torch's way to gather, add and compare rows of the same table, if torch is here."""
    try:
        import torch
    except ModuleNotFoundError:
        return []
    torch.set_num_threads(1)
    memory: Any = model.memory_
    tables = memory.compile()
    local = memory.rows(Contexts.of(ids[:_SLOW_QUERIES]))
    places = torch.as_tensor(local + memory._rows.first_rows[:-1])
    weights = torch.as_tensor(np.concatenate(tables._centred).astype(np.float32))

    def run() -> None:
        for start in range(0, len(places), _FUSED_BATCH):
            bags = places[start : start + _FUSED_BATCH]
            torch.nn.functional.embedding_bag(bags, weights, mode="sum").argmax(1)

    return [Contender("torch: embedding_bag and argmax", len(places), run)]


def _one_query(predictor: Any, queries: NDArray[Any], rounds: int) -> dict[str, float]:
    """Return microseconds for one context asked from Python, the best over the rounds of the mean of many calls."""
    lists = [row.tolist() for row in queries[:1000]]
    arrays = [row[None] for row in queries[:50]]
    best = {"call": np.inf, "predict": np.inf}
    for _ in range(rounds):
        for name, ask, asked in (("call", predictor, lists), ("predict", predictor.predict, arrays)):
            started = time.perf_counter()
            for context in asked:
                ask(context)
            best[name] = min(best[name], 1e6 * (time.perf_counter() - started) / len(asked))
    return best


def fit(
    n_tokens: int, rounds: int, stream_tokens: int, on_progress: Callable[[int, int], None], seed: int = 0
) -> dict[str, Any]:
    """Race learning from a stream and from contexts against a bare scatter loop, then learn a long stream once."""
    loops = _require_native()
    stream = zipf_stream(1_000_008, n_tokens, seed)
    windows = np.ascontiguousarray(np.lib.stride_tricks.sliding_window_view(stream, 8)[:-1])
    labels = np.random.default_rng(seed).integers(0, 64, len(stream)).astype(np.int32)
    model = MemoryClassifier(memory=Hashed(BUCKETS, RESERVED), vote="sum").fit(windows[:100_000], labels[8:100_008])
    layout: Any = model.memory_._rows
    rows = np.empty((len(windows), 8), np.uint32)
    layout.compiled.rows(windows, None, None, rows)
    cells, targets = layout.cells(64), labels[8:].copy()
    count, count_stream = layout.compiled.count, layout.compiled.count_stream
    contenders = [
        Contender("hammemo: stream", len(targets), lambda: count_stream(stream, None, None, labels, cells)),
        Contender("hammemo: contexts", len(targets), lambda: count(windows, None, None, targets, None, cells)),
        Contender("bare scatter, rows given", len(targets), lambda: loops.bare_scatter(rows, targets, cells)),
    ]
    rates = race(contenders, rounds, on_progress)
    contexts, observed = windows[:100_000], targets[:100_000]
    fitted = race(
        [Contender("MemoryClassifier.fit, 100,000 examples", 100_000, lambda: model.fit(contexts, observed))],
        min(rounds, 5),
        lambda *_: None,
    )
    fitted[0]["ratio"] = None  # raced alone
    return {"rates": [*rates, *fitted], "stream": _long_stream(stream_tokens, n_tokens, seed)}


def _long_stream(length: int, n_tokens: int, seed: int) -> dict[str, float]:
    """Learn a stream of one document a thousand tokens, its 64 most frequent tokens as labels."""
    stream = zipf_stream(length, n_tokens, seed)
    starts = np.arange(0, length, 1000)
    started = time.perf_counter()
    model = MemoryClassifier(memory=Hashed(BUCKETS, RESERVED), vote="sum").fit_stream(
        stream, 8, starts=starts, classes=list(range(64))
    )
    seconds = time.perf_counter() - started
    short = stream[: min(length, 4_000_000)]
    tracemalloc.start()
    MemoryClassifier(memory=Hashed(BUCKETS, RESERVED), vote="sum").fit_stream(short, 8, classes=list(range(64)))
    extra = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return {
        "tokens": length,
        "examples": int(model.memory_.label_counts.sum()),
        "tokens_per_second": length / seconds,
        "peak_mebibytes_beyond_the_tokens": extra / 2**20,
    }


def zipf_stream(length: int, n_tokens: int, seed: int = 0) -> NDArray[np.int64]:
    """Return tokens with the frequencies of text: token i occurs about 1 / (i + 1) as often as token 0."""
    shares = np.cumsum(1.0 / np.arange(1, n_tokens + 1))
    rng = np.random.default_rng(seed)
    parts = [
        np.searchsorted(shares, rng.random(min(2**20, length - first)) * shares[-1])
        for first in range(0, length, 2**20)
    ]
    return np.concatenate(parts)


def _require_native() -> Any:
    loops = native()
    if loops is None:
        raise SystemExit("There is nothing to race: hammemo's compiled loops are not installed here.")
    return loops
