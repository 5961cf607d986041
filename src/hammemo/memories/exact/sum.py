r"""What an exact memory stores: a sum of signed terms.

.. math:: N = \sum_t \sigma_t N_t, \qquad \sigma_t = \pm 1

A term is a table in memory (:mod:`hammemo.memories.exact.table`), a live table
(:mod:`hammemo.memories.exact.live.live`), or a file of a folder
(:mod:`hammemo.memories.exact.segments.segment`). Nothing is added up before it is needed.

*In bulk*, the table of a batch is appended to a short stack of tables of falling size, and
neighbours of similar size are added up, so that n batches cost O(n log n) and not O(n^2). What is
removed goes to a stack of its own, once the counts that it touches have been found large enough.
Where all terms are in memory and the second stack would pass half the size of the first, the two
become one table.

*Row by row*, a few examples are edited in a live table. Where all terms are in memory, it takes
their place; a large batch goes back to the stacks.

*In a folder*, most terms are files, cut out of one table by ranges of keys, so that each key is in
one of them; the files of other tables that were merged have ranges of their own. Edits never change
a file: what is learned and removed later lies in memory on top. A query reads its rows in all files
that may hold them. What needs more goes through the keys range by range (`site_rows`), and holds
one range at most. How many examples of a label hold no token at a site is kept apart (`empties`),
because no row says it.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import reduce
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from weakref import WeakKeyDictionary

import numpy as np

from hammemo._versions import Cached, Remembered, cached_property
from hammemo.memories.errors import fewer_stored, never_stored
from hammemo.memories.exact.live.live import LabelSet, Live
from hammemo.memories.exact.live.numbers import Numbers
from hammemo.memories.exact.segments.entries import SiteRows, add_rows
from hammemo.memories.exact.segments.segment import Segment, arrays_in_use, table_arrays
from hammemo.memories.exact.segments.set import SegmentSet, SignedSegment, View
from hammemo.memories.exact.table import CountTable, plus_empties
from hammemo.memories.label_counts import LabelCounts, check_total
from hammemo.tokens.contexts import MAX_EXAMPLES, Examples
from hammemo.tokens.vocabulary import NO_TOKEN, Token, Vocabulary, as_token

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hammemo._arrays.types import Array, Ints
    from hammemo.kernels.sites import Sites

MAX_EXAMPLES_BY_ROW: Final = 64
"""Examples of a batch up to which it is edited row by row.

