r"""A model in segments: a folder with a head and files of segments, for tables that are larger than memory.

- ``head.safetensors`` is a model file (:mod:`hammemo.files.models`) with all of the model but its rows of counts:
  sites, labels and how many examples they have, vote, parameters; and the list of the segments, each with its size and
  hashes.
- ``segment-….safetensors`` are segments of the table, cut by ranges of keys (:mod:`hammemo.files.segment_files`).
- ``edits-….safetensors`` are what was learnt, and what was removed, since the table was cut.

The folder changes when its head is replaced, which is atomic; segments that the new head does not name are deleted
after that. So a process that dies leaves the model before or the model after, and perhaps files that the next change
deletes. A segment never changes: a changed one has another name. So a process that has read a head and misses a segment
reads the head again, which has changed since; a segment that it has opened stays readable after it is deleted. The name
of a range says from what it is made, so that one which was made before, by a process that died, is used if its checksum
is right.

The lock of a folder is that of its head.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from dataclasses import replace
from functools import reduce
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hammemo.files import segment_files
from hammemo.files.archive import FileError, refuse_folder, stated_checksum
from hammemo.files.atomic import replacement
from hammemo.files.segment_files import SegmentFacts, open_segment, right_segment, segment_names, write_segment
from hammemo.memories.exact import CountTable, Segment, SignedSegment, SignedSum, table_arrays
from hammemo.memories.label_counts import LabelCounts, read_empties

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hammemo._arrays.checked import StoredArrays
    from hammemo._arrays.types import Ints
    from hammemo.kernels.sites import Sites

HEAD: Final = "head.safetensors"
DEFAULT_SEGMENT_BYTES: Final = 2**28
"""Bytes of a segment, about, where no number of segments is given."""

MAX_HEAD_READS: Final = 1000
"""How often a head is read again by a process that reads a folder, while others replace it and delete segments."""


def head_of(path: str | os.PathLike[str]) -> str:
    """Return the file that holds a model: the path itself or, of a folder that has one, its head."""
    text = os.fspath(path)
    head = os.path.join(text, HEAD)
    refuse_folder(head)
    return head if os.path.isfile(head) else text


def write_segments(table: SignedSum, folder: str, segments: int | None = None) -> SignedSum:
    """Return the same table with all its segments in a folder: others are copied there, and edits get two of their own.

    With `segments`, or where no segment lies in a file yet, the table is cut again into this many ranges.
    """
    if segments is not None or not any(not facts.edits for facts in facts_of(table)):
        return cut(table, folder, segments)
    held = table.all_segments.segments
    files = [_moved(signed, folder, table.sites) for signed in held if not _is_edit(signed)]
    for sign in (1, -1):
        edits = [signed.segment for signed in held if signed.sign == sign and _is_edit(signed)]
        if edits:
            path = os.path.join(folder, f"edits-{'added' if sign > 0 else 'removed'}-*.safetensors")
            arrays = table_arrays(_added_up(table.sites, edits))
            facts = write_segment(path, arrays, sign=sign, edits=True, by_checksum=True)
            files.append(opened(folder, facts, table.sites))
    return _of_files(table, files)


def _is_edit(signed: SignedSegment) -> bool:
    """Return whether a segment holds what was learnt or removed since: in memory, or in a file of edits."""
    return signed.about is None or signed.about[1].edits


def _of_files(table: SignedSum, files: Sequence[SignedSegment]) -> SignedSum:
    """Return the same table, which these files make up."""
    return SignedSum.from_segments(table.sites, files, table.label_counts, table.empties)


def cut(
    table: SignedSum, folder: str, segments: int | None = None, on_progress: Callable[[int, int], None] | None = None
) -> SignedSum:
    """Return the same table cut into disjoint ranges in a folder, one at a time; without `segments`, where it was cut.

    A range in which nothing was changed keeps its file.
    """
    edges = even_edges(table, segments) if segments is not None else _present_edges(table, folder)
    job = job_name(facts_of(table), [table.vocabulary.at(edge) for edge in edges[:-1].tolist()], table)
    files, ranges = [], list(pairwise(edges.tolist()))
    for number, (first, stop) in enumerate(ranges):
        if on_progress is not None:
            on_progress(number, len(ranges))
        same = _unchanged(table, first, stop)
        if same is not None and _lies_in(same, folder):
            files.append(same)
            continue
        name = f"segment-{job}-{number:06d}.safetensors"
        facts = right_segment(folder, name)
        if facts is None:
            facts = write_segment(os.path.join(folder, name), table.range_arrays(first, stop))
        if facts.rows:
            files.append(opened(folder, facts, table.sites))
    if on_progress is not None:
        on_progress(len(ranges), len(ranges))
    return _of_files(table, files)


def _unchanged(table: SignedSum, first: int, stop: int) -> SignedSegment | None:
    """Return the segment in a file that has exactly the rows of a range, if no other segment has a row there."""
    sites = range(len(table.sites.positions))
    found = [
        (signed, view)
        for signed, view in zip(table.all_segments.segments, table.views, strict=True)
        if view.meets(first, stop) and any(len(view.rows_between(k, first, stop).tuples) for k in sites)
    ]
    if len(found) != 1:
        return None
    signed, view = found[0]
    inside = view.ends is not None and first <= view.ends[0] and view.ends[1] < stop
    return signed if inside and view.lost is None and signed.sign > 0 and not _is_edit(signed) else None


def _present_edges(table: SignedSum, folder: str) -> Ints:
    """Return where the table is cut now; where segments of several tables overlap, as many new cuts as are here."""
    held = zip(table.views, table.all_segments.segments, strict=True)
    ends = sorted(ends for view, signed in held if not _is_edit(signed) and (ends := view.ends) is not None)
    if any(before[1] >= after[0] for before, after in pairwise(ends)):
        own = sum(not _is_edit(signed) and _lies_in(signed, folder) for signed in table.all_segments.segments)
        return even_edges(table, own or None)
    if not ends:
        return even_edges(table, None)
    return np.unique([0, len(table.vocabulary), *(first for first, _ in ends[1:])])


def even_edges(table: SignedSum, segments: int | None) -> Ints:
    """Return ranks of first tokens that cut the keys into ranges of about as many entries, with the two ends."""
    n = len(table.vocabulary)
    weights = np.zeros(max(n, 1))
    for view in table.views:
        for k in range(len(table.sites.positions)):
            ranks, own = view.segment.first_tokens(k)
            np.add.at(weights, view.tokens[ranks], own)
    if segments is None:
        segments = max(1, -(-table.nbytes // DEFAULT_SEGMENT_BYTES))
    before = np.cumsum(weights) - weights
    goals = weights.sum() * np.arange(1, segments) / segments
    return np.unique([0, n, *np.minimum(np.searchsorted(before, goals), n).tolist()])


def job_name(facts: Sequence[SegmentFacts], cuts: Sequence[Any], table: SignedSum | None = None) -> str:
    """Return a name for what is made of these segments, cut at these tokens."""
    held = [] if table is None else [one for one in table.all_segments.segments if one.about is None]
    on_top = [[_digest(one.segment) for one in held if one.sign == sign] for sign in (1, -1)]
    told = [[[one.checksum, one.sign] for one in facts], list(cuts), on_top]
    return hashlib.blake2b(json.dumps(told).encode(), digest_size=8).hexdigest()


def _digest(segment: Segment) -> str:
    """Return a hash of a segment in memory; the names of files are made of it."""
    digest = hashlib.blake2b(digest_size=16)
    for name, array in sorted(segment.arrays.items()):
        digest.update(f"{name} {array.dtype} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def opened(folder: str, facts: SegmentFacts, sites: Sites, *, verify: bool = True) -> SignedSegment:
    """Return a segment of a folder."""
    return SignedSegment(open_segment(folder, facts, sites, verify=verify), facts.sign, (folder, facts))


def facts_of(table: SignedSum) -> list[SegmentFacts]:
    """Return what is known of the segments in files."""
    held = [signed for signed in table.all_segments.segments if signed.about is not None]
    return [replace(signed.about[1], sign=signed.sign) for signed in held]


def _lies_in(signed: SignedSegment, folder: str) -> bool:
    return os.path.realpath(str(signed.about[0])) == os.path.realpath(folder)


def _moved(signed: SignedSegment, folder: str, sites: Sites) -> SignedSegment:
    """Return a segment that lies in this folder: the same, or a copy."""
    home, facts = signed.about
    facts = replace(facts, sign=signed.sign)
    if _lies_in(signed, folder):
        return SignedSegment(signed.segment, signed.sign, (folder, facts))
    source, target = os.path.join(home, facts.name), os.path.join(folder, facts.name)
    refuse_folder(target)
    is_there = os.path.exists(target)
    if is_there and segment_files.streamed_checksum(target) != facts.checksum:  # of another model, with this name
        facts = replace(facts, name=f"segment-{facts.checksum[:32]}.safetensors")
        target = os.path.join(folder, facts.name)
    if os.path.exists(target):  # the same segment: a table may be added twice, or added and subtracted
        return opened(folder, facts, sites)
    with replacement(target) as temporary:
        remote = segment_files.source_of(home)
        if remote is None:
            shutil.copyfile(source, temporary)
        else:
            remote.copy(facts.name, temporary)  # the file here has holes
        if segment_files.streamed_checksum(temporary) != facts.checksum:
            raise FileError(f"{source} is damaged: its checksum is not that of its contents. Use another copy of it.")
    return opened(folder, facts, sites)


def _added_up(sites: Sites, segments: Sequence[Segment]) -> CountTable:
    """Return one table with the counts of whole tables that are kept as segments."""
    counts = reduce(LabelCounts.plus, [segment.label_counts for segment in segments])
    none = (LabelCounts(),) * len(sites.positions)
    bare = SignedSum.from_segments(sites, [SignedSegment(segment, 1) for segment in segments], counts, none)
    return replace(bare.total, label_counts=counts)


def stored_segments(
    folder: str, described: Any, sites: Sites, all_labels: LabelCounts, stored: StoredArrays, *, verify: bool
) -> SignedSum:
    """Return the table that a head describes, its segments mapped; each is compared with what the head says of it.

    `stored` has what `empty_arrays` gave.
    """
    if not isinstance(described, list):
        raise ValueError("its segments are not a list")
    facts = [SegmentFacts.of(one) for one in described]
    empties = read_empties(stored, all_labels, len(sites.positions))
    files = tuple(opened(folder, one, sites, verify=verify) for one in facts)
    return SignedSum.from_segments(sites, files, all_labels.positive(), empties)


def delete_others(folder: str, table: SignedSum) -> None:
    """Delete the segments in a folder that its head no longer names."""
    named = {facts.name for facts in facts_of(table)}
    for name in segment_names(folder):
        path = os.path.join(folder, name)
        if name not in named and (os.path.islink(path) or not os.path.isdir(path)):
            os.unlink(path)


def wrong_segments(folder: str, described: Any) -> list[str]:
    """Return the names of segments that are missing, or whose checksum is not that of their contents."""

    def is_right(facts: SegmentFacts) -> bool:
        path = os.path.join(folder, facts.name)
        try:
            return segment_files.streamed_checksum(path) == facts.checksum == stated_checksum(path)
        except OSError:
            return False

    return [facts.name for facts in map(SegmentFacts.of, described) if not is_right(facts)]
