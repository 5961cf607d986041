"""Counts of the cells of trees, by the compiled loop and row by row."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hammemo import _native
from hammemo.features.cells.forest import LEVELS, Forest
from hammemo.features.cells.grow_forest import grow_forest

pytestmark = pytest.mark.quick


def grow(codes: np.ndarray, targets: np.ndarray, seed: int) -> Forest:
    """Return a forest that rows (m, columns) grow, each once."""
    words = np.sort(np.random.default_rng(seed).integers(0, 2**63, len(codes)).astype(np.uint64))
    return grow_forest(
        codes=np.ascontiguousarray(codes.T),
        is_name=np.zeros(codes.shape[1], np.uint8),
        targets=targets,
        counts=np.ones(len(codes), np.int64),
        words=words,
        n_plain=codes.shape[1],
        seed=seed,
    )


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 60), st.integers(1, 4), st.integers(1, 2**40))
def test_counts_are_those_of_a_loop_over_rows(seed: int, n_rows: int, n_labels: int, most_weight: int) -> None:
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, 5, (n_rows, 3)).astype(np.uint8)
    labels = rng.integers(0, n_labels, n_rows)
    weights = rng.integers(1, most_weight + 1, n_rows)
    forest = grow(codes, labels, seed)
    leaves = forest.leaves(codes)
    counts = forest.counts(leaves, labels, weights, n_labels)
    expected = np.zeros_like(counts)
    for row in range(n_rows):
        for tree in range(forest.n_trees):
            for level in range(len(LEVELS)):
                cell = forest.cell_rows[level, leaves[row, tree]]
                expected[cell, labels[row]] += weights[row]
    assert counts.dtype == np.int64
    assert np.array_equal(counts, expected)


@pytest.mark.parametrize(
    ("leaves", "labels", "weights", "error"),
    [
        ([[2]], [0], [1], "outside the trees"),
        ([[-1]], [0], [1], "outside the trees"),
        ([[0]], [3], [1], "outside the counts"),
        ([[0]], [-1], [1], "outside the counts"),
        ([[0]], [0, 1], [1], "one label and one weight"),
        ([[0]], [0], [1, 1], "one label and one weight"),
    ],
)
def test_what_lies_outside_is_refused(
    leaves: list[list[int]], labels: list[int], weights: list[int], error: str
) -> None:
    counts = np.zeros((2, 3), np.int64)
    with pytest.raises(ValueError, match=error):
        _native.count_labels(
            leaves=np.array(leaves, np.int32),
            labels=np.array(labels, np.int32),
            weights=np.array(weights, np.int64),
            counts=counts,
        )
    assert not counts.any()
