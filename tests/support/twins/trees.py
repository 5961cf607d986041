"""The twins of the compiled trees (``src/native/trees``): what they do, said in Python, to the bit."""

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
_LEAF = -1
_BAG_SHARE = 0.632
_DRAWN_COPIES = 32

TreeArrays = tuple["NDArray[np.int32]", "NDArray[np.uint8]", "NDArray[np.int32]", "Ints"]
Split = tuple[int, int]


class _TrainingRows(NamedTuple):
    """All rows that trees grow from: codes (columns, m), which columns hold names, targets and weights (m,)."""

    codes: NDArray[np.uint8]
    names: NDArray[np.uint8]
    targets: NDArray[np.int32]
    weights: NDArray[np.int32]
    n_labels: int

    def sums(self, rows: NDArray[np.int32]) -> Ints:
        """Return the weight of some rows by label; of numbers, their weight and their sum."""
        weights = self.weights[rows].astype(np.int64)
        if not self.n_labels:
            return np.array([weights.sum(), (weights * self.targets[rows]).sum()])
        return np.bincount(self.targets[rows], weights=weights, minlength=self.n_labels).astype(np.int64)

    def weight(self, sums: Ints) -> int:
        """Return the weight of rows with these sums."""
        return int(sums.sum() if self.n_labels else sums[0])

    def score(self, sums: Ints) -> float:
        """Return how alike the targets of rows with these sums are, times their weight."""
        if self.n_labels:
            return int((sums**2).sum()) / self.weight(sums)
        return float(sums[1]) * float(sums[1]) / float(sums[0])

    def one_row(self, rows: NDArray[np.int32], sums: Ints) -> float:
        """Return what one row changes a score by: the impurity; of numbers, the variance, summed in row order."""
        whole = float(self.weight(sums))
        if self.n_labels:
            return 1 - float((sums**2).sum()) / (whole * whole)
        targets, squares = self.targets[rows].astype(np.int64), 0.0
        for square in ((self.weights[rows] * targets).astype(np.float64) * targets).tolist():
            squares += square
        mean = float(sums[1]) / whole
        return max(squares / whole - mean * mean, 0.0)


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
    """Return the column, the step, the right child and the weight of each node of a tree, depth first.

    Targets are labels below `n_labels` or, where that is 0, numbers.

    Shapes
    ------
    codes : (columns, m); targets, weights, words : (m,)
    """
    every = _TrainingRows(codes, names, targets, weights, n_labels)
    column: list[int] = []
    step: list[int] = []
    right: list[int] = []
    weight: list[int] = []
    open_nodes = [(bag, -1, seed)]  # rows, the node whose right child it is, and a hash of the turns from the root
    while open_nodes:
        rows, parent, path = open_nodes.pop()
        node = len(column)
        if parent >= 0:
            right[parent] = node
        sums = every.sums(rows)
        total = every.weight(sums)
        split = None
        if total >= 2 * min_weight and len(np.unique(targets[rows])) > 1:
            drawn_by = words[rows] if random_split else None
            split = _best_split(every, rows, sums, min_weight, max_columns, path, drawn_by)
        column.append(_LEAF if split is None else split[0])
        step.append(0 if split is None else split[1])
        right.append(0)
        weight.append(total)
        if split is not None:
            goes_left = _left(codes[split[0], rows], bool(names[split[0]]), split[1])
            right_path, left_path = (mix_one((path + turn * _GOLDEN) % 2**64) for turn in (2, 1))
            open_nodes += [(rows[~goes_left], node, right_path), (rows[goes_left], -1, left_path)]
    return np.array(column, np.int32), np.array(step, np.uint8), np.array(right, np.int32), np.array(weight, np.int64)


def _left(codes: NDArray[np.uint8], is_name: bool, step: int) -> Bools:
    return codes == step if is_name else codes <= step


