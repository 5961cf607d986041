r"""EASE: a linear model of items from items, in closed form (Steck 2019).

With X the matrix of sessions and items, ones where a session holds an item, B is the matrix with
zeros on its diagonal that minimizes :math:`\|X - XB\|^2 + \lambda \|B\|^2`: with :math:`P = (X^T X
+ \lambda I)^{-1}`, :math:`B_{ij} = -P_{ij} / P_{jj}`. It takes the cube of the number of items, so
sets with more than `MOST_ITEMS` are left out. The paper gives all items of a user the same weight;
here the item d steps back counts :math:`d^{-1/2}`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
from scipy import sparse

from .learner import Learner

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from .data import Session

MOST_ITEMS: Final = 10_000


class Ease(Learner):
    """The linear model; to forget a session is to solve it again."""

    name = "EASE"
    choices = tuple({"ridge": ridge} for ridge in (20, 50, 200, 800))

    def fit(self, sessions: Sequence[Session], n_items: int) -> None:
        """Solve for the weights of items from items."""
        gram = _occurrences(sessions, n_items).T @ _occurrences(sessions, n_items)
        inverse = np.linalg.inv(gram.toarray() + self.settings["ridge"] * np.eye(n_items))
        self._weights = -inverse / np.diag(inverse)
        np.fill_diagonal(self._weights, 0.0)

    def scores(self, prefixes: Sequence[Session]) -> NDArray[np.float64]:
        """Return the summed weights of the distinct items of each prefix; late ones count more."""
        sums = np.zeros((len(prefixes), len(self._weights)))
        for row, prefix in zip(sums, prefixes, strict=True):
            last = list(dict.fromkeys(reversed(prefix)))  # nearest first
            row += (np.arange(1, len(last) + 1) ** -0.5) @ self._weights[last]
        return sums


def _occurrences(sessions: Sequence[Session], n_items: int) -> sparse.csr_array:
    """Return which session holds which item."""
    items = [sorted(set(session)) for session in sessions]
    starts = np.cumsum([0, *map(len, items)])
    columns = np.array([item for session in items for item in session], np.int64)
    return sparse.csr_array(
        (np.ones(len(columns)), columns, starts), shape=(len(sessions), n_items)
    )
