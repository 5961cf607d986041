r"""The raw counts of a hashed memory as its readers see them, and their values in fixed point.

`RawRows` has labels in canonical order, declared ones included. Rows are read one by one from the
pages of a version, or put together as whole tables when those are worth it.

A bucket adds up the counts of several features. With T its count of a label, M the sum of that
label over all B buckets of the site, :math:`(BT - M)/(B - 1)` is unbiased for each feature's own
count (:mod:`hammemo.memories.hashed.memory`). It is rounded to quarters of a count, so that sums
are exact in any order (`centre_rows`).

`PreviousTable` leads from the compiled table of one version to that of a later one. Versions share
the pages that no edit touched, so what differs between two of them is found by comparing the
others, whatever happened in between. Beside the edited rows themselves there is the centring: it
subtracts M, divided by B - 1, and rounds. So where M changed, any bucket may have another value in
that label's column, though few do; that one column is computed for both versions and compared. Then
the compiled table is copied with new numbers in those rows. That is about ten times as fast as
computing all of them, and gives the same table to the byte.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from hammemo._versions import Cached, cached_property
from hammemo.memories.ranker import CompileBudget

if TYPE_CHECKING:
    from hammemo._arrays.types import Array, Floats, Ints
    from hammemo.memories.hashed.layout import RowLayout
    from hammemo.memories.hashed.native_table import NativeTable
    from hammemo.memories.hashed.site_counts import Tables
    from hammemo.tokens.contexts import Contexts

CELLS_A_CALL: Final = 4096
"""What a call costs beside its rows, in cells of a table."""


class TableBudget(CompileBudget):
    """When the table of a layout pays: once about as many cells were computed row by row.

    Parameters
    ----------
    layout : RowLayout
    n_labels : int
    share : float
        What compiling costs, as a share of computing all rows.
    """

    def __init__(self, layout: RowLayout, n_labels: int, share: float = 1.0) -> None:
        super().__init__(CELLS_A_CALL, len(layout.groups) * n_labels)
        n_cells = int(layout.first_rows[-1]) * n_labels
        self._price = share * n_cells + 16 * CELLS_A_CALL  # a table has costs of its own

    def spend_and_test(self, n_contexts: int) -> bool:
        """Count these contexts as answered row by row; return whether a table pays by now."""
        self.spend(n_contexts)
        return self.spent > self._price


class RawRows(Cached):
    """The rows of raw counts of every site.

    They are upper bounds in buckets, and exact in reserved rows (`RowLayout.own`).

    Parameters
    ----------
    layout : RowLayout
    tables : Tables
    source : ndarray of shape (L,)
        The column of each label in the tables, -1 for one that has none.
    """

    def __init__(self, layout: RowLayout, tables: Tables, source: Ints) -> None:
        self.layout = layout
        self.tables = tables
        self.source = source

    @cached_property
    def counts(self) -> list[Array]:
        """All rows of each site: arrays of shape (rows of the site, L)."""
        return [table.stack(self.source) for table in self.tables.sites]

    @cached_property
    def shared_sums(self) -> Ints:
        """The sum over each site's buckets, label by label: (S, L)."""
        return self._arrange(self.tables.shared_sums)

    def read(self, rows: Ints) -> Ints:
        """Return the rows of raw counts, zeros where the row is -1.

        Shapes
        ------
        rows : (m, S); returned : (m, S, L)
        """
        return self._arrange(self.tables.read(rows))

    def site_rows(self, k: int, rows: Ints) -> Ints:
        """Return some rows of raw counts of one site: (n, L)."""
        return self._arrange(self.tables.sites[k].read(rows))

    def _arrange(self, values: Ints) -> Ints:
        """Return the last axis, columns of the tables, in the order of the labels."""
        if self.source is self.tables.columns and self.tables.in_order:
            return values
        in_order = np.zeros((*values.shape[:-1], len(self.source)), np.int64)
        has_column = self.source >= 0
        in_order[..., has_column] = values[..., self.source[has_column]]
        return in_order

    def site_counts(self, contexts: Contexts) -> Floats:
        """Return the row of raw counts that each site of each context reads: (m, S, L).

        It is zeros where a site reads none.
        """
        return self.read(self.layout.find_rows(contexts)).astype(np.float64)

    def bounds(self, contexts: Contexts) -> tuple[Floats, Floats]:
        """Return what the exact counts are at least, and at most.

        Reserved rows are exact, buckets start at zero.

        Shapes
        ------
        returned : (m, S, L), (m, S, L)
        """
        rows = self.layout.find_rows(contexts)
        high = self.read(rows).astype(np.float64)
        n_reserved, _ = self.layout.sizes
        return np.where((rows < n_reserved)[:, :, None], high, 0.0), high


