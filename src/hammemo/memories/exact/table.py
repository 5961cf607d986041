r"""The table of counts N[site, token, label] that determines the exact classifier.

The table is an immutable value in canonical form: the vocabulary holds the tokens that occur, the
rows of a site are the token tuples it held, in lexicographic order, and a row lists its labels in
order with positive counts. Two tables add to the table of both multisets, and subtract as long as
no entry becomes negative; either way the result is again in canonical form, so equal multisets have
equal tables however they were reached.

Rows that trees cut (`table_of_trees`) are counted once a tree, at their leaf. The sites of a forest
are (tree, level), and a cell of a level holds what its leaves hold. So counts at leaves give the
counts of all levels, and no context of cells is made. The table is that of
:meth:`~hammemo.memories.exact.table.CountTable.from_examples` for the contexts of cells.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple, TypeGuard

import numpy as np
from scipy import sparse

from hammemo._arrays.integers import find_sorted, narrow, pieces, ranges, row_pieces, sum_by_key
from hammemo._arrays.tuple_sets import TupleSet
from hammemo._versions import Cached, cached_property
from hammemo.features.cells import Cells, TreeCells
from hammemo.features.cells.forest import LEVELS
from hammemo.memories.errors import NotStoredError, never_stored
from hammemo.memories.exact.segments.entries import SiteRows, add_rows
from hammemo.memories.label_counts import LabelCounts
from hammemo.tokens.contexts import MAX_EXAMPLES, Examples
from hammemo.tokens.vocabulary import Token, Vocabulary

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hammemo._arrays.checked import StoredArrays
    from hammemo._arrays.types import Array, Bools, Ints
    from hammemo.kernels.sites import Sites

_BLOCK: Final = 16
"""Where a row's entries start is kept for every 16th row only; the rest is counted from there."""


class SiteSlice(NamedTuple):
    """The tuples of one site of a table, and where its rows and its entries lie."""

    tuples: TupleSet
    rows: slice
    entries: slice


