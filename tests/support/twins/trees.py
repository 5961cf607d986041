"""Trees grown and read row by row: the twins of ``src/native/trees``, equal to the bit."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hammemo.tokens.hashing import mix, mix_one

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hammemo._arrays.types import Bools, Floats, Ints, Words
    from hammemo.features.cells.forest import Forest

_GOLDEN = 0x9E3779B97F4A7C15
"""The odd number by which SplitMix64 counts: 2**64 divided by the golden ratio."""

_LEAF = -1
"""What stands for the column of a node that is a leaf."""

_BAG_SHARE = 0.632
"""The share of rows that grow a tree: 1 - 1/e, as with a bootstrap sample."""

_DRAWN_COPIES = 32
"""Copies of one row that are drawn one by one; of further copies, a share of `_BAG_SHARE` is in."""


class TreeArrays(NamedTuple):
    """A tree, its nodes depth first."""

    column: NDArray[np.int32]
    """The column that a node splits by, or -1 for a leaf."""
    step: NDArray[np.uint8]
    """The last step of a number that goes left, or the name that does."""
    right: NDArray[np.int32]
    """The right child; the left one follows its parent."""
    weight: Ints
    """The weight of the rows that grew the node."""


class Split(NamedTuple):
    """A column and the step at which a node divides its rows."""

    column: int
    step: int


class _Rules(NamedTuple):
    """How a tree is grown."""

    min_weight: int
    """The weight that each child has at least."""
    max_columns: int
    """Columns that are tried at each node."""
    words: Words | None
    """Hashes of rows, which choose one step at random, or None: all steps are tried."""


class _TrainingRows(NamedTuple):
    """All rows that trees grow from."""

    codes: NDArray[np.uint8]
    """Shape (columns, m)."""
    names: NDArray[np.uint8]
    """Which columns hold names: shape (columns,)."""
    targets: NDArray[np.int32]
    """Labels below `n_labels` or, where that is 0, numbers: shape (m,)."""
    weights: NDArray[np.int32]
    """Shape (m,)."""
    n_labels: int

    def sum_targets(self, rows: NDArray[np.int32]) -> Ints:
        """Return the weight of some rows by label; of numbers, their weight and their sum."""
        weights = self.weights[rows].astype(np.int64)
        if not self.n_labels:
            return np.array([weights.sum(), (weights * self.targets[rows]).sum()])
        by_label = np.bincount(self.targets[rows], weights=weights, minlength=self.n_labels)
        return by_label.astype(np.int64)

    def weigh(self, sums: Ints) -> int:
        """Return the weight of rows with these sums."""
        if self.n_labels:
            return int(sums.sum())
        return int(sums[0])

    def score(self, sums: Ints) -> float:
        """Return how alike the targets of rows with these sums are, times their weight.

        Of labels: the sum of squared weights, divided by the weight. Of numbers: the squared sum,
        divided by the weight.
        """
        if self.n_labels:
            return int((sums**2).sum()) / self.weigh(sums)
        return float(sums[1]) * float(sums[1]) / float(sums[0])

    def measure_impurity(self, rows: NDArray[np.int32], sums: Ints) -> float:
        """Return what one row changes a score by: the Gini impurity or, of numbers, the variance.

        The squares of numbers are added in the order of rows, as the compiled loop adds them: a sum
        by NumPy would differ in the last bits.
        """
        weight = float(self.weigh(sums))
        if self.n_labels:
            return 1 - float((sums**2).sum()) / (weight * weight)
        targets = self.targets[rows].astype(np.int64)
        weighted = (self.weights[rows] * targets).astype(np.float64)
        squares = 0.0
        for square in (weighted * targets).tolist():
            squares += square
        mean = float(sums[1]) / weight
        return max(squares / weight - mean * mean, 0.0)


def grow_tree(
    codes: NDArray[np.uint8],
    names: NDArray[np.uint8],
    targets: NDArray[np.int32],
    weights: NDArray[np.int32],
    bag: NDArray[np.int32],
    n_labels: int,
    min_weight: int,
    max_columns: int,
    random_split: bool,
    seed: int,
    words: Words,
) -> TreeArrays:
    """Grow a tree from the rows in the bag.

    Targets are labels below `n_labels` or, where that is 0, numbers.

    Shapes
    ------
    codes : (columns, m); targets, weights, words : (m,)
    """
    training_rows = _TrainingRows(codes, names, targets, weights, n_labels=n_labels)
    column: list[int] = []
    step: list[int] = []
    right: list[int] = []
    weight: list[int] = []
    # of each open node: its rows, the node whose right child it is (or -1), and a hash of the turns
    # from the root to it
    open_nodes = [(bag, -1, seed)]
    while open_nodes:
        rows, parent, path = open_nodes.pop()
        node = len(column)
        if parent >= 0:
            right[parent] = node
        sums = training_rows.sum_targets(rows)
        node_weight = training_rows.weigh(sums)
        split = None
        if node_weight >= 2 * min_weight and len(np.unique(targets[rows])) > 1:
            rules = _Rules(min_weight, max_columns, words[rows] if random_split else None)
            split = _find_best_split(training_rows, rows, sums, rules=rules, path=path)
        right.append(0)
        weight.append(node_weight)
        if split is None:
            column.append(_LEAF)
            step.append(0)
            continue
        column.append(split.column)
        step.append(split.step)
        goes_left = _goes_left(codes[split.column, rows], bool(names[split.column]), split.step)
        right_path = mix_one((path + 2 * _GOLDEN) % 2**64)
        left_path = mix_one((path + _GOLDEN) % 2**64)
        open_nodes.append((rows[~goes_left], node, right_path))
        open_nodes.append((rows[goes_left], -1, left_path))  # the last is the next: depth first
    return TreeArrays(
        column=np.array(column, np.int32),
        step=np.array(step, np.uint8),
        right=np.array(right, np.int32),
        weight=np.array(weight, np.int64),
    )


def _goes_left(codes: NDArray[np.uint8], is_name: bool, step: int) -> Bools:
    """Say which rows go left: those of the name, or those up to the step."""
    goes_left: Bools = codes == step if is_name else codes <= step
    return goes_left


def _find_best_split(
    training_rows: _TrainingRows, rows: NDArray[np.int32], sums: Ints, *, rules: _Rules, path: int
) -> Split | None:
    """Return the split with the highest score, each with noise of up to one row; or None.

    Columns come in the order of hashes of the path and the column; those with one value do not
    count as tried.
    """
    best = None
    best_score = -1.0  # below the score of any split
    n_tried = 0
    impurity = training_rows.measure_impurity(rows, sums)
    keys = [
        mix_one(path ^ mix_one(_GOLDEN * (column + 3) % 2**64))
        for column in range(len(training_rows.codes))
    ]
    for key, column in sorted((key, column) for column, key in enumerate(keys)):
        if n_tried == rules.max_columns:
            break
        codes = training_rows.codes[column, rows]
        if codes.min() == codes.max():
            continue
        n_tried += 1
        is_name = bool(training_rows.names[column])
        for step in _choose_steps(codes, is_name, key, rules.words):
            left = training_rows.sum_targets(rows[_goes_left(codes, is_name, step)])
            right = sums - left
            if min(training_rows.weigh(left), training_rows.weigh(right)) < rules.min_weight:
                continue
            score = training_rows.score(left) + training_rows.score(right)
            # a uniform number from the first 53 bits of a hash: rows decide only what exceeds it
            score += impurity * (mix_one(key ^ _GOLDEN * (step + 1) % 2**64) >> 11) * 2.0**-53
            if score > best_score:
                best = Split(column, step)
                best_score = score
    return best


def _choose_steps(
    codes: NDArray[np.uint8], is_name: bool, key: int, words: Words | None
) -> list[int]:
    """Return the steps that are tried: one at random, by hashes of rows and the key, or all."""
    if words is not None and is_name:
        # the name of the first row, in the order of hashes, whose hash is not below the key's
        place = int(np.searchsorted(words, np.uint64(mix_one(key))))
        return [int(codes[place % len(codes)])]
    if words is not None:
        return [_draw_step(int(codes.min()), int(codes.max()), key)]
    present: list[int] = np.unique(codes).tolist()
    if is_name:
        return present
    # a cut lies in the middle between two steps that occur
    return [code + (following - code - 1) // 2 for code, following in pairwise(present)]


def _draw_step(low: int, high: int, key: int) -> int:
    """Return the first byte of a chain of hashes that is at least `low` and below `high`."""
    while True:
        key = (key + _GOLDEN) % 2**64
        for step in mix_one(key).to_bytes(8, "little"):
            if low <= step < high:
                return step


def copies_in_bag(words: Words, counts: Ints, tree: int) -> Ints:
    """Return how many copies of rows with these hashes grow a tree."""
    n_drawn = (np.maximum(counts - _DRAWN_COPIES, 0) * _BAG_SHARE).astype(np.int64)
    for copy in range(min(int(counts.max(initial=0)), _DRAWN_COPIES)):
        rows = np.flatnonzero(counts > copy)
        copy_words = words[rows]
        if copy > 0:
            copy_words = mix(copy_words + np.uint64(copy))
        tree_words = mix(copy_words + np.uint64(((tree + 1) * _GOLDEN) % 2**64))
        # the first 24 bits of the hash are a uniform number
        n_drawn[rows] += (tree_words >> np.uint64(40)) < np.uint64(int(_BAG_SHARE * 2**24))
    return n_drawn


def leaves(
    column: NDArray[np.int32],
    step: NDArray[np.uint8],
    right: NDArray[np.int32],
    starts: Ints,
    names: NDArray[np.uint8],
    rows: NDArray[np.uint8],
) -> NDArray[np.int32]:
    """Return the leaf of each row in each tree, counted from the first node of all.

    Shapes
    ------
    rows : (m, columns); returned : (m, trees)
    """
    nodes = np.tile(starts[:-1], (len(rows), 1))
    for place, row in enumerate(rows):
        for tree, start in enumerate(starts[:-1].tolist()):
            node = start
            while column[node] != _LEAF:
                is_name = bool(names[column[node]])
                if _goes_left(row[column[node]], is_name, step[node]):
                    node = node + 1
                else:
                    node = start + int(right[node])
            nodes[place, tree] = node
    return nodes.astype(np.int32)


class Cells(NamedTuple):
    """Where the cells of a forest are, as `Forest` has it."""

    parents: Ints
    nodes: Ints
    numbers: Ints


def find_cells(forest: Forest, n_levels: int) -> Cells:
    """Return the parent of each node, and the cell of each level and node: node by node."""
    n_nodes = len(forest.column)
    parents = np.arange(n_nodes)
    nodes = np.empty((n_levels, n_nodes), np.int64)
    numbers = np.empty((n_levels, n_nodes), np.int64)
    for start, end in pairwise(forest.starts.tolist()):
        for node in range(start, end):
            if forest.column[node] != _LEAF:
                parents[node + 1] = node
                parents[start + forest.right[node]] = node
        for level in range(n_levels):
            cells = []
            for node in range(start, end):
                cell = node
                while cell != start and forest.level[cell] <= level:
                    cell = int(parents[cell])
                nodes[level, node] = cell
                cells.append(cell)
            numbers[level, start:end] = np.searchsorted(np.unique(cells), cells)
    return Cells(parents, nodes, numbers)


def number_features(
    leaves: NDArray[np.int32],
    is_out: NDArray[np.uint8],
    cells: NDArray[np.int32],
    counts: Ints,
    sums: Ints,
    numbers: Ints,
    amounts: Floats,
    out: Floats,
) -> None:
    """Write the features of rows (``src/native/trees/tree_features.hpp``).

    Each is a mean over the trees of a kind that a row did not grow: of (sum) / (count + amount) in
    the row's cell, without the row itself.
    """
    n_kinds = out.shape[1] // (len(cells) * len(amounts))
    means = out.reshape(len(leaves), n_kinds, len(cells), len(amounts))
    means[:] = 0
    n_trees = np.zeros((len(leaves), n_kinds), np.int64)
    for tree in range(leaves.shape[1]):
        kind = tree % n_kinds
        rows = np.flatnonzero(is_out[:, tree])
        n_trees[rows, kind] += 1
        for level, cell_of_leaf in enumerate(cells):
            row_cells = cell_of_leaf[leaves[rows, tree]]
            other_counts = np.maximum(counts[row_cells] - 1, 0).astype(float)
            other_sums = (sums[row_cells] - numbers[rows]).astype(float)
            means[rows, kind, level] += other_sums[:, None] / (other_counts[:, None] + amounts)
    means /= np.maximum(n_trees, 1)[:, :, None, None]


def leaf_sums(forest: Forest, values: Floats, codes: NDArray[np.uint8]) -> Floats:
    """Return the sum of the values of each row's leaves, tree by tree: (m, outputs)."""
    total = np.zeros((len(codes), values.shape[1]))
    for tree_leaves in leaves_of(forest, codes).T:
        total += values[tree_leaves]
    return total


def leaves_of(forest: Forest, codes: NDArray[np.uint8]) -> NDArray[np.int32]:
    """Do what `Forest.leaves` does."""
    return leaves(
        column=forest.column,
        step=forest.step,
        right=forest.right,
        starts=forest.starts,
        names=forest.is_name,
        rows=codes,
    )