Larger batches are, too, if the table is live and much larger."""

MIN_TIMES_LARGER: Final = 8
"""How many times as many examples a table holds that is much larger."""


StoredTerm: TypeAlias = Live | CountTable
"""A table, live or plain."""


@dataclass(frozen=True, eq=False)
class Files(Cached):
    """The terms that lie in the files of a folder; edits do not change them.

    Parameters
    ----------
    segments : SegmentSet
    label_counts : LabelCounts
    empties : tuple of LabelCounts, one a site
        How many examples of each label hold no token there.
    in_folder : bool
        Whether there is a folder: it may have no file yet.
    """

    segments: SegmentSet
    label_counts: LabelCounts
    empties: tuple[LabelCounts, ...]
    in_folder: bool = True

    @classmethod
    def none(cls, sites: Sites) -> Files:
        """Return no files, and no folder."""
        empties = (LabelCounts(),) * len(sites.positions)
        return cls(SegmentSet(sites, ()), LabelCounts(), empties, in_folder=False)

    @cached_property
    def tokens(self) -> Numbers:
        """The rank of each token of the segments."""
        return Numbers(self.segments.vocabulary)

    @cached_property
    def compared(self) -> tuple[int, ...]:
        """The positions that some site compares."""
        return tuple(
            sorted({position for site in self.segments.sites.positions for position in site})
        )

    @cached_property
    def label_ranks(self) -> Numbers:
        """The rank of each label in `label_counts`."""
        return Numbers(self.label_counts.labels)

    @cached_property
    def segment_labels(self) -> Numbers:
        """The rank of each label among those of the segments."""
        return Numbers(self.segments.labels)

    def count_of(self, label: Token) -> int:
        """Return how many examples a label has."""
        rank = self.label_ranks.get(label)
        return int(self.label_counts.counts[rank]) if rank >= 0 else 0

    @cached_property
    def columns_in(self) -> Remembered:
        """`SegmentSet.columns_in`, remembered: most edits leave the labels as they are."""
        return Remembered(self.segments.columns_in)

    @cached_property
    def columns_of(self) -> dict[int, Remembered]:
        """`columns_of`, remembered for the live tables of what was added (1) and removed (-1)."""
        return {1: Remembered(columns_of), -1: Remembered(columns_of)}

    def __getstate__(self) -> dict[str, Any]:
        return {
            item.name: getattr(self, item.name) for item in fields(self)
        }  # caches are made again


@dataclass(eq=False)  # not frozen: one is made for every edit, in half the time
class SignedSum(Cached):
    """One version of what is stored; it never changes.

    Parameters
    ----------
    files : Files
    added, removed : tuple of StoredTerm
        What is in memory: tables of falling size, or one live table.
    known_labels : Vocabulary, optional
        The labels that have examples, where they are known without counting.
    on_disk : bool
        Whether the only term is a table that is mapped from a file.
    """

    files: Files
    added: tuple[StoredTerm, ...]
    removed: tuple[StoredTerm, ...] = ()
    known_labels: Vocabulary | None = None
    on_disk: bool = False

    @classmethod
    def from_table(cls, table: CountTable, *, on_disk: bool = False) -> SignedSum:
        """Return the sum of one table in memory."""
        return cls(Files.none(table.sites), (table,), on_disk=on_disk)

    @classmethod
    def from_segments(
        cls,
        sites: Sites,
        segments: Sequence[SignedSegment],
        label_counts: LabelCounts,
        empties: Sequence[LabelCounts],
    ) -> SignedSum:
        """Return the table that the files of a folder make up."""
        files = Files(SegmentSet(sites, segments), label_counts, tuple(empties))
        return cls(files, added=(), known_labels=label_counts.labels)

    def __getstate__(self) -> dict[str, Any]:
        version = self
        if self.removed and not self.in_folder:
            # what was removed is in two terms still: copies must not have it
            version = replace(self, added=(self.total,), removed=())
        return {item.name: getattr(version, item.name) for item in fields(version)}  # no caches

    @property
    def sites(self) -> Sites:
        """What is compared."""
        return self.files.segments.sites

    @property
    def in_folder(self) -> bool:
        """Whether terms may lie in files."""
        return self.files.in_folder

    @property
    def is_live(self) -> bool:
        """Whether all that is stored is in one live table."""
        return not self.files.in_folder and self.added[0].as_live is not None

    @cached_property
    def total(self) -> CountTable:
        """The whole table, in memory."""
        if self.in_folder:
            return self._total_of_files()
        total = _sum_tables(self.added)
        if self.removed:
            total = total.plus(_sum_tables(self.removed), sign=-1)
        return total if total is self.added[0] else replace(total, label_counts=self.label_counts)

    @cached_property
    def live(self) -> Live:
        """The whole table as a live one."""
        return self.added[0].as_live or Live.from_table(self.total)

    @property
    def has_live(self) -> bool:
        """Whether `live` is there already."""
        return self.is_live or "live" in vars(self)

    def keep_once(self) -> SignedSum:
        """Return the same counts, as the live table alone where one was made of them."""
        if self.is_live or "live" not in vars(self):
            return self
        return self._of_live(self.live)

    def _of_live(self, live: Live) -> SignedSum:
        return SignedSum(self.files, (live,))

    @property
    def _terms(self) -> list[tuple[StoredTerm, int]]:
        """The terms in memory that hold something, with their signs."""
        stacks = [(self.added, 1), (self.removed, -1)]
        return [(term, sign) for terms, sign in stacks for term in terms if term.n_examples]

    @cached_property
    def tops(self) -> tuple[tuple[Live, int], ...]:
        """What was added to the files and removed since, as live tables with their signs.

        Tables without examples are left out.
        """
        stacks = ((self.added, 1), (self.removed, -1))
        return tuple(
            (_live(terms), sign) for terms, sign in stacks if any(term.n_examples for term in terms)
        )

    @cached_property
    def all_segments(self) -> SegmentSet:
        """All terms as segments, with a common numbering."""
        on_top = [SignedSegment(segment_of(term.total), sign) for term, sign in self._terms]
        if not on_top:
            return self.files.segments
        return SegmentSet(self.sites, (*self.files.segments.segments, *on_top))

    @property
    def vocabulary(self) -> Vocabulary:
        """The tokens of all terms; some may be left without a row."""
        return self.all_segments.vocabulary

    @property
    def labels(self) -> Vocabulary:
        """The labels that have examples."""
        if self.known_labels is not None:
            return self.known_labels
        return self.live.label_set.labels if self.is_live else self.label_counts.labels

    @cached_property
    def label_counts(self) -> LabelCounts:
        """How many examples each label has."""
        if self.is_live:
            return self.live.label_counts
        counts = self.files.label_counts
        for term, sign in self._terms:
            counts = counts.plus(term.label_counts, sign) if counts.total else term.label_counts
        return counts

    @cached_property
    def empties(self) -> tuple[LabelCounts, ...]:
        """How many examples of each label hold no token at each site."""
        empties = self.files.empties
        for term, sign in self._terms:
            empties = plus_empties(empties, term.total.empties, sign)
        return empties

    @cached_property
    def views(self) -> tuple[View, ...]:
        """What connects the numbering of each segment with the common one, and with the labels."""
        labels = self.label_counts.labels
        return tuple(
            View(self.vocabulary, labels, segment, sign)
            for segment, sign, _ in self.all_segments.segments
        )

    @property
    def nbytes(self) -> int:
        """Bytes of rows and entries in all terms, as segments."""
        return sum(signed.segment.nbytes for signed in self.all_segments.segments)

    @property
    def n_entries(self) -> int:
        """How many entries all terms have: at least as many as there are counts."""
        in_memory = sum(term.total.n_entries for term, _ in self._terms)
        return in_memory + sum(signed.segment.n_entries for signed in self.files.segments.segments)

    @property
    def n_examples(self) -> int:
        """How many examples there are."""
        n_added = sum(term.n_examples for term in self.added)
        n_removed = sum(term.n_examples for term in self.removed)
        return self.files.label_counts.total + n_added - n_removed

    def count_of(self, label: Token) -> int:
        """Return how many examples a label has."""
        in_memory = sum(sign * term.count_of(label) for term, sign in self._terms)
        return self.files.count_of(label) + in_memory

    def takes_rows(self, n_examples: int) -> bool:
        """Return whether this many examples are edited row by row, or learned faster in bulk."""
        if n_examples <= MAX_EXAMPLES_BY_ROW:
            return True
        live = self.added[0].as_live if self.added else None
        return live is not None and n_examples <= live.n_examples // MIN_TIMES_LARGER

    def edit_rows(self, examples: Examples, sign: int) -> SignedSum:
        """Return the version with examples added or removed row by row.

        It refuses to go below zero.
        """
        if not self.in_folder:
            return self._of_live(self.live.edit(examples, sign))
        if sign > 0:
            check_total(self.n_examples, int(examples.multiplicity.sum()))
            added = (_live_top(self.added, self.sites).edit(examples, 1),)
            return SignedSum(self.files, added, self.removed, _with(self.labels, examples.labels))
        if len(examples) > MAX_EXAMPLES_BY_ROW or not self.files.segments.is_compiled:
            return self.edit_in_bulk(CountTable.from_examples(examples, self.sites), sign)
        version = self
        tokens = [*examples.contexts.vocabulary.tolist(), NO_TOKEN]  # rank -1 reads the last one
        labels = examples.labels.tolist()
        rows = zip(
            examples.contexts.ranks.tolist(),
            examples.label_ranks.tolist(),
            examples.multiplicity.tolist(),
            strict=True,
        )
        for ranks, label, times in rows:
            version = version.edit_one([tokens[rank] for rank in ranks], labels[label], -times)
        return version

    def edit_in_bulk(self, table: CountTable, sign: int) -> SignedSum:
        """Return the version with one more table added or removed, or refuse to go below zero."""
        counts = self.label_counts.plus(table.label_counts, sign)
        added = tuple(term.total for term in self.added)
        removed = tuple(term.total for term in self.removed)
        if not self.in_folder:
            gross = table.n_examples + sum(term.n_examples for term in added)
            if "total" in vars(self) or gross >= MAX_EXAMPLES:
                # the whole table is there already, or is needed: what follows starts from it
                added = (self.total,)
                removed = ()
        if sign > 0:
            added = push_table(added, table)
        elif not self.in_folder and 2 * entries_of((*removed, table)) > entries_of(added):
            added = (self.total.plus(table, sign),)  # refuses by itself
            removed = ()
        else:
            plus_empties(self.empties, table.empties, -1)  # refuses by itself
            if (self.counts_at(table) < table.entry_counts).any():
                raise never_stored()
            removed = push_table(removed, table)
        labels = self._reuse_labels(counts.labels) if self.in_folder else None
        version = SignedSum(self.files, added, removed, labels)
        if self.in_folder or len(added) + len(removed) > 1:
            vars(version)["label_counts"] = counts  # the cached property: no need to count again
        return version

    def _reuse_labels(self, labels: Vocabulary) -> Vocabulary:
        """Return labels, as the object of this version where they are equal: caches go by it."""
        before = self.known_labels
        if before is None or len(before) != len(labels):
            return labels
        if (before.find(labels) >= 0).all():
            return before
        return labels

    def edit_one(self, tokens: Sequence[Any], label: Any, by: int) -> SignedSum:
        """Return the version with `by` copies of one example added or, below zero, removed."""
        if not self.files.in_folder:
            live = self.added[0].as_live or self.live  # the first is faster
            return SignedSum(self.files, (live.edit_one(tokens, label, by),))
        label = as_token(label)
        if by > 0:
            check_total(self.n_examples, by)
            labels = self.labels
            if not self.count_of(label):
                labels = labels.union(Vocabulary.of([label]))
            top = _live_top(self.added, self.sites).edit_one(tokens, label, by)
            return SignedSum(self.files, (top,), self.removed, labels)
        n_left = self.count_of(label) + by
        if n_left < 0:
            raise fewer_stored(label)
        rank = self.files.tokens.get
        ranks = [rank(token) for token in tokens]
        has_gap = any(
            ranks[at] < 0 and as_token(tokens[at]) == NO_TOKEN for at in self.files.compared
        )
        if has_gap or not self.files.segments.is_compiled:
            # no row counts an example at a site where it has no token: `empties` do
            example = Examples.of([list(tokens)], [label], [-by])
            return self.edit_in_bulk(CountTable.from_examples(example, self.sites), -1)
        if (self._counts_of_one(tokens, ranks, label) < -by).any():
            raise never_stored()
        labels = self.labels if n_left else _without(self.labels, label)
        top = _live_top(self.removed, self.sites).edit_one(tokens, label, -by)
        return SignedSum(self.files, self.added, (top,), labels)

    def _counts_of_one(self, tokens: Sequence[Any], ranks: list[int], label: Token) -> Ints:
        """Return the count of a label in the row that each site reads: (S,)."""
        label_rank = np.array([self.files.segment_labels.get(label)], np.int64)
        counts = self.files.segments.counts(np.array([ranks], np.int64), label_rank)[0]
        for live, sign in self.tops:
            counts += sign * live.counts_of_one(tokens, label)
        return np.asarray(counts)

    def plus(self, other: SignedSum, sign: int) -> SignedSum:
        """Return the sum with another, or the difference, or refuse to go below zero."""
        if not other.in_folder:
            return self.edit_in_bulk(other.total, sign)
        other_segments = (
            SignedSegment(segment, sign * segment_sign, about)
            for segment, segment_sign, about in other.all_segments.segments
        )
        counts = self.label_counts.plus(other.label_counts, sign)
        empties = plus_empties(self.empties, other.empties, sign)
        segments = (*self.add_up().all_segments.segments, *other_segments)
        version = SignedSum.from_segments(self.sites, segments, counts, empties)
        if sign < 0:
            for _ in version.all_rows():  # raises where a count would be below zero
                pass
        return version

    def add_up(self) -> SignedSum:
        """Return the same counts; what is all in memory, as one table."""
        return self if self.in_folder else SignedSum.from_table(self.total)

    def counts_at(self, table: CountTable) -> Ints:
        """Return the count here of each entry of a table."""
        counts = np.zeros(table.n_entries, np.int64)
        for segment, sign, _ in self.files.segments.segments:
            counts += sign * segment.counts_at(table)
        for term, sign in self._terms:
            counts += sign * term.total.counts_at(table)
        return counts

    @cached_property
    def edges(self) -> Ints:
        """Ranks of first tokens at which keys are cut into ranges.

        They are those where segments in files begin, and the two ends.
        """
        in_files = self.views[: len(self.files.segments.segments)]
        firsts = [ends[0] for view in in_files if (ends := view.ends) is not None]
        return np.unique([0, len(self.vocabulary), *firsts])

    def all_rows(self) -> Iterator[tuple[int, SiteRows]]:
        """Yield (site, rows) for each site and range of keys, both in order."""
        for k in range(len(self.sites.positions)):
            for first, stop in pairwise(self.edges.tolist()):
                yield k, self.site_rows(k, first, stop)

    def site_rows(self, site: int, first: int, stop: int) -> SiteRows:
        """Return rows of a site, added up: those with first tokens from `first` to before `stop`.

        Tokens and labels are named by their ranks in `vocabulary` and in the labels that have
        examples.
        """
        rows = [
            (view.sign, view.rows_between(site, first, stop))
            for view in self.views
            if view.meets(first, stop)
        ]
        length = len(self.sites.positions[site])
        return add_rows(rows, length, len(self.vocabulary), len(self.label_counts.labels))

    def range_arrays(self, first: int, stop: int) -> dict[str, Array]:
        """Return the segment of all keys with first tokens from `first` to before `stop`."""
        rows = [self.site_rows(k, first, stop) for k in range(len(self.sites.positions))]
        return arrays_in_use(rows, self.vocabulary, self.label_counts.labels, packed=None)

    def _total_of_files(self) -> CountTable:
        n_tokens = len(self.vocabulary)
        rows = [self.site_rows(k, 0, n_tokens) for k in range(len(self.sites.positions))]
        return CountTable.from_rows(
            self.sites,
            self.label_counts,
            rows,
            vocabulary=self.vocabulary,
            labels=self.label_counts.labels,
        )


_segments_of_tables: WeakKeyDictionary[CountTable, Segment] = WeakKeyDictionary()


def segment_of(table: CountTable) -> Segment:
    """Return a table in memory as a segment, made once for each table."""
    segment = _segments_of_tables.get(table)
    if segment is None:
        # another thread may have made one since: all use the first
        segment = _segments_of_tables.setdefault(table, Segment(table.sites, table_arrays(table)))
    return segment


def push_table(stack: tuple[CountTable, ...], table: CountTable) -> tuple[CountTable, ...]:
    """Return the stack with one more table, neighbours of similar size added up."""
    tables = [*stack, table]
    while len(tables) > 1 and tables[-2].n_entries <= 2 * tables[-1].n_entries:
        tables[-2:] = [tables[-2].plus(tables[-1])]
    return tuple(tables)


def entries_of(stack: tuple[CountTable, ...]) -> int:
    """Return how many entries tables have together."""
    return sum(table.n_entries for table in stack)


def _sum_tables(terms: tuple[StoredTerm, ...]) -> CountTable:
    """Return the sum of some terms, smallest first."""
    return reduce(CountTable.plus, (term.total for term in reversed(terms)))


def _live(terms: tuple[StoredTerm, ...]) -> Live:
    """Return one live table of some terms: the only one as it is."""
    return terms[0].as_live or Live.from_table(_sum_tables(terms))


def _live_top(terms: tuple[StoredTerm, ...], sites: Sites) -> Live:
    return _live(terms or (CountTable.empty(sites),))


def _with(labels: Vocabulary, others: Vocabulary) -> Vocabulary:
    """Return labels and others: the same object where none is new."""
    return labels if (labels.find(others) >= 0).all() else labels.union(others)


def _without(labels: Vocabulary, label: Token) -> Vocabulary:
    """Return labels without one of them."""
    stays = np.ones(len(labels), bool)
    stays[labels.find(Vocabulary.of([label]))] = False
    return labels.keep(stays)


def columns_of(label_set: LabelSet, labels: Vocabulary) -> Ints:
    """Return the column of each label number of a live table among other labels.

    The last one is for the number -1.
    """
    return np.asarray(np.append(labels.find(label_set.labels), -1)[label_set.columns])
