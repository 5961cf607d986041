"""Trees of thresholds whose nodes are cells: grown once, on some of the rows.

Counts come later, from all rows. A leaf lies in larger cells: for each level, the smallest node
around it that held at least so many growing rows. Two rows match at the site (tree, level) if they
lie in the same cell. How trees are grown is said in :mod:`hammemo.features.cells.grow_forest`.

Compiled code (``src/native/trees``) finds the leaves.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from hammemo import _native
from hammemo._arrays.integers import row_pieces
from hammemo._arrays.threads import in_threads, thread_pieces
from hammemo._versions import cached_property

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hammemo._arrays.checked import StoredArrays
    from hammemo._arrays.types import Array, Floats, Ints

LEVELS: Final = (2, 16, 128)
"""Growing rows that the cell of each level held at least."""

TREES_OF_A_KIND: Final = 24
"""Trees of each kind in a model of labels."""

KINDS: Final = ("random cuts", "random cuts of one column", "best cuts")
"""How the cuts of a tree are chosen; tree t is of the kind t mod 3."""

LEAF: Final = -1
"""The column of a leaf."""

_LEAF_ROWS: Final = 1000
"""Rows from which on a thread of its own pays."""

_MAX_CUTS_OF_A_COLUMN: Final = 255
"""Cuts of one column on the way to a leaf: one fewer than a byte has values."""


class _ForestCells(NamedTuple):
    """Where the cells of a forest are: see the properties of `Forest`."""

    parents: Ints
    nodes: Ints
    numbers: NDArray[np.int32]


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
    def _cells(self) -> _ForestCells:
        n_nodes = len(self.column)
        parents = np.empty(n_nodes, np.int64)
        nodes = np.empty((len(LEVELS), n_nodes), np.int64)
        numbers = np.empty((len(LEVELS), n_nodes), np.int32)
        self.compiled.cells(levels=self.level, parents=parents, nodes=nodes, numbers=numbers)
        return _ForestCells(parents, nodes, numbers)

    @property
    def parents(self) -> Ints:
        """The parent of each node, counted from the first node of all; a root is its own."""
        return self._cells.parents

    @property
    def cell_nodes(self) -> Ints:
        """For each level and node, the node that is its cell.

        It is the node itself, or its first ancestor that is large enough.

        Shapes
        ------
        (levels, nodes)
        """
        return self._cells.nodes

    @property
    def depth(self) -> int:
        """The most cuts on the way to a leaf."""
        ancestors = self.parents
        steps = (ancestors != np.arange(len(ancestors))).astype(np.int64)
        # Each round doubles how far the ancestors are away, so a long chain takes few rounds.
        while ((further := ancestors[ancestors]) != ancestors).any():
            steps += steps[ancestors]
            ancestors = further
        return int(steps.max(initial=0))

    @property
    def cell_numbers(self) -> NDArray[np.int32]:
        """For each level and node, the number of its cell among those of its tree and level.

        This number is the token of the cell.

        Shapes
        ------
        (levels, nodes)
        """
        return self._cells.numbers

    @cached_property
    def cell_sizes(self) -> Ints:
        """How many cells each tree has on each level: (levels, trees)."""
        largest = np.maximum.reduceat(self.cell_numbers, self.starts[:-1], axis=1)
        return largest.astype(np.int64) + 1

    @cached_property
    def cell_rows(self) -> NDArray[np.int32]:
        """For each level and node, the row of its cell in a table of all cells.

        The table goes level by level, then tree by tree.

        Shapes
        ------
        (levels, nodes)
        """
        sizes = self.cell_sizes
        first_rows = np.cumsum(sizes.ravel()) - sizes.ravel()
        offsets = np.repeat(first_rows.reshape(sizes.shape), np.diff(self.starts), axis=1)
        return np.ascontiguousarray(self.cell_numbers + offsets, np.int32)

    def counts(self, leaves: NDArray[np.int32], labels: Ints, weights: Ints, n_labels: int) -> Ints:
        """Return how often each label occurs in each cell, in the order of `cell_rows`.

        Rows are counted at their leaves, with their weights; a cell holds what its leaves hold.

        Shapes
        ------
        leaves : (m, trees); labels, weights : (m,); returned : (cells, L)
        """
        node_counts = np.zeros((len(self.column), n_labels), np.int64)
        _native.count_labels(
            leaves=np.ascontiguousarray(leaves),
            labels=labels.astype(np.int32),
            weights=weights.astype(np.int64),
            counts=node_counts,
        )
        cell_counts = np.zeros((int(self.cell_sizes.sum()), n_labels), np.int64)
        self.compiled.add_leaves(cells=self.cell_rows, values=node_counts, out=cell_counts)
        return cell_counts

    def leaves(self, codes: NDArray[np.uint8]) -> NDArray[np.int32]:
        """Return the leaf of each row in each tree, counted from the first node of all.

        Shapes
        ------
        codes : (m, columns); returned : (m, trees)
        """
        leaves = np.empty((len(codes), self.n_trees), np.int32)
        compiled = self.compiled
        in_threads(
            lambda piece: compiled.leaves(codes[piece], leaves[piece]),
            thread_pieces(len(codes), _LEAF_ROWS),
        )
        return leaves

    def tokens(self, leaves: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return the number of the cell of each row at each site, tree by tree and level by level.

        Shapes
        ------
        leaves : (m, trees); returned : (m, trees * levels)
        """
        numbers = self.cell_numbers[:, leaves].transpose(1, 2, 0)
        return np.ascontiguousarray(numbers).reshape(len(leaves), -1)

    def share_nodes(self, code_shares: Floats, nodes: Ints) -> Floats:
        """Return the share of each column of a table in what nodes say.

        A node belongs to the columns of the cuts on the way to it, each cut alike. A root has no
        cuts, so all its shares are zero.

        Shapes
        ------
        code_shares : (columns of bytes, columns of the table), how much of each column of bytes
        belongs to each column of the table; nodes : (n,); returned : (n, columns of the table)
        """
        shares = np.empty((len(nodes), code_shares.shape[1]))
        for piece in row_pieces(len(nodes), len(code_shares)):
            # Walk from all nodes to their roots at once, counting the cuts by column.
            walkers = nodes[piece]
            places = np.arange(len(walkers))
            cuts = np.zeros((len(walkers), len(code_shares)), np.int32)
            while len(places):
                parents = self.parents[walkers]
                is_inside = parents != walkers
                places = places[is_inside]
                walkers = parents[is_inside]
                cuts[places, self.column[walkers]] += 1
            shares[piece] = cuts @ code_shares
        return np.asarray(shares / np.maximum(shares.sum(axis=1, keepdims=True), 1))

    @cached_property
    def compiled(self) -> _native.Forest:
        """The trees in compiled code."""
        return _native.Forest(
            column=self.column,
            step=self.step,
            right=self.right,
            starts=self.starts,
            names=self.is_name,
        )

    def __getstate__(self) -> dict[str, object]:
        return {**self.arrays(), "is_name": self.is_name}  # without caches

    def arrays(self) -> dict[str, Array]:
        """Return the arrays of trees, for files."""
        return {
            "column": self.column,
            "step": self.step,
            "right": self.right,
            "level": self.level,
            "starts": self.starts,
        }

    @classmethod
    def from_stored(
        cls,
        is_name: NDArray[np.uint8],
        stored: StoredArrays,
        trees_of_a_kind: int = TREES_OF_A_KIND,
    ) -> Forest:
        """Return the trees of a file, checked: undo `arrays`."""
        column = stored.take("column", "int32", (None,))
        n_nodes = len(column)
        forest = cls(
            column=column,
            step=stored.take("step", "uint8", (n_nodes,)),
            right=stored.take("right", "int32", (n_nodes,)),
            level=stored.take("level", "uint8", (n_nodes,)),
            starts=stored.take("starts", "int64", (None,)),
            is_name=is_name,
        )
        _check_forest(forest, trees_of_a_kind)
        return forest


