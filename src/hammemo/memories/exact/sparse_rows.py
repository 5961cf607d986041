"""What all readers of exact counts share, and the rows of a count table as a sparse matrix."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Protocol, cast

import numpy as np

from hammemo._versions import Cached
from hammemo.kernels.free_sites import ONE_TOKEN, tabled
from hammemo.kernels.sites import find_sites, rows_of_columns
from hammemo.memories.contributions import SiteScores
from hammemo.memories.exact.table import CountTable
from hammemo.memories.label_counts import Frame, LabelCounts
from hammemo.memories.reader import Compiled
from hammemo.memories.row_rules import RowRanker

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray
    from scipy import sparse

    from hammemo._arrays.checked import StoredArrays
    from hammemo.kernels.sites import Sites
    from hammemo.memories.row_rules import RowRule
    from hammemo.tokens.contexts import Contexts
    from hammemo.tokens.vocabulary import Vocabulary


class ExactReader(Compiled):
    """What every reader of exact counts has: contributions that are known, and so are their bounds."""

    has_bounds = True
    has_rows = True
    is_exact = True

    def site_scores(self, contexts: Contexts, weights: NDArray[np.float64], columns: NDArray[np.int64]) -> SiteScores:
        """Return what each site adds to the scores of the labels in these columns: weighted counts."""
        return SiteScores.exact(weights[:, None] * self.site_counts(contexts)[:, :, columns])

    def bounds(
        self, contexts: Contexts, weights: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return what the exact weighted counts are at least, and at most: here, the counts themselves."""
        scores = self.scores(contexts, weights)
        return scores, scores


class ReadRows(Protocol):
    """Rows of counts that contexts read."""

    on_disk: bool
    """Whether the matrix is made for each batch, of the rows that it reads."""

    def read(self, contexts: Contexts) -> tuple[NDArray[np.int64], sparse.csr_array, NDArray[np.int64]]:
        """Return which row each site of each context reads, -1 for none, the matrix, and where each site's rows start.

        Shapes
        ------
        returned : (m, S), (rows, L), (S + 1,)
        """
        ...

    def site_counts(self, contexts: Contexts) -> NDArray[np.float64]:
        """Return the row of counts that each site of each context reads, zeros where it reads none: (m, S, L)."""
        ...

    def entries(self, contexts: Contexts) -> Entries:
        """Return the entries of the rows that each site of each context reads."""
        ...


@dataclass(frozen=True, eq=False)
class Entries:
    """The entries of rows, one row after the other.

    Parameters
    ----------
    lengths : ndarray of int64, shape (r,)
        How many entries each row has; of contexts, the rows of the first one come first, in the order of the sites.
    columns : ndarray of int64, shape (n,)
        The label of each entry.
    counts : ndarray of int64, shape (n,)
    """

    lengths: NDArray[np.int64]
    columns: NDArray[np.int64]
    counts: NDArray[np.int64]

    def in_columns(self, columns: NDArray[np.int64]) -> Entries:
        """Return the entries with other columns for their labels; those with -1 are left out."""
        found = columns[self.columns]
        if not len(found) or found.min() >= 0:
            return Entries(self.lengths, found, self.counts)
        rows = np.repeat(np.arange(len(self.lengths)), self.lengths)
        held = found >= 0
        return Entries(np.bincount(rows[held], minlength=len(self.lengths)), found[held], self.counts[held])


