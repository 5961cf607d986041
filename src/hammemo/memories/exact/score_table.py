"""Scores of few labels as sums of rows: what a rule says of every row of a table, worked out once.

A rule is a sum over sites of a function of a row of counts (:mod:`hammemo.memories.row_rules`).
With few labels, its value for every stored row fits into one dense array, and a context costs one
look-up and one sum of rows a site. All ways to a score add the same numbers in the same order, so
they agree to the bit: the definition (:meth:`~hammemo.memories.row_rules.RowRule.scores`), the rows
of one batch, and compiled code (``src/native/answers``).

Where the sites are those of trees, all levels of a tree depend on its leaf alone: their values are
added up first, so that a tree costs one row.
"""

from __future__ import annotations

import secrets
from abc import abstractmethod
from functools import lru_cache, partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from hammemo import _native
from hammemo._versions import cached_property
from hammemo.features.cells.forest import LEAF, LEVELS, Forest
from hammemo.memories.exact.live.numbers import Numbers
from hammemo.memories.ranker import AdditiveRanker, Ranker, SingleScores, single_answer
from hammemo.tokens.column_kinds import ColumnKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray
    from scipy import sparse

    from hammemo._arrays.types import Floats, Ints
    from hammemo.features.additive.label_base import BaseAnswers
    from hammemo.features.cells import TreeCells
    from hammemo.memories.exact.table import CountTable
    from hammemo.memories.row_rules import RowRule
    from hammemo.tokens.contexts import Contexts

MAX_DENSE_LABELS: Final = 32
"""With more labels most numbers of dense rows would be of labels without counts."""
_REMEMBERED_NAMES: Final = 4096
"""Names of one column that single queries need not hash again."""


def dense_values(rule: RowRule, counts: sparse.csr_array, starts: Ints) -> Floats:
    """Return the value of a rule for each row; a site's rows follow its start.

    Shapes
    ------
    counts : (r, L); starts : (S + 1,); returned : (r, L)
    """
    values = counts.toarray()
    for site, (first, last) in enumerate(pairwise(starts.tolist())):
        values[first:last] = rule.rows(site, values[first:last])
    return np.asarray(values)


def sum_rows(rows: Ints, values: Floats, base: Floats, n_single: int | None = None) -> Floats:
    """Return a base plus the rows that contexts read, added in the order of the sites.

    With `n_single`, that many sites are alone; the others come in groups, one for each tree, that
    are added up first.

    Shapes
    ------
    rows : (m, S), -1 for none; values : (r, L); base : (L,); returned : (m, L)
    """
    padded = _pad(values)
    totals = np.tile(base, (len(rows), 1))
    n_single = rows.shape[1] if n_single is None else n_single
    for site in range(n_single):
        totals += padded[rows[:, site]]
    for first in range(n_single, rows.shape[1], len(LEVELS)):
        group = padded[rows[:, first]]
        for site in range(first + 1, first + len(LEVELS)):
            group = group + padded[rows[:, site]]
        totals += group
    return totals


class WholeTable(NamedTuple):
    """All rows of a table, with what a rule says of each; the rows of a site follow its start."""

    table: CountTable
    values: Floats
    starts: Ints
    base: Floats


class RowValues(NamedTuple):
    """What a rule says of the rows that contexts read.

    Shapes
    ------
    rows : (m, S); values : (r, L); base : (L,)
    """

    rows: Ints
    """Which row of the values each site of each context reads, -1 for none."""

    values: Floats
    base: Floats


class TreeTables(NamedTuple):
    """The values of all rows, and what all levels of a tree say of each leaf, added up."""

    whole: WholeTable

    leaf_rows: NDArray[np.int32]
    """For each node of the forest, the row of its leaf in `leaf_values`."""

    leaf_values: Floats


