"""Exact functions on integer arrays: ranks, look-ups, sums by key, narrow types."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from hammemo._arrays.types import Array, Ints

_PIECE_NUMBERS = 2**22
"""Numbers of a piece of rows: 32 MiB."""


def unique_ranks(keys: Ints, bound: int) -> tuple[Ints, Ints]:
    """Return the distinct values of `keys`, ascending, and the rank of each key.

    All keys are in [0, bound). Where the range is not much larger than the number of keys a table
    of it replaces the sort, which makes counting linear in the data.
    """
    if bound > 4 * len(keys) + 1024:
        distinct, ranks = np.unique(keys, return_inverse=True)
        return distinct, ranks.astype(np.int64, copy=False)
    ranks = keys.astype(np.int64)
    return replace_by_ranks(ranks, bound), ranks


def replace_by_ranks(keys: Ints, bound: int) -> Ints:
    """Return the distinct values of `keys`, all in [0, bound), and replace each key by its rank.

    It works in the memory of the keys: a second array of their size would cost more time than the
    look-ups.
    """
    if bound > 4 * len(keys) + 1024:
        distinct, keys[:] = np.unique(keys, return_inverse=True)
        return distinct
    is_key = np.zeros(bound, bool)
    is_key[keys] = True
    ranks = np.cumsum(is_key) - 1
    for piece in pieces(len(keys)):
        keys[piece] = ranks[keys[piece]]
    return np.flatnonzero(is_key)


def distinct_numbers(values: Array) -> Array:
    """Return the distinct numbers of an array, ascending.

    A sort is faster than NumPy's table of hashes.

    Examples
    --------
    >>> import numpy as np
    >>> from hammemo._arrays.integers import distinct_numbers
    >>> distinct_numbers(np.array([5, 2, 5]))
    array([2, 5])
    """
    ordered = np.sort(values)
    is_first = np.ones(len(ordered), bool)
    is_first[1:] = ordered[1:] != ordered[:-1]
    return ordered[is_first]


def find_sorted(haystack: Array, needles: Array) -> Ints:
    """Return the index of each needle in an ascending array, -1 where it is missing.

    Integers may differ in width: the needles are brought to the haystack's, never the (large)
    haystack to theirs.
    """
    if not len(haystack):
        return np.full(len(needles), -1, np.int64)
    if haystack.dtype != needles.dtype and haystack.dtype.kind in "iu":
        limits = np.iinfo(haystack.dtype)
        fits = (needles >= limits.min) & (needles <= limits.max)
        narrow_needles = np.where(fits, needles, 0).astype(haystack.dtype)
        return np.where(fits, find_sorted(haystack, narrow_needles), -1)
    if len(needles) == 1:  # one by one there is less to do than for an array
        place = int(haystack.searchsorted(needles[0]))
        if place == len(haystack) or haystack[place] != needles[0]:
            place = -1
        return np.array([place], np.int64)
    index = np.minimum(np.searchsorted(haystack, needles), len(haystack) - 1)
    return np.where(haystack[index] == needles, index, -1)


def narrow(values: Array) -> Array:
    """Return non-negative integers in the narrowest unsigned width that holds them all.

    Examples
    --------
    >>> import numpy as np
    >>> from hammemo._arrays.integers import narrow
    >>> narrow(np.array([3, 255])).dtype, narrow(np.array([256])).dtype
    (dtype('uint8'), dtype('uint16'))
    """
    largest = int(values.max()) if values.size else 0
    return values.astype(np.min_scalar_type(largest))


def pieces(length: int, size: int = 2**16) -> Iterator[slice]:
    """Yield slices that cut `length` entries into pieces.

    A pass over a large array, piece by piece, needs little memory.
    """
    return (slice(start, min(start + size, length)) for start in range(0, length, size))


def row_pieces(n_rows: int, width: int) -> Iterator[slice]:
    """Yield slices that cut rows of `width` numbers into pieces of at most 32 MiB."""
    return pieces(n_rows, max(1, _PIECE_NUMBERS // max(width, 1)))


def ranges(starts: Ints, lengths: Ints) -> Ints:
    """Return the numbers from each start on, as many as its length, one range after the other.

    Examples
    --------
    >>> import numpy as np
    >>> from hammemo._arrays.integers import ranges
    >>> ranges(np.array([5, 0]), np.array([2, 3]))
    array([5, 6, 0, 1, 2])
    """
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    return np.repeat(starts - (ends - lengths), lengths) + np.arange(total)


def object_array(values: Iterable[Any]) -> Array:
    """Return a one-dimensional object array of the values themselves, of any types."""
    return np.fromiter(values, dtype=object)


def sum_by_key(keys: Ints, counts: Ints, bound: int) -> tuple[Ints, Ints]:
    """Return the distinct keys, ascending, whose counts do not sum to zero, and those sums.

    All keys are in [0, bound); sums are exact.

    Examples
    --------
    >>> import numpy as np
    >>> from hammemo._arrays.integers import sum_by_key
    >>> sum_by_key(np.array([5, 2, 5, 3]), np.array([1, 4, 1, 0]), bound=6)
    (array([2, 5]), array([4, 2]))
    """
    if (counts == 1).all():
        if bound > 2 * len(keys) + 1024:
            return np.unique(keys, return_counts=True)
        totals = np.bincount(keys, minlength=bound)  # a table of all keys replaces the sort
        nonzero = np.flatnonzero(totals != 0)  # much faster than on the numbers themselves
        return nonzero, totals[nonzero]
    if bound <= 16 * len(keys) + 1024 and np.abs(counts).sum(dtype=np.float64) < 2**53:
        sums = np.bincount(keys, weights=counts, minlength=bound)  # float64: exact below 2^53
        nonzero = np.flatnonzero(sums != 0)  # much faster than on the floats themselves
        return nonzero, sums[nonzero].astype(np.int64)
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    firsts = np.flatnonzero(np.diff(ordered, prepend=-1))
    # Callers count examples, below 2^53 in each of a few batches: sums of int64 are exact.
    if len(firsts):
        totals = np.add.reduceat(counts[order], firsts)
    else:
        totals = np.empty(0, np.int64)
    nonzero = totals != 0
    return ordered[firsts][nonzero], totals[nonzero]
