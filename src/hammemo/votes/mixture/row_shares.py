r"""What rows that a context reads say of labels, for a mixture.

A row with counts :math:`n_c` says :math:`P_k(c) = (n_c - d(n_c))_+ / \sum_b (n_b - d(n_b))`, where
d is what an entry loses by its count. A token of the context says that it is the label itself: the
same with one entry.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hammemo import _native

if TYPE_CHECKING:
    from hammemo._arrays.types import Floats, Ints
    from hammemo.memories.exact import Entries


@dataclass(frozen=True, eq=False)
class RowShares:
    """Rows with the trust in each, and what their entries lose."""

    contexts: Ints
    """Which context reads each row: (r,)."""
    components: Ints
    """The component that each row belongs to: (r,)."""
    trust: Floats
    """The weight of each row; 0 for a row that says nothing: (r,)."""
    entries: Entries
    lost: Floats
    """What entries of counts 0, 1, 2, and 3 or more lose: (r, 4)."""
    remaining: Floats
    """What remains of the total of each row, above zero: (r,)."""
    distances: Ints | None = None
    """The distances of the tokens of a site without a position: (r,)."""

    def values(self) -> Floats:
        """Return the share of each entry in its row."""
        counts = self.entries.counts
        lengths = self.entries.lengths
        rows = np.repeat(np.arange(len(lengths)), lengths)
        reduced = np.maximum(counts - self.lost[rows, np.minimum(counts, 3)], 0.0)
        return np.asarray(reduced / self.remaining[rows])

    def add_up(self, totals: Floats, n_labels: int) -> Floats:
        """Return what the rows of each context add to the score of each label: (m, n_labels).

        `totals` is the sum of all trust of each context: (m,).
        """
        scores = np.zeros((len(totals), n_labels))
        _native.add_row_shares(
            contexts=self.contexts,
            weights=self.trust / totals[self.contexts],
            kept=self.remaining,
            lost=np.ascontiguousarray(self.lost),
            lengths=self.entries.lengths,
            columns=self.entries.columns,
            counts=self.entries.counts,
            scores=scores,
        )
        return scores
