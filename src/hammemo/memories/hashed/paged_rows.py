"""Rows of counts that never change: as narrow as the counts allow, in pages, so that versions share most of them.

An edit of a few cells copies the pages that hold them and shares the others. An edit of many cells makes one new table,
whose pages are views of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

PAGE_BYTES = 2**13
"""What a page takes at the most, if it has more than one row: small enough to be copied in a microsecond."""


class PagedRows:
    """Rows of counts, one column a label.

    Parameters
    ----------
    whole : ndarray of unsigned integers, shape (rows, labels)
        The counts; not to be changed afterwards.
    """

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

    def copy_to(self, out: NDArray[Any], columns: NDArray[np.int64]) -> None:
        """Write all rows into an array of as many rows, at these columns of it."""
        if self._whole is not None:
            out[:, columns] = self._whole
            return
        first = 0
        for page in self.pages:
            out[first : first + len(page), columns] = page
            first += len(page)

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

    def cell(self, row: int, column: int) -> int:
        """Return one count."""
        page, place = divmod(row, self._page_rows)
        return int(self.pages[page][place, column])

    def plus_one(self, row: int, column: int, count: int) -> PagedRows:
        """Return the rows with a count added to one cell: what `plus` does, for single examples."""
        total = self.cell(row, column) + count
        if total > np.iinfo(self.dtype).max:
            return self.plus(np.array([row]), np.array([column]), np.array([count]))
        page, place = divmod(row, self._page_rows)
        changed = self.pages[page].copy()
        changed[place, column] = total
        return self._of_pages((*self.pages[:page], changed, *self.pages[page + 1 :]))

    def rearranged(self, source: NDArray[np.int64]) -> PagedRows:
        """Return the columns `source`, where -1 stands for a new one of zeros."""
        placed = np.zeros((len(self), len(source)), self.dtype)
        placed[:, source >= 0] = self.whole()[:, source[source >= 0]]
        return PagedRows(placed)

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
