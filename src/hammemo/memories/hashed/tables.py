"""The counts of every site of a hashed memory, in one version, and which column each label has.

Nothing here changes: an edit makes other tables, which share the pages that it does not touch. Beside the counts there
are two sums over rows, label by label, that edits keep up to date:

- `totals`, over all rows of a site: what an example adds to no row, where it holds no token, still counts among the
  label's examples, so this sum may never exceed them;
- `shared_sums`, over the buckets of a site: the centring needs them (:mod:`hammemo.memories.hashed.readers`).

Labels are given columns as they come, and there are spare columns, all zeros. So a new label takes one of those and
most of the time copies nothing, and a label whose last example goes leaves a column of zeros: a spare one. What is
written to files, and what readers show, has labels in canonical order.

The counts of one site of a hashed memory: rows of reserved features, then buckets.

A table never changes: an edit makes another one, which shares the pages that it does not touch.

Rows of counts that never change: as narrow as the counts allow, in pages, so that versions share most of them.

An edit of a few cells copies the pages that hold them and shares the others. An edit of many cells makes one new table,
whose pages are views of it.
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
    from hammemo.memories.hashed.layout import Cells
    from hammemo.memories.label_counts import LabelCounts

PAGE_BYTES = 2**12
"""What a page takes at the most, if it has more than one row: small enough to be copied in a microsecond."""


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
            pages = self._pages = tuple(self._whole[start : start + step] for start in range(0, len(self), step))
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
        """Return some rows as one array; a version whose pages were never put together is read page by page."""
        if self._whole is None and len(rows) < len(self.pages):
            return np.array([self.row(row) for row in rows.tolist()], self.dtype).reshape(len(rows), self.shape[1])
        return np.asarray(self.whole()[rows])

    def columns(self, columns: Ints) -> Ints:
        """Return some columns of all rows."""
        parts = [part[:, columns] for part in (self.pages if self._whole is None else (self._whole,))]
        return np.concatenate([np.empty((0, len(columns)), np.int64), *parts]).astype(np.int64)

    def changed_rows(self, before: PagedRows) -> Ints | None:
        """Return which rows differ from those of another version, or None where its pages are of another shape.

        Pages that both versions share are equal, so only the others are compared.
        """
        if (self.shape, self.dtype) != (before.shape, before.dtype):
            return None
        changed = [np.empty(0, np.int64)]
        for page, (mine, theirs) in enumerate(zip(self.pages, before.pages, strict=True)):
            if mine is not theirs:
                changed.append(page * self._page_rows + np.flatnonzero((mine != theirs).any(axis=1)))
        return np.concatenate(changed)

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
            changed = self.whole().astype(needed if wider else self.dtype)
            changed[rows, columns] = totals
            return PagedRows(changed)
        pages = list(self.pages)
        for page, mask in self._by_page(rows):
            pages[page] = pages[page].copy()
            pages[page][rows[mask] - page * self._page_rows, columns[mask]] = totals[mask]
        return self._of_pages(tuple(pages))

    def plus_one(self, row: int, column: int, count: int) -> PagedRows:
        """Return the rows with a count added to one cell, or raise `NotStoredError` where it would become negative."""
        page, place = divmod(row, self._page_rows)
        pages = self.pages
        changed = pages[page].copy()
        total = int(changed[place, column]) + count
        if total < 0:
            raise never_stored()
        if total >> 8 * changed.itemsize:
            return self.plus(np.array([row]), np.array([column]), np.array([count]))
        changed[place, column] = total
        return self._of_pages((*pages[:page], changed, *pages[page + 1 :]))

    def arranged(self, source: Ints) -> PagedRows:
        """Return the columns `source`, where -1 stands for a new one of zeros."""
        placed = np.zeros((len(self), len(source)), self.dtype)
        self.copy_to(placed, source)
        return PagedRows(placed)

    def copy_to(self, out: Array, source: Ints) -> None:
        """Write the columns `source` of all rows into an array of zeros, where -1 stands for one that stays zero."""
        held = np.flatnonzero(source >= 0)
        there, here = column_index(held, len(source)), column_index(source[held], self.shape[1])
        first = 0
        for part in self.pages if self._whole is None else (self._whole,):
            out[first : first + len(part), there] = part[:, here]
            first += len(part)

    def _of_pages(self, pages: tuple[Array, ...]) -> PagedRows:
        rows = object.__new__(PagedRows)
        rows.shape, rows.dtype, rows._page_rows = self.shape, self.dtype, self._page_rows
        rows._whole, rows._pages = None, pages
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
    """Return an index of these columns among `width`; all of them in order, the usual case, need no copy."""
    return slice(None) if len(columns) == width and (columns == np.arange(width)).all() else columns


class SiteTable:
    """The counts of one site: rows of reserved features, then buckets."""

    __slots__ = ("own", "shared")

    def __init__(self, own: PagedRows, shared: PagedRows) -> None:
        self.own = own
        self.shared = shared

    @classmethod
    def of(cls, own: Array, shared: Array) -> SiteTable:
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

    def stacked(self, source: Ints) -> Array:
        """Return the columns `source` of all rows as one new array, where -1 stands for zeros."""
        rows = np.zeros((self.n_rows, len(source)), np.promote_types(self.own.dtype, self.shared.dtype))
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

    def changed_rows(self, before: SiteTable) -> Ints | None:
        """Return which rows differ from those of another version, or None where its tables have another shape."""
        own, shared = self.own.changed_rows(before.own), self.shared.changed_rows(before.shared)
        return None if own is None or shared is None else np.concatenate([own, shared + len(self.own)])

    def at(self, rows: Ints, columns: Ints) -> Ints:
        """Return the counts of some cells."""
        counts = np.empty(len(rows), np.int64)
        is_own = rows < len(self.own)
        counts[is_own] = self.own.at(rows[is_own], columns[is_own])
        counts[~is_own] = self.shared.at(rows[~is_own] - len(self.own), columns[~is_own])
        return counts

    def plus(self, rows: Ints, columns: Ints, counts: Ints) -> SiteTable:
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

    def covers(self, other: SiteTable, mine: Ints, theirs: Ints) -> bool:
        """Return whether no count of another table's columns `theirs` is larger than that in the column `mine` here."""
        parts = ((self.own, other.own), (self.shared, other.shared))
        here, there = column_index(mine, self.own.shape[1]), column_index(theirs, other.own.shape[1])
        return all(bool((part.whole()[:, here] >= taken.whole()[:, there]).all()) for part, taken in parts)

    def merged(self, other: SiteTable, mine: Ints, theirs: Ints, sign: int) -> SiteTable:
        """Return the sum with another table, whose columns `theirs` stand at `mine` here; or the difference."""
        return SiteTable(
            _merged(self.own, other.own, mine, theirs, sign), _merged(self.shared, other.shared, mine, theirs, sign)
        )

    def arranged(self, source: Ints) -> SiteTable:
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


