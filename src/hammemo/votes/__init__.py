"""Votes: from the counts that a query reads to one score a label.

Imports `memories`, `kernels`, `tokens` and `_arrays`; models build on it.
"""

from hammemo.votes.base import Vote, WeightedSum, softmax
from hammemo.votes.log_linear import LogLinear
from hammemo.votes.mixture import Mixture
from hammemo.votes.sums import Mean, Sum

__all__ = ["LogLinear", "Mean", "Mixture", "Sum", "Vote", "WeightedSum", "softmax"]
