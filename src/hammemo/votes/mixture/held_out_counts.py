r"""Rows of counts for a mixture: single entries, and rows without some of their examples.

To *leave out* a case is to take all of its examples back before one of them is judged: with n the
count of a label in a row and o what the case has added to it, the row is read as if it held n - o,
and its total and the number of its labels with counts 1, 2 and more follow.

The *continuation counts* of a suffix are :math:`C(s, c) = |\{x : N(x s, c) > 0\}|`: how many
different tokens came before the suffix s and the label c. They are derived from the rows of the
suffix that is a token longer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hammemo._arrays.integers import find_sorted, ranges, sum_by_key
from hammemo._versions import Cached
from hammemo.memories.exact import Entries

if TYPE_CHECKING:
    from hammemo._arrays.types import Bools, Ints
    from hammemo.memories.exact import CountTable


class Spans(NamedTuple):
    """Where entries of rows lie."""

    starts: Ints
    """The first entry of each row."""
    lengths: Ints
    """How many entries each row has."""


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
    def from_entries(cls, keys: Ints, counts: Ints, n_labels: int, n_rows: int) -> CountRows:
        """Return rows with these entries, ascending.

        There is always one row, so that reading the row -1 is no error.
        """
        n_rows = max(n_rows, 1)
        rows = keys // max(n_labels, 1)
        totals = np.bincount(rows, counts, n_rows).astype(np.int64)  # exact: below 2^53
        row_classes = rows * 4 + np.minimum(counts, 3)
        classes = np.bincount(row_classes, minlength=4 * n_rows).reshape(n_rows, 4)
        return cls(keys=keys, counts=counts, n_labels=n_labels, totals=totals, classes=classes)

    @classmethod
    def from_table(cls, table: CountTable, columns: Ints, n_labels: int) -> CountRows:
        """Return the rows of a table.

        `columns` says where each label of the table goes; labels with -1 are left out.
        """
        entry_columns = columns[table.entry_labels]
        inside = entry_columns >= 0
        keys = table.entry_rows()[inside] * n_labels + entry_columns[inside]
        counts = table.entry_counts[inside].astype(np.int64)
        return cls.from_entries(keys, counts, n_labels, len(table.row_lengths))

    def read_counts(self, rows: Ints, labels: Ints) -> Ints:
        """Return the counts of these labels in these rows; -1 is no row, or no label."""
        return self.counts_at(self.find_entries(rows, labels))

    def find_entries(self, rows: Ints, labels: Ints) -> Ints:
        """Return which entry these labels have in these rows; -1 for none."""
        keys = np.where((rows >= 0) & (labels >= 0), rows * self.n_labels + labels, -1)
        return find_sorted(self.keys, keys)

    def counts_at(self, places: Ints) -> Ints:
        """Return the counts of entries; 0 for none."""
        if not len(self.counts):
            return np.zeros(len(places), np.int64)
        return np.where(places >= 0, self.counts[places], 0)

    def read_rows(self, rows: Ints) -> Entries:
        """Return whole rows; -1 is no row."""
        spans = self.find_spans(rows)
        places = ranges(spans.starts, spans.lengths)
        labels = self.keys[places] - np.repeat(rows * self.n_labels, spans.lengths)
        return Entries(spans.lengths, labels, self.counts[places])

    def find_spans(self, rows: Ints) -> Spans:
        """Return where the entries of whole rows lie; -1 is no row."""
        existing = np.maximum(rows, 0)
        starts = np.searchsorted(self.keys, existing * self.n_labels)
        lengths = np.where(rows >= 0, self.classes[existing].sum(axis=1), 0)
        return Spans(starts, lengths)


class ContinuationRows(NamedTuple):
    """The continuation counts of a suffix."""

    counts: CountRows
    parents: Ints
    """Which row of `counts` each row of the longer suffix belongs to; -1 for none."""


def derive_continuation_rows(
    table: CountTable, rows: CountRows, longer: int, shorter: int
) -> ContinuationRows:
    """Count how many different tokens came before a suffix and a label.

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
        parents = np.zeros(len(tuples), np.int64)
        n_parents = 1
    else:
        parents = table.tuples[shorter].find(tuples[:, 1:])
        n_parents = len(table.tuples[shorter])
    ends = np.searchsorted(rows.keys, starts[longer : longer + 2] * rows.n_labels)
    entries = slice(ends[0], ends[1])
    children, labels = np.divmod(rows.keys[entries], max(rows.n_labels, 1))
    entry_parents = parents[children - starts[longer]]
    has_parent = entry_parents >= 0
    keys = entry_parents[has_parent] * rows.n_labels + labels[has_parent]
    # every entry of the longer suffix is one more token before the shorter one
    summed, counts = sum_by_key(keys, np.ones(len(keys), np.int64), n_parents * rows.n_labels)
    continuations = CountRows.from_entries(summed, counts, rows.n_labels, n_parents)
    return ContinuationRows(continuations, parents)


@dataclass(frozen=True, eq=False)
class RowEntries:
    """Entries of rows: of each a case, a row and a label."""

    cases: Ints
    rows: Ints
    labels: Ints

    @classmethod
    def empty(cls) -> RowEntries:
        """Return no entries."""
        return cls(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.int64))

    def select(self, is_selected: Bools) -> RowEntries:
        """Return some of the entries."""
        return RowEntries(self.cases[is_selected], self.rows[is_selected], self.labels[is_selected])


@dataclass(frozen=True, eq=False)
class LabelReads:
    """What rows say of one label each: its count, and what the row is like.

    Shapes
    ------
    counts, totals : (n,); classes : (n, 4)
    """

    counts: Ints
    totals: Ints
    classes: Ints


