"""Two figures the foundation rests on: how fast the paper's memory is built, and how large each state is.

    python benchmarks/foundations.py --data ../shared/wikitext-2

Speed: the memory matrix C from 100,000 examples (h = 8, 64 labels, d = 1024), from grouped counts as the library does
it, against the literal sum of outer products by batched matrix products; one thread, projected codes computed
beforehand in both, counting included in ours. The figure is the ratio of the best of several repeats, taken in turn.

Size: the State column of the paper's inference table from the objects' own accounting, and the sparse count table's.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np
from threadpoolctl import threadpool_limits

from hammemo import Exact, Gaussian, MeMoClassifier, MemoryClassifier, PositionalHamming
from hammemo.experiments.measuring import in_turns, options, show
from hammemo.experiments.wikitext import build_task, read_folder
from hammemo.tokens.contexts import Examples

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

H, N_EXAMPLES = 8, 100_000


def one_draw(folder: Path, seed: int) -> tuple[int, NDArray[Any], NDArray[Any]]:
    """Return the number of tokens, contexts and labels of one sample of the paper's task."""
    task = build_task(read_folder(folder))
    chosen = np.random.default_rng(seed).choice(task.chosen("train"), N_EXAMPLES, replace=False)
    names = np.array(task.vocabulary)  # labels are strings
    return len(names), task.contexts["train"][chosen, -H:].astype(np.int64), names[task.tokens["train"][chosen]]


def literal_sum(codes: NDArray[Any], outputs: NDArray[Any], examples: Examples, batch: int) -> NDArray[Any]:
    """Return the sum of outer products, formed by one matrix product a batch."""
    total = np.zeros((H * codes.shape[1], outputs.shape[1]), np.float32)
    for start in range(0, len(examples), batch):
        rows = slice(start, start + batch)
        keys = codes[examples.contexts.ranks[rows]].reshape(-1, total.shape[0])
        total += keys.T @ outputs[examples.label_ranks[rows]]
    return total


def learning_speed(X: NDArray[Any], y: NDArray[Any], d: int, repeats: int) -> dict[str, float]:
    """Return seconds and the ratio of the literal sum to the grouped one."""
    sites = PositionalHamming().resolve(H)
    examples = Examples.of(X, y)
    warm = Gaussian(d).open(sites)
    warm.add(examples)  # computes the codes
    codes = warm.input_codes.get(examples.contexts.vocabulary.tolist())
    outputs = warm.output_codes.get(examples.labels.tolist())

    def grouped() -> None:
        warm._C[:] = 0.0
        warm.add(examples)

    with threadpool_limits(1):
        literal = {
            f"literal, batches of {size}": (lambda size=size: literal_sum(codes, outputs, examples, size))
            for size in (1024, 4096, 16384)
        }
        took = in_turns({"from grouped counts": grouped, **literal}, repeats, time.perf_counter)
    best = {name: min(values) for name, values in took.items()}
    difference = np.abs(literal_sum(codes, outputs, examples, 4096) - warm.C).max() / np.abs(warm.C).max()
    ratio = min(best[name] for name in literal) / best["from grouped counts"]
    return {**best, "ratio to the fastest literal sum": ratio, "largest relative difference": float(difference)}


def state_sizes(X: NDArray[Any], y: NDArray[Any], n_tokens: int) -> dict[str, float]:
    """Return the size of each state in MiB."""
    sizes = {}
    for d in (128, 256, 512, 1024):
        clf = MeMoClassifier(d).fit(X, y)
        for form in ("fused", "two-stage"):
            sizes[f"MeMo {form}, d = {d}"] = clf.compile(form, range(n_tokens)).nbytes
    exact = MemoryClassifier(memory=Exact(), vote="sum").fit(X, y)
    sizes["dense counts"] = exact.compile("dense", range(n_tokens)).nbytes
    state = exact.memory_.state()
    sizes["sparse counts, canonical, with vocabulary and labels"] = exact.memory_.nbytes
    sizes["sparse counts, canonical, without vocabulary"] = exact.memory_.nbytes - state["vocabulary.ints"].nbytes
    sizes["sparse counts, as compiled for SciPy"] = exact.compile("sparse").nbytes
    return {name: size / 2**20 for name, size in sizes.items()} | {
        "entries of the sparse table": float(len(state["entry_counts"]))
    }


def main() -> None:
    parser = options(__doc__, data="WikiText-2", as_json="one object")
    parser.add_argument("--repeats", type=int, default=5)
    given = parser.parse_args()
    n_tokens, X, y = one_draw(given.data, seed=0)
    results = {
        "Learning C (s), one thread, best of repeats": learning_speed(X, y, 1024, given.repeats),
        "State (MiB)": state_sizes(X, y, n_tokens),
    }
    show(results, as_json=given.json)


if __name__ == "__main__":
    main()
