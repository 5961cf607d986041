r"""Engines: learn a source on many threads, processes or machines, with the same bytes as a result.

The model is a sum over the documents, :math:`\sum_{\text{groups}} \sum_{\text{shards}} \sum_{\text{documents}}`, and a
sum of whole numbers has no order. What must be settled before the first term is the layout: it comes from a sample of
the source that depends on the files alone (:meth:`hammemo.sources.documents.Source.sample`). Then every engine, number
of workers, size of shards or groups, and every repetition of a lost task gives the same state, to the byte.

`jobs` is what a task does, `local` and `ray` run tasks, `states` and `partitions` move partial states, `checkpoints`
keeps them; `parts` learns a table that no process holds. Imports `files`, `models` and all below; `experiments` and the
command line may import it.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np
from sklearn.base import clone

from hammemo.engines import local
from hammemo.engines.checkpoints import open_checkpoint
from hammemo.engines.jobs import GroupReport, Job
from hammemo.engines.partitions import even_cuts
from hammemo.engines.parts import PartsJob, job_names, run_parts
from hammemo.files.folders import HEAD, facts_of
from hammemo.files.models import save
from hammemo.files.remote import Remote, temporary_folder
from hammemo.kernels.free_sites import tabled
from hammemo.memories import Hashed
from hammemo.memories.exact import InParts
from hammemo.models.axes import resolved_vote
from hammemo.models.growing import warn_if_large
from hammemo.models.names import is_auto
from hammemo.sources.documents import Source, open_source
from hammemo.sources.formats import is_address
from hammemo.tokens.cutting import Cutting
from hammemo.tokens.labels import label_array, most_frequent_labels
from hammemo.tokens.vocabulary import Vocabulary
from hammemo.votes import LogLinear, Mixture

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import ArrayLike, NDArray

    from hammemo.kernels.sites import Sites
    from hammemo.memories import Memory
    from hammemo.memories.reader import Reader
    from hammemo.models.classifiers import MemoryClassifier
    from hammemo.models.kept import Kept
    from hammemo.sources.documents import Shard
    from hammemo.tokens.contexts import Examples
    from hammemo.tokens.streams import Block
    from hammemo.votes import Vote

__all__ = ["ENGINES", "GroupReport", "fit"]

ENGINES: Final = ("local", "threads", "processes", "ray")
_MAX_GROUPS: Final = 4096
"""Groups, at most about: each has a state that must be made, kept and added."""


def fit(
    estimator: MemoryClassifier,
    source: Any,
    h: int,
    *,
    classes: ArrayLike | int | None = None,
    short: Literal["drop", "pad"] = "drop",
    pad: Any = None,
    layout: MemoryClassifier | None = None,
    engine: str = "local",
    workers: int | None = None,
    address: str | None = None,
    resume: str | None = None,
    parts: int | None = None,
    out: str | os.PathLike[str] | None = None,
    shard_bytes: int | None = None,
    group_size: int | None = None,
    on_progress: Callable[[int, int], None] | None = None,
    on_report: Callable[[GroupReport], None] | None = None,
) -> MemoryClassifier:
    r"""Return a copy of the estimator that has learnt to predict every token of a source from the h tokens before it.

    Parameters
    ----------
    estimator : MemoryClassifier
        Its parameters are used; what it may have learnt is not.
    source : Source, or what `open_source` takes
        The documents.
    h : int
        Tokens per context.
    classes : array-like or int, optional
        Learn only the windows whose next token is one of these, or one of the so many most frequent ones of the sample.
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
    parts : int, optional
        Write the exact table of an `Exact` or a `Tiered` memory to the folder `out` in about so many parts, cut by
        ranges of keys, and return the model that answers from them. No process holds the whole table, and the folder
        remembers what is done: the same call made again repeats none of it. Workers must reach the folder.
    out : str or path, optional
        With `parts`: the folder, on a disk that all workers see.
    shard_bytes, group_size : int, optional
        Bytes of files a shard, and shards a task; by default small files are taken together. The result does not depend
        on them.
    on_progress : callable, optional
        Is told (tasks done, tasks): a task learns a group or, with `parts`, also adds up a range of keys.
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
    """
    if engine not in ENGINES:
        raise ValueError(f"engine={engine!r} is not known: use {', '.join(ENGINES)}.")
    for name, number in (
        ("workers", workers),
        ("parts", parts),
        ("shard_bytes", shard_bytes),
        ("group_size", group_size),
    ):
        if number is not None and number < 1:
            raise ValueError(f"{name}={number!r} is a whole number of at least 1.")
    source = source if isinstance(source, Source) else open_source(source)
    block = source.sample(h, short, pad)
    if block is None or not len(block.targets()):
        raise ValueError(f"There is nothing to learn: no document of the source has more than h={h} tokens.")
    chosen = _frequent(block, int(classes)) if isinstance(classes, (int, np.integer)) else classes
    model: MemoryClassifier = clone(estimator)
    documents = np.split(block.tokens, block.starts[1:])  # filled up already
    model.partial_fit_stream(documents, h, short="drop", classes=chosen, layout=layout)
    model.cutting_ = Cutting(short, pad)
    labels = None if chosen is None else Vocabulary.of(label_array(chosen))
    template = model.memory_.empty_like()
    kept = None if model._kept is None else model._kept.emptied()
    task_bytes = max(shard_bytes or source.fair_bytes, source.nbytes // _MAX_GROUPS)
    groups = _grouped(source.shards(shard_bytes), group_size, task_bytes)
    manifest = _manifest(source, template, h, short, pad, labels, groups, kept)
    checkpoint = None if resume is None else open_checkpoint(str(resume), manifest)
    job = Job(template, replace(source, files=()), h, short, pad, labels, checkpoint, kept)
    tell = _GroupObserver(len(groups), kept, on_progress, on_report)
    work = None if parts is None else _in_parts(job, manifest, model.memory_, parts, out, engine)
    if work is not None:
        kind = "processes" if engine == "local" else engine
        with _spreading(kind, workers, address) as spread:
            memory = run_parts(work, groups, spread, tell)
    elif engine == "ray":
        from hammemo.engines import ray

        memory = ray.run(job, groups, model.memory_, workers, address, tell)
    else:
        kind = _local_kind(template, source, block) if engine == "local" else engine
        memory = local.run(job, groups, kind, workers, tell)
    if labels is not None:
        memory.declare(labels)
    model.memory_, model._kept = memory, tell.kept
    if is_auto(getattr(estimator, "memory", None)) and work is None:
        warn_if_large(memory)
    if model.vote_.sample_size():
        if is_auto(model.vote) and isinstance(model.vote_, LogLinear):  # now it is known how many labels there are
            model.vote_ = resolved_vote(model.vote, memory, len(memory.labels))
        sample = _examples_of(block, labels) if model._kept is None else model._kept.fitting_sample(model.vote_)
        reader = memory.static_reader() if model.vote_.keeps_cases else memory.reader()
        if work is not None:
            reader = _rows_to_fit(reader, model.vote_, model.sites_, sample)
        model.vote_.fit_to(reader, sample, model.sites_, seed=memory.seed)
    if work is not None:
        save(model, work.folder)
        work.delete_runs()
        if out is not None and is_address(os.fspath(out)):
            _put(model, work.folder, os.fspath(out))
    return model


def _rows_to_fit(reader: Reader, vote: Vote, sites: Sites, sample: Examples) -> Reader:
    """Return what weights are fitted with: the rows of the sample; for continuation counts, the whole table."""
    if not isinstance(vote, Mixture):
        return reader.restricted(sample.contexts)
    return reader if vote.components(sites).continued else reader.restricted(sample.contexts, times=True)


def _in_parts(job: Job, manifest: dict[str, Any], sample: Any, parts: int, out: Any, engine: str) -> PartsJob:
    """Return what a fit in parts must know, or refuse what cannot be learnt so."""
    if not isinstance(sample, InParts) or tabled(sample.sites):
        raise ValueError(
            "parts= cuts an exact table of sites with positions: use memory='exact' or 'tiered', and a kernel without "
            "Bag and Together."
        )
    if parts < 1 or out is None or job.checkpoint is not None:
        raise ValueError(
            f"parts={parts!r}: a table is cut into one part or more, out= names the folder to write, and that folder "
            "remembers what is done: resume= is not used."
        )
    if engine == "ray" and is_address(os.fspath(out)):
        raise ValueError(
            f"out={os.fspath(out)!r}: workers of Ray write parts to a folder that all of them see. Name one on a disk "
            "of the network, and copy it to object storage when it is done."
        )
    cuts = even_cuts(sample.table(), parts)
    names = job_names(manifest, cuts)
    folder = temporary_folder() if is_address(os.fspath(out)) else os.path.abspath(os.fspath(out))
    return PartsJob(job, folder, *names, tuple(cuts))


def _put(model: MemoryClassifier, folder: str, address: str) -> None:
    """Copy a model in parts to object storage."""
    parted = model.memory_.parted
    assert parted is not None
    Remote(address).put(folder, HEAD, [one.name for one in facts_of(parted)])


@contextmanager
def _spreading(engine: str, workers: int | None, address: str | None) -> Iterator[Any]:
    """Yield what calls a function with many arguments on threads, on processes or on Ray."""
    if engine == "ray":
        from hammemo.engines import ray

        with ray.spreading(address, workers) as spread:
            yield spread
    else:
        yield partial(local.spread, kind=engine, workers=workers)


def _examples_of(block: Block, labels: Vocabulary | None) -> Examples:
    """Return the examples of the sample of a source: it is part of the source, so all of them are stored."""
    examples = block.examples()
    return examples if labels is None else examples.only(labels)


def _frequent(block: Block, number: int) -> NDArray[Any]:
    """Return the most frequent targets of a block; among equals those that come first in canonical order."""
    labels = most_frequent_labels(block.tokens[block.targets()], number)
    return np.array(labels, None if block.tokens.dtype.kind in "iub" else object)


def _grouped(shards: list[Shard], size: int | None, task_bytes: int) -> list[tuple[Shard, ...]]:
    """Return consecutive shards in groups, one task each: of `size` shards, or of about so many bytes."""
    if size is not None:
        return [tuple(shards[first : first + size]) for first in range(0, len(shards), size)]
    groups: list[tuple[Shard, ...]] = []
    held: list[Shard] = []
    held_bytes = 0
    for shard in shards:
        held.append(shard)
        held_bytes += shard.stop - shard.start
        if 4 * held_bytes >= 3 * task_bytes:
            groups.append(tuple(held))
            held, held_bytes = [], 0
    return [*groups, tuple(held)] if held else groups


def _local_kind(template: Memory, source: Source, block: Block) -> str:
    compiled = isinstance(template, Hashed) and template._rows is not None and template._rows.compiled is not None
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


class _GroupObserver:
    """Is given the report of each group: tells others, and adds up the samples that are kept.

    Parameters
    ----------
    total : int
        How many groups there are.
    kept : Kept or None
        An empty one, if a sample is kept.
    on_progress, on_report
        As in `fit`.
    """

    def __init__(
        self,
        total: int,
        kept: Kept | None,
        on_progress: Callable[[int, int], None] | None,
        on_report: Callable[[GroupReport], None] | None,
    ) -> None:
        self.kept = kept
        self._done, self._total = 0, total
        self._on_progress, self._on_report = on_progress, on_report
        self.step(0)

    def expect(self, more: int) -> None:
        """Take note of tasks that return no report."""
        self._total += more

    def step(self, done: int = 1) -> None:
        """Tell that a task is done."""
        self._done += done
        if self._on_progress is not None:
            self._on_progress(self._done, self._total)

    def __call__(self, report: GroupReport) -> None:
        if self.kept is not None and report.kept is not None:
            self.kept = self.kept.plus(self.kept.unpacked(report.kept), 1)
        if self._on_report is not None:
            self._on_report(replace(report, kept=None))
        self.step()
