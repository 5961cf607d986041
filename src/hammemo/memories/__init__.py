"""Memories: the additive states, exact counts and the sketches of them, and what reads them.

`base` is the contract, `reader` and `ranker` what answers; a folder a memory; `ledgered` and `tiered` wrap others. It
imports kernels, tokens and `_arrays`; votes, models and all above build on it.
"""

from hammemo.memories.base import Memory
from hammemo.memories.errors import LayoutError, NotStoredError
from hammemo.memories.exact import Exact
from hammemo.memories.gaussian import Gaussian
from hammemo.memories.hashed import Hashed
from hammemo.memories.ledgered import Ledgered
from hammemo.memories.tiered import Tiered

__all__ = ["Exact", "Gaussian", "Hashed", "LayoutError", "Ledgered", "Memory", "NotStoredError", "Tiered"]
