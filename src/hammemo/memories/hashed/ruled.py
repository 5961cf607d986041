"""What answers by a rule for a hashed memory: the rule applied to every row, once, in fixed point.

Sums of fixed-point values are exact in any order, so the compiled loops and NumPy give the same scores to the bit, as
they do for counts (:mod:`hammemo.memories.hashed.readers`). The rule is applied to raw counts.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from hammemo._arrays.native import native
from hammemo.memories.contributions import SiteScores
from hammemo.tokens.labels import top_columns
from hammemo.tokens.vocabulary import NO_TOKEN

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from hammemo.memories.hashed.layout import RowLayout
    from hammemo.memories.hashed.readers import HashedTables
    from hammemo.memories.row_rules import RowRule
    from hammemo.tokens.contexts import Contexts

RULE_BITS = 12
"""Scores of a rule are whole multiples of 2^-RULE_BITS."""


class RuledTables:
    """A rule applied to every row of the tables and rounded to fixed point, once.

    The score where no site says anything is part of the first site's rows; the compiled loops cannot add it to a
    context whose first site is empty, so NumPy answers those.
    """

    def __init__(self, tables: HashedTables, rule: RowRule, layout: RowLayout, counts: list[NDArray[Any]]) -> None:
        self._tables = tables
        self._rule = rule
        self._layout = layout
        self._rows = [_fixed(rule.rows(site, part)) for site, part in enumerate(counts)]
        self._base = _fixed(rule.base)

    @cached_property
    def _table(self) -> Any:
        loops = native()
        if loops is None or self._layout.compiled is None or not len(self._base):
            return None
        rows = np.concatenate([self._rows[0] + self._base, *self._rows[1:]]).astype(np.int64)
        try:
            return loops.Table(self._layout.compiled, rows, None, 2.0**-RULE_BITS)
        except OverflowError:
            return None

    def scores(self, contexts: Contexts) -> NDArray[np.float64]:
        """Return the rule's score of each context and label."""
        if self._table is None:
            return self.plain_scores(contexts)
        out = np.empty((len(contexts), len(self._base)))
        self._table.scores(*self._layout.source(contexts), out, self._tables.threads)
        open_ones = self._without_first_site(contexts)
        if len(open_ones):
            out[open_ones] = self.plain_scores(contexts[open_ones])
        return out

    def winners(self, contexts: Contexts) -> NDArray[np.int64]:
        """Return the column of the highest score of each context, the first one among equals."""
        if self._table is None:
            return np.asarray(self.plain_scores(contexts).argmax(axis=1))
        out = np.empty(len(contexts), np.int32)
        self._table.winners(*self._layout.source(contexts), out, self._tables.threads)
        open_ones = self._without_first_site(contexts)
        if len(open_ones):
            out[open_ones] = self.plain_scores(contexts[open_ones]).argmax(axis=1)
        return out.astype(np.int64)

    def leaders(self, contexts: Contexts, k: int) -> NDArray[np.int64]:
        """Return the columns of the k highest scores of each context, best first, equals in column order."""
        if self._table is None:
            return top_columns(self.plain_scores(contexts), k)
        out = np.empty((len(contexts), min(k, len(self._base))), np.int32)
        self._table.leaders(*self._layout.source(contexts), out, self._tables.threads)
        open_ones = self._without_first_site(contexts)
        if len(open_ones):
            out[open_ones] = top_columns(self.plain_scores(contexts[open_ones]), k)
        return out.astype(np.int64)

    def single(self) -> Callable[[Sequence[Any]], int] | None:
        """Return a function from one context of integers and strings to its winner, or -1: then ask `winners`."""
        if self._table is None:
            return None
        find, first_site = self._tables.one_by_one(self._table), self._layout.sites.positions[0]

        def winner(tokens: Sequence[Any]) -> int:
            column = find(tokens)
            return -1 if column >= 0 and any(tokens[r] == NO_TOKEN for r in first_site) else column

        return winner

    def plain_scores(self, contexts: Contexts) -> NDArray[np.float64]:
        """Return the scores by NumPy alone: what the compiled loops are tested against."""
        totals = np.tile(self._base.astype(np.int64), (len(contexts), 1))
        for values, row in zip(self._rows, self._layout.rows(contexts).T, strict=True):
            held = row >= 0
            totals[held] += values[row[held]]
        return np.asarray(totals / 2.0**RULE_BITS)

    def site_scores(self, contexts: Contexts, columns: NDArray[np.int64]) -> SiteScores:
        """Return what each site adds to the scores of the labels in these columns, with hard bounds.

        The bounds are those of the rule's values, rounded as the values are: rounding keeps the order.
        """
        rows = self._layout.rows(contexts)
        values, low, high = np.zeros((3, *rows.shape, len(columns)))
        least, most = self._tables.site_count_bounds(contexts)
        for k, row in enumerate(rows.T):
            held = row >= 0
            values[held, k] = self._rows[k][row[held]][:, columns]
            bounds = self._rule.row_bounds(k, least[held, k], most[held, k])
            known = (least[held, k] == most[held, k]).all(axis=1, keepdims=True)  # no bound is nearer than the value
            low[held, k], high[held, k] = (np.where(known, values[held, k], _fixed(b)[:, columns]) for b in bounds)
        scale = 2.0**RULE_BITS
        return SiteScores(values / scale, low / scale, high / scale, base=self._base[columns] / scale)

    def _without_first_site(self, contexts: Contexts) -> NDArray[np.int64]:
        """Return the contexts whose first site holds no token."""
        tokens, empty = (contexts.ranks, -1) if contexts.integers is None else (contexts.integers, NO_TOKEN)
        if contexts.integers is not None and tokens.dtype.itemsize < 8:
            return np.empty(0, np.int64)  # too narrow for the number that stands for no token
        return np.flatnonzero((tokens[:, list(self._layout.sites.positions[0])] == empty).any(axis=1))


def _fixed(values: NDArray[np.float64]) -> NDArray[np.int32]:
    """Return the values in fixed point; what does not fit in 31 bits is cut, far beyond any sensible weight."""
    return np.clip(np.rint(values * 2.0**RULE_BITS), -(2**30), 2**30).astype(np.int32)
