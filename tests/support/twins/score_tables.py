"""The plain twins of the tables that scores of few labels are read from: of names and of leaves."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hammemo.memories.exact.score_table import sum_rows

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hammemo._arrays.types import Floats
    from hammemo.memories.exact.score_table import TreeRanker, WholeTable
    from hammemo.tokens.contexts import Contexts


def scores(whole: WholeTable, contexts: Contexts, n_sites: int) -> Floats:
    """Return what `ScoreTable.scores` does."""
    table, ranks = whole.table, contexts.ranks_in(whole.table.vocabulary)
    of_sites = zip(table.sites.positions[:n_sites], table.tuples, whole.starts.tolist(), strict=False)
    rows = [
        np.where((found := known.find(ranks[:, list(site)])) >= 0, found + start, -1) for site, known, start in of_sites
    ]
    return sum_rows(np.array(rows, np.int64).reshape(n_sites, len(ranks)).T, whole.values, whole.base)


def from_leaves(ranker: TreeRanker, contexts: Contexts, codes: NDArray[np.uint8]) -> Floats:
    """Return what names and leaves add up to, tree by tree."""
    cells, (whole, of_node, values) = ranker._cells, ranker.tables()
    totals = scores(whole, contexts, len(cells.name_sites))
    for nodes in cells.forest.leaves(codes).T:
        totals += values[of_node[nodes]]
    return totals
