"""Tables of categories.

Ours stands beside other learners, each with its defaults and one thread.

    python -m benchmarks.tables --data FOLDER [--sets car adult] [--learners ours LightGBM]
                                [--seed 0] [--json FILE]
    python -m benchmarks.tables --show FILE
    python -m benchmarks.tables --data FOLDER --rates [--sets car adult] [--rounds 9] [--json FILE]

A run that was stopped goes on where it was: what ``--json`` holds already, for the same seed, is
not measured again.

FOLDER holds CSV files with a header, the label in the last column; values are strings. Files below
20,000 rows are judged by five stratified folds, the others by one stratified split with a quarter
for testing. Printed are accuracy, log-loss, the seconds of a fit, predictions a second
(`predict_proba`, strings in, encoding counted), the size of the model, and for ours, in the first
fold, the time to forget one row (`forget_one`) and whether forgetting a tenth and refitting gives
the model that `fit` makes of the rest, to the byte; for ten batches, whether refitting gives the
model of `fit`. Times are processor seconds. At the end ours is compared with the others.

A learner that is not installed is left out, and so is one whose fit of a set takes more than
`--patience` seconds; both are said. A learner whose fit takes more than five minutes is judged by
the first fold alone. LightGBM, CatBoost and EBM: ``pip install --group benchmarks``.

``--rates`` compares the predictions a second of ours and LightGBM. Both are fitted to the first
training part and asked about its test part by `predict_proba`. The first call of each is not
counted: ours then makes what it answers from. After it they take turns, so that other work on the
machine slows both, and the median of the rounds is shown. Sets below 1,000 rows are left out: there
the overhead of a call decides.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

# before NumPy is loaded: one thread for every learner
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, log_loss
from sklearn.model_selection import StratifiedKFold, train_test_split
from sklearn.naive_bayes import CategoricalNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder

from hammemo import MemoryClassifier
from hammemo.kernels import PositionalHamming
from hammemo.memories import Exact
from hammemo.paper.experiments.measuring import Row, cells, heading, seconds, table
from hammemo.votes import LogLinear

sys.path.insert(0, str(Path(__file__).parent))  # for python -m
from measures import JsonLines, options, rate

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

ONE_SPLIT_ROWS = 20_000
"""Rows from which on there is one split instead of five folds."""
ONE_FOLD_SECONDS = 300
"""Seconds of a fit from which on a learner is judged by the first fold alone."""
MIN_RATE_ROWS = 1000
"""Sets with fewer rows have no rates."""
PAIR = ("ours", "LightGBM")


class Wrapped:
    """A learner that is given its rows, and told of them, in a form of its own."""

    def __init__(self, learner: Any) -> None:
        self.learner = learner

    def fit(self, X: Any, y: Any) -> Wrapped:
        """Learn the examples."""
        self.learner.fit(self.as_input(X), y, **self.fit_options(X))
        self.classes_ = self.learner.classes_
        return self

    def predict_proba(self, X: Any) -> Any:
        """Return the probability of each label."""
        return self.learner.predict_proba(self.as_input(X))

    def as_input(self, X: Any) -> Any:
        """Return what the learner is given for rows of strings."""
        return X

    def fit_options(self, X: Any) -> dict[str, Any]:  # noqa: ARG002  (most are told nothing)
        """Return what `fit` is told besides."""
        return {}


class Codes(Wrapped):
    """Strings to whole numbers from 1 on, column by column; a value not seen before is 0."""

    def fit(self, X: Any, y: Any) -> Wrapped:
        """Learn the values, then the examples."""
        self.encoder = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1).fit(X)
        return super().fit(X, y)

    def as_input(self, X: Any) -> Any:
        """Return an array of codes."""
        return self.encoder.transform(X).astype(np.int64) + 1


class Categories(Codes):
    """The same as a frame of pandas' categories; a value not seen before is missing."""

    def as_input(self, X: Any) -> Any:
        """Return the frame."""
        codes = super().as_input(X) - 1
        values = map(len, self.encoder.categories_)
        columns = [pd.Categorical.from_codes(codes[:, j], range(n)) for j, n in enumerate(values)]
        return pd.DataFrame({f"c{j}": column for j, column in enumerate(columns)})


