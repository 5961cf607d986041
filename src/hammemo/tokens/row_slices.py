"""Long tables of questions, cut into slices."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from scipy import sparse

ROWS_AT_ONCE: Final = 2**15
"""Rows that are answered at a time."""


def row_slices(X: Any) -> list[Any]:
    """Return X in slices of bounded length, so that the memory of a question is bounded, too."""
    if sparse.issparse(X):
        sparse_rows: Any = X.tocsr()  # type: ignore[attr-defined]
        starts = range(0, max(sparse_rows.shape[0], 1), ROWS_AT_ONCE)
        return [sparse_rows[start : start + ROWS_AT_ONCE] for start in starts]
    if hasattr(X, "iloc"):
        rows = X.iloc
    elif isinstance(X, list) or (isinstance(X, np.ndarray) and X.ndim):
        rows = X
    else:
        return [X]
    if len(X) <= ROWS_AT_ONCE:
        return [X]
    return [rows[start : start + ROWS_AT_ONCE] for start in range(0, len(X), ROWS_AT_ONCE)]
