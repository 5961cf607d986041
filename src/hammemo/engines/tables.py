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
all values of its column. The first rows say what it most likely is. Each group says what it has
found, and where that is something else, the first step is done once more with what is now
known.

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
from hammemo._arrays.integers import object_array
from hammemo.engines.jobs import (
    GroupJob,
    GroupObserver,
    GroupTally,
    add_prefix,
    describe_job,
    open_checkpoint,
    take_prefix,
)
from hammemo.models.classifiers import MemoryClassifier, state_of_layout
from hammemo.models.counted_tables import TableFacts, learn_table, room_for_rows
from hammemo.models.editing import edit
from hammemo.models.number_state import NumberLayout, NumberMemory, NumberRows, NumberState
from hammemo.models.numbers import fit_counted
from hammemo.models.regressor import MemoryRegressor, read_targets
from hammemo.models.settings import ModelSettings, NumberSettings
from hammemo.sources.kinds import ONLY_TRUTHS, OTHERS, UNKNOWN, known_kinds, merged_kinds
from hammemo.sources.schemas import TableSchema, side_by_side
from hammemo.tokens.column_evidence import HowGiven
from hammemo.tokens.column_schema import ColumnSchema
from hammemo.tokens.columns import ColumnKind, tokens_of
from hammemo.tokens.contexts import Examples, check_column_names
from hammemo.tokens.labels import classes_array, common_label_dtype, label_array
from hammemo.tokens.missing import check_missing_rule
from hammemo.tokens.token_types import TokenTypes
from hammemo.tokens.vocabulary import Vocabulary

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from hammemo._arrays.types import Array
    from hammemo.engines.jobs import Arrays, Checkpoint, GroupReport, Groups, Shards
    from hammemo.engines.running import Machines
    from hammemo.engines.segments import SegmentsJob
    from hammemo.kernels.cells import Cells
    from hammemo.memories import Memory
    from hammemo.models.state import ModelState
    from hammemo.sources.tables import Batch, TableFiles
    from hammemo.stores.kept import ModelStore

Front = TypeVar("Front", "MemoryClassifier", "MemoryRegressor")

_KEPT: Final = "kept."
_LABELS: Final = "labels."


class _BatchExamples(NamedTuple):
    """The rows of a batch as examples."""

    examples: Examples
    labels: Array
    kinds: str
    """What kind of names each column and the labels hold."""


def _read_examples(schema: TableSchema, batch: Batch) -> _BatchExamples:
    """Return the rows of a batch as examples."""
    values, label_values, kinds = schema.read(batch)
    labels = read_targets(label_values) if schema.is_target else label_array(label_values)
    if schema.cell_kinds is not None:
        tokens = tokens_of(values, schema.cell_kinds, schema.missing, schema.columns, learning=True)
    else:
        tokens = side_by_side(values)
    examples = Examples.of_arrays(tokens, labels, np.ones(len(labels), np.int64))
    return _BatchExamples(examples, labels, kinds)


