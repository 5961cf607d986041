"""Sums of one word and of two against Python's whole numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hammemo import _native
from hammemo._arrays.checked import StoredArrays
from hammemo._arrays.wide_sums import (
    add_sums,
    as_floats,
    as_wide,
    exact_square_sum,
    exact_sum,
    exact_values,
    first_value,
    in_form,
    largest_size,
    needs_words,
    no_sums,
    number_of,
    take_sums,
    words_of,
)

pytestmark = pytest.mark.quick

LARGE = 2**126 - 1
numbers = st.integers(-8, 8) | st.integers(-(2**62) + 1, 2**62 - 1)
long_numbers = numbers | st.integers(-LARGE, LARGE) | st.sampled_from([2**64, -(2**64), 2**63, -(2**63), 2**64 - 1])


def wide(values: list[int]) -> Any:
    words = [[value % 2**128 % 2**64 for value in values], [value % 2**128 >> 64 for value in values]]
    return np.array(words, np.uint64).reshape(2, len(values))


@given(st.lists(st.tuples(numbers, st.integers(0, 2**40)), max_size=30))
def test_a_sum_of_numbers_and_of_their_squares_is_exact(rows: list[tuple[int, int]]) -> None:
    values, times = (np.array([row[k] for row in rows], np.int64) for k in (0, 1))
    assert exact_sum(values, times) == sum(value * often for value, often in rows)
    assert exact_sum(values, -times) == -sum(value * often for value, often in rows)
    assert exact_square_sum(values, times) == sum(value**2 * often for value, often in rows)


def test_a_sum_is_exact_at_its_bounds() -> None:
    most = 2**62 - 1
    for times in (2**40 - 1, 2**61 - 1):
        assert exact_sum(np.array([most, -most, most]), np.array([times // 3] * 3)) == most * (times // 3)
        assert exact_square_sum(np.array([-most]), np.array([times])) == most**2 * times
    assert exact_sum(no_sums(0), no_sums(0)) == 0


@given(st.lists(st.tuples(long_numbers, long_numbers), max_size=20), st.sampled_from([1, -1]))
def test_wide_sums_are_those_of_whole_numbers(pairs: list[tuple[int, int]], sign: int) -> None:
    left, right = ([pair[k] for pair in pairs] for k in (0, 1))
    found = add_sums(wide(left), wide(right), sign=sign, is_wide=True)
    assert exact_values(found) == [one + sign * other for one, other in pairs]
    assert exact_values(wide(left)) == left
    assert as_floats(wide(left)).tolist() == [float(value) for value in left]
    assert largest_size(wide(left)) == max(map(abs, left), default=0)


@given(st.lists(numbers, min_size=1, max_size=20))
def test_forms_hold_the_same_sums(values: list[int]) -> None:
    narrow = np.array(values)
    assert exact_values(as_wide(narrow)) == exact_values(narrow) == values
    assert first_value(narrow) == first_value(as_wide(narrow)) == values[0]
    assert np.array_equal(as_floats(as_wide(narrow)), as_floats(narrow))
    assert largest_size(as_wide(narrow)) == largest_size(narrow)
    back = in_form(as_wide(narrow), largest_size(narrow))
    assert back.dtype == np.int64
    assert np.array_equal(back, narrow)
    assert in_form(narrow, 2**62).shape == (2, len(values))
    assert exact_values(add_sums(narrow, as_wide(narrow), sign=1, is_wide=True)) == [2 * value for value in values]


@given(st.lists(st.tuples(st.integers(0, 4), numbers, st.integers(-(2**40), 2**40)), max_size=30))
def test_compiled_products_are_those_of_whole_numbers(rows: list[tuple[int, int, int]]) -> None:
    sums = as_wide(no_sums(5))
    places, values, times = (np.array([row[k] for row in rows], np.int64) for k in range(3))
    _native.add_products(places, values, times, sums)
    expected: list[int] = [0] * 5
    for place, number, often in rows:
        expected[place] += number * often
    assert exact_values(sums) == expected


def test_what_the_compiled_functions_refuse() -> None:
    one, sums = np.ones(1, np.int64), as_wide(no_sums(1))
    for places in (one, -one):
        with pytest.raises(ValueError, match="outside the sums"):
            _native.add_products(places, one, one, sums)
    with pytest.raises(ValueError, match="one place"):
        _native.add_products(one, one, np.ones(2, np.int64), sums)
    with pytest.raises(ValueError, match="two words"):
        _native.add_products(one, one, one, np.zeros((3, 2), np.uint64))
    with pytest.raises(ValueError, match="one double"):
        _native.round_sums(sums, np.empty(2))


def test_the_form_is_the_narrowest_and_the_guard_is_loud() -> None:
    assert not needs_words(2**62 - 1)
    assert needs_words(2**62)
    with pytest.raises(OverflowError, match="127 bits"):
        needs_words(2**126)


@given(st.integers(0, 2**128 - 1))
def test_words_of_files(number: int) -> None:
    assert number_of(words_of(number)) == number
    assert len(words_of(number)) == 1 + (number >= 2**64)


@pytest.mark.parametrize("words", [[], [1, 2, 3]])
def test_a_number_has_one_word_or_two(words: list[int]) -> None:
    with pytest.raises(ValueError, match=f"{len(words)} words instead of 1 or 2"):
        number_of(words)


def test_stored_sums_are_checked() -> None:
    def stored(sums: Any) -> StoredArrays:
        return StoredArrays({"sums": sums})

    small, large = np.array([5, -7]), wide([2**70, -3])
    assert np.array_equal(take_sums(stored(small), "sums", 2, bound=7), small)
    assert np.array_equal(take_sums(stored(large), "sums", 2, bound=2**70), large)
    for sums, bound in ((small, 6), (large, 2**70 - 1), (np.array([-(2**63), 0]), 2**61)):
        with pytest.raises(ValueError, match="that no rows have"):
            take_sums(stored(sums), "sums", 2, bound=bound)
    for sums, bound in (
        (as_wide(small), 7),
        (small, 2**62),
        (np.array([[1], [2]]), 2**62),
    ):  # not the form of the bound
        with pytest.raises(ValueError, match="instead of"):
            take_sums(stored(sums), "sums", 2, bound=bound)
    with pytest.raises(ValueError, match="narrowest"):
        number_of([5, 0])
