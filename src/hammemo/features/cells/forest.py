"""Trees of thresholds whose nodes are cells: grown once, on some of the rows; counts come later, from all of them.

Three kinds of trees see the rows differently: the best of one random cut in each column, one random cut in one random
column, and the best cut in a random third of all columns and their differences. A row grows a tree if a hash of the row
and the tree says so (63 % of the rows do), so that the other rows can tell how far the tree is to be trusted; rows
outside the growing sample grow no tree. Copies of a row are drawn one by one: a row that occurs often grows nearly
every tree with some copies and judges it with the others. A leaf lies in larger cells: for each level, the smallest
node around it that held at least this many growing rows. Two rows match at the site (tree, level) if they lie in the
same one.

Compiled code (``src/native/trees``) grows the trees and finds the leaves.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from hammemo import _native
from hammemo._arrays.integers import row_pieces
from hammemo._arrays.threads import in_threads, thread_pieces
from hammemo._progress import advance
from hammemo._versions import cached_property
from hammemo.tokens.hashing import key_words

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hammemo._arrays.checked import StoredArrays
    from hammemo._arrays.types import Array, Bools, Floats, Ints, Words

LEVELS: Final = (2, 16, 128)
"""Growing rows that the cell of each level held at least."""

TREES_OF_A_KIND: Final = 24

KINDS: Final = ("random cuts", "random cuts of one column", "best cuts")


class ForestRules(NamedTuple):
    """How trees are grown.

    Parameters
    ----------
    of_a_kind : int
        How many trees of each kind.
    are_numbers : bool
        Whether targets are numbers, and the best cuts are looked for in all columns: a third is too few for numbers.
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

_NODE_WORK: Final = 2**22
"""Rows times columns that one node of a tree looks at, at most."""
_LEAF_ROWS: Final = 1000
"""Rows from which on a thread of its own pays."""
LEAF: Final = -1
_MAX_CUTS_OF_A_COLUMN: Final = 255
"""Cuts of one column on the way to a leaf: one fewer than a byte has values."""

_Tree = tuple["NDArray[np.int32]", "NDArray[np.uint8]", "NDArray[np.int32]", "Ints"]