class ScoreTable:
    """What the first sites of a table say of contexts.

    Parameters
    ----------
    whole : WholeTable
    h : int
        How many tokens a context has.
    n_sites : int
    """

    def __init__(self, whole_table: WholeTable, h: int, n_sites: int) -> None:
        self._h = h
        self._base = whole_table.base
        self._vocabulary = whole_table.table.vocabulary
        positions = whole_table.table.sites.positions[:n_sites]
        tuples = [
            rows.rows().ravel().astype(np.int32) for rows in whole_table.table.tuples[:n_sites]
        ]
        starts = np.asarray(whole_table.starts[: n_sites + 1], np.int64)
        self._compiled = _native.ScoreTable(
            h=h,
            site_starts=np.cumsum([0, *map(len, positions)]),
            positions=np.array([place for site in positions for place in site], np.int64),
            row_starts=starts,
            tuples=np.concatenate([np.empty(0, np.int32), *tuples]),
            values=np.ascontiguousarray(whole_table.values[: starts[-1]]),
            base=whole_table.base,
            # tokens that were chosen to share their slots for one seed do not for another
            seed=secrets.randbits(64),
        )

    def scores(self, contexts: Contexts) -> Floats:
        """Return the base plus what each site says of each context."""
        ranks = contexts.ranks_in(self._vocabulary)
        totals = np.empty((len(ranks), len(self._base)))
        self._compiled.scores(ranks.astype(np.int32), totals)
        return totals

    def single(self) -> Callable[[Sequence[Any]], int]:
        """Return a fast way from one context to the column of its best label."""
        return single_answer(self.number, self._h, self._compiled.winner, int)

    def single_scores(self) -> SingleScores:
        """Return a fast way from one context to its scores."""

        def scores(tokens: Sequence[Any]) -> Floats | None:
            if (
                isinstance(tokens, str)
                or len(tokens) != self._h
                or any(token is None for token in tokens)
            ):
                # the way of batches says what is wrong, or what a missing value is
                return None
            totals = np.empty((1, len(self._base)))
            self.write_one(tokens, totals)
            return totals

        return scores

    def write_one(self, tokens: Sequence[Any], totals: Floats) -> None:
        """Write the scores of one context; None is no token."""
        number = self.number
        ranks = np.array([[-1 if token is None else number(token) for token in tokens]], np.int32)
        self._compiled.scores(ranks, totals)

    @cached_property
    def number(self) -> Callable[[Any], int]:
        """From a token to its number, -1 where it has none."""
        return Numbers(self._vocabulary).get


class DenseRanker(Ranker):
    """A ranker whose rule can be worked out for all rows."""

    @property
    @abstractmethod
    def can_be_dense(self) -> bool:
        """Whether labels are few, and the whole table is in memory."""

    @abstractmethod
    def spend_and_test(self, n_contexts: int) -> bool:
        """Count these contexts as asked; return whether the values of all rows pay by now."""

    @abstractmethod
    def whole(self) -> WholeTable:
        """Return the values of all rows."""

    @abstractmethod
    def read_values(self, contexts: Contexts) -> RowValues:
        """Return the rows that contexts read, with their values."""


