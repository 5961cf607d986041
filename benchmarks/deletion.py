"""Rows that must go.

Measured is how good a learner is on a table of categories, and what deleting a hundred rows costs.

Quality is the mean over five stratified folds, as in ``benchmarks/tables.py``. Then each learner
learns the whole table, and a hundred random rows are deleted. Ours subtracts them (`forget`), and
chooses and fits again by what is left (`refit`); the rows alone are needed for that. Its digest is
then held against that of a model that `fit` makes of the other rows. In a second row the sites stay
and weights are fitted only (``refit(what="weights")``). A learner that cannot forget is fitted
again to all other rows.

LightGBM and scikit-learn's gradient boosting have their defaults, one thread, and columns declared
as categories; LightGBM is left out where it is not installed, the other where a column has more
values than it takes; both are said below the table. Times are processor seconds, encoding included.
"""

from __future__ import annotations

import importlib.util
import time
import warnings
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import log_loss
from sklearn.model_selection import StratifiedKFold
from sklearn.preprocessing import OrdinalEncoder
from threadpoolctl import threadpool_limits

from hammemo.datasets import load_table
from hammemo.edits.editing import mute_forgetting_warning
from hammemo.estimators.classifiers import MemoryClassifier
from hammemo.paper.experiments.measuring import ignore_progress, table

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

N_DELETED: Final = 100
OURS: Final = "hammemo"
SITES_STAY: Final = "hammemo, sites stay"
_SKLEARN: Final = "scikit-learn's boosting"
_MAX_VALUES: Final = 255
"""The most values of a column of categories that scikit-learn's boosting takes."""


class Boosted:
    """A gradient boosting, given numbers for strings; a value that was not learnt is a missing one.

    Parameters
    ----------
    learner : estimator
    declared : dict
        What `fit` is told of columns that are categories.
    """

    def __init__(self, learner: Any, declared: dict[str, Any]) -> None:
        self.learner = learner
        self.declared = declared
        self.encoder = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1)

    def fit(self, X: NDArray[Any], y: NDArray[Any]) -> Boosted:
        """Learn the rows."""
        self.learner.fit(self.encoder.fit_transform(X).astype(np.int64), y, **self.declared)
        self.classes_ = self.learner.classes_
        return self

    def predict_proba(self, X: NDArray[Any]) -> NDArray[np.float64]:
        """Return the probability of each label."""
        with warnings.catch_warnings():
            # LightGBM names columns, and then wonders that we do not
            warnings.simplefilter("ignore", UserWarning)
            probabilities: NDArray[np.float64] = self.learner.predict_proba(
                self.encoder.transform(X).astype(np.int64)
            )
        return probabilities


def _lightgbm(n_columns: int) -> Boosted:
    from lightgbm import LGBMClassifier

    return Boosted(
        LGBMClassifier(n_jobs=1, verbose=-1), {"categorical_feature": list(range(n_columns))}
    )


def _sklearn(n_columns: int) -> Boosted:
    learner = HistGradientBoostingClassifier(
        categorical_features=list(range(n_columns)), random_state=0
    )
    return Boosted(learner, {})


def learners(X: NDArray[Any]) -> tuple[dict[str, Callable[[], Any]], list[str]]:
    """Return what makes each learner that can learn these columns, and why others are left out."""
    makers: dict[str, Callable[[], Any]] = {OURS: MemoryClassifier}
    left_out: list[str] = []
    if importlib.util.find_spec("lightgbm") is not None:
        makers["LightGBM"] = lambda: _lightgbm(X.shape[1])
    else:
        left_out.append("LightGBM is left out: it is not installed (pip install lightgbm).")
    most = max(len(np.unique(column)) for column in X.T)
    if most <= _MAX_VALUES:
        makers[_SKLEARN] = lambda: _sklearn(X.shape[1])
    else:
        left_out.append(
            f"{_SKLEARN} is left out: a column has {most:,} values, "
            f"and it takes categories of {_MAX_VALUES} at most."
        )
    return makers, left_out


def quality(make: Callable[[], Any], X: NDArray[Any], y: NDArray[Any]) -> dict[str, float]:
    """Return accuracy and log-loss, means over five folds."""
    qualities = []
    for learnt, test in StratifiedKFold(5, shuffle=True, random_state=0).split(X, y):
        model = make().fit(X[learnt], y[learnt])
        chances = model.predict_proba(X[test])
        right = model.classes_[chances.argmax(axis=1)] == y[test]
        qualities.append((right.mean(), log_loss(y[test], chances, labels=model.classes_)))
    accuracy, loss = np.mean(qualities, axis=0)
    return {"accuracy": float(accuracy), "log_loss": float(loss)}


def deletion(
    make: Callable[[], Any],
    X: NDArray[Any],
    y: NDArray[Any],
    gone: NDArray[np.bool_],
    what: Literal["all", "weights"] = "all",
) -> dict[str, Any]:
    """Return the seconds of learning and of deleting, and whether the rest equals a fresh fit."""
    began = time.process_time()
    model = make().fit(X, y)
    learnt = time.process_time()
    if not isinstance(model, MemoryClassifier):
        make().fit(X[~gone], y[~gone])
        return {
            "fit_seconds": learnt - began,
            "delete_seconds": time.process_time() - learnt,
            "equal": None,
        }
    mute_forgetting_warning(model)
    model.forget(X[gone], y[gone]).refit(what)
    deleted = time.process_time()
    equal = model.digest() == make().fit(X[~gone], y[~gone]).digest() if what == "all" else None
    return {"fit_seconds": learnt - began, "delete_seconds": deleted - learnt, "equal": equal}


def run(name: str, on_progress: Callable[[int, int], None] = ignore_progress) -> dict[str, Any]:
    """Return a row for each learner, on one of the tables of `hammemo.datasets`."""
    X, y = load_table(name)
    gone = np.zeros(len(y), bool)
    gone[np.random.default_rng(0).choice(len(y), N_DELETED, replace=False)] = True
    (makers, left_out) = learners(X)
    rows = []
    with threadpool_limits(1):
        for done, (learner, make) in enumerate(makers.items()):
            judged = quality(make, X, y)
            rows.append({"learner": learner, **judged, **deletion(make, X, y, gone)})
            if learner == OURS:
                rows.append(
                    {"learner": SITES_STAY, **judged, **deletion(make, X, y, gone, what="weights")}
                )
            on_progress(done + 1, len(makers))
    return {
        "settings": {"table": name, "rows": len(y), "deleted": N_DELETED},
        "table": rows,
        "left_out": left_out,
    }


def markdown(results: dict[str, Any]) -> str:
    """Return the table as text."""
    settings = results["settings"]
    left = {
        None: "all other rows | a new model",
        True: "these rows | the model of the other rows, to the byte",
        False: "these rows | **not** the model of the other rows",
    }
    stay = "these rows | the model of the other rows, with the sites of all"
    lines = table(
        (
            {**row, "left": stay if row["learner"] == SITES_STAY else left[row["equal"]]}
            for row in results["table"]
        ),
        f"{settings['table']}, {settings['rows']:,} rows | accuracy | log-loss | learn it (s) "
        f"| delete {settings['deleted']} rows (s) | needed for that | what is left",
        "{learner} | {accuracy:.3f} | {log_loss:.3f} | {fit_seconds:.2f} | "
        "{delete_seconds:.2f} | {left}",
    )
    return "\n".join([*lines, *(f"\n{why}" for why in results["left_out"])]) + "\n"
