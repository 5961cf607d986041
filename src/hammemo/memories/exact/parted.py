r"""A table of counts in parts: what is stored is a sum of parts, some of them subtracted.

.. math:: N = \sum_p \sigma_p N_p, \qquad \sigma_p = \pm 1

Most parts are files, cut out of one table by ranges of keys (:mod:`hammemo.memories.exact.parts.part`): each key is in one
of them. On top come what was learnt and what was taken back since, each kept as :mod:`hammemo.memories.exact.memory` keeps
all that it holds: single edits in a live table, large batches in stacks. The parts of other tables that were merged
have ranges of their own. Nothing is added up before it is asked for. A query reads its rows in all parts that may hold
them; whoever needs more goes through the keys range by range (`site_rows`), and holds one range at most.

What is taken back is looked up first: an entry that would become negative is refused. How many examples of a label hold
no token at a site is kept apart (`empties`), because no row says it.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np

from hammemo._arrays.tuple_sets import TupleSet
from hammemo._versions import Cached, Remembered
from hammemo.memories.errors import NotStoredError, fewer_stored, never_stored
from hammemo.memories.exact.live.live import LabelSet, Live
from hammemo.memories.exact.live.numbers import Numbers
from hammemo.memories.exact.parts.entries import SiteRows, added_rows
from hammemo.memories.exact.parts.part import Part, table_arrays, used_arrays
from hammemo.memories.exact.parts.set import PartSet, SignedPart, View
from hammemo.memories.exact.stacks import MOST_ROW_BY_ROW, Stacks, live_for
from hammemo.memories.exact.table import CountTable
from hammemo.memories.label_counts import LabelCounts, check_total
from hammemo.tokens.contexts import Examples
from hammemo.tokens.vocabulary import NO_TOKEN, Vocabulary, as_token

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from hammemo.kernels.sites import Sites
    from hammemo.tokens.vocabulary import Token


@dataclass(frozen=True, eq=False)
class Base(Cached):
    """What lies in parts; edits do not change it.

    Parameters
    ----------
    parts : PartSet
    label_counts : LabelCounts
    empties : tuple of LabelCounts, one a site
        How many examples of each label hold no token there.
    """

    parts: PartSet
    label_counts: LabelCounts
    empties: tuple[LabelCounts, ...]

    @cached_property
    def tokens(self) -> Numbers:
        """The rank of each token of the parts."""
        return Numbers(self.parts.vocabulary)

    @cached_property
    def compared(self) -> tuple[int, ...]:
        """The positions that some site compares."""
        return tuple(sorted({position for site in self.parts.sites.positions for position in site}))

    @cached_property
    def label_ranks(self) -> Numbers:
        """The rank of each label in `label_counts`."""
        return Numbers(self.label_counts.labels)

    @cached_property
    def part_labels(self) -> Numbers:
        """The rank of each label among those of the parts."""
        return Numbers(self.parts.labels)

    @cached_property
    def columns_in(self) -> Remembered:
        """`PartSet.columns_in`, remembered: most edits leave the labels as they are."""
        return Remembered(self.parts.columns_in)

    @cached_property
    def columns_of_added(self) -> Remembered:
        """`columns_of`, remembered for the table of what was added."""
        return Remembered(columns_of)

    @cached_property
    def columns_of_removed(self) -> Remembered:
        """`columns_of`, remembered for the table of what was taken back."""
        return Remembered(columns_of)

    def __getstate__(self) -> dict[str, Any]:
        return {item.name: getattr(self, item.name) for item in fields(self)}  # caches are made again


@dataclass(frozen=True, eq=False)
class Parted(Cached):
    """One version of a table in parts.

    Parameters
    ----------
    base : Base
    added, removed : Stacks or Live
        What was learnt and taken back since, in memory.
    labels : Vocabulary
        The labels that have examples.
    """

    base: Base
    added: Stacks | Live
    removed: Stacks | Live
    labels: Vocabulary

    on_disk = True

    @classmethod
    def of_parts(
        cls, sites: Sites, parts: Sequence[SignedPart], label_counts: LabelCounts, empties: Sequence[LabelCounts]
    ) -> Parted:
        """Return the table that some parts make up."""
        none = Stacks.of(CountTable.empty(sites))
        base = Base(PartSet(sites, parts), label_counts, tuple(empties))
        return cls(base, none, none, label_counts.labels)

    @classmethod
    def of(cls, table: CountTable) -> Parted:
        """Return a table in memory in this form."""
        none = [LabelCounts()] * len(table.sites.positions)
        return cls.of_parts(table.sites, (), LabelCounts(), none).changed_by(table, 1)

    def __getstate__(self) -> dict[str, Any]:
        return {item.name: getattr(self, item.name) for item in fields(self)}  # caches are made again

    @property
    def sites(self) -> Sites:
        """What is compared."""
        return self.base.parts.sites

    @cached_property
    def all_parts(self) -> PartSet:
        """All parts with a common numbering, those in memory too."""
        on_top = [SignedPart(part_of(table), sign) for sign in (1, -1) for table in self._tables(sign)]
        return PartSet(self.sites, (*self.base.parts.parts, *on_top)) if on_top else self.base.parts

    def _tables(self, sign: int) -> list[CountTable]:
        """Return what was learnt since or, with sign -1, what was taken back, as tables that are to be added."""
        top = self.added if sign > 0 else self.removed
        tables = [top.total] if isinstance(top, Live) or top.removed else list(top.added)
        return [table for table in tables if table.label_counts.total]

    @cached_property
    def tops(self) -> tuple[tuple[Live, int], ...]:
        """What was learnt and taken back since as live tables, with their signs; those that hold something."""
        held = ((self.added, 1), (self.removed, -1))
        lives = [(top if isinstance(top, Live) else Live.of(top.total), sign) for top, sign in held if examples_in(top)]
        return tuple(lives)

    @property
    def vocabulary(self) -> Vocabulary:
        """The tokens of all parts; some may be left without a row."""
        return self.all_parts.vocabulary

    @cached_property
    def label_counts(self) -> LabelCounts:
        """How many examples each label has."""
        return self.base.label_counts.plus(self.added.label_counts).plus(self.removed.label_counts, -1)

    @cached_property
    def empties(self) -> tuple[LabelCounts, ...]:
        """How many examples of each label hold no token at each site."""
        empties = self.base.empties
        for sign in (1, -1):
            for table in self._tables(sign):
                empties = _plus(empties, empties_of(table), sign)
        return empties

    @cached_property
    def views(self) -> tuple[View, ...]:
        """What connects the numbering of each part with the common one, and with the labels that have examples."""
        labels = self.label_counts.labels
        return tuple(View(self.vocabulary, labels, part, sign) for part, sign, _ in self.all_parts.parts)

    @property
    def nbytes(self) -> int:
        """Bytes of rows and entries in all parts."""
        return sum(signed.part.nbytes for signed in self.all_parts.parts)

    @property
    def n_entries(self) -> int:
        """How many entries all parts have."""
        return sum(signed.part.n_entries for signed in self.all_parts.parts)

    @property
    def n_examples(self) -> int:
        """How many examples there are."""
        return self.base.label_counts.total + examples_in(self.added) - examples_in(self.removed)

    def changed(self, examples: Examples, sign: int) -> Parted:
        """Return the version with examples added or taken back, or refuse to go below zero."""
        few = self.edits_one_by_one and len(examples) <= MOST_ROW_BY_ROW
        if sign < 0 and few:
            made, tokens = self, [*examples.contexts.vocabulary.tolist(), NO_TOKEN]  # rank -1 reads the last one
            labels = examples.labels.tolist()
            rows = (examples.contexts.ranks.tolist(), examples.label_ranks.tolist(), examples.multiplicity.tolist())
            for ranks, label, times in zip(*rows, strict=True):
                made = made.changed_by_one([tokens[rank] for rank in ranks], labels[label], -times)
            return made
        live = live_for(self.added, len(examples)) if sign > 0 else None
        if live is None:
            return self.changed_by(CountTable.of(examples, self.sites), sign)
        check_total(self.n_examples, int(examples.multiplicity.sum()))
        return replace(self, added=live.changed(examples, 1), labels=self._labels_with(examples.labels))

    def changed_by(self, table: CountTable, sign: int) -> Parted:
        """Return the version with one more table added or taken back, or refuse to go below zero."""
        if sign > 0:
            check_total(self.n_examples, table.label_counts.total)
            top = self.added if isinstance(self.added, Stacks) else Stacks.of(self.added)
            return replace(self, added=top.changed(table, 1), labels=self._labels_with(table.label_counts.labels))
        left = self.label_counts.plus(table.label_counts, -1)
        _plus(self.empties, empties_of(table), -1)
        if (self.counts_at(table) < table.entry_counts).any():
            raise never_stored()
        top = self.removed if isinstance(self.removed, Stacks) else Stacks.of(self.removed)
        labels = self.labels if len(left.labels) == len(self.labels) else left.labels
        return replace(self, removed=top.changed(table, 1), labels=labels)

    def _labels_with(self, labels: Vocabulary) -> Vocabulary:
        """Return the present labels and others: the same object where none is new."""
        return self.labels if (self.labels.find(labels) >= 0).all() else self.labels.union(labels)

    def _labels_without(self, label: Token) -> Vocabulary:
        kept = np.ones(len(self.labels), bool)
        kept[self.labels.find(Vocabulary.of([label]))] = False
        return self.labels.keep(kept)

    @property
    def edits_one_by_one(self) -> bool:
        """Whether `changed_by_one` is there."""
        return self.base.parts.is_compiled

    def changed_by_one(self, tokens: Sequence[Any], label: Any, by: int) -> Parted:
        """Return the version with `by` copies of one example added or, below zero, taken back."""
        label = as_token(label)
        if by > 0:
            check_total(self.n_examples, by)
            labels = self.labels if self.count_of(label) else self.labels.union(Vocabulary.of([label]))
            return replace(self, added=_live(self.added).changed_by_one(tokens, label, by), labels=labels)
        left = self.count_of(label) + by
        if left < 0:
            raise fewer_stored(label)
        rank = self.base.tokens.get
        ranks = [rank(token) for token in tokens]
        if any(ranks[at] < 0 and as_token(tokens[at]) == NO_TOKEN for at in self.base.compared):
            table = CountTable.of(Examples.of([list(tokens)], [label], [-by]), self.sites)
            return self.changed_by(table, -1)  # no row counts such an example at that site
        if (self._counts_of_one(tokens, ranks, label) < -by).any():
            raise never_stored()
        labels = self.labels if left else self._labels_without(label)
        return replace(self, removed=_live(self.removed).changed_by_one(tokens, label, -by), labels=labels)

    def count_of(self, label: Token) -> int:
        """Return how many examples a label has."""
        rank = self.base.label_ranks.get(label)
        held = int(self.base.label_counts.counts[rank]) if rank >= 0 else 0
        for top, sign in ((self.added, 1), (self.removed, -1)):
            if isinstance(top, Live):
                number = top.store.labels.get(label)
                held += sign * int(top.version.label_counts(np.array([number]))[0]) if number >= 0 else 0
            else:
                place = int(top.label_counts.labels.find(Vocabulary.of([label]))[0])
                held += sign * int(top.label_counts.counts[place]) if place >= 0 else 0
        return held

    def _counts_of_one(self, tokens: Sequence[Any], ranks: list[int], label: Token) -> NDArray[np.int64]:
        """Return the count of a label in the row that each site reads: (S,)."""
        own_label = np.array([self.base.part_labels.get(label)], np.int64)
        counts = self.base.parts.counts(np.array([ranks], np.int64), own_label)[0]
        for live, sign in self.tops:
            number, token_number = live.store.labels.get(label), live.store.tokens.get
            numbers = np.array([[token_number(token) for token in tokens]], np.int64)
            lengths, labels, held = live.version.read(numbers)
            here = np.flatnonzero(labels == number) if number >= 0 else np.empty(0, np.int64)
            counts[np.repeat(np.arange(len(lengths)), lengths)[here]] += sign * held[here].astype(np.int64)
        return np.asarray(counts)

    def plus(self, other: Parted, sign: int) -> Parted:
        """Return the sum with another table in parts, or the difference, or refuse to go below zero."""
        theirs = (SignedPart(part, sign * own, about) for part, own, about in other.all_parts.parts)
        counts, empties = self.label_counts.plus(other.label_counts, sign), _plus(self.empties, other.empties, sign)
        made = Parted.of_parts(self.sites, (*self.all_parts.parts, *theirs), counts, empties)
        if sign < 0:
            for _ in made.all_rows():  # raises where a count would be below zero
                pass
        return made

    def counts_at(self, table: CountTable) -> NDArray[np.int64]:
        """Return the count here of each entry of a table."""
        held = np.zeros(len(table.entry_counts), np.int64)
        starts, first = table.row_starts(), 0
        for k, known in enumerate(table.tuples):
            rows = slice(first, first + len(known))
            entries = slice(int(starts[rows.start]), int(starts[rows.stop]))
            tuples = known.rows()
            labels = table.entry_labels[entries]
            row_of_entry = np.repeat(np.arange(len(known)), table.row_lengths[rows])
            for part, sign, _ in self.all_parts.parts:
                tokens = part.vocabulary.find(table.vocabulary)
                columns = part.labels.find(table.label_counts.labels)
                low, high = part.spans(k, part.find(k, tokens[tuples]))
                held[entries] += sign * part.counts_of(low[row_of_entry], high[row_of_entry], columns[labels])
            first = rows.stop
        return held

    @cached_property
    def edges(self) -> NDArray[np.int64]:
        """Ranks of first tokens at which the keys are cut into ranges: where parts in files begin, and the two ends."""
        in_files = self.views[: len(self.base.parts.parts)]
        firsts = [ends[0] for view in in_files if (ends := view.ends) is not None]
        return np.unique([0, len(self.vocabulary), *firsts])

    def all_rows(self) -> Iterator[tuple[int, SiteRows]]:
        """Yield (site, rows) for each site and range of keys: sites in order, the ranges of each in order."""
        for k in range(len(self.sites.positions)):
            for first, stop in pairwise(self.edges.tolist()):
                yield k, self.site_rows(k, first, stop)

    def site_rows(self, site: int, first: int, stop: int) -> SiteRows:
        """Return the rows of a site whose first token has a rank from `first` to before `stop`, added up.

        Tokens and labels are named by their ranks in `vocabulary` and in the labels that have examples.
        """
        held = [(view.sign, view.rows_between(site, first, stop)) for view in self.views if view.meets(first, stop)]
        length = len(self.sites.positions[site])
        return added_rows(held, length, len(self.vocabulary), len(self.label_counts.labels))

    def range_arrays(self, first: int, stop: int) -> dict[str, NDArray[Any]]:
        """Return the arrays of the part with all keys whose first token has a rank from `first` to before `stop`."""
        rows = [self.site_rows(k, first, stop) for k in range(len(self.sites.positions))]
        return used_arrays(rows, self.vocabulary, self.label_counts.labels, packed=None)

    @cached_property
    def total(self) -> CountTable:
        """The whole table, in memory."""
        tuples, keys, counts, first = [], [], [], 0
        n, n_labels = len(self.vocabulary), max(len(self.label_counts.labels), 1)
        for k in range(len(self.sites.positions)):
            rows = self.site_rows(k, 0, n)
            tuples.append(TupleSet.collect(rows.tuples, max(n, 1))[0])
            keys.append(np.repeat(np.arange(first, first + len(rows.tuples)), rows.lengths) * n_labels + rows.labels)
            counts.append(rows.counts)
            first += len(rows.tuples)
        frame = (self.label_counts.labels, self.vocabulary, tuples)
        return CountTable._assemble(self.sites, self.label_counts, frame, np.concatenate(keys), np.concatenate(counts))


_parts_of_tables: WeakKeyDictionary[CountTable, Part] = WeakKeyDictionary()


def part_of(table: CountTable) -> Part:
    """Return a table in memory as a part, made once for each table."""
    made = _parts_of_tables.get(table)
    return _parts_of_tables.setdefault(table, Part(table.sites, table_arrays(table))) if made is None else made


def empties_of(table: CountTable) -> tuple[LabelCounts, ...]:
    """Return how many examples of each label of a table hold no token at each site."""
    return tuple(LabelCounts(table.label_counts.labels, counts).positive() for counts in table.empty_sites)


def _plus(mine: Sequence[LabelCounts], theirs: Sequence[LabelCounts], sign: int) -> tuple[LabelCounts, ...]:
    try:
        return tuple(own.plus(other, sign) if other.total else own for own, other in zip(mine, theirs, strict=True))
    except NotStoredError:
        raise never_stored() from None


def examples_in(top: Stacks | Live) -> int:
    """Return how many examples were learnt, or taken back."""
    return top.version.examples if isinstance(top, Live) else top.label_counts.total


def _live(top: Stacks | Live) -> Live:
    return top if isinstance(top, Live) else Live.of(top.total)


def columns_of(known: LabelSet, labels: Vocabulary) -> NDArray[np.int64]:
    """Return the column of each label number of a live table among other labels; the last one is for the number -1."""
    return np.asarray(np.append(labels.find(known.labels), -1)[known.columns])
