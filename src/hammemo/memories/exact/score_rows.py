"""The rows of exact counts that contexts read, and those of a table as a sparse matrix.

There are three ways to them: from a table (here), from a live table
(:mod:`hammemo.memories.exact.live.live_rows`) and from files
(:mod:`hammemo.memories.exact.segments.file_rows`). All give the same rows; some find the best
labels faster than by all scores.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hammemo._versions import Cached, cached_property
from hammemo.kernels.sites import find_sites, make_sparse_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from scipy import sparse

    from hammemo._arrays.types import Bools, Floats, Ints
    from hammemo.memories.exact.live.live import Live
    from hammemo.memories.exact.sum import SignedSum
    from hammemo.memories.exact.table import CountTable
    from hammemo.memories.row_rules import RowRule
    from hammemo.tokens.contexts import Contexts
    from hammemo.tokens.vocabulary import Vocabulary


class Matrix(NamedTuple):
    """Rows of counts as a sparse matrix, and which of them contexts read.

    Shapes
    ------
    rows : (m, S); counts : (r, L); starts : (S + 1,)
    """

    rows: Ints
    """Which row each site of each context reads, -1 for none."""

    counts: sparse.csr_array
    """One row for each tuple of tokens, sites one after the other."""

    starts: Ints
    """Where each site's rows start, and their number."""


class SharedWeightRule(NamedTuple):
    """A log-linear rule whose weights, (S, J), all labels share."""

    smoothing: tuple[float, ...]
    weights: Floats


@dataclass(frozen=True, eq=False)
class Entries:
    """The entries of rows, one row after the other.

    Parameters
    ----------
    lengths : ndarray of int64, shape (r,)
        How many entries each row has; of contexts, the rows of the first one come first, in the
        order of the sites.
    columns : ndarray of int64, shape (n,)
        The label of each entry.
    counts : ndarray of int64, shape (n,)
    """

    lengths: Ints
    columns: Ints
    counts: Ints

    def in_columns(self, columns: Ints) -> Entries:
        """Return the entries with other columns for their labels; those with -1 are left out."""
        new_columns = columns[self.columns]
        if not len(new_columns) or new_columns.min() >= 0:
            return Entries(self.lengths, new_columns, self.counts)
        rows = np.repeat(np.arange(len(self.lengths)), self.lengths)
        is_kept = new_columns >= 0
        lengths = np.bincount(rows[is_kept], minlength=len(self.lengths))
        return Entries(lengths, new_columns[is_kept], self.counts[is_kept])


class Rows(Cached):
    """Rows of counts that contexts read.

    Parameters
    ----------
    stored : SignedSum
    labels : Vocabulary
        One column for each.
    """

    def __init__(self, stored: SignedSum, labels: Vocabulary) -> None:
        self.stored = stored
        self.labels = labels

    @abstractmethod
    def read(self, contexts: Contexts) -> Matrix:
        """Return the rows that contexts read as those of a sparse matrix."""

    @abstractmethod
    def has_seen(self, tokens: Vocabulary) -> Bools:
        """Return for each token whether a stored example holds it at a compared position."""

    def entries(self, contexts: Contexts) -> Entries:
        """Return the entries of the rows that each site of each context reads."""
        matrix = self.read(contexts)
        flat = matrix.rows.ravel()
        lengths = np.append(np.diff(matrix.counts.indptr), 0)[flat]  # -1 reads the last entry
        read = matrix.counts[flat[flat >= 0]]
        return Entries(
            lengths.astype(np.int64), read.indices.astype(np.int64), read.data.astype(np.int64)
        )

    def site_counts(self, contexts: Contexts) -> Floats:
        """Return the row of counts that each site of each context reads, else zeros: (m, S, L)."""
        rows, counts, _ = self.read(contexts)
        read = np.zeros((*rows.shape, len(self.labels)))
        read[rows >= 0] = counts[rows[rows >= 0]].toarray()
        return read

    def scores(self, contexts: Contexts, weights: Floats) -> Floats:
        """Return the weighted sum over sites of the counts, added in the order of the sites."""
        rows, counts, _ = self.read(contexts)
        scores: Floats = (make_sparse_rows(rows, weights, counts.shape[0]) @ counts).toarray()
        return scores

    def leaders(self, *_: Any, **__: Any) -> Ints | None:
        """Return the columns of the k best weighted sums over a divisor, (m, k).

        None says that all scores are as fast.
        """
        return None

    def single(self, *_: Any, **__: Any) -> Callable[[Sequence[Any]], int] | None:
        """Return a fast way from one context to the column of the best weighted sum, or None."""
        return None

    @property
    def whole(self) -> TableRows | None:
        """The rows of the whole table, in memory; None where it lies in files."""
        return None

    def for_rules(self) -> Rows:
        """Return the rows that a rule is applied to."""
        return self

    def table_of(self, contexts: Contexts) -> CountTable | None:  # noqa: ARG002
        """Return the table of the rows that contexts read; None where all rows are in memory."""
        return None

    def live_table(self) -> Live | None:
        """Return the live table with these rows, made if need be; None where there can be none."""
        return None

    def leaders_by_rule(self, *_: Any, **__: Any) -> tuple[Ints, Bools] | None:
        """Return the columns of the k best labels by a rule, (m, k), and which are sure."""
        return None

    def single_by_rule(self, *_: Any, **__: Any) -> Callable[[Sequence[Any]], int] | None:
        """Return a fast way from one context to the column of the best label by a rule, or None."""
        return None


