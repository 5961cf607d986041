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
    table = whole.table
    ranks = contexts.ranks_in(table.vocabulary)
    places_by_site = []
    for number in range(n_sites):
        site = list(table.sites.positions[number])
        places = table.tuples[number].find(ranks[:, site])
        # a tuple that is not in the table has place -1, and stays at it
        places_by_site.append(np.where(places >= 0, places + int(whole.starts[number]), -1))
    places_by_row = np.array(places_by_site, np.int64).reshape(n_sites, len(ranks)).T
    return sum_rows(places_by_row, whole.values, whole.base)


def from_leaves(ranker: TreeRanker, contexts: Contexts, codes: NDArray[np.uint8]) -> Floats:
    """Return what names and leaves add up to, tree by tree."""
    cells = ranker._cells
    whole, row_of_node, values = ranker.tables()
    totals = scores(whole, contexts, len(cells.name_sites))
    for nodes in cells.forest.leaves(codes).T:
        totals += values[row_of_node[nodes]]
    return totals
