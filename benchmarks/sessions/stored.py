"""Learners that keep the sessions themselves, with a list of sessions for every item."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

import numpy as np

from .learner import Learner

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from .data import Session


class Stored(Learner):
    """Sessions as sets of items, one after the other in a flat array.

    The lists of an item are in order of age.
    """

    forgets = True

    def fit(self, sessions: Sequence[Session], n_items: int) -> None:
        """Keep the sessions, each item of a session once."""
        self.n_items = n_items
        distinct = [list(dict.fromkeys(session)) for session in sessions]
        self._items = np.array([item for session in distinct for item in session], np.int64)
        self._ends = np.cumsum([len(session) for session in distinct])
        self._starts = np.append(0, self._ends[:-1])
        self._occurrences = np.bincount(self._items, minlength=n_items)
        numbers = np.repeat(np.arange(len(distinct)), self._ends - self._starts)
        by_item = np.argsort(self._items, kind="stable")
        self._lists = np.split(numbers[by_item], np.cumsum(self._occurrences)[:-1])

    def forget(self, number: int, session: Session) -> None:
        """Take one session off the lists of its items; other sessions keep their numbers."""
        distinct = list(dict.fromkeys(session))
        for item in distinct:
            self._lists[item] = self._lists[item][self._lists[item] != number]
        self._occurrences[distinct] -= 1
        self._ends[number] = self._starts[number]

    def scores(self, prefixes: Sequence[Session]) -> NDArray[np.float64]:
        """Return the scores of all prefixes, one at a time."""
        return np.array([self.one(prefix) for prefix in prefixes]).reshape(
            len(prefixes), self.n_items
        )

    @abstractmethod
    def one(self, prefix: Session) -> NDArray[np.float64]:
        """Return the scores of all items for one prefix."""

    def occurrences(self) -> NDArray[np.int64]:
        """Return the number of sessions with each item."""
        return self._occurrences

    def sessions_with(self, item: int) -> NDArray[np.int64]:
        """Return the numbers of the sessions with an item, oldest first."""
        return self._lists[item]

    def items_of(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the items of sessions, one session after the other."""
        return self._items[self._places(numbers)]

    def lengths_of(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the number of distinct items of sessions."""
        return np.asarray(self._ends[numbers] - self._starts[numbers], np.int64)

    def recent(self, prefix: Session, last: int | None = None) -> list[tuple[int, int]]:
        """Return the distinct items of a prefix or its end, latest first, with distances from 1."""
        distances: dict[int, int] = {}
        for distance, item in enumerate(reversed(prefix[-last:] if last else prefix), 1):
            distances.setdefault(item, distance)
        return list(distances.items())

    def _places(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        lengths = self.lengths_of(numbers)
        within = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        return np.asarray(np.repeat(self._starts[numbers], lengths) + within, np.int64)
