r"""An exact count table cut by ranges of keys, so that parts of many tables are added apart from each other.

The rows of a table are sorted by site and then by their tokens, in canonical order. Tokens :math:`t_1 < t_2 < \dots`
cut the keys by their *first* token: part p holds the rows that begin with a token in :math:`[t_p, t_{p+1})`. The parts
of all tables for one p add up to the part of the sum; and parts side by side, site by site, are a sorted table again.
Where the cuts lie changes nothing but how even the work is; they are taken from a sample.
"""

from __future__ import annotations

from functools import reduce
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from hammemo.memories.exact import CountTable, SiteRows, rank_before
from hammemo.tokens.vocabulary import Token, Vocabulary

if TYPE_CHECKING:
    from collections.abc import Sequence


def even_cuts(table: CountTable, parts: int) -> list[Token]:
    """Return at most ``parts - 1`` tokens, ascending, that cut a table into parts of about as many entries.

    Examples
    --------
    >>> from hammemo import MemoryClassifier
    >>> from hammemo.memories import Exact
    >>> from hammemo.engines.partitions import even_cuts, split, united
    >>> memory = MemoryClassifier(memory=Exact()).fit([["a", "b"], ["c", "d"], ["c", "e"]], ["x", "y", "x"]).memory_
    >>> cuts = even_cuts(memory.table(), 2)
    >>> cuts, [len(part.entry_counts) for part in split(memory.table(), cuts)]
    (['d'], [4, 2])
    """
    first = np.concatenate([known.rows()[:, 0] for known in table.tuples])
    weights = np.bincount(first, weights=table.row_lengths, minlength=len(table.vocabulary))
    before = np.cumsum(weights) - weights
    goals = weights.sum() * np.arange(1, parts) / parts
    places = np.unique(np.searchsorted(before, goals))
    tokens = table.vocabulary.tolist()
    return [tokens[place] for place in places.tolist() if 0 < place < len(tokens)]


def split(table: CountTable, cuts: Sequence[Token]) -> list[CountTable]:
    """Return the parts of a table. Each one carries all label counts, so that the parts of many tables can be added."""
    edges = [0, *(rank_before(table.vocabulary, token) for token in cuts), len(table.vocabulary)]
    names, rows = (table.vocabulary, table.label_counts.labels), list(table.site_rows())
    return [
        CountTable.of_rows(table.sites, table.label_counts, names, [site.between(first, stop) for site in rows])
        for first, stop in pairwise(edges)
    ]


def united(parts: Sequence[CountTable]) -> CountTable:
    """Return the table that has these parts: undo `split`."""
    vocabulary, labels = reduce(Vocabulary.union, (part.vocabulary for part in parts)), parts[0].label_counts.labels
    maps = [(vocabulary.find(part.vocabulary), np.arange(len(labels))) for part in parts]
    sites = zip(*(part.site_rows() for part in parts), strict=True)
    rows = [SiteRows.joined([own.named(*to) for own, to in zip(site, maps, strict=True)]) for site in sites]
    return CountTable.of_rows(parts[0].sites, parts[0].label_counts, (vocabulary, labels), rows)
