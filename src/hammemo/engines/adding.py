r"""Add up the runs of a fit in segments, one range of keys at a time, in the memory that a process may take.

A segment holds its range of the sum of all runs. To read a short range of a run costs little more than to open the run,
so P segments made from R runs directly cost :math:`P R` openings, and more where memory is short and a range is added
in pieces. Where there are many runs they are therefore brought together first: of each `FAN_IN` runs, each of up to
`FAN_IN` *bands* (neighbouring ranges) is added up and written as a run of its own, about as large as one of them. Then
a range finds its rows in :math:`R / \mathrm{FAN\_IN}` runs. This is repeated until they are few. A sum has no order, so
the segments are the same to the byte.

An exact count table cut by ranges of keys, so that parts of many tables are added apart from each other.

The rows of a table are sorted by site and then by their tokens, in canonical order. Tokens :math:`t_1 < t_2 < \dots`
cut the keys by their *first* token: part p holds the rows that begin with a token in :math:`[t_p, t_{p+1})`. The parts
of all tables for one p add up to the part of the sum; and parts side by side, site by site, are a sorted table again.
Where the cuts lie changes nothing but how even the work is; they are taken from a sample.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import numpy as np

from hammemo._arrays.integers import narrow
from hammemo.files.segment_files import SegmentFacts, open_segment
from hammemo.memories.exact import Segment, SiteRows, View, add_rows, arrays_in_use, rank_before
from hammemo.tokens.vocabulary import Token, Vocabulary

if TYPE_CHECKING:
    from hammemo._arrays.types import Array
    from hammemo.kernels.sites import Sites

Spread: TypeAlias = Callable[[Callable[..., Any], Iterable[tuple[Any, ...]]], Iterator[Any]]
"""Calls a function with each of some arguments, anywhere, and yields what it returns in their order."""

Runs: TypeAlias = tuple[SegmentFacts, ...]
Names: TypeAlias = tuple[Vocabulary, Vocabulary]
"""All tokens and all labels of some runs."""

FAN_IN: Final = 16
"""How many runs are brought together to one."""
MAX_RUNS: Final = 64
"""Runs that a segment is added up from, at most."""
_ENTRY_BYTES: Final = 200
"""What an entry takes at most while two tables are added."""
_ENTRIES: Final = (2**18, 2**24)
"""The fewest and the most entries of a run."""


class Band(NamedTuple):
    """Neighbouring ranges of keys, from `first` to before `stop`, and the runs that hold their rows."""

    first: int
    stop: int
    runs: Runs

    def cut(self) -> list[tuple[int, int]]:
        """Return up to `FAN_IN` bands that this one consists of."""
        n_bands = min(FAN_IN, self.stop - self.first)
        edges = np.linspace(self.first, self.stop, n_bands + 1).round().astype(int).tolist()
        return list(pairwise(edges))


def brought_together(
    band: Band, add: Callable[[int, int, Runs], SegmentFacts], spread: Spread, expect: Callable[[int], None]
) -> list[Band]:
    """Return bands of no more than `MAX_RUNS` runs each, which `add` writes; `expect` is told of this many tasks."""
    done, waiting = list[Band](), [band]
    while waiting:
        done += [one for one in waiting if len(one.runs) <= MAX_RUNS]
        large = [one for one in waiting if len(one.runs) > MAX_RUNS]
        tasks = [(*ends, few) for one in large for few in _by_fan_in(one.runs) for ends in one.cut()]
        expect(len(tasks))
        held: dict[tuple[int, int], list[SegmentFacts]] = {}
        for (first, stop, _), written in zip(tasks, spread(add, tasks), strict=True):
            held.setdefault((first, stop), []).append(written)
        waiting = [Band(*ends, tuple(runs)) for ends, runs in held.items()]
    return sorted(done, key=lambda one: one.first)


def _by_fan_in(runs: Runs) -> Iterator[Runs]:
    return (runs[first : first + FAN_IN] for first in range(0, len(runs), FAN_IN))


@dataclass(frozen=True)
class Adder:
    """Reads runs, and adds up ranges of their keys.

    Parameters
    ----------
    sites : Sites
    folder : str
        Where the runs lie.
    limit : int or None
        Bytes of memory that this process may take; None where the operating system says.
    """

    sites: Sites
    folder: str
    limit: int | None = None

    def most_entries(self) -> int:
        """Return how many entries a table may have in this process before it is written as a run."""
        return min(max(self._free_bytes() // _ENTRY_BYTES, _ENTRIES[0]), _ENTRIES[1])

    def _free_bytes(self) -> int:
        limit = memory_limit() if self.limit is None else self.limit
        return max(limit - _held_bytes(), _ENTRIES[0] * _ENTRY_BYTES)

    def open(self, run: SegmentFacts) -> Segment:
        """Return a run; its pages were checked when it was found, or it was written by this call."""
        return open_segment(self.folder, run, self.sites, verify=False, scanned=True)

    def arrays(self, runs: Runs, first: Token | None, stop: Token | None, *, packed: bool | None) -> dict[str, Array]:
        """Return the arrays of the segment with the sum of runs from one token to before another; None: no end."""
        names = self._names(runs)
        low = 0 if first is None else rank_before(names[0], first)
        high = len(names[0]) if stop is None else rank_before(names[0], stop)
        inner = self._pieces(runs, names, low, high)
        pieces = [self._summed(runs, names, *ends) for ends in pairwise(inner)]
        rows = [SiteRows.join([piece[k] for piece in pieces]) for k in range(len(self.sites.positions))]
        return arrays_in_use(rows, *names, packed=packed)

    def _names(self, runs: Runs) -> Names:
        """Return the tokens and the labels of runs; the last answer is kept, as a band is needed many times."""
        key = (self.folder, tuple(run.checksum for run in runs))
        known = _last_names.get(key)
        if known is None:
            tokens, labels = Vocabulary(), Vocabulary()
            for run in runs:
                segment = self.open(run)
                tokens, labels = tokens.union(segment.vocabulary), labels.union(segment.labels)
            known = _in_memory(tokens), _in_memory(labels)
            _last_names.clear()
            _last_names[key] = known
        return known

    def _pieces(self, runs: Runs, names: Names, first: int, stop: int) -> list[int]:
        """Return where to cut a range, so that an eighth of the memory holds what all runs say of a piece.

        The largest run stands for all. Each piece opens every run again, so they are as few as the memory allows.
        """
        largest = max(runs, key=lambda run: run.entries)
        held = [rows for site in self._held((largest,), names, first, stop) for _, rows in site]
        size = sum(a.nbytes for rows in held for a in (rows.tuples, rows.lengths, rows.labels, rows.counts))
        whole = size * sum(run.entries for run in runs) / max(largest.entries, 1)
        entries = np.zeros(stop - first)
        for rows in held:
            entries += np.bincount(rows.tuples[:, 0] - first, rows.lengths, stop - first)
        n_pieces = max(1, math.ceil(whole / (self._free_bytes() / 8)))
        shares = np.linspace(0, entries.sum(), n_pieces + 1)[1:-1]
        return sorted({first, *(first + np.searchsorted(np.cumsum(entries), shares)).tolist(), stop})

    def _held(self, runs: Runs, names: Names, first: int, stop: int) -> list[list[tuple[int, SiteRows]]]:
        """Return the rows of each site in a range of keys, of each run, in little room."""
        held: list[list[tuple[int, SiteRows]]] = [[] for _ in self.sites.positions]
        for run in runs:
            view = View(*names, self.open(run))
            for k in range(len(held)) if view.meets(first, stop) else ():
                rows = view.rows_between(k, first, stop)
                held[k].append((1, _narrowed(rows)))
        return held

    def _summed(self, runs: Runs, names: Names, first: int, stop: int) -> list[SiteRows]:
        """Return the rows of each site in a range of keys, added up over all runs."""
        held, summed, most = self._held(runs, names, first, stop), [], self.most_entries() // 2
        for k, site in enumerate(self.sites.positions):
            total: list[tuple[int, SiteRows]] = []
            fresh = 0
            while held[k]:
                total.append(held[k].pop())
                fresh += len(total[-1][1].counts)
                if not held[k] or fresh >= most:  # no more at a time than can be added in this process
                    total, fresh = [(1, _narrowed(add_rows(total, len(site), *map(len, names))))], 0
            summed.append(total[0][1] if total else add_rows([], len(site), *map(len, names)))
        return summed


_last_names: dict[Any, Names] = {}


def memory_limit() -> int:
    """Return how many bytes this process may take: what it is limited to, or an eighth of the machine's memory."""
    try:
        import resource
    except ModuleNotFoundError:  # not on Windows
        return 2**31
    limits = [resource.getrlimit(kind)[0] for kind in (resource.RLIMIT_DATA, resource.RLIMIT_AS)]
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 8
    return min([machine, *(limit for limit in limits if limit != resource.RLIM_INFINITY)])


def _held_bytes() -> int:
    """Return what this process holds now, as its limit counts it: a worker of Ray starts with more than others."""
    try:
        with open("/proc/self/status", encoding="ascii") as file:
            return int(file.read().split("VmData:")[1].split()[0]) * 1024
    except (OSError, IndexError):
        return 300 * 2**20


def _in_memory(names: Vocabulary) -> Vocabulary:
    """Return a vocabulary that does not keep a run mapped."""
    return Vocabulary(np.array(names.ints), np.array(names.floats), names.strings)


def _narrowed(rows: SiteRows) -> SiteRows:
    """Return rows in little room."""
    return SiteRows(rows.tuples.astype(np.int32), narrow(rows.lengths), narrow(rows.labels), narrow(rows.counts))
