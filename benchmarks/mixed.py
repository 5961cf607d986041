"""Tables with numbers.

Ours stands beside other learners, each with its defaults and one thread.

    python -m benchmarks.mixed --data FOLDER [--sets pima heart] [--learners ours LightGBM]
                               [--seed 0] [--json FILE]
    python -m benchmarks.mixed --show FILE
    python -m benchmarks.mixed --data FOLDER --by-time [--learners ours LightGBM]
    python -m benchmarks.mixed --scikit-learn [--learners ours LightGBM]
    python -m benchmarks.mixed --data FOLDER --without base trees tuples
    python -m benchmarks.mixed --data FOLDER --questions [--sets spambase hr]

A run that was stopped goes on where it was: what ``--json`` holds already, for the same seed, is
not measured again.

FOLDER holds CSV files with a header, the label in the column ``label``. Names are strings, an empty
cell is missing. Files below 10,000 rows are judged by three stratified folds, the others by one
stratified split with a quarter for testing. Printed are accuracy, log-loss, ROC AUC (two labels),
the processor seconds of a fit, predictions a second, the size of the model and, for ours, whether
forgetting a tenth and refitting gives the model that `fit` makes of the rest, to the byte; where
there are more rows than a model keeps, nothing is said. ``--by-time`` takes the ``*-full.csv.gz``
files, in the order of time: the last quarter is for testing. ``--scikit-learn`` takes wine, digits
and breast-cancer, which come with that package, as frames and as arrays. ``--without`` measures
ours beside ours without parts: without the additive base, without trees, without tuples of names.
``--questions`` compares `predict` of one row of a frame, of ten and of the test rows with
LightGBM's, which is given its categories ready made: medians of processor time, in turns.

A learner that is not installed is left out: ``pip install --group benchmarks``.
"""

from __future__ import annotations

import os
import pickle
import sys
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from unittest.mock import patch

# before NumPy is loaded: one thread for every learner
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pandas as pd
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    StackingClassifier,
)
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, log_loss, roc_auc_score
from sklearn.model_selection import StratifiedKFold, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from hammemo import MemoryClassifier
from hammemo.features.additive import fit_class_base
from hammemo.features.cells import choose_cells
from hammemo.features.cells.grow_forest import grow_forest
from hammemo.kernels import AutoSites
from hammemo.paper.experiments.measuring import Row, cells, heading, seconds, table

sys.path.insert(0, str(Path(__file__).parent))  # for python -m
from measures import JsonLines, options, rate
from tables import Wrapped, by_set

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

ONE_SPLIT_ROWS = 10_000
"""Rows from which on there is one split instead of three folds."""
MAX_CATEGORIES = 250
"""The most values of a column of names that scikit-learn's boosting takes; the most frequent ones
stay.
"""
LARGE = 4_000
"""Rows of a table from which on the price of a fit is stated."""


def names_of(X: pd.DataFrame) -> list[str]:
    """Return the columns of names."""
    types = pd.api.types
    return [
        str(name)
        for name in X
        if not types.is_numeric_dtype(X[name]) and not types.is_datetime64_any_dtype(X[name])
    ]


class Categories(Wrapped):
    """Names as pandas' categories, those of the training rows; dates as numbers."""

    def fit(self, X: Any, y: Any) -> Wrapped:
        """Learn the values, then the examples."""
        most = MAX_CATEGORIES if isinstance(self.learner, HistGradientBoostingClassifier) else None
        self.values = {name: sorted(X[name].value_counts().index[:most]) for name in names_of(X)}
        return super().fit(X, y)

    def as_input(self, X: Any) -> Any:
        """Return the frame."""
        X = X.copy()
        for name, values in self.values.items():
            X[name] = pd.Categorical(X[name].where(X[name].isin(values)), categories=values)
        return as_numbers(X)


class EarlyStopping(Categories):
    """LightGBM that stops when a fifth of the training rows gets worse."""

    def fit(self, X: Any, y: Any) -> Wrapped:
        """Learn four fifths of the rows."""
        from lightgbm import early_stopping

        self.values = {name: sorted(set(X[name])) for name in names_of(X)}
        inside, outside = train_test_split(
            np.arange(len(y)), test_size=0.2, random_state=0, stratify=y
        )
        held_out = [(self.as_input(X.iloc[outside]), y[outside])]
        self.learner.set_params(n_estimators=1000)
        stop = [early_stopping(50, verbose=False)]
        self.learner.fit(
            self.as_input(X.iloc[inside]), y[inside], eval_set=held_out, callbacks=stop
        )
        self.classes_ = self.learner.classes_
        return self


