r"""Files of segments: rows of counts that are mapped, and checked page by page when they are first read.

A segment is a file as :mod:`hammemo.files.archive` describes it, with rows of counts in it
(:mod:`hammemo.memories.exact.segments.segment`). It may be larger than memory, so it is written piece by piece, and a
query must not read all of it to know that the rows which it needs are undamaged. Therefore its last array, ``blocks``,
holds a hash of 64 bits for each page (4096 bytes) of all that comes before. The head of the folder, which is always
checked whole, states the size of the file, its checksum, and a hash H of the file's header and of ``blocks``. So

- opening a segment reads the header and ``blocks``, a 512th of the file, and compares H;
- a page is hashed when it is first touched and compared with its entry in ``blocks``; nothing is answered from a page
  that differs, and the error names the file.

A query reads a few pages here and there, so the operating system is told not to read what lies around them. Longer
ranges are requested before they are read.

The checksum over the whole file is what `inspect` compares, and what tells whether a segment that exists is the right
one.

A model in segments on object storage: its pages are fetched when they are first touched, and kept on this machine.

A folder of this machine, the *cache*, stands for it. There are the head, a note of the address, and a file with holes
for each segment, of the segment's size: its header and the hashes of its pages are there from the start, all else from
when it is first read. Nothing more need be remembered. A page that is not here has not the hash that it should have;
then it is fetched, and hashed again. So several processes may share a cache, and a later one may go on with it. It
takes no more room than the model does.

Nothing can be locked or replaced whole on object storage, so a model there is read and written as a whole folder, and
not edited: what is learnt on top of it is saved to a folder of this machine.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache, partial
from importlib.metadata import version
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hammemo._arrays.integers import ranges
from hammemo._arrays.tensor_files import Spec, file_order, file_start
from hammemo.files import archive as archives
from hammemo.files.archive import DIGITS, Archive, FileError, MissingFileError, refuse_folder, refusing
from hammemo.files.atomic import replacement, write_file
from hammemo.memories.exact import PAGE, Segment, entries_in
from hammemo.sources.formats import require_arrow

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from io import BufferedRandom

    from hammemo._arrays.types import Array, Ints
    from hammemo.kernels.sites import Sites

NOTE: Final = "remote.json"
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
        if length > archives.MAX_HEADER + 8:
            raise FileError(f"{name} at {self.address.partition('?')[0]} is not a segment of a model.")
        if length > len(start):
            start = self.ranges(name, [(0, min(length, size))])[0]
        with replacement(path) as temporary, open(temporary, "r+b") as file:
            file.write(start)
            file.truncate(size)
            file.seek(size - len(end))
            file.write(end)

    def fetch(self, path: str, pages: Ints, end: int) -> None:
        """Put pages, ascending, into the file of a segment; `end` is where its pages end."""
        runs = np.split(pages, np.flatnonzero(np.diff(pages) > _GAP) + 1)
        edges = [(int(run[0]) * PAGE, min((int(run[-1]) + 1) * PAGE, end)) for run in runs]
        with open(path, "r+b") as file:
            for (first, _), data in zip(edges, self.ranges(os.path.basename(path), edges), strict=True):
                file.seek(first)
                file.write(data)

    def copy(self, name: str, path: str) -> None:
        """Copy a whole file into one of this machine."""
        place = f"{self._path}/{name}"
        with self._naming(name), self._system.open_input_stream(place) as source, open(path, "wb") as file:
            shutil.copyfileobj(source, file, _PIECE)

    def put(self, folder: str, head: str, names: list[str]) -> None:
        """Copy segments of a folder of this machine there, then its head; then delete other segments that are there."""
        from pyarrow.fs import FileSelector, FileType

        with self._naming(""):
            self._system.create_dir(self._path, recursive=True)
            for name in [*names, head]:
                target = self._system.open_output_stream(f"{self._path}/{name}")
                with open(os.path.join(folder, name), "rb") as file, target:
                    shutil.copyfileobj(file, target, _PIECE)
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
    folder = temporary_folder() if cache is None else os.fspath(cache)
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


_remote = lru_cache(8)(Remote)  # segments of a folder share what connects to it


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


_HASH: Final = 8
_READ: Final = 2**20
_FETCHED_AT_ONCE: Final = 4
_SCANNED: Final = 64
"""Pages of one request that are requested whether they were read before or not: they may be in memory no longer."""


@dataclass(frozen=True)
class SegmentFacts:
    """What the head of a folder says of a segment.

    Parameters
    ----------
    name : str
        Of the file in the folder.
    sign : int
        Whether it is added, 1, or subtracted, -1.
    edits : bool
        Whether it holds what was learnt or removed on top of the others.
    bytes, rows, entries : int
    checksum : str
        Of the whole file.
    blocks : str
        Hash of the file's header and of the hashes of its pages.
    """

    name: str
    sign: int
    edits: bool
    bytes: int
    rows: int
    entries: int
    checksum: str
    blocks: str

    @classmethod
    def of(cls, described: Any) -> SegmentFacts:
        """Return the facts whose `vars` were written to JSON, checked."""
        kinds: dict[str, type] = {"name": str, "sign": int, "edits": bool, "checksum": str, "blocks": str}
        kinds |= {"bytes": int, "rows": int, "entries": int}
        if not isinstance(described, dict) or {name: type(value) for name, value in described.items()} != kinds:
            raise ValueError("the description of a segment lacks a value, or has one of a wrong type")
        facts = cls(**described)
        plain = facts.name.isascii() and facts.name.replace("-", "").replace(".", "").isalnum()
        if not plain or facts.name.startswith(".") or len(facts.name) > 100 or facts.sign not in (1, -1):
            raise ValueError(f"a segment has the name {facts.name[:80]!r} or the sign {facts.sign}: one is impossible")
        if min(facts.bytes, facts.rows, facts.entries) < 0 or max(facts.bytes, facts.rows, facts.entries) >= 2**60:
            raise ValueError("a segment has an impossible size")
        return facts


def write_segment(
    path: str, arrays: Mapping[str, Array], *, sign: int = 1, edits: bool = False, by_checksum: bool = False
) -> SegmentFacts:
    """Write a segment to a file, whole or not at all; with `by_checksum` the checksum replaces ``*`` in its name."""
    arrays = {name: np.require(array, requirements="C") for name, array in arrays.items()}
    specs = {name: Spec(array.dtype, array.shape) for name, array in arrays.items()}
    order = [*file_order(specs), "blocks"]
    about = {"checksum": "0" * 64, "format": archives.FORMAT, "version": version("hammemo"), "kind": "segment"}
    metadata = {"hammemo": json.dumps(about, separators=(",", ":"))}
    size = sum(spec.nbytes for spec in specs.values())
    start, n_pages = b"", -1
    while n_pages != -(-(len(start) + size) // PAGE):  # the number of pages is part of the header
        n_pages = -(-(len(start) + size) // PAGE)
        start = file_start({**specs, "blocks": Spec(np.dtype(np.uint8), (n_pages, _HASH))}, metadata, order)
    if start[8 : DIGITS.start] != archives.OPENING:
        raise FileError("The header of a segment does not begin as a model file does.")
    refuse_folder(path)
    temporary_path = path.replace("*", f"{os.getpid()}-{os.urandom(4).hex()}")
    with replacement(temporary_path) as temporary, open(temporary, "r+b") as file:
        blocks, checksum = _write(file, start, [arrays[name] for name in order[:-1]])
    if by_checksum:
        os.replace(temporary_path, path.replace("*", checksum[:16]))
    name = os.path.basename(path.replace("*", checksum[:16]))
    return _facts(name, arrays, len(start) + size + len(blocks), checksum, _digest(start, blocks), sign, edits=edits)


def _facts(
    name: str, arrays: Mapping[str, Array], size: int, checksum: str, blocks: str, sign: int, *, edits: bool
) -> SegmentFacts:
    rows = sum(len(array) - 1 for key, array in arrays.items() if key.startswith("rows."))
    return SegmentFacts(name, sign, edits, size, rows, entries_in(arrays), checksum, blocks)


def _write(file: BufferedRandom, start: bytes, arrays: list[Array]) -> tuple[bytes, str]:
    """Write all of a segment; return the hashes of its pages, and its checksum."""
    whole, blocks, rest = hashlib.blake2b(digest_size=32), bytearray(), b""
    for array in [np.frombuffer(start, np.uint8), *arrays]:
        data = array.reshape(-1).view(np.uint8)
        for first in range(0, len(data), _READ):
            piece = rest + data[first : first + _READ].tobytes()
            end = len(piece) // PAGE * PAGE
            blocks += _hashes(piece[:end])
            rest = piece[end:]
            file.write(piece[:end])
            whole.update(piece[:end])
    blocks += _hashes(rest)
    for last in (rest, bytes(blocks)):
        file.write(last)
        whole.update(last)
    file.seek(DIGITS.start)
    file.write(whole.hexdigest().encode())
    return bytes(blocks), whole.hexdigest()


def _hashes(data: bytes) -> bytes:
    pages = (memoryview(data)[first : first + PAGE] for first in range(0, len(data), PAGE))
    return b"".join(hashlib.blake2b(page, digest_size=_HASH).digest() for page in pages)


def _digest(start: bytes, blocks: bytes) -> str:
    return hashlib.blake2b(start + blocks, digest_size=16).hexdigest()


def open_segment(
    folder: str, facts: SegmentFacts, sites: Sites, *, verify: bool = True, scanned: bool = False
) -> Segment:
    """Return the segment in a file of a folder, mapped; refuse another file than the head describes.

    With `scanned` it is read from one end to the other, not a row here and there.
    """
    path = os.path.join(folder, facts.name)
    remote = source_of(folder)
    if remote is not None:
        remote.prepare(folder, facts.name, facts.bytes)
    refuse_folder(path)
    try:
        with refusing(path):
            archive = Archive(path, verify=False, writable=False)
            pages = Pages(path, archive, facts, verify=verify, remote=remote)
            if not scanned:
                pages.expect_single_rows()
            rest = {name: array for name, array in archive.arrays.items() if name != "blocks"}
            for name, array in rest.items():
                if array.size and not name.startswith(("rows.", "entries", "index.")):  # touched as they are read
                    pages(array, np.zeros(1, np.int64), np.full(1, len(array)))
            opener = partial(open_segment, folder, facts, sites, verify=verify, scanned=scanned)
            return Segment(sites, rest, pages, opener, path)
    except FileNotFoundError as error:
        raise MissingFileError(f"The segment {path} is missing: use another copy of the folder.") from error


def right_segment(folder: str, name: str) -> SegmentFacts | None:
    """Return what is known of a segment that exists and whose checksum is right; None where there is none."""
    path = os.path.join(folder, name)
    try:
        archive = Archive(path, verify=False, writable=False)
        checksum = streamed_checksum(path)
        hashes = _digest(_start_of(archive), archive.arrays["blocks"].tobytes())
    except (OSError, ValueError, KeyError):
        return None
    if archive.checksum != checksum or archive.about.get("kind") != "segment":
        return None
    return _facts(name, archive.arrays, len(archive.data), checksum, hashes, 1, edits=False)


def streamed_checksum(path: str) -> str:
    """Return the checksum that a file's contents have, read piece by piece."""
    whole = hashlib.blake2b(digest_size=32)
    with open(path, "rb") as file:
        whole.update(_without_digits(file.read(_READ)))
        while piece := file.read(_READ):
            whole.update(piece)
    return whole.hexdigest()


