r"""Files of segments: rows of counts that are written piece by piece, and mapped for reading.

A segment is a file as :mod:`hammemo.files.archive` describes it, with rows of counts in it
(:mod:`hammemo.memories.exact.segments.segment`) and a hash for each of its pages
(:mod:`hammemo.files.pages`). It may be larger than memory. The checksum over the complete file is
what `inspect` compares, and what tells whether a segment that exists is the right one.
"""

from __future__ import annotations

import hashlib
import json
import os
from functools import partial
from importlib.metadata import version
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from hammemo._arrays.tensor_files import Spec, file_order, file_start
from hammemo.files.archive import (
    DIGITS,
    FORMAT,
    HASH_BYTES,
    OPENING,
    Archive,
    FileError,
    MissingFileError,
    refuse_folder,
    refusing,
)
from hammemo.files.atomic import replacement
from hammemo.files.pages import (
    Pages,
    hash_header,
    hash_pages,
    read_header,
    zero_digits,
)
from hammemo.files.remote import find_remote
from hammemo.files.segment_facts import SegmentFacts
from hammemo.memories.exact import PAGE, Segment, entries_in

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from io import BufferedRandom

    from hammemo._arrays.types import Array
    from hammemo.kernels.sites import Sites

_READ_AT_ONCE: Final = 2**20
"""Bytes of a file that are in memory while it is written or its checksum is computed."""


class _WrittenSegment(NamedTuple):
    """What is known of a segment once all of it is written."""

    blocks: bytes
    """The hashes of its pages."""
    checksum: str


def write_segment(
    path: str,
    arrays: Mapping[str, Array],
    *,
    sign: int = 1,
    edits: bool = False,
    by_checksum: bool = False,
) -> SegmentFacts:
    """Write a segment to a file, completely or not at all.

    With `by_checksum`, the checksum replaces ``*`` in its name.
    """
    arrays = {name: np.require(array, requirements="C") for name, array in arrays.items()}
    specs = {name: Spec(array.dtype, array.shape) for name, array in arrays.items()}
    order = file_order(specs)
    header = _build_header(specs, order)
    refuse_folder(path)
    temporary_path = path.replace("*", f"{os.getpid()}-{os.urandom(4).hex()}")
    with replacement(temporary_path) as temporary, open(temporary, "r+b") as file:
        written = _write_pages(file, header, [arrays[name] for name in order])
    final_path = path.replace("*", written.checksum[:16])
    if by_checksum:
        os.replace(temporary_path, final_path)
    return SegmentFacts(
        name=os.path.basename(final_path),
        sign=sign,
        edits=edits,
        bytes=len(header) + sum(spec.nbytes for spec in specs.values()) + len(written.blocks),
        rows=_count_rows(arrays),
        entries=entries_in(arrays),
        checksum=written.checksum,
        blocks=hash_header(header, written.blocks),
    )


