"""Answers from a table in parts: of each part only the rows that a batch of queries reads."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from scipy import sparse

from hammemo._arrays.integers import narrow, sum_by_key
from hammemo._arrays.tuple_sets import TupleSet
from hammemo.memories.exact.count_table import CountTable
from hammemo.memories.exact.readers import SparseCounts
from hammemo.memories.exact.sparse_rows import MatrixRows, RowsReader, SparseRanker
from hammemo.memories.label_counts import LabelCounts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from hammemo._arrays.checked import StoredArrays
    from hammemo.memories.exact.live_reader import LiveCounts
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
    def _columns(self) -> list[NDArray[Any]]:
        """The column of each label of each part, in the narrowest width."""
        return [narrow(np.maximum(self.labels.find(view.part.labels), 0)) for view in self._stored.views]

    def read(self, contexts: Contexts) -> tuple[NDArray[np.int64], sparse.csr_array, NDArray[np.int64]]:
        """Return which row each site of each context reads, -1 for none, the matrix, and where each site's rows start.

        Shapes
        ------
        returned : (m, S), (rows, L), (S + 1,)
        """
        ranks = contexts.ranks_in(self._stored.vocabulary)
        positions = self._stored.sites.positions
        rows = np.full((len(contexts), len(positions)), -1, np.int64)
        lengths, columns, counts, firsts = [], [], [], [0]
        for k, site in enumerate(positions):
            known, index = TupleSet.collect(ranks[:, list(site)], max(len(self._stored.vocabulary), 1))
            own_lengths, own_columns, own_counts = self._site(k, known.rows())
            held = own_lengths > 0
            place = np.append(np.where(held, np.cumsum(held) - 1 + firsts[-1], -1), -1)
            rows[:, k] = place[index]  # -1 reads the last entry
            lengths.append(own_lengths[held])
            columns.append(own_columns)
            counts.append(own_counts)
            firsts.append(firsts[-1] + int(held.sum()))
        starts = np.concatenate([[0], np.cumsum(np.concatenate(lengths))])
        matrix = sparse.csr_array(
            (np.concatenate(counts).astype(np.float64), np.concatenate(columns), starts),
            shape=(firsts[-1], len(self.labels)),
        )
        return rows, matrix, np.array(firsts)

    @cached_property
    def _ends(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The least and the greatest first token of each part; none can be between those of an empty one."""
        ends = [view.ends or (2**62, -1) for view in self._stored.views]
        return np.array([first for first, _ in ends], np.int64), np.array([last for _, last in ends], np.int64)

    def one_by_one(self, contexts: Contexts) -> Iterator[tuple[int, int, NDArray[Any], NDArray[Any]]]:
        """Yield (context, site, columns, counts) of each row that is read: the fast way for a few contexts."""
        stored, (firsts, lasts) = self._stored, self._ends
        for i, ranks in enumerate(contexts.ranks_in(stored.vocabulary).tolist()):
            for k, site in enumerate(stored.sites.positions):
                tokens = [ranks[position] for position in site]
                if min(tokens) < 0:
                    continue
                held = []
                for number in np.flatnonzero((firsts <= tokens[0]) & (lasts >= tokens[0])).tolist():
                    view = stored.views[number]
                    start, stop = view.part.span(k, view.own_ranks[tokens].tolist())
                    if stop > start:
                        labels, counts = view.part.row(start, stop)
                        held.append((view.sign, self._columns[number][labels], counts))
                if len(held) == 1:
                    yield i, k, held[0][1], held[0][2]
                elif held:
                    columns = np.concatenate([one[1] for one in held]).astype(np.int64)
                    signed = np.concatenate([sign * one.astype(np.int64) for sign, _, one in held])
                    yield i, k, *sum_by_key(columns, signed, len(self.labels))

    def _site(
        self, site: int, tuples: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Return the lengths, columns and counts of the rows of these tuples, columns ascending in each."""
        stored, n = self._stored, len(self.labels)
        found, pieces = np.zeros(len(tuples), np.int64), []
        for view, names in zip(stored.views, self._columns, strict=True):
            ends = view.ends
            if ends is None:
                continue
            asked = np.flatnonzero((tuples[:, 0] >= ends[0]) & (tuples[:, 0] <= ends[1]))
            if not len(asked):
                continue
            own = view.part.find(site, view.own_ranks[tuples[asked]].astype(np.int64))
            asked, own = asked[own >= 0], own[own >= 0]
            order = np.argsort(own, kind="stable")  # in the order of the file
            starts, stops = view.part.spans(site, own[order])
            labels, counts = view.part.entries(starts, stops)
            rows = np.repeat(asked[order], stops - starts)
            found[asked] += 1
            pieces.append((rows, names[labels].astype(np.int64), view.sign * counts))
        if not pieces:
            return found, np.empty(0, np.int64), np.empty(0, np.int64)
        rows, columns, counts = (np.concatenate(arrays) for arrays in zip(*pieces, strict=True))
        if found.max() > 1 or (rows[1:] < rows[:-1]).any() or (counts < 0).any():
            keys, counts = sum_by_key(rows * n + columns, counts, len(tuples) * n)
            rows, columns = np.divmod(keys, n)
            held = counts > 0
            rows, columns, counts = rows[held], columns[held], counts[held]
        return np.bincount(rows, minlength=len(tuples)), columns, counts


_FEW: Final = 16
"""So many contexts are read one by one."""


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
        if len(contexts) > _FEW:
            return super().scores(contexts, weights)
        scores = np.zeros((len(contexts), len(self.labels)))
        for i, k, columns, counts in self._rows.one_by_one(contexts):
            scores[i, columns] += weights[k] * counts
        return scores

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
            lengths, labels, own = self._rows._site(k, known.rows())
            keys.append(np.repeat(np.arange(first, first + len(known)), lengths) * n_labels + columns[labels])
            counts.append(own)
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
                seen[unsure] = self._rows._site(k, ranks[unsure, None])[0] > 0
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
