"""Models of visits to a shop, small ones, and all of what they hold as bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

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


def learnt(documents: Visits, short: Literal["drop", "pad"] = "pad") -> MemoryClassifier:
    """Return a model of visits, with weights and a kept sample; it reads 3 items, or 2 where beginnings are dropped."""
    h = 3 if short == "pad" else 2
    return MemoryClassifier(Suffixes(1) + Bag(h), vote=Mixture()).fit_stream(documents, h=h, short=short)


def held(clf: MemoryClassifier | None) -> tuple[Any, ...]:
    """Return everything that an edit may change: the state, the kept sample and the weights, as bytes."""
    assert clf is not None
    sample = clf.state.store
    kept = None if sample is None else {name: array.tobytes() for name, array in sample.pack().items()}
    fitted = {name: array.tobytes() for name, array in clf.vote_.state().items()}
    return clf.memory_.state_bytes(), kept, fitted, clf.classes_.tolist()


def now(model: ServedModel) -> tuple[Any, ...]:
    """Return the same of what is published of a served model."""
    return held(model.state().model)


@pytest.fixture
def uploaded(tmp_path: Path) -> Path:
    """Return the file of a model of visits."""
    save(learnt(visits()), tmp_path / "visits.model")
    return tmp_path / "visits.model"
