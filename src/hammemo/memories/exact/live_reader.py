"""Answers from a live table: only the leading labels are looked at, and a new version costs nothing to read.

What needs all scores (scores, probabilities, bounds, explanations) adds up the rows that the contexts read, as the
sparse table does.

To make a live table of counts that were learnt in bulk, or read from a file, goes through all of them. So the first few
questions are answered from the plain table, until they have cost as much as that.
"""

from __future__ import annotations

from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from scipy import sparse

from hammemo._arrays.integers import row_pieces
from hammemo._arrays.native import native
from hammemo.memories.exact.live.rules import has_rule, mean_rule
from hammemo.memories.exact.sparse_rows import (
    Entries,
    SparseRanker,
    SparseRows,
    VersionReader,
    restored_free,
    restored_table,
)
from hammemo.memories.exact.sum import Sum
from hammemo.memories.ranker import Ranker

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from hammemo._arrays.checked import StoredArrays
    from hammemo._native import LiveRule
    from hammemo.memories.contributions import SiteScores
    from hammemo.memories.exact.live.live import Live
    from hammemo.memories.exact.table import CountTable
    from hammemo.memories.label_counts import Frame, LabelCounts
    from hammemo.memories.row_rules import RowRule
    from hammemo.tokens.contexts import Contexts
    from hammemo.tokens.vocabulary import Vocabulary


_CALL: Final = 2**13
"""To answer a batch from the plain table costs as much as to make a live table of so many entries, and then some:"""
_SITE: Final = 16
"""so many for each site of a context,"""
_LABELS: Final = 4
"""and one for so many labels. Each entry that is read counts as one, too."""


class LiveRows:
    """The rows that contexts read, as a small sparse matrix: the form that `SparseRanker` applies a rule to."""

    on_disk = True  # nothing is kept between batches

    def __init__(self, reader: LiveCounts) -> None:
        self._reader = reader
        self.labels = reader.labels
        self.n_read = 0
        """How many entries were read so far."""

    @property
    def _live(self) -> Live:
        return self._reader.live

    @cached_property
    def columns(self) -> NDArray[np.int64]:
        """The column of each label number; the last one is for the number -1."""
        known = self._live.label_set
        if known.labels is self.labels:  # none is declared without examples
            return known.columns
        return np.append(self.labels.find(known.labels), -1)[known.columns]

    def read(self, contexts: Contexts) -> tuple[NDArray[np.int64], sparse.csr_array, NDArray[np.int64]]:
        """Return which row each site of each context reads, the matrix, and where each site's rows start.

        Shapes
        ------
        returned : (m, S), (S * m, L), (S + 1,)
        """
        plain = self._reader.plain_rows(len(contexts))
        if plain is not None:
            found = plain.read(contexts)
            self._reader.work += found[1].nnz
            return found
        m, n_sites = len(contexts), len(self._live.store.steps.of_sites)
        lengths, numbers, counts = self._live.version.read(self._live.token_numbers(contexts))
        self.n_read += len(numbers)
        starts = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
        by_context = sparse.csr_array(
            (counts.astype(np.float64), self.columns[numbers], starts), shape=(m * n_sites, len(self.labels))
        )
        order = np.arange(m * n_sites).reshape(m, n_sites)
        by_site = by_context[order.T.ravel()]
        by_site.sort_indices()
        rows = np.where(lengths.reshape(m, n_sites) > 0, np.arange(m)[:, None] + m * np.arange(n_sites), -1)
        return rows, by_site, m * np.arange(n_sites + 1)

    def entries(self, contexts: Contexts) -> Entries:
        """Return the entries of the rows that each site of each context reads."""
        plain = self._reader.plain_rows(len(contexts))
        if plain is not None:
            return plain.entries(contexts)
        lengths, numbers, counts = self._live.version.read(self._live.token_numbers(contexts))
        self.n_read += len(numbers)
        return Entries(lengths.astype(np.int64), self.columns[numbers], counts.astype(np.int64))

    def site_counts(self, contexts: Contexts) -> NDArray[np.float64]:
        """Return the row of counts that each site of each context reads, zeros where it reads none: (m, S, L)."""
        plain = self._reader.plain_rows(len(contexts))
        if plain is not None:
            return plain.site_counts(contexts)
        m, n_sites = len(contexts), len(self._live.store.steps.of_sites)
        _, counts, _ = self.read(contexts)
        return np.asarray(counts.toarray().reshape(n_sites, m, len(self.labels)).transpose(1, 0, 2))


