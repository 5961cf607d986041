"""The rows of hammemo itself. Nothing of them was tuned on this draw."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from hammemo import MemoryClassifier
from hammemo.memories import Exact, Hashed
from hammemo.votes import LogLinear
from votes import BUCKETS, RESERVED, kernel, small_kernel

from .peer import Choice, Peer, PeerData, Peers

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray


@dataclass(eq=False)
class OurPeer(Peer):
    """A classifier, asked through its compiled predictor."""

    package: tuple[str, str] = ("hammemo", "hammemo")
    forgets: bool = True
    model: Callable[[], MemoryClassifier] = MemoryClassifier

    def fit(self, data: PeerData, choice: Choice) -> None:  # noqa: ARG002  nothing is chosen
        """Learn in one pass, fit weights if the vote has any, compile."""
        self._fitted = self.model().fit(data.train.X, data.train.y)
        self._predictor = self._fitted.compile()

    def scores(self, X: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the vote's scores."""
        return np.asarray(self._predictor.class_scores(X), np.float64)

    def answers(self, X: NDArray[np.int64]) -> NDArray[Any]:
        """Return the predicted labels."""
        return self._predictor.predict(X)

    def state_bytes(self) -> int:
        """Return the size of the counts, from which all else is made, and of the vote's weights."""
        return int(
            self._fitted.memory_.nbytes
            + sum(part.nbytes for part in self._fitted.vote_.state().values())
        )


def _make_hashed_model() -> MemoryClassifier:
    return MemoryClassifier(small_kernel(), Hashed(list(BUCKETS), list(RESERVED)), LogLinear())


PEERS: Peers = {
    "log-linear-exact": partial(
        OurPeer,
        "hammemo: log-linear vote, exact",
        "16 sites",
        probabilistic=True,
        model=lambda: MemoryClassifier(kernel(), Exact(), LogLinear()),
    ),
    "log-linear-hashed": partial(
        OurPeer,
        "hammemo: log-linear vote, hashed",
        "12 of the sites",
        probabilistic=True,
        model=_make_hashed_model,
    ),
    "default": partial(
        OurPeer,
        "hammemo: sum vote, hashed (the paper's rule)",
        "positions",
        model=lambda: MemoryClassifier("positional", memory="hashed", vote="sum"),
    ),
}
