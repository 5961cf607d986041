r"""Votes that are weighted sums of counts.

With the weighted sums :math:`\sum_k w_k N_{k,c}(q_k)` of a memory, and :math:`M_c` stored examples
of label c:

- sum, the paper's rule: :math:`S_c(q) = \sum_k w_k N_{k,c}(q_k) / \sum_k w_k`, the kernel summed
  over the label's examples, so that frequent labels weigh more;
- mean: :math:`S_c(q) / M_c`, the average similarity to the label's examples.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hammemo.votes.base import WeightedSum

if TYPE_CHECKING:
    from hammemo._arrays.types import Floats
    from hammemo.kernels.sites import Sites
    from hammemo.memories.reader import Reader


class Sum(WeightedSum):
    """The paper's vote: every stored example votes for its label by its similarity to the query."""

    def divisor(self, reader: Reader, sites: Sites) -> float:  # noqa: ARG002
        """Return the sum of the site weights, which all labels share."""
        return float(sites.total_weight)


class Mean(WeightedSum):
    """The average similarity to the examples of each label; zero for a label without examples."""

    def divisor(self, reader: Reader, sites: Sites) -> Floats:
        """Return the sum of the site weights times the label's examples."""
        return np.asarray(sites.total_weight * np.maximum(reader.label_counts, 1), np.float64)
