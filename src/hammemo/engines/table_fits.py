"""Tables on engines: many workers learn rows in files as `fit` learns them whole, to the byte.

`fit` chooses everything from the kept rows, those with the lowest hashes, and counts all rows
under what was chosen. Both are sums over groups of rows:

1. each worker reads a group of shards and returns the rows of it that have the lowest hashes;
   the rows that have the lowest of all are among them. It also says which labels there are and
   what each column holds;
2. the layout is chosen here, once, from the kept rows;
3. where not all rows were kept, each worker reads its group again and counts it under that layout;
4. the weights are fitted here, to the kept rows.

A row is hashed by its values, and what ``3`` in a CSV file is, a name or a number, depends on
all values of its column; so do the format of dates, and whether ``NA`` is a missing value. The
first rows say what it most likely is. Each group says what its rows show, and where that is
something else, the first step is done once more with what all groups have shown.

The source is read twice. Where the second pass finds more or fewer rows than the first, the fit
is refused.
"""

from __future__ import annotations

import hashlib
import json
import os
from abc import ABC, abstractmethod
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import numpy as np
from sklearn.base import clone

from hammemo._arrays.checked import StoredArrays
from hammemo.edits.editing import edit
from hammemo.edits.task import TableFacts
from hammemo.engines.jobs import (
    GroupJob,
    GroupObserver,
    GroupTally,
    add_prefix,
    describe_job,
    open_checkpoint,
    take_prefix,
)
from hammemo.sources.kinds import (
    InputKind,
    InputKinds,
    Truths,
    merge_kinds,
    merge_truths,
    settle_kinds,
)
from hammemo.sources.schemas import TableSchema, side_by_side
from hammemo.tasks.numbers.memory import NumberMemory, NumberRows
from hammemo.tasks.numbers.read import read_targets
from hammemo.tokens.column_kinds import ColumnKind, ColumnType, TokenType, has_ordered
from hammemo.tokens.column_letters import decode_letters, encode_letters
from hammemo.tokens.column_values import tokens_of
from hammemo.tokens.columns import Columns
from hammemo.tokens.contexts import Examples, check_column_names
from hammemo.tokens.labels import classes_array, common_label_dtype, label_array
from hammemo.tokens.text_evidence import NAMES_ONLY, NO_EVIDENCE, TextEvidence
from hammemo.tokens.token_types import TokenTypes
from hammemo.tokens.vocabulary import Vocabulary

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from hammemo._arrays.types import Array
    from hammemo.edits.settings import EditSettings
    from hammemo.edits.state import AnyState
    from hammemo.edits.task import ModelTask
    from hammemo.engines.jobs import Arrays, Checkpoint, GroupReport, Groups, Shards
    from hammemo.engines.running import Machines
    from hammemo.engines.segments import SegmentsJob
    from hammemo.estimators.classifiers import MemoryClassifier
    from hammemo.estimators.regressor import MemoryRegressor
    from hammemo.features.cells import Cells
    from hammemo.memories import Memory
    from hammemo.sources.read_tables import Batch, TableFiles
    from hammemo.stores.kept import ModelStore
    from hammemo.tasks.labels.layout import LabelState
    from hammemo.tasks.numbers.layout import NumberLayout
    from hammemo.tasks.numbers.state import NumberState
    from hammemo.tokens.column_kinds import ColumnKinds, ColumnTypes

Front = TypeVar("Front", "MemoryClassifier", "MemoryRegressor")

_KEPT: Final = "kept."
_LABELS: Final = "labels."


class _BatchExamples(NamedTuple):
    """The rows of a batch as examples."""

    examples: Examples
    labels: Array
    kinds: InputKinds
    """What each column and the labels hold."""


def _read_examples(
    schema: TableSchema, batch: Batch, read_labels: Callable[[Any], Array]
) -> _BatchExamples:
    """Return the rows of a batch as examples; `read_labels` reads the column to predict."""
    rows = schema.read_columns(batch)
    labels = read_labels(rows.labels)
    if has_ordered(schema.column_kinds):
        tokens = tokens_of(
            rows.columns,
            schema.column_kinds,
            schema.missing,
            schema.columns,
            learning=True,
            scales=schema.scales,
        )
    else:
        tokens = side_by_side(rows.columns)
    examples = Examples.of_arrays(tokens, labels, np.ones(len(labels), np.int64))
    return _BatchExamples(examples, labels, rows.kinds)


