"""The paper's inference benchmark: state, latency of one query, and queries per second in batches.

Inputs are token ids and all state is in place before timing; a measurement covers scores and the
choice of a label, not the numbering of tokens. As in the paper: 20 batches to warm up, then 100
timed, three repeats, the median is reported.

The scoring functions use indexing, sums, matrix products and argmax only, so the same code runs on
NumPy arrays (``cpu``), on torch tensors on the processor (``torch-cpu``) and on a GPU (``cuda``,
timed with CUDA events).
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.linear_model import SGDClassifier
from threadpoolctl import threadpool_limits

from hammemo._lazy import explain_missing
from hammemo.estimators.classifiers import MemoryClassifier
from hammemo.kernels import SiteOneHot
from hammemo.memories import Exact
from hammemo.paper.experiments.measuring import Row, seconds, table, zipf_examples
from hammemo.paper.experiments.wikitext import Task, TaskSettings, draw_sample
from hammemo.paper.memo import MeMoClassifier
from hammemo.tokens.vocabulary import Vocabulary

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from hammemo._arrays.types import Array


DEVICES = ("cpu", "torch-cpu", "cuda")
BATCHES = (1, 256, 1024)
PANEL_BATCH = 512

PAPER = {
    "sum prototype, dense": (65.00, 18.59, 11.36, 33.33),
    "mean prototype": (65.00, 22.66, 9.62, 31.08),
    "linear SVM": (65.00, 26.35, 8.33, 29.41),
    "MeMo fused, d = 128": (2.06, 20.22, 12.56, 48.41),
    "MeMo fused, d = 256": (4.12, 20.21, 11.90, 40.00),
    "MeMo fused, d = 512": (8.25, 20.19, 11.90, 27.78),
    "MeMo fused, d = 1024": (16.50, 20.16, 9.34, 16.37),
    "MeMo two-stage, d = 1024": (20.50, 25.31, 2.91, 3.21),
}
"""The paper's table of an RTX 4060 Laptop GPU.

State (MiB), µs per query at B = 1, and million queries per second at B = 256 and 1024.
"""


@dataclass(frozen=True)
class Protocol:
    """How a measurement is taken."""

    warm_up: int = 20
    timed: int = 100
    repeats: int = 3
    threads: int = 1


@dataclass(frozen=True, eq=False)
class Method:
    """A way to answer: tensors, and a function of them and of a batch of ids: the labels."""

    name: str
    tensors: tuple[Array, ...]
    answer: Callable[..., Any]
    portable: bool = True
    state_bytes: int | None = None

    @property
    def mebibytes(self) -> float:
        """Size of the tensors that inference needs."""
        size = sum(t.nbytes for t in self.tensors) if self.state_bytes is None else self.state_bytes
        return size / 2**20


def gather_sum(table: Any, bias: Any, ids: Any) -> Any:
    """Answer from a table (positions, tokens, labels): add up one row for each position."""
    scores = table[0][ids[:, 0]] + bias
    for r in range(1, table.shape[0]):
        scores = scores + table[r][ids[:, r]]
    return scores.argmax(1)


def multiply_codes(codes: Any, *matrices_and_ids: Any) -> Any:
    """Answer from projected codes: stack a query's codes, and multiply by the matrices in turn."""
    *matrices, ids = matrices_and_ids
    keys = codes[ids].reshape(ids.shape[0], -1)
    for matrix in matrices:
        keys = keys @ matrix
    return keys.argmax(1)


def table_methods(X: Array, y: Array, n_tokens: int, svm: Row) -> Iterator[Method]:
    """Yield the exact prototypes, dense and sparse, and the linear SVM, all trained on (X, y)."""
    exact = MemoryClassifier("positional", memory=Exact(), vote="sum").fit(X, y)
    dense = exact.compile("dense", range(n_tokens)).tensors()["counts"]
    yield Method("sum prototype, dense", (dense,), lambda table, ids: gather_sum(table, 0, ids))
    yield _sparse_method(exact, n_tokens)
    mean = (dense / np.maximum(exact.memory_.label_counts, 1)).astype(np.float32)
    yield Method("mean prototype", (mean,), lambda table, ids: gather_sum(table, 0, ids))
    yield _svm_method(X, y, dense.shape, svm)


