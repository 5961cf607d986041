r"""Add up the runs of a fit in segments, one range of keys at a time.

**Order of work.** A segment holds its range of the sum of all runs. To read a short range of a
run costs little more than to open the run, so P segments made from R runs directly cost
:math:`P R` openings, and more where memory is short and a range is added in pieces. Where there
are many runs they are therefore brought together first: of each `FAN_IN` runs, each of up to
`FAN_IN` *bands* (neighbouring ranges) is added up and written as a run of its own, about as
large as one of them. Then a range finds its rows in :math:`R / \mathrm{FAN\_IN}` runs. This is
repeated until they are few. A sum has no order, so the segments are the same to the byte.

**Ranges of keys.** Cut by ranges of keys, parts of many tables are added apart from each other.
The rows of a table are sorted by site and then by their tokens, in canonical order. Tokens
:math:`t_1 < t_2 < \dots` cut the keys by their *first* token: part p holds the rows that begin
with a token in :math:`[t_p, t_{p+1})`. The parts of all tables for one p add up to the part of
the sum; and parts side by side, site by site, are a sorted table again. Where the cuts lie
changes nothing but how even the work is; they are taken from a sample.
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
from hammemo.files.segment_facts import SegmentFacts
from hammemo.files.segment_files import open_segment
from hammemo.memories.exact import Segment, SiteRows, View, add_rows, arrays_in_use, rank_before
from hammemo.tokens.vocabulary import Token, Vocabulary

if TYPE_CHECKING:
    from hammemo._arrays.types import Array
    from hammemo.kernels.sites import Sites

Spread: TypeAlias = Callable[[Callable[..., Any], Iterable[tuple[Any, ...]]], Iterator[Any]]
"""Calls a function with each of some arguments, anywhere, and yields what it returns in their
order."""

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
    """Neighbouring ranges of keys, `first` to before `stop`, and the runs that hold their rows."""

    first: int
    stop: int
    runs: Runs

    def cut(self) -> list[tuple[int, int]]:
        """Return up to `FAN_IN` bands that this one consists of."""
        n_bands = min(FAN_IN, self.stop - self.first)
        edges = np.linspace(self.first, self.stop, n_bands + 1).round().astype(int).tolist()
        return list(pairwise(edges))


def bring_together(
    band: Band,
    add: Callable[[int, int, Runs], SegmentFacts],
    spread: Spread,
    expect: Callable[[int], None],
) -> list[Band]:
    """Return bands of no more than `MAX_RUNS` runs each, which `add` writes.

    `expect` is called with how many tasks follow.
    """
    done = list[Band]()
    waiting = [band]
    while waiting:
        done += [band for band in waiting if len(band.runs) <= MAX_RUNS]
        tasks = [
            (first, stop, runs)
            for band in waiting
            if len(band.runs) > MAX_RUNS
            for runs in _by_fan_in(band.runs)
            for first, stop in band.cut()
        ]
        expect(len(tasks))
        runs_of_band: dict[tuple[int, int], list[SegmentFacts]] = {}
        for (first, stop, _), run in zip(tasks, spread(add, tasks), strict=True):
            runs_of_band.setdefault((first, stop), []).append(run)
        waiting = [Band(first, stop, tuple(runs)) for (first, stop), runs in runs_of_band.items()]
    return sorted(done, key=lambda band: band.first)


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
        """Return how many entries a table may have here before it is written as a run."""
        return min(max(self._free_bytes() // _ENTRY_BYTES, _ENTRIES[0]), _ENTRIES[1])

    def _free_bytes(self) -> int:
        if self.limit is None:
            limit = memory_limit()
        else:
            limit = self.limit
        return max(limit - _process_bytes(), _ENTRIES[0] * _ENTRY_BYTES)

    def open(self, run: SegmentFacts) -> Segment:
        """Return a run, which was checked when it was found, or written by this call."""
        return open_segment(self.folder, run, self.sites, verify=False, scanned=True)

    def arrays(
        self, runs: Runs, first: Token | None, stop: Token | None, *, packed: bool | None
    ) -> dict[str, Array]:
        """Return the arrays of the segment with the sum of runs.

        Its keys are those from one token to before another; None is no end.
        """
        names = self._names(runs)
        tokens, labels = names
        low = 0
        if first is not None:
            low = rank_before(tokens, first)
        if stop is None:
            high = len(tokens)
        else:
            high = rank_before(tokens, stop)
        pieces = [
            self._add_up(runs, names, start, end)
            for start, end in pairwise(self._pieces(runs, names, low, high))
        ]
        rows = [
            SiteRows.join([piece[site] for piece in pieces])
            for site in range(len(self.sites.positions))
        ]
        return arrays_in_use(rows, tokens, labels, packed=packed)

    def _names(self, runs: Runs) -> Names:
        """Return the tokens and the labels of runs; the last answer is kept for the next range."""
        key = (self.folder, tuple(run.checksum for run in runs))
        names = _last_names.get(key)
        if names is None:
            tokens = Vocabulary()
            labels = Vocabulary()
            for run in runs:
                segment = self.open(run)
                tokens = tokens.union(segment.vocabulary)
                labels = labels.union(segment.labels)
            names = (_in_memory(tokens), _in_memory(labels))
            _last_names.clear()
            _last_names[key] = names
        return names

    def _pieces(self, runs: Runs, names: Names, first: int, stop: int) -> list[int]:
        """Return where to cut a range, so that the rows of a piece fit in an eighth of the memory.

        The largest run stands for all. Each piece opens every run again, so they are as few as
        the memory allows.
        """
        largest = max(runs, key=lambda run: run.entries)
        sites = [
            rows
            for rows_of_runs in self._read_rows((largest,), names, first, stop)
            for _, rows in rows_of_runs
        ]
        largest_bytes = 0
        entries = np.zeros(stop - first)  # of each first token
        for rows in sites:
            for array in (rows.tuples, rows.lengths, rows.labels, rows.counts):
                largest_bytes += array.nbytes
            entries += np.bincount(rows.tuples[:, 0] - first, rows.lengths, stop - first)
        all_bytes = largest_bytes * sum(run.entries for run in runs) / max(largest.entries, 1)
        n_pieces = max(1, math.ceil(all_bytes / (self._free_bytes() / 8)))
        shares = np.linspace(0, entries.sum(), n_pieces + 1)[1:-1]
        inner = first + np.searchsorted(np.cumsum(entries), shares)
        return sorted({first, *inner.tolist(), stop})

    def _read_rows(
        self, runs: Runs, names: Names, first: int, stop: int
    ) -> list[list[tuple[int, SiteRows]]]:
        """Return the rows of each site in a range of keys, of each run, in little room."""
        tokens, labels = names
        rows_of_site: list[list[tuple[int, SiteRows]]] = [[] for _ in self.sites.positions]
        for run in runs:
            view = View(tokens, labels, self.open(run))
            if view.meets(first, stop):
                for site, rows_of_runs in enumerate(rows_of_site):
                    rows = view.rows_between(site, first, stop)
                    rows_of_runs.append((1, _narrow(rows)))
        return rows_of_site

    def _add_up(self, runs: Runs, names: Names, first: int, stop: int) -> list[SiteRows]:
        """Return the rows of each site in a range of keys, added up over all runs."""
        n_tokens = len(names[0])
        n_labels = len(names[1])
        most_entries = self.most_entries() // 2
        sums = []
        rows_of_site = self._read_rows(runs, names, first, stop)
        for positions, waiting in zip(self.sites.positions, rows_of_site, strict=True):
            width = len(positions)
            total: list[tuple[int, SiteRows]] = []
            n_fresh = 0
            while waiting:
                total.append(waiting.pop())
                n_fresh += len(total[-1][1].counts)
                # no more at a time than can be added in this process
                if not waiting or n_fresh >= most_entries:
                    total = [(1, _narrow(add_rows(total, width, n_tokens, n_labels)))]
                    n_fresh = 0
            sums.append(total[0][1] if total else add_rows([], width, n_tokens, n_labels))
        return sums


_last_names: dict[Any, Names] = {}


def memory_limit() -> int:
    """Return how many bytes this process may take: its limit, or an eighth of the machine's."""
    try:
        import resource
    except ModuleNotFoundError:  # not on Windows
        return 2**31
    limits = [resource.getrlimit(kind)[0] for kind in (resource.RLIMIT_DATA, resource.RLIMIT_AS)]
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 8
    return min([machine, *(limit for limit in limits if limit != resource.RLIM_INFINITY)])


def _process_bytes() -> int:
    """Return what this process uses, as its limit counts it: a worker of Ray starts with more."""
    try:
        with open("/proc/self/status", encoding="ascii") as file:
            return int(file.read().split("VmData:")[1].split()[0]) * 1024
    except (OSError, IndexError):
        return 300 * 2**20


def _in_memory(names: Vocabulary) -> Vocabulary:
    """Return a vocabulary that does not keep a run mapped."""
    return Vocabulary(np.array(names.ints), np.array(names.floats), names.strings)


def _narrow(rows: SiteRows) -> SiteRows:
    """Return rows in little room."""
    return SiteRows(
        rows.tuples.astype(np.int32), narrow(rows.lengths), narrow(rows.labels), narrow(rows.counts)
    )