class Named(Wrapped):
    """Rows as they are, and which columns are names, for CatBoost."""

    def as_input(self, X: Any) -> Any:
        """Return the frame, dates as numbers."""
        return as_numbers(X)

    def fit_options(self, X: Any) -> dict[str, Any]:
        """Return which columns are categories."""
        return {"cat_features": names_of(X)}


class OneHot(Wrapped):
    """Frequent names as columns of 0 and 1, missing numbers as the median."""

    def fit(self, X: Any, y: Any) -> Wrapped:
        """Learn the columns, then the examples."""
        self.columns = one_hot(X)
        return super().fit(X, y)

    def as_input(self, X: Any) -> Any:
        """Return the array."""
        return self.columns.transform(as_numbers(X))


def one_hot(X: pd.DataFrame) -> Any:
    """Return what encodes frequent names and missing numbers, fitted to a frame.

    Names become columns of 0 and 1, missing numbers the median.
    """
    names = names_of(X)
    numbers = [name for name in X if name not in names]
    return make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore", min_frequency=5), names),
        (SimpleImputer(strategy="median"), numbers),
        sparse_threshold=0,
    ).fit(as_numbers(X))


def as_numbers(X: pd.DataFrame) -> pd.DataFrame:
    """Return a frame with dates as numbers of seconds, for learners that take no dates."""
    dates = [name for name in X if pd.api.types.is_datetime64_any_dtype(X[name])]
    return X.assign(**{name: X[name].astype("int64") / 1e9 for name in dates})


class Without(Wrapped):
    """Ours without one part: a base of zeros, trees without cuts, or no tuples."""

    def __init__(self, part: str) -> None:
        super().__init__(
            MemoryClassifier(kernel=AutoSites(budget=0)) if part == "tuples" else MemoryClassifier()
        )
        self.part = part

    def fit(self, X: Any, y: Any) -> Wrapped:
        """Learn the examples."""
        with ExitStack() as changed:
            if self.part == "base":
                changed.enter_context(patch.object(choose_cells, "fit_class_base", _base_of_zeros))
            elif self.part == "trees":
                changed.enter_context(patch.object(choose_cells, "grow_forest", _forest_of_roots))
            return super().fit(X, y)


def _base_of_zeros(*as_input: Any, **named: Any) -> Any:
    base = fit_class_base(*as_input, **named)
    return replace(base, coefficients=base.coefficients * 0, crossed=base.crossed * 0)


def _forest_of_roots(codes: Any, **named: Any) -> Any:
    return grow_forest(codes=np.zeros_like(codes), **named)  # equal rows cannot be cut


def _lightgbm() -> Any:
    from lightgbm import LGBMClassifier

    return LGBMClassifier(n_jobs=1, verbose=-1)


def _catboost() -> Any:
    from catboost import CatBoostClassifier

    return Named(CatBoostClassifier(thread_count=1, verbose=False, allow_writing_files=False))


def _explainable() -> Any:
    from interpret.glassbox import ExplainableBoostingClassifier

    return Categories(ExplainableBoostingClassifier(n_jobs=1))


def _forest() -> RandomForestClassifier:
    return RandomForestClassifier(n_jobs=1, random_state=0)


def _make_calibrated_forest() -> Any:
    return OneHot(CalibratedClassifierCV(_forest(), cv=5, ensemble=False))


def _histogram_boosting() -> Any:
    return Categories(
        HistGradientBoostingClassifier(categorical_features="from_dtype", random_state=0)
    )


def _stack() -> Any:
    line = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    parts = [("line", line), ("forest", _forest()), ("boosting", _lightgbm())]
    return OneHot(StackingClassifier(parts, LogisticRegression(max_iter=1000), cv=5))


LEARNERS: dict[str, Callable[[], Any]] = {
    "ours": MemoryClassifier,
    "LightGBM": lambda: Categories(_lightgbm()),
    "LightGBM, early stopping": lambda: EarlyStopping(_lightgbm()),
    "CatBoost": _catboost,
    "histogram boosting": _histogram_boosting,
    "EBM": _explainable,
    "random forest": lambda: OneHot(_forest()),
    "random forest, calibrated": _make_calibrated_forest,
    "stack": _stack,
}
ABLATIONS = {
    f"ours, without {part}": partial(Without, part) for part in ("base", "trees", "tuples")
}
LEARNERS |= ABLATIONS
NAMES = "set | learner | accuracy | log-loss | AUC | fit | predictions/s | MiB | forgets exactly"
CELLS = (
    "{set} | {learner} | {accuracy:.3f} | {log_loss:.3f} | {auc:.3f|} | {fit_seconds:.2f} s | "
    "{predictions_per_second:,.0f} | {mebibytes:.2f} | {forgets_exactly:yes/NO|}"
)


