"""The paper's memory on a device of torch, equal to NumPy: within float32 rounding, or to the bit with exact codes."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

from hammemo import MeMoClassifier, MemoryClassifier
from hammemo.files.contents import file_bytes, from_bytes
from hammemo.memories import Gaussian

ROWS = np.array([[1, 2, 3], [1, 2, 4], [5, 2, 3]])
LABELS = np.array(["a", "b", "a"])


@given(seed=st.integers(0, 2**32 - 1), exact=st.booleans(), tied=st.booleans())
@settings(max_examples=15, deadline=None)
def test_torch_learns_forgets_and_answers_as_numpy(seed: int, exact: bool, tied: bool) -> None:
    pytest.importorskip("torch")
    rng = np.random.default_rng(seed)
    h, n = int(rng.integers(1, 6)), int(rng.integers(1, 120))
    X, y = rng.integers(0, 9, (n, h)), rng.integers(0, 5, n)
    parameters: Any = {"d": int(rng.integers(1, 80)), "exact": exact, "tied": tied, "random_state": seed}
    plain, placed = (MeMoClassifier(**parameters, device=device).fit(X, y) for device in (None, "cpu"))
    asked = np.concatenate([X, rng.integers(0, 30, (7, h))])  # tokens that were never learnt, too
    for _ in range(2):
        norm = np.linalg.norm
        assert norm(placed.memory_.C - plain.memory_.C) <= 1e-5 * norm(plain.memory_.C)
        largest = norm(plain.encode(asked), axis=1).max() * norm(plain.memory_.C)
        assert np.abs(placed.class_scores(asked) - plain.class_scores(asked)).max() <= 1e-5 * max(largest, 1)
        if exact:
            assert placed.memory_.C.tobytes() == plain.memory_.C.tobytes()
            assert placed.digest() == plain.digest()
        plain, placed = plain.partial_fit(X[:3], y[:3]), placed.partial_fit(X[:3], y[:3])
        plain, placed = plain.forget(X[:2], y[:2]), placed.forget(X[:2], y[:2])


def test_tuples_and_missing_values_are_answered_on_a_device() -> None:
    pytest.importorskip("torch")
    rows = [["a", None, "c"], ["a", "b", None], [None, "b", "c"]]
    plain, placed = (
        MemoryClassifier("pairs", Gaussian(64, device=device), "sum", missing="empty").fit(rows, LABELS)
        for device in (None, "cpu")
    )
    np.testing.assert_allclose(placed.class_scores(rows), plain.class_scores(rows), rtol=1e-4, atol=1e-4)
    assert placed.predict(rows).tolist() == plain.predict(rows).tolist()


def test_a_device_is_neither_in_files_nor_in_digests_and_models_of_two_devices_are_added() -> None:
    pytest.importorskip("torch")
    plain, placed = (MeMoClassifier(64, exact=True, device=device).fit(ROWS, LABELS) for device in (None, "cpu"))
    assert file_bytes(placed) == file_bytes(plain)
    loaded: Any = from_bytes(file_bytes(placed))
    assert loaded.device is None
    assert (placed + plain).digest() == (plain + plain).digest()
    assert clone(placed).device == "cpu"


def test_a_missing_torch_and_a_missing_device_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    with pytest.raises(ValueError, match=r"device='abacus' cannot be used by torch here .*leave out device="):
        MeMoClassifier(64, device="abacus").fit(ROWS, LABELS)
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ModuleNotFoundError, match=r"device='cuda' needs torch: pip install 'hammemo\[torch\]'"):
        MeMoClassifier(64, device="cuda").fit(ROWS, LABELS)
