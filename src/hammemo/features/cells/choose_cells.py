"""Which cuts and trees a table asks for: a function of the multiset of its rows and the seed.

Cuts come from all rows that are looked at, trees from the distinct ones with the lowest hashes. Trees know numbers only
by the steps that they lie in, and so do the hashes: two numbers between the same two cuts give the same trees.
Differences of columns are drawn at random, where there are more pairs than room.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from hammemo._progress import progress_bar
from hammemo.features.additive.fit_classes import fit_class_base
from hammemo.features.additive.label_base import LabelBase
from hammemo.features.cells.cells import Cells, TreeCells
from hammemo.features.cells.column_codes import LEAST_ROWS, ColumnCodes, part_names, quantile_cuts, values_of
from hammemo.features.cells.grow_forest import GROWING_ROWS, grow_forest
from hammemo.tokens.column_kinds import ColumnKind
from hammemo.tokens.hashing import key_words

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hammemo._arrays.types import Floats, Ints, Words
    from hammemo.features.wide.narrowing import Narrowing
    from hammemo.tokens.column_kinds import ColumnKinds
    from hammemo.tokens.contexts import Contexts, Examples

MAX_TREE_LABELS: Final = 256
"""Labels up to which trees are grown."""

_MAX_PAIRS: Final = 64
_RANGES: Final = 16


def chosen_cells(
    kinds: ColumnKinds,
    examples: Examples,
    seed: int,
    *,
    missing_is_cell: bool,
    trees: bool,
    narrowing: Narrowing | None = None,
) -> Cells:
    """Return the cells of a table with columns of these kinds, by its rows; with trees, or with ranges only.

    With a narrowing, the examples are the narrow rows of a wide table.
    """
    n_scores = 0
    if narrowing is not None:
        kinds = narrowing.narrow_kinds
        n_scores = narrowing.n_scores
    contexts, counts = examples.contexts, examples.multiplicity
    ranges = _ranges(kinds, contexts, counts)
    plain = Cells(kinds, missing_is_cell, ranges, narrowing=narrowing)
    if not trees or not len(contexts) or len(examples.labels) > MAX_TREE_LABELS:
        return plain
    codes = ColumnCodes.chosen(kinds, contexts, counts, _pairs(kinds, seed), seed).with_even_cuts(n_scores, contexts)
    coded = codes.rows(contexts)
    rows, words, counts = codes.distinct(examples, seed, coded)
    coded = coded[rows]
    base = _base(codes, examples, coded, rows, words, counts, n_scores)
    m = min(len(rows), GROWING_ROWS)
    bytes_of_rows = np.ascontiguousarray(coded[:m].T)
    n_plain, labels = codes.n_ordered + len(codes.names), examples.label_ranks[rows[:m]]
    with progress_bar("Growing trees"):
        forest = grow_forest(
            codes=bytes_of_rows,
            is_name=codes.is_name,
            targets=labels,
            counts=counts[:m],
            words=words[:m],
            n_plain=n_plain,
            seed=seed,
        )
    last_word = int(words[m - 1])
    return TreeCells(kinds, missing_is_cell, ranges, codes, forest, last_word, base, narrowing=narrowing)


def _base(
    codes: ColumnCodes,
    examples: Examples,
    coded: NDArray[np.uint8],
    rows: Ints,
    words: Words,
    counts: Ints,
    n_scores: int,
) -> LabelBase:
    """Return the additive base for these distinct rows of examples, which have these bytes and occur so often."""
    values, name_codes = codes.plain(coded)
    with progress_bar("Fitting an additive base"):
        function = fit_class_base(
            codes,
            values=values,
            name_codes=name_codes,
            labels=examples.label_ranks[rows],
            n_labels=len(examples.labels),
            counts=counts,
            words=words,
            n_scores=n_scores,
        )
    return LabelBase(function, examples.labels, examples.label_counts())


def _ranges(kinds: ColumnKinds, contexts: Contexts, counts: Ints) -> tuple[Floats, ...]:
    """Return the cuts between the ranges of each column, none for names."""
    return tuple(
        quantile_cuts(values, counts, _RANGES - 1, LEAST_ROWS) if kind.is_ordered else np.empty(0)
        for kind, values in zip(kinds, values_of(contexts).T, strict=True)
    )


def _pairs(kinds: ColumnKinds, seed: int) -> Ints:
    """Return pairs of ordered columns, at most `_MAX_PAIRS`, drawn by the seed; parts of dates are in none."""
    ordered, place = [], 0
    for kind in kinds:
        if kind is ColumnKind.NUMBERS:
            ordered.append(place)
        if kind.is_ordered:
            place += len(part_names(kind))
    n = len(ordered)
    if n * (n - 1) // 2 <= _MAX_PAIRS:
        firsts, seconds = np.triu_indices(n, 1)
    else:
        rng = np.random.default_rng(key_words(seed, "differences of columns"))
        drawn: set[tuple[int, int]] = set()
        while len(drawn) < _MAX_PAIRS:
            first, second = sorted(rng.choice(n, 2, replace=False).tolist())
            drawn.add((first, second))
        firsts, seconds = np.array(sorted(drawn)).T
    return np.stack([np.array(ordered, np.int64)[firsts], np.array(ordered, np.int64)[seconds]], axis=1)