@dataclass(frozen=True, eq=False)
class Forest:
    """Trees, one after the other; children are counted from the first node of their tree.

    Parameters
    ----------
    column : ndarray of int32
        Which column of bytes a node looks at; `LEAF` for a leaf.
    step : ndarray of uint8
        A row goes left if its byte is at most the step, or equals it in a column of names.
    right : ndarray of int32
        The right child; the left one is the next node.
    level : ndarray of uint8
        How many of `LEVELS` the growing rows of the node reach.
    starts : ndarray of int64, shape (trees + 1,)
        The first node of each tree, and the end.
    is_name : ndarray of uint8
        Whether each column of bytes holds names.
    """

    column: NDArray[np.int32]
    step: NDArray[np.uint8]
    right: NDArray[np.int32]
    level: NDArray[np.uint8]
    starts: Ints
    is_name: NDArray[np.uint8]

    @property
    def n_trees(self) -> int:
        """How many trees there are."""
        return len(self.starts) - 1

    @property
    def n_sites(self) -> int:
        """How many sites they are: one for each tree and level."""
        return self.n_trees * len(LEVELS)

    @property
    def kinds(self) -> Ints:
        """The kind of each tree, as a place in `KINDS`."""
        return np.arange(self.n_trees) % len(KINDS)

    @cached_property
    def parents(self) -> Ints:
        """The parent of each node, counted from the first node of all; a root is its own."""
        starts = np.repeat(self.starts[:-1], np.diff(self.starts))
        found = np.arange(len(self.column))
        inner = np.flatnonzero(self.column != LEAF)
        found[inner + 1] = inner
        found[starts[inner] + self.right[inner]] = inner
        return found

    @cached_property
    def cell_nodes(self) -> Ints:
        """For each level and node, the node that is its cell: itself, or the first ancestor that is large enough.

        Shapes
        ------
        (levels, nodes)
        """
        found = np.tile(np.arange(len(self.column)), (len(LEVELS), 1))
        for number, nodes in enumerate(found):
            small = self.level <= number
            nodes[small] = self.parents[small]
            while ((further := nodes[nodes]) != nodes).any():  # each round doubles the steps: a chain costs little
                nodes[:] = further
        return found

    @property
    def depth(self) -> int:
        """The most cuts on the way to a leaf."""
        above = self.parents
        steps = (above != np.arange(len(above))).astype(np.int64)
        while ((further := above[above]) != above).any():
            steps += steps[above]
            above = further
        return int(steps.max(initial=0))

    @cached_property
    def cell_numbers(self) -> NDArray[np.int32]:
        """For each level and node, the number of its cell among those of its tree and level: the token of the cell.

        Shapes
        ------
        (levels, nodes)
        """
        numbers = np.empty(self.cell_nodes.shape, np.int32)
        tree_of = np.repeat(np.arange(self.n_trees), np.diff(self.starts))
        for row, nodes in zip(numbers, self.cell_nodes, strict=True):
            distinct, ranks = np.unique(nodes, return_inverse=True)
            firsts = np.searchsorted(distinct, self.starts[:-1])
            row[:] = ranks - firsts[tree_of]
        return numbers

    @cached_property
    def cell_sizes(self) -> Ints:
        """How many cells each tree has on each level: (levels, trees)."""
        return np.maximum.reduceat(self.cell_numbers, self.starts[:-1], axis=1).astype(np.int64) + 1

    @cached_property
    def cell_rows(self) -> NDArray[np.int32]:
        """For each level and node, the row of its cell in a table of all cells, level by level, tree by tree.

        Shapes
        ------
        (levels, nodes)
        """
        sizes = self.cell_sizes
        firsts = np.cumsum(sizes.ravel()) - sizes.ravel()
        offsets = np.repeat(firsts.reshape(sizes.shape), np.diff(self.starts), axis=1)
        return np.ascontiguousarray(self.cell_numbers + offsets, np.int32)

    def counts(self, leaves: NDArray[np.int32], labels: Ints, weights: Ints, n_labels: int) -> Ints:
        """Return how often each label occurs in each cell, in the order of `cell_rows`.

        Rows are counted at their leaves; a cell holds what its leaves hold.

        Shapes
        ------
        leaves : (m, trees); labels, weights : (m,); returned : (cells, L)
        """
        at_nodes = np.zeros(len(self.column) * n_labels)  # floats are exact: all weights together are below 2^53
        # a 16th of the usual size: the arrays that are made of a piece take 2 MiB each in place of 32
        for part in row_pieces(len(leaves), 16 * self.n_trees):
            keys = leaves[part].astype(np.int64) * n_labels + labels[part, None]
            repeated = np.repeat(weights[part], self.n_trees)
            at_nodes += np.bincount(keys.ravel(), weights=repeated, minlength=len(at_nodes))
        nodes = np.flatnonzero(self.column == LEAF)
        held = at_nodes.reshape(-1, n_labels)[nodes]
        size = int(self.cell_sizes.sum())
        places = (self.cell_rows[:, nodes].astype(np.int64)[:, :, None] * n_labels + np.arange(n_labels)).ravel()
        sums = np.bincount(places, weights=np.tile(held.ravel(), len(LEVELS)), minlength=size * n_labels)
        return np.asarray(sums.astype(np.int64).reshape(size, n_labels))

    def leaves(self, codes: NDArray[np.uint8]) -> NDArray[np.int32]:
        """Return the leaf of each row in each tree, counted from the first node of all.

        Shapes
        ------
        codes : (m, columns); returned : (m, trees)
        """
        found, compiled = np.empty((len(codes), self.n_trees), np.int32), self.compiled
        in_threads(lambda part: compiled.leaves(codes[part], found[part]), thread_pieces(len(codes), _LEAF_ROWS))
        return found

    def tokens(self, leaves: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return the number of the cell of each row at each site, tree by tree and then level by level.

        Shapes
        ------
        leaves : (m, trees); returned : (m, trees * levels)
        """
        return np.ascontiguousarray(self.cell_numbers[:, leaves].transpose(1, 2, 0)).reshape(len(leaves), -1)

    @cached_property
    def compiled(self) -> _native.Forest:
        """The trees in compiled code."""
        return _native.Forest(
            column=self.column, step=self.step, right=self.right, starts=self.starts, names=self.is_name
        )

    def __getstate__(self) -> dict[str, object]:
        names = ("column", "step", "right", "level", "starts", "is_name")
        return {name: getattr(self, name) for name in names}  # caches are made again


def grown_forest(
    codes: NDArray[np.uint8],
    is_name: NDArray[np.uint8],
    targets: Ints,
    counts: Ints,
    words: Words,
    n_plain: int,
    seed: int,
    rules: ForestRules = LABEL_TREES,
) -> Forest:
    """Return trees that distinct rows grow: with their counts as weights, in the order given.

    Parameters
    ----------
    targets : ndarray of int64
        Labels, or numbers of 31 bits where the rules say so.
    n_plain : int
        Columns of bytes that are no differences; they come first.
    words : ndarray of uint64
        The hash of each row, ascending: decides which trees it grows.

    Shapes
    ------
    codes : (columns, m); targets, counts, words : (m,)
    """
    n_labels = 0 if rules.are_numbers else int(targets.max()) + 1
    most_copies = max(1, 2**30 // len(counts))
    of_rows = targets.astype(np.int32)

    def grown(tree: int) -> _Tree:
        kind = KINDS[tree % len(KINDS)]
        is_best = kind == "best cuts"
        width = len(codes) if is_best else n_plain
        weights = np.minimum(copies_in_bag(words, counts, rules.first + tree), most_copies).astype(np.int32)
        if not weights.any():
            weights[0] = 1
        bag = np.flatnonzero(weights).astype(np.int32)
        of_best = width if rules.are_numbers else -(-width // 3)
        tried = {"random cuts": width, "random cuts of one column": 1, "best cuts": of_best}[kind]
        most = max(1, min(tried, max(16, _NODE_WORK // len(bag))))
        tree_seed = key_words(seed, f"tree {rules.first + tree}")[0]
        return _native.grow_tree(
            codes=codes[:width],
            names=is_name[:width],
            targets=of_rows,
            weights=weights,
            bag=bag,
            n_labels=n_labels,
            min_weight=rules.least,
            max_columns=most,
            random_split=not is_best,
            seed=tree_seed,
            words=words,
        )

    trees = in_threads(grown, range(rules.of_a_kind * len(KINDS)), advance)
    column, step, right, weight = (np.concatenate(arrays) for arrays in zip(*trees, strict=True))
    level = np.searchsorted(LEVELS, weight, side="right").astype(np.uint8)
    starts = np.concatenate([[0], np.cumsum([len(tree[0]) for tree in trees])]).astype(np.int64)
    return Forest(column, step, right, level, starts, is_name)


def copies_in_bag(words: Words, counts: Ints, tree: int) -> Ints:
    """Return how many copies of rows with these hashes grow a tree, if the rows are in the growing sample.

    The first 32 copies of a row are drawn one by one; of further ones 63 % grow the tree.
    """
    found = np.empty(len(words), np.int64)
    _native.copies_in_bag(words, counts, tree, found)
    return found


def out_of_bag(forest: Forest, words: Words, counts: Ints, last_word: int, first: int = 0) -> Bools:
    """Return whether rows with these hashes have copies that did not grow a tree: shape (m, trees).

    Rows with hashes above the last one grew none; `first` is the number of the first tree.
    """
    beyond = words > np.uint64(last_word)
    trees = range(first, first + forest.n_trees)
    return np.stack([beyond | (copies_in_bag(words, counts, tree) < counts) for tree in trees], axis=1)


def checked_forest(
    column: NDArray[np.int32],
    step: NDArray[np.uint8],
    right: NDArray[np.int32],
    level: NDArray[np.uint8],
    starts: Ints,
    is_name: NDArray[np.uint8],
    of_a_kind: int = TREES_OF_A_KIND,
) -> Forest:
    """Return trees from a file, or refuse arrays that are none: every node but a root has one parent, in its tree.

    Each cut on the way to a leaf leaves fewer bytes of its column, so trees that were grown are not deeper than that.
    """
    n = len(column)
    if not (len(step) == len(right) == len(level) == n < 2**31) or len(starts) < 2:
        raise ValueError("the arrays of its trees have different lengths")
    if starts[0] != 0 or starts[-1] != n or (np.diff(starts) < 1).any():
        raise ValueError("its trees do not cover all nodes")
    if (len(starts) - 1) != of_a_kind * len(KINDS) or (level > len(LEVELS)).any():
        raise ValueError("the number of its trees, or of their levels, is wrong")
    inner = np.flatnonzero(column != LEAF)
    first = np.repeat(starts[:-1], np.diff(starts))
    ends = np.repeat(starts[1:], np.diff(starts))
    if (column < LEAF).any() or (column >= len(is_name)).any() or (right < 0).any():
        raise ValueError("a node of its trees looks at a column that is not there")
    children = np.concatenate([inner + 1, first[inner] + right[inner].astype(np.int64)])
    is_root = np.zeros(n + 1, bool)
    is_root[starts] = True
    within = (children < np.tile(ends[inner], 2)) & (children > np.tile(inner, 2))
    if not within.all() or len(np.unique(children)) != len(children) or len(children) != n - (len(starts) - 1):
        raise ValueError("the nodes of its trees do not form trees")
    if is_root[children].any():
        raise ValueError("the nodes of its trees do not form trees")
    forest = Forest(column, step, right, level, starts, is_name)
    if forest.depth > _MAX_CUTS_OF_A_COLUMN * len(is_name):
        raise ValueError("its trees are deeper than any that a fit grows")
    return forest


def cut_shares(forest: Forest, owned: Floats, nodes: Ints) -> Floats:
    """Return the share of each column of a table in what nodes say; a root has no cuts, so all its shares are zero.

    A node belongs to the columns of the cuts on the way to it, each cut alike.

    Shapes
    ------
    owned : (columns of codes, columns of the table), how much of each code belongs to each column; nodes : (n,);
    returned : (n, columns of the table)
    """
    shares = np.empty((len(nodes), owned.shape[1]))
    for part in row_pieces(len(nodes), len(owned)):
        at = nodes[part]
        places, cuts = np.arange(len(at)), np.zeros((len(at), len(owned)), np.int32)
        while len(places):
            above = forest.parents[at]
            inside = above != at
            places, at = places[inside], above[inside]
            cuts[places, forest.column[at]] += 1
        shares[part] = cuts @ owned
    return np.asarray(shares / np.maximum(shares.sum(axis=1, keepdims=True), 1))


def forest_arrays(forest: Forest) -> dict[str, Array]:
    """Return the arrays of trees, for files."""
    return {name: getattr(forest, name) for name in ("column", "step", "right", "level", "starts")}


def restored_forest(is_name: NDArray[np.uint8], stored: StoredArrays, rules: ForestRules = LABEL_TREES) -> Forest:
    """Return the trees of a file, checked: undo `forest_arrays`."""
    column = stored.take("column", "int32", (None,))
    kinds = {"step": "uint8", "right": "int32", "level": "uint8"}
    step, right, level = (stored.take(name, dtype, (len(column),)) for name, dtype in kinds.items())
    starts = stored.take("starts", "int64", (None,))
    return checked_forest(column, step, right, level, starts, is_name, rules.of_a_kind)