FRACTION_BITS = 2
"""Scores are whole multiples of 2^-FRACTION_BITS counts."""


def centre_rows(counts: Array, n_reserved: int) -> Ints:
    """Return fixed-point rows: reserved counts as they are, bucket counts centred."""
    exact = counts.astype(np.int64)
    rows = exact << FRACTION_BITS
    shared = exact[n_reserved:]
    rows[n_reserved:] = centre_counts(shared, shared.sum(axis=0), len(shared))
    return rows


def centre_counts(shared: Ints, sums: Ints, buckets: int | Ints) -> Ints:
    r"""Return bucket rows, centred by the sums over all buckets of their sites, in fixed point.

    With T a count, M its label's sum and B the number of buckets, this is :math:`4(BT - M)/(B - 1)`
    to the nearest whole number, halves up. The product BT may need more than 64 bits, so it is
    computed as :math:`4T + 4(T - M)/(B - 1)`, the second part rounded: both are below 2^56, because
    counts are below 2^53. A single bucket tells nothing of any of its features: zero.
    """
    others = np.maximum(buckets, 2) - 1
    doubled = (shared - sums) << (FRACTION_BITS + 1)
    values = (shared << FRACTION_BITS) + (doubled + others) // (2 * others)
    return np.where(buckets == 1, 0, values) if np.min(buckets) == 1 else values


@dataclass(frozen=True, eq=False)
class PreviousTable:
    """A version whose rows were compiled.

    Parameters
    ----------
    raw : RawRows
        The counts.
    weights : ndarray of shape (S,)
    table : NativeTable
        Its centred counts, with these weights.
    """

    raw: RawRows
    weights: Floats
    table: NativeTable

    def table_of(self, raw: RawRows, weights: Floats, divisor: Floats | None) -> NativeTable | None:
        """Return the table of another version, or None where it has to be made of all rows.

        That is so where labels came or went, counts became wider, weights changed, or most rows
        did.
        """
        if not np.array_equal(weights, self.weights):
            return None
        if not np.array_equal(raw.source, self.raw.source):
            return None
        rows = []
        for k in range(len(weights)):
            site_rows = self._find_changes(k, raw)
            if site_rows is None:
                return None
            rows.append(site_rows)
        if 2 * sum(map(len, rows)) > raw.layout.first_rows[-1]:
            return None
        values = [centre_site_rows(raw, k, site_counts) for k, site_counts in enumerate(rows)]
        return self.table.replace_rows(rows, values, divisor)

    def _find_changes(self, k: int, raw: RawRows) -> Ints | None:
        """Return which rows of site k may differ in fixed point, or None for another shape."""
        table = raw.tables.sites[k]
        table_before = self.raw.tables.sites[k]
        if table is table_before:
            return np.empty(0, np.int64)
        edited = table.find_changes(table_before)
        if edited is None:
            return None
        # where the sum over buckets changed, the centring may change any bucket
        sums = raw.tables.shared_sums[k]
        sums_before = self.raw.tables.shared_sums[k]
        columns = np.flatnonzero(sums != sums_before)
        n_buckets = raw.layout.buckets[k]
        after = centre_counts(table.shared.columns(columns), sums[columns], n_buckets)
        before = centre_counts(
            table_before.shared.columns(columns), sums_before[columns], n_buckets
        )
        buckets = np.flatnonzero((after != before).any(axis=1))
        return np.union1d(edited, len(table.own) + buckets)


def centre_site_rows(raw: RawRows, k: int, rows: Ints) -> Ints:
    """Return some rows of one site in fixed point, those of buckets centred.

    Shapes
    ------
    rows : (n,); returned : (n, L)
    """
    counts = raw.site_rows(k, rows)
    shared = centre_counts(counts, raw.shared_sums[k], raw.layout.buckets[k])
    return np.where((rows >= len(raw.layout.own(k)))[:, None], shared, counts << FRACTION_BITS)
