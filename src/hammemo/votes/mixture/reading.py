"""What the components of a mixture say: of one label an example, or of all labels.

For one label an example (the likelihood of a sample or of a text) single entries of static rows are read; this costs
the same for ten labels and for ten million. For all labels the rows themselves are read, from a live table too.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from hammemo._versions import Cached, cached_property
from hammemo.kernels.free_sites import Places, derive_examples, find_places
from hammemo.kernels.sites import FreeSite, find_sites
from hammemo.memories.exact import Entries, SparseCounts, columns_in, token_rows
from hammemo.votes.mixture.gates import (
    PRIOR,
    Components,
    Terms,
    discounts_of,
    modified_discounts,
    row_buckets,
    row_odds,
)
from hammemo.votes.mixture.held_out_counts import (
    CountRows,
    LeftOut,
    Read,
    RowEntries,
    continuation_rows,
)

if TYPE_CHECKING:
    from hammemo._arrays.types import Floats, Ints
    from hammemo.memories.reader import Reader
    from hammemo.tokens.contexts import Contexts, Examples


class StaticTables(Cached):
    """The rows of a reader's tables for reading single entries, each made when it is first read."""

    def __init__(self, reader: SparseCounts, components: Components) -> None:
        self.reader = reader
        self.components = components
        self.n_labels = len(reader.labels)

    @cached_property
    def sites(self) -> CountRows:
        """The rows of all sites, stacked."""
        table = self.reader.table
        return CountRows.of_table(
            table, self.reader.labels.find(table.label_counts.labels), self.n_labels
        )

    @cached_property
    def continued(self) -> list[tuple[CountRows, Ints]]:
        """The continuation counts, and the row of the shorter suffix that each row of the longer one belongs to."""
        pairs = self.components.continued
        return [
            continuation_rows(self.reader.table, self.sites, longer, shorter)
            for longer, shorter in pairs
        ]

    @cached_property
    def free(self) -> list[CountRows]:
        """The rows of the sites without a position, with the columns of their own labels.

        Some may be tokens that never were a label: no answer, but they count in the totals of rows.
        """
        return [
            CountRows.of_table(
                table, np.arange(len(table.label_counts.labels)), len(table.label_counts.labels)
            )
            for table in (reader.table for reader in self.reader.free)
        ]

    def discounts(self) -> Floats:
        """Return what entries of counts 0, 1, 2 and 3 or more lose, for each table: (n_tables, 4)."""
        if (
            self.reader.count_histogram is not None
        ):  # of the table that the reader has only some rows of
            sites = [discounts_of(times) for times in self.reader.count_histogram]
        else:
            starts = np.cumsum([0, *map(len, self.reader.table.tuples)])
            cuts = np.searchsorted(self.sites.keys, starts * max(self.n_labels, 1))
            sites = [
                modified_discounts(self.sites.counts[first:last]) for first, last in pairwise(cuts)
            ]
        others = [rows.counts for rows, _ in self.continued] + [rows.counts for rows in self.free]
        return np.array([*sites, *map(modified_discounts, others)])

    def rows_of(self, contexts: Contexts) -> Ints:
        """Return the row that each site of each context reads, -1 for none: (m, S)."""
        table = self.reader.table
        return find_sites(contexts.ranks_in(table.vocabulary), table.sites, table.tuples)


def static_tables(reader: SparseCounts, components: Components) -> StaticTables:
    """Return the static tables of a reader, made once for the components asked for last."""
    known: StaticTables | None = vars(reader).get("known_static_tables")
    if known is None or known.components != components:
        known = StaticTables(reader, components)
        reader.known_static_tables = known
    return known


def rows_reader(reader: Reader) -> SparseCounts:
    """Return a reader that a mixture can read, or refuse it."""
    if not isinstance(reader, SparseCounts):
        raise TypeError(
            f"A mixture reads rows of exact counts, which {type(reader).__name__} does not keep: use memory='exact'."
        )
    return reader


