"""Tables of categories: ours by default beside other learners, each with its defaults and one thread.

    python -m benchmarks.tables --data FOLDER [--sets car adult] [--learners ours LightGBM] [--seed 0] [--json FILE]
    python -m benchmarks.tables --show FILE

A run that was stopped goes on where it was: what ``--json`` holds already, for the same seed, is not measured again.

FOLDER holds CSV files with a header, the label in the last column; values are strings. Files below 20,000 rows are
judged by five stratified folds, the others by one stratified split with a quarter for testing. Printed are accuracy,
log-loss, the seconds of a fit, predictions a second (`predict_proba`, strings in, encoding counted), the size of the
model, and for ours the time to forget one row (`forget_one`) and whether forgetting a tenth and refitting gives the
model of the rest, to the byte. Times are processor seconds. At the end ours is compared with the others.

A learner that is not installed is left out, and so is one whose fit of a set takes more than `--patience` seconds; both
are said. LightGBM and CatBoost: ``pip install --group benchmarks``.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import signal
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before NumPy is loaded: one thread for every learner

import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, log_loss
from sklearn.model_selection import StratifiedKFold, train_test_split
from sklearn.naive_bayes import CategoricalNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder

from hammemo import Exact, LogLinear, MemoryClassifier, PositionalHamming

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

LARGE = 20_000
"""From so many rows on there is one split instead of five folds."""


class Categories:
    """Strings to whole numbers, column by column, for learners that need it; a value not seen before is one more.

    Parameters
    ----------
    learner : estimator
    kind : {"codes", "category"}
        What the learner is given: an array of codes, or a frame of pandas' categories.
    """

    def __init__(self, learner: Any, kind: str = "codes") -> None:
        self.learner, self.kind = learner, kind
        self.encoder = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1)

    def fit(self, X: Any, y: Any) -> Categories:
        """Learn the examples."""
        self.encoder.fit(X)
        self.learner.fit(self._given(X), y)
        self.classes_ = self.learner.classes_
        return self

    def predict_proba(self, X: Any) -> Any:
        """Return the probability of each label."""
        return self.learner.predict_proba(self._given(X))

    def _given(self, X: Any) -> Any:
        codes = self.encoder.transform(X).astype(np.int64)
        if self.kind == "codes":
            return codes + 1  # an unknown value is 0
        values = map(len, self.encoder.categories_)
        columns = [pd.Categorical.from_codes(codes[:, j], range(n)) for j, n in enumerate(values)]
        return pd.DataFrame({f"c{j}": column for j, column in enumerate(columns)})


class Strings:
    """A frame of strings, for CatBoost."""

    def __init__(self, learner: Any) -> None:
        self.learner = learner

    def fit(self, X: Any, y: Any) -> Strings:
        """Learn the examples."""
        self.learner.fit(X, y, cat_features=list(range(X.shape[1])), callbacks=[_Interrupted()])
        self.classes_ = self.learner.classes_
        return self

    def predict_proba(self, X: Any) -> Any:
        """Return the probability of each label."""
        return self.learner.predict_proba(X)


class _Interrupted:
    """Called after each iteration of CatBoost, so that an alarm is heard before the end."""

    def after_iteration(self, _: Any) -> bool:
        """Go on."""
        return True


class InPieces:
    """Ours, learnt by `partial_fit` in ten batches."""

    def fit(self, X: Any, y: Any) -> InPieces:
        """Learn the examples."""
        self.model = MemoryClassifier()
        for batch in np.array_split(np.random.default_rng(0).permutation(len(y)), 10):
            self.model.partial_fit(X[batch], y[batch])
        self.classes_ = self.model.classes_
        return self

    def predict_proba(self, X: Any) -> Any:
        """Return the probability of each label."""
        return self.model.predict_proba(X)


class WithoutProbabilities:
    """The sum vote: it has an answer and no probabilities."""

    def __init__(self, learner: Any) -> None:
        self.learner = learner

    def fit(self, X: Any, y: Any) -> WithoutProbabilities:
        """Learn the examples."""
        self.learner.fit(X, y)
        self.classes_ = self.learner.classes_
        return self

    def predict(self, X: Any) -> Any:
        """Return the label of each row."""
        return self.learner.predict(X)


def _lightgbm() -> Any:
    from lightgbm import LGBMClassifier

    return Categories(LGBMClassifier(n_jobs=1, verbose=-1), "category")


def _catboost() -> Any:
    from catboost import CatBoostClassifier

    return Strings(CatBoostClassifier(thread_count=1, verbose=False, allow_writing_files=False))


class SmoothedBayes(CategoricalNB):
    """Naive Bayes that has room for values it has not seen."""

    def fit(self, X: Any, y: Any) -> SmoothedBayes:
        """Learn the examples."""
        self.min_categories = X.max(axis=0) + 1
        return super().fit(X, y)  # type: ignore[no-any-return]


def _one_hot() -> Any:
    return make_pipeline(OneHotEncoder(handle_unknown="ignore"), LogisticRegression(max_iter=1000))


LEARNERS: dict[str, Callable[[], Any]] = {
    "ours": MemoryClassifier,
    "ours, in 10 pieces": InPieces,
    "log-linear, columns": lambda: MemoryClassifier(PositionalHamming(), Exact(), LogLinear()),
    "sum vote": lambda: WithoutProbabilities(MemoryClassifier(memory="exact", vote="sum")),
    "naive Bayes": lambda: Categories(SmoothedBayes()),
    "logistic, one-hot": _one_hot,
    "histogram boosting": lambda: Categories(
        HistGradientBoostingClassifier(categorical_features="from_dtype"), "category"
    ),
    "LightGBM": _lightgbm,
    "CatBoost": _catboost,
}
HEADER = (
    "| set | learner | accuracy | log-loss | fit | predictions/s | MiB | forgets exactly | forget a row |\n"
    "|---|---|---|---|---|---|---|---|---|"
)


@dataclass
class Measured:
    """One learner on one set: means over folds."""

    set: str
    learner: str
    rows: int
    labels: int
    accuracy: float
    log_loss: float | None
    fit_seconds: float
    predictions_per_second: float
    mebibytes: float
    forget_microseconds: float | None = None
    forgets_exactly: bool | None = None
    seed: int = 0


def read_table(path: Path) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the columns and the labels of a file, all as strings."""
    frame = pd.read_csv(path, dtype=str, keep_default_na=False)
    return frame.iloc[:, :-1].to_numpy(object), frame.iloc[:, -1].to_numpy(object)