def _svm_method(X: Array, y: Array, shape: tuple[int, ...], svm: Row) -> Method:
    """Return the linear SVM as a table (positions, tokens, labels) of its weights."""
    encoder = SiteOneHot().fit(X)
    model = SGDClassifier(loss="hinge", random_state=0, **svm).fit(encoder.transform(X), y)
    weights = np.zeros(shape, np.float32)
    tokens = np.array(encoder.vocabulary_.tolist())
    scale = np.sqrt(1 / len(encoder.tuples_))  # the encoder's rows have norm 1
    start = 0
    for r, site_tuples in enumerate(encoder.tuples_):
        end = start + len(site_tuples)
        weights[r, tokens[site_tuples.rows()[:, 0]]] = scale * model.coef_[:, start:end].T
        start = end
    return Method("linear SVM", (weights, model.intercept_.astype(np.float32)), gather_sum)


def _sparse_method(exact: MemoryClassifier, n_tokens: int) -> Method:
    """Return the sparse table behind SciPy's product; its state is the memory's canonical form."""
    table = exact.memory_.table()
    counts = table.matrix(exact.memory_.labels)
    h = len(table.tuples)
    rows = np.full((h, n_tokens), counts.shape[0], np.int64)  # a row past the last: unknown, empty
    tokens = np.array(table.vocabulary.tolist())
    start = 0
    for r, site_tuples in enumerate(table.tuples):
        end = start + len(site_tuples)
        rows[r, tokens[site_tuples.rows()[:, 0]]] = np.arange(start, end)
        start = end
    padded = sparse.vstack([counts, sparse.csr_array((1, counts.shape[1]))]).tocsr()

    def answer(ids: Array) -> Any:
        columns = rows[np.arange(h), ids].ravel()
        starts = np.arange(0, len(columns) + 1, h)
        ones = np.ones(len(columns))
        query = sparse.csr_array((ones, columns, starts), shape=(len(ids), padded.shape[0]))
        return (query @ padded).toarray().argmax(1)

    return Method(
        "sum prototype, sparse",
        tensors=(),
        answer=answer,
        portable=False,
        state_bytes=exact.memory_.nbytes,
    )


def memo_method(X: Array, y: Array, n_tokens: int, d: int, form: str) -> Method:
    """Return the paper's model in one of its two compiled forms."""
    memory = MeMoClassifier(d).fit(X, y).memory_
    tensors = memory.compile(form, Vocabulary.of(range(n_tokens))).tensors()
    if form == "fused":
        matrices = [tensors["CZ"]]
    else:
        matrices = [tensors["C"], np.ascontiguousarray(tensors["Z"].T)]
    state = (tensors["projected_codes"], *matrices)
    return Method(f"MeMo {form}, d = {d}", state, multiply_codes)


def measure(method: Method, queries: Array, batch: int, device: str, protocol: Protocol) -> float:
    """Return the median seconds per batch over the repeats."""
    batches = _cut_batches(queries, batch, protocol.warm_up + protocol.timed)
    tensors: Sequence[Any] = method.tensors
    clock = time.perf_counter
    if device != "cpu":
        torch = require_torch()
        torch.set_num_threads(protocol.threads)
        place = torch.device("cuda" if device == "cuda" else "cpu")
        tensors = [torch.as_tensor(tensor, device=place) for tensor in method.tensors]
        batches = [torch.as_tensor(ids, device=place) for ids in batches]
        if device == "cuda":
            clock = _gpu_clock(torch)

    def answer(n: int) -> None:
        for i in range(n):
            method.answer(*tensors, batches[i % len(batches)])

    seconds_per_batch = []
    with threadpool_limits(protocol.threads):
        for _ in range(protocol.repeats):
            answer(protocol.warm_up)
            duration = seconds(answer, protocol.timed, clock=clock)
            seconds_per_batch.append(duration / protocol.timed)
    return float(np.median(seconds_per_batch))


