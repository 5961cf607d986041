"""Other learners that an evaluation measures beside the model: LightGBM with its default settings.

A peer gets the rows that the model gets. Numbers and dates are numbers for it; names are codes of a
category, and a name that was not learned is a missing value.
"""

from __future__ import annotations

from importlib import import_module
from numbers import Real
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from sklearn.base import BaseEstimator

from hammemo._lazy import explain_missing
from hammemo.tokens.column_kinds import ColumnKind
from hammemo.tokens.column_values import read_ordered

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hammemo._arrays.types import Array, Floats

NAMES: Final = {"lightgbm": "LightGBM"}
"""The name of each peer in tables and figures."""


class LightGBMPeer(BaseEstimator):
    """LightGBM with one thread, so that the same rows give the same model.

    Parameters
    ----------
    numeric : sequence of int, "auto" or "none"
        Which columns are numbers or dates; with "auto" those that hold numbers only.
    ordered : mapping of int to sequence, optional
        Columns of ordered categories, with these from low to high: their places are numbers.
    """

    learner_name: str
    """The class of LightGBM."""

    def __init__(
        self,
        numeric: Sequence[int] | str = "auto",
        ordered: Mapping[int, Sequence[Any]] | None = None,
    ) -> None:
        self.numeric = numeric
        self.ordered = ordered

    def fit(self, X: Array, y: Array) -> LightGBMPeer:
        """Learn rows."""
        self.codes_ = [self._codes(place, column.tolist()) for place, column in enumerate(X.T)]
        ordered = self.ordered or {}
        names = [
            place
            for place, codes in enumerate(self.codes_)
            if codes is not None and place not in ordered
        ]
        learner = getattr(library(), self.learner_name)
        self.learner_ = learner(n_jobs=1, verbose=-1, deterministic=True, force_col_wise=True)
        self.learner_.fit(self._as_numbers(X), y, categorical_feature=names)
        return self

    def _codes(self, place: int, values: list[Any]) -> dict[Any, int] | None:
        """Return the code of each name of a column; None for a column of numbers."""
        if self.ordered is not None and place in self.ordered:
            return {category: code for code, category in enumerate(self.ordered[place])}
        is_auto = self.numeric == "auto" and all(isinstance(value, Real) for value in values)
        if is_auto or (not isinstance(self.numeric, str) and place in self.numeric):
            return None
        return {name: code for code, name in enumerate(dict.fromkeys(values))}

    def _as_numbers(self, X: Array) -> Floats:
        """Return rows as numbers, NaN for missing values and for names that were not learned."""
        columns = []
        for codes, column in zip(self.codes_, X.T, strict=True):
            if codes is None:
                columns.append(_read_ordered(column))
            else:
                numbers = [codes.get(value, np.nan) for value in column.tolist()]
                columns.append(np.array(numbers, np.float64))
        return np.column_stack(columns)


class LightGBMLabels(LightGBMPeer):
    """LightGBM for labels."""

    learner_name = "LGBMClassifier"

    def fit(self, X: Array, y: Array) -> LightGBMPeer:
        """Learn rows."""
        self.classes_, codes = np.unique(y, return_inverse=True)
        return super().fit(X, codes)

    def predict(self, X: Array) -> Array:
        """Return the label for each row."""
        return np.asarray(self.classes_[self.predict_proba(X).argmax(axis=1)])

    def predict_proba(self, X: Array) -> Floats:
        """Return the probability of each label for each row."""
        probabilities = np.asarray(self.learner_.predict_proba(self._as_numbers(X)), np.float64)
        return probabilities[:, : len(self.classes_)]  # of one label, LightGBM returns two columns

    def top_k(self, X: Array, k: int) -> Array:
        """Return the k most probable labels for each row."""
        order = np.argsort(-self.predict_proba(X), axis=1, kind="stable")
        return np.asarray(self.classes_[order[:, :k]])


class LightGBMNumbers(LightGBMPeer):
    """LightGBM for numbers."""

    learner_name = "LGBMRegressor"

    def predict(self, X: Array) -> Floats:
        """Return the number for each row."""
        return np.asarray(self.learner_.predict(self._as_numbers(X)), np.float64)


LIGHTGBM: Final[Mapping[str, type[LightGBMPeer]]] = {
    "labels": LightGBMLabels,
    "numbers": LightGBMNumbers,
}
"""LightGBM by what it predicts, as `predicts` of the model beside it says."""


def _read_ordered(column: Array) -> Floats:
    """Return a column of numbers, or one of dates as numbers."""
    numbers = read_ordered(column, ColumnKind.NUMBERS, "A column")
    if np.isnan(numbers).all():
        return read_ordered(column, ColumnKind.DATES, "A column")
    return numbers


def library() -> Any:
    """Return the module of LightGBM; raise one sentence if it is not installed."""
    with explain_missing("LightGBM is not installed: pip install lightgbm"):
        return import_module("lightgbm")