class LabelTerms:
    """What the components say of the label of each example.

    Parameters
    ----------
    tables : StaticTables
    discounts : ndarray of shape (n_tables, 4)
    examples : Examples
        All with labels of the reader.
    leave_out : bool
        Whether each example is judged without what its case has added.
    """

    def __init__(
        self, tables: StaticTables, discounts: Floats, examples: Examples, *, leave_out: bool
    ) -> None:
        self.tables, self.discounts, self.examples, self.leave_out = (
            tables,
            discounts,
            examples,
            leave_out,
        )
        self.m = len(examples)
        self.labels = tables.reader.labels.find(examples.labels)[examples.label_ranks]
        self.cases = np.arange(self.m) if examples.cases is None else examples.cases
        self._none = RowEntries(*(np.empty(0, np.int64) for _ in range(3)))

    def all(self) -> Terms:
        """Return the terms of all components."""
        parts = [self._prior(), *self._sites()]
        free = iter(range(len(self.tables.free)))
        for k, site in enumerate(self.tables.components.sites.free):
            if site.kind == "recent":
                parts.append(self._recent(k, site.reach))
            elif site.kind == "copy":
                parts.append(self._copy(k, site.reach))
            else:
                parts.append(self._free(k, next(free)))
        return Terms.joined(parts)

    def _prior(self) -> Terms:
        counts = self.tables.reader.label_counts
        own = own_totals = np.zeros(self.m, np.int64)
        if self.leave_out:
            keys = self.cases * self.tables.n_labels + self.labels
            _, first, times = np.unique(keys, return_inverse=True, return_counts=True)
            own, own_totals = times[first], np.bincount(self.cases)[self.cases]
        total = counts.sum() - own_totals + 0.5 * len(counts)
        shares = np.maximum(counts[self.labels] - own, 0) + 0.5
        return self._terms(
            np.arange(self.m), np.full(self.m, PRIOR), np.zeros(self.m, np.int64), shares / total
        )

    def _terms(
        self, examples: Any, components: Any, buckets: Any, shares: Any, odds: Any = 1.0
    ) -> Terms:
        return Terms(
            np.asarray(examples, np.int64),
            np.asarray(components, np.int64),
            np.asarray(buckets, np.int64),
            np.asarray(shares, np.float64),
            np.broadcast_to(np.asarray(odds, np.float64), (len(examples),)),
        )

    def _sites(self) -> list[Terms]:
        rows = self.tables.rows_of(self.examples.contexts)
        n_sites = rows.shape[1]
        entry = RowEntries(
            np.repeat(self.cases, n_sites), rows.ravel(), np.repeat(self.labels, n_sites)
        )
        left = LeftOut(self.tables.sites, entry if self.leave_out else self._none)
        examples, sites = np.repeat(np.arange(self.m), n_sites), np.tile(np.arange(n_sites), self.m)
        parts = [self._row_terms(left.read(entry), entry.rows, examples, 1 + sites, sites)]
        starts = np.cumsum([0, *map(len, self.tables.reader.table.tuples)])
        for number, (longer, shorter) in enumerate(self.tables.components.continued):
            counts, parents = self.tables.continued[number]
            parts.append(
                self._continuation(
                    number, counts, parents, left.gone(), rows, starts, longer, shorter
                )
            )
        return parts

    def _continuation(
        self,
        number: int,
        counts: CountRows,
        parents: Ints,
        gone: RowEntries,
        rows: Ints,
        starts: Ints,
        longer: int,
        shorter: int,
    ) -> Terms:
        """Return the terms of continuation counts, without the entries that are gone with the case."""
        inside = (gone.rows >= starts[longer]) & (gone.rows < starts[longer + 1])
        own = RowEntries(
            gone.cases[inside], parents[gone.rows[inside] - starts[longer]], gone.labels[inside]
        )
        asked = np.zeros(self.m, np.int64)
        if shorter >= 0:
            asked = np.where(rows[:, shorter] >= 0, rows[:, shorter] - starts[shorter], -1)
        entry = RowEntries(self.cases, asked, self.labels)
        read = LeftOut(counts, own).read(entry)
        components = self.tables.components
        table = np.full(self.m, components.continuation_table(number))
        component = np.full(self.m, components.continuation_of(number))
        return self._row_terms(read, asked, np.arange(self.m), component, table)

    def _row_terms(
        self, read: Read, rows: Ints, examples: Ints, components: Ints, tables: Ints
    ) -> Terms:
        """Return the terms of rows, those that hold something after the discount."""
        lost = self.discounts[tables]
        discounted = lost_of(read.classes, lost)
        kept = read.totals - discounted
        active = (rows >= 0) & (read.totals > 0) & (kept > MIN_KEPT)
        gained = read.counts - lost[np.arange(len(lost)), np.minimum(read.counts, 3)]
        shares = np.maximum(gained, 0.0)[active] / kept[active]
        buckets, odds = row_buckets(read.totals), row_odds(read.totals, discounted)
        return self._terms(
            examples[active], components[active], buckets[active], shares, odds[active]
        )

    def free_rows(self, site: FreeSite, number: int) -> tuple[Places, Ints, LeftOut]:
        """Return the tokens that a site without a position reads, their rows, and these without the examples' cases."""
        table = self.tables.reader.free[number].table
        known, (tuples,) = table.vocabulary, table.tuples
        contexts = self.examples.contexts
        places = find_places(contexts.ranks, site.reach)
        rows = tuples.find(known.find(contexts.vocabulary)[places.ranks][:, None])
        own = self._none
        if self.leave_out:
            derived = derive_examples(self.examples, site)
            assert derived.cases is not None
            own = RowEntries(
                derived.cases,
                tuples.find(derived.contexts.ranks_in(known)),
                table.label_counts.labels.find(derived.labels)[derived.label_ranks],
            )
        return places, rows, LeftOut(self.tables.free[number], own)

    def _free(self, k: int, number: int) -> Terms:
        """Return the terms of a site without a position that has a table."""
        components = self.tables.components
        places, rows, left = self.free_rows(components.sites.free[k], number)
        inner = self.tables.reader.free[number].table.label_counts.labels
        labels = inner.find(self.tables.reader.labels)[self.labels]
        read = left.read(RowEntries(self.cases[places.contexts], rows, labels[places.contexts]))
        tables = np.full(len(rows), components.free_table(number))
        return self._row_terms(
            read, rows, places.contexts, components.free(k, places.distances), tables
        )

    def _copy(self, k: int, reach: int) -> Terms:
        contexts = self.examples.contexts
        places = find_places(contexts.ranks, reach)
        columns = self.tables.reader.labels.find(contexts.vocabulary)[places.ranks]
        held = columns >= 0
        examples = places.contexts[held]
        return self._terms(
            examples,
            self.tables.components.free(k, places.distances[held]),
            length_buckets(contexts.ranks, reach)[examples],
            columns[held] == self.labels[examples],
        )

    def _recent(self, k: int, reach: int) -> Terms:
        contexts = self.examples.contexts
        columns = np.append(self.tables.reader.labels.find(contexts.vocabulary), -1)
        last = columns[contexts.ranks[:, contexts.h - reach :]]
        tokens = (last >= 0).sum(axis=1)
        examples = np.flatnonzero(tokens)
        same = (last[examples] == self.labels[examples, None]).sum(axis=1)
        component = self.tables.components.free(k)
        return self._terms(
            examples,
            np.full(len(examples), component),
            np.zeros(len(examples)),
            same / tokens[examples],
        )


