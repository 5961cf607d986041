"""Counting the windows of a stream for a hashed memory with the compiled loops, in space that does not grow.

The loops are told for every token which label's column it counts in as a target, or -1. A table of all cells is filled
and added to the memory when a new label appears or at the end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from hammemo._arrays.native import native
from hammemo._versions import cached_property
from hammemo.memories.hashed.layout import Cells, LoopContexts, RowLayout
from hammemo.memories.label_counts import LabelCounts
from hammemo.tokens.hashing import hash_numbers, number_key
from hammemo.tokens.vocabulary import Vocabulary, checked_integers, factorize

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hammemo.tokens.streams import Block

_MAX_EXAMPLES = 2**31  # so that no 32-bit cell overflows


def block_labels(block: Block) -> Vocabulary:
    """Return the distinct targets of a block."""
    return factorize(block.tokens[block.targets()])[0]


class StreamCounter:
    """Counts of every cell for a fixed set of labels; targets outside it are left out."""

    def __init__(self, layout: RowLayout, labels: Vocabulary) -> None:
        self.labels = labels
        self._layout = layout
        self._cells = layout.cells(max(len(labels), 1))
        self._totals = np.zeros(len(labels), np.int64)

    @property
    def is_full(self) -> bool:
        """Whether a cell could overflow soon."""
        return int(self._totals.sum()) > _MAX_EXAMPLES

    def knows(self, labels: Vocabulary) -> bool:
        """Return whether all of these labels are counted."""
        return labels is self.labels or bool((self.labels.find(labels) >= 0).all())

    def add(self, block: Block) -> None:
        """Count the windows of a block."""
        tokens = checked_integers(block.tokens) if block.tokens.dtype.kind in "iub" else block.tokens
        source, columns = self._integers(tokens) if tokens.dtype.kind == "i" else self._others(tokens)
        mask = np.full(len(columns), -1, np.int32)
        targets = block.targets()
        mask[targets] = columns[targets]
        self._layout.compiled.count_stream(*source, mask, self._cells)
        self._totals += np.bincount(mask[mask >= 0], minlength=len(self._totals))

    def label_counts(self) -> LabelCounts:
        """Return how many examples each label has; those with none are left out."""
        return LabelCounts(self.labels.keep(self._totals > 0), self._totals[self._totals > 0])

    def touched(self) -> list[Cells]:
        """Return for each site the cells that are not zero."""
        return self._layout.touched(self._cells)

    def _integers(self, tokens: NDArray[Any]) -> tuple[LoopContexts, NDArray[np.int32]]:
        found = np.empty(len(tokens), np.int32)
        tokens = np.ascontiguousarray(tokens)
        finder, columns = self._integer_labels
        finder.find(tokens, found)
        return LoopContexts(tokens, None, None), columns[found]

    @cached_property
    def _integer_labels(self) -> tuple[Any, NDArray[np.int32]]:
        """The integer labels as a set to look tokens up in, and the column of each member; the last entry is -1.

        Without a key, whatever the layout has: no two integers have one hash then, so that nothing is mistaken.
        """
        loops, seed = native(), self._layout.seed
        assert loops is not None
        words = hash_numbers(self.labels.ints.view(np.uint64), seed)
        order = np.argsort(words)  # integers come first in a vocabulary: the column is the rank among them
        finder = loops.Finder(words[order], number_key(seed), False)
        return finder, np.append(order, -1).astype(np.int32)

    def _others(self, tokens: NDArray[Any]) -> tuple[LoopContexts, NDArray[np.int32]]:
        vocabulary, ranks = factorize(tokens)
        columns = np.append(self.labels.find(vocabulary), -1).astype(np.int32)
        return LoopContexts(ranks, *self._layout.vocabulary_source(vocabulary)), columns[ranks]
