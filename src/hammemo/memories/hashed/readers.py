r"""What answers queries for a hashed memory: fixed-point rows, gathered, added and compared.

A bucket's count is centred (see :mod:`hammemo.memories.hashed.memory`) and rounded to quarters of a
count. From there on everything is a sum of whole numbers. The same holds for the values of a rule
(:mod:`hammemo.memories.row_rules`): it is applied to a row of raw counts and rounded to fixed
point.

There are two ways to the same scores:

- row by row: the rows that a query reads are fetched from the pages of the counts, and centred or
  put through the rule then. A reader of a new version is ready at once, for it computes nothing
  beforehand; what the centring needs, the sums over buckets, is kept up to date by the edits
  themselves;
- compiled: all rows are computed once, and fast loops answer
  (:mod:`hammemo.memories.hashed.native_table`).

Which is cheaper depends on how many queries come before the next edit, which is not known. So a
reader goes row by row until that has cost about as much as compiling would, and compiles then:
never more than twice the cost of the better way
(:class:`~hammemo.memories.hashed.raw_rows.TableBudget`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hammemo._arrays.integers import narrow, object_array, row_pieces
from hammemo._versions import cached_property
from hammemo.memories.hashed.layout import RowLayout, one_if_equal, per_site
from hammemo.memories.hashed.native_table import NativeTable, whole
from hammemo.memories.hashed.raw_rows import (
    FRACTION_BITS,
    PreviousTable,
    RawRows,
    TableBudget,
    centre_counts,
    centre_rows,
)
from hammemo.memories.hashed.reserved import read_reserved, site_groups
from hammemo.memories.hashed.site_counts import SiteTable, Tables
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
    """All rows of each site as whole numbers."""

    rows: list[Array]

    step: float
    """What one is worth in a score."""

    base: Array | None
    """The score that no row adds to."""


def rule_rows(raw: RawRows, rule: RowRule) -> FixedRows:
    """Return the values of a rule for all rows."""
    rows: list[Array] = [
        _to_fixed(rule.rows(site, counts)) for site, counts in enumerate(raw.counts)
    ]
    return FixedRows(rows, 2.0**-RULE_BITS, _to_fixed(rule.base))


class HashedRanker(Ranker):
    """A rule applied to rows of raw counts and rounded to fixed point.

    Every edit changes the labels' shares, and with them the values of every row, so no table of one
    version can become that of the next: until a table is worth its making, the rule is applied to
    the rows that are read.
    """

    def __init__(self, raw: RawRows, rule: RowRule, threads: int = 1) -> None:
        n_sites = len(rule.weights)
        n_labels = len(rule.prior)
        # The scores of a context, and a second array of that size on the way to the best.
        super().__init__(n_labels, row_width=2 * n_labels)
        self._raw = raw
        self._rule = rule
        self._threads = threads
        # How many numbers the rule computes on the way for one context, in arrays of one number for
        # each site and label. Each amount of smoothing needs four: a gain, a loss and the running
        # sums of both. Four more are for the counts, the values and their rounding.
        self._context_numbers = (4 * len(rule.smoothing) + 4) * n_sites * n_labels
        self._base = _to_fixed(rule.base)
        self._budget = TableBudget(raw.layout, n_labels)

    @cached_property
    def _table(self) -> NativeTable:
        """All rows, compiled."""
        rows, step, base = rule_rows(self._raw, self._rule)
        weights = np.ones(len(rows))  # the rule has multiplied its own in
        return NativeTable(self._raw.layout, rows, weights, step, base=base, threads=self._threads)

    def _table_if_worth(self, contexts: Contexts) -> NativeTable | None:
        """Count these contexts; return `_table`, or None while too few were asked to make it."""
        is_made = "_table" in vars(self)  # where `cached_property` keeps it
        if is_made or self._budget.spend_and_test(len(contexts)):
            return self._table
        return None

    def scores(self, contexts: Contexts) -> Floats:
        """Return the rule's score of each context and label."""
        table = self._table_if_worth(contexts)
        if table is None:
            return self._row_scores(contexts)
        return table.scores(contexts)

    def _row_scores(self, contexts: Contexts) -> Floats:
        """Return the scores row by row, in pieces that bound the memory needed."""
        find_rows = self._raw.layout.find_rows
        if len(contexts) == 1:
            return self._sum_values(self._values(find_rows(contexts)))
        pieces = row_pieces(len(contexts), self._context_numbers)
        scores = [self._sum_values(self._values(find_rows(contexts[piece]))) for piece in pieces]
        if not scores:
            return np.zeros((0, self.n_labels))
        return np.concatenate(scores)

    def _values(self, rows: Ints) -> NDArray[np.int32]:
        """Return the rule's values of rows in fixed point, zero where the row is -1: (m, S, L)."""
        return _to_fixed(self._rule.values(self._raw.read(rows)))

    def _sum_values(self, values: NDArray[np.int32]) -> Floats:
        """Return the scores of contexts from the values that `_values` returned for them."""
        totals = values.sum(axis=1, dtype=np.int64) + self._base
        return np.asarray(totals * 2.0**-RULE_BITS)

    def winners(self, contexts: Contexts) -> Ints:
        """Return the column of the highest score of each context, the first one among equals."""
        table = self._table_if_worth(contexts)
        if table is None:
            return np.asarray(self._row_scores(contexts).argmax(axis=1))
        return table.winners(contexts)

    def leaders(self, contexts: Contexts, k: int) -> Ints:
        """Return the columns of the k highest scores, best first, equals in column order."""
        table = self._table_if_worth(contexts)
        if table is None:
            return top_columns(self._row_scores(contexts), k)
        return table.leaders(contexts, k)

    def single(self) -> Callable[[Sequence[Any]], int] | None:
        """Return a function from one context, of integers and strings, to the column of its winner.

        The function returns -1 for a context that it cannot answer: `winners` can. There is none
        where NumPy answers. A caller asks for it to answer many, so the table is made at once.
        """
        return self._table.single()

    def site_scores(self, contexts: Contexts, columns: Ints) -> SiteScores:
        """Return what each site adds to the scores of labels, with hard bounds.

        The bounds are those of the rule's values, rounded as the values are: rounding keeps the
        order.
        """
        rows = self._raw.layout.find_rows(contexts)
        values = self._values(rows)[:, :, columns].astype(np.float64)
        low = np.zeros(values.shape)
        high = np.zeros(values.shape)
        least, most = self._raw.bounds(contexts)
        for k, site_rows in enumerate(rows.T):
            has_row = site_rows >= 0
            least_counts = least[has_row, k]
            most_counts = most[has_row, k]
            low_values, high_values = self._rule.row_bounds(k, least_counts, most_counts)
            # where the counts are exact, no bound is nearer than the value
            is_exact = (least_counts == most_counts).all(axis=1, keepdims=True)
            exact_values = values[has_row, k]
            low[has_row, k] = np.where(is_exact, exact_values, _to_fixed(low_values)[:, columns])
            high[has_row, k] = np.where(is_exact, exact_values, _to_fixed(high_values)[:, columns])
        scale = 2.0**RULE_BITS
        return SiteScores(
            values / scale, low / scale, high / scale, base=self._base[columns] / scale
        )


