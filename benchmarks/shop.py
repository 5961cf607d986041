"""The next item at a shop's size.

Measured are fit, size, load, single questions, learning a click and forgetting a visit.

    python benchmarks/shop.py [--clicks 1_000_000] [--items 100_000] [--questions 1000] [--memory 8]
                              [--serve] [--json]

Clicks are synthetic, made from a seed. A visit has 7 clicks on average. Of its steps, .55 go to a
neighbor of the item before, .2 back to an item of the visit, and the others to any item, with the
frequencies of Zipf's law (exponent 1). They are written to a Parquet file, which `fit_stream`
reads; the model is the default. Questions are the beginnings of other visits. `--memory` limits the
data segment of the process, in GiB. Times are those of the processor, one thread: other work of the
machine is not counted. *a second*: all questions in one call. A size that does not fit in
`--memory` ends with status 3.

`--serve` also serves the model, and prints the highest rate of single questions that the server
holds for `--seconds` (60) with nine of ten answers in less than 7 ms, by the clock
(:mod:`shop_serving`); beside it VMIS-kNN, called in this process, since it has no server.

The model is in memory. `Machines(segments=…)` refuses it: the default kernel has sites without a
position, and each of them has a table of its own, while segments are cut from the one table of the
sites with positions.
"""

from __future__ import annotations

import os
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

# before a library reads them
for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_variable] = "1"

import numpy as np  # noqa: E402

from hammemo import MemoryClassifier, load, save  # noqa: E402
from hammemo.paper.experiments.measuring import Row, seconds  # noqa: E402
from measures import options, peak_mebibytes, show, thread_seconds  # noqa: E402

if TYPE_CHECKING:
    from numpy.typing import NDArray

NEIGHBOR = 0.55
REPEAT = 0.2
"""Shares of the steps of a visit; the others are to any item."""

DOES_NOT_FIT = 3
MOST_STEPS = 50
PART = 100_000
"""Visits that are made at a time."""


