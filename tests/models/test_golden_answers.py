"""Models made of fixed inputs answer as they always did, to the bit (:mod:`golden_answers`)."""

from __future__ import annotations

import json

import numpy as np
import pytest

from golden_answers import RECIPES, RECORDED, answers, arithmetic

RECORD = json.loads(RECORDED.read_text("utf-8"))
EXPECTED = RECORD["answers"]


def test_every_recipe_is_recorded() -> None:
    assert set(EXPECTED) == set(RECIPES)
    assert len(EXPECTED) >= 30


@pytest.mark.filterwarnings("ignore:Rows were forgotten")
@pytest.mark.parametrize("name", RECIPES)
def test_a_model_answers_to_the_bit_as_it_did(name: str) -> None:
    found = answers(RECIPES[name]())
    if arithmetic() == RECORD["arithmetic"]:
        assert found == EXPECTED[name]
    else:  # NumPy's exponentials and BLAS have other last bits here
        told, expected = ([float.fromhex(value) for value in values] for values in (found, EXPECTED[name]))
        np.testing.assert_allclose(told, expected, rtol=1e-9)
