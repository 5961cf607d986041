r"""How the rows of a count table are reached one position at a time, and the table from and to that form.

A site that compares several positions is reached in steps: the row of a shorter tuple, then one token more, so that
every key is (row, token), two 32-bit numbers. Where the kernel has a site for the shorter tuple, that is the step;
otherwise one without counts is put in between.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hammemo._arrays.tuple_sets import TupleSet
from hammemo._versions import cached_property
from hammemo.memories.exact.segments.entries import SiteRows
from hammemo.memories.exact.table import CountTable
from hammemo.memories.label_counts import LabelCounts

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hammemo.kernels.sites import Sites
    from hammemo.memories.exact.live.numbers import Numbers

RowArrays: TypeAlias = tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]
"""Keys (row of the parent << 32 | token), row numbers, lengths; labels and counts of all entries."""


@dataclass(frozen=True)
class Step:
    """One position more than the parent; `positions` are all that were compared then, ascending."""

    positions: tuple[int, ...]
    position: int
    parent: int


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
        self._made: dict[tuple[int, ...], int] = {}
        self.of_sites = [0] * len(sites.positions)
        for k in sorted(range(len(sites.positions)), key=lambda k: len(sites.positions[k])):
            self.of_sites[k] = self._make(sites.positions[k])

    def _make(self, positions: tuple[int, ...]) -> int:
        if positions in self._made:
            return self._made[positions]
        shorter = [(p, tuple(q for q in positions if q != p)) for p in positions]
        position, rest = next((pair for pair in shorter if pair[1] in self._made), shorter[0])
        parent = self._make(rest) if rest else -1
        self.all.append(Step(positions, position, parent))
        self._made[positions] = len(self.all) - 1
        return self._made[positions]

    @cached_property
    def first_sites(self) -> dict[int, int]:
        """The (first) site of each step that has counts."""
        return {step: k for k, step in reversed(list(enumerate(self.of_sites)))}

    @cached_property
    def parents(self) -> set[int]:
        """The steps that others start from."""
        return {step.parent for step in self.all if step.parent >= 0}

    def rows_of(self, table: CountTable) -> Iterator[RowArrays]:
        """Yield the rows of each step of a table; tokens and labels are named by their ranks in it."""
        tuples, parent_rows = self._tuples(table)
        sites = list(table.site_slices())
        n_ids = [len(rows) if k in self.parents else 0 for k, rows in enumerate(tuples)]
        first_ids = 1 + np.cumsum([0, *n_ids])  # 0 is for the rows that nothing starts from
        for k, (step, rows) in enumerate(zip(self.all, tuples, strict=True)):
            keys = _column(rows, step.positions.index(step.position)).astype(np.uint64)
            if step.parent >= 0:
                keys |= (parent_rows[k] + first_ids[step.parent]).astype(np.uint64) << np.uint64(32)
            ids = np.zeros(len(rows), np.uint32)
            if k in self.parents:
                ids += np.arange(first_ids[k], first_ids[k] + len(rows), dtype=np.uint32)
            lengths, entries = np.zeros(len(rows), np.uint32), slice(0, 0)
            if k in self.first_sites:
                known, held, entries = sites[self.first_sites[k]]
                place = slice(None) if rows is known else rows.find(known.rows())
                lengths[place] = table.row_lengths[held]
            labels, counts = table.entry_labels[entries], table.entry_counts[entries]
            yield keys, ids, lengths, labels.astype(np.uint32), counts.astype(np.uint64)

    def _tuples(self, table: CountTable) -> tuple[list[TupleSet], list[NDArray[np.int64]]]:
        """Return the tuples of each step, and the row of its parent that each starts from.

        They are those of the table, and those that longer ones start from: a table that was edited may have no counts
        there.
        """
        found: list[Any] = [None] * len(self.all)
        parent_rows = [np.empty(0, np.int64)] * len(self.all)
        starts: list[dict[int, NDArray[np.int64]]] = [{} for _ in self.all]  # by child: what its tuples start from
        n = max(len(table.vocabulary), 1)
        for k in range(len(self.all) - 1, -1, -1):
            step = self.all[k]
            known = table.tuples[self.first_sites[k]] if k in self.first_sites else None
            rows = {} if known is None else {child: known.find(wanted) for child, wanted in starts[k].items()}
            if known is None or any((index < 0).any() for index in rows.values()):
                own = [] if known is None else [known.rows()]
                known = TupleSet.collect(np.concatenate([*own, *starts[k].values()]), n)[0]
                rows = {child: known.find(wanted) for child, wanted in starts[k].items()}
            for child, index in rows.items():
                parent_rows[child] = index
            found[k], starts[k] = known, {}
            if step.parent >= 0:
                shorter = [j for j, p in enumerate(step.positions) if p != step.position]
                starts[step.parent][k] = known.rows()[:, shorter]
        return found, parent_rows

    def empties_of(self, table: CountTable) -> Iterator[RowArrays]:
        """Yield for each step the labels of the examples that have no token there: no row, or one."""
        for k in range(len(self.all)):
            empty = table.empties[self.first_sites[k]] if k in self.first_sites else LabelCounts()
            labels = table.label_counts.labels.find(empty.labels)
            one = min(len(labels), 1)
            yield (
                np.zeros(one, np.uint64),
                np.zeros(one, np.uint32),
                np.full(one, len(labels), np.uint32),
                labels.astype(np.uint32),
                empty.counts.astype(np.uint64),
            )

    def table_of(
        self, rows: Sequence[RowArrays], tokens: Numbers, label_counts: LabelCounts, columns: NDArray[np.int64]
    ) -> CountTable:
        """Return the canonical table of these rows; `columns` is the rank of each label number."""
        tuples = self._numbered_tuples(rows)
        used = np.zeros(len(tokens) + 1, bool)
        for k in self.first_sites:
            used[tuples[k][rows[k][2] > 0]] = True
        vocabulary, numbers = tokens.named(used)
        ranks = np.zeros(len(tokens) + 1, np.int64)
        ranks[numbers] = np.arange(len(numbers))
        made, n_labels = [], len(label_counts.labels)
        for step in self.of_sites:
            _, _, lengths, labels, counts = rows[step]
            known, index = TupleSet.collect(ranks[tuples[step][lengths > 0]], max(len(vocabulary), 1))
            keys = np.repeat(index, lengths[lengths > 0]) * n_labels + columns[labels]
            order = np.argsort(keys, kind="stable")
            made.append(SiteRows.of_keys(known, keys[order], counts[order].astype(np.int64), n_labels))
        return CountTable.of_rows(self.sites, label_counts, (vocabulary, label_counts.labels), made)

    def _numbered_tuples(self, rows: Sequence[RowArrays]) -> list[NDArray[np.int64]]:
        """Return the token numbers of the rows of each step, in the order of its positions."""
        tuples: list[NDArray[np.int64]] = []
        for step, (keys, *_) in zip(self.all, rows, strict=True):
            column = (keys & np.uint64(0xFFFFFFFF)).astype(np.int64)
            if step.parent < 0:
                tuples.append(column[:, None])
                continue
            ids = rows[step.parent][1]
            order = np.argsort(ids, kind="stable")
            parents = order[np.searchsorted(ids[order], (keys >> np.uint64(32)).astype(np.uint32))]
            tuples.append(np.insert(tuples[step.parent][parents], step.positions.index(step.position), column, axis=1))
        return tuples


def _column(rows: TupleSet, place: int) -> NDArray[np.int64]:
    return rows.rows()[:, place] if place < len(rows.levels) - 1 else rows.levels[-1].astype(np.int64) % rows.n
