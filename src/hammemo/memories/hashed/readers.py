r"""What answers queries for a hashed memory: fixed-point rows, gathered, added and compared.

A bucket's count is centred (see :mod:`hammemo.memories.hashed.memory`) and rounded to quarters of a count, once, when
the tables are made. From there on everything is a sum of whole numbers (:mod:`hammemo.memories.hashed.native_table`).
The same holds for the values of a rule (:mod:`hammemo.memories.row_rules`): it is applied to every row of raw counts
and rounded to fixed point, once.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from hammemo._arrays.integers import narrow, object_array
from hammemo.memories.contributions import SiteScores
from hammemo.memories.hashed.layout import RowLayout, one_if_equal, per_site
from hammemo.memories.hashed.native_table import NativeTable, whole
from hammemo.memories.hashed.reserved import site_groups, stored_reserved
from hammemo.memories.ranker import Ranker
from hammemo.memories.reader import Compiled
from hammemo.memories.secret_keys import secret_digest
from hammemo.tokens.contexts import MAX_EXAMPLES, Contexts
from hammemo.tokens.labels import top_columns

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from hammemo._arrays.checked import StoredArrays
    from hammemo.memories.label_counts import Frame
    from hammemo.memories.row_rules import RowRule
    from hammemo.tokens.vocabulary import Vocabulary

FRACTION_BITS = 2
"""Scores are whole multiples of 2^-FRACTION_BITS counts."""

RULE_BITS = 12
"""Scores of a rule are whole multiples of 2^-RULE_BITS."""

_ROUNDING = 1e-12
_FEW = 64  # contexts that are answered by NumPy before compiled tables are made


class RawRows:
    """The rows of raw counts of every site: upper bounds in buckets, exact in reserved rows (`RowLayout.n_exact`).

    Parameters
    ----------
    layout : RowLayout
    counts : list of ndarray of shape (rows of the site, L)
    """

    def __init__(self, layout: RowLayout, counts: list[NDArray[Any]]) -> None:
        self.layout = layout
        self.counts = counts

    def site_counts(self, contexts: Contexts) -> NDArray[np.float64]:
        """Return the row of raw counts that each site of each context reads, zeros where it reads none: (m, S, L)."""
        rows = self.layout.rows(contexts)
        read = np.zeros((*rows.shape, self.counts[0].shape[1]))
        for k, (counts, row) in enumerate(zip(self.counts, rows.T, strict=True)):
            read[row >= 0, k] = counts[row[row >= 0]]
        return read

    def bounds(self, contexts: Contexts) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return what the exact counts are at least, and at most: reserved rows are exact, buckets start at zero.

        Shapes
        ------
        returned : (m, S, L), (m, S, L)
        """
        high, rows = self.site_counts(contexts), self.layout.rows(contexts)
        n_exact = np.array([self.layout.n_exact(k) for k in range(rows.shape[1])])
        return np.where((rows < n_exact)[:, :, None], high, 0.0), high


