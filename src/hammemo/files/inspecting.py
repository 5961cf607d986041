"""What a model file, or the head of a folder, says about itself, without restoring the model."""

from __future__ import annotations

import os
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

from hammemo._arrays.checked import StoredArrays
from hammemo.files import descriptions, folders
from hammemo.files.archive import Archive, read_stated_checksum, refusing
from hammemo.files.descriptions import field
from hammemo.files.registry import PARTS
from hammemo.files.segment_facts import SegmentFacts
from hammemo.stores.kept import EVERYTHING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hammemo._arrays.types import Array


def inspect(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return what a file says about itself and whether its checksum is right, without loading it.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from hammemo import MemoryClassifier, save
    >>> from hammemo.memories import Exact
    >>> from hammemo.files import inspect
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     clf = MemoryClassifier(memory=Exact()).fit([["a"], ["b"]], ["x", "y"])
    ...     save(clf, Path(folder) / "model.safetensors")
    ...     facts = inspect(Path(folder) / "model.safetensors")
    >>> facts["kind"], facts["memory"], facts["labels"], facts["examples"], facts["checksum_ok"]
    ('classifier', 'Exact()', 2, 2, True)
    """
    facts = _inspect_once(path)
    for _ in range(folders.MAX_HEAD_READS):
        if not facts.get("wrong_segments"):
            break
        if read_stated_checksum(folders.find_head(path)) == facts["checksum"]:
            break
        # Another process replaced the head, and deleted segments that only the old head names.
        facts = _inspect_once(path)
    return facts


def _inspect_once(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return what `inspect` does, of a folder that does not change meanwhile."""
    with refusing(path):
        head = folders.find_head(path)
        archive = Archive(head, verify=False)
        about = archive.about
        groups: Counter[str] = Counter()
        for array_name, array in sorted(archive.arrays.items()):
            groups[array_name.split(".")[0]] += array.nbytes
        columns = None
        if "feature_names_in" in about:
            columns = field(about, "feature_names_in", list, type(None))
        return {
            "format": about.get("format"),
            "version": about.get("version"),
            "kind": about.get("kind"),
            "class": about.get("class"),
            "context_length": about.get("n_features_in"),
            **_inspect_memory(about, StoredArrays(archive.arrays, trusted=True)),
            "seed": about.get("seed"),
            "columns": columns,
            "notes": descriptions.parse_notes(about),
            "needs_key": descriptions.parse_key_digest(about) is not None,
            "forgot_unchecked": descriptions.parse_flag(about, descriptions.FORGOT_UNCHECKED),
            "fingerprint": about.get("fingerprint"),
            **_inspect_rows(about, archive.arrays),
            "bytes": {"file": len(archive.data), **groups},
            **_inspect_segments(os.path.dirname(head), about),
            "checksum": archive.checksum,
            "checksum_ok": archive.checksum == archive.digest(),
        }


def _inspect_memory(about: Mapping[str, Any], stored: StoredArrays) -> dict[str, Any]:
    """Return how many examples are stored and, for labels, by which parts."""
    if about.get("kind") == "regressor":
        sizes = stored.part("memory").take("sizes", "uint64", (None,))
        if not len(sizes):
            raise ValueError("it does not say how many rows it holds")
        bounds = field(about, "params", dict).get("bounds")
        return {"examples": int(sizes[0]), "bounds": bounds}
    counts = stored.whole_numbers("label_counts", (None,), below=2**53)
    if counts.sum(dtype=np.float64) >= 2**53:
        raise ValueError("its labels have 2^53 examples or more together")
    described_parts: Mapping[str, Any] = {"vote": about.get("vote")}  # of a predictor
    if about.get("kind") == "classifier":
        described_parts = field(about, "fitted", dict)
    return {
        **{
            kind: descriptions.format_part(described_parts[kind])
            for kind in PARTS
            if kind in described_parts
        },
        "sites": len(field(field(about, "sites", dict), "positions", list)),
        "labels": len(counts),
        "examples": int(counts.sum(dtype=np.uint64)),
        "label_dtype": about.get("label_dtype"),
    }


def _inspect_rows(about: Mapping[str, Any], arrays: Mapping[str, Array]) -> dict[str, Any]:
    """Return how many rows or documents a model keeps in plain text, and if it needs a refit."""
    if about.get("kind") not in ("classifier", "regressor"):
        return {}
    store: Mapping[str, Any] = {}
    n_digests = None
    if "kept" in about:
        store = field(about, "kept", dict)
    if store.get("of") == "digests":
        n_digests = len(arrays.get("kept.digest_counts", ()))
        store = store.get("kept") or {}
    has_long_words = len(arrays.get("kept.long_words", ())) > 0
    return {
        "kept_rows": len(arrays.get("kept.counts", ())),
        "keeps_all": store.get("threshold") == EVERYTHING and not has_long_words,
        "digests": n_digests,
        "stale": descriptions.parse_flag(about, descriptions.STALE),
    }


def _inspect_segments(folder: str, about: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a head says of its segments, and which of them are damaged or missing."""
    if "segments" not in about:
        return {}
    facts = [SegmentFacts.from_json(described) for described in field(about, "segments", list)]
    return {
        "segments": len(facts),
        "edits": sum(segment.edits for segment in facts),
        "segment_bytes": sum(segment.bytes for segment in facts),
        "segment_rows": sum(segment.rows for segment in facts),
        "segment_entries": sum(segment.entries for segment in facts),
        "wrong_segments": folders.find_wrong_segments(folder, about["segments"]),
    }
