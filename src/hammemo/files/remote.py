"""A model in segments on object storage: its pages are fetched when they are first touched, and kept on this machine.

A folder of this machine, the *cache*, stands for it. There are the head, a note of the address, and a file with holes
for each segment, of the segment's size: its header and the hashes of its pages are there from the start, all else from
when it is first read. Nothing more need be remembered. A page that is not here has not the hash that it should have;
then it is fetched, and hashed again. So several processes may share a cache, and a later one may go on with it. It
takes no more room than the model does.

Nothing can be locked or replaced whole on object storage, so a model there is read and written as a whole folder, and
not edited: what is learnt on top of it is saved to a folder of this machine.
"""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import lru_cache
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hammemo.files.archive import MAX_HEADER, FileError, MissingFileError
from hammemo.files.atomic import replacement, write_file
from hammemo.memories.exact import PAGE
from hammemo.sources.formats import require_arrow

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

NOTE: Final = "remote.json"
_HASH: Final = 8
_FIRST_READ: Final = 2**14
_PIECE: Final = 2**22
_GAP: Final = 8
"""Pages between two others up to which both are fetched at once: another request takes longer."""

_AT_ONCE: Final = 8
_temporary: list[TemporaryDirectory[str]] = []  # until the process ends: segments may be read as long


class Remote:
    """A folder on object storage.

    Parameters
    ----------
    address : str
        Such as ``s3://bucket/model``.
    """

    def __init__(self, address: str) -> None:
        self.address = address
        with self._naming(""):
            self._system, self._path = require_arrow("Object storage", "fs").fs.FileSystem.from_uri(address)
        self._path = self._path.rstrip("/")

    @contextmanager
    def _naming(self, name: str) -> Iterator[None]:
        """Turn an error of the store into one that says what was asked for."""
        try:
            yield
        except (OSError, ValueError) as error:
            place = self.address.partition("?")[0].rstrip("/")
            kind = MissingFileError if isinstance(error, FileNotFoundError) else FileError
            raise kind(f"{place}/{name} cannot be read: {error}.") from error

    def whole(self, name: str) -> bytes:
        """Return the contents of a small file."""
        with self._naming(name), self._system.open_input_stream(f"{self._path}/{name}") as file:
            return bytes(file.read())

    def ranges(self, name: str, edges: list[tuple[int, int]]) -> list[bytes]:
        """Return the bytes of a file from each first place to before each last one."""
        with self._naming(name), self._system.open_input_file(f"{self._path}/{name}") as file:
            if len(edges) == 1:
                return [_exactly(file, *edges[0])]
            with ThreadPoolExecutor(_AT_ONCE) as threads:
                return list(threads.map(lambda edge: _exactly(file, *edge), edges))

    def prepare(self, folder: str, name: str, size: int) -> None:
        """Make the file of a segment in a cache, with its header and the hashes of its pages, if it is not there."""
        path = os.path.join(folder, name)
        if os.path.exists(path) and os.path.getsize(path) == size:
            return
        n_pages = -(-size // (PAGE + _HASH))  # a hash follows for each page
        start, end = self.ranges(name, [(0, min(_FIRST_READ, size)), (size - n_pages * _HASH, size)])
        length = 8 + int.from_bytes(start[:8], "little")
        if length > MAX_HEADER + 8:
            raise FileError(f"{name} at {self.address.partition('?')[0]} is not a segment of a model.")
        if length > len(start):
            start = self.ranges(name, [(0, min(length, size))])[0]
        with replacement(path) as temporary, open(temporary, "r+b") as file:
            file.write(start)
            file.truncate(size)
            file.seek(size - len(end))
            file.write(end)

    def fetcher(self, path: str, end: int) -> Callable[[NDArray[np.int64]], None]:
        """Return what puts pages, ascending, into the file of a segment; `end` is where its pages end."""
        name = os.path.basename(path)

        def fetch(pages: NDArray[np.int64]) -> None:
            runs = np.split(pages, np.flatnonzero(np.diff(pages) > _GAP) + 1)
            edges = [(int(run[0]) * PAGE, min((int(run[-1]) + 1) * PAGE, end)) for run in runs]
            with open(path, "r+b") as file:
                for (first, _), data in zip(edges, self.ranges(name, edges), strict=True):
                    file.seek(first)
                    file.write(data)

        return fetch

    def copy(self, name: str, path: str) -> None:
        """Copy a whole file into one of this machine."""
        place = f"{self._path}/{name}"
        with self._naming(name), self._system.open_input_stream(place) as source, open(path, "wb") as file:
            while piece := source.read(_PIECE):
                file.write(piece)

    def put(self, folder: str, head: str, names: list[str]) -> None:
        """Copy segments of a folder of this machine there, then its head; then delete other segments that are there."""
        from pyarrow.fs import FileSelector, FileType

        with self._naming(""):
            self._system.create_dir(self._path, recursive=True)
            for name in [*names, head]:
                target = self._system.open_output_stream(f"{self._path}/{name}")
                with open(os.path.join(folder, name), "rb") as file, target:
                    while piece := file.read(_PIECE):
                        target.write(piece)
            for info in self._system.get_file_info(FileSelector(self._path)):
                is_segment = info.base_name.startswith(("segment-", "edits-")) and info.type == FileType.File
                if is_segment and info.base_name not in names:
                    self._system.delete_file(info.path)


def _exactly(file: Any, first: int, stop: int) -> bytes:
    data = bytes(file.read_at(stop - first, first))
    if len(data) != stop - first:
        raise OSError(f"it ends before byte {stop}")
    return data


def cached(address: str, head: str, cache: str | os.PathLike[str] | None) -> str:
    """Return the cache of an address, with the head as it is there now; a temporary one where none is named."""
    if cache is None:
        folder = temporary_folder()
    else:
        folder = os.fspath(cache)
        os.makedirs(folder, exist_ok=True)
    note = os.path.join(folder, NOTE)
    if os.path.exists(note):
        known = _noted(note)
        if known != address:
            raise FileError(f"{folder} is the cache of {known}, not of {address}: name another folder as cache=.")
    elif os.listdir(folder):
        raise FileError(f"{folder} holds files of others: name an empty folder as cache=.")
    contents = _remote(address).whole(head)
    write_file(note, [json.dumps({"address": address}).encode()])
    write_file(os.path.join(folder, head), [contents])
    return folder


def source_of(folder: str) -> Remote | None:
    """Return where the files of a cache come from; None of a folder that is none."""
    note = os.path.join(folder, NOTE)
    return _remote(_noted(note)) if os.path.exists(note) else None


@lru_cache(8)
def _remote(address: str) -> Remote:
    """Return a folder on object storage; its segments share what connects to it."""
    return Remote(address)


def temporary_folder() -> str:
    """Return a folder that is there until the process ends."""
    _temporary.append(TemporaryDirectory(prefix="hammemo-"))
    return _temporary[-1].name


def _noted(note: str) -> str:
    try:
        with open(note, encoding="utf-8") as file:
            return str(json.load(file)["address"])
    except (ValueError, KeyError, TypeError):
        raise FileError(f"{note} is damaged: delete the folder, which is a cache only.") from None
