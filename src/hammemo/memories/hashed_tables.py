r"""What answers queries for a hashed memory: fixed-point rows, gathered, added and compared.

A bucket's count is centred (see :mod:`hammemo.memories.hashed`) and rounded to quarters of a count, once, when the
tables are made. From there on everything is a sum of whole numbers: exact in any order, in any width that does not
overflow, so the compiled loops and NumPy give the same scores to the bit. With site weights that are no whole numbers
the rows are floats, multiplied once and added site by site in the same order by both.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from hammemo.hashing import token_hashes
from hammemo.labels import top_columns
from hammemo.loops import native

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from hammemo.contexts import Contexts
    from hammemo.memories.rows import RowLayout
    from hammemo.tokens import Vocabulary

FRACTION_BITS = 2
"""Scores are whole multiples of 2^-FRACTION_BITS counts."""

_ROUNDING = 1e-12
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
        self._compiled: dict[bytes, Any] = {}

    def scores(self, contexts: Contexts, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the weighted sum over sites of the centred counts."""
        table = self._table(weights, None)
        if table is None:
            return self.plain_scores(contexts, weights)
        out = np.empty((len(contexts), len(self.labels)))
        table.scores(*self._layout.source(contexts), out, self.threads)
        return out

    def winners(
        self, contexts: Contexts, weights: NDArray[np.float64], divisor: NDArray[np.float64]
    ) -> NDArray[np.int64]:
        """Return the column of the highest score of each context, the first one among equals."""
        table = self._table(weights, divisor)
        if table is None:
            return np.asarray((self.plain_scores(contexts, weights) / divisor).argmax(axis=1))
        out = np.empty(len(contexts), np.int32)
        table.winners(*self._layout.source(contexts), out, self.threads)
        return out.astype(np.int64)

    def leaders(
        self, contexts: Contexts, weights: NDArray[np.float64], divisor: NDArray[np.float64], k: int
    ) -> NDArray[np.int64]:
        """Return the columns of the k highest scores of each context, best first, equals in column order."""
        table = self._table(weights, divisor)
        if table is None:
            return top_columns(self.plain_scores(contexts, weights) / divisor, k)
        out = np.empty((len(contexts), min(k, len(self.labels))), np.int32)
        table.leaders(*self._layout.source(contexts), out, self.threads)
        return out.astype(np.int64)

    def winner(self, tokens: Sequence[Any], weights: NDArray[np.float64], divisor: NDArray[np.float64]) -> int | None:
        """Return the column of the highest score of one context of integers and strings, or None to ask `winners`."""
        table = self._table(weights, divisor)
        if table is None:
            return None
        column: int = table.one(tokens, self._known)
        if column < 0 and all(type(token) in (int, str) for token in tokens):
            if len(self._known) > _MOST_KNOWN:
                self._known.clear()
            new = [token for token in tokens if type(token) is str and token not in self._known]
            self._known.update(zip(new, token_hashes(new, self._layout.seed, self._layout.key).tolist(), strict=True))
            column = table.one(tokens, self._known)
        return None if column < 0 else column

    def plain_scores(self, contexts: Contexts, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the scores by NumPy alone: what the compiled loops are tested against."""
        totals: NDArray[np.float64] = np.zeros((len(contexts), len(self.labels)))
        for centred, row, weight in zip(self._centred, self._layout.rows(contexts).T, weights, strict=True):
            held = row >= 0
            totals[held] += weight * centred[row[held]]
        return np.asarray(totals / 2**FRACTION_BITS)

    def bounds(
        self, contexts: Contexts, weights: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return what the exact weighted counts are at least, and at most."""
        low = np.zeros((len(contexts), len(self.labels)))
        high = np.zeros_like(low)
        for k, (counts, row, weight) in enumerate(
            zip(self._counts, self._layout.rows(contexts).T, weights, strict=True)
        ):
            held = row >= 0
            high[held] += weight * counts[row[held]]
            own = held & (row < len(self._layout.own(k)))
            low[own] += weight * counts[row[own]]
        if (weights != np.floor(weights)).any():  # the exact classifier may add its rounded terms in another order
            low, high = low * (1 - _ROUNDING), high * (1 + _ROUNDING)
        return low, high

    def tensors(self) -> dict[str, NDArray[Any]]:
        """Return the arrays that prediction needs."""
        tables = {f"rows.{k}": _narrow_signed(table) for k, table in enumerate(self._centred)}
        reserved = {f"reserved.{group}": words for group, words in enumerate(self._layout.reserved)}
        return {**tables, **{name: words for name, words in reserved.items() if len(words)}}

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_compiled": {}}  # made again when needed

    @cached_property
    def _centred(self) -> list[NDArray[np.int64]]:
        return [centred(counts, len(self._layout.own(k))) for k, counts in enumerate(self._counts)]

    def _table(self, weights: NDArray[np.float64], divisor: NDArray[np.float64] | None) -> Any:
        """Return the compiled table for these weights, None where there are no compiled loops or they would overflow.

        A divisor that is the same for all labels changes no comparison of whole sums and is left out; quotients of
        other sums may be equal where the sums are not.
        """
        asked = weights.tobytes() + (b"" if divisor is None else divisor.tobytes())
        if asked not in self._compiled:  # single queries come here often: nothing else is worked out again
            if divisor is not None and (divisor == divisor[:1]).all() and _whole(weights):
                divisor = None
            needed = weights.tobytes() + (b"" if divisor is None else divisor.tobytes())
            if needed not in self._compiled:
                self._compiled.clear()  # one at a time: they are large
                self._compiled[needed] = self._make_table(weights, divisor)
            self._compiled[asked] = self._compiled[needed]
        return self._compiled[asked]

    def _make_table(self, weights: NDArray[np.float64], divisor: NDArray[np.float64] | None) -> Any:
        loops = native()
        if loops is None or self._layout.compiled is None or not len(self.labels):
            return None
        if _whole(weights):
            if any(_largest(table) * weight >= 2**31 for weight, table in zip(weights, self._centred, strict=True)):
                return None  # before a product wraps around
            weights = weights.astype(np.int64)
        rows = [weight * table for weight, table in zip(weights, self._centred, strict=True)]
        try:
            return loops.Table(self._layout.compiled, np.concatenate(rows), divisor, 2.0**-FRACTION_BITS)
        except OverflowError:
            return None


def centred(counts: NDArray[Any], n_reserved: int) -> NDArray[np.int64]:
    """Return fixed-point rows: reserved counts as they are, bucket counts centred and rounded to the nearest."""
    exact = counts.astype(np.int64)
    rows = exact << FRACTION_BITS
    shared = exact[n_reserved:]
    buckets = len(shared)
    if buckets == 1:  # a single bucket tells nothing of any of its features
        rows[n_reserved:] = 0
    elif buckets:
        doubled = (buckets * shared - shared.sum(axis=0)) << (FRACTION_BITS + 1)
        rows[n_reserved:] = (doubled + (buckets - 1)) // (2 * (buckets - 1))
    return rows


def _whole(weights: NDArray[np.float64]) -> bool:
    return bool((weights == np.floor(weights)).all() and weights.max() < 2**20)


def _largest(values: NDArray[np.int64]) -> int:
    return max(int(values.max()), -int(values.min())) if values.size else 0


def _narrow_signed(values: NDArray[np.int64]) -> NDArray[Any]:
    return values.astype(np.min_scalar_type(-max(_largest(values), 1)))