def _check_forest(forest: Forest, trees_of_a_kind: int) -> None:
    """Refuse arrays that are no trees: every node but a root has one parent, in its tree.

    Each cut on the way to a leaf leaves fewer bytes of its column, so trees that were grown are not
    deeper than that.
    """
    column = forest.column
    starts = forest.starts
    n_nodes = len(column)
    n_trees = len(starts) - 1

    # Trees cover all nodes.
    if n_nodes >= 2**31 or n_trees < 1:
        raise ValueError("the arrays of its trees have different lengths")
    if starts[0] != 0 or starts[-1] != n_nodes or (np.diff(starts) < 1).any():
        raise ValueError("its trees do not cover all nodes")
    if n_trees != trees_of_a_kind * len(KINDS) or (forest.level > len(LEVELS)).any():
        raise ValueError("the number of its trees, or of their levels, is wrong")
    is_column = (column >= LEAF) & (column < len(forest.is_name))
    if not is_column.all() or (forest.right < 0).any():
        raise ValueError("a node of its trees looks at a column that is not there")

    # All nodes but the roots are children, each once, behind their parent and in its tree.
    inner = np.flatnonzero(column != LEAF)
    tree_starts = np.repeat(starts[:-1], np.diff(starts))[inner]
    tree_ends = np.repeat(starts[1:], np.diff(starts))[inner]
    right_children = tree_starts + forest.right[inner].astype(np.int64)
    children = np.concatenate([inner + 1, right_children])
    is_behind = (children < np.tile(tree_ends, 2)) & (children > np.tile(inner, 2))
    is_once = len(np.unique(children)) == len(children) == n_nodes - n_trees
    if not is_behind.all() or not is_once:
        raise ValueError("the nodes of its trees do not form trees")
    is_root = np.zeros(n_nodes + 1, bool)
    is_root[starts] = True
    if is_root[children].any():
        raise ValueError("the nodes of its trees do not form trees")
    if forest.depth > _MAX_CUTS_OF_A_COLUMN * len(forest.is_name):
        raise ValueError("its trees are deeper than any that a fit grows")
