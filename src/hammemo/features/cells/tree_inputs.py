"""The distinct rows of a table as trees see them.

Growing trees, fitting weights and counting look at the same rows, so they are coded once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from hammemo._arrays.types import Ints, Words
    from hammemo.features.cells.column_codes import ColumnCodes
    from hammemo.tokens.contexts import Examples


@dataclass(frozen=True, eq=False)
class TreeInputs:
    """Distinct rows of examples, the lowest hashes first."""

    places: Ints
    """The place of one example for each row: (m,)."""
    codes: NDArray[np.uint8]
    """The bytes of each row: (m, columns)."""
    labels: Ints
    """The rank of each row's label, or its target: (m,)."""
    multiplicity: Ints
    """How often each row occurs: (m,)."""
    words: Words
    """The hash of each row, ascending: (m,)."""

    @classmethod
    def from_examples(cls, codes: ColumnCodes, examples: Examples, seed: int) -> TreeInputs:
        """Return the distinct rows of examples."""
        row_bytes = codes.rows(examples.contexts)
        distinct = codes.distinct(examples, seed, row_bytes)
        return cls(
            places=distinct.rows,
            codes=row_bytes[distinct.rows],
            labels=examples.label_ranks[distinct.rows],
            multiplicity=distinct.counts,
            words=distinct.words,
        )

    def __len__(self) -> int:
        return len(self.words)

    def take(self, places: Ints) -> TreeInputs:
        """Return some of the rows."""
        return TreeInputs(
            places=self.places[places],
            codes=self.codes[places],
            labels=self.labels[places],
            multiplicity=self.multiplicity[places],
            words=self.words[places],
        )
