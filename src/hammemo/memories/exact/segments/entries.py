r"""The entries of a segment: label and count side by side, or rows packed in bits.

A *span* is where the entries of a row lie. It counts entries where they are side by side, and bytes
where rows are packed, which takes a quarter of the room where rows are long.

A packed row is its number of entries and then blocks of 128 of them, the last one of what is left.
A block is

- two bytes: how many bytes follow;
- how far it goes: its last label minus the last label before it (-1 before the first), so that a
  search for one label passes over blocks that end before it;
- a *stream* of the gaps between labels, :math:`l_i - l_{i-1} - 1`, and a stream of the counts less
  one.

A stream has one byte b, how many bits its numbers take, one byte for how many are larger, the low b
bits of all numbers one after the other, and of each larger one its place (a byte) and what is above
its low bits. The b is taken, from 0 to 32, that needs the least room; the smallest among equals.
Numbers outside of streams, and those above the bits, have seven bits a byte, the lowest first, and
the highest bit of a byte says that another one follows.

After the last row come eight bytes more, because compiled code
(``src/native/segments/packed_rows.hpp``) reads eight at a time. It is tested against the plain
functions of ``tests/support/twins/packed_rows.py``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from hammemo import _native
from hammemo._arrays.integers import narrow, ranges, sum_by_key
from hammemo._arrays.tuple_sets import TupleSet
from hammemo.memories.errors import never_stored

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from hammemo._arrays.checked import StoredArrays
    from hammemo._arrays.types import Array, Ints

PADDING: Final = 8
"""How many bytes come after the last packed row."""

_MAX_LOOPED_ROWS: Final = 32
"""Rows up to which each is read by itself, which is faster than all at once."""


class StoredEntries(NamedTuple):
    """The entries of rows, one row after the other.

    Shapes
    ------
    lengths : (r,); labels, counts : (n,)
    """

    lengths: Ints
    labels: Ints
    counts: Ints


def pack_rows(lengths: Ints, labels: Ints, counts: Ints) -> tuple[NDArray[np.uint8], Ints]:
    """Return rows packed one after the other, and where each ends.

    What comes after the last row (`PADDING`) is left out.

    Shapes
    ------
    lengths : (r,), from 1; labels, counts : (n,), labels ascending in each row;
    returned : (bytes,), (r,)
    """
    return _native.pack_rows(
        lengths=np.ascontiguousarray(lengths, np.int64),
        labels=np.ascontiguousarray(labels, np.int64),
        counts=np.ascontiguousarray(counts, np.int64),
    )


def unpack_rows(
    packed: NDArray[np.uint8], starts: Ints, stops: Ints, n_labels: int
) -> StoredEntries:
    """Return rows with their entries, one after the other; refuse what cannot be a row.

    A row that starts where it stops has no entry.

    Shapes
    ------
    packed : (bytes,), with the eight after the last row; starts, stops : (r,)
    """
    first = np.ascontiguousarray(starts, np.int64)
    last = np.ascontiguousarray(stops, np.int64)
    return StoredEntries(*_native.unpack_rows(packed, first, last, n_labels))


@dataclass(frozen=True, eq=False)
class SiteRows:
    """Rows of one site.

    Tuples are ranks in lexicographic order; the labels of a row ascend.

    Shapes
    ------
    tuples : (r, l); lengths : (r,); labels, counts : (n,)
    """

    tuples: Ints
    lengths: Ints
    labels: Ints
    counts: Ints

    @classmethod
    def from_keys(cls, tuples: TupleSet, keys: Ints, counts: Ints, n_labels: int) -> SiteRows:
        """Return rows with the entries ``row * n_labels + label``, ascending.

        Rows without an entry are left out.
        """
        rows, labels = np.divmod(keys, max(n_labels, 1))
        lengths = np.bincount(rows, minlength=len(tuples))
        row_tuples = tuples.rows()
        if not lengths.all():
            row_tuples = row_tuples[lengths > 0]
            lengths = lengths[lengths > 0]
        return cls(row_tuples, lengths, labels, counts)

    @classmethod
    def join(cls, rows: Sequence[SiteRows]) -> SiteRows:
        """Return rows side by side: all of the first are before those of the second, and so on."""
        if len(rows) == 1:
            return rows[0]
        return cls(
            tuples=np.concatenate([site_rows.tuples for site_rows in rows]),
            lengths=np.concatenate([site_rows.lengths for site_rows in rows]),
            labels=np.concatenate([site_rows.labels for site_rows in rows]),
            counts=np.concatenate([site_rows.counts for site_rows in rows]),
        )

    def with_ranks(self, tokens: Ints, labels: Ints) -> SiteRows:
        """Return the rows with other ranks for tokens and labels, which keep their order."""
        return SiteRows(tokens[self.tuples], self.lengths, labels[self.labels], self.counts)


class PlainEntries:
    """Label and count of each entry side by side, in the narrowest widths.

    Parameters
    ----------
    array : ndarray of a type with the fields label and count
    n_labels : int
        How many labels there are: no row has more entries.
    """

    def __init__(self, array: Array, n_labels: int) -> None:
        self.array = array
        self.n_entries = self.n_units = len(array)
        self._n_labels = n_labels

    def are_outside(self, starts: Ints, stops: Ints) -> bool:
        """Return whether a span cannot be one."""
        return bool(((stops > self.n_units) | (stops - starts > self._n_labels)).any())

    def read(self, starts: Ints, stops: Ints) -> StoredEntries:
        """Return rows with their entries, one after the other, or refuse them."""
        lengths = stops - starts
        if len(starts) <= _MAX_LOOPED_ROWS:
            pieces = [self.array[a:b] for a, b in zip(starts.tolist(), stops.tolist(), strict=True)]
            entries = np.concatenate([self.array[:0], *pieces])
        elif (starts[1:] == stops[:-1]).all():  # one range of the file
            entries = self.array[starts[0] : stops[-1]]
        else:
            entries = self.array[ranges(starts, lengths)]
        labels = entries["label"].astype(np.int64)
        counts = entries["count"].astype(np.int64)
        if len(labels) and (int(labels.max()) >= self._n_labels or int(counts.min()) < 1):
            raise ValueError("an entry names a label that does not exist, or counts nothing")
        return StoredEntries(lengths, labels, counts)


class PackedEntries:
    """Rows packed in bits.

    Parameters
    ----------
    array : ndarray of uint8
        The rows one after the other, and eight bytes more.
    n_entries, n_labels : int
        How many there are.
    """

    def __init__(self, array: NDArray[np.uint8], n_entries: int, n_labels: int) -> None:
        self.array = array
        self.n_units = len(array) - PADDING
        self.n_entries = n_entries
        self._n_labels = n_labels

    def are_outside(self, starts: Ints, stops: Ints) -> bool:  # noqa: ARG002
        """Return whether a span cannot be one."""
        return bool((stops > self.n_units).any())

    def read(self, starts: Ints, stops: Ints) -> StoredEntries:
        """Return rows with their entries, one after the other, or refuse them."""
        return unpack_rows(self.array, starts, stops, self._n_labels)


def read_entries(stored: StoredArrays, n_labels: int) -> PlainEntries | PackedEntries:
    """Return the entries that a file holds, checked."""
    entries = stored.take("entries", "uint8", (None, None))
    widths = stored.take("entry_widths", "uint8", (2,)).tolist()
    if widths == [0, 0]:
        n_entries = int(stored.whole_numbers("n_entries", (1,), below=2**60)[0])
        if entries.shape[1] != 1 or len(entries) < PADDING:
            raise ValueError("the array entries has no end")
        return PackedEntries(entries.reshape(-1), n_entries, n_labels)
    if not set(widths) <= {1, 2, 4, 8} or entries.shape[1] != sum(widths):
        raise ValueError("the array entries does not have the widths that it declares")
    kind = np.dtype([("label", f"<u{widths[0]}"), ("count", f"<u{widths[1]}")])
    return PlainEntries(entries.reshape(-1).view(kind), n_labels)


def entries_in(arrays: Mapping[str, Array]) -> int:
    """Return how many entries the arrays of a segment have."""
    return int(arrays["n_entries"][0]) if "n_entries" in arrays else len(arrays["entries"])


def entry_arrays(
    rows: Sequence[SiteRows], *, packed: bool | None
) -> tuple[dict[str, Array], list[Ints]]:
    """Return the arrays of entries, and where the span of each row of each site ends.

    Entries are side by side or packed; with None whichever is smaller: that is packed, but for
    short rows.
    """
    if packed is not None:
        return _pack_arrays(rows) if packed else _plain_arrays(rows)
    packed_arrays, packed_ends = _pack_arrays(rows)
    plain_arrays, plain_ends = _plain_arrays(rows)
    if packed_arrays["entries"].nbytes < plain_arrays["entries"].nbytes:
        return packed_arrays, packed_ends
    return plain_arrays, plain_ends


def _plain_arrays(rows: Sequence[SiteRows]) -> tuple[dict[str, Array], list[Ints]]:
    """Return the arrays of entries side by side, and where each row's span ends, by site."""
    n_entries = sum(len(site.counts) for site in rows)
    label_width = _width([site.labels for site in rows])
    count_width = _width([site.counts for site in rows])
    kind = np.dtype([("label", f"<u{label_width}"), ("count", f"<u{count_width}")])
    entries = np.empty(n_entries, kind)
    first = 0
    ends = []
    for site in rows:
        stop = first + len(site.counts)
        entries["label"][first:stop] = site.labels
        entries["count"][first:stop] = site.counts
        ends.append(first + np.cumsum(site.lengths, dtype=np.int64))
        first = stop
    arrays = {
        "entries": entries.view(np.uint8).reshape(n_entries, label_width + count_width),
        "entry_widths": np.array([label_width, count_width], np.uint8),
    }
    return arrays, ends


