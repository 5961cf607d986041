"""Learning and forgetting batch by batch, so that a file of any size takes a bounded amount of memory.

Sequences are learnt and forgotten by whole documents or cases: what a mixture keeps and leaves out are these.
"""

from __future__ import annotations

import os
from collections import deque
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from itertools import tee
from typing import TYPE_CHECKING, Any, TypeGuard, cast

import numpy as np

from hammemo.cli.console import progress_bar
from hammemo.edits.column_changes import find_columns_without_values
from hammemo.edits.editing import get_state, take_state
from hammemo.memories import NotStoredError
from hammemo.sources.formats import is_address
from hammemo.sources.kinds import (
    InputKind,
    InputKinds,
    find_ordered_columns,
    kind_of_names,
    merge_kind,
    merge_kinds,
    settle_kinds,
)
from hammemo.sources.reading_notes import name_columns_in_warnings
from hammemo.sources.schemas import Labelled, Schema, SequenceSchema, TableSchema
from hammemo.tasks.labels.automatic import chooses_sites, make_vote, stream_kernel
from hammemo.tasks.labels.names import is_auto
from hammemo.tokens.column_evidence import Evidence
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
    from hammemo.tokens.column_kinds import ColumnTypes


@dataclass(frozen=True)
class Reading:
    """Files, and how examples are read from them."""

    schema: Schema
    files: Sequence[str]
    file_format: str | None

    def examples(self) -> Iterator[Labelled]:
        """Yield the examples, batch by batch."""
        return self.schema.examples(self.files, self.file_format)


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

    def __init__(self, reading: Reading, only: Sequence[str] = (), note: Note = lambda _: None) -> None:
        assert isinstance(reading.schema, SequenceSchema)
        self.schema, self._reading, self._note = reading.schema, reading, note
        self._only = set(only)
        self.missing = set(only)
        self.n_examples = 0
        self.kind = InputKind.UNKNOWN

    def through(self, tell: Callable[[int, None], None]) -> tuple[Iterator[Array], Iterator[Any] | None]:
        """Return the documents and, for an event log, their cases; each is read as the other is."""
        documents, cases = tee(self._counted(tell))
        return (tokens for _, tokens in documents), (name for name, _ in cases) if self.schema.is_log else None

    def _counted(self, tell: Callable[[int, None], None]) -> Iterator[tuple[Any, Array]]:
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


def _chooses(model: MemoryClassifier) -> bool:
    """Return whether the model chooses what it compares."""
    memory = model.settings().new_memory()
    return is_auto(model.kernel) and chooses_sites(memory, make_vote(model.vote, memory))


def declared(model: Any) -> set[Any]:
    """Return the labels that the model was told to predict."""
    return set(model.memory_.declared.tolist())


def learn_batches(
    model: Learner, reading: Reading, *, layout: MemoryClassifier | None = None, classes: list[Any] | int | None = None
) -> tuple[Schema, dict[str, Any]]:
    """Learn files in batches, then choose sites and fit the vote; return how they were read and what was learnt.

    A table with more rows than a model keeps is read once more, to be counted under the sites that were chosen. What
    cannot be read twice, such as standard input, is chosen from while all rows are kept.
    """
    fresh = get_state(model) is None
    if not fresh and isinstance(reading.schema, TableSchema):
        reading = replace(reading, schema=open_columns(model, reading.schema))
    schema = reading.schema
    if model.settings().task.schedule.chooses_by_first_rows():  # so it gets all rows at once
        return _learn_targets(model, reading)
    model = model.as_classifier()
    if isinstance(schema, SequenceSchema) and not isinstance(classes, int):
        return _learn_sequences(model, reading, layout, classes)
    chooses = fresh and layout is None and _chooses(model)
    if chooses and isinstance(schema, SequenceSchema):
        model.set_params(kernel=stream_kernel(schema.h))
        chooses = False
    # what can be read once: standard input, a pipe
    once = chooses and not all(is_address(name) or os.path.isfile(name) for name in reading.files)
    chosen = classes if isinstance(classes, list) else None
    seen = learnt = 0
    columns = None
    kinds: InputKinds = ()
    formats: tuple[tuple[int, str], ...] = ()
    with progress_bar("Learning") as tell:
        for batch in reading.examples():
            if isinstance(classes, int) and chosen is None:
                chosen = most_frequent_labels(batch.y, classes)
            X, y = with_labels(batch, chosen)
            seen += len(batch.y)
            if not len(y):
                continue
            if get_state(model) is None:
                check_column_names(batch.columns)
                with numeric_columns(model, batch.kinds), name_columns_in_warnings(batch.columns):
                    model.partial_fit(X, y, classes=chosen if fresh else None, layout=layout, choose=once)
                declare_types(model, _types_of(X, batch.kinds))
            else:
                with _decide_like(model, schema, batch.kinds), name_columns_in_warnings(batch.columns):
                    model.partial_fit(X, y, choose=once)
            columns = batch.columns
            kinds = merge_kinds(kinds, batch.kinds)
            formats = batch.formats
            learnt += len(y)
            tell(learnt, None)
    if not learnt:
        raise ValueError(_nothing(schema, seen, "learn"))
    kept = model.state.kept
    if chooses and not once and (kept is None or not kept.holds_all):
        model.refit(rows=((batch.X, batch.y) for batch in reading.examples()))
    elif fresh and layout is None and kept is not None:
        model.refit()
    if fresh and isinstance(schema, TableSchema):
        schema = replace(_as_learnt(schema, model, columns, kinds), learned_formats=formats)
    elif fresh and isinstance(schema, SequenceSchema):
        (kind,) = settle_kinds(kinds)
        schema = replace(schema, kind=kind)
    elif isinstance(schema, TableSchema):
        schema = schema.with_decided_columns(kinds, formats)
    return schema, {"examples": learnt}


