"""Models of wide tables on a server: uploaded, edited and refitted as in a process of one's own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from hammemo import MemoryClassifier, MemoryRegressor, load, save
from hammemo.client import Client
from hammemo.tokens.packed_rows import MOST_PLAIN_COLUMNS
from running_servers import in_thread

if TYPE_CHECKING:
    from pathlib import Path

N_COLUMNS = MOST_PLAIN_COLUMNS + 20


@pytest.mark.parametrize("estimator", [MemoryClassifier, MemoryRegressor])
def test_an_uploaded_wide_model_is_that_of_the_remaining_rows(estimator: Any, tmp_path: Path) -> None:
    table = np.random.default_rng(0).normal(size=(60, N_COLUMNS)).round(3)
    targets = table[:, 5] * 2
    if estimator is MemoryClassifier:
        targets = np.where(targets > 0, "yes", "no")
    save(estimator().fit(table[:50], targets[:50]), tmp_path / "first.model")
    with in_thread(tmp_path / "models") as server, Client(server.url) as client:
        client.upload("wide", tmp_path / "first.model")
        client.learn("wide", table[50:].tolist(), targets[50:].tolist())
        client.forget("wide", table[:3].tolist(), targets[:3].tolist())
        client.refit("wide")
        answers = client.predict("wide", table[:5].tolist())
        client.download("wide", tmp_path / "last.model")
    fresh = estimator().fit(table[3:], targets[3:])
    assert answers == fresh.predict(table[:5]).tolist()
    parts = load(tmp_path / "last.model").digest(parts=True)
    # labels of JSON have the type object, and those of the table <U3
    differences = {name for name, part in fresh.digest(parts=True).items() if parts[name] != part}
    assert differences <= {"declared"}
