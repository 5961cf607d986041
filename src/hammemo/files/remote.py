"""A model in segments on object storage: pages are fetched when first read, and kept locally.

A local folder, the *cache*, stands for the folder on object storage. It holds the head, a note of
the address, and for each segment a file of its size with holes: the header and the hashes of the
pages are there from the start, the rest from when it is first read. Nothing else needs to be
recorded: a page that is not there yet has another hash than it should have, so it is fetched, and
hashed again. Thus several processes can share a cache, and a later process can continue with it. It
takes no more space than the model.

On object storage, files cannot be locked or replaced atomically. So a model there is read and
written as a complete folder, and not edited: what is learned on top of it is saved to a local
folder.
"""

from __future__ import annotations

import json
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import lru_cache
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hammemo.files.archive import HASH_BYTES, MAX_HEADER, FileError, MissingFileError
from hammemo.files.atomic import replacement, write_file
from hammemo.memories.exact import PAGE
from hammemo.sources.formats import require_arrow

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hammemo._arrays.types import Ints

NOTE: Final = "remote.json"
"""The file of a cache that holds the address."""

_FIRST_READ: Final = 2**14
"""Bytes of the first request for the header of a segment; most headers are shorter."""

_COPIED_AT_ONCE: Final = 2**22
"""Bytes of a file that are in memory while it is copied."""

_LARGEST_GAP: Final = 8
"""Pages between two others up to which both are fetched by one request: another request takes
longer than fetching what lies between."""

_CONNECTIONS: Final = 8
"""How many ranges of a file are fetched at the same time."""

_temporary_folders: list[TemporaryDirectory[str]] = []
"""Folders that are deleted when the process ends: segments may be read until then."""


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
            file_systems = require_arrow("Object storage", "fs").fs
            self._system, path = file_systems.FileSystem.from_uri(address)
        self._path = path.rstrip("/")

    @contextmanager
    def _naming(self, name: str) -> Iterator[None]:
        """Turn an error of the store into one that names the file."""
        try:
            yield
        except (OSError, ValueError) as error:
            place = self.address.partition("?")[0].rstrip("/")
            message = f"{place}/{name} cannot be read: {error}."
            if isinstance(error, FileNotFoundError):
                raise MissingFileError(message) from error
            raise FileError(message) from error

    def read_file(self, name: str) -> bytes:
        """Return the contents of a small file."""
        with self._naming(name), self._system.open_input_stream(f"{self._path}/{name}") as file:
            return bytes(file.read())

    def read_ranges(self, name: str, edges: list[tuple[int, int]]) -> list[bytes]:
        """Return the bytes of a file from each first place to before each last one."""
        with self._naming(name), self._system.open_input_file(f"{self._path}/{name}") as file:
            if len(edges) == 1:
                return [_read_range(file, edges[0])]
            with ThreadPoolExecutor(_CONNECTIONS) as threads:
                return list(threads.map(lambda edge: _read_range(file, edge), edges))

    def prepare(self, folder: str, name: str, size: int) -> None:
        """Make the file of a segment in a cache, if it is not there: header and page hashes."""
        path = os.path.join(folder, name)
        if os.path.exists(path) and os.path.getsize(path) == size:
            return
        n_pages = -(-size // (PAGE + HASH_BYTES))  # each page has a hash at the end of the file
        header_edge = (0, min(_FIRST_READ, size))
        hashes_edge = (size - n_pages * HASH_BYTES, size)
        header, hashes = self.read_ranges(name, [header_edge, hashes_edge])
        length = 8 + int.from_bytes(header[:8], "little")
        if length > MAX_HEADER + 8:
            raise FileError(
                f"{name} at {self.address.partition('?')[0]} is not a segment of a model."
            )
        if length > len(header):
            header = self.read_ranges(name, [(0, min(length, size))])[0]
        with replacement(path) as temporary, open(temporary, "r+b") as file:
            file.write(header)
            file.truncate(size)
            file.seek(size - len(hashes))
            file.write(hashes)

    def fetch(self, path: str, pages: Ints, end: int) -> None:
        """Put pages, ascending, into the file of a segment; `end` is where its pages end."""
        runs = np.split(pages, np.flatnonzero(np.diff(pages) > _LARGEST_GAP) + 1)
        edges = [(int(run[0]) * PAGE, min((int(run[-1]) + 1) * PAGE, end)) for run in runs]
        contents = self.read_ranges(os.path.basename(path), edges)
        with open(path, "r+b") as file:
            for (first, _), data in zip(edges, contents, strict=True):
                file.seek(first)
                file.write(data)

    def copy(self, name: str, path: str) -> None:
        """Copy a complete file into a local one."""
        place = f"{self._path}/{name}"
        with (
            self._naming(name),
            self._system.open_input_stream(place) as source,
            open(path, "wb") as file,
        ):
            shutil.copyfileobj(source, file, _COPIED_AT_ONCE)

    def put(self, folder: str, head: str, names: list[str]) -> None:
        """Upload segments of a local folder, then its head; then delete other segments there."""
        from pyarrow.fs import FileSelector, FileType

        with self._naming(""):
            self._system.create_dir(self._path, recursive=True)
            for name in [*names, head]:
                target = self._system.open_output_stream(f"{self._path}/{name}")
                with open(os.path.join(folder, name), "rb") as file, target:
                    shutil.copyfileobj(file, target, _COPIED_AT_ONCE)
            for info in self._system.get_file_info(FileSelector(self._path)):
                is_segment = info.base_name.startswith(("segment-", "edits-"))
                if is_segment and info.type == FileType.File and info.base_name not in names:
                    self._system.delete_file(info.path)


def _read_range(file: Any, edge: tuple[int, int]) -> bytes:
    first, stop = edge
    data = bytes(file.read_at(stop - first, first))
    if len(data) != stop - first:
        raise OSError(f"it ends before byte {stop}")
    return data


def prepare_cache(address: str, head: str, cache: str | os.PathLike[str] | None) -> str:
    """Fetch the present head of an address into a cache, and return the folder of the cache.

    Without `cache` the folder is temporary.
    """
    if cache is None:
        folder = temporary_folder()
    else:
        folder = os.fspath(cache)
    os.makedirs(folder, exist_ok=True)
    note = os.path.join(folder, NOTE)
    if os.path.exists(note):
        cached_address = _read_note(note)
        if cached_address != address:
            raise FileError(
                f"{folder} is the cache of {cached_address}, not of {address}: "
                "name another folder as cache=."
            )
    elif os.listdir(folder):
        raise FileError(f"{folder} holds files of others: name an empty folder as cache=.")
    contents = _connect(address).read_file(head)
    write_file(note, [json.dumps({"address": address}).encode()])
    write_file(os.path.join(folder, head), [contents])
    return folder


def find_remote(folder: str) -> Remote | None:
    """Return where the files of a cache come from; None if the folder is no cache."""
    note = os.path.join(folder, NOTE)
    if not os.path.exists(note):
        return None
    return _connect(_read_note(note))


_connect = lru_cache(8)(Remote)  # the segments of a folder share one connection


def temporary_folder() -> str:
    """Make a folder that is deleted when the process ends."""
    _temporary_folders.append(TemporaryDirectory(prefix="hammemo-"))
    return _temporary_folders[-1].name


def _read_note(note: str) -> str:
    try:
        with open(note, encoding="utf-8") as file:
            return str(json.load(file)["address"])
    except (ValueError, KeyError, TypeError):
        raise FileError(f"{note} is damaged: delete the folder, which is a cache only.") from None
