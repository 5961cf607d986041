"""Rows of a live table: only the leading labels are looked at, and new versions are read at once.

What needs all scores (scores, probabilities, bounds, explanations) adds up the rows that the
contexts read, as with a plain table.

To make a live table of counts that were learned in bulk, or read from a file, goes through all of
them. So the first few questions are answered from the plain table, until they have cost as much as
that.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from scipy import sparse

from hammemo import _native
from hammemo._arrays.integers import row_pieces
from hammemo._versions import Remembered, cached_property
from hammemo.memories.exact.live.rules import has_rule, mean_rule
from hammemo.memories.exact.score_rows import Entries, Matrix, Rows, SharedWeightRule, TableRows
from hammemo.memories.ranker import CompileBudget, Divisor, is_one_number, single_answer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hammemo._arrays.types import Array, Bools, Floats, Ints
    from hammemo.memories.exact.live.live import Live
    from hammemo.memories.exact.sum import SignedSum
    from hammemo.tokens.contexts import Contexts
    from hammemo.tokens.vocabulary import Vocabulary

ENTRIES_A_CALL: Final = 2**13
"""Entries of a live table that can be made in the time that one batch takes from the plain table.

To them come `ENTRIES_A_SITE` for each site of a context, one for every `_LABELS_AN_ENTRY` labels,
and one for each entry that is read."""

ENTRIES_A_SITE: Final = 16
"""See `ENTRIES_A_CALL`."""

_LABELS_AN_ENTRY: Final = 4
"""See `ENTRIES_A_CALL`."""


class LiveEntries(NamedTuple):
    """The entries of rows of a live table, those of the first context first."""

    lengths: Array
    """How many entries each row has."""

    labels: Array
    """The number of each entry's label."""

    counts: Array


