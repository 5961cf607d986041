"""Listing: the files at a path, in a folder, behind a glob or at an address, without opening them.

Sources of documents and of tables also share how files are cut into shards. A shard is a range of
bytes of one file. All shards of a file together cover it once, so engines read a source in any
order, on any machine, and again after a failure. No file is opened to cut it.
"""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, Final

from hammemo.sources.formats import is_address, require_arrow

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True)
class File:
    """One file of a source.

    Parameters
    ----------
    base : str
        The address that the file system is found by; empty for this machine's.
    path : str
        The path in that file system.
    size : int
        Bytes.
    modified : int
        When it was last written, in nanoseconds since 1970; 0 where that is not known.
    """

    base: str
    path: str
    size: int
    modified: int = 0


def files_of_one_format(
    where: Any, list_place: Callable[[str], list[File]], kind_of: Callable[[str], str]
) -> tuple[tuple[File, ...], str]:
    """Return the files at one or several places, in canonical order, and their format.

    Refuse places without a file, and files of several formats.
    """
    places = [where] if isinstance(where, (str, os.PathLike)) else where
    distinct = {file for place in places for file in list_place(str(place))}
    files = tuple(sorted(distinct, key=lambda file: (file.base, file.path)))
    if not files:
        raise FileNotFoundError(
            f"{where} holds no file. Name a file, a folder with files in it, or a glob in quotes."
        )
    kinds = sorted({kind_of(file.path) for file in files})
    if len(kinds) > 1:
        raise ValueError(
            f"{where} holds {' and '.join(kinds)} files: name only the ones that are meant, "
            "with a glob."
        )
    return files, kinds[0]


def list_files(place: str) -> list[File]:
    """Return the files at a path, in a folder, behind a glob or at an address, in any order.

    Files whose names, or whose folders' names, begin with a dot or an underscore are left out of
    folders; a glob says itself what it matches.
    """
    if is_address(place):
        address, _, query = place.partition("?")
        base, pattern = _split_glob(address, wild="*[")
        root, files = _list_remote(f"{base}?{query}" if query else base)
    else:
        base, pattern = _split_glob(place, wild="*?[")
        root = os.path.abspath(base).replace(os.sep, "/")
        files = _list_local(root)
    if files is None:
        if pattern:
            return []
        raise FileNotFoundError(f"{place} does not exist.")
    if [file.path for file in files] == [root]:  # a file, not a folder
        return [] if pattern else files

    def is_meant(name: str) -> bool:
        if pattern is not None:
            return pattern.fullmatch(name) is not None
        return all(step[:1] not in "._" for step in name.split("/"))

    return [file for file in files if is_meant(file.path[len(root) :].strip("/"))]


def _list_local(root: str) -> list[File] | None:
    """Return the file at a path of this machine, or all files below it; None for no path."""
    if os.path.isfile(root):
        return [_local_file(root)]
    if not os.path.isdir(root):
        return None
    below = [
        os.path.join(folder, name)
        for folder, _, names in os.walk(root, followlinks=True)
        for name in names
    ]
    return [_local_file(path.replace(os.sep, "/")) for path in below if os.path.isfile(path)]


def _local_file(path: str) -> File:
    facts = os.stat(path)
    return File("", path, facts.st_size, facts.st_mtime_ns)


def _list_remote(base: str) -> tuple[str, list[File] | None]:
    """Return the path of an address and the file there, or all files below it.

    None stands for files if nothing is there.
    """
    systems = require_arrow("Object storage", "fs").fs
    system, root = systems.FileSystem.from_uri(base)
    info = system.get_file_info(root)
    if info.type == systems.FileType.NotFound:
        return root, None
    entries = [info]
    if info.type != systems.FileType.File:
        entries = system.get_file_info(
            systems.FileSelector(root, recursive=True, allow_not_found=True)
        )
    files = [entry for entry in entries if entry.type == systems.FileType.File]
    return root, [File(base, entry.path, entry.size, entry.mtime_ns or 0) for entry in files]


def _split_glob(address: str, wild: str) -> tuple[str, re.Pattern[str] | None]:
    """Return the folder before the first wildcard, and what follows as a pattern."""
    first = min((place for place in map(address.find, wild) if place >= 0), default=-1)
    if first < 0:
        return address, None
    cut = address.rfind("/", 0, first)
    folder = "."
    glob = address
    if cut >= 0:
        folder = address[:cut] or "/"
        glob = address[cut + 1 :]
    wildcards = [r"\*\*/", r"\*\*", r"\*", r"\[[^\]]*\]"]
    if "?" in wild:
        wildcards.append(r"\?")
    pieces = re.split(f"({'|'.join(wildcards)})", glob)
    return folder, re.compile("".join(map(_regular_expression, pieces)))


_WILDCARDS: Final = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}


def _regular_expression(piece: str) -> str:
    """Return what a piece of a glob, a wildcard or plain text, is as a regular expression."""
    if piece in _WILDCARDS:
        return _WILDCARDS[piece]
    if piece[:1] == "[":
        return "[" + piece[1:-1].replace("!", "^", 1) + "]"
    return re.escape(piece)


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

    reading: ClassVar[tuple[str, ...]] = ()
    """The names of the fields that say how files are read, beside their format."""

    files: tuple[File, ...]
    format: str

    @property
    def nbytes(self) -> int:
        """Size of all files in bytes."""
        return sum(file.size for file in self.files)

    def shard_size(self, shard_bytes: int | None) -> int:
        """Return the size of shards: the parameter, or one that gives some dozens of shards.

        None of those is too small or too large.
        """
        if shard_bytes is None:
            return min(max(self.nbytes // _TARGET_SHARDS, SHARD_BYTES[0]), SHARD_BYTES[1])
        if shard_bytes < 1:
            raise ValueError(f"shard_bytes={shard_bytes!r}: a shard has at least one byte.")
        return shard_bytes

    def shards(self, shard_bytes: int | None = None) -> list[Shard]:
        """Cut the source, by default into some dozens of shards; into more if these were too large.

        Examples
        --------
        >>> from hammemo.sources.documents import File, Source
        >>> source = Source((File("", "/data/a.txt", 25), File("", "/data/b.txt", 8)), "text")
        >>> [(shard.file.path[-5:], shard.start, shard.stop) for shard in source.shards(10)]
        [('a.txt', 0, 9), ('a.txt', 9, 17), ('a.txt', 17, 25), ('b.txt', 0, 8)]
        """
        size = self.shard_size(shard_bytes)
        shards = []
        for file in self.files:
            n = 1
            if self._can_be_cut(file):
                n = max(1, -(-file.size // size))
            edges = [-(-file.size * k // n) for k in range(n + 1)]
            shards += [Shard(file, start, stop) for start, stop in pairwise(edges)]
        return shards

    def fingerprint(self) -> str:
        """Return a short name of the files (path, size, time of change), and how they are read."""
        words = [self.format, *(str(getattr(self, name)) for name in self.reading)]
        words += [f"{file.base}\n{file.path}\n{file.size}\n{file.modified}" for file in self.files]
        return hashlib.blake2b(
            "\0".join(words).encode("utf-8", "surrogatepass"), digest_size=16
        ).hexdigest()

    def _can_be_cut(self, file: File) -> bool:  # noqa: ARG002  (others look at it)
        """Return whether a reader may begin in the middle of a file."""
        return self.format == "parquet"
