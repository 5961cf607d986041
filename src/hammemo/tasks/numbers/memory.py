"""The memory of a regressor: sums over rows, in whole numbers.

They are the Gram matrix of the base, and for each cell of the trees how many rows it holds and the
sum of their residuals. Rows that are added and subtracted again leave no trace.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hammemo.features.additive.fit_numbers import compute_gram
from hammemo.features.additive.gram import Gram, check_row_total
from hammemo.features.cells.number_cells import NumberCells
from hammemo.memories.errors import never_stored
from hammemo.tasks.numbers.layout import extract_targets, number_prefixes, subtract_frozen
from hammemo.votes.number_answers import SeenRows

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from hammemo._arrays.checked import StoredArrays
    from hammemo._arrays.types import Array, Ints, Words
    from hammemo.tasks.numbers.layout import NumberLayout
    from hammemo.tokens.contexts import Examples


@dataclass(frozen=True, eq=False)
class NumberRows:
    """Distinct rows that are counted.

    Parameters
    ----------
    inputs : SeenRows
        The rows as base and trees see them.
    targets : ndarray of int64, shape (m,)
        In units.
    residuals : tuple of ndarray of int64, shape (m,)
        For each part what the frozen base, or the frozen mean, leaves of the targets.
    leaves : tuple of ndarray of int32, shape (m, trees)
        For each part the leaf of each of its trees that a row falls into.
    words : ndarray of uint64, shape (m,)
        The hashes of the rows, ascending.
    counts : ndarray of int64, shape (m,)
        How often each row occurs.
    """

    inputs: SeenRows
    targets: Ints
    residuals: tuple[Ints, ...]
    leaves: tuple[NDArray[np.int32], ...]
    words: Words
    counts: Ints

    @classmethod
    def from_examples(cls, layout: NumberLayout, examples: Examples, seed: int) -> NumberRows:
        """Return examples, whose labels are their targets, as the rows that a layout sees."""
        if layout.narrowing is not None:
            examples = layout.narrowing.learn(examples)
        places, words, counts = layout.codes.distinct(examples, seed)
        inputs = SeenRows(layout.codes, examples.contexts[places])
        targets = layout.round_targets(extract_targets(examples)[places])
        residuals = subtract_frozen(
            base=layout.base, mean=layout.mean, inputs=inputs, targets=targets, words=words
        )
        leaves = tuple(forest.leaves(inputs.codes) for forest in layout.forests)
        return cls(
            inputs=inputs,
            targets=targets,
            residuals=residuals,
            leaves=leaves,
            words=words,
            counts=counts,
        )

    def compute_gram(self, layout: NumberLayout) -> Gram:
        """Return the matrix of these rows."""
        return compute_gram(
            layout.base.design,
            self.inputs.values,
            self.inputs.names,
            targets=self.targets,
            counts=self.counts,
        )


@dataclass(frozen=True, eq=False)
class NumberMemory:
    """The sum over rows.

    Parameters
    ----------
    gram : Gram
        The matrix that the live base is solved from; it knows how many rows there are.
    cells : tuple of NumberCells
        What the cells of the trees of each part hold.
    """

    gram: Gram
    cells: tuple[NumberCells, ...]

    def __getstate__(self) -> dict[str, Any]:
        return {"gram": self.gram, "cells": self.cells}  # without what answers

    @classmethod
    def empty(cls, layout: NumberLayout) -> NumberMemory:
        """Return a memory without rows."""
        return cls(Gram.empty(layout.base.design.p), tuple(map(NumberCells.empty, layout.forests)))

    def with_rows(
        self, layout: NumberLayout, rows: NumberRows, sign: int, gram: Gram | None = None
    ) -> NumberMemory:
        """Return the memory with rows added or, with sign -1, subtracted.

        Parameters
        ----------
        layout : NumberLayout
        rows : NumberRows
        sign : int
        gram : Gram, optional
            The matrix of these rows, if it was computed before.

        Raises
        ------
        NotStoredError
            Where rows to subtract cannot be in the memory.
        """
        n_changed = int(rows.counts.sum())
        if sign > 0:
            check_row_total(self.gram.n, n_changed)
        elif n_changed > self.gram.n:
            raise never_stored()
        signed_counts = sign * rows.counts
        cells = tuple(
            cells.with_rows(forest, leaves, residuals, signed_counts)
            for cells, forest, leaves, residuals in zip(
                self.cells, layout.forests, rows.leaves, rows.residuals, strict=True
            )
        )
        if gram is None:
            gram = rows.compute_gram(layout)
        return self._with_sums(gram, cells, sign)

    def plus(self, other: NumberMemory, sign: int) -> NumberMemory:
        """Return the memory with all rows of another one of the same layout added or subtracted."""
        if sign > 0:
            check_row_total(self.gram.n, other.gram.n)
        cells = tuple(
            cells.plus(other_cells, sign)
            for cells, other_cells in zip(self.cells, other.cells, strict=True)
        )
        return self._with_sums(other.gram, cells, sign)

    def _with_sums(self, gram: Gram, cells: tuple[NumberCells, ...], sign: int) -> NumberMemory:
        """Return a memory of new cells, with a matrix added or subtracted.

        Rows are refused that cannot have been in it. Sums that rows are added to keep their
        bounds, because the bounds grow with them.
        """
        if sign > 0:
            return NumberMemory(self.gram + gram, cells)
        memory = NumberMemory(self.gram - gram, cells)
        if not memory.gram.is_possible or not all(of_part.is_possible for of_part in cells):
            raise never_stored()
        return memory

    def arrays(self) -> dict[str, Array]:
        """Return the memory as arrays."""
        of_cells = number_prefixes("cells", [cells.arrays() for cells in self.cells])
        return {**self.gram.arrays(), **of_cells}

    @classmethod
    def from_stored(cls, layout: NumberLayout, stored: StoredArrays) -> NumberMemory:
        """Return the memory of a file, checked: undo `arrays`."""
        gram = Gram.from_stored(layout.base.design.p, stored)
        cells = (
            NumberCells.from_stored(forest, stored.part(f"cells.{part_number}"), gram.n)
            for part_number, forest in enumerate(layout.forests)
        )
        return cls(gram, tuple(cells))
