r"""Interpolated modified Kneser-Ney n-grams (Chen and Goodman 1999).

They are learned from a stream without marks of beginnings.

With counts c and a context u of n - 1 tokens,

.. math:: p_n(w \mid u) = \frac{c(uw) - D(c(uw)) + b(u) \, p_{n-1}(w \mid u')}{\sum_v c(uv)}, \qquad
          b(u) = \sum_v D(c(uv)),

where u' is u without its first token, and :math:`p_0` is even over all types. At the highest order
c counts occurrences, below it the distinct tokens that came before uw (continuation counts). A
context that was never seen leaves :math:`p_{n-1}`. For one order, with :math:`n_k` the number of
n-grams counted k times and :math:`Y = n_1/(n_1 + 2 n_2)`,

.. math:: D(k) = k - (k + 1) \, Y \, n_{k+1} / n_k \quad (k = 1, 2, 3), \qquad D(k) = D(3) \quad (k
> 3),

kept between 0 and k; where nothing is counted k times, D is 0. Any such D gives probabilities that
sum to one.

n-grams are numbered order by order: the number of a longer one is the place of (number of its first
tokens, its last token) among all such pairs. So keys are exact, and everything is sorting and
counting of whole numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from .ours import LanguageModel

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .ours import Text


@dataclass(frozen=True, eq=False)
class Order:
    """The n-grams of one length.

    These are their keys in order, what is left of each count, and sums by context.
    """

    keys: NDArray[np.int64]
    left: NDArray[np.float64]
    totals: NDArray[np.int64]
    taken: NDArray[np.float64]

    def find(self, keys: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the number of each n-gram, -1 for one that was not seen."""
        places = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return np.where(self.keys[places] == keys, places, -1)


def discounts(counts: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return D of 0, 1, 2, and of 3 and more."""
    times = [0.0, *(float((counts == k).sum()) for k in (1, 2, 3, 4))]
    y = times[1] / (times[1] + 2 * times[2]) if times[1] else 0.0
    raw_discounts = [
        k - (k + 1) * y * times[k + 1] / times[k] if times[k] else 0.0 for k in (1, 2, 3)
    ]
    return np.array([0.0, *(min(max(d, 0.0), k) for k, d in enumerate(raw_discounts, 1))])


class KneserNey(LanguageModel):
    """Modified Kneser-Ney of one order.

    Parameters
    ----------
    order : int
        The longest n-gram; 5 by default.
    """

    name = "Kneser-Ney 5"

    def __init__(self, order: int = 5) -> None:
        self.order = order

    def fit(self, text: Text) -> None:
        """Count the training stream; nothing is fitted on validation."""
        self.count(text.train, len(text.types))

    def count(self, stream: NDArray[np.int64], n_types: int) -> None:
        """Count the n-grams of a stream of types below `n_types`."""
        if not len(stream):
            raise ValueError("There is nothing to count: the stream has no token.")
        self.n_types = n_types
        self.orders: list[Order] = []
        # of the n-gram that starts at each place: the empty one
        numbers = np.zeros(len(stream) + 1, np.int64)
        keys = np.zeros(1, np.int64)
        n_contexts = 1
        counts = np.zeros(1, np.int64)
        for n in range(1, min(self.order, len(stream)) + 1):
            pairs = numbers[: len(stream) - n + 1] * n_types + stream[n - 1 :]
            longer, first, places, counts = np.unique(
                pairs, return_index=True, return_inverse=True, return_counts=True
            )
            # each distinct n-gram is one continuation of the (n - 1)-gram that it ends with
            if n > 1:
                self._add_order(
                    keys, n_contexts, np.bincount(numbers[first + 1], minlength=len(keys))
                )
            n_contexts = len(keys)
            keys = longer
            numbers = places
        self._add_order(keys, n_contexts, counts)

    def _add_order(
        self, keys: NDArray[np.int64], n_contexts: int, counts: NDArray[np.int64]
    ) -> None:
        contexts = keys // self.n_types
        each = discounts(counts)[np.minimum(counts, 3)]
        totals = np.bincount(contexts, counts, n_contexts).astype(np.int64)
        sums = np.bincount(contexts, each, n_contexts).astype(np.float64)
        self.orders.append(Order(keys, counts - each, totals, sums))

    def probabilities(self, stream: NDArray[np.int64], start: int) -> NDArray[np.float64]:
        """Return the probability of every token from `start` on."""
        chances = np.full(len(stream) - start, 1 / self.n_types)
        # the number of the context of each place, -1 if it was not seen
        contexts = np.zeros(len(stream), np.int64)
        for order in self.orders:
            grams = np.where(contexts >= 0, order.find(contexts * self.n_types + stream), -1)
            targets = grams[start:]
            context = contexts[start:]
            totals = np.where(context >= 0, order.totals[context], 0)
            has_context = totals > 0
            discounted = (
                np.where(targets >= 0, order.left[targets], 0.0) + order.taken[context] * chances
            )
            chances = np.where(has_context, discounted / np.maximum(totals, 1), chances)
            contexts = np.append(-1, grams[:-1])
        return chances
