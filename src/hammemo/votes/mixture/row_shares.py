r"""What rows that a context reads say of labels, for a mixture.

A row with counts :math:`n_c` says :math:`P_k(c) = (n_c - d(n_c))_+ / \sum_b (n_b - d(n_b))`, where d is what an entry
loses by its count, and a token of the context says that it is the label itself: the same with one entry.
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
    """Rows with the trust in each, and what their entries lose.

    Shapes
    ------
    contexts, components, trust, kept, distances : (r,); lost : (r, 4)
    """

    contexts: Ints
    components: Ints
    trust: Floats
    entries: Entries
    lost: Floats
    kept: Floats
    distances: Ints | None = None

    def values(self) -> Floats:
        """Return the share of each entry in its row."""
        counts, lengths = self.entries.counts, self.entries.lengths
        owners = np.repeat(np.arange(len(lengths)), lengths)
        gained = np.maximum(counts - self.lost[owners, np.minimum(counts, 3)], 0.0)
        return np.asarray(gained / self.kept[owners])

    def added_up(self, totals: Floats, n_labels: int) -> Floats:
        """Return what the rows of each context add to the score of each label; `totals` is all trust of a context."""
        weights, entries = self.trust / totals[self.contexts], self.entries
        scores, lost = np.zeros((len(totals), n_labels)), np.ascontiguousarray(self.lost)
        _native.add_row_shares(
            contexts=self.contexts,
            weights=weights,
            kept=self.kept,
            lost=lost,
            lengths=entries.lengths,
            columns=entries.columns,
            counts=entries.counts,
            scores=scores,
        )
        return scores
