"""In which fold each copy of a row lies, and in which order rows are fitted.

An additive function has *crossed* coefficients beside those of all rows: one set for each of
`FOLDS` folds, fitted to the rows of the other folds. They say what the function expects of rows
that it has not seen. Folds and the order are functions of what rows hold, so a fit is a function of
the multiset of its rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from hammemo._arrays.types import Array, Ints, Words

FOLDS: Final = 5


def count_in_folds(words: Words, counts: Ints) -> Ints:
    """Return how many copies of each row lie in each fold: (`FOLDS`, m).

    Copy c of a row with hash w lies in fold (w + c) mod `FOLDS`.

    Examples
    --------
    >>> import numpy as np
    >>> from hammemo.features.additive.base_folds import count_in_folds
    >>> count_in_folds(np.array([3], np.uint64), np.array([7]))
    array([[1],
           [1],
           [1],
           [2],
           [2]])
    """
    folds = np.arange(FOLDS)[:, None]
    # the first copy that lies in each fold
    first_copies = (folds - (words % np.uint64(FOLDS)).astype(np.int64)) % FOLDS
    return counts // FOLDS + (first_copies < counts % FOLDS)


def order_rows(words: Words, *columns: Array) -> Ints:
    """Return the order of rows by their hashes, and among equal hashes by what the rows hold."""
    if (words[1:] > words[:-1]).all():
        return np.arange(len(words))
    keys = [key for column in columns for key in column.reshape(len(words), -1).T]
    return np.lexsort((*keys[::-1], words))  # lexsort's last key counts first