class Strings(Wrapped):
    """Rows of strings as they are, for CatBoost."""

    def fit_options(self, X: Any) -> dict[str, Any]:
        """Return which columns are categories, and what is called after each iteration."""
        return {"cat_features": list(range(X.shape[1])), "callbacks": [_Interrupted()]}


class _Interrupted:
    """Called after each iteration of CatBoost, so that an alarm is heard before the end."""

    def after_iteration(self, _: Any) -> bool:
        """Go on."""
        return True


class InPieces(MemoryClassifier):
    """Ours, learnt by `partial_fit` in ten batches."""

    def fit(self, X: Any, y: Any) -> InPieces:  # type: ignore[override]
        """Learn the examples."""
        for batch in np.array_split(np.random.default_rng(0).permutation(len(y)), 10):
            self.partial_fit(X[batch], y[batch])
        return self


def _lightgbm() -> Any:
    from lightgbm import LGBMClassifier

    return Categories(LGBMClassifier(n_jobs=1, verbose=-1))


def _catboost() -> Any:
    from catboost import CatBoostClassifier

    return Strings(CatBoostClassifier(thread_count=1, verbose=False, allow_writing_files=False))


def _explainable() -> Any:
    from interpret.glassbox import ExplainableBoostingClassifier

    return Categories(ExplainableBoostingClassifier(n_jobs=1))


class SmoothedBayes(CategoricalNB):
    """Naive Bayes that has room for values it has not seen."""

    def fit(self, X: Any, y: Any) -> SmoothedBayes:
        """Learn the examples."""
        self.min_categories = X.max(axis=0) + 1
        return super().fit(X, y)  # type: ignore[no-any-return]


def _one_hot() -> Any:
    return make_pipeline(OneHotEncoder(handle_unknown="ignore"), LogisticRegression(max_iter=1000))


def _histogram_boosting() -> Any:
    return Categories(HistGradientBoostingClassifier(categorical_features="from_dtype"))


LEARNERS: dict[str, Callable[[], Any]] = {
    "ours": MemoryClassifier,
    "ours, in 10 pieces": InPieces,
    "log-linear, columns": lambda: MemoryClassifier(PositionalHamming(), Exact(), LogLinear()),
    "sum vote": lambda: MemoryClassifier(memory="exact", vote="sum"),
    "naive Bayes": lambda: Codes(SmoothedBayes()),
    "logistic, one-hot": _one_hot,
    "histogram boosting": _histogram_boosting,
    "LightGBM": _lightgbm,
    "CatBoost": _catboost,
    "EBM": _explainable,
}
NAMES = (
    "set | learner | accuracy | log-loss | fit | predictions/s | MiB | forgets exactly | "
    "forget a row (µs)"
)
CELLS = (
    "{set} | {learner} | {accuracy:.3f} | {log_loss:.3f} | {fit_seconds:.1f} s | "
    "{predictions_per_second:,.0f} | {mebibytes:.2f} | {forgets_exactly:yes/NO|} | "
    "{forget_microseconds:,.0f|}"
)
RATES = "set | rows | labels | fit (s) | LightGBM's | predictions/s | LightGBM's | ratio"
RATE_CELLS = (
    "{set} | {rows:,} | {labels} | {ours_fit_seconds:.1f} | {LightGBM_fit_seconds:.1f} | "
    "{ours_per_second:,.0f} | {LightGBM_per_second:,.0f} | {ratio:.2f}"
)


def read_table(path: Path) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the columns and the labels of a file, all as strings."""
    frame = pd.read_csv(path, dtype=str, keep_default_na=False)
    return frame.iloc[:, :-1].to_numpy(object), frame.iloc[:, -1].to_numpy(object)


def splits(X: Any, y: Any, seed: int) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Yield rows for training and rows for testing."""
    if len(y) >= ONE_SPLIT_ROWS:
        yield train_test_split(np.arange(len(y)), test_size=0.25, random_state=seed, stratify=y)
    else:
        yield from StratifiedKFold(5, shuffle=True, random_state=seed).split(X, y)


