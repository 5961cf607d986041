"""The plain twin of ``src/native/segments/packed_rows.cpp``; `memories.exact.segments.entries` describes the format."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from hammemo.memories.exact.segments.entries import PADDING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from hammemo._arrays.types import Ints

_BLOCK: Final = 128
_MAX_BITS: Final = 32
_NUMBER_LIMIT: Final = 2**55
"""Gaps, and counts less one, are below it."""


def pack_rows(lengths: Ints, labels: Ints, counts: Ints) -> tuple[NDArray[np.uint8], Ints]:
    """Return rows packed one after the other, without what comes after the last, and where each ends."""
    packed, ends, first = bytearray(), [], 0
    for length in lengths.tolist():
        here = slice(first, first + length)
        packed += _packed_row(labels[here].tolist(), counts[here].tolist())
        ends.append(len(packed))
        first = here.stop
    return np.frombuffer(bytes(packed), np.uint8), np.array(ends, np.int64)


def unpack_rows(packed: NDArray[np.uint8], starts: Ints, stops: Ints, n_labels: int) -> tuple[Ints, Ints, Ints]:
    """Return the lengths of rows, and their labels and counts one after the other; refuse what cannot be a row."""
    lengths, labels, counts = list[int](), list[int](), list[int]()
    for start, stop in zip(starts.tolist(), stops.tolist(), strict=True):
        if not 0 <= start <= stop <= len(packed) - PADDING:
            raise ValueError("a row lies outside")
        row = _unpacked_row(packed[start:stop].tobytes(), n_labels) if start < stop else ([], [])
        lengths.append(len(row[0]))
        labels += row[0]
        counts += row[1]
    return np.array(lengths, np.int64), np.array(labels, np.int64), np.array(counts, np.int64)


def _packed_row(labels: Sequence[int], counts: Sequence[int]) -> bytes:
    row, before = bytearray(_number(len(labels))), -1
    for first in range(0, len(labels), _BLOCK):
        names = labels[first : first + _BLOCK]
        gaps = [label - last - 1 for label, last in zip(names, [before, *names], strict=False)]
        block = _number(names[-1] - before) + _stream(gaps) + _stream([c - 1 for c in counts[first : first + _BLOCK]])
        row += len(block).to_bytes(2, "little") + block
        before = names[-1]
    return bytes(row)


def _number(value: int) -> bytes:
    written = bytearray()
    while value >= 128:
        written.append(value & 127 | 128)
        value >>= 7
    return bytes([*written, value])


def _stream(values: Sequence[int]) -> bytes:
    def size(bits: int) -> int:
        above = [value >> bits for value in values if value >> bits]
        return (len(values) * bits + 7) // 8 + sum(1 + len(_number(value)) for value in above)

    bits = min(range(_MAX_BITS + 1), key=size)
    low = sum((value & (1 << bits) - 1) << place * bits for place, value in enumerate(values))
    larger = [(place, value >> bits) for place, value in enumerate(values) if value >> bits]
    start = bytes([bits, len(larger)]) + low.to_bytes((len(values) * bits + 7) // 8, "little")
    return start + b"".join(bytes([place]) + _number(above) for place, above in larger)


class _Bytes:
    """Bytes that are taken one after the other."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.place = 0

    def take(self, n: int) -> bytes:
        """Return the next bytes."""
        if self.place + n > len(self.data):
            raise _wrong()
        self.place += n
        return self.data[self.place - n : self.place]

    def number(self) -> int:
        """Return the next number of seven bits a byte; it has nine of them at most."""
        value = 0
        for shift in range(0, 63, 7):
            (byte,) = self.take(1)
            value |= (byte & 127) << shift
            if byte < 128:
                return value
        raise _wrong()

    def stream(self, n: int) -> list[int]:
        """Return the next stream, of n numbers."""
        bits, n_larger = self.take(2)
        if bits > _MAX_BITS:
            raise _wrong()
        low = int.from_bytes(self.take((n * bits + 7) // 8), "little")
        values = [low >> place * bits & (1 << bits) - 1 for place in range(n)]
        for _ in range(n_larger):
            (place,) = self.take(1)
            above = self.number()
            if place >= n or above >> 63 - bits:
                raise _wrong()
            values[place] |= above << bits
        return values


def _unpacked_row(data: bytes, n_labels: int) -> tuple[list[int], list[int]]:
    row = _Bytes(data)
    left, before, labels, counts = row.number(), -1, list[int](), list[int]()
    if not 1 <= left <= n_labels:
        raise _wrong()
    while left:
        block = _Bytes(row.take(int.from_bytes(row.take(2), "little")))
        span, n = block.number(), min(left, _BLOCK)
        gaps, others = block.stream(n), block.stream(n)
        names = [before + int(last) + 1 + place for place, last in enumerate(np.cumsum(np.array(gaps, object)))]
        if max(*gaps, *others) >= _NUMBER_LIMIT or names[-1] - before != span or names[-1] >= n_labels:
            raise _wrong()
        if block.place != len(block.data):
            raise _wrong()
        labels += names
        counts += [other + 1 for other in others]
        before, left = names[-1], left - n
    if row.place != len(data):
        raise _wrong()
    return labels, counts


def _wrong() -> ValueError:
    return ValueError("a packed row cannot be one")