class LiveCounts(VersionReader):
    """Answers from one version of a live table.

    Parameters
    ----------
    stored : Sum
        In memory; of tables a live one is made when enough was asked.
    declared : Vocabulary
        Labels that are candidates also without examples.
    """

    name_in_files = "SparseCounts"

    def __init__(self, stored: Sum, declared: Vocabulary) -> None:
        self._source = stored
        self.declared = declared
        self.sites = stored.sites
        self.work = 0
        """What the questions to the plain table have cost, counted in entries."""
        self._plain: SparseRows | None = None

    @property
    def live(self) -> Live:
        """The live table."""
        if not self._source.is_live:
            _ = self._source.live
            self._source = self._source.kept_once()
            self._plain = None  # it would keep the plain table
        return self._source.live

    @property
    def n_examples(self) -> int:
        """How many examples are stored."""
        return self._source.n_examples

    def answers_plainly(self, n_contexts: int) -> bool:
        """Return whether there is no live table yet, and so many contexts more do not pay for one."""
        source = self._source
        return not source.has_live and self.work + self._cost(n_contexts) <= source.n_entries

    def _cost(self, n_contexts: int) -> int:
        return _CALL + n_contexts * (_SITE * len(self.sites.positions) + len(self.labels) // _LABELS)

    def plain_rows(self, n_contexts: int) -> SparseRows | None:
        """Return the rows of the plain table, to answer so many contexts from; None where the live table is to."""
        if not self.answers_plainly(n_contexts):
            return None
        self.work += self._cost(n_contexts)
        plain = self._plain
        if plain is None:
            plain = self._plain = SparseRows(partial(getattr, self._source, "total"), self.labels, on_disk=True)
        return plain

    @cached_property
    def rows(self) -> LiveRows:
        """The rows that contexts read."""
        return LiveRows(self)

    @property
    def table(self) -> CountTable:
        """The canonical table."""
        return self._source.total

    def __getstate__(self) -> dict[str, Any]:
        return {"live": self.table, "declared": self.declared, "free": self.free}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(Sum.of(state["live"]), state["declared"])  # type: ignore[misc]
        self.free = state["free"]

    @cached_property
    def labels(self) -> Vocabulary:  # type: ignore[override]
        """Observed and declared labels, in canonical order."""
        return self._source.labels.union(self.declared)

    @property
    def observed(self) -> LabelCounts:
        """The labels that have examples, and how many."""
        return self._source.label_counts

    def winners(
        self, contexts: Contexts, weights: NDArray[np.float64], divisor: NDArray[np.float64]
    ) -> NDArray[np.int64]:
        """Return the column of the highest score over `divisor` of each context, the first one among equals."""
        if self.answers_plainly(len(contexts)):
            return super().winners(contexts, weights, divisor)
        if is_one_number(divisor):
            return self._leading(contexts, weights, float(divisor[0]), 1)[:, 0]
        rule = mean_rule(weights, divisor, self.label_counts)
        if rule is None:
            return super().winners(contexts, weights, divisor)
        return self.leading_by_ratio(contexts, rule, 1)[0][:, 0]

    def leaders(
        self, contexts: Contexts, weights: NDArray[np.float64], divisor: NDArray[np.float64], k: int
    ) -> NDArray[np.int64]:
        """Return the columns of the k highest scores over `divisor`, best first, equals in column order."""
        k = min(k, len(self.labels))
        if not k or 8 * k > len(self.labels) or self.answers_plainly(len(contexts)):  # nearly all: scores are as fast
            return super().leaders(contexts, weights, divisor, k)
        if is_one_number(divisor):
            return self._leading(contexts, weights, float(divisor[0]), k)
        rule = mean_rule(weights, divisor, self.label_counts)
        if rule is None:
            return super().leaders(contexts, weights, divisor, k)
        return self.leading_by_ratio(contexts, rule, k)[0]

    def _leading(
        self, contexts: Contexts, weights: NDArray[np.float64], divisor: float, k: int, **options: int
    ) -> NDArray[np.int64]:
        numbers = np.empty((len(contexts), k), np.int64)
        for part in row_pieces(len(contexts), max(k, len(self.sites.positions))):
            tokens = self.live.token_numbers(contexts[part])
            self.live.version.leaders(weights, divisor, tokens, numbers[part], **options)
        return self._columns_of(numbers)

    def leading_by_ratio(
        self, contexts: Contexts, rule: LiveRule, k: int
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Return the columns of the k leading labels by a rule, and whether each answer is sure.

        Shapes
        ------
        returned : (m, k), (m,)
        """
        numbers, sure = np.empty((len(contexts), k), np.int64), np.empty(len(contexts), bool)
        for part in row_pieces(len(contexts), max(k, len(self.sites.positions))):
            tokens = self.live.token_numbers(contexts[part])
            self.live.version.ratio_leaders(rule, len(self.labels), tokens, numbers[part], sure[part])
        return self._columns_of(numbers), sure

    def _columns_of(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        columns = self.rows.columns[numbers]
        short = np.flatnonzero(numbers[:, -1] < 0)  # fewer labels have a count: the rest is in column order
        if len(short):
            columns[short] = _filled(columns[short], numbers[short] >= 0)
        return columns

    def single(
        self, weights: NDArray[np.float64], divisor: NDArray[np.float64]
    ) -> Callable[[Sequence[Any]], int] | None:
        """Return a fast way to answer one context with these weights."""
        compiled = native()
        assert compiled is not None
        if not is_one_number(divisor):
            rule = mean_rule(weights, divisor, self.label_counts)
            return None if rule is None else self.single_by_ratio(rule)
        return self._single(compiled.LiveSingle(self.live.version, weights, float(divisor[0])))

    def single_by_ratio(self, rule: LiveRule) -> Callable[[Sequence[Any]], int]:
        """Return a fast way to answer one context by a rule."""
        return self._single(partial(self.live.version.ratio_winner, rule, len(self.labels)))

    def _single(self, winner: Callable[[list[int]], int]) -> Callable[[Sequence[Any]], int]:
        """Return a function from tokens to a column; `winner` gives a number, -1 for no label and -2 if not sure."""
        number, column, h = self.live.store.tokens.get, self.rows.columns.item, self.sites.h

        def answer(tokens: Sequence[Any]) -> int:
            if isinstance(tokens, str) or len(tokens) != h:
                return -1  # what asks for the batch of it says what is wrong
            label = winner(list(map(number, tokens)))
            return column(label) if label >= 0 else (0 if label == -1 else -1)  # no label has a count: the first

        return answer

    def make_ranker(self, rule: RowRule) -> LiveRanker:
        """Return what applies a rule to the rows that are read or, where that is less work, to all."""
        return LiveRanker(self, rule)

    def with_shared_weights(
        self, smoothing: tuple[float, ...], weights: NDArray[np.float64], rule: Callable[[], RowRule]
    ) -> Ranker:
        """Return what ranks by a rule whose weights all labels share: from the top of the rows."""
        if not has_rule(weights):
            return self.with_rule(rule())
        return RatioRanker(self, smoothing, weights, lambda: self.with_rule(rule()))

    def seen(self, tokens: Vocabulary) -> NDArray[np.int8]:
        """Return for each token whether a stored example holds it at a compared position: 1 or 0."""
        if self.answers_plainly(0):
            return (self.table.vocabulary.find(tokens) >= 0).astype(np.int8)  # it holds the tokens that occur
        numbers = self.live.store.tokens.find(tokens)
        return np.array([number >= 0 and self.live.version.holds(number) for number in numbers.tolist()], np.int8)

    def tensors(self) -> dict[str, NDArray[Any]]:
        """Return the canonical arrays, the vocabulary left out: what prediction needs is made of them."""
        arrays = self.table.arrays_for(self.labels)
        return {name: array for name, array in arrays.items() if not name.startswith("vocabulary.")}

    @classmethod
    def restored(
        cls,
        frame: Frame,
        stored: StoredArrays,
        description: dict[str, Any],
        key: bytes | None = None,  # noqa: ARG003
    ) -> LiveCounts:
        """Return the compiled form with these arrays, checked: undo `stored`."""
        table = restored_table(frame, stored, description)
        reader = cls(Sum.of(table.without_idle_labels()), frame.labels.keep(frame.label_counts == 0))
        reader.free = restored_free(cls, frame.sites, stored)
        return reader


class LiveRanker(SparseRanker):
    """A rule applied to the rows that each batch reads or, once about all was read, to the whole table."""

    def __init__(self, reader: LiveCounts, rule: RowRule) -> None:
        super().__init__(reader.rows, rule)
        self._reader = reader
        self._whole: SparseRanker | None = None

    def scores(self, contexts: Contexts) -> NDArray[np.float64]:
        """Return the rule's score of each context and label."""
        whole = self._whole
        if whole is None:
            n_sites = len(self._reader.sites.positions)
            if self._reader.rows.n_read < self._reader.n_examples * n_sites:  # the table has no more entries
                return super().scores(contexts)
            table = partial(getattr, self._reader, "table")
            whole = self._whole = SparseRanker(SparseRows(table, self._reader.labels, on_disk=False), self._rule)
        return whole.scores(contexts)


class RatioRanker(Ranker):
    """Ranks by the log-linear rule with weights that all labels share.

    Parameters
    ----------
    reader : LiveCounts
    smoothing : tuple of J floats
    weights : ndarray of shape (S, J)
        Such as `has_rule` allows.
    plain : callable
        Makes what gives the scores of all labels.
    """

    def __init__(
        self,
        reader: LiveCounts,
        smoothing: tuple[float, ...],
        weights: NDArray[np.float64],
        plain: Callable[[], Ranker],
    ) -> None:
        super().__init__(len(reader.labels), len(reader.labels))
        self._reader = reader
        self._smoothing = smoothing
        self._weights = weights
        self._make_plain = plain

    @cached_property
    def rule(self) -> LiveRule:
        """The compiled rule, which the versions of a table share."""
        live = self._reader.live
        return live.store.rule_for(self._smoothing, self._weights, live.version.examples + self.n_labels / 2)

    @cached_property
    def _plain(self) -> Ranker:
        return self._make_plain()

    def scores(self, contexts: Contexts) -> NDArray[Any]:
        """Return the rule's score of each context and label."""
        return self._plain.scores(contexts)

    def site_scores(self, contexts: Contexts, columns: NDArray[np.int64]) -> SiteScores:
        """Return what each site adds to the scores of the labels in these columns."""
        return self._plain.site_scores(contexts, columns)

    def winners(self, contexts: Contexts) -> NDArray[np.int64]:
        """Return the column of the highest score of each context, the first one among equals."""
        if self._reader.answers_plainly(len(contexts)):
            return self._plain.winners(contexts)
        columns, sure = self._reader.leading_by_ratio(contexts, self.rule, 1)
        unsure = np.flatnonzero(~sure)
        if len(unsure):
            columns[unsure, 0] = self._plain.winners(contexts[unsure])
        return columns[:, 0]

    def leaders(self, contexts: Contexts, k: int) -> NDArray[np.int64]:
        """Return the columns of the k highest scores of each context, best first, equals in column order."""
        k = min(k, self.n_labels)
        if not k or 8 * k > self.n_labels or self._reader.answers_plainly(len(contexts)):  # nearly all: as fast
            return self._plain.leaders(contexts, k)
        columns, sure = self._reader.leading_by_ratio(contexts, self.rule, k)
        unsure = np.flatnonzero(~sure)
        if len(unsure):
            columns[unsure] = self._plain.leaders(contexts[unsure], k)
        return columns

    def single(self) -> Callable[[Sequence[Any]], int] | None:
        """Return a fast way to answer one context."""
        return self._reader.single_by_ratio(self.rule)


def is_one_number(divisor: NDArray[np.float64]) -> bool:
    """Return whether a divisor is the same number for all labels, and is known to be."""
    return len(divisor) > 0 and divisor.strides == (0,)


def _filled(columns: NDArray[np.int64], found: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return rows whose first columns were found, and the others replaced by the lowest that are not among those.

    Shapes
    ------
    columns, found, returned : (m, k)
    """
    k = columns.shape[1]
    taken = np.zeros((len(columns), k), bool)
    rows, places = np.nonzero(found & (columns < k))
    taken[rows, columns[rows, places]] = True
    free_first = np.argsort(taken, axis=1, kind="stable")
    places = np.maximum(np.arange(k) - found.sum(axis=1)[:, None], 0)
    return np.where(found, columns, np.take_along_axis(free_first, places, axis=1))
