"""Answers from one version of a model, in the forms that the bodies have.

Single rows of strings and integers, and of floats where the model has numbers, take the short
way (`Ranker.single`, a few microseconds), which a version gets ready once; everything else
takes the long way, through arrays. Both give the same labels.

A model that was fitted to documents takes rows of any length, such as the clicks of a visit so
far: they are cut, or filled up, as its documents were (:mod:`hammemo.tokens.cutting`).

Questions are answered block by block of rows, and between two blocks `stop` is called, which
raises an error where the answer is no longer wanted.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hammemo_server.edits.operations import Malformed, Token, TooLarge
from hammemo_server.http.bodies import (
    Certificates,
    Explanations,
    FoundList,
    Labels,
    Probabilities,
    RankedLabels,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from hammemo.estimators.learners import Learner
    from hammemo.explain.explanations import Explanation
    from hammemo.tokens.vocabulary import Vocabulary
    from hammemo_server.edits.limits import Limits
    from hammemo_server.http.bodies import Question, RankedQuestion, TopKQuestion

    Stop = Callable[[], None]

_SHORT_WAY: Final = frozenset((int, str))
_MAX_FILLED_TOKENS: Final = 2**22
"""The most tokens of all rows together once they are filled up: as many as a body of whole rows
can have."""
_BLOCK_MICROSECONDS: Final = 50_000
"""About how long the rows of one block take."""


def go_on() -> None:
    """Stop nothing: for questions that are short."""


class ReadyVersion:
    """One version of a model, ready for questions.

    Parameters
    ----------
    model : MemoryClassifier or MemoryRegressor
        A version that does not change.
    version : int
        The acknowledged edits that it holds.
    names : list of str, optional
        What the columns are called, for explanations: the model itself has no names, since rows
        come without.
    """

    def __init__(self, model: Learner, version: int, names: Sequence[str] | None = None) -> None:
        self.model = model
        self.version = version
        self.column_names = None if names is None else tuple(names)
        """What the columns are called; None where they have no names."""
        self._single: Callable[[Sequence[Any]], int] | None = None
        self._classes: list[Any] = []
        self.reads_rows = False
        """Whether the leading labels come from the rows that a context reads, whatever the
        number of labels."""
        self._h = int(model.n_features_in_)
        self._n_labels = len(model.state.labels)
        has_ordered = model.state.columns.has_ordered
        self._short_way = _SHORT_WAY | {float} if has_ordered else _SHORT_WAY

    @property
    def labels(self) -> Vocabulary:
        """The labels of the model, in the order of its columns."""
        return self.model.as_classifier().view().scorer.labels

    def prepare(self) -> ReadyVersion:
        """Make what single rows need."""
        quick = self.model.quick_answers()
        if quick is not None:
            self._classes = quick.classes
            self._single = quick.find_place
            self.reads_rows = quick.reads_rows
        return self

    def cost(self, ask: str, question: Question) -> float:
        """Return about how many microseconds a question takes."""
        return len(question.rows) * self._row_cost(ask, question)

    def _row_cost(self, ask: str, question: Question) -> float:
        """Return about how many microseconds a row takes.

        The factors are measured with exact counts, the slowest of the memories. Where labels
        come from the rows that a context reads, predictions and top-k need no score for every
        label.
        """
        if ask in ("probabilities", "explain"):
            label_cost = 0.1
        elif self.reads_rows:
            label_cost = 0.0
        else:
            label_cost = 0.02
        cost = 4 * self._h + label_cost * self._n_labels
        if ask in ("top-k", "explain"):
            cost += 15 * min(getattr(question, "k", 1), self._n_labels)
        return cost + 3_000 if ask == "explain" else cost

    def _blocks(self, ask: str, question: Question, stop: Stop) -> Iterator[slice]:
        """Yield blocks of rows that take a short while each, as long as the answer is wanted."""
        size = max(1, int(_BLOCK_MICROSECONDS / self._row_cost(ask, question)))
        for start in range(0, len(question.rows), size):
            stop()
            yield slice(start, start + size)

    def _in_blocks(
        self, method: str, question: Question, rows: list[list[Token]], stop: Stop, *arguments: Any
    ) -> list[Any]:
        """Return what a method of the model answers to some rows, asked block by block."""
        answers: list[Any] = []
        ask = "probabilities" if method == "predict_proba" else method
        for block in self._blocks(ask, question, stop):
            answers += self._ask(method, rows[block], *arguments).tolist()
        return answers

    def cut(self, rows: list[list[Token]]) -> list[list[Token]]:
        """Return rows that are as long as the model's, or refuse them."""
        h = self._h
        cutting = self.model.state.cutting
        other = next((len(row) for row in rows if len(row) != h), None)
        if other is None:
            return rows
        if cutting is None:
            raise Malformed(f"A row of this model has {h} tokens; one of these has {other}.")
        if len(rows) * h > _MAX_FILLED_TOKENS:
            raise TooLarge(
                f"{len(rows)} rows, filled up to {h} tokens each, "
                f"are over {_MAX_FILLED_TOKENS} tokens: send parts."
            )
        cut: list[list[Token]] = self._answer(lambda: cutting.contexts(rows, h))
        return cut

    def predict_one(self, row: Sequence[Token]) -> Any:
        """Return the label of one row in the short way, or None where it has to go the long way."""
        if self._single is None or not self._short_way.issuperset(map(type, row)):
            return None
        try:
            column = self._single(row)
        except (ValueError, OverflowError):
            return None
        return self._classes[column] if column >= 0 else None

    def predict(self, question: Question, stop: Stop = go_on) -> Labels:
        """Return the label of each row, or the expected number, perhaps with an interval."""
        rows = self.cut(question.rows)
        coverage = getattr(question, "interval", None)
        if coverage is not None and not self.model.has_intervals:
            raise Malformed(
                "interval: this model predicts labels; "
                "intervals are of models that predict numbers."
            )
        labels = self._in_blocks("predict", question, rows, stop)
        intervals = None
        if coverage is not None:
            ends = self._in_blocks("predict_interval", question, rows, stop, coverage)
            intervals = [[end if math.isfinite(end) else None for end in pair] for pair in ends]
        return Labels(labels, self.version, intervals)

    def top_k(self, question: TopKQuestion, limits: Limits, stop: Stop = go_on) -> RankedLabels:
        """Return the k best labels of each row."""
        k = _check_k(question.k, limits)
        rows = self.cut(question.rows)
        self._check_cells(len(rows) * min(k, self._n_labels), limits)
        exclude: Any = question.exclude
        if exclude == "seen":  # all of a row, also what is cut off
            exclude = [[token for token in row if token is not None] for row in question.rows]
        lists = {"exclude": _labels_of(exclude), "allow": _labels_of(question.allow)}
        labels: list[list[Any]] = []
        scores: list[list[float]] = []
        for block in self._blocks("top-k", question, stop):
            lists_of_block = {
                name: _of_block(name, entries, block, len(rows)) for name, entries in lists.items()
            }
            answer = self._ask(
                "top_k", rows[block], k, **lists_of_block, return_scores=question.scores
            )
            ranked = answer[0] if question.scores else answer
            # a row ends where fewer labels are allowed
            labels += [[label for label in row if label is not None] for row in ranked.tolist()]
            if question.scores:
                scores += [
                    scores_of_row[: len(labels_of_row)]
                    for scores_of_row, labels_of_row in zip(
                        answer[1].tolist(), labels[block], strict=True
                    )
                ]
        return RankedLabels(
            labels,
            self.version,
            scores=scores if question.scores and rows else None,
            lists={
                entry.list: entry.found.version
                for entry in (question.exclude, question.allow)
                if isinstance(entry, FoundList)
            },
        )

    def probabilities(
        self, question: Question, limits: Limits, stop: Stop = go_on
    ) -> Probabilities:
        """Return the probability of each label."""
        rows = self.cut(question.rows)
        classes = self.model.describe_answers().classes
        self._check_cells(len(rows) * len(classes), limits)
        return Probabilities(
            classes, self._in_blocks("predict_proba", question, rows, stop), self.version
        )

    def _check_cells(self, cells: int, limits: Limits) -> None:
        if cells > limits.cells:
            raise TooLarge(
                f"The answer would have {cells:,} labels or numbers, more than {limits.cells:,}: "
                "send fewer rows, or ask for the top-k with a smaller k."
            )

    def explain(self, question: RankedQuestion, limits: Limits, stop: Stop = go_on) -> Explanations:
        """Return why each row got its label."""
        k = _check_k(question.k, limits)
        rows = question.rows
        if len(rows) > limits.explained:
            raise TooLarge(
                f"{len(rows)} rows are more than {limits.explained}, the most to explain at once."
            )
        rows = self.cut(rows)
        explanations = []
        for block in self._blocks("explain", question, stop):
            explanations += [self._explain_row(row, k) for row in rows[block]]
        return Explanations(explanations, self.version)

    def _explain_row(self, row: list[Token], k: int) -> dict[str, Any]:
        model: Any = self.model
        explanation: Explanation = self._answer(lambda: model.explain(row, k))
        return replace(explanation, names=self.column_names).to_dict()

    def certify(self, question: Question, stop: Stop = go_on) -> Certificates:
        """Return the label of each row and whether it is proven."""
        rows = self.cut(question.rows)
        proven = self._in_blocks("certify", question, rows, stop)
        return Certificates(self._in_blocks("predict", question, rows, stop), proven, self.version)

    def _ask(self, ask: str, rows: list[list[Token]], *arguments: Any, **options: Any) -> Any:
        """Return what the model answers to some rows."""
        is_plain = not self.model.state.columns.has_ordered and all(
            _SHORT_WAY.issuperset(map(type, row)) for row in rows
        )
        # of lists of integers and strings less is checked
        X: Any = rows if is_plain else table(rows)
        return self._answer(lambda: getattr(self.model, ask)(X, *arguments, **options))

    def _answer(self, question: Callable[[], Any]) -> Any:
        """Return an answer; what the library refuses is the fault of the question."""
        try:
            return question()
        except (ValueError, TypeError, AttributeError, OverflowError) as error:
            # what is not there at all has the reason as its cause
            reason = error.__cause__ or error
            raise Malformed(" ".join(str(reason).split())[:500]) from error


def _labels_of(labels: Any) -> Any:
    """Return the labels of a named list; others as they are."""
    return labels.found.labels if isinstance(labels, FoundList) else labels


def _of_block(name: str, lists: Any, block: slice, n: int) -> Any:
    """Return the lists of some rows, or one list for all rows as it is.

    The library tells them apart by the first.
    """
    if not isinstance(lists, list) or not lists or not isinstance(lists[0], list):
        return lists
    if len(lists) != n or not all(isinstance(entry, list) for entry in lists):
        raise Malformed(
            f"{name} has {len(lists)} lists or labels for {n} rows: "
            "give one list per row, or one for all."
        )
    return lists[block]


def _check_k(k: int, limits: Limits) -> int:
    if k > limits.k:
        raise TooLarge(f"k={k} is more than {limits.k}, the most labels for a row.")
    return k


def table(rows: Sequence[Sequence[Token]]) -> NDArray[Any]:
    """Return rows as an array that keeps the kind of every token.

    Examples
    --------
    >>> from hammemo_server.http.answering import table
    >>> table([["1", 1], [None, 2.5]]).tolist()
    [['1', 1], [None, 2.5]]
    """
    array = np.empty((len(rows), len(rows[0])), dtype=object)
    array[:] = rows
    return array
