"""Learning and forgetting batch by batch, so that a file of any size takes a bounded amount of memory."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from hammemo.cli.console import progress_bar
from hammemo.memories import NotStoredError
from hammemo.sources.kinds import merged_kinds
from hammemo.sources.schemas import SequenceSchema, TableSchema
from hammemo.tokens.labels import most_frequent_labels
from hammemo.tokens.sampling import UniformSample
from hammemo.votes import resolve_vote

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from hammemo.models.classifiers import MemoryClassifier
    from hammemo.sources.schemas import Schema

VOTE_EXAMPLES = 2**16
"""Examples that the weights of a log-linear vote are fitted to; a random sample where there are more."""


class HeldExamples:
    """A random sample of examples that come batch by batch; all of them, in their order, while they are few."""

    def __init__(self, size: int, seed: int) -> None:
        self._sample = UniformSample(size, seed)

    @property
    def X(self) -> NDArray[Any] | None:  # noqa: N802  (the field's own name)
        """The contexts; None before the first batch."""
        return self._sample.columns[0] if self._sample.columns else None

    @property
    def y(self) -> NDArray[Any]:
        """The labels."""
        return self._sample.columns[1] if self._sample.columns else np.empty(0, np.int64)

    def add(self, X: NDArray[Any], y: NDArray[Any]) -> None:
        """Take note of more examples."""
        self._sample.add(self._sample.draw(len(y)), X, y)

    def fit_vote(self, model: MemoryClassifier) -> None:
        """Fit the weights of the model's vote to the sample."""
        if len(self.y):
            model.fit_vote(self.X, self.y)


def declared(model: MemoryClassifier) -> set[Any]:
    """Return the labels that the model was told to predict."""
    return set(model.memory_.declared.tolist())


def learn_batches(
    model: MemoryClassifier,
    schema: Schema,
    files: Sequence[str],
    file_format: str | None,
    *,
    layout: MemoryClassifier | None = None,
    classes: list[Any] | int | None = None,
) -> tuple[Schema, dict[str, Any]]:
    """Learn files in batches, then fit the vote if it has weights; return how they were read and what was learnt."""
    fresh = not hasattr(model, "memory_")
    held = HeldExamples(VOTE_EXAMPLES, seed=0) if fresh and resolve_vote(model.vote).wanted() else None
    chosen = classes if isinstance(classes, list) else None
    if not fresh and isinstance(schema, SequenceSchema) and schema.chosen:
        chosen = sorted(declared(model))
    seen = learnt = 0
    columns, kinds = None, ""
    with progress_bar("Learning") as tell:
        for batch in schema.examples(files, file_format):
            if isinstance(classes, int) and chosen is None:
                chosen = most_frequent_labels(batch.y, classes)
            X, y = (batch.X, batch.y) if chosen is None else _with_labels(batch.X, batch.y, set(chosen))
            seen += len(batch.y)
            if not len(y):
                continue
            first = not hasattr(model, "memory_")
            model.partial_fit(X, y, classes=chosen if fresh else None, layout=layout if first else None)
            columns, kinds = batch.columns, merged_kinds(kinds, batch.kinds)
            learnt += len(y)
            if held is not None:
                held.add(X, y)
            tell(learnt, None)
    if not learnt:
        raise ValueError(_nothing(schema, seen, "learn"))
    if held is not None:
        held.fit_vote(model)
    if fresh and isinstance(schema, TableSchema):
        schema = replace(schema, columns=columns, kinds=kinds)
    elif fresh:
        schema = replace(schema, kinds=kinds)
    return schema, {"examples": learnt}


def forget_batches(model: MemoryClassifier, schema: Schema, files: Sequence[str], file_format: str | None) -> int:
    """Take back the examples of files; return how many. What was never learnt is refused, and its place is named."""
    chosen = declared(model) if isinstance(schema, SequenceSchema) and schema.chosen else None
    seen = forgotten = 0
    with progress_bar("Forgetting") as tell:
        for batch in schema.examples(files, file_format):
            seen += len(batch.y)
            X, y = (batch.X, batch.y) if chosen is None else _with_labels(batch.X, batch.y, chosen)
            if not len(y):
                continue
            try:
                model.forget(X, y)
            except NotStoredError as error:
                place = batch.place(_first_refused(model, X, y)) if len(y) == len(batch.y) else "One example"
                raise NotStoredError(
                    f"{place} was never learnt, or not so often: nothing was forgotten and the file is as it was. "
                    "Leave it out."
                ) from error
            forgotten += len(y)
            tell(forgotten, None)
    if not forgotten:
        raise ValueError(_nothing(schema, seen, "forget"))
    return forgotten


def _first_refused(model: MemoryClassifier, X: NDArray[Any], y: NDArray[Any]) -> int:
    """Return the first row such that the rows up to it cannot all be taken back; the model is then not to be used."""
    low, high = 0, len(y)  # the first `low` rows can be taken back, the first `high` cannot
    while high - low > 1:
        middle = (low + high) // 2
        try:
            model.forget(X[low:middle], y[low:middle])
            low = middle
        except NotStoredError:
            high = middle
    return low


def _with_labels(X: NDArray[Any], y: NDArray[Any], labels: set[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    kept = np.array([label in labels for label in y.tolist()], bool)
    return X[kept], y[kept]


def _nothing(schema: Schema, seen: int, verb: str) -> str:
    if seen:
        return f"There is nothing to {verb}: none of {seen:,} examples has a label that the model was told to predict."
    if isinstance(schema, TableSchema):
        return f"There is nothing to {verb}: the input has no row beyond its header."
    return f"There is nothing to {verb}: no document has more than h={schema.h} tokens. Fit with a smaller --h."


def example_count(model: MemoryClassifier) -> int:
    """Return how many examples a model holds."""
    return int(model.memory_.label_counts.sum())