MIN_KEPT = 1e-9
"""A row of which no more is left after the discount says nothing."""


def lost_of(classes: Ints, lost: Floats) -> Floats:
    """Return how much of rows is discounted, for entries of counts 1, 2 and 3 or more."""
    return np.asarray(
        classes[:, 1] * lost[:, 1] + classes[:, 2] * lost[:, 2] + classes[:, 3] * lost[:, 3]
    )


def length_buckets(ranks: Ints, reach: int) -> Ints:
    """Return the bucket of contexts by the number of their last tokens, from 1 to 8 and more."""
    return np.asarray(np.clip((ranks[:, ranks.shape[1] - reach :] >= 0).sum(axis=1) - 1, 0, 7))


@dataclass(frozen=True, eq=False)
class RowsRead:
    """Rows that contexts read: of each row the context, the component and its discounts, and what it reads.

    Entries of tokens that never were a label count in the totals and classes of a row, and are left out of its entries.

    Shapes
    ------
    contexts, components, totals : (r,); lost, classes : (r, 4)
    distances : (r,), of the tokens of a site without a position
    """

    contexts: Ints
    components: Ints
    lost: Floats
    entries: Entries
    totals: Ints
    classes: Ints
    distances: Ints | None = None

    @classmethod
    def of(
        cls,
        contexts: Ints,
        components: Ints,
        lost: Floats,
        entries: Entries,
        *,
        columns: Ints | None = None,
        distances: Ints | None = None,
    ) -> RowsRead:
        """Return rows with all of their entries; `columns`: those of the labels, -1 for one that is left out."""
        n_rows = len(contexts)
        owners = np.repeat(np.arange(n_rows), entries.lengths)
        totals = np.bincount(owners, entries.counts, n_rows).astype(np.int64)  # exact: below 2^53
        classes = np.bincount(
            owners * 4 + np.minimum(entries.counts, 3), minlength=4 * n_rows
        ).reshape(n_rows, 4)
        answered = entries if columns is None else entries.in_columns(columns)
        return cls(contexts, components, lost, answered, totals, classes, distances)


