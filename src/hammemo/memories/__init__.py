"""The additive states: exact counts and the sketches of them."""

from hammemo.memories.base import LayoutError, Memory, NotStoredError
from hammemo.memories.exact import Exact
from hammemo.memories.gaussian import Gaussian

__all__ = ["Exact", "Gaussian", "LayoutError", "Memory", "NotStoredError"]
