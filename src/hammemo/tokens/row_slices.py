"""Long tables of questions in slices."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from scipy import sparse

ROWS_AT_ONCE: Final = 2**15
"""Rows that are answered at a time."""


def row_slices(X: Any) -> list[Any]:
    """Return X in slices of bounded length.

    So a question takes no more memory the longer it is.
    """
    if sparse.issparse(X):
        sparse_rows: Any = X.tocsr()  # type: ignore[attr-defined]
        m = sparse_rows.shape[0]
        return [
            sparse_rows[first : first + ROWS_AT_ONCE] for first in range(0, max(m, 1), ROWS_AT_ONCE)
        ]
    if hasattr(X, "iloc"):
        rows = X.iloc
    elif isinstance(X, list) or (isinstance(X, np.ndarray) and X.ndim):
        rows = X
    else:
        return [X]
    if len(X) <= ROWS_AT_ONCE:
        return [X]
    return [rows[first : first + ROWS_AT_ONCE] for first in range(0, len(X), ROWS_AT_ONCE)]
