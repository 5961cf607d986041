"""The paper's memory: a correlation matrix of Gaussian codes."""

from hammemo.memories.gaussian.codes import GivenRows
from hammemo.memories.gaussian.memory import Gaussian, find_given_codes

__all__ = ["Gaussian", "GivenRows", "find_given_codes"]
