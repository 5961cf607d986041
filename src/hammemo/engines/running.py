"""How a fit is run: engine, workers, in memory or in segments, and where finished work is kept.

On this machine, threads learn where the compiled loops do the work, and processes where Python
does.
"""

from __future__ import annotations

import os
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from joblib import Parallel, delayed

from hammemo.engines.jobs import Checkpoint, Manifest, OnProgress, OnReport, open_checkpoint, unpack
from hammemo.engines.segments import SegmentsJob, job_names, run_segments
from hammemo.files.folders import HEAD, choose_even_edges, list_facts
from hammemo.files.models import save
from hammemo.files.remote import Remote, temporary_folder
from hammemo.memories.exact import InSegments
from hammemo.sources.formats import is_address

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from hammemo.engines.adding import Spread
    from hammemo.engines.jobs import GroupJob, GroupObserver, Groups, Shards
    from hammemo.estimators.classifiers import MemoryClassifier
    from hammemo.memories import Memory
    from hammemo.sources.documents import Source
    from hammemo.sources.listing import Shard
    from hammemo.sources.read_tables import TableFiles


def run_locally(
    job: GroupJob, groups: Groups, on_report: OnReport, *, kind: str, workers: int | None
) -> Memory:
    """Return the sum of what all groups teach, added in order, whichever is learned first."""
    workers = min(workers or os.cpu_count() or 1, len(groups))
    total = job.template.empty_like()
    in_processes = kind == "processes" and workers > 1
    learn: Any = job.learn_packed if in_processes else job.learn
    for state, report in spread_locally(learn, enumerate(groups), kind, workers):
        total.merge(unpack(job.template, state) if in_processes else state)
        on_report(report)
    return total


def spread_locally(
    function: Callable[..., Any],
    arguments: Iterable[tuple[Any, ...]],
    kind: str,
    workers: int | None,
) -> Iterator[Any]:
    """Yield what a function returns for each of some arguments, in their order."""
    workers = workers or os.cpu_count() or 1
    backend = "threading"
    if kind == "processes" and workers > 1:
        backend = "loky"
    pool = Parallel(workers, backend=backend, return_as="generator", max_nbytes=None)
    try:
        yield from pool(delayed(function)(*values) for values in arguments)
    except BrokenProcessPool as error:
        raise RuntimeError(
            "A worker process died, perhaps for want of memory. Take fewer workers, and resume= "
            "so that nothing done is repeated; engine='ray' starts tasks again by itself."
        ) from error


ENGINES: Final = ("local", "threads", "processes", "ray")
_MAX_GROUPS: Final = 4096
"""Groups, at most about: each has a state that must be made, kept and added."""


