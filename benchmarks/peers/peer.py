"""What a peer is: settings to choose from, a fit, scores, answers, and its size."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from hammemo.experiments.votes import H
from hammemo.experiments.wikitext import Settings, build_task, draw_sample, read_folder

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

Choice = dict[str, Any]
"""One setting to try, by parameter."""


@dataclass(frozen=True, eq=False)
class Part:
    """Contexts of token numbers, and the number of each one's label."""

    X: NDArray[np.int64]
    y: NDArray[np.int64]

    def first(self, most: int | None) -> Part:
        """Return the first examples, or all: they are in random order."""
        return self if most is None else Part(self.X[:most], self.y[:most])


@dataclass(frozen=True, eq=False)
class Data:
    """Three parts of one draw; tokens are below `n_tokens` and labels below `n_labels`."""

    train: Part
    valid: Part
    test: Part
    n_tokens: int
    n_labels: int


def read_data(folder: Path, stored: int, draw: int) -> Data:
    """Return one draw of the paper's task, its labels numbered."""
    task = build_task(read_folder(folder))
    sample = draw_sample(task, Settings(sizes=(stored, 2_000, 5_000)), draw)
    parts = []
    for name in ("train", "valid", "test"):
        X, y = sample.split(name, H)
        parts.append(Part(X.astype(np.int64), np.searchsorted(task.targets, y)))
    if len(np.unique(parts[0].y)) < len(task.targets):
        raise SystemExit(f"--stored {stored} leaves a label without an example: take more, 10000 will do.")
    train, valid, test = parts
    return Data(train, valid, test, int(max(part.X.max() for part in parts)) + 1, len(task.targets))


class Peer(ABC):
    """One classifier under test."""

    name: ClassVar[str]
    sees: ClassVar[str]
    """Its features, in a word or two."""
    package: ClassVar[tuple[str, str]] = ("sklearn", "scikit-learn")
    """The module it needs, and what pip calls it."""
    choices: ClassVar[Sequence[Choice]] = ({},)
    most: ClassVar[int | None] = None
    """The most examples it is given, for one too slow for all."""
    probabilistic: ClassVar[bool] = False
    """Whether its scores are logarithms of probabilities."""
    online: ClassVar[bool] = False
    forgets: ClassVar[bool] = False

    @abstractmethod
    def fit(self, data: Data, choice: Choice) -> None:
        """Learn the training part with these settings; the validation part may decide when to stop."""

    @abstractmethod
    def scores(self, X: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return one score for each context and label."""

    @abstractmethod
    def answers(self, X: NDArray[np.int64]) -> NDArray[Any]:
        """Return the label of each context, in the way that the library offers for it."""

    @abstractmethod
    def state_bytes(self) -> int:
        """Return the bytes that must be kept to answer."""
