"""An exact memory of ten million labels: learnt, asked, edited, saved and loaded.

    python benchmarks/many_labels.py
    python benchmarks/many_labels.py --equal

Labels are integers, each with one context of two tokens out of a thousand, so that a row of counts
has about ten thousand labels. Without `--equal` each example is learnt a number of times that is
drawn from a Zipf law, so that counts differ; with it each is learnt once, so that all counts of a
row are equal and a question must look through the rows for labels that two of them share. Latencies
are median, 99th percentile and the longest, in microseconds of processor time.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hammemo import MemoryClassifier, load, save
from hammemo.memories import Exact
from measures import latencies, options, peak_mebibytes, thread_seconds

if TYPE_CHECKING:
    from collections.abc import Callable

N_TOKENS = 1000
H = 2


def measure_calls(call: Callable[[int], Any], n: int) -> dict[str, float] | None:
    """Return the latencies of n calls."""
    return latencies([thread_seconds(call, i) for i in range(n)])


def measure_seconds(call: Callable[[], Any]) -> tuple[float, Any]:
    """Return the processor time of a call, in seconds, and what it returns."""
    started = time.process_time()
    result = call()
    return round(time.process_time() - started, 2), result


def run(n_labels: int, n_edits: int, *, equal: bool) -> dict[str, Any]:
    """Measure one memory, and check that what is loaded is what was saved."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, N_TOKENS, (n_labels, H))
    y = 2 * np.arange(n_labels)
    times = None if equal else np.minimum(rng.zipf(1.5, n_labels), 10**6)
    model = MemoryClassifier("positional", memory=Exact(), vote="sum")
    results: dict[str, Any] = {"labels": n_labels, "counts": "equal" if equal else "different"}
    results["learn_seconds"], _ = measure_seconds(lambda: model.fit(X, y, sample_weight=times))
    results["first_query_seconds"], _ = measure_seconds(lambda: model.predict(X[:1]))
    reader: Any = model.memory_.reader()
    results["live_bytes_an_entry"] = round(reader.live.version.nbytes / (H * n_labels), 1)
    del reader  # it would keep this version
    # not the first: they lead all rows where counts are equal
    chosen = rng.choice(n_labels, n_edits, replace=False)
    questions = X[chosen]
    rows = X[chosen].tolist()
    labels = y[chosen].tolist()
    results["predictor"] = predictor_latencies(model, rows)
    results["predict"] = measure_calls(lambda i: model.predict(questions[i : i + 1]), n_edits)
    results["learn_one"] = measure_calls(lambda i: model.learn_one(rows[i], labels[i]), n_edits)
    results["query_after_learn_one"] = latencies_after(model, rows, labels)
    results["forget_one"] = measure_calls(lambda i: model.forget_one(rows[i], labels[i]), n_edits)
    results["new_label"] = measure_calls(lambda i: model.learn_one(rows[i], labels[i] + 1), n_edits)
    results["query_after_new_label"], _ = measure_seconds(lambda: model.predict(X[:1]))
    results["forget_new_label"] = measure_calls(
        lambda i: model.forget_one(rows[i], labels[i] + 1), n_edits
    )
    results["peak_mebibytes_before_saving"] = peak_mebibytes()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "labels.model"
        results["save_seconds"], _ = measure_seconds(lambda: save(model, path))
        results["file_mebibytes"] = round(os.path.getsize(path) / 2**20, 1)
        results["load_seconds"], loaded = measure_seconds(lambda: load(path))
        if loaded.predict(questions[:20]).tolist() != model.predict(questions[:20]).tolist():
            raise AssertionError("What was loaded answers differently.")
    results["peak_mebibytes"] = peak_mebibytes()
    return results


def predictor_latencies(model: MemoryClassifier, rows: list[list[int]]) -> dict[str, float] | None:
    """Return the latencies of `predictor(tokens)`; the predictor lists its labels before."""
    predictor = model.compile()
    predictor(rows[0])
    return measure_calls(lambda i: predictor(rows[i]), len(rows))


def latencies_after(
    model: MemoryClassifier, rows: list[list[int]], labels: list[int]
) -> dict[str, float] | None:
    """Return the latencies of questions that each come after an edit."""
    took = []
    for tokens, label in zip(rows, labels, strict=True):
        model.learn_one(tokens, label)
        took.append(thread_seconds(model.predict, np.array([tokens])))
        model.forget_one(tokens, label)
    return latencies(took)


def main() -> None:
    """Read the options and print the figures as JSON."""
    parser = options(__doc__)
    parser.add_argument("--labels", type=int, default=10_000_000)
    parser.add_argument("--edits", type=int, default=200)
    parser.add_argument("--equal", action="store_true", help="learn each example once")
    arguments = parser.parse_args()
    print(json.dumps(run(arguments.labels, arguments.edits, equal=arguments.equal), indent=2))


if __name__ == "__main__":
    main()
