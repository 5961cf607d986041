"""What a learner of sessions is.

It has settings to choose from, a fit, scores of all items, and forgetting if it can.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from .data import Kind, Session


class Learner(ABC):
    """One learner under test.

    Parameters
    ----------
    kind : {"clicks", "purchases"} What it is going to learn. Of purchases, those of a prefix are
        left out when its scores are ranked. **settings One of its `choices`.
    """

    name: ClassVar[str]
    choices: ClassVar[Sequence[Mapping[str, Any]]] = ({},)
    """The settings to try on validation."""
    kinds: ClassVar[tuple[Kind, ...]] = ("clicks", "purchases")
    """The kinds of data that it is meant for."""
    forgets: ClassVar[bool] = False
    """Whether `forget` takes a session back."""

    def __init__(self, kind: Kind, **settings: Any) -> None:
        self.kind = kind
        self.settings = settings

    @abstractmethod
    def fit(self, sessions: Sequence[Session], n_items: int) -> None:
        """Learn sessions, oldest first, of items below `n_items`; forget all that came before."""

    @abstractmethod
    def scores(self, prefixes: Sequence[Session]) -> NDArray[np.float64]:
        """Return one score for every prefix and item; minus infinity for what is never answered.

        Shapes
        ------
        returned : (len(prefixes), n_items)
        """

    def top_k(self, prefixes: Sequence[Session], k: int) -> NDArray[np.int64]:
        """Return the k items with the highest scores, best first.

        The order of equals is open.

        Shapes
        ------
        returned : (len(prefixes), k)
        """
        scores = self.scores(prefixes)
        leading = np.argpartition(-scores, min(k, scores.shape[1]) - 1, axis=1)[:, :k]
        order = np.argsort(-np.take_along_axis(scores, leading, axis=1), axis=1, kind="stable")
        return np.take_along_axis(leading, order, axis=1)

    def forget(self, number: int, session: Session) -> None:
        """Remove one of the sessions given to `fit`: its number there and what it held.

        Numbers stay as they are when others are forgotten. Afterwards answers must be those of a
        model that never learnt the session; weights that were fitted may wait for `refit`.
        """
        raise NotImplementedError(f"{self.name} does not forget: fit it again without the session.")

    def like(self) -> Learner:
        """Return a learner with the same settings that has learnt nothing yet."""
        return type(self)(self.kind, **self.settings)

    def refit(self) -> None:  # noqa: B027  (most have nothing to do)
        """Fit again what `forget` leaves as it is: nothing, unless a learner says otherwise."""