def _batches(
    source: TableFiles, schema: TableSchema, shards: Shards, tally: GroupTally
) -> Iterator[Batch]:
    """Yield the batches of some shards that have rows."""
    columns = schema.labelled_columns
    for shard in shards:
        for batch in tally.time_pieces(source.batches(shard, columns)):
            if len(batch):
                tally.tokens += len(batch) * len(schema.known_columns)
                yield batch


@dataclass(frozen=True)
class TableJob(GroupJob):
    """Count rows.

    Parameters
    ----------
    template, checkpoint, kept
        As in `GroupJob`; nothing is kept here.
    source : TableFiles
        How shards are read; it need not list the files.
    schema : TableSchema
        How rows are read; the columns and their kinds are known.
    cells : Cells, optional
        How rows with numbers become contexts.
    """

    source: TableFiles
    schema: TableSchema
    cells: Cells | None

    def pieces(self, shards: Shards, tally: GroupTally) -> Iterator[Batch]:
        """Yield the rows of one group, in batches."""
        return _batches(self.source, self.schema, shards, tally)

    def add(self, memory: Memory, pieces: Iterable[Batch]) -> None:
        """Count the rows of batches."""
        for batch in pieces:
            self.add_examples(memory, _read_examples(self.schema, batch, label_array).examples)

    def add_examples(self, memory: Memory, examples: Examples) -> None:
        """Count examples, as contexts of cells where they have numbers."""
        if self.cells is None:
            memory.add(examples)
        else:
            memory.add_cells(self.cells, examples)


@dataclass(frozen=True)
class Findings:
    """What the first pass has found in some rows.

    Parameters
    ----------
    evidence : tuple of TextEvidence
        What the values of each column say about its kind.
    truths : tuple of bool or None
        Whether it holds truth values only, as `TableSchema.truths` says it.
    names : tuple of InputKind
        The kinds of names of each column, the label last; empty before a row was read.
    token_types : TokenTypes, optional
        Whether columns of names held numbers or strings; None before a row was read.
    labels : Vocabulary
    dtype : str
        The type of the labels; empty before a row was read.
    n_rows : int
    kept : ModelStore or None
        What is stored of the rows: those with the lowest hashes, or digests of all.
    is_whole : bool
        Whether all rows were read as the pass reads them; if not, it is repeated.
    clocks : tuple of str or None
        The zones of columns of dates, as `TableSchema.clocks` says them.
    """

    evidence: tuple[TextEvidence, ...]
    truths: Truths = ()
    names: InputKinds = ()
    token_types: TokenTypes | None = None
    labels: Vocabulary = field(default_factory=Vocabulary)
    dtype: str = ""
    n_rows: int = 0
    kept: ModelStore | None = None
    is_whole: bool = True
    clocks: tuple[str | None, ...] = ()

    def with_rows(self, batch: _BatchExamples, labels: Vocabulary) -> Findings:
        """Return what is known after some more rows, which have these labels."""
        fresh = Findings(
            evidence=(NO_EVIDENCE,) * len(self.evidence),
            truths=self.truths,
            names=batch.kinds,
            token_types=TokenTypes.from_contexts(batch.examples.contexts),
            labels=labels,
            dtype=batch.labels.dtype.str,
            n_rows=len(batch.labels),
        )
        kept = None if self.kept is None else self.kept.edit(batch.examples, 1)
        return replace(self.plus(fresh), kept=kept)

    def plus(self, other: Findings) -> Findings:
        """Return what is known of the rows of both."""
        token_types = other.token_types
        if self.token_types is not None:
            token_types = self.token_types.plus(other.token_types)
        classes = [
            classes_array(findings.labels, np.dtype(findings.dtype))
            for findings in (self, other)
            if findings.dtype
        ]
        evidence = tuple(
            column.plus(other_column)
            for column, other_column in zip(self.evidence, other.evidence, strict=True)
        )
        kept = None
        if self.kept is not None and other.kept is not None:
            kept = self.kept.plus(other.kept, 1)
        truths = self.truths
        if other.truths:
            truths = merge_truths(self.truths, other.truths)
        return Findings(
            evidence=evidence,
            truths=truths,
            names=merge_kinds(self.names, other.names) if other.names else self.names,
            token_types=token_types,
            labels=self.labels.union(other.labels),
            dtype=common_label_dtype(*classes).str if classes else "",
            n_rows=self.n_rows + other.n_rows,
            kept=kept,
            is_whole=self.is_whole and other.is_whole,
            # those of several groups are joined by `_TableFit.survey`, which knows the schema
            clocks=self.clocks or other.clocks,
        )

    def pack(self) -> Arrays:
        """Return all of it as arrays, for other processes and for files; `unpack` undoes it."""
        facts = [
            [column.pack() for column in self.evidence],
            self.truths,
            encode_letters(self.names),
            "" if self.token_types is None else encode_letters(self.token_types.types),
            self.dtype,
            self.n_rows,
            self.is_whole,
            self.clocks,
        ]
        kept = {} if self.kept is None else self.kept.pack()
        return {
            "told": np.frombuffer(json.dumps(facts).encode("ascii"), np.uint8),
            **add_prefix(_LABELS, self.labels.arrays()),
            **add_prefix(_KEPT, kept),
        }

    @classmethod
    def unpack(cls, arrays: Arrays, empty: ModelStore | None) -> Findings:
        """Return what `pack` returned."""
        facts = json.loads(np.asarray(arrays["told"]).tobytes())
        evidence, truths, names, letters, dtype, n_rows, is_whole, clocks = facts
        token_types = TokenTypes(decode_letters(letters, TokenType)) if letters else None
        kept = take_prefix(_KEPT, arrays)
        return cls(
            evidence=tuple(TextEvidence.from_packed(column) for column in evidence),
            truths=tuple(truths),
            names=decode_letters(names, InputKind),
            token_types=token_types,
            labels=Vocabulary.from_arrays(StoredArrays(take_prefix(_LABELS, arrays))),
            dtype=dtype,
            n_rows=n_rows,
            kept=empty.unpack(kept) if empty is not None and kept else None,
            is_whole=is_whole,
            clocks=tuple(clocks),
        )

    def types(self, kinds: ColumnKinds) -> ColumnTypes:
        """Return how values of columns of these kinds came, as if of a frame."""
        types = []
        for kind, is_truth in zip(kinds, self.truths, strict=True):
            if is_truth is None:
                types.append(ColumnType.UNTYPED)
            elif kind is ColumnKind.DATES:
                types.append(ColumnType.DATES)
            elif kind is ColumnKind.ORDERED_CATEGORIES:
                types.append(ColumnType.ORDERED)
            else:
                types.append(ColumnType.CATEGORIES if is_truth else ColumnType.TYPED)
        return tuple(types)


