r"""What rows that a context reads say of labels, for a mixture.

A row with counts :math:`n_c` says :math:`P_k(c) = (n_c - d(n_c))_+ / \sum_b (n_b - d(n_b))`, where d is what an entry
loses by its count, and a token of the context says that it is the label itself: the same with one entry. The compiled
loop adds up the same numbers in the same order as NumPy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hammemo._arrays.native import native

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hammemo.memories.exact import Entries


@dataclass(frozen=True, eq=False)
class RowShares:
    """Rows with the trust in each, and what their entries lose.

    Shapes
    ------
    contexts, components, trust, kept, distances : (r,); lost : (r, 4)
    """

    contexts: NDArray[np.int64]
    components: NDArray[np.int64]
    trust: NDArray[np.float64]
    entries: Entries
    lost: NDArray[np.float64]
    kept: NDArray[np.float64]
    distances: NDArray[np.int64] | None = None

    def values(self) -> NDArray[np.float64]:
        """Return the share of each entry in its row."""
        counts, lengths = self.entries.counts, self.entries.lengths
        owners = np.repeat(np.arange(len(lengths)), lengths)
        gained = np.maximum(counts - self.lost[owners, np.minimum(counts, 3)], 0.0)
        return np.asarray(gained / self.kept[owners])

    def added_up(self, totals: NDArray[np.float64], n_labels: int) -> NDArray[np.float64]:
        """Return what the rows of each context add to the score of each label; `totals` is all trust of a context."""
        weights, m = self.trust / totals[self.contexts], len(totals)
        entries, compiled = self.entries, native()
        if compiled is None:
            each = np.repeat(weights, entries.lengths) * self.values()
            cells = np.repeat(self.contexts, entries.lengths) * n_labels + entries.columns
            return np.asarray(np.bincount(cells, each, m * n_labels), np.float64).reshape(m, n_labels)
        scores, lost = np.zeros((m, n_labels)), np.ascontiguousarray(self.lost)
        rows = (self.contexts, weights, self.kept, lost, entries.lengths, entries.columns, entries.counts)
        compiled.add_row_shares(*rows, scores)
        return scores
