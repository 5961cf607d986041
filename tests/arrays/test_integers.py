"""Integer array helpers against plain Python."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hammemo._arrays.integers import find_sorted, narrow, object_array, sum_by_key, unique_ranks

pytestmark = pytest.mark.quick

randomly = settings(max_examples=100, deadline=None)

SMALL_BOUND, LARGE_BOUND = 40, 2**62  # a table of all keys fits the first; the second needs a sort
bounds = pytest.mark.parametrize("bound", [SMALL_BOUND, LARGE_BOUND])
counts = st.integers(-3, 3) | st.integers(-(2**55), 2**55)


@bounds
@given(data=st.data())
@randomly
def test_unique_ranks_are_ranks_among_the_sorted_distinct_keys(bound: int, data: st.DataObject) -> None:
    keys = data.draw(st.lists(st.integers(0, 5) | st.integers(0, bound - 1), max_size=30))
    distinct, ranks = unique_ranks(np.array(keys, np.int64), bound)
    assert distinct.tolist() == sorted(set(keys))
    assert ranks.tolist() == [sorted(set(keys)).index(key) for key in keys]
    assert distinct.dtype == ranks.dtype == np.int64


@given(haystack=st.sets(st.integers(-8, 8)), needles=st.lists(st.integers(-10, 10)))
@randomly
def test_find_sorted_gives_the_index_or_minus_one(haystack: set[int], needles: list[int]) -> None:
    ordered = sorted(haystack)
    found = find_sorted(np.array(ordered, np.int64), np.array(needles, np.int64))
    assert found.tolist() == [ordered.index(needle) if needle in haystack else -1 for needle in needles]


@given(values=st.lists(st.integers(0, 2**63 - 1) | st.sampled_from([255, 256, 2**16 - 1, 2**16, 2**32 - 1, 2**32])))
@randomly
def test_narrow_keeps_values_in_the_narrowest_width(values: list[int]) -> None:
    narrowed = narrow(np.array(values, np.int64))
    fitting = [
        width
        for width in (np.uint8, np.uint16, np.uint32, np.uint64)
        if max(values, default=0) < 256 ** width().itemsize
    ]
    assert narrowed.tolist() == values
    assert narrowed.dtype == fitting[0]


def test_object_array_keeps_every_value_itself() -> None:
    values: list[Any] = [1, "1", 0.5, [1, 2], (3,), None, np.arange(2)]
    array = object_array(iter(values))
    assert array.shape == (7,)
    assert all(kept is value for kept, value in zip(array, values, strict=True))


@bounds
@given(data=st.data())
@randomly
def test_sum_by_key_equals_a_counter_without_its_zeros(bound: int, data: st.DataObject) -> None:
    pairs = data.draw(st.lists(st.tuples(st.integers(0, 5) | st.integers(0, bound - 1), counts), max_size=30))
    assert_sums(pairs, bound)


@bounds
@given(data=st.data())
@randomly
def test_sum_by_key_counts_keys_that_count_one_each(bound: int, data: st.DataObject) -> None:
    keys = data.draw(st.lists(st.integers(0, 5) | st.integers(0, bound - 1), max_size=30))
    assert_sums([(key, 1) for key in keys], bound)


def test_sum_by_key_is_exact_above_two_to_the_53() -> None:
    assert_sums([(0, 2**53), (0, 1), (1, 2**60 + 1)], SMALL_BOUND)


def test_sum_by_key_is_exact_when_all_counts_together_exceed_64_bits() -> None:
    assert_sums([(key, 2**62 + 1) for key in range(4)], SMALL_BOUND)


def assert_sums(pairs: list[tuple[int, int]], bound: int) -> None:
    expected: Counter[int] = Counter()
    for key, count in pairs:
        expected[key] += count
    keys, sums = sum_by_key(
        np.array([key for key, _ in pairs], np.int64), np.array([count for _, count in pairs], np.int64), bound
    )
    assert list(zip(keys.tolist(), sums.tolist(), strict=True)) == sorted(
        (key, total) for key, total in expected.items() if total
    )
    assert keys.dtype == sums.dtype == np.int64
