"""What deleting a hundred rows costs, completely, from 10^3 rows to 10^7.

Beside it is what learning again costs with LightGBM.

    python benchmarks/deletion_curve.py --json FILE [--rows 1000 10000 100000 1000000]
                                        [--figure FILE] [--seed 0]

The rows are those of ``click_rows.py``, twenty columns of whole numbers that are codes of names.
Ours and LightGBM read them as names. Ours has learnt them, and a hundred random ones are deleted:

- "forget + refit": they are subtracted, and sites, vote and weights are chosen and fitted again, by
  the kept rows. While all rows are kept the result is compared with a fit of the other rows, and
  must have its digest; beyond the budget of kept rows it is complete where the choice has come out
  the same, which is said ("complete").
- "forget + weights": sites stay, weights are fitted again. What was chosen may still depend on the
deleted rows.
- "forget + pass": everything is chosen and counted anew by a pass over the other rows
  (``refit(rows=…)``): needed only beyond the budget, so it is measured there; whether it is
  complete is compared and said ("pass complete").

LightGBM has its defaults, every column a category, and is fitted to the other rows. hessboost
(hist, depth 6, 100 rounds, codes of names as numbers, which its updates ask for) deletes rows
itself: "exact" equals training on the others, "approximate" forgets only in part. A learner that is
not installed is left out. All have one thread; times are processor seconds, encoding included (of
hessboost the update alone), the least of ``--runs``. A size that FILE holds already is not measured
again. ``--figure`` draws all sizes that FILE holds. Where the curves cross is printed.
"""

from __future__ import annotations

import os
import time
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before NumPy is loaded

import numpy as np

from click_rows import Clicks
from clicks import CategoryLightGBM
from hammemo import MemoryClassifier
from hammemo.edits.editing import mute_forgetting_warning
from hammemo.paper.experiments.measuring import Row, table
from measures import JsonLines, options

if TYPE_CHECKING:
    from collections.abc import Callable


N_DELETED = 100
CURVES = {
    "forget_refit": "forget + refit",
    "forget_weights": "forget + weights",
    "forget_pass": "forget + pass",
    "lightgbm": "LightGBM, learnt again",
    "hessboost_exact": "hessboost, exact",
    "hessboost_approximate": "hessboost, approximate",
}
HESSBOOST: dict[str, Any] = {
    "objective": "binary:logistic",
    "tree_method": "hist",
    "max_depth": 6,
    "nthread": 1,
}
HESSBOOST_ROUNDS = 100


def measure_seconds(
    runs: int, prepare: Callable[[], Any], work: Callable[[Any], Any]
) -> tuple[float, Any]:
    """Return the least processor seconds of a piece of work, and what it returned."""
    times = []
    result = None
    for _ in range(runs):
        prepared = prepare()
        started = time.process_time()
        result = work(prepared)
        times.append(time.process_time() - started)
    return min(times), result


def names() -> MemoryClassifier:
    """Return a model that reads the whole numbers of these rows as names."""
    return MemoryClassifier(numeric="none")


def measure(rows: int, seed: int, runs: int) -> Row:
    """Return what each way costs at one size."""
    X, y, _ = Clicks(seed).rows(rows)
    gone = np.zeros(rows, bool)
    gone[np.random.default_rng([seed, 3]).choice(rows, N_DELETED, replace=False)] = True
    learnt = names().fit(X, y)
    mute_forgetting_warning(learnt)

    def copy() -> MemoryClassifier:
        model = learnt.snapshot()
        mute_forgetting_warning(model)
        return model

    def forget(model: MemoryClassifier) -> MemoryClassifier:
        return model.forget(X[gone], y[gone])

    row: Row = {"rows": rows, "seed": seed, "deleted": N_DELETED}
    row["forget_refit"], ours = measure_seconds(runs, copy, lambda model: forget(model).refit())
    row["forget_weights"], _ = measure_seconds(
        runs, copy, lambda model: forget(model).refit(what="weights")
    )
    row["fit"], rest = measure_seconds(1, names, lambda model: model.fit(X[~gone], y[~gone]))
    row["all_kept"] = bool(ours.state.store.holds_all)
    row["complete"] = ours.digest() == rest.digest()
    if row["all_kept"] and not row["complete"]:
        raise AssertionError("the model differs from a fit of the rows that are left")
    row["forget_pass"] = row["pass_complete"] = None
    if not row["all_kept"]:
        row["forget_pass"], again = measure_seconds(
            1, copy, lambda model: forget(model).refit(rows=(X[~gone], y[~gone]))
        )
        row["pass_complete"] = again.digest() == rest.digest()
    try:
        row["lightgbm"], _ = measure_seconds(
            runs, CategoryLightGBM, lambda model: model.fit(X[~gone], y[~gone])
        )
    except ImportError:
        row["lightgbm"] = None
    return row | hessboost_seconds(X, y, gone, runs)


