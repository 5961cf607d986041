r"""What answers queries for a hashed memory: fixed-point rows, gathered, added and compared.

A bucket's count is centred (see :mod:`hammemo.memories.hashed.memory`) and rounded to quarters of a count. From there
on everything is a sum of whole numbers. The same holds for the values of a rule (:mod:`hammemo.memories.row_rules`): it
is applied to a row of raw counts and rounded to fixed point.

There are two ways to the same scores:

- row by row: the rows that a query reads are fetched from the pages of the counts, and centred or put through the rule
  then. A reader of a new version is ready at once, for it computes nothing beforehand; what the centring needs, the
  sums over buckets, is kept up to date by the edits themselves;
- compiled: all rows are computed once, and fast loops answer (:mod:`hammemo.memories.hashed.native_table`).

Which is cheaper depends on how many queries come before the next edit, which is not known. So a reader goes row by row
until that has cost about as much as compiling would, and compiles then: never more than twice the cost of the better
way (:class:`~hammemo.memories.hashed.raw_rows.TableBudget`).

Ranking by a rule (:mod:`hammemo.memories.row_rules`) from the rows of a hashed memory, in fixed point.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hammemo._arrays.integers import narrow, object_array, row_pieces
from hammemo._versions import cached_property
from hammemo.memories.hashed.layout import RowLayout, one_if_equal, per_site
from hammemo.memories.hashed.native_table import NativeTable, whole
from hammemo.memories.hashed.raw_rows import FRACTION_BITS, PreviousTable, RawRows, TableBudget, centred, centred_counts
from hammemo.memories.hashed.reserved import site_groups, stored_reserved
from hammemo.memories.hashed.tables import SiteTable, Tables
from hammemo.memories.ranker import Ranker, SiteScores
from hammemo.memories.reader import Compiled
from hammemo.memories.secret_keys import secret_digest
from hammemo.tokens.contexts import MAX_EXAMPLES, Contexts
from hammemo.tokens.labels import top_columns

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from hammemo._arrays.checked import StoredArrays
    from hammemo._arrays.types import Array, Bools, Floats, Ints
    from hammemo.memories.label_counts import Frame
    from hammemo.memories.ranker import Divisor
    from hammemo.memories.row_rules import RowRule
    from hammemo.tokens.vocabulary import Vocabulary

RULE_BITS = 12
"""Scores of a rule are whole multiples of 2^-RULE_BITS."""


class FixedRows(NamedTuple):
    """All rows of each site as whole numbers, what one is worth in a score, and the score that no row adds to."""

    rows: list[Array]
    step: float
    base: Array | None


def rule_rows(raw: RawRows, rule: RowRule) -> FixedRows:
    """Return the values of a rule for all rows."""
    rows: list[Array] = [_fixed(rule.rows(site, part)) for site, part in enumerate(raw.counts)]
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

    def scores(self, contexts: Contexts) -> Floats:
        """Return the rule's score of each context and label."""
        table = self._table_if_worth(contexts)
        return self._row_scores(contexts) if table is None else table.scores(contexts)

    def _row_scores(self, contexts: Contexts) -> Floats:
        """Return the scores row by row, in pieces that bound the memory needed."""
        found = self._raw.layout.found
        if len(contexts) == 1:
            return self._sums(self._values(found(contexts)))
        pieces = row_pieces(len(contexts), self._width)
        parts = [self._sums(self._values(found(contexts[piece]))) for piece in pieces]
        return np.concatenate(parts) if parts else np.zeros((0, self.n_labels))

    def _values(self, rows: Ints) -> NDArray[np.int32]:
        """Return the rule's values of the rows that are read, in fixed point; zero where the row is -1: (m, S, L)."""
        return _fixed(self._rule.values(self._raw.read(rows)))

    def _sums(self, values: NDArray[np.int32]) -> Floats:
        totals = values.sum(axis=1, dtype=np.int64) + self._base
        return np.asarray(totals * 2.0**-RULE_BITS)

    def winners(self, contexts: Contexts) -> Ints:
        """Return the column of the highest score of each context, the first one among equals."""
        table = self._table_if_worth(contexts)
        return np.asarray(self._row_scores(contexts).argmax(axis=1)) if table is None else table.winners(contexts)

    def leaders(self, contexts: Contexts, k: int) -> Ints:
        """Return the columns of the k highest scores of each context, best first, equals in column order."""
        table = self._table_if_worth(contexts)
        return top_columns(self._row_scores(contexts), k) if table is None else table.leaders(contexts, k)

    def single(self) -> Callable[[Sequence[Any]], int] | None:
        """Return a function from one context of integers and strings to its winner, or -1: then ask `winners`."""
        return self._table.single()

    def site_scores(self, contexts: Contexts, columns: Ints) -> SiteScores:
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


