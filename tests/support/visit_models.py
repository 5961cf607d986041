"""Models of visits to a shop, small ones, and all of what they hold as bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import pytest

from hammemo import MemoryClassifier, save
from hammemo.kernels import Bag, Suffixes
from hammemo.votes import Mixture

if TYPE_CHECKING:
    from pathlib import Path

    from hammemo_server.models.served import ServedModel

Visits = list[list[Any]]


def visits(n: int = 120, seed: int = 0) -> Visits:
    """Return visits of 1 to 6 items."""
    rng = np.random.default_rng(seed)
    walks = rng.integers(0, 12, (n, 1)) + np.cumsum(rng.integers(0, 3, (n, 6)), axis=1)
    return [walk[: rng.integers(1, 7)].tolist() for walk in walks]


def learn_visits(documents: Visits, short: Literal["drop", "pad"] = "pad") -> MemoryClassifier:
    """Return a model of visits, with weights and a kept sample.

    It reads 3 items, or 2 where beginnings are dropped.
    """
    h = 3 if short == "pad" else 2
    model = MemoryClassifier(Suffixes(1) + Bag(h), vote=Mixture())
    return model.fit_stream(documents, h=h, short=short)


class Contents(NamedTuple):
    """Everything that an edit may change."""

    memory: bytes
    sample: dict[str, bytes] | None
    """The arrays of the kept sample."""
    weights: dict[str, bytes]
    """The arrays of the vote."""
    labels: list[Any]


def list_contents(clf: MemoryClassifier | None) -> Contents:
    """Return everything that an edit may change."""
    assert clf is not None
    sample = None
    if clf.state.store is not None:
        sample = {name: array.tobytes() for name, array in clf.state.store.pack().items()}
    weights = {name: array.tobytes() for name, array in clf.vote_.state().items()}
    return Contents(clf.memory_.state_bytes(), sample, weights, clf.classes_.tolist())


def list_published(model: ServedModel) -> Contents:
    """Return what the published version of a served model holds."""
    return list_contents(model.state().model)


@pytest.fixture
def visits_file(tmp_path: Path) -> Path:
    """Return the file of a model of visits."""
    save(learn_visits(visits()), tmp_path / "visits.model")
    return tmp_path / "visits.model"