def hessboost_seconds(X: Any, y: Any, gone: Any, runs: int) -> Row:
    """Return what it costs hessboost to delete the rows, completely and in part.

    Both are None where it is not installed.
    """
    try:
        from hessboost import DMatrix
        from hessboost.online import Approximate, Exact, OnlineModel
    except ImportError:
        return {"hessboost_exact": None, "hessboost_approximate": None}
    codes = np.column_stack([np.unique(column, return_inverse=True)[1] for column in X.T]).astype(
        np.float32
    )
    deleted = np.flatnonzero(gone)
    row = Row()
    for name, mode in (("hessboost_exact", Exact()), ("hessboost_approximate", Approximate())):

        def train(mode: Any = mode) -> Any:
            matrix = DMatrix(codes, y.astype(np.float32))
            return OnlineModel.train(HESSBOOST, matrix, HESSBOOST_ROUNDS, mode=mode)

        row[name], _ = measure_seconds(runs, train, lambda model: model.update(deletions=deleted))
    return row


def ratios(rows: list[Row], name: str) -> list[tuple[int, float]]:
    """Return the numbers of rows, and what one way costs there as a multiple of learning again."""
    return [
        (row["rows"], row[name] / row["lightgbm"])
        for row in rows
        if row.get(name) and row["lightgbm"]
    ]


def find_crossing_sizes(points: list[tuple[int, float]]) -> list[float]:
    """Return the numbers of rows where a way becomes cheaper than learning again, or dearer."""
    return [
        before * (after / before) ** (np.log(first) / np.log(first / then))  # on logarithmic axes
        for (before, first), (after, then) in pairwise(points)
        if (first > 1) != (then > 1)
    ]


def crossings(rows: list[Row]) -> list[str]:
    """Return where each way of ours becomes cheaper than learning again, or dearer."""
    sentences = []
    for name in list(CURVES)[:3]:
        points = ratios(rows, name)
        sentences += [
            f"{CURVES[name]} crosses LightGBM at about {at:,.0f} rows"
            for at in find_crossing_sizes(points)
        ]
        if points and len({ratio > 1 for _, ratio in points}) == 1:
            word = "dearer" if points[0][1] > 1 else "cheaper"
            shares = ", ".join(f"{ratio:.2f}" for _, ratio in points)
            sentences.append(
                f"{CURVES[name]} is {word} than LightGBM at every size measured ({shares} "
                "times its cost)"
            )
    return sentences


def draw(rows: list[Row], path: Path) -> None:
    """Draw the curves."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(6.4, 4))
    for (name, title), style in zip(
        CURVES.items(), ("o-", "s--", "^-", "d:", "x:", "+:"), strict=True
    ):
        points = np.array([(row["rows"], row[name]) for row in rows if row.get(name)])
        if len(points):
            axes.loglog(*points.T, style, label=title)
    axes.set(xlabel="rows", ylabel="processor seconds", title=f"Deleting {N_DELETED} rows")
    axes.grid(alpha=0.3)
    axes.legend()
    figure.tight_layout()
    figure.savefig(path, dpi=160)


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--rows", type=int, nargs="*", default=[10**3, 10**4, 10**5, 10**6])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument(
        "--json", type=Path, required=True, help="append each size to this file, one a line"
    )
    parser.add_argument("--figure", type=Path, help="draw all sizes to this file")
    arguments = parser.parse_args()
    kept = JsonLines(arguments.json)
    for rows in arguments.rows:
        if kept.find(rows=rows, seed=arguments.seed) is None:
            kept.add(measure(rows, arguments.seed, arguments.runs))
    rows_by_size = sorted(
        (row for row in kept.rows if row["seed"] == arguments.seed), key=lambda row: row["rows"]
    )
    print("\n".join([*table(rows_by_size), "", *crossings(rows_by_size)]))
    if arguments.figure is not None:
        draw(rows_by_size, arguments.figure)


if __name__ == "__main__":
    main()
