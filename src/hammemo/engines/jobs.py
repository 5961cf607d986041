"""What every engine does: learn one group of shards. A task is a function of job and group alone.

**States on their way** between processes are named arrays. Only `pack` and `unpack` know how a
memory becomes arrays and arrays a memory; nothing is pickled.

**Checkpoints.** A folder remembers what is done, so that a job whose driver died is started
again and repeats nothing. The folder, on this machine or on object storage, holds
``manifest.json``, which says whose job it is, and one file for each group of shards that has
been learned: 32 bytes of BLAKE2b and then the state, as safetensors. A file is written beside
its place and renamed (object stores show a file only when it is whole), so that it is there or
it is not; one that is damaged all the same does not match its digest and counts as not there.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

import numpy as np
import safetensors.numpy
from sklearn.base import clone

from hammemo.files.atomic import write_file
from hammemo.sources.formats import file_system, split_place
from hammemo.stores.documents import Way
from hammemo.stores.kept_documents import Keeper
from hammemo.tokens.cutting import Cutting
from hammemo.tokens.stream_blocks import Block, stream_blocks

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from hammemo._arrays.types import Array
    from hammemo.memories import Memory
    from hammemo.sources.documents import Source
    from hammemo.sources.listing import Shard, ShardedFiles
    from hammemo.stores.kept import ModelStore
    from hammemo.tokens.vocabulary import Vocabulary

_DIGEST: Final = 32


@dataclass(frozen=True)
class Checkpoint:
    """The states of the groups of one job.

    Parameters
    ----------
    base, path : str
        The folder: its address, empty on this machine, and the path there.
    job : str
        A digest of the manifest; a state that was written for another job is not read.
    """

    base: str
    path: str
    job: str

    def read(self, group: int) -> Arrays | None:
        """Return the state of a group, None if it is not there."""
        try:
            with file_system(self.base).open_input_file(self._place(group)) as stream:
                data = stream.read()
        except FileNotFoundError:
            return None
        digest = data[:_DIGEST]
        body = data[_DIGEST:]
        if digest == self._digest(group, body):
            return safetensors.numpy.load(body)
        return None

    def write(self, group: int, arrays: Arrays) -> None:
        """Store the state of a group."""
        body = safetensors.numpy.save(arrays)
        _write(self.base, self._place(group), self._digest(group, body) + body)

    def _place(self, group: int) -> str:
        return f"{self.path}/group-{group:06d}"

    def _digest(self, group: int, body: bytes) -> bytes:
        return hashlib.blake2b(
            body, digest_size=_DIGEST, key=f"{self.job}:{group}".encode()
        ).digest()


def open_checkpoint(where: str, job: Manifest) -> Checkpoint:
    """Return the checkpoint of a job in a folder; refuse a folder that belongs to another job."""
    base, path = split_place(where)
    if not base:
        path = os.path.abspath(path)
    system = file_system(base)
    text = json.dumps(dict(job), indent=2)
    try:
        with system.open_input_file(f"{path}/manifest.json") as stream:
            _compare(where, json.loads(stream.read()), job)
    except FileNotFoundError:
        system.create_dir(path, recursive=True)
        _write(base, f"{path}/manifest.json", text.encode())
    return Checkpoint(base, path, hashlib.blake2b(text.encode(), digest_size=16).hexdigest())


def _compare(where: str, stored: Any, expected: Manifest) -> None:
    entries = stored if isinstance(stored, dict) else {}
    for name, value in expected.items():
        if entries.get(name) != value:
            raise ValueError(
                f"The folder {where} belongs to another job: "
                f"{name} is {entries.get(name)!r} there and {value!r} here. "
                "Resume with what that job was started with, or name an empty folder."
            )


def _write(base: str, place: str, data: bytes) -> None:
    system = file_system(base)
    if system.type_name == "local":
        write_file(place, [data])
    else:
        with system.open_output_stream(place) as stream:  # an object appears when it is whole
            stream.write(data)


Arrays: TypeAlias = dict[str, "Array"]
Shards: TypeAlias = "tuple[Shard, ...]"
Groups: TypeAlias = Sequence[Shards]
"""The shards of a source in groups, one task each."""
Manifest: TypeAlias = "Mapping[str, Any]"
"""What must be the same for a group's state to be used again."""
OnProgress: TypeAlias = Callable[[int, int], None]
"""Called with (tasks done, tasks)."""
OnReport: TypeAlias = Callable[["GroupReport"], None]