class RowsReader(ExactReader):
    """A reader of rows as sparse matrices: scores, rows, and rules that are applied to them."""

    free: tuple[RowsReader, ...] = ()
    """The readers of the tables of sites without a position."""

    entry_times: NDArray[np.int64] | None = None
    """Of a reader of some rows of a table: how many entries of each site have the counts 0 to 4, and more, in all rows.

    Shapes: (S, 6)."""

    _static_tables: Any = None  # a cache of whoever reads single entries
    _mixture: Any = None  # a cache of whoever mixes rows

    @property
    @abstractmethod
    def table(self) -> CountTable:
        """The canonical table."""

    def stored(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Return what `restored` needs: the tables in their narrow canonical form, and no description."""
        arrays = self.table.arrays_for(self.labels)
        for k, reader in enumerate(self.free):
            own = {**reader.frame.arrays(), **reader.stored()[0]}
            arrays |= {f"free.{k}.{name}": array for name, array in own.items()}
        return arrays, {}

    _ranker: tuple[bytes, SparseRanker] | None = None

    @property
    @abstractmethod
    def rows(self) -> ReadRows:
        """The rows that contexts read."""

    @abstractmethod
    def make_ranker(self, rule: RowRule) -> SparseRanker:
        """Return what applies a rule to the rows."""

    def scores(self, contexts: Contexts, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the weighted sum over sites of the counts, added in the order of the sites."""
        rows, counts, _ = self.rows.read(contexts)
        scores: NDArray[np.float64] = (rows_of_columns(rows, weights, counts.shape[0]) @ counts).toarray()
        return scores

    def site_counts(self, contexts: Contexts) -> NDArray[np.float64]:
        """Return the row of counts that each site of each context reads, zeros where it reads none: (m, S, L)."""
        return self.rows.site_counts(contexts)

    def with_rule(self, rule: RowRule) -> SparseRanker:
        """Return what ranks labels by this rule; made once for the rule that was asked for last."""
        made = self._ranker
        if made is None or made[0] != rule.signature:
            made = self._ranker = (rule.signature, self.make_ranker(rule))
        return made[1]


class VersionReader(RowsReader):
    """A reader of one version of a table: made anew after every edit, so counts wait until somebody needs them."""

    @property
    @abstractmethod
    def observed(self) -> LabelCounts:
        """The labels that have examples, and how many."""

    @property
    def row_width(self) -> int:  # type: ignore[override]
        """How many numbers one query needs where all scores are made."""
        return len(self.labels)

    @cached_property
    def label_counts(self) -> NDArray[np.int64]:  # type: ignore[override]
        """How many examples each label has."""
        return self.observed.counts_for(self.labels)

    @property
    def frame(self) -> Frame:  # type: ignore[override]
        """The sites, the labels and their counts."""
        return Frame(self.sites, self.labels, self.label_counts)


class MatrixRows(Cached):
    """Rows that are read as a sparse matrix: their entries, and all their counts."""

    labels: Vocabulary

    @abstractmethod
    def read(self, contexts: Contexts) -> tuple[NDArray[np.int64], sparse.csr_array, NDArray[np.int64]]:
        """Return the row of a matrix that each site of each context reads, -1 for none; the matrix; sites' starts."""

    def entries(self, contexts: Contexts) -> Entries:
        """Return the entries of the rows that each site of each context reads."""
        rows, matrix, _ = self.read(contexts)
        flat = rows.ravel()
        lengths = np.append(np.diff(matrix.indptr), 0)[flat]  # -1 reads the last entry
        read = matrix[flat[flat >= 0]]
        return Entries(lengths.astype(np.int64), read.indices.astype(np.int64), read.data.astype(np.int64))

    def site_counts(self, contexts: Contexts) -> NDArray[np.float64]:
        """Return the row of counts that each site of each context reads, zeros where it reads none: (m, S, L)."""
        rows, counts, _ = self.read(contexts)
        read = np.zeros((*rows.shape, len(self.labels)))
        read[rows >= 0] = counts[rows[rows >= 0]].toarray()
        return read


class SparseRows(MatrixRows):
    """The rows of a count table as a compressed sparse matrix, one for each tuple of tokens at each site.

    A table in memory becomes one float64 matrix, made once. A table `on_disk` (memory-mapped arrays) stays there: the
    rows that a batch of queries touches are read and make a small matrix, with the same scores.
    """

    def __init__(self, table: Callable[[], CountTable], labels: Vocabulary, *, on_disk: bool) -> None:
        self._make_table = table
        self.labels = labels
        self.on_disk = on_disk

    @cached_property
    def table(self) -> CountTable:
        """The counts, added up when they are first read."""
        return self._make_table()

    @cached_property
    def matrix(self) -> sparse.csr_array:
        """All rows, with a column for each label."""
        return self.table.matrix(self.labels)

    @cached_property
    def _columns(self) -> NDArray[np.int64]:
        return self.labels.find(self.table.label_counts.labels)

    def read(self, contexts: Contexts) -> tuple[NDArray[np.int64], sparse.csr_array, NDArray[np.int64]]:
        """Return which row each site of each context reads, -1 for none, the matrix, and where each site's rows start.

        Shapes
        ------
        returned : (m, S), (rows, L), (S + 1,)
        """
        rows = find_sites(contexts.ranks_in(self.table.vocabulary), self.table.sites, self.table.tuples)
        starts = np.cumsum([0, *map(len, self.table.tuples)])
        if not self.on_disk:
            return rows, self.matrix, starts
        touched, ranks = np.unique(np.append(rows, -1), return_inverse=True)  # -1 comes first, so its rank is 0
        counts = self.table.rows_matrix(touched[1:], self._columns, len(self.labels))
        return ranks[:-1].reshape(rows.shape) - 1, counts, np.searchsorted(touched[1:], starts)


class SparseRanker(RowRanker):
    """A rule applied to the entries of the table: sparse gains, and one loss a row and amount of smoothing.

    In memory it is applied once to all entries; on disk, to those that each batch of queries touches.
    """

    def __init__(self, rows: ReadRows, rule: RowRule) -> None:
        super().__init__(rows.site_counts, rule)
        self.row_width = self.n_labels  # of a query only its scores are dense
        self._rows = rows
        self._kept: tuple[sparse.csr_array, NDArray[np.float64]] | None = None

    def scores(self, contexts: Contexts) -> NDArray[np.float64]:
        """Return the rule's score of each context and label."""
        rows, counts, starts = self._rows.read(contexts)
        made = self._kept or applied(self._rule, counts, starts)
        if not self._rows.on_disk:
            self._kept = made  # one assignment: whoever makes it, it is the same
        gains, losses = made
        scores = (rows_of_columns(rows, np.ones(rows.shape[1]), gains.shape[0]) @ gains).toarray()
        if len(losses):
            scores -= self._lost(rows, losses)
        return np.asarray(scores + self._rule.base)

    def _lost(self, rows: NDArray[np.int64], losses: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the weighted losses of each context, one number where all labels have the same weights.

        They are added one by one, in the order of the sites, for every label alike. A product of dense matrices would
        add in an order of its own, other for some columns and sizes: it would break ties, and no other runtime could
        repeat it.

        Shapes
        ------
        rows : (m, S); losses : (r, J); returned : (m, L) or (m, 1)
        """
        lost = np.where((rows >= 0)[:, :, None], losses[rows], 0.0)
        terms = lost.shape[1] * lost.shape[2]
        places = np.broadcast_to(np.arange(terms), (len(rows), terms))
        ordered = rows_of_columns(places, np.ones(terms), terms)
        ordered.data = lost.ravel()
        return np.asarray(ordered @ self._rule.distinct_weights.reshape(terms, -1))


def applied(
    rule: RowRule, counts: sparse.csr_array, starts: NDArray[np.int64]
) -> tuple[sparse.csr_array, NDArray[np.float64]]:
    """Return the gains of a rule, as sparse as the counts, and the losses of each row; a site's rows follow its start.

    Shapes
    ------
    counts : (r, L); starts : (S + 1,); returned : (r, L), (r, J)
    """
    gains = counts.copy()
    for site, (first, last) in enumerate(pairwise(counts.indptr[starts])):
        gains.data[first:last] = rule.gains(site, counts.data[first:last], counts.indices[first:last])
    return gains, rule.losses(np.asarray(counts.sum(axis=1)))


def restored_table(frame: Frame, stored: StoredArrays, description: dict[str, Any]) -> CountTable:
    """Return the table that a file holds for a frame, checked."""
    expect_no_description(description)
    return CountTable.from_arrays(frame.sites, LabelCounts(frame.labels, frame.label_counts), stored)


def restored_free(cls: type[RowsReader], sites: Sites, stored: StoredArrays) -> tuple[RowsReader, ...]:
    """Return the readers of the sites without a position that a file holds, checked."""
    readers = []
    for k in range(len(tabled(sites))):
        part = stored.part(f"free.{k}")
        readers.append(cast("RowsReader", cls.restored(free_frame(part), part, {})))
    return tuple(readers)


def free_frame(stored: StoredArrays) -> Frame:
    """Return the labels of the table of a site without a position, checked: they are its own, and none is declared."""
    frame = Frame.from_arrays(ONE_TOKEN, stored)
    if not frame.label_counts.all():
        raise ValueError("a label of a site without a position has no example")
    return frame


def expect_no_description(description: dict[str, Any]) -> None:
    """Refuse a description of what needs none."""
    if description:
        raise ValueError(f"a count table needs no description, but {next(iter(description))!r} is there")