class AllRows(NamedTuple):
    """A table with all its rows as a sparse matrix, and where each site's rows start."""

    table: CountTable
    counts: sparse.csr_array
    starts: Ints


class TableRows(Rows):
    """The rows of a count table, one for each tuple of tokens at each site.

    A table in memory becomes one float64 matrix, made once. With `by_batch`, the rows that a batch
    of queries reads make a small matrix, with the same scores: for tables that are mapped from a
    file, or read seldom.
    """

    def __init__(self, stored: SignedSum, labels: Vocabulary, *, by_batch: bool) -> None:
        super().__init__(stored, labels)
        self._by_batch = by_batch

    @property
    def whole(self) -> TableRows | None:
        """These rows, unless they are read by the batch."""
        return None if self._by_batch else self

    def all_rows(self) -> AllRows:
        """Return the table with all its rows as a sparse matrix."""
        return AllRows(self._table, self._matrix, self._starts)

    @property
    def n_rows(self) -> int:
        """How many rows the table has, of all sites together."""
        return sum(map(len, self._table.tuples))

    @cached_property
    def _table(self) -> CountTable:
        return self.stored.total

    @property
    def _starts(self) -> Ints:
        """Where each site's rows start, and their number."""
        return np.cumsum([0, *map(len, self._table.tuples)])

    @cached_property
    def _matrix(self) -> sparse.csr_array:
        """All rows, with a column for each label."""
        return self._table.matrix(self.labels)

    @cached_property
    def _columns(self) -> Ints:
        """Where the labels of the table are among `labels`."""
        return self.labels.find(self._table.label_counts.labels)

    def read(self, contexts: Contexts) -> Matrix:
        """Return the rows that contexts read as those of a sparse matrix."""
        table = self._table
        rows = find_sites(contexts.ranks_in(table.vocabulary), table.sites, table.tuples)
        if not self._by_batch:
            return Matrix(rows, self._matrix, self._starts)
        # -1 is added, and comes first: its rank is 0 whether or not there is a site without a row
        touched, ranks = np.unique(np.append(rows, -1), return_inverse=True)
        touched = touched[1:]
        counts = table.rows_matrix(touched, self._columns, len(self.labels))
        starts = np.searchsorted(touched, self._starts)
        return Matrix(ranks[:-1].reshape(rows.shape) - 1, counts, starts)

    def has_seen(self, tokens: Vocabulary) -> Bools:
        """Return for each token whether a stored example holds it: those of the vocabulary."""
        return np.asarray(self._table.vocabulary.find(tokens) >= 0)


def apply_rule(
    rule: RowRule, counts: sparse.csr_array, starts: Ints
) -> tuple[sparse.csr_array, Floats]:
    """Return the gains of a rule, as sparse as the counts, and the losses of each row.

    A site's rows follow its start.

    Shapes
    ------
    counts : (r, L); starts : (S + 1,); returned : (r, L), (r, J)
    """
    gains = counts.copy()
    for site, (first, last) in enumerate(pairwise(counts.indptr[starts])):
        gains.data[first:last] = rule.gains(
            site, counts.data[first:last], counts.indices[first:last]
        )
    return gains, rule.losses(np.asarray(counts.sum(axis=1)))
