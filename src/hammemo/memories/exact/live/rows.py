"""Rows of a live table: only the leading labels are looked at, and a new version costs nothing to read.

What needs all scores (scores, probabilities, bounds, explanations) adds up the rows that the contexts read, as with a
plain table.

To make a live table of counts that were learnt in bulk, or read from a file, goes through all of them. So the first few
questions are answered from the plain table, until they have cost as much as that.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from scipy import sparse

from hammemo import _native
from hammemo._arrays.integers import row_pieces
from hammemo._versions import Remembered, cached_property
from hammemo.memories.exact.live.live import has_rule, mean_rule
from hammemo.memories.exact.rows import Entries, Matrix, Rows, SharedWeightRule, TableRows
from hammemo.memories.ranker import CompileBudget, Divisor, is_one_number, single_answer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hammemo._arrays.types import Array, Bools, Floats, Ints
    from hammemo.memories.exact.live.live import Live
    from hammemo.memories.exact.sum import SignedSum
    from hammemo.tokens.contexts import Contexts
    from hammemo.tokens.vocabulary import Vocabulary

ENTRIES_A_CALL: Final = 2**13
"""Entries of a live table that can be made in the time that one batch takes from the plain table; to them come"""
ENTRIES_A_SITE: Final = 16
"""these for each site of a context,"""
_LABELS_AN_ENTRY: Final = 4
"""and one for this number of labels. Each entry that is read counts as one, too."""


class LiveRows(Rows):
    """The rows that contexts read in one version of a live table; of tables it is made when enough was asked.

    Parameters
    ----------
    stored : SignedSum
        In memory.
    labels : Vocabulary
    """

    def __init__(self, stored: SignedSum, labels: Vocabulary) -> None:
        super().__init__(stored, labels)
        self._plain: TableRows | None = None
        self._budget: CompileBudget | None = None
        self._n_read = 0
        """How many entries were read so far."""

    @property
    def live(self) -> Live:
        """The live table."""
        if not self.stored.is_live:
            _ = self.stored.live
            self.stored = self.stored.kept_once()
            self._plain = None  # it would keep the plain table
        return self.stored.live

    def live_table(self) -> Live:
        """Return the live table."""
        return self.live

    def is_plain(self, n_contexts: int) -> bool:
        """Return whether there is no live table yet, and this many contexts more do not pay for one."""
        if self.stored.has_live:
            return False
        budget = self._budget
        if budget is None:
            per_context = ENTRIES_A_SITE * len(self.stored.sites.positions) + len(self.labels) // _LABELS_AN_ENTRY
            budget = self._budget = CompileBudget(ENTRIES_A_CALL, per_context)
        return not budget.pays(n_contexts, self.stored.n_entries)

    def _plain_rows(self, contexts: Contexts) -> TableRows | None:
        """Return the rows of the plain table, to answer contexts from; None where the live table is to."""
        if not self.is_plain(len(contexts)):
            return None
        assert self._budget is not None
        self._budget.spend(len(contexts))
        plain = self._plain
        if plain is None:
            plain = self._plain = TableRows(self.stored, self.labels, by_batch=True)
        return plain

    @cached_property
    def columns(self) -> Ints:
        """The column of each label number; the last one is for the number -1."""
        known = self.live.label_set
        if known.labels is self.labels:  # none is declared without examples
            return known.columns
        return np.append(self.labels.find(known.labels), -1)[known.columns]

    def _read(self, contexts: Contexts) -> tuple[Array, Array, Array]:
        """Return lengths, label numbers and counts of the rows, of the first context first."""
        found = self.live.version.read(self.live.token_numbers(contexts))
        self._n_read += len(found[1])
        return found

    def read(self, contexts: Contexts) -> Matrix:
        """Return the rows that contexts read as those of a sparse matrix."""
        plain = self._plain_rows(contexts)
        if plain is not None:
            found = plain.read(contexts)
            if self._budget is not None:
                self._budget.spent += found[1].nnz
            return found
        return self._live_matrix(contexts)

    def _live_matrix(self, contexts: Contexts) -> Matrix:
        """Return one row for each site of each context, sites first."""
        lengths, numbers, counts = self._read(contexts)
        m, n_sites = len(contexts), len(self.stored.sites.positions)
        starts = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
        by_context = sparse.csr_array(
            (counts.astype(np.float64), self.columns[numbers], starts), shape=(m * n_sites, len(self.labels))
        )
        by_site = by_context[np.arange(m * n_sites).reshape(m, n_sites).T.ravel()]
        by_site.sort_indices()
        rows = np.where(lengths.reshape(m, n_sites) > 0, np.arange(m)[:, None] + m * np.arange(n_sites), -1)
        return rows, by_site, m * np.arange(n_sites + 1)

    def site_counts(self, contexts: Contexts) -> Floats:
        """Return the row of counts that each site of each context reads, zeros where it reads none: (m, S, L)."""
        plain = self._plain_rows(contexts)
        if plain is not None:
            return plain.site_counts(contexts)
        counts, n_sites = self._live_matrix(contexts)[1].toarray(), len(self.stored.sites.positions)
        return np.asarray(counts.reshape(n_sites, len(contexts), len(self.labels)).transpose(1, 0, 2))

    def entries(self, contexts: Contexts) -> Entries:
        """Return the entries of the rows that each site of each context reads."""
        plain = self._plain_rows(contexts)
        if plain is not None:
            return plain.entries(contexts)
        lengths, numbers, counts = self._read(contexts)
        return Entries(lengths.astype(np.int64), self.columns[numbers], counts.astype(np.int64))

    @cached_property
    def whole(self) -> TableRows:
        """The rows of the whole table, in memory."""
        return TableRows(self.stored, self.labels, by_batch=False)

    def for_rules(self) -> Rows:
        """Return the rows that each batch reads or, once about all was read, those of the whole table."""
        has_read_all = self._n_read >= self.stored.n_examples * len(self.stored.sites.positions) > 0
        return self.whole if has_read_all else self  # it has no more entries

    def seen(self, tokens: Vocabulary) -> Bools:
        """Return for each token whether a stored example holds it at a compared position."""
        if self.is_plain(0):
            return TableRows(self.stored, self.labels, by_batch=True).seen(tokens)
        numbers = self.live.store.tokens.find(tokens)
        return np.array([number >= 0 and self.live.version.holds(number) for number in numbers.tolist()], bool)

    def leaders(self, contexts: Contexts, weights: Floats, divisor: Divisor, k: int) -> Ints | None:
        """Return the columns of the k best weighted sums over a divisor, (m, k); None where all scores are as fast."""
        if not self._leads(len(contexts), k):
            return None
        if not is_one_number(divisor):
            rule = self._mean_rule(weights, divisor)
            return None if rule is None else self._rule_columns(contexts, rule, k)[0]
        return self._sum_columns(contexts, weights, float(divisor), k)

    def _sum_columns(self, contexts: Contexts, weights: Floats, divisor: float, k: int, **options: int) -> Ints:
        numbers = np.empty((len(contexts), k), np.int64)
        for part in row_pieces(len(contexts), max(k, len(self.stored.sites.positions))):
            tokens = self.live.token_numbers(contexts[part])
            self.live.version.leaders(weights, divisor, tokens, numbers[part], **options)
        return self._columns_of(numbers)

    def _leads(self, n_contexts: int, k: int) -> bool:
        """Return whether the best labels are found from the top of the rows: for nearly all, scores are as fast."""
        return k > 0 and (k == 1 or 8 * k <= len(self.labels)) and not self.is_plain(n_contexts)

    @cached_property
    def _mean_rule(self) -> Remembered:
        """The rule of means over a divisor, made once for the one that was asked for last."""
        return Remembered(partial(mean_rule, label_counts=self.stored.label_counts.counts_for(self.labels)))

    @cached_property
    def _shared_rule(self) -> Remembered:
        """The compiled rule of shared weights, made once for those that were asked for last; None if there is none."""
        return Remembered(partial(_rule_in, self.live, len(self.labels)))

    def shared_leaders(self, contexts: Contexts, shared: SharedWeightRule, k: int) -> tuple[Ints, Bools] | None:
        """Return the columns of the k best labels by a rule, (m, k), and whether each answer is sure; or None."""
        rule = self._shared_rule(shared) if self._leads(len(contexts), k) else None
        return None if rule is None else self._rule_columns(contexts, rule, k)

    def shared_single(self, shared: SharedWeightRule) -> Callable[[Sequence[Any]], int] | None:
        """Return a fast way from one context to the column of the best label by a rule."""
        rule = self._shared_rule(shared)
        return None if rule is None else self._rule_single(rule)

    def _rule_columns(self, contexts: Contexts, rule: _native.LiveRule, k: int) -> tuple[Ints, Bools]:
        numbers, sure = np.empty((len(contexts), k), np.int64), np.empty(len(contexts), bool)
        for part in row_pieces(len(contexts), max(k, len(self.stored.sites.positions))):
            tokens = self.live.token_numbers(contexts[part])
            self.live.version.ratio_leaders(rule, len(self.labels), tokens, numbers[part], sure[part])
        return self._columns_of(numbers), sure

    def _columns_of(self, numbers: Ints) -> Ints:
        columns = self.columns[numbers]
        short = np.flatnonzero(numbers[:, -1] < 0)  # fewer labels have a count: the rest is in column order
        if len(short):
            columns[short] = _filled(columns[short], numbers[short] >= 0)
        return columns

    def single(self, weights: Floats, divisor: Divisor) -> Callable[[Sequence[Any]], int] | None:
        """Return a fast way from one context to the column of the best weighted sum."""
        if not is_one_number(divisor):
            rule = self._mean_rule(weights, divisor)
            return None if rule is None else self._rule_single(rule)
        return self._single(_native.LiveSingle(self.live.version, weights, float(divisor)))

    def _rule_single(self, rule: _native.LiveRule) -> Callable[[Sequence[Any]], int]:
        return self._single(partial(self.live.version.ratio_winner, rule, len(self.labels)))

    def _single(self, winner: Callable[[list[int]], int]) -> Callable[[Sequence[Any]], int]:
        return single_answer(self.live.store.tokens.get, self.stored.sites.h, winner, self.columns.item)


def _rule_in(live: Live, n_labels: int, shared: SharedWeightRule) -> _native.LiveRule | None:
    """Return a compiled rule, which the versions of a live table share; None where the weights have none."""
    examples = live.version.examples + n_labels / 2
    return live.store.rule_for(*shared, examples) if has_rule(shared.weights) else None


def _filled(columns: Ints, found: Bools) -> Ints:
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
