r"""What answers queries from exact counts: a sparse table, or one with every cell.

.. math:: \texttt{scores}(q, w)_c = \sum_k w_k \, N_{k,c}(q_k)

Sums of whole numbers below 2^53 are exact in float64, so with whole-number weights the scores are exact.
"""

from __future__ import annotations

from functools import cached_property, partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from hammemo._versions import Cached
from hammemo.kernels.sites import find_sites, rows_of_columns
from hammemo.memories.contributions import SiteScores
from hammemo.memories.exact.count_table import CountTable
from hammemo.memories.label_counts import LabelCounts
from hammemo.memories.reader import Compiled
from hammemo.memories.row_rules import RowRanker
from hammemo.tokens.vocabulary import Vocabulary

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray
    from scipy import sparse

    from hammemo._arrays.checked import StoredArrays
    from hammemo.memories.label_counts import Frame
    from hammemo.memories.row_rules import RowRule
    from hammemo.tokens.contexts import Contexts


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


class SparseRows(Cached):
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

    def site_counts(self, contexts: Contexts) -> NDArray[np.float64]:
        """Return the row of counts that each site of each context reads, zeros where it reads none: (m, S, L)."""
        rows, counts, _ = self.read(contexts)
        read = np.zeros((*rows.shape, len(self.labels)))
        read[rows >= 0] = counts[rows[rows >= 0]].toarray()
        return read


class SparseCounts(ExactReader):
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
        self._ranker: tuple[bytes, SparseRanker] | None = None

    def scores(self, contexts: Contexts, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the weighted sum over sites of the counts."""
        rows, counts, _ = self._rows.read(contexts)
        scores: NDArray[np.float64] = (rows_of_columns(rows, weights, counts.shape[0]) @ counts).toarray()
        return scores

    def site_counts(self, contexts: Contexts) -> NDArray[np.float64]:
        """Return the row of counts that each site of each context reads, zeros where it reads none: (m, S, L)."""
        return self._rows.site_counts(contexts)

    def seen(self, tokens: Vocabulary) -> NDArray[np.int8]:
        """Return for each token whether a stored example holds it at a compared position: 1 or 0."""
        return (self._rows.table.vocabulary.find(tokens) >= 0).astype(
            np.int8
        )  # it holds the tokens that occur, and no other

    def with_rule(self, rule: RowRule) -> SparseRanker:
        """Return what ranks labels by this rule; made once for the rule that was asked for last."""
        made = self._ranker
        if made is None or made[0] != rule.signature:
            made = self._ranker = (rule.signature, SparseRanker(self._rows, rule))
        return made[1]

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_ranker": None}  # made again when needed

    def tensors(self) -> dict[str, NDArray[Any]]:
        """Return the arrays that prediction needs."""
        table = self._rows.table
        if self._rows.on_disk:
            arrays = table.arrays_for(self.labels)
            return {name: array for name, array in arrays.items() if not name.startswith("vocabulary.")}
        levels = {f"rows.{k}.{j}": a for k, known in enumerate(table.tuples) for j, a in enumerate(known.levels)}
        matrix = self._rows.matrix
        return {**levels, "starts": matrix.indptr, "entry_labels": matrix.indices, "entry_counts": matrix.data}

    def stored(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Return what `restored` needs: the table in its narrow canonical form, and no description."""
        return self._rows.table.arrays_for(self.labels), {}

    @classmethod
    def restored(
        cls,
        frame: Frame,
        stored: StoredArrays,
        description: dict[str, Any],
        key: bytes | None = None,  # noqa: ARG003
    ) -> SparseCounts:
        """Return the compiled form with these arrays, checked: undo `stored`."""
        _expect_no_description(description)
        labels = LabelCounts(frame.labels, frame.label_counts)
        table = CountTable.from_arrays(frame.sites, labels, stored)
        return cls(partial(_itself, table), frame, on_disk=stored.trusted)


class SparseRanker(RowRanker):
    """A rule applied to the entries of the table: sparse gains, and one loss a row and amount of smoothing.

    In memory it is applied once to all entries; on disk, to those that each batch of queries touches.
    """

    def __init__(self, rows: SparseRows, rule: RowRule) -> None:
        super().__init__(rows.site_counts, rule)
        self.row_width = self.n_labels  # of a query only its scores are dense
        self._rows = rows
        self._kept: tuple[sparse.csr_array, NDArray[np.float64]] | None = None

    def scores(self, contexts: Contexts) -> NDArray[np.float64]:
        """Return the rule's score of each context and label."""
        rows, counts, starts = self._rows.read(contexts)
        applied = self._kept or self._applied(counts, starts)
        if not self._rows.on_disk:
            self._kept = applied  # one assignment: whoever makes it, it is the same
        gains, losses = applied
        scores = (rows_of_columns(rows, np.ones(rows.shape[1]), gains.shape[0]) @ gains).toarray()
        if len(losses):
            lost = np.where((rows >= 0)[:, :, None], losses[rows], 0.0).reshape(len(rows), -1)
            scores -= lost @ self._rule.weights.reshape(lost.shape[1], -1)
        return np.asarray(scores + self._rule.base)

    def _applied(
        self, counts: sparse.csr_array, starts: NDArray[np.int64]
    ) -> tuple[sparse.csr_array, NDArray[np.float64]]:
        """Return the gains, as sparse as the counts, and the losses of each row."""
        gains = counts.copy()
        for site, (first, last) in enumerate(pairwise(counts.indptr[starts])):
            gains.data[first:last] = self._rule.gains(site, counts.data[first:last], counts.indices[first:last])
        return gains, self._rule.losses(np.asarray(counts.sum(axis=1)))


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
        _expect_no_description(description)
        vocabulary = Vocabulary.from_arrays(stored.part("vocabulary"))
        positions = frame.sites.positions
        counts = stored.take("counts", "int32", (len(positions), len(vocabulary), len(frame.labels)))
        if any(len(site) > 1 for site in positions) or (not stored.trusted and counts.size and int(counts.min()) < 0):
            raise ValueError("a dense table has sites of one position each, and no negative count")
        return cls(counts, vocabulary, frame)


def _itself(table: CountTable) -> CountTable:
    return table


def _expect_no_description(description: dict[str, Any]) -> None:
    if description:
        raise ValueError(f"a count table needs no description, but {next(iter(description))!r} is there")


def _dense(table: CountTable, vocabulary: Vocabulary, labels: Vocabulary) -> NDArray[np.int32]:
    tokens = vocabulary.find(table.vocabulary)
    row_tokens = np.concatenate([tokens[known.rows()[:, 0]] for known in table.tuples])
    row_sites = np.repeat(np.arange(len(table.tuples)), [len(known) for known in table.tuples])
    rows, columns = table.entry_rows(), labels.find(table.label_counts.labels)
    held = row_tokens[rows] >= 0
    counts = np.zeros((len(table.tuples), len(vocabulary), len(labels)), np.int32)
    counts[row_sites[rows[held]], row_tokens[rows[held]], columns[table.entry_labels[held]]] = table.entry_counts[held]
    return counts