def _cut_batches(queries: Array, batch: int, most: int) -> list[Any]:
    """Return different batches of queries, at most so many; the last ones wrap around."""
    number = min(most, max(1, len(queries) // batch))
    batches = []
    for i in range(number):
        rows = np.arange(i * batch, (i + 1) * batch) % len(queries)
        batches.append(queries[rows].astype(np.int64))
    return batches


def _gpu_clock(torch: Any) -> Callable[[], float]:
    """Return the GPU's own clock, which leaves Python's overhead out of a full queue."""
    started = torch.cuda.Event(enable_timing=True)
    started.record()

    def now() -> float:
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        torch.cuda.synchronize()
        return float(started.elapsed_time(event)) / 1000

    return now


def require_torch() -> Any:
    """Return torch, or say what to install."""
    with explain_missing("The devices torch-cpu and cuda need torch: pip install 'hammemo[torch]'"):
        import torch
    return torch


def inference_table(
    methods: Iterator[Method], queries: Array, device: str = "cpu", protocol: Protocol | None = None
) -> list[Row]:
    """Return a row per method: MiB of state, µs of one query, million queries/s in batches."""
    protocol = protocol or Protocol()
    if device not in DEVICES:
        raise ValueError(f"device={device!r} is not known: use one of {', '.join(DEVICES)}.")
    if device == "cuda" and not require_torch().cuda.is_available():
        raise RuntimeError(
            "torch sees no CUDA device here: use device='cpu' or device='torch-cpu'."
        )
    rows = []
    for method in methods:
        if device != "cpu" and not method.portable:
            continue
        row: Row = {"method": method.name, "mebibytes": method.mebibytes}
        for batch in BATCHES:
            duration = measure(method, queries, batch, device, protocol=protocol)
            if batch == 1:
                row["microseconds_1"] = 1e6 * duration
            else:
                row[f"mega_queries_{batch}"] = batch / duration / 1e6
        rows.append(row)
    return rows


def table_lines(rows: list[Row], *, beside_paper: bool) -> list[str]:
    """Return the inference table as text; beside the paper, with its figures in brackets."""
    texts = []
    for row in rows:
        name, *figures = row.values()
        cells = [f"{figure:.2f}" for figure in figures]
        if beside_paper and name in PAPER:
            pairs = zip(cells, PAPER[name], strict=True)
            cells = [f"{cell} ({paper_figure:.2f})" for cell, paper_figure in pairs]
        texts.append({"cells": " | ".join([name, *cells])})
    names = "method | state (MiB) | B = 1 (µs) | B = 256 (Mq/s) | B = 1024 (Mq/s)"
    return table(texts, names, "{cells}")


def throughput_panel(
    samples: dict[int, tuple[Array, Array]],
    queries: Array,
    n_tokens: int,
    dimensions: Sequence[int],
    protocol: Protocol,
) -> list[Row]:
    """Return MeMo's queries per second on this processor in batches of 512, for each h and d."""
    rows = []
    for h, (X, y) in samples.items():
        for d in dimensions:
            method = memo_method(X, y, n_tokens, d, form="fused")
            duration = measure(method, queries[:, -h:], PANEL_BATCH, "cpu", protocol=protocol)
            rows.append({"h": h, "d": d, "mega_queries": PANEL_BATCH / duration / 1e6})
    return rows


class PaperExamples(NamedTuple):
    """What the inference benchmark learns and answers."""

    contexts: Any
    labels: Any
    queries: Any
    n_tokens: int


def paper_examples(task: Task | None, *, all_queries: bool = False) -> PaperExamples:
    """Return the examples of the paper's task at h = 8; of Zipf tokens without a task."""
    if task is None:
        X, y = zipf_examples(100_000 if all_queries else 20_000)
        return PaperExamples(X, y, queries=X if all_queries else X[:5000], n_tokens=33_278)
    sample = draw_sample(task, TaskSettings(), 0)
    contexts, labels = sample.split("train", 8)
    if all_queries:
        queries = task.contexts["test"][task.candidate_positions("test"), -8:]
    else:
        queries, _ = sample.split("test", 8)
    return PaperExamples(contexts, labels, queries, n_tokens=len(task.vocabulary))


def paper_methods(X: Array, y: Array, n_tokens: int, svm: Row) -> Iterator[Method]:
    """Yield the methods of the paper's inference table, and the sparse table beside them."""
    yield from table_methods(X, y, n_tokens, svm)
    for d in (128, 256, 512, 1024):
        yield memo_method(X, y, n_tokens, d, form="fused")
    yield memo_method(X, y, n_tokens, 1024, form="two-stage")