@dataclass(frozen=True)
class Pass(ABC):
    """One reading of all rows, group by group, on whatever worker.

    Parameters
    ----------
    source : TableFiles
        How shards are read; it need not list the files.
    schema : TableSchema
        How rows are read, with the kinds that columns most likely have.
    checkpoint : Checkpoint or None
        Where results are kept.
    """

    source: TableFiles
    schema: TableSchema
    checkpoint: Checkpoint | None = field(default=None, kw_only=True)

    @abstractmethod
    def result(self, batches: Iterable[Batch]) -> Arrays:
        """Return what is made of the rows of a group."""

    def read(self, group: int, shards: Shards) -> tuple[Arrays, GroupReport]:
        """Return the result for a group, or what an earlier run has stored of it."""
        tally = GroupTally(None)
        arrays = None if self.checkpoint is None else self.checkpoint.read(group)
        resumed = arrays is not None
        if arrays is None:
            results = self.result(_batches(self.source, self.schema, shards, tally))
            arrays = {name: np.ascontiguousarray(array) for name, array in results.items()}
            if self.checkpoint is not None:
                self.checkpoint.write(group, arrays)
        return arrays, tally.report(group, shards, None, resumed=resumed)


@dataclass(frozen=True)
class NumberCount(Pass):
    """The second pass of a model of numbers: the sums of a group under a layout.

    Parameters
    ----------
    source, schema, checkpoint
        As in `Pass`.
    layout : NumberLayout
    seed : int
    """

    layout: NumberLayout
    seed: int

    def result(self, batches: Iterable[Batch]) -> Arrays:
        """Return the memory of the rows of a group, as arrays."""
        memory = NumberMemory.empty(self.layout)
        for batch in batches:
            examples = _read_examples(self.schema, batch, read_targets).examples
            memory = memory.with_rows(
                self.layout, NumberRows.from_examples(self.layout, examples, self.seed), 1
            )
        return memory.arrays()


