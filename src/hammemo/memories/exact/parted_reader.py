"""Answers from a table in parts: of each part only the rows that a batch of queries reads."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from scipy import sparse

from hammemo._arrays.integers import pieces
from hammemo._arrays.tuple_sets import TupleSet
from hammemo.memories.exact.count_table import CountTable
from hammemo.memories.exact.live_reader import is_one_number
from hammemo.memories.exact.readers import SparseCounts
from hammemo.memories.exact.sparse_rows import MatrixRows, RowsReader, SparseRanker
from hammemo.memories.label_counts import LabelCounts

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hammemo._arrays.checked import StoredArrays
    from hammemo.memories.exact.live_reader import LiveCounts
    from hammemo.memories.exact.part import SiteRows
    from hammemo.memories.exact.part_set import Columns
    from hammemo.memories.exact.parted import Parted
    from hammemo.memories.label_counts import Frame
    from hammemo.memories.row_rules import RowRule
    from hammemo.tokens.contexts import Contexts
    from hammemo.tokens.vocabulary import Vocabulary


class PartedRows(MatrixRows):
    """The rows that contexts read, as a small sparse matrix; nothing is kept between batches."""

    on_disk = True

    def __init__(self, stored: Parted, labels: Vocabulary) -> None:
        self._stored = stored
        self.labels = labels

    @cached_property
    def columns(self) -> Columns:
        """Where the labels of the parts go."""
        return self._stored.part_set.columns_in(self.labels)

    def read(self, contexts: Contexts) -> tuple[NDArray[np.int64], sparse.csr_array, NDArray[np.int64]]:
        """Return which row each site of each context reads, -1 for none, the matrix, and where each site's rows start.

        Shapes
        ------
        returned : (m, S), (rows, L), (S + 1,)
        """
        parts, positions = self._stored.part_set, self._stored.sites.positions
        ranks = contexts.ranks_in(parts.vocabulary)
        rows = np.full((len(contexts), len(positions)), -1, np.int64)
        read, firsts = [], [0]
        for k, site in enumerate(positions):
            known, index = TupleSet.collect(ranks[:, list(site)], max(len(parts.vocabulary), 1))
            own = self.site_rows(k, known.rows())
            held = own.lengths > 0
            place = np.append(np.where(held, np.cumsum(held) - 1 + firsts[-1], -1), -1)
            rows[:, k] = place[index]  # -1 reads the last entry
            read.append(own)
            firsts.append(firsts[-1] + int(held.sum()))
        lengths = np.concatenate([own.lengths for own in read])
        columns, counts = np.concatenate([own.labels for own in read]), np.concatenate([own.counts for own in read])
        starts = np.concatenate([[0], np.cumsum(lengths[lengths > 0])])
        matrix = sparse.csr_array((counts.astype(np.float64), columns, starts), shape=(firsts[-1], len(self.labels)))
        return rows, matrix, np.array(firsts)

    def site_rows(self, site: int, tuples: NDArray[np.int64]) -> SiteRows:
        """Return the rows of tuples of ranks, with their columns for labels, ascending in each."""
        return self._stored.part_set.site_rows(site, tuples, self.columns)


_MOST_ASKED: Final = 4096
"""So many contexts are answered at once: where their rows lie is known for all before the first is read."""


class PartedCounts(RowsReader):
    """Answers from one version of a table in parts.

    Parameters
    ----------
    stored : Parted
    frame : Frame
    """

    name_in_files = "SparseCounts"

    def __init__(self, stored: Parted, frame: Frame) -> None:
        super().__init__(frame, len(frame.labels))
        self._stored = stored
        self._rows = PartedRows(stored, frame.labels)

    @property
    def rows(self) -> PartedRows:
        """The rows that contexts read."""
        return self._rows

    @property
    def table(self) -> CountTable:
        """The canonical table, in memory."""
        return self._stored.total

    def scores(self, contexts: Contexts, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the weighted sum over sites of the counts, added in the order of the sites."""
        parts = self._stored.part_set
        if not parts.is_compiled:
            return super().scores(contexts, weights)
        return parts.sums(contexts.ranks_in(parts.vocabulary), weights, [], self._rows.columns)

    def winners(
        self, contexts: Contexts, weights: NDArray[np.float64], divisor: NDArray[np.float64]
    ) -> NDArray[np.int64]:
        """Return the column of the highest score over `divisor` of each context, the first one among equals."""
        parts, best = self._stored.part_set, np.empty(len(contexts), np.int64)
        if not parts.is_compiled or not len(self.labels):
            return super().winners(contexts, weights, divisor)
        divisor = divisor[:1] if is_one_number(divisor) else np.ascontiguousarray(divisor, np.float64)
        for piece in pieces(len(contexts), _MOST_ASKED):
            ranks = contexts[piece].ranks_in(parts.vocabulary)
            best[piece] = parts.winners(ranks, weights, [], self._rows.columns, divisor)
        return best

    def make_ranker(self, rule: RowRule) -> SparseRanker:
        """Return what applies a rule to the rows that a batch reads."""
        return SparseRanker(self._rows, rule)

    def restricted(self, contexts: Contexts) -> SparseCounts:
        """Return a reader, in memory, of the rows that these contexts read: to them it answers the same."""
        ranks, stored = contexts.ranks_in(self._stored.vocabulary), self._stored
        vocabulary = stored.vocabulary
        tuples, keys, counts, first = [], [], [], 0
        columns = np.append(stored.label_counts.labels.find(self.labels), -1)
        n_labels = max(len(stored.label_counts.labels), 1)
        for k, site in enumerate(stored.sites.positions):
            known, _ = TupleSet.collect(ranks[:, list(site)], max(len(vocabulary), 1))
            own = self._rows.site_rows(k, known.rows())
            keys.append(np.repeat(np.arange(first, first + len(known)), own.lengths) * n_labels + columns[own.labels])
            counts.append(own.counts)
            tuples.append(known)
            first += len(known)
        label_counts = LabelCounts(stored.label_counts.labels, stored.label_counts.counts)
        frame = (label_counts.labels, vocabulary, tuples)
        table = CountTable._assemble(stored.sites, label_counts, frame, np.concatenate(keys), np.concatenate(counts))
        reader = SparseCounts(lambda: table, self.frame)
        reader.free = self.free
        return reader

    def seen(self, tokens: Vocabulary) -> NDArray[np.int8]:
        """Return for each token whether a stored example holds it at a compared position: 1 or 0.

        Where nothing was taken back, the vocabularies of the parts say it. Else rows of one token are looked up; only a
        token that has none left there, but may have one in a longer tuple, needs the whole table.
        """
        stored = self._stored
        ranks = stored.vocabulary.find(tokens)
        seen = ranks >= 0
        if all(sign > 0 for _, sign, _ in stored.parts):
            return seen.astype(np.int8)
        unsure = np.flatnonzero(seen)
        seen[unsure] = False
        for k, site in enumerate(stored.sites.positions):
            if len(site) == 1 and len(unsure):
                seen[unsure] = self._rows.site_rows(k, ranks[unsure, None]).lengths > 0
                unsure = unsure[~seen[unsure]]
        if len(unsure) and any(len(site) > 1 for site in stored.sites.positions):
            seen[unsure] = (self.table.vocabulary.find(tokens) >= 0)[unsure]
        return seen.astype(np.int8)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_ranker": None, "_static_tables": None}  # made again when needed

    def tensors(self) -> dict[str, NDArray[Any]]:
        """Return the canonical arrays, the vocabulary left out: they take as much memory as the whole table."""
        arrays = self.table.arrays_for(self.labels)
        return {name: array for name, array in arrays.items() if not name.startswith("vocabulary.")}

    @classmethod
    def restored(
        cls, frame: Frame, stored: StoredArrays, description: dict[str, Any], key: bytes | None = None
    ) -> SparseCounts | LiveCounts:
        """Return what a file of `stored` holds: a sparse table."""
        return SparseCounts.restored(frame, stored, description, key)
