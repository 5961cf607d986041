"""Click-like tables of any size: ours by default beside LightGBM and a linear learner, each with its defaults.

    python benchmarks/clicks.py [--rows 10000 100000 1000000] [--learners ours LightGBM …] [--seed 0]
                                [--json FILE]

The table is made from a seed. It has twenty columns of whole numbers that are names, with 2 to 1,000,000 values each,
drawn by Zipf's law. The log-odds of a click are the sum of a constant, of an effect of the value of each column and of
an effect of the two values of each of six pairs of columns; the constant is such that about 2 % of the rows are clicks.
All learners are judged on the same 200,000 further rows. "truth" is the log-loss and the AUC of the probabilities
that the labels were drawn by: no learner can be better but by chance.

Each learner runs in a process of its own with one thread. Printed are log-loss, area under the ROC curve, processor
seconds of the fit (encoding included), peak memory of the fit beyond the table (Linux), and the size of the model. A
learner that is not installed is left out. A measurement that ``--json`` holds already is not repeated.
"""

from __future__ import annotations

import multiprocessing
import os
import tempfile
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before NumPy is loaded: one thread for every learner

import numpy as np
from scipy.special import expit, ndtri
from sklearn.metrics import log_loss, roc_auc_score

from hammemo.experiments.measuring import JsonLines, Row, cells, heading, options, seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

COLUMNS = 20
PAIRS = 6
BASE = -5.15
"""The constant of the log-odds: about 2 % of the rows become clicks."""
COLUMN_EFFECT, PAIR_EFFECT = 0.25, 0.7
"""Standard deviations of the effects of single values and of pairs of values."""
ZIPF = 1.05
TEST_ROWS = 200_000
BLOCK = 250_000
"""Rows that are drawn from one random generator: a larger table begins with the rows of a smaller one."""


