"""How the rows of a count table are reached one position at a time, and the way back to the table.

A site that compares several positions is reached in steps: the row of a shorter tuple, then one
token more, so that every key is (row, token), two 32-bit numbers. Where the kernel has a site for
the shorter tuple, that is the step; otherwise one without counts is put in between.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hammemo._arrays.tuple_sets import TupleSet
from hammemo._versions import cached_property
from hammemo.memories.exact.segments.entries import SiteRows
from hammemo.memories.exact.table import CountTable
from hammemo.memories.label_counts import LabelCounts

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hammemo._arrays.types import Array, Ints
    from hammemo.kernels.sites import Sites
    from hammemo.memories.exact.live.numbers import Numbers
    from hammemo.tokens.vocabulary import Vocabulary


class RowArrays(NamedTuple):
    """The rows of one step, in the form that compiled code takes and returns."""

    keys: Array
    """Row of the parent << 32 | token."""

    ids: Array
    """What the keys of longer tuples call each row; 0 for one that nothing starts from."""

    lengths: Array
    """How many entries each row has."""

    labels: Array
    """The label of each entry, row by row."""

    counts: Array
    """The count of each entry, row by row."""


@dataclass(frozen=True)
class Step:
    """One position more than the parent; `positions` are all that were compared then, ascending."""

    positions: tuple[int, ...]
    position: int
    parent: int

    @property
    def place(self) -> int:
        """Which column of the step's tuples holds the token of its own position."""
        return self.positions.index(self.position)


