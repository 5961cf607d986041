"""The counts of every site of a hashed memory, in one version, and which column each label has.

Nothing here changes: an edit makes other tables, which share the pages that it does not touch. Beside the counts there
are two sums over rows, label by label, that edits keep up to date:

- `totals`, over all rows of a site: what an example adds to no row, where it holds no token, still counts among the
  label's examples, so this sum may never exceed them;
- `shared_sums`, over the buckets of a site: the centring needs them (:mod:`hammemo.memories.hashed.readers`).

Labels are given columns as they come, and there are spare columns, all zeros. So a new label takes one of those and
most of the time copies nothing, and a label whose last example goes leaves a column of zeros: a spare one. What is
written to files, and what readers show, has labels in canonical order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from hammemo._versions import Cached, cached_property
from hammemo.memories.hashed.paged_rows import column_index

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from hammemo.memories.hashed.layout import Cells
    from hammemo.memories.hashed.site_table import SiteTable

_SPARE = 4  # columns for which one more is made when columns run out


class Tables(Cached):
    """The tables of all sites.

    Parameters
    ----------
    sites : tuple of SiteTable
    columns : ndarray of shape (L,)
        The column of each label, in the canonical order of the labels.
    """

    def __init__(self, sites: tuple[SiteTable, ...], columns: NDArray[np.int64]) -> None:
        self.sites = sites
        self.columns = columns

    @cached_property
    def in_order(self) -> bool:
        """Whether the columns are those of the labels in canonical order, and no others."""
        return isinstance(column_index(self.columns, self.width), slice)

    @property
    def width(self) -> int:
        """How many columns there are, spare ones included."""
        return int(self.sites[0].own.shape[1]) if self.sites else 0

    @cached_property
    def totals(self) -> NDArray[np.int64]:
        """The sum of each column over all rows of each site: (S, width). A mapped file is not read for them before."""
        own = [table.own.whole().sum(axis=0, dtype=np.int64) for table in self.sites]
        return np.array(own, np.int64).reshape(len(self.sites), self.width) + self.shared_sums

    @cached_property
    def shared_sums(self) -> NDArray[np.int64]:
        """The sum of each column over the buckets of each site: (S, width)."""
        sums = [table.shared.whole().sum(axis=0, dtype=np.int64) for table in self.sites]
        return np.array(sums, np.int64).reshape(len(self.sites), self.width)

    def read(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the row that each site of each context reads, zeros where it reads none (-1).

        Shapes
        ------
        rows : (m, S); returned : (m, S, width)
        """
        if len(rows) == 1:
            none, pairs = np.zeros(self.width, np.int64), zip(self.sites, rows[0].tolist(), strict=True)
            parts = [none if row < 0 else table.row(row) for table, row in pairs]
            return np.concatenate(parts, dtype=np.int64, casting="unsafe").reshape(1, len(parts), self.width)
        read = np.zeros((*rows.shape, self.width), np.int64)
        for k, (table, column) in enumerate(zip(self.sites, rows.T, strict=True)):
            held = column >= 0
            read[held, k] = table.read(column[held])
        return read

    def plus(self, cells: Sequence[Cells]) -> Tables:
        """Return the tables with counts added to distinct cells of each site."""
        sites = tuple(table.plus(*part) for table, part in zip(self.sites, cells, strict=True))
        return self._with_sums(
            sites,
            lambda k: self._column_sums(*cells[k][1:]),
            lambda k: self._column_sums(*(part[cells[k][0] >= len(self.sites[k].own)] for part in cells[k][1:])),
        )

    def _column_sums(self, columns: NDArray[np.int64], counts: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.bincount(columns, counts, self.width).astype(np.int64)  # exact: counts sum below 2^53

    def _with_sums(self, sites: tuple[SiteTable, ...], added: Any, added_to_buckets: Any) -> Tables:
        """Return other tables with the sums that are known here, and what is added to each site's."""
        changed = Tables(sites, self.columns)
        for name, more in (("totals", added), ("shared_sums", added_to_buckets)):
            if name in vars(self):
                vars(changed)[name] = vars(self)[name] + [more(k) for k in range(len(sites))]
        return changed

    def plus_one(self, rows: list[int], column: int, count: int) -> Tables:
        """Return the tables with a count, which may be negative, added to one cell of each site, none where row is -1.

        Raises `NotStoredError` where a cell would become negative.
        """
        pairs = zip(self.sites, rows, strict=True)
        sites = tuple([table if row < 0 else table.plus_one(row, column, count) for table, row in pairs])
        changed = Tables(sites, self.columns)
        if "in_order" in vars(self):
            vars(changed)["in_order"] = self.in_order
        if "totals" in vars(self):
            held = [k for k, row in enumerate(rows) if row >= 0]
            vars(changed)["totals"] = _plus_at(self.totals, held, column, count)
        if "shared_sums" in vars(self):
            held = [k for k, (table, row) in enumerate(zip(self.sites, rows, strict=True)) if row >= len(table.own)]
            vars(changed)["shared_sums"] = _plus_at(self.shared_sums, held, column, count)
        return changed

    def leaves(self, rows: list[int], column: int, count: int, examples_left: int) -> bool:
        """Return whether, without a count in one cell of each site (no cell: row -1), no sum exceeds what is left.

        It would where an example is removed that holds no token here, and none like it was stored.
        """
        totals = self.totals[:, column].tolist()
        return all(total - (count if row >= 0 else 0) <= examples_left for total, row in zip(totals, rows, strict=True))

    def covers(self, cells: Sequence[Cells], examples_left: NDArray[np.int64]) -> bool:
        """Return whether distinct cells hold at least these counts and, without them, no label more than is left.

        The second would happen where an example is removed that holds no token here, and none like it was stored.

        Parameters
        ----------
        cells : sequence of (rows, columns, counts)
        examples_left : ndarray of shape (width,)
            The examples that the label of each column keeps.
        """
        for k, (table, (rows, columns, counts)) in enumerate(zip(self.sites, cells, strict=True)):
            if (table.at(rows, columns) < counts).any():
                return False
            if (self.totals[k] - self._column_sums(columns, counts) > examples_left).any():
                return False
        return True

    def covers_tables(self, other: Tables, mine: NDArray[np.int64], examples_left: NDArray[np.int64]) -> bool:
        """Return what `covers` does for all of other tables, whose labels have the columns `mine` here."""
        left = self.totals.copy()
        left[:, mine] -= other.totals[:, other.columns]
        pairs = zip(self.sites, other.sites, strict=True)
        return not (left > examples_left).any() and all(a.covers(b, mine, other.columns) for a, b in pairs)

    def merged(self, other: Tables, mine: NDArray[np.int64], sign: int) -> Tables:
        """Return the sum with tables whose labels have the columns `mine` here; or the difference, if it is covered."""
        pairs = zip(self.sites, other.sites, strict=True)
        return Tables(tuple(a.merged(b, mine, other.columns, sign) for a, b in pairs), self.columns)

    def placed(self, ranks: NDArray[np.int64]) -> Tables:
        """Return tables for other labels: `ranks` has the rank that each had among those before, -1 for a new one.

        New labels take spare columns; those of labels that are no longer there must be zeros.
        """
        kept = ranks >= 0
        columns = np.full(len(ranks), -1, np.int64)
        columns[kept] = self.columns[ranks[kept]]
        spare = np.setdiff1d(np.arange(self.width), columns)
        n_new = len(ranks) - int(kept.sum())
        if 2 * len(ranks) < self.width or n_new > len(spare):
            return self._with_room(columns, growing=self.width > 0 and n_new > len(spare))
        columns[~kept] = spare[:n_new]
        return self._with_known_sums(Tables(self.sites, columns), slice(None))

    def _with_room(self, columns: NDArray[np.int64], *, growing: bool) -> Tables:
        """Return tables whose columns are these, then spare ones: a part of all where labels keep coming."""
        n_spare = len(columns) // _SPARE + 1 if growing else 0
        source = np.concatenate([columns, np.full(n_spare, -1, np.int64)])
        changed = Tables(tuple(table.arranged(source) for table in self.sites), np.arange(len(columns)))
        return self._with_known_sums(changed, source)

    def _with_known_sums(self, changed: Tables, source: NDArray[np.int64] | slice) -> Tables:
        for name in ("totals", "shared_sums"):
            sums = vars(self).get(name)
            if sums is not None:
                wider = np.concatenate([sums, np.zeros((len(sums), 1), np.int64)], axis=1)  # -1 reads the last column
                vars(changed)[name] = sums if isinstance(source, slice) else np.ascontiguousarray(wider[:, source])
        return changed


def _plus_at(sums: NDArray[np.int64], sites: list[int], column: int, count: int) -> NDArray[np.int64]:
    changed = sums.copy()
    one = changed[:, column]
    for k in sites:  # for a few of them faster than an index
        one[k] += count
    return changed
