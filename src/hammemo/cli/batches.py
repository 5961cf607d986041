"""Learning and forgetting batch by batch, so that large files take a bounded amount of memory.

Sequences are learned and forgotten by whole documents or cases: these are what a mixture keeps and
leaves out.
"""

from __future__ import annotations

import os
from collections import deque
from dataclasses import dataclass, replace
from itertools import tee
from typing import TYPE_CHECKING, Any, NamedTuple, TypeGuard

import numpy as np

from hammemo.cli.console import progress_bar
from hammemo.cli.model_columns import InputColumns, with_open_columns
from hammemo.edits.editing import get_state
from hammemo.memories import NotStoredError
from hammemo.sources.formats import is_address
from hammemo.sources.kinds import (
    InputKind,
    InputKinds,
    kind_of_names,
    merge_kind,
    merge_kinds,
    settle_kinds,
)
from hammemo.sources.reading_notes import name_columns_in_warnings
from hammemo.sources.schemas import Labelled, Schema, SequenceSchema, TableSchema
from hammemo.tasks.labels.automatic import chooses_sites, make_vote, stream_kernel
from hammemo.tasks.labels.names import is_auto
from hammemo.tokens.contexts import check_column_names, join_tokens
from hammemo.tokens.labels import most_frequent_labels

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from hammemo._arrays.types import Array
    from hammemo.cli.receipts import Note
    from hammemo.estimators.classifiers import MemoryClassifier
    from hammemo.estimators.learners import Learner
    from hammemo.estimators.regressor import MemoryRegressor
    from hammemo.tokens.orders import Order


@dataclass(frozen=True)
class Reading:
    """Files, and how examples are read from them."""

    schema: Schema
    files: Sequence[str]
    file_format: str | None

    def examples(self) -> Iterator[Labelled]:
        """Yield the examples, batch by batch."""
        return self.schema.examples(self.files, self.file_format)

    @property
    def can_be_repeated(self) -> bool:
        """Whether the files can be read twice; standard input and pipes cannot."""
        return all(is_address(name) or os.path.isfile(name) for name in self.files)


class LearnedFiles(NamedTuple):
    """What was learned of files."""

    schema: Schema
    """How they were read."""
    n_examples: int


class CountedDocuments:
    """The documents of files, counted during iteration.

    Parameters
    ----------
    reading : Reading
        Of sequences.
    only : sequence of str
        Names of cases; all documents where there are none.
    note : callable
        Called with each document, in a list.

    Attributes
    ----------
    n_examples : int
        Tokens that are predicted, so far.
    kind : InputKind
        What the tokens are.
    missing : set of str
        Cases of `only` that were not met yet.
    schema : SequenceSchema
    """

    def __init__(
        self, reading: Reading, only: Sequence[str] = (), note: Note = lambda _: None
    ) -> None:
        assert isinstance(reading.schema, SequenceSchema)
        self.schema = reading.schema
        self._reading = reading
        self._note = note
        self._only = set(only)
        self.missing = set(only)
        self.n_examples = 0
        self.kind = InputKind.UNKNOWN

    def through(
        self, tell: Callable[[int, None], None]
    ) -> tuple[Iterator[Array], Iterator[Any] | None]:
        """Return the documents and, for an event log, their cases; each is read as the other is."""
        documents, cases = tee(self._count_documents(tell))
        all_tokens = (tokens for _, tokens in documents)
        if not self.schema.is_log:
            return all_tokens, None
        return all_tokens, (name for name, _ in cases)

    def _count_documents(self, tell: Callable[[int, None], None]) -> Iterator[tuple[Any, Array]]:
        """Yield documents with their names, and tell how many examples there are so far."""
        context_only = 0 if self.schema.short == "pad" else self.schema.h
        for name, tokens in self.schema.documents(self._reading.files, self._reading.file_format):
            if self._only and str(name) not in self._only:
                continue
            self.missing.discard(str(name))
            self.n_examples += max(0, len(tokens) - context_only)
            self.kind = merge_kind(self.kind, kind_of_names(np.asarray(tokens)))
            tell(self.n_examples, None)
            self._note([np.asarray(tokens).tolist()])
            yield name, tokens


