r"""From the compiled table of one version of a hashed memory to that of a later one.

Versions share the pages that no edit touched, so what differs between two of them is found by comparing the others,
whatever happened in between. Beside the edited rows themselves there is the centring: it subtracts the sum M of a
label over all buckets of a site, divided by their number less one, and rounds. So where M changed, any bucket may have
another value in that label's column, though few do; that one column is computed for both versions and compared.

Then the compiled table is copied with new numbers in those rows. That is about ten times as fast as computing all of
them, and gives the same table to the byte.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hammemo.memories.hashed.centring import FRACTION_BITS, centred_counts

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hammemo.memories.hashed.native_table import NativeTable
    from hammemo.memories.hashed.raw_rows import RawRows


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
    weights: NDArray[np.float64]
    table: NativeTable

    def table_of(
        self, raw: RawRows, weights: NDArray[np.float64], divisor: NDArray[np.float64] | None
    ) -> NativeTable | None:
        """Return the table of another version, or None where it has to be made of all rows.

        That is so where labels came or went, counts became wider, weights changed, or most rows did.
        """
        if not np.array_equal(weights, self.weights) or not np.array_equal(raw.source, self.raw.source):
            return None
        rows = []
        for k in range(len(weights)):
            changed = self._changed(k, raw)
            if changed is None:
                return None
            rows.append(changed)
        if 2 * sum(map(len, rows)) > raw.layout.first_rows[-1]:
            return None
        values = [centred_site_rows(raw, k, part) for k, part in enumerate(rows)]
        return self.table.replaced(rows, values, divisor)

    def _changed(self, k: int, raw: RawRows) -> NDArray[np.int64] | None:
        """Return the rows of site k whose centred counts may differ, or None where the tables have another shape."""
        mine, theirs = raw.tables.sites[k], self.raw.tables.sites[k]
        if mine is theirs:
            return np.empty(0, np.int64)
        edited = mine.changed_rows(theirs)
        if edited is None:
            return None
        sums = raw.tables.shared_sums[k], self.raw.tables.shared_sums[k]
        columns = np.flatnonzero(sums[0] != sums[1])
        tables = zip((mine, theirs), sums, strict=True)
        after, before = (
            centred_counts(table.shared.columns(columns), part[columns], raw.layout.buckets[k])
            for table, part in tables
        )
        return np.union1d(edited, len(mine.own) + np.flatnonzero((after != before).any(axis=1)))


def centred_site_rows(raw: RawRows, k: int, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return some rows of one site in fixed point, those of buckets centred.

    Shapes
    ------
    rows : (n,); returned : (n, L)
    """
    counts = raw.site_rows(k, rows)
    shared = centred_counts(counts, raw.shared_sums[k], raw.layout.buckets[k])
    return np.where((rows >= len(raw.layout.own(k)))[:, None], shared, counts << FRACTION_BITS)
