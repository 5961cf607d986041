"""The count table of rows that trees cut: each row is counted once a tree, at its leaf.

The sites of a forest are (tree, level), and a cell of a level holds what its leaves hold. So counts at leaves give the
counts of all levels, and no context of cells is made. The table is that of
:meth:`~hammemo.memories.exact.table.CountTable.of` for the contexts of cells.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeGuard

import numpy as np

from hammemo._arrays.integers import row_pieces
from hammemo._arrays.tuple_sets import TupleSet
from hammemo.kernels.cells import Cells, TreeCells
from hammemo.kernels.cells.forest import LEVELS
from hammemo.memories.exact.segments.entries import SiteRows
from hammemo.memories.exact.table import CountTable, counted_rows
from hammemo.memories.label_counts import LabelCounts
from hammemo.tokens.vocabulary import Vocabulary

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from hammemo.kernels.sites import Sites
    from hammemo.tokens.contexts import Examples


def holds_trees(cells: Cells, sites: Sites) -> TypeGuard[TreeCells]:
    """Return whether sites are those that an automatic kernel makes of names and trees."""
    return isinstance(cells, TreeCells) and not sites.free and sites.positions == tuple(cells.sites())


def table_of_trees(cells: TreeCells, examples: Examples, sites: Sites) -> CountTable:
    """Return the table of the cells of rows, whose sites are names and trees."""
    examples = examples.with_used_labels()
    if not len(examples):
        return CountTable.empty(sites)
    contexts, n_labels = examples.contexts, len(examples.labels)
    used = np.zeros(len(contexts.vocabulary) + 1, bool)  # rank -1 marks the last entry
    used[contexts.ranks[:, cells.names]] = True
    numbers = Vocabulary(np.arange(int(cells.forest.cell_sizes.max())))
    vocabulary = contexts.vocabulary.keep(used[:-1]).union(numbers)
    ranks = np.full(len(used), -1)
    ranks[:-1][used[:-1]] = vocabulary.find(contexts.vocabulary.keep(used[:-1]))
    rows = [
        counted_rows(*TupleSet.collect(ranks[contexts.ranks[:, list(site)]], len(vocabulary)), examples)
        for site in cells.name_sites
    ]
    of_cells = vocabulary.find(numbers)
    for counts in _site_counts(cells, examples):
        known = TupleSet(len(vocabulary), (of_cells[: len(counts)],))
        keys = np.flatnonzero(counts)
        rows.append(SiteRows.of_keys(known, keys, counts.ravel()[keys], n_labels))
    label_counts = LabelCounts(examples.labels, examples.label_counts())
    return CountTable.of_rows(sites, label_counts, (vocabulary, examples.labels), rows)


def _site_counts(cells: TreeCells, examples: Examples) -> Iterator[NDArray[np.int64]]:
    """Yield the counts of each site, tree by tree and then level by level: (cells, L)."""
    forest, n_labels = cells.forest, len(examples.labels)
    total = np.zeros((int(forest.cell_sizes.sum()), n_labels), np.int64)
    for part in row_pieces(len(examples), forest.n_trees):
        leaves = cells.leaves(examples.contexts[part])
        total += forest.counts(leaves, examples.label_ranks[part], examples.multiplicity[part], n_labels)
    ends = np.cumsum(forest.cell_sizes.ravel()).reshape(forest.cell_sizes.shape)
    for tree in range(forest.n_trees):
        for level in range(len(LEVELS)):
            yield total[ends[level, tree] - forest.cell_sizes[level, tree] : ends[level, tree]]
