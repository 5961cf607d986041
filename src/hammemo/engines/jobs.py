"""What every engine does: learn one group of shards. A task is a pure function of the job and the group."""

from __future__ import annotations

import sys
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeVar

from hammemo.engines.states import Arrays, pack, unpack
from hammemo.stores.documents import Way
from hammemo.stores.kept_documents import Keeper
from hammemo.tokens.cutting import Cutting
from hammemo.tokens.streams import Block, stream_blocks

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from hammemo.engines.checkpoints import Checkpoint
    from hammemo.memories import Memory
    from hammemo.sources.documents import Source
    from hammemo.sources.shards import Shard
    from hammemo.stores.kept import ModelStore
    from hammemo.tokens.vocabulary import Vocabulary

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
        Tokens read, or values of a table; 0 where the state was found in the folder of an earlier run.
    source_bytes : int
        Bytes of the files that the shards cover.
    seconds, reading_seconds : float
        In all, and for reading and tokenizing only.
    cpu_seconds : float
        What the processor spent on it: less than `seconds` where others wanted the core too.
    peak_bytes : int
        The most memory the process ever had, as the operating system counts it; 0 where it does not.
    resumed : bool
        Whether the state was found in the folder of an earlier run.
    kept : dict of arrays, optional
        The group's part of the sample that the model keeps, on its way to the others; `GroupObserver` takes it out.
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


class GroupJob(ABC):
    """All that a task must know except which shards are its own: what is learnt, and how.

    Attributes
    ----------
    template : Memory
        Empty, its layout settled.
    checkpoint : Checkpoint or None
        Where states are kept.
    kept : ModelStore or None
        An empty one, if a sample of the examples is to be kept.
    """

    template: Memory
    checkpoint: Checkpoint | None
    kept: ModelStore | None

    @abstractmethod
    def reader(self) -> GroupReader:
        """Return what reads the shards of one group."""

    @abstractmethod
    def add(self, memory: Memory, pieces: Iterable[Any]) -> None:
        """Store what a reader has read."""

    def learn(self, group: int, shards: tuple[Shard, ...]) -> tuple[Memory, GroupReport]:
        """Return a memory that has learnt these shards, or what an earlier run has stored of them."""
        reader = self.reader()
        known = None if self.checkpoint is None else self.checkpoint.read(group)
        if known is not None:
            kept = {name.removeprefix(_KEPT): known.pop(name) for name in list(known) if name.startswith(_KEPT)} or None
            memory: Memory = unpack(self.template, known)
        else:
            memory = self.template.empty_like()
            self.add(memory, reader.pieces(shards))
            kept = None if reader.kept is None else reader.kept.packed()
            if self.checkpoint is not None:
                named = {f"{_KEPT}{name}": array for name, array in (kept or {}).items()}
                self.checkpoint.write(group, {**pack(memory), **named})
        return memory, reader.report(group, shards, kept, resumed=known is not None)

    def learn_packed(self, group: int, shards: tuple[Shard, ...]) -> tuple[Arrays, GroupReport]:
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

    template: Memory
    source: Source
    h: int
    short: str
    pad: Any
    labels: Vocabulary | None
    checkpoint: Checkpoint | None = None
    kept: ModelStore | None = None

    def reader(self) -> ShardReader:
        """Return what reads the documents of one group."""
        return ShardReader(self)

    def add(self, memory: Memory, pieces: Iterable[Block]) -> None:
        """Store the windows of blocks."""
        memory.add_blocks(pieces, self.labels)


class GroupReader(ABC):
    """What some shards hold, how much that was, how long reading it took and what is kept of it."""

    def __init__(self, kept: ModelStore | None) -> None:
        self.kept = kept
        self.tokens = 0
        self.seconds = 0.0
        self._started, self._spent = time.perf_counter(), time.thread_time()

    @abstractmethod
    def pieces(self, shards: tuple[Shard, ...]) -> Iterator[Any]:
        """Yield what is learnt, some at a time."""

    def timed(self, pieces: Iterator[Piece]) -> Iterator[Piece]:
        """Yield what an iterator does, and take the time that it needs."""
        while True:
            started = time.perf_counter()
            piece = next(pieces, None)
            self.seconds += time.perf_counter() - started
            if piece is None:
                return
            yield piece

    def report(self, group: int, shards: tuple[Shard, ...], kept: Arrays | None, *, resumed: bool) -> GroupReport:
        """Return what learning the group took since this reader was made."""
        return GroupReport(
            group=group,
            tokens=self.tokens,
            source_bytes=sum(shard.stop - shard.start for shard in shards),
            seconds=time.perf_counter() - self._started,
            reading_seconds=self.seconds,
            cpu_seconds=time.thread_time() - self._spent,
            peak_bytes=peak_memory(),
            resumed=resumed,
            kept=kept,
        )


class ShardReader(GroupReader):
    """The blocks of some shards."""

    def __init__(self, job: Job) -> None:
        super().__init__(job.kept)
        self.job = job

    def pieces(self, shards: tuple[Shard, ...]) -> Iterator[Block]:
        """Yield the blocks."""
        job = self.job
        way = Way.of(Cutting(job.short, job.pad), job.labels)  # type: ignore[arg-type]
        for shard in shards:
            for piece in self.timed(job.source.pieces(shard)):
                self.tokens += piece.n_tokens
                keeper = Keeper(self.kept, way)
                yield from keeper.through(stream_blocks(piece.tokens, job.h, piece.starts, job.short, job.pad))
                self.kept = keeper.store


def peak_memory() -> int:
    """Return the most bytes this process has had in memory so far, 0 where that is not known."""
    try:
        import resource
    except ModuleNotFoundError:  # not on Windows
        return 0
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
