"""Two figures the foundation rests on: how fast the paper's memory is built, and how large each state is.

    python benchmarks/foundations.py --data ../shared/wikitext-2

Speed: the memory matrix C from 100,000 examples (h = 8, 64 labels, d = 1024), from grouped counts as the library does
it, against the literal sum of outer products by batched matrix products; one thread, projected codes computed
beforehand in both, counting included in ours. The figure is the ratio of the best of several repeats, taken in turn.

Size: the State column of the paper's inference table from the objects' own accounting, and the sparse count table's.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from threadpoolctl import threadpool_limits

from hammemo import Exact, Gaussian, MeMoClassifier, MemoryClassifier, PositionalHamming, windows
from hammemo.tokens.contexts import Examples

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

H, N_LABELS, N_EXAMPLES = 8, 64, 100_000


def wikitext_task(folder: Path, seed: int) -> tuple[list[str], NDArray[Any], NDArray[Any]]:
    """Return the vocabulary and one sample of the paper's task (16 preceding tokens, the 64 most frequent targets)."""
    text = (folder / "wiki.train.tokens").read_text(encoding="utf-8")
    lines = [[*line.split(), "<eos>"] for line in text.split("\n")[:-1]]
    frequency = Counter(token for line in lines for token in line)
    targets = {t for t, _ in frequency.most_common(N_LABELS + 1) if t != "<unk>"}
    X, y = windows(lines, 16)
    eligible = np.flatnonzero([label in targets for label in y.tolist()])
    chosen = np.random.default_rng(seed).choice(eligible, N_EXAMPLES, replace=False)
    return sorted(frequency), X[chosen, -H:], y[chosen]


def literal_sum(codes: NDArray[Any], outputs: NDArray[Any], examples: Examples, batch: int) -> NDArray[Any]:
    """Return the sum of outer products, formed by one matrix product a batch."""
    total = np.zeros((H * codes.shape[1], outputs.shape[1]), np.float32)
    for start in range(0, len(examples), batch):
        rows = slice(start, start + batch)
        keys = codes[examples.contexts.ranks[rows]].reshape(-1, total.shape[0])
        total += keys.T @ outputs[examples.label_ranks[rows]]
    return total


def best_seconds(runs: dict[str, Callable[[], Any]], repeats: int) -> dict[str, float]:
    """Return the best time of each run, all runs taken in turn."""
    best = dict.fromkeys(runs, float("inf"))
    for _ in range(repeats):
        for name, run in runs.items():
            start = time.perf_counter()
            run()
            best[name] = min(best[name], time.perf_counter() - start)
    return best


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
        seconds = best_seconds({"from grouped counts": grouped, **literal}, repeats)
    ours = seconds["from grouped counts"]
    difference = np.abs(literal_sum(codes, outputs, examples, 4096) - warm.C).max() / np.abs(warm.C).max()
    ratio = min(value for name, value in seconds.items() if name.startswith("literal")) / ours
    return {**seconds, "ratio to the fastest literal sum": ratio, "largest relative difference": float(difference)}


def state_sizes(X: NDArray[Any], y: NDArray[Any], vocabulary: list[str]) -> dict[str, float]:
    """Return the size of each state in MiB."""
    rank = {token: i for i, token in enumerate(vocabulary)}
    ids = np.vectorize(rank.__getitem__, otypes=[np.int64])(X)
    sizes = {}
    for d in (128, 256, 512, 1024):
        clf = MeMoClassifier(d).fit(ids, y)
        for form in ("fused", "two-stage"):
            sizes[f"MeMo {form}, d = {d}"] = clf.compile(form, range(len(vocabulary))).nbytes
    exact = MemoryClassifier(memory=Exact(), vote="sum").fit(ids, y)
    sizes["dense counts"] = exact.compile("dense", range(len(vocabulary))).nbytes
    state = exact.memory_.state()
    sizes["sparse counts, canonical, with vocabulary and labels"] = exact.memory_.nbytes
    sizes["sparse counts, canonical, without vocabulary"] = exact.memory_.nbytes - state["vocabulary.ints"].nbytes
    sizes["sparse counts, as compiled for SciPy"] = exact.compile("sparse").nbytes
    return {name: size / 2**20 for name, size in sizes.items()} | {
        "entries of the sparse table": float(len(state["entry_counts"]))
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with wiki.train.tokens")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    arguments = parser.parse_args()
    vocabulary, X, y = wikitext_task(arguments.data, seed=0)
    results = {
        "Learning C (s), one thread, best of repeats": learning_speed(X, y, 1024, arguments.repeats),
        "State (MiB)": state_sizes(X, y, vocabulary),
    }
    if arguments.json:
        print(json.dumps(results, indent=2))
        return
    for title, rows in results.items():
        print(title)
        for name, value in rows.items():
            print(f"  {name:55s} {value:12,.4g}" if value < 1 else f"  {name:55s} {value:12,.2f}")


if __name__ == "__main__":
    main()