def read_table(path: Path) -> tuple[pd.DataFrame, NDArray[Any]]:
    """Return the columns and the labels of a file; columns of dates as dates."""
    frame = pd.read_csv(path)
    y = frame.pop("label").astype(str).to_numpy()
    for name in names_of(frame):
        try:
            frame[name] = pd.to_datetime(frame[name], format="ISO8601")
        except (ValueError, TypeError):
            frame[name] = frame[name].where(frame[name].notna(), "?").astype(str).astype(object)
    return frame, y


def list_packaged_tables() -> dict[str, Callable[[], Any]]:
    """Return what reads the tables that come with scikit-learn, as frames and as arrays."""

    def array(load: Any) -> tuple[Any, Any]:
        X, y = load(return_X_y=True)
        return X, y.astype(str)

    def frame(load: Any) -> tuple[Any, Any]:
        X, y = load(return_X_y=True, as_frame=True)
        return X, y.to_numpy().astype(str)

    loaders = {"wine": load_wine, "digits": load_digits, "breast-cancer": load_breast_cancer}
    frames = {name: partial(frame, load) for name, load in loaders.items()}
    return {**frames, **{f"{name}, array": partial(array, load) for name, load in loaders.items()}}


def splits(y: Any, seed: int) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Yield rows for training and rows for testing."""
    if len(y) >= ONE_SPLIT_ROWS:
        yield train_test_split(np.arange(len(y)), test_size=0.25, random_state=seed, stratify=y)
    else:
        yield from StratifiedKFold(3, shuffle=True, random_state=seed).split(np.zeros(len(y)), y)


def by_time(y: Any, _: int) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Yield the first three quarters of the rows for training, the last for testing."""
    cut = 3 * len(y) // 4
    yield np.arange(cut), np.arange(cut, len(y))


def measure_learner(name: str, learner: str, read: Callable[[], Any], seed: int, split: Any) -> Row:
    """Return the means over folds of one learner."""
    X, y = read()
    if learner != "ours":  # the others are wrapped for frames
        X = pd.DataFrame(X)
    rows: list[list[float]] = []
    losses: list[float] = []
    exactly = None
    for train, test in split(y, seed):
        model = LEARNERS[learner]()
        indexed = X.iloc if hasattr(X, "iloc") else X
        learnt = indexed[train]
        questions = indexed[test]
        took = seconds(model.fit, learnt, y[train])
        answers = np.asarray(model.predict_proba(questions), np.float64)
        speed = rate(lambda: model.predict_proba(questions), len(test))  # noqa: B023
        rows.append(
            [*_judge(model, answers, y[test]), took, speed, len(pickle.dumps(model)) / 2**20]
        )
        losses += _losses(model, answers, y[test])
        if learner == "ours" and exactly is None:
            exactly = _forgets_exactly(model, learnt, y[train])
    accuracy, loss, auc, took, speed, size = np.mean(rows, axis=0).tolist()
    return {
        "set": name,
        "learner": learner,
        "rows": len(y),
        "labels": len(set(y)),
        "accuracy": accuracy,
        "log_loss": loss,
        "auc": None if np.isnan(auc) else auc,
        "fit_seconds": took,
        "predictions_per_second": speed,
        "mebibytes": size,
        "forgets_exactly": exactly,
        "seed": seed,
        "losses": losses,
    }


def _losses(model: Any, answers: Any, y: Any) -> list[float]:
    """Return the loss of each row, to compare learners row by row."""
    # every learner has its classes in order
    places = np.searchsorted(np.asarray(model.classes_).astype(str), y)
    return [
        round(float(loss), 4)
        for loss in -np.log(np.clip(answers[np.arange(len(y)), places], 1e-15, 1))
    ]


class Judgement(NamedTuple):
    """How good answers are."""

    accuracy: float
    log_loss: float
    auc: float
    """The area under the ROC curve; NaN with more than two labels."""


def _judge(model: Any, answers: Any, y: Any) -> Judgement:
    """Judge the probabilities that a model gives."""
    labels = np.asarray(model.classes_).astype(str)
    auc = float(roc_auc_score(y == labels[1], answers[:, 1])) if len(labels) == 2 else np.nan
    predictions = labels[answers.argmax(axis=1)]
    return Judgement(
        accuracy=float(accuracy_score(y, predictions)),
        log_loss=float(log_loss(y, answers, labels=labels)),
        auc=auc,
    )


