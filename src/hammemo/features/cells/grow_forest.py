"""Grows trees of thresholds, on some of the rows.

Three kinds of trees see the rows differently: the best of one random cut in each column, one random
cut in one random column, and the best cut in a random third of all columns and their differences.

A row grows a tree if a hash of the row and the tree says so (63 % of the rows do), so that the
other rows can tell how far the tree is to be trusted; rows outside the growing sample grow no
tree. Copies of a row are drawn one by one: a row that occurs often grows nearly every tree with
some copies and judges it with the others.

Compiled code (``src/native/trees``) grows the trees.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from hammemo import _native
from hammemo._arrays.threads import in_threads
from hammemo._progress import advance
from hammemo.features.cells.forest import KINDS, LEVELS, TREES_OF_A_KIND, Forest
from hammemo.tokens.hashing import key_words

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hammemo._arrays.types import Bools, Ints, Words

GROWING_ROWS: Final = 20_000
"""The most distinct rows that grow trees."""

_NODE_WORK: Final = 2**22
"""Rows times columns that one node of a tree looks at, at most."""

_LEAST_COLUMNS: Final = 16
"""Columns that a node looks at however many rows there are, where its kind looks at so many."""

_MOST_WEIGHT: Final = 2**30
"""The weights of all rows of a tree together are at most this, so that sums have 32 bits."""


class ForestRules(NamedTuple):
    """How trees are grown.

    Parameters
    ----------
    of_a_kind : int
        How many trees of each kind.
    are_numbers : bool
        Whether targets are numbers, and the best cuts are looked for in all columns: a third is too
        few for numbers.
    least : int
        Growing rows of a leaf, at least.
    first : int
        The number of the first tree, so that the bags of two forests differ.
    """

    of_a_kind: int = TREES_OF_A_KIND
    are_numbers: bool = False
    least: int = LEVELS[0]
    first: int = 0


LABEL_TREES: Final = ForestRules()
"""How the trees of a model of labels are grown."""


class _Tree(NamedTuple):
    """The nodes of one tree, as in `Forest`, and the weight of the growing rows of each."""

    column: NDArray[np.int32]
    step: NDArray[np.uint8]
    right: NDArray[np.int32]
    weight: Ints


def grow_forest(
    *,
    codes: NDArray[np.uint8],
    is_name: NDArray[np.uint8],
    targets: Ints,
    counts: Ints,
    words: Words,
    n_plain: int,
    seed: int,
    rules: ForestRules = LABEL_TREES,
) -> Forest:
    """Return trees that distinct rows grow, with their counts as weights.

    Parameters
    ----------
    codes : ndarray of uint8, shape (columns, m)
        The bytes of rows, column by column.
    is_name : ndarray of uint8, shape (columns,)
        Whether each column of bytes holds names.
    targets : ndarray of int64, shape (m,)
        Labels, or numbers of 31 bits where the rules say so.
    counts : ndarray of int64, shape (m,)
        How often each row occurs.
    words : ndarray of uint64, shape (m,)
        The hash of each row, ascending: decides which trees it grows.
    n_plain : int
        Columns of bytes that are no differences; they come first.
    seed : int
        Decides the random cuts.
    """
    n_labels = 0 if rules.are_numbers else int(targets.max()) + 1
    most_copies = max(1, _MOST_WEIGHT // len(counts))
    small_targets = targets.astype(np.int32)

    def grow_tree(tree: int) -> _Tree:
        kind = KINDS[tree % len(KINDS)]
        is_best = kind == "best cuts"
        width = len(codes) if is_best else n_plain  # only best cuts see differences of columns

        # The bag: the copies of rows that grow this tree, at least one.
        copies = count_copies_in_bag(words, counts, rules.first + tree)
        weights = np.minimum(copies, most_copies).astype(np.int32)
        if not weights.any():
            weights[0] = 1
        bag = np.flatnonzero(weights).astype(np.int32)

        # How many columns a node looks at.
        if kind == "random cuts of one column":
            n_columns = 1
        elif is_best and not rules.are_numbers:
            n_columns = -(-width // 3)
        else:
            n_columns = width
        affordable = max(_LEAST_COLUMNS, _NODE_WORK // len(bag))
        arrays = _native.grow_tree(
            codes=codes[:width],
            names=is_name[:width],
            targets=small_targets,
            weights=weights,
            bag=bag,
            n_labels=n_labels,
            min_weight=rules.least,
            max_columns=max(1, min(n_columns, affordable)),
            random_split=not is_best,
            seed=key_words(seed, f"tree {rules.first + tree}")[0],
            words=words,
        )
        return _Tree._make(arrays)

    trees = in_threads(grow_tree, range(rules.of_a_kind * len(KINDS)), advance)
    weights = np.concatenate([tree.weight for tree in trees])
    return Forest(
        column=np.concatenate([tree.column for tree in trees]),
        step=np.concatenate([tree.step for tree in trees]),
        right=np.concatenate([tree.right for tree in trees]),
        level=np.searchsorted(LEVELS, weights, side="right").astype(np.uint8),
        starts=np.cumsum([0, *(len(tree.column) for tree in trees)]).astype(np.int64),
        is_name=is_name,
    )


def count_copies_in_bag(words: Words, counts: Ints, tree: int) -> Ints:
    """Return how many copies of rows with these hashes grow a tree, if the rows grow any.

    The first 32 copies of a row are drawn one by one; of further ones 63 % grow the tree.
    """
    copies = np.empty(len(words), np.int64)
    _native.copies_in_bag(words, counts, tree, copies)
    return copies


def mark_out_of_bag(
    forest: Forest, words: Words, counts: Ints, last_word: int, first: int = 0
) -> Bools:
    """Return whether rows with these hashes have copies that did not grow a tree: (m, trees).

    Rows with hashes above the last one grew none; `first` is the number of the first tree.
    """
    is_beyond = words > np.uint64(last_word)
    trees = range(first, first + forest.n_trees)
    bags = [count_copies_in_bag(words, counts, tree) for tree in trees]
    # Tree by tree in memory: rows of some trees are then found in a few long passes.
    return np.stack([is_beyond | (copies < counts) for copies in bags]).T
