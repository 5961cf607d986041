"""A model whose layout is settled before its first example."""

from __future__ import annotations

from typing import Any

import pytest

from hammemo import MemoryClassifier, load, save
from hammemo.memories import Exact, Gaussian, Hashed


@pytest.mark.parametrize("memory", ["auto", Exact(), Hashed(16, 4), Gaussian(8)], ids=repr)
@pytest.mark.parametrize("labels", [["x", "y"], [1, 2], [True, False]], ids=str)
def test_a_model_that_was_opened_learns_as_one_that_was_not(memory: Any, labels: list[Any], tmp_path: Any) -> None:
    X = [["a", 1], ["b", 2]]
    opened = MemoryClassifier(memory=memory, vote="sum").open(2)
    assert opened.classes_.tolist() == []
    save(opened, tmp_path / "model")
    for model in (opened, load(tmp_path / "model")):
        model.partial_fit(X, labels)
        fresh = MemoryClassifier(memory=memory, vote="sum").partial_fit(X, labels)
        assert model.memory_.state_bytes() == fresh.memory_.state_bytes()
        assert model.predict(X).tolist() == fresh.predict(X).tolist() == labels


def test_opening_forgets_everything() -> None:
    model = MemoryClassifier().fit([["a", "b", "c"]] * 2, ["x", "y"]).open(2)
    assert (model.classes_.tolist(), model.n_features_in_) == ([], 2)
    with pytest.raises(ValueError, match="at least one token"):
        model.open(0)
    assert model.n_features_in_ == 2
