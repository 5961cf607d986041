"""The rows that contexts read, of all labels: what a mixture ranks labels by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hammemo.memories.exact import Entries, SparseCounts, find_table_columns, read_token_rows
from hammemo.votes.mixture.held_out_counts import LeftOut, RowEntries
from hammemo.votes.mixture.static_tables import get_static_tables

if TYPE_CHECKING:
    from hammemo._arrays.types import Floats, Ints
    from hammemo.tokens.contexts import Contexts
    from hammemo.votes.mixture.gates import Components
    from hammemo.votes.mixture.label_terms import LabelTerms


@dataclass(frozen=True, eq=False)
class RowsRead:
    """Rows that contexts read.

    Entries of tokens that never were a label count in the totals and classes of a row, and are left
    out of its entries.
    """

    contexts: Ints
    """Which context reads each row: (r,)."""
    components: Ints
    """The component of each row: (r,)."""
    lost: Floats
    """What entries of counts 0, 1, 2, and 3 or more lose: (r, 4)."""
    entries: Entries
    totals: Ints
    """Shape (r,)."""
    classes: Ints
    """How many entries have the counts 0, 1, 2, and 3 or more: (r, 4)."""
    distances: Ints | None = None
    """Of the tokens of a site without a position: (r,)."""

    @classmethod
    def from_entries(
        cls,
        *,
        contexts: Ints,
        components: Ints,
        lost: Floats,
        entries: Entries,
        columns: Ints | None = None,
        distances: Ints | None = None,
    ) -> RowsRead:
        """Return rows with all of their entries.

        `columns` are those of the labels, -1 for one that is left out.
        """
        n_rows = len(contexts)
        rows = np.repeat(np.arange(n_rows), entries.lengths)
        totals = np.bincount(rows, entries.counts, n_rows).astype(np.int64)  # exact: below 2^53
        row_classes = rows * 4 + np.minimum(entries.counts, 3)
        classes = np.bincount(row_classes, minlength=4 * n_rows).reshape(n_rows, 4)
        if columns is not None:
            entries = entries.in_columns(columns)
        return cls(
            contexts=contexts,
            components=components,
            lost=lost,
            entries=entries,
            totals=totals,
            classes=classes,
            distances=distances,
        )


class LeftOutRows:
    """All rows that examples read, of all labels, each without what the example's case has added.

    Parameters
    ----------
    terms : LabelTerms
        Of the examples, left out with their cases; without continuation counts.
    """

    def __init__(self, terms: LabelTerms) -> None:
        self._terms = terms
        tables = terms.tables
        sites = tables.components.sites
        self._rows = tables.find_rows(terms.examples.contexts)
        n_sites = self._rows.shape[1]
        added = RowEntries(
            cases=np.repeat(terms.cases, n_sites),
            rows=self._rows.ravel(),
            labels=np.repeat(terms.labels, n_sites),
        )
        self._left_out = LeftOut(tables.sites, added)
        self._free_numbers = [sites.free.index(site) for site in sites.free_with_table]
        self._free_rows = [
            terms.read_free_rows(site, number) for number, site in enumerate(sites.free_with_table)
        ]

    def read(self, piece: slice) -> list[RowsRead]:
        """Return the rows that some examples read: those of the sites, then of each free site."""
        cases = self._terms.cases[piece]
        rows = self._rows[piece]
        m, n_sites = rows.shape
        sites = np.tile(np.arange(n_sites), m)
        whole_rows = self._left_out.read_rows(np.repeat(cases, n_sites), rows.ravel())
        site_rows = RowsRead(
            contexts=np.repeat(np.arange(m), n_sites),
            components=1 + sites,
            lost=self._terms.discounts[sites],
            entries=whole_rows.entries,
            totals=whole_rows.totals,
            classes=whole_rows.classes,
        )
        n_free = len(self._free_rows)
        return [
            site_rows,
            *(self._read_free(number, piece.start, m) for number in range(n_free)),
        ]

    def _read_free(self, number: int, start: int, m: int) -> RowsRead:
        """Return the rows that m examples read at a free site."""
        tables = self._terms.tables
        free = self._free_rows[number]
        first, last = np.searchsorted(free.places.contexts, [start, start + m])
        examples = free.places.contexts[first:last]
        distances = free.places.distances[first:last]
        cases = self._terms.cases[examples]
        whole_rows = free.left_out.read_rows(cases, free.rows[first:last])
        discounts = self._terms.discounts[tables.components.free_table(number)]
        table_labels = tables.reader.free[number].table.label_counts.labels
        return RowsRead(
            contexts=examples - start,
            components=tables.components.free(self._free_numbers[number], distances),
            lost=np.broadcast_to(discounts, (len(examples), 4)),
            entries=whole_rows.entries.in_columns(tables.reader.labels.find(table_labels)),
            totals=whole_rows.totals,
            classes=whole_rows.classes,
        )


def read_rows(
    reader: SparseCounts, components: Components, discounts: Floats, contexts: Contexts
) -> list[RowsRead]:
    """Return all rows that contexts read, of all labels.

    First those of the sites, then continuations, then sites without a position.
    """
    m = len(contexts)
    n_sites = len(components.sites.positions)
    order = np.arange(m)
    sites = np.tile(np.arange(n_sites), m)
    site_rows = RowsRead.from_entries(
        contexts=np.repeat(order, n_sites),
        components=1 + sites,
        lost=discounts[sites],
        entries=reader.rows.entries(contexts),
    )
    rows_read = [site_rows]
    for number, (_, shorter) in enumerate(components.continued):
        tables = get_static_tables(reader, components)
        suffix_rows = np.zeros(m, np.int64)  # the suffix of no token has one row
        if shorter >= 0:
            suffix_rows = tables.find_suffix_rows(tables.find_rows(contexts), shorter)
        continuation = RowsRead.from_entries(
            contexts=order,
            components=np.full(m, components.continuation_of(number)),
            lost=np.broadcast_to(discounts[components.continuation_table(number)], (m, 4)),
            entries=tables.continued[number].counts.read_rows(suffix_rows),
        )
        rows_read.append(continuation)
    for number, site in enumerate(components.sites.free_with_table):
        places, entries = read_token_rows(reader, site, contexts, table_index=number)
        n_places = len(places.ranks)
        k = components.sites.free.index(site)
        token_reads = RowsRead.from_entries(
            contexts=places.contexts,
            components=components.free(k, places.distances),
            lost=np.broadcast_to(discounts[components.free_table(number)], (n_places, 4)),
            entries=entries,
            columns=find_table_columns(reader, number),
            distances=places.distances,
        )
        rows_read.append(token_reads)
    return rows_read