def open_columns(model: Learner, schema: TableSchema) -> TableSchema:
    """Return the schema of a model, where rows to come decide the kinds of columns that have no value yet."""
    return schema.with_open_columns(find_columns_without_values(model.state), model.numeric)


def _learn_targets(model: MemoryRegressor, reading: Reading) -> tuple[Schema, dict[str, Any]]:
    """Learn rows with numbers as targets; a new model is fitted to all of them at once."""
    schema = reading.schema
    fresh = get_state(model) is None
    learnt = 0
    read = []
    kinds: InputKinds = ()
    formats: tuple[tuple[int, str], ...] = ()
    with progress_bar("Learning") as tell:
        for batch in reading.examples():
            kinds = merge_kinds(kinds, batch.kinds)
            formats = batch.formats
            if fresh:
                read.append(batch)
            else:
                with _decide_like(model, schema, batch.kinds), name_columns_in_warnings(batch.columns):
                    model.partial_fit(batch.X, batch.y, choose=False)
            learnt += len(batch.y)
            tell(learnt, None)
    if not learnt:
        raise ValueError(_nothing(schema, 0, "learn"))
    if fresh and isinstance(schema, TableSchema):
        columns = read[0].columns
        check_column_names(columns)
        X, y = join_tokens([batch.X for batch in read]), join_tokens([batch.y for batch in read])
        with numeric_columns(model, kinds), name_columns_in_warnings(columns):
            model.fit(X, y)
        declare_types(model, _types_of(X, kinds))
        schema = replace(_as_learnt(schema, model, columns, kinds), learned_formats=formats)
    elif isinstance(schema, TableSchema):
        schema = schema.with_decided_columns(kinds, formats)
    return schema, {"examples": learnt}


def _as_learnt(schema: TableSchema, model: Learner, columns: tuple[str, ...] | None, kinds: InputKinds) -> TableSchema:
    """Return the schema with the columns of a table as a new model has learned them.

    `kinds` are those of its rows, the label last.
    """
    learned = list(kinds)
    for place, kind in enumerate(model.state.columns.kinds):
        if kind.is_ordered:
            learned[place] = InputKind.from_column_kind(kind)
        elif kinds[place].is_ordered:
            learned[place] = InputKind.MIXED
    return replace(schema, columns=columns, kinds=settle_kinds(learned))


@contextmanager
def numeric_columns(model: Learner, kinds: InputKinds) -> Iterator[None]:
    """Tell the model which columns are numbers, or have an order; then its parameters are those of the user again."""
    numeric = model.numeric
    ordered = model.ordered
    state = get_state(model)
    # rows of files have no names of columns here, and their categories come as texts
    orders = None
    if state is not None:
        places = range(state.columns.n)
        orders = {j: state.columns.order_of(j) for j in places if state.columns.order_of(j)}
    model.set_params(numeric=find_ordered_columns(kinds), ordered=orders or None)
    try:
        yield
    finally:
        model.set_params(numeric=numeric, ordered=ordered)


def _decide_like(model: Learner, schema: Schema, kinds: InputKinds) -> AbstractContextManager[None]:
    """Let a model decide columns without values as the file that it learns was read; others stay what they are."""
    if isinstance(schema, TableSchema) and InputKind.UNKNOWN in schema.kinds:
        return numeric_columns(model, kinds)
    return nullcontext()


def declare_types(model: Learner, types: ColumnTypes | None) -> None:
    """Set in which types the values of columns came; packed rows are numbers, whose kinds are not decided again."""
    if not model.state.columns.packed:
        take_state(model, model.state.with_changes(columns=replace(model.state.columns, types=types)))


def _types_of(X: Array, kinds: InputKinds) -> ColumnTypes | None:
    """Return the types of the columns of a table, as of a frame; the tokens of documents are names."""
    return Evidence.of_columns(list(X.T), has_types=True).types if len(kinds) > 1 else None


