r"""Tables on engines: rows in files, learnt by many workers as `fit` learns them whole, to the byte.

`fit` chooses everything from the kept rows, those with the lowest hashes, and counts all rows under what was chosen.
Both are sums over groups of rows:

1. each worker reads a group of shards and returns the rows of it that have the lowest hashes; the rows that have the
   lowest of all are among them. It also says which labels there are and what each column holds;
2. the layout is chosen here, once, from the kept rows;
3. where not all rows were kept, each worker reads its group again and counts it under that layout;
4. the weights are fitted here, to the kept rows.

A row is hashed by its values, and what ``3`` in a CSV file is, a name or a number, depends on all values of its column;
so do the format of dates, and whether ``NA`` is a missing value. The first rows say what it most likely is. Each group
says what it has found, and where that is something else, the first step is done once more with what is now known.

The source is read twice. Where the second pass finds more or fewer rows than the first, the fit is refused.
"""

from __future__ import annotations

import hashlib
import json
import os
from abc import ABC, abstractmethod
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np
from sklearn.base import clone

from hammemo._arrays.checked import StoredArrays
from hammemo._arrays.integers import object_array
from hammemo.edits.editing import edit
from hammemo.engines.jobs import GroupJob, GroupObserver, GroupTally, described, open_checkpoint, prefixed, with_prefix
from hammemo.estimators.classifiers import MemoryClassifier, state_of_layout
from hammemo.estimators.regressor import MemoryRegressor, read_targets
from hammemo.sources.kinds import ONLY_TRUTHS, OTHERS, known_kinds, merged_kinds
from hammemo.sources.schemas import TableSchema, side_by_side
from hammemo.tasks.labels.counted_tables import TableFacts, learn_table, room_for_rows
from hammemo.tasks.labels.settings import ModelSettings, NumberSettings
from hammemo.tasks.numbers.choose import fit_counted
from hammemo.tasks.numbers.sums import NumberLayout, NumberMemory, NumberRows, NumberState
from hammemo.tokens.column_evidence import HowGiven
from hammemo.tokens.column_schema import ColumnSchema
from hammemo.tokens.columns import ColumnKind, tokens_of
from hammemo.tokens.contexts import Examples, check_column_names
from hammemo.tokens.labels import classes_array, common_label_dtype, label_array
from hammemo.tokens.missing import check_missing_rule
from hammemo.tokens.text_evidence import NAMES_ONLY, NO_EVIDENCE, UNKNOWN, TextEvidence
from hammemo.tokens.token_types import TokenTypes
from hammemo.tokens.vocabulary import Vocabulary
from hammemo.votes.bounds import UNBOUNDED, Bounds

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from hammemo._arrays.types import Array
    from hammemo.edits.state import ModelState
    from hammemo.engines.jobs import Arrays, Checkpoint, GroupReport, Groups, Shards
    from hammemo.engines.running import Machines
    from hammemo.engines.segments import SegmentsJob
    from hammemo.kernels.cells import Cells
    from hammemo.memories import Memory
    from hammemo.sources.tables import Batch, TableFiles
    from hammemo.stores.kept import ModelStore

Front = TypeVar("Front", "MemoryClassifier", "MemoryRegressor")

_KEPT: Final = "kept."
_LABELS: Final = "labels."


def _examples(schema: TableSchema, batch: Batch) -> tuple[Examples, Array, str]:
    """Return examples, their labels as an array, and what kind of names each column and the labels hold."""
    values, given, kinds = schema.read(batch)
    labels = read_targets(given) if schema.is_target else label_array(given)
    if schema.cell_kinds is not None:
        tokens = tokens_of(values, schema.cell_kinds, schema.missing, schema.columns, learning=True, zones=schema.zones)
    else:
        tokens = side_by_side(values)
    return Examples.of_arrays(tokens, labels, np.ones(len(labels), np.int64)), labels, kinds


