"""Rows that the weights of trees of labels are fitted to, and what the cells that they lie in hold.

Cells are counted in one of two ways, with the same result where both are possible:

- :func:`count_tree_rows` counts the examples themselves;
- :func:`read_tree_rows` reads the counts of a memory, which may hold more rows than the examples.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hammemo._arrays.integers import row_pieces
from hammemo.features.cells.forest import KINDS, LEVELS
from hammemo.features.cells.grow_forest import mark_out_of_bag
from hammemo.features.cells.tree_inputs import TreeInputs
from hammemo.tokens.contexts import Contexts
from hammemo.tokens.vocabulary import Vocabulary

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hammemo._arrays.types import Array, Bools, Floats, Ints, Words
    from hammemo.features.cells import TreeCells
    from hammemo.kernels.sites import Site
    from hammemo.memories.reader import Reader
    from hammemo.tokens.contexts import Examples


@dataclass(frozen=True, eq=False)
class TreeRows:
    """Distinct rows with their labels, and the counts of all cells that rows can lie in."""

    leaves: NDArray[np.int32]
    """The leaf of each row in each tree: (m, trees)."""
    is_out: Bools
    """Which trees a row did not grow: (m, trees)."""
    name_codes: Ints
    """The cell of each row at each site of names: (m, sites of names)."""
    labels: Ints
    """The column of each row's label: (m,)."""
    multiplicity: Ints
    """How often each row occurs: (m,)."""
    words: Words
    """The hashes of the rows: (m,)."""
    tree_counts: Ints
    """Counts of the cells of all trees and levels: (cells, L)."""
    name_counts: list[Ints]
    """Counts of the cells of each site of names, a column or a tuple: (cells, L)."""
    label_counts: Ints
    """How many examples each label has: (L,)."""
    base_ratios: Floats
    """What the additive base says of each label, fitted without the fold of the row: (m, L)."""
    answered_ratios: Floats
    """The same, fitted to all rows: what answers are made of."""

    def take(self, places: Ints) -> TreeRows:
        """Return some of the rows, with the counts of the same cells."""
        return replace(
            self,
            leaves=self.leaves[places],
            is_out=self.is_out[places],
            name_codes=self.name_codes[places],
            labels=self.labels[places],
            multiplicity=self.multiplicity[places],
            words=self.words[places],
            base_ratios=self.base_ratios[places],
            answered_ratios=self.answered_ratios[places],
        )


def count_tree_rows(
    cells: TreeCells, examples: Examples, every_row: TreeInputs, sample: int | None = None
) -> TreeRows:
    """Return distinct examples, the lowest hashes first, with the counts of all examples.

    `every_row` has all distinct rows of the examples. With `sample` there are this many rows at
    most, each of which did not grow some tree of each kind. All examples are counted, those outside
    of the sample too.
    """
    n_labels = len(examples.labels)
    # Floats are exact here and below: the kept rows of a model are fewer than 2^53, copies counted.
    label_counts = np.bincount(
        every_row.labels, weights=every_row.multiplicity, minlength=n_labels
    ).astype(np.int64)
    ranks = examples.contexts.ranks[every_row.places]
    names = [_find_distinct_tuples(ranks, site) for site in cells.name_sites]
    leaves = cells.forest.leaves(every_row.codes)
    name_counts = [
        _count_cells(
            column.codes,
            every_row.labels,
            every_row.multiplicity,
            size=column.codes.max(initial=0) + 1,
            n_labels=n_labels,
        )
        for column in names
    ]
    is_out = _find_out_of_bag(cells, every_row)
    chosen = _choose_sample(is_out, sample)
    rows = every_row.take(chosen)
    plain = cells.codes.plain(rows.codes)
    return TreeRows(
        leaves=leaves[chosen],
        is_out=np.ascontiguousarray(is_out[chosen]),
        name_codes=_stack_codes(names, len(ranks))[chosen],
        labels=rows.labels,
        multiplicity=rows.multiplicity,
        words=rows.words,
        tree_counts=cells.forest.counts(leaves, every_row.labels, every_row.multiplicity, n_labels),
        name_counts=name_counts,
        label_counts=label_counts,
        base_ratios=cells.base.ratios_without_folds(*plain, rows.words, examples.labels),
        answered_ratios=cells.base.ratios(*plain, examples.labels),
    )


def read_tree_rows(
    cells: TreeCells, examples: Examples, seed: int, reader: Reader, sample: int | None = None
) -> TreeRows:
    """Return distinct examples, the lowest hashes first, with all counts that a reader holds.

    Labels are those of the reader; examples of other labels are left out. `sample` is that of
    :func:`count_tree_rows`.
    """
    rows = TreeInputs.from_examples(cells.codes, examples, seed)
    labels = reader.labels.find(examples.labels)[rows.labels]
    rows = replace(rows, labels=labels).take(np.flatnonzero(labels >= 0))
    is_out = _find_out_of_bag(cells, rows)
    chosen = _choose_sample(is_out, sample)
    rows = rows.take(chosen)
    contexts = examples.contexts[rows.places]
    names = [_find_distinct_tuples(contexts.ranks, site) for site in cells.name_sites]
    tree_counts, name_counts = _read_counts(
        cells, contexts.vocabulary, [column.tuples for column in names], reader
    )
    plain = cells.codes.plain(rows.codes)
    return TreeRows(
        leaves=cells.forest.leaves(rows.codes),
        is_out=np.ascontiguousarray(is_out[chosen]),
        name_codes=_stack_codes(names, len(contexts)),
        labels=rows.labels,
        multiplicity=rows.multiplicity,
        words=rows.words,
        tree_counts=tree_counts,
        name_counts=name_counts,
        label_counts=reader.label_counts,
        base_ratios=cells.base.ratios_without_folds(*plain, rows.words, reader.labels),
        answered_ratios=cells.base.ratios(*plain, reader.labels),
    )