def measure_learner(name: str, learner: str, X: Any, y: Any, *, seed: int, patience: int) -> Row:
    """Return the means over folds of one learner."""
    rows: list[list[float]] = []
    forgetting: list[tuple[float, bool]] = []
    for train, test in splits(X, y, seed):
        model = LEARNERS[learner]()
        with _Alarm(patience):
            took = seconds(model.fit, X[train], y[train])
        ask = getattr(model, "predict_proba", None) or model.predict

        def ask_all(ask: Any = ask, test: Any = test) -> None:
            ask(X[test])

        speed = rate(ask_all, len(test))
        figures = [took, speed, len(pickle.dumps(model)) / 2**20]
        rows.append([*_judge(model, ask(X[test]), y[test]), *figures])
        if learner == "ours" and not forgetting:
            forgetting.append(_forgetting(model, X[train], y[train]))
        elif learner == "ours, in 10 pieces" and not forgetting:
            whole = MemoryClassifier.fit(InPieces(), X[train], y[train])
            forgetting.append((np.nan, model.refit().digest() == whole.digest()))
        if took > ONE_FOLD_SECONDS:
            break
    accuracy, loss, took, speed, size = np.mean(rows, axis=0).tolist()
    return {
        "set": name,
        "learner": learner,
        "rows": len(y),
        "labels": len(set(y)),
        "folds": len(rows),
        "accuracy": accuracy,
        "log_loss": None if np.isnan(loss) else loss,
        "fit_seconds": took,
        "predictions_per_second": speed,
        "mebibytes": size,
        "forget_microseconds": forgetting[0][0] if learner == "ours" else None,
        "forgets_exactly": all(exactly for _, exactly in forgetting) if forgetting else None,
        "seed": seed,
    }


def _judge(model: Any, answers: Any, y: Any) -> tuple[float, float]:
    """Return accuracy and log-loss."""
    if not hasattr(model, "predict_proba"):
        return float(accuracy_score(y, answers)), np.nan
    labels = model.classes_[answers.argmax(axis=1)]
    return float(accuracy_score(y, labels)), float(log_loss(y, answers, labels=model.classes_))


def _forgetting(model: MemoryClassifier, X: Any, y: Any) -> tuple[float, bool]:
    """Return the median time to forget one row, and whether forgetting a tenth is exact."""
    rng = np.random.default_rng(0)
    one = model.snapshot()
    rows = rng.choice(len(y), min(100, len(y)), replace=False)
    times = [
        seconds(one.forget_one, X[row].tolist(), y[row], clock=time.perf_counter) for row in rows
    ]
    gone = rng.random(len(y)) < 0.1
    less = model.snapshot().forget(X[gone], y[gone]).refit()
    rest = MemoryClassifier().fit(X[~gone], y[~gone])
    return float(np.median(times)) * 1e6, less.digest() == rest.digest()


class _Alarm:
    """Raise TimeoutError after so many seconds of the processor, where the system can."""

    def __init__(self, seconds: int) -> None:
        self.seconds = seconds

    def __enter__(self) -> None:
        def ring(*_: Any) -> None:
            raise TimeoutError(f"a fit took more than {self.seconds} s")

        signal.signal(signal.SIGPROF, ring)
        signal.setitimer(signal.ITIMER_PROF, self.seconds)

    def __exit__(self, *_: Any) -> None:
        signal.setitimer(signal.ITIMER_PROF, 0)


def by_set(rows: list[Row]) -> dict[str, dict[str, Row]]:
    """Return the measurements of each set by learner, the last of each."""
    sets: dict[str, dict[str, Row]] = {}
    for one in sorted(rows, key=lambda one: (one["rows"], one["set"])):
        sets.setdefault(one["set"], {})[one["learner"]] = one
    return sets


def summary(sets: dict[str, dict[str, Row]]) -> list[str]:
    """Return accuracy / log-loss of every learner, a row a set.

    The last rows are means over the sets that a learner shares with ours.
    """
    learners = [name for name in LEARNERS if any(name in row for row in sets.values())]
    rows: list[Row] = []
    for name, row in sets.items():
        first = next(iter(row.values()))
        each = {learner: _both([row[learner]] if learner in row else []) for learner in learners}
        rows.append({"set": name, "rows": first["rows"], "labels": first["labels"], **each})
    both = {
        learner: [row for row in sets.values() if learner in row and "ours" in row]
        for learner in learners
    }
    for title, of in (("mean", None), ("ours on the same sets", "ours")):
        means = {
            learner: _both([row[of or learner] for row in shared])
            for learner, shared in both.items()
        }
        rows.append({"set": title, "rows": None, "labels": None, **means})
    return table(rows)


