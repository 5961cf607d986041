"""The paper's memory: a correlation matrix of Gaussian codes."""

from hammemo.memories.gaussian.codes import GivenRows
from hammemo.memories.gaussian.memory import Gaussian, given_codes

__all__ = ["Gaussian", "GivenRows", "given_codes"]
