"""How large each state of the paper's task is (h = 8, 100,000 examples, 64 labels).

    python benchmarks/foundations.py --data ../shared/wikitext-2

These are the State column of the paper's inference table, from the objects' own accounting, and the
sizes of the sparse count table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from hammemo import MeMoClassifier, MemoryClassifier
from hammemo.memories import Exact
from hammemo.paper.experiments.wikitext import build_task, read_folder
from measures import options, show

if TYPE_CHECKING:
    from numpy.typing import NDArray

H = 8
N_EXAMPLES = 100_000


def state_sizes(X: NDArray[Any], y: NDArray[Any], n_tokens: int) -> dict[str, float]:
    """Return the size of each state in MiB."""
    sizes = {}
    for d in (128, 256, 512, 1024):
        clf = MeMoClassifier(d).fit(X, y)
        for form in ("fused", "two-stage"):
            sizes[f"MeMo {form}, d = {d}"] = clf.compile(form, range(n_tokens)).nbytes
    exact = MemoryClassifier("positional", memory=Exact(), vote="sum").fit(X, y)
    sizes["dense counts"] = exact.compile("dense", range(n_tokens)).nbytes
    state = exact.memory_.state()
    sizes["sparse counts, canonical, with vocabulary and labels"] = exact.memory_.nbytes
    sizes["sparse counts, canonical, without vocabulary"] = (
        exact.memory_.nbytes - state["vocabulary.ints"].nbytes
    )
    sizes["sparse counts, as compiled for SciPy"] = exact.compile("sparse").nbytes
    return {name: size / 2**20 for name, size in sizes.items()} | {
        "entries of the sparse table": float(len(state["entry_counts"]))
    }


def main() -> None:
    arguments = options(__doc__, data="WikiText-2", as_json="one object").parse_args()
    task = build_task(read_folder(arguments.data))
    chosen = np.random.default_rng(0).choice(
        task.candidate_positions("train"), N_EXAMPLES, replace=False
    )
    labels = np.array(task.vocabulary)[task.tokens["train"][chosen]]  # as strings
    X = task.contexts["train"][chosen, -H:].astype(np.int64)
    show({"State (MiB)": state_sizes(X, labels, len(task.vocabulary))}, as_json=arguments.json)


if __name__ == "__main__":
    main()
