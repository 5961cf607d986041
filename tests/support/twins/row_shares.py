"""Shares of labels, added row by row: the twin of ``src/native/answers/row_shares.cpp``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from hammemo._arrays.types import Floats
    from hammemo.votes.mixture.row_shares import RowShares


def add_up(rows: RowShares, totals: Floats, n_labels: int) -> Floats:
    """Return what `RowShares.add_up` does, added in the same order."""
    entries = rows.entries
    m = len(totals)
    row_weights = rows.trust / totals[rows.contexts]
    weighted = np.repeat(row_weights, entries.lengths) * rows.values()
    cells = np.repeat(rows.contexts, entries.lengths) * n_labels + entries.columns
    sums = np.bincount(cells, weighted, m * n_labels)
    return np.asarray(sums, np.float64).reshape(m, n_labels)
