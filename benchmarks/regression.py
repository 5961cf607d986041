"""Tables with a number to predict.

Ours stands beside other learners, each with its defaults and one thread.

    python -m benchmarks.regression --data FOLDER [--sets wage airfare] [--learners ours LightGBM]
                                    [--json FILE]
    python -m benchmarks.regression --show FILE
    python -m benchmarks.regression --data FOLDER --by-time | --wrong [--sets diabetes wage]
    python -m benchmarks.regression --made-up 1000000

FOLDER holds CSV files with a header, the target in the column ``target``. Files below 4,000 rows
are judged by three shuffled folds, the others by one split with a quarter for testing. Printed are
RMSE and MAE, both divided by the standard deviation of the training targets, the pinball loss at
.1, .5 and .9, the coverage of 80 % intervals, and the processor seconds of a fit; then geometric
means of the ratios of ours to each other learner. A run that was stopped goes on where it was: what
``--json`` holds is not measured again. A learner that is not installed is left out.

``--by-time`` takes bikeshare in the order of month, day and hour: the last quarter is for testing.
``--wrong`` makes a tenth of the training targets five standard deviations too high, forgets these
rows, and refits: of the RMSE that they cost, printed is the share that `forget` alone wins back.
``--made-up`` takes a table of eight numbers with that many rows, and prints the peak of memory
above that of the table, too; the choice is made by the rows that a model keeps.
"""

from __future__ import annotations

import os
import resource
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

# before NumPy is loaded: one thread for every learner
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pandas as pd
from sklearn.ensemble import RandomForestRegressor, StackingRegressor
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import KFold, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from hammemo import MemoryRegressor
from hammemo.paper.experiments.measuring import Row, cells, heading, seconds

sys.path.insert(0, str(Path(__file__).parent))  # for python -m
from measures import JsonLines, options
from mixed import as_numbers, names_of, one_hot
from tables import by_set

if TYPE_CHECKING:
    from collections.abc import Callable

LEVELS = (0.1, 0.5, 0.9)
ONE_SPLIT_ROWS = 4_000


class Categories:
    """A learner that reads names as categories of the training rows, and dates as numbers."""

    def __init__(self, learner: Any) -> None:
        self.learner = learner

    def fit(self, X: pd.DataFrame, y: Any) -> Categories:
        """Learn the values, then the rows."""
        self.values = {name: sorted(set(X[name].dropna().astype(str))) for name in names_of(X)}
        self.learn(self.as_input(X), y)
        return self

    def learn(self, X: pd.DataFrame, y: Any) -> None:
        """Learn rows with categories."""
        self.learner.fit(X, y)

    def predict(self, X: pd.DataFrame) -> Any:
        """Return the predicted numbers."""
        return self.learner.predict(self.as_input(X))

    def as_input(self, X: pd.DataFrame) -> pd.DataFrame:
        """Return the frame."""
        X = X.copy()
        for name, values in self.values.items():
            names = X[name].astype(str)
            X[name] = pd.Categorical(
                names.where(names.isin(values) & X[name].notna()), categories=values
            )
        return as_numbers(X)


class EarlyStopping(Categories):
    """LightGBM that stops when a tenth of the training rows gets worse."""

    def learn(self, X: pd.DataFrame, y: Any) -> None:
        """Learn nine tenths of the rows."""
        from lightgbm import early_stopping

        inside, outside = train_test_split(np.arange(len(y)), test_size=0.1, random_state=0)
        held_out = [(X.iloc[outside], y[outside])]
        stop = [early_stopping(50, verbose=False)]
        self.learner.set_params(learning_rate=0.05, n_estimators=2000)
        self.learner.fit(X.iloc[inside], y[inside], eval_set=held_out, callbacks=stop)


class CatBoosted(Categories):
    """CatBoost, which is told which columns are names."""

    def learn(self, X: pd.DataFrame, y: Any) -> None:
        """Learn the rows."""
        self.learner.fit(X, y, cat_features=list(self.values))

    def as_input(self, X: pd.DataFrame) -> pd.DataFrame:
        """Return the frame with names as strings."""
        return as_numbers(
            X.assign(
                **{name: X[name].where(X[name].notna(), "?").astype(str) for name in self.values}
            )
        )


class Arrays(Categories):
    """Frequent names as columns of 0 and 1, missing numbers as the median."""

    def fit(self, X: pd.DataFrame, y: Any) -> Arrays:
        """Learn the columns, then the rows."""
        self.columns = one_hot(X)
        self.learner.fit(self.as_input(X), y)
        return self

    def as_input(self, X: pd.DataFrame) -> Any:
        """Return the array."""
        return self.columns.transform(as_numbers(X))


def _lightgbm() -> Any:
    from lightgbm import LGBMRegressor

    return LGBMRegressor(n_jobs=1, verbose=-1)


def _catboost() -> Any:
    from catboost import CatBoostRegressor

    return CatBoosted(CatBoostRegressor(thread_count=1, verbose=False, allow_writing_files=False))


