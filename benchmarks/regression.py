"""Tables with a number to predict: ours by default beside other learners, each with its defaults and one thread.

    python -m benchmarks.regression --data FOLDER [--sets wage airfare] [--learners ours LightGBM] [--json FILE]
    python -m benchmarks.regression --show FILE

FOLDER holds CSV files with a header, the target in the column ``target``. Files below 4,000 rows are judged by three
shuffled folds, the others by one split with a quarter for testing. Printed are RMSE and MAE, both divided by the
standard deviation of the training targets, the pinball loss at .1, .5 and .9, the coverage of 80 % intervals, and the
processor seconds of a fit; then geometric means of the ratios of ours to each other learner. A run that was stopped
goes on where it was: what ``--json`` holds is not measured again. A learner that is not installed is left out.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before NumPy is loaded: one thread for every learner

import numpy as np
import pandas as pd
from sklearn.ensemble import RandomForestRegressor, StackingRegressor
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import KFold, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from hammemo import MemoryRegressor
from hammemo.paper.experiments.measuring import Row, cells, heading, seconds

sys.path.insert(0, str(Path(__file__).parent))
from measures import JsonLines, options
from mixed import as_numbers, names_of, one_hot
from tables import by_set

if TYPE_CHECKING:
    from collections.abc import Callable

LEVELS = (0.1, 0.5, 0.9)
ONE_SPLIT_ROWS = 4_000


class Categories:
    """A learner whose names are pandas' categories, those of the training rows; dates are numbers."""

    def __init__(self, learner: Any) -> None:
        self.learner = learner

    def fit(self, X: pd.DataFrame, y: Any) -> Categories:
        """Learn the values, then the rows."""
        self.values = {name: sorted(set(X[name].dropna().astype(str))) for name in names_of(X)}
        self.learn(self.given(X), y)
        return self

    def learn(self, X: pd.DataFrame, y: Any) -> None:
        """Learn rows with categories."""
        self.learner.fit(X, y)

    def predict(self, X: pd.DataFrame) -> Any:
        """Return the predicted numbers."""
        return self.learner.predict(self.given(X))

    def given(self, X: pd.DataFrame) -> pd.DataFrame:
        """Return the frame."""
        X = X.copy()
        for name, values in self.values.items():
            names = X[name].astype(str)
            X[name] = pd.Categorical(names.where(names.isin(values) & X[name].notna()), categories=values)
        return as_numbers(X)


class EarlyStopping(Categories):
    """LightGBM that stops when a tenth of the training rows gets worse."""

    def learn(self, X: pd.DataFrame, y: Any) -> None:
        """Learn nine tenths of the rows."""
        from lightgbm import early_stopping

        inside, outside = train_test_split(np.arange(len(y)), test_size=0.1, random_state=0)
        held_out, stop = [(X.iloc[outside], y[outside])], [early_stopping(50, verbose=False)]
        self.learner.set_params(learning_rate=0.05, n_estimators=2000)
        self.learner.fit(X.iloc[inside], y[inside], eval_set=held_out, callbacks=stop)


class CatBoosted(Categories):
    """CatBoost, which is told which columns are names."""

    def learn(self, X: pd.DataFrame, y: Any) -> None:
        """Learn the rows."""
        self.learner.fit(X, y, cat_features=list(self.values))

    def given(self, X: pd.DataFrame) -> pd.DataFrame:
        """Return the frame with names as strings."""
        return as_numbers(X.assign(**{name: X[name].astype(str) for name in self.values}))


class Arrays(Categories):
    """Frequent names as columns of 0 and 1, missing numbers as the median."""

    def fit(self, X: pd.DataFrame, y: Any) -> Arrays:
        """Learn the columns, then the rows."""
        self.columns = one_hot(X)
        self.learner.fit(self.given(X), y)
        return self

    def given(self, X: pd.DataFrame) -> Any:
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
CELLS = "{set} | {learner} | {rmse:.4f} | {mae:.4f} | {pinball:.4f|} | {coverage:.3f|} | {fit_seconds:.2f} s"


