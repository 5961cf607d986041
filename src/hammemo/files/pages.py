r"""The pages of a mapped segment, each checked when it is first read.

A segment may be larger than memory, and a query must not read all of it to know that the rows which
it needs are undamaged. Therefore the last array of its file, ``blocks``, holds a hash of 64 bits
for each page (4096 bytes) of all that comes before. The head of the folder, which is always checked
completely, states the size of the file, its checksum, and a hash H of the file's header and of
``blocks``. So

- opening a segment reads the header and ``blocks``, a 512th of the file, and compares H;
- a page is hashed when it is first read and compared with its entry in ``blocks``; no answer comes
  from a page that differs, and the error names the file.

A query reads a few pages here and there, so the operating system is told not to read what lies
around them. Longer ranges are requested before they are read.
"""

from __future__ import annotations

import hashlib
import mmap
from typing import TYPE_CHECKING, Final

import numpy as np

from hammemo._arrays.integers import ranges
from hammemo.files.archive import DIGITS, HASH_BYTES, Archive, FileError
from hammemo.memories.exact import PAGE

if TYPE_CHECKING:
    from hammemo._arrays.types import Array, Ints
    from hammemo.files.remote import Remote
    from hammemo.files.segment_facts import SegmentFacts

_FEWEST_TO_REQUEST: Final = 4
"""Pages from which on one request asks the operating system for them."""

_MANY_PAGES: Final = 64
"""Pages of one query that are requested even if they were read before: the operating system may
have dropped them."""


def hash_pages(data: bytes) -> bytes:
    """Return the hashes of the pages of some bytes, one after the other."""
    pages = (memoryview(data)[first : first + PAGE] for first in range(0, len(data), PAGE))
    return b"".join(hashlib.blake2b(page, digest_size=HASH_BYTES).digest() for page in pages)


def hash_header(header: bytes, blocks: bytes) -> str:
    """Return the hash of a file's header, its checksum as zeros, and of the hashes of its pages."""
    return hashlib.blake2b(header + blocks, digest_size=16).hexdigest()


def read_header(archive: Archive) -> bytes:
    """Return the bytes of a file before the first array, the digits of the checksum as zeros."""
    length = 8 + int.from_bytes(archive.data[:8].tobytes(), "little")
    return zero_digits(archive.data[:length].tobytes())


def zero_digits(start: bytes) -> bytes:
    """Return the start of a file, the digits of its checksum replaced by zeros."""
    return start[: DIGITS.start] + b"0" * 64 + start[DIGITS.stop :]


class Pages:
    """Checks the pages of a mapped segment when they are first read.

    Parameters
    ----------
    path : str
    archive : Archive
        The mapped file.
    facts : SegmentFacts
        What the head says of it.
    verify : bool
        Whether pages are checked. The header and the hashes of the pages are checked in any case.
    remote : Remote, optional
        The object storage that has the pages which are not in the file yet. With it, all pages are
        checked.
    """

    def __init__(
        self,
        path: str,
        archive: Archive,
        facts: SegmentFacts,
        *,
        verify: bool,
        remote: Remote | None = None,
    ) -> None:
        self.path = path
        self.data = archive.data
        self._address = archive.data.ctypes.data
        blocks = archive.arrays.get("blocks")
        if blocks is None or archive.about.get("kind") != "segment":
            raise FileError(f"{path} is not a segment of a model.")
        self._end = blocks.ctypes.data - self._address
        n_pages = -(-self._end // PAGE)
        is_hash_per_page = blocks.dtype == np.uint8 and blocks.shape == (n_pages, HASH_BYTES)
        if not is_hash_per_page or self._end + blocks.nbytes != len(self.data):
            raise FileError(
                f"{path} is damaged: it does not end with a hash for each of its pages."
            )
        self._blocks = blocks.tobytes()
        is_described = (
            len(self.data) == facts.bytes
            and archive.checksum == facts.checksum
            and hash_header(read_header(archive), self._blocks) == facts.blocks
        )
        if not is_described:
            raise FileError(
                f"{path} is not the segment that the head of its folder describes: "
                "it is damaged, or belongs to another model. Use another copy of the folder."
            )
        self._places: dict[int, tuple[int, int]] = {}
        self.checked = np.full(n_pages, not verify and remote is None)
        self._remote = remote
        self._map = getattr(archive.data.base, "_mmap", archive.data.base)
        self.touched: set[int] | None = None
        """The pages that were read, if they are counted."""

    def expect_single_rows(self) -> None:
        """Let the system read a page without those around it.

        By default, Linux reads 32 pages at once, and hundreds on some machines.
        """
        if isinstance(self._map, mmap.mmap) and hasattr(mmap, "MADV_RANDOM"):
            self._map.madvise(mmap.MADV_RANDOM)

    def __call__(self, array: Array, first: Ints, stop: Ints) -> None:
        """See `PageCheck`."""
        place, row_bytes = self._places.get(id(array)) or self._locate(array)
        first_pages = (place + first * row_bytes) // PAGE
        last_pages = (place + stop * row_bytes - 1) // PAGE
        self.check(first_pages, last_pages + 1)

    def check(self, first: Ints, stop: Ints) -> None:
        """See `PageCheck`."""
        pages = ranges(first, np.maximum(stop - first, 0))
        if self.touched is not None:
            self.touched.update(pages.tolist())
        new_pages = np.unique(pages[~self.checked[pages]])
        if len(pages) < _MANY_PAGES:
            self._request(new_pages)
        else:
            self._request(np.unique(pages))
        if self._remote is not None:
            # A page of the cache that was not fetched yet has another hash than it should have.
            absent = [page for page in new_pages.tolist() if not self._is_right(page)]
            if absent:
                self._remote.fetch(self.path, np.array(absent, np.int64), self._end)
        for page in new_pages.tolist():
            if not self._is_right(page):
                raise FileError(
                    f"{self.path} is damaged: page {page} is not what was written. "
                    "Use another copy of it."
                )
            self.checked[page] = True

    def _locate(self, array: Array) -> tuple[int, int]:
        """Return where an array of the file begins, and the bytes of one of its rows.

        The segment keeps the array itself, so its id stays that of this array.
        """
        place = array.ctypes.data - self._address
        self._places[id(array)] = (place, array.strides[0])
        return self._places[id(array)]

    def _request(self, pages: Ints) -> None:
        """Ask the operating system for pages before they are read one by one, in file order."""
        if len(pages) < _FEWEST_TO_REQUEST:
            return
        if not isinstance(self._map, mmap.mmap) or not hasattr(mmap, "MADV_WILLNEED"):
            return
        for run in np.split(pages, np.flatnonzero(np.diff(pages) > 1) + 1):
            self._map.madvise(mmap.MADV_WILLNEED, int(run[0]) * PAGE, len(run) * PAGE)

    def _is_right(self, page: int) -> bool:
        """Return whether a page has its hash."""
        data = self.data[page * PAGE : min((page + 1) * PAGE, self._end)].tobytes()
        if page == 0:  # the checksum of the file was not known when this page was hashed
            data = zero_digits(data)
        return hash_pages(data) == self._blocks[page * HASH_BYTES : (page + 1) * HASH_BYTES]
