"""Answers from a table in parts: of each part only the rows that a batch of queries reads."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from scipy import sparse

from hammemo._arrays.integers import pieces
from hammemo._arrays.tuple_sets import TupleSet
from hammemo.memories.exact.live_reader import is_one_number
from hammemo.memories.exact.readers import SparseCounts
from hammemo.memories.exact.sparse_rows import MatrixRows, SparseRanker, VersionReader
from hammemo.memories.exact.table import CountTable
from hammemo.tokens.contexts import Contexts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from hammemo._arrays.checked import StoredArrays
    from hammemo._native import Extra
    from hammemo.kernels.sites import Sites
    from hammemo.memories.exact.live_reader import LiveCounts
    from hammemo.memories.exact.parts.entries import SiteRows
    from hammemo.memories.exact.parts.set import Columns, PartSet
    from hammemo.memories.exact.sum import Sum
    from hammemo.memories.label_counts import Frame, LabelCounts
    from hammemo.memories.row_rules import RowRule
    from hammemo.tokens.vocabulary import Vocabulary


class PartedRows(MatrixRows):
    """The rows that contexts read, as a small sparse matrix; nothing is kept between batches."""

    on_disk = True

    def __init__(self, stored: Sum, labels: Vocabulary) -> None:
        self._stored = stored
        self.labels = labels

    @property
    def _parts(self) -> PartSet:
        """What is read: the parts in files where compiled code adds what is on top of them, else all."""
        base = self._stored.files.parts
        return base if base.is_compiled else self._stored.all_parts

    @cached_property
    def columns(self) -> Columns:
        """Where the labels of the parts go."""
        parts = self._parts
        columns: Columns = (
            self._stored.files.columns_in(self.labels) if parts.is_compiled else parts.columns_in(self.labels)
        )
        return columns

    def ranks(self, contexts: Contexts) -> NDArray[np.int64]:
        """Return the rank of each token among those of the parts that are read, -1 for none."""
        return contexts.ranks_in(self._parts.vocabulary)

    def extras(self, contexts: Contexts) -> list[Extra]:
        """Return the entries on top of the parts that each site of each context reads, with their signs."""
        found: list[Extra] = []
        if not self._parts.is_compiled:
            return found
        files = self._stored.files
        for live, sign in self._stored.tops:
            lengths, numbers, counts = live.version.read(live.token_numbers(contexts))
            if len(numbers):
                columns = files.columns_of[sign](live.label_set, self.labels)[numbers]
                starts = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
                found.append((starts, columns, sign * counts.astype(np.int64)))
        return found

    def read(self, contexts: Contexts) -> tuple[NDArray[np.int64], sparse.csr_array, NDArray[np.int64]]:
        """Return which row each site of each context reads, -1 for none, the matrix, and where each site's rows start.

        Shapes
        ------
        returned : (m, S), (rows, L), (S + 1,)
        """
        rows = np.full((len(contexts), len(self._stored.sites.positions)), -1, np.int64)
        read, firsts = [], [0]
        for k, (_, index, own) in enumerate(self.distinct_rows(contexts)):
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

    def distinct_rows(self, contexts: Contexts) -> Iterator[tuple[TupleSet, NDArray[np.int64], SiteRows]]:
        """Yield, for each site, the distinct tuples of a batch, which of them each context has, and their rows.

        Tokens are named by their ranks in the batch. A context that holds no token at the site has -1.
        """
        ranks, extras = self.ranks(contexts), self.extras(contexts)
        positions = self._stored.sites.positions
        for k, site in enumerate(positions):
            known, index = TupleSet.collect(contexts.ranks[:, list(site)], max(len(contexts.vocabulary), 1))
            first = np.zeros(len(known), np.int64)
            held = np.flatnonzero(index >= 0)[::-1]
            first[index[held]] = held  # the first context that has each tuple
            on_top = [_taken(extra, first * len(positions) + k) for extra in extras]
            yield known, index, self._parts.site_rows(k, ranks[first][:, list(site)], self.columns, on_top)


def _taken(extra: Extra, places: NDArray[np.int64]) -> Extra:
    """Return the entries at some places, one after the other."""
    starts, columns, counts = extra
    lengths = starts[places + 1] - starts[places]
    own = np.concatenate([[0], np.cumsum(lengths)])
    entries = np.repeat(starts[places] - own[:-1], lengths) + np.arange(own[-1])
    return own, columns[entries], counts[entries]


_MOST_ASKED: Final = 4096
"""So many contexts are answered at once: where their rows lie is known for all before the first is read."""


class PartedCounts(VersionReader):
    """Answers from one version of a table in parts.

    Parameters
    ----------
    stored : Parted
    sites : Sites
    declared : Vocabulary
        Labels that are candidates also without examples.
    """

    name_in_files = "SparseCounts"

    def __init__(self, stored: Sum, sites: Sites, declared: Vocabulary) -> None:
        self._stored = stored
        self.sites = sites
        self.declared = declared

    def __getstate__(self) -> dict[str, Any]:
        return {"_stored": self._stored, "sites": self.sites, "declared": self.declared, "free": self.free}

    @cached_property
    def labels(self) -> Vocabulary:  # type: ignore[override]
        """Observed and declared labels, in canonical order."""
        return self._stored.labels.union(self.declared)

    @property
    def observed(self) -> LabelCounts:
        """The labels that have examples, and how many."""
        return self._stored.label_counts

    @cached_property
    def _rows(self) -> PartedRows:
        return PartedRows(self._stored, self.labels)

    @property
    def rows(self) -> PartedRows:
        """The rows that contexts read."""
        return self._rows

    @property
    def table(self) -> CountTable:
        """The canonical table, in memory."""
        return self._stored.total

    def scores(self, contexts: Contexts, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the weighted sum over sites of the counts, added in the order of the sites."""
        parts, rows = self._stored.files.parts, self._rows
        if not parts.is_compiled:
            return super().scores(contexts, weights)
        return parts.sums(rows.ranks(contexts), weights, rows.extras(contexts), rows.columns)

    def winners(
        self, contexts: Contexts, weights: NDArray[np.float64], divisor: NDArray[np.float64]
    ) -> NDArray[np.int64]:
        """Return the column of the highest score over `divisor` of each context, the first one among equals."""
        parts, rows, best = self._stored.files.parts, self._rows, np.empty(len(contexts), np.int64)
        if not parts.is_compiled or not len(self.labels):
            return super().winners(contexts, weights, divisor)
        divisor = divisor[:1] if is_one_number(divisor) else np.ascontiguousarray(divisor, np.float64)
        for piece in pieces(len(contexts), _MOST_ASKED):
            asked = contexts[piece]
            best[piece] = parts.winners(rows.ranks(asked), weights, rows.extras(asked), rows.columns, divisor)
        return best

    def single(
        self, weights: NDArray[np.float64], divisor: NDArray[np.float64]
    ) -> Callable[[Sequence[Any]], int] | None:
        """Return a fast way to answer one context with these weights."""
        parts, number, h = self._stored.files.parts, self._stored.files.tokens.get, self.sites.h
        if not parts.is_compiled or not len(self.labels) or self._stored.tops:
            return None
        columns, divisor = self._rows.columns, divisor[:1] if is_one_number(divisor) else np.ascontiguousarray(divisor)

        def answer(tokens: Sequence[Any]) -> int:
            if isinstance(tokens, str) or len(tokens) != h:
                return -1  # what asks for the batch of it says what is wrong
            ranks = np.array([[number(token) for token in tokens]], np.int64)
            return int(parts.winners(ranks, weights, [], columns, divisor)[0])

        return answer

    def make_ranker(self, rule: RowRule) -> SparseRanker:
        """Return what applies a rule to the rows that a batch reads."""
        return SparseRanker(self._rows, rule)

    def restricted(self, contexts: Contexts, *, times: bool = False) -> SparseCounts:
        """Return a reader, in memory, of the rows that these contexts read: to them it answers the same.

        With `times` it also says what a mixture must know of all rows (`entry_times`): they are gone through once.
        """
        stored, observed = self._stored, self._stored.label_counts
        columns, tuples, read = np.append(observed.labels.find(self.labels), -1), [], []
        for known, _, own in self._rows.distinct_rows(contexts):
            tuples.append(known)
            read.append((own.lengths, columns[own.labels], own.counts))
        table = CountTable.of_rows(stored.sites, observed, contexts.vocabulary, tuples, read)
        reader = SparseCounts(lambda: table, self.frame)
        reader.free = self.free
        if times:
            found = np.zeros((len(stored.sites.positions), 6), np.int64)
            for k, rows in stored.all_rows():
                found[k] += np.bincount(np.minimum(rows.counts, 5), minlength=6)
            reader.entry_times = found
        return reader

    def seen(self, tokens: Vocabulary) -> NDArray[np.int8]:
        """Return for each token whether a stored example holds it at a compared position: 1 or 0.

        Where nothing was taken back, the vocabularies of the parts say it. Else rows of one token are looked up; only a
        token that has none left there, but may have one in a longer tuple, needs the whole table.
        """
        stored = self._stored
        seen = stored.vocabulary.find(tokens) >= 0
        if all(sign > 0 for _, sign, _ in stored.all_parts.parts):
            return seen.astype(np.int8)
        unsure = np.flatnonzero(seen)
        alone = Contexts.with_ranks(tokens, np.repeat(unsure[:, None], self.sites.h, axis=1))  # at every position
        rows = self._rows.read(alone)[0]
        single = [k for k, site in enumerate(stored.sites.positions) if len(site) == 1]
        seen[unsure] = (rows[:, single] >= 0).any(axis=1)
        unsure = unsure[~seen[unsure]]
        if len(unsure) and len(single) < len(stored.sites.positions):
            seen[unsure] = (self.table.vocabulary.find(tokens) >= 0)[unsure]
        return seen.astype(np.int8)

    def tensors(self) -> dict[str, NDArray[Any]]:
        """Return the canonical arrays, the vocabulary left out: they take as much memory as the whole table."""
        arrays = self.table.arrays_for(self.labels)
        return {name: array for name, array in arrays.items() if not name.startswith("vocabulary.")}

    @classmethod
    def restored(
        cls, frame: Frame, stored: StoredArrays, description: dict[str, Any], key: bytes | None = None
    ) -> SparseCounts | LiveCounts:
        """Return what a file of `stored` holds: a sparse table."""
        return SparseCounts.restored(frame, stored, description, key)