def _to_fixed(values: Floats) -> NDArray[np.int32]:
    """Return the values in fixed point.

    What does not fit in 31 bits is cut: that is far beyond any sensible weight.
    """
    scaled = np.rint(values * 2.0**RULE_BITS)
    return np.minimum(np.maximum(scaled, -(2**30)), 2**30).astype(np.int32)


_ROUNDING = 1e-12
"""By how much, relatively, bounds are widened where sums of floats may be rounded."""

_COPYING = 0.125
"""What copying a compiled table costs, as a share of computing all its rows."""


class BoundTables(NamedTuple):
    """Compiled tables that scores lie between, with the weights and divisors they are made for."""

    signature: bytes

    lower: NativeTable
    """The counts in reserved rows alone."""

    upper: NativeTable
    """All counts."""


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
        *,
        threads: int = 1,
        previous: PreviousTable | None = None,
    ) -> None:
        n_labels = len(frame.labels)
        # The scores of a context, and a second array of that size on the way to the best.
        super().__init__(frame, row_width=2 * n_labels)
        # No count and no sum over the rows of a site exceeds the number of examples.
        if frame.label_counts.sum(dtype=np.float64) >= MAX_EXAMPLES:
            raise ValueError(
                "The memory holds 2^53 examples or more: fixed-point scores have room for fewer."
            )
        self._threads = threads
        self.layout = layout
        self._raw = RawRows(layout, tables, source)
        self._previous = previous
        # The table of a version before is copied, which costs less than computing all rows. There
        # are no earlier bounds to copy.
        share = 1.0 if previous is None else _COPYING
        self._budget = TableBudget(layout, n_labels, share)
        self._bound_budget = TableBudget(layout, n_labels)
        self._score_table: tuple[bytes, PreviousTable] | None = None
        self._bound_tables: BoundTables | None = None

    def scores(self, contexts: Contexts, weights: Floats) -> Floats:
        """Return the weighted sum over sites of the centred counts."""
        table = self._table_if_worth(contexts, weights, None)
        if table is None:
            return self._row_scores(contexts, weights)
        return table.scores(contexts)

    def winners(self, contexts: Contexts, weights: Floats, divisor: Divisor) -> Ints:
        """Return the column of the highest score of each context, the first one among equals."""
        table = self._table_if_worth(contexts, weights, divisor)
        if table is None:
            return np.asarray((self._row_scores(contexts, weights) / divisor).argmax(axis=1))
        return table.winners(contexts)

    def leaders(self, contexts: Contexts, weights: Floats, divisor: Divisor, k: int) -> Ints:
        """Return the columns of the k highest scores, best first, equals in column order."""
        table = self._table_if_worth(contexts, weights, divisor)
        if table is None:
            return top_columns(self._row_scores(contexts, weights) / divisor, k)
        return table.leaders(contexts, k)

    def single(self, weights: Floats, divisor: Divisor) -> Callable[[Sequence[Any]], int] | None:
        """Return a function from one context, of integers and strings, to the column of its winner.

        The function returns -1 for a context that it cannot answer: `winners` can. There is none
        where NumPy answers. A caller asks for it to answer many, so the table is made at once.
        """
        return self._table(weights, divisor).single()

    def site_counts(self, contexts: Contexts) -> Floats:
        """Return the row of raw counts that each site of each context reads: (m, S, L).

        It is zeros where a site reads none.
        """
        return self._raw.site_counts(contexts)

    def site_scores(self, contexts: Contexts, weights: Floats, columns: Ints) -> SiteScores:
        """Return what each site adds to the scores of labels, with hard bounds.

        The values are centred counts; the bounds are for exact counts.
        """
        rows = self.layout.find_rows(contexts)
        values = self._read_centred(rows)[:, :, columns] / 2**FRACTION_BITS
        low, high = self._raw.bounds(contexts)
        site_weights = weights[:, None]
        return SiteScores(
            site_weights * values,
            site_weights * low[:, :, columns],
            site_weights * high[:, :, columns],
        )

    def has_seen(self, tokens: Vocabulary) -> NDArray[np.int8]:
        """Return whether a stored example holds each token at a compared position.

        1 for yes, 0 for no, -1 where it is not known. It is looked up at the sites of one position.
        A reserved row with counts proves that the token was stored, for no other token reads it.
        Rows without counts at all compared positions prove that it was not. Nothing does where some
        position is compared only together with others: rows of tuples do not name their tokens.

        Shapes
        ------
        returned : (number of tokens,)
        """
        positions = self.layout.sites.positions
        single_sites = [k for k, site in enumerate(positions) if len(site) == 1]
        if not len(tokens) or not single_sites:
            return np.full(len(tokens), -1, np.int8)
        # one context for each token, which holds it at every position
        everywhere = Contexts(np.repeat(object_array(tokens)[:, None], self.layout.sites.h, axis=1))
        low, high = self._raw.bounds(everywhere)
        is_proven = low[:, single_sites].any(axis=(1, 2))
        single_positions = {positions[k][0] for k in single_sites}
        compared_positions = {r for site in positions for r in site}
        if compared_positions == single_positions:
            is_possible = high[:, single_sites].any(axis=(1, 2))
        else:
            is_possible = np.full(len(tokens), True)
        return np.where(is_proven, 1, np.where(is_possible, -1, 0)).astype(np.int8)

    def with_rule(self, rule: RowRule) -> HashedRanker:
        """Return what ranks labels by this rule."""
        return HashedRanker(self._raw, rule, self._threads)

    def _row_scores(self, contexts: Contexts, weights: Floats) -> Floats:
        """Return the scores row by row, in pieces that bound the memory needed."""
        find_rows = self.layout.find_rows
        if len(contexts) == 1:
            return self._sum_rows(find_rows(contexts), weights)
        pieces = row_pieces(len(contexts), 4 * len(weights) * len(self.labels))
        scores = [self._sum_rows(find_rows(contexts[piece]), weights) for piece in pieces]
        return np.concatenate([np.empty((0, len(self.labels))), *scores])

    def _sum_rows(self, rows: Ints, weights: Floats) -> Floats:
        """Return the weighted sums of centred rows, by the compiled loop where there is one.

        NumPy is as fast where all rows are centred already (`_centred`).

        Shapes
        ------
        rows : (m, S); returned : (m, L)
        """
        if self.layout.compiled is None or "_centred" in vars(self):
            return self._sum_rows_in_numpy(rows, weights)
        out = np.empty((len(rows), len(self.labels)))
        self.layout.compiled.centred_sums(
            rows=rows,
            counts=self._raw.read(rows),
            shared_sums=self._raw.shared_sums,
            weights=np.ascontiguousarray(weights, np.float64),
            out=out,
            scale=2.0**-FRACTION_BITS,
        )
        return out

    def _sum_rows_in_numpy(self, rows: Ints, weights: Floats) -> Floats:
        """Return what `_sum_rows` does, the same to the bit."""
        weighted = weights[:, None] * self._read_centred(rows)
        return np.asarray(in_order(weighted) / 2**FRACTION_BITS)

    def bounds(self, contexts: Contexts, weights: Floats) -> tuple[Floats, Floats]:
        """Return what the exact weighted counts are at least, and at most."""
        tables = self._bounds_if_worth(contexts, weights, None)
        if tables is None:
            low, high = self._row_bounds(contexts, weights)
        else:
            low = tables.lower.scores(contexts)
            high = tables.upper.scores(contexts)
        if not whole(weights) or high.max(initial=0) >= 2**53:
            # the exact classifier may round in another order
            low = low * (1 - _ROUNDING)
            high = high * (1 + _ROUNDING)
        return low, high

    def proven(self, contexts: Contexts, weights: Floats, divisor: Divisor, answers: Ints) -> Bools:
        """Return for each context whether the column `answers` must be the exact winner."""
        tables = None
        if whole(weights):
            tables = self._bounds_if_worth(contexts, weights, divisor)
        if tables is None:
            return super().proven(contexts, weights, divisor, answers)
        return tables.lower.proves(tables.upper, contexts, answers)

    def _row_bounds(self, contexts: Contexts, weights: Floats) -> tuple[Floats, Floats]:
        """Return the weighted counts of reserved rows alone, and of all rows, by NumPy."""
        lows = [np.zeros((0, len(self.labels)))]
        highs = [np.zeros((0, len(self.labels)))]
        # in pieces that bound the memory needed
        for piece in row_pieces(len(contexts), 4 * len(weights) * len(self.labels)):
            low, high = self._bound_sums(self.layout.find_rows(contexts[piece]), weights)
            lows.append(low)
            highs.append(high)
        return np.concatenate(lows), np.concatenate(highs)

    def _bound_sums(self, rows: Ints, weights: Floats) -> tuple[Floats, Floats]:
        """Return the weighted sums of the reserved ones among rows, and of all rows.

        Shapes
        ------
        rows : (m, S); returned : (m, L), (m, L)
        """
        weighted = weights[:, None] * self._raw.read(rows)
        n_reserved, _ = self.layout.sizes
        # Rows without a feature are -1, and zeros: it does not matter that they pass as reserved.
        is_reserved = (rows < n_reserved)[:, :, None]
        reserved = np.where(is_reserved, weighted, 0.0)
        return in_order(reserved), in_order(weighted)

    def integer_rows(self, rule: RowRule | None) -> FixedRows:
        """Return all rows as whole numbers: centred counts, or the values of a rule."""
        if rule is None:
            return FixedRows(self._centred, 2.0**-FRACTION_BITS, None)
        return rule_rows(self._raw, rule)

    def tensors(self) -> dict[str, Array]:
        """Return the arrays that prediction needs."""
        tables = {f"rows.{k}": _narrow_signed(table) for k, table in enumerate(self._centred)}
        reserved = {
            name: array for name, array in self.layout.reserved.arrays().items() if len(array)
        }
        return {**tables, **reserved}

    def pack(self) -> tuple[dict[str, Array], dict[str, Any]]:
        """Return what `from_packed` needs: the counts, and the layout without its secret."""
        layout = self.layout
        tables = {f"counts.{k}": narrow(counts) for k, counts in enumerate(self._raw.counts)}
        description = {
            "buckets": one_if_equal(layout.buckets),
            "seed": layout.seed,
            "key": secret_digest(layout.key),
        }
        return {**tables, **layout.reserved.arrays()}, description

    @classmethod
    def from_packed(
        cls,
        frame: Frame,
        stored: StoredArrays,
        description: dict[str, Any],
        key: bytes | None = None,
    ) -> HashedTables:
        """Return the compiled form with these arrays, checked: undo `pack`."""
        described = _check_description(description)
        groups = site_groups(frame.sites)
        n_labels = len(frame.labels)
        secret = key if described.has_key else None
        # The file does not say how many features may be reserved: its arrays say how many are.
        no_limit = [2**31] * (max(groups) + 1)
        bucket_numbers = per_site(described.buckets, len(groups))
        reserved = read_reserved(
            stored, frame.sites, seed=described.seed, key=secret, most=no_limit
        )
        tables = []
        for k, (group, n_buckets) in enumerate(zip(groups, bucket_numbers, strict=True)):
            n_reserved = len(reserved.hashes[group])
            shape = (n_reserved + n_buckets, n_labels)
            counts = stored.whole_numbers(f"counts.{k}", shape, below=MAX_EXAMPLES)
            if not stored.trusted:
                _check_totals(k, counts, frame)
            tables.append(SiteTable.of(counts[:n_reserved], counts[n_reserved:]))
        layout = RowLayout(
            sites=frame.sites,
            seed=described.seed,
            key=secret,
            buckets=described.buckets,
            reserved=reserved,
        )
        # Files have labels in canonical order, so each has the column of its own place.
        columns = np.arange(n_labels)
        return cls(layout, Tables(tuple(tables), columns), columns, frame)

    def __getstate__(self) -> dict[str, Any]:
        # Compiled tables are large, and made again where they are needed.
        no_tables = {"_previous": None, "_score_table": None, "_bound_tables": None}
        return {**vars(self), **no_tables}

    @cached_property
    def _centred(self) -> list[Ints]:
        """All rows of each site in fixed point."""
        return [
            centre_rows(counts, len(self.layout.own(k)))
            for k, counts in enumerate(self._raw.counts)
        ]

    def _read_centred(self, rows: Ints) -> Ints:
        """Return the fixed-point row that each site of each context reads, else zeros.

        Shapes
        ------
        rows : (m, S); returned : (m, S, L)
        """
        if "_centred" in vars(self):
            values = np.zeros((*rows.shape, len(self.labels)), np.int64)
            for k, (table, site_rows) in enumerate(zip(self._centred, rows.T, strict=True)):
                has_row = site_rows >= 0
                values[has_row, k] = table[site_rows[has_row]]
            return values
        counts = self._raw.read(rows)  # zeros where the row is -1, and they pass as reserved
        n_reserved, n_buckets = self.layout.sizes
        is_bucket = (rows >= n_reserved)[:, :, None]
        exact = counts << FRACTION_BITS
        centred = centre_counts(counts, self._raw.shared_sums, n_buckets)
        return np.where(is_bucket, centred, exact)

    def _table_if_worth(
        self, contexts: Contexts, weights: Floats, divisor: Divisor | None
    ) -> NativeTable | None:
        """Count these contexts; return `_table`, or None while too few were asked to make one.

        A model may change after each query, and a table of it is of no use then.
        """
        is_made = self._score_table is not None
        if is_made or self._budget.spend_and_test(len(contexts)):
            return self._table(weights, divisor)
        return None

    def _bounds_if_worth(
        self, contexts: Contexts, weights: Floats, divisor: Divisor | None
    ) -> BoundTables | None:
        """Count these contexts; return `_tables_of_bounds`, or None while too few were asked.

        It is None, too, where the tables could not be compiled: they have no advantage then.
        """
        is_made = self._bound_tables is not None
        if not is_made and not self._bound_budget.spend_and_test(len(contexts)):
            return None
        tables = self._tables_of_bounds(weights, divisor)
        if not (tables.lower.is_compiled and tables.upper.is_compiled):
            return None
        return tables

    def _table(self, weights: Floats, divisor: Divisor | None) -> NativeTable:
        """Return the table of centred counts for these weights and divisors.

        Tables are large, so only the one that was asked for last is kept. A new one is made from
        that of the version before, if few rows differ, or from all rows.
        """
        divisors = _divisor_if_needed(divisor, weights, len(self.labels))
        signature = _signature(weights, divisors)
        last = self._score_table
        if last is not None:
            last_signature, last_version = last
            if last_signature == signature:
                return last_version.table
        previous = self._previous
        table = None
        if previous is not None:
            table = previous.table_of(self._raw, weights, divisors)
        if table is None:
            table = self._make_table(self._centred, weights, divisors, step=2.0**-FRACTION_BITS)
        # A later version holds this one's counts, so it gets them without what `self._raw` caches:
        # whole arrays of all rows.
        raw = RawRows(self.layout, self._raw.tables, self._raw.source)
        self._score_table = (signature, PreviousTable(raw, weights, table))
        self._previous = None  # what came before is no longer needed
        return table

    def latest(self) -> PreviousTable | None:
        """Return what a later version can make its compiled table from.

        It is this version, or the one before.
        """
        if self._score_table is None:
            return self._previous
        return self._score_table[1]

    def _tables_of_bounds(self, weights: Floats, divisor: Divisor | None) -> BoundTables:
        """Return the tables of the counts in reserved rows alone, and of all counts."""
        divisors = _divisor_if_needed(divisor, weights, len(self.labels))
        signature = _signature(weights, divisors)
        last = self._bound_tables
        if last is not None and last.signature == signature:
            return last
        upper = [counts.astype(np.int64) for counts in self._raw.counts]
        lower = [counts.copy() for counts in upper]
        for k, counts in enumerate(lower):
            counts[len(self.layout.own(k)) :] = 0
        tables = BoundTables(
            signature,
            lower=self._make_table(lower, weights, divisors, step=1.0),
            upper=self._make_table(upper, weights, divisors, step=1.0),
        )
        self._bound_tables = tables
        return tables

    def _make_table(
        self, rows: list[Ints], weights: Floats, divisor: Floats | None, *, step: float
    ) -> NativeTable:
        """Return rows compiled with these weights."""
        return NativeTable(self.layout, rows, weights, step, divisor=divisor, threads=self._threads)