@dataclass(frozen=True)
class Survey(Pass):
    """The first pass: what a group of shards holds, and its rows with the lowest hashes.

    Parameters
    ----------
    source, schema, checkpoint
        As in `Pass`.
    settings : EditSettings
        The parameters of the model. Its task reads the column to predict.
    known : tuple of TextEvidence
        What some rows of the table say about each column; `schema` follows from it.
    empty : ModelStore or None
        What rows are stored in.
    """

    settings: EditSettings[Any, Any, Any]
    known: tuple[TextEvidence, ...]
    empty: ModelStore | None

    def result(self, batches: Iterable[Batch]) -> Arrays:
        """Return what rows say, as arrays.

        After a value that a column should not have, only what the columns hold.
        """
        reading = self.settings.task.reading
        findings = Findings(self.no_evidence, kept=self.empty)
        for batch in batches:
            findings = self._look_at_columns(batch, findings)
            if findings.is_whole:
                rows = _read_examples(self.schema, batch, reading.read_targets)
                reading.check_targets(self.settings, rows.labels)
                labels = reading.collect_labels(rows.examples)
                findings = findings.with_rows(rows, labels)
        if not findings.is_whole:
            findings = Findings(findings.evidence, is_whole=False, clocks=findings.clocks)
        return findings.pack()

    def _look_at_columns(self, batch: Batch, before: Findings) -> Findings:
        """Return findings with what the columns of some more rows show, but without the rows."""
        schema = self.schema
        evidence = before.evidence
        if self.is_open:
            evidence = tuple(schema.add_evidence(batch, evidence))
        # the zones of dates are those of the kinds that the rows show, even if these are not the
        # kinds that the pass reads
        reading = schema if self.has_kinds(evidence) else self._schema_with(evidence)
        findings = replace(
            before,
            evidence=evidence,
            truths=merge_truths(before.truths, schema.truths(batch)),
            clocks=schema.join_clocks(before.clocks, reading.read_clocks(batch)),
        )
        # once some rows were left out, the rest are, too, though later rows may prove it right
        return replace(findings, is_whole=before.is_whole and self.is_right(findings))

    @property
    def is_open(self) -> bool:
        """Whether values decide the kinds of the columns."""
        return bool(self.known)

    @property
    def no_evidence(self) -> tuple[TextEvidence, ...]:
        """What no row says about each column."""
        return (NO_EVIDENCE,) * len(self.known)

    def is_right(self, findings: Findings) -> bool:
        """Return whether the pass reads columns as the rows demand: in their kinds and clocks."""
        if not self.has_kinds(findings.evidence):
            return False
        return self.schema.join_clocks(self.schema.clocks, findings.clocks) == self.schema.clocks

    def has_kinds(self, evidence: Sequence[TextEvidence]) -> bool:
        """Return whether columns have the kinds and the formats with which this pass reads them."""
        if not self.is_open:
            return True
        schema = self._schema_with(evidence)
        has_same_kinds = schema.kinds == self.schema.kinds
        return has_same_kinds and schema.learned_formats == self.schema.learned_formats

    def _schema_with(self, evidence: Sequence[TextEvidence]) -> TableSchema:
        """Return how columns are read when the evidence of more rows is added."""
        columns = zip(self.known, evidence, strict=True)
        return self.schema.with_evidence([before.plus(more) for before, more in columns])


def fit_rows(
    estimator: Front,
    source: TableFiles,
    schema: TableSchema,
    machines: Machines,
    *,
    classes: Any = None,
    layout: MemoryClassifier | None = None,
) -> tuple[Front, TableSchema]:
    """Return a copy of the estimator that has learned the rows of files, and how they were read.

    Parameters
    ----------
    estimator, machines, classes, layout
        As in :func:`hammemo.engines.fit_table`.
    source : TableFiles
    schema : TableSchema
        How rows are read; columns and kinds may be open.
    """
    fit_class = _FIT_OF[estimator.predicts]
    fit_class.check_machines(machines)
    groups = machines.groups(source)
    say = schema.tell
    schema = replace(schema, tell=None)  # workers say nothing
    tell = GroupObserver(len(groups), None, machines.on_progress, machines.on_report)
    model: Front = clone(estimator)
    schema, evidence = _look_at_first_rows(source, schema)
    # one session for both passes
    with machines.spreading() if machines.engine == "ray" else nullcontext():
        settings = model.settings()
        layout_state: AnyState | None = model.read_layout(layout)
        fit = fit_class(
            settings,
            source,
            groups,
            machines,
            tell=tell,
            seed=settings.seed(),
            layout=layout_state,
        )
        schema, findings = fit.survey(schema, evidence)
        edit(model, lambda _: fit.learn(schema, findings, classes))
    schema = replace(schema, tell=say)
    schema.say_doubts(findings.evidence)
    schema.say_missing(findings.evidence)
    machines.finish(model, fit.work)
    return model, replace(schema, kinds=settle_kinds(findings.names))


