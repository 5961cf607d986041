"""The additive states: exact counts and the sketches of them."""

from hammemo.memories.base import LayoutError, Memory, NotStoredError
from hammemo.memories.exact import Exact
from hammemo.memories.gaussian import Gaussian
from hammemo.memories.hashed import Hashed
from hammemo.memories.ledger import Ledgered
from hammemo.memories.tiered import Tiered

__all__ = ["Exact", "Gaussian", "Hashed", "LayoutError", "Ledgered", "Memory", "NotStoredError", "Tiered"]
