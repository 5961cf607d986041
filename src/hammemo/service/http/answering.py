"""Answers from one version of a model, in the forms that the bodies have.

Single rows of strings and integers, and of floats where the model has numbers, take the short way (`Ranker.single`, a
few microseconds), which a version gets ready once; everything else takes the long way, through arrays. Both give the
same labels.

A model that was fitted to documents takes rows of any length, such as the clicks of a visit so far: they are cut, or
filled up, as its documents were (:mod:`hammemo.tokens.cutting`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hammemo.service.http.bodies import Certificates, Explanations, Labels, Probabilities, RankedLabels
from hammemo.service.operations import Malformed, TooLarge

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from hammemo.models.classifiers import MemoryClassifier
    from hammemo.models.explanations import Explanation
    from hammemo.service.http.bodies import Question, RankedQuestion, TopKQuestion
    from hammemo.service.limits import Limits
    from hammemo.service.operations import Token

_SHORT_WAY: Final = frozenset((int, str))
_MAX_FILLED_TOKENS: Final = 2**22
"""The most tokens of all rows together once they are filled up: as many as a body of whole rows can have."""


class ReadyVersion:
    """One version of a model, ready for questions.

    Parameters
    ----------
    model : MemoryClassifier
        A version that does not change.
    version : int
        The acknowledged edits that it holds.
    names : list of str, optional
        What the columns are called, for explanations: the model itself has no names, since rows come without.
    """

    def __init__(self, model: MemoryClassifier, version: int, names: Sequence[str] | None = None) -> None:
        self.model = model
        self.version = version
        self._names = None if names is None else tuple(names)
        self._single: Callable[[Sequence[Any]], int] | None = None
        self._classes: list[Any] = []
        self._h = int(model.n_features_in_)
        self._short_way = _SHORT_WAY if model._columns is None else _SHORT_WAY | {float}

    def prepare(self) -> ReadyVersion:
        """Make what single rows need."""
        model = self.model
        scorer = model._scorer()
        if len(scorer.labels):
            self._classes = model._classes(scorer).tolist()
            self._single = scorer.ranker.single()
        return self

    def cut(self, rows: list[list[Token]]) -> list[list[Token]]:
        """Return rows that are as long as the model's, or refuse them."""
        h, cutting = self._h, self.model.cutting_
        other = next((len(row) for row in rows if len(row) != h), None)
        if other is None:
            return rows
        if cutting is None:
            raise Malformed(f"A row of this model has {h} tokens; one of these has {other}.")
        if len(rows) * h > _MAX_FILLED_TOKENS:
            raise TooLarge(
                f"{len(rows)} rows, filled up to {h} tokens each, are over {_MAX_FILLED_TOKENS} tokens: send parts."
            )
        found: list[list[Token]] = self._answer(lambda: cutting.contexts(rows, h))
        return found

    def predict_one(self, row: Sequence[Token]) -> Any:
        """Return the label of one row in the short way, or None where it has to go the long way."""
        if self._single is None:
            return None
        for token in row:
            if type(token) not in self._short_way:
                return None
        try:
            column = self._single(row)
        except (ValueError, OverflowError):
            return None
        return self._classes[column] if column >= 0 else None

    def predict(self, question: Question) -> Labels:
        """Return the label of each row."""
        return Labels(self._labels(self.cut(question.rows)), self.version)

    def _labels(self, rows: list[list[Token]]) -> list[Any]:
        if not rows:
            return []
        found: list[Any] = self._answer(lambda: self.model.predict(table(rows))).tolist()
        return found

    def top_k(self, question: TopKQuestion, limits: Limits) -> RankedLabels:
        """Return the k best labels of each row."""
        k, rows = _checked_k(question.k, limits), self.cut(question.rows)
        if not rows:
            return RankedLabels([], self.version)
        found = self._answer(lambda: self.model.top_k(table(rows), k, exclude=question.exclude))
        return RankedLabels(found.tolist(), self.version)

    def probabilities(self, question: Question, limits: Limits) -> Probabilities:
        """Return the probability of each label."""
        model, rows = self.model, self.cut(question.rows)
        classes: list[Any] = self._answer(lambda: model.classes_).tolist()
        if len(rows) * len(classes) > limits.cells:
            raise TooLarge(
                f"{len(rows)} rows of {len(classes)} labels are more than {limits.cells} numbers: send fewer rows, or "
                "ask for top-k."
            )
        if not rows:
            return Probabilities(classes, [], self.version)
        return Probabilities(classes, self._answer(lambda: model.predict_proba(table(rows))).tolist(), self.version)

    def explain(self, question: RankedQuestion, limits: Limits) -> Explanations:
        """Return why each row got its label."""
        k, rows = _checked_k(question.k, limits), question.rows
        if len(rows) > limits.explained:
            raise TooLarge(f"{len(rows)} rows are more than {limits.explained}, the most to explain at once.")
        return Explanations([self._explained(row, k) for row in self.cut(rows)], self.version)

    def _explained(self, row: list[Token], k: int) -> dict[str, Any]:
        found: Explanation = self._answer(lambda: self.model.explain(row, k))
        return replace(found, names=self._names).to_dict()

    def certify(self, question: Question) -> Certificates:
        """Return the label of each row and whether it is proven."""
        rows = self.cut(question.rows)
        if not rows:
            return Certificates([], [], self.version)
        proven = self._answer(lambda: self.model.certify(table(rows))).tolist()
        return Certificates(self._labels(rows), proven, self.version)

    def _answer(self, question: Callable[[], Any]) -> Any:
        """Return an answer; what the library refuses is the fault of the question."""
        try:
            return question()
        except (ValueError, TypeError, AttributeError, OverflowError) as error:
            reason = error.__cause__ or error  # what is not there at all has the reason as its cause
            raise Malformed(" ".join(str(reason).split())[:500]) from error


def _checked_k(k: int, limits: Limits) -> int:
    if k > limits.k:
        raise TooLarge(f"k={k} is more than {limits.k}, the most labels for a row.")
    return k


def table(rows: Sequence[Sequence[Token]]) -> NDArray[Any]:
    """Return rows as an array that keeps the kind of every token.

    Examples
    --------
    >>> from hammemo.service.http.answering import table
    >>> table([["1", 1], [None, 2.5]]).tolist()
    [['1', 1], [None, 2.5]]
    """
    array = np.empty((len(rows), len(rows[0])), dtype=object)
    array[:] = rows
    return array
