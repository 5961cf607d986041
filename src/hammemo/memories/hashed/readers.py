r"""What answers queries for a hashed memory: fixed-point rows, gathered, added and compared.

A bucket's count is centred (see :mod:`hammemo.memories.hashed.memory`) and rounded to quarters of a count, once, when
the tables are made. From there on everything is a sum of whole numbers: exact in any order, in any width that does not
overflow, so the compiled loops and NumPy give the same scores to the bit. The same holds for the values of a rule
(:mod:`hammemo.memories.row_rules`), which is applied to the raw counts. With site weights that are no whole numbers the
rows are floats, multiplied once and added site by site in the same order by both.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from hammemo._arrays.integers import narrow, object_array
from hammemo._arrays.native import native
from hammemo.memories.base import secret_digest
from hammemo.memories.bounds import proven_in_batches
from hammemo.memories.contributions import SiteScores
from hammemo.memories.hashed.layout import RowLayout, one_if_equal, per_site, site_groups, stored_reserved
from hammemo.memories.hashed.ruled import RuledTables
from hammemo.tokens.contexts import MAX_EXAMPLES, Contexts
from hammemo.tokens.hashing import token_hashes
from hammemo.tokens.labels import top_columns

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from hammemo._arrays.checked import StoredArrays
    from hammemo.memories.base import Frame
    from hammemo.memories.row_rules import RowRule
    from hammemo.tokens.vocabulary import Vocabulary

FRACTION_BITS = 2
"""Scores are whole multiples of 2^-FRACTION_BITS counts."""

_ROUNDING = 1e-12
_FEW = 64  # contexts that are answered by NumPy before compiled tables are made
_MOST_KNOWN = 2**18  # strings whose hashes are kept for single queries


class HashedTables:
    """The rows of every site, read-only.

    Parameters
    ----------
    layout : RowLayout
    counts : list of ndarray of shape (rows of the site, L)
        Raw counts: upper bounds in buckets, exact in rows of one's own.
    labels : Vocabulary
    label_counts : ndarray of shape (L,)
    """

    def __init__(
        self,
        layout: RowLayout,
        counts: list[NDArray[Any]],
        labels: Vocabulary,
        label_counts: NDArray[np.int64],
    ) -> None:
        self.labels = labels
        self.label_counts = label_counts
        self.row_width = 2 * len(labels)
        self.threads = 1
        self._layout = layout
        self._counts = counts
        self._known: dict[str, int] = {}
        self._asked = 0
        self._compiled: dict[str, tuple[bytes, Any]] = {}
        self._ruled: tuple[bytes, RuledTables] | None = None

    def scores(self, contexts: Contexts, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the weighted sum over sites of the centred counts."""
        table = self._table_for(contexts, weights, None)
        if table is None:
            return self.plain_scores(contexts, weights)
        out = np.empty((len(contexts), len(self.labels)))
        table.scores(*self._layout.source(contexts), out, self.threads)
        return out

    def winners(
        self, contexts: Contexts, weights: NDArray[np.float64], divisor: NDArray[np.float64]
    ) -> NDArray[np.int64]:
        """Return the column of the highest score of each context, the first one among equals."""
        table = self._table_for(contexts, weights, divisor)
        if table is None:
            return np.asarray((self.plain_scores(contexts, weights) / divisor).argmax(axis=1))
        out = np.empty(len(contexts), np.int32)
        table.winners(*self._layout.source(contexts), out, self.threads)
        return out.astype(np.int64)

    def leaders(
        self, contexts: Contexts, weights: NDArray[np.float64], divisor: NDArray[np.float64], k: int
    ) -> NDArray[np.int64]:
        """Return the columns of the k highest scores of each context, best first, equals in column order."""
        table = self._table_for(contexts, weights, divisor)
        if table is None:
            return top_columns(self.plain_scores(contexts, weights) / divisor, k)
        out = np.empty((len(contexts), min(k, len(self.labels))), np.int32)
        table.leaders(*self._layout.source(contexts), out, self.threads)
        return out.astype(np.int64)

    def single(
        self, weights: NDArray[np.float64], divisor: NDArray[np.float64]
    ) -> Callable[[Sequence[Any]], int] | None:
        """Return a function from one context of integers and strings to its winner, or -1: then ask `winners`."""
        table = self._table(weights, divisor)
        if table is None:
            return None
        return self.one_by_one(table)

    def one_by_one(self, table: Any) -> Callable[[Sequence[Any]], int]:
        """Return a function from one context to the winner in a compiled table."""
        one, known = table.one, self._known

        def winner(tokens: Sequence[Any]) -> int:
            column: int = one(tokens, known)
            if column < 0 and all(type(token) in (int, str) for token in tokens):
                if len(known) > _MOST_KNOWN:
                    known.clear()
                new = [token for token in tokens if type(token) is str and token not in known]
                known.update(zip(new, token_hashes(new, self._layout.seed, self._layout.key).tolist(), strict=True))
                column = one(tokens, known)
            return column

        return winner

    def site_counts(self, contexts: Contexts) -> NDArray[np.float64]:
        """Return the row of raw counts that each site of each context reads, zeros where it reads none: (m, S, L)."""
        rows = self._layout.rows(contexts)
        read = np.zeros((*rows.shape, len(self.labels)))
        for k, (counts, row) in enumerate(zip(self._counts, rows.T, strict=True)):
            read[row >= 0, k] = counts[row[row >= 0]]
        return read

    def site_count_bounds(self, contexts: Contexts) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return what the exact counts are at least, and at most: rows of one's own are exact, buckets start at zero.

        Shapes
        ------
        returned : (m, S, L), (m, S, L)
        """
        high, rows = self.site_counts(contexts), self._layout.rows(contexts)
        n_own = np.array([len(self._layout.own(k)) for k in range(rows.shape[1])])
        return np.where((rows < n_own)[:, :, None], high, 0.0), high

    def site_scores(self, contexts: Contexts, weights: NDArray[np.float64], columns: NDArray[np.int64]) -> SiteScores:
        """Return what each site adds to the scores of the labels in these columns, with hard bounds."""
        rows = self._layout.rows(contexts)
        values = np.zeros((*rows.shape, len(columns)))
        for k, row in enumerate(rows.T):
            values[row >= 0, k] = self._centred_rows(k, row[row >= 0])[:, columns] / 2**FRACTION_BITS
        low, high = self.site_count_bounds(contexts)
        scale = weights[:, None]
        return SiteScores(scale * values, scale * low[:, :, columns], scale * high[:, :, columns])

    def seen(self, tokens: Vocabulary) -> NDArray[np.int8]:
        """Return for each token whether a stored example holds it at a compared position: 1, 0, or -1.

        A row of one's own that has counts proves that it was, empty rows at every compared position that it was not.
        Positions that are compared as part of a tuple only leave it open.
        """
        sites = self._layout.sites
        single = [k for k, site in enumerate(sites.positions) if len(site) == 1]
        if not len(tokens) or not single:
            return np.full(len(tokens), -1, np.int8)
        everywhere = Contexts(np.repeat(object_array(tokens)[:, None], sites.h, axis=1))
        low, high = (part[:, single].any(axis=(1, 2)) for part in self.site_count_bounds(everywhere))
        compared = {r for site in sites.positions for r in site}
        covered = compared == {sites.positions[k][0] for k in single}
        return np.where(low, 1, np.where(high | (not covered), -1, 0)).astype(np.int8)

    def with_rule(self, rule: RowRule) -> RuledTables:
        """Return what answers with the scores of this rule; made once for the rule that was asked for last."""
        if self._ruled is None or self._ruled[0] != rule.signature:
            self._ruled = (rule.signature, RuledTables(self, rule, self._layout, self._counts))
        return self._ruled[1]

    def plain_scores(self, contexts: Contexts, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the scores by NumPy alone: what the compiled loops are tested against."""
        totals: NDArray[np.float64] = np.zeros((len(contexts), len(self.labels)))
        for k, (row, weight) in enumerate(zip(self._layout.rows(contexts).T, weights, strict=True)):
            held = row >= 0
            totals[held] += weight * self._centred_rows(k, row[held])
        return np.asarray(totals / 2**FRACTION_BITS)

    def _centred_rows(self, k: int, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return fixed-point rows of site k, only those that are asked for."""
        if "_centred" in vars(self):
            return self._centred[k][rows]
        counts = self._counts[k][rows].astype(np.int64)
        n_own = len(self._layout.own(k))
        values = counts << FRACTION_BITS
        shared = rows >= n_own
        values[shared] = centred_counts(counts[shared], self._shared_sums[k], self._layout.buckets[k])
        return values

    @cached_property
    def _shared_sums(self) -> list[NDArray[np.int64]]:
        """The sum of each site's buckets, label by label."""
        return [counts[len(self._layout.own(k)) :].sum(axis=0, dtype=np.int64) for k, counts in enumerate(self._counts)]

    def bounds(
        self, contexts: Contexts, weights: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return what the exact weighted counts are at least, and at most."""
        lower, upper = self._bound_tables(weights, None)
        if lower is None or upper is None:
            low, high = self.plain_bounds(contexts, weights)
        else:
            low, high = np.empty((2, len(contexts), len(self.labels)))
            source = self._layout.source(contexts)
            lower.scores(*source, low, self.threads)
            upper.scores(*source, high, self.threads)
        if not _whole(weights):  # the exact classifier may add its rounded terms in another order
            low, high = low * (1 - _ROUNDING), high * (1 + _ROUNDING)
        return low, high

    def proven(
        self,
        contexts: Contexts,
        weights: NDArray[np.float64],
        divisor: NDArray[np.float64],
        answers: NDArray[np.int64],
    ) -> NDArray[np.bool_]:
        """Return for each context whether the column `answers` must be the exact winner."""
        lower, upper = self._bound_tables(weights, divisor)
        if lower is None or upper is None or not _whole(weights):
            return proven_in_batches(self, contexts, weights, divisor, answers)
        out = np.empty(len(contexts), np.uint8)
        lower.prove(upper, *self._layout.source(contexts), answers.astype(np.int32), out, self.threads)
        return out.astype(bool)

    def plain_bounds(
        self, contexts: Contexts, weights: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the weighted counts of rows of one's own alone, and of all rows, by NumPy."""
        low = np.zeros((len(contexts), len(self.labels)))
        high = np.zeros_like(low)
        sites = zip(self._counts, self._layout.rows(contexts).T, weights, strict=True)
        for k, (counts, row, weight) in enumerate(sites):
            held = row >= 0
            high[held] += weight * counts[row[held]]
            own = held & (row < len(self._layout.own(k)))
            low[own] += weight * counts[row[own]]
        return low, high

    def tensors(self) -> dict[str, NDArray[Any]]:
        """Return the arrays that prediction needs."""
        tables = {f"rows.{k}": _narrow_signed(table) for k, table in enumerate(self._centred)}
        reserved = {f"reserved.{group}": words for group, words in enumerate(self._layout.reserved)}
        return {**tables, **{name: words for name, words in reserved.items() if len(words)}}

    def stored(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Return what `restored` needs: the counts, and the layout without its secret."""
        layout = self._layout
        tables = {f"counts.{k}": narrow(counts) for k, counts in enumerate(self._counts)}
        reserved = {f"reserved.{group}": words for group, words in enumerate(layout.reserved)}
        return {**tables, **reserved}, {
            "buckets": one_if_equal(layout.buckets),
            "seed": layout.seed,
            "key": secret_digest(layout.key),
        }

    @classmethod
    def restored(
        cls, frame: Frame, stored: StoredArrays, description: dict[str, Any], key: bytes | None = None
    ) -> HashedTables:
        """Return the compiled form with these arrays, checked: undo `stored`."""
        buckets: Any = description.get("buckets")
        seed = description.get("seed")
        if set(description) != {"buckets", "seed", "key"} or type(seed) is not int:
            raise ValueError("the hashed tables are not described by buckets, seed and key")
        if any(type(n) is not int or not 1 <= n < 2**31 for n in (buckets if type(buckets) is list else [buckets])):
            raise ValueError("the buckets of the hashed tables are not one positive number, or one a site")
        groups = site_groups(frame.sites)
        numbers = per_site(buckets, len(groups))
        reserved = stored_reserved(stored, [2**31] * (max(groups) + 1))
        counts = [
            stored.whole_numbers(f"counts.{k}", (len(reserved[group]) + n, len(frame.labels)), below=MAX_EXAMPLES)
            for k, (group, n) in enumerate(zip(groups, numbers, strict=True))
        ]
        layout = RowLayout(frame.sites, seed, key if description["key"] else None, buckets, reserved)
        return cls(layout, counts, frame.labels, frame.label_counts)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_compiled": {}, "_ruled": None}  # made again when needed

    @cached_property
    def _centred(self) -> list[NDArray[np.int64]]:
        return [centred(counts, len(self._layout.own(k))) for k, counts in enumerate(self._counts)]

    def _table_for(self, contexts: Contexts, weights: NDArray[np.float64], divisor: NDArray[np.float64] | None) -> Any:
        """Return `_table`, or None while too little was asked to make one: a model may change after each query."""
        if "scores" not in self._compiled:
            self._asked += len(contexts)
            if self._asked <= _FEW:
                return None
        return self._table(weights, divisor)

    def _table(self, weights: NDArray[np.float64], divisor: NDArray[np.float64] | None) -> Any:
        """Return the compiled table for these weights, or None: there are no compiled loops, or they would overflow."""
        divisor = _needed(divisor, weights)
        signature = _signature(weights, divisor)
        if self._compiled.get("scores", (None,))[0] != signature:  # one at a time: they are large
            table = self._make_table(self._centred, weights, divisor, 2.0**-FRACTION_BITS)
            self._compiled["scores"] = (signature, table)
        return self._compiled["scores"][1]

    def _bound_tables(self, weights: NDArray[np.float64], divisor: NDArray[np.float64] | None) -> tuple[Any, Any]:
        """Return compiled tables of the counts in rows of one's own alone, and of all counts; None as `_table` does."""
        divisor = _needed(divisor, weights)
        signature = _signature(weights, divisor)
        if self._compiled.get("bounds", (None,))[0] != signature:
            upper = [counts.astype(np.int64) for counts in self._counts]
            lower = [counts.copy() for counts in upper]
            for k, counts in enumerate(lower):
                counts[len(self._layout.own(k)) :] = 0
            tables = tuple(self._make_table(part, weights, divisor, 1.0) for part in (lower, upper))
            self._compiled["bounds"] = (signature, tables)
        pair: tuple[Any, Any] = self._compiled["bounds"][1]
        return pair

    def _make_table(
        self,
        tables: list[NDArray[np.int64]],
        weights: NDArray[np.float64],
        divisor: NDArray[np.float64] | None,
        scale: float,
    ) -> Any:
        loops = native()
        if loops is None or self._layout.compiled is None or not len(self.labels):
            return None
        if _whole(weights):
            if any(_largest(table) * weight >= 2**31 for weight, table in zip(weights, tables, strict=True)):
                return None  # before a product wraps around
            weights = weights.astype(np.int64)
        rows = [weight * table for weight, table in zip(weights, tables, strict=True)]
        try:
            return loops.Table(self._layout.compiled, np.concatenate(rows), divisor, scale)
        except OverflowError:
            return None


def centred(counts: NDArray[Any], n_reserved: int) -> NDArray[np.int64]:
    """Return fixed-point rows: reserved counts as they are, bucket counts centred and rounded to the nearest."""
    exact = counts.astype(np.int64)
    rows = exact << FRACTION_BITS
    shared = exact[n_reserved:]
    rows[n_reserved:] = centred_counts(shared, shared.sum(axis=0), len(shared))
    return rows


def centred_counts(shared: NDArray[np.int64], sums: NDArray[np.int64], buckets: int) -> NDArray[np.int64]:
    """Return some of a site's bucket rows, centred by the sums over all its buckets, in fixed point."""
    if buckets == 1:  # a single bucket tells nothing of any of its features
        return np.zeros_like(shared)
    doubled = (buckets * shared - sums) << (FRACTION_BITS + 1)
    return np.asarray((doubled + (buckets - 1)) // (2 * (buckets - 1)))


def _needed(divisor: NDArray[np.float64] | None, weights: NDArray[np.float64]) -> NDArray[np.float64] | None:
    """Return the divisor, or None where it changes no comparison: one number for all labels, and whole sums.

    Quotients of other sums may be equal where the sums are not.
    """
    return None if divisor is None or ((divisor == divisor[:1]).all() and _whole(weights)) else divisor


def _signature(weights: NDArray[np.float64], divisor: NDArray[np.float64] | None) -> bytes:
    return weights.tobytes() + (b"" if divisor is None else divisor.tobytes())


def _whole(weights: NDArray[np.float64]) -> bool:
    return bool((weights == np.floor(weights)).all() and weights.max() < 2**20)


def _largest(values: NDArray[np.int64]) -> int:
    return max(int(values.max()), -int(values.min())) if values.size else 0


def _narrow_signed(values: NDArray[np.int64]) -> NDArray[Any]:
    return values.astype(np.min_scalar_type(-max(_largest(values), 1)))
