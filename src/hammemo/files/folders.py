r"""A model in segments: a folder with a head and files of segments, for tables larger than memory.

- ``head.safetensors`` is a model file (:mod:`hammemo.files.models`) with all of the model but its
  rows of counts: sites, labels and how many examples they have, vote, parameters; and the list of
  the segments, each with its size and hashes.
- ``segment-….safetensors`` are segments of the table, cut by ranges of keys
  (:mod:`hammemo.files.segment_files`).
- ``edits-….safetensors`` are what was learned, and what was removed, since the table was cut.

The folder changes when its head is replaced, which is atomic; segments that the new head does not
name are deleted after that. So a process that dies leaves the old or the new model, and perhaps
files that the next change deletes. A segment never changes: a changed one has another name. So a
process that has read a head and misses a segment reads the head again, which has changed since; a
segment that it has opened stays readable after it is deleted. The name of the file of a range says
from what it was made. So a file that a dead process has made is used, if its checksum is right.

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

from hammemo.files.archive import FileError, read_stated_checksum, refuse_folder
from hammemo.files.atomic import replacement
from hammemo.files.remote import find_remote
from hammemo.files.segment_facts import SegmentFacts
from hammemo.files.segment_files import (
    compute_checksum,
    open_segment,
    read_right_segment,
    segment_names,
    write_segment,
)
from hammemo.memories.exact import CountTable, Segment, SignedSegment, SignedSum, table_arrays
from hammemo.memories.label_counts import LabelCounts, read_empties

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hammemo._arrays.checked import StoredArrays
    from hammemo._arrays.types import Ints
    from hammemo.kernels.sites import Sites
    from hammemo.tokens.vocabulary import Token

HEAD: Final = "head.safetensors"
"""The file of a folder with all of a model but its rows of counts."""

DEFAULT_SEGMENT_BYTES: Final = 2**28
"""Bytes of a segment, about, where no number of segments is given."""

MAX_HEAD_READS: Final = 1000
"""How often a process that reads a folder reads its head again, while others replace it and delete
segments."""


def find_head(path: str | os.PathLike[str]) -> str:
    """Return the file that holds a model: the path, or the head of a folder that has one."""
    text = os.fspath(path)
    head = os.path.join(text, HEAD)
    refuse_folder(head)
    if os.path.isfile(head):
        return head
    return text


def write_segments(table: SignedSum, folder: str, n_segments: int | None = None) -> SignedSum:
    """Return the same table with all its segments in a folder.

    Segments of other folders are copied, and what was learned or removed since gets two files of
    its own. With `n_segments`, or where no segment lies in a file yet, the table is cut again into
    this many ranges.
    """
    if n_segments is not None or all(facts.edits for facts in list_facts(table)):
        return cut(table, folder, n_segments)
    edits = [signed for signed in table.all_segments.segments if _is_edit(signed)]
    files = [
        _move_segment(signed, folder, table.sites)
        for signed in table.all_segments.segments
        if not _is_edit(signed)
    ]
    for sign, name in ((1, "edits-added-*.safetensors"), (-1, "edits-removed-*.safetensors")):
        segments = [signed.segment for signed in edits if signed.sign == sign]
        if segments:
            arrays = table_arrays(_add_up(table.sites, segments))
            path = os.path.join(folder, name)
            facts = write_segment(path, arrays, sign=sign, edits=True, by_checksum=True)
            files.append(open_signed(folder, facts, table.sites))
    return _replace_segments(table, files)


def _is_edit(signed: SignedSegment) -> bool:
    """Return whether a segment was learned or removed since: in memory, or in a file of edits."""
    return signed.about is None or signed.about[1].edits


def _replace_segments(table: SignedSum, segments: Sequence[SignedSegment]) -> SignedSum:
    """Return the same table, made of these segments."""
    return SignedSum.from_segments(table.sites, segments, table.label_counts, table.empties)


def cut(
    table: SignedSum,
    folder: str,
    n_segments: int | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> SignedSum:
    """Return the same table, cut into disjoint ranges in a folder, one range at a time.

    Without `n_segments` it is cut where it was cut before. A range in which nothing changed keeps
    its file.
    """
    if n_segments is None:
        edges = _find_present_edges(table, folder)
    else:
        edges = choose_even_edges(table, n_segments)
    job = _name_job(table, [table.vocabulary.at(edge) for edge in edges[:-1].tolist()])
    ranges = list(pairwise(edges.tolist()))
    segments = []
    for number, (first, stop) in enumerate(ranges):
        if on_progress is not None:
            on_progress(number, len(ranges))
        unchanged = _find_unchanged_segment(table, first, stop)
        if unchanged is not None and _lies_in(unchanged, folder):
            segments.append(unchanged)
            continue
        name = f"segment-{job}-{number:06d}.safetensors"
        facts = read_right_segment(folder, name)
        if facts is None:
            facts = write_segment(os.path.join(folder, name), table.range_arrays(first, stop))
        if facts.rows:
            segments.append(open_signed(folder, facts, table.sites))
    if on_progress is not None:
        on_progress(len(ranges), len(ranges))
    return _replace_segments(table, segments)


def _find_unchanged_segment(table: SignedSum, first: int, stop: int) -> SignedSegment | None:
    """Return the segment in a file that has exactly the rows of a range; None if others have some.

    A range that has one segment is unchanged if this segment ends within it, nothing of it was
    removed, and it is added to the table, not subtracted.
    """
    sites = range(len(table.sites.positions))
    in_range = [
        (signed, view)
        for signed, view in zip(table.all_segments.segments, table.views, strict=True)
        if view.meets(first, stop)
        and any(len(view.rows_between(k, first, stop).tuples) for k in sites)
    ]
    if len(in_range) != 1:
        return None
    signed, view = in_range[0]
    is_within = view.ends is not None and first <= view.ends[0] and view.ends[1] < stop
    if is_within and view.lost is None and signed.sign > 0 and not _is_edit(signed):
        return signed
    return None


def _find_present_edges(table: SignedSum, folder: str) -> Ints:
    """Return where the table is cut now.

    Where segments of several tables overlap, return as many even cuts as the folder has segments.
    """
    segments = table.all_segments.segments
    ends = sorted(
        view.ends
        for view, signed in zip(table.views, segments, strict=True)
        if not _is_edit(signed) and view.ends is not None
    )
    if any(before[1] >= after[0] for before, after in pairwise(ends)):
        n_in_folder = sum(not _is_edit(signed) and _lies_in(signed, folder) for signed in segments)
        return choose_even_edges(table, n_in_folder or None)
    if not ends:
        return choose_even_edges(table, None)
    return np.unique([0, len(table.vocabulary), *(first for first, _ in ends[1:])])


def choose_even_edges(table: SignedSum, n_segments: int | None) -> Ints:
    """Choose ranks of first tokens that cut the keys into ranges of about as many entries.

    The two ends are among them.
    """
    n_tokens = len(table.vocabulary)
    entry_counts = np.zeros(max(n_tokens, 1))  # of the rows that begin with each token
    for view in table.views:
        for k in range(len(table.sites.positions)):
            ranks, counts = view.segment.first_tokens(k)
            np.add.at(entry_counts, view.tokens[ranks], counts)
    if n_segments is None:
        n_segments = max(1, -(-table.nbytes // DEFAULT_SEGMENT_BYTES))
    entries_before = np.cumsum(entry_counts) - entry_counts
    goals = entry_counts.sum() * np.arange(1, n_segments) / n_segments
    cuts = np.minimum(np.searchsorted(entries_before, goals), n_tokens)
    return np.unique([0, n_tokens, *cuts.tolist()])


def _name_job(table: SignedSum, cuts: Sequence[Token]) -> str:
    """Return a name for what is made of the segments of a table, cut at these tokens."""
    in_files = [[facts.checksum, facts.sign] for facts in list_facts(table)]
    in_memory = [signed for signed in table.all_segments.segments if signed.about is None]
    edits = [
        [_hash_segment(signed.segment) for signed in in_memory if signed.sign == sign]
        for sign in (1, -1)
    ]
    text = json.dumps([in_files, list(cuts), edits])
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def _hash_segment(segment: Segment) -> str:
    """Return a hash of a segment in memory; the names of files depend on it."""
    digest = hashlib.blake2b(digest_size=16)
    for name, array in sorted(segment.arrays.items()):
        digest.update(f"{name} {array.dtype} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def open_signed(
    folder: str, facts: SegmentFacts, sites: Sites, *, verify: bool = True
) -> SignedSegment:
    """Map a segment of a folder."""
    segment = open_segment(folder, facts, sites, verify=verify)
    return SignedSegment(segment, facts.sign, (folder, facts))


def list_facts(table: SignedSum) -> list[SegmentFacts]:
    """Return the facts of the segments in files."""
    return [
        replace(signed.about[1], sign=signed.sign)
        for signed in table.all_segments.segments
        if signed.about is not None
    ]


def _lies_in(signed: SignedSegment, folder: str) -> bool:
    return os.path.realpath(str(signed.about[0])) == os.path.realpath(folder)


def _move_segment(signed: SignedSegment, folder: str, sites: Sites) -> SignedSegment:
    """Return a segment that lies in this folder: the same, or a copy."""
    home, facts = signed.about
    facts = replace(facts, sign=signed.sign)
    if _lies_in(signed, folder):
        return SignedSegment(signed.segment, signed.sign, (folder, facts))
    source_name = facts.name
    target = os.path.join(folder, source_name)
    refuse_folder(target)
    if os.path.exists(target) and compute_checksum(target) != facts.checksum:
        # The file in the folder is a segment of another model with the same name.
        facts = replace(facts, name=f"segment-{facts.checksum[:32]}.safetensors")
        target = os.path.join(folder, facts.name)
    if os.path.exists(target):
        # It is the same segment: a table may be added twice, or added and subtracted.
        return open_signed(folder, facts, sites)
    with replacement(target) as temporary:
        source = os.path.join(home, source_name)
        remote = find_remote(home)
        if remote is None:
            shutil.copyfile(source, temporary)
        else:
            remote.copy(source_name, temporary)  # the file in the cache has holes
        if compute_checksum(temporary) != facts.checksum:
            raise FileError(
                f"{source} is damaged: its checksum is not that of its contents. "
                "Use another copy of it."
            )
    return open_signed(folder, facts, sites)


def _add_up(sites: Sites, segments: Sequence[Segment]) -> CountTable:
    """Return one table with the counts of complete tables that are stored as segments."""
    label_counts = reduce(LabelCounts.plus, [segment.label_counts for segment in segments])
    empties = (LabelCounts(),) * len(sites.positions)
    signed = [SignedSegment(segment, 1) for segment in segments]
    table = SignedSum.from_segments(sites, signed, label_counts, empties)
    return replace(table.total, label_counts=label_counts)


def open_segments(
    folder: str,
    described: Any,
    sites: Sites,
    all_labels: LabelCounts,
    stored: StoredArrays,
    *,
    verify: bool,
) -> SignedSum:
    """Map the segments that a head describes; each is compared with what the head says of it.

    `stored` has the arrays of `empty_arrays`.
    """
    if not isinstance(described, list):
        raise ValueError("its segments are not a list")
    facts = [SegmentFacts.from_json(entry) for entry in described]
    empties = read_empties(stored, all_labels, len(sites.positions))
    segments = tuple(open_signed(folder, segment, sites, verify=verify) for segment in facts)
    return SignedSum.from_segments(sites, segments, all_labels.positive(), empties)


def delete_others(folder: str, table: SignedSum) -> None:
    """Delete the segments in a folder that its head no longer names."""
    names = {facts.name for facts in list_facts(table)}
    for name in segment_names(folder):
        path = os.path.join(folder, name)
        if name not in names and (os.path.islink(path) or not os.path.isdir(path)):
            os.unlink(path)


def find_wrong_segments(folder: str, described: Any) -> list[str]:
    """Return the names of segments that are missing or damaged: with another checksum."""

    def is_right(facts: SegmentFacts) -> bool:
        path = os.path.join(folder, facts.name)
        try:
            checksum = compute_checksum(path)
        except OSError:
            return False
        return checksum == facts.checksum == read_stated_checksum(path)

    facts = [SegmentFacts.from_json(entry) for entry in described]
    return [segment.name for segment in facts if not is_right(segment)]
