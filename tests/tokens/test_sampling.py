"""Samples that are drawn batch by batch, and the most frequent labels: each against its plain version."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hammemo.tokens.labels import most_frequent_labels
from hammemo.tokens.window_samples import UniformSample

pytestmark = pytest.mark.quick

batch_sizes = st.lists(st.integers(0, 9), max_size=8)


@given(sizes=batch_sizes, most=st.integers(1, 30), seed=st.integers(-(2**63), 2**63), sifted=st.booleans())
def test_a_sample_is_the_rows_with_the_smallest_numbers(sizes: list[int], most: int, seed: int, sifted: bool) -> None:
    sample, first = UniformSample(most, seed), 0
    for size in sizes:
        rows = np.arange(first, first + size)
        numbers = sample.draw(size)
        if sifted:
            staying = sample.may_stay(numbers)
            rows, numbers = rows[staying], numbers[staying]
        sample.add(numbers, rows, np.array([f"row {row}" for row in rows], object))
        first += size
    drawn = np.random.Generator(np.random.Philox(seed % 2**64)).random(first)
    expected = sorted(np.argsort(drawn)[:most].tolist())
    assert len(sample) == len(expected)
    if sizes:
        assert sample.columns[0].tolist() == expected
        assert sample.columns[1].tolist() == [f"row {row}" for row in expected]


def test_tokens_of_different_types_stay_what_they_are() -> None:
    sample = UniformSample(9, seed=0)
    batches: list[Any] = [np.array([[1, 2]]), np.array([["1", "x"]]), np.array([[0.5, 3.0]])]
    for batch in batches:
        sample.add(sample.draw(1), batch)
    assert sample.columns[0].tolist() == [[1, 2], ["1", "x"], [0.5, 3.0]]


@given(labels=st.lists(st.sampled_from("abcdefg"), min_size=1), number=st.integers(1, 9))
def test_the_most_frequent_labels_are_those_of_a_count(labels: list[str], number: int) -> None:
    ranked = sorted(Counter(labels).items(), key=lambda item: (-item[1], item[0]))
    assert most_frequent_labels(np.array(labels), number) == sorted(label for label, _ in ranked[:number])


@pytest.mark.parametrize("number", [0, -1])
def test_no_label_at_all_is_refused(number: int) -> None:
    with pytest.raises(ValueError, match="at least one label"):
        most_frequent_labels(np.array([1, 2]), number)
