"""Made-up tables whose shapes single trees miss.

Ours stands beside LightGBM, each with its defaults and one thread.

    python -m benchmarks.made_up [--sets xor3-1000 hard-1e4] [--learners ours LightGBM]
                                 [--json FILE]
    python -m benchmarks.made_up --show FILE

A table is named by its shape and its training rows; 4,000 more rows are for testing, or 10,000
where there are 10,000 training rows and more:

- ``hard``: a sum of a wave, products, steps, a circle, a difference, a ratio and five lines, among
20 columns.
- ``easy``: `sklearn.datasets.make_classification`, eight clusters in ten of 20 columns.
- ``friedman``: Friedman's function of five columns, among ten.
- ``linear50``: a line in 50 columns.
- ``xor3``: the sign of the product of three columns, among ten.
- ``parity``: whether the sum of three columns of names is odd, among eight and a column of noise.

Printed are accuracy and log-loss, with the means of all tables. `possible` is the log-loss of the
true probabilities.
"""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

# before NumPy is loaded: one thread for every learner
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pandas as pd
from scipy.special import expit, xlogy
from sklearn.datasets import make_classification

from hammemo.paper.experiments.measuring import cells, heading, table

sys.path.insert(0, str(Path(__file__).parent))
from measures import JsonLines, options
from mixed import CELLS, LEARNERS, NAMES, comparisons, measure_learner, summary
from tables import by_set

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

SETS = (
    *("hard-1e4", "easy-1e4", "friedman-1000", "friedman-1e4", "linear50-1000"),
    *("xor3-1000", "xor3-1e4", "parity-300", "parity-1000", "hard-1e5", "easy-1e5"),
)


def sizes(name: str) -> tuple[int, int]:
    """Return how many rows of a table are for training, and how many there are."""
    n = int(float(name.split("-")[1]))
    return n, n + (4_000 if n < 10_000 else 10_000)


class MadeUpTable(NamedTuple):
    """A table whose truth is known."""

    columns: pd.DataFrame
    labels: NDArray[Any]
    probability: NDArray[np.float64] | None
    """The probability of the second label in each row, where it is known."""


def make_table(name: str) -> MadeUpTable:
    """Make the table of this name."""
    shape = name.split("-")[0]
    (_, m) = sizes(name)
    if shape == "easy":
        shape_options = {
            "n_informative": 10,
            "n_redundant": 4,
            "n_clusters_per_class": 4,
            "flip_y": 0.02,
        }
        X, y = make_classification(m, 20, **shape_options, random_state=0)
        return MadeUpTable(_frame(X), y.astype(str), None)
    rng = np.random.default_rng(0)
    if shape == "parity":
        return _parity(m, rng)
    draw, n_columns, score = SHAPES[shape]
    X = getattr(rng, draw)(size=(m, n_columns))
    probability = expit(score(X))
    labels = (rng.random(m) < probability).astype(int).astype(str)
    return MadeUpTable(_frame(X), labels, probability)


def _frame(X: NDArray[np.float64]) -> pd.DataFrame:
    return pd.DataFrame(X.astype(np.float32).astype(float)).add_prefix("c")


def _parity(m: int, rng: np.random.Generator) -> MadeUpTable:
    codes = rng.integers(0, 4, (m, 8))
    odd = codes[:, :3].sum(axis=1) % 2
    y = np.where(rng.random(m) < 0.02, 1 - odd, odd)
    frame = pd.DataFrame(codes).add_prefix("n").map("v{}".format).astype(object)
    frame = frame.assign(amount=rng.normal(size=m))
    return MadeUpTable(frame, y.astype(str), np.where(odd, 0.98, 0.02))


def _hard(X: NDArray[np.float64]) -> NDArray[np.float64]:
    c = X.T
    wave = np.sin(3 * c[0])
    product = c[1] * c[2]
    steps = 0.8 * np.where(c[3] * c[4] > 0, 1, -1)
    circle = 1.5 * (c[10] ** 2 + c[11] ** 2 < 1.4)
    lines = 0.4 * c[5:10].sum(axis=0)
    difference = np.abs(c[12] - c[13])
    ratio = 0.3 * c[14] / np.maximum(0.3, np.abs(c[15]))
    return np.asarray(2 * (wave + product + steps + lines + circle + difference - ratio - 1.2))


def _friedman(X: NDArray[np.float64]) -> NDArray[np.float64]:
    c = X.T
    wave = np.sin(np.pi * c[0] * c[1])
    square = (c[2] - 0.5) ** 2
    return np.asarray((10 * wave + 20 * square + 10 * c[3] + 5 * c[4] - 14.4) / 1.5)


SHAPES: dict[str, tuple[str, int, Any]] = {
    "hard": ("normal", 20, _hard),
    "friedman": ("random", 10, _friedman),
    "linear50": ("normal", 50, lambda X: 3 * X.sum(axis=1) / np.sqrt(50)),
    "xor3": ("normal", 10, lambda X: 4 * np.sign(X[:, :3].prod(axis=1))),
}


def possible(name: str) -> float | None:
    """Return the mean log-loss of the true probabilities of the test rows; None if unknown."""
    _, y, probability = make_table(name)
    if probability is None:
        return None
    shares = np.stack([1 - probability, probability])[:, sizes(name)[0] :]
    true_chances = shares[(y[sizes(name)[0] :] == "1").astype(int), np.arange(shares.shape[1])]
    return float(-xlogy(1.0, true_chances).mean())


def first_rows(n: int, y: Any, _: int) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Yield the first n rows for training, the others for testing."""
    yield np.arange(n), np.arange(n, len(y))


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--sets", nargs="*", default=list(SETS))
    parser.add_argument(
        "--learners", nargs="*", default=["ours", "LightGBM"], choices=list(LEARNERS)
    )
    parser.add_argument(
        "--json", type=Path, help="append each measurement to this file, one a line"
    )
    parser.add_argument(
        "--show", type=Path, nargs="*", help="print what such files hold, and measure nothing"
    )
    arguments = parser.parse_args()
    kept = JsonLines(*(arguments.show or [arguments.json]))
    print(heading(NAMES))
    for name in [] if arguments.show else arguments.sets:
        for learner in arguments.learners:
            if not kept.find(set=name, learner=learner):
                row = measure_learner(
                    name,
                    learner,
                    lambda: make_table(name)[:2],  # noqa: B023  called at once
                    seed=0,
                    split=partial(first_rows, sizes(name)[0]),
                )
                print(f"| {cells(CELLS, kept.add(row))} |", flush=True)
    sets = by_set(kept.rows)
    if arguments.show:
        print(
            "\n".join(f"| {cells(CELLS, row)} |" for rows in sets.values() for row in rows.values())
        )
    print("\naccuracy / log-loss:\n\n" + "\n".join([*summary(sets), "", *comparisons(sets)]))
    print("\n" + "\n".join(table([{"set": name, "possible": possible(name)} for name in sets])))


if __name__ == "__main__":
    main()
