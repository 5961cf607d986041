"""The counts of every site of a hashed memory, in one version, and which column each label has.

Nothing here changes: an edit makes other tables, which share the pages that it does not touch.

- `PagedRows` are rows of counts, as narrow as the counts allow, in pages. An edit of a few cells
  copies the pages that hold them and shares the others. An edit of many cells makes one new table,
  whose pages are views of it.
- `SiteTable` has the counts of one site: rows of reserved features, then buckets.
- `Tables` has those of all sites and, beside them, two sums over rows, label by label, that edits
  keep up to date. `totals` are over all rows of a site: what an example adds to no row, where it
  holds no token, still counts among the label's examples, so this sum may never exceed them.
  `shared_sums` are over the buckets of a site: the centring needs them
  (:mod:`hammemo.memories.hashed.readers`).

Labels are given columns as they come, and there are spare columns, all zeros. So a new label takes
one of those and most of the time copies nothing, and a label whose last example goes leaves a
column of zeros: a spare one. What is written to files, and what readers show, has labels in
canonical order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from hammemo._versions import Cached, cached_property
from hammemo.memories.errors import never_stored
from hammemo.tokens.contexts import MAX_EXAMPLES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hammemo._arrays.checked import StoredArrays
    from hammemo._arrays.types import Array, Ints
    from hammemo.memories.hashed.layout import TableCells
    from hammemo.memories.label_counts import LabelCounts

PAGE_BYTES = 2**12
"""Most bytes of a page of more than one row: it is copied in about a microsecond."""


class PagedRows:
    """Rows of counts, in columns; their user gives each label one.

    Parameters
    ----------
    whole : ndarray of unsigned integers, shape (rows, columns)
        The counts; not to be changed afterwards.
    """

    __slots__ = ("_page_rows", "_pages", "_whole", "dtype", "shape")

    def __init__(self, whole: Array) -> None:
        self.shape = whole.shape
        self.dtype = whole.dtype
        self._page_rows = max(1, PAGE_BYTES // max(1, whole.shape[1] * whole.itemsize))
        self._whole: Array | None = whole
        self._pages: tuple[Array, ...] | None = None

    def __len__(self) -> int:
        return int(self.shape[0])

    @property
    def pages(self) -> tuple[Array, ...]:
        """The pages, in order."""
        pages = self._pages
        if pages is None:
            assert self._whole is not None
            step = self._page_rows
            pages = self._pages = tuple(
                self._whole[start : start + step] for start in range(0, len(self), step)
            )
        return pages

    def whole(self) -> Array:
        """Return all rows as one array, which may be shared: it is not to be changed."""
        whole = self._whole
        if whole is None:
            whole = self._whole = np.concatenate(self.pages)
        return whole

    def row(self, row: int) -> Array:
        """Return one row, which may be shared: it is not to be changed."""
        page, place = divmod(row, self._page_rows)
        return self.pages[page][place]  # type: ignore[no-any-return]

    def rows(self, rows: Ints) -> Array:
        """Return some rows as one array.

        A version whose pages were never put together is read page by page.
        """
        if self._whole is None and len(rows) < len(self.pages):
            pieces = [self.row(row) for row in rows.tolist()]
            return np.array(pieces, self.dtype).reshape(len(rows), self.shape[1])
        return np.asarray(self.whole()[rows])

    def columns(self, columns: Ints) -> Ints:
        """Return some columns of all rows."""
        pieces = [piece[:, columns] for piece in self._parts()]
        return np.concatenate([np.empty((0, len(columns)), np.int64), *pieces]).astype(np.int64)

    def _parts(self) -> tuple[Array, ...]:
        """Return all rows in order: as one array if there is one, else the pages."""
        return self.pages if self._whole is None else (self._whole,)

    def find_changes(self, before: PagedRows) -> Ints | None:
        """Return which rows differ from another version's, or None for pages of another shape.

        Pages that both versions share are equal, so only the others are compared.
        """
        if (self.shape, self.dtype) != (before.shape, before.dtype):
            return None
        rows = [np.empty(0, np.int64)]
        for number, (page, page_before) in enumerate(zip(self.pages, before.pages, strict=True)):
            if page is not page_before:
                differs = (page != page_before).any(axis=1)
                rows.append(number * self._page_rows + np.flatnonzero(differs))
        return np.concatenate(rows)

    def at(self, rows: Ints, columns: Ints) -> Ints:
        """Return the counts of some cells."""
        whole = self._whole
        if whole is not None:
            return np.asarray(whole[rows, columns].astype(np.int64))
        counts = np.empty(len(rows), np.int64)
        for page, mask in self._by_page(rows):
            counts[mask] = self.pages[page][rows[mask] - page * self._page_rows, columns[mask]]
        return counts

    def plus(self, rows: Ints, columns: Ints, counts: Ints) -> PagedRows:
        """Return the rows with counts added to distinct cells, wider if the sums need it."""
        if not len(rows):
            return self
        totals = self.at(rows, columns) + counts
        needed = np.min_scalar_type(int(totals.max()))
        wider = needed.itemsize > self.dtype.itemsize
        if wider or len(rows) * self._page_rows > len(self):  # most pages would be copied
            whole = self.whole().astype(needed if wider else self.dtype)
            whole[rows, columns] = totals
            return PagedRows(whole)
        pages = list(self.pages)
        for page, mask in self._by_page(rows):
            pages[page] = pages[page].copy()
            pages[page][rows[mask] - page * self._page_rows, columns[mask]] = totals[mask]
        return self._with_pages(tuple(pages))

    def plus_one(self, row: int, column: int, count: int) -> PagedRows:
        """Return the rows with a count added to one cell.

        `NotStoredError` says that it would become negative.
        """
        number, place = divmod(row, self._page_rows)
        pages = self.pages
        page = pages[number].copy()
        total = int(page[place, column]) + count
        if total < 0:
            raise never_stored()
        if total >> 8 * page.itemsize:  # it needs a wider type
            return self.plus(np.array([row]), np.array([column]), np.array([count]))
        page[place, column] = total
        return self._with_pages((*pages[:number], page, *pages[number + 1 :]))

    def arrange(self, source: Ints) -> PagedRows:
        """Return the columns `source`, where -1 stands for a new one of zeros."""
        rows = np.zeros((len(self), len(source)), self.dtype)
        self.copy_to(rows, source)
        return PagedRows(rows)

    def copy_to(self, out: Array, source: Ints) -> None:
        """Write the columns `source` of all rows into an array of zeros; -1 stays zero."""
        in_use = np.flatnonzero(source >= 0)
        to_columns = column_index(in_use, len(source))
        from_columns = column_index(source[in_use], self.shape[1])
        first = 0
        for piece in self._parts():
            out[first : first + len(piece), to_columns] = piece[:, from_columns]
            first += len(piece)

    def _with_pages(self, pages: tuple[Array, ...]) -> PagedRows:
        """Return rows of the same shape with other pages; `__init__` would need one array."""
        rows = object.__new__(PagedRows)
        rows.shape = self.shape
        rows.dtype = self.dtype
        rows._page_rows = self._page_rows
        rows._whole = None
        rows._pages = pages
        return rows

    def _by_page(self, rows: Ints) -> Iterator[tuple[int, Any]]:
        """Yield each page that holds some of the rows, and which of them."""
        if len(rows) == 1:
            yield int(rows[0]) // self._page_rows, slice(None)
            return
        page_of = rows // self._page_rows
        for page in np.unique(page_of).tolist():
            yield page, page_of == page


def column_index(columns: Ints, width: int) -> Ints | slice:
    """Return an index of these columns among `width`.

    All of them in order, the usual case, need no copy.
    """
    if len(columns) == width and (columns == np.arange(width)).all():
        return slice(None)
    return columns


class SiteTable:
    """The counts of one site: rows of reserved features, then buckets."""

    __slots__ = ("own", "shared")

    def __init__(self, reserved: PagedRows, shared: PagedRows) -> None:
        self.own = reserved
        self.shared = shared

    @classmethod
    def of(cls, reserved: Array, shared: Array) -> SiteTable:
        """Return the table with these rows."""
        return cls(PagedRows(reserved), PagedRows(shared))

    @classmethod
    def empty(cls, reserved: int, buckets: int) -> SiteTable:
        """Return a table without columns."""
        return cls.of(np.zeros((reserved, 0), np.uint8), np.zeros((buckets, 0), np.uint8))

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        return len(self.own) + len(self.shared)

    def stack(self, source: Ints) -> Array:
        """Return the columns `source` of all rows as one new array, where -1 stands for zeros."""
        dtype = np.promote_types(self.own.dtype, self.shared.dtype)
        rows = np.zeros((self.n_rows, len(source)), dtype)
        self.own.copy_to(rows[: len(self.own)], source)
        self.shared.copy_to(rows[len(self.own) :], source)
        return rows

    def row(self, row: int) -> Array:
        """Return one row, which may be shared: it is not to be changed."""
        n_own = len(self.own)
        return self.own.row(row) if row < n_own else self.shared.row(row - n_own)

    def read(self, rows: Ints) -> Ints:
        """Return some rows."""
        counts = np.empty((len(rows), self.own.shape[1]), np.int64)
        is_own = rows < len(self.own)
        counts[is_own] = self.own.rows(rows[is_own])
        counts[~is_own] = self.shared.rows(rows[~is_own] - len(self.own))
        return counts

    def find_changes(self, before: SiteTable) -> Ints | None:
        """Return which rows differ from those of another version, or None for another shape."""
        own_rows = self.own.find_changes(before.own)
        shared_rows = self.shared.find_changes(before.shared)
        if own_rows is None or shared_rows is None:
            return None
        return np.concatenate([own_rows, shared_rows + len(self.own)])

    def at(self, rows: Ints, columns: Ints) -> Ints:
        """Return the counts of some cells."""
        counts = np.empty(len(rows), np.int64)
        is_own = rows < len(self.own)
        counts[is_own] = self.own.at(rows[is_own], columns[is_own])
        counts[~is_own] = self.shared.at(rows[~is_own] - len(self.own), columns[~is_own])
        return counts

    def plus(self, cells: TableCells) -> SiteTable:
        """Return the table with counts added to distinct cells."""
        rows, columns, counts = cells
        is_own = rows < len(self.own)
        is_shared = ~is_own
        reserved = self.own.plus(rows[is_own], columns[is_own], counts[is_own])
        buckets = rows[is_shared] - len(self.own)
        shared = self.shared.plus(buckets, columns[is_shared], counts[is_shared])
        return SiteTable(reserved, shared)

    def plus_one(self, row: int, column: int, count: int) -> SiteTable:
        """Return the table with a count added to one cell, for single examples."""
        n_own = len(self.own)
        if row < n_own:
            return SiteTable(self.own.plus_one(row, column, count), self.shared)
        return SiteTable(self.own, self.shared.plus_one(row - n_own, column, count))

    def covers(self, other: SiteTable, columns: Ints, other_columns: Ints) -> bool:
        """Return whether no count in another table's columns is larger than that in these here."""
        columns_here = column_index(columns, self.own.shape[1])
        columns_there = column_index(other_columns, other.own.shape[1])
        pairs = ((self.own, other.own), (self.shared, other.shared))
        return all(
            bool((rows.whole()[:, columns_here] >= other_rows.whole()[:, columns_there]).all())
            for rows, other_rows in pairs
        )

    def merge(
        self, other: SiteTable, columns: Ints, other_columns: Ints, *, sign: int
    ) -> SiteTable:
        """Return the sum with another table, or the difference.

        The columns `other_columns` there are `columns` here.
        """
        return SiteTable(
            _merge_rows(self.own, other.own, columns, other_columns, sign=sign),
            _merge_rows(self.shared, other.shared, columns, other_columns, sign=sign),
        )

    def arrange(self, source: Ints) -> SiteTable:
        """Return the columns `source`, where -1 stands for a new one."""
        return SiteTable(self.own.arrange(source), self.shared.arrange(source))


