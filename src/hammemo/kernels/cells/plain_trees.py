"""The plain twins of the compiled trees (``src/native/trees``): what they do, said in Python, to the bit."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hammemo.tokens.hashing import mix_one

if TYPE_CHECKING:
    from numpy.typing import NDArray

_GOLDEN = 0x9E3779B97F4A7C15
_LEAF = -1

TreeArrays = tuple["NDArray[np.int32]", "NDArray[np.uint8]", "NDArray[np.int32]", "NDArray[np.int64]"]
Split = tuple[int, int]


class _Draws:
    """Random words of one node."""

    def __init__(self, seed: int, node: int) -> None:
        self._state = mix_one((seed + _GOLDEN * (node + 1)) % 2**64)

    def below(self, size: int) -> int:
        self._state = (self._state + _GOLDEN) % 2**64
        return mix_one(self._state) % size


class _TrainingRows(NamedTuple):
    """All rows that trees grow from: codes (columns, m), which columns hold names, targets and weights (m,)."""

    codes: NDArray[np.uint8]
    names: NDArray[np.uint8]
    targets: NDArray[np.int32]
    weights: NDArray[np.int32]
    n_labels: int

    def sums(self, rows: NDArray[np.int32]) -> NDArray[np.int64]:
        """Return the weight of some rows by label; of numbers, their weight and their sum."""
        weights = self.weights[rows].astype(np.int64)
        if not self.n_labels:
            return np.array([weights.sum(), (weights * self.targets[rows]).sum()])
        return np.bincount(self.targets[rows], weights=weights, minlength=self.n_labels).astype(np.int64)

    def weight(self, sums: NDArray[np.int64]) -> int:
        """Return the weight of rows with these sums."""
        return int(sums.sum() if self.n_labels else sums[0])

    def score(self, sums: NDArray[np.int64]) -> float:
        """Return how alike the targets of rows with these sums are, times their weight."""
        if self.n_labels:
            return int((sums**2).sum()) / self.weight(sums)
        return float(sums[1]) * float(sums[1]) / float(sums[0])


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
) -> TreeArrays:
    """Return the column, the step, the right child and the weight of each node of a tree, depth first.

    Targets are labels below `n_labels` or, where that is 0, numbers.

    Shapes
    ------
    codes : (columns, m); targets, weights : (m,)
    """
    every = _TrainingRows(codes, names, targets, weights, n_labels)
    column: list[int] = []
    step: list[int] = []
    right: list[int] = []
    weight: list[int] = []
    open_nodes: list[tuple[NDArray[np.int32], int]] = [(bag, -1)]  # rows, and the node whose right child it is
    while open_nodes:
        rows, parent = open_nodes.pop()
        node = len(column)
        if parent >= 0:
            right[parent] = node
        sums = every.sums(rows)
        total = every.weight(sums)
        split = None
        if total >= 2 * min_weight and len(np.unique(targets[rows])) > 1:
            draws = _Draws(seed, node)
            split = _best_split(every, rows, sums, min_weight, max_columns, random_split, draws)
        column.append(_LEAF if split is None else split[0])
        step.append(0 if split is None else split[1])
        right.append(0)
        weight.append(total)
        if split is not None:
            goes_left = _left(codes[split[0], rows], bool(names[split[0]]), split[1])
            open_nodes += [(rows[~goes_left], node), (rows[goes_left], -1)]
    return np.array(column, np.int32), np.array(step, np.uint8), np.array(right, np.int32), np.array(weight, np.int64)


def _left(codes: NDArray[np.uint8], is_name: bool, step: int) -> NDArray[np.bool_]:
    return codes == step if is_name else codes <= step


def _best_split(
    every: _TrainingRows,
    rows: NDArray[np.int32],
    sums: NDArray[np.int64],
    min_weight: int,
    max_columns: int,
    random_split: bool,
    draws: _Draws,
) -> Split | None:
    best, best_score, tried = None, -1.0, 0
    order = list(range(len(every.codes)))
    for place in range(len(order)):
        if tried == max_columns:
            break
        other = place + draws.below(len(order) - place)
        order[place], order[other] = order[other], order[place]
        column = order[place]
        held = every.codes[column, rows]
        low, high = int(held.min()), int(held.max())
        if low == high:
            continue
        tried += 1
        is_name = bool(every.names[column])
        for step in _steps(held, is_name, low, high, draws if random_split else None):
            goes_left = _left(held, is_name, step)
            left = every.sums(rows[goes_left])
            score = _score(every, left, sums - left, min_weight)
            if score > best_score:
                best, best_score = (column, step), score
    return best


def _steps(held: NDArray[np.uint8], is_name: bool, low: int, high: int, draws: _Draws | None) -> list[int]:
    """Return the steps that are tried: one at random, or all."""
    if draws is not None:
        return [int(held[draws.below(len(held))])] if is_name else [low + draws.below(high - low)]
    present: list[int] = np.unique(held).tolist()
    if is_name:
        return present
    return [code + (following - code - 1) // 2 for code, following in pairwise(present)]


def _score(every: _TrainingRows, left: NDArray[np.int64], right: NDArray[np.int64], min_weight: int) -> float:
    if every.weight(left) < min_weight or every.weight(right) < min_weight:
        return -1.0
    return every.score(left) + every.score(right)


def leaves(
    column: NDArray[np.int32],
    step: NDArray[np.uint8],
    right: NDArray[np.int32],
    starts: NDArray[np.int64],
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
