"""What a peer is: settings to choose from, a fit, scores, answers, and its size."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from hammemo.paper.experiments.wikitext import (
    SPLITS,
    TaskSettings,
    build_task,
    draw_sample,
    read_folder,
)
from votes import H

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

Choice = dict[str, Any]
"""One setting to try, by parameter."""


@dataclass(frozen=True, eq=False)
class PeerExamples:
    """Contexts of token numbers, and the number of each one's label."""

    X: NDArray[np.int64]
    y: NDArray[np.int64]

    def first(self, most: int | None) -> PeerExamples:
        """Return the first examples, or all: they are in random order."""
        return PeerExamples(self.X[:most], self.y[:most])


@dataclass(frozen=True, eq=False)
class PeerData:
    """Three parts of one draw; tokens are below `n_tokens` and labels below `n_labels`."""

    train: PeerExamples
    valid: PeerExamples
    test: PeerExamples
    n_tokens: int
    n_labels: int


def read_data(folder: Path, stored: int, draw: int) -> PeerData:
    """Return one draw of the paper's task, its labels numbered."""
    task = build_task(read_folder(folder))
    sample = draw_sample(task, TaskSettings(sizes=(stored, 2_000, 5_000)), draw)
    splits = [sample.split(name, H) for name in SPLITS]
    parts = [PeerExamples(X.astype(np.int64), np.searchsorted(task.targets, y)) for X, y in splits]
    if len(np.unique(parts[0].y)) < len(task.targets):
        raise SystemExit(
            f"--stored {stored} leaves a label without an example: take more, 10000 will do."
        )
    train, valid, test = parts
    return PeerData(
        train,
        valid,
        test,
        n_tokens=int(max(part.X.max() for part in parts)) + 1,
        n_labels=len(task.targets),
    )


@dataclass(eq=False)
class Peer(ABC):
    """One classifier under test.

    Parameters
    ----------
    name : str
    sees : str
        Its features, in a word or two.
    choices : sequence of dict
        The settings to try on validation.
    package : pair of str
        The module it needs, and what pip calls it.
    most : int, optional
        The most examples it is given, for one too slow for all.
    probabilistic : bool
        Whether its scores are logarithms of probabilities.
    online, forgets : bool
        Whether it learns one more example without the old ones, and takes one back exactly.
    """

    name: str
    sees: str
    choices: Sequence[Choice] = ({},)
    package: tuple[str, str] = ("sklearn", "scikit-learn")
    most: int | None = None
    probabilistic: bool = False
    online: bool = True
    forgets: bool = False

    @abstractmethod
    def fit(self, data: PeerData, choice: Choice) -> None:
        """Learn the training part with these settings; the validation part may say when to stop."""

    @abstractmethod
    def scores(self, X: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return one score for each context and label."""

    @abstractmethod
    def answers(self, X: NDArray[np.int64]) -> NDArray[Any]:
        """Return the label of each context, in the way that the library offers for it."""

    @abstractmethod
    def state_bytes(self) -> int:
        """Return the bytes that must be kept to answer."""


Peers = dict[str, "Callable[[], Peer]"]
"""What makes each peer, not fitted, by the name it is chosen by."""
