"""Which labels a question may be answered with: all but some, some only, the same for all contexts or not.

A mask has two parts, and a label must pass both: flags for all contexts alike, and one list of labels for each context,
which are either left out or the only ones that are allowed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from hammemo._arrays.types import Bools, Ints


@dataclass(frozen=True, eq=False)
class LabelMask:
    """Which of L labels each of m contexts may be answered with.

    Parameters
    ----------
    is_open : ndarray of bool, shape (L,)
        Whether a label is allowed to all contexts.
    starts : ndarray of int64, shape (m + 1,)
        Where the list of each context begins, and the end.
    listed : ndarray of int64
        The columns of all lists; -1 is no label.
    lists_allow : bool
        Whether a context may be answered only with what its list names, or with all else.

    Examples
    --------
    >>> import numpy as np
    >>> from hammemo.memories.label_mask import LabelMask
    >>> mask = LabelMask(np.array([True, True, False]), np.array([0, 1, 1]), np.array([0]), False)
    >>> mask.allowed(slice(0, 2)).tolist()
    [[False, True, False], [True, True, False]]
    >>> mask.most_listed()
    1
    """

    is_open: Bools
    starts: Ints
    listed: Ints
    lists_allow: bool

    def __getitem__(self, part: slice) -> LabelMask:
        """Return the mask of some contexts that follow each other."""
        starts = self.starts[part.start : part.stop + 1]
        return LabelMask(self.is_open, starts - starts[0], self.listed[starts[0] : starts[-1]], self.lists_allow)

    def allowed(self, part: slice) -> Bools:
        """Return whether each of some contexts may be answered with each label: (contexts, L)."""
        starts = self.starts[part.start : part.stop + 1]
        found = np.full((len(starts) - 1, len(self.is_open) + 1), not self.lists_allow)  # -1 marks the last column
        owners = np.repeat(np.arange(len(found)), np.diff(starts))
        found[owners, self.listed[starts[0] : starts[-1]]] = self.lists_allow
        return np.asarray(found[:, :-1] & self.is_open)

    @property
    def has_lists(self) -> bool:
        """Whether a context has a list that changes what is allowed."""
        return self.lists_allow or len(self.listed) > 0

    def most_listed(self) -> int:
        """Return the length of the longest list."""
        return int(np.diff(self.starts).max(initial=0))

    def leaves_out_few(self, most: int) -> bool:
        """Return whether each context may be answered with all labels but at most this many."""
        return not self.lists_allow and self.most_listed() <= most and bool(self.is_open.all())

    def passed_over(self, leaders: Ints, k: int) -> Ints:
        """Return the first k columns of each context that its list does not name; -1 where they are fewer."""
        found = np.full((len(leaders), k), -1)
        for row, own, first, last in zip(found, leaders.tolist(), self.starts[:-1], self.starts[1:], strict=True):
            out = set(self.listed[first:last].tolist())
            left = [column for column in own if column not in out][:k]
            row[: len(left)] = left
        return found