def _find_out_of_bag(cells: TreeCells, rows: TreeInputs) -> Bools:
    """Return which trees each row did not grow: (m, trees)."""
    return mark_out_of_bag(cells.forest, rows.words, rows.multiplicity, cells.last_word)


def _choose_sample(is_out: Bools, sample: int | None) -> Ints:
    """Return the first rows that trees of every kind can judge; without a sample, all rows."""
    if sample is None:
        return np.arange(len(is_out))
    n_kinds = len(KINDS)
    is_judged = [is_out[:, kind::n_kinds].any(axis=1) for kind in range(n_kinds)]
    return np.flatnonzero(np.logical_and.reduce(is_judged))[:sample]


class _DistinctTuples(NamedTuple):
    """The cells of a site of names."""

    tuples: Ints
    """The distinct tuples of token ranks, in lexical order: (d, columns of the site)."""
    codes: Ints
    """The place of each row's tuple among them: (m,)."""


def _find_distinct_tuples(ranks: Ints, site: Site) -> _DistinctTuples:
    """Return the distinct tuples that rows hold at a site, and which one each row holds.

    Shapes
    ------
    ranks : (m, h)
    """
    codes = np.zeros(len(ranks), np.int64)
    firsts = np.arange(min(1, len(ranks)))
    for j in site:  # one column at a time, so that the numbers stay small
        column = ranks[:, j].astype(np.int64)
        pairs = codes * (column.max(initial=0) + 2) + column
        _, firsts, codes = np.unique(pairs, return_index=True, return_inverse=True)
    return _DistinctTuples(ranks[firsts][:, list(site)], codes)


def _stack_codes(names: list[_DistinctTuples], n_rows: int) -> Ints:
    """Return the cells of rows at all sites of names: (m, sites of names)."""
    if not names:
        return np.empty((n_rows, 0), np.int64)
    return np.stack([column.codes for column in names], axis=1)


def _count_cells(codes: Array, labels: Ints, counts: Ints, *, size: int, n_labels: int) -> Ints:
    """Return how often each label occurs in each cell: (size, L)."""
    entries = codes * np.int64(n_labels) + labels
    sums = np.bincount(entries, weights=counts, minlength=size * n_labels)
    return sums.astype(np.int64).reshape(size, n_labels)


def _read_counts(
    cells: TreeCells, tokens: Vocabulary, names: list[Ints], reader: Reader
) -> tuple[Ints, list[Ints]]:
    """Return the counts of all cells that a reader holds: those of trees, and of sites of names.

    A reader takes contexts, and answers for all sites at once. So row r of the contexts
    lies in the r-th cell of every tree and level and of every column of names: as many contexts as
    the site with the most cells has are enough. A tuple of names shares its columns with other
    sites, so each tuple is read on its own.

    Parameters
    ----------
    tokens : Vocabulary
        The tokens of the tuples of `names`.
    names : list of ndarray of shape (cells, columns of the site)
        The cells of the sites of names, as ranks of tokens.
    """
    cell_sizes = cells.forest.cell_sizes
    most_cells = int(cell_sizes.max())
    n_levels = len(LEVELS)
    first_tree_column = len(cells.kinds)
    numbers = Vocabulary(np.arange(most_cells))
    vocabulary = tokens.union(numbers)
    token_ranks = np.append(vocabulary.find(tokens), -1)
    number_ranks = vocabulary.find(numbers)

    # A tree at a level is a column of its own, whose tokens are the numbers of cells.
    tree_columns = {
        first_tree_column + tree * n_levels + level: size
        for level, sizes in enumerate(cell_sizes.tolist())
        for tree, size in enumerate(sizes)
    }
    n_contexts = max([most_cells, *map(len, names)])
    ranks = np.full((n_contexts, cells.h), -1, np.int64)
    for column, tuples in zip(cells.names, names, strict=False):  # tuples of one column come first
        ranks[: len(tuples), column] = token_ranks[tuples[:, 0]]
    for column, size in tree_columns.items():
        ranks[:size, column] = number_ranks[:size]
    counts = _read_site_counts(reader, vocabulary, ranks)

    place_of_site = {site: k for k, site in enumerate(reader.sites.positions)}
    tree_counts = [counts[:size, place_of_site[column,]] for column, size in tree_columns.items()]
    name_counts = [
        counts[: len(tuples), place_of_site[column,]]
        for column, tuples in zip(cells.names, names, strict=False)
    ]
    for site, tuples in zip(cells.tuples, names[len(cells.names) :], strict=True):
        ranks = np.full((len(tuples), cells.h), -1, np.int64)
        ranks[:, list(site)] = token_ranks[tuples]
        name_counts.append(_read_site_counts(reader, vocabulary, ranks)[:, place_of_site[site]])
    return np.concatenate(tree_counts), name_counts


def _read_site_counts(reader: Reader, vocabulary: Vocabulary, ranks: Ints) -> Ints:
    """Return the counts that contexts with these ranks read at each site: (m, S, L)."""
    pieces = row_pieces(len(ranks), reader.sites.n * len(reader.labels))
    counts = [reader.site_counts(Contexts.with_ranks(vocabulary, ranks[piece])) for piece in pieces]
    return np.concatenate(counts).astype(np.int64)
