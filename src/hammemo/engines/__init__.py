r"""Engines: learn a source on many threads, processes or machines, with the same bytes as a result.

The model is a sum over the documents or rows, :math:`\sum_{\text{groups}} \sum_{\text{shards}} \sum_{\text{rows}}`, and
a sum of whole numbers has no order. What must be settled before the first term is the layout. For documents it comes
from a sample of the source that depends on the files alone (:meth:`hammemo.sources.documents.Source.sample`), for
tables from the rows with the lowest hashes, which a first pass finds. Then every engine, number of workers, size of
shards or groups, and every repetition of a lost task gives the same state, to the byte.

`jobs` is what a task does, `tables` what it does with rows; `running` says who runs tasks, `local` and `ray` run them;
`states` and `partitions` move partial states, `checkpoints` keeps them; `segments` learns a table that no process
holds. Imports `files`, `models` and all below; `experiments` and the command line may import it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from sklearn.base import clone

from hammemo.engines.jobs import GroupReport, Job
from hammemo.engines.running import ENGINES, GroupObserver, Machines
from hammemo.engines.tables import fit_table
from hammemo.memories import Hashed
from hammemo.models.editing import edit
from hammemo.models.names import is_auto
from hammemo.models.size_warning import warn_if_large
from hammemo.models.streams import with_counted_stream
from hammemo.sources.documents import Source, open_source
from hammemo.sources.kinds import kinds_of_model
from hammemo.sources.schemas import TableSchema
from hammemo.sources.table_files import open_table
from hammemo.tokens.cutting import Cutting
from hammemo.tokens.labels import label_array, most_frequent_labels
from hammemo.tokens.vocabulary import Vocabulary

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Sequence

    from numpy.typing import ArrayLike, NDArray

    from hammemo.memories import Memory
    from hammemo.models.classifiers import MemoryClassifier
    from hammemo.sources.shards import Shard
    from hammemo.stores.kept import Kept
    from hammemo.tokens.contexts import Examples
    from hammemo.tokens.streams import Block

__all__ = ["ENGINES", "GroupReport", "fit"]


def fit(
    estimator: MemoryClassifier,
    source: Any = None,
    h: int | None = None,
    *,
    table: Any = None,
    label: str | None = None,
    columns: Sequence[str] | None = None,
    classes: ArrayLike | int | None = None,
    short: Literal["drop", "pad"] = "drop",
    pad: Any = None,
    layout: MemoryClassifier | None = None,
    engine: str = "local",
    workers: int | None = None,
    address: str | None = None,
    resume: str | None = None,
    segments: int | None = None,
    out: str | os.PathLike[str] | None = None,
    shard_bytes: int | None = None,
    group_size: int | None = None,
    on_progress: Callable[[int, int], None] | None = None,
    on_report: Callable[[GroupReport], None] | None = None,
) -> MemoryClassifier:
    r"""Return a copy of the estimator that has learnt files: documents (source, h), or the rows of a table.

    Of documents it learns to predict every token from the h tokens before it. Of a table it learns what `fit` learns of
    all its rows, to the byte of the model file.

    Parameters
    ----------
    estimator : MemoryClassifier
        Its parameters are used; what it may have learnt is not.
    source : Source, or what `open_source` takes
        The documents.
    h : int
        Tokens per context.
    table : TableFiles, or what `open_table` takes
        In place of source and h: files, folders or globs of CSV, TSV, JSON lines or Parquet, or an Arrow dataset. They
        are read twice, so what can be read only once is refused.
    label : str
        With `table`: the column to predict.
    columns : sequence of str, optional
        With `table`: the columns of a context, in this order; by default all but the label.
    classes : array-like or int, optional
        Learn only the windows whose next token is one of these, or of this many frequent ones of the sample.
        With `table`: labels to keep as candidates even while they have no example.
    short, pad
        As in `windows`.
    layout : MemoryClassifier, optional
        A fitted model whose layout to use, so that the two can be merged.
    engine : {"local", "threads", "processes", "ray"}
        "local" takes threads where the compiled loops do the work, and processes otherwise.
    workers : int, optional
        How many; by default as many as there are cores, here or in the cluster.
    address : str, optional
        With Ray: the cluster. Without it, Ray is started on this machine and stopped afterwards.
    resume : str, optional
        A folder or an address on object storage that remembers what is done: the same call made again repeats none of
        it. A cluster's workers must reach it too.
    segments : int, optional
        Write the exact table of an `Exact` or a `Tiered` memory to the folder `out` in about this many segments, cut by
        ranges of keys, and return the model that answers from them. No process holds the whole table, and the folder
        remembers what is done: the same call made again repeats none of it. Workers must reach the folder.
    out : str or path, optional
        With `segments`: the folder, on a disk that all workers see.
    shard_bytes, group_size : int, optional
        Bytes of files a shard, and shards a task; by default small files are taken together. The result does not depend
        on them.
    on_progress : callable, optional
        Is told (tasks done, tasks): a task learns a group or, with `segments`, also adds up a range of keys.
    on_report : callable, optional
        Is given the `GroupReport` of each group.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from hammemo import MemoryClassifier
    >>> from hammemo.engines import fit
    >>> from hammemo.sources.documents import open_source
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "a.txt").write_text("the cat sat on the mat and the cat ate the rat\n")
    ...     _ = Path(folder, "b.txt").write_text("and the dog\n")
    ...     model = fit(MemoryClassifier(vote="sum"), open_source(folder, tokens="words"), h=2)
    >>> model.predict([["on", "the"]]).tolist()
    ['mat']
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "a.csv").write_text("colour,size,fruit\nred,small,cherry\ngreen,large,melon\n")
    ...     _ = Path(folder, "b.csv").write_text("colour,size,fruit\nyellow,large,melon\n")
    ...     model = fit(MemoryClassifier(), table=folder, label="fruit")
    >>> import pandas as pd
    >>> model.predict(pd.DataFrame({"colour": ["green"], "size": ["large"]})).tolist()
    ['melon']
    """
    machines = Machines(engine, workers, address, resume, segments, out, shard_bytes, group_size)
    if table is not None:
        if source is not None or h is not None or short != "drop" or pad is not None:
            raise ValueError("table= learns rows: leave out source, h, short and pad, which are for documents.")
        return _fit_table(
            estimator, table, label, columns, machines, classes, layout, on_progress=on_progress, on_report=on_report
        )
    if source is None or h is None or label is not None or columns is not None:
        raise ValueError("Give a source and h= for documents, or table= and label= for the rows of a table.")
    source = source if isinstance(source, Source) else open_source(source)
    block = source.sample(h, short, pad)
    if block is None or not len(block.targets()):
        raise ValueError(f"There is nothing to learn: no document of the source has more than h={h} tokens.")
    chosen = _frequent(block, int(classes)) if isinstance(classes, (int, np.integer)) else classes
    model: MemoryClassifier = clone(estimator)
    documents = np.split(block.tokens, block.starts[1:])  # filled up already
    model.partial_fit_stream(documents, h, short="drop", classes=chosen, layout=layout)
    labels = None if chosen is None else Vocabulary.of(label_array(chosen))
    state = model.state
    template = state.memory.empty_like()
    kept = None if state.store is None else state.store.emptied()
    groups = machines.groups(source)
    manifest = _manifest(source, template, h, short, pad, labels, groups, kept)
    job = Job(template, replace(source, files=()), h, short, pad, labels, machines.checkpoint(manifest), kept)
    tell = GroupObserver(len(groups), kept, on_progress, on_report)
    kind = _local_kind(template, source, block)
    memory, work = machines.count(job, groups, state.memory, manifest, tell, kind)
    if labels is not None:
        memory.declare(labels)
    if is_auto(getattr(estimator, "memory", None)) and work is None:
        warn_if_large(memory)
    cutting, sample = Cutting(short, pad), _examples_of(block, labels)
    settings = model.settings()
    edit(model, lambda _: with_counted_stream(settings, state, memory, tell.kept, cutting, sample))
    machines.finish(model, work)
    return model


def _fit_table(
    estimator: MemoryClassifier,
    table: Any,
    label: str | None,
    columns: Sequence[str] | None,
    machines: Machines,
    classes: Any,
    layout: MemoryClassifier | None,
    **observers: Any,
) -> MemoryClassifier:
    if isinstance(classes, (int, np.integer)):
        raise ValueError(f"classes={classes!r}: for a table, list the labels to declare, or leave classes out.")
    source = open_table(table)
    numeric = estimator.numeric if isinstance(estimator.numeric, str) else tuple(estimator.numeric)
    names = None if columns is None else tuple(columns)
    schema = TableSchema(label, names, source.header, source.delimiter, missing=estimator.missing, numeric=numeric)
    if layout is not None:
        schema = replace(schema, kinds=kinds_of_model(layout.state.columns.kinds, layout.n_features_in_))
    model, _ = fit_table(estimator, source, schema, machines, classes=classes, layout=layout, **observers)
    return model


def _examples_of(block: Block, labels: Vocabulary | None) -> Examples:
    """Return the examples of the sample of a source: it is part of the source, so all of them are stored."""
    examples = block.examples()
    return examples if labels is None else examples.only(labels)


def _frequent(block: Block, number: int) -> NDArray[Any]:
    """Return the most frequent targets of a block; among equals those that come first in canonical order."""
    labels = most_frequent_labels(block.tokens[block.targets()], number)
    return np.array(labels, None if block.tokens.dtype.kind in "iub" else object)


def _local_kind(template: Memory, source: Source, block: Block) -> str:
    compiled = isinstance(template, Hashed) and template.is_compiled
    numbers = source.format == "parquet" and block.tokens.dtype.kind in "iub"
    return "threads" if compiled and numbers else "processes"


def _manifest(
    source: Source,
    template: Memory,
    h: int,
    short: str,
    pad: Any,
    labels: Vocabulary | None,
    groups: list[tuple[Shard, ...]],
    kept: Kept | None,
) -> dict[str, Any]:
    """Return what must be the same for a group's state to be used again."""
    return {
        "format": 1,
        "files": len(source.files),
        "bytes": source.nbytes,
        "tokens": source.tokens,
        "column": source.column,
        "source": source.fingerprint(),
        "h": int(h),
        "short": short,
        "pad": pad,
        "classes": None if labels is None else labels.tolist(),
        "memory": type(template).__name__,
        "layout": template.fingerprint(),
        "kept": None if kept is None else [kept.seed, kept.most, kept.threshold],
        "groups": len(groups),
        "first_group": [[shard.file.path, shard.start, shard.stop] for shard in groups[0]],
    }
