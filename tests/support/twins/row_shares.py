"""The plain twin of ``src/native/answers/row_shares.cpp``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from hammemo._arrays.types import Floats
    from hammemo.votes.mixture.row_shares import RowShares


def added_up(rows: RowShares, totals: Floats, n_labels: int) -> Floats:
    """Return what `RowShares.add_up` does, added in the same order."""
    entries, m = rows.entries, len(totals)
    each = np.repeat(rows.trust / totals[rows.contexts], entries.lengths) * rows.values()
    cells = np.repeat(rows.contexts, entries.lengths) * n_labels + entries.columns
    return np.asarray(np.bincount(cells, each, m * n_labels), np.float64).reshape(m, n_labels)