def _fixed(values: Floats) -> NDArray[np.int32]:
    """Return the values in fixed point; what does not fit in 31 bits is cut, far beyond any sensible weight."""
    scaled = np.rint(values * 2.0**RULE_BITS)
    return np.minimum(np.maximum(scaled, -(2**30)), 2**30).astype(np.int32)


_ROUNDING = 1e-12
_COPYING = 0.125  # what copying a compiled table costs, as a share of computing all its rows


class HashedTables(Compiled):
    """The rows of every site, read-only.

    Parameters
    ----------
    layout : RowLayout
    tables : Tables
        Raw counts: upper bounds in buckets, exact in reserved rows.
    source : ndarray of shape (L,)
        The column of each label in the tables, -1 for one that has none.
    frame : Frame
    threads : int
        How many a large batch may use.
    previous : PreviousTable, optional
        A version before, from whose compiled table this one's can be made.
    """

    has_bounds = True
    has_rows = True

    def __init__(
        self,
        layout: RowLayout,
        tables: Tables,
        source: Ints,
        frame: Frame,
        threads: int = 1,
        previous: PreviousTable | None = None,
    ) -> None:
        super().__init__(frame, 2 * len(frame.labels))
        if frame.label_counts.sum(dtype=np.float64) >= MAX_EXAMPLES:  # so no sum over a column is larger
            raise ValueError("The memory holds 2^53 examples or more: fixed-point scores have room for fewer.")
        self._threads = threads
        self.layout = layout
        self._raw = RawRows(layout, tables, source)
        self._previous = previous
        self._budget = TableBudget(layout, len(frame.labels), 1.0 if previous is None else _COPYING)
        self._bound_budget = TableBudget(layout, len(frame.labels))
        self._score_table: tuple[bytes, PreviousTable] | None = None
        self._bound_tables: tuple[bytes, NativeTable, NativeTable] | None = None

    def scores(self, contexts: Contexts, weights: Floats) -> Floats:
        """Return the weighted sum over sites of the centred counts."""
        table = self._table_if_worth(contexts, weights, None)
        return self._row_scores(contexts, weights) if table is None else table.scores(contexts)

    def winners(self, contexts: Contexts, weights: Floats, divisor: Divisor) -> Ints:
        """Return the column of the highest score of each context, the first one among equals."""
        table = self._table_if_worth(contexts, weights, divisor)
        if table is None:
            return np.asarray((self._row_scores(contexts, weights) / divisor).argmax(axis=1))
        return table.winners(contexts)

    def leaders(self, contexts: Contexts, weights: Floats, divisor: Divisor, k: int) -> Ints:
        """Return the columns of the k highest scores of each context, best first, equals in column order."""
        table = self._table_if_worth(contexts, weights, divisor)
        if table is None:
            return top_columns(self._row_scores(contexts, weights) / divisor, k)
        return table.leaders(contexts, k)

    def single(self, weights: Floats, divisor: Divisor) -> Callable[[Sequence[Any]], int] | None:
        """Return a function from one context of integers and strings to its winner, or -1: then ask `winners`."""
        return self._table(weights, divisor).single()

    def site_counts(self, contexts: Contexts) -> Floats:
        """Return the row of raw counts that each site of each context reads, zeros where it reads none: (m, S, L)."""
        return self._raw.site_counts(contexts)

    def site_scores(self, contexts: Contexts, weights: Floats, columns: Ints) -> SiteScores:
        """Return what each site adds to the scores of the labels in these columns, with hard bounds."""
        values = self._centred_rows(self.layout.found(contexts))[:, :, columns] / 2**FRACTION_BITS
        low, high = self._raw.bounds(contexts)
        scale = weights[:, None]
        return SiteScores(scale * values, scale * low[:, :, columns], scale * high[:, :, columns])

    def has_seen(self, tokens: Vocabulary) -> NDArray[np.int8]:
        """Return for each token whether a stored example holds it at a compared position: 1, 0, or -1.

        A reserved row that has counts proves that it was, empty rows at every compared position that it was not.
        Positions that are compared as part of a tuple only leave it open.
        """
        sites = self.layout.sites
        single = [k for k, site in enumerate(sites.positions) if len(site) == 1]
        if not len(tokens) or not single:
            return np.full(len(tokens), -1, np.int8)
        everywhere = Contexts(np.repeat(object_array(tokens)[:, None], sites.h, axis=1))
        low, high = (part[:, single].any(axis=(1, 2)) for part in self._raw.bounds(everywhere))
        compared = {r for site in sites.positions for r in site}
        covered = compared == {sites.positions[k][0] for k in single}
        return np.where(low, 1, np.where(high | (not covered), -1, 0)).astype(np.int8)

    def with_rule(self, rule: RowRule) -> HashedRanker:
        """Return what ranks labels by this rule."""
        return HashedRanker(self._raw, rule, self._threads)

    def _row_scores(self, contexts: Contexts, weights: Floats) -> Floats:
        """Return the scores row by row, in pieces that bound the memory needed."""
        if len(contexts) == 1:
            return self._found_sums(self.layout.found(contexts), weights)
        pieces = row_pieces(len(contexts), 4 * len(weights) * len(self.labels))
        parts = [self._found_sums(self.layout.found(contexts[piece]), weights) for piece in pieces]
        return np.concatenate([np.empty((0, len(self.labels))), *parts])

    def _found_sums(self, rows: Ints, weights: Floats) -> Floats:
        """Return what `_sums` does, by the compiled loop where it can be used."""
        if self.layout.compiled is None or "_centred" in vars(self):
            return self._sums(rows, weights)
        counts, sums, out = self._raw.read(rows), self._raw.shared_sums, np.empty((len(rows), len(self.labels)))
        weights = np.ascontiguousarray(weights, np.float64)
        self.layout.compiled.centred_sums(
            rows=rows, counts=counts, shared_sums=sums, weights=weights, out=out, scale=2.0**-FRACTION_BITS
        )
        return out

    def _sums(self, rows: Ints, weights: Floats) -> Floats:
        weighted = weights[:, None] * self._centred_rows(rows)
        return np.asarray(in_order(weighted) / 2**FRACTION_BITS)

    def bounds(self, contexts: Contexts, weights: Floats) -> tuple[Floats, Floats]:
        """Return what the exact weighted counts are at least, and at most."""
        made = self._bounds_if_worth(contexts, weights, None)
        low, high = self._row_bounds(contexts, weights) if made is None else (part.scores(contexts) for part in made)
        if not whole(weights) or high.max(initial=0) >= 2**53:  # the exact classifier may round in another order
            low, high = low * (1 - _ROUNDING), high * (1 + _ROUNDING)
        return low, high

    def proven(self, contexts: Contexts, weights: Floats, divisor: Divisor, answers: Ints) -> Bools:
        """Return for each context whether the column `answers` must be the exact winner."""
        made = self._bounds_if_worth(contexts, weights, divisor) if whole(weights) else None
        if made is None:
            return super().proven(contexts, weights, divisor, answers)
        lower, upper = made
        return lower.proves(upper, contexts, answers)

    def _row_bounds(self, contexts: Contexts, weights: Floats) -> tuple[Floats, Floats]:
        """Return the weighted counts of reserved rows alone, and of all rows, by NumPy, in pieces of bounded size."""
        pieces = row_pieces(len(contexts), 4 * len(weights) * len(self.labels))
        parts = [self._bound_sums(self.layout.found(contexts[piece]), weights) for piece in pieces]
        if not parts:
            return np.zeros((0, len(self.labels))), np.zeros((0, len(self.labels)))
        low, high = (np.concatenate(ends) for ends in zip(*parts, strict=True))
        return low, high

    def _bound_sums(self, rows: Ints, weights: Floats) -> tuple[Floats, Floats]:
        weighted = weights[:, None] * self._raw.read(rows)
        n_own, _ = self.layout.sizes
        return in_order(np.where((rows < n_own)[:, :, None], weighted, 0.0)), in_order(weighted)

    def fixed_rows(self, rule: RowRule | None) -> FixedRows:
        """Return all rows as whole numbers: centred counts, or the values of a rule."""
        if rule is None:
            return FixedRows(self._centred, 2.0**-FRACTION_BITS, None)
        return rule_rows(self._raw, rule)

    def tensors(self) -> dict[str, Array]:
        """Return the arrays that prediction needs."""
        tables = {f"rows.{k}": _narrow_signed(table) for k, table in enumerate(self._centred)}
        return {**tables, **{name: part for name, part in self.layout.reserved.arrays().items() if len(part)}}

    def pack(self) -> tuple[dict[str, Array], dict[str, Any]]:
        """Return what `from_packed` needs: the counts, and the layout without its secret."""
        layout = self.layout
        tables = {f"counts.{k}": narrow(counts) for k, counts in enumerate(self._raw.counts)}
        return {**tables, **layout.reserved.arrays()}, {
            "buckets": one_if_equal(layout.buckets),
            "seed": layout.seed,
            "key": secret_digest(layout.key),
        }

    @classmethod
    def from_packed(
        cls, frame: Frame, stored: StoredArrays, description: dict[str, Any], key: bytes | None = None
    ) -> HashedTables:
        """Return the compiled form with these arrays, checked: undo `pack`."""
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
        n_own = [len(reserved.hashes[group]) for group in groups]
        tables = tuple(SiteTable.of(part[:n], part[n:]) for n, part in zip(n_own, counts, strict=True))
        every = np.arange(len(frame.labels))
        layout = RowLayout(frame.sites, seed, secret, buckets, reserved)
        return cls(layout, Tables(tables, every), every, frame)

    def __getstate__(self) -> dict[str, Any]:
        made_again = {"_previous": None, "_score_table": None, "_bound_tables": None}
        return {**vars(self), **made_again}

    @cached_property
    def _centred(self) -> list[Ints]:
        return [centred(counts, len(self.layout.own(k))) for k, counts in enumerate(self._raw.counts)]

    def _centred_rows(self, rows: Ints) -> Ints:
        """Return the fixed-point row that each site of each context reads, zeros where the row is -1.

        Shapes
        ------
        rows : (m, S); returned : (m, S, L)
        """
        if "_centred" in vars(self):
            values = np.zeros((*rows.shape, len(self.labels)), np.int64)
            for k, (table, row) in enumerate(zip(self._centred, rows.T, strict=True)):
                values[row >= 0, k] = table[row[row >= 0]]
            return values
        counts, (n_own, buckets) = self._raw.read(rows), self.layout.sizes
        shared = centred_counts(counts, self._raw.shared_sums, buckets)
        return np.where((rows >= n_own)[:, :, None], shared, counts << FRACTION_BITS)

    def _table_if_worth(self, contexts: Contexts, weights: Floats, divisor: Divisor | None) -> NativeTable | None:
        """Return `_table`, or None while too little was asked to make one: a model may change after each query."""
        if self._score_table is None and not self._budget.is_spent(len(contexts)):
            return None
        return self._table(weights, divisor)

    def _bounds_if_worth(
        self, contexts: Contexts, weights: Floats, divisor: Divisor | None
    ) -> tuple[NativeTable, NativeTable] | None:
        """Return `_tables_of_bounds`, or None while they are not worth it, or where NumPy would answer."""
        if self._bound_tables is None and not self._bound_budget.is_spent(len(contexts)):
            return None
        lower, upper = self._tables_of_bounds(weights, divisor)
        return (lower, upper) if lower.is_compiled and upper.is_compiled else None

    def _table(self, weights: Floats, divisor: Divisor | None) -> NativeTable:
        """Return the table of centred counts for these weights; the one that was asked for last is kept."""
        divisors = _needed(divisor, weights, len(self.labels))
        signature = _signature(weights, divisors)
        made = self._score_table
        if made is None or made[0] != signature:  # one at a time: they are large
            previous = self._previous
            table = None if previous is None else previous.table_of(self._raw, weights, divisors)
            if table is None:
                table = self._made(self._centred, weights, divisors, 2.0**-FRACTION_BITS)
            raw = RawRows(self.layout, self._raw.tables, self._raw.source)  # without what this reader puts together
            made = self._score_table = (signature, PreviousTable(raw, weights, table))
            self._previous = None  # what came before is no longer needed
        return made[1].table

    def latest(self) -> PreviousTable | None:
        """Return what a later version can make its compiled table from: this version, or the one before."""
        made = self._score_table
        return self._previous if made is None else made[1]

    def _tables_of_bounds(self, weights: Floats, divisor: Divisor | None) -> tuple[NativeTable, NativeTable]:
        """Return the tables of the counts in reserved rows alone, and of all counts."""
        divisors = _needed(divisor, weights, len(self.labels))
        signature = _signature(weights, divisors)
        made = self._bound_tables
        if made is None or made[0] != signature:
            upper = [counts.astype(np.int64) for counts in self._raw.counts]
            lower = [counts.copy() for counts in upper]
            for k, counts in enumerate(lower):
                counts[len(self.layout.own(k)) :] = 0
            tables = [self._made(part, weights, divisors, 1.0) for part in (lower, upper)]
            made = self._bound_tables = (signature, tables[0], tables[1])
        return made[1], made[2]

    def _made(self, rows: list[Ints], weights: Floats, divisor: Floats | None, step: float) -> NativeTable:
        return NativeTable(self.layout, rows, weights, step, divisor=divisor, threads=self._threads)


def in_order(terms: Floats) -> Floats:
    """Return the sums over sites, added one after another: the order that the last bit of a float depends on.

    Shapes
    ------
    terms : (m, S, L); returned : (m, L)
    """
    return np.asarray(np.add.accumulate(terms, axis=1)[:, -1])


def _needed(divisor: Divisor | None, weights: Floats, n_labels: int) -> Floats | None:
    """Return one divisor a label, or None where it changes no comparison: all labels share it, and sums are whole.

    Quotients of other sums may be equal where the sums are not.
    """
    if divisor is None:
        return None
    values = np.asarray(divisor, np.float64)
    if (not values.ndim or (values == values[:1]).all()) and whole(weights):
        return None
    return np.array(np.broadcast_to(values, (n_labels,)))


def _signature(weights: Floats, divisor: Floats | None) -> bytes:
    return weights.tobytes() + (b"" if divisor is None else divisor.tobytes())


def _narrow_signed(values: Ints) -> Array:
    highest, lowest = (int(values.max()), int(values.min())) if values.size else (0, 0)
    return values.astype(np.min_scalar_type(min(lowest, -highest - 1)))
