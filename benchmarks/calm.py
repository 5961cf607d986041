"""How much a refit changes after few rows came or went.

Ours stands beside LightGBM, each with its defaults and one thread.

    python benchmarks/calm.py [--data FOLDER] [--tables hr pima] [--rows 20000]
                              [--made-up 5000 100000] [--edits 1 20 200] [--choices 3]
                              [--learners ours LightGBM] [--json]

FOLDER holds the folders ``mixed`` and ``tables`` of the other benchmarks of tables; without it,
only the made-up table is measured. A quarter of a table is asked and never learnt. A model learns
the other rows; then rows are deleted, or rows that were held back are added, and the model is
refitted. Ours does so by `forget`, `partial_fit` and `refit`, LightGBM is trained again. Printed
are means over several choices of the rows:

- labels: the share of the asked rows whose label changed, in percent; probability: the mean
  absolute change of all probabilities, in percent;
- kept: the share of the nodes of all trees, in percent, that the refitted model has too, with all
  nodes above them (the same column and cut); for a table of names the share of its tuples;
- refit and fit: processor seconds, the least of all choices, and of one fit.

A learner that is not installed is left out: ``pip install --group benchmarks``.
"""

from __future__ import annotations

import os
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

# before NumPy is loaded: one thread for every learner
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pandas as pd

from hammemo import MemoryClassifier
from hammemo.features.cells import TreeCells
from hammemo.features.cells.column_codes import DIFFERENCE_CUTS
from hammemo.features.cells.forest import LEAF
from hammemo.paper.experiments.measuring import Row, cells, heading
from measures import describe_run, options, show
from mixed import LEARNERS, read_table
from tables import read_table as read_names

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

MADE_UP_ROWS = (20_000, 2000)
MIXED = ("flights-weather", "hr", "spambase", "pima")
NAMES = ("adult-categories", "nursery", "kr-vs-kp")
TITLES = "table | rows | learner | edit | labels, % | probability, % | kept, % | refit, s | fit, s"
CELLS = (
    "{table} | {rows:,} | {learner} | {edit:+d} | {labels:.2f} | {probability:.3f} | {kept:.1f|} | "
    "{refit:.2f} | {fit:.2f}"
)


def make_table(rows: int, seed: int = 0) -> tuple[pd.DataFrame, NDArray[Any]]:
    """Return six columns of numbers and one of names.

    A quarter of the rows are beyond those to be learnt.
    """
    n = rows * 4 // 3
    rng = np.random.default_rng(seed)
    numbers = rng.normal(size=(n, 6)).round(3)
    names = rng.integers(0, 6, n)
    scores = numbers[:, 0] + np.sin(2 * numbers[:, 1]) + np.where(names < 3, 1, -1) * numbers[:, 2]
    y = np.where(rng.random(n) < 1 / (1 + np.exp(-scores)), "yes", "no")
    frame = pd.DataFrame(numbers, columns=[f"x{j}" for j in range(6)])
    return frame.assign(name=np.array(list("abcdef"), object)[names]), y


def read_named_table(path: Path) -> tuple[pd.DataFrame, NDArray[Any]]:
    """Return a table of names as a frame."""
    X, y = read_names(path)
    return pd.DataFrame(X, columns=[f"c{j}" for j in range(X.shape[1])]), y


def measure_kept_share(before: MemoryClassifier, after: MemoryClassifier) -> float | None:
    """Return the share of nodes, or of tuples, that both models have.

    It is None where the first has none.
    """
    cells = [model.state.layout.cells for model in (before, after)]
    forests = [one.forest for one in cells if isinstance(one, TreeCells)]
    if len(forests) < 2:
        tuples = {site for site in before.sites_.positions if len(site) > 1}
        return len(tuples & set(after.sites_.positions)) / len(tuples) if tuples else None
    pair = forests
    if len(pair) < 2:
        return 0.0
    cuts = [_cuts(model) for model in (before, after)]
    nodes = [forest.starts[:-1] for forest in pair]
    same = 0
    while len(nodes[0]):
        columns = [forest.column[at] for forest, at in zip(pair, nodes, strict=True)]
        values = [
            of_model[at, forest.step[node]]
            for of_model, forest, at, node in zip(cuts, pair, columns, nodes, strict=True)
        ]
        equal = (columns[0] == columns[1]) & ((columns[0] == LEAF) | (values[0] == values[1]))
        same += int(equal.sum())
        inner = equal & (columns[0] != LEAF)
        nodes = [_children(forest, at[inner]) for forest, at in zip(pair, nodes, strict=True)]
    return same / len(pair[0].column)


def _cuts(model: MemoryClassifier) -> NDArray[np.int64]:
    """Return what each step of each column of bytes stands for: (columns, 256)."""
    assert isinstance(model.state.layout.cells, TreeCells)
    codes = model.state.layout.cells.codes
    of_columns = [
        *(cuts.view(np.int64) for cuts in codes.cuts),
        *(np.ascontiguousarray(names[:, :8]).view(np.int64).ravel() for names in codes.names),
        *(DIFFERENCE_CUTS for _ in codes.pairs),
    ]
    cut_bits = np.zeros((len(of_columns), 256), np.int64)
    for row, values in zip(cut_bits, of_columns, strict=True):
        row[1 : len(values) + 1] = values
    return cut_bits


def _children(forest: Any, nodes: NDArray[np.int64]) -> NDArray[np.int64]:
    starts = forest.starts[np.searchsorted(forest.starts, nodes, side="right") - 1]
    return np.concatenate([nodes + 1, starts + forest.right[nodes]])