def splits(n: int) -> list[Any]:
    """Return rows for training and rows for testing."""
    if n >= ONE_SPLIT_ROWS:
        return [train_test_split(np.arange(n), test_size=0.25, random_state=0)]
    return list(KFold(3, shuffle=True, random_state=0).split(np.arange(n)))


def measured(path: Path, learner: str) -> Row:
    """Return the means over folds of one learner."""
    X = pd.read_csv(path)
    y = X.pop("target").to_numpy(np.float64)
    found = []
    for train, test in splits(len(y)):
        model = LEARNERS[learner]()
        took = seconds(model.fit, X.iloc[train], y[train])
        errors, scale = y[test] - model.predict(X.iloc[test]), y[train].std()
        pinball = coverage = np.nan
        if isinstance(model, MemoryRegressor):
            above = y[test][:, None] - model.predict_quantiles(X.iloc[test], LEVELS)
            pinball = np.maximum(np.array(LEVELS) * above, (np.array(LEVELS) - 1) * above).mean() / scale
            coverage = ((above[:, 0] >= 0) & (above[:, 2] <= 0)).mean()
        found.append([np.sqrt(np.mean(errors**2)) / scale, np.abs(errors).mean() / scale, pinball, coverage, took])
    rmse, mae, pinball, coverage, took = np.mean(found, axis=0).tolist()
    told = {name: None if np.isnan(one) else one for name, one in (("pinball", pinball), ("coverage", coverage))}
    return {"set": path.stem, "learner": learner, "rows": len(y), "rmse": rmse, "mae": mae, **told, "fit_seconds": took}


def comparisons(sets: dict[str, dict[str, Row]]) -> list[str]:
    """Return how ours stands beside the others: geometric means of ratios, and how often ours is lower."""
    lines = []
    for learner in LEARNERS:
        both = [(row["ours"], row[learner]) for row in sets.values() if "ours" in row and learner in row]
        if learner == "ours" or not both:
            continue
        rmse, mae, price = (
            np.array([ours[name] / theirs[name] for ours, theirs in both]) for name in ("rmse", "mae", "fit_seconds")
        )
        large = np.array([ours["rows"] >= ONE_SPLIT_ROWS for ours, _ in both])
        of_large = f", {np.median(price[large]):.1f} in the median of larger tables" if large.any() else ""
        lines.append(
            f"ours beside {learner}, {len(both)} sets: RMSE x {np.exp(np.log(rmse).mean()):.3f} (lower on "
            f"{(rmse < 1).sum()}), MAE x {np.exp(np.log(mae).mean()):.3f}; a fit takes {np.median(price):.1f} times "
            f"its processor time in the median{of_large}"
        )
    covered = [row["ours"]["coverage"] for row in sets.values() if "ours" in row]
    if covered:
        lines.append(f"80 % intervals cover {np.mean(covered):.3f}, from {min(covered):.3f} to {max(covered):.3f}")
    return lines


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--sets", nargs="*")
    parser.add_argument("--learners", nargs="*", default=list(LEARNERS))
    parser.add_argument("--json", type=Path, help="append each measurement to this file, one a line")
    parser.add_argument("--show", type=Path, nargs="*", help="print what such files hold, and measure nothing")
    given = parser.parse_args()
    if given.data is None and not given.show:
        parser.error("--data names the folder with the tables")
    paths = [] if given.show else sorted(given.data.glob("*.csv"), key=lambda path: path.stat().st_size)
    kept = JsonLines(*(given.show or [given.json]))
    print(heading(NAMES))
    for path in paths:
        for learner in given.learners:
            if (given.sets and path.stem not in given.sets) or kept.find(set=path.stem, learner=learner):
                continue
            try:
                row = kept.add(measured(path, learner))
            except ImportError:
                continue
            print(f"| {cells(CELLS, row)} |", flush=True)
    sets = by_set(kept.rows)
    if given.show:
        print("\n".join(f"| {cells(CELLS, row)} |" for rows in sets.values() for row in rows.values()))
    print("\n" + "\n".join(comparisons(sets)))


if __name__ == "__main__":
    main()
