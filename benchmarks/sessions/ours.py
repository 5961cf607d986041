"""The library as a learner of sessions: its defaults for a stream with many labels.

A session is learnt and forgotten whole. A context is the last 30 items, the missing ones of a short
prefix empty.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hammemo.edits.editing import mute_forgetting_warning
from hammemo.estimators.classifiers import MemoryClassifier
from hammemo.tokens.vocabulary import NO_TOKEN
from hammemo.votes.mixture.popularity import STEPS, popularity

from .learner import Learner

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from .data import Session


H: Final = 30
"""Items of a context."""


class Ours(Learner):
    """`MemoryClassifier()` with its defaults.

    It mixes suffixes, a bag, what occurs together, and copies.
    """

    name = "ours"
    forgets = True
    _layout: MemoryClassifier | None = None

    def fit(self, sessions: Sequence[Session], n_items: int) -> None:
        """Learn every item of every session."""
        self._n_items = n_items
        if self._layout is None:
            self.model = MemoryClassifier().fit_stream(sessions, H, short="pad")
        else:
            self.model = (
                self._layout.empty_like().partial_fit_stream(sessions, H, short="pad").refit()
            )

    def like(self) -> Ours:
        """Return a learner of the same layout.

        It keeps the same share of the sessions to fit weights to.
        """
        fresh = type(self)(self.kind)
        fresh._layout = self.model
        return fresh

    def scores(self, prefixes: Sequence[Session]) -> NDArray[np.float64]:
        """Return what `top_k` ranks by; an item that never was next is never answered."""
        all_scores = np.full((len(prefixes), self._n_items), -np.inf)
        all_scores[:, self.model.classes_] = (
            self.model.class_scores(self._contexts(prefixes)) / self._divisors()
        )
        return all_scores

    def _divisors(self) -> NDArray[np.float64]:
        """Return what the probabilities of items are divided by: the discount of popular ones."""
        counts = np.asarray(self.model.memory_.label_counts, np.int64)
        return popularity(counts, round(STEPS * getattr(self.model.vote_, "discount_", 0.0)))

    def top_k(self, prefixes: Sequence[Session], k: int) -> NDArray[np.int64]:
        """Return the leading items by the library's own call, which does not make every score."""
        return np.asarray(self.model.top_k(self._contexts(prefixes), k), np.int64)

    def forget(self, number: int, session: Session) -> None:  # noqa: ARG002  (the items are enough)
        """Take one session back."""
        mute_forgetting_warning(self.model)
        self.model.forget_stream([session], short="pad")

    def refit(self) -> None:
        """Fit the weights of the vote again, to the sample that the model keeps."""
        self.model.refit()

    def _contexts(self, prefixes: Sequence[Session]) -> NDArray[np.int64]:
        """Return the last items of each prefix, empty places first.

        Shapes
        ------
        returned : (len(prefixes), H)
        """
        contexts: NDArray[Any] = np.full((len(prefixes), H), NO_TOKEN, np.int64)
        for row, prefix in zip(contexts, prefixes, strict=True):
            last = prefix[-H:]
            row[H - len(last) :] = last
        return contexts
