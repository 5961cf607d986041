"""Ranking by a rule (:mod:`hammemo.memories.row_rules`) from the rows of a hashed memory, in fixed point."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hammemo._arrays.integers import row_pieces
from hammemo._versions import cached_property
from hammemo.memories.contributions import SiteScores
from hammemo.memories.hashed.native_table import NativeTable
from hammemo.memories.hashed.raw_rows import RawRows, TableBudget
from hammemo.memories.ranker import Ranker
from hammemo.tokens.labels import top_columns

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from hammemo.memories.row_rules import RowRule
    from hammemo.tokens.contexts import Contexts

RULE_BITS = 12
"""Scores of a rule are whole multiples of 2^-RULE_BITS."""


class FixedRows(NamedTuple):
    """All rows of each site as whole numbers, what one is worth in a score, and the score that no row adds to."""

    rows: list[NDArray[Any]]
    step: float
    base: NDArray[Any] | None


def rule_rows(raw: RawRows, rule: RowRule) -> FixedRows:
    """Return the values of a rule for all rows."""
    rows: list[NDArray[Any]] = [_fixed(rule.rows(site, part)) for site, part in enumerate(raw.counts)]
    return FixedRows(rows, 2.0**-RULE_BITS, _fixed(rule.base))


class HashedRanker(Ranker):
    """A rule applied to rows of raw counts and rounded to fixed point.

    Every edit changes the labels' shares, and with them the values of every row, so no table of one version can become
    that of the next: until a table is worth its making, the rule is applied to the rows that are read.
    """

    def __init__(self, raw: RawRows, rule: RowRule, threads: int = 1) -> None:
        n_sites, n_labels = len(rule.weights), len(rule.prior)
        super().__init__(n_labels, 2 * n_labels)
        self._raw = raw
        self._rule = rule
        self._threads = threads
        self._width = (4 * len(rule.smoothing) + 4) * n_sites * n_labels  # numbers that a context needs on the way
        self._base = _fixed(rule.base)
        self._budget = TableBudget(raw.layout, n_labels)

    @cached_property
    def _table(self) -> NativeTable:
        """All rows, compiled."""
        rows, step, base = rule_rows(self._raw, self._rule)
        return NativeTable(self._raw.layout, rows, np.ones(len(rows)), step, base=base, threads=self._threads)

    def _table_if_worth(self, contexts: Contexts) -> NativeTable | None:
        if "_table" not in vars(self) and not self._budget.is_spent(len(contexts)):
            return None
        return self._table

    def scores(self, contexts: Contexts) -> NDArray[np.float64]:
        """Return the rule's score of each context and label."""
        table = self._table_if_worth(contexts)
        return self._row_scores(contexts) if table is None else table.scores(contexts)

    def plain_scores(self, contexts: Contexts) -> NDArray[np.float64]:
        """Return the scores by NumPy alone: what the compiled loops are tested against."""
        return self._sums(self._values(self._raw.layout.rows(contexts)))

    def _row_scores(self, contexts: Contexts) -> NDArray[np.float64]:
        """Return the scores row by row, in pieces that bound the memory needed."""
        found = self._raw.layout.found
        if len(contexts) == 1:
            return self._sums(self._values(found(contexts)))
        pieces = row_pieces(len(contexts), self._width)
        parts = [self._sums(self._values(found(contexts[piece]))) for piece in pieces]
        return np.concatenate(parts) if parts else np.zeros((0, self.n_labels))

    def _values(self, rows: NDArray[np.int64]) -> NDArray[np.int32]:
        """Return the rule's values of the rows that are read, in fixed point; zero where the row is -1: (m, S, L)."""
        return _fixed(self._rule.values(self._raw.read(rows)))

    def _sums(self, values: NDArray[np.int32]) -> NDArray[np.float64]:
        totals = values.sum(axis=1, dtype=np.int64) + self._base
        return np.asarray(totals * 2.0**-RULE_BITS)

    def winners(self, contexts: Contexts) -> NDArray[np.int64]:
        """Return the column of the highest score of each context, the first one among equals."""
        table = self._table_if_worth(contexts)
        return np.asarray(self._row_scores(contexts).argmax(axis=1)) if table is None else table.winners(contexts)

    def leaders(self, contexts: Contexts, k: int) -> NDArray[np.int64]:
        """Return the columns of the k highest scores of each context, best first, equals in column order."""
        table = self._table_if_worth(contexts)
        return top_columns(self._row_scores(contexts), k) if table is None else table.leaders(contexts, k)

    def single(self) -> Callable[[Sequence[Any]], int] | None:
        """Return a function from one context of integers and strings to its winner, or -1: then ask `winners`."""
        return self._table.single()

    def site_scores(self, contexts: Contexts, columns: NDArray[np.int64]) -> SiteScores:
        """Return what each site adds to the scores of the labels in these columns, with hard bounds.

        The bounds are those of the rule's values, rounded as the values are: rounding keeps the order.
        """
        rows = self._raw.layout.found(contexts)
        values = self._values(rows)[:, :, columns].astype(np.float64)
        low, high = np.zeros((2, *values.shape))
        least, most = self._raw.bounds(contexts)
        for k, row in enumerate(rows.T):
            held = row >= 0
            bounds = self._rule.row_bounds(k, least[held, k], most[held, k])
            known = (least[held, k] == most[held, k]).all(axis=1, keepdims=True)  # no bound is nearer than the value
            low[held, k], high[held, k] = (np.where(known, values[held, k], _fixed(b)[:, columns]) for b in bounds)
        scale = 2.0**RULE_BITS
        return SiteScores(values / scale, low / scale, high / scale, base=self._base[columns] / scale)


def _fixed(values: NDArray[np.float64]) -> NDArray[np.int32]:
    """Return the values in fixed point; what does not fit in 31 bits is cut, far beyond any sensible weight."""
    scaled = np.rint(values * 2.0**RULE_BITS)
    return np.minimum(np.maximum(scaled, -(2**30)), 2**30).astype(np.int32)
