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
        """The segments that are read: those in files where there is compiled code, else all terms.

        Compiled code adds the entries on top of the files itself, from `_extras`.
        """
        in_files = self.stored.files.segments
        return in_files if in_files.is_compiled else self.stored.all_segments

    @cached_property
    def _columns(self) -> SegmentColumns:
        """The column of each label of the segments among the labels of this reader."""
        segments = self._segments
        if not segments.is_compiled:
            return segments.columns_in(self.labels)
        # Remembered by the files: versions share them, and most have the same labels.
        columns: SegmentColumns = self.stored.files.columns_in(self.labels)
        return columns

    def _ranks(self, contexts: Contexts) -> Ints:
        """Return the rank of each token among those of the segments that are read, -1 for none."""
        return contexts.ranks_in(self._segments.vocabulary)

    def _extras(self, contexts: Contexts) -> list[Extra]:
        """Return the entries of the live tables on top of the files that contexts read.

        They are what was learned and removed since the files were written; counts of what was
        removed are negative. Without compiled code there are none, because `_segments` has all.
        """
        extras: list[Extra] = []
        if not self._segments.is_compiled:
            return extras
        for live, sign in self.stored.tops:
            lengths, label_numbers, counts = live.version.read(live.token_numbers(contexts))
            if not len(label_numbers):
                continue
            columns_of_labels = self.stored.files.columns_of[sign](live.label_set, self.labels)
            starts = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
            signed_counts = sign * counts.astype(np.int64)
            extras.append((starts, columns_of_labels[label_numbers], signed_counts))
        return extras

    def read(self, contexts: Contexts) -> Matrix:
        """Return the rows that contexts read as those of a sparse matrix.

        It has one row for each distinct tuple of the batch that has entries, site after site.
        """
        rows = np.full((len(contexts), len(self.stored.sites.positions)), -1, np.int64)
        site_rows = []
        firsts = [0]
        for k, distinct in enumerate(self._distinct_rows(contexts)):
            has_entries = distinct.rows.lengths > 0
            n_before = np.cumsum(has_entries) - 1  # rows of the site before each one with entries
            matrix_rows = np.where(has_entries, firsts[-1] + n_before, -1)
            rows[:, k] = np.append(matrix_rows, -1)[distinct.places]  # -1 reads the last entry
            site_rows.append(distinct.rows)
            firsts.append(firsts[-1] + int(has_entries.sum()))
        none = np.empty(0, np.int64)  # for no sites
        lengths = np.concatenate([none, *(site.lengths for site in site_rows)])
        columns = np.concatenate([none, *(site.labels for site in site_rows)])
        counts = np.concatenate([none, *(site.counts for site in site_rows)]).astype(np.float64)
        starts = np.concatenate([[0], np.cumsum(lengths[lengths > 0])])
        matrix = sparse.csr_array((counts, columns, starts), shape=(firsts[-1], len(self.labels)))
        return Matrix(rows, matrix, np.array(firsts))

    def _distinct_rows(self, contexts: Contexts) -> Iterator[DistinctRows]:
        """Yield, for each site, the distinct tuples of a batch with their rows.

        Tuples are those of the batch, named by ranks among its tokens. Their rows are looked up by
        ranks among the tokens of the segments.
        """
        segment_ranks = self._ranks(contexts)
        extras = self._extras(contexts)
        sites = self.stored.sites.positions
        n_tokens = max(len(contexts.vocabulary), 1)
        for k, site in enumerate(sites):
            positions = list(site)
            tuples, places = TupleSet.collect(contexts.ranks[:, positions], n_tokens)
            # One context with each tuple stands for it. Going backwards it is the first one,
            # because the last assignment stays.
            contexts_of_tuples = np.zeros(len(tuples), np.int64)
            has_tuple = np.flatnonzero(places >= 0)[::-1]
            contexts_of_tuples[places[has_tuple]] = has_tuple
            # extras have a row for each site of each context, in this order
            extra_rows = contexts_of_tuples * len(sites) + k
            on_top = [_take(extra, extra_rows) for extra in extras]
            tuple_ranks = segment_ranks[contexts_of_tuples][:, positions]
            rows = self._segments.site_rows(k, tuple_ranks, self._columns, on_top)
            yield DistinctRows(tuples, places, rows)

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
        """Return a fast function from one context to its best column; None where there is none.

        It needs compiled code, and files with nothing on top: it does not add `_extras`.
        """
        segments = self._segments
        if not segments.is_compiled or self.stored.tops:
            return None
        columns = self._columns
        divisors = np.atleast_1d(np.asarray(divisor, np.float64))

        def find_winner(ranks: list[int]) -> int:
            row = np.array([ranks], np.int64)
            best = segments.winners(row, weights, extras=[], columns=columns, divisor=divisors)
            return int(best[0])

        # `find_winner` returns a column already, so that `int` leaves it as it is
        return single_answer(self.stored.files.tokens.get, self.stored.sites.h, find_winner, int)

    def has_seen(self, tokens: Vocabulary) -> Bools:
        """Return for each token whether a stored example holds it at a compared position.

        Where nothing was removed, the vocabularies of the segments say it. Else a token of these
        may have no example left, and its rows at sites of one position are looked up. A token that
        has none there may still be part of a longer tuple: only for such tokens, and kernels with
        longer sites, the whole table is needed.
        """
        stored = self.stored
        positions = stored.sites.positions
        occurs = np.asarray(stored.vocabulary.find(tokens) >= 0)
        was_anything_removed = any(sign < 0 for _, sign, _ in stored.all_segments.segments)
        if not was_anything_removed:
            return occurs
        unsure = np.flatnonzero(occurs)
        # one context for each token, which holds it at every position
        at_every_position = np.repeat(unsure[:, None], stored.sites.h, axis=1)
        alone = Contexts.with_ranks(tokens, at_every_position)
        single_sites = [k for k, site in enumerate(positions) if len(site) == 1]
        occurs[unsure] = (self.read(alone).rows[:, single_sites] >= 0).any(axis=1)
        unsure = unsure[~occurs[unsure]]
        has_longer_sites = len(single_sites) < len(positions)
        if len(unsure) and has_longer_sites:
            occurs[unsure] = (stored.total.vocabulary.find(tokens) >= 0)[unsure]
        return occurs


def _take(extra: Extra, places: Ints) -> Extra:
    """Return the entries of the rows at some places, one row after the other."""
    starts, columns, counts = extra
    lengths = starts[places + 1] - starts[places]
    entries = ranges(starts[places], lengths)
    new_starts = np.concatenate([[0], np.cumsum(lengths)])
    picked: Extra = (new_starts, columns[entries], counts[entries])
    return picked
