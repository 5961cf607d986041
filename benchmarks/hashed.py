"""How fast the hashed memory answers and learns, beside what it could be compared with, in one run.

    python benchmarks/hashed.py predict [--data FOLDER] [--rounds 15] [--json]
    python benchmarks/hashed.py fit [--tokens 20000000] [--rounds 15] [--json]

Machines are noisy, so nothing is timed alone: every round runs each contender once, and what is
reported is the median over the rounds of the ratio within a round, beside each contender's best.
One thread everywhere.

Contenders on the paper's shape (eight positions, 64 labels, `Hashed(2048, 1024)`), queries as token
ids:

- the paper's model, codes looked up and multiplied by CZ at d = 1024, in batches of 1,024, by
NumPy's BLAS;
- torch's `embedding_bag` and `argmax` on a table of the same shape, its row numbers given.

Learning is held against a bare loop (``bare_scatter.cpp``, compiled here) that is given the rows
and only adds one to eight cells an example.
"""

from __future__ import annotations

import ctypes
import subprocess
import tempfile
import time
import tracemalloc
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from threadpoolctl import threadpool_limits

from hammemo import MemoryClassifier
from hammemo._progress import progress_bar
from hammemo.memories import Hashed
from hammemo.paper.experiments.measuring import Row, ignore_progress, seconds, zipf_stream
from hammemo.paper.experiments.throughput import PAPER, memo_method, paper_examples
from hammemo.paper.experiments.wikitext import build_task, read_folder
from hammemo.tokens.contexts import Contexts
from measures import in_turns, options, show

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

N_TOKENS = 33_278
BATCH = 1024
SLOW_QUERIES = 20_480
PAPER_HEADLINE = (
    f"{PAPER['sum prototype, dense'][3]:.0f} to {PAPER['MeMo fused, d = 128'][3]:.0f} "
    "million a second on a laptop GPU, batches of 1,024"
)
Contender = tuple[int, "Callable[[], Any]"]
"""How many queries or examples one call handles, and the call."""


def race(
    contenders: dict[str, Contender],
    rounds: int,
    on_progress: Callable[[int, int], None] = ignore_progress,
) -> list[Row]:
    """Return each contender's rates, and the median ratio of the first one's rate to its own."""
    for _, run in contenders.values():
        run()  # warm up: caches filled, pages touched
    runs = {name: run for name, (_, run) in contenders.items()}
    took = in_turns(runs, rounds, time.perf_counter, on_progress)
    rates = {name: size / np.array(took[name]) for name, (size, _) in contenders.items()}
    first = next(iter(rates.values()))
    return [
        {
            "name": name,
            "best_per_second": float(rates_of_one.max()),
            "median_per_second": float(np.median(rates_of_one)),
            "ratio": float(np.median(first / rates_of_one)),
        }
        for name, rates_of_one in rates.items()
    ]


def new_model() -> MemoryClassifier:
    """Return the model that is raced."""
    return MemoryClassifier("positional", memory=Hashed(2048, 1024), vote="sum")


def predict(
    X: NDArray[Any],
    y: NDArray[Any],
    queries: NDArray[Any],
    n_tokens: int,
    *,
    rounds: int,
    on_progress: Callable[[int, int], None] = ignore_progress,
) -> dict[str, Any]:
    """Race the compiled predictor against its contenders on the given queries."""
    model = new_model().fit(X, y)
    predictor = model.compile()
    tables: Any = predictor.compiled
    table = tables._table(model.sites_.weights, None).loops
    ids = np.ascontiguousarray(queries, np.int64)
    answers = np.empty(len(ids), np.int32)
    contenders: dict[str, Contender] = {
        "hammemo: compiled loop": (len(ids), lambda: table.winners(ids, None, None, out=answers)),
        "hammemo: Predictor.predict": (len(ids), lambda: predictor.predict(ids)),
        "paper: fused product, d = 1024": _make_fused(X, y, ids[:SLOW_QUERIES], n_tokens),
        **_embedding_bag(model, ids[:SLOW_QUERIES]),
    }
    with threadpool_limits(1):
        rows = race(contenders, rounds, on_progress)
    return {
        "rates": rows,
        "loops": table.path,
        "sum_bits": table.sum_bits,
        "state_mebibytes": model.memory_.nbytes / 2**20,
        "compiled_mebibytes": predictor.nbytes / 2**20,
        "one query from Python, µs": _one_query(predictor, queries, rounds),
        "the paper's headline": PAPER_HEADLINE,
    }


def _make_fused(
    X: NDArray[Any], y: NDArray[Any], ids: NDArray[np.int64], n_tokens: int
) -> Contender:
    method = memo_method(X, y, n_tokens, d=1024, form="fused")
    batches = [ids[i : i + BATCH] for i in range(0, len(ids), BATCH)]
    return len(ids), lambda: [method.answer(*method.tensors, batch) for batch in batches]


def _embedding_bag(model: MemoryClassifier, ids: NDArray[np.int64]) -> dict[str, Contender]:
    """Return torch's way to gather, add and compare rows of the same table, if torch is here."""
    try:
        import torch
    except ModuleNotFoundError:
        return {}
    torch.set_num_threads(1)
    memory: Any = model.memory_
    places: Any = torch.as_tensor(memory.rows(Contexts.of(ids)) + memory._rows.first_rows[:-1])
    weights = torch.as_tensor(np.concatenate(memory.compile()._centred).astype(np.float32))

    def run() -> None:
        for bags in places.split(BATCH):
            torch.nn.functional.embedding_bag(bags, weights, mode="sum").argmax(1)

    return {"torch: embedding_bag and argmax": (len(places), run)}


