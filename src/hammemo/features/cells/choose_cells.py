"""Which cuts and trees a table asks for: a function of the multiset of its rows and the seed.

Cuts come from all rows that are looked at, trees from the distinct ones with the lowest hashes.
Trees know numbers only by the steps that they lie in, and so do the hashes: two numbers between the
same two cuts give the same trees. Differences of columns are drawn at random, where there are more
pairs than room.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from hammemo._progress import progress_bar
from hammemo.features.additive.fit_classes import fit_class_base
from hammemo.features.additive.label_base import LabelBase
from hammemo.features.cells.cells import Cells, TreeCells
from hammemo.features.cells.column_codes import (
    LEAST_ROWS,
    choose_codes,
    part_names,
    quantile_cuts,
    values_of,
)
from hammemo.features.cells.grow_forest import GROWING_ROWS, grow_forest
from hammemo.features.cells.tree_inputs import TreeInputs
from hammemo.tokens.column_kinds import ColumnKind
from hammemo.tokens.hashing import key_words

if TYPE_CHECKING:
    from hammemo._arrays.types import Floats, Ints
    from hammemo.features.cells.column_codes import ColumnCodes
    from hammemo.features.wide.narrowing import Narrowing
    from hammemo.tokens.column_kinds import ColumnKinds
    from hammemo.tokens.contexts import Contexts, Examples

MAX_TREE_LABELS: Final = 256
"""Labels up to which trees are grown."""

_MAX_PAIRS: Final = 64
"""Pairs of columns whose differences trees look at, at most."""

_RANGES: Final = 16
"""Ranges of a column of numbers, at most, where there are no trees."""


def choose_range_cells(
    kinds: ColumnKinds,
    examples: Examples,
    *,
    missing_is_cell: bool,
    narrowing: Narrowing | None = None,
) -> Cells:
    """Return the cells of a table with columns of these kinds: ranges of numbers, and names.

    With a narrowing, the examples are the narrow rows of a wide table.
    """
    if narrowing is not None:
        kinds = narrowing.narrow_kinds
    ranges = _choose_ranges(kinds, examples.contexts, examples.multiplicity)
    return Cells(kinds, missing_is_cell, ranges, narrowing=narrowing)


class GrownCells(NamedTuple):
    """Cells with trees, and the rows that they were chosen by."""

    cells: TreeCells
    rows: TreeInputs


def grow_tree_cells(
    kinds: ColumnKinds,
    examples: Examples,
    seed: int,
    *,
    missing_is_cell: bool,
    narrowing: Narrowing | None = None,
) -> GrownCells:
    """Return the cells of a table as :func:`choose_range_cells` does, and trees that rows grow.

    The examples have a label or more, and not more than `MAX_TREE_LABELS`.
    """
    n_scores = 0
    if narrowing is not None:
        kinds = narrowing.narrow_kinds
        n_scores = narrowing.n_scores

    # Codes: cuts of ordered columns, frequent names, differences of columns.
    contexts = examples.contexts
    pairs = _draw_pairs(kinds, seed)
    codes = choose_codes(kinds, contexts, examples.multiplicity, pairs=pairs, seed=seed)
    codes = codes.with_even_cuts(n_scores, contexts)
    rows = TreeInputs.from_examples(codes, examples, seed)

    # The additive base of all distinct rows, and trees of the first of them.
    base = _fit_base(codes, examples, rows, n_scores=n_scores)
    growing = rows.take(np.arange(min(len(rows), GROWING_ROWS)))
    with progress_bar("Growing trees"):
        forest = grow_forest(
            codes=np.ascontiguousarray(growing.codes.T),
            is_name=codes.is_name,
            targets=growing.labels,
            counts=growing.multiplicity,
            words=growing.words,
            n_plain=codes.n_ordered + len(codes.names),
            seed=seed,
        )
    cells = TreeCells(
        kinds,
        missing_is_cell,
        _choose_ranges(kinds, contexts, examples.multiplicity),
        codes=codes,
        forest=forest,
        last_word=int(growing.words[-1]),
        base=base,
        narrowing=narrowing,
    )
    return GrownCells(cells, rows)


def _fit_base(
    codes: ColumnCodes, examples: Examples, rows: TreeInputs, *, n_scores: int
) -> LabelBase:
    """Return the additive base for the distinct rows of examples."""
    values, name_codes = codes.plain(rows.codes)
    with progress_bar("Fitting an additive base"):
        function = fit_class_base(
            codes,
            values=values,
            name_codes=name_codes,
            labels=rows.labels,
            n_labels=len(examples.labels),
            counts=rows.multiplicity,
            words=rows.words,
            n_scores=n_scores,
        )
    return LabelBase(function, examples.labels, examples.label_counts())


def _choose_ranges(kinds: ColumnKinds, contexts: Contexts, counts: Ints) -> tuple[Floats, ...]:
    """Return the cuts between the ranges of each column, none for names."""
    ranges = []
    for kind, values in zip(kinds, values_of(contexts).T, strict=True):
        if kind.is_ordered:
            ranges.append(quantile_cuts(values, counts, _RANGES - 1, LEAST_ROWS))
        else:
            ranges.append(np.empty(0))
    return tuple(ranges)


def _draw_pairs(kinds: ColumnKinds, seed: int) -> Ints:
    """Return pairs of ordered columns, at most `_MAX_PAIRS`, drawn by the seed.

    Parts of dates are in none.
    """
    numbers: list[int] = []
    n_ordered = 0
    for kind in kinds:
        if kind is ColumnKind.NUMBERS:
            numbers.append(n_ordered)
        if kind.is_ordered:
            n_ordered += len(part_names(kind))
    n = len(numbers)
    if n * (n - 1) // 2 <= _MAX_PAIRS:
        firsts, seconds = np.triu_indices(n, 1)
    else:
        rng = np.random.default_rng(key_words(seed, "differences of columns"))
        drawn: set[tuple[int, int]] = set()
        while len(drawn) < _MAX_PAIRS:
            first, second = sorted(rng.choice(n, 2, replace=False).tolist())
            drawn.add((first, second))
        firsts, seconds = np.array(sorted(drawn)).T
    places = np.array(numbers, np.int64)
    return np.stack([places[firsts], places[seconds]], axis=1)
