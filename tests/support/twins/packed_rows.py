"""Rows packed in bits, label by label: the twin of ``src/native/segments/packed_rows.cpp``.

`memories.exact.segments.entries` describes the format.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from hammemo.memories.exact.segments.entries import PADDING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from hammemo._arrays.types import Ints

_BLOCK: Final = 128
"""Entries of a block; the last one of a row may have fewer."""

_MAX_BITS: Final = 32
"""Bits that the numbers of a stream take at most; what is above them is written separately."""

_NUMBER_LIMIT: Final = 2**55
"""Gaps, and counts less one, are below it."""


def pack_rows(lengths: Ints, labels: Ints, counts: Ints) -> tuple[NDArray[np.uint8], Ints]:
    """Return rows packed one after the other, without padding, and where each ends."""
    packed = bytearray()
    ends = []
    first = 0
    for length in lengths.tolist():
        entries = slice(first, first + length)
        packed += _pack_row(labels[entries].tolist(), counts[entries].tolist())
        ends.append(len(packed))
        first += length
    return np.frombuffer(bytes(packed), np.uint8), np.array(ends, np.int64)


def _pack_row(labels: Sequence[int], counts: Sequence[int]) -> bytes:
    row = bytearray(_pack_number(len(labels)))
    before = -1  # the last label before the block
    for first in range(0, len(labels), _BLOCK):
        block_labels = labels[first : first + _BLOCK]
        block_counts = counts[first : first + _BLOCK]
        gaps = []
        last = before
        for label in block_labels:
            gaps.append(label - last - 1)
            last = label
        block = _pack_number(last - before)
        block += _pack_stream(gaps)
        block += _pack_stream([count - 1 for count in block_counts])
        row += len(block).to_bytes(2, "little") + block
        before = last
    return bytes(row)


def _pack_number(value: int) -> bytes:
    """Return a number with seven bits a byte; the highest bit says that another byte follows."""
    packed = bytearray()
    while value >= 128:
        packed.append(value & 127 | 128)
        value >>= 7
    packed.append(value)
    return bytes(packed)


def _pack_stream(values: Sequence[int]) -> bytes:
    """Return numbers at the width that needs the least room, the smallest among equals."""
    streams = [_pack_stream_at(values, bits) for bits in range(_MAX_BITS + 1)]
    return min(streams, key=len)


def _pack_stream_at(values: Sequence[int], bits: int) -> bytes:
    low_bits = (1 << bits) - 1
    low = 0
    above = bytearray()
    n_larger = 0
    for place, value in enumerate(values):
        low |= (value & low_bits) << place * bits
        if value >> bits:
            n_larger += 1
            above += bytes([place]) + _pack_number(value >> bits)
    n_bytes = (len(values) * bits + 7) // 8
    return bytes([bits, n_larger]) + low.to_bytes(n_bytes, "little") + bytes(above)


class UnpackedRows(NamedTuple):
    """Rows: the entries of all of them, one row after the other."""

    lengths: Ints
    labels: Ints
    counts: Ints


def unpack_rows(
    packed: NDArray[np.uint8], starts: Ints, stops: Ints, n_labels: int
) -> UnpackedRows:
    """Return the rows between these places of bytes; refuse what cannot be a row."""
    lengths = list[int]()
    labels = list[int]()
    counts = list[int]()
    for start, stop in zip(starts.tolist(), stops.tolist(), strict=True):
        if not 0 <= start <= stop <= len(packed) - PADDING:
            raise ValueError("a row lies outside")
        row_labels = list[int]()
        row_counts = list[int]()
        if start < stop:
            row_labels, row_counts = _unpack_row(packed[start:stop].tobytes(), n_labels)
        lengths.append(len(row_labels))
        labels += row_labels
        counts += row_counts
    return UnpackedRows(
        lengths=np.array(lengths, np.int64),
        labels=np.array(labels, np.int64),
        counts=np.array(counts, np.int64),
    )


class _Reader:
    """Reads bytes one after the other."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.place = 0

    def read_bytes(self, n: int) -> bytes:
        """Return the next bytes."""
        if self.place + n > len(self.data):
            raise _corrupt_row_error()
        self.place += n
        return self.data[self.place - n : self.place]

    def read_number(self) -> int:
        """Return the next number of seven bits a byte; it has nine of them at most."""
        value = 0
        for shift in range(0, 63, 7):
            (byte,) = self.read_bytes(1)
            value |= (byte & 127) << shift
            if byte < 128:
                return value
        raise _corrupt_row_error()

    def read_stream(self, n: int) -> list[int]:
        """Return the next stream, of n numbers."""
        bits, n_larger = self.read_bytes(2)
        if bits > _MAX_BITS:
            raise _corrupt_row_error()
        low_bits = (1 << bits) - 1
        low = int.from_bytes(self.read_bytes((n * bits + 7) // 8), "little")
        values = [low >> place * bits & low_bits for place in range(n)]
        for _ in range(n_larger):
            (place,) = self.read_bytes(1)
            above = self.read_number()
            if place >= n or above >> 63 - bits:
                raise _corrupt_row_error()
            values[place] |= above << bits
        return values

    def check_end(self) -> None:
        """Refuse bytes that nothing has read."""
        if self.place != len(self.data):
            raise _corrupt_row_error()


def _unpack_row(data: bytes, n_labels: int) -> tuple[list[int], list[int]]:
    """Return the labels and the counts of a row."""
    row = _Reader(data)
    n_entries = row.read_number()
    if not 1 <= n_entries <= n_labels:
        raise _corrupt_row_error()
    labels = list[int]()
    counts = list[int]()
    before = -1  # the last label before the block
    while len(labels) < n_entries:
        n_bytes = int.from_bytes(row.read_bytes(2), "little")
        block = _Reader(row.read_bytes(n_bytes))
        span = block.read_number()
        n = min(n_entries - len(labels), _BLOCK)
        gaps = block.read_stream(n)
        counts_less_one = block.read_stream(n)
        block.check_end()
        if max(*gaps, *counts_less_one) >= _NUMBER_LIMIT:
            raise _corrupt_row_error()
        last = before
        for gap in gaps:
            last += gap + 1
            labels.append(last)
        if last - before != span or last >= n_labels:
            raise _corrupt_row_error()
        counts += [count + 1 for count in counts_less_one]
        before = last
    row.check_end()
    return labels, counts


def _corrupt_row_error() -> ValueError:
    return ValueError("a packed row cannot be one")
