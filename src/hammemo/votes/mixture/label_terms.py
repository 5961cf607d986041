"""What the components of a mixture say of the label of each example: the terms of its likelihood.

Only single entries of rows are read, so this costs the same for ten labels and for ten million.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from hammemo.kernels.free_sites import Places, derive_examples, find_places
from hammemo.votes.mixture.gates import PRIOR, Terms, row_buckets, row_odds
from hammemo.votes.mixture.held_out_counts import LabelReads, LeftOut, RowEntries

if TYPE_CHECKING:
    from hammemo._arrays.types import Array, Floats, Ints
    from hammemo.kernels.sites import FreeSite
    from hammemo.tokens.contexts import Examples
    from hammemo.votes.mixture.static_tables import StaticTables

MIN_REMAINING: Final = 1e-9
"""A row of which no more remains after the discount says nothing."""

_MOST_LENGTH_BUCKET: Final = 7
"""The bucket of contexts of 8 tokens and more."""


@dataclass(frozen=True, eq=False)
class FreeSiteRows:
    """What contexts read at a site without a position that has a table."""

    places: Places
    """The distinct tokens that are read."""
    rows: Ints
    """The row of each token: -1 for none."""
    left_out: LeftOut
    """The rows without what the cases of the examples have added."""


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
        self.tables = tables
        self.discounts = discounts
        self.examples = examples
        self.leave_out = leave_out
        self.m = len(examples)
        self.labels = tables.reader.labels.find(examples.labels)[examples.label_ranks]
        self.cases = np.arange(self.m) if examples.cases is None else examples.cases

    def compute(self) -> Terms:
        """Return the terms of all components."""
        pieces = [self._read_prior(), *self._read_sites()]
        n_tables = 0
        for k, site in enumerate(self.tables.components.sites.free):
            if site.kind == "recent":
                pieces.append(self._read_recent(k, site.reach))
            elif site.kind == "copy":
                pieces.append(self._read_copies(k, site.reach))
            else:
                pieces.append(self._read_free(k, n_tables))
                n_tables += 1
        return Terms.concatenate(pieces)

    def read_free_rows(self, site: FreeSite, number: int) -> FreeSiteRows:
        """Return what the examples read at a site without a position."""
        table = self.tables.reader.free[number].table
        (tuples,) = table.tuples
        contexts = self.examples.contexts
        places = find_places(contexts.ranks, site.reach)
        token_ranks = table.vocabulary.find(contexts.vocabulary)[places.ranks]
        added = RowEntries.empty()
        if self.leave_out:
            derived = derive_examples(self.examples, site)
            assert derived.cases is not None
            added = RowEntries(
                cases=derived.cases,
                rows=tuples.find(derived.contexts.ranks_in(table.vocabulary)),
                labels=table.label_counts.labels.find(derived.labels)[derived.label_ranks],
            )
        left_out = LeftOut(self.tables.free[number], added)
        return FreeSiteRows(places, tuples.find(token_ranks[:, None]), left_out)

    def _read_prior(self) -> Terms:
        """Return the terms of the labels' own shares."""
        counts = self.tables.reader.label_counts
        case_counts: Ints = np.zeros(self.m, np.int64)  # of the example's label in its case
        case_totals: Ints = case_counts
        if self.leave_out:
            keys = self.cases * self.tables.n_labels + self.labels
            _, places, times = np.unique(keys, return_inverse=True, return_counts=True)
            case_counts = times[places]
            case_totals = np.bincount(self.cases)[self.cases]
        totals = counts.sum() - case_totals + 0.5 * len(counts)
        shares = np.maximum(counts[self.labels] - case_counts, 0) + 0.5
        return _make_terms(
            examples=np.arange(self.m),
            components=np.full(self.m, PRIOR),
            buckets=np.zeros(self.m, np.int64),
            shares=shares / totals,
        )

    def _read_sites(self) -> list[Terms]:
        """Return the terms of the sites, and those of their continuations."""
        rows = self.tables.find_rows(self.examples.contexts)
        n_sites = rows.shape[1]
        entries = RowEntries(
            cases=np.repeat(self.cases, n_sites),
            rows=rows.ravel(),
            labels=np.repeat(self.labels, n_sites),
        )
        left_out = LeftOut(self.tables.sites, entries if self.leave_out else RowEntries.empty())
        sites = np.tile(np.arange(n_sites), self.m)
        site_terms = self._make_row_terms(
            left_out.read_labels(entries),
            rows=entries.rows,
            examples=np.repeat(np.arange(self.m), n_sites),
            components=1 + sites,
            tables=sites,
        )
        continuations = self.tables.components.continued
        if not continuations:
            return [site_terms]
        gone = left_out.list_gone()
        return [
            site_terms,
            *(self._read_continuation(number, rows, gone) for number in range(len(continuations))),
        ]

    def _read_continuation(self, number: int, rows: Ints, gone: RowEntries) -> Terms:
        """Return the terms of the continuation counts of a suffix.

        An entry of the longer suffix that is gone without the case counts once less.
        """
        components = self.tables.components
        longer, shorter = components.continued[number]
        counts, parents = self.tables.continued[number]
        starts = self.tables.site_starts
        gone = gone.select((gone.rows >= starts[longer]) & (gone.rows < starts[longer + 1]))
        added = RowEntries(
            cases=gone.cases,
            rows=parents[gone.rows - starts[longer]],
            labels=gone.labels,
        )
        suffix_rows = self.tables.find_suffix_rows(rows, shorter)
        entries = RowEntries(self.cases, suffix_rows, self.labels)
        return self._make_row_terms(
            LeftOut(counts, added).read_labels(entries),
            rows=suffix_rows,
            examples=np.arange(self.m),
            components=np.full(self.m, components.continuation_of(number)),
            tables=np.full(self.m, components.continuation_table(number)),
        )

    def _read_free(self, k: int, number: int) -> Terms:
        """Return the terms of a site without a position that has a table."""
        components = self.tables.components
        free = self.read_free_rows(components.sites.free[k], number)
        examples = free.places.contexts
        table_labels = self.tables.reader.free[number].table.label_counts.labels
        labels = table_labels.find(self.tables.reader.labels)[self.labels]
        entries = RowEntries(self.cases[examples], free.rows, labels[examples])
        return self._make_row_terms(
            free.left_out.read_labels(entries),
            rows=free.rows,
            examples=examples,
            components=components.free(k, free.places.distances),
            tables=np.full(len(free.rows), components.free_table(number)),
        )

    def _read_copies(self, k: int, reach: int) -> Terms:
        """Return the terms of tokens that say that the label is the same token."""
        contexts = self.examples.contexts
        places = find_places(contexts.ranks, reach)
        columns = self.tables.reader.labels.find(contexts.vocabulary)[places.ranks]
        is_label = columns >= 0
        examples = places.contexts[is_label]
        return _make_terms(
            examples=examples,
            components=self.tables.components.free(k, places.distances[is_label]),
            buckets=length_buckets(contexts.ranks, reach)[examples],
            shares=columns[is_label] == self.labels[examples],
        )

    def _read_recent(self, k: int, reach: int) -> Terms:
        """Return the terms of the last tokens: how many of them are the label."""
        contexts = self.examples.contexts
        columns = np.append(self.tables.reader.labels.find(contexts.vocabulary), -1)
        last_columns = columns[contexts.ranks[:, contexts.h - reach :]]
        n_tokens = (last_columns >= 0).sum(axis=1)
        examples = np.flatnonzero(n_tokens)
        n_equal = (last_columns[examples] == self.labels[examples, None]).sum(axis=1)
        component = self.tables.components.free(k)
        return _make_terms(
            examples=examples,
            components=np.full(len(examples), component),
            buckets=np.zeros(len(examples), np.int64),
            shares=n_equal / n_tokens[examples],
        )

    def _make_row_terms(
        self, reads: LabelReads, *, rows: Ints, examples: Ints, components: Ints, tables: Ints
    ) -> Terms:
        """Return the terms of rows, those of which something remains after the discount."""
        lost = self.discounts[tables]
        discounted = sum_discounts(reads.classes, lost)
        remaining = reads.totals - discounted
        is_active = (rows >= 0) & (reads.totals > 0) & (remaining > MIN_REMAINING)
        reduced = reads.counts - lost[np.arange(len(lost)), np.minimum(reads.counts, 3)]
        return _make_terms(
            examples=examples[is_active],
            components=components[is_active],
            buckets=row_buckets(reads.totals)[is_active],
            shares=np.maximum(reduced, 0.0)[is_active] / remaining[is_active],
            odds=row_odds(reads.totals, discounted)[is_active],
        )


