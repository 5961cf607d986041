"""Which cuts and trees a table asks for: a function of the multiset of its rows and the seed.

Cuts come from all rows that are looked at, trees from the distinct ones with the lowest hashes.
Trees know numbers only by the steps that they lie in, and so do the hashes: two numbers between the
same two cuts give the same trees. Differences of columns are drawn at random, where there are more
pairs than room.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

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
from hammemo.tokens.column_kinds import ColumnKind
from hammemo.tokens.hashing import key_words

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hammemo._arrays.types import Floats, Ints
    from hammemo.features.cells.column_codes import ColumnCodes, DistinctCodes
    from hammemo.features.wide.narrowing import Narrowing
    from hammemo.tokens.column_kinds import ColumnKinds
    from hammemo.tokens.contexts import Contexts, Examples

MAX_TREE_LABELS: Final = 256
"""Labels up to which trees are grown."""

_MAX_PAIRS: Final = 64
"""Pairs of columns whose differences trees look at, at most."""

_RANGES: Final = 16
"""Ranges of a column of numbers, at most, where there are no trees."""


def choose_cells(
    kinds: ColumnKinds,
    examples: Examples,
    seed: int,
    *,
    missing_is_cell: bool,
    trees: bool,
    narrowing: Narrowing | None = None,
) -> Cells:
    """Return the cells of a table with columns of these kinds, chosen from its rows.

    They have trees, or ranges only. With a narrowing, the examples are the narrow rows of a wide
    table.
    """
    n_scores = 0
    if narrowing is not None:
        kinds = narrowing.narrow_kinds
        n_scores = narrowing.n_scores
    contexts = examples.contexts
    ranges = _choose_ranges(kinds, contexts, examples.multiplicity)
    if not trees or not len(contexts) or len(examples.labels) > MAX_TREE_LABELS:
        return Cells(kinds, missing_is_cell, ranges, narrowing=narrowing)

    # Codes: cuts of ordered columns, frequent names, differences of columns.
    pairs = _draw_pairs(kinds, seed)
    codes = choose_codes(kinds, contexts, examples.multiplicity, pairs=pairs, seed=seed)
    codes = codes.with_even_cuts(n_scores, contexts)
    row_bytes = codes.rows(contexts)
    distinct = codes.distinct(examples, seed, row_bytes)
    row_bytes = row_bytes[distinct.rows]

    # The additive base of all distinct rows, and trees of the first of them.
    base = _fit_base(codes, examples, distinct, row_bytes=row_bytes, n_scores=n_scores)
    m = min(len(distinct.rows), GROWING_ROWS)
    with progress_bar("Growing trees"):
        forest = grow_forest(
            codes=np.ascontiguousarray(row_bytes[:m].T),
            is_name=codes.is_name,
            targets=examples.label_ranks[distinct.rows[:m]],
            counts=distinct.counts[:m],
            words=distinct.words[:m],
            n_plain=codes.n_ordered + len(codes.names),
            seed=seed,
        )
    return TreeCells(
        kinds,
        missing_is_cell,
        ranges,
        codes=codes,
        forest=forest,
        last_word=int(distinct.words[m - 1]),
        base=base,
        narrowing=narrowing,
    )


def _fit_base(
    codes: ColumnCodes,
    examples: Examples,
    distinct: DistinctCodes,
    *,
    row_bytes: NDArray[np.uint8],
    n_scores: int,
) -> LabelBase:
    """Return the additive base for these distinct rows of examples, which have these bytes."""
    values, name_codes = codes.plain(row_bytes)
    with progress_bar("Fitting an additive base"):
        function = fit_class_base(
            codes,
            values=values,
            name_codes=name_codes,
            labels=examples.label_ranks[distinct.rows],
            n_labels=len(examples.labels),
            counts=distinct.counts,
            words=distinct.words,
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
