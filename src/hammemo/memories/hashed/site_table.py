"""The counts of one site of a hashed memory: a table whose parts are as narrow as their counts allow.

Rows of reserved features come first, then buckets; columns are the labels that have examples. Sums over a column are
kept, because what an example adds to no row, where it holds no token, still counts among the label's examples: the sum
may never exceed them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from hammemo.tokens.contexts import MAX_EXAMPLES

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hammemo._arrays.checked import StoredArrays
    from hammemo.memories.label_counts import LabelCounts


class SiteTable:
    """The counts of one site: rows of reserved features, then buckets; each part as narrow as its counts allow."""

    def __init__(self, reserved: int, buckets: int) -> None:
        self.own: NDArray[Any] = np.zeros((reserved, 0), np.uint8)
        self.shared: NDArray[Any] = np.zeros((buckets, 0), np.uint8)
        self._totals: NDArray[np.int64] | None = np.zeros(0, np.int64)

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        return len(self.own) + len(self.shared)

    def hold(self, own: NDArray[Any], shared: NDArray[Any]) -> None:
        """Take these rows in place of all that is here."""
        self.own, self.shared = own, shared
        self._totals = None  # a mapped file is not read for them before they are needed

    @property
    def totals(self) -> NDArray[np.int64]:
        """The sum of each label's counts over all rows."""
        if self._totals is None:
            self._totals = self.own.sum(axis=0, dtype=np.int64) + self.shared.sum(axis=0, dtype=np.int64)
        return self._totals

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
        taken = np.bincount(columns, counts, len(self.totals)).astype(np.int64)
        return bool((self._at(rows, columns) >= counts).all() and (self.totals - taken <= examples_left).all())

    def _at(self, rows: NDArray[np.int64], columns: NDArray[np.int64]) -> NDArray[np.int64]:
        counts = np.empty(len(rows), np.int64)
        is_own = rows < len(self.own)
        counts[is_own] = self.own[rows[is_own], columns[is_own]]
        counts[~is_own] = self.shared[rows[~is_own] - len(self.own), columns[~is_own]]
        return counts

    def add(self, rows: NDArray[np.int64], columns: NDArray[np.int64], counts: NDArray[np.int64]) -> None:
        """Add to distinct cells, widening a part before it would overflow."""
        if self._totals is not None:
            self._totals += np.bincount(columns, counts, len(self._totals)).astype(np.int64)
        is_own = rows < len(self.own)
        self.own = _added(self.own, rows[is_own], columns[is_own], counts[is_own])
        self.shared = _added(self.shared, rows[~is_own] - len(self.own), columns[~is_own], counts[~is_own])

    def covers(self, other: SiteTable, columns: NDArray[np.int64], examples_left: NDArray[np.int64]) -> bool:
        """Return what `covers_cells` does for all of another table, whose columns stand at `columns` here."""
        where = _places(columns, self.own.shape[1])
        left = self.totals.copy()
        left[where] -= other.totals
        if (left > examples_left).any():
            return False
        parts = ((self.own, other.own), (self.shared, other.shared))
        return all(bool((mine[:, where] >= theirs).all()) for mine, theirs in parts)

    def merge(self, other: SiteTable, columns: NDArray[np.int64], sign: int) -> None:
        """Add another table whose columns stand at `columns` here, or subtract one that this table covers."""
        if self._totals is not None:
            self._totals[_places(columns, len(self._totals))] += sign * other.totals
        for name in ("own", "shared"):
            mine, theirs = getattr(self, name), getattr(other, name)
            if not theirs.size:
                continue
            where = _places(columns, mine.shape[1])
            if sign < 0:
                mine[:, where] -= theirs.astype(mine.dtype, copy=False)
                continue
            needed = np.min_scalar_type(int(mine.max()) + int(theirs.max()))  # holds every sum
            if needed.itemsize > mine.dtype.itemsize:
                mine = mine.astype(needed)
                setattr(self, name, mine)
            mine[:, where] += theirs.astype(mine.dtype, copy=False)

    def rearrange(self, source: NDArray[np.int64]) -> None:
        """Take the columns `source`, where -1 stands for a new one."""
        for name in ("own", "shared"):
            part = getattr(self, name)
            placed = np.zeros((len(part), len(source)), part.dtype)
            placed[:, source >= 0] = part[:, source[source >= 0]]
            setattr(self, name, placed)
        if self._totals is not None:
            self._totals = np.where(source >= 0, np.append(self._totals, 0)[source], 0)


def stored_table(
    stored: StoredArrays, k: int, reserved: int, buckets: int, all_labels: LabelCounts
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the rows of site k, checked, with columns for the labels that have examples."""
    n_labels, held = len(all_labels.labels), all_labels.counts > 0
    own = stored.whole_numbers(f"own.{k}", (reserved, n_labels), below=MAX_EXAMPLES)
    shared = stored.whole_numbers(f"shared.{k}", (buckets, n_labels), below=MAX_EXAMPLES)
    if not stored.trusted:
        totals = own.sum(axis=0, dtype=np.float64) + shared.sum(axis=0, dtype=np.float64)
        if (totals > all_labels.counts).any():
            raise ValueError(f"the tables of site {k} count more examples of a label than the label has")
    return (own, shared) if held.all() else (own[:, held], shared[:, held])


def _places(columns: NDArray[np.int64], width: int) -> NDArray[np.int64] | slice:
    """Return an index of these columns; all of them in order, the usual case, need no copy."""
    return slice(None) if np.array_equal(columns, np.arange(width)) else columns


def _added(
    part: NDArray[Any], rows: NDArray[np.int64], columns: NDArray[np.int64], counts: NDArray[np.int64]
) -> NDArray[Any]:
    if not len(rows):
        return part
    totals = part[rows, columns].astype(np.int64) + counts
    needed = np.min_scalar_type(int(totals.max()))
    if needed.itemsize > part.dtype.itemsize:
        part = part.astype(needed)
    part[rows, columns] = totals
    return part
