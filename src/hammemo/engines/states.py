"""Partial states on their way between processes: named arrays out, a memory in.

Only these functions know how a memory becomes arrays and arrays a memory; nothing is pickled or unpickled here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from hammemo.memories import Memory
    from hammemo.memories.exact import CountTable

Arrays = dict[str, "NDArray[Any]"]


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
    copies = {name: np.array(array) for name, array in arrays.items()}
    return clone(template).restore(copies, template.sites, template.seed)


def filled(memory: Any, table: CountTable) -> Any:
    """Return an empty exact memory with a table put into it."""
    memory.hold(table)
    return memory