class TreeRanker(AdditiveRanker):
    """Scores of few labels from names and trees.

    Once enough was asked to make them, there is one row of numbers a leaf.
    """

    def __init__(self, inner: DenseRanker, cells: TreeCells, base: BaseAnswers | None) -> None:
        super().__init__(inner, cells, base)
        self._rules = inner

    def scores(self, contexts: Contexts) -> Floats:
        """Return one score for each row and label."""
        contexts = self._cells.ask(contexts)
        codes = self._cells.codes.rows(contexts)
        if self._rules.spend_and_test(len(contexts)):
            totals = self._from_leaves(contexts, codes)
        else:
            read = self._rules.read_values(self._cells.find_cells(contexts))
            totals = sum_rows(read.rows, read.values, read.base, len(self._cells.name_sites))
        if self.base is not None:
            self.base.add(codes, totals)
        return totals

    @cached_property
    def _built(self) -> tuple[ScoreTable, _native.TreeScores]:
        """What names say on top of the base, and what leaves say."""
        forest = self._cells.forest
        tables = self.tables()
        names = ScoreTable(tables.whole, len(self._cells.kinds), len(self._cells.name_sites))
        return names, forest.compiled.with_scores(tables.leaf_rows, tables.leaf_values)

    @property
    def has_tables(self) -> bool:
        """Whether `tables` can be made."""
        return self._rules.can_be_dense

    def tables(self) -> TreeTables:
        """Return the values of all rows, and what all levels say of each leaf."""
        whole_table = self._rules.whole()
        rows, values = _leaf_values(self._cells.forest, whole_table, len(self._cells.name_sites))
        return TreeTables(whole_table, rows, values)

    def _from_leaves(self, contexts: Contexts, codes: NDArray[np.uint8]) -> Floats:
        names, trees = self._built
        totals = names.scores(contexts)
        trees.add(codes, totals)
        return totals

    def column_contributions(self, contexts: Contexts) -> tuple[Floats, Floats]:
        """Return what each column of the table adds to each score, and the score without any.

        What all levels of a tree say of a leaf is divided among columns once, for all rows that lie
        in it.

        Shapes
        ------
        contexts : m of them; returned : (m, columns, L), (m, L)
        """
        cells = self._cells
        whole_table = self._rules.whole()
        contexts = cells.ask(contexts)
        codes = cells.codes.rows(contexts)
        totals = np.zeros((len(contexts), len(cells.kinds), self.n_labels))
        self._add_names(totals, contexts, whole_table)
        self._add_leaves(totals, codes, whole_table)
        if self.base is None:
            return totals, np.tile(whole_table.base, (len(contexts), 1))
        by_base, base_contribution = self.base.contributions(codes, np.arange(self.n_labels))
        return totals + by_base, base_contribution + whole_table.base

    def _add_names(self, totals: Floats, contexts: Contexts, whole_table: WholeTable) -> None:
        """Add what the rows of names say; the columns of a site have equal shares."""
        padded = _pad(whole_table.values)
        ranks = contexts.ranks_in(whole_table.table.vocabulary)
        starts = whole_table.starts.tolist()
        for site, tuples, start in zip(
            self._cells.name_sites, whole_table.table.tuples, starts, strict=False
        ):
            columns = list(site)
            rows = tuples.find(ranks[:, columns])
            rows = np.where(rows >= 0, rows + start, -1)
            totals[:, columns] += padded[rows, None] / len(site)

    def _add_leaves(
        self, totals: Floats, codes: NDArray[np.uint8], whole_table: WholeTable
    ) -> None:
        """Add what the leaves of trees say; each cell is divided by `node_shares`."""
        cells = self._cells
        padded = _pad(whole_table.values)
        place = np.empty(len(cells.forest.column), np.int64)
        trees = _cell_rows(cells.forest, whole_table, len(cells.name_sites))
        reached = cells.forest.leaves(codes).T  # the leaf of each row, tree by tree
        for row_leaves, (leaves, rows_of_levels) in zip(reached, trees, strict=True):
            place[leaves] = np.arange(len(leaves))
            shares = np.zeros((len(leaves), *totals.shape[1:]))
            for nodes, rows in zip(cells.forest.cell_nodes[:, leaves], rows_of_levels, strict=True):
                shares += cells.node_shares(nodes)[:, :, None] * padded[rows][:, None, :]
            totals += shares[place[row_leaves]]

    def single(self) -> Callable[[Sequence[Any]], int] | None:
        """Return a fast way from the tokens of one row to the column of its best label."""
        scores = self.single_scores()
        if scores is None:
            return None
        return lambda tokens: _first_best(scores(tokens))

    def single_scores(self) -> SingleScores | None:
        """Return a fast way from one row to its scores; None for tables with dates."""
        cells = self._cells
        has_dates = ColumnKind.DATES in cells.kinds
        if not self.has_tables or has_dates or cells.narrowing is not None:
            return None
        # all that a call needs is bound here: it takes microseconds
        base = self.base
        (names_table, trees) = self._built
        coder = cells.codes.coder
        score_names = names_table.write_one
        h = len(cells.kinds)
        is_name = [not kind.is_ordered for kind in cells.kinds]
        at_names = cells.names
        at_numbers = [j for j in range(h) if not is_name[j]]
        name_coders = [
            lru_cache(_REMEMBERED_NAMES)(partial(cells.codes.name_code, j))
            for j in range(len(at_names))
        ]

        def scores(tokens: Sequence[Any]) -> Floats | None:
            if isinstance(tokens, str) or len(tokens) != h:
                return None  # the way of batches says what is wrong
            names = [tokens[j] for j in at_names]
            numbers = [tokens[j] for j in at_numbers]
            if not all(map(_is_plain_number, numbers)) or any(
                type(name) is not str for name in names
            ):
                return None
            name_codes = [code(name) for code, name in zip(name_coders, names, strict=True)]
            row = np.empty((1, coder.n_columns), np.uint8)
            coder.write(np.array([numbers], np.float64), np.array([name_codes], np.uint8), row)
            totals = np.empty((1, self.n_labels))
            only_names = [
                token if named else None for token, named in zip(tokens, is_name, strict=True)
            ]
            score_names(only_names, totals)
            trees.add(row, totals)
            if base is not None:
                base.add(row, totals)
            return totals

        return scores