def _batches(source: TableFiles, schema: TableSchema, shards: Shards, tally: GroupTally) -> Iterator[Batch]:
    """Yield the batches of some shards that have rows."""
    wanted = schema.wanted
    for shard in shards:
        for batch in tally.timed(source.batches(shard, wanted)):
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
            self.add_examples(memory, _examples(self.schema, batch)[0])

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
    is_whole : bool
        Whether all rows were read as the pass reads them; if not, it is repeated.
    clocks : tuple of str or None
        The zones of columns of dates, as `TableSchema.clocks` says them.
    """

    evidence: tuple[TextEvidence, ...]
    truths: str = ""
    names: str = ""
    noted: str = ""
    labels: Vocabulary = field(default_factory=Vocabulary)
    dtype: str = ""
    n_rows: int = 0
    kept: ModelStore | None = None
    is_whole: bool = True
    clocks: tuple[str | None, ...] = ()

    def with_rows(self, examples: Examples, labels: Array, names: str) -> Findings:
        """Return what is known after some more rows."""
        noted = TokenTypes.of(examples.contexts).letters
        fresh = Findings(
            evidence=(NO_EVIDENCE,) * len(self.evidence),
            truths=self.truths,
            names=names,
            noted=noted,
            labels=examples.labels,
            dtype=labels.dtype.str,
            n_rows=len(labels),
        )
        kept = None if self.kept is None else self.kept.edit(examples, 1)
        return replace(self.plus(fresh), kept=kept)

    def plus(self, other: Findings) -> Findings:
        """Return what is known of the rows of both."""
        noted = self.noted or other.noted
        if self.noted and other.noted:
            noted = TokenTypes(self.noted).plus(TokenTypes(other.noted)).letters
        ends = [classes_array(one.labels, np.dtype(one.dtype)) for one in (self, other) if one.dtype]
        dtype = common_label_dtype(*ends).str if ends else ""
        pairs = zip(self.evidence, other.evidence, strict=True)
        return Findings(
            evidence=tuple(mine.plus(theirs) for mine, theirs in pairs),
            truths=merged_kinds(self.truths, other.truths, OTHERS) if other.truths else self.truths,
            names=merged_kinds(self.names, other.names) if other.names else self.names,
            noted=noted,
            labels=self.labels.union(other.labels),
            dtype=dtype,
            n_rows=self.n_rows + other.n_rows,
            kept=None if self.kept is None or other.kept is None else self.kept.plus(other.kept, 1),
            is_whole=self.is_whole and other.is_whole,
            # Of several groups they are joined where their schema is known.
            clocks=self.clocks or other.clocks,
        )

    def packed(self) -> Arrays:
        """Return all of it as arrays, for other processes and for files; `unpacked` undoes it."""
        values = [
            [one.packed() for one in self.evidence],
            self.truths,
            self.names,
            self.noted,
            self.dtype,
            self.n_rows,
            self.is_whole,
            self.clocks,
        ]
        told = json.dumps(values)
        kept = {} if self.kept is None else self.kept.pack()
        arrays = {**prefixed(_LABELS, self.labels.arrays()), **prefixed(_KEPT, kept)}
        return {"told": np.frombuffer(told.encode("ascii"), np.uint8), **arrays}

    @classmethod
    def unpacked(cls, arrays: Arrays, empty: ModelStore | None) -> Findings:
        """Return what `packed` returned."""
        values = json.loads(np.asarray(arrays["told"]).tobytes())
        evidence, truths, names, noted, dtype, n_rows, is_whole, clocks = values
        kept = with_prefix(_KEPT, arrays)
        return cls(
            evidence=tuple(TextEvidence.from_packed(one) for one in evidence),
            truths=truths,
            names=names,
            noted=noted,
            labels=Vocabulary.from_arrays(StoredArrays(with_prefix(_LABELS, arrays))),
            dtype=dtype,
            n_rows=n_rows,
            kept=empty.unpack(kept) if empty is not None and kept else None,
            is_whole=is_whole,
            clocks=tuple(clocks),
        )

    def types(self, kinds: str | None) -> str:
        """Return how values of columns of these kinds came, as in a frame (:mod:`hammemo.tokens.column_evidence`)."""
        given = {UNKNOWN: HowGiven.UNTYPED, ONLY_TRUTHS: HowGiven.CATEGORIES, OTHERS: HowGiven.TYPED}
        dated = [kind == ColumnKind.DATES for kind in kinds] if kinds else [False] * len(self.truths)
        pairs = zip(dated, self.truths, strict=True)
        return "".join(HowGiven.DATES if date and truth != UNKNOWN else given[truth] for date, truth in pairs)


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
            made = self.result(_batches(self.source, self.schema, shards, tally))
            arrays = {name: np.ascontiguousarray(one) for name, one in made.items()}
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
            examples = _examples(self.schema, batch)[0]
            memory = memory.changed(self.layout, NumberRows.of(self.layout, examples, self.seed), 1)
        return memory.arrays()


@dataclass(frozen=True)
class Survey(Pass):
    """The first pass: what a group of shards holds, and its rows with the lowest hashes.

    Parameters
    ----------
    source, schema, checkpoint
        As in `Pass`.
    known : tuple of TextEvidence
        What some rows of the table say about each column, because of which it is read as `schema` says.
    empty : ModelStore or None
        What rows are stored in.
    bounds : Bounds
        Of targets: those outside are refused.
    """

    known: tuple[TextEvidence, ...]
    empty: ModelStore | None
    bounds: Bounds = UNBOUNDED

    def result(self, batches: Iterable[Batch]) -> Arrays:
        """Return what rows say, as arrays; after a value that a column should not have, only what the columns hold."""
        schema = self.schema
        findings = Findings(self.nothing_found, kept=self.empty)
        for batch in batches:
            evidence = tuple(schema.found_evidence(batch, findings.evidence)) if self.is_open else findings.evidence
            truths = merged_kinds(findings.truths, schema.truths(batch), OTHERS)
            # The zones of dates are those of the kinds that the rows show, even if these are not the pass's.
            reading = schema if self.has_kinds(evidence) else self._read_as(evidence)
            clocks = schema.join_clocks(findings.clocks, reading.read_clocks(batch))
            findings = replace(findings, evidence=evidence, truths=truths, clocks=clocks)
            # Once some rows were not read, the rest are not either, though later rows may prove the reading right.
            findings = replace(findings, is_whole=findings.is_whole and self.is_right(findings))
            if findings.is_whole:
                examples, labels, kinds = _examples(schema, batch)
                findings = findings.with_rows(examples, labels, kinds)
                if schema.is_target:
                    self.bounds.refuse_outside(labels)
                    findings = replace(findings, labels=Vocabulary())  # nearly as many as rows
        if not findings.is_whole:
            findings = Findings(findings.evidence, is_whole=False, clocks=findings.clocks)
        return findings.packed()

    @property
    def is_open(self) -> bool:
        """Whether values decide the kinds of the columns."""
        return bool(self.known)

    @property
    def nothing_found(self) -> tuple[TextEvidence, ...]:
        """What no row says about each column."""
        return (NO_EVIDENCE,) * len(self.known)

    def has_kinds(self, evidence: Sequence[TextEvidence]) -> bool:
        """Return whether columns have the kinds and the formats with which this pass reads them."""
        if not self.is_open:
            return True
        schema = self._read_as(evidence)
        return (schema.kinds, schema.learned_formats) == (self.schema.kinds, self.schema.learned_formats)

    def _read_as(self, evidence: Sequence[TextEvidence]) -> TableSchema:
        """Return how columns are read, now that some more rows were seen."""
        both = [known.plus(one) for known, one in zip(self.known, evidence, strict=True)]
        return self.schema.with_evidence(both)

    def is_right(self, findings: Findings) -> bool:
        """Return whether this pass reads the columns as what it has found says: in their kinds, by their clocks."""
        if not self.has_kinds(findings.evidence):
            return False
        return self.schema.join_clocks(self.schema.clocks, findings.clocks) == self.schema.clocks


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
        raise ValueError("segments= cuts a table of counts, and a model of numbers has none: leave it out.")
    groups = machines.groups(source)
    say = schema.tell
    schema = replace(schema, tell=None)  # workers say nothing
    tell = GroupObserver(len(groups), None, machines.on_progress, machines.on_report)
    model: Front = clone(estimator)
    schema, known = _first_look(source, schema)
    with machines.spreading() if machines.engine == "ray" else nullcontext():  # one session for both passes
        settings = model.settings()
        given = None if layout is None else state_of_layout(layout)
        fit = _TableFit(settings, source, groups, machines, tell, settings.seed(), given)
        schema, findings = fit.survey(schema, known)
        if schema.is_target:
            edit(model, lambda _: fit.learn_numbers(schema, findings))
        else:
            edit(model, lambda _: fit.learn(schema, findings, classes))
    schema = replace(schema, tell=say)
    schema.say_doubts(findings.evidence)
    schema.say_missing(findings.evidence)
    machines.finish(model, fit.work)
    return model, replace(schema, kinds=known_kinds(findings.names))


def _first_look(source: TableFiles, schema: TableSchema) -> tuple[TableSchema, tuple[TextEvidence, ...]]:
    """Return how rows are read, given the first ones of a source, and what these say about each column.

    They say nothing where the kinds of columns are given.
    """
    if schema.label is None:
        raise ValueError("The column with the labels is not known: name it with label=.")
    wanted = None if schema.columns is None else schema.wanted
    batches = (batch for shard in source.shards() for batch in source.batches(shard, wanted))
    batch = next((batch for batch in batches if len(batch)), None)
    if batch is None:
        raise ValueError("There is nothing to learn: the files have no row beyond their headers.")
    schema = replace(schema, columns=schema.named(batch))
    check_column_names(schema.known_columns)
    schema.check_dated(schema.known_columns)
    known: tuple[TextEvidence, ...] = ()
    if len(schema.kinds) != len(schema.known_columns) + 1:  # otherwise the kinds need not be found out
        if schema.numeric == "none":
            schema = schema.with_evidence([NAMES_ONLY] * len(schema.known_columns))
        else:
            known = tuple(schema.found_evidence(batch))
            schema = schema.with_evidence(known)
    return replace(schema, clocks=schema.read_clocks(batch)), known


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

    def survey(self, schema: TableSchema, known: tuple[TextEvidence, ...]) -> tuple[TableSchema, Findings]:
        """Return how rows are read and what the first pass has found, repeated where the first rows misled it."""
        for name in ("rows", "rows-again"):
            empty = self._room(ColumnSchema(len(schema.known_columns), kinds=schema.cell_kinds))
            bounds = self.settings.bounds if isinstance(self.settings, NumberSettings) else UNBOUNDED
            survey = Survey(self.source.without_files(), schema, known, empty, bounds)
            survey = replace(survey, checkpoint=self._checkpoint(self._manifest(survey), name))
            findings = Findings(survey.nothing_found, kept=empty)
            with self.machines.spreading() as spread:
                for arrays, report in spread(survey.read, enumerate(self.groups)):
                    of_group = Findings.unpacked(arrays, empty)
                    clocks = schema.join_clocks(findings.clocks, of_group.clocks)
                    findings = replace(findings.plus(of_group), clocks=clocks)
                    self.tell(report)
            # A group may have stopped because its own rows say another kind than all rows together.
            if findings.is_whole and survey.is_right(findings):
                return schema, findings
            known = findings.evidence
            if survey.is_open:
                schema = schema.with_evidence(known)
            schema = replace(schema, clocks=findings.clocks)
            self.tell.expect(len(self.groups))
        raise _changed()

    def _room(self, columns: ColumnSchema) -> ModelStore | None:
        """Return what the rows of the first pass are stored in."""
        if isinstance(self.settings, NumberSettings):
            check_missing_rule(self.settings.missing)
            return self.settings.empty_store(columns.width, self.seed)
        return room_for_rows(self.settings, columns, self.seed, self.layout)

    def learn_numbers(self, schema: TableSchema, findings: Findings) -> NumberState:
        """Choose everything, let others count where not all rows are kept, and fit the vote."""

        def count(layout: NumberLayout) -> NumberMemory:
            job = NumberCount(self.source.without_files(), schema, layout, self.seed)
            job = replace(job, checkpoint=self._checkpoint({**self._manifest(job), "layout": layout.digest}, "counts"))
            self.tell.expect(len(self.groups))
            total = NumberMemory.empty(layout)
            with self.machines.spreading() as spread:
                for arrays, report in spread(job.read, enumerate(self.groups)):
                    total = total.plus(NumberMemory.restored(layout, StoredArrays(arrays)), 1)
                    self.tell(report)
            if total.gram.n != findings.n_rows:
                raise _changed()
            return total

        assert isinstance(self.settings, NumberSettings)
        assert findings.kept is not None
        assert findings.kept.kept_rows is not None
        names, kinds, noted = schema.known_columns, schema.cell_kinds, TokenTypes(findings.noted)
        types = findings.types(kinds)
        columns = ColumnSchema(len(names), object_array(names), kinds, types, noted, schema.zones)
        return fit_counted(self.settings, columns, findings.kept.kept_rows, self.seed, count)

    def learn(self, schema: TableSchema, findings: Findings, classes: Any) -> ModelState:
        """Choose everything, let others count, and fit the weights."""

        def count(memory: Memory, cells: Cells | None) -> Memory:
            job = TableJob(memory.empty_like(), self.source.without_files(), schema, cells)
            manifest = {**self._manifest(job), "layout": memory.fingerprint(), "cells": _digest(cells)}
            job = replace(job, checkpoint=self.machines.checkpoint(manifest, "counts"))
            self.tell.expect(len(self.groups))
            sample = self._sample(job, findings.kept)
            counted, self.work = self.machines.count(job, self.groups, sample, manifest, self.tell, "processes")
            if int(counted.label_counts.sum()) != findings.n_rows:
                raise _changed()
            return counted

        assert not isinstance(self.settings, NumberSettings)
        kinds, labels = schema.cell_kinds, (findings.labels, np.dtype(findings.dtype))
        evidence = (findings.types(kinds), TokenTypes(findings.noted))
        facts = TableFacts(schema.known_columns, kinds, *evidence, *labels, findings.kept, self.seed, schema.zones)
        is_counted = self.machines.segments is None
        return learn_table(self.settings, facts, classes, self.layout, count, kept_are_counted=is_counted)

    def _sample(self, job: TableJob, kept: ModelStore | None) -> Memory:
        """Return a memory that has counted some rows, where someone must know how keys are spread."""
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
        schema, kept = work.schema, work.empty if isinstance(work, Survey) else None
        reading: dict[str, Any] = {
            "label": schema.label,
            "is_target": schema.is_target,
            "columns": list(schema.known_columns),
            "kinds": schema.cell_kinds,
            "formats": [list(pair) for pair in schema.learned_formats],
            "na": list(schema.na),
            "missing": schema.missing,
        }
        return described(self.source, self.groups, kept, **reading)

    def _checkpoint(self, manifest: dict[str, Any], name: str) -> Checkpoint | None:
        """Return what remembers the first pass: with segments, their folder, where all workers see it."""
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


def _changed() -> ValueError:
    return ValueError(
        "The table was changed while it was read: the second pass has found other rows than the first. Learn files "
        "that stay as they are."
    )