def _batches(
    source: TableFiles, schema: TableSchema, shards: Shards, tally: GroupTally
) -> Iterator[Batch]:
    """Yield the batches of some shards that have rows."""
    columns = schema.wanted
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
            self.add_examples(memory, _read_examples(self.schema, batch).examples)

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
    found : str
        What each column holds, as `TableSchema.found_kinds` says it.
    truths : str
        Whether it holds truth values, as `TableSchema.truths` says it.
    names : str
        The kinds of names of each column, the label last; empty before a row was read.
    noted : str
        The letters of :class:`~hammemo.tokens.token_types.TokenTypes`; empty before a row was read.
    labels : Vocabulary
    dtype : str
        The type of the labels; empty before a row was read.
    n_rows : int
    kept : ModelStore or None
        What is stored of the rows: those with the lowest hashes, or digests of all.
    """

    found: str
    truths: str = ""
    names: str = ""
    noted: str = ""
    labels: Vocabulary = field(default_factory=Vocabulary)
    dtype: str = ""
    n_rows: int = 0
    kept: ModelStore | None = None

    def with_rows(self, batch: _BatchExamples) -> Findings:
        """Return what is known after some more rows."""
        fresh = Findings(
            self.found,
            truths=self.truths,
            names=batch.kinds,
            noted=TokenTypes.of(batch.examples.contexts).letters,
            labels=batch.examples.labels,
            dtype=batch.labels.dtype.str,
            n_rows=len(batch.labels),
        )
        kept = None if self.kept is None else self.kept.changed(batch.examples, 1)
        return replace(self.plus(fresh), kept=kept)

    def plus(self, other: Findings) -> Findings:
        """Return what is known of the rows of both."""
        noted = self.noted or other.noted
        if self.noted and other.noted:
            noted = TokenTypes(self.noted).plus(TokenTypes(other.noted)).letters
        classes = [
            classes_array(findings.labels, np.dtype(findings.dtype))
            for findings in (self, other)
            if findings.dtype
        ]
        kept = None
        if self.kept is not None and other.kept is not None:
            kept = self.kept.plus(other.kept, 1)
        truths = self.truths
        if other.truths:
            truths = merged_kinds(self.truths, other.truths, OTHERS)
        return Findings(
            merged_kinds(self.found, other.found, ColumnKind.NAMES),
            truths=truths,
            names=merged_kinds(self.names, other.names) if other.names else self.names,
            noted=noted,
            labels=self.labels.union(other.labels),
            dtype=common_label_dtype(*classes).str if classes else "",
            n_rows=self.n_rows + other.n_rows,
            kept=kept,
        )

    def pack(self) -> Arrays:
        """Return all of it as arrays, for other processes and for files; `unpack` undoes it."""
        facts = [self.found, self.truths, self.names, self.noted, self.dtype, self.n_rows]
        kept = {} if self.kept is None else self.kept.packed()
        return {
            "told": np.frombuffer(json.dumps(facts).encode("ascii"), np.uint8),
            **add_prefix(_LABELS, self.labels.arrays()),
            **add_prefix(_KEPT, kept),
        }

    @classmethod
    def unpack(cls, arrays: Arrays, empty: ModelStore | None) -> Findings:
        """Return what `pack` returned."""
        facts = json.loads(np.asarray(arrays["told"]).tobytes())
        found_kinds, truths, names, noted, dtype, n_rows = facts
        kept = take_prefix(_KEPT, arrays)
        return cls(
            found_kinds,
            truths=truths,
            names=names,
            noted=noted,
            labels=Vocabulary.from_arrays(StoredArrays(take_prefix(_LABELS, arrays))),
            dtype=dtype,
            n_rows=n_rows,
            kept=empty.unpacked(kept) if empty is not None and kept else None,
        )

    def types(self, kinds: str | None) -> str:
        """Return how values of columns of these kinds came.

        The letters are those of a frame (:mod:`hammemo.tokens.column_evidence`).
        """
        how_given = {
            UNKNOWN: HowGiven.UNTYPED,
            ONLY_TRUTHS: HowGiven.CATEGORIES,
            OTHERS: HowGiven.TYPED,
        }
        are_dates = [False] * len(self.truths)
        if kinds:
            are_dates = [kind == ColumnKind.DATES for kind in kinds]
        letters = []
        for is_date, truth in zip(are_dates, self.truths, strict=True):
            letters.append(HowGiven.DATES if is_date and truth != UNKNOWN else how_given[truth])
        return "".join(letters)


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
            examples = _read_examples(self.schema, batch).examples
            memory = memory.changed(self.layout, NumberRows.of(self.layout, examples, self.seed), 1)
        return memory.arrays()


@dataclass(frozen=True)
class Survey(Pass):
    """The first pass: what a group of shards holds, and its rows with the lowest hashes.

    Parameters
    ----------
    source, schema, checkpoint
        As in `Pass`.
    known : str
        What some rows of the table say about each column.
    empty : ModelStore or None
        What rows are stored in.
    """

    known: str
    empty: ModelStore | None

    def result(self, batches: Iterable[Batch]) -> Arrays:
        """Return what rows say, as arrays.

        After a value that a column should not have, only what the columns hold.
        """
        schema = self.schema
        findings = Findings(self.known, kept=self.empty)
        for batch in batches:
            findings = replace(
                findings,
                found=schema.found_kinds(batch, findings.found),
                truths=merged_kinds(findings.truths, schema.truths(batch), OTHERS),
            )
            if self.is_right(findings.found):
                findings = findings.with_rows(_read_examples(schema, batch))
                if schema.is_target:
                    findings = replace(findings, labels=Vocabulary())  # nearly as many as rows
        if not self.is_right(findings.found):
            findings = Findings(findings.found)
        return findings.pack()

    def is_right(self, kinds: str) -> bool:
        """Return whether columns have the kinds with which this pass reads them."""
        return kinds == self.known or self.schema.with_kinds(kinds).kinds == self.schema.kinds


def fit_rows(
    estimator: Front,
    source: TableFiles,
    schema: TableSchema,
    machines: Machines,
    *,
    classes: Any = None,
    layout: MemoryClassifier | None = None,
) -> tuple[Front, TableSchema]:
    """Return a copy of the estimator that has learnt the rows of files, and how they were read.

    Parameters
    ----------
    estimator, machines, classes, layout
        As in :func:`hammemo.engines.fit_table`.
    source : TableFiles
    schema : TableSchema
        How rows are read; columns and kinds may be open.
    """
    if schema.is_target and machines.segments is not None:
        raise ValueError(
            "segments= cuts a table of counts, and a model of numbers has none: leave it out."
        )
    groups = machines.groups(source)
    tell = GroupObserver(len(groups), None, machines.on_progress, machines.on_report)
    model: Front = clone(estimator)
    schema, kinds_of_columns = _first_look(source, schema)
    # one session for both passes
    with machines.spreading() if machines.engine == "ray" else nullcontext():
        settings = model.settings()
        given_layout = None if layout is None else state_of_layout(layout)
        fit = _TableFit(
            settings,
            source,
            groups,
            machines,
            tell=tell,
            seed=settings.seed(),
            layout=given_layout,
        )
        schema, findings = fit.survey(schema, kinds_of_columns)
        if schema.is_target:
            edit(model, lambda _: fit.learn_numbers(schema, findings))
        else:
            edit(model, lambda _: fit.learn(schema, findings, classes))
    machines.finish(model, fit.work)
    return model, replace(schema, kinds=known_kinds(findings.names))


def _first_look(source: TableFiles, schema: TableSchema) -> tuple[TableSchema, str]:
    """Return how rows are read, and what the first ones of a source say about each column."""
    if schema.label is None:
        raise ValueError("The column with the labels is not known: name it with label=.")
    columns = None if schema.columns is None else schema.wanted
    batches = (batch for shard in source.shards() for batch in source.batches(shard, columns))
    batch = next((batch for batch in batches if len(batch)), None)
    if batch is None:
        raise ValueError("There is nothing to learn: the files have no row beyond their headers.")
    schema = replace(schema, columns=schema.named(batch))
    check_column_names(schema.known_columns)
    all_names = ColumnKind.NAMES * len(schema.known_columns)
    if len(schema.kinds) == len(all_names) + 1:
        return schema, all_names  # nothing is to be found out
    kinds_of_columns = all_names if schema.numeric == "none" else schema.found_kinds(batch)
    return schema.with_kinds(kinds_of_columns), kinds_of_columns


@dataclass
class _TableFit:
    """One fit of a table: the steps that the driver takes."""

    settings: ModelSettings | NumberSettings
    source: TableFiles
    groups: Groups
    machines: Machines
    tell: GroupObserver
    seed: int
    layout: ModelState | None
    work: SegmentsJob | None = None
    """What has made segments, if any."""

    def survey(self, schema: TableSchema, kinds_of_columns: str) -> tuple[TableSchema, Findings]:
        """Return how rows are read and what the first pass has found.

        It is done once more where the first rows were misleading.
        """
        for name in ("rows", "rows-again"):
            empty = self._room(ColumnSchema(len(kinds_of_columns), kinds=schema.cell_kinds))
            survey = Survey(self.source.without_files(), schema, kinds_of_columns, empty)
            survey = replace(survey, checkpoint=self._checkpoint(self._manifest(survey), name))
            findings = Findings(kinds_of_columns, kept=empty)
            with self.machines.spreading() as spread:
                for arrays, report in spread(survey.read, enumerate(self.groups)):
                    findings = findings.plus(Findings.unpack(arrays, empty))
                    self.tell(report)
            if survey.is_right(findings.found):
                return schema, findings
            kinds_of_columns = findings.found
            schema = schema.with_kinds(kinds_of_columns)
            self.tell.expect(len(self.groups))
        raise _change_error()

    def _room(self, columns: ColumnSchema) -> ModelStore | None:
        """Return what the rows of the first pass are stored in."""
        if isinstance(self.settings, NumberSettings):
            check_missing_rule(self.settings.missing)
            return self.settings.empty_store(columns.n, self.seed)
        return room_for_rows(self.settings, columns, self.seed, self.layout)

    def learn_numbers(self, schema: TableSchema, findings: Findings) -> NumberState:
        """Choose everything, let others count where not all rows are kept, and fit the vote."""

        def count(layout: NumberLayout) -> NumberMemory:
            job = NumberCount(self.source.without_files(), schema, layout, self.seed)
            manifest = {**self._manifest(job), "layout": layout.digest}
            job = replace(job, checkpoint=self._checkpoint(manifest, "counts"))
            self.tell.expect(len(self.groups))
            total = NumberMemory.empty(layout)
            with self.machines.spreading() as spread:
                for arrays, report in spread(job.read, enumerate(self.groups)):
                    total = total.plus(NumberMemory.restored(layout, StoredArrays(arrays)), 1)
                    self.tell(report)
            if total.gram.n != findings.n_rows:
                raise _change_error()
            return total

        assert isinstance(self.settings, NumberSettings)
        assert findings.kept is not None
        assert findings.kept.kept_rows is not None
        names = schema.known_columns
        kinds = schema.cell_kinds
        noted = TokenTypes(findings.noted)
        columns = ColumnSchema(
            len(names),
            object_array(names),
            kinds=kinds,
            types=findings.types(kinds),
            learnt=noted,
        )
        return fit_counted(self.settings, columns, findings.kept.kept_rows, self.seed, count=count)

    def learn(self, schema: TableSchema, findings: Findings, classes: Any) -> ModelState:
        """Choose everything, let others count, and fit the weights."""

        def count(memory: Memory, cells: Cells | None) -> Memory:
            job = TableJob(memory.empty_like(), self.source.without_files(), schema, cells)
            manifest = {
                **self._manifest(job),
                "layout": memory.fingerprint(),
                "cells": _digest(cells),
            }
            job = replace(job, checkpoint=self.machines.checkpoint(manifest, "counts"))
            self.tell.expect(len(self.groups))
            sample = self._sample(job, findings.kept)
            counted, self.work = self.machines.count(
                job,
                self.groups,
                sample=sample,
                manifest=manifest,
                tell=self.tell,
                kind="processes",
            )
            if int(counted.label_counts.sum()) != findings.n_rows:
                raise _change_error()
            return counted

        assert not isinstance(self.settings, NumberSettings)
        kinds = schema.cell_kinds
        facts = TableFacts(
            schema.known_columns,
            kinds=kinds,
            types=findings.types(kinds),
            learnt=TokenTypes(findings.noted),
            labels=findings.labels,
            label_dtype=np.dtype(findings.dtype),
            store=findings.kept,
            seed=self.seed,
        )
        return learn_table(
            self.settings,
            facts,
            classes,
            self.layout,
            count_all=count,
            kept_are_counted=self.machines.segments is None,
        )

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

    def _manifest(self, work: Pass | TableJob) -> dict[str, Any]:
        """Return what must be the same for a group's result to be used again."""
        schema = work.schema
        kept = work.empty if isinstance(work, Survey) else None
        return describe_job(
            self.source,
            self.groups,
            kept,
            label=schema.label,
            is_target=schema.is_target,
            columns=list(schema.known_columns),
            kinds=schema.cell_kinds,
            missing=schema.missing,
        )

    def _checkpoint(self, manifest: dict[str, Any], name: str) -> Checkpoint | None:
        """Return what remembers the first pass: with segments, a folder that all workers see."""
        machines = self.machines
        if machines.segments is None or machines.out_is_address:
            return machines.checkpoint(manifest, name)
        folder = os.path.join(os.path.abspath(os.fspath(machines.out or "")), "runs")
        return open_checkpoint(os.path.join(folder, f"{name}-{_digest(manifest)}"), manifest)


def _digest(value: Any) -> str | None:
    if value is None:
        return None
    text = json.dumps(value) if isinstance(value, dict) else value.digest()
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def _change_error() -> ValueError:
    """Return the refusal of a source whose second pass has other rows."""
    return ValueError(
        "The table was changed while it was read: the second pass has found other rows than the "
        "first. Learn files that stay as they are."
    )