def _first_best(scores: Floats | None) -> int:
    return -1 if scores is None else int(scores.argmax())


def _leaf_values(
    forest: Forest, whole_table: WholeTable, n_names: int
) -> tuple[NDArray[np.int32], Floats]:
    """Return what all levels of its tree say of each leaf, added up.

    The first array has, for each node, the row of its leaf in the second.
    """
    padded = _pad(whole_table.values)
    is_leaf = forest.column == LEAF
    rows = np.where(is_leaf, np.cumsum(is_leaf) - 1, 0).astype(np.int32)
    values = np.empty((int(is_leaf.sum()), padded.shape[1]))
    for leaves, (first, *others) in _cell_rows(forest, whole_table, n_names):
        values[rows[leaves]] = sum((padded[row] for row in others), padded[first])
    return rows, values


def _pad(values: Floats) -> Floats:
    """Return values with zeros behind them, which row -1 reads."""
    return np.concatenate([values, np.zeros((1, values.shape[1]))])


def _cell_rows(
    forest: Forest, whole_table: WholeTable, n_names: int
) -> Iterator[tuple[Ints, list[Ints]]]:
    """Yield the leaves of each tree and, for each level, the row of values that they read."""
    table = whole_table.table
    is_leaf = forest.column == LEAF
    sites = iter(range(n_names, len(table.tuples)))
    vocabulary = table.vocabulary
    # the token of a cell is its number; tokens that are no whole number get -1
    n_others = len(vocabulary) - len(vocabulary.ints)
    cell_numbers = np.concatenate([vocabulary.ints, np.full(n_others, -1)])
    for first, last in pairwise(forest.starts.tolist()):
        leaves = first + np.flatnonzero(is_leaf[first:last])
        rows = []
        for numbers in forest.cell_numbers:
            site = next(sites)
            row_numbers = cell_numbers[table.tuples[site].rows()[:, 0]]
            row_of = np.full(int(numbers[first:last].max()) + 1, -1)
            # a file may hold other tokens, which no row reads
            is_cell = (row_numbers >= 0) & (row_numbers < len(row_of))
            cell_rows = np.flatnonzero(is_cell)
            row_of[row_numbers[cell_rows]] = whole_table.starts[site] + cell_rows
            rows.append(row_of[numbers[leaves]])
        yield leaves, rows


def _is_plain_number(value: Any) -> bool:
    """Return whether a token is a finite number: no missing value, no other type."""
    if type(value) is float or type(value) is int:
        return -(2.0**53) < value < 2.0**53
    return False