@dataclass(frozen=True, eq=False)
class CountTable(Cached):
    """Sparse counts of (site, tuple of tokens, label), canonical.

    Parameters
    ----------
    sites : Sites
    label_counts : LabelCounts
        How many examples each label has; not a sum of entries, because an example may have empty
        positions.
    vocabulary : Vocabulary
        The tokens that occur in a row.
    tuples : list of TupleSet, one a site
        The rows of the table: those of the first site, then those of the second, and so on.
    row_lengths : ndarray of shape (rows,)
        How many labels each row has.
    entry_labels, entry_counts : ndarray of shape (entries,)
        Rank and count of each label of each row, in the narrowest width.
    """

    sites: Sites
    label_counts: LabelCounts
    vocabulary: Vocabulary
    tuples: list[TupleSet]
    row_lengths: Array
    entry_labels: Array
    entry_counts: Array

    as_live: ClassVar[None] = None
    """It is not edited row by row."""

    @classmethod
    def empty(cls, sites: Sites) -> CountTable:
        """Return the table of no examples."""
        no_levels = np.empty(0, np.int64)
        no_entries = np.empty(0, np.uint8)
        return cls(
            sites=sites,
            label_counts=LabelCounts(),
            vocabulary=Vocabulary(),
            tuples=[TupleSet(1, (no_levels,) * len(site)) for site in sites.positions],
            row_lengths=no_entries,
            entry_labels=no_entries,
            entry_counts=no_entries,
        )

    @classmethod
    def from_examples(cls, examples: Examples, sites: Sites) -> CountTable:
        """Count a batch of examples."""
        if not len(examples):
            return cls.empty(sites)
        columns = _columns(examples, sites)
        rows = [_count_site(examples, [columns[r] for r in site]) for site in sites.positions]
        label_counts = LabelCounts(examples.labels, examples.label_counts())
        return cls.from_rows(
            sites, label_counts, (examples.contexts.vocabulary, examples.labels), rows
        )

    @classmethod
    def from_arrays(
        cls, sites: Sites, label_counts: LabelCounts, stored: StoredArrays
    ) -> CountTable:
        """Return the table with these arrays, checked: undo `arrays_for`.

        Entries name labels by their rank in `label_counts`. Labels without examples are allowed;
        `without_idle_labels` drops them.
        """
        vocabulary = Vocabulary.from_arrays(stored.part("vocabulary"))
        n = max(len(vocabulary), 1)
        n_labels = len(label_counts.labels)
        tuples = [
            TupleSet.of_levels(
                [stored.ascending(f"rows.{k}.{j}") for j in range(len(site))],
                n,
                trusted=stored.trusted,
            )
            for k, site in enumerate(sites.positions)
        ]
        row_lengths = stored.whole_numbers(
            "row_lengths", (sum(map(len, tuples)),), least=1, below=n_labels + 1
        )
        n_entries = int(row_lengths.sum(dtype=np.uint64))
        entry_labels = stored.whole_numbers("entry_labels", (n_entries,), below=n_labels)
        entry_counts = stored.whole_numbers(
            "entry_counts", (n_entries,), least=1, below=MAX_EXAMPLES
        )
        table = cls(
            sites=sites,
            label_counts=label_counts,
            vocabulary=vocabulary,
            tuples=tuples,
            row_lengths=row_lengths,
            entry_labels=entry_labels,
            entry_counts=entry_counts,
        )
        if not stored.trusted:
            _check_used(table)
            _check_entries(table)
        return table

    def without_idle_labels(self) -> CountTable:
        """Return the table without the labels that have no example: the canonical one."""
        is_used = self.label_counts.counts > 0
        if is_used.all():
            return self
        largest_label = int(self.entry_labels.max(initial=0))
        if largest_label >= len(is_used) and len(self.entry_labels):  # a file that was not verified
            raise ValueError("the array entry_labels names a label that does not exist")
        # no wider than the ranks it replaces: a table may be large
        rank = (np.cumsum(is_used) - 1).astype(self.entry_labels.dtype)
        return replace(
            self,
            label_counts=self.label_counts.positive(),
            entry_labels=narrow(rank[self.entry_labels]),
        )

    def plus(self, other: CountTable, sign: int = 1) -> CountTable:
        """Return the sum with another table or, with sign -1, the difference.

        The difference refuses to go below zero.
        """
        if not other.label_counts.total:
            return self
        if sign > 0 and not self.label_counts.total:
            return other
        label_counts = self.label_counts.plus(other.label_counts, sign)
        labels = self.label_counts.labels.union(other.label_counts.labels)
        vocabulary = self.vocabulary.union(other.vocabulary)
        sites = zip(
            self.sites.positions,
            self._rows_in(vocabulary, labels),
            other._rows_in(vocabulary, labels),
            strict=True,
        )
        rows = [
            add_rows([(1, left), (sign, right)], len(site), len(vocabulary), len(labels))
            for site, left, right in sites
        ]
        if sign < 0:
            plus_empties(self.empties, other.empties, -1)  # refuses to go below zero
        return self.from_rows(self.sites, label_counts, (vocabulary, labels), rows)

    @property
    def total(self) -> CountTable:
        """The table itself: what it is as a term of a sum."""
        return self

    @property
    def n_examples(self) -> int:
        """How many examples were counted."""
        return self.label_counts.total

    @property
    def n_entries(self) -> int:
        """How many entries there are."""
        return len(self.entry_counts)

    def count_of(self, label: Token) -> int:
        """Return how many examples a label has."""
        place = int(self.label_counts.labels.find(Vocabulary.of([label]))[0])
        return int(self.label_counts.counts[place]) if place >= 0 else 0

    def site_slices(self) -> Iterator[SiteSlice]:
        """Yield the tuples of each site, and where its rows and its entries lie."""
        starts = self.row_starts()
        first = 0
        for tuples in self.tuples:
            rows = slice(first, first + len(tuples))
            entries = slice(int(starts[rows.start]), int(starts[rows.stop]))
            yield SiteSlice(tuples, rows, entries)
            first = rows.stop

    def site_rows(self) -> Iterator[SiteRows]:
        """Yield the rows of each site."""
        for tuples, rows, entries in self.site_slices():
            yield SiteRows(
                tuples=tuples.rows(),
                lengths=self.row_lengths[rows].astype(np.int64),
                labels=self.entry_labels[entries].astype(np.int64),
                counts=self.entry_counts[entries].astype(np.int64),
            )

    def _rows_in(self, vocabulary: Vocabulary, labels: Vocabulary) -> Iterator[SiteRows]:
        """Yield the rows of each site, with ranks of tokens and labels among these."""
        token_ranks = vocabulary.find(self.vocabulary)
        label_ranks = labels.find(self.label_counts.labels)
        for rows in self.site_rows():
            yield rows.with_ranks(token_ranks, label_ranks)

    @cached_property
    def empties(self) -> tuple[LabelCounts, ...]:
        """How many examples of each label hold no token at each site.

        No row counts these, but together with the rows they make up the label's examples at every
        site.
        """
        labels = self.label_counts.labels
        counts = self.label_counts.counts
        empties = []
        for _, _, entries in self.site_slices():
            in_rows = np.bincount(
                self.entry_labels[entries], self.entry_counts[entries], len(counts)
            )
            rest = LabelCounts(labels, counts - in_rows.astype(np.int64))
            empties.append(rest.positive() if rest.counts.any() else LabelCounts())
        return tuple(empties)

    def counts_at(self, other: CountTable) -> Ints:
        """Return the count here of each entry of another table.

        Shapes
        ------
        returned : one number for each of ``other.entry_counts``
        """
        tokens = self.vocabulary.find(other.vocabulary)
        first = 0
        rows = []  # the row here of each row of the other table, -1 for none
        for tuples, other_tuples in zip(self.tuples, other.tuples, strict=True):
            places = tuples.find(tokens[other_tuples.rows()])
            rows.append(np.where(places >= 0, places + first, -1))
            first += len(tuples)
        n_labels = max(len(self.label_counts.labels), 1)
        entry_rows = np.concatenate(rows)[other.entry_rows()]
        entry_labels = self.label_counts.labels.find(other.label_counts.labels)[other.entry_labels]
        keys = np.where(
            (entry_rows >= 0) & (entry_labels >= 0), entry_rows * n_labels + entry_labels, -1
        )
        entries = find_sorted(self._entry_keys, keys)
        counts = np.zeros(len(keys), np.int64)
        counts[entries >= 0] = self.entry_counts[entries[entries >= 0]]
        return counts

    @cached_property
    def _entry_keys(self) -> Ints:
        """``row * len(labels) + label`` of each entry, ascending."""
        return np.asarray(
            self.entry_rows() * max(len(self.label_counts.labels), 1) + self.entry_labels, np.int64
        )

    def matrices(self, labels: Vocabulary) -> list[sparse.csr_array]:
        """Return the counts of each site as sparse float64 matrices with a column for each label.

        Shapes
        ------
        returned, for site k : (len(tuples[k]), len(labels))
        """
        matrix = self.matrix(labels)
        bounds = np.cumsum([0, *map(len, self.tuples)])
        return [matrix[first:last] for first, last in pairwise(bounds)]

    def matrix(self, labels: Vocabulary) -> sparse.csr_array:
        """Return the counts of all sites, one below the other, as a sparse float64 matrix.

        It has one column for each of `labels`.
        """
        columns = labels.find(self.label_counts.labels)
        return sparse.csr_array(
            (self.entry_counts.astype(np.float64), columns[self.entry_labels], self.row_starts()),
            shape=(len(self.row_lengths), len(labels)),
        )

    def rows_matrix(self, rows: Ints, columns: Ints, width: int) -> sparse.csr_array:
        """Return the counts of some rows, without reading others; labels go to `columns`.

        Shapes
        ------
        rows : (r,); columns : (number of labels,), below width; returned : (r, width)
        """
        lengths = self.row_lengths[rows].astype(np.int64)
        starts = np.concatenate([[0], np.cumsum(lengths)])
        entries = ranges(self._first_entries(rows), lengths)
        ranks = self.entry_labels[entries]
        if len(ranks) and int(ranks.max()) >= len(columns):  # a file that was not verified
            raise ValueError(
                "The count table names a label that does not exist. Load the file with verify=True."
            )
        return sparse.csr_array(
            (self.entry_counts[entries].astype(np.float64), columns[ranks], starts),
            shape=(len(rows), width),
        )

    def _first_entries(self, rows: Ints) -> Ints:
        """Return where the entries of these rows start."""
        first = self._block_starts[rows // _BLOCK]
        for piece in pieces(len(rows), 2**14):
            row = rows[piece, None]
            in_block = row // _BLOCK * _BLOCK + np.arange(_BLOCK)
            lengths = self.row_lengths[np.minimum(in_block, row)]  # later rows may not exist
            first[piece] += np.where(in_block < row, lengths, 0).sum(axis=1, dtype=np.int64)
        return first

    @cached_property
    def _block_starts(self) -> Ints:
        """Where the entries of every 16th row start."""
        sums = [np.empty(0, np.int64)]
        for piece in pieces(len(self.row_lengths), _BLOCK * 2**10):
            lengths = self.row_lengths[piece].astype(np.int64)
            sums.append(np.add.reduceat(lengths, np.arange(0, len(lengths), _BLOCK)))
        blocks = np.concatenate(sums)
        return np.cumsum(blocks) - blocks

    def entry_rows(self) -> Ints:
        """Return the row of each entry."""
        return np.repeat(np.arange(len(self.row_lengths)), self.row_lengths)

    def row_starts(self) -> Ints:
        """Return where each row's entries start and, at the end, their number."""
        return np.concatenate([[0], np.cumsum(self.row_lengths, dtype=np.int64)])

    def arrays_for(self, labels: Vocabulary) -> dict[str, Array]:
        """Return the canonical arrays, with entries that name labels by their rank in `labels`."""
        columns = labels.find(self.label_counts.labels)  # labels without examples shift the others
        levels = {
            f"rows.{k}.{j}": narrow(level)
            for k, tuples in enumerate(self.tuples)
            for j, level in enumerate(tuples.levels)
        }
        return {
            **{f"vocabulary.{name}": array for name, array in self.vocabulary.arrays().items()},
            **levels,
            "row_lengths": self.row_lengths,
            "entry_labels": narrow(columns[self.entry_labels]),
            "entry_counts": self.entry_counts,
        }

    @classmethod
    def from_rows(
        cls,
        sites: Sites,
        label_counts: LabelCounts,
        names: tuple[Vocabulary, Vocabulary],
        rows: Sequence[SiteRows],
    ) -> CountTable:
        """Return the canonical table of these rows of each site.

        The names (tokens, labels) may be more than occur; what no row uses is dropped. That keeps
        the order of all that stays, so nothing is sorted again.
        """
        vocabulary, labels = names
        is_used = np.zeros(len(vocabulary), bool)
        for site in rows:
            is_used[site.tuples] = True
        rank = np.cumsum(is_used) - 1
        n = max(int(is_used.sum()), 1)
        entry_labels = np.concatenate([site.labels for site in rows])
        return cls(
            sites=sites,
            label_counts=label_counts,
            vocabulary=vocabulary.keep(is_used),
            tuples=[TupleSet.of_sorted(rank[site.tuples], n) for site in rows],
            row_lengths=narrow(np.concatenate([site.lengths for site in rows])),
            entry_labels=narrow(label_counts.labels.find(labels)[entry_labels]),
            entry_counts=narrow(np.concatenate([site.counts for site in rows])),
        )


def _columns(examples: Examples, sites: Sites) -> dict[int, Array]:
    """Return the ranks at each position that a site reads, position by position."""
    ranks = examples.contexts.ranks
    positions = sorted({r for site in sites.positions for r in site})
    reads_all = len(positions) == ranks.shape[1]
    width = np.int32 if len(examples.contexts.vocabulary) < 2**31 else np.int64
    columns = np.empty((len(positions), len(ranks)), width)
    for piece in pieces(len(ranks), 2**11):  # few rows at a time stay in the cache
        rows = ranks[piece]
        columns[:, piece] = rows.T if reads_all else rows[:, positions].T
    return dict(zip(positions, columns, strict=True))


def _count_site(examples: Examples, columns: list[Array]) -> SiteRows:
    """Return the rows of a site, counted, given its columns.

    A tuple and its label are one number, position by position, while that fits in 63 bits: then
    only distinct numbers are looked at one by one. Longer tuples have their beginnings replaced by
    ranks.
    """
    n = max(len(examples.contexts.vocabulary), 1)
    n_labels = max(len(examples.labels), 1)
    length = len(columns)
    labels = examples.label_ranks
    multiplicity = examples.multiplicity
    if any(int(column.min(initial=0)) < 0 for column in columns):  # a position without a token
        is_whole = np.logical_and.reduce([column >= 0 for column in columns])
        columns = [column[is_whole] for column in columns]
        labels = labels[is_whole]
        multiplicity = multiplicity[is_whole]
    if n**length * n_labels >= 2**63:
        tuple_set, index = TupleSet.collect(np.stack(columns, axis=1).astype(np.int64), n)
        n_keys = len(tuple_set) * n_labels
        keys, counts = sum_by_key(index * n_labels + labels, multiplicity, n_keys)
        return SiteRows.from_keys(tuple_set, keys, counts, n_labels)
    # one number for each tuple and its label: ((r1 n + r2) n + ...) n_labels + label
    keys = columns[0].astype(np.int64)
    for column in columns[1:]:
        keys *= n
        keys += column
    keys *= n_labels
    keys += labels
    keys, counts = sum_by_key(keys, multiplicity, int(keys.max(initial=-1)) + 1)
    # and back, for distinct ones only
    codes, entry_labels = np.divmod(keys, n_labels)
    firsts = np.flatnonzero(np.diff(codes, prepend=-1))
    codes = codes[firsts]
    tuples = np.empty((len(codes), length), np.int64)
    for j in reversed(range(length)):
        codes, tuples[:, j] = np.divmod(codes, n)
    return SiteRows(tuples, np.diff(firsts, append=len(keys)), entry_labels, counts)


def plus_empties(
    empties: Sequence[LabelCounts], others: Sequence[LabelCounts], sign: int
) -> tuple[LabelCounts, ...]:
    """Return how many examples of a sum hold no token at each site, or refuse to go below zero."""
    try:
        return tuple(
            counts.plus(other, sign) if other.total else counts
            for counts, other in zip(empties, others, strict=True)
        )
    except NotStoredError:
        raise never_stored() from None


def count_rows(tuples: TupleSet, index: Ints, examples: Examples) -> SiteRows:
    """Return the counts of one site.

    Parameters
    ----------
    tuples : TupleSet
    index : ndarray of int64
        The place of each example's tuple among them, -1 for one without a token at the site.
    examples : Examples
    """
    has_tuple = index >= 0
    n_labels = len(examples.labels)
    keys = index[has_tuple] * n_labels + examples.label_ranks[has_tuple]
    keys, counts = sum_by_key(keys, examples.multiplicity[has_tuple], len(tuples) * n_labels)
    return SiteRows.from_keys(tuples, keys, counts, n_labels)


def _check_used(table: CountTable) -> None:
    """Refuse a table whose vocabulary holds tokens that no row has."""
    is_used = np.zeros(len(table.vocabulary), bool)
    for tuples in table.tuples:
        for level in tuples.levels:
            for piece in pieces(len(level)):
                is_used[level[piece].astype(np.int64) % max(len(is_used), 1)] = True
    if not is_used.all():
        raise ValueError("the vocabulary of the count table holds tokens that no row has")


def _check_entries(table: CountTable) -> None:
    """Refuse rows whose labels are out of order, and sites that count too many examples.

    Arrays are gone through in pieces: they may lie in a file, and be larger than the memory.
    """
    starts_row, bounds = _find_starts(table)
    for piece in pieces(len(starts_row) - 1):
        before = slice(piece.start, piece.stop)
        after = slice(piece.start + 1, piece.stop + 1)
        ascends = table.entry_labels[after] > table.entry_labels[before]
        if not (ascends | starts_row[after]).all():
            raise ValueError("a row of the count table does not list its labels in ascending order")
    n_labels = len(table.label_counts.labels)
    for start, stop in pairwise(bounds):
        totals = np.zeros(n_labels)
        for piece in pieces(stop - start):
            entries = slice(start + piece.start, start + piece.stop)
            totals += np.bincount(
                table.entry_labels[entries], table.entry_counts[entries], n_labels
            )
        if (totals > table.label_counts.counts).any():
            raise ValueError("a site counts more examples of a label than the label has")


def _find_starts(table: CountTable) -> tuple[Bools, list[int]]:
    """Return whether each entry is the first of a row, and where the entries of the sites end.

    The second list begins with 0.
    """
    starts_row = np.zeros(len(table.entry_labels), bool)
    first = 0
    bounds = [0]
    last_rows = np.cumsum([len(tuples) for tuples in table.tuples])
    for site_lengths in np.split(table.row_lengths, last_rows[:-1]):
        for piece in pieces(len(site_lengths)):
            ends = first + np.cumsum(site_lengths[piece], dtype=np.int64)
            starts_row[ends - site_lengths[piece]] = True
            first = int(ends[-1])
        bounds.append(first)
    return starts_row, bounds


def holds_trees(cells: Cells, sites: Sites) -> TypeGuard[TreeCells]:
    """Return whether sites are those that an automatic kernel makes of names and trees."""
    if not isinstance(cells, TreeCells) or sites.free:
        return False
    return sites.positions == tuple(cells.sites())


def table_of_trees(
    cells: TreeCells, examples: Examples, sites: Sites, tree_counts: Ints | None = None
) -> CountTable:
    """Return the table of the cells of rows, whose sites are names and trees.

    `tree_counts` are the counts of the cells of all trees, (cells, L), where they are known.
    """
    if not len(examples):
        return CountTable.empty(sites)
    if tree_counts is None:
        tree_counts = _count_tree_cells(cells, examples)
    tree_counts = tree_counts[:, np.unique(examples.label_ranks)]
    examples = examples.with_used_labels()
    contexts = examples.contexts
    n_labels = len(examples.labels)
    # the vocabulary: the names that rows hold, and the numbers that are the tokens of cells
    is_used = np.zeros(len(contexts.vocabulary) + 1, bool)  # rank -1 marks the last entry
    is_used[contexts.ranks[:, cells.names]] = True
    names = contexts.vocabulary.keep(is_used[:-1])
    numbers = Vocabulary(np.arange(int(cells.forest.cell_sizes.max())))
    vocabulary = names.union(numbers)
    ranks = np.full(len(is_used), -1)
    ranks[:-1][is_used[:-1]] = vocabulary.find(names)
    # the rows of names, and those of cells
    rows = []
    for site in cells.name_sites:
        tuples, index = TupleSet.collect(ranks[contexts.ranks[:, list(site)]], len(vocabulary))
        rows.append(count_rows(tuples, index, examples))
    cell_tokens = vocabulary.find(numbers)
    for counts in _iterate_site_counts(cells, tree_counts):
        tuples = TupleSet(len(vocabulary), (cell_tokens[: len(counts)],))
        keys = np.flatnonzero(counts)
        rows.append(SiteRows.from_keys(tuples, keys, counts.ravel()[keys], n_labels))
    label_counts = LabelCounts(examples.labels, examples.label_counts())
    return CountTable.from_rows(sites, label_counts, (vocabulary, examples.labels), rows)


def _count_tree_cells(cells: TreeCells, examples: Examples) -> Ints:
    """Return the counts of the cells of all trees, as `Forest.counts` orders them: (cells, L)."""
    forest = cells.forest
    n_labels = len(examples.labels)
    counts = np.zeros((int(forest.cell_sizes.sum()), n_labels), np.int64)
    for piece in row_pieces(len(examples), forest.n_trees):
        leaves = cells.leaves(examples.contexts[piece])
        counts += forest.counts(
            leaves, examples.label_ranks[piece], examples.multiplicity[piece], n_labels
        )
    return counts


def _iterate_site_counts(cells: TreeCells, tree_counts: Ints) -> Iterator[Ints]:
    """Yield the counts of each site, tree by tree and then level by level: (cells, L)."""
    sizes = cells.forest.cell_sizes
    ends = np.cumsum(sizes.ravel()).reshape(sizes.shape)
    for tree in range(cells.forest.n_trees):
        for level in range(len(LEVELS)):
            end = ends[level, tree]
            yield tree_counts[end - sizes[level, tree] : end]