def _ridge() -> Any:
    return make_pipeline(StandardScaler(), RidgeCV(np.logspace(-2, 4, 13)))


def _forest() -> RandomForestRegressor:
    return RandomForestRegressor(n_jobs=1, random_state=0)


def _stack() -> Any:
    parts = [("ridge", _ridge()), ("forest", _forest()), ("boosting", _lightgbm())]
    return Arrays(StackingRegressor(parts, cv=5))


LEARNERS: dict[str, Callable[[], Any]] = {
    "ours": MemoryRegressor,
    "LightGBM": lambda: Categories(_lightgbm()),
    "LightGBM, early stopping": lambda: EarlyStopping(_lightgbm()),
    "CatBoost": _catboost,
    "random forest": lambda: Arrays(_forest()),
    "ridge": lambda: Arrays(_ridge()),
    "stack": _stack,
}
NAMES = "set | learner | RMSE | MAE | pinball | coverage | fit"
CELLS = (
    "{set} | {learner} | {rmse:.4f} | {mae:.4f} | {pinball:.4f|} | {coverage:.3f|} | "
    "{fit_seconds:.2f} s"
)


def splits(n: int) -> list[Any]:
    """Return rows for training and rows for testing."""
    if n >= ONE_SPLIT_ROWS:
        return [train_test_split(np.arange(n), test_size=0.25, random_state=0)]
    return list(KFold(3, shuffle=True, random_state=0).split(np.arange(n)))


class Table(NamedTuple):
    """Columns and targets."""

    name: str
    X: pd.DataFrame
    y: Any


MADE_UP_TEST_ROWS = 20_000


def read_table(path: Path) -> Table:
    """Return the name, the columns and the targets of a file."""
    X = pd.read_csv(path)
    y = X.pop("target").to_numpy(np.float64)
    return Table(path.stem, X, y)


def in_time(table: Table) -> Table:
    """Return bikeshare in the order of time, of which the first three quarters are for training."""
    name, X, y = table
    order = (
        X.assign(row=np.arange(len(y)))
        .sort_values(["mnth", "day", "hr"], kind="stable")
        .row.to_numpy()
    )
    return Table(f"{name}, by time", X.iloc[order].reset_index(drop=True), y[order])


def make_series(rows: int) -> Table:
    """Return eight numbers.

    The target is a sum of waves, a product and a step, with noise of .3 of its deviation.
    """
    rng = np.random.default_rng(0)
    x = rng.normal(size=(rows + MADE_UP_TEST_ROWS, 8)).round(4)
    clean = (
        np.sin(2 * x[:, 0])
        + 0.5 * x[:, 1] * x[:, 2]
        + np.where(x[:, 3] > x[:, 4], 1.0, -1.0)
        + 0.3 * x[:, 5]
    )
    y = clean / clean.std() + rng.normal(scale=0.3, size=len(x))
    return Table(f"made up, {rows:,}", pd.DataFrame(x, columns=[f"x{j}" for j in range(8)]), y)


