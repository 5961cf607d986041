"""The library as a learner of sessions: the one place to change when a better vote or kernel is there.

A session is cut into examples: the items before, and the next one. A context is the last h items, the missing ones of
a short prefix empty. Today it is the sum vote over positions and suffixes, or the log-linear vote with weights that all
labels share: which one, and h, are chosen on validation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from hammemo.experiments.sessions.data import Queries
from hammemo.experiments.sessions.learner import Learner
from hammemo.kernels import PositionalHamming, Suffixes
from hammemo.memories import Exact
from hammemo.models.classifiers import MemoryClassifier
from hammemo.tokens.vocabulary import NO_TOKEN
from hammemo.votes import LogLinear

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from hammemo.experiments.sessions.data import Session


class Ours(Learner):
    """`MemoryClassifier` over positions and suffixes."""

    name = "ours"
    choices = (
        {"vote": "sum", "h": 2},
        {"vote": "sum", "h": 4},
        {"vote": "sum", "h": 8},
        {"vote": "log-linear", "h": 4},
    )
    forgets = True

    def fit(self, sessions: Sequence[Session], n_items: int) -> None:
        """Learn every prefix of every session."""
        self._n_items = n_items
        h, vote = self.settings["h"], self.settings["vote"]
        kernel = PositionalHamming() + Suffixes(min(h, 3))
        self.model = MemoryClassifier(kernel, Exact(), "sum" if vote == "sum" else LogLinear(per_label=False))
        self.model.fit(*self._examples(sessions))

    def scores(self, prefixes: Sequence[Session]) -> NDArray[np.float64]:
        """Return the vote's scores; an item that never was next is never answered."""
        found = np.full((len(prefixes), self._n_items), -np.inf)
        found[:, self.model.classes_] = self.model.class_scores(self._contexts(prefixes))
        return found

    def top_k(self, prefixes: Sequence[Session], k: int) -> NDArray[np.int64]:
        """Return the leading items by the library's own call, which does not make every score."""
        return np.asarray(self.model.top_k(self._contexts(prefixes), k), np.int64)

    def forget(self, number: int, session: Session) -> None:  # noqa: ARG002  (the items are enough)
        """Take the examples of one session back."""
        if len(session) > 1:
            self.model.forget(*self._examples([session]))

    def refit(self) -> None:
        """Fit the weights of the vote again, to the sample that the model keeps."""
        if self.settings["vote"] != "sum":
            self.model.refit()

    def _examples(self, sessions: Sequence[Session]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        queries = Queries.of(sessions)
        return self._contexts(queries.prefixes), queries.targets

    def _contexts(self, prefixes: Sequence[Session]) -> NDArray[np.int64]:
        """Return the last h items of each prefix, empty places first.

        Shapes
        ------
        returned : (len(prefixes), h)
        """
        h: int = self.settings["h"]
        contexts: NDArray[Any] = np.full((len(prefixes), h), NO_TOKEN, np.int64)
        for row, prefix in zip(contexts, prefixes, strict=True):
            last = prefix[-h:]
            row[h - len(last) :] = last
        return contexts