def _start_of(archive: Archive) -> bytes:
    """Return the bytes before the first array, the digits of the checksum as zeros."""
    length = 8 + int.from_bytes(archive.data[:8].tobytes(), "little")
    return _without_digits(archive.data[:length].tobytes())


def _without_digits(start: bytes) -> bytes:
    """Return the start of a file, the digits of its checksum as zeros."""
    return start[: DIGITS.start] + b"0" * 64 + start[DIGITS.stop :]


class Pages:
    """Checks the pages of a mapped segment when they are first touched.

    Parameters
    ----------
    path : str
    archive : Archive
        The mapped file.
    facts : SegmentFacts
        What the head says of it.
    verify : bool
        Whether pages are checked; the header and the hashes of the pages are in any case.
    remote : Remote, optional
        Where pages come from that are not here: then all are checked.
    """

    def __init__(
        self, path: str, archive: Archive, facts: SegmentFacts, *, verify: bool, remote: Remote | None = None
    ) -> None:
        self.path = path
        self.data = archive.data
        self._address = archive.data.ctypes.data
        blocks = archive.arrays.get("blocks")
        if blocks is None or archive.about.get("kind") != "segment":
            raise FileError(f"{path} is not a segment of a model.")
        self._end = blocks.ctypes.data - self._address
        n_pages = -(-self._end // PAGE)
        if blocks.dtype != np.uint8 or blocks.shape != (n_pages, _HASH) or self._end + blocks.nbytes != len(self.data):
            raise FileError(f"{path} is damaged: it does not end with a hash for each of its pages.")
        start, table = _start_of(archive), blocks.tobytes()
        same = len(self.data) == facts.bytes and archive.checksum == facts.checksum
        if not same or _digest(start, table) != facts.blocks:
            raise FileError(
                f"{path} is not the segment that the head of its folder describes: it is damaged, or belongs to "
                "another model. Use another copy of the folder."
            )
        self._blocks = table
        self._places: dict[int, tuple[int, int]] = {}
        self.checked = np.full(n_pages, not verify and remote is None)
        self._remote = remote
        self._map = getattr(archive.data.base, "_mmap", archive.data.base)
        self.touched: set[int] | None = None
        """The pages that were touched, if they are counted."""

    def expect_single_rows(self) -> None:
        """Let a page be read without those around it: on Linux 32 by default, and hundreds on some machines."""
        if isinstance(self._map, mmap.mmap) and hasattr(mmap, "MADV_RANDOM"):
            self._map.madvise(mmap.MADV_RANDOM)

    def __call__(self, array: Array, first: Ints, stop: Ints) -> None:
        """See `PageCheck`."""
        place, size = self._places.get(id(array)) or self._place(array)
        self.check((place + first * size) // PAGE, (place + stop * size - 1) // PAGE + 1)

    def check(self, first: Ints, stop: Ints) -> None:
        """See `PageCheck`."""
        pages = ranges(first, np.maximum(stop - first, 0))
        if self.touched is not None:
            self.touched.update(pages.tolist())
        new = np.unique(pages[~self.checked[pages]])
        self._fetch(new if len(pages) < _SCANNED else np.unique(pages))
        if self._remote is not None:
            absent = np.array([page for page in new.tolist() if not self._is_right(page)], np.int64)
            if len(absent):
                self._remote.fetch(self.path, absent, self._end)
        for page in new.tolist():
            if not self._is_right(page):
                raise FileError(f"{self.path} is damaged: page {page} is not what was written. Use another copy of it.")
            self.checked[page] = True

    def _place(self, array: Array) -> tuple[int, int]:
        """Return where an array of the file begins, and the bytes of its rows; the segment keeps the array itself."""
        found = self._places[id(array)] = (array.ctypes.data - self._address, array.strides[0])
        return found

    def _fetch(self, pages: Ints) -> None:
        """Ask the operating system for pages in the order of the file, before they are read one by one."""
        if len(pages) < _FETCHED_AT_ONCE or not isinstance(self._map, mmap.mmap) or not hasattr(mmap, "MADV_WILLNEED"):
            return
        for run in np.split(pages, np.flatnonzero(np.diff(pages) > 1) + 1):
            self._map.madvise(mmap.MADV_WILLNEED, int(run[0]) * PAGE, len(run) * PAGE)

    def _is_right(self, page: int) -> bool:
        """Return whether a page has its hash."""
        data = self.data[page * PAGE : min((page + 1) * PAGE, self._end)].tobytes()
        return _hashes(data if page else _without_digits(data)) == self._blocks[page * _HASH : (page + 1) * _HASH]


def segment_names(folder: str) -> Iterator[str]:
    """Yield the names of the segments in a folder, and of what was left by a process that died while writing."""
    for name in sorted(os.listdir(folder)):
        if name.startswith(("segment-", "edits-")) and name.endswith((".safetensors", ".tmp")):
            yield name