def pack(memory: Memory) -> Arrays:
    """Return all that a memory has stored, as named arrays: the canonical state."""
    return {name: np.ascontiguousarray(array) for name, array in memory.state().items()}


def unpack(template: Memory, arrays: Mapping[str, Array]) -> Any:
    """Return a memory of the template's layout that holds what `pack` returned.

    The arrays may be read-only.

    Examples
    --------
    >>> from hammemo import MemoryClassifier
    >>> from hammemo.engines.jobs import pack, unpack
    >>> memory = MemoryClassifier().fit([["a", "b"], ["a", "c"]], ["x", "y"]).memory_
    >>> unpack(memory.empty_like(), pack(memory)).state_bytes() == memory.state_bytes()
    True
    """
    copies = {name: np.array(array) for name, array in arrays.items()}
    return clone(template).restore(copies, template.sites, template.seed)


def add_prefix(prefix: str, arrays: Mapping[str, Array]) -> Arrays:
    """Return arrays under names that begin so."""
    return {f"{prefix}{name}": array for name, array in arrays.items()}


def take_prefix(prefix: str, arrays: Mapping[str, Array]) -> Arrays:
    """Return the arrays whose names begin so, without that beginning."""
    return {
        name.removeprefix(prefix): array
        for name, array in arrays.items()
        if name.startswith(prefix)
    }


Piece = TypeVar("Piece")

_KEPT: Final = "kept sample."
"""How names of arrays begin that belong to the sample, in the state of a group that is stored."""


@dataclass(frozen=True)
class GroupReport:
    """What learning one group took.

    Parameters
    ----------
    group : int
    tokens : int
        Tokens read, or values of a table; 0 where the state was found in the folder of an
        earlier run.
    source_bytes : int
        Bytes of the files that the shards cover.
    seconds, reading_seconds : float
        In all, and for reading and tokenizing only.
    cpu_seconds : float
        What the processor spent on it: less than `seconds` where others wanted the core too.
    peak_bytes : int
        The most memory the process ever had, as the operating system counts it; 0 where it does
        not.
    resumed : bool
        Whether the state was found in the folder of an earlier run.
    kept : dict of arrays, optional
        The group's part of the sample that the model keeps, on its way to the others;
        `GroupObserver` takes it out.
    """

    group: int
    tokens: int
    source_bytes: int
    seconds: float
    reading_seconds: float
    cpu_seconds: float
    peak_bytes: int
    resumed: bool
    kept: Arrays | None = field(default=None, repr=False)


@dataclass(frozen=True)
class GroupJob(ABC):
    """All that a task must know except which shards are its own: what is learned, and how.

    Parameters
    ----------
    template : Memory
        Empty, its layout settled.
    checkpoint : Checkpoint or None
        Where states are kept.
    kept : ModelStore or None
        An empty one, if a sample of the examples is to be kept.
    """

    template: Memory
    checkpoint: Checkpoint | None = field(default=None, kw_only=True)
    kept: ModelStore | None = field(default=None, kw_only=True)

    @abstractmethod
    def pieces(self, shards: Shards, tally: GroupTally) -> Iterator[Any]:
        """Yield what the shards of one group hold, some at a time, and count it."""

    @abstractmethod
    def add(self, memory: Memory, pieces: Iterable[Any]) -> None:
        """Store such pieces."""

    def learn(self, group: int, shards: Shards) -> tuple[Memory, GroupReport]:
        """Return a memory that has learned these shards, or what an earlier run stored of them."""
        tally = GroupTally(self.kept)
        stored = None
        if self.checkpoint is not None:
            stored = self.checkpoint.read(group)
        if stored is not None:
            sample_arrays = take_prefix(_KEPT, stored) or None
            state = {name: array for name, array in stored.items() if not name.startswith(_KEPT)}
            memory: Memory = unpack(self.template, state)
        else:
            memory = self.template.empty_like()
            self.add(memory, self.pieces(shards, tally))
            sample_arrays = None
            if tally.kept is not None:
                sample_arrays = tally.kept.pack()
            if self.checkpoint is not None:
                self.checkpoint.write(
                    group, {**pack(memory), **add_prefix(_KEPT, sample_arrays or {})}
                )
        return memory, tally.report(group, shards, sample_arrays, resumed=stored is not None)

    def learn_packed(self, group: int, shards: Shards) -> tuple[Arrays, GroupReport]:
        """Return the same as arrays, for other processes."""
        memory, report = self.learn(group, shards)
        return pack(memory), report