def _both(rows: list[Row]) -> str:
    """Return mean accuracy / mean log-loss."""
    if not rows:
        return ""
    accuracy = f"{np.mean([one['accuracy'] for one in rows]):.3f}"
    losses = [one["log_loss"] for one in rows if one["log_loss"] is not None]
    return f"{accuracy} / {np.mean(losses):.3f}" if len(losses) == len(rows) else accuracy


def comparisons(sets: dict[str, dict[str, Row]]) -> list[str]:
    """Return how ours stands beside the others: differences of means, and the worst set of each."""
    lines = []
    for learner in LEARNERS:
        both = [
            (row["ours"], row[learner]) for row in sets.values() if "ours" in row and learner in row
        ]
        if learner == "ours" or not both:
            continue
        ahead, worst = _ahead(sets, "ours", learner)
        losses = [(ours["log_loss"], others["log_loss"]) for ours, others in both]
        differences = [
            ours - others for ours, others in losses if ours is not None and others is not None
        ]
        loss = f", log-loss {np.mean(differences):+.4f}" if differences else ""
        lines.append(
            f"ours beside {learner}, {len(both)} sets: "
            f"accuracy {np.mean(list(ahead.values())):+.4f}{loss}; least on {worst}: "
            f"{ahead[worst]:+.4f} (one standard error: "
            f"{_standard_error(sets[worst]['ours']):.4f})"
        )
    ahead, worst = _ahead(sets, "ours, in 10 pieces", "naive Bayes")
    if ahead:
        lines.append(
            f"ours, in 10 pieces, beside naive Bayes: least on {worst}: {ahead[worst]:+.4f}"
        )
    rates = [
        {"set": name, "labels": row["ours"]["labels"], "ratio": _rate_ratio(row)}
        for name, row in sets.items()
        if "ours" in row and "LightGBM" in row and row["ours"]["rows"] >= MIN_RATE_ROWS
    ]
    ours, pieces = (
        [row[name] for row in sets.values() if name in row]
        for name in ("ours", "ours, in 10 pieces")
    )
    return lines + least_rates(rates) + _of_ours(ours) + _of_pieces(pieces)


def _ahead(sets: dict[str, dict[str, Row]], one: str, other: str) -> tuple[dict[str, float], str]:
    """Return how much more accurate one learner is on each set, and the set where it is least."""
    shared = {name: row for name, row in sets.items() if one in row and other in row}
    ahead = {name: row[one]["accuracy"] - row[other]["accuracy"] for name, row in shared.items()}
    return ahead, min(ahead, key=lambda name: ahead[name], default="")


def _standard_error(row: Row) -> float:
    """Return that of an accuracy, from the rows that were tested."""
    tested = row["rows"] if row["rows"] < ONE_SPLIT_ROWS else row["rows"] // 4
    return float(np.sqrt(row["accuracy"] * (1 - row["accuracy"]) / tested))


def _rate_ratio(row: dict[str, Row]) -> float:
    ours, others = (row[name]["predictions_per_second"] for name in PAIR)
    return float(ours / others)


def least_rates(rows: list[Row]) -> list[str]:
    """Return the least ratio of predictions a second, with two labels and with many."""
    lines = []
    for title, fewest, most in (("two labels", 2, 2), ("ten labels and more", 10, 10**9)):
        chosen = [row for row in rows if fewest <= row["labels"] <= most]
        if chosen:
            least = min(chosen, key=lambda row: float(row["ratio"]))
            text = "predictions a second, {title}: at least {ratio:.2f} of LightGBM's ({set})"
            lines.append(cells(text, {"title": title, **least}))
    return lines


def _of_ours(ours: list[Row]) -> list[str]:
    if not ours:
        return []
    slowest = max(ours, key=lambda row: float(row["fit_seconds"]))
    exact = sum(bool(row["forgets_exactly"]) for row in ours)
    return [
        cells("slowest fit of ours: {fit_seconds:.1f} s ({set})", slowest),
        f"a tenth forgotten, then refit, equal to the byte: {exact} of {len(ours)} sets",
    ]


