"""Packed rows: the same bytes and entries from compiled code as from Python, and nothing else is taken for a row."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hammemo import _native
from hammemo.memories.exact.segments import entries as packed
from twins import packed_rows as twin

sizes = st.sampled_from([1, 2, 7, 127, 128, 129, 255, 256, 300])
numbers = st.one_of(st.just(0), st.integers(0, 3), st.integers(0, 300), st.integers(0, 2**40), st.just(2**48 - 1))
rows_of_gaps = st.lists(
    sizes.flatmap(lambda n: st.tuples(*[st.lists(numbers, min_size=n, max_size=n)] * 2)), max_size=4
)


def as_arrays(rows: Any) -> tuple[np.ndarray[Any, Any], ...]:
    labels = [np.cumsum(np.array(gaps, np.int64) + 1) - 1 for gaps, _ in rows]
    counts = [np.array(others, np.int64) + 1 for _, others in rows]
    none = np.empty(0, np.int64)
    lengths = np.array([len(own) for own in labels], np.int64)
    return lengths, np.concatenate([none, *labels]), np.concatenate([none, *counts])


def padded(data: Any) -> Any:
    return np.concatenate([np.frombuffer(bytes(data), np.uint8), np.zeros(packed.PADDING, np.uint8)])


@given(rows=rows_of_gaps)
@settings(max_examples=60, deadline=None)
def test_rows_come_back_and_both_write_the_same_bytes(rows: Any) -> None:
    arrays = as_arrays(rows)
    data, ends = packed.pack_rows(*arrays)
    again = twin.pack_rows(*arrays)
    n_labels = int(arrays[1].max(initial=0)) + 1
    starts = np.concatenate([[0], ends])[: len(ends)]
    found = [way.unpack_rows(padded(data), starts, ends, n_labels) for way in (packed, twin)]
    assert (bytes(data), ends.tolist()) == (bytes(again[0]), again[1].tolist())
    for read in found:
        for expected, own in zip(arrays, read, strict=True):
            np.testing.assert_array_equal(own, expected)


def outcome(function: Any, *given: Any) -> Any:
    try:
        return [array.tolist() for array in function(*given)]
    except ValueError:
        return "refused"


@given(data=st.data())
@settings(max_examples=150, deadline=None)
def test_damaged_rows_are_refused_by_both_or_read_alike(data: Any) -> None:
    rows = data.draw(rows_of_gaps.filter(len))
    arrays = as_arrays(rows[:1])
    row = bytearray(packed.pack_rows(*arrays)[0].tobytes())
    for _ in range(data.draw(st.integers(0, 3))):
        row[data.draw(st.integers(0, len(row) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(row)))
    row = row[:cut] if data.draw(st.booleans()) else row
    given = padded(row), np.array([0]), np.array([len(row)]), data.draw(st.sampled_from([1, 50, 2**31]))
    assert outcome(packed.unpack_rows, *given) == outcome(twin.unpack_rows, *given)


@pytest.mark.parametrize(
    ("starts", "stops"), [([0], [99]), ([-1], [2]), ([3], [2]), ([0], [12])], ids=["end", "start", "order", "padding"]
)
def test_a_row_outside_is_refused(starts: Any, stops: Any) -> None:
    data, ends = packed.pack_rows(np.array([1]), np.array([3]), np.array([2]))
    given = padded(data), np.array(starts), np.array(stops), 9
    for way in (packed, twin):
        assert outcome(way.unpack_rows, *given) == "refused"
    assert outcome(packed.unpack_rows, padded(data), np.array([0]), ends, 9) == [[1], [3], [2]]


def test_what_cannot_be_packed_is_refused_by_compiled_code() -> None:
    for lengths, labels, counts in (
        [[2], [1, 1], [1, 1]],
        [[1], [0], [0]],
        [[2], [0], [1]],
        [[0], [], []],
        [[1], [-1], [1]],
    ):
        with pytest.raises(ValueError, match=r"labels|counts|entries"):
            _native.pack_rows(*(np.array(values, np.int64) for values in (lengths, labels, counts)))
