"""Rows of a table in files: of each file only the rows that a batch of queries reads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from scipy import sparse

from hammemo._arrays.integers import pieces, ranges
from hammemo._arrays.tuple_sets import TupleSet
from hammemo._versions import cached_property
from hammemo.memories.exact.score_rows import Matrix, Rows
from hammemo.memories.exact.segments.entries import SiteRows
from hammemo.memories.exact.table import CountTable
from hammemo.memories.ranker import Divisor, single_answer
from hammemo.tokens.contexts import Contexts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from hammemo._arrays.types import Bools, Floats, Ints
    from hammemo._native import Extra
    from hammemo.memories.exact.segments.set import SegmentColumns, SegmentSet
    from hammemo.tokens.vocabulary import Vocabulary

_BATCH_CONTEXTS: Final = 4096
"""Contexts that are answered at once.

Where their rows lie is known for all before the first is read."""


class DistinctRows(NamedTuple):
    """The distinct tuples that a batch of contexts has at a site, with their rows."""

    tuples: TupleSet
    """Tokens are named by their ranks in the batch."""

    places: Ints
    """Which of the tuples each context has, -1 for one without a token at the site."""

    rows: SiteRows


class FileRows(Rows):
    """The rows that contexts read, as a small sparse matrix; nothing is kept between batches."""

    @property
    def _segments(self) -> SegmentSet:
        """What is read: segments in files where compiled code adds what is on top, else all."""
        in_files = self.stored.files.segments
        return in_files if in_files.is_compiled else self.stored.all_segments

    @cached_property
    def _columns(self) -> SegmentColumns:
        """Where the labels of the segments go."""
        segments = self._segments
        if not segments.is_compiled:
            return segments.columns_in(self.labels)
        columns: SegmentColumns = self.stored.files.columns_in(
            self.labels
        )  # remembered between versions
        return columns

    def _ranks(self, contexts: Contexts) -> Ints:
        """Return the rank of each token among those of the segments that are read, -1 for none."""
        return contexts.ranks_in(self._segments.vocabulary)

    def _extras(self, contexts: Contexts) -> list[Extra]:
        """Return the entries on top of the segments that contexts read, with their signs."""
        extras: list[Extra] = []
        if not self._segments.is_compiled:
            return extras
        for live, sign in self.stored.tops:
            lengths, numbers, counts = live.version.read(live.token_numbers(contexts))
            if len(numbers):
                columns = self.stored.files.columns_of[sign](live.label_set, self.labels)[numbers]
                starts = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
                extras.append((starts, columns, sign * counts.astype(np.int64)))
        return extras

    def read(self, contexts: Contexts) -> Matrix:
        """Return the rows that contexts read as those of a sparse matrix."""
        rows = np.full((len(contexts), len(self.stored.sites.positions)), -1, np.int64)
        sites = []
        firsts = [0]
        for k, distinct in enumerate(self._distinct_rows(contexts)):
            has_entries = distinct.rows.lengths > 0
            numbers = np.where(has_entries, np.cumsum(has_entries) - 1 + firsts[-1], -1)
            rows[:, k] = np.append(numbers, -1)[distinct.places]  # -1 reads the last entry
            sites.append(distinct.rows)
            firsts.append(firsts[-1] + int(has_entries.sum()))
        none = np.empty(0, np.int64)
        lengths = np.concatenate([none, *(site.lengths for site in sites)])
        columns = np.concatenate([none, *(site.labels for site in sites)])
        counts = np.concatenate([none, *(site.counts for site in sites)]).astype(np.float64)
        starts = np.concatenate([[0], np.cumsum(lengths[lengths > 0])])
        matrix = sparse.csr_array((counts, columns, starts), shape=(firsts[-1], len(self.labels)))
        return Matrix(rows, matrix, np.array(firsts))

    def _distinct_rows(self, contexts: Contexts) -> Iterator[DistinctRows]:
        """Yield, for each site, the distinct tuples of a batch with their rows."""
        ranks = self._ranks(contexts)
        extras = self._extras(contexts)
        positions = self.stored.sites.positions
        for k, site in enumerate(positions):
            columns = list(site)
            tuples, index = TupleSet.collect(
                contexts.ranks[:, columns], max(len(contexts.vocabulary), 1)
            )
            # the first context that has each tuple: the last assignment stays
            first = np.zeros(len(tuples), np.int64)
            has_tuple = np.flatnonzero(index >= 0)[::-1]
            first[index[has_tuple]] = has_tuple
            on_top = [_take(extra, first * len(positions) + k) for extra in extras]
            rows = self._segments.site_rows(k, ranks[first][:, columns], self._columns, on_top)
            yield DistinctRows(tuples, index, rows)

    def table_of(self, contexts: Contexts) -> CountTable:
        """Return the table of the rows that contexts read, in memory."""
        sites = []
        for tuples, _, rows in self._distinct_rows(contexts):
            has_entries = rows.lengths > 0
            sites.append(
                SiteRows(
                    tuples.rows()[has_entries], rows.lengths[has_entries], rows.labels, rows.counts
                )
            )
        return CountTable.from_rows(
            self.stored.sites,
            self.stored.label_counts,
            sites,
            vocabulary=contexts.vocabulary,
            labels=self.labels,
        )

    def scores(self, contexts: Contexts, weights: Floats) -> Floats:
        """Return the weighted sum over sites of the counts, added in the order of the sites."""
        if not self._segments.is_compiled:
            return super().scores(contexts, weights)
        return self._segments.sums(
            self._ranks(contexts), weights, self._extras(contexts), self._columns
        )

    def leaders(self, contexts: Contexts, weights: Floats, divisor: Divisor, k: int) -> Ints | None:
        """Return the columns of the best weighted sums, (m, 1); None for more than one."""
        if k != 1 or not self._segments.is_compiled:
            return None
        best = np.empty((len(contexts), 1), np.int64)
        divisors = np.atleast_1d(np.asarray(divisor, np.float64))
        for piece in pieces(len(contexts), _BATCH_CONTEXTS):
            batch = contexts[piece]
            best[piece, 0] = self._segments.winners(
                self._ranks(batch),
                weights,
                extras=self._extras(batch),
                columns=self._columns,
                divisor=divisors,
            )
        return best

    def single(self, weights: Floats, divisor: Divisor) -> Callable[[Sequence[Any]], int] | None:
        """Return a fast way from one context to its best column, where nothing is on top."""
        segments = self._segments
        columns = self._columns
        divisors = np.atleast_1d(np.asarray(divisor, np.float64))
        if not segments.is_compiled or self.stored.tops:
            return None

        def winner(ranks: list[int]) -> int:
            row = np.array([ranks], np.int64)
            best = segments.winners(row, weights, extras=[], columns=columns, divisor=divisors)
            return int(best[0])

        return single_answer(self.stored.files.tokens.get, self.stored.sites.h, winner, int)

    def has_seen(self, tokens: Vocabulary) -> Bools:
        """Return for each token whether a stored example holds it at a compared position.

        Where nothing was removed, the vocabularies of the segments say it. Else rows of one token
        are looked up; only a token that has none left there, but may have one in a longer tuple,
        needs the whole table.
        """
        stored = self.stored
        positions = self.stored.sites.positions
        occurs = np.asarray(stored.vocabulary.find(tokens) >= 0)
        if all(sign > 0 for _, sign, _ in stored.all_segments.segments):
            return occurs
        unsure = np.flatnonzero(occurs)
        at_every_position = np.repeat(unsure[:, None], stored.sites.h, axis=1)
        alone = Contexts.with_ranks(tokens, at_every_position)
        single = [k for k, site in enumerate(positions) if len(site) == 1]
        occurs[unsure] = (self.read(alone).rows[:, single] >= 0).any(axis=1)
        unsure = unsure[~occurs[unsure]]
        if len(unsure) and len(single) < len(positions):
            occurs[unsure] = (stored.total.vocabulary.find(tokens) >= 0)[unsure]
        return occurs


def _take(extra: Extra, places: Ints) -> Extra:
    """Return the entries at some places, one after the other."""
    starts, columns, counts = extra
    lengths = starts[places + 1] - starts[places]
    entries = ranges(starts[places], lengths)
    new_starts = np.concatenate([[0], np.cumsum(lengths)])
    picked: Extra = (new_starts, columns[entries], counts[entries])
    return picked
