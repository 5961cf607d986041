"""Click-like tables of any size: ours by default beside LightGBM and two linear learners.

    python benchmarks/clicks.py [--rows 10000 100000 1000000] [--learners ours LightGBM …]
                                [--seed 0] [--json FILE]
    python benchmarks/clicks.py --learners "ours, engines" --rows 10000000 100000000 --folder FOLDER
                                --json FILE [--workers 2] [--limit 2048] [--segments 32]

The table is made from a seed (``click_rows.py``): about 2 % of the rows are clicks. All learners
are judged on the same 200,000 further rows. "truth" is the log-loss and the AUC of the
probabilities that the labels were drawn by: no learner can be better but by chance.

Each learner runs in a process of its own with one thread. Printed are log-loss, area under the ROC
curve, processor seconds of the fit (encoding included), peak memory of the fit beyond the table
(Linux), and the size of the model. A learner that is not installed is left out. A measurement that
``--json`` holds already is not repeated. At the end, for each learner, the exponent by which
processor seconds grow with rows from each size to the next.

"ours, engines" learns rows that two worker processes make while they read them, in segments, each
process and the driver under RLIMIT_DATA of 2 GiB; what it has done stays in ``--folder``, and the
same command goes on from there. Its processor seconds include making the rows, twice; "rows" says
how many seconds of the clock that took, of all workers together. Its peak memory is the largest of
any process, as a whole.
"""

from __future__ import annotations

import multiprocessing
import os
import resource
import shutil
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

# before NumPy is loaded: one thread for every learner
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from sklearn.metrics import log_loss, roc_auc_score

from click_rows import BLOCK, LABEL, Clicks, click_files
from hammemo.paper.experiments.measuring import Row, cells, heading, seconds
from measures import JsonLines, options

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

TEST_ROWS = 200_000


class ClicksOurs:
    """`MemoryClassifier(numeric="none")`: the whole numbers of these tables are codes of names."""

    def fit(self, X: NDArray[np.int64], y: NDArray[np.int8]) -> ClicksOurs:
        """Learn the rows."""
        from hammemo import MemoryClassifier

        self.model = MemoryClassifier(numeric="none").fit(X, y)
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
        return " tuples: " + " ".join(
            str(site) for site in self.model.sites_.positions if len(site) > 1
        )


class ClicksOursOfAllRows(ClicksOurs):
    """Ours, choosing sites and fitting weights by all rows in place of samples.

    It has every rare label that a sample by label could take, and all other rows, too: what such a
    sample would gain at the most.
    """

    def fit(self, X: NDArray[np.int64], y: NDArray[np.int8]) -> ClicksOurs:
        """Learn the rows."""
        from hammemo import MemoryClassifier
        from hammemo.kernels.selection import copies, growth
        from hammemo.tasks.labels import choose

        choose.CHOICE_ROWS = len(y)  # type: ignore[misc]
        copies.Copies.from_examples.__func__.__defaults__ = (len(y),)  # type: ignore[attr-defined]
        growth._NUMBERS = 2 * len(y)  # type: ignore[misc]
        growth._FEATURE_NUMBERS = 2**40  # type: ignore[misc]
        growth._FIT_WORK = 2**60  # type: ignore[misc]
        self.model = (
            MemoryClassifier(numeric="none", keep=len(y)).set_params(vote__sample=len(y)).fit(X, y)
        )
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
        return pd.DataFrame(
            {
                f"c{j}": pd.Categorical(column, categories)
                for j, (column, categories) in enumerate(columns)
            }
        )


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


