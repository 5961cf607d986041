r"""Session neighbours.

They are V-SKNN (Ludewig and Jannach 2018) and VMIS-kNN (Kersbergen, Sprangers, Schelter 2022).

Both look at the m most recent sessions that share an item with the prefix. The similarity of such a
session n is the sum, over the items they share, of a weight that falls with the distance d of the
item from the end of the prefix. The k sessions that are most similar, the more recent ones among
equals, give points to all of their items:

.. math:: S_c = \sum_{n \ni c} \mathrm{sim}(n) \, g(d_n) \, \mathrm{idf}_c,

where :math:`d_n` is the distance of the latest shared item. For V-SKNN :math:`g(d) = 1/d` and idf
is 1. VMIS-kNN looks at the last few items of the prefix only, has :math:`g(d) = 1 - d/10`, and its
idf is the logarithm of all occurrences over those of the item. Its authors never answer the item
clicked last; V-SKNN may. Which is better depends on the shop, so for both it is a setting, `again`,
chosen on validation like the others.
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from .stored import Stored

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .data import Session


class Neighbours(NamedTuple):
    """The sessions that are most similar to a prefix, the most similar one first."""

    numbers: NDArray[np.int64]
    similarities: NDArray[np.float64]
    distances: NDArray[np.int64]
    """How far from the end of the prefix the latest item is that they share with it."""


class SessionNeighbours(Stored):
    """What V-SKNN and VMIS-kNN share; settings: `m`, `k`, `again` and for VMIS-kNN `last`."""

    def one(self, prefix: Session) -> NDArray[np.float64]:
        """Return the points of all items."""
        numbers, similarities, distances = self.neighbours(prefix)
        points = np.repeat(similarities * self.fading(distances), self.lengths_of(numbers))
        points_of_items = np.bincount(self.items_of(numbers), points, self.n_items).astype(
            np.float64
        )
        if not self.settings["again"]:
            points_of_items[prefix[-1]] = 0
        return points_of_items

    def fading(self, distances: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return how much a session counts whose latest shared item is so far from the end."""
        return 1 / distances

    def neighbours(self, prefix: Session) -> Neighbours:
        """Find the k sessions that are most similar to a prefix."""
        m = self.settings["m"]
        k = self.settings["k"]
        last = self.settings.get("last")
        items = self.recent(prefix, last)
        length = len(prefix[-last:] if last else prefix)
        lists = [self.sessions_with(item)[-m:] for item, _ in items]
        sizes = [len(numbers) for numbers in lists]
        # whole numbers: ties are exact
        weights = np.repeat([length - distance + 1 for _, distance in items], sizes)
        numbers, first, places = np.unique(
            np.concatenate(lists), return_index=True, return_inverse=True
        )
        similarities = np.bincount(places, weights, len(numbers)).astype(np.float64) / len(items)
        # the first match is the latest
        distances = np.repeat([distance for _, distance in items], sizes)[first]
        numbers = numbers[-m:]
        similarities = similarities[-m:]
        distances = distances[-m:]
        best = np.lexsort((numbers, similarities))[::-1][:k]
        return Neighbours(numbers[best], similarities[best], distances[best])


class VSKNN(SessionNeighbours):
    """V-SKNN: the whole prefix, no idf."""

    name = "V-SKNN"
    choices = tuple(
        {"m": m, "k": k, "again": again}
        for m, k, again in product((100, 500, 2500), (50, 100, 500), (False, True))
    )


class VMISkNN(SessionNeighbours):
    """VMIS-kNN: the last items only, and idf."""

    name = "VMIS-kNN"
    choices = tuple(
        {"m": m, "k": k, "last": last, "again": again}
        for m, k, last, again in product((100, 500, 2500), (50, 100, 500), (2, 3, 5), (False, True))
    )

    def fading(self, distances: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return 1 - d/10; a match that is ten items away or more counts nothing."""
        return np.asarray(np.maximum(1 - 0.1 * distances, 0), np.float64)

    def one(self, prefix: Session) -> NDArray[np.float64]:
        """Return the points of all items."""
        points_of_items = super().one(prefix)
        scored = np.flatnonzero(points_of_items)
        occurrences = self.occurrences()
        points_of_items[scored] *= np.log(occurrences.sum() / occurrences[scored])
        return points_of_items