def _make_terms(
    *, examples: Ints, components: Ints, buckets: Ints, shares: Array, odds: Floats | None = None
) -> Terms:
    """Return terms in their types; the odds are 1 if there are none."""
    if odds is None:
        odds = np.broadcast_to(1.0, (len(examples),))
    return Terms(
        examples=np.asarray(examples, np.int64),
        components=np.asarray(components, np.int64),
        buckets=np.asarray(buckets, np.int64),
        shares=np.asarray(shares, np.float64),
        odds=odds,
    )


def sum_discounts(classes: Ints, lost: Floats) -> Floats:
    """Return how much of rows is discounted, for entries of counts 1, 2, and 3 or more.

    Shapes
    ------
    classes, lost : (r, 4); returned : (r,)
    """
    return np.asarray(
        classes[:, 1] * lost[:, 1] + classes[:, 2] * lost[:, 2] + classes[:, 3] * lost[:, 3]
    )


def length_buckets(ranks: Ints, reach: int) -> Ints:
    """Return the bucket of contexts by the number of their last tokens, from 1 to 8 and more."""
    n_tokens = (ranks[:, ranks.shape[1] - reach :] >= 0).sum(axis=1)
    return np.asarray(np.clip(n_tokens - 1, 0, _MOST_LENGTH_BUCKET))
