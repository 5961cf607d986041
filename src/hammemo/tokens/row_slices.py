"""Long tables of questions in slices."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

ROWS_AT_ONCE: Final = 2**15
"""Rows that are answered at a time."""


def row_slices(X: Any) -> list[Any]:
    """Return X in slices of bounded length, so that a question takes no more memory the longer it is."""
    if hasattr(X, "iloc"):
        rows = X.iloc
    elif isinstance(X, list) or (isinstance(X, np.ndarray) and X.ndim):
        rows = X
    else:
        return [X]
    if len(X) <= ROWS_AT_ONCE:
        return [X]
    return [rows[first : first + ROWS_AT_ONCE] for first in range(0, len(X), ROWS_AT_ONCE)]