def _learn_sequences(
    model: MemoryClassifier, reading: Reading, layout: MemoryClassifier | None, classes: list[Any] | None
) -> tuple[Schema, dict[str, Any]]:
    """Learn documents, then fit the vote of a new model."""
    documents = CountedDocuments(reading)
    schema, fresh = documents.schema, not hasattr(model, "memory_")
    short = cast("Any", schema.short)
    before = 0 if fresh else int(model.memory_.label_counts.sum())
    chosen, learn = (classes, model.fit_stream) if fresh else (_chosen(model, schema), model.partial_fit_stream)
    try:
        with progress_bar("Learning") as tell:
            read, cases = documents.through(tell)
            learn(read, schema.h, classes=chosen, short=short, layout=layout, cases=cases)
    except ValueError as error:
        if documents.n_examples or "nothing to learn" not in str(error):
            raise
        raise ValueError(_nothing(schema, 0, "learn")) from error
    learnt = int(model.memory_.label_counts.sum()) - before
    if not learnt:
        raise ValueError(_nothing(schema, documents.n_examples, "learn"))
    if fresh:
        (kind,) = settle_kinds([documents.kind])
        schema = replace(schema, kind=kind)
    return schema, {"examples": learnt}


def _chosen(model: Any, schema: Schema) -> list[Any] | None:
    """Return the labels that the model learns of sequences; None for all."""
    return sorted(declared(model)) if isinstance(schema, SequenceSchema) and schema.chosen else None


def forget_batches(model: Any, reading: Reading, only: Sequence[str], note: Note) -> int:
    """Remove the examples of files; return how many. What was never learnt is refused, and its place is named.

    With `only`, those of the cases with these names. `note` is called with the rows or documents that are removed.
    """
    schema = reading.schema
    if _are_documents(schema, model, only):
        return _forget_documents(model, schema, CountedDocuments(reading, only, note))
    chosen = _chosen(model, schema)
    seen = forgotten = 0
    with progress_bar("Forgetting") as tell:
        for batch in reading.examples():
            seen += len(batch.y)
            X, y = with_labels(batch, chosen)
            if not len(y):
                continue
            try:
                model.forget(X, y)
            except NotStoredError as error:
                place = batch.place(_first_refused(model, X, y)) if len(y) == len(batch.y) else "One example"
                raise NotStoredError(
                    f"{place} was never learnt, or not that many times: nothing was forgotten and the file is as it "
                    "was. Leave it out."
                ) from error
            note(_rows(X, y))
            forgotten += len(y)
            tell(forgotten, None)
    if not forgotten:
        raise ValueError(_nothing(schema, seen, "forget"))
    return forgotten


def _forget_documents(model: Any, schema: SequenceSchema, documents: CountedDocuments) -> int:
    """Remove whole documents; return the number of removed examples."""
    before = int(model.memory_.label_counts.sum())
    try:
        with progress_bar("Forgetting") as tell:
            read, cases = documents.through(tell)
            model.forget_stream(read, classes=_chosen(model, schema), short=schema.short, cases=cases)
    except NotStoredError as error:
        if str(error).startswith("Case "):
            raise
        raise NotStoredError(
            "A document was never learnt, or not that many times: nothing was forgotten and the file is as it was. "
            "Leave it out, or name those that were learnt with --only."
        ) from error
    if documents.missing:
        raise ValueError(f"The input has no case {', '.join(map(repr, sorted(documents.missing)))}.")
    return before - int(model.memory_.label_counts.sum())


def read_batches(model: Any, reading: Reading, only: Sequence[str], note: Note) -> None:
    """Call `note` as `forget_batches` does, and forget nothing."""
    if _are_documents(reading.schema, model, only):
        deque(CountedDocuments(reading, only, note).through(lambda *_: None)[0], maxlen=0)  # reads them all
        return
    chosen = _chosen(model, reading.schema)
    for batch in reading.examples():
        note(_rows(*with_labels(batch, chosen)))


def _are_documents(schema: Schema, model: Learner, only: Sequence[str]) -> TypeGuard[SequenceSchema]:
    """Return whether whole documents are forgotten."""
    return isinstance(schema, SequenceSchema) and (bool(only) or model.state.documents is not None)


def _rows(X: Array, y: Array) -> Iterator[list[Any]]:
    """Yield rows with their labels last."""
    return ([*row, label] for row, label in zip(X.tolist(), y.tolist(), strict=True))


def _first_refused(model: Learner, X: Array, y: Array) -> int:
    """Return the first row such that the rows up to it cannot all be removed; the model is then not to be used."""
    low, high = 0, len(y)  # the first `low` rows can be removed, the first `high` cannot
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
    wanted = set(labels)
    kept = np.array([label in wanted for label in batch.y.tolist()], bool)
    return batch.X[kept], batch.y[kept]


def _nothing(schema: Schema, seen: int, verb: str) -> str:
    if seen:
        return f"There is nothing to {verb}: none of {seen:,} examples has a label that the model was told to predict."
    if isinstance(schema, TableSchema):
        return f"There is nothing to {verb}: the input has no row beyond its header."
    return f"There is nothing to {verb}: no document has more than h={schema.h} tokens. Fit with a smaller --h."
