"""The unit of targets: chosen when they first differ, again when it does not fit, and by the kept rows at refit."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hammemo import MemoryRegressor, NotStoredError
from hammemo.edits.take_choice import take_choice
from hammemo.files.contents import file_bytes, from_bytes
from hammemo.tasks.numbers.layout import NO_UNIT, TargetTooFarError, extract_targets, round_targets


def units(model: Any) -> int:
    """Return how many units the largest distance of a held target has."""
    state = model.state
    targets = state.layout.round_targets(extract_targets(state.rows.examples()))
    return int(np.abs(targets).max())


def test_rows_learned_one_by_one_from_nothing_are_answered() -> None:
    model: Any = MemoryRegressor()
    for i in range(500):
        model.learn_one([float(i % 7)], 0.4 * (i % 7) / 7)
    assert abs(model.predict([[6.0]])[0] - 0.343) < 0.01
    assert model.state.chosen_at == 256  # 1, 2, 4 … 128, and once more; then nothing is chosen
    fresh = MemoryRegressor().fit([[float(i % 7)] for i in range(500)], [0.4 * (i % 7) / 7 for i in range(500)])
    assert file_bytes(model.refit()) == file_bytes(fresh)


@pytest.mark.parametrize("choose", [True, False])
@pytest.mark.parametrize("keep", ["auto", False])
def test_targets_after_a_quiet_start_are_not_rounded(keep: Any, choose: bool) -> None:
    model: Any = MemoryRegressor(keep=keep).fit(np.arange(100.0)[:, None], np.zeros(100))
    assert model.state.layout.exponent == NO_UNIT
    assert model.predict([[50.0]])[0] == 0.0
    assert np.array_equal(model.predict_interval([[50.0]]), [[0.0, 0.0]])
    X = np.arange(90.0)[:, None] + 1000
    model.partial_fit(X, np.full(90, 0.45), choose=choose)
    gram = model.state.memory.gram
    mean = model.state.layout.center + np.ldexp(gram.target_sum / (1024 * gram.n), -model.state.layout.exponent)
    assert abs(mean - 90 * 0.45 / 190) < 1e-6
    if keep == "auto" and choose:
        assert abs(model.predict([[1040.0]])[0] - 0.45) < 0.01
    assert model.predict([[1040.0]])[0] > 0.1
    model.forget(X, np.full(90, 0.45))
    assert model.state.memory.gram.squares == 0
    if keep == "auto":
        fresh = MemoryRegressor().fit(np.arange(100.0)[:, None], np.zeros(100))
        assert file_bytes(model.refit()) == file_bytes(fresh)


def test_a_tiny_spread_after_two_equal_targets() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=300)
    y = 1e9 + 1e-3 * x
    model: Any = MemoryRegressor().fit([[0.0], [0.0]], [1e9, 1e9])
    for value, target in zip(x.tolist(), y.tolist(), strict=True):
        model.learn_one([value], target)
    assert units(model) > 2**20
    errors = model.predict(x[:, None]) - y
    assert np.abs(errors).mean() < 0.2e-3
    X = np.append([0.0, 0.0], x)[:, None]
    fresh = MemoryRegressor().fit(X, np.append([1e9, 1e9], y))
    assert file_bytes(model.refit()) == file_bytes(fresh)


@pytest.mark.parametrize("one_by_one", [True, False])
def test_a_spread_that_grows_2_to_the_12_times_is_chosen_again_by(one_by_one: bool) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 2))
    y = X[:, 0] * np.where(np.arange(400) < 300, 1.0, 2.0**12)
    model: Any = MemoryRegressor().fit(X[:300], y[:300])
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # 2^12 times: enough units are left to the others
        if one_by_one:
            for row, target in zip(X[300:].tolist(), y[300:].tolist(), strict=True):
                model.learn_one(row, target)
        else:
            model.partial_fit(X[300:], y[300:])
    assert units(model) >= 2**25
    assert file_bytes(model.refit()) == file_bytes(MemoryRegressor().fit(X, y))


def test_one_target_that_is_very_far_is_learned_with_a_warning_and_forgotten_without_a_trace() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    y = X[:, 0]
    model = MemoryRegressor().fit(X, y)
    before = file_bytes(model)
    with pytest.warns(UserWarning, match=r"The target 1e\+12 is more than 65,536 times .* forget this row"):
        model.learn_one([0.5, 0.5], 1e12)
    model.forget_one([0.5, 0.5], 1e12)
    assert file_bytes(model.refit()) == before
    with pytest.warns(UserWarning, match=r"The target 1e\+12 is .* times as far from the median as nine of ten"):
        MemoryRegressor().fit(np.append(X, [[0.5, 0.5]], axis=0), np.append(y, 1e12))


def test_a_far_target_is_refused_where_nothing_may_be_chosen() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 2))
    y = X[:, 0]
    for keep in ("auto", False, 40):
        model = MemoryRegressor(keep=keep).fit(X, y)
        before = model.digest()
        with pytest.raises(ValueError, match=r"call partial_fit without choose=False\. Otherwise leave out this row"):
            model.partial_fit([[0.0, 0.0]], [1e6], choose=False)
        if keep != "auto":
            with pytest.raises(ValueError, match="more than 1024 times as far"):
                model.learn_one([0.0, 0.0], 1e6)
        with pytest.raises(NotStoredError):
            model.forget([[0.0, 0.0]], [1e6])
        assert model.digest() == before


def test_a_unit_that_was_chosen_by_rows_that_have_gone_is_chosen_again() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 2))
    y = np.where(np.arange(500) < 300, 1e12, 1.0) * X[:, 0]
    for one_by_one in (True, False):
        with pytest.warns(UserWarning, match="sizes"):
            model: Any = MemoryRegressor().fit(X[:450], y[:450])
        model.forget(X[:300], y[:300])
        assert units(model) < 100  # until rows are learned
        if one_by_one:
            model.learn_one(X[450].tolist(), y[450])
        else:
            model.partial_fit(X[450:], y[450:])
        assert units(model) >= 2**25
        assert np.abs(model.predict(X[300:450]) - y[300:450]).mean() < 0.2


@pytest.mark.filterwarnings("ignore:The targets have very different sizes")
def test_merges_keep_a_unit() -> None:
    X = np.arange(60.0)[:, None]
    y = np.sin(X[:, 0])
    quiet: Any = MemoryRegressor().fit(X, np.full(60, 0.25))
    live: Any = MemoryRegressor().fit(X, y)
    far: Any = MemoryRegressor().fit(X, 1e9 * y)
    empty: Any = MemoryRegressor().fit(X[:1], y[:1]).forget(X[:1], y[:1]).refit()
    for one, other, targets in (
        (quiet, live, [np.full(60, 0.25), y]),
        (live, quiet, [y, np.full(60, 0.25)]),
        (live, far, [y, 1e9 * y]),
        (far, live, [y, 1e9 * y]),
        (empty, live, [y]),
        (live, empty, [y]),
    ):
        both: Any = one + other
        assert units(both) >= 2**25
        fresh = MemoryRegressor().fit(np.concatenate([X] * len(targets)), np.concatenate(targets))
        assert file_bytes(both.refit()) == file_bytes(fresh)


def test_a_given_layout_without_a_unit_takes_one() -> None:
    X = np.arange(60.0)[:, None]
    model: Any = MemoryRegressor().fit(X, np.zeros(60)).empty_like().partial_fit(X, 0.01 * X[:, 0])
    assert units(model) >= 2**25
    assert model.state.pinned
    assert abs(model.predict([[30.0]])[0] - 0.3) < 0.1


def test_a_choice_that_was_made_beside_edits_is_outdated_by_a_target_that_it_does_not_fit() -> None:
    X = np.arange(60.0)[:, None]
    quiet: Any = MemoryRegressor().fit(X, np.zeros(60))
    model: Any = quiet.snapshot().partial_fit(X, 0.01 * X[:, 0], choose=False)
    after: Any = take_choice(model.settings(), model.state, quiet.state)
    assert after.layout.exponent != NO_UNIT
    assert after.layout.digest == model.refit().state.layout.digest


def test_kept_rows_that_are_equal_among_others_that_are_not() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 2))
    y = (rng.random(400) < 0.02) * 0.3
    n_constant = 0
    for seed in range(5):
        model: Any = MemoryRegressor(keep=20, random_state=seed).fit(X, y)
        assert model.state.layout.has_unit
        assert abs(model.predict(X).mean() - y.mean()) < 0.03
        kept = extract_targets(model.state.rows.examples())
        n_constant += bool((kept == kept[0]).all())
        assert (model.predict(X) > 0).any()
    assert n_constant > 0


def test_the_smallest_and_the_largest_differences() -> None:
    with pytest.raises(TargetTooFarError):
        round_targets(np.array([5e-324]), 0.0, NO_UNIT)
    with pytest.raises(TargetTooFarError):
        round_targets(np.array([1e300]), 0.0, NO_UNIT)
    assert round_targets(np.array([1e300]), 1e300, NO_UNIT).tolist() == [0]
    for small, large in ((5e-324, 1e-323), (0.0, 4e307)):
        model: Any = MemoryRegressor().fit([[0.0]], [small]).partial_fit([[1.0]], [large])
        assert file_bytes(model.refit()) == file_bytes(MemoryRegressor().fit([[0.0], [1.0]], [small, large]))
        assert from_bytes(file_bytes(model)).digest() == model.digest()  # type: ignore[union-attr]


SCALES = (0.0, 0.0, 1e-3, 1.0, 1e5, 1e12)


@settings(max_examples=25, deadline=None)
@pytest.mark.examples(8)
@given(st.integers(0, 2**32 - 1))
def test_after_any_history_of_spreads_refit_is_fit_of_the_rows_that_are_left(seed: int) -> None:
    rng = np.random.default_rng(seed)
    model: Any = MemoryRegressor()
    held: list[tuple[list[float], float]] = []
    center = float(rng.choice([0.0, 1e9, -3.0]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        for _ in range(rng.integers(2, 7)):
            n = int(rng.integers(1, 25))
            X = rng.integers(0, 9, (n, 2)).astype(float)
            y = center + rng.choice(SCALES) * rng.integers(-4, 5, n)
            rows = list(zip(X.tolist(), y.tolist(), strict=True))
            step = rng.integers(5)
            if step == 0 or not held:
                for row, target in rows:
                    model.learn_one(row, target)
                held += rows
            elif step == 1:
                model.partial_fit(X, y, choose=True)
                held += rows
            elif step == 2:
                try:
                    model.partial_fit(X, y, choose=False)
                except TargetTooFarError:
                    continue
                held += rows
            elif step == 3:
                model = model + MemoryRegressor().fit(X, y)
                held += rows
            else:
                some = set(rng.permutation(len(held))[: rng.integers(1, len(held) + 1)].tolist())
                gone = [held[i] for i in some]
                model.forget([row for row, _ in gone], [target for _, target in gone])
                held = [row for i, row in enumerate(held) if i not in some]
        if not held:
            model.learn_one([1.0, 2.0], center)
            held.append(([1.0, 2.0], center))
        again: Any = from_bytes(file_bytes(model))
        assert again.digest() == model.digest()
        fresh = MemoryRegressor().fit([row for row, _ in held], [target for _, target in held])
    assert file_bytes(model.refit()) == file_bytes(fresh)