class LeftOutRows:
    """All rows that examples read, of all labels, each without what the case of the example has added.

    Parameters
    ----------
    terms : LabelTerms
        Of the examples, left out with their cases; without continuation counts.
    """

    def __init__(self, terms: LabelTerms) -> None:
        self._terms = terms
        self._rows = terms.tables.rows_of(terms.examples.contexts)
        n_sites = self._rows.shape[1]
        own = RowEntries(
            np.repeat(terms.cases, n_sites), self._rows.ravel(), np.repeat(terms.labels, n_sites)
        )
        self._left = LeftOut(terms.tables.sites, own)
        self._free = [
            (terms.tables.components.sites.free.index(site), *terms.free_rows(site, number))
            for number, site in enumerate(terms.tables.components.sites.free_with_table)
        ]

    def read(self, part: slice) -> list[RowsRead]:
        """Return the rows that some examples read."""
        terms, components = self._terms, self._terms.tables.components
        rows = self._rows[part]
        m, n_sites = rows.shape
        sites = np.tile(np.arange(n_sites), m)
        entries, like = self._left.whole_rows(np.repeat(terms.cases[part], n_sites), rows.ravel())
        owners, lost = np.repeat(np.arange(m), n_sites), terms.discounts[sites]
        read = [RowsRead(owners, 1 + sites, lost, Entries(*entries), like.totals, like.classes)]
        for number, (k, places, found, left) in enumerate(self._free):
            first, last = np.searchsorted(places.contexts, [part.start, part.start + m])
            contexts, distances = places.contexts[first:last], places.distances[first:last]
            entries, like = left.whole_rows(terms.cases[contexts], found[first:last])
            lost = np.broadcast_to(
                terms.discounts[components.free_table(number)], (len(contexts), 4)
            )
            inner = terms.tables.reader.free[number].table.label_counts.labels
            answered = Entries(*entries).in_columns(terms.tables.reader.labels.find(inner))
            numbers = components.free(k, distances)
            read.append(
                RowsRead(contexts - part.start, numbers, lost, answered, like.totals, like.classes)
            )
        return read


def read_rows(
    reader: SparseCounts, components: Components, discounts: Floats, contexts: Contexts
) -> list[RowsRead]:
    """Return all rows that contexts read, of all labels."""
    m, n_sites = len(contexts), len(components.sites.positions)
    order = np.arange(m)
    sites = np.tile(np.arange(n_sites), m)
    read = [
        RowsRead.of(
            np.repeat(order, n_sites), 1 + sites, discounts[sites], reader.rows.entries(contexts)
        )
    ]
    for number, (_, shorter) in enumerate(components.continued):
        tables = static_tables(reader, components)
        rows = np.zeros(m, np.int64)
        if shorter >= 0:
            starts = np.cumsum([0, *map(len, reader.table.tuples)])
            found = tables.rows_of(contexts)[:, shorter]
            rows = np.where(found >= 0, found - starts[shorter], -1)
        entries = Entries(*tables.continued[number][0].row_entries(rows))
        lost = np.broadcast_to(discounts[components.continuation_table(number)], (m, 4))
        read.append(
            RowsRead.of(order, np.full(m, components.continuation_of(number)), lost, entries)
        )
    for number, site in enumerate(components.sites.free_with_table):
        places, entries = token_rows(reader, number, site, contexts)
        columns = columns_in(reader.labels, reader.free[number].labels)
        lost = np.broadcast_to(discounts[components.free_table(number)], (len(places.ranks), 4))
        k = components.sites.free.index(site)
        numbers = components.free(k, places.distances)
        read.append(
            RowsRead.of(
                places.contexts, numbers, lost, entries, columns=columns, distances=places.distances
            )
        )
    return read
