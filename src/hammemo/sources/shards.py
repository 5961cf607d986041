"""Files that are cut into shards: what sources of documents and of tables share.

A shard is a range of bytes of one file. All shards of a file together cover it once, so engines read a source in any
order, on any machine, and again after a failure. No file is opened to cut it.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from hammemo.sources.listing import File

SHARD_BYTES: Final = 2**24, 2**28
"""The smallest and the largest size of a shard that is chosen when none is given."""

_TARGET_SHARDS: Final = 64


@dataclass(frozen=True)
class Shard:
    """The documents or row groups that begin in the bytes ``start`` to ``stop`` of a file."""

    file: File
    start: int
    stop: int


@dataclass(frozen=True)
class ShardedFiles:
    """Files of one format that can be cut into shards.

    Parameters
    ----------
    files : tuple of File
        In canonical order: sorted by path.
    format : str
    """

    files: tuple[File, ...]
    format: str

    @property
    def nbytes(self) -> int:
        """Size of all files in bytes."""
        return sum(file.size for file in self.files)

    def shard_size(self, shard_bytes: int | None) -> int:
        """Return the size of shards that was asked for, or one that gives some dozens, none too small or too large."""
        if shard_bytes is None:
            return min(max(self.nbytes // _TARGET_SHARDS, SHARD_BYTES[0]), SHARD_BYTES[1])
        if shard_bytes < 1:
            raise ValueError(f"shard_bytes={shard_bytes!r}: a shard has at least one byte.")
        return shard_bytes

    def shards(self, shard_bytes: int | None = None) -> list[Shard]:
        """Cut the source; by default into some dozens of shards or, if these would be too large, into more.

        Examples
        --------
        >>> from hammemo.sources.documents import File, Source
        >>> source = Source((File("", "/data/a.txt", 25), File("", "/data/b.txt", 8)), "text")
        >>> [(shard.file.path, shard.start, shard.stop) for shard in source.shards(10)]
        [('/data/a.txt', 0, 9), ('/data/a.txt', 9, 17), ('/data/a.txt', 17, 25), ('/data/b.txt', 0, 8)]
        """
        size, shards = self.shard_size(shard_bytes), []
        for file in self.files:
            parts = max(1, -(-file.size // size)) if self._can_be_cut(file) else 1
            edges = [-(-file.size * part // parts) for part in range(parts + 1)]
            shards += [Shard(file, start, stop) for start, stop in pairwise(edges)]
        return shards

    def fingerprint(self) -> str:
        """Return a short name of the files (paths, sizes, times of change) and of how they are read."""
        words = [self.format, *self._reading()]
        words += [f"{file.base}\n{file.path}\n{file.size}\n{file.modified}" for file in self.files]
        return hashlib.blake2b("\0".join(words).encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()

    def _can_be_cut(self, file: File) -> bool:
        """Return whether a reader may begin in the middle of a file."""
        raise NotImplementedError

    def _reading(self) -> list[str]:
        """Return how files are read, beside their format."""
        raise NotImplementedError
