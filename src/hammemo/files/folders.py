r"""A model in parts: a folder with a head and files of parts, for tables that are larger than memory.

- ``head.safetensors`` is a model file (:mod:`hammemo.files.models`) with all of the model but its rows of counts:
  sites, labels and how many examples they have, vote, parameters; and the list of the parts, each with its size and
  hashes.
- ``part-….safetensors`` are parts of the table, cut by ranges of keys (:mod:`hammemo.files.part_files`).
- ``edits-….safetensors`` are what was learnt, and what was removed, since the table was cut.

The folder changes when its head is replaced, which is atomic; parts that the new head does not name are deleted after
that. So a process that dies leaves the model before or the model after, and perhaps files that the next change deletes.
A part never changes: a changed one has another name. So a process that has read a head and misses a part reads the head
again, which has changed since; a part that it has opened stays readable after it is deleted. The name of a range says
from what it is made, so that one which was made before, by a process that died, is used if its checksum is right.

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

from hammemo._arrays.integers import narrow
from hammemo.files.archive import FileError, refuse_folder, stated_checksum
from hammemo.files.atomic import replacement
from hammemo.files.part_files import PartFacts, open_part, part_names, right_part, streamed_checksum, write_part
from hammemo.files.remote import source_of
from hammemo.memories.exact import SignedPart, SignedSum, table_arrays
from hammemo.memories.label_counts import LabelCounts
from hammemo.tokens.contexts import MAX_EXAMPLES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from hammemo._arrays.checked import StoredArrays
    from hammemo.kernels.sites import Sites
    from hammemo.memories.exact import CountTable, Part
    from hammemo.tokens.vocabulary import Vocabulary

HEAD: Final = "head.safetensors"
DEFAULT_PART_BYTES: Final = 2**28
"""Bytes of a part, about, where no number of parts is given."""

MAX_HEAD_READS: Final = 1000
"""How often a head is read again by a process that reads a folder, while others replace the head and delete parts."""


def head_of(path: str | os.PathLike[str]) -> str:
    """Return the file that holds a model: the path itself or, of a folder that has one, its head."""
    text = os.fspath(path)
    head = os.path.join(text, HEAD)
    refuse_folder(head)
    return head if os.path.isfile(head) else text


def write_parts(parted: SignedSum, folder: str, parts: int | None = None) -> SignedSum:
    """Return the same table with all its parts in a folder: others are copied there, and edits get two of their own.

    With `parts`, or where no part lies in a file yet, the table is cut again into this many ranges.
    """
    if parts is not None or not any(not facts.edits for facts in facts_of(parted)):
        return cut(parted, folder, parts)
    held = parted.all_parts.parts
    files = [_moved(signed, folder, parted.sites) for signed in held if not _is_edit(signed)]
    for sign in (1, -1):
        edits = [signed.part for signed in held if signed.sign == sign and _is_edit(signed)]
        if edits:
            path = os.path.join(folder, f"edits-{'added' if sign > 0 else 'removed'}-*.safetensors")
            arrays = table_arrays(_added_up(parted.sites, edits))
            facts = write_part(path, arrays, sign=sign, edits=True, by_checksum=True)
            files.append(opened(folder, facts, parted.sites))
    return _of_files(parted, files)


def _is_edit(signed: SignedPart) -> bool:
    """Return whether a part holds what was learnt or removed since: in memory, or in a file of edits."""
    return signed.about is None or signed.about[1].edits


def _of_files(parted: SignedSum, files: Sequence[SignedPart]) -> SignedSum:
    """Return the same table, which these files make up."""
    return SignedSum.of_parts(parted.sites, files, parted.label_counts, parted.empties)


def cut(
    parted: SignedSum, folder: str, parts: int | None = None, on_progress: Callable[[int, int], None] | None = None
) -> SignedSum:
    """Return the same table cut into disjoint ranges in a folder, one at a time; without `parts`, where it was cut.

    A range in which nothing was changed keeps its file.
    """
    edges = even_edges(parted, parts) if parts is not None else _present_edges(parted, folder)
    job = job_name(facts_of(parted), [_token(parted.vocabulary, edge) for edge in edges[:-1].tolist()], parted)
    files, ranges = [], list(pairwise(edges.tolist()))
    for number, (first, stop) in enumerate(ranges):
        if on_progress is not None:
            on_progress(number, len(ranges))
        same = _unchanged(parted, first, stop)
        if same is not None and _lies_in(same, folder):
            files.append(same)
            continue
        name = f"part-{job}-{number:06d}.safetensors"
        facts = right_part(folder, name)
        if facts is None:
            facts = write_part(os.path.join(folder, name), parted.range_arrays(first, stop))
        if facts.rows:
            files.append(opened(folder, facts, parted.sites))
    if on_progress is not None:
        on_progress(len(ranges), len(ranges))
    return _of_files(parted, files)


def _unchanged(parted: SignedSum, first: int, stop: int) -> SignedPart | None:
    """Return the part in a file that has exactly the rows of a range, if no other part has a row there."""
    held = zip(parted.all_parts.parts, parted.views, strict=True)
    met = [(signed, view) for signed, view in held if view.meets(first, stop)]
    n_sites = range(len(parted.sites.positions))
    found = [
        (signed, view) for signed, view in met if any(len(view.rows_between(k, first, stop).tuples) for k in n_sites)
    ]
    if len(found) != 1 or found[0][0].sign < 0 or _is_edit(found[0][0]):
        return None
    (signed, view) = found[0]
    ends = view.ends
    inside = ends is not None and first <= ends[0] and ends[1] < stop
    return signed if inside and view.lost is None else None


def _present_edges(parted: SignedSum, folder: str) -> NDArray[np.int64]:
    """Return where the table is cut now; where parts of several tables overlap, new cuts, as many as parts are here."""
    held = zip(parted.views, parted.all_parts.parts, strict=True)
    ends = sorted(ends for view, signed in held if not _is_edit(signed) and (ends := view.ends) is not None)
    if any(before[1] >= after[0] for before, after in pairwise(ends)):
        own = sum(not _is_edit(signed) and _lies_in(signed, folder) for signed in parted.all_parts.parts)
        return even_edges(parted, own or None)
    if not ends:
        return even_edges(parted, None)
    return np.unique([0, len(parted.vocabulary), *(first for first, _ in ends[1:])])


def even_edges(parted: SignedSum, parts: int | None) -> NDArray[np.int64]:
    """Return ranks of first tokens that cut the keys into ranges of about as many entries, with the two ends."""
    n = len(parted.vocabulary)
    weights = np.zeros(max(n, 1))
    for view in parted.views:
        for k in range(len(parted.sites.positions)):
            ranks, own = view.part.first_tokens(k)
            np.add.at(weights, view.tokens[ranks], own)
    if parts is None:
        parts = max(1, -(-parted.nbytes // DEFAULT_PART_BYTES))
    before = np.cumsum(weights) - weights
    goals = weights.sum() * np.arange(1, parts) / parts
    return np.unique([0, n, *np.minimum(np.searchsorted(before, goals), n).tolist()])


def job_name(facts: Sequence[PartFacts], cuts: Sequence[Any], parted: SignedSum | None = None) -> str:
    """Return a name for what is made of these parts, cut at these tokens."""
    held = [] if parted is None else [one for one in parted.all_parts.parts if one.about is None]
    on_top = [[_digest(one.part) for one in held if one.sign == sign] for sign in (1, -1)]
    told = [[[one.checksum, one.sign] for one in facts], list(cuts), on_top]
    return hashlib.blake2b(json.dumps(told).encode(), digest_size=8).hexdigest()


def _digest(part: Part) -> str:
    """Return a hash of a part in memory."""
    digest = hashlib.blake2b(digest_size=16)
    for name, array in sorted(part.arrays.items()):
        digest.update(f"{name} {array.dtype} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def opened(folder: str, facts: PartFacts, sites: Sites, *, verify: bool = True) -> SignedPart:
    """Return a part of a folder."""
    return SignedPart(open_part(folder, facts, sites, verify=verify), facts.sign, (folder, facts))


def facts_of(parted: SignedSum) -> list[PartFacts]:
    """Return what is known of the parts in files."""
    held = [signed for signed in parted.all_parts.parts if signed.about is not None]
    return [replace(signed.about[1], sign=signed.sign) for signed in held]


def _lies_in(signed: SignedPart, folder: str) -> bool:
    return os.path.realpath(str(signed.about[0])) == os.path.realpath(folder)


def _moved(signed: SignedPart, folder: str, sites: Sites) -> SignedPart:
    """Return a part that lies in this folder: the same, or a copy."""
    home, facts = signed.about
    facts = replace(facts, sign=signed.sign)
    if _lies_in(signed, folder):
        return SignedPart(signed.part, signed.sign, (folder, facts))
    source, target = os.path.join(home, facts.name), os.path.join(folder, facts.name)
    refuse_folder(target)
    if os.path.exists(target) and streamed_checksum(target) != facts.checksum:  # of another model, with this name
        facts = replace(facts, name=f"part-{facts.checksum[:32]}.safetensors")
        target = os.path.join(folder, facts.name)
    if os.path.exists(target):  # the same part: a table may be added twice, or added and subtracted
        return opened(folder, facts, sites)
    with replacement(target) as temporary:
        remote = source_of(home)
        if remote is None:
            shutil.copyfile(source, temporary)
        else:
            remote.copy(facts.name, temporary)  # the file here has holes
        if streamed_checksum(temporary) != facts.checksum:
            raise FileError(f"{source} is damaged: its checksum is not that of its contents. Use another copy of it.")
    return opened(folder, facts, sites)


def _added_up(sites: Sites, parts: Sequence[Part]) -> CountTable:
    """Return one table with the counts of whole tables that are kept as parts."""
    counts = reduce(LabelCounts.plus, [part.label_counts for part in parts])
    none = (LabelCounts(),) * len(sites.positions)
    bare = SignedSum.of_parts(sites, [SignedPart(part, 1) for part in parts], counts, none)
    return replace(bare.total, label_counts=counts)


def _token(vocabulary: Vocabulary, rank: int) -> Any:
    for tokens in (vocabulary.ints, vocabulary.floats, vocabulary.strings):
        if rank < len(tokens):
            return tokens[rank : rank + 1].tolist()[0]
        rank -= len(tokens)
    return None


def table_in_head(parted: SignedSum, labels: Vocabulary) -> dict[str, NDArray[Any]]:
    """Return what a head says of the table that its parts do not: the examples that hold no token at a site."""
    held = [(k, one) for k, one in enumerate(parted.empties) if one.total]
    empty = {
        "sites": np.repeat([k for k, _ in held], [len(one.counts) for _, one in held]),
        "labels": np.concatenate([np.empty(0, np.int64), *(labels.find(one.labels) for _, one in held)]),
        "counts": np.concatenate([np.empty(0, np.int64), *(one.counts for _, one in held)]),
    }
    return {f"empty.{name}": narrow(array.astype(np.int64)) for name, array in empty.items()}


def stored_parts(
    folder: str, described: Any, sites: Sites, all_labels: LabelCounts, stored: StoredArrays, *, verify: bool
) -> SignedSum:
    """Return the table that a head describes, its parts mapped; each is compared with what the head says of it.

    `stored` has what `table_in_head` gave.
    """
    if not isinstance(described, list):
        raise ValueError("its parts are not a list")
    facts = [PartFacts.of(one) for one in described]
    own = stored.part("empty")
    at = own.whole_numbers("sites", (None,), below=len(sites.positions))
    names = own.whole_numbers("labels", (len(at),), below=len(all_labels.labels))
    counts = own.whole_numbers("counts", (len(at),), least=1, below=MAX_EXAMPLES)
    empties = []
    for k in range(len(sites.positions)):
        totals = np.zeros(len(all_labels.labels), np.int64)
        totals[names[at == k]] = counts[at == k]
        if (totals > all_labels.counts).any():
            raise ValueError("a site has more empty examples of a label than the label has")
        empties.append(LabelCounts(all_labels.labels, totals).positive())
    files = tuple(opened(folder, one, sites, verify=verify) for one in facts)
    return SignedSum.of_parts(sites, files, all_labels.positive(), empties)


def described_parts(parted: SignedSum) -> list[dict[str, Any]]:
    """Return what a head says of its parts."""
    return [facts.described() for facts in facts_of(parted)]


def delete_others(folder: str, parted: SignedSum) -> None:
    """Delete the parts in a folder that its head no longer names."""
    named = {facts.name for facts in facts_of(parted)}
    for name in part_names(folder):
        path = os.path.join(folder, name)
        if name not in named and (os.path.islink(path) or not os.path.isdir(path)):
            os.unlink(path)


def wrong_parts(folder: str, described: Any) -> list[str]:
    """Return the names of parts that are missing, or whose checksum is not that of their contents."""
    wrong = []
    for one in described:
        facts = PartFacts.of(one)
        path = os.path.join(folder, facts.name)
        try:
            right = streamed_checksum(path) == facts.checksum == stated_checksum(path)
        except OSError:
            right = False
        if not right:
            wrong.append(facts.name)
    return wrong
