r"""Engines: learn a source on many threads, processes or machines, with the same bytes as a result.

The model is a sum over the documents or rows, :math:`\sum_{\text{groups}} \sum_{\text{shards}}
\sum_{\text{rows}}`, and a sum of whole numbers has no order. What must be settled before the
first term is the layout. For documents it comes from a sample of the source that depends on the
files alone (:meth:`hammemo.sources.documents.Source.sample`), for tables from the rows with the
lowest hashes, which a first pass finds. Then every engine, number of workers, size of shards or
groups, and every repetition of a lost task gives the same state, to the byte.

`jobs` is what a task does, `tables` what it does with rows; `running` says who runs tasks,
`local` and `ray` run them; `states` and `partitions` move partial states, `checkpoints` keeps
them; `segments` learns a table that no process holds. Imports
`files`, `estimators` and all below; the paper's experiments and the command line may import it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from sklearn.base import clone

from hammemo.edits.editing import edit
from hammemo.engines.jobs import GroupObserver, GroupReport, Job, describe_job
from hammemo.engines.running import ENGINES, Machines
from hammemo.engines.table_fits import Front, fit_rows
from hammemo.estimators.learners import Learner
from hammemo.memories import Hashed
from hammemo.sources.documents import Source, open_source
from hammemo.sources.kinds import InputKinds, kinds_of_model
from hammemo.sources.read_tables import open_table
from hammemo.sources.schemas import TableSchema
from hammemo.tasks.labels.names import is_auto
from hammemo.tasks.labels.size_warning import warn_if_large
from hammemo.tasks.labels.streams import with_counted_stream
from hammemo.tokens.cutting import Cutting
from hammemo.tokens.labels import label_array, most_frequent_labels
from hammemo.tokens.orders import check_order
from hammemo.tokens.vocabulary import Vocabulary

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import ArrayLike

    from hammemo._arrays.types import Array
    from hammemo.engines.jobs import Groups
    from hammemo.engines.segments import SegmentsJob
    from hammemo.estimators.classifiers import MemoryClassifier
    from hammemo.memories import Memory
    from hammemo.stores.kept import ModelStore
    from hammemo.tasks.labels.layout import LabelState
    from hammemo.tokens.stream_blocks import Block

__all__ = ["ENGINES", "GroupReport", "Machines", "fit_documents", "fit_table"]


def fit_documents(
    estimator: MemoryClassifier,
    source: Any,
    h: int,
    *,
    classes: ArrayLike | int | None = None,
    short: Literal["drop", "pad"] = "drop",
    pad: Any = None,
    layout: MemoryClassifier | None = None,
    machines: Machines | None = None,
) -> MemoryClassifier:
    r"""Return a copy of the estimator that predicts every token from the h tokens before it.

    Parameters
    ----------
    estimator : MemoryClassifier
        Its parameters are used; what it may have learned is not.
    source : Source, or what `open_source` takes
        The documents.
    h : int
        Tokens per context.
    classes : array-like or int, optional
        Learn only the windows whose next token is one of these, or of this many frequent ones
        of the sample.
    short, pad
        As in `windows`.
    layout : MemoryClassifier, optional
        A fitted model whose layout to use, so that the two can be merged.
    machines : Machines, optional
        The engine, its workers and where finished work is stored; by default all cores of this
        machine.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from hammemo import MemoryClassifier
    >>> from hammemo.engines import Machines, fit_documents
    >>> from hammemo.sources.documents import open_source
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "a.txt").write_text("the cat sat on the mat and the cat ate the rat\n")
    ...     _ = Path(folder, "b.txt").write_text("and the dog\n")
    ...     source = open_source(folder, tokens="words")
    ...     machines = Machines("threads", workers=2)
    ...     model = fit_documents(MemoryClassifier(vote="sum"), source, h=2, machines=machines)
    >>> model.predict([["on", "the"]]).tolist()
    ['mat']
    """
    machines = machines or Machines()
    if not isinstance(source, Source):
        source = open_source(source)
    block = source.sample(h, short, pad)
    if block is None or not len(block.targets()):
        raise ValueError(
            f"There is nothing to learn: no document of the source has more than h={h} tokens."
        )
    if isinstance(classes, (int, np.integer)):
        classes = _frequent(block, int(classes))
    model: MemoryClassifier = clone(estimator)
    documents = np.split(block.tokens, block.starts[1:])  # filled up already
    model.partial_fit_stream(documents, h, short="drop", classes=classes, layout=layout)
    labels = None
    if classes is not None:
        labels = Vocabulary.of(label_array(classes))
    windows = _Windows(h=int(h), short=short, pad=pad, labels=labels)
    state = model.state
    empty_store = None
    if state.store is not None:
        empty_store = state.store.empty_copy()
    groups = machines.groups(source)
    tell = GroupObserver(len(groups), empty_store, machines.on_progress, machines.on_report)
    memory, work = _count_windows(
        state.memory,
        source,
        windows,
        groups,
        machines=machines,
        tell=tell,
        empty_store=empty_store,
        block=block,
    )
    if labels is not None:
        memory.declare(labels)
    if is_auto(getattr(estimator, "memory", None)) and work is None:
        warn_if_large(memory)
    # the sample is part of the source, so all its examples are stored
    sample = block.examples()
    if labels is not None:
        sample = sample.only(labels)
    settings = model.settings()
    cutting = Cutting(short, pad)

    def take_counts(_: Any) -> LabelState:
        return with_counted_stream(
            settings, state, memory, store=tell.kept, cutting=cutting, sample=sample
        )

    edit(model, take_counts)
    machines.finish(model, work)
    return model


class _Windows(NamedTuple):
    """How documents become examples."""

    h: int
    short: Literal["drop", "pad"]
    pad: Any
    labels: Vocabulary | None
    """The only labels that are learned; None for all."""


def _count_windows(
    sample: Memory,
    source: Source,
    windows: _Windows,
    groups: Groups,
    *,
    machines: Machines,
    tell: GroupObserver,
    empty_store: ModelStore | None,
    block: Block,
) -> tuple[Memory, SegmentsJob | None]:
    """Count the windows of all documents under the layout of `sample`, which has counted a `block`.

    It returns the memory, and what has made segments, if any.
    """
    template = sample.empty_like()
    labels = windows.labels
    manifest = describe_job(
        source,
        groups,
        empty_store,
        tokens=source.tokens,
        column=source.column,
        h=windows.h,
        short=windows.short,
        pad=windows.pad,
        classes=None if labels is None else labels.tolist(),
        memory=type(template).__name__,
        layout=template.fingerprint(),
    )
    job = Job(
        template,
        replace(source, files=()),
        windows.h,
        short=windows.short,
        pad=windows.pad,
        labels=labels,
        checkpoint=machines.checkpoint(manifest),
        kept=empty_store,
    )
    return machines.count(
        job,
        groups,
        sample=sample,
        manifest=manifest,
        tell=tell,
        kind=_choose_workers(template, source, block),
    )


def _choose_workers(memory: Memory, source: Source, block: Block) -> str:
    """Return "threads" where neither reading nor counting is Python code, else "processes"."""
    is_compiled = isinstance(memory, Hashed) and memory.is_compiled
    is_of_numbers = source.format == "parquet" and block.tokens.dtype.kind in "iub"
    if is_compiled and is_of_numbers:
        return "threads"
    return "processes"


def fit_table(
    estimator: Front,
    table: Any,
    label: str,
    *,
    columns: Sequence[str] | None = None,
    classes: ArrayLike | None = None,
    layout: MemoryClassifier | None = None,
    machines: Machines | None = None,
) -> Front:
    r"""Return a copy of the estimator that has learned the rows of files, as `fit` learns them.

    The model file has the same bytes as that of `fit`.

    Parameters
    ----------
    estimator : MemoryClassifier or MemoryRegressor
        Its parameters are used; what it may have learned is not.
    table : TableFiles, or what `open_table` takes
        Files, folders or globs of CSV, TSV, JSON lines or Parquet, or an Arrow dataset. They
        are read twice, so what can be read only once is refused.
    label : str
        The column to predict.
    columns : sequence of str, optional
        The columns of a context, in this order; by default all but the label.
    classes : array-like, optional
        Labels to keep as candidates even while they have no example.
    layout : MemoryClassifier, optional
        A fitted model whose layout to use, so that the two can be merged.
    machines : Machines, optional
        The engine, its workers and where finished work is stored; by default all cores of this
        machine. A model of numbers takes no `classes`, `layout` and segments.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from hammemo import MemoryClassifier
    >>> from hammemo.engines import fit_table
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     head = "colour,size,fruit\n"
    ...     _ = Path(folder, "a.csv").write_text(f"{head}red,small,cherry\ngreen,large,melon\n")
    ...     _ = Path(folder, "b.csv").write_text(f"{head}yellow,large,melon\n")
    ...     model = fit_table(MemoryClassifier(), folder, "fruit")
    >>> import pandas as pd
    >>> model.predict(pd.DataFrame({"colour": ["green"], "size": ["large"]})).tolist()
    ['melon']
    """
    machines = machines or Machines()
    if not isinstance(estimator, Learner):
        raise TypeError(
            f"Engines fit a MemoryClassifier or a MemoryRegressor, not {estimator!r}: call its fit."
        )
    task = estimator.settings().task
    task.tables.check_request(classes=classes, layout=layout)
    if isinstance(classes, (int, np.integer)):
        raise ValueError(
            f"classes={classes!r}: for a table, list the labels to declare, or leave classes out."
        )
    source = open_table(table)
    numeric = estimator.numeric
    if not isinstance(numeric, str):
        numeric = tuple(numeric)
    names = None
    if columns is not None:
        names = tuple(columns)
    kinds: InputKinds = ()
    if layout is not None:
        kinds = kinds_of_model(layout.state.columns.kinds)
    ordered: Mapping[Any, Any] = estimator.ordered or {}
    schema = TableSchema(
        label,
        names,
        header=source.header,
        delimiter=source.delimiter,
        missing=estimator.missing,
        kinds=kinds,
        numeric=numeric,
        is_target=task.reading.reads_numbers(),
        na=source.na,
        date_format=source.date_format,
        ordered=tuple(
            (column, check_order(categories, f"Column {column!r}"))
            for column, categories in ordered.items()
        ),
    )
    if layout is not None:
        schema = schema.with_orders_of(layout.state.columns)
    return fit_rows(estimator, source, schema, machines, classes=classes, layout=layout)[0]


def _frequent(block: Block, number: int) -> Array:
    """Return the most frequent targets of a block; of equal ones the first in canonical order."""
    labels = most_frequent_labels(block.tokens[block.targets()], number)
    return np.array(labels, None if block.tokens.dtype.kind in "iub" else object)
