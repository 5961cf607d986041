r"""A table of counts in parts: what is stored is a sum of parts, some of them subtracted.

.. math:: N = \sum_p \sigma_p N_p, \qquad \sigma_p = \pm 1

Most parts are files, cut out of one table by ranges of keys (:mod:`hammemo.memories.exact.part`): each key is in one of
them. On top come the tables of what was learnt and taken back since, in two short stacks of falling size, as in
:mod:`hammemo.memories.exact.memory`; and the parts of other tables that were merged, with ranges of their own. Nothing
is added up before it is asked for. A query reads its rows in all parts that may hold them; whoever needs more goes
through the keys range by range (`site_rows`), and holds one range at most.

What is taken back is looked up first: an entry that would become negative is refused. How many examples of a label hold
no token at a site is kept apart (`empties`), because no row says it.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, fields, replace
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np

from hammemo._arrays.integers import sum_by_key
from hammemo._arrays.tuple_sets import TupleSet
from hammemo._versions import Cached
from hammemo.memories.errors import NotStoredError, never_stored
from hammemo.memories.exact.count_table import CountTable
from hammemo.memories.exact.part import Part, SiteRows, part_arrays, table_arrays
from hammemo.memories.exact.part_set import PartSet, SignedPart, View
from hammemo.memories.label_counts import LabelCounts

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from hammemo.kernels.sites import Sites
    from hammemo.tokens.vocabulary import Token, Vocabulary


@dataclass(frozen=True, eq=False)
class Parted(Cached):
    """One version of a table in parts.

    Parameters
    ----------
    sites : Sites
    files : tuple of SignedPart
        Parts that lie in files.
    label_counts : LabelCounts
    empties : tuple of LabelCounts, one a site
        How many examples of each label hold no token there.
    added, removed : tuple of CountTable
        What was learnt and taken back since, in memory.
    """

    sites: Sites
    files: tuple[SignedPart, ...]
    label_counts: LabelCounts
    empties: tuple[LabelCounts, ...]
    added: tuple[CountTable, ...] = ()
    removed: tuple[CountTable, ...] = ()

    on_disk = True

    @classmethod
    def of(cls, table: CountTable) -> Parted:
        """Return a table in memory in this form."""
        return cls(table.sites, (), table.label_counts, empties_of(table), (table,))

    def __getstate__(self) -> dict[str, Any]:
        return {item.name: getattr(self, item.name) for item in fields(self)}  # caches are made again

    @cached_property
    def parts(self) -> tuple[SignedPart, ...]:
        """All parts, those in memory too."""
        added = (SignedPart(part_of(table), 1) for table in self.added)
        removed = (SignedPart(part_of(table), -1) for table in self.removed)
        return (*self.files, *added, *removed)

    @cached_property
    def part_set(self) -> PartSet:
        """All parts with a common numbering: what queries read."""
        return PartSet(self.sites, self.parts)

    @property
    def vocabulary(self) -> Vocabulary:
        """The tokens of all parts; some may be left without a row."""
        return self.part_set.vocabulary

    @cached_property
    def views(self) -> tuple[View, ...]:
        """What connects the numbering of each part with the common one."""
        labels = self.label_counts.labels
        return tuple(View(self.vocabulary, labels, part, sign) for part, sign, _ in self.parts)

    @property
    def nbytes(self) -> int:
        """Bytes of rows and entries in all parts."""
        return sum(signed.part.nbytes for signed in self.parts)

    def changed(self, table: CountTable, sign: int) -> Parted:
        """Return the version with one more table added or taken back, or refuse to go below zero."""
        label_counts = self.label_counts.plus(table.label_counts, sign)
        empties = _plus(self.empties, empties_of(table), sign)
        if sign < 0 and (self.counts_at(table) < table.entry_counts).any():
            raise never_stored()
        added, removed = self.added, self.removed
        if sign > 0:
            added = _stacked(added, table)
        else:
            removed = _stacked(removed, table)
        return replace(self, label_counts=label_counts, empties=empties, added=added, removed=removed)

    def plus(self, other: Parted, sign: int) -> Parted:
        """Return the sum with another table in parts, or the difference, or refuse to go below zero."""
        theirs = tuple(SignedPart(part, sign * own, about) for part, own, about in other.files)
        made = replace(
            self,
            files=(*self.files, *theirs),
            label_counts=self.label_counts.plus(other.label_counts, sign),
            empties=_plus(self.empties, other.empties, sign),
        )
        added, removed = (other.added, other.removed) if sign > 0 else (other.removed, other.added)
        for table in added:
            made = replace(made, added=_stacked(made.added, table))
        for table in removed:
            made = replace(made, removed=_stacked(made.removed, table))
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
            for part, sign, _ in self.parts:
                tokens = part.vocabulary.find(table.vocabulary)
                columns = part.labels.find(table.label_counts.labels)
                low, high = part.spans(k, part.find(k, tokens[tuples]))
                held[entries] += sign * part.counts_of(low[row_of_entry], high[row_of_entry], columns[labels])
            first = rows.stop
        return held

    @cached_property
    def edges(self) -> NDArray[np.int64]:
        """Ranks of first tokens at which the keys are cut into ranges: where parts in files begin, and the two ends."""
        firsts = [ends[0] for view in self.views[: len(self.files)] if (ends := view.ends) is not None]
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
        return used_arrays(rows, self.vocabulary, self.label_counts.labels)

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


def added_rows(held: Sequence[tuple[int, SiteRows]], length: int, n_tokens: int, n_labels: int) -> SiteRows:
    """Return the sum of rows of one site, each with its sign; refuse a count below zero.

    Parameters
    ----------
    held : sequence of (sign, SiteRows)
        With common ranks of tokens and labels.
    length : int
        How many tokens a tuple has.
    n_tokens, n_labels : int
        How many there are.
    """
    held = [(sign, rows) for sign, rows in held if len(rows.tuples)]
    if not held:
        none = np.empty(0, np.int64)
        return SiteRows(np.empty((0, length), np.int64), none, none, none)
    if len(held) == 1 and held[0][0] > 0:  # nothing to add: in the right order as it is
        return held[0][1]
    known, index = TupleSet.collect(np.concatenate([rows.tuples for _, rows in held]), n_tokens)
    n_entries, n_labels = sum(len(rows.counts) for _, rows in held), max(n_labels, 1)
    keys, counts = np.empty(n_entries, np.int64), np.empty(n_entries, np.int64)
    row, entry = 0, 0
    for sign, rows in held:
        here = slice(entry, entry + len(rows.counts))
        keys[here] = np.repeat(index[row : row + len(rows.tuples)], rows.lengths) * n_labels + rows.labels
        counts[here] = sign * rows.counts
        row, entry = row + len(rows.tuples), here.stop
    summed, totals = sum_by_key(keys, counts, len(known) * n_labels)
    if (totals < 0).any():
        raise never_stored()
    ranks, labels = np.divmod(summed, n_labels)
    lengths = np.bincount(ranks, minlength=len(known))
    return SiteRows(known.rows()[lengths > 0], lengths[lengths > 0], labels, totals)


def used_arrays(rows: Sequence[SiteRows], vocabulary: Vocabulary, labels: Vocabulary) -> dict[str, NDArray[Any]]:
    """Return the arrays of a part with these rows of each site, with those tokens and labels only that they use."""
    tokens, names = np.zeros(len(vocabulary), bool), np.zeros(len(labels), bool)
    for site in rows:
        tokens[site.tuples] = True
        names[site.labels] = True
    token_ranks, label_ranks = np.cumsum(tokens) - 1, np.cumsum(names) - 1
    named = [SiteRows(token_ranks[r.tuples], r.lengths, label_ranks[r.labels], r.counts) for r in rows]
    return part_arrays(named, vocabulary.keep(tokens), labels.keep(names))


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


def _stacked(stack: tuple[CountTable, ...], table: CountTable) -> tuple[CountTable, ...]:
    """Return the stack with one more table, neighbours of similar size added up."""
    tables = [*stack, table]
    while len(tables) > 1 and len(tables[-2].entry_counts) <= 2 * len(tables[-1].entry_counts):
        tables[-2:] = [tables[-2].plus(tables[-1])]
    return tuple(tables)


def rank_before(vocabulary: Vocabulary, token: Token) -> int:
    """Return how many tokens of a vocabulary come before this one in canonical order."""
    if isinstance(token, int):
        return int(np.searchsorted(vocabulary.ints, token))
    first = len(vocabulary.ints)
    if isinstance(token, float):
        return first + int(np.searchsorted(vocabulary.floats, token))
    return first + len(vocabulary.floats) + bisect_left(vocabulary.strings, token)