class _FirstLook(NamedTuple):
    """What the first rows of a source say."""

    schema: TableSchema
    """How rows are read."""
    evidence: tuple[TextEvidence, ...]
    """What the rows say about each column; empty where the kinds of columns are given."""


def _look_at_first_rows(source: TableFiles, schema: TableSchema) -> _FirstLook:
    """Settle how rows are read, by the first ones of a source."""
    if schema.label is None:
        raise ValueError("The column with the labels is not known: name it with label=.")
    columns = None if schema.columns is None else schema.labelled_columns
    batches = (batch for shard in source.shards() for batch in source.batches(shard, columns))
    batch = next((batch for batch in batches if len(batch)), None)
    if batch is None:
        raise ValueError("There is nothing to learn: the files have no row beyond their headers.")
    schema = replace(schema, columns=schema.name_columns(batch))
    check_column_names(schema.known_columns)
    schema.check_dated(schema.known_columns)
    schema = schema.with_orders(batch)
    evidence: tuple[TextEvidence, ...] = ()
    has_kinds = len(schema.kinds) == len(schema.known_columns) + 1  # the label has one, too
    if not has_kinds and schema.numeric == "none" and not schema.orders:
        schema = schema.with_evidence([NAMES_ONLY] * len(schema.known_columns))
    elif not has_kinds:
        evidence = tuple(schema.add_evidence(batch))
        schema = schema.with_evidence(evidence)
    return _FirstLook(replace(schema, clocks=schema.read_clocks(batch)), evidence)


@dataclass
class _TableFit(ABC):
    """One fit of a table: the steps that the driver takes."""

    settings: EditSettings[Any, Any, Any]
    source: TableFiles
    groups: Groups
    machines: Machines
    tell: GroupObserver
    seed: int
    layout: LabelState | None
    work: SegmentsJob | None = None
    """What has made segments, if any."""

    @classmethod
    @abstractmethod
    def check_machines(cls, machines: Machines) -> None:
        """Refuse a way to store finished work that does not go with the model."""

    @abstractmethod
    def count(self, state: Any, schema: TableSchema, kept: ModelStore | None) -> Any:
        """Return the memory of a state with all rows; `kept` is what is stored of them."""

    @property
    def task(self) -> ModelTask[Any, Any, Any, Any]:
        """The task of the model."""
        return self.settings.task

    def learn(self, schema: TableSchema, findings: Findings, classes: Any) -> AnyState:
        """Choose everything, let others count, and fit the weights."""

        def count_all(state: AnyState) -> Any:
            memory = self.count(state, schema, findings.kept)
            if self.task.counting.count_examples(memory) != findings.n_rows:
                raise _change_error()
            return memory

        assert findings.token_types is not None
        kinds = schema.column_kinds
        facts = TableFacts(
            schema.known_columns,
            kinds=kinds,
            types=findings.types(kinds),
            token_types=findings.token_types,
            labels=findings.labels,
            target_dtype=np.dtype(findings.dtype),
            store=findings.kept,
            seed=self.seed,
            scales=schema.scales,
        )
        state: AnyState = self.task.tables.learn_table(
            self.settings,
            facts,
            classes,
            self.layout,
            count_all=count_all,
            kept_are_counted=self.machines.segments is None,
        )
        return state

    def survey(
        self, schema: TableSchema, evidence: tuple[TextEvidence, ...]
    ) -> tuple[TableSchema, Findings]:
        """Return how rows are read and what the first pass has found.

        It is done once more where the first rows were misleading.
        """
        for name in ("rows", "rows-again"):
            columns = Columns(schema.column_kinds)
            empty = self.task.tables.empty_store(self.settings, columns, self.seed, self.layout)
            source = self.source.without_files()
            survey = Survey(source, schema, self.settings, evidence, empty=empty)
            survey = replace(survey, checkpoint=self._checkpoint(self._manifest(survey), name))
            findings = Findings(survey.no_evidence, kept=empty)
            with self.machines.spreading() as spread:
                for arrays, report in spread(survey.read, enumerate(self.groups)):
                    of_group = Findings.unpack(arrays, empty)
                    clocks = schema.join_clocks(findings.clocks, of_group.clocks)
                    findings = replace(findings.plus(of_group), clocks=clocks)
                    self.tell(report)
            # A group may have stopped because its own rows say another kind than all rows together.
            if findings.is_whole and survey.is_right(findings):
                return schema, findings
            evidence = findings.evidence
            if survey.is_open:
                schema = schema.with_evidence(evidence)
            schema = replace(schema, clocks=findings.clocks)
            self.tell.expect(len(self.groups))
        raise _change_error()

    def _manifest(self, work: Pass | TableJob) -> dict[str, Any]:
        """Return what must be the same for a group's result to be used again."""
        schema = work.schema
        kept = work.empty if isinstance(work, Survey) else None
        kinds = encode_letters(schema.column_kinds) if has_ordered(schema.column_kinds) else None
        return describe_job(
            self.source,
            self.groups,
            kept,
            label=schema.label,
            is_target=schema.is_target,
            columns=list(schema.known_columns),
            kinds=kinds,
            formats=[list(pair) for pair in schema.learned_formats],
            orders=[[place, list(order)] for place, order in schema.orders],
            na=list(schema.na),
            missing=schema.missing,
        )

    def _checkpoint(self, manifest: dict[str, Any], name: str) -> Checkpoint | None:
        """Return what remembers the first pass: with segments, a folder that all workers see."""
        machines = self.machines
        if machines.segments is None or machines.out_is_address:
            return machines.checkpoint(manifest, name)
        folder = os.path.join(os.path.abspath(os.fspath(machines.out or "")), "runs")
        return open_checkpoint(os.path.join(folder, f"{name}-{_digest(manifest)}"), manifest)