@dataclass(frozen=True, eq=False)
class Clicks:
    """A table that is drawn block by block.

    Parameters
    ----------
    seed : int
    """

    seed: int

    @property
    def sizes(self) -> NDArray[np.int64]:
        """How many values each column has: 2 to 1,000,000."""
        return np.geomspace(2, 10**6, COLUMNS).round().astype(np.int64)

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """The pairs of columns that matter: drawn from those of 3 to 1,000 values, which small tables can learn."""
        middle = [j for j, size in enumerate(self.sizes) if 3 <= size <= 1000]
        every = list(combinations(middle, 2))
        drawn = np.random.default_rng([self.seed, 1]).choice(len(every), PAIRS, replace=False)
        return sorted(every[i] for i in drawn)

    def rows(self, n: int, *, test: bool = False) -> tuple[NDArray[np.int64], NDArray[np.int8], NDArray[np.float64]]:
        """Return n rows, their labels, and the probability of a click of each.

        Shapes
        ------
        returned : (n, 20), (n,), (n,)
        """
        blocks = [self._block(number, test) for number in range(-(-n // BLOCK))]
        table, labels, probabilities = (np.concatenate(parts)[:n] for parts in zip(*blocks, strict=True))
        return table, labels, probabilities

    def _block(self, number: int, test: bool) -> tuple[NDArray[np.int64], NDArray[np.int8], NDArray[np.float64]]:
        rng = np.random.default_rng([self.seed, 2, int(test), number])
        table = np.empty((BLOCK, COLUMNS), np.int64)
        for j, size in enumerate(self.sizes):
            shares = np.arange(1, size + 1) ** -ZIPF
            table[:, j] = np.searchsorted(shares.cumsum() / shares.sum(), rng.random(BLOCK))
        odds = np.full(BLOCK, BASE)
        for j in range(COLUMNS):
            odds += COLUMN_EFFECT * self._effect(table[:, j], j)
        for i, j in self.pairs:
            odds += PAIR_EFFECT * self._effect(table[:, i] * 2**20 + table[:, j], 100 + i * COLUMNS + j)
        probabilities = expit(odds)
        return table, (rng.random(BLOCK) < probabilities).astype(np.int8), probabilities

    def _effect(self, values: NDArray[np.int64], of: int) -> NDArray[np.float64]:
        """Return a normal number for each value, the same wherever the value is met: a hash, turned into a number."""
        word = (values.astype(np.uint64) + np.uint64((self.seed * 1000 + of) << 44)) * np.uint64(0x9E3779B97F4A7C15)
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            word = (word ^ (word >> np.uint64(shift))) * np.uint64(factor)
        return np.asarray(ndtri(((word >> np.uint64(12)) + 0.5) / 2.0**52))


class ClicksOurs:
    """`MemoryClassifier()` with nothing chosen."""

    def fit(self, X: NDArray[np.int64], y: NDArray[np.int8]) -> ClicksOurs:
        """Learn the rows."""
        from hammemo import MemoryClassifier

        self.model = MemoryClassifier().fit(X, y)
        return self

    def predict(self, X: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the probability of a click."""
        return np.asarray(self.model.predict_proba(X)[:, 1])

    def size(self, folder: Path) -> int:
        """Return the bytes of the model's file."""
        from hammemo import save

        save(self.model, folder / "model")
        return (folder / "model").stat().st_size

    def notes(self) -> str:
        """Return which tuples of columns were chosen."""
        return " tuples: " + " ".join(str(site) for site in self.model.sites_.positions if len(site) > 1)


class ClicksOursOfAllRows(ClicksOurs):
    """Ours, choosing sites and fitting weights by all rows in place of samples.

    It has every rare label that a sample by label could take, and all other rows, too: what such a sample would gain
    at the most.
    """

    def fit(self, X: NDArray[np.int64], y: NDArray[np.int8]) -> ClicksOurs:
        """Learn the rows."""
        from hammemo import MemoryClassifier
        from hammemo.kernels.selection import copies, growth
        from hammemo.models import learning

        learning.CHOICE_ROWS = len(y)  # type: ignore[misc]
        copies.Copies.of.__func__.__defaults__ = (len(y),)  # type: ignore[attr-defined]
        growth._NUMBERS = 2 * len(y)  # type: ignore[misc]
        growth._FEATURE_NUMBERS, growth._FIT_WORK = 2**40, 2**60  # type: ignore[misc]
        self.model = MemoryClassifier(keep=len(y)).set_params(vote__sample=len(y)).fit(X, y)
        return self


class CategoryLightGBM:
    """LightGBM's classifier, every column a category."""

    def fit(self, X: NDArray[np.int64], y: NDArray[np.int8]) -> CategoryLightGBM:
        """Learn the rows."""
        from lightgbm import LGBMClassifier

        self.known = [np.unique(column) for column in X.T]
        self.model = LGBMClassifier(n_jobs=1, verbose=-1).fit(self._frame(X), y)
        return self

    def predict(self, X: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the probability of a click."""
        return np.asarray(self.model.predict_proba(self._frame(X))[:, 1])

    def size(self, _: Path) -> int:
        """Return the bytes of the model as text."""
        return len(self.model.booster_.model_to_string())

    def notes(self) -> str:
        """Return nothing."""
        return ""

    def _frame(self, X: NDArray[np.int64]) -> Any:
        import pandas as pd

        columns = zip(X.T, self.known, strict=True)
        return pd.DataFrame({f"c{j}": pd.Categorical(column, known) for j, (column, known) in enumerate(columns)})


class VowpalWabbit:
    """Logistic regression on hashed names (24 bits), one pass."""

    def fit(self, X: NDArray[np.int64], y: NDArray[np.int8]) -> VowpalWabbit:
        """Learn the rows."""
        from vowpalwabbit import Workspace

        self.model = Workspace("--loss_function logistic --link logistic -b 24 --quiet")
        for line, label in zip(_lines(X), y.tolist(), strict=True):
            self.model.learn(f"{2 * label - 1} {line}")
        return self

    def predict(self, X: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the probability of a click."""
        return np.array([self.model.predict(line) for line in _lines(X)])

    def size(self, folder: Path) -> int:
        """Return the bytes of the model's file."""
        self.model.save(str(folder / "model"))
        return (folder / "model").stat().st_size

    def notes(self) -> str:
        """Return nothing."""
        return ""


def _lines(X: NDArray[np.int64]) -> Iterator[str]:
    for row in X:
        yield "| " + " ".join(f"c{j}={value}" for j, value in enumerate(row.tolist()))


LEARNERS: dict[str, Callable[[], Any]] = {
    "ours": ClicksOurs,
    "LightGBM": CategoryLightGBM,
    "Vowpal Wabbit": VowpalWabbit,
    "ours, all rows": ClicksOursOfAllRows,
}
CELLS = (
    "{rows:,} | {learner} | {log_loss:.4f} | {auc:.3f} | {fit_seconds:.1f} | {peak_mebibytes:,.0f} | {mebibytes:,.1f}"
)


def judge(learner: str, rows: int, seed: int) -> Row:
    """Return how a learner does on so many rows."""
    X, y, _ = Clicks(seed).rows(rows)
    asked, answers, _ = Clicks(seed).rows(TEST_ROWS, test=True)
    model = LEARNERS[learner]()
    before = _forget_peak()
    fit_seconds, after = seconds(model.fit, X, y), _status("VmHWM")
    probabilities = np.concatenate([model.predict(part) for part in np.array_split(asked, 20)])
    with tempfile.TemporaryDirectory() as folder:
        size = model.size(Path(folder))
    return {
        "learner": learner,
        "rows": rows,
        "seed": seed,
        "log_loss": float(log_loss(answers, np.clip(probabilities, 1e-12, 1 - 1e-12))),
        "auc": float(roc_auc_score(answers, probabilities)),
        "fit_seconds": fit_seconds,
        "peak_mebibytes": (after - before) / 2**20,
        "mebibytes": size / 2**20,
        "notes": model.notes(),
    }


def _forget_peak() -> int:
    """Let the kernel forget the peak memory of this process, and return what it uses now."""
    Path("/proc/self/clear_refs").write_text("5")
    return _status("VmRSS")


def _status(name: str) -> int:
    """Return a figure of this process, in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name + ":")) * 1024


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--rows", type=int, nargs="*", default=[10**4, 10**5, 10**6])
    parser.add_argument("--learners", nargs="*", default=list(LEARNERS)[:3], choices=list(LEARNERS))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, help="append each measurement to this file, one a line")
    given = parser.parse_args()
    _, labels, probabilities = Clicks(given.seed).rows(TEST_ROWS, test=True)
    print(f"pairs that matter: {Clicks(given.seed).pairs}; clicks: {labels.mean():.2%} of the test rows\n")
    print(heading("rows | learner | log-loss | AUC | fit (s) | peak memory (MiB) | model (MiB)"))
    truth = f"{log_loss(labels, probabilities):.4f} | {roc_auc_score(labels, probabilities):.3f}"
    print(f"| | truth | {truth} | | | |", flush=True)
    kept = JsonLines(given.json)
    for rows in given.rows:
        for learner in given.learners:
            found = kept.find(learner=learner, rows=rows, seed=given.seed) or _in_a_process(learner, rows, given.seed)
            if found is None:
                print(f"| {rows:,} | {learner} | not installed |", flush=True)
                continue
            if found not in kept.rows:
                kept.add(found)
            print(f"| {cells(CELLS, found)} |{found['notes']}", flush=True)


def _in_a_process(learner: str, rows: int, seed: int) -> Row | None:
    """Return a measurement made in a fresh process; None where the learner is not installed."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        try:
            return pool.apply(judge, (learner, rows, seed))
        except ImportError:
            return None


if __name__ == "__main__":
    main()