def _best_split(
    every: _TrainingRows,
    rows: NDArray[np.int32],
    sums: Ints,
    min_weight: int,
    max_columns: int,
    path: int,
    words: Words | None,
) -> Split | None:
    best, best_score, tried = None, -1.0, 0
    one_row = every.one_row(rows, sums)
    keys = [mix_one(path ^ mix_one(_GOLDEN * (column + 3) % 2**64)) for column in range(len(every.codes))]
    for column in sorted(range(len(keys)), key=lambda column: (keys[column], column)):
        if tried == max_columns:
            break
        held, key = every.codes[column, rows], keys[column]
        low, high = int(held.min()), int(held.max())
        if low == high:
            continue
        tried += 1
        is_name = bool(every.names[column])
        for step in _steps(held, is_name, low, high, key, words):
            goes_left = _left(held, is_name, step)
            left = every.sums(rows[goes_left])
            score = _score(every, left, sums - left, min_weight)
            score += one_row * (mix_one(key ^ _GOLDEN * (step + 1) % 2**64) >> 11) * 2.0**-53 if score >= 0 else 0.0
            if score > best_score:
                best, best_score = (column, step), score
    return best


def _steps(held: NDArray[np.uint8], is_name: bool, low: int, high: int, key: int, words: Words | None) -> list[int]:
    """Return the steps that are tried: one at random, by the hashes of the rows and the key, or all."""
    if words is not None and is_name:
        place = int(np.searchsorted(words, np.uint64(mix_one(key))))
        return [int(held[place % len(held)])]
    while words is not None:
        key = (key + _GOLDEN) % 2**64
        inside = [step for step in mix_one(key).to_bytes(8, "little") if low <= step < high]
        if inside:
            return inside[:1]
    present: list[int] = np.unique(held).tolist()
    if is_name:
        return present
    return [code + (following - code - 1) // 2 for code, following in pairwise(present)]


def _score(every: _TrainingRows, left: Ints, right: Ints, min_weight: int) -> float:
    if every.weight(left) < min_weight or every.weight(right) < min_weight:
        return -1.0
    return every.score(left) + every.score(right)


def copies_in_bag(words: Words, counts: Ints, tree: int) -> Ints:
    """Return how many copies of rows with these hashes grow a tree."""
    found = (np.maximum(counts - _DRAWN_COPIES, 0) * _BAG_SHARE).astype(np.int64)
    for copy in range(min(int(counts.max(initial=0)), _DRAWN_COPIES)):
        rows = np.flatnonzero(counts > copy)
        of_copies = words[rows] if copy == 0 else mix(words[rows] + np.uint64(copy))
        drawn = mix(of_copies + np.uint64(((tree + 1) * _GOLDEN) % 2**64)) >> np.uint64(40)
        found[rows] += drawn < np.uint64(int(_BAG_SHARE * 2**24))
    return found


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
    found = np.tile(starts[:-1], (len(rows), 1))
    places = np.arange(len(rows))
    for tree, start in enumerate(starts[:-1].tolist()):
        nodes = found[:, tree]
        while (inside := column[nodes] != _LEAF).any():
            at = nodes[inside]
            codes = rows[places[inside], column[at]]
            goes_left = np.where(names[column[at]] > 0, codes == step[at], codes <= step[at])
            nodes[inside] = np.where(goes_left, at + 1, start + right[at])
    return found.astype(np.int32)


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
    """Write the features of rows (``src/native/trees/tree_features.hpp``)."""
    n_kinds = out.shape[1] // (len(cells) * len(amounts))
    means = out.reshape(len(leaves), n_kinds, len(cells), len(amounts))
    means[:], seen = 0, np.zeros((len(leaves), n_kinds), np.int64)
    for tree in range(leaves.shape[1]):
        rows = np.flatnonzero(is_out[:, tree])
        seen[rows, tree % n_kinds] += 1
        for level, of_level in enumerate(cells):
            at = of_level[leaves[rows, tree]]
            count, total = np.maximum(counts[at] - 1, 0).astype(float), (sums[at] - numbers[rows]).astype(float)
            means[rows, tree % n_kinds, level] += total[:, None] / (count[:, None] + amounts)
    means /= np.maximum(seen, 1)[:, :, None, None]


def leaf_sums(forest: Forest, values: Floats, codes: NDArray[np.uint8]) -> Floats:
    """Return the sum of what the leaves of rows say, tree by tree: (m, outputs)."""
    total = np.zeros((len(codes), values.shape[1]))
    for of_tree in leaves_of(forest, codes).T:
        total += values[of_tree]
    return total


def leaves_of(forest: Forest, codes: NDArray[np.uint8]) -> NDArray[np.int32]:
    """Do what `Forest.leaves` does."""
    return leaves(forest.column, forest.step, forest.right, forest.starts, forest.is_name, codes)
