"""The counts of one site of a hashed memory: rows of reserved features, then buckets; columns are labels with examples.

A table never changes: an edit makes another one, which shares the pages that it does not touch. Sums over a column are
kept, because what an example adds to no row, where it holds no token, still counts among the label's examples: the sum
may never exceed them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from hammemo._versions import Cached
from hammemo.memories.hashed.paged_rows import PagedRows
from hammemo.tokens.contexts import MAX_EXAMPLES

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hammemo._arrays.checked import StoredArrays
    from hammemo.memories.label_counts import LabelCounts


@dataclass(frozen=True, eq=False)
class SiteTable(Cached):
    """The counts of one site: rows of reserved features, then buckets."""

    own: PagedRows
    shared: PagedRows

    @classmethod
    def of(cls, own: NDArray[Any], shared: NDArray[Any]) -> SiteTable:
        """Return the table with these rows."""
        return cls(PagedRows(own), PagedRows(shared))

    @classmethod
    def empty(cls, reserved: int, buckets: int) -> SiteTable:
        """Return a table without labels."""
        return cls.of(np.zeros((reserved, 0), np.uint8), np.zeros((buckets, 0), np.uint8))

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        return len(self.own) + len(self.shared)

    @cached_property
    def totals(self) -> NDArray[np.int64]:
        """The sum of each label's counts over all rows; a mapped file is not read for them before they are needed."""
        parts = (self.own.whole(), self.shared.whole())
        return np.asarray(sum(part.sum(axis=0, dtype=np.int64) for part in parts))

    def stacked(self, n_labels: int, columns: NDArray[np.int64]) -> NDArray[Any]:
        """Return all rows as one new array, this table's columns at `columns` of `n_labels`."""
        rows = np.zeros((self.n_rows, n_labels), np.promote_types(self.own.dtype, self.shared.dtype))
        self.own.copy_to(rows[: len(self.own)], columns)
        self.shared.copy_to(rows[len(self.own) :], columns)
        return rows

    def covers_cells(
        self,
        rows: NDArray[np.int64],
        columns: NDArray[np.int64],
        counts: NDArray[np.int64],
        examples_left: NDArray[np.int64],
    ) -> bool:
        """Return whether distinct cells hold at least these counts and, without them, no label more than is left.

        The second would happen where an example is taken back that holds no token here, and none like it was stored.
        """
        if len(rows) == 1:
            column, count = int(columns[0]), int(counts[0])
            left = self.totals.copy()
            left[column] -= count
            return self._cell(int(rows[0]), column) >= count and bool((left <= examples_left).all())
        taken = np.bincount(columns, counts, len(self.totals)).astype(np.int64)
        return bool((self._at(rows, columns) >= counts).all() and (self.totals - taken <= examples_left).all())

    def _cell(self, row: int, column: int) -> int:
        n_own = len(self.own)
        return self.own.cell(row, column) if row < n_own else self.shared.cell(row - n_own, column)

    def _at(self, rows: NDArray[np.int64], columns: NDArray[np.int64]) -> NDArray[np.int64]:
        counts = np.empty(len(rows), np.int64)
        is_own = rows < len(self.own)
        counts[is_own] = self.own.at(rows[is_own], columns[is_own])
        counts[~is_own] = self.shared.at(rows[~is_own] - len(self.own), columns[~is_own])
        return counts

    def plus(self, rows: NDArray[np.int64], columns: NDArray[np.int64], counts: NDArray[np.int64]) -> SiteTable:
        """Return the table with counts added to distinct cells."""
        if len(rows) == 1:
            return self._plus_one(int(rows[0]), int(columns[0]), int(counts[0]))
        is_own = rows < len(self.own)
        changed = SiteTable(
            self.own.plus(rows[is_own], columns[is_own], counts[is_own]),
            self.shared.plus(rows[~is_own] - len(self.own), columns[~is_own], counts[~is_own]),
        )
        if "totals" in vars(self):
            vars(changed)["totals"] = self.totals + np.bincount(columns, counts, len(self.totals)).astype(np.int64)
        return changed

    def _plus_one(self, row: int, column: int, count: int) -> SiteTable:
        n_own = len(self.own)
        if row < n_own:
            changed = SiteTable(self.own.plus_one(row, column, count), self.shared)
        else:
            changed = SiteTable(self.own, self.shared.plus_one(row - n_own, column, count))
        if "totals" in vars(self):
            totals = self.totals.copy()
            totals[column] += count
            vars(changed)["totals"] = totals
        return changed

    def covers(self, other: SiteTable, columns: NDArray[np.int64], examples_left: NDArray[np.int64]) -> bool:
        """Return what `covers_cells` does for all of another table, whose columns stand at `columns` here."""
        where = _places(columns, self.own.shape[1])
        left = self.totals.copy()
        left[where] -= other.totals
        if (left > examples_left).any():
            return False
        parts = ((self.own, other.own), (self.shared, other.shared))
        return all(bool((mine.whole()[:, where] >= theirs.whole()).all()) for mine, theirs in parts)

    def merged(self, other: SiteTable, columns: NDArray[np.int64], sign: int) -> SiteTable:
        """Return the sum with a table whose columns stand at `columns` here; or the difference, if it is covered."""
        return SiteTable(_merged(self.own, other.own, columns, sign), _merged(self.shared, other.shared, columns, sign))

    def rearranged(self, source: NDArray[np.int64]) -> SiteTable:
        """Return the columns `source`, where -1 stands for a new one."""
        changed = SiteTable(self.own.rearranged(source), self.shared.rearranged(source))
        if "totals" in vars(self):
            vars(changed)["totals"] = np.where(source >= 0, np.append(self.totals, 0)[source], 0)
        return changed


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


def _places(columns: NDArray[np.int64], width: int) -> NDArray[np.int64] | slice:
    """Return an index of these columns; all of them in order, the usual case, need no copy."""
    return slice(None) if np.array_equal(columns, np.arange(width)) else columns


def _merged(mine: PagedRows, theirs: PagedRows, columns: NDArray[np.int64], sign: int) -> PagedRows:
    if not theirs.shape[0] or not theirs.shape[1]:
        return mine
    where, added = _places(columns, mine.shape[1]), theirs.whole()
    needed = mine.dtype
    if sign > 0:
        largest = np.min_scalar_type(int(mine.whole().max()) + int(added.max()))  # holds every sum
        needed = largest if largest.itemsize > needed.itemsize else needed
    changed = mine.whole().astype(needed)
    if sign > 0:
        changed[:, where] += added.astype(needed, copy=False)
    else:
        changed[:, where] -= added.astype(needed, copy=False)
    return PagedRows(changed)
