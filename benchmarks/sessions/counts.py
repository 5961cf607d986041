"""Learners that count items, or pairs of them: popularity, a Markov chain, and item neighbours."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from .learner import Learner
from .stored import Stored

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from .data import Session


class Popularity(Learner):
    """The most frequent items, for every prefix the same."""

    name = "popularity"
    forgets = True

    def fit(self, sessions: Sequence[Session], n_items: int) -> None:
        """Count the items."""
        self._counts = np.bincount(
            [item for session in sessions for item in session], minlength=n_items
        )

    def scores(self, prefixes: Sequence[Session]) -> NDArray[np.float64]:
        """Return the counts."""
        return np.tile(self._counts.astype(np.float64), (len(prefixes), 1))

    def forget(self, number: int, session: Session) -> None:  # noqa: ARG002  (the items are enough)
        """Count the items of one session no more."""
        np.subtract.at(self._counts, session, 1)


class Markov(Learner):
    """What followed the last item, by frequency; what never did comes after it, by popularity."""

    name = "Markov, order 1"
    forgets = True

    def fit(self, sessions: Sequence[Session], n_items: int) -> None:
        """Count what follows each item."""
        self._popularity = Popularity(self.kind)
        self._popularity.fit(sessions, n_items)
        self._following: dict[int, Counter[int]] = {}
        for session in sessions:
            self._count(session, 1)

    def scores(self, prefixes: Sequence[Session]) -> NDArray[np.float64]:
        """Return counts of pairs; popularity, below one, breaks ties."""
        shares = self._popularity.scores(prefixes)
        shares /= 1 + shares.sum(axis=1, keepdims=True)
        for row, prefix in zip(shares, prefixes, strict=True):
            following: dict[int, int] = self._following.get(prefix[-1], Counter())
            row[list(following.keys())] += list(following.values())
        return shares

    def forget(self, number: int, session: Session) -> None:
        """Count the pairs of one session no more."""
        self._popularity.forget(number, session)
        self._count(session, -1)

    def _count(self, session: Session, by: int) -> None:
        for item, following in pairwise(session):
            self._following.setdefault(item, Counter())[following] += by


class ItemNeighbours(Stored):
    r"""Items that occur in the same sessions as those of the prefix (Sarwar et al. 2001).

    This is the baseline of GRU4Rec.

    The similarity of two items is the number of sessions with both, divided by
    :math:`\sqrt{(n_a + \lambda)(n_c + \lambda)}`; the last items of the prefix count 1, 1/2, 1/3, …
    """

    name = "item-kNN"
    choices = tuple(
        {"shrink": shrink, "last": last} for shrink in (0, 5, 20, 80) for last in (1, 2, 5, 10)
    )

    def one(self, prefix: Session) -> NDArray[np.float64]:
        """Return weighted sums of similarities."""
        shrink = self.settings["shrink"]
        points = np.zeros(self.n_items)
        sizes = (
            np.sqrt(self.occurrences() + shrink)
            if shrink
            else np.sqrt(np.maximum(self.occurrences(), 1))
        )
        for item, step in self.recent(prefix, self.settings["last"]):
            together = np.bincount(self.items_of(self.sessions_with(item)), minlength=self.n_items)
            together[item] = 0
            points += together / (step * sizes * sizes[item])
        return points