def _one_query(predictor: Any, queries: NDArray[Any], rounds: int) -> dict[str, float]:
    """Return the microseconds of one context asked from Python: the best round's mean."""
    lists = [row.tolist() for row in queries[:1000]]
    arrays = [row[None] for row in queries[:50]]
    runs = {
        "predictor(tokens)": lambda: [predictor(tokens) for tokens in lists],
        "predictor.predict([tokens])": lambda: [predictor.predict(array) for array in arrays],
    }
    took = in_turns(runs, rounds, time.perf_counter)
    return {
        name: 1e6 * min(took[name]) / n
        for name, n in zip(runs, map(len, (lists, arrays)), strict=True)
    }


def fit(
    rounds: int,
    stream_tokens: int,
    on_progress: Callable[[int, int], None] = ignore_progress,
    seed: int = 0,
) -> dict[str, Any]:
    """Race learning from a stream and from contexts against a bare loop.

    Then learn a long stream once.
    """
    stream = zipf_stream(1_000_008, N_TOKENS, seed)
    windows = np.ascontiguousarray(np.lib.stride_tricks.sliding_window_view(stream, 8)[:-1])
    labels = np.random.default_rng(seed).integers(0, 64, len(stream)).astype(np.int32)
    model = new_model().fit(windows[:100_000], labels[8:100_008])
    layout: Any = model.memory_._rows
    rows = np.empty((len(windows), 8), np.uint32)
    layout.compiled.rows(windows, None, None, rows)
    cells = layout.cells(64)
    targets = labels[8:].copy()
    scatter = bare_scatter()
    counted = layout.cells(64)
    scatter(rows, targets, counted)

    def count_windows() -> None:
        layout.compiled.count(windows, None, None, targets, multiplicity=None, cells=cells)

    def count_whole_stream() -> None:
        layout.compiled.count_stream(stream, None, None, labels, cells=cells)

    count_windows()
    if (counted != cells).any():
        raise AssertionError("The bare loop and the compiled loop disagree.")
    contenders: dict[str, Contender] = {
        "hammemo: stream": (len(targets), count_whole_stream),
        "hammemo: contexts": (len(targets), count_windows),
        "bare scatter, rows given": (len(targets), lambda: scatter(rows, targets, cells)),
    }
    return {
        "rates": race(contenders, rounds, on_progress),
        f"A stream of {stream_tokens:,} tokens": _long_stream(stream_tokens, seed),
    }


def bare_scatter() -> Callable[[NDArray[np.uint32], NDArray[np.int32], NDArray[np.uint32]], None]:
    """Compile the bare loop and return it."""
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "bare_scatter.so"
        source = Path(__file__).with_name("bare_scatter.cpp")
        subprocess.run(
            ["c++", "-O3", "-march=native", "-shared", "-fPIC", "-o", library, source], check=True
        )
        loop = ctypes.CDLL(str(library)).bare_scatter

    def scatter(
        rows: NDArray[np.uint32], columns: NDArray[np.int32], cells: NDArray[np.uint32]
    ) -> None:
        """Add one to the cells of each example's rows."""
        pointers = [ctypes.c_void_p(array.ctypes.data) for array in (rows, columns, cells)]
        if not loop(
            *pointers[:2], ctypes.c_size_t(len(rows)), pointers[2], ctypes.c_size_t(len(cells))
        ):
            raise IndexError("A row or a column is outside the table.")

    return scatter


def _long_stream(length: int, seed: int) -> dict[str, float]:
    """Learn a stream of one document a thousand tokens, its 64 most frequent tokens as labels."""
    stream = zipf_stream(length, N_TOKENS, seed)
    classes = list(range(64))
    model = new_model()
    starts = np.arange(0, length, 1000)
    took = seconds(
        lambda: model.fit_stream(stream, 8, starts=starts, classes=classes), clock=time.perf_counter
    )
    tracemalloc.start()
    new_model().fit_stream(stream[:4_000_000], 8, classes=classes)
    extra = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return {
        "examples": int(model.memory_.label_counts.sum()),
        "tokens a second": length / took,
        "most MiB beyond the tokens, however long it is": extra / 2**20,
    }


def main() -> None:
    parser = options(__doc__, as_json="everything")
    parser.add_argument("what", choices=["predict", "fit"])
    parser.add_argument(
        "--data",
        type=Path,
        metavar="FOLDER",
        help="folder with WikiText-2; else tokens of a Zipf law",
    )
    parser.add_argument("--rounds", type=int, default=15, help="each runs every contender once")
    parser.add_argument("--tokens", type=int, default=20_000_000, help="length of the long stream")
    arguments = parser.parse_args()
    with progress_bar("Racing") as on_progress:
        if arguments.what == "fit":
            results = fit(arguments.rounds, arguments.tokens, on_progress)
        else:
            task = None if arguments.data is None else build_task(read_folder(arguments.data))
            examples = paper_examples(task, all_queries=True)
            results = predict(*examples, rounds=arguments.rounds, on_progress=on_progress)
    show(results, as_json=arguments.json)


if __name__ == "__main__":
    main()
