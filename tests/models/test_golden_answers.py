"""Models made of fixed inputs are and answer as they always did, to the bit (:mod:`golden_answers`)."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from golden_answers import RECIPES, RECORDED, hash_arithmetic, record

RECORD = json.loads(RECORDED.read_text("utf-8"))
EXPECTED: dict[str, dict[str, Any]] = RECORD["models"]


def test_every_recipe_is_recorded() -> None:
    assert set(EXPECTED) == set(RECIPES)
    assert len(EXPECTED) >= 130


def test_a_compiled_regressor_answers_as_the_model_does() -> None:
    assert not [name for name, expected in EXPECTED.items() if "compiled" in expected]
    assert not [name for name, expected in EXPECTED.items() if "compiled intervals" in expected]


def test_intervals_of_every_regressor_with_rows_are_recorded() -> None:
    regressors = [name for name in EXPECTED if name.startswith("numbers, ") and EXPECTED[name]["answers"]]
    assert len(regressors) >= 30
    assert all(len(EXPECTED[name]["intervals"]) == 2 * len(EXPECTED[name]["answers"]) for name in regressors)


@pytest.mark.filterwarnings("ignore:Rows were forgotten")
@pytest.mark.filterwarnings("ignore:The two models have different fitted weights")
@pytest.mark.filterwarnings("ignore:.*held names when")
@pytest.mark.parametrize("name", RECIPES)
def test_a_model_is_and_answers_to_the_bit_as_it_did(name: str) -> None:
    recorded = record(name)
    if hash_arithmetic() == RECORD["arithmetic"]:
        assert recorded == EXPECTED[name]
        return
    # NumPy's exponentials and BLAS have other last bits here.
    for part in ("answers", "intervals"):
        values = [float.fromhex(value) for value in recorded.get(part, [])]
        expected = [float.fromhex(value) for value in EXPECTED[name].get(part, [])]
        np.testing.assert_allclose(values, expected, rtol=1e-9)
