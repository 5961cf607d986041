"""The exact memory: sparse counts of every (site, token, label)."""

from hammemo.memories.exact.memory import Exact

__all__ = ["Exact"]
