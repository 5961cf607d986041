"""A source that leaves marks when a shard is begun and read, and can be slow or fail.

As a program it is a driver that can be killed: ``python marked_source.py ADDRESS SOURCE MARKS
STATES MEMORY``.
"""

from __future__ import annotations

import hashlib
import os
import signal
import sys
import time
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hammemo import MemoryClassifier
from hammemo.memories import Exact, Hashed
from hammemo.sources.documents import Source, open_source
from hammemo.sources.read_tables import TableFiles

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hammemo.sources.documents import Pieces
    from hammemo.sources.listing import Shard
    from hammemo.sources.read_tables import Batch

H = 3
SHARD_BYTES = 6000
MEMORIES = {"Hashed": Hashed(buckets=64, reserved=16), "Exact": Exact()}


def shard_name(shard: Shard) -> str:
    """Return what a shard is called in marks."""
    return f"{Path(shard.file.path).stem}:{shard.start}"


@dataclass(frozen=True)
class Marked(Source):
    """Marks are files ``begun-SHARD-PID-NODE-RANDOM`` and ``read-…``; the sample leaves none."""

    marks: str = ""
    seconds: float = 0.0
    failures: int = 0
    """How many attempts at each shard end in an input error."""
    gate: str = ""
    """A file: once two shards are read, the others wait for it, or for the end of the test."""
    test: int = 0
    """The process of the test, which opens the gate."""

    def pieces(self, shard: Shard) -> Iterator[Pieces]:
        """Yield the documents of a shard, some at a time."""
        if self.files:  # the driver, whose source lists its files; in a task it does not
            yield from super().pieces(shard)
            return
        import ray

        node = ray.get_runtime_context().get_node_id()
        name = f"{shard_name(shard)}-{os.getpid()}-{node}-{uuid.uuid4().hex}"
        Path(self.marks, f"begun-{name}").touch()
        attempts = len(list(Path(self.marks).glob(f"begun-{shard_name(shard)}-*")))
        if attempts <= self.failures:
            raise OSError("injected")
        time.sleep(self.seconds)
        while self._has_to_wait():
            time.sleep(0.05)
        yield from super().pieces(shard)
        Path(self.marks, f"read-{name}").touch()

    def _has_to_wait(self) -> bool:
        if not self.gate or self.count("read") < 2:
            return False
        return Path(f"/proc/{self.test}").exists() and not Path(self.gate).exists()

    def under_way(self) -> dict[int, str]:
        """Return the process of each shard that is begun and not read, of the last attempt."""
        names = {path.name for path in Path(self.marks).iterdir()}
        begun = [name.split("-", 1)[1] for name in names if name.startswith("begun-")]
        return {int(name.split("-")[1]): name for name in begun if f"read-{name}" not in names}

    def count(self, kind: str) -> int:
        """Return how many marks there are of a kind."""
        return len(list(Path(self.marks).glob(f"{kind}-*")))

    def list_begun(self) -> set[str]:
        """Return the shards that were begun, as `shard_name` names them."""
        return {path.name.split("-")[1] for path in Path(self.marks).glob("begun-*")}


@dataclass(frozen=True)
class Dying(TableFiles):
    """Files of rows; the worker that reads one of them dies at it, this many times."""

    marks: str = ""
    fatal: str = ""
    deaths: tuple[int, ...] = ()
    """Which readings of that file are fatal: the first is 1."""

    def batches(self, shard: Shard, columns: Sequence[str] | None = None) -> Iterator[Batch]:
        """Yield the rows of a shard, or die after some of them."""
        name = Path(shard.file.path).name
        if not self.files:  # in a task
            Path(self.marks, f"{name}-{uuid.uuid4().hex}").touch()
        for batch in super().batches(shard, columns):
            yield batch
            reading = len(list(Path(self.marks).glob(f"{name}-*")))
            if not self.files and name == self.fatal and reading in self.deaths:
                os.kill(os.getpid(), signal.SIGKILL)


def mark_source(where: Any, marks: Any, **options: Any) -> Marked:
    """Return a source with marks; the options are those of `Marked`."""
    return Marked(**{**vars(open_source(where)), "marks": str(marks), **options})


def learn(source: Source, memory: str, **options: Any) -> str:
    """Return a digest of the state that a source teaches."""
    from hammemo.engines import Machines, fit_documents

    machines = Machines(**{"group_size": 1, "shard_bytes": SHARD_BYTES, **options})
    estimator = MemoryClassifier(memory=MEMORIES[memory], vote="sum")
    model = fit_documents(estimator, source, H, classes=20, machines=machines)
    return hashlib.sha256(model.memory_.state_bytes()).hexdigest()


if __name__ == "__main__":
    address, where, marks, states, memory = sys.argv[1:]
    source = mark_source(where, marks, seconds=0.5)
    print(learn(source, memory, engine="ray", address=address, resume=states))