@dataclass
class _LearningLog:
    """What a model has learned of files so far, and how they were read."""

    n_rows: int = 0
    n_learned: int = 0
    """How many of them have a label that the model learns."""
    names: tuple[str, ...] = ()
    kinds: InputKinds = ()
    formats: tuple[tuple[int, str], ...] = ()
    orders: tuple[tuple[int, Order], ...] = ()

    def add(self, batch: Labelled, n_learned: int) -> None:
        """Add a batch that was learned."""
        self.n_learned += n_learned
        self.names = batch.columns
        self.kinds = merge_kinds(self.kinds, batch.kinds)
        self.formats = batch.formats
        self.orders = batch.orders

    @property
    def columns(self) -> InputColumns:
        """The columns of all rows."""
        return InputColumns(self.kinds, dict(self.orders))

    def describe_schema(self, schema: Schema, model: Learner, *, is_new: bool) -> Schema:
        """Return the schema with which later files of the model are read."""
        if isinstance(schema, TableSchema):
            if not is_new:
                return schema.with_decided_columns(self.kinds, self.formats)
            schema = self.columns.describe_learned(schema, model, self.names)
            return replace(schema, learned_formats=self.formats)
        if not is_new:
            return schema
        (kind,) = settle_kinds(self.kinds)
        return replace(schema, kind=kind)


def list_declared_labels(model: Any) -> list[Any]:
    """Return the labels that the model was told to predict, sorted."""
    return sorted(model.state.declared.tolist())


def learn_batches(
    model: Learner,
    reading: Reading,
    *,
    layout: MemoryClassifier | None = None,
    classes: list[Any] | int | None = None,
) -> LearnedFiles:
    """Learn files in batches, then choose sites and fit the vote.

    A table with more rows than a model keeps is read once more, to be counted under the sites that
    were chosen. What cannot be read twice, such as standard input, is chosen from while all rows
    are kept.
    """
    is_new = get_state(model) is None
    if not is_new and isinstance(reading.schema, TableSchema):
        reading = replace(reading, schema=with_open_columns(model, reading.schema))
    if model.settings().task.schedule.chooses_by_first_rows():
        return _learn_at_once(model, reading)
    classifier = model.as_classifier()
    if isinstance(reading.schema, SequenceSchema) and not isinstance(classes, int):
        return _learn_documents(classifier, reading, layout, classes)
    return _learn_labelled(classifier, reading, layout, classes)


def _learn_labelled(
    model: MemoryClassifier,
    reading: Reading,
    layout: MemoryClassifier | None,
    classes: list[Any] | int | None,
) -> LearnedFiles:
    """Learn examples with labels; a number of `classes` means the most frequent of the first."""
    schema = reading.schema
    is_new = get_state(model) is None
    chooses = is_new and layout is None and _chooses_sites(model)
    if chooses and isinstance(schema, SequenceSchema):
        model.set_params(kernel=stream_kernel(schema.h))
        chooses = False
    chooses_early = chooses and not reading.can_be_repeated
    labels = classes if isinstance(classes, list) else None
    log = _LearningLog()
    with progress_bar("Learning") as on_progress:
        for batch in reading.examples():
            if isinstance(classes, int) and labels is None:
                labels = most_frequent_labels(batch.y, classes)
            X, y = with_labels(batch, labels)
            log.n_rows += len(batch.y)
            if not len(y):
                continue
            if get_state(model) is None:
                check_column_names(batch.columns)
                columns = InputColumns.of_batch(batch)
                with columns.declare_to(model), name_columns_in_warnings(batch.columns):
                    model.partial_fit(X, y, classes=labels, layout=layout, choose=chooses_early)
                columns.declare_types(model, X)
            else:
                columns_for_batch = _decide_like(model, schema, batch)
                with columns_for_batch, name_columns_in_warnings(batch.columns):
                    model.partial_fit(X, y, choose=chooses_early)
            log.add(batch, len(y))
            on_progress(log.n_learned, None)
    if not log.n_learned:
        raise ValueError(_describe_nothing(schema, log.n_rows, "learn"))
    if is_new and layout is None:
        kept = model.state.kept
        if chooses and not chooses_early and (kept is None or not kept.holds_all):
            with log.columns.declare_orders_to(model):
                model.refit(rows=((batch.X, batch.y) for batch in reading.examples()))
        elif kept is not None:
            model.refit()
    return LearnedFiles(log.describe_schema(schema, model, is_new=is_new), log.n_learned)