def read_table(
    stored: StoredArrays, k: int, reserved: int, buckets: int, *, all_labels: LabelCounts
) -> SiteTable:
    """Return the table of site k, checked, with columns for the labels that have examples."""
    n_labels = len(all_labels.labels)
    reserved_rows = stored.whole_numbers(f"own.{k}", (reserved, n_labels), below=MAX_EXAMPLES)
    shared = stored.whole_numbers(f"shared.{k}", (buckets, n_labels), below=MAX_EXAMPLES)
    if not stored.trusted:
        totals = reserved_rows.sum(axis=0, dtype=np.float64) + shared.sum(axis=0, dtype=np.float64)
        if (totals > all_labels.counts).any():
            raise ValueError(
                f"the tables of site {k} count more examples of a label than the label has"
            )
    has_examples = all_labels.counts > 0
    if has_examples.all():
        return SiteTable.of(reserved_rows, shared)
    return SiteTable.of(reserved_rows[:, has_examples], shared[:, has_examples])


def _merge_rows(
    rows: PagedRows, other: PagedRows, columns: Ints, other_columns: Ints, *, sign: int
) -> PagedRows:
    """Return the sum of rows, or the difference, which must not be negative."""
    if not other.shape[0] or not len(other_columns):
        return rows
    columns_here = column_index(columns, rows.shape[1])
    counts = other.whole()[:, column_index(other_columns, other.shape[1])]
    dtype = rows.dtype
    if sign > 0:
        largest = np.min_scalar_type(int(rows.whole().max()) + int(counts.max()))  # of every sum
        if largest.itemsize > dtype.itemsize:
            dtype = largest
    total = rows.whole().astype(dtype)
    if sign > 0:
        total[:, columns_here] += counts.astype(dtype, copy=False)
    else:
        total[:, columns_here] -= counts.astype(dtype, copy=False)
    return PagedRows(total)


