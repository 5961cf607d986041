"""Counts of the cells of trees, by the compiled loop and row by row."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hammemo import _native
from hammemo.features.cells.forest import LEVELS, Forest
from hammemo.features.cells.grow_forest import grow_forest
from twins import trees as plain_trees

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


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 300), st.integers(1, 3))
def test_cells_are_those_of_the_plain_twin(seed: int, n_rows: int, n_labels: int) -> None:
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, 9, (n_rows, 3)).astype(np.uint8)
    forest = grow(codes, rng.integers(0, n_labels, n_rows), seed)
    plain = plain_trees.find_cells(forest, len(LEVELS))
    assert np.array_equal(forest.parents, plain.parents)
    assert np.array_equal(forest.cell_nodes, plain.nodes)
    assert np.array_equal(forest.cell_numbers, plain.numbers)


def test_arrays_of_other_shapes_are_refused() -> None:
    codes = np.array([[1], [2], [3], [4]], np.uint8)
    forest = grow(codes, np.array([0, 1, 0, 1]), 0)
    n = len(forest.column)
    nodes = np.empty((2, n), np.int64)
    numbers = np.empty((2, n), np.int32)
    with pytest.raises(ValueError, match="one cell for each level and node"):
        forest.compiled.cells(levels=forest.level[1:], parents=np.empty(n, np.int64), nodes=nodes, numbers=numbers)
    with pytest.raises(ValueError, match="one cell for each level and node"):
        forest.compiled.cells(levels=forest.level, parents=np.empty(n, np.int64), nodes=nodes[:1], numbers=numbers)
    cells = np.zeros((1, n), np.int32)
    values = np.ones((n, 1), np.int64)
    with pytest.raises(ValueError, match="one row of values for each node"):
        forest.compiled.add_leaves(cells=cells, values=values[1:], out=np.zeros((1, 1), np.int64))
    for cell in (-1, 1):
        cells[0, 0] = cell
        with pytest.raises(ValueError, match="outside the sums"):
            forest.compiled.add_leaves(cells=cells, values=values, out=np.zeros((1, 1), np.int64))


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
