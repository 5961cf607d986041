"""The additive states: exact counts and the sketches of them."""

from hammemo.memories.base import LayoutError, Memory, NotStoredError
from hammemo.memories.exact.memory import Exact
from hammemo.memories.gaussian.memory import Gaussian
from hammemo.memories.hashed.memory import Hashed
from hammemo.memories.ledgered import Ledgered
from hammemo.memories.tiered import Tiered

__all__ = ["Exact", "Gaussian", "Hashed", "LayoutError", "Ledgered", "Memory", "NotStoredError", "Tiered"]
