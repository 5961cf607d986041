"""Learn an exact table that no process holds: groups write runs, and ranges of keys are added up.

1. A task learns a group of shards. Whenever its table has as many entries as the memory limit
   allows, it is written as a *run*, a file of rows in the order of their keys, and the task
   goes on with an empty table.
2. Many runs are brought together to fewer (:mod:`hammemo.engines.adding`). Then a task adds up
   one range of keys: it reads that range of every run, and writes a segment
   (:mod:`hammemo.files.segment_files`).
3. The driver adds the examples of each label, opens the segments, fits the vote to a sample
   against them, and writes the head.

A memory that keeps a sketch beside its table (:class:`~hammemo.memories.Tiered`) learns both in
step 1. The sketch goes on when a run is written: it has one size. It is stored with the last
run of the group, and the driver adds up those of all groups.

So a worker holds one run or one range at a time, and the driver neither. Runs and segments lie
in the folder of the model, under names that say whose they are; one that is there with the
right checksum is not made again. Therefore whatever dies, a worker, a node or the driver, the
same call goes on from there, and the files are the same to the byte. They do not depend on the
engine, the groups, or the limit either: a sum has no order, and the cuts come from the sample.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np

from hammemo._arrays.checked import StoredArrays
from hammemo.engines.adding import Adder, Band, Runs, Spread, bring_together
from hammemo.engines.jobs import GroupTally, add_prefix, pack, take_prefix, unpack
from hammemo.files.atomic import write_file
from hammemo.files.folders import open_signed
from hammemo.files.segment_facts import SegmentFacts
from hammemo.files.segment_files import read_right_segment, write_segment
from hammemo.memories.exact import InSegments, SignedSum, table_arrays
from hammemo.memories.label_counts import LabelCounts, empty_arrays, read_empties

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from hammemo._arrays.types import Array
    from hammemo.engines.jobs import (
        Arrays,
        GroupJob,
        GroupObserver,
        GroupReport,
        Groups,
        Manifest,
        Shards,
    )
    from hammemo.tokens.vocabulary import Token

_KEPT: Final = "kept."
"""How names of arrays begin that belong to the sample that is kept, in the last run of a group."""

_COMPANION: Final = "companion."
"""How names of arrays begin that belong to what is kept beside the table, in the last run of a
group."""


@dataclass(frozen=True)
class SegmentsJob:
    """All that the tasks of a fit in segments must know.

    Parameters
    ----------
    job : GroupJob
        What is learned, and how.
    folder : str
        The folder of the model.
    runs_name, segments_name : str
        What the names of runs and of segments begin with: they say whose they are.
    cuts : tuple of tokens, ascending
        Where the keys are cut into ranges.
    limit : int or None
        Bytes of memory that a worker may take; None where the operating system says.
    """

    job: GroupJob
    folder: str
    runs_name: str
    segments_name: str
    cuts: tuple[Token, ...]
    limit: int | None = None

    @property
    def runs_folder(self) -> str:
        """Where the runs lie."""
        return os.path.join(self.folder, "runs")

    @property
    def template(self) -> InSegments:
        """An empty memory, its layout settled."""
        return cast("InSegments", self.job.template)

    @property
    def adder(self) -> Adder:
        """What adds up runs."""
        return Adder(self.template.sites, self.runs_folder, self.limit)

    def learn(self, group: int, shards: Shards) -> tuple[list[SegmentFacts], GroupReport]:
        """Learn a group of shards into runs, or return those that an earlier call has written."""
        record = os.path.join(self.runs_folder, f"{self.runs_name}-{group:06d}.json")
        tally = GroupTally(self.job.kept)
        runs = _read_record(self.runs_folder, record)
        resumed = runs is not None
        if runs is None:
            runs = list(self._write_runs(group, shards, tally))
            write_file(record, [json.dumps([vars(facts) for facts in runs]).encode()])
        sample_arrays = None
        if self.job.kept is not None:
            sample_arrays = self.beside(_KEPT, runs[-1])
        return runs, tally.report(group, shards, sample_arrays, resumed=resumed)

    def _write_runs(self, group: int, shards: Shards, tally: GroupTally) -> Iterator[SegmentFacts]:
        most_entries = self.adder.most_entries()
        number = 0
        memory: InSegments = self.template.empty_like()
        for piece in self.job.pieces(shards, tally):
            self.job.add(memory, [piece])
            if memory.terms.n_entries >= most_entries:
                yield self._write_run(memory, group, number, {})
                memory = memory.with_empty_table()
                number += 1
        last = {}
        if tally.kept is not None:
            last = add_prefix(_KEPT, tally.kept.pack())
        if memory.companion is not None:
            last.update(add_prefix(_COMPANION, pack(memory.companion)))
        yield self._write_run(memory, group, number, last)  # also an empty one: it holds the sample

    def _write_run(
        self, memory: InSegments, group: int, number: int, other_arrays: Mapping[str, Array]
    ) -> SegmentFacts:
        table = memory.table()
        arrays = {
            **table_arrays(table),
            **empty_arrays(table.empties, table.label_counts.labels),
            **other_arrays,
        }
        name = f"{self.runs_name}-{group:06d}-{number:04d}.safetensors"
        return write_segment(os.path.join(self.runs_folder, name), arrays)

    def beside(self, prefix: str, run: SegmentFacts) -> Arrays:
        """Return copies of what a run holds beside its rows."""
        arrays = take_prefix(prefix, self.adder.open(run).arrays)
        return {name: np.array(array) for name, array in arrays.items()}

    def add_band(self, first: int, stop: int, runs: Runs) -> SegmentFacts:
        """Write the sum of a band of some runs as a run of its own, or find it."""
        identity = json.dumps([[run.checksum for run in runs], first, stop]).encode()
        name = (
            f"{self.runs_name}-{hashlib.blake2b(identity, digest_size=8).hexdigest()}.safetensors"
        )
        path = os.path.join(self.runs_folder, name)
        return self._find_or_write(path, (first, stop), runs, packed=False)

    def add_range(self, number: int, runs: Runs) -> SegmentFacts:
        """Write the segment of one range of keys, or find it."""
        name = f"{self.segments_name}-{number:06d}.safetensors"
        path = os.path.join(self.folder, name)
        return self._find_or_write(path, (number, number + 1), runs, packed=None)

    def _find_or_write(
        self, path: str, band: tuple[int, int], runs: Runs, *, packed: bool | None
    ) -> SegmentFacts:
        """Return the file that holds the sum of neighbouring ranges of some runs."""
        facts = read_right_segment(*os.path.split(path))
        if facts is None:
            first, stop = band
            edges = (None, *self.cuts, None)
            arrays = self.adder.arrays(runs, edges[first], edges[stop], packed=packed)
            facts = write_segment(path, arrays)
        return facts

    def open_segments(
        self, runs: Sequence[SegmentFacts], segments: Sequence[SegmentFacts]
    ) -> SignedSum:
        """Return the table in its segments.

        The runs say how many examples each label has, and how many of these have no token at a
        site: examples that no segment has a row for.
        """
        sites = self.template.sites
        label_counts = LabelCounts()
        empty_counts = [LabelCounts() for _ in sites.positions]
        for run in runs:
            segment = self.adder.open(run)
            label_counts = label_counts.plus(segment.label_counts)
            counts_of_run = read_empties(
                StoredArrays(segment.arrays), segment.label_counts, len(sites.positions)
            )
            empty_counts = [
                total.plus(counts)
                for total, counts in zip(empty_counts, counts_of_run, strict=True)
            ]
        mapped = [open_signed(self.folder, facts, sites) for facts in segments if facts.rows]
        return SignedSum.from_segments(sites, mapped, label_counts, empty_counts)

    def delete_runs(self) -> None:
        """Delete all runs: the segments hold what they held."""
        shutil.rmtree(self.runs_folder, ignore_errors=True)


def job_names(manifest: Manifest, cuts: Sequence[Token]) -> tuple[str, str]:
    """Return what names of runs and of segments begin with.

    Segments do not depend on how the source was grouped.
    """
    of_groups = ("groups", "first_group")
    of_source = {name: value for name, value in manifest.items() if name not in of_groups}
    return f"run-{_digest(dict(manifest))}", f"segment-{_digest([of_source, *cuts])}"


def _digest(value: Any) -> str:
    return hashlib.blake2b(json.dumps(value).encode(), digest_size=8).hexdigest()


def run_segments(
    work: SegmentsJob, groups: Groups, spread: Spread, tell: GroupObserver
) -> InSegments:
    """Return a memory that has learned all groups, its table in segments."""
    os.makedirs(work.runs_folder, exist_ok=True)
    memory = work.template.empty_like()
    n_ranges = len(work.cuts) + 1
    tell.expect(n_ranges)
    runs: list[SegmentFacts] = []
    companion = None
    if memory.companion is not None:
        companion = memory.companion.empty_like()
    for written, report in spread(work.learn, enumerate(groups)):
        runs += written
        if companion is not None:
            companion.merge(unpack(companion, work.beside(_COMPANION, written[-1])))
        tell(report)

    def add(
        function: Callable[..., SegmentFacts], tasks: Iterable[tuple[Any, ...]]
    ) -> Iterator[SegmentFacts]:
        for facts in spread(function, tasks):
            tell.step()
            yield facts

    bands = bring_together(Band(0, n_ranges, tuple(runs)), work.add_band, add, tell.expect)
    ranges = [(number, band.runs) for band in bands for number in range(band.first, band.stop)]
    memory.set_terms(work.open_segments(runs, list(add(work.add_range, ranges))), companion)
    return memory


def _read_record(folder: str, record: str) -> list[SegmentFacts] | None:
    """Return the runs that a record lists, if all of them are there and whole."""
    try:
        with open(record, encoding="ascii") as file:
            listed = [SegmentFacts.from_json(entry) for entry in json.load(file)]
    except (OSError, ValueError):
        return None
    is_whole = all(read_right_segment(folder, facts.name) == facts for facts in listed)
    if listed and is_whole:
        return listed
    return None
