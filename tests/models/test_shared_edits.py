"""Edits that are the same for labels and for numbers: each test runs for both estimators."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from hammemo import MemoryClassifier, MemoryRegressor

if TYPE_CHECKING:
    from hammemo.estimators.learners import Learner

pytestmark = pytest.mark.quick

BOTH = pytest.mark.parametrize("make", [MemoryClassifier, MemoryRegressor])

ROWS: list[list[Any]] = [["abc"[i % 3], i / 4, i * 7 % 13 + 0.5] for i in range(120)]
TARGETS = [i % 2 + 2 * (i % 13 > 6) for i in range(120)]


def fitted(make: type[Learner], **parameters: Any) -> Learner:
    return make(**parameters).fit(ROWS, TARGETS)


@BOTH
def test_an_empty_copy_has_no_position(make: type[Learner]) -> None:
    model = fitted(make).apply(learn=(ROWS[:2], TARGETS[:2]), position="0/16B3748", choose=False)
    assert model.position_ == "0/16B3748"
    assert model.empty_like().position_ is None


@BOTH
@pytest.mark.parametrize("is_alike", [True, False])
def test_a_sum_knows_the_types_of_tokens_of_both_models(make: type[Learner], is_alike: bool) -> None:
    numbers_as_names = [[i % 5, i / 4] for i in range(80)]
    strings = [["abc"[i % 3], i / 4] for i in range(80)]
    first = make(numeric=[1]).fit(numbers_as_names, TARGETS[:80])
    second = first.empty_like() if is_alike else make(numeric=[1])
    second = second.partial_fit(strings, TARGETS[:80])
    both = first.merge(second)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        both.predict(strings[:3])


@BOTH
def test_weights_fitted_again_under_a_given_layout_depend_on_no_forgotten_row(make: type[Learner]) -> None:
    model = fitted(make).empty_like().partial_fit(ROWS, TARGETS)
    model.forget(ROWS[:30], TARGETS[:30])
    was_stale = model.state.stale
    model.refit("weights")
    assert (was_stale, model.state.stale) == (True, False)
    assert model.digest() == model.snapshot().refit().digest()


@BOTH
def test_weights_fitted_again_under_a_chosen_layout_still_depend_on_forgotten_rows(make: type[Learner]) -> None:
    model = fitted(make).forget(ROWS[:30], TARGETS[:30]).refit("weights")
    assert model.state.stale


@BOTH
def test_a_sample_of_rows_is_enough_to_refit_a_given_layout(make: type[Learner]) -> None:
    model = fitted(make, keep=50).empty_like().partial_fit(ROWS, TARGETS)
    model.forget(ROWS[:30], TARGETS[:30]).refit()
    assert not model.state.stale


@BOTH
@pytest.mark.parametrize("what", ["all", "weights"])
def test_no_weights_are_left_of_rows_that_are_all_forgotten(make: type[Learner], what: Any) -> None:
    empty = fitted(make).empty_like()
    other = [[*row[:2], 50 * row[2]] for row in ROWS]
    model = empty.snapshot().partial_fit(other, np.flip(TARGETS)).refit()
    model.forget(other, np.flip(TARGETS)).refit(what)
    assert model.digest() == empty.snapshot().refit(what).digest()