def _chooses_sites(model: MemoryClassifier) -> bool:
    """Return whether the model chooses what it compares."""
    memory = model.settings().new_memory()
    return is_auto(model.kernel) and chooses_sites(memory, make_vote(model.vote, memory))


def _learn_at_once(model: MemoryRegressor, reading: Reading) -> LearnedFiles:
    """Learn rows for a task whose first rows choose everything: a new model gets all of them."""
    schema = reading.schema
    is_new = get_state(model) is None
    batches = []
    log = _LearningLog()
    with progress_bar("Learning") as on_progress:
        for batch in reading.examples():
            if is_new:
                batches.append(batch)
            else:
                with (
                    _decide_like(model, schema, batch),
                    name_columns_in_warnings(batch.columns),
                ):
                    model.partial_fit(batch.X, batch.y, choose=False)
            log.add(batch, len(batch.y))
            on_progress(log.n_learned, None)
    if not log.n_learned:
        raise ValueError(_describe_nothing(schema, 0, "learn"))
    if is_new:
        check_column_names(log.names)
        X = join_tokens([batch.X for batch in batches])
        y = join_tokens([batch.y for batch in batches])
        columns = log.columns
        with columns.declare_to(model), name_columns_in_warnings(log.names):
            model.fit(X, y)
        columns.declare_types(model, X)
    return LearnedFiles(log.describe_schema(schema, model, is_new=is_new), log.n_learned)


def _decide_like(model: Learner, schema: Schema, batch: Labelled) -> AbstractContextManager[None]:
    """Let a model decide columns without values as the file that it learns was read.

    Other columns stay what they are.
    """
    columns = InputColumns.of_batch(batch)
    if isinstance(schema, TableSchema) and InputKind.UNKNOWN in schema.kinds:
        return columns.declare_to(model)
    return columns.declare_orders_to(model)


def _learn_documents(
    model: MemoryClassifier,
    reading: Reading,
    layout: MemoryClassifier | None,
    classes: list[Any] | None,
) -> LearnedFiles:
    """Learn documents, then fit the vote of a new model."""
    documents = CountedDocuments(reading)
    schema = documents.schema
    is_new = get_state(model) is None
    n_before = 0
    learn: Any = model.fit_stream
    labels = classes
    if not is_new:
        n_before = model.state.n_examples
        learn = model.partial_fit_stream
        labels = _find_labels(model, schema)
    try:
        with progress_bar("Learning") as on_progress:
            tokens, cases = documents.through(on_progress)
            learn(tokens, schema.h, classes=labels, short=schema.short, layout=layout, cases=cases)
    except ValueError as error:
        if documents.n_examples or "nothing to learn" not in str(error):
            raise
        raise ValueError(_describe_nothing(schema, 0, "learn")) from error
    n_learned = model.state.n_examples - n_before
    if not n_learned:
        raise ValueError(_describe_nothing(schema, documents.n_examples, "learn"))
    if is_new:
        (kind,) = settle_kinds([documents.kind])
        schema = replace(schema, kind=kind)
    return LearnedFiles(schema, n_learned)


def _find_labels(model: Any, schema: Schema) -> list[Any] | None:
    """Return the labels that the model learns of sequences; None for all."""
    if isinstance(schema, SequenceSchema) and schema.chosen:
        return list_declared_labels(model)
    return None