@dataclass(frozen=True)
class Machines:
    """How a fit is run: the engine, its workers, and where finished work is stored.

    The result depends on none of these settings.

    Parameters
    ----------
    engine : {"local", "threads", "processes", "ray"}
        "local" takes threads where the compiled loops do the work, and processes otherwise.
    workers : int, optional
        How many; by default as many as there are cores, here or in the cluster.
    address : str, optional
        With Ray: the cluster. Without it, Ray is started on this machine and stopped afterwards.
    resume : str, optional
        A folder or an address on object storage that remembers what is done: the same call made
        again repeats none of it. A cluster's workers must reach it too.
    segments : int, optional
        Write the exact table of an `Exact` or a `Tiered` memory to the folder `out` in about
        this many segments, cut by ranges of keys, and return the model that answers from them.
        No process holds the whole table, and the folder remembers what is done: the same call
        made again repeats none of it. Workers must reach the folder.
    out : str or path, optional
        With `segments`: the folder, on a disk that all workers see.
    shard_bytes, group_size : int, optional
        Bytes of files a shard, and shards a task; by default small files are taken together.
    on_progress : callable, optional
        Is called with (tasks done, tasks): a task learns a group or, with `segments`, also adds
        up a range of keys.
    on_report : callable, optional
        Is called with the `GroupReport` of each group.

    Examples
    --------
    >>> from hammemo.engines import Machines
    >>> Machines("processes", workers=2).engine
    'processes'
    """

    engine: str = "local"
    workers: int | None = None
    address: str | None = None
    resume: str | None = None
    segments: int | None = None
    out: str | os.PathLike[str] | None = None
    shard_bytes: int | None = None
    group_size: int | None = None
    on_progress: OnProgress | None = None
    on_report: OnReport | None = None

    def __post_init__(self) -> None:
        if self.engine not in ENGINES:
            raise ValueError(f"engine={self.engine!r} is not known: use {', '.join(ENGINES)}.")
        for name in ("workers", "segments", "shard_bytes", "group_size"):
            number = getattr(self, name)
            if number is not None and number < 1:
                raise ValueError(f"{name}={number!r} is a whole number of at least 1.")
        if self.segments is not None and (self.out is None or self.resume is not None):
            raise ValueError(
                f"segments={self.segments!r}: a table is cut into one segment or more, out= names "
                "the folder to write, and that folder remembers what is done: resume= is not used."
            )
        if self.segments is not None and self.engine == "ray" and self.out_is_address:
            raise ValueError(
                f"out={os.fspath(self.out or '')!r}: "
                "workers of Ray write segments to a folder that all of them see. "
                "Name one on a disk of the network, and copy it to object storage when it is done."
            )

    @property
    def out_is_address(self) -> bool:
        """Whether a model in segments is written to object storage."""
        return self.out is not None and is_address(os.fspath(self.out))

    def groups(self, source: Source | TableFiles) -> Groups:
        """Return the shards of a source in groups, one task each."""
        task_bytes = max(source.shard_size(self.shard_bytes), source.nbytes // _MAX_GROUPS)
        return group_shards(source.shards(self.shard_bytes), self.group_size, task_bytes)

    def checkpoint(self, manifest: Manifest, name: str = "") -> Checkpoint | None:
        """Return what remembers the states of a job, in the folder for it or in a folder below.

        `name` is that of the folder below.
        """
        if self.resume is None:
            return None
        where = str(self.resume)
        if name:
            place = where
            options = ""  # of an address, behind a question mark
            if is_address(where):
                place, mark, query = where.partition("?")
                options = mark + query
            where = f"{place.rstrip('/')}/{name}{options}"
        return open_checkpoint(where, manifest)

    @contextmanager
    def spreading(self) -> Iterator[Spread]:
        """Yield what calls a function with many arguments on threads, on processes or on Ray."""
        if self.engine == "ray":
            from hammemo.engines import ray

            with ray.spreading(self.address, self.workers) as spread:
                yield spread
        else:
            kind = "processes" if self.engine == "local" else self.engine
            yield partial(spread_locally, kind=kind, workers=self.workers)

    def count(
        self,
        job: GroupJob,
        groups: Groups,
        *,
        sample: Memory,
        manifest: Manifest,
        tell: GroupObserver,
        kind: str,
    ) -> tuple[Memory, SegmentsJob | None]:
        """Return a memory that has learned all groups and, if it has segments, what made them.

        `sample` is a memory that has learned some examples of the source, `kind` what "local"
        means.
        """
        if self.segments is not None:
            work = self._in_segments(job, manifest, sample, self.segments)
            with self.spreading() as spread:
                return run_segments(work, groups, spread, tell), work
        if self.engine == "ray":
            from hammemo.engines import ray

            memory = ray.run(job, groups, tell, workers=self.workers, address=self.address)
            return memory, None
        if self.engine != "local":
            kind = self.engine
        return run_locally(job, groups, tell, kind=kind, workers=self.workers), None

    def _in_segments(
        self, job: GroupJob, manifest: Manifest, sample: Memory, segments: int
    ) -> SegmentsJob:
        """Return what a fit in segments must know, or refuse what cannot be learned so."""
        if not isinstance(sample, InSegments) or sample.sites.free_with_table:
            raise ValueError(
                "segments= cuts an exact table of sites with positions: "
                "use memory='exact' or 'tiered', and a kernel without Bag and Together."
            )
        table = sample.terms.add_up()
        edges = choose_even_edges(table, segments)[1:-1]
        cuts = [table.vocabulary.at(edge) for edge in edges.tolist()]
        if self.out_is_address:
            folder = temporary_folder()
        else:
            folder = os.path.abspath(os.fspath(self.out or ""))
        runs_name, segments_name = job_names(manifest, cuts)
        return SegmentsJob(job, folder, runs_name, segments_name, cuts=tuple(cuts))

    def finish(self, model: MemoryClassifier, work: SegmentsJob | None) -> None:
        """Write what a model in segments has beside them, and delete what is no longer needed."""
        if work is None:
            return
        save(model, work.folder)
        work.delete_runs()
        segmented = model.memory_.segmented
        if self.out_is_address and segmented is not None:
            names = [facts.name for facts in list_facts(segmented)]
            Remote(os.fspath(self.out or "")).put(work.folder, HEAD, names)


def group_shards(shards: Sequence[Shard], size: int | None, task_bytes: int) -> Groups:
    """Return consecutive shards in groups: of `size` shards, or of about so many bytes."""
    if size is not None:
        return [tuple(shards[first : first + size]) for first in range(0, len(shards), size)]
    groups: list[Shards] = []
    group: list[Shard] = []
    group_bytes = 0
    for shard in shards:
        group.append(shard)
        group_bytes += shard.stop - shard.start
        if 4 * group_bytes >= 3 * task_bytes:
            groups.append(tuple(group))
            group = []
            group_bytes = 0
    if group:
        return [*groups, tuple(group)]
    return groups
