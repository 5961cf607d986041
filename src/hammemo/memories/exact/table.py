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
    from hammemo.tokens.contexts import Contexts

_BLOCK: Final = 16
"""Where a row's entries start is kept for one row of so many; the others are counted from there."""


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
        return cls.from_rows(
            sites,
            LabelCounts(examples.labels, examples.label_counts()),
            [_count_site(examples, [columns[r] for r in site]) for site in sites.positions],
            vocabulary=examples.contexts.vocabulary,
            labels=examples.labels,
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
        """Return the table without the labels that have no example: the canonical one.

        No entry names such a label, so only the ranks of the others change.
        """
        has_examples = self.label_counts.counts > 0
        if has_examples.all():
            return self
        # The entries of a file that is read without verification were not checked.
        if int(self.entry_labels.max(initial=0)) >= len(has_examples):
            raise ValueError("the array entry_labels names a label that does not exist")
        new_ranks = np.cumsum(has_examples) - 1
        # There may be many entries: gather them no wider than they are.
        new_ranks = new_ranks.astype(self.entry_labels.dtype)
        return replace(
            self,
            label_counts=self.label_counts.positive(),
            entry_labels=narrow(new_ranks[self.entry_labels]),
        )

    def plus(self, other: CountTable, sign: int = 1) -> CountTable:
        """Return the sum with another table or, with sign -1, the difference.

        `NotStoredError` where the other table holds more of something than this one.
        """
        if not other.n_examples:
            return self
        if sign > 0 and not self.n_examples:
            return other
        label_counts = self.label_counts.plus(other.label_counts, sign)
        # Rows can be added once both name tokens and labels by the same ranks.
        vocabulary = self.vocabulary.union(other.vocabulary)
        labels = self.label_counts.labels.union(other.label_counts.labels)
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
            # Only for its refusal: examples without a token at a site are in no row of it.
            plus_empties(self.empties, other.empties, -1)
        return self.from_rows(self.sites, label_counts, rows, vocabulary=vocabulary, labels=labels)

    @property
    def total(self) -> CountTable:
        """The table itself.

        The terms of a `SignedSum` are such tables and live ones (`Live`); both have a `total`.
        """
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
        """For each site, how many examples of each label lack a token at one of its positions.

        They are in no row of the site. So these counts and the rows of a site add up to
        `label_counts`.
        """
        labels = self.label_counts.labels
        counts = self.label_counts.counts
        empties = []
        for site in self.site_slices():
            counts_in_rows = np.bincount(
                self.entry_labels[site.entries], self.entry_counts[site.entries], len(counts)
            )
            missing = LabelCounts(labels, counts - counts_in_rows.astype(np.int64))
            empties.append(missing.positive() if missing.counts.any() else LabelCounts())
        return tuple(empties)

    def counts_at(self, other: CountTable) -> Ints:
        """Return what this table counts for each entry of another one: 0 where it has none.

        Shapes
        ------
        returned : one number for each of ``other.entry_counts``
        """
        rows = self._find_rows(other)[other.entry_rows()]
        labels = self.label_counts.labels.find(other.label_counts.labels)[other.entry_labels]
        keys = np.where((rows >= 0) & (labels >= 0), self._encode_entries(rows, labels), -1)
        entries = find_sorted(self._entry_keys, keys)
        has_entry = entries >= 0
        counts = np.zeros(len(keys), np.int64)
        counts[has_entry] = self.entry_counts[entries[has_entry]]
        return counts

    def _find_rows(self, other: CountTable) -> Ints:
        """Return the row of this table for each row of another one, -1 where it has none."""
        token_ranks = self.vocabulary.find(other.vocabulary)
        first_row = 0
        rows = []
        for tuples, other_tuples in zip(self.tuples, other.tuples, strict=True):
            places = tuples.find(token_ranks[other_tuples.rows()])
            rows.append(np.where(places >= 0, places + first_row, -1))
            first_row += len(tuples)
        return np.concatenate(rows)

    @cached_property
    def _entry_keys(self) -> Ints:
        """The number of each entry, ascending."""
        return self._encode_entries(self.entry_rows(), self.entry_labels)

    def _encode_entries(self, rows: Ints, labels: Ints) -> Ints:
        """Return a row and a label as one number, ``row * n_labels + label``."""
        n_labels = max(len(self.label_counts.labels), 1)
        return np.asarray(rows * n_labels + labels, np.int64)

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
        """Return the counts of some rows as a sparse float64 matrix, without reading other rows.

        The counts of label i stand in the column ``columns[i]``.

        Shapes
        ------
        rows : (r,); columns : (number of labels,), below width; returned : (r, width)
        """
        lengths = self.row_lengths[rows].astype(np.int64)
        entries = ranges(self._find_first_entries(rows), lengths)
        labels = self.entry_labels[entries]
        # The entries of a file that is read without verification were not checked.
        if len(labels) and int(labels.max()) >= len(columns):
            raise ValueError(
                "The count table names a label that does not exist. Load the file with verify=True."
            )
        counts = self.entry_counts[entries].astype(np.float64)
        starts = np.concatenate([[0], np.cumsum(lengths)])
        return sparse.csr_array((counts, columns[labels], starts), shape=(len(rows), width))

    def _find_first_entries(self, rows: Ints) -> Ints:
        """Return where the entries of these rows start.

        That is where their block of `_BLOCK` rows starts, plus the lengths of the rows before them
        in the block.
        """
        first_entries = self._block_starts[rows // _BLOCK]
        for piece in pieces(len(rows), 2**14):
            row = rows[piece, None]
            rows_of_block = row // _BLOCK * _BLOCK + np.arange(_BLOCK)
            # The last block may be short: rows that do not exist are replaced, and not counted.
            lengths = self.row_lengths[np.minimum(rows_of_block, row)]
            is_before = rows_of_block < row
            first_entries[piece] += np.where(is_before, lengths, 0).sum(axis=1, dtype=np.int64)
        return first_entries

    @cached_property
    def _block_starts(self) -> Ints:
        """Where the entries of each block of `_BLOCK` rows start."""
        block_lengths = [np.empty(0, np.int64)]
        for piece in pieces(len(self.row_lengths), _BLOCK * 2**10):  # of whole blocks
            lengths = self.row_lengths[piece].astype(np.int64)
            first_rows = np.arange(0, len(lengths), _BLOCK)
            block_lengths.append(np.add.reduceat(lengths, first_rows))
        all_lengths = np.concatenate(block_lengths)
        return np.cumsum(all_lengths) - all_lengths

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
        rows: Sequence[SiteRows],
        *,
        vocabulary: Vocabulary,
        labels: Vocabulary,
    ) -> CountTable:
        """Return the canonical table of rows.

        Parameters
        ----------
        sites : Sites
        label_counts : LabelCounts
            How many examples each label has.
        rows : sequence of SiteRows, one a site
        vocabulary : Vocabulary
            What the ranks of tokens in the rows refer to. Tokens that no row has are dropped.
        labels : Vocabulary
            What the ranks of labels in the rows refer to; those of the table refer to the labels of
            `label_counts`.
        """
        is_used = np.zeros(len(vocabulary), bool)
        for site in rows:
            is_used[site.tuples] = True
        # New ranks keep the order of the old ones, so tuples and labels stay sorted.
        token_ranks = np.cumsum(is_used) - 1
        label_ranks = label_counts.labels.find(labels)
        n_tokens = max(int(is_used.sum()), 1)
        entry_labels = np.concatenate([site.labels for site in rows])
        return cls(
            sites=sites,
            label_counts=label_counts,
            vocabulary=vocabulary.keep(is_used),
            tuples=[TupleSet.of_sorted(token_ranks[site.tuples], n_tokens) for site in rows],
            row_lengths=narrow(np.concatenate([site.lengths for site in rows])),
            entry_labels=narrow(label_ranks[entry_labels]),
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


class _SiteExamples(NamedTuple):
    """What a site reads of m examples that have a token at each of its l positions."""

    columns: list[Array]
    """The rank of each example's token, for each position: l arrays of shape (m,)."""
    labels: Ints
    """The rank of each example's label: (m,)."""
    multiplicity: Ints
    """How often each example counts: (m,)."""
    n_tokens: int
    """How many tokens the ranks are of; at least 1."""
    n_labels: int
    """How many labels the ranks are of; at least 1."""


def _count_site(examples: Examples, columns: list[Array]) -> SiteRows:
    """Return the rows of a site, which count each distinct tuple of tokens with each label.

    `columns` are the ranks of tokens at the positions of the site. An example that has no token at
    one of them has no row.
    """
    labels = examples.label_ranks
    multiplicity = examples.multiplicity
    if any(int(column.min(initial=0)) < 0 for column in columns):
        is_complete = np.logical_and.reduce([column >= 0 for column in columns])
        columns = [column[is_complete] for column in columns]
        labels = labels[is_complete]
        multiplicity = multiplicity[is_complete]
    site = _SiteExamples(
        columns=columns,
        labels=labels,
        multiplicity=multiplicity,
        n_tokens=max(len(examples.contexts.vocabulary), 1),
        n_labels=max(len(examples.labels), 1),
    )
    if site.n_tokens ** len(columns) * site.n_labels < 2**63:
        return _count_short_tuples(site)
    return _count_long_tuples(site)


def _count_short_tuples(site: _SiteExamples) -> SiteRows:
    """Return the rows of a site where a tuple and its label fit in one number of 63 bits.

    Numbers are sorted and summed much faster than tuples, and in the same order. So each example
    becomes one number, and only the distinct numbers become tuples again.
    """
    keys = _encode_tuples(site)
    keys, counts = sum_by_key(keys, site.multiplicity, int(keys.max(initial=-1)) + 1)
    # Keys ascend, so the labels of a tuple are neighbors: a row starts where the tuple changes.
    tuple_codes, labels = np.divmod(keys, site.n_labels)
    row_starts = np.flatnonzero(np.diff(tuple_codes, prepend=-1))
    return SiteRows(
        tuples=_decode_tuples(tuple_codes[row_starts], len(site.columns), site.n_tokens),
        lengths=np.diff(row_starts, append=len(keys)),
        labels=labels,
        counts=counts,
    )


def _encode_tuples(site: _SiteExamples) -> Ints:
    """Return the tuple (r1, r2, …) and the label of each example as one number.

    With n tokens and L labels it is ((r1 n + r2) n + …) L + label.
    """
    keys = site.columns[0].astype(np.int64)
    for column in site.columns[1:]:
        keys *= site.n_tokens
        keys += column
    keys *= site.n_labels
    keys += site.labels
    return keys


def _decode_tuples(tuple_codes: Ints, length: int, n_tokens: int) -> Ints:
    """Return the tuples of these numbers, (r1 n + r2) n + …, as ranks of shape (r, length)."""
    tuples = np.empty((len(tuple_codes), length), np.int64)
    for j in reversed(range(length)):
        tuple_codes, tuples[:, j] = np.divmod(tuple_codes, n_tokens)
    return tuples


def _count_long_tuples(site: _SiteExamples) -> SiteRows:
    """Return the rows of a site of any length: tuples become their ranks in a sorted set."""
    ranks = np.stack(site.columns, axis=1).astype(np.int64)
    tuples, index = TupleSet.collect(ranks, site.n_tokens)
    n_keys = len(tuples) * site.n_labels
    keys, counts = sum_by_key(index * site.n_labels + site.labels, site.multiplicity, n_keys)
    return SiteRows.from_keys(tuples, keys, counts, site.n_labels)


def plus_empties(
    empties: Sequence[LabelCounts], others: Sequence[LabelCounts], sign: int
) -> tuple[LabelCounts, ...]:
    """Return the sum or, with sign -1, the difference of the `empties` of two tables, site by site.

    `NotStoredError` where a count would go below zero.
    """
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
    n_tokens = len(table.vocabulary)
    is_used = np.zeros(n_tokens, bool)
    for tuples in table.tuples:
        for level in tuples.levels:
            for piece in pieces(len(level)):
                # a key is parent * n + token; without tokens there are no keys
                is_used[level[piece].astype(np.int64) % tuples.n] = True
    if not is_used.all():
        raise ValueError("the vocabulary of the count table holds tokens that no row has")


def _check_entries(table: CountTable) -> None:
    """Refuse rows whose labels are out of order, and sites that count too many examples.

    Arrays are gone through in pieces: they may lie in a file, and be larger than the memory.
    """
    starts_row = _mark_row_starts(table)
    for piece in pieces(len(starts_row) - 1):  # of pairs of neighbors
        before = slice(piece.start, piece.stop)
        after = slice(piece.start + 1, piece.stop + 1)
        ascends = table.entry_labels[after] > table.entry_labels[before]
        if not (ascends | starts_row[after]).all():
            raise ValueError("a row of the count table does not list its labels in ascending order")
    n_labels = len(table.label_counts.labels)
    for start, stop in pairwise(_find_site_bounds(table)):
        totals = np.zeros(n_labels)
        for piece in pieces(stop - start):
            entries = slice(start + piece.start, start + piece.stop)
            totals += np.bincount(
                table.entry_labels[entries], table.entry_counts[entries], n_labels
            )
        if (totals > table.label_counts.counts).any():
            raise ValueError("a site counts more examples of a label than the label has")


def _mark_row_starts(table: CountTable) -> Bools:
    """Return whether each entry is the first one of a row."""
    starts_row = np.zeros(len(table.entry_labels), bool)
    first = 0
    for piece in pieces(len(table.row_lengths)):
        lengths = table.row_lengths[piece].astype(np.int64)
        ends = first + np.cumsum(lengths)
        starts_row[ends - lengths] = True
        first = int(ends[-1])
    return starts_row


def _find_site_bounds(table: CountTable) -> list[int]:
    """Return where the entries of each site start and, at the end, their number."""
    bounds = [0]
    first_row = 0
    for tuples in table.tuples:
        lengths = table.row_lengths[first_row : first_row + len(tuples)]
        bounds.append(bounds[-1] + int(lengths.sum(dtype=np.int64)))
        first_row += len(tuples)
    return bounds


def holds_trees(cells: Cells, sites: Sites) -> TypeGuard[TreeCells]:
    """Return whether sites are those that an automatic kernel makes of names and trees."""
    if not isinstance(cells, TreeCells) or sites.free:
        return False
    return sites.positions == tuple(cells.sites())


class _TreeTokens(NamedTuple):
    """The tokens of a table of names and trees, and their ranks in its vocabulary."""

    vocabulary: Vocabulary
    name_ranks: Ints
    """For each token of the contexts, which rows hold as a name, its rank in `vocabulary`.

    It is -1 for other tokens. One entry more, the last one, is -1, too: it stands for no token,
    whose rank in the contexts is -1."""
    cell_ranks: Ints
    """The rank in `vocabulary` of the numbers 0, 1, 2, …, which are the tokens of cells."""


def table_of_trees(
    cells: TreeCells, examples: Examples, sites: Sites, tree_counts: Ints | None = None
) -> CountTable:
    """Return the table of the cells of rows, whose sites are names and then trees.

    `tree_counts` are the counts of the cells of all trees, as `Forest.counts` returns them, with a
    column for each of ``examples.labels``. Without them, the leaves of the rows are looked up.
    """
    if not len(examples):
        return CountTable.empty(sites)
    # A canonical table has no labels without examples. Cells are counted by all labels of the
    # examples first, so that the columns match; then both lose those that no row has.
    if tree_counts is None:
        tree_counts = _count_tree_cells(cells, examples)
    tree_counts = tree_counts[:, np.unique(examples.label_ranks)]
    examples = examples.with_used_labels()
    tokens = _collect_tree_tokens(cells, examples.contexts)
    return CountTable.from_rows(
        sites,
        LabelCounts(examples.labels, examples.label_counts()),
        [
            *_count_name_sites(cells, examples, tokens),
            *_count_cell_sites(cells, tree_counts, tokens),
        ],
        vocabulary=tokens.vocabulary,
        labels=examples.labels,
    )


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


def _collect_tree_tokens(cells: TreeCells, contexts: Contexts) -> _TreeTokens:
    """Return the tokens of the names that rows hold and of the cells of trees."""
    is_name = np.zeros(len(contexts.vocabulary) + 1, bool)
    is_name[contexts.ranks[:, cells.names]] = True  # rank -1, no token, marks the last entry
    is_name[-1] = False
    names = contexts.vocabulary.keep(is_name[:-1])
    cell_numbers = Vocabulary(np.arange(int(cells.forest.cell_sizes.max())))
    vocabulary = names.union(cell_numbers)
    name_ranks = np.full(len(is_name), -1)
    name_ranks[is_name] = vocabulary.find(names)
    return _TreeTokens(vocabulary, name_ranks, vocabulary.find(cell_numbers))


def _count_name_sites(
    cells: TreeCells, examples: Examples, tokens: _TreeTokens
) -> Iterator[SiteRows]:
    """Yield the rows of each site of names."""
    for site in cells.name_sites:
        ranks = tokens.name_ranks[examples.contexts.ranks[:, list(site)]]
        tuples, index = TupleSet.collect(ranks, len(tokens.vocabulary))
        yield count_rows(tuples, index, examples)


def _count_cell_sites(
    cells: TreeCells, tree_counts: Ints, tokens: _TreeTokens
) -> Iterator[SiteRows]:
    """Yield the rows of each site of trees, from the counts of all cells, (cells, L)."""
    n_labels = tree_counts.shape[1]
    for counts in _iterate_site_counts(cells, tree_counts):
        tuples = TupleSet(len(tokens.vocabulary), (tokens.cell_ranks[: len(counts)],))
        keys = np.flatnonzero(counts)  # cell * L + label
        yield SiteRows.from_keys(tuples, keys, counts.ravel()[keys], n_labels)


def _iterate_site_counts(cells: TreeCells, tree_counts: Ints) -> Iterator[Ints]:
    """Yield the counts of the cells of each site, in the order of the sites: (its cells, L).

    `tree_counts` are stored level by level, and then tree by tree. Sites go tree by tree, and then
    level by level.
    """
    sizes = cells.forest.cell_sizes  # (levels, trees)
    ends = np.cumsum(sizes.ravel()).reshape(sizes.shape)
    for tree in range(cells.forest.n_trees):
        for level in range(len(LEVELS)):
            end = ends[level, tree]
            yield tree_counts[end - sizes[level, tree] : end]
