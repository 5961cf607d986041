r"""Learn an exact table that nobody holds: groups write runs, ranges of keys are added up from them, one file each.

1. A task learns a group of shards. Whenever its table has as many entries as the memory limit allows, it is written
   as a *run*, a file of rows in the order of their keys, and the task goes on with an empty table.
2. A task adds up one range of keys: it reads that range of every run, and writes a part
   (:mod:`hammemo.files.part_files`).
3. The driver adds the examples of each label, opens the parts, fits the vote to a sample against them, and writes the
   head.

So a worker holds one run or one range at a time, and the driver neither. Runs and parts lie in the folder of the model,
under names that say whose they are; one that is there with the right checksum is not made again. Therefore whatever
dies, a worker, a node or the driver, the same call goes on from there, and the files are the same to the byte. They do
not depend on the engine, the groups, or the limit either: a sum has no order, and the cuts come from the sample.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import shutil
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hammemo._arrays.integers import narrow
from hammemo.engines.jobs import GroupReport, ShardReader
from hammemo.files.atomic import write_file
from hammemo.files.folders import opened
from hammemo.files.part_files import PartFacts, open_part, right_part, write_part
from hammemo.memories.exact.added_rows import added_rows, rank_before, used_arrays
from hammemo.memories.exact.part import SiteRows, table_arrays
from hammemo.memories.exact.part_set import View
from hammemo.memories.exact.parted import Parted
from hammemo.memories.label_counts import LabelCounts
from hammemo.tokens.vocabulary import Vocabulary

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from hammemo.engines.jobs import Job
    from hammemo.memories import Exact
    from hammemo.memories.exact.count_table import CountTable
    from hammemo.memories.exact.part import Part
    from hammemo.sources.documents import Shard
    from hammemo.tokens.vocabulary import Token

_KEPT: Final = "kept."
_ENTRY_BYTES: Final = 200
"""What an entry takes at most while two tables are added."""
_ENTRIES: Final = (2**18, 2**24)
"""The fewest and the most entries of a run."""


@dataclass(frozen=True)
class PartsJob:
    """All that the tasks of a fit in parts must know.

    Parameters
    ----------
    job : Job
        What is learnt, and how.
    folder : str
        The folder of the model.
    runs_name, parts_name : str
        What the names of runs and of parts begin with: they say whose they are.
    cuts : tuple of tokens, ascending
        Where the keys are cut into ranges.
    limit : int or None
        Bytes of memory that a worker may take; None where the operating system says.
    """

    job: Job
    folder: str
    runs_name: str
    parts_name: str
    cuts: tuple[Token, ...]
    limit: int | None = None

    @property
    def runs_folder(self) -> str:
        """Where the runs lie."""
        return os.path.join(self.folder, "runs")

    @property
    def n_ranges(self) -> int:
        """How many ranges there are."""
        return len(self.cuts) + 1

    def most_entries(self) -> int:
        """Return how many entries a table may have in this process before it is written as a run."""
        return min(max(self._free_bytes() // _ENTRY_BYTES, _ENTRIES[0]), _ENTRIES[1])

    def _free_bytes(self) -> int:
        limit = memory_limit() if self.limit is None else self.limit
        return max(limit - _held_bytes(), _ENTRIES[0] * _ENTRY_BYTES)

    def learn(self, group: int, shards: tuple[Shard, ...]) -> tuple[list[PartFacts], GroupReport]:
        """Learn a group of shards into runs, or return those that an earlier call has written."""
        record = os.path.join(self.runs_folder, f"{self.runs_name}-{group:06d}.json")
        reader = ShardReader(self.job)
        runs = _recorded(self.runs_folder, record)
        resumed = runs is not None
        if runs is None:
            runs = list(self._write_runs(group, shards, reader))
            write_file(record, [json.dumps([facts.described() for facts in runs]).encode()])
        return runs, reader.report(group, shards, self._kept(runs), resumed=resumed)

    def _write_runs(self, group: int, shards: tuple[Shard, ...], reader: ShardReader) -> Iterator[PartFacts]:
        most, number = self.most_entries(), 0
        memory: Any = self.job.template.empty_like()
        for block in reader.blocks(shards):
            memory.add_blocks([block], self.job.labels)
            if memory.n_entries >= most:
                yield self._write_run(memory, group, number, {})
                memory, number = self.job.template.empty_like(), number + 1
        kept = {} if reader.kept is None else reader.kept.packed()
        yield self._write_run(memory, group, number, kept)  # also an empty one: it holds the sample

    def _write_run(self, memory: Exact, group: int, number: int, kept: Mapping[str, NDArray[Any]]) -> PartFacts:
        table = memory.table()
        arrays = {**table_arrays(table), **_empty_arrays(table)}
        arrays |= {f"{_KEPT}{name}": array for name, array in kept.items()}
        name = f"{self.runs_name}-{group:06d}-{number:04d}.safetensors"
        return write_part(os.path.join(self.runs_folder, name), arrays)

    def _kept(self, runs: Sequence[PartFacts]) -> dict[str, NDArray[Any]] | None:
        if self.job.kept is None:
            return None
        arrays = self._open(runs[-1]).arrays
        return {name.removeprefix(_KEPT): np.array(a) for name, a in arrays.items() if name.startswith(_KEPT)}

    def _open(self, run: PartFacts) -> Part:
        """Return a run; its pages were checked when it was found, or it was written by this call."""
        return open_part(self.runs_folder, run, self.job.template.sites, verify=False)

    def add_range(self, number: int, runs: Sequence[PartFacts]) -> PartFacts:
        """Write the part of one range of keys, or find it."""
        name = f"{self.parts_name}-{number:06d}.safetensors"
        facts = right_part(self.folder, name)
        if facts is not None:
            return facts
        names = _all_names(self, runs)
        edges = [0, *(rank_before(names[0], token) for token in self.cuts), len(names[0])]
        inner = self._pieces(runs, names, edges[number], edges[number + 1])
        parts = [self._summed(runs, names, low, high) for low, high in pairwise(inner)]
        rows = [_side_by_side([part[k] for part in parts]) for k in range(len(self.job.template.sites.positions))]
        return write_part(os.path.join(self.folder, name), used_arrays(rows, *names))

    def _pieces(
        self, runs: Sequence[PartFacts], names: tuple[Vocabulary, Vocabulary], first: int, stop: int
    ) -> list[int]:
        """Return where to cut a range, so that an eighth of the memory holds what all runs say of a piece.

        The largest run stands for all. Each piece opens every run again, so they are as few as the memory allows.
        """
        largest = max(runs, key=lambda run: run.entries)
        held = [rows for site in self._held([largest], names, first, stop) for _, rows in site]
        size = sum(a.nbytes for rows in held for a in (rows.tuples, rows.lengths, rows.labels, rows.counts))
        whole = size * sum(run.entries for run in runs) / max(largest.entries, 1)
        entries = np.zeros(stop - first)
        for rows in held:
            entries += np.bincount(rows.tuples[:, 0] - first, rows.lengths, stop - first)
        n_pieces = max(1, math.ceil(whole / (self._free_bytes() / 8)))
        shares = np.linspace(0, entries.sum(), n_pieces + 1)[1:-1]
        return sorted({first, *(first + np.searchsorted(np.cumsum(entries), shares)).tolist(), stop})

    def _held(
        self, runs: Sequence[PartFacts], names: tuple[Vocabulary, Vocabulary], first: int, stop: int
    ) -> list[list[tuple[int, SiteRows]]]:
        """Return the rows of each site in a range of keys, of each run, in little room."""
        positions = self.job.template.sites.positions
        held: list[list[tuple[int, SiteRows]]] = [[] for _ in positions]
        for run in runs:
            view = View(*names, self._open(run))
            for k in range(len(positions)) if view.meets(first, stop) else ():
                rows = view.rows_between(k, first, stop)
                held[k].append((1, _narrowed(rows)))
        return held

    def _summed(
        self, runs: Sequence[PartFacts], names: tuple[Vocabulary, Vocabulary], first: int, stop: int
    ) -> list[SiteRows]:
        """Return the rows of each site in a range of keys, added up over all runs."""
        held, summed, most = self._held(runs, names, first, stop), [], self.most_entries() // 2
        for k, site in enumerate(self.job.template.sites.positions):
            total: list[tuple[int, SiteRows]] = []
            fresh = 0
            while held[k]:
                total.append(held[k].pop())
                fresh += len(total[-1][1].counts)
                if not held[k] or fresh >= most:  # no more at a time than can be added in this process
                    total, fresh = [(1, _narrowed(added_rows(total, len(site), *map(len, names))))], 0
            summed.append(total[0][1] if total else added_rows([], len(site), *map(len, names)))
        return summed

    def examples(self, runs: Sequence[PartFacts]) -> tuple[LabelCounts, tuple[LabelCounts, ...]]:
        """Return how many examples each label has, and how many of them hold no token at each site."""
        counts, empties = LabelCounts(), [LabelCounts() for _ in self.job.template.sites.positions]
        for run in runs:
            part = self._open(run)
            counts = counts.plus(part.label_counts)
            empties = [own.plus(other) for own, other in zip(empties, _empties(part), strict=True)]
        return counts, tuple(empties)

    def parted(self, runs: Sequence[PartFacts], parts: Sequence[PartFacts]) -> Parted:
        """Return the table in its parts."""
        counts, empties = self.examples(runs)
        sites = self.job.template.sites
        held = [opened(self.folder, part, sites) for part in parts if part.rows]
        return Parted.of_parts(sites, held, counts, empties)

    def delete_runs(self) -> None:
        """Delete all runs: the parts hold what they held."""
        shutil.rmtree(self.runs_folder, ignore_errors=True)


def job_names(manifest: Mapping[str, Any], cuts: Sequence[Token]) -> tuple[str, str]:
    """Return what the names of runs and of parts begin with; parts do not depend on how the source was grouped."""
    grouped = ("groups", "first_group")
    whole = {name: value for name, value in manifest.items() if name not in grouped}
    digests = [hashlib.blake2b(json.dumps(told).encode(), digest_size=8) for told in (dict(manifest), [whole, *cuts])]
    return f"run-{digests[0].hexdigest()}", f"part-{digests[1].hexdigest()}"


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


def run_parts(
    work: PartsJob,
    groups: Sequence[tuple[Shard, ...]],
    spread: Callable[[Callable[..., Any], Iterable[tuple[Any, ...]]], Iterator[Any]],
    on_report: Callable[[GroupReport], None],
) -> Parted:
    """Learn all groups in parts; `spread` calls a function with each of some arguments, anywhere, in their order."""
    os.makedirs(work.runs_folder, exist_ok=True)
    runs: list[PartFacts] = []
    for written, report in spread(work.learn, enumerate(groups)):
        runs += written
        on_report(report)
    parts = list(spread(work.add_range, ((number, runs) for number in range(work.n_ranges))))
    return work.parted(runs, parts)


def _recorded(folder: str, record: str) -> list[PartFacts] | None:
    """Return the runs that a record lists, if all of them are there and whole."""
    try:
        with open(record, encoding="ascii") as file:
            listed = [PartFacts.of(one) for one in json.load(file)]
    except (OSError, ValueError):
        return None
    return listed if listed and all(right_part(folder, facts.name) == facts for facts in listed) else None


_last_names: dict[Any, tuple[Vocabulary, Vocabulary]] = {}


def _all_names(work: PartsJob, runs: Sequence[PartFacts]) -> tuple[Vocabulary, Vocabulary]:
    """Return the tokens and the labels of all runs, found once in a process."""
    key = (work.runs_folder, tuple(run.checksum for run in runs))
    known = _last_names.get(key)
    if known is None:
        tokens, labels = Vocabulary(), Vocabulary()
        for run in runs:
            part = work._open(run)
            tokens, labels = tokens.union(part.vocabulary), labels.union(part.labels)
        known = _in_memory(tokens), _in_memory(labels)
        _last_names.clear()  # of one job at a time
        _last_names[key] = known
    return known


def _in_memory(names: Vocabulary) -> Vocabulary:
    """Return a vocabulary that does not keep a run mapped."""
    return Vocabulary(np.array(names.ints), np.array(names.floats), names.strings)


def _narrowed(rows: SiteRows) -> SiteRows:
    """Return rows in little room."""
    return SiteRows(rows.tuples.astype(np.int32), narrow(rows.lengths), narrow(rows.labels), narrow(rows.counts))


def _side_by_side(rows: list[SiteRows]) -> SiteRows:
    if len(rows) == 1:
        return rows[0]
    names = ("tuples", "lengths", "labels", "counts")
    return SiteRows(*(np.concatenate([getattr(part, name) for part in rows]) for name in names))


def _empty_arrays(table: CountTable) -> dict[str, NDArray[Any]]:
    sites, labels = np.nonzero(table.empty_sites)
    found = {"sites": sites, "labels": labels, "counts": table.empty_sites[sites, labels]}
    return {f"empty.{name}": narrow(array) for name, array in found.items()}


def _empties(part: Part) -> list[LabelCounts]:
    sites, labels, counts = (part.arrays[f"empty.{name}"] for name in ("sites", "labels", "counts"))
    found = []
    for k in range(len(part.sites.positions)):
        totals = np.zeros(len(part.labels), np.int64)
        totals[labels[sites == k]] = counts[sites == k]
        found.append(LabelCounts(part.labels, totals).positive())
    return found