class Steps:
    """The steps of the sites of a kernel, parents first.

    Examples
    --------
    >>> from hammemo.kernels import Suffixes
    >>> from hammemo.memories.exact.live.steps import Steps
    >>> steps = Steps(Suffixes(3).resolve(4))
    >>> [step.positions for step in steps.all], steps.of_sites
    ([(3,), (2, 3), (1, 2, 3)], [0, 1, 2])
    """

    def __init__(self, sites: Sites) -> None:
        self.sites = sites
        self.all: list[Step] = []
        self._numbers: dict[tuple[int, ...], int] = {}
        self.of_sites = [0] * len(sites.positions)
        shortest_first = sorted(range(len(sites.positions)), key=lambda k: len(sites.positions[k]))
        for k in shortest_first:
            self.of_sites[k] = self._ensure(sites.positions[k])

    def _ensure(self, positions: tuple[int, ...]) -> int:
        """Return the number of the step to these positions, which is added if there is none."""
        if positions in self._numbers:
            return self._numbers[positions]
        shorter = [(p, tuple(q for q in positions if q != p)) for p in positions]
        position, others = next((pair for pair in shorter if pair[1] in self._numbers), shorter[0])
        parent = self._ensure(others) if others else -1
        self.all.append(Step(positions, position, parent))
        self._numbers[positions] = len(self.all) - 1
        return self._numbers[positions]

    @cached_property
    def first_sites(self) -> dict[int, int]:
        """The (first) site of each step that has counts."""
        return {step: k for k, step in reversed(list(enumerate(self.of_sites)))}

    @cached_property
    def parents(self) -> set[int]:
        """The steps that others start from."""
        return {step.parent for step in self.all if step.parent >= 0}

    # From a table

    def rows_of(self, table: CountTable) -> Iterator[RowArrays]:
        """Yield the rows of each step; tokens and labels are named by their ranks in the table."""
        tuples, parent_rows = self._collect_tuples(table)
        site_slices = list(table.site_slices())
        id_counts = [len(rows) if k in self.parents else 0 for k, rows in enumerate(tuples)]
        first_ids = 1 + np.cumsum([0, *id_counts])  # 0 is for the rows that nothing starts from
        for k, (step, rows) in enumerate(zip(self.all, tuples, strict=True)):
            keys = _column(rows, step.place).astype(np.uint64)
            if step.parent >= 0:
                parent_ids = (parent_rows[k] + first_ids[step.parent]).astype(np.uint64)
                keys |= parent_ids << np.uint64(32)
            ids = np.zeros(len(rows), np.uint32)
            if k in self.parents:
                ids += np.arange(first_ids[k], first_ids[k] + len(rows), dtype=np.uint32)
            lengths = np.zeros(len(rows), np.uint32)
            entries = slice(0, 0)
            if k in self.first_sites:
                site_tuples, table_rows, entries = site_slices[self.first_sites[k]]
                place = slice(None) if rows is site_tuples else rows.find(site_tuples.rows())
                lengths[place] = table.row_lengths[table_rows]
            yield RowArrays(
                keys=keys,
                ids=ids,
                lengths=lengths,
                labels=table.entry_labels[entries].astype(np.uint32),
                counts=table.entry_counts[entries].astype(np.uint64),
            )

    def _collect_tuples(self, table: CountTable) -> tuple[list[TupleSet], list[Ints]]:
        """Return the tuples of each step, and the row of its parent that each starts from.

        They are those of the table, and those that longer ones start from: a table that was edited
        may have no counts there.
        """
        tuples: dict[int, TupleSet] = {}
        parent_rows = [np.empty(0, np.int64)] * len(self.all)
        # of each step, by child: the shorter tuples that the child's tuples start from
        beginnings: list[dict[int, Ints]] = [{} for _ in self.all]
        n = max(len(table.vocabulary), 1)
        # children come after their parents: when a step's turn comes, all that starts there is
        # known
        for k in reversed(range(len(self.all))):
            step = self.all[k]
            counted = table.tuples[self.first_sites[k]] if k in self.first_sites else None
            tuples[k], places = _locate(counted, beginnings[k], n)
            for child, rows in places.items():
                parent_rows[child] = rows
            beginnings[k] = {}  # they may be large
            if step.parent >= 0:
                columns = [j for j, p in enumerate(step.positions) if p != step.position]
                beginnings[step.parent][k] = tuples[k].rows()[:, columns]
        return [tuples[k] for k in range(len(self.all))], parent_rows

    def empties_of(self, table: CountTable) -> Iterator[RowArrays]:
        """Yield for each step the labels of the examples that have no token there.

        They are one row, or none where every example has a token.
        """
        for k in range(len(self.all)):
            empty = table.empties[self.first_sites[k]] if k in self.first_sites else LabelCounts()
            labels = table.label_counts.labels.find(empty.labels)
            n_rows = min(len(labels), 1)
            yield RowArrays(
                keys=np.zeros(n_rows, np.uint64),
                ids=np.zeros(n_rows, np.uint32),
                lengths=np.full(n_rows, len(labels), np.uint32),
                labels=labels.astype(np.uint32),
                counts=empty.counts.astype(np.uint64),
            )

    # Back to a table

    def table_of(
        self, rows: Sequence[RowArrays], tokens: Numbers, label_counts: LabelCounts, columns: Ints
    ) -> CountTable:
        """Return the canonical table of these rows; `columns` is the rank of each label number."""
        tuples = self._number_tuples(rows)
        vocabulary, ranks = self._rank_tokens(rows, tuples, tokens)
        n_labels = len(label_counts.labels)
        sites = []
        for step in self.of_sites:
            lengths = rows[step].lengths
            has_counts = lengths > 0
            site_tuples, index = TupleSet.collect(
                ranks[tuples[step][has_counts]], max(len(vocabulary), 1)
            )
            entry_rows = np.repeat(index, lengths[has_counts])
            keys = entry_rows * n_labels + columns[rows[step].labels]
            order = np.argsort(keys, kind="stable")
            counts = rows[step].counts[order].astype(np.int64)
            sites.append(SiteRows.from_keys(site_tuples, keys[order], counts, n_labels))
        return CountTable.from_rows(
            self.sites, label_counts, sites, vocabulary=vocabulary, labels=label_counts.labels
        )

    def _number_tuples(self, rows: Sequence[RowArrays]) -> list[Ints]:
        """Return the token numbers of the rows of each step, in the order of its positions."""
        tuples: list[Ints] = []
        for step, arrays in zip(self.all, rows, strict=True):
            column = (arrays.keys & np.uint64(0xFFFFFFFF)).astype(np.int64)
            if step.parent < 0:
                tuples.append(column[:, None])
                continue
            parent_ids = (arrays.keys >> np.uint64(32)).astype(np.uint32)
            ids = rows[step.parent].ids
            order = np.argsort(ids, kind="stable")
            parents = order[np.searchsorted(ids[order], parent_ids)]
            beginnings = tuples[step.parent][parents]
            tuples.append(np.insert(beginnings, step.place, column, axis=1))
        return tuples

    def _rank_tokens(
        self, rows: Sequence[RowArrays], tuples: Sequence[Ints], tokens: Numbers
    ) -> tuple[Vocabulary, Ints]:
        """Return the vocabulary of the rows with counts, and the rank of each token number in it.

        The rank of a number that is not in use is 0.
        """
        is_used = np.zeros(len(tokens) + 1, bool)
        for k in self.first_sites:
            is_used[tuples[k][rows[k].lengths > 0]] = True
        vocabulary, numbers = tokens.select(is_used)
        ranks = np.zeros(len(tokens) + 1, np.int64)
        ranks[numbers] = np.arange(len(numbers))
        return vocabulary, ranks


def _locate(
    counted: TupleSet | None, beginnings: dict[int, Ints], n: int
) -> tuple[TupleSet, dict[int, Ints]]:
    """Return the tuples of a step, and the row of each child's beginnings among them.

    Parameters
    ----------
    counted : TupleSet or None
        The tuples that have counts. The same object is returned where it has all beginnings.
    beginnings : dict of arrays (r, l)
    n : int
        All tokens are below it.
    """
    if counted is not None:
        places = {child: counted.find(shorter) for child, shorter in beginnings.items()}
        if all((rows >= 0).all() for rows in places.values()):
            return counted, places
    beginning_rows = list(beginnings.values())
    if counted is not None:
        beginning_rows = [counted.rows(), *beginning_rows]
    tuples = TupleSet.collect(np.concatenate(beginning_rows), n)[0]
    return tuples, {child: tuples.find(shorter) for child, shorter in beginnings.items()}


def _column(rows: TupleSet, place: int) -> Ints:
    """Return one column of tuples; the last one is there without the others."""
    if place < len(rows.levels) - 1:
        return rows.rows()[:, place]
    return rows.levels[-1].astype(np.int64) % rows.n
