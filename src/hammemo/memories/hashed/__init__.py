"""The hashed memory: counts in buckets, with rows of their own for frequent features."""

from hammemo.memories.hashed.memory import Hashed

__all__ = ["Hashed"]
