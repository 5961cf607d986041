r"""Rows of counts for a mixture: what one label has in them, and what is left without some examples.

To *leave out* a case is to take all of its examples back before one of them is judged: with n the count of a label in a
row and o what the case has added to it, the row is read as if it held n - o, and its total and the number of its labels
with counts 1, 2 and more follow.

The *continuation counts* of a suffix are :math:`C(s, c) = |\{x : N(x s, c) > 0\}|`: how many different tokens came
before the suffix s and the label c. They are derived from the rows of the suffix that is a token longer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hammemo._arrays.integers import find_sorted, ranges, sum_by_key
from hammemo._versions import Cached

if TYPE_CHECKING:
    from hammemo._arrays.types import Ints
    from hammemo.memories.exact import CountTable


@dataclass(frozen=True, eq=False)
class CountRows(Cached):
    """Rows of counts by label, for reading single entries.

    Parameters
    ----------
    keys : ndarray of int64, shape (n,)
        ``row * n_labels + label``, ascending.
    counts : ndarray of int64, shape (n,)
    n_labels : int
    totals : ndarray of int64, shape (r,)
    classes : ndarray of int64, shape (r, 4)
        How many entries of each row have the count 0 (none), 1, 2, and 3 or more.
    """

    keys: Ints
    counts: Ints
    n_labels: int
    totals: Ints
    classes: Ints

    @classmethod
    def of(cls, keys: Ints, counts: Ints, n_labels: int, n_rows: int) -> CountRows:
        """Return rows with these entries, ascending; there is always one, which -1 may read."""
        n_rows = max(n_rows, 1)
        rows = keys // max(n_labels, 1)
        totals = np.bincount(rows, counts, n_rows).astype(np.int64)  # exact: below 2^53
        classes = np.bincount(rows * 4 + np.minimum(counts, 3), minlength=4 * n_rows).reshape(
            n_rows, 4
        )
        return cls(keys, counts, n_labels, totals, classes)

    @classmethod
    def of_table(cls, table: CountTable, columns: Ints, n_labels: int) -> CountRows:
        """Return the rows of a table; `columns` is where each of its labels goes, -1 for one that is left out."""
        found = columns[table.entry_labels]
        held = found >= 0
        keys = table.entry_rows()[held] * n_labels + found[held]
        return cls.of(
            keys, table.entry_counts[held].astype(np.int64), n_labels, len(table.row_lengths)
        )

    def at(self, rows: Ints, labels: Ints) -> Ints:
        """Return the counts of these labels in these rows; -1 is no row, or no label."""
        return self.counts_at(self.places(rows, labels))

    def places(self, rows: Ints, labels: Ints) -> Ints:
        """Return which entry these labels have in these rows; -1 for none."""
        return find_sorted(
            self.keys, np.where((rows >= 0) & (labels >= 0), rows * self.n_labels + labels, -1)
        )

    def counts_at(self, places: Ints) -> Ints:
        """Return the counts of entries; 0 for none."""
        return (
            np.where(places >= 0, self.counts[places], 0)
            if len(self.counts)
            else np.zeros(len(places), np.int64)
        )

    def row_entries(self, rows: Ints) -> tuple[Ints, Ints, Ints]:
        """Return the lengths, labels and counts of whole rows; -1 is no row."""
        firsts, lengths = self.spans(rows)
        places = ranges(firsts, lengths)
        return (
            lengths,
            self.keys[places] - np.repeat(rows * self.n_labels, lengths),
            self.counts[places],
        )

    def spans(self, rows: Ints) -> tuple[Ints, Ints]:
        """Return where the entries of whole rows begin, and how many there are; -1 is no row."""
        known = np.maximum(rows, 0)
        firsts = np.searchsorted(self.keys, known * self.n_labels)
        return firsts, np.where(rows >= 0, self.classes[known].sum(axis=1), 0)


def continuation_rows(
    table: CountTable, rows: CountRows, longer: int, shorter: int
) -> tuple[CountRows, Ints]:
    """Return the continuation counts of a suffix site, and which of its rows each row of the longer suffix belongs to.

    Parameters
    ----------
    table : CountTable
    rows : CountRows
        Its rows, with the labels to be counted.
    longer, shorter : int
        The sites of the two suffixes; -1 for the suffix of no token, which has one row.
    """
    starts = np.cumsum([0, *map(len, table.tuples)])
    tuples = table.tuples[longer].rows()
    if shorter < 0:
        parents, n_parents = np.zeros(len(tuples), np.int64), 1
    else:
        parents, n_parents = table.tuples[shorter].find(tuples[:, 1:]), len(table.tuples[shorter])
    entries = slice(*np.searchsorted(rows.keys, starts[longer : longer + 2] * rows.n_labels))
    children, labels = np.divmod(rows.keys[entries], max(rows.n_labels, 1))
    above = parents[children - starts[longer]]
    keys = above[above >= 0] * rows.n_labels + labels[above >= 0]
    summed, counts = sum_by_key(keys, np.ones(len(keys), np.int64), n_parents * rows.n_labels)
    return CountRows.of(summed, counts, rows.n_labels, n_parents), parents


@dataclass(frozen=True, eq=False)
class RowEntries:
    """Entries of rows: of each a case, a row and a label."""

    cases: Ints
    rows: Ints
    labels: Ints


@dataclass(frozen=True, eq=False)
class Read:
    """What was read of one label in each row: its count, and what the row is like.

    Shapes
    ------
    counts, totals : (n,); classes : (n, 4)
    """

    counts: Ints
    totals: Ints
    classes: Ints


class LeftOut:
    """Rows without what cases have added to them.

    Parameters
    ----------
    rows : CountRows
    own : RowEntries
        What the cases have added, one entry for each time.
    """

    def __init__(self, rows: CountRows, own: RowEntries) -> None:
        self._rows = rows
        held = (own.rows >= 0) & (own.labels >= 0)
        self._known = np.unique(own.rows[held])  # few of all rows, so that keys stay small
        keys = self._keys(own.cases[held], own.rows[held], own.labels[held])
        self._entries, times = np.unique(keys, return_counts=True)
        pairs, labels = np.divmod(self._entries, max(rows.n_labels, 1))
        self._entry_cases, places = np.divmod(pairs, len(self._known) or 1)
        self._entry_rows, self._entry_labels = self._known[places], labels
        self._entry_places = rows.places(self._entry_rows, labels)
        stored = rows.counts_at(self._entry_places)
        self._times = np.minimum(times, stored)
        self._gone = stored == self._times
        self._pairs, first = np.unique(pairs, return_inverse=True)
        self._pair_totals = np.bincount(first, self._times, len(self._pairs)).astype(np.int64)
        after = np.minimum(stored - self._times, 3)
        size = 4 * len(self._pairs)
        lost = np.bincount(first * 4 + np.minimum(stored, 3), minlength=size)
        self._pair_classes = (lost - np.bincount(first * 4 + after, minlength=size)).reshape(-1, 4)
        self._pair_starts = np.searchsorted(first, np.arange(len(self._pairs) + 1))

    def _keys(self, cases: Ints, rows: Ints, labels: Ints) -> Ints:
        pairs = self._pair_keys(cases, rows)
        return np.asarray(np.where(pairs >= 0, pairs * self._rows.n_labels + labels, -1))

    def _pair_keys(self, cases: Ints, rows: Ints) -> Ints:
        places = find_sorted(self._known, rows)
        return np.asarray(np.where(places >= 0, cases * (len(self._known) or 1) + places, -1))

    def gone(self) -> RowEntries:
        """Return the entries of which nothing is left without the case."""
        return RowEntries(
            self._entry_cases[self._gone],
            self._entry_rows[self._gone],
            self._entry_labels[self._gone],
        )

    def whole_rows(self, cases: Ints, rows: Ints) -> tuple[tuple[Ints, Ints, Ints], Read]:
        """Return the lengths, labels and counts of whole rows, each without what a case has added; some may be 0.

        Also returned is what the rows are like then, with the counts of no label. A case has added to few entries of a
        row, so only these are looked up.
        """
        lengths, labels, counts = self._rows.row_entries(rows)
        pair = find_sorted(self._pairs, self._pair_keys(cases, rows))
        less = np.flatnonzero(pair >= 0)
        own_starts = self._pair_starts[pair[less]]
        n_own = self._pair_starts[pair[less] + 1] - own_starts
        own = ranges(own_starts, n_own)
        shift = (np.cumsum(lengths) - lengths)[less] - self._rows.spans(rows[less])[0]
        place = np.repeat(shift, n_own) + self._entry_places[own]
        held = self._times[own] > 0
        counts[place[held]] -= self._times[own[held]]
        like = self._left_of(rows, pair, np.zeros(len(rows), np.int64))
        return (lengths, labels, counts), Read(
            like.counts, np.where(rows >= 0, like.totals, 0), like.classes
        )

    def read(self, asked: RowEntries) -> Read:
        """Return what is left of the labels in the requested rows."""
        counts = self._rows.at(asked.rows, asked.labels)
        keys = self._keys(asked.cases, asked.rows, np.maximum(asked.labels, 0))
        if len(self._entries):
            place = find_sorted(self._entries, np.where(asked.labels >= 0, keys, -1))
            counts = counts - np.where(place >= 0, self._times[place], 0)
        pair = find_sorted(
            self._pairs, np.where(keys >= 0, keys // max(self._rows.n_labels, 1), -1)
        )
        return self._left_of(asked.rows, pair, counts)

    def _left_of(self, rows: Ints, pair: Ints, counts: Ints) -> Read:
        """Return what rows are like without what cases have added; `pair`: which case and row, -1 for none."""
        rows = np.maximum(rows, 0)
        totals, classes, known = self._rows.totals[rows], self._rows.classes[rows], pair >= 0
        if len(self._pairs):
            totals = totals - np.where(known, self._pair_totals[pair], 0)
            classes = classes - np.where(known[:, None], self._pair_classes[pair], 0)
        return Read(counts, totals, classes)
