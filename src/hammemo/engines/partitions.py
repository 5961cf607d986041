r"""An exact count table cut by ranges of keys, so that parts of many tables are added apart from each other.

The rows of a table are sorted by site and then by their tokens, in canonical order. Tokens :math:`t_1 < t_2 < \dots`
cut the keys by their *first* token: part p holds the rows that begin with a token in :math:`[t_p, t_{p+1})`. The parts
of all tables for one p add up to the part of the sum; and parts side by side, site by site, are a sorted table again.
Where the cuts lie changes nothing but how even the work is; they are taken from a sample.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hammemo._arrays.integers import narrow
from hammemo._arrays.tuple_sets import TupleSet
from hammemo.memories.exact import CountTable, rank_before

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hammemo.tokens.vocabulary import Token


def even_cuts(table: CountTable, parts: int) -> list[Token]:
    """Return at most ``parts - 1`` tokens, ascending, that cut a table into parts of about as many entries.

    Examples
    --------
    >>> from hammemo import Exact, MemoryClassifier
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
    edges = [rank_before(table.vocabulary, token) for token in cuts]
    first = np.concatenate([known.rows()[:, 0] for known in table.tuples])
    part_of_entry = np.searchsorted(edges, first, side="right")[table.entry_rows()]
    labels = table.label_counts.labels
    keys, counts = table._entry_keys, table.entry_counts.astype(np.int64)
    return [
        CountTable._assemble(
            table.sites, table.label_counts, (labels, table.vocabulary, table.tuples), keys[chosen], counts[chosen]
        )
        for chosen in (part_of_entry == part for part in range(len(cuts) + 1))
    ]


def united(parts: Sequence[CountTable]) -> CountTable:
    """Return the table that has these parts: undo `split`."""
    vocabulary = parts[0].vocabulary
    for part in parts[1:]:
        vocabulary = vocabulary.union(part.vocabulary)
    maps = [vocabulary.find(part.vocabulary) for part in parts]
    tuples, lengths, labels, counts = [], [], [], []
    for k in range(len(parts[0].tuples)):
        rows = [places[part.tuples[k].rows()] for places, part in zip(maps, parts, strict=True)]
        tuples.append(TupleSet.collect(np.concatenate(rows), max(len(vocabulary), 1))[0])
        for part in parts:
            here = _site_rows(part, k)
            entries = slice(*part.row_starts()[[here.start, here.stop]].tolist())
            lengths.append(part.row_lengths[here])
            labels.append(part.entry_labels[entries])
            counts.append(part.entry_counts[entries])
    arrays = (narrow(np.concatenate(arrays)) for arrays in (lengths, labels, counts))
    return CountTable(parts[0].sites, parts[0].label_counts, vocabulary, tuples, *arrays)


def _site_rows(table: CountTable, k: int) -> slice:
    first = sum(map(len, table.tuples[:k]))
    return slice(first, first + len(table.tuples[k]))
