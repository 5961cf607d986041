"""Rows of counts that never change: as narrow as the counts allow, in pages, so that versions share most of them.

An edit of a few cells copies the pages that hold them and shares the others. An edit of many cells makes one new table,
whose pages are views of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from hammemo.memories.errors import never_stored

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

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

    def __init__(self, whole: NDArray[Any]) -> None:
        self.shape = whole.shape
        self.dtype = whole.dtype
        self._page_rows = max(1, PAGE_BYTES // max(1, whole.shape[1] * whole.itemsize))
        self._whole: NDArray[Any] | None = whole
        self._pages: tuple[NDArray[Any], ...] | None = None

    def __len__(self) -> int:
        return int(self.shape[0])

    @property
    def pages(self) -> tuple[NDArray[Any], ...]:
        """The pages, in order."""
        pages = self._pages
        if pages is None:
            assert self._whole is not None
            step = self._page_rows
            pages = self._pages = tuple(self._whole[start : start + step] for start in range(0, len(self), step))
        return pages

    def whole(self) -> NDArray[Any]:
        """Return all rows as one array, which may be shared: it is not to be changed."""
        whole = self._whole
        if whole is None:
            whole = self._whole = np.concatenate(self.pages)
        return whole

    def row(self, row: int) -> NDArray[Any]:
        """Return one row, which may be shared: it is not to be changed."""
        page, place = divmod(row, self._page_rows)
        return self.pages[page][place]  # type: ignore[no-any-return]

    def rows(self, rows: NDArray[np.int64]) -> NDArray[Any]:
        """Return some rows as one array; a version whose pages were never put together is read page by page."""
        if self._whole is None and len(rows) < len(self.pages):
            return np.array([self.row(row) for row in rows.tolist()], self.dtype).reshape(len(rows), self.shape[1])
        return np.asarray(self.whole()[rows])

    def columns(self, columns: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return some columns of all rows."""
        parts = [part[:, columns] for part in (self.pages if self._whole is None else (self._whole,))]
        return np.concatenate([np.empty((0, len(columns)), np.int64), *parts]).astype(np.int64)

    def changed_rows(self, before: PagedRows) -> NDArray[np.int64] | None:
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

    def at(self, rows: NDArray[np.int64], columns: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the counts of some cells."""
        whole = self._whole
        if whole is not None:
            return np.asarray(whole[rows, columns].astype(np.int64))
        counts = np.empty(len(rows), np.int64)
        for page, mask in self._by_page(rows):
            counts[mask] = self.pages[page][rows[mask] - page * self._page_rows, columns[mask]]
        return counts

    def plus(self, rows: NDArray[np.int64], columns: NDArray[np.int64], counts: NDArray[np.int64]) -> PagedRows:
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

    def arranged(self, source: NDArray[np.int64]) -> PagedRows:
        """Return the columns `source`, where -1 stands for a new one of zeros."""
        placed = np.zeros((len(self), len(source)), self.dtype)
        self.copy_to(placed, source)
        return PagedRows(placed)

    def copy_to(self, out: NDArray[Any], source: NDArray[np.int64]) -> None:
        """Write the columns `source` of all rows into an array of zeros, where -1 stands for one that stays zero."""
        held = np.flatnonzero(source >= 0)
        there, here = column_index(held, len(source)), column_index(source[held], self.shape[1])
        first = 0
        for part in self.pages if self._whole is None else (self._whole,):
            out[first : first + len(part), there] = part[:, here]
            first += len(part)

    def _of_pages(self, pages: tuple[NDArray[Any], ...]) -> PagedRows:
        rows = object.__new__(PagedRows)
        rows.shape, rows.dtype, rows._page_rows = self.shape, self.dtype, self._page_rows
        rows._whole, rows._pages = None, pages
        return rows

    def _by_page(self, rows: NDArray[np.int64]) -> Iterator[tuple[int, Any]]:
        """Yield each page that holds some of the rows, and which of them."""
        if len(rows) == 1:
            yield int(rows[0]) // self._page_rows, slice(None)
            return
        page_of = rows // self._page_rows
        for page in np.unique(page_of).tolist():
            yield page, page_of == page


def column_index(columns: NDArray[np.int64], width: int) -> NDArray[np.int64] | slice:
    """Return an index of these columns among `width`; all of them in order, the usual case, need no copy."""
    return slice(None) if len(columns) == width and (columns == np.arange(width)).all() else columns
