"""Rows of a table whose terms lie in files: of each file only the rows that a batch of queries reads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
from scipy import sparse

from hammemo._arrays.integers import pieces, ranges
from hammemo._arrays.tuple_sets import TupleSet
from hammemo._versions import cached_property
from hammemo.memories.exact.rows import Matrix, Rows
from hammemo.memories.exact.segments.entries import SiteRows
from hammemo.memories.exact.table import CountTable
from hammemo.memories.ranker import Divisor, single_answer
from hammemo.tokens.contexts import Contexts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from hammemo._arrays.types import Bools, Floats, Ints
    from hammemo._native import Extra
    from hammemo.memories.exact.segments.set import Columns, SegmentSet
    from hammemo.tokens.vocabulary import Vocabulary

_BATCH_CONTEXTS: Final = 4096
"""Contexts that are answered at once: where their rows lie is known for all before the first is read."""


class FileRows(Rows):
    """The rows that contexts read, as a small sparse matrix; nothing is kept between batches."""

    @property
    def _segments(self) -> SegmentSet:
        """What is read: the segments in files where compiled code adds what is on top of them, else all."""
        in_files = self.stored.files.segments
        return in_files if in_files.is_compiled else self.stored.all_segments

    @cached_property
    def _columns(self) -> Columns:
        """Where the labels of the segments go."""
        segments, files = self._segments, self.stored.files
        columns: Columns = files.columns_in(self.labels) if segments.is_compiled else segments.columns_in(self.labels)
        return columns

    def _ranks(self, contexts: Contexts) -> Ints:
        """Return the rank of each token among those of the segments that are read, -1 for none."""
        return contexts.ranks_in(self._segments.vocabulary)

    def _extras(self, contexts: Contexts) -> list[Extra]:
        """Return the entries on top of the segments that each site of each context reads, with their signs."""
        found: list[Extra] = []
        if not self._segments.is_compiled:
            return found
        for live, sign in self.stored.tops:
            lengths, numbers, counts = live.version.read(live.token_numbers(contexts))
            if len(numbers):
                columns = self.stored.files.columns_of[sign](live.label_set, self.labels)[numbers]
                starts = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
                found.append((starts, columns, sign * counts.astype(np.int64)))
        return found

    def read(self, contexts: Contexts) -> Matrix:
        """Return the rows that contexts read as those of a sparse matrix."""
        rows = np.full((len(contexts), len(self.stored.sites.positions)), -1, np.int64)
        read, firsts = [], [0]
        for k, (_, index, own) in enumerate(self._distinct_rows(contexts)):
            held = own.lengths > 0
            place = np.append(np.where(held, np.cumsum(held) - 1 + firsts[-1], -1), -1)
            rows[:, k] = place[index]  # -1 reads the last entry
            read.append(own)
            firsts.append(firsts[-1] + int(held.sum()))
        none = np.empty(0, np.int64)
        lengths = np.concatenate([none, *(own.lengths for own in read)])
        columns = np.concatenate([none, *(own.labels for own in read)])
        counts = np.concatenate([none, *(own.counts for own in read)]).astype(np.float64)
        starts = np.concatenate([[0], np.cumsum(lengths[lengths > 0])])
        matrix = sparse.csr_array((counts, columns, starts), shape=(firsts[-1], len(self.labels)))
        return rows, matrix, np.array(firsts)

    def _distinct_rows(self, contexts: Contexts) -> Iterator[tuple[TupleSet, Ints, SiteRows]]:
        """Yield, for each site, the distinct tuples of a batch, which of them each context has, and their rows.

        Tokens are named by their ranks in the batch. A context that holds no token at the site has -1.
        """
        ranks, extras = self._ranks(contexts), self._extras(contexts)
        positions = self.stored.sites.positions
        for k, site in enumerate(positions):
            known, index = TupleSet.collect(contexts.ranks[:, list(site)], max(len(contexts.vocabulary), 1))
            first = np.zeros(len(known), np.int64)
            held = np.flatnonzero(index >= 0)[::-1]
            first[index[held]] = held  # the first context that has each tuple
            on_top = [_taken(extra, first * len(positions) + k) for extra in extras]
            yield known, index, self._segments.site_rows(k, ranks[first][:, list(site)], self._columns, on_top)

    def table_of(self, contexts: Contexts) -> CountTable:
        """Return the table of the rows that contexts read, in memory."""
        observed = self.stored.label_counts
        rows = []
        for known, _, own in self._distinct_rows(contexts):
            held = own.lengths > 0
            rows.append(SiteRows(known.rows()[held], own.lengths[held], own.labels, own.counts))
        return CountTable.of_rows(self.stored.sites, observed, (contexts.vocabulary, self.labels), rows)

    def scores(self, contexts: Contexts, weights: Floats) -> Floats:
        """Return the weighted sum over sites of the counts, added in the order of the sites."""
        if not self._segments.is_compiled:
            return super().scores(contexts, weights)
        return self._segments.sums(self._ranks(contexts), weights, self._extras(contexts), self._columns)

    def leaders(self, contexts: Contexts, weights: Floats, divisor: Divisor, k: int) -> Ints | None:
        """Return the columns of the best weighted sums over a divisor, (m, 1); None for more than one."""
        if k != 1 or not self._segments.is_compiled:
            return None
        best, divisors = np.empty((len(contexts), 1), np.int64), np.atleast_1d(np.asarray(divisor, np.float64))
        for piece in pieces(len(contexts), _BATCH_CONTEXTS):
            asked = contexts[piece]
            ranks, extras = self._ranks(asked), self._extras(asked)
            best[piece, 0] = self._segments.winners(ranks, weights, extras, self._columns, divisors)
        return best

    def single(self, weights: Floats, divisor: Divisor) -> Callable[[Sequence[Any]], int] | None:
        """Return a fast way from one context to the column of the best weighted sum, where nothing is on top."""
        segments, columns, divisors = self._segments, self._columns, np.atleast_1d(np.asarray(divisor, np.float64))
        if not segments.is_compiled or self.stored.tops:
            return None

        def winner(ranks: list[int]) -> int:
            return int(segments.winners(np.array([ranks], np.int64), weights, [], columns, divisors)[0])

        return single_answer(self.stored.files.tokens.get, self.stored.sites.h, winner, int)

    def seen(self, tokens: Vocabulary) -> Bools:
        """Return for each token whether a stored example holds it at a compared position.

        Where nothing was removed, the vocabularies of the segments say it. Else rows of one token are looked up; only a
        token that has none left there, but may have one in a longer tuple, needs the whole table.
        """
        stored, positions = self.stored, self.stored.sites.positions
        seen = np.asarray(stored.vocabulary.find(tokens) >= 0)
        if all(sign > 0 for _, sign, _ in stored.all_segments.segments):
            return seen
        unsure = np.flatnonzero(seen)
        alone = Contexts.with_ranks(tokens, np.repeat(unsure[:, None], stored.sites.h, axis=1))  # at every position
        single = [k for k, site in enumerate(positions) if len(site) == 1]
        seen[unsure] = (self.read(alone)[0][:, single] >= 0).any(axis=1)
        unsure = unsure[~seen[unsure]]
        if len(unsure) and len(single) < len(positions):
            seen[unsure] = (stored.total.vocabulary.find(tokens) >= 0)[unsure]
        return seen


def _taken(extra: Extra, places: Ints) -> Extra:
    """Return the entries at some places, one after the other."""
    starts, columns, counts = extra
    lengths = starts[places + 1] - starts[places]
    entries = ranges(starts[places], lengths)
    return np.concatenate([[0], np.cumsum(lengths)]), columns[entries], counts[entries]