def _merged(part: PagedRows, other: PagedRows, mine: Ints, theirs: Ints, sign: int) -> PagedRows:
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


_SPARE = 4  # columns for which one more is made when columns run out


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
        """The sum of each column over all rows of each site: (S, width). A mapped file is not read for them before."""
        own = [table.own.whole().sum(axis=0, dtype=np.int64) for table in self.sites]
        return np.array(own, np.int64).reshape(len(self.sites), self.width) + self.shared_sums

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

    def _column_sums(self, columns: Ints, counts: Ints) -> Ints:
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

    def covers(self, cells: Sequence[Cells], examples_left: Ints) -> bool:
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

    def covers_tables(self, other: Tables, mine: Ints, examples_left: Ints) -> bool:
        """Return what `covers` does for all of other tables, whose labels have the columns `mine` here."""
        left = self.totals.copy()
        left[:, mine] -= other.totals[:, other.columns]
        pairs = zip(self.sites, other.sites, strict=True)
        return not (left > examples_left).any() and all(a.covers(b, mine, other.columns) for a, b in pairs)

    def merged(self, other: Tables, mine: Ints, sign: int) -> Tables:
        """Return the sum with tables whose labels have the columns `mine` here; or the difference, if it is covered."""
        pairs = zip(self.sites, other.sites, strict=True)
        return Tables(tuple(a.merged(b, mine, other.columns, sign) for a, b in pairs), self.columns)

    def placed(self, ranks: Ints) -> Tables:
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

    def _with_room(self, columns: Ints, *, growing: bool) -> Tables:
        """Return tables whose columns are these, then spare ones: a part of all where labels keep coming."""
        n_spare = len(columns) // _SPARE + 1 if growing else 0
        source = np.concatenate([columns, np.full(n_spare, -1, np.int64)])
        changed = Tables(tuple(table.arranged(source) for table in self.sites), np.arange(len(columns)))
        return self._with_known_sums(changed, source)

    def _with_known_sums(self, changed: Tables, source: Ints | slice) -> Tables:
        for name in ("totals", "shared_sums"):
            sums = vars(self).get(name)
            if sums is not None:
                wider = np.concatenate([sums, np.zeros((len(sums), 1), np.int64)], axis=1)  # -1 reads the last column
                vars(changed)[name] = sums if isinstance(source, slice) else np.ascontiguousarray(wider[:, source])
        return changed


def _plus_at(sums: Ints, sites: list[int], column: int, count: int) -> Ints:
    changed = sums.copy()
    one = changed[:, column]
    for k in sites:  # for a few of them faster than an index
        one[k] += count
    return changed