def visits_of(n: int, n_items: int, seed: int) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Return the items of n visits, one visit after the other, and the length of each."""
    rng = np.random.default_rng(seed)
    shares = np.cumsum(1.0 / np.arange(1, n_items + 1))
    # neighbors of an item may be rare or frequent
    named = np.random.default_rng(0).permutation(n_items)

    def any_items(size: int) -> NDArray[np.int64]:
        return np.asarray(named[np.searchsorted(shares, rng.random(size) * shares[-1])])

    lengths = np.minimum(1 + rng.geometric(1 / 6, n), MOST_STEPS)
    items = np.zeros((n, MOST_STEPS), np.int32)
    items[:, 0] = any_items(n)
    for step in range(1, int(lengths.max(initial=1))):
        active = np.flatnonzero(lengths > step)
        kind = rng.random(len(active))
        far = rng.geometric(0.3, len(active)) * rng.choice([-1, 1], len(active))
        near = (items[active, step - 1] + far) % n_items
        again = items[active, rng.integers(0, step, len(active))]
        others = any_items(len(active))
        items[active, step] = np.where(
            kind < NEIGHBOR, near, np.where(kind < NEIGHBOR + REPEAT, again, others)
        )
    return items[np.arange(MOST_STEPS) < lengths[:, None]], lengths


def write_clicks(path: Path, n_clicks: int, n_items: int) -> int:
    """Write visits with about so many clicks to a Parquet file, part by part.

    Return how many clicks there are.
    """
    import pyarrow as pa
    from pyarrow import parquet

    written = first = 0
    schema = pa.schema([("visit", pa.int32()), ("item", pa.int32())])
    with parquet.ParquetWriter(path, schema) as writer:
        for seed in range(1, n_clicks + 1):
            n = min(PART, -(-(n_clicks - written) // 7))
            items, lengths = visits_of(n, n_items, seed)
            visits = np.repeat(np.arange(first, first + n, dtype=np.int32), lengths)
            writer.write_table(pa.table({"visit": visits, "item": items}, schema))
            written = written + len(items)
            first = first + n
            if written >= 0.999 * n_clicks:
                break
    return written


def measure_shop(folder: Path, n_clicks: int, n_items: int, n_questions: int) -> Row:
    """Return the figures of one shop; its clicks and its model stay in the folder."""
    from pyarrow import parquet

    path = folder / "clicks.parquet"
    written = write_clicks(path, n_clicks, n_items)
    shop: Any = MemoryClassifier(random_state=0)
    fit_seconds = seconds(
        lambda: shop.fit_stream(parquet.read_table(path), case="visit", item="item")
    )
    row: Row = {"clicks": written, "items": len(shop.classes_), "fit_seconds": fit_seconds}
    save(shop, folder / "shop.hammemo")
    row["file_mebibytes"] = (folder / "shop.hammemo").stat().st_size / 2**20
    row["bytes_a_click"] = (folder / "shop.hammemo").stat().st_size / written
    del shop
    started = time.process_time()
    shop = load(folder / "shop.hammemo")
    row["load_seconds"] = time.process_time() - started
    row |= measure_questions(shop, n_items, n_questions) | {"peak_mebibytes": peak_mebibytes()}
    return row | {"peak_bytes_a_click": 2**20 * row["peak_mebibytes"] / written}


def questions_of(n: int, n_items: int) -> tuple[list[list[int]], list[list[int]]]:
    """Return n visits that no model has learnt, and the beginning of each."""
    items, lengths = visits_of(n, n_items, 0)
    rng = np.random.default_rng(0)
    visits = [visit.tolist() for visit in np.split(items, np.cumsum(lengths)[:-1])]
    return visits, [visit[: rng.integers(1, len(visit))] for visit in visits]


def measure_questions(shop: Any, n_items: int, n_questions: int) -> Row:
    """Return the times of questions and edits."""
    visits, questions = questions_of(n_questions, n_items)
    row: Row = {"first_answer_seconds": seconds(shop.top_k, questions[:1], 20)}
    shop.top_k(questions[:100], 20)
    single = [thread_seconds(shop.top_k, [question], 20) for question in questions]
    p50, p90, p99 = (1000 * np.percentile(single, [50, 90, 99])).tolist()
    row |= {
        "p50_ms": p50,
        "p90_ms": p90,
        "p99_ms": p99,
        "single_a_second": len(single) / sum(single),
    }
    row["a_second"] = len(questions) / thread_seconds(shop.top_k, questions, 20)
    learnt = visits[:100]
    clicks = [(shop.cutting_.context(visit[:-1], shop.sites_.h), visit[-1]) for visit in learnt]
    row["learn_one_us"] = 1e6 * float(
        np.median([thread_seconds(shop.learn_one, *click) for click in clicks])
    )
    shop.partial_fit_stream(learnt)
    gone = [thread_seconds(shop.forget_stream, [visit]) for visit in learnt]
    row["forget_visit_ms"] = 1000 * float(np.median(gone))
    return row


def measure_server(folder: Path, n_items: int, n_questions: int, seconds: float) -> Row:
    """Return the rates of a server of the model of `measure_shop`, and those of VMIS-kNN."""
    from pyarrow import parquet

    import shop_serving

    clicks = parquet.read_table(folder / "clicks.parquet")
    items, visits = (clicks[name].to_numpy() for name in ("item", "visit"))
    _, questions = questions_of(n_questions, n_items)
    row = shop_serving.measure_server(
        folder, folder / "shop.hammemo", questions, np.unique(items), seconds=seconds
    )
    sessions = [visit.tolist() for visit in np.split(items, np.flatnonzero(np.diff(visits)) + 1)]
    return row | shop_serving.neighbours(sessions, n_items, questions)


def main() -> None:
    """Print the figures of one shop."""
    parser = options(__doc__, as_json="print the figures as JSON")
    parser.add_argument("--clicks", type=int, default=1_000_000)
    parser.add_argument("--items", type=int, default=100_000)
    parser.add_argument("--questions", type=int, default=1000)
    parser.add_argument(
        "--memory", type=float, help="GiB that the data segment of the process may have"
    )
    parser.add_argument(
        "--serve", action="store_true", help="serve the model, too, and ask VMIS-kNN the same"
    )
    parser.add_argument("--seconds", type=float, default=60.0, help="for which a rate must be held")
    arguments = parser.parse_args()
    if arguments.memory is not None:
        resource.setrlimit(resource.RLIMIT_DATA, (int(arguments.memory * 2**30),) * 2)
    with tempfile.TemporaryDirectory() as folder:
        try:
            row = measure_shop(Path(folder), arguments.clicks, arguments.items, arguments.questions)
        except MemoryError:
            limit = "memory" if arguments.memory is None else f"{arguments.memory:g} GiB"
            print(f"{arguments.clicks:,} clicks do not fit in {limit}.", file=sys.stderr)
            sys.exit(DOES_NOT_FIT)
        if arguments.serve:
            row |= measure_server(
                Path(folder), arguments.items, arguments.questions, arguments.seconds
            )
    show(
        {"shop": [{"figure": name, "value": value} for name, value in row.items()]},
        as_json=arguments.json,
    )


if __name__ == "__main__":
    main()