def _build_header(specs: Mapping[str, Spec], order: list[str]) -> bytes:
    """Return the header of a segment with these arrays, the digits of its checksum as zeros."""
    about = {"checksum": "0" * 64, "format": FORMAT, "version": version("hammemo")}
    about["kind"] = "segment"
    metadata = {"hammemo": json.dumps(about, separators=(",", ":"))}
    data_bytes = sum(spec.nbytes for spec in specs.values())
    header = b""
    n_pages = -1
    # The number of pages is part of the header, and the length of the header decides it.
    while n_pages != -(-(len(header) + data_bytes) // PAGE):
        n_pages = -(-(len(header) + data_bytes) // PAGE)
        blocks = Spec(np.dtype(np.uint8), (n_pages, HASH_BYTES))
        header = file_start({**specs, "blocks": blocks}, metadata, [*order, "blocks"])
    if header[8 : DIGITS.start] != OPENING:
        raise FileError("The header of a segment does not begin as a model file does.")
    return header


def _count_rows(arrays: Mapping[str, Array]) -> int:
    """Return how many rows of counts a segment has: the array of a site says where each begins."""
    return sum(len(array) - 1 for name, array in arrays.items() if name.startswith("rows."))


def _write_pages(file: BufferedRandom, header: bytes, arrays: list[Array]) -> _WrittenSegment:
    """Write a segment piece by piece, hashing its pages, and put the checksum in its place."""
    file_hash = hashlib.blake2b(digest_size=32)
    blocks = bytearray()
    incomplete_page = b""
    for array in [np.frombuffer(header, np.uint8), *arrays]:
        data = array.reshape(-1).view(np.uint8)
        for first in range(0, len(data), _READ_AT_ONCE):
            piece = incomplete_page + data[first : first + _READ_AT_ONCE].tobytes()
            end = len(piece) // PAGE * PAGE
            blocks += hash_pages(piece[:end])
            incomplete_page = piece[end:]
            file.write(piece[:end])
            file_hash.update(piece[:end])
    blocks += hash_pages(incomplete_page)
    for last in (incomplete_page, bytes(blocks)):
        file.write(last)
        file_hash.update(last)
    file.seek(DIGITS.start)
    file.write(file_hash.hexdigest().encode())
    return _WrittenSegment(bytes(blocks), file_hash.hexdigest())


def open_segment(
    folder: str, facts: SegmentFacts, sites: Sites, *, verify: bool = True, scanned: bool = False
) -> Segment:
    """Map the segment in a file of a folder; refuse another file than the head describes.

    With `scanned` it is read from one end to the other, not a row here and there.
    """
    path = os.path.join(folder, facts.name)
    remote = find_remote(folder)
    if remote is not None:
        remote.prepare(folder, facts.name, facts.bytes)
    refuse_folder(path)
    try:
        with refusing(path):
            archive = Archive(path, verify=False, writable=False)
            pages = Pages(path, archive, facts, verify=verify, remote=remote)
            if not scanned:
                pages.expect_single_rows()
            arrays = {name: array for name, array in archive.arrays.items() if name != "blocks"}
            for name, array in arrays.items():
                # Large arrays are checked when rows of them are read, the small ones now.
                if array.size and not name.startswith(("rows.", "entries", "index.")):
                    pages(array, np.zeros(1, np.int64), np.full(1, len(array)))
            opener = partial(open_segment, folder, facts, sites, verify=verify, scanned=scanned)
            return Segment(sites, arrays, touch=pages, opener=opener, name=path)
    except FileNotFoundError as error:
        raise MissingFileError(
            f"The segment {path} is missing: use another copy of the folder."
        ) from error


def read_right_segment(folder: str, name: str) -> SegmentFacts | None:
    """Return the facts of a segment that exists and whose checksum is right, otherwise None."""
    path = os.path.join(folder, name)
    try:
        archive = Archive(path, verify=False, writable=False)
        checksum = compute_checksum(path)
        blocks = archive.arrays["blocks"].tobytes()
        header = read_header(archive)
    except (OSError, ValueError, KeyError):
        return None
    if archive.checksum != checksum or archive.about.get("kind") != "segment":
        return None
    return SegmentFacts(
        name=name,
        sign=1,
        edits=False,
        bytes=len(archive.data),
        rows=_count_rows(archive.arrays),
        entries=entries_in(archive.arrays),
        checksum=checksum,
        blocks=hash_header(header, blocks),
    )


def compute_checksum(path: str) -> str:
    """Compute the checksum of a file's contents, reading it piece by piece."""
    file_hash = hashlib.blake2b(digest_size=32)
    with open(path, "rb") as file:
        file_hash.update(zero_digits(file.read(_READ_AT_ONCE)))
        while piece := file.read(_READ_AT_ONCE):
            file_hash.update(piece)
    return file_hash.hexdigest()


def segment_names(folder: str) -> Iterator[str]:
    """Yield the names of the segments in a folder, and of leftovers of a killed process."""
    for name in sorted(os.listdir(folder)):
        if name.startswith(("segment-", "edits-")) and name.endswith((".safetensors", ".tmp")):
            yield name
