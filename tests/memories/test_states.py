"""The canonical states of fixed models are those that were recorded when the format was new."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fixed_states import MEMORIES, RECORDED, facts, names

EXPECTED: dict[str, Any] = json.loads(RECORDED.read_text("utf-8"))


def test_every_fixed_model_is_recorded() -> None:
    assert list(EXPECTED) == ["; ".join(name) for name in names()]


def test_different_models_have_different_states() -> None:
    """A digest that many models share would say little; few histories lead to one state."""
    digests = [value for value in EXPECTED.values() if isinstance(value, str)]
    assert len(set(digests)) > 0.8 * len(digests)


@pytest.mark.parametrize("memory", MEMORIES)
def test_states_are_the_recorded_ones(memory: str) -> None:
    for name in names():
        if name[0] != memory:
            continue
        found, expected = facts(*name), EXPECTED["; ".join(name)]
        if isinstance(expected, str):
            assert found == expected, name
            continue
        assert found.keys() == expected.keys(), name
        assert found["whole"] == expected["whole"], name
        for array in expected.keys() - {"whole"}:
            assert found[array] == pytest.approx(expected[array], rel=1e-4, abs=1e-4), (name, array)