class HashedTables(Compiled):
    """The rows of every site, read-only.

    Parameters
    ----------
    layout : RowLayout
    counts : list of ndarray of shape (rows of the site, L)
        Raw counts: upper bounds in buckets, exact in reserved rows.
    frame : Frame
    threads : int
        How many a large batch may use.
    """

    has_bounds = True
    has_rows = True

    def __init__(self, layout: RowLayout, counts: list[NDArray[Any]], frame: Frame, threads: int = 1) -> None:
        super().__init__(frame, 2 * len(frame.labels))
        if frame.label_counts.sum(dtype=np.float64) >= MAX_EXAMPLES:  # so no sum over a column is larger
            raise ValueError("The memory holds 2^53 examples or more: fixed-point scores have room for fewer.")
        self._threads = threads
        self._layout = layout
        self._raw = RawRows(layout, counts)
        self._asked = 0
        self._score_table: tuple[bytes, NativeTable] | None = None
        self._bound_tables: tuple[bytes, NativeTable, NativeTable] | None = None
        self._ranker: tuple[bytes, HashedRanker] | None = None

    def scores(self, contexts: Contexts, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the weighted sum over sites of the centred counts."""
        table = self._table_if_worth(contexts, weights, None)
        return self.plain_scores(contexts, weights) if table is None else table.scores(contexts)

    def winners(
        self, contexts: Contexts, weights: NDArray[np.float64], divisor: NDArray[np.float64]
    ) -> NDArray[np.int64]:
        """Return the column of the highest score of each context, the first one among equals."""
        table = self._table_if_worth(contexts, weights, divisor)
        if table is None:
            return np.asarray((self.plain_scores(contexts, weights) / divisor).argmax(axis=1))
        return table.winners(contexts)

    def leaders(
        self, contexts: Contexts, weights: NDArray[np.float64], divisor: NDArray[np.float64], k: int
    ) -> NDArray[np.int64]:
        """Return the columns of the k highest scores of each context, best first, equals in column order."""
        table = self._table_if_worth(contexts, weights, divisor)
        if table is None:
            return top_columns(self.plain_scores(contexts, weights) / divisor, k)
        return table.leaders(contexts, k)

    def single(
        self, weights: NDArray[np.float64], divisor: NDArray[np.float64]
    ) -> Callable[[Sequence[Any]], int] | None:
        """Return a function from one context of integers and strings to its winner, or -1: then ask `winners`."""
        return self._table(weights, divisor).single()

    def site_counts(self, contexts: Contexts) -> NDArray[np.float64]:
        """Return the row of raw counts that each site of each context reads, zeros where it reads none: (m, S, L)."""
        return self._raw.site_counts(contexts)

    def site_scores(self, contexts: Contexts, weights: NDArray[np.float64], columns: NDArray[np.int64]) -> SiteScores:
        """Return what each site adds to the scores of the labels in these columns, with hard bounds."""
        rows = self._layout.rows(contexts)
        values = np.zeros((*rows.shape, len(columns)))
        for k, row in enumerate(rows.T):
            values[row >= 0, k] = self._centred_rows(k, row[row >= 0])[:, columns] / 2**FRACTION_BITS
        low, high = self._raw.bounds(contexts)
        scale = weights[:, None]
        return SiteScores(scale * values, scale * low[:, :, columns], scale * high[:, :, columns])

    def seen(self, tokens: Vocabulary) -> NDArray[np.int8]:
        """Return for each token whether a stored example holds it at a compared position: 1, 0, or -1.

        A reserved row that has counts proves that it was, empty rows at every compared position that it was not.
        Positions that are compared as part of a tuple only leave it open.
        """
        sites = self._layout.sites
        single = [k for k, site in enumerate(sites.positions) if len(site) == 1]
        if not len(tokens) or not single:
            return np.full(len(tokens), -1, np.int8)
        everywhere = Contexts(np.repeat(object_array(tokens)[:, None], sites.h, axis=1))
        low, high = (part[:, single].any(axis=(1, 2)) for part in self._raw.bounds(everywhere))
        compared = {r for site in sites.positions for r in site}
        covered = compared == {sites.positions[k][0] for k in single}
        return np.where(low, 1, np.where(high | (not covered), -1, 0)).astype(np.int8)

    def with_rule(self, rule: RowRule) -> HashedRanker:
        """Return what ranks labels by this rule; made once for the rule that was asked for last."""
        made = self._ranker
        if made is None or made[0] != rule.signature:
            made = self._ranker = (rule.signature, HashedRanker(self._raw, rule, self._threads))
        return made[1]

    def plain_scores(self, contexts: Contexts, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the scores by NumPy alone, from as few rows as the contexts read: what all else is tested against."""
        totals: NDArray[np.float64] = np.zeros((len(contexts), len(self.labels)))
        for k, (row, weight) in enumerate(zip(self._layout.rows(contexts).T, weights, strict=True)):
            held = row >= 0
            totals[held] += weight * self._centred_rows(k, row[held])
        return np.asarray(totals / 2**FRACTION_BITS)

    def bounds(
        self, contexts: Contexts, weights: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return what the exact weighted counts are at least, and at most."""
        lower, upper = self._tables_of_bounds(weights, None)
        if lower.is_compiled and upper.is_compiled:
            low, high = lower.scores(contexts), upper.scores(contexts)
        else:
            low, high = self.plain_bounds(contexts, weights)
        if not whole(weights) or high.max(initial=0) >= 2**53:  # the exact classifier may round in another order
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
        lower, upper = self._tables_of_bounds(weights, divisor)
        if lower.is_compiled and upper.is_compiled and whole(weights):
            return lower.proves(upper, contexts, answers)
        return super().proven(contexts, weights, divisor, answers)

    def plain_bounds(
        self, contexts: Contexts, weights: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the weighted counts of reserved rows alone, and of all rows, by NumPy."""
        low = np.zeros((len(contexts), len(self.labels)))
        high = np.zeros_like(low)
        sites = zip(self._raw.counts, self._layout.rows(contexts).T, weights, strict=True)
        for k, (counts, row, weight) in enumerate(sites):
            held = row >= 0
            high[held] += weight * counts[row[held]]
            own = held & (row < self._layout.n_exact(k))
            low[own] += weight * counts[row[own]]
        return low, high

    def tensors(self) -> dict[str, NDArray[Any]]:
        """Return the arrays that prediction needs."""
        tables = {f"rows.{k}": _narrow_signed(table) for k, table in enumerate(self._centred)}
        return {**tables, **{name: part for name, part in self._layout.reserved.arrays().items() if len(part)}}

    def stored(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Return what `restored` needs: the counts, and the layout without its secret."""
        layout = self._layout
        tables = {f"counts.{k}": narrow(counts) for k, counts in enumerate(self._raw.counts)}
        return {**tables, **layout.reserved.arrays()}, {
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
        secret = key if description["key"] else None
        reserved = stored_reserved(stored, frame.sites, seed, secret, [2**31] * (max(groups) + 1))
        counts = [
            stored.whole_numbers(
                f"counts.{k}", (len(reserved.hashes[group]) + n, len(frame.labels)), below=MAX_EXAMPLES
            )
            for k, (group, n) in enumerate(zip(groups, numbers, strict=True))
        ]
        for k, part in enumerate([] if stored.trusted else counts):
            if (part.sum(axis=0, dtype=np.float64) > frame.label_counts).any():
                raise ValueError(f"the rows of site {k} count more examples of a label than the label has")
        return cls(RowLayout(frame.sites, seed, secret, buckets, reserved), counts, frame)

    @property
    def file_format(self) -> int:
        """The format of files that hold these tables: 1 where reserved features are known by their hashes alone."""
        return 2 if self._layout.reserved.is_proof else 1

    def __getstate__(self) -> dict[str, Any]:
        made_again = {"_score_table": None, "_bound_tables": None, "_ranker": None}
        return {**vars(self), **made_again}

    @cached_property
    def _centred(self) -> list[NDArray[np.int64]]:
        return [centred(counts, len(self._layout.own(k))) for k, counts in enumerate(self._raw.counts)]

    @cached_property
    def _shared_sums(self) -> list[NDArray[np.int64]]:
        """The sum of each site's buckets, label by label."""
        counted = enumerate(self._raw.counts)
        return [counts[len(self._layout.own(k)) :].sum(axis=0, dtype=np.int64) for k, counts in counted]

    def _centred_rows(self, k: int, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return fixed-point rows of site k, only those that are asked for."""
        if "_centred" in vars(self):
            return self._centred[k][rows]
        counts = self._raw.counts[k][rows].astype(np.int64)
        values = counts << FRACTION_BITS
        shared = rows >= len(self._layout.own(k))
        values[shared] = centred_counts(counts[shared], self._shared_sums[k], self._layout.buckets[k])
        return values

    def _table_if_worth(
        self, contexts: Contexts, weights: NDArray[np.float64], divisor: NDArray[np.float64] | None
    ) -> NativeTable | None:
        """Return `_table`, or None while too little was asked to make one: a model may change after each query."""
        if self._score_table is None:
            self._asked += len(contexts)
            if self._asked <= _FEW:
                return None
        return self._table(weights, divisor)

    def _table(self, weights: NDArray[np.float64], divisor: NDArray[np.float64] | None) -> NativeTable:
        """Return the table of centred counts for these weights; the one that was asked for last is kept."""
        divisor = _needed(divisor, weights)
        signature = _signature(weights, divisor)
        made = self._score_table
        if made is None or made[0] != signature:  # one at a time: they are large
            made = self._score_table = (signature, self._made(self._centred, weights, divisor, 2.0**-FRACTION_BITS))
        return made[1]

    def _tables_of_bounds(
        self, weights: NDArray[np.float64], divisor: NDArray[np.float64] | None
    ) -> tuple[NativeTable, NativeTable]:
        """Return the tables of the counts in reserved rows alone, and of all counts."""
        divisor = _needed(divisor, weights)
        signature = _signature(weights, divisor)
        made = self._bound_tables
        if made is None or made[0] != signature:
            upper = [counts.astype(np.int64) for counts in self._raw.counts]
            lower = [counts.copy() for counts in upper]
            for k, counts in enumerate(lower):
                counts[self._layout.n_exact(k) :] = 0
            tables = [self._made(part, weights, divisor, 1.0) for part in (lower, upper)]
            made = self._bound_tables = (signature, tables[0], tables[1])
        return made[1], made[2]

    def _made(
        self,
        rows: list[NDArray[np.int64]],
        weights: NDArray[np.float64],
        divisor: NDArray[np.float64] | None,
        step: float,
    ) -> NativeTable:
        return NativeTable(self._layout, rows, weights, step, divisor=divisor, threads=self._threads)


class HashedRanker(Ranker):
    """A rule applied to every row of raw counts and rounded to fixed point, once."""

    def __init__(self, raw: RawRows, rule: RowRule, threads: int = 1) -> None:
        n_sites, _, n_labels = rule.weights.shape
        super().__init__(n_labels, 2 * n_labels)
        self._raw = raw
        self._rule = rule
        self._rows = [_fixed(rule.rows(site, part)) for site, part in enumerate(raw.counts)]
        self._base = _fixed(rule.base)
        self._table = NativeTable(
            raw.layout, self._rows, np.ones(n_sites), 2.0**-RULE_BITS, base=self._base, threads=threads
        )

    def scores(self, contexts: Contexts) -> NDArray[np.float64]:
        """Return the rule's score of each context and label."""
        return self._table.scores(contexts)

    def plain_scores(self, contexts: Contexts) -> NDArray[np.float64]:
        """Return the scores by NumPy alone: what the compiled loops are tested against."""
        return self._table.plain_scores(contexts)

    def winners(self, contexts: Contexts) -> NDArray[np.int64]:
        """Return the column of the highest score of each context, the first one among equals."""
        return self._table.winners(contexts)

    def leaders(self, contexts: Contexts, k: int) -> NDArray[np.int64]:
        """Return the columns of the k highest scores of each context, best first, equals in column order."""
        return self._table.leaders(contexts, k)

    def single(self) -> Callable[[Sequence[Any]], int] | None:
        """Return a function from one context of integers and strings to its winner, or -1: then ask `winners`."""
        return self._table.single()

    def site_scores(self, contexts: Contexts, columns: NDArray[np.int64]) -> SiteScores:
        """Return what each site adds to the scores of the labels in these columns, with hard bounds.

        The bounds are those of the rule's values, rounded as the values are: rounding keeps the order.
        """
        rows = self._raw.layout.rows(contexts)
        values, low, high = np.zeros((3, *rows.shape, len(columns)))
        least, most = self._raw.bounds(contexts)
        for k, row in enumerate(rows.T):
            held = row >= 0
            values[held, k] = self._rows[k][row[held]][:, columns]
            bounds = self._rule.row_bounds(k, least[held, k], most[held, k])
            known = (least[held, k] == most[held, k]).all(axis=1, keepdims=True)  # no bound is nearer than the value
            low[held, k], high[held, k] = (np.where(known, values[held, k], _fixed(b)[:, columns]) for b in bounds)
        scale = 2.0**RULE_BITS
        return SiteScores(values / scale, low / scale, high / scale, base=self._base[columns] / scale)


def _fixed(values: NDArray[np.float64]) -> NDArray[np.int32]:
    """Return the values in fixed point; what does not fit in 31 bits is cut, far beyond any sensible weight."""
    return np.clip(np.rint(values * 2.0**RULE_BITS), -(2**30), 2**30).astype(np.int32)


def centred(counts: NDArray[Any], n_reserved: int) -> NDArray[np.int64]:
    """Return fixed-point rows: reserved counts as they are, bucket counts centred and rounded to the nearest."""
    exact = counts.astype(np.int64)
    rows = exact << FRACTION_BITS
    shared = exact[n_reserved:]
    rows[n_reserved:] = centred_counts(shared, shared.sum(axis=0), len(shared))
    return rows


def centred_counts(shared: NDArray[np.int64], sums: NDArray[np.int64], buckets: int) -> NDArray[np.int64]:
    r"""Return some of a site's bucket rows, centred by the sums over all its buckets, in fixed point.

    With T a count, M its label's sum and B the number of buckets, this is :math:`4(BT - M)/(B - 1)` to the nearest
    whole number, halves up. The product BT may need more than 64 bits, so it is computed as
    :math:`4T + 4(T - M)/(B - 1)`, the second part rounded: both are below 2^56, because counts are below 2^53.
    """
    if buckets == 1:  # a single bucket tells nothing of any of its features
        return np.zeros_like(shared)
    doubled = (shared - sums) << (FRACTION_BITS + 1)
    return np.asarray((shared << FRACTION_BITS) + (doubled + (buckets - 1)) // (2 * (buckets - 1)))


def _needed(divisor: NDArray[np.float64] | None, weights: NDArray[np.float64]) -> NDArray[np.float64] | None:
    """Return the divisor, or None where it changes no comparison: one number for all labels, and whole sums.

    Quotients of other sums may be equal where the sums are not.
    """
    return None if divisor is None or ((divisor == divisor[:1]).all() and whole(weights)) else divisor


def _signature(weights: NDArray[np.float64], divisor: NDArray[np.float64] | None) -> bytes:
    return weights.tobytes() + (b"" if divisor is None else divisor.tobytes())


def _narrow_signed(values: NDArray[np.int64]) -> NDArray[Any]:
    highest, lowest = (int(values.max()), int(values.min())) if values.size else (0, 0)
    return values.astype(np.min_scalar_type(min(lowest, -highest - 1)))