class LiveRows(Rows):
    """The rows that contexts read in one version of a live table.

    Of plain tables, the live one is made when enough was asked.

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
            self.stored = self.stored.keep_once()
            self._plain = None  # it would keep the plain table
        return self.stored.live

    def live_table(self) -> Live:
        """Return the live table."""
        return self.live

    def is_plain(self, n_contexts: int) -> bool:
        """Return whether there is no live table yet, and too few contexts to pay for one."""
        if self.stored.has_live:
            return False
        budget = self._budget
        if budget is None:
            for_sites = ENTRIES_A_SITE * len(self.stored.sites.positions)
            for_labels = len(self.labels) // _LABELS_AN_ENTRY
            budget = self._budget = CompileBudget(ENTRIES_A_CALL, for_sites + for_labels)
        return not budget.pays(n_contexts, self.stored.n_entries)

    def _plain_rows(self, contexts: Contexts) -> TableRows | None:
        """Return the rows of the plain table, if contexts are to be answered from it."""
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
        label_set = self.live.label_set
        if label_set.labels is self.labels:  # none is declared without examples
            return label_set.columns
        return np.append(self.labels.find(label_set.labels), -1)[label_set.columns]

    def _read(self, contexts: Contexts) -> LiveEntries:
        """Return the entries of the rows that contexts read."""
        entries = LiveEntries(*self.live.version.read(self.live.token_numbers(contexts)))
        self._n_read += len(entries.labels)
        return entries

    def read(self, contexts: Contexts) -> Matrix:
        """Return the rows that contexts read as those of a sparse matrix."""
        plain = self._plain_rows(contexts)
        if plain is None:
            return self._live_matrix(contexts)
        matrix = plain.read(contexts)
        if self._budget is not None:
            self._budget.spent += matrix.counts.nnz
        return matrix

    def _live_matrix(self, contexts: Contexts) -> Matrix:
        """Return one row for each site of each context, sites first."""
        entries = self._read(contexts)
        m = len(contexts)
        n_sites = len(self.stored.sites.positions)
        starts = np.concatenate([[0], np.cumsum(entries.lengths, dtype=np.int64)])
        by_context = sparse.csr_array(
            (entries.counts.astype(np.float64), self.columns[entries.labels], starts),
            shape=(m * n_sites, len(self.labels)),
        )
        by_site = by_context[np.arange(m * n_sites).reshape(m, n_sites).T.ravel()]
        by_site.sort_indices()
        has_entries = entries.lengths.reshape(m, n_sites) > 0
        rows = np.where(has_entries, np.arange(m)[:, None] + m * np.arange(n_sites), -1)
        return Matrix(rows, by_site, m * np.arange(n_sites + 1))

    def site_counts(self, contexts: Contexts) -> Floats:
        """Return the row of counts that each site of each context reads, else zeros: (m, S, L)."""
        plain = self._plain_rows(contexts)
        if plain is not None:
            return plain.site_counts(contexts)
        counts = self._live_matrix(contexts).counts.toarray()
        n_sites = len(self.stored.sites.positions)
        by_site = counts.reshape(n_sites, len(contexts), len(self.labels))
        return np.asarray(by_site.transpose(1, 0, 2))

    def entries(self, contexts: Contexts) -> Entries:
        """Return the entries of the rows that each site of each context reads."""
        plain = self._plain_rows(contexts)
        if plain is not None:
            return plain.entries(contexts)
        lengths, labels, counts = self._read(contexts)
        return Entries(lengths.astype(np.int64), self.columns[labels], counts.astype(np.int64))

    @cached_property
    def whole(self) -> TableRows:
        """The rows of the whole table, in memory."""
        return TableRows(self.stored, self.labels, by_batch=False)

    def for_rules(self) -> Rows:
        """Return the rows of the whole table once about all was read, else these."""
        # the whole table has no more entries than one for each example and site
        most_entries = self.stored.n_examples * len(self.stored.sites.positions)
        return self.whole if self._n_read >= most_entries > 0 else self

    def has_seen(self, tokens: Vocabulary) -> Bools:
        """Return for each token whether a stored example holds it at a compared position."""
        if self.is_plain(0):
            return TableRows(self.stored, self.labels, by_batch=True).has_seen(tokens)
        numbers = self.live.store.tokens.find(tokens)
        return np.array(
            [number >= 0 and self.live.version.holds(number) for number in numbers.tolist()], bool
        )

    def leaders(self, contexts: Contexts, weights: Floats, divisor: Divisor, k: int) -> Ints | None:
        """Return the columns of the k best weighted sums over a divisor, (m, k).

        None says that all scores are as fast.
        """
        if not self._leads(len(contexts), k):
            return None
        if not is_one_number(divisor):
            rule = self._mean_rule(weights, divisor)
            return None if rule is None else self._columns_by_rule(contexts, rule, k)[0]
        return self._sum_columns(contexts, weights, float(divisor), k)

    def _sum_columns(
        self, contexts: Contexts, weights: Floats, divisor: float, k: int, **options: int
    ) -> Ints:
        """Return the columns of the k best weighted sums over one number."""
        numbers = np.empty((len(contexts), k), np.int64)
        for piece in row_pieces(len(contexts), max(k, len(self.stored.sites.positions))):
            tokens = self.live.token_numbers(contexts[piece])
            self.live.version.leaders(weights, divisor, tokens, numbers[piece], **options)
        return self._columns_of(numbers)

    def _leads(self, n_contexts: int, k: int) -> bool:
        """Return whether the best labels are found from the top of the rows.

        For nearly all labels, scores are as fast.
        """
        return k > 0 and (k == 1 or 8 * k <= len(self.labels)) and not self.is_plain(n_contexts)

    @cached_property
    def _mean_rule(self) -> Remembered:
        """The rule of means over a divisor, made once for the one that was asked for last."""
        label_counts = self.stored.label_counts.counts_for(self.labels)
        return Remembered(partial(mean_rule, label_counts=label_counts))

    @cached_property
    def _shared_rule(self) -> Remembered:
        """The compiled rule of shared weights, made once for those that were asked for last.

        It gives None where there is no compiled rule.
        """
        return Remembered(partial(_rule_in, self.live, len(self.labels)))

    def leaders_by_rule(
        self, contexts: Contexts, shared: SharedWeightRule, k: int
    ) -> tuple[Ints, Bools] | None:
        """Return the columns of the k best labels by a rule, (m, k), and which are sure."""
        rule = self._shared_rule(shared) if self._leads(len(contexts), k) else None
        return None if rule is None else self._columns_by_rule(contexts, rule, k)

    def single_by_rule(self, shared: SharedWeightRule) -> Callable[[Sequence[Any]], int] | None:
        """Return a fast way from one context to the column of the best label by a rule."""
        rule = self._shared_rule(shared)
        return None if rule is None else self._single_of_rule(rule)

    def _columns_by_rule(
        self, contexts: Contexts, rule: _native.LiveRule, k: int
    ) -> tuple[Ints, Bools]:
        """Return the columns of the k best labels by a compiled rule, and which are sure."""
        numbers = np.empty((len(contexts), k), np.int64)
        sure = np.empty(len(contexts), bool)
        for piece in row_pieces(len(contexts), max(k, len(self.stored.sites.positions))):
            self.live.version.ratio_leaders(
                rule=rule,
                n_labels=len(self.labels),
                tokens=self.live.token_numbers(contexts[piece]),
                out=numbers[piece],
                sure=sure[piece],
            )
        return self._columns_of(numbers), sure

    def _columns_of(self, numbers: Ints) -> Ints:
        """Return the columns of the labels that were found, best first; -1 is for none."""
        columns = self.columns[numbers]
        # where fewer labels have a count, the rest is in column order
        short = np.flatnonzero(numbers[:, -1] < 0)
        if len(short):
            columns[short] = _fill_with_lowest(columns[short], numbers[short] >= 0)
        return columns

    def single(self, weights: Floats, divisor: Divisor) -> Callable[[Sequence[Any]], int] | None:
        """Return a fast way from one context to the column of the best weighted sum."""
        if not is_one_number(divisor):
            rule = self._mean_rule(weights, divisor)
            return None if rule is None else self._single_of_rule(rule)
        return self._single(_native.LiveSingle(self.live.version, weights, float(divisor)))

    def _single_of_rule(self, rule: _native.LiveRule) -> Callable[[Sequence[Any]], int]:
        """Return a way from one context to the column of the best label by a compiled rule."""
        return self._single(partial(self.live.version.ratio_winner, rule, len(self.labels)))

    def _single(self, winner: Callable[[list[int]], int]) -> Callable[[Sequence[Any]], int]:
        """Return a way from one context to a column, by what finds the number of a label."""
        number = self.live.store.tokens.get
        return single_answer(number, self.stored.sites.h, winner, self.columns.item)


def _rule_in(live: Live, n_labels: int, shared: SharedWeightRule) -> _native.LiveRule | None:
    """Return a compiled rule, which versions share; None where the weights have none."""
    if not has_rule(shared.weights):
        return None
    examples = live.version.examples + n_labels / 2
    return live.store.rule_for(shared.smoothing, shared.weights, examples)


def _fill_with_lowest(columns: Ints, is_label: Bools) -> Ints:
    """Replace columns that are no label's by the lowest ones that their row does not have.

    In each row, labels come first.

    Shapes
    ------
    columns, is_label, returned : (m, k)
    """
    k = columns.shape[1]
    in_row = np.zeros((len(columns), k), bool)
    rows, places = np.nonzero(is_label & (columns < k))
    in_row[rows, columns[rows, places]] = True
    lowest_first = np.argsort(in_row, axis=1, kind="stable")
    places = np.maximum(np.arange(k) - is_label.sum(axis=1)[:, None], 0)
    return np.where(is_label, columns, np.take_along_axis(lowest_first, places, axis=1))
