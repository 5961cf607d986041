"""The raw counts of a hashed memory as its readers see them: labels in canonical order, declared ones included.

They are read row by row from the pages of a version, or put together as whole tables when those are worth it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hammemo._versions import Cached, cached_property
from hammemo.memories.budget import CompileBudget

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hammemo.memories.hashed.layout import RowLayout
    from hammemo.memories.hashed.tables import Tables
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
        self._price = share * int(layout.first_rows[-1]) * n_labels + 16 * CELLS_A_CALL  # it has costs of its own

    def is_spent(self, n_contexts: int) -> bool:
        """Return whether a table pays by now, these contexts counted."""
        self.spend(n_contexts)
        return self.spent > self._price


class RawRows(Cached):
    """The rows of raw counts of every site: upper bounds in buckets, exact in reserved rows (`RowLayout.own`).

    Parameters
    ----------
    layout : RowLayout
    tables : Tables
    source : ndarray of shape (L,)
        The column of each label in the tables, -1 for one that has none.
    """

    def __init__(self, layout: RowLayout, tables: Tables, source: NDArray[np.int64]) -> None:
        self.layout = layout
        self.tables = tables
        self.source = source

    @cached_property
    def counts(self) -> list[NDArray[Any]]:
        """All rows of each site: arrays of shape (rows of the site, L)."""
        return [table.stacked(self.source) for table in self.tables.sites]

    @cached_property
    def shared_sums(self) -> NDArray[np.int64]:
        """The sum over each site's buckets, label by label: (S, L)."""
        return self._arranged(self.tables.shared_sums)

    def read(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the rows of raw counts, zeros where the row is -1.

        Shapes
        ------
        rows : (m, S); returned : (m, S, L)
        """
        return self._arranged(self.tables.read(rows))

    def site_rows(self, k: int, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return some rows of raw counts of one site: (n, L)."""
        return self._arranged(self.tables.sites[k].read(rows))

    def _arranged(self, values: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the last axis, columns of the tables, in the order of the labels."""
        if self.source is self.tables.columns and self.tables.in_order:
            return values
        placed = np.zeros((*values.shape[:-1], len(self.source)), np.int64)
        held = self.source >= 0
        placed[..., held] = values[..., self.source[held]]
        return placed

    def site_counts(self, contexts: Contexts) -> NDArray[np.float64]:
        """Return the row of raw counts that each site of each context reads, zeros where it reads none: (m, S, L)."""
        return self.read(self.layout.found(contexts)).astype(np.float64)

    def bounds(self, contexts: Contexts) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return what the exact counts are at least, and at most: reserved rows are exact, buckets start at zero.

        Shapes
        ------
        returned : (m, S, L), (m, S, L)
        """
        rows = self.layout.found(contexts)
        high = self.read(rows).astype(np.float64)
        n_own, _ = self.layout.sizes
        return np.where((rows < n_own)[:, :, None], high, 0.0), high