@dataclass
class _LabelTableFit(_TableFit):
    """One fit of a model of labels, whose counts can be stored in any way."""

    @classmethod
    def check_machines(cls, machines: Machines) -> None:
        """Refuse nothing."""

    def count(self, state: LabelState, schema: TableSchema, kept: ModelStore | None) -> Memory:
        """Return the counts of all rows."""
        memory = state.memory
        cells = state.layout.cells
        job = TableJob(memory.empty_like(), self.source.without_files(), schema, cells)
        manifest = {
            **self._manifest(job),
            "layout": memory.fingerprint(),
            "cells": _digest(cells),
        }
        job = replace(job, checkpoint=self.machines.checkpoint(manifest, "counts"))
        self.tell.expect(len(self.groups))
        counted, self.work = self.machines.count(
            job,
            self.groups,
            sample=self._sample(job, kept),
            manifest=manifest,
            tell=self.tell,
            kind="processes",
        )
        return counted

    def _sample(self, job: TableJob, kept: ModelStore | None) -> Memory:
        """Return a memory that has counted some rows, where the spread of keys must be known."""
        sample = job.template.empty_like()
        if self.machines.segments is None:
            return sample
        rows = None if kept is None else kept.kept_rows
        if rows is None:
            job.add(sample, [next(job.pieces(self.groups[0], GroupTally(None)))])
        else:
            job.add_examples(sample, rows.examples())
        return sample


@dataclass
class _NumberTableFit(_TableFit):
    """One fit of a model of numbers, whose sums are no table that could be cut."""

    @classmethod
    def check_machines(cls, machines: Machines) -> None:
        """Refuse segments."""
        if machines.segments is not None:
            raise ValueError(
                "segments= cuts a table of counts, and a model of numbers has none: leave it out."
            )

    def count(
        self, state: NumberState, schema: TableSchema, kept: ModelStore | None
    ) -> NumberMemory:
        """Return the sums over all rows."""
        del kept
        layout = state.layout
        job = NumberCount(self.source.without_files(), schema, layout, self.seed)
        manifest = {**self._manifest(job), "layout": layout.digest}
        job = replace(job, checkpoint=self._checkpoint(manifest, "counts"))
        self.tell.expect(len(self.groups))
        total = NumberMemory.empty(layout)
        with self.machines.spreading() as spread:
            for arrays, report in spread(job.read, enumerate(self.groups)):
                total = total.plus(NumberMemory.from_stored(layout, StoredArrays(arrays)), 1)
                self.tell(report)
        return total


_FIT_OF: Final[dict[str, type[_TableFit]]] = {
    "labels": _LabelTableFit,
    "numbers": _NumberTableFit,
}
"""How the rows of a table are counted, by what the model predicts."""


def _digest(value: Any) -> str | None:
    if value is None:
        return None
    text = json.dumps(value) if isinstance(value, dict) else value.digest()
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def _change_error() -> ValueError:
    """Return the refusal of a source whose second pass has other rows."""
    return ValueError(
        "The table was changed while it was read: "
        "the second pass has found other rows than the first. Learn files that stay as they are."
    )