def _width(arrays: Sequence[Ints]) -> int:
    """Return how many bytes the largest of these numbers takes."""
    largest = max((int(array.max(initial=0)) for array in arrays), default=0)
    return np.min_scalar_type(largest).itemsize


def _pack_arrays(rows: Sequence[SiteRows]) -> tuple[dict[str, Array], list[Ints]]:
    """Return the arrays of packed rows, and where the span of each row of each site ends."""
    pieces: list[NDArray[np.uint8]] = []
    ends = []
    first = 0
    for site in rows:
        packed, site_ends = pack_rows(site.lengths, site.labels, site.counts)
        pieces.append(packed)
        ends.append(first + site_ends)
        first += len(packed)
    n_entries = sum(len(site.counts) for site in rows)
    arrays = {
        "entries": np.concatenate([*pieces, np.zeros(PADDING, np.uint8)]).reshape(-1, 1),
        "entry_widths": np.zeros(2, np.uint8),
        "n_entries": narrow(np.array([n_entries])),
    }
    return arrays, ends


def add_rows(
    terms: Sequence[tuple[int, SiteRows]], length: int, n_tokens: int, n_labels: int
) -> SiteRows:
    """Return the sum of rows of one site, each with its sign; refuse a count below zero.

    Parameters
    ----------
    terms : sequence of (sign, SiteRows)
        With common ranks of tokens and labels.
    length : int
        How many tokens a tuple has.
    n_tokens, n_labels : int
        How many there are.
    """
    terms = [(sign, rows) for sign, rows in terms if len(rows.tuples)]
    if not terms:
        none = np.empty(0, np.int64)
        return SiteRows(np.empty((0, length), np.int64), none, none, none)
    if len(terms) == 1 and terms[0][0] > 0:  # nothing to add: in the right order as it is
        return terms[0][1]
    tuples, index = TupleSet.collect(np.concatenate([rows.tuples for _, rows in terms]), n_tokens)
    n_entries = sum(len(rows.counts) for _, rows in terms)
    n_labels = max(n_labels, 1)
    # one key and one signed count for each entry of each term
    keys = np.empty(n_entries, np.int64)
    counts = np.empty(n_entries, np.int64)
    first_row = 0
    first_entry = 0
    for sign, rows in terms:
        entries = slice(first_entry, first_entry + len(rows.counts))
        row_numbers = index[first_row : first_row + len(rows.tuples)]
        keys[entries] = np.repeat(row_numbers, rows.lengths) * n_labels + rows.labels
        counts[entries] = sign * rows.counts
        first_row += len(rows.tuples)
        first_entry = entries.stop
    distinct_keys, totals = sum_by_key(keys, counts, len(tuples) * n_labels)
    if (totals < 0).any():
        raise never_stored()
    return SiteRows.from_keys(tuples, distinct_keys, totals, n_labels)