def _of_pieces(rows: list[Row]) -> list[str]:
    if not rows:
        return []
    exact = sum(bool(row["forgets_exactly"]) for row in rows)
    took = sum(row["fit_seconds"] for row in rows)
    equal = f"in 10 pieces, then refit, equal to the byte of fit: {exact} of {len(rows)} sets"
    return [f"{equal}; {took:.0f} s for the pieces of all"]


def race_rates(path: Path, rounds: int) -> Row | None:
    """Return the seconds of a fit and the median rate of ours and LightGBM, asked in turns.

    Return None for a small set.
    """
    X, y = read_table(path)
    if len(y) < MIN_RATE_ROWS:
        return None
    train, test = next(splits(X, y, 0))
    figures: Row = {"set": path.stem, "rows": len(y), "labels": len(set(y)), "asked": len(test)}
    models = {name: LEARNERS[name]() for name in PAIR}
    for name, model in models.items():
        figures[f"{name}_fit_seconds"] = seconds(model.fit, X[train], y[train])
        model.predict_proba(X[test])
    rates: dict[str, list[float]] = {name: [] for name in PAIR}
    for _ in range(rounds):
        for name, model in models.items():

            def ask_all(model: Any = model) -> None:
                model.predict_proba(X[test])

            rates[name].append(rate(ask_all, len(test), 0.02))
    figures |= {f"{name}_per_second": float(np.median(rates[name])) for name in PAIR}
    return {**figures, "ratio": figures["ours_per_second"] / figures["LightGBM_per_second"]}


def measure(path: Path, arguments: argparse.Namespace, kept: JsonLines) -> None:
    """Measure the learners on a set that are not kept yet; print and keep the rows."""
    X, y = read_table(path)
    for learner in arguments.learners:
        if kept.find(set=path.stem, learner=learner, seed=arguments.seed):
            continue
        try:
            row = kept.add(
                measure_learner(
                    path.stem, learner, X, y, seed=arguments.seed, patience=arguments.patience
                )
            )
        # what some learners cannot take is said
        except (ImportError, TimeoutError, ValueError) as error:
            print(f"| {path.stem} | {learner} | left out: {str(error)[:100]} |", flush=True)
            continue
        print(f"| {cells(CELLS, row)} |", flush=True)


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--sets", nargs="*")
    parser.add_argument("--learners", nargs="*", default=list(LEARNERS))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--patience", type=int, default=3600)
    parser.add_argument(
        "--json", type=Path, help="append each measurement to this file, one a line"
    )
    parser.add_argument(
        "--show", type=Path, nargs="*", help="print what such files hold, and measure nothing"
    )
    parser.add_argument(
        "--rates", action="store_true", help="ask ours and LightGBM in turns, and print rates"
    )
    parser.add_argument("--rounds", type=int, default=9, help="of --rates")
    arguments = parser.parse_args()
    if arguments.data is None and not arguments.show:
        parser.error("--data names the folder with the tables")
    paths = (
        []
        if arguments.show
        else sorted(arguments.data.glob("*.csv"), key=lambda path: path.stat().st_size)
    )
    paths = [path for path in paths if not arguments.sets or path.stem in arguments.sets]
    kept = JsonLines(*(arguments.show or [arguments.json]))
    print(heading(RATES if arguments.rates else NAMES))
    if arguments.rates:
        rows = [
            row
            for path in paths
            if (row := race_rates(path, arguments.rounds)) and print_and_keep(row, kept)
        ]
        print("\n".join(["", *least_rates(rows)]))
        return
    for path in paths:
        measure(path, arguments, kept)
    sets = by_set([row for row in kept.rows if arguments.show or row["seed"] == arguments.seed])
    if arguments.show:
        print(
            "\n".join(f"| {cells(CELLS, row)} |" for rows in sets.values() for row in rows.values())
        )
    print("\naccuracy / log-loss:\n\n" + "\n".join([*summary(sets), "", *comparisons(sets)]))


def print_and_keep(row: Row, kept: JsonLines) -> Row:
    """Print and keep one row of rates."""
    print(f"| {cells(RATE_CELLS, row)} |", flush=True)
    return kept.add(row)


if __name__ == "__main__":
    main()