@dataclass(frozen=True)
class Job(GroupJob):
    """Learn documents.

    Parameters
    ----------
    template, checkpoint, kept
        As in `GroupJob`.
    source : Source
        How shards are read; it need not list the files.
    h, short, pad
        As in `MemoryClassifier.fit_stream`.
    labels : Vocabulary, optional
        Learn only windows with these targets.
    """

    source: Source
    h: int
    short: str
    pad: Any
    labels: Vocabulary | None

    def pieces(self, shards: Shards, tally: GroupTally) -> Iterator[Block]:
        """Yield the blocks of documents."""
        way = Way.of(Cutting(self.short, self.pad), self.labels)  # type: ignore[arg-type]
        for shard in shards:
            for piece in tally.time_pieces(self.source.pieces(shard)):
                tally.tokens += piece.n_tokens
                keeper = Keeper(tally.kept, way)
                blocks = stream_blocks(piece.tokens, self.h, piece.starts, self.short, pad=self.pad)
                yield from keeper.through(blocks)
                tally.kept = keeper.store

    def add(self, memory: Memory, pieces: Iterable[Block]) -> None:
        """Store the windows of blocks."""
        memory.add_blocks(pieces, self.labels)


class GroupTally:
    """How much some shards hold, how long reading it takes and what is kept of it."""

    def __init__(self, store: ModelStore | None) -> None:
        self.kept = store
        self.tokens = 0
        self.seconds = 0.0
        self._started = time.perf_counter()
        self._spent = time.thread_time()

    def time_pieces(self, pieces: Iterator[Piece]) -> Iterator[Piece]:
        """Yield what an iterator does, and take the time that it needs."""
        while True:
            started = time.perf_counter()
            piece = next(pieces, None)
            self.seconds += time.perf_counter() - started
            if piece is None:
                return
            yield piece

    def report(
        self, group: int, shards: Shards, sample_arrays: Arrays | None, *, resumed: bool
    ) -> GroupReport:
        """Return what learning the group took since this tally was begun."""
        source_bytes = sum(shard.stop - shard.start for shard in shards)
        return GroupReport(
            group,
            self.tokens,
            source_bytes,
            seconds=time.perf_counter() - self._started,
            reading_seconds=self.seconds,
            cpu_seconds=time.thread_time() - self._spent,
            peak_bytes=peak_memory(),
            resumed=resumed,
            kept=sample_arrays,
        )


def peak_memory() -> int:
    """Return the most bytes this process has had in memory so far, 0 where that is not known."""
    try:
        import resource
    except ModuleNotFoundError:  # not on Windows
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    if sys.platform == "darwin":
        return peak
    return 1024 * peak


def describe_job(
    source: ShardedFiles, groups: Groups, store: ModelStore | None, **more: Any
) -> dict[str, Any]:
    """Return what must be the same for a group's state to be used again."""
    return {
        "format": 1,
        "files": len(source.files),
        "bytes": source.nbytes,
        "source": source.fingerprint(),
        **more,
        "kept": None if store is None else store.describe(),
        "groups": len(groups),
        "first_group": [[shard.file.path, shard.start, shard.stop] for shard in groups[0]],
    }


class GroupObserver:
    """Is given the report of each group: tells others, and adds up the samples that are kept.

    Parameters
    ----------
    total : int
        How many groups there are.
    store : ModelStore or None
        An empty one, if a sample is kept.
    on_progress, on_report
        As in `Machines`.
    """

    def __init__(
        self,
        total: int,
        store: ModelStore | None,
        on_progress: OnProgress | None,
        on_report: OnReport | None,
    ) -> None:
        self.kept = store
        self._done = 0
        self._total = total
        self._on_progress = on_progress
        self._on_report = on_report
        self.step(0)

    def expect(self, n_tasks: int) -> None:
        """Take note of tasks that return no report."""
        self._total += n_tasks

    def step(self, done: int = 1) -> None:
        """Tell that a task is done."""
        self._done += done
        if self._on_progress is not None:
            self._on_progress(self._done, self._total)

    def __call__(self, report: GroupReport) -> None:
        """Take the report of a group that is learned."""
        if self.kept is not None and report.kept is not None:
            self.kept = self.kept.plus(self.kept.unpack(report.kept), 1)
        if self._on_report is not None:
            self._on_report(replace(report, kept=None))
        self.step()
