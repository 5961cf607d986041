r"""The table of counts N[site, token, label] that determines the exact classifier.

The table is an immutable value in canonical form: the vocabulary holds the tokens that occur, the rows of a site are
the token tuples it held, in lexicographic order, and a row lists its labels in order with positive counts. Two tables
add to the table of both multisets, and subtract as long as no entry becomes negative; either way the result is again in
canonical form, so equal multisets have equal tables however they were reached.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from hammemo.arrays import narrow, sorted_find, sum_by_key
from hammemo.kernels import Sites, collect_sites
from hammemo.memories.base import LabelCounts, NotStoredError
from hammemo.tokens import Vocabulary
from hammemo.tuples import TupleSet

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hammemo.contexts import Examples


@dataclass(frozen=True, eq=False)
class CountTable:
    """Sparse counts of (site, tuple of tokens, label), canonical.

    Parameters
    ----------
    sites : Sites
    label_counts : LabelCounts
        How many examples each label has; not a sum of entries, because an example may have empty positions.
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
    row_lengths: NDArray[Any]
    entry_labels: NDArray[Any]
    entry_counts: NDArray[Any]

    @classmethod
    def empty(cls, sites: Sites) -> CountTable:
        """Return the table of no examples."""
        none = np.empty(0, np.uint8)
        tuples = [TupleSet.collect(np.empty((0, len(site)), np.int64), 1)[0] for site in sites.positions]
        return cls(sites, LabelCounts(), Vocabulary(), tuples, none, none, none)

    @classmethod
    def of(cls, examples: Examples, sites: Sites) -> CountTable:
        """Count a batch of examples."""
        if not len(examples):
            return cls.empty(sites)
        tuples, ranks = collect_sites(examples.contexts, sites)
        n_labels = len(examples.labels)
        keys, counts, first = [], [], 0
        for known, index in zip(tuples, ranks.T, strict=True):
            held = index >= 0
            site_keys, site_counts = sum_by_key(
                index[held] * n_labels + examples.label_ranks[held], examples.multiplicity[held], len(known) * n_labels
            )
            keys.append(site_keys + first * n_labels)
            counts.append(site_counts)
            first += len(known)
        return cls._assemble(
            sites,
            LabelCounts(examples.labels, examples.label_counts()),
            (examples.labels, examples.contexts.vocabulary, tuples),
            np.concatenate(keys),
            np.concatenate(counts),
        )

    def plus(self, other: CountTable, sign: int = 1) -> CountTable:
        """Return the table of both multisets or, with sign -1, of the difference; refuse to go below zero."""
        label_counts = self.label_counts.plus(other.label_counts, sign)
        labels = self.label_counts.labels.union(other.label_counts.labels)
        vocabulary = self.vocabulary.union(other.vocabulary)
        tuples, row_maps = _union_rows((self, other), vocabulary)
        keys, counts = [], []
        for table, row_map, factor in zip((self, other), row_maps, (1, sign), strict=True):
            label_map = labels.find(table.label_counts.labels)
            keys.append(row_map[table.entry_rows()] * len(labels) + label_map[table.entry_labels])
            counts.append(factor * table.entry_counts.astype(np.int64))
        bound = sum(map(len, tuples)) * len(labels)
        summed, totals = sum_by_key(np.concatenate(keys), np.concatenate(counts), bound)
        if (totals < 0).any():
            raise NotStoredError(
                "At least one example to be removed was never stored: a count would become negative. "
                "Nothing was changed."
            )
        return self._assemble(self.sites, label_counts, (labels, vocabulary, tuples), summed, totals)

    def counts_at(self, other: CountTable) -> NDArray[np.int64]:
        """Return the count here of each entry of another table.

        Shapes
        ------
        returned : one number for each of ``other.entry_counts``
        """
        tokens, first, rows = self.vocabulary.find(other.vocabulary), 0, []
        for known, asked in zip(self.tuples, other.tuples, strict=True):
            found = known.find(tokens[asked.rows()])
            rows.append(np.where(found >= 0, found + first, -1))
            first += len(known)
        n_labels = max(len(self.label_counts.labels), 1)
        entry_rows = np.concatenate(rows)[other.entry_rows()]
        entry_labels = self.label_counts.labels.find(other.label_counts.labels)[other.entry_labels]
        wanted = np.where((entry_rows >= 0) & (entry_labels >= 0), entry_rows * n_labels + entry_labels, -1)
        place = sorted_find(self._entry_keys, wanted)
        counts = np.zeros(len(wanted), np.int64)
        counts[place >= 0] = self.entry_counts[place[place >= 0]]
        return counts

    @cached_property
    def _entry_keys(self) -> NDArray[np.int64]:
        """``row * len(labels) + label`` of each entry, ascending."""
        return np.asarray(self.entry_rows() * max(len(self.label_counts.labels), 1) + self.entry_labels, np.int64)

    def matrices(self, labels: Vocabulary) -> list[sparse.csr_array]:
        """Return the counts of each site as a sparse float64 matrix, one column for each of `labels`.

        Shapes
        ------
        returned, for site k : (len(tuples[k]), len(labels))
        """
        whole = self.matrix(labels)
        bounds = np.cumsum([0, *map(len, self.tuples)])
        return [whole[first:last] for first, last in pairwise(bounds)]

    def matrix(self, labels: Vocabulary) -> sparse.csr_array:
        """Return the counts of all sites, stacked, as a sparse float64 matrix, one column for each of `labels`."""
        columns = labels.find(self.label_counts.labels)
        return sparse.csr_array(
            (self.entry_counts.astype(np.float64), columns[self.entry_labels], self.row_starts()),
            shape=(len(self.row_lengths), len(labels)),
        )

    def entry_rows(self) -> NDArray[np.int64]:
        """Return the row of each entry."""
        return np.repeat(np.arange(len(self.row_lengths)), self.row_lengths)

    def row_starts(self) -> NDArray[np.int64]:
        """Return where each row's entries start and, at the end, their number."""
        return np.concatenate([[0], np.cumsum(self.row_lengths, dtype=np.int64)])

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the canonical arrays."""
        levels = {
            f"rows.{k}.{j}": narrow(level)
            for k, known in enumerate(self.tuples)
            for j, level in enumerate(known.levels)
        }
        return {
            **{f"vocabulary.{name}": array for name, array in self.vocabulary.arrays().items()},
            **levels,
            "row_lengths": self.row_lengths,
            "entry_labels": self.entry_labels,
            "entry_counts": self.entry_counts,
        }

    @classmethod
    def _assemble(
        cls,
        sites: Sites,
        label_counts: LabelCounts,
        frame: tuple[Vocabulary, Vocabulary, list[TupleSet]],
        keys: NDArray[np.int64],
        counts: NDArray[np.int64],
    ) -> CountTable:
        """Return the canonical table of entries ``row * len(labels) + label``, ascending, with positive counts.

        The frame (labels, vocabulary, tuples) may hold more than occurs; what no entry uses is dropped. That keeps
        the order of all that stays, so the entries need no second sort.
        """
        labels, vocabulary, tuples = frame
        rows, entry_labels = np.divmod(keys, max(len(labels), 1))
        lengths = np.bincount(rows, minlength=sum(map(len, tuples)))
        kept = np.split(lengths > 0, np.cumsum([len(known) for known in tuples])[:-1])
        site_rows = [known.rows()[mask] for known, mask in zip(tuples, kept, strict=True)]
        used = np.zeros(len(vocabulary), bool)
        for held in site_rows:
            used[held] = True
        rank = np.cumsum(used) - 1
        n = max(int(used.sum()), 1)
        return cls(
            sites,
            label_counts,
            vocabulary.keep(used),
            [TupleSet.collect(rank[held], n)[0] for held in site_rows],
            narrow(lengths[lengths > 0]),
            narrow(label_counts.labels.find(labels)[entry_labels]),
            narrow(counts),
        )


def _union_rows(
    tables: tuple[CountTable, CountTable], vocabulary: Vocabulary
) -> tuple[list[TupleSet], tuple[NDArray[np.int64], ...]]:
    """Return the rows of both tables in one vocabulary, and where each table's rows are among them."""
    token_maps = [vocabulary.find(table.vocabulary) for table in tables]
    n = max(len(vocabulary), 1)
    union, row_maps, first = [], ([], []), 0  # type: ignore[var-annotated]
    for both in zip(*(table.tuples for table in tables), strict=True):
        rows = [token_map[known.rows()] for token_map, known in zip(token_maps, both, strict=True)]
        known, index = TupleSet.collect(np.concatenate(rows), n)
        for row_map, part in zip(row_maps, np.split(index, [len(rows[0])]), strict=True):
            row_map.append(part + first)
        union.append(known)
        first += len(known)
    return union, tuple(np.concatenate(parts) for parts in row_maps)