_LABELS_A_SPARE = 4
"""Labels for which there is one more column when columns run out."""


class Tables(Cached):
    """The tables of all sites.

    Parameters
    ----------
    sites : tuple of SiteTable
    columns : ndarray of shape (L,)
        The column of each label, in the canonical order of the labels.
    """

    def __init__(self, sites: tuple[SiteTable, ...], columns: Ints) -> None:
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
    def totals(self) -> Ints:
        """The sum of each column over all rows of each site: (S, width).

        A mapped file is not read for them before they are needed.
        """
        reserved_sums = [table.own.whole().sum(axis=0, dtype=np.int64) for table in self.sites]
        return (
            np.array(reserved_sums, np.int64).reshape(len(self.sites), self.width)
            + self.shared_sums
        )

    @cached_property
    def shared_sums(self) -> Ints:
        """The sum of each column over the buckets of each site: (S, width)."""
        sums = [table.shared.whole().sum(axis=0, dtype=np.int64) for table in self.sites]
        return np.array(sums, np.int64).reshape(len(self.sites), self.width)

    def read(self, rows: Ints) -> Ints:
        """Return the row that each site of each context reads, zeros where it reads none (-1).

        Shapes
        ------
        rows : (m, S); returned : (m, S, width)
        """
        if len(rows) == 1:
            return self._read_one(rows[0].tolist())
        read = np.zeros((*rows.shape, self.width), np.int64)
        for k, (table, column) in enumerate(zip(self.sites, rows.T, strict=True)):
            has_row = column >= 0
            read[has_row, k] = table.read(column[has_row])
        return read

    def _read_one(self, rows: list[int]) -> Ints:
        """Return what `read` does, for the rows of one context."""
        none = np.zeros(self.width, np.int64)
        site_rows = [
            none if row < 0 else table.row(row) for table, row in zip(self.sites, rows, strict=True)
        ]
        read = np.concatenate(site_rows, dtype=np.int64, casting="unsafe")
        return read.reshape(1, len(site_rows), self.width)

    def plus(self, cells: Sequence[TableCells]) -> Tables:
        """Return the tables with counts added to distinct cells of each site."""
        pairs = list(zip(self.sites, cells, strict=True))
        tables = Tables(tuple(table.plus(site_cells) for table, site_cells in pairs), self.columns)
        # sums that are known here are kept up to date
        if "totals" in vars(self):
            added = [
                self._column_sums(site_cells.columns, site_cells.counts) for site_cells in cells
            ]
            vars(tables)["totals"] = self.totals + added
        if "shared_sums" in vars(self):
            added = []
            for table, site_cells in pairs:
                is_bucket = site_cells.rows >= len(table.own)
                added.append(
                    self._column_sums(site_cells.columns[is_bucket], site_cells.counts[is_bucket])
                )
            vars(tables)["shared_sums"] = self.shared_sums + added
        return tables

    def _column_sums(self, columns: Ints, counts: Ints) -> Ints:
        # exact in doubles: counts sum below 2^53
        return np.bincount(columns, counts, self.width).astype(np.int64)

    def plus_one(self, rows: list[int], column: int, count: int) -> Tables:
        """Return the tables with a count added to one cell of each site, none where row is -1.

        The count may be negative. `NotStoredError` says that a cell would become negative.
        """
        pairs = list(zip(self.sites, rows, strict=True))
        # from a list: a generator takes longer, and this is done for each single row
        sites = tuple(
            [table if row < 0 else table.plus_one(row, column, count) for table, row in pairs]
        )
        tables = Tables(sites, self.columns)
        caches = vars(self)
        if "in_order" in caches:
            vars(tables)["in_order"] = self.in_order
        if "totals" in caches:
            changed_sites = [k for k, row in enumerate(rows) if row >= 0]
            vars(tables)["totals"] = _plus_at(self.totals, changed_sites, column, count)
        if "shared_sums" in caches:
            changed_sites = [k for k, (table, row) in enumerate(pairs) if row >= len(table.own)]
            vars(tables)["shared_sums"] = _plus_at(self.shared_sums, changed_sites, column, count)
        return tables

    def leaves(self, rows: list[int], column: int, count: int, examples_left: int) -> bool:
        """Return whether, without a count in one cell of each site, no sum exceeds what is left.

        Row -1 is no cell. A sum would exceed it where an example is removed that holds no token
        here, and none like it was stored.
        """
        totals = self.totals[:, column].tolist()
        return all(
            total - (count if row >= 0 else 0) <= examples_left
            for total, row in zip(totals, rows, strict=True)
        )

    def covers(self, cells: Sequence[TableCells], examples_left: Ints) -> bool:
        """Return whether these counts can be removed from distinct cells.

        They can where cells hold at least as much and, without it, no label has more at a site than
        examples are left. The second fails where an example is removed that holds no token here,
        and none like it was stored.

        Parameters
        ----------
        cells : sequence of TableCells, one a site
        examples_left : ndarray of shape (width,)
            The examples that the label of each column keeps.
        """
        for k, (table, site_cells) in enumerate(zip(self.sites, cells, strict=True)):
            if (table.at(site_cells.rows, site_cells.columns) < site_cells.counts).any():
                return False
            sums_left = self.totals[k] - self._column_sums(site_cells.columns, site_cells.counts)
            if (sums_left > examples_left).any():
                return False
        return True

    def covers_tables(self, other: Tables, columns: Ints, examples_left: Ints) -> bool:
        """Return what `covers` does for all of other tables.

        Their labels have these columns here.
        """
        sums_left = self.totals.copy()
        sums_left[:, columns] -= other.totals[:, other.columns]
        if (sums_left > examples_left).any():
            return False
        pairs = zip(self.sites, other.sites, strict=True)
        return all(
            table.covers(other_table, columns, other.columns) for table, other_table in pairs
        )

    def merge(self, other: Tables, columns: Ints, sign: int) -> Tables:
        """Return the sum with other tables or, if it is covered, the difference.

        Their labels have these columns here.
        """
        pairs = zip(self.sites, other.sites, strict=True)
        sites = tuple(
            table.merge(other_table, columns, other.columns, sign=sign)
            for table, other_table in pairs
        )
        return Tables(sites, self.columns)

    def place(self, ranks: Ints) -> Tables:
        """Return tables for other labels.

        `ranks` has the rank that each had among those before, -1 for a new one. New labels take
        spare columns; those of labels that are no longer there must be zeros.
        """
        stays = ranks >= 0
        columns = np.full(len(ranks), -1, np.int64)
        columns[stays] = self.columns[ranks[stays]]
        spare = np.setdiff1d(np.arange(self.width), columns)
        n_new = len(ranks) - int(stays.sum())
        if 2 * len(ranks) < self.width or n_new > len(spare):
            return self._with_room(columns, growing=self.width > 0 and n_new > len(spare))
        columns[~stays] = spare[:n_new]
        return self._copy_sums(Tables(self.sites, columns), slice(None))

    def _with_room(self, columns: Ints, *, growing: bool) -> Tables:
        """Return tables whose columns are these, then spare ones where labels keep coming."""
        n_spare = len(columns) // _LABELS_A_SPARE + 1 if growing else 0
        source = np.concatenate([columns, np.full(n_spare, -1, np.int64)])
        sites = tuple(table.arrange(source) for table in self.sites)
        return self._copy_sums(Tables(sites, np.arange(len(columns))), source)

    def _copy_sums(self, tables: Tables, source: Ints | slice) -> Tables:
        """Give other tables the sums that are known here, in the columns `source`; -1 is zero."""
        for name in ("totals", "shared_sums"):
            sums = vars(self).get(name)
            if sums is None:
                continue
            if not isinstance(source, slice):
                no_column = np.zeros((len(sums), 1), np.int64)  # -1 reads the last column
                sums = np.ascontiguousarray(np.concatenate([sums, no_column], axis=1)[:, source])
            vars(tables)[name] = sums
        return tables


def _plus_at(sums: Ints, sites: list[int], column: int, count: int) -> Ints:
    """Return sums with a count added in one column, at some sites."""
    total = sums.copy()
    of_column = total[:, column]
    for k in sites:  # for a few of them faster than an index
        of_column[k] += count
    return total
