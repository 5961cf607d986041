"""The rows of a reader's tables in a form for reading single entries."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from hammemo._versions import Cached, cached_property
from hammemo.kernels.sites import find_sites
from hammemo.memories.exact import SparseCounts
from hammemo.votes.mixture.gates import compute_discounts, discounts_from_histogram
from hammemo.votes.mixture.held_out_counts import CountRows, derive_continuation_rows

if TYPE_CHECKING:
    from hammemo._arrays.types import Floats, Ints
    from hammemo.memories.reader import Reader
    from hammemo.tokens.contexts import Contexts
    from hammemo.votes.mixture.gates import Components
    from hammemo.votes.mixture.held_out_counts import ContinuationRows


class StaticTables(Cached):
    """The rows of a reader's tables for reading single entries, each made when it is first read."""

    def __init__(self, reader: SparseCounts, components: Components) -> None:
        self.reader = reader
        self.components = components
        self.n_labels = len(reader.labels)

    @cached_property
    def sites(self) -> CountRows:
        """The rows of all sites, stacked."""
        table = self.reader.table
        columns = self.reader.labels.find(table.label_counts.labels)
        return CountRows.from_table(table, columns, self.n_labels)

    @cached_property
    def site_starts(self) -> Ints:
        """Where the rows of each site begin among those of all sites, and how many there are."""
        return np.cumsum([0, *map(len, self.reader.table.tuples)])

    @cached_property
    def continued(self) -> list[ContinuationRows]:
        """The continuation counts of each of the components' `continued`."""
        return [
            derive_continuation_rows(self.reader.table, self.sites, longer, shorter)
            for longer, shorter in self.components.continued
        ]

    @cached_property
    def free(self) -> list[CountRows]:
        """The rows of the sites without a position, with the columns of their own labels.

        Some may be tokens that never were a label: no answer, but they count in the totals of rows.
        """
        tables = [reader.table for reader in self.reader.free]
        n_labels = [len(table.label_counts.labels) for table in tables]
        return [
            CountRows.from_table(table, np.arange(n), n)
            for table, n in zip(tables, n_labels, strict=True)
        ]

    def discounts(self) -> Floats:
        """Return what entries of counts 0, 1, 2, and 3 or more lose, by table: (n_tables, 4)."""
        if self.reader.count_histogram is not None:  # the reader has only some rows of its table
            sites = [discounts_from_histogram(times) for times in self.reader.count_histogram]
        else:
            first_keys = self.site_starts * max(self.n_labels, 1)
            cuts = np.searchsorted(self.sites.keys, first_keys)
            sites = [
                compute_discounts(self.sites.counts[start:end]) for start, end in pairwise(cuts)
            ]
        continued = [compute_discounts(rows.counts.counts) for rows in self.continued]
        free = [compute_discounts(rows.counts) for rows in self.free]
        return np.array([*sites, *continued, *free])

    def find_rows(self, contexts: Contexts) -> Ints:
        """Return the row that each site of each context reads, -1 for none: (m, S)."""
        table = self.reader.table
        return find_sites(contexts.ranks_in(table.vocabulary), table.sites, table.tuples)

    def find_suffix_rows(self, rows: Ints, shorter: int) -> Ints:
        """Return which row of its site each context reads at a suffix, -1 for none: (m,).

        `rows` are those of :meth:`find_rows`. The suffix of no token, -1, has one row for all.
        """
        if shorter < 0:
            return np.zeros(len(rows), np.int64)
        suffix_rows = rows[:, shorter]
        return np.where(suffix_rows >= 0, suffix_rows - self.site_starts[shorter], -1)


def get_static_tables(reader: SparseCounts, components: Components) -> StaticTables:
    """Return the static tables of a reader, made once for the components of the last call."""
    tables: StaticTables | None = vars(reader).get("known_static_tables")
    if tables is None or tables.components != components:
        tables = StaticTables(reader, components)
        reader.known_static_tables = tables
    return tables


def require_rows(reader: Reader) -> SparseCounts:
    """Return a reader that a mixture can read, or refuse it."""
    if not isinstance(reader, SparseCounts):
        raise TypeError(
            f"A mixture reads rows of exact counts, which {type(reader).__name__} does not keep: "
            "use memory='exact'."
        )
    return reader
