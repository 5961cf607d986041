"""Partial states on their way between processes: named arrays out, a memory in.

Only these two functions know how a memory becomes arrays and arrays a memory; nothing is pickled or unpickled here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from hammemo.arrays import object_array
from hammemo.memories import Exact, Hashed, Memory
from hammemo.memories.base import LabelCounts
from hammemo.memories.counts import CountTable
from hammemo.tokens import Vocabulary
from hammemo.tuples import TupleSet

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

Arrays = dict[str, "NDArray[Any]"]

PACKED = (Hashed, Exact)
"""The memories whose states can travel."""


def can_travel(memory: Memory) -> bool:
    """Return whether a memory's state can be sent to another process or written to a folder."""
    return type(memory) in PACKED


def check_can_travel(memory: Memory) -> None:
    """Refuse a memory whose state cannot be sent to another process or written to a folder."""
    if not can_travel(memory):
        names = " and ".join(f"{kind.__name__}()" for kind in PACKED)
        raise TypeError(
            f"The state of {memory!r} cannot be sent to another process or written to a folder: that works for {names}."
            " Use engine='threads' without resume=."
        )


def pack(memory: Memory) -> Arrays:
    """Return all that a memory has stored, as named arrays: the canonical state."""
    return {name: np.ascontiguousarray(array) for name, array in memory.state().items()}


def unpack(template: Memory, arrays: Mapping[str, NDArray[Any]]) -> Any:
    """Return a memory of the template's layout that holds what `pack` returned; the arrays may be read-only.

    Examples
    --------
    >>> from hammemo import MemoryClassifier
    >>> from hammemo.engines.states import pack, unpack
    >>> memory = MemoryClassifier().fit([["a", "b"], ["a", "c"]], ["x", "y"]).memory_
    >>> unpack(memory.empty_like(), pack(memory)).state_bytes() == memory.state_bytes()
    True
    """
    labels = _vocabulary(arrays, "labels")
    counts = LabelCounts(labels, arrays["label_counts"].astype(np.int64))
    memory = template.empty_like()
    if isinstance(memory, Hashed):
        memory._counts = counts
        for k, table in enumerate(memory._tables):
            table.own, table.shared = arrays[f"own.{k}"].copy(), arrays[f"shared.{k}"].copy()
    elif isinstance(memory, Exact):
        return filled(memory, _count_table(memory, counts, arrays))
    return memory


def filled(memory: Any, table: CountTable) -> Any:
    """Return an empty exact memory with a table put into it."""
    memory._added, memory._label_counts = [table], table.label_counts
    return memory


def _count_table(memory: Exact, counts: LabelCounts, arrays: Mapping[str, NDArray[Any]]) -> CountTable:
    vocabulary = _vocabulary(arrays, "vocabulary")
    n = max(len(vocabulary), 1)
    tuples = [
        TupleSet(n, tuple(arrays[f"rows.{k}.{j}"].astype(np.int64) for j in range(len(site))))
        for k, site in enumerate(memory.sites.positions)
    ]
    entries = (arrays[name] for name in ("row_lengths", "entry_labels", "entry_counts"))
    return CountTable(memory.sites, counts, vocabulary, tuples, *entries)


def _vocabulary(arrays: Mapping[str, NDArray[Any]], name: str) -> Vocabulary:
    """Undo `Vocabulary.arrays`."""
    text = arrays[f"{name}.string_bytes"].tobytes()
    ends = np.cumsum(arrays[f"{name}.string_lengths"], dtype=np.int64)
    starts = np.concatenate([np.zeros(1, np.int64), ends])
    strings = [text[a:b].decode("utf-8", "surrogatepass") for a, b in zip(starts, ends, strict=False)]
    return Vocabulary(arrays[f"{name}.ints"], arrays[f"{name}.floats"], object_array(strings))
