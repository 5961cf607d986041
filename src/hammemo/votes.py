r"""From what a memory answers to one score a label.

With the weighted sums :math:`\sum_k w_k N_{k,c}(q_k)` of a memory, and :math:`M_c` stored examples of label c:

- sum, the paper's rule: :math:`S_c(q) = \sum_k w_k N_{k,c}(q_k) / \sum_k w_k`, the kernel summed over the label's
  examples, so that frequent labels weigh more;
- mean: :math:`S_c(q) / M_c`, the average similarity to the label's examples.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

import numpy as np
from sklearn.base import BaseEstimator

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hammemo.contexts import Contexts
    from hammemo.kernels import Sites
    from hammemo.memories.base import Reader


class Vote(BaseEstimator, ABC):
    """How the sites' counts become one score a label."""

    @abstractmethod
    def divisor(self, reader: Reader, sites: Sites) -> NDArray[np.float64]:
        """Return what the weighted sums of each label are divided by, shape (number of labels,)."""

    def scores(self, reader: Reader, contexts: Contexts, sites: Sites) -> NDArray[np.float64]:
        """Return one score for each context and label.

        Shapes
        ------
        contexts : m of them; returned : (m, number of labels)
        """
        return reader.scores(contexts, sites.weights) / self.divisor(reader, sites)


class Sum(Vote):
    """The paper's vote: every stored example votes for its label with its similarity to the query."""

    def divisor(self, reader: Reader, sites: Sites) -> NDArray[np.float64]:
        """Return the sum of the site weights, for every label."""
        return np.full(len(reader.labels), sites.total_weight)


class Mean(Vote):
    """The average similarity to the examples of each label; zero for a declared label that has none."""

    def divisor(self, reader: Reader, sites: Sites) -> NDArray[np.float64]:
        """Return the sum of the site weights times the label's examples."""
        return np.asarray(sites.total_weight * np.maximum(reader.label_counts, 1), np.float64)


def resolve_vote(vote: str | Vote) -> Vote:
    """Return the vote of a name, or the vote itself."""
    if isinstance(vote, Vote):
        return vote
    named = {"sum": Sum, "mean": Mean}
    if not isinstance(vote, str) or vote not in named:
        raise ValueError(f"vote={vote!r} is not known: use 'sum', 'mean' or an instance of a Vote.")
    return named[vote]()