def peak() -> float:
    """Return the largest memory that the process has held, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure_recovery(table: Table) -> Row:
    """Return RMSE with wrong targets, without them after `forget`, and after a refit.

    They are means over folds.
    """
    name, X, y = table
    trials = []
    for train, test in splits(len(y)):
        wrong = np.random.default_rng(0).random(len(train)) < 0.1
        bad = train[wrong]
        scale = y[train].std()
        questions = X.iloc[test]
        targets = y[train] + 5 * scale * wrong

        def error(
            model: MemoryRegressor,
            questions: pd.DataFrame = questions,
            test: Any = test,
            scale: Any = scale,
        ) -> float:
            return float(np.sqrt(np.mean((y[test] - model.predict(questions)) ** 2)) / scale)

        model = MemoryRegressor().fit(X.iloc[train], targets)
        with_wrong = error(model)
        model.forget(X.iloc[bad], y[bad] + 5 * scale)
        trials.append([with_wrong, error(model), error(model.refit())])
    rmse = np.mean(trials, axis=0).tolist()
    named = dict(zip(("wrong", "forgotten", "refitted"), rmse, strict=True))
    return {"set": name, **named, "won_back": (rmse[0] - rmse[1]) / (rmse[0] - rmse[2])}


def measure_learner(table: Table, learner: str, given_splits: list[Any] | None = None) -> Row:
    """Return the means over folds of one learner."""
    name, X, y = table
    trials = []
    for train, test in given_splits or splits(len(y)):
        model = LEARNERS[learner]()
        took = seconds(model.fit, X.iloc[train], y[train])
        errors = y[test] - model.predict(X.iloc[test])
        scale = y[train].std()
        pinball = coverage = np.nan
        if isinstance(model, MemoryRegressor):
            above = y[test][:, None] - model.predict_quantiles(X.iloc[test], LEVELS)
            pinball = (
                np.maximum(np.array(LEVELS) * above, (np.array(LEVELS) - 1) * above).mean() / scale
            )
            coverage = ((above[:, 0] >= 0) & (above[:, 2] <= 0)).mean()
        trials.append(
            [
                np.sqrt(np.mean(errors**2)) / scale,
                np.abs(errors).mean() / scale,
                pinball,
                coverage,
                took,
            ]
        )
    rmse, mae, pinball, coverage, took = np.mean(trials, axis=0).tolist()
    description = {
        name: None if np.isnan(one) else one
        for name, one in (("pinball", pinball), ("coverage", coverage))
    }
    return {
        "set": name,
        "learner": learner,
        "rows": len(y),
        "rmse": rmse,
        "mae": mae,
        **description,
        "fit_seconds": took,
    }


def comparisons(sets: dict[str, dict[str, Row]]) -> list[str]:
    """Return how ours stands beside the others.

    The sentences have geometric means of ratios, and how often ours is lower.
    """
    lines = []
    for learner in LEARNERS:
        both = [
            (row["ours"], row[learner]) for row in sets.values() if "ours" in row and learner in row
        ]
        if learner == "ours" or not both:
            continue
        rmse, mae, price = (
            np.array([ours[name] / others[name] for ours, others in both])
            for name in ("rmse", "mae", "fit_seconds")
        )
        large = np.array([ours["rows"] >= ONE_SPLIT_ROWS for ours, _ in both])
        of_large = (
            f", {np.median(price[large]):.1f} in the median of larger tables" if large.any() else ""
        )
        lines.append(
            f"ours beside {learner}, {len(both)} sets: RMSE x {np.exp(np.log(rmse).mean()):.3f} "
            f"(lower on {(rmse < 1).sum()}), MAE x {np.exp(np.log(mae).mean()):.3f}; "
            f"a fit takes {np.median(price):.1f} times its processor time in the "
            f"median{of_large}"
        )
    covered = [row["ours"]["coverage"] for row in sets.values() if "ours" in row]
    if covered:
        lines.append(
            f"80 % intervals cover {np.mean(covered):.3f}, "
            f"from {min(covered):.3f} to {max(covered):.3f}"
        )
    return lines


def special(arguments: Any) -> None:
    """Measure in the order of time, what forgetting wins back, or a made-up table."""
    if arguments.wrong:
        print(heading("set | wrong | forgotten | refitted | won back by forget"))
        for path in sorted(arguments.data.glob("*.csv"), key=lambda path: path.stat().st_size):
            if not arguments.sets or path.stem in arguments.sets:
                template = "{set} | {wrong:.3f} | {forgotten:.3f} | {refitted:.3f} | {won_back:.0%}"
                print(f"| {cells(template, measure_recovery(read_table(path)))} |", flush=True)
        return
    table = (
        make_series(arguments.made_up)
        if arguments.made_up
        else in_time(read_table(arguments.data / "bikeshare.csv"))
    )
    n = len(table[2])
    first = arguments.made_up or 3 * n // 4
    print(heading(f"{NAMES} | MiB"))
    for learner in arguments.learners:
        before = peak()
        try:
            row = measure_learner(table, learner, [(np.arange(first), np.arange(first, n))])
        except ImportError:
            continue
        print(f"| {cells(CELLS, row)} | {peak() - before:,.0f} |", flush=True)


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--sets", nargs="*")
    parser.add_argument("--learners", nargs="*", default=list(LEARNERS))
    parser.add_argument(
        "--json", type=Path, help="append each measurement to this file, one a line"
    )
    parser.add_argument(
        "--show", type=Path, nargs="*", help="print what such files hold, and measure nothing"
    )
    parser.add_argument("--by-time", action="store_true", help="bikeshare in the order of time")
    parser.add_argument(
        "--wrong", action="store_true", help="what forgetting wrong targets wins back"
    )
    parser.add_argument(
        "--made-up", type=int, metavar="ROWS", help="a made-up table of so many rows"
    )
    arguments = parser.parse_args()
    if arguments.data is None and not (arguments.show or arguments.made_up):
        parser.error("--data names the folder with the tables")
    if arguments.made_up or arguments.by_time or arguments.wrong:
        special(arguments)
        return
    paths = (
        []
        if arguments.show
        else sorted(arguments.data.glob("*.csv"), key=lambda path: path.stat().st_size)
    )
    kept = JsonLines(*(arguments.show or [arguments.json]))
    print(heading(NAMES))
    for path in paths:
        for learner in arguments.learners:
            if (arguments.sets and path.stem not in arguments.sets) or kept.find(
                set=path.stem, learner=learner
            ):
                continue
            try:
                row = kept.add(measure_learner(read_table(path), learner))
            except ImportError:
                continue
            print(f"| {cells(CELLS, row)} |", flush=True)
    sets = by_set(kept.rows)
    if arguments.show:
        print(
            "\n".join(f"| {cells(CELLS, row)} |" for rows in sets.values() for row in rows.values())
        )
    print("\n" + "\n".join(comparisons(sets)))


if __name__ == "__main__":
    main()