class Ours:
    """A model that is edited and refitted."""

    def __init__(self, X: pd.DataFrame, y: NDArray[Any]) -> None:
        self.X = X
        self.y = y
        self.model = MemoryClassifier()

    def fit(self, rows: NDArray[np.int64]) -> MemoryClassifier:
        """Learn rows of the table."""
        self.model.fit(self.X.iloc[rows], self.y[rows])
        return self.model

    def refit_after_edit(
        self,
        rows: NDArray[np.int64],  # noqa: ARG002  every subject takes them
        gone: NDArray[np.int64],
        new: NDArray[np.int64],
    ) -> MemoryClassifier:
        """Return the model after an edit and a refit."""
        model = self.model.snapshot()
        if len(gone):
            model.forget(self.X.iloc[gone], self.y[gone])
        if len(new):
            model.partial_fit(self.X.iloc[new], self.y[new])
        return model.refit()


class Retrained:
    """A learner that is trained again."""

    def __init__(self, learner: str, X: pd.DataFrame, y: NDArray[Any]) -> None:
        self.learner = learner
        self.X = X
        self.y = y

    def fit(self, rows: NDArray[np.int64]) -> Any:
        """Learn rows of the table."""
        return LEARNERS[self.learner]().fit(self.X.iloc[rows], self.y[rows])

    def refit_after_edit(
        self, rows: NDArray[np.int64], gone: NDArray[np.int64], new: NDArray[np.int64]
    ) -> Any:
        """Return a model of the rows without some and with others."""
        return self.fit(np.concatenate([np.setdiff1d(rows, gone), new]))


def measure_edits(
    name: str, learner: str, X: pd.DataFrame, y: NDArray[Any], *, edits: list[int], choices: int
) -> Iterator[Row]:
    """Yield one row for each number of deleted and of added rows."""
    order = np.random.default_rng(0).permutation(len(y))
    questions = X.iloc[order[: len(y) // 4]]
    others = order[len(y) // 4 :]
    edits = [n for n in edits if n <= len(others) // 10]
    held_back = min(200, len(others) // 10)
    learnt = others[held_back:]
    more = others[:held_back]
    who: Ours | Retrained = Ours(X, y) if learner == "ours" else Retrained(learner, X, y)
    started = time.process_time()
    before = who.fit(learnt)
    fit = time.process_time() - started
    first = np.asarray(before.predict_proba(questions))
    for n in [*(-n for n in edits), *edits]:
        trials = []
        for choice in range(choices):
            rng = np.random.default_rng([choice, abs(n)])
            gone = rng.choice(learnt, max(-n, 0), replace=False)
            new = rng.choice(more, max(n, 0), replace=False)
            started = time.process_time()
            after = who.refit_after_edit(learnt, gone, new)
            took = time.process_time() - started
            then = np.asarray(after.predict_proba(questions))
            kept = measure_kept_share(before, after) if learner == "ours" else None
            changed = float((first.argmax(axis=1) != then.argmax(axis=1)).mean())
            trials.append((changed, float(np.abs(first - then).mean()), kept, took))
        labels, probability, kept_of, took_of = zip(*trials, strict=True)
        kept_shares = [share for share in kept_of if share is not None]
        yield {
            "table": name,
            "rows": len(learnt),
            "learner": learner,
            "edit": n,
            "labels": 100 * float(np.mean(labels)),
            "probability": 100 * float(np.mean(probability)),
            "kept": 100 * float(np.mean(kept_shares)) if kept_shares else None,
            "refit": min(took_of),
            "fit": fit,
        }


def tables_of(data: Path | None, made_up_rows: Sequence[int]) -> dict[str, Callable[[], Any]]:
    """Return what reads each table."""
    readers: dict[str, Callable[[], Any]] = {
        f"made up, {rows:,}": partial(make_table, rows) for rows in made_up_rows
    }
    if data is not None:
        readers |= {name: partial(read_table, data / "mixed" / f"{name}.csv") for name in MIXED}
        readers |= {
            name: partial(read_named_table, data / "tables" / f"{name}.csv") for name in NAMES
        }
    return readers


def main() -> None:
    parser = options(__doc__, as_json="all rows")
    parser.add_argument(
        "--data", type=Path, metavar="FOLDER", help="folder with the folders mixed and tables"
    )
    parser.add_argument("--tables", nargs="+", help="the tables to measure; all by default")
    parser.add_argument("--rows", type=int, help="the most rows of a table")
    parser.add_argument(
        "--made-up",
        type=int,
        nargs="+",
        default=MADE_UP_ROWS,
        metavar="ROWS",
        help="rows that are learnt of each made-up table",
    )
    parser.add_argument(
        "--edits", type=int, nargs="+", default=[1, 20, 200], help="rows that come or go"
    )
    parser.add_argument("--choices", type=int, default=3, help="choices of the rows")
    parser.add_argument("--learners", nargs="+", default=["ours", "LightGBM"])
    arguments = parser.parse_args()
    rows: list[Row] = []
    if not arguments.json:
        print(heading(TITLES))
    for name, read in tables_of(arguments.data, arguments.made_up).items():
        if arguments.tables and not any(name.startswith(one) for one in arguments.tables):
            continue
        X, y = read()
        X = X.iloc[: arguments.rows]
        y = y[: arguments.rows]
        for learner in arguments.learners:
            try:
                for row in measure_edits(
                    name, learner, X, y, edits=arguments.edits, choices=arguments.choices
                ):
                    rows.append(row)
                    if not arguments.json:
                        print(f"| {cells(CELLS, row)} |", flush=True)
            except ImportError as error:
                print(f"| {name} | | {learner} | left out: {str(error)[:80]} |", flush=True)
    if arguments.json:
        show({"measured": describe_run(), "calm": rows}, as_json=True)


if __name__ == "__main__":
    main()