@dataclass(frozen=True, eq=False)
class WholeRows:
    """Whole rows without what a case has added, and what they are like then.

    Shapes
    ------
    totals : (n,); classes : (n, 4)
    """

    entries: Entries
    """The lengths, labels and counts of the rows; some counts may be 0."""
    totals: Ints
    classes: Ints


class LeftOut:
    """Rows without what cases have added to them.

    Parameters
    ----------
    rows : CountRows
    added : RowEntries
        What the cases have added, one entry for each time.
    """

    def __init__(self, rows: CountRows, added: RowEntries) -> None:
        self._rows = rows
        added = added.select((added.rows >= 0) & (added.labels >= 0))

        # Distinct entries (case, row, label), as keys, with how often each case has added it.
        self._touched_rows = np.unique(added.rows)  # few of all rows, so that keys stay small
        keys = self._make_keys(added.cases, added.rows, added.labels)
        self._entry_keys, times = np.unique(keys, return_counts=True)
        pairs, labels = np.divmod(self._entry_keys, max(rows.n_labels, 1))
        cases, places = np.divmod(pairs, len(self._touched_rows) or 1)
        self._entries = RowEntries(cases, self._touched_rows[places], labels)
        self._entry_places = rows.find_entries(self._entries.rows, labels)
        stored = rows.counts_at(self._entry_places)
        self._entry_times = np.minimum(times, stored)
        self._is_gone = stored == self._entry_times

        # Distinct pairs (case, row): what the case takes from the row's total and from how many
        # entries of the row have the counts 0, 1, 2, and 3 or more.
        self._pairs, pair_of_entry = np.unique(pairs, return_inverse=True)
        n_pairs = len(self._pairs)
        totals = np.bincount(pair_of_entry, self._entry_times, n_pairs)
        self._pair_totals = totals.astype(np.int64)
        class_before = np.minimum(stored, 3)
        class_after = np.minimum(stored - self._entry_times, 3)
        before = np.bincount(pair_of_entry * 4 + class_before, minlength=4 * n_pairs)
        after = np.bincount(pair_of_entry * 4 + class_after, minlength=4 * n_pairs)
        self._pair_classes = (before - after).reshape(-1, 4)
        self._pair_starts = np.searchsorted(pair_of_entry, np.arange(n_pairs + 1))

    def _make_keys(self, cases: Ints, rows: Ints, labels: Ints) -> Ints:
        """Return one number for each case, row and label; -1 for a row that no case touches."""
        pairs = self._make_pair_keys(cases, rows)
        return np.asarray(np.where(pairs >= 0, pairs * self._rows.n_labels + labels, -1))

    def _make_pair_keys(self, cases: Ints, rows: Ints) -> Ints:
        """Return one number for each case and row; -1 for a row that no case touches."""
        places = find_sorted(self._touched_rows, rows)
        n_touched = len(self._touched_rows) or 1
        return np.asarray(np.where(places >= 0, cases * n_touched + places, -1))

    def list_gone(self) -> RowEntries:
        """Return the entries that are zero without the case."""
        return self._entries.select(self._is_gone)

    def read_rows(self, cases: Ints, rows: Ints) -> WholeRows:
        """Return whole rows, each without what a case has added.

        A case has added to few entries of a row, so only these are looked up.
        """
        entries = self._rows.read_rows(rows)
        pairs = find_sorted(self._pairs, self._make_pair_keys(cases, rows))
        reduced = np.flatnonzero(pairs >= 0)  # rows that the case has added to

        # The entries that the cases have added, and where they are among the entries just read.
        starts = self._pair_starts[pairs[reduced]]
        n_added = self._pair_starts[pairs[reduced] + 1] - starts
        entry_places = ranges(starts, n_added)
        first_read = (np.cumsum(entries.lengths) - entries.lengths)[reduced]
        shifts = first_read - self._rows.find_spans(rows[reduced]).starts
        places = np.repeat(shifts, n_added) + self._entry_places[entry_places]
        is_stored = self._entry_times[entry_places] > 0
        entries.counts[places[is_stored]] -= self._entry_times[entry_places[is_stored]]

        no_counts = np.zeros(len(rows), np.int64)
        reads = self._reduce_rows(rows, pairs, no_counts)
        return WholeRows(entries, np.where(rows >= 0, reads.totals, 0), reads.classes)

    def read_labels(self, requested: RowEntries) -> LabelReads:
        """Return what the requested rows hold of the labels without the cases."""
        counts = self._rows.read_counts(requested.rows, requested.labels)
        labels = np.maximum(requested.labels, 0)
        keys = self._make_keys(requested.cases, requested.rows, labels)
        if len(self._entry_keys):
            label_keys = np.where(requested.labels >= 0, keys, -1)
            places = find_sorted(self._entry_keys, label_keys)
            counts = counts - np.where(places >= 0, self._entry_times[places], 0)
        pair_keys = np.where(keys >= 0, keys // max(self._rows.n_labels, 1), -1)
        pairs = find_sorted(self._pairs, pair_keys)
        return self._reduce_rows(requested.rows, pairs, counts)

    def _reduce_rows(self, rows: Ints, pairs: Ints, counts: Ints) -> LabelReads:
        """Return what rows are like without cases, given which case and row; -1 for none."""
        rows = np.maximum(rows, 0)
        totals = self._rows.totals[rows]
        classes = self._rows.classes[rows]
        if len(self._pairs):
            is_reduced = pairs >= 0
            totals = totals - np.where(is_reduced, self._pair_totals[pairs], 0)
            classes = classes - np.where(is_reduced[:, None], self._pair_classes[pairs], 0)
        return LabelReads(counts, totals, classes)