def splits(X: Any, y: Any, seed: int) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Yield rows for training and rows for testing."""
    if len(y) >= LARGE:
        yield train_test_split(np.arange(len(y)), test_size=0.25, random_state=seed, stratify=y)
    else:
        yield from StratifiedKFold(5, shuffle=True, random_state=seed).split(X, y)


def measured(name: str, learner: str, X: Any, y: Any, seed: int, patience: int) -> Measured:
    """Return the means over folds of one learner."""
    rows: list[list[float]] = []
    forgetting: list[tuple[float, bool]] = []
    for train, test in splits(X, y, seed):
        model = LEARNERS[learner]()
        started = time.process_time()
        with _Alarm(patience):
            model.fit(X[train], y[train])
        fitted = time.process_time()
        answers, rate = _asked(model, X[test])
        size = len(pickle.dumps(model)) / 2**20
        rows.append([*_judged(model, answers, y[test]), fitted - started, rate, size])
        if learner == "ours":
            forgetting.append(_forgetting(model, X[train], y[train]))
    accuracy, loss, seconds, rate, size = np.mean(rows, axis=0).tolist()
    found = Measured(
        set=name,
        learner=learner,
        rows=len(y),
        labels=len(set(y)),
        accuracy=accuracy,
        log_loss=None if np.isnan(loss) else loss,
        fit_seconds=seconds,
        predictions_per_second=rate,
        mebibytes=size,
        seed=seed,
    )
    if forgetting:
        found.forget_microseconds = float(np.median([microseconds for microseconds, _ in forgetting]))
        found.forgets_exactly = all(exactly for _, exactly in forgetting)
    return found


def _asked(model: Any, X: Any) -> tuple[Any, float]:
    """Return probabilities where the model has them, else labels; and answers a second, of calls that take 0.2 s."""
    ask = model.predict_proba if hasattr(model, "predict_proba") else model.predict
    started, calls, asked = time.process_time(), 0, 0.0
    while asked < 0.2:
        answers, calls = ask(X), calls + 1
        asked = time.process_time() - started
    return answers, calls * len(X) / asked


def _judged(model: Any, answers: Any, y: Any) -> tuple[float, float]:
    """Return accuracy and log-loss."""
    if not hasattr(model, "predict_proba"):
        return float(accuracy_score(y, answers)), np.nan
    labels = model.classes_[answers.argmax(axis=1)]
    return float(accuracy_score(y, labels)), float(log_loss(y, answers, labels=model.classes_))


def _forgetting(model: MemoryClassifier, X: Any, y: Any) -> tuple[float, bool]:
    """Return the median time to forget one row, and whether a tenth forgotten leaves the model of the rest."""
    times = []
    rng = np.random.default_rng(0)
    one = model.snapshot()
    for row in rng.choice(len(y), min(100, len(y)), replace=False):
        context, label = X[row].tolist(), y[row]
        started = time.perf_counter()
        one.forget_one(context, label)
        times.append(time.perf_counter() - started)
    gone = rng.random(len(y)) < 0.1
    less = model.snapshot().forget(X[gone], y[gone]).refit()
    rest = model.empty_like().partial_fit(X[~gone], y[~gone]).refit()
    return float(np.median(times)) * 1e6, _are_equal(less, rest, X)


def _are_equal(less: MemoryClassifier, rest: MemoryClassifier, X: Any) -> bool:
    """Return whether state, fitted weights and all answers of two models are equal to the byte."""
    states = less.memory_.state_bytes() == rest.memory_.state_bytes()
    weights = [{name: array.tobytes() for name, array in model.vote_.state().items()} for model in (less, rest)]
    answers = less.predict_proba(X).tobytes() == rest.predict_proba(X).tobytes()
    return states and answers and weights[0] == weights[1]


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


def line(found: Measured) -> str:
    """Return one measurement as a row of a table."""
    loss = "none" if found.log_loss is None else f"{found.log_loss:.3f}"
    forgets = "" if found.forget_microseconds is None else f"{found.forget_microseconds:,.0f} µs"
    exactly = {True: "yes", False: "NO", None: ""}[found.forgets_exactly]
    return (
        f"| {found.set} | {found.learner} | {found.accuracy:.3f} | {loss} | {found.fit_seconds:.1f} s | "
        f"{found.predictions_per_second:,.0f} | {found.mebibytes:.2f} | {exactly} | {forgets} |"
    )


def by_set(all_found: list[Measured]) -> dict[str, dict[str, Measured]]:
    """Return the measurements of each set by learner, the last of each."""
    sets: dict[str, dict[str, Measured]] = {}
    for found in sorted(all_found, key=lambda found: (found.rows, found.set)):
        sets.setdefault(found.set, {})[found.learner] = found
    return sets


def summary(all_found: list[Measured]) -> list[str]:
    """Return accuracy / log-loss of every learner, a row a set; and means over the sets that it shares with ours."""
    sets = by_set(all_found)
    learners = [name for name in LEARNERS if any(name in row for row in sets.values())]
    lines = [f"| set | rows | labels | {' | '.join(learners)} |", "|---" * (len(learners) + 3) + "|"]
    for name, row in sets.items():
        first = next(iter(row.values()))
        cells = [_both([row[learner]]) if learner in row else "" for learner in learners]
        lines.append(f"| {name} | {first.rows:,} | {first.labels} | {' | '.join(cells)} |")
    both = {learner: [row for row in sets.values() if learner in row and "ours" in row] for learner in learners}
    for title, of in (("mean", None), ("ours on the same sets", "ours")):
        cells = [_both([row[of or learner] for row in rows]) for learner, rows in both.items()]
        lines.append(f"| {title} | | | {' | '.join(cells)} |")
    return lines


def _both(found: list[Measured]) -> str:
    """Return mean accuracy / mean log-loss."""
    if not found:
        return ""
    accuracy = f"{np.mean([one.accuracy for one in found]):.3f}"
    losses = [one.log_loss for one in found if one.log_loss is not None]
    return f"{accuracy} / {np.mean(losses):.3f}" if len(losses) == len(found) else accuracy


def comparisons(all_found: list[Measured]) -> list[str]:
    """Return how ours stands beside the others: differences of means, and the worst set of each."""
    sets = by_set(all_found)
    lines = []
    for learner in LEARNERS:
        both = [(row["ours"], row[learner]) for row in sets.values() if "ours" in row and learner in row]
        if learner == "ours" or not both:
            continue
        ahead = {ours.set: ours.accuracy - theirs.accuracy for ours, theirs in both}
        worst = min(ahead, key=lambda name: ahead[name])
        losses = [(ours.log_loss, theirs.log_loss) for ours, theirs in both]
        known = [(ours, theirs) for ours, theirs in losses if ours is not None and theirs is not None]
        loss = f", log-loss {np.mean([ours - theirs for ours, theirs in known]):+.4f}" if known else ""
        lines.append(
            f"ours beside {learner}, {len(both)} sets: accuracy {np.mean(list(ahead.values())):+.4f}{loss}; "
            f"least on {worst}: {ahead[worst]:+.4f} (one standard error: {_standard_error(sets[worst]['ours']):.4f})"
        )
    return lines + _pieces_beside_bayes(sets) + _rates_beside(sets, "LightGBM") + _of_ours(sets)


def _standard_error(found: Measured) -> float:
    """Return that of an accuracy, from the rows that were tested."""
    tested = found.rows if found.rows < LARGE else found.rows // 4
    return float(np.sqrt(found.accuracy * (1 - found.accuracy) / tested))


def _pieces_beside_bayes(sets: dict[str, dict[str, Measured]]) -> list[str]:
    pieces, bayes = "ours, in 10 pieces", "naive Bayes"
    ahead = {
        name: row[pieces].accuracy - row[bayes].accuracy for name, row in sets.items() if pieces in row and bayes in row
    }
    worst = min(ahead, key=lambda name: ahead[name], default="")
    return [f"{pieces}, beside {bayes}: least on {worst}: {ahead[worst]:+.4f}"] if ahead else []


def _rates_beside(sets: dict[str, dict[str, Measured]], peer: str) -> list[str]:
    """Return the least ratio of predictions a second, of sets with 1,000 rows and more."""
    lines = []
    for title, fewest, most in (("two labels", 2, 2), ("ten labels and more", 10, 10**9)):
        rates = {
            name: row["ours"].predictions_per_second / row[peer].predictions_per_second
            for name, row in sets.items()
            if "ours" in row and peer in row and row[peer].rows >= 1000 and fewest <= row[peer].labels <= most
        }
        if rates:
            slowest = min(rates, key=lambda name: rates[name])
            lines.append(f"predictions a second, {title}: at least {rates[slowest]:.2f} of {peer}'s ({slowest})")
    return lines


def _of_ours(sets: dict[str, dict[str, Measured]]) -> list[str]:
    ours = [row["ours"] for row in sets.values() if "ours" in row]
    if not ours:
        return []
    slowest = max(ours, key=lambda found: found.fit_seconds)
    exact = sum(bool(found.forgets_exactly) for found in ours)
    return [
        f"slowest fit of ours: {slowest.fit_seconds:.1f} s ({slowest.set})",
        f"a tenth forgotten, then refit, equal to the byte: {exact} of {len(ours)} sets",
    ]


def stored(paths: list[Path]) -> list[Measured]:
    """Return the measurements that files hold; a file that is not there holds none."""
    lines = [text for path in paths if path.exists() for text in path.read_text().splitlines()]
    return [Measured(**json.loads(text)) for text in lines]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--sets", nargs="*")
    parser.add_argument("--learners", nargs="*", default=list(LEARNERS))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--patience", type=int, default=300)
    parser.add_argument("--json", type=Path, help="append each measurement to this file, one a line")
    parser.add_argument("--show", type=Path, nargs="*", help="print what such files hold, and measure nothing")
    options = parser.parse_args()
    if options.show:
        show(stored(options.show))
        return
    if options.data is None:
        parser.error("--data names the folder with the tables")
    found = [one for one in stored([options.json] if options.json else []) if one.seed == options.seed]
    print(HEADER)
    for path in sorted(options.data.glob("*.csv"), key=lambda path: path.stat().st_size):
        if not options.sets or path.stem in options.sets:
            measure(path, options, found)
    print("\naccuracy / log-loss:\n\n" + "\n".join([*summary(found), "", *comparisons(found)]))


def show(found: list[Measured]) -> None:
    """Print measurements as tables."""
    print("\n".join([HEADER, *(line(one) for row in by_set(found).values() for one in row.values()), ""]))
    print("\n".join([*summary(found), "", *comparisons(found)]))


def measure(path: Path, options: argparse.Namespace, found: list[Measured]) -> None:
    """Measure the learners on a set, all but those that are found already; print, and add to what is found."""
    X, y = read_table(path)
    for learner in options.learners:
        if any((one.set, one.learner) == (path.stem, learner) for one in found):
            continue
        try:
            found.append(measured(path.stem, learner, X, y, options.seed, options.patience))
        except (ImportError, TimeoutError, ValueError) as error:  # what some learners cannot take is said
            print(f"| {path.stem} | {learner} | left out: {str(error)[:100]} |", flush=True)
            continue
        print(line(found[-1]), flush=True)
        if options.json:
            with options.json.open("a") as file:
                print(json.dumps(asdict(found[-1])), file=file)


if __name__ == "__main__":
    main()
