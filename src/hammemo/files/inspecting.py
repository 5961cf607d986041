"""What a model file, or the head of a folder, says about itself, without restoring the model."""

from __future__ import annotations

import os
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

from hammemo._arrays.checked import StoredArrays
from hammemo.files import descriptions, folders
from hammemo.files.archive import Archive, refusing, stated_checksum
from hammemo.files.descriptions import field
from hammemo.files.registry import PARTS
from hammemo.files.segment_files import SegmentFacts
from hammemo.stores.kept import EVERYTHING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hammemo._arrays.types import Array


def inspect(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return what a file says about itself, and whether its checksum is right; the model is not restored.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from hammemo import MemoryClassifier, save
    >>> from hammemo.memories import Exact
    >>> from hammemo.files import inspect
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(MemoryClassifier(memory=Exact()).fit([["a"], ["b"]], ["x", "y"]), Path(folder) / "model.safetensors")
    ...     facts = inspect(Path(folder) / "model.safetensors")
    >>> facts["kind"], facts["memory"], facts["labels"], facts["examples"], facts["checksum_ok"]
    ('classifier', 'Exact()', 2, 2, True)
    """
    found = _inspected(path)
    for _ in range(folders.MAX_HEAD_READS):
        if not found.get("wrong_segments") or stated_checksum(folders.head_of(path)) == found["checksum"]:
            break
        found = _inspected(path)  # another process changed the folder: segments of the head before are gone
    return found


def _inspected(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return what `inspect` does, of a folder that does not change meanwhile."""
    with refusing(path):
        head = folders.head_of(path)
        archive = Archive(head, verify=False)
        about = archive.about
        groups: Counter[str] = Counter()
        for array_name, array in sorted(archive.arrays.items()):
            groups[array_name.split(".")[0]] += array.nbytes
        found = {entry: about.get(entry) for entry in ("format", "version", "kind", "class")}
        found["context_length"] = about.get("n_features_in")
        found |= _inspected_memory(about, StoredArrays(archive.arrays, trusted=True))
        columns = field({"feature_names_in": None, **about}, "feature_names_in", list, type(None))
        found |= {"seed": about.get("seed"), "columns": columns, "notes": descriptions.stored_notes(about)}
        unchecked = descriptions.stored_flag(about, descriptions.FORGOT_UNCHECKED)
        found |= {"needs_key": descriptions.stored_digest(about) is not None, "forgot_unchecked": unchecked}
        found |= {"fingerprint": about.get("fingerprint"), **_inspected_rows(about, archive.arrays)}
        found |= {"bytes": {"file": len(archive.data), **groups}, **_inspected_segments(os.path.dirname(head), about)}
        return {**found, "checksum": archive.checksum, "checksum_ok": archive.checksum == archive.digest()}


def _inspected_memory(about: Mapping[str, Any], stored: StoredArrays) -> dict[str, Any]:
    """Return how many examples are held and, for labels, by which parts."""
    if about.get("kind") == "regressor":
        sizes = stored.part("memory").take("sizes", "uint64", (None,))
        if not len(sizes):
            raise ValueError("it does not say how many rows it holds")
        bounds = field(about, "params", dict).get("bounds")
        return {"examples": int(sizes[0]), "bounds": bounds}
    counts = stored.whole_numbers("label_counts", (None,), below=2**53)
    if counts.sum(dtype=np.float64) >= 2**53:
        raise ValueError("its labels have 2^53 examples or more together")
    is_classifier = about.get("kind") == "classifier"
    fitted: Mapping[str, Any] = field(about, "fitted", dict) if is_classifier else {"vote": about.get("vote")}
    return {
        **{part: descriptions.shown(fitted.get(part)) for part in PARTS if part in fitted},
        "sites": len(field(field(about, "sites", dict), "positions", list)),
        "labels": len(counts),
        "examples": int(counts.sum(dtype=np.uint64)),
        "label_dtype": about.get("label_dtype"),
    }


def _inspected_rows(about: Mapping[str, Any], arrays: Mapping[str, Array]) -> dict[str, Any]:
    """Return how many rows or documents a model keeps in plain text, whether these are all, and if it needs a refit."""
    if about.get("kind") not in ("classifier", "regressor"):
        return {}
    kept, digests = field({"kept": {}, **about}, "kept", dict), None
    if kept.get("of") == "digests":
        kept, digests = kept.get("kept") or {}, len(arrays.get("kept.digest_counts", ()))
    keeps_all = kept.get("threshold") == EVERYTHING and not len(arrays.get("kept.long_words", ()))
    stale = descriptions.stored_flag(about, descriptions.STALE)
    kept_rows = len(arrays.get("kept.counts", ()))
    return {"kept_rows": kept_rows, "keeps_all": keeps_all, "digests": digests, "stale": stale}


def _inspected_segments(folder: str, about: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the head of a folder says of its segments, and which of them are damaged or missing."""
    if "segments" not in about:
        return {}
    facts = [SegmentFacts.of(one) for one in field(about, "segments", list)]
    totals = {f"segment_{name}": sum(getattr(one, name) for one in facts) for name in ("bytes", "rows", "entries")}
    wrong = folders.wrong_segments(folder, about["segments"])
    return {"segments": len(facts), "edits": sum(one.edits for one in facts), **totals, "wrong_segments": wrong}
