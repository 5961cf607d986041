"""The counts of one site of a hashed memory: rows of reserved features, then buckets.

A table never changes: an edit makes another one, which shares the pages that it does not touch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from hammemo.memories.hashed.paged_rows import PagedRows, column_index
from hammemo.tokens.contexts import MAX_EXAMPLES

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hammemo._arrays.checked import StoredArrays
    from hammemo.memories.label_counts import LabelCounts


class SiteTable:
    """The counts of one site: rows of reserved features, then buckets."""

    __slots__ = ("own", "shared")

    def __init__(self, own: PagedRows, shared: PagedRows) -> None:
        self.own = own
        self.shared = shared

    @classmethod
    def of(cls, own: NDArray[Any], shared: NDArray[Any]) -> SiteTable:
        """Return the table with these rows."""
        return cls(PagedRows(own), PagedRows(shared))

    @classmethod
    def empty(cls, reserved: int, buckets: int) -> SiteTable:
        """Return a table without columns."""
        return cls.of(np.zeros((reserved, 0), np.uint8), np.zeros((buckets, 0), np.uint8))

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        return len(self.own) + len(self.shared)

    def stacked(self, source: NDArray[np.int64]) -> NDArray[Any]:
        """Return the columns `source` of all rows as one new array, where -1 stands for zeros."""
        rows = np.zeros((self.n_rows, len(source)), np.promote_types(self.own.dtype, self.shared.dtype))
        self.own.copy_to(rows[: len(self.own)], source)
        self.shared.copy_to(rows[len(self.own) :], source)
        return rows

    def row(self, row: int) -> NDArray[Any]:
        """Return one row, which may be shared: it is not to be changed."""
        n_own = len(self.own)
        return self.own.row(row) if row < n_own else self.shared.row(row - n_own)

    def read(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return some rows."""
        counts = np.empty((len(rows), self.own.shape[1]), np.int64)
        is_own = rows < len(self.own)
        counts[is_own] = self.own.rows(rows[is_own])
        counts[~is_own] = self.shared.rows(rows[~is_own] - len(self.own))
        return counts

    def changed_rows(self, before: SiteTable) -> NDArray[np.int64] | None:
        """Return which rows differ from those of another version, or None where its tables have another shape."""
        own, shared = self.own.changed_rows(before.own), self.shared.changed_rows(before.shared)
        return None if own is None or shared is None else np.concatenate([own, shared + len(self.own)])

    def at(self, rows: NDArray[np.int64], columns: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the counts of some cells."""
        counts = np.empty(len(rows), np.int64)
        is_own = rows < len(self.own)
        counts[is_own] = self.own.at(rows[is_own], columns[is_own])
        counts[~is_own] = self.shared.at(rows[~is_own] - len(self.own), columns[~is_own])
        return counts

    def plus(self, rows: NDArray[np.int64], columns: NDArray[np.int64], counts: NDArray[np.int64]) -> SiteTable:
        """Return the table with counts added to distinct cells."""
        is_own = rows < len(self.own)
        return SiteTable(
            self.own.plus(rows[is_own], columns[is_own], counts[is_own]),
            self.shared.plus(rows[~is_own] - len(self.own), columns[~is_own], counts[~is_own]),
        )

    def plus_one(self, row: int, column: int, count: int) -> SiteTable:
        """Return the table with a count added to one cell: what `plus` does, for single examples."""
        n_own = len(self.own)
        if row < n_own:
            return SiteTable(self.own.plus_one(row, column, count), self.shared)
        return SiteTable(self.own, self.shared.plus_one(row - n_own, column, count))

    def covers(self, other: SiteTable, mine: NDArray[np.int64], theirs: NDArray[np.int64]) -> bool:
        """Return whether no count of another table's columns `theirs` is larger than that in the column `mine` here."""
        parts = ((self.own, other.own), (self.shared, other.shared))
        here, there = column_index(mine, self.own.shape[1]), column_index(theirs, other.own.shape[1])
        return all(bool((part.whole()[:, here] >= taken.whole()[:, there]).all()) for part, taken in parts)

    def merged(self, other: SiteTable, mine: NDArray[np.int64], theirs: NDArray[np.int64], sign: int) -> SiteTable:
        """Return the sum with another table, whose columns `theirs` stand at `mine` here; or the difference."""
        return SiteTable(
            _merged(self.own, other.own, mine, theirs, sign), _merged(self.shared, other.shared, mine, theirs, sign)
        )

    def arranged(self, source: NDArray[np.int64]) -> SiteTable:
        """Return the columns `source`, where -1 stands for a new one."""
        return SiteTable(self.own.arranged(source), self.shared.arranged(source))


def stored_table(stored: StoredArrays, k: int, reserved: int, buckets: int, all_labels: LabelCounts) -> SiteTable:
    """Return the table of site k, checked, with columns for the labels that have examples."""
    n_labels, held = len(all_labels.labels), all_labels.counts > 0
    own = stored.whole_numbers(f"own.{k}", (reserved, n_labels), below=MAX_EXAMPLES)
    shared = stored.whole_numbers(f"shared.{k}", (buckets, n_labels), below=MAX_EXAMPLES)
    if not stored.trusted:
        totals = own.sum(axis=0, dtype=np.float64) + shared.sum(axis=0, dtype=np.float64)
        if (totals > all_labels.counts).any():
            raise ValueError(f"the tables of site {k} count more examples of a label than the label has")
    return SiteTable.of(own, shared) if held.all() else SiteTable.of(own[:, held], shared[:, held])


def _merged(
    part: PagedRows, other: PagedRows, mine: NDArray[np.int64], theirs: NDArray[np.int64], sign: int
) -> PagedRows:
    if not other.shape[0] or not len(theirs):
        return part
    here, added = column_index(mine, part.shape[1]), other.whole()[:, column_index(theirs, other.shape[1])]
    needed = part.dtype
    if sign > 0:
        largest = np.min_scalar_type(int(part.whole().max()) + int(added.max()))  # holds every sum
        needed = largest if largest.itemsize > needed.itemsize else needed
    changed = part.whole().astype(needed)
    if sign > 0:
        changed[:, here] += added.astype(needed, copy=False)
    else:
        changed[:, here] -= added.astype(needed, copy=False)
    return PagedRows(changed)
