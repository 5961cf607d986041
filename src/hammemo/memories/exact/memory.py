r"""The exact memory: the count table itself, and with it the classifier that all sketches are measured against.

.. math:: \texttt{scores}(q, w)_c = \sum_k w_k \, N_{k,c}(q_k)

Sums of whole numbers below 2^53 are exact in float64, so with whole-number weights the scores are exact.

Learning appends the table of each batch to a short stack of tables of falling size and adds neighbours of similar size,
so that n batches cost O(n log n) and not O(n^2). What is taken back goes to a stack of its own, once the counts it
touches, and only those, have been found large enough; where that stack would pass half the size of the first, the two
become one. Reading adds up both. This changes nothing that can be seen: the state is the difference, in canonical form.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property, reduce
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from hammemo.kernels.sites import find_sites, rows_of_columns
from hammemo.memories.base import CompiledMemory, LabelCounts, Memory, never_stored
from hammemo.memories.contributions import SiteScores
from hammemo.memories.exact.count_table import CountTable, check_empty_sites
from hammemo.memories.row_rules import PlainRuled, exact_site_scores
from hammemo.tokens.vocabulary import Vocabulary

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from scipy import sparse

    from hammemo._arrays.checked import StoredArrays
    from hammemo.memories.base import Frame
    from hammemo.memories.row_rules import RowRule, RuledReader
    from hammemo.tokens.contexts import Contexts, Examples


class ExactReader(ABC):
    """What every reader of exact counts has: contributions that are known, and so are their bounds."""

    @abstractmethod
    def scores(self, contexts: Contexts, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the weighted sum over sites of the counts."""

    @abstractmethod
    def site_counts(self, contexts: Contexts) -> NDArray[np.float64]:
        """Return the row of counts that each site of each context reads, zeros where it reads none: (m, S, L)."""

    def site_scores(self, contexts: Contexts, weights: NDArray[np.float64], columns: NDArray[np.int64]) -> SiteScores:
        """Return what each site adds to the scores of the labels in these columns: weighted counts."""
        return SiteScores.exact(weights[:, None] * self.site_counts(contexts)[:, :, columns])

    def bounds(
        self, contexts: Contexts, weights: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return what the exact weighted counts are at least, and at most: here, the counts themselves."""
        scores = self.scores(contexts, weights)
        return scores, scores


class Exact(ExactReader, Memory):
    """Sparse counts of every (site, token, label): no error, and a size that grows with what was seen.

    It compiles to ``"sparse"`` (the default) or ``"dense"``: one 32-bit count for every position, token of the
    vocabulary and label, the layout of the paper's exact baseline.

    Examples
    --------
    >>> from hammemo import Exact, MemoryClassifier
    >>> X, y = [["a", "b"], ["a", "c"], ["d", "c"]], ["no", "no", "yes"]
    >>> clf = MemoryClassifier(memory=Exact()).fit(X, y)
    >>> clf.class_scores([["a", "c"]])
    array([[1.5, 0.5]])
    """

    _added: list[CountTable]
    _removed: list[CountTable]
    _label_counts: LabelCounts
    _reader: SparseCounts | None
    _on_disk: bool

    def table(self) -> CountTable:
        """Return the counts of all that is stored."""
        total = reduce(CountTable.plus, reversed(self._added))
        if self._removed:
            total = total.plus(reduce(CountTable.plus, reversed(self._removed)), sign=-1)
        self._added, self._removed = [total], []
        return total

    def hold(self, table: CountTable) -> None:
        """Store the examples that a table has counted, in place of all that is stored."""
        self._added, self._removed = [table], []
        self._label_counts, self._reader, self._on_disk = table.label_counts, None, False

    def add(self, examples: Examples) -> None:
        """Store examples."""
        self._change(CountTable.of(examples, self.sites), sign=1)

    def remove(self, examples: Examples) -> None:
        """Take examples back, or raise `NotStoredError` where a count would become negative."""
        self._change(CountTable.of(examples, self.sites), sign=-1)

    def scores(self, contexts: Contexts, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the weighted sum over sites of the counts."""
        return self._read().scores(contexts, weights)

    def site_counts(self, contexts: Contexts) -> NDArray[np.float64]:
        """Return the row of counts that each site of each context reads, zeros where it reads none: (m, S, L)."""
        return self._read().site_counts(contexts)

    def with_rule(self, rule: RowRule) -> RuledReader:
        """Return what answers with the scores of this rule."""
        return self._read().with_rule(rule)

    def seen(self, tokens: Vocabulary) -> NDArray[np.int8]:
        """Return for each token whether a stored example holds it at a compared position: 1 or 0."""
        return self._read().seen(tokens)

    def _read(self) -> SparseCounts:
        if self._reader is None:
            self._reader = self.sparse()
        return self._reader

    def compile(self, form: str | None = None, vocabulary: Vocabulary | None = None) -> CompiledMemory:
        """Return the counts as a ``"sparse"`` or a ``"dense"`` table; the dense one has rows for `vocabulary`."""
        if form in (None, "sparse"):
            return self.sparse()
        if form == "dense":
            return DenseCounts.of(self, vocabulary)
        raise ValueError(f"form={form!r} is not known: Exact() compiles to 'sparse' or 'dense'.")

    def sparse(self) -> SparseCounts:
        """Return the counts as a sparse table, read from the disk as needed where they are mapped from a file."""
        return SparseCounts(self.table(), self.frame(), on_disk=self._on_disk)

    @property
    def row_width(self) -> int:
        """How many numbers one query needs while it is answered."""
        return len(self.labels)

    def declare(self, labels: Vocabulary) -> None:
        """Keep these labels as candidates, with or without examples."""
        super().declare(labels)
        self._reader = None

    def _open(self) -> None:
        self._added, self._removed = [CountTable.empty(self.sites)], []
        self._label_counts = LabelCounts()
        self._reader = None
        self._on_disk = False

    def _restore(self, all_labels: LabelCounts, stored: StoredArrays) -> None:
        table = CountTable.from_arrays(self.sites, all_labels, stored).without_idle_labels()
        self.hold(table)
        self._on_disk = stored.trusted  # read what a query touches, and no more

    def _change(self, table: CountTable, sign: int) -> None:
        label_counts = self._label_counts.plus(table.label_counts, sign)
        if sign > 0:
            self._added = _stacked(self._added, table)
        elif 2 * _entries([*self._removed, table]) > _entries(self._added):
            self._added = [self.table().plus(table, sign)]  # refuses by itself, before anything is changed
        else:
            self._check_held(table)
            self._removed = _stacked(self._removed, table)
        self._label_counts, self._reader, self._on_disk = label_counts, None, False

    def _check_held(self, table: CountTable) -> None:
        """Refuse to take back more of any entry than is stored."""
        held = np.zeros(len(table.entry_counts), np.int64)
        for part in self._added:
            held += part.counts_at(table)
        for part in self._removed:
            held -= part.counts_at(table)
        if (held < table.entry_counts).any():
            raise never_stored()
        check_empty_sites(self._added, [*self._removed, table])

    def _merge(self, other: Exact, sign: int) -> None:
        self._change(other.table(), sign)

    def _observed(self) -> LabelCounts:
        return self._label_counts  # kept beside the stack, so that asking for labels does not add it up

    def _state(self) -> dict[str, NDArray[Any]]:
        return self.table().arrays_for(self.labels)


def _stacked(stack: list[CountTable], table: CountTable) -> list[CountTable]:
    """Return the stack with one more table, neighbours of similar size added up."""
    stack = [*stack, table]
    while len(stack) > 1 and len(stack[-2].entry_counts) <= 2 * len(stack[-1].entry_counts):
        stack[-2:] = [stack[-2].plus(stack[-1])]
    return stack


def _entries(stack: list[CountTable]) -> int:
    return sum(len(table.entry_counts) for table in stack)


class SparseCounts(ExactReader):
    """The count table as a compressed sparse matrix, one row for each tuple of tokens at each site.

    A table in memory becomes one float64 matrix, made once. A table `on_disk` (memory-mapped arrays) stays there: the
    rows that a batch of queries touches are read and make a small matrix, with the same scores.
    """

    def __init__(self, table: CountTable, frame: Frame, *, on_disk: bool = False) -> None:
        self.sites = frame.sites
        self.labels = frame.labels
        self.label_counts = frame.label_counts
        self.vocabulary = table.vocabulary
        self.row_width = len(self.labels)
        self._table = table
        self._on_disk = on_disk
        self._ruled: tuple[bytes, RuledCounts] | None = None

    @cached_property
    def _counts(self) -> sparse.csr_array:
        return self._table.matrix(self.labels)

    @cached_property
    def _columns(self) -> NDArray[np.int64]:
        return self.labels.find(self._table.label_counts.labels)

    def scores(self, contexts: Contexts, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the weighted sum over sites of the counts."""
        rows, counts, _ = self.read(contexts)
        scores: NDArray[np.float64] = (rows_of_columns(rows, weights, counts.shape[0]) @ counts).toarray()
        return scores

    def read(self, contexts: Contexts) -> tuple[NDArray[np.int64], sparse.csr_array, NDArray[np.int64]]:
        """Return which row each site of each context reads, -1 for none, the matrix, and where each site's rows start.

        Shapes
        ------
        returned : (m, S), (rows, L), (S + 1,)
        """
        rows = find_sites(contexts.ranks_in(self.vocabulary), self.sites, self._table.tuples)
        starts = np.cumsum([0, *map(len, self._table.tuples)])
        if not self._on_disk:
            return rows, self._counts, starts
        touched, ranks = np.unique(np.append(rows, -1), return_inverse=True)  # -1 comes first, so its rank is 0
        counts = self._table.rows_matrix(touched[1:], self._columns, len(self.labels))
        return ranks[:-1].reshape(rows.shape) - 1, counts, np.searchsorted(touched[1:], starts)

    def site_counts(self, contexts: Contexts) -> NDArray[np.float64]:
        """Return the row of counts that each site of each context reads, zeros where it reads none: (m, S, L)."""
        rows, counts, _ = self.read(contexts)
        read = np.zeros((*rows.shape, len(self.labels)))
        read[rows >= 0] = counts[rows[rows >= 0]].toarray()
        return read

    def seen(self, tokens: Vocabulary) -> NDArray[np.int8]:
        """Return for each token whether a stored example holds it at a compared position: 1 or 0."""
        return (self.vocabulary.find(tokens) >= 0).astype(np.int8)  # it holds the tokens that occur, and no other

    def with_rule(self, rule: RowRule) -> RuledReader:
        """Return what answers with the scores of this rule; made once for the rule that was asked for last."""
        if self._ruled is None or self._ruled[0] != rule.signature:
            self._ruled = (rule.signature, RuledCounts(self, rule, keep=not self._on_disk))
        return self._ruled[1]

    def tensors(self) -> dict[str, NDArray[Any]]:
        """Return the arrays that prediction needs."""
        if self._on_disk:
            arrays = self._table.arrays_for(self.labels)
            return {name: array for name, array in arrays.items() if not name.startswith("vocabulary.")}
        levels = {f"rows.{k}.{j}": a for k, known in enumerate(self._table.tuples) for j, a in enumerate(known.levels)}
        matrix = self._counts
        return {**levels, "starts": matrix.indptr, "entry_labels": matrix.indices, "entry_counts": matrix.data}

    def stored(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Return what `restored` needs: the table in its narrow canonical form, and no description."""
        return self._table.arrays_for(self.labels), {}

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
        return cls(CountTable.from_arrays(frame.sites, labels, stored), frame, on_disk=stored.trusted)


class RuledCounts:
    """A rule applied to the entries of the table: sparse gains, and one loss a row and amount of smoothing.

    With `keep` it is applied once to all entries, and else to those that each batch of queries touches.
    """

    def __init__(self, counts: SparseCounts, rule: RowRule, *, keep: bool) -> None:
        self._counts = counts
        self._rule = rule
        self._keep = keep
        self._kept: tuple[sparse.csr_array, NDArray[np.float64]] | None = None

    def scores(self, contexts: Contexts) -> NDArray[np.float64]:
        """Return the rule's score of each context and label."""
        rows, counts, starts = self._counts.read(contexts)
        applied = self._kept or self._applied(counts, starts)
        if self._keep:
            self._kept = applied
        gains, losses = applied
        scores = (rows_of_columns(rows, np.ones(rows.shape[1]), gains.shape[0]) @ gains).toarray()
        if len(losses):
            lost = np.where((rows >= 0)[:, :, None], losses[rows], 0.0).reshape(len(rows), -1)
            scores -= lost @ self._rule.weights.reshape(lost.shape[1], -1)
        return np.asarray(scores + self._rule.base)

    def site_scores(self, contexts: Contexts, columns: NDArray[np.int64]) -> SiteScores:
        """Return what each site adds to the scores of the labels in these columns."""
        return exact_site_scores(self._counts, self._rule, contexts, columns)

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
        self.sites = frame.sites
        self.labels = frame.labels
        self.label_counts = frame.label_counts
        self.vocabulary = vocabulary
        self.row_width = len(self.labels)
        self._counts = counts

    @classmethod
    def of(cls, memory: Exact, vocabulary: Vocabulary | None) -> DenseCounts:
        """Return the dense table of an exact memory, with rows for `vocabulary`."""
        if any(len(site) > 1 for site in memory.sites.positions):
            raise ValueError(
                "A dense table needs sites of one position each: tuples of tokens have too many values. Use 'sparse'."
            )
        table = memory.table()
        if len(table.entry_counts) and int(table.entry_counts.max()) > np.iinfo(np.int32).max:
            raise ValueError("A count exceeds 32 bits, the width of the dense table. Use 'sparse'.")
        tokens = table.vocabulary if vocabulary is None else vocabulary
        return cls(_dense(table, tokens, memory.labels), tokens, memory.frame())

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

    def with_rule(self, rule: RowRule) -> RuledReader:
        """Return what answers with the scores of this rule."""
        return PlainRuled(self, rule)

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