def _forgets_exactly(model: MemoryClassifier, X: Any, y: Any) -> bool | None:
    """Return whether a tenth forgotten leaves the model of the rest, to the byte.

    Return None where not all rows are kept.
    """
    if not model.report().keeps_all:
        return None
    gone = np.random.default_rng(0).random(len(y)) < 0.1
    less = model.snapshot().forget(X[gone], y[gone]).refit()
    return less.digest() == MemoryClassifier().fit(X[~gone], y[~gone]).digest()


def summary(sets: dict[str, dict[str, Row]]) -> list[str]:
    """Return accuracy / log-loss of every learner, a row a set.

    The last rows are means and summed times over sets that all have.
    """
    learners = [name for name in LEARNERS if any(name in row for row in sets.values())]
    shared = [row for row in sets.values() if all(name in row for name in learners)]
    rows: list[Row] = [
        {
            "set": name,
            **{size: next(iter(row.values()))[size] for size in ("rows", "labels")},
            **{one: _both([row[one]] if one in row else []) for one in learners},
        }
        for name, row in sets.items()
    ]
    sizes = {"rows": None, "labels": None}
    means = {one: _both([row[one] for row in shared]) for one in learners}
    took = {one: f"{sum(row[one]['fit_seconds'] for row in shared):.1f}" for one in learners}
    rows += [
        {"set": f"mean of {len(shared)}", **sizes, **means},
        {"set": "fits, processor s", **sizes, **took},
    ]
    return table(rows)


def _both(rows: list[Row]) -> str:
    if not rows:
        return ""
    return " / ".join(
        f"{np.mean([one[name] for one in rows]):.3f}" for name in ("accuracy", "log_loss")
    )


def comparisons(sets: dict[str, dict[str, Row]]) -> list[str]:
    """Return how ours stands beside the others: differences of means, and the worst set of each."""
    lines = []
    for learner in LEARNERS:
        both = {
            name: (row["ours"], row[learner])
            for name, row in sets.items()
            if "ours" in row and learner in row
        }
        if learner == "ours" or not both:
            continue
        ahead = {
            name: ours["accuracy"] - others["accuracy"] for name, (ours, others) in both.items()
        }
        losses = [ours["log_loss"] - others["log_loss"] for ours, others in both.values()]
        times = [sum(pair[k]["fit_seconds"] for pair in both.values()) for k in (0, 1)]
        worst = min(ahead, key=lambda name: ahead[name])
        apart = {name: _errors_apart(*pair) for name, pair in both.items()}
        lower, higher = ([name for name, z in apart.items() if sign * z > 2] for sign in (-1, 1))
        lines.append(
            f"ours beside {learner}, {len(both)} sets: "
            f"accuracy {np.mean(list(ahead.values())):+.4f}, log-loss {np.mean(losses):+.4f}; "
            f"least on {worst}: {ahead[worst]:+.4f}; fits take {times[0] / times[1]:.1f} times "
            "its processor time"
        )
        lines.append(
            "log-loss beyond two standard errors of the rows' differences: "
            f"lower than {learner} on {len(lower)}, higher on {len(higher)} of {len(both)} sets "
            f"({', '.join(higher) or 'none'})"
        )
    lines += _prices(sets)
    ours = [row["ours"] for row in sets.values() if "ours" in row]
    exact = [trial["forgets_exactly"] for trial in ours if trial["forgets_exactly"] is not None]
    return [
        *lines,
        f"a tenth forgotten, then refit, equal to the byte: {sum(exact)} of {len(exact)} sets",
    ]


def _errors_apart(ours: Row, others: Row) -> float:
    """Return the mean difference of the rows' losses, in standard errors.

    It is below zero where ours is lower.
    """
    apart = np.subtract(ours["losses"], others["losses"])
    error = float(apart.std(ddof=1)) / len(apart) ** 0.5
    return float(apart.mean() / max(error, 1e-12))


def _prices(sets: dict[str, dict[str, Row]]) -> list[str]:
    """Return the price of a fit on large tables, as a multiple of LightGBM's."""
    lines = []
    for which, most, least in (("two labels", 2, 2), ("more labels", 1_000, 3)):
        prices = {
            name: row["ours"]["fit_seconds"] / row["LightGBM"]["fit_seconds"]
            for name, row in sets.items()
            if {"ours", "LightGBM"} <= set(row)
            and row["ours"]["rows"] >= LARGE
            and least <= row["ours"]["labels"] <= most
        }
        if prices:
            each = ", ".join(f"{name} {price:.1f}" for name, price in prices.items())
            median = np.median(list(prices.values()))
            lines.append(
                f"fit beside LightGBM, {which}, {LARGE:,} rows or more: "
                f"median {median:.1f} ({each})"
            )
    return lines