class HashedRegression:
    """scikit-learn's regression by stochastic gradients on hashed names (22 bits), one pass.

    The rate is the best of three.
    """

    def fit(self, X: NDArray[np.int64], y: NDArray[np.int8]) -> HashedRegression:
        """Learn the rows, piece by piece."""
        from sklearn.feature_extraction import FeatureHasher
        from sklearn.linear_model import SGDClassifier

        self.hasher = FeatureHasher(2**22, input_type="string", alternate_sign=False)
        self.model = SGDClassifier(
            loss="log_loss", alpha=1e-6, learning_rate="constant", eta0=0.02, random_state=0
        )
        for first in range(0, len(y), TEST_ROWS // 20):
            part = slice(first, first + TEST_ROWS // 20)
            self.model.partial_fit(self._hash_words(X[part]), y[part], classes=[0, 1])
        return self

    def predict(self, X: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the probability of a click."""
        return np.asarray(self.model.predict_proba(self._hash_words(X))[:, 1])

    def size(self, _: Path) -> int:
        """Return the bytes of the weights."""
        return int(self.model.coef_.nbytes)

    def notes(self) -> str:
        """Return nothing."""
        return ""

    def _hash_words(self, X: NDArray[np.int64]) -> Any:
        return self.hasher.transform(line[2:].split() for line in _lines(X))


def _lines(X: NDArray[np.int64]) -> Iterator[str]:
    for row in X:
        yield "| " + " ".join(f"c{j}={value}" for j, value in enumerate(row.tolist()))


ENGINES = "ours, engines"
LEARNERS: dict[str, Callable[[], Any]] = {
    "ours": ClicksOurs,
    "LightGBM": CategoryLightGBM,
    "Vowpal Wabbit": VowpalWabbit,
    "hashed regression": HashedRegression,
    "ours, all rows": ClicksOursOfAllRows,
}
CELLS = (
    "{rows:,} | {learner} | {log_loss:.4f} | {auc:.3f} | {fit_seconds:.1f} | "
    "{peak_mebibytes:,.0f} | {mebibytes:,.1f}"
)


def judge(learner: str, rows: int, seed: int) -> Row:
    """Return how a learner does on so many rows."""
    X, y, _ = Clicks(seed).rows(rows)
    questions, answers, _ = Clicks(seed).rows(TEST_ROWS, test=True)
    model = LEARNERS[learner]()
    before = _forget_peak()
    fit_seconds = seconds(model.fit, X, y)
    after = _status("VmHWM")
    probabilities = np.concatenate([model.predict(part) for part in np.array_split(questions, 20)])
    with tempfile.TemporaryDirectory() as folder:
        size = model.size(Path(folder))
    return {
        "learner": learner,
        "rows": rows,
        "seed": seed,
        **_losses(answers, probabilities),
        "fit_seconds": fit_seconds,
        "peak_mebibytes": (after - before) / 2**20,
        "mebibytes": size / 2**20,
        "notes": model.notes(),
    }


def judge_engines(
    rows: int, seed: int, folder: str, *, workers: int, limit: int, segments: int
) -> Row:
    """Return how ours does that engines learn, under a limit of so many MiB a process."""
    import pandas as pd
    from joblib.externals.loky import get_reusable_executor

    from hammemo import MemoryClassifier
    from hammemo.engines import GroupReport, Machines, fit_table

    # of this process, and of those that it starts
    resource.setrlimit(resource.RLIMIT_DATA, (limit * 2**20,) * 2)
    out = Path(folder, f"{rows}-{seed}")
    reports = list[GroupReport]()
    started = time.process_time()
    machines = Machines(
        engine="processes",
        workers=workers,
        segments=segments,
        out=out,
        shard_bytes=2**40,
        group_size=max(1, -(-rows // (64 * BLOCK))),
        on_report=reports.append,
    )
    estimator = MemoryClassifier(numeric="none", memory="exact")
    model = fit_table(estimator, click_files(seed, rows), LABEL, machines=machines)
    spent = time.process_time() - started + sum(report.cpu_seconds for report in reports)
    # else this process would wait for its workers for ever
    get_reusable_executor().shutdown(wait=True)
    questions, answers, _ = Clicks(seed).rows(TEST_ROWS, test=True)
    frames = (
        pd.DataFrame(part, columns=model.feature_names_in_)
        for part in np.array_split(questions, 100)
    )
    probabilities = np.concatenate([model.predict_proba(frame)[:, 1] for frame in frames])
    resumed = sum(report.resumed for report in reports)
    tuples = " ".join(str(site) for site in model.sites_.positions if len(site) > 1)
    reading_seconds = sum(report.reading_seconds for report in reports)
    return {
        "learner": ENGINES,
        "rows": rows,
        "seed": seed,
        **_losses(answers, probabilities),
        "fit_seconds": spent,
        "peak_mebibytes": max(report.peak_bytes for report in reports) / 2**20,
        "mebibytes": sum(path.stat().st_size for path in out.rglob("*") if path.is_file()) / 2**20,
        "notes": (
            f" rows: {reading_seconds:.0f} s; {resumed} of {len(reports)} tasks done before; "
            f"tuples: {tuples}"
        ),
    }


def _losses(answers: NDArray[np.int8], probabilities: NDArray[np.float64]) -> Row:
    return {
        "log_loss": float(log_loss(answers, np.clip(probabilities, 1e-12, 1 - 1e-12))),
        "auc": float(roc_auc_score(answers, probabilities)),
    }


def growth(rows: list[Row]) -> Iterator[str]:
    """Yield for each learner by which power of the rows its processor seconds grow.

    There is one power for each size and the next.
    """
    for learner in dict.fromkeys(row["learner"] for row in rows):
        sizes_and_seconds = sorted(
            (row["rows"], row["fit_seconds"]) for row in rows if row["learner"] == learner
        )
        powers = [
            np.log(after[1] / before[1]) / np.log(after[0] / before[0])
            for before, after in pairwise(sizes_and_seconds)
        ]
        if powers:
            yield f"{learner}: seconds grow by the power " + ", ".join(
                f"{power:.2f}" for power in powers
            )


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
    parser.add_argument(
        "--learners", nargs="*", default=list(LEARNERS)[:4], choices=[*LEARNERS, ENGINES]
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--json", type=Path, help="append each measurement to this file, one a line"
    )
    parser.add_argument(
        "--folder", help="where engines remember what they have done; by default a new folder"
    )
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--limit", type=int, default=2048, help="MiB of each process")
    parser.add_argument("--segments", type=int, default=32)
    arguments = parser.parse_args()
    _, labels, probabilities = Clicks(arguments.seed).rows(TEST_ROWS, test=True)
    print(
        f"pairs that matter: {Clicks(arguments.seed).pairs}; clicks: "
        f"{labels.mean():.2%} of the test rows\n"
    )
    print(heading("rows | learner | log-loss | AUC | fit (s) | peak memory (MiB) | model (MiB)"))
    truth = f"{log_loss(labels, probabilities):.4f} | {roc_auc_score(labels, probabilities):.3f}"
    print(f"| | truth | {truth} | | | |", flush=True)
    kept = JsonLines(arguments.json)
    shown = list[Row]()
    folder = arguments.folder or tempfile.mkdtemp()
    for rows in arguments.rows:
        for learner in arguments.learners:
            row = kept.find(learner=learner, rows=rows, seed=arguments.seed)
            if row is None and learner == ENGINES:
                row = _in_a_process(
                    judge_engines,
                    rows,
                    arguments.seed,
                    folder,
                    workers=arguments.workers,
                    limit=arguments.limit,
                    segments=arguments.segments,
                )
            elif row is None:
                row = _in_a_process(judge, learner, rows, arguments.seed)
            if row is None:
                print(f"| {rows:,} | {learner} | not installed |", flush=True)
                continue
            if row not in kept.rows:
                kept.add(row)
            shown.append(row)
            print(f"| {cells(CELLS, row)} |{row['notes']}", flush=True)
    print("", *growth(shown), sep="\n")
    if arguments.folder is None:
        shutil.rmtree(folder)


def _in_a_process(work: Callable[..., Row], *arguments: Any, **options: Any) -> Row | None:
    """Return a measurement made in a fresh process; None where the learner is not installed."""
    # its process may start others
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        try:
            return pool.submit(work, *arguments, **options).result()
        except ImportError:
            return None


if __name__ == "__main__":
    main()
