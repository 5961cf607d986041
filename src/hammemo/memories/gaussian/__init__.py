"""The paper's memory: a correlation matrix of Gaussian codes."""

from hammemo.memories.gaussian.memory import Gaussian

__all__ = ["Gaussian"]
