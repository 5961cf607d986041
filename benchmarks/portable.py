"""The same predictor in hammemo, torch and ONNX Runtime.

Printed are how many labels differ, and questions a second of one core.

    python benchmarks/portable.py --data ../shared/wikitext-2
    python benchmarks/portable.py --data ../shared/wikitext-2 --json

The task is the paper's: WikiText-2, contexts of 8 tokens, all 92,282 questions of the test text.
Tokens are the numbers of words. Labels must be the same: a difference makes the command fail,
except for Gaussian codes, whose products are sums of float32 in another order; their graphs know
all words. The time is the processor's, in batches of 4,096 contexts and for one context, the best
of the repeats. One thread each.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hammemo import MemoryClassifier
from hammemo.kernels import Suffixes
from hammemo.memories import Exact, Gaussian, Hashed
from hammemo.paper.experiments.measuring import Row, seconds, table
from hammemo.paper.experiments.wikitext import build_task, read_folder
from hammemo.votes import LogLinear
from measures import options

if TYPE_CHECKING:
    from collections.abc import Callable

H: Final = 8
BATCH: Final = 4096
MODELS: Final[dict[str, tuple[Any, Any, Any, str | None]]] = {
    "Hashed, sum": (None, Hashed(), "sum", None),
    "Hashed, mean": (None, Hashed(), "mean", None),
    "Hashed, log-linear": (None, Hashed(), LogLinear(sample=5000, steps=20), None),
    "Hashed, Suffixes(5), sum": (Suffixes(5), Hashed(), "sum", None),
    "Exact, sum": (None, Exact(), "sum", None),
    "Exact, log-linear": (None, Exact(), LogLinear(sample=5000, steps=20), None),
    "Exact, Suffixes(2), sum": (Suffixes(2), Exact(), "sum", None),
    "Exact, dense, sum": (None, Exact(), "sum", "dense"),
    "Exact, dense, log-linear": (None, Exact(), LogLinear(sample=5000, steps=20), "dense"),
    "Gaussian, fused, sum": (None, Gaussian(d=512), "sum", "fused"),
    "Gaussian, two-stage, sum": (None, Gaussian(d=512), "sum", "two-stage"),
}


def rate(answer: Callable[[Any], Any], X: Any, batch: int, repeats: int) -> float:
    """Return the best number of contexts a second."""
    part = X[: max(batch, 200 if batch == 1 else 8 * BATCH)]
    batches = [part[start : start + batch] for start in range(0, len(part), batch)]
    return len(part) / min(
        seconds(lambda: [answer(one) for one in batches]) for _ in range(repeats)
    )


def runtimes(predictor: Any, folder: Path) -> dict[str, Callable[[Any], Any]]:
    """Return a function from contexts to labels for each runtime."""
    import onnxruntime
    import torch

    torch.set_num_threads(1)
    module = predictor.to_torch()
    predictor.to_onnx(folder / "graph.onnx")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        str(folder / "graph.onnx"), options, providers=["CPUExecutionProvider"]
    )

    def in_torch(X: Any) -> Any:
        with torch.no_grad():
            return module.classes[module(torch.from_numpy(X)).argmax(1).numpy()]

    return {
        "hammemo": predictor.predict,
        "torch": in_torch,
        "ONNX Runtime": lambda X: session.run(["label"], {"tokens": X})[0],
    }


def race_runtimes(task: Any, queries: Any, repeats: int) -> list[Row]:
    """Return one row for each model and runtime."""
    chosen = task.candidate_positions("train")
    X = task.contexts["train"][chosen, -H:].astype(np.int64)
    y = task.tokens["train"][chosen]
    rows = []
    for name, (kernel, memory, vote, form) in MODELS.items():
        model = MemoryClassifier(kernel, memory, vote, random_state=0).fit(X, y)
        # The library makes the code of a token that it has not met; a graph has those that it was
        # given.
        vocabulary = range(len(task.vocabulary)) if isinstance(memory, Gaussian) else None
        predictor = model.compile(form, vocabulary)
        with tempfile.TemporaryDirectory() as folder:
            answers = runtimes(predictor, Path(folder))
            expected = predictor.predict(queries)
            for runtime, answer in answers.items():
                labels_of_graph = np.concatenate(
                    [answer(queries[i : i + BATCH]) for i in range(0, len(queries), BATCH)]
                )
                other = int((labels_of_graph != expected).sum())
                rates = {"in batches/s": BATCH, "single/s": 1}
                row: Row = {
                    "model": name,
                    "runtime": runtime,
                    "questions": len(queries),
                    "differ": other,
                }
                rows.append(
                    row
                    | {name: rate(answer, queries, size, repeats) for name, size in rates.items()}
                )
                print(f"{name}, {runtime}: {other} differ", file=sys.stderr)
    return rows


def main() -> int:
    parser = options(__doc__, data="WikiText-2", as_json="the rows")
    parser.add_argument("--queries", type=int, help="fewer questions (default: all)")
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    task = build_task(read_folder(arguments.data))
    queries = task.contexts["test"][task.candidate_positions("test"), -H:].astype(np.int64)[
        : arguments.queries
    ]
    rows = race_runtimes(task, np.ascontiguousarray(queries), arguments.repeats)
    print(json.dumps(rows) if arguments.json else "\n".join(table(rows)))
    return int(any(row["differ"] for row in rows if not row["model"].startswith("Gaussian")))


if __name__ == "__main__":
    sys.exit(main())