class TableDescription(NamedTuple):
    """What `HashedTables.pack` describes."""

    buckets: int | list[int]
    """The number of buckets: one for all sites, or one for each."""

    seed: int
    has_key: bool


def _check_description(description: dict[str, Any]) -> TableDescription:
    """Return the description of hashed tables in a file, or refuse it."""
    buckets: Any = description.get("buckets")
    seed = description.get("seed")
    if set(description) != {"buckets", "seed", "key"} or type(seed) is not int:
        raise ValueError("the hashed tables are not described by buckets, seed and key")
    listed_buckets = buckets if type(buckets) is list else [buckets]
    if any(type(n) is not int or not 1 <= n < 2**31 for n in listed_buckets):
        raise ValueError(
            "the buckets of the hashed tables are not one positive number, or one a site"
        )
    return TableDescription(buckets, seed, bool(description["key"]))


def _check_totals(k: int, counts: Array, frame: Frame) -> None:
    """Refuse rows of site k that count more examples than there are."""
    if (counts.sum(axis=0, dtype=np.float64) > frame.label_counts).any():
        raise ValueError(f"the rows of site {k} count more examples of a label than the label has")


def in_order(terms: Floats) -> Floats:
    """Return the sums over sites, added one after another.

    The last bit of a float depends on the order.

    Shapes
    ------
    terms : (m, S, L); returned : (m, L)
    """
    return np.asarray(np.add.accumulate(terms, axis=1)[:, -1])


def _divisor_if_needed(divisor: Divisor | None, weights: Floats, n_labels: int) -> Floats | None:
    """Return one divisor for each label, or None where it changes no comparison.

    That is where all labels share it and sums are whole. Sums that are not whole may differ by so
    little that their quotients are equal: then the first label wins, whichever sum is larger.
    """
    if divisor is None:
        return None
    values = np.asarray(divisor, np.float64)
    is_shared = values.ndim == 0 or bool((values == values[:1]).all())
    if is_shared and whole(weights):
        return None
    return np.array(np.broadcast_to(values, (n_labels,)))


def _signature(weights: Floats, divisor: Floats | None) -> bytes:
    """Return bytes that differ where a table has other weights or divisors."""
    return weights.tobytes() + (b"" if divisor is None else divisor.tobytes())


def _narrow_signed(values: Ints) -> Array:
    """Return whole numbers in the narrowest signed type.

    A signed type that holds -m - 1 holds m, so the smaller of the lowest number and -highest - 1
    decides. It is negative, and `min_scalar_type` returns a signed type for it.
    """
    highest = int(values.max(initial=0))
    lowest = int(values.min(initial=0))
    return values.astype(np.min_scalar_type(min(lowest, -highest - 1)))
