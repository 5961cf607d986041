r"""What answers queries from exact counts: a sparse table, or one with every cell.

.. math:: \texttt{scores}(q, w)_c = \sum_k w_k \, N_{k,c}(q_k)

Sums of whole numbers below 2^53 are exact in float64, so with whole-number weights the scores are exact.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from hammemo._arrays.native import native
from hammemo.memories.exact.live_reader import LiveCounts
from hammemo.memories.exact.sparse_rows import (
    ExactReader,
    RowsReader,
    SparseRanker,
    SparseRows,
    expect_no_description,
    restored_free,
    restored_table,
)
from hammemo.tokens.vocabulary import Vocabulary

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from hammemo._arrays.checked import StoredArrays
    from hammemo.memories.exact.table import CountTable
    from hammemo.memories.label_counts import Frame
    from hammemo.memories.row_rules import RowRule
    from hammemo.tokens.contexts import Contexts


class SparseCounts(RowsReader):
    """Answers from the sparse table.

    Parameters
    ----------
    table : callable
        Returns the counts; called once, when they are first read.
    frame : Frame
    on_disk : bool
        Whether the table is mapped from a file, and stays there.
    """

    def __init__(self, table: Callable[[], CountTable], frame: Frame, *, on_disk: bool = False) -> None:
        super().__init__(frame, len(frame.labels))
        self._rows = SparseRows(table, frame.labels, on_disk=on_disk)

    @property
    def rows(self) -> SparseRows:
        """The rows that contexts read."""
        return self._rows

    def seen(self, tokens: Vocabulary) -> NDArray[np.int8]:
        """Return for each token whether a stored example holds it at a compared position: 1 or 0."""
        return (self._rows.table.vocabulary.find(tokens) >= 0).astype(
            np.int8
        )  # it holds the tokens that occur, and no other

    def make_ranker(self, rule: RowRule) -> SparseRanker:
        """Return what applies a rule to all rows or, on disk, to those that a batch reads."""
        return SparseRanker(self._rows, rule)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_ranker": None, "_static_tables": None}  # made again when needed

    def tensors(self) -> dict[str, NDArray[Any]]:
        """Return the arrays that prediction needs."""
        table = self._rows.table
        if self._rows.on_disk:
            arrays = table.arrays_for(self.labels)
            return {name: array for name, array in arrays.items() if not name.startswith("vocabulary.")}
        levels = {f"rows.{k}.{j}": a for k, known in enumerate(table.tuples) for j, a in enumerate(known.levels)}
        matrix = self._rows.matrix
        return {**levels, "starts": matrix.indptr, "entry_labels": matrix.indices, "entry_counts": matrix.data}

    @property
    def table(self) -> CountTable:
        """The canonical table."""
        return self._rows.table

    @classmethod
    def restored(
        cls,
        frame: Frame,
        stored: StoredArrays,
        description: dict[str, Any],
        key: bytes | None = None,  # noqa: ARG003
    ) -> SparseCounts | LiveCounts:
        """Return the compiled form with these arrays, checked: undo `stored`."""
        if cls is SparseCounts and not stored.trusted and native() is not None:
            return LiveCounts.restored(frame, stored, description)
        table = restored_table(frame, stored, description)
        reader = cls(partial(_itself, table), frame, on_disk=stored.trusted)
        reader.free = restored_free(cls, frame.sites, stored)
        return reader


class DenseCounts(ExactReader):
    """The count table with every cell: 32 bits for each position, token of the vocabulary and label."""

    def __init__(self, counts: NDArray[np.int32], vocabulary: Vocabulary, frame: Frame) -> None:
        super().__init__(frame, len(frame.labels))
        self.vocabulary = vocabulary
        self._counts = counts

    @classmethod
    def of(cls, table: CountTable, frame: Frame, vocabulary: Vocabulary | None) -> DenseCounts:
        """Return the dense form of a table, with rows for `vocabulary`."""
        if any(len(site) > 1 for site in frame.sites.positions):
            raise ValueError(
                "A dense table needs sites of one position each: tuples of tokens have too many values. Use 'sparse'."
            )
        if len(table.entry_counts) and int(table.entry_counts.max()) > np.iinfo(np.int32).max:
            raise ValueError("A count exceeds 32 bits, the width of the dense table. Use 'sparse'.")
        tokens = table.vocabulary if vocabulary is None else vocabulary
        return cls(_dense(table, tokens, frame.labels), tokens, frame)

    def scores(self, contexts: Contexts, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the weighted sum over sites of the counts."""
        ranks = contexts.ranks_in(self.vocabulary)
        totals = np.zeros((len(contexts), len(self.labels)))
        for k, (r,) in enumerate(self.sites.positions):
            known = ranks[:, r] >= 0
            totals[known] += weights[k] * self._counts[k, ranks[known, r]]
        return totals

    def site_counts(self, contexts: Contexts) -> NDArray[np.float64]:
        """Return the row of counts that each site of each context reads, zeros where it reads none: (m, S, L)."""
        ranks = contexts.ranks_in(self.vocabulary)
        read = np.zeros((len(contexts), len(self.sites.positions), len(self.labels)))
        for k, (r,) in enumerate(self.sites.positions):
            known = ranks[:, r] >= 0
            read[known, k] = self._counts[k, ranks[known, r]]
        return read

    def seen(self, tokens: Vocabulary) -> NDArray[np.int8]:
        """Return for each token whether a stored example holds it at a compared position: 1 or 0.

        Of a token that the table was not given a row for, nothing is known: -1.
        """
        rank = self.vocabulary.find(tokens)
        occurs = np.append(self._counts.any(axis=(0, 2)).astype(np.int8), np.int8(-1))
        return occurs[rank]

    def tensors(self) -> dict[str, NDArray[Any]]:
        """Return the arrays that prediction needs."""
        return {"counts": self._counts}

    def stored(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Return what `restored` needs: the table and its vocabulary, and no description."""
        tokens = {f"vocabulary.{name}": array for name, array in self.vocabulary.arrays().items()}
        return {**self.tensors(), **tokens}, {}

    @classmethod
    def restored(
        cls,
        frame: Frame,
        stored: StoredArrays,
        description: dict[str, Any],
        key: bytes | None = None,  # noqa: ARG003
    ) -> DenseCounts:
        """Return the compiled form with these arrays, checked: undo `stored`."""
        expect_no_description(description)
        vocabulary = Vocabulary.from_arrays(stored.part("vocabulary"))
        positions = frame.sites.positions
        counts = stored.take("counts", "int32", (len(positions), len(vocabulary), len(frame.labels)))
        if any(len(site) > 1 for site in positions) or (not stored.trusted and counts.size and int(counts.min()) < 0):
            raise ValueError("a dense table has sites of one position each, and no negative count")
        return cls(counts, vocabulary, frame)


def _itself(table: CountTable) -> CountTable:
    return table


def _dense(table: CountTable, vocabulary: Vocabulary, labels: Vocabulary) -> NDArray[np.int32]:
    tokens = vocabulary.find(table.vocabulary)
    row_tokens = np.concatenate([tokens[known.rows()[:, 0]] for known in table.tuples])
    row_sites = np.repeat(np.arange(len(table.tuples)), [len(known) for known in table.tuples])
    rows, columns = table.entry_rows(), labels.find(table.label_counts.labels)
    held = row_tokens[rows] >= 0
    counts = np.zeros((len(table.tuples), len(vocabulary), len(labels)), np.int32)
    counts[row_sites[rows[held]], row_tokens[rows[held]], columns[table.entry_labels[held]]] = table.entry_counts[held]
    return counts