def time_questions(name: str, read: Callable[[], Any], seed: int) -> str:
    """Return the processor time of questions of one row, of ten and of all test rows.

    Each has the time of ours, that of LightGBM, and the ratio.
    """
    X, y = read()
    train, test = next(splits(y, seed))
    ours = MemoryClassifier().fit(X.iloc[train], y[train])
    lightgbm = Categories(_lightgbm()).fit(X.iloc[train], y[train])
    line = [name]
    for n, rounds in ((1, 200), (10, 100), (len(test), 7)):
        took: tuple[list[float], list[float]] = ([], [])
        for turn in range(rounds):
            rows = X.iloc[np.resize(np.roll(test, -turn * n), n)]
            for times, model, inputs in zip(
                took, (ours, lightgbm.learner), (rows, lightgbm.as_input(rows)), strict=True
            ):
                times.append(seconds(model.predict, inputs))
        our_ms, other = (float(np.median(times[1:])) * 1000 for times in took)
        line.append(f"{our_ms:.2f} / {other:.2f} ms, {our_ms / other:.2f}")
    return " | ".join(line)


def find_tables(arguments: argparse.Namespace) -> dict[str, Callable[[], Any]]:
    """Return what reads each table that is to be measured."""
    if arguments.scikit_learn:
        tables = list_packaged_tables()
    elif arguments.show:
        tables = {}
    else:
        pattern = "*-full.csv.gz" if arguments.by_time else "*.csv"
        paths = sorted(arguments.data.glob(pattern), key=lambda path: path.stat().st_size)
        tables = {path.name.split(".")[0]: partial(read_table, path) for path in paths}
    if not arguments.sets:
        return tables
    return {name: read for name, read in tables.items() if name in arguments.sets}


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--sets", nargs="*")
    parser.add_argument(
        "--learners", nargs="*", default=[one for one in LEARNERS if one not in ABLATIONS]
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--by-time", action="store_true", help="the full files, the last quarter for testing"
    )
    parser.add_argument("--scikit-learn", action="store_true", help="the tables that come with it")
    parser.add_argument(
        "--without",
        nargs="+",
        choices=("base", "trees", "tuples"),
        help="ours, and ours without these",
    )
    parser.add_argument(
        "--questions", action="store_true", help="the price of predict beside LightGBM's"
    )
    parser.add_argument(
        "--json", type=Path, help="append each measurement to this file, one a line"
    )
    parser.add_argument(
        "--show", type=Path, nargs="*", help="print what such files hold, and measure nothing"
    )
    arguments = parser.parse_args()
    if arguments.without:
        arguments.learners = ["ours", *(f"ours, without {part}" for part in arguments.without)]
    if arguments.data is None and not arguments.show and not arguments.scikit_learn:
        parser.error("--data names the folder with the tables")
    tables = find_tables(arguments)
    if arguments.questions:
        print(heading("set | one row | ten rows | the test rows"))
        for name, read in tables.items():
            print(f"| {time_questions(name, read, arguments.seed)} |", flush=True)
        return
    kept = JsonLines(*(arguments.show or [arguments.json]))
    print(heading(NAMES))
    for name, read in tables.items():
        for learner in arguments.learners:
            if kept.find(set=name, learner=learner, seed=arguments.seed):
                continue
            try:
                row = kept.add(
                    measure_learner(
                        name,
                        learner,
                        read,
                        seed=arguments.seed,
                        split=by_time if arguments.by_time else splits,
                    )
                )
            except (ImportError, ValueError) as error:  # what some learners cannot take is said
                print(f"| {name} | {learner} | left out: {str(error)[:100]} |", flush=True)
                continue
            print(f"| {cells(CELLS, row)} |", flush=True)
    sets = by_set([row for row in kept.rows if arguments.show or row["seed"] == arguments.seed])
    if arguments.show:
        print(
            "\n".join(f"| {cells(CELLS, row)} |" for rows in sets.values() for row in rows.values())
        )
    print("\naccuracy / log-loss:\n\n" + "\n".join([*summary(sets), "", *comparisons(sets)]))


if __name__ == "__main__":
    main()