def forget_batches(model: Any, reading: Reading, only: Sequence[str], note: Note) -> int:
    """Remove the examples of files; return how many.

    What was never learned is refused, and its place is named. With `only`, the examples are those
    of the cases with these names. `note` is called with the rows or documents that are removed.
    """
    schema = reading.schema
    if _are_documents(schema, model, only):
        return _forget_documents(model, schema, CountedDocuments(reading, only, note))
    labels = _find_labels(model, schema)
    n_rows = 0
    n_forgotten = 0
    with progress_bar("Forgetting") as on_progress:
        for batch in reading.examples():
            n_rows += len(batch.y)
            X, y = with_labels(batch, labels)
            if not len(y):
                continue
            try:
                model.forget(X, y)
            except NotStoredError as error:
                place = "One example"
                if len(y) == len(batch.y):
                    place = batch.place(_find_first_refused(model, X, y))
                raise NotStoredError(
                    f"{place} was never learnt, or not that many times: nothing was forgotten and "
                    "the file is as it was. Leave it out."
                ) from error
            note(_list_rows(X, y))
            n_forgotten += len(y)
            on_progress(n_forgotten, None)
    if not n_forgotten:
        raise ValueError(_describe_nothing(schema, n_rows, "forget"))
    return n_forgotten


def _forget_documents(model: Any, schema: SequenceSchema, documents: CountedDocuments) -> int:
    """Remove whole documents; return the number of removed examples."""
    n_before = model.state.n_examples
    labels = _find_labels(model, schema)
    try:
        with progress_bar("Forgetting") as on_progress:
            tokens, cases = documents.through(on_progress)
            model.forget_stream(tokens, classes=labels, short=schema.short, cases=cases)
    except NotStoredError as error:
        if str(error).startswith("Case "):
            raise
        raise NotStoredError(
            "A document was never learnt, or not that many times: nothing was forgotten and the "
            "file is as it was. Leave it out, or name those that were learnt with --only."
        ) from error
    if documents.missing:
        raise ValueError(
            f"The input has no case {', '.join(map(repr, sorted(documents.missing)))}."
        )
    n_forgotten: int = n_before - model.state.n_examples
    return n_forgotten


def read_batches(model: Any, reading: Reading, only: Sequence[str], note: Note) -> None:
    """Call `note` as `forget_batches` does, and forget nothing."""
    if _are_documents(reading.schema, model, only):
        tokens, _ = CountedDocuments(reading, only, note).through(lambda *_: None)
        deque(tokens, maxlen=0)  # reads all of them
        return
    labels = _find_labels(model, reading.schema)
    for batch in reading.examples():
        note(_list_rows(*with_labels(batch, labels)))


def _are_documents(
    schema: Schema, model: Learner, only: Sequence[str]
) -> TypeGuard[SequenceSchema]:
    """Return whether whole documents are forgotten."""
    return isinstance(schema, SequenceSchema) and (bool(only) or model.state.documents is not None)


def _list_rows(X: Array, y: Array) -> Iterator[list[Any]]:
    """Yield rows with their labels last."""
    return ([*row, label] for row, label in zip(X.tolist(), y.tolist(), strict=True))


def _find_first_refused(model: Learner, X: Array, y: Array) -> int:
    """Return the first row such that the rows up to it cannot all be removed.

    The model is not to be used after that.
    """
    # The first `low` rows can be removed, the first `high` cannot.
    low = 0
    high = len(y)
    while high - low > 1:
        middle = (low + high) // 2
        try:
            model.forget(X[low:middle], y[low:middle])
            low = middle
        except NotStoredError:
            high = middle
    return low


def with_labels(batch: Labelled, labels: Sequence[Any] | None) -> tuple[Array, Array]:
    """Return the examples of a batch that have one of these labels; all where none are given."""
    if labels is None:
        return batch.X, batch.y
    learned_labels = set(labels)
    is_learned = np.array([label in learned_labels for label in batch.y.tolist()], bool)
    return batch.X[is_learned], batch.y[is_learned]


def _describe_nothing(schema: Schema, n_rows: int, verb: str) -> str:
    """Return why there is nothing to learn or to forget; `n_rows` have labels of other models."""
    nothing = f"There is nothing to {verb}"
    if n_rows:
        return (
            f"{nothing}: none of {n_rows:,} examples has a label that the model was told to "
            "predict."
        )
    if isinstance(schema, TableSchema):
        return f"{nothing}: the input has no row beyond its header."
    return f"{nothing}: no document has more than h={schema.h} tokens. Fit with a smaller --h."
