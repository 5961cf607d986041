"""Between `forget` and `refit`, a file bounds forgotten numbers but does not give them, and hides forgotten names."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from hammemo import MemoryClassifier, load, save
from hammemo._arrays.round_numbers import round_numbers
from hammemo.features.cells import TreeCells
from hammemo.features.cells.column_codes import LEAST_ROWS, MAX_CUTS, quantile_cuts, split_names
from hammemo.tokens.contexts import Contexts
from hammemo.tokens.hashing import NAME_BYTES, name_hashes

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

FINITE = st.floats(allow_nan=False, allow_infinity=False)
PERSON = "Zacharias Secret"


def roundness(number: float) -> Fraction:
    """Return the highest power of two that divides a number other than zero."""
    found = Fraction(number)
    return Fraction(found.numerator & -found.numerator, found.denominator)


@given(FINITE, FINITE)
@example(-0.0, 5e-324)
@example(-5e-324, -0.0)
@example(1.0, float(np.nextafter(1.0, 2.0)))
@example(-float(np.nextafter(1.0, 2.0)), -1.0)
@example(-1.7976931348623157e308, -1.0)
@example(2.0**53, 2.0**53 + 2)
def test_a_cut_is_the_roundest_number_where_it_may_lie(below: float, upto: float) -> None:
    assume(below < upto)
    (found,) = round_numbers(np.array([below]), np.array([upto])).tolist()
    assert below < found <= upto
    if found == 0.0 or below < 0 <= upto:
        assert found == 0.0
        return
    rounder = 2 * roundness(found)
    assert Fraction(upto) // rounder * rounder <= Fraction(below)  # no multiple of it lies there


@given(st.lists(st.integers(-30, 30), min_size=1, max_size=200), st.integers(1, 20), st.integers(2, 12))
def test_cuts_of_a_column_do_not_depend_on_order_or_repetition(values: list[int], most: int, least: int) -> None:
    array = np.array(values, np.float64)
    distinct, counts = np.unique(array, return_counts=True)
    cuts = quantile_cuts(distinct, counts, most, least)
    assert np.array_equal(cuts, quantile_cuts(array[::-1], np.ones(len(array), np.int64), most, least))
    assert len(cuts) <= most
    assert (cuts == np.round(cuts)).all()  # between whole numbers the roundest number is whole
    assert len(np.unique(np.searchsorted(cuts, distinct, side="right"))) == len(cuts) + 1


@pytest.mark.parametrize("n", [50, 200, 1000])
def test_cuts_rarely_tell_two_values_of_a_range_apart(n: int) -> None:
    rng, same, ones = np.random.default_rng(n), 0, np.ones(n + 1, np.int64)
    for _ in range(100):
        values = np.append(rng.normal(size=n), rng.normal())
        cuts = quantile_cuts(values, ones, MAX_CUTS, LEAST_ROWS)
        values[-1] = other_value(cuts, values[-1], rng)
        same += np.array_equal(cuts, quantile_cuts(values, ones, MAX_CUTS, LEAST_ROWS))
    assert same >= 90


def other_value(cuts: NDArray[np.float64], value: float, rng: np.random.Generator) -> float:
    """Return another value between the same two cuts."""
    place = int(np.searchsorted(cuts, value, side="right"))
    low = cuts[place - 1] if place else value - 1
    return float(rng.uniform(low, cuts[place] if place < len(cuts) else value + 1))


def test_a_forgotten_number_and_another_one_between_the_same_cuts_leave_the_same_file(tmp_path: Path) -> None:
    same, n = 0, 80
    for seed in range(10):
        rng = np.random.default_rng(seed)
        X = pd.DataFrame({"salary": rng.normal(50_000, 9_000, n), "town": rng.choice(["Bonn", "Köln"], n)})
        y = (X.salary + 9_000 * (X.town == "Bonn") + rng.normal(0, 4_000, n) > 54_000).to_numpy()
        model, other = MemoryClassifier().fit(X, y), X.copy()
        assert isinstance(model.state.layout.cells, TreeCells)
        other.loc[n - 1, "salary"] = other_value(model.state.layout.cells.codes.cuts[0], float(X.salary[n - 1]), rng)
        models = model.forget(X[-1:], y[-1:]), MemoryClassifier().fit(other, y).forget(other[-1:], y[-1:])
        for name, one in zip("ab", models, strict=True):
            save(one, tmp_path / name, force=True)
        same += (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert same >= 9


def people(n: int = 200) -> tuple[pd.DataFrame, NDArray[Any]]:
    """Return rows of which the first five are of one person."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"salary": rng.normal(50_000, 9_000, n), "name": rng.choice(["Ann", "Bob", "Cy"], n)})
    X.loc[:4, "name"] = PERSON
    X["town"] = rng.choice(["Bonn", "Köln"], n)
    return X, (X.salary + 9_000 * (X.name == "Bob") > 52_000).to_numpy()


@pytest.mark.parametrize("keep", [True, 100])
def test_a_forgotten_name_is_not_in_the_file(keep: bool | int, tmp_path: Path) -> None:
    X, y = people()
    model = MemoryClassifier(keep=keep).fit(X, y)
    save(model, tmp_path / "full")
    assert b"Ann" in (tmp_path / "full").read_bytes()
    model.forget(X[:5], y[:5])
    save(model, tmp_path / "forgotten")
    assert PERSON.encode() not in (tmp_path / "forgotten").read_bytes()
    save(model.refit(), tmp_path / "again")
    assert PERSON.encode() not in (tmp_path / "again").read_bytes()


def test_single_queries_and_batches_find_the_same_names(tmp_path: Path) -> None:
    X, y = people()
    model = MemoryClassifier().fit(X, y).forget(X[:5], y[:5])
    asked = X[:12].assign(name=["Ann", "Bob", PERSON, "stranger"] * 3)
    save(model, tmp_path / "model")
    for one in (model.compile(), load(tmp_path / "model").compile()):
        answers = one.predict_proba(asked)
        for row, answer in zip(asked.itertuples(index=False), answers, strict=True):
            assert np.array_equal(one.probabilities_of(list(row)), answer)


def test_the_bytes_of_names_are_those_of_their_hashes() -> None:
    X, y = people()
    codes = MemoryClassifier().fit(X, y).state.layout.cells.codes  # type: ignore[union-attr]
    assert codes is not None
    names = Contexts(np.array([["Ann"], [PERSON], ["stranger"]], object)).vocabulary
    assert [codes.name_code(0, name) for name in names.tolist()] == codes.name_codes(names)[:, 0].tolist()
    assert sorted(codes.name_codes(names)[:, 0].tolist())[0] == 0
    known = [bytes(one) for one in codes.names[0]]
    assert known == sorted(name_hashes(["Ann", "Bob", "Cy", PERSON], codes.name_key))


def test_hashes_of_names_from_outside_are_checked() -> None:
    hashes = np.frombuffer(b"".join(sorted(name_hashes("abc", bytes(16)))), np.uint8).reshape(-1, NAME_BYTES)
    assert [len(known) for known in split_names(hashes, [1, 0, 2])] == [1, 0, 2]
    for wrong, lengths in (
        (hashes, [2]),
        (hashes[::-1], [3]),
        (hashes[[0, 0]], [2]),
        (np.tile(hashes, (85, 1)), [255]),
    ):
        with pytest.raises(ValueError, match="names"):
            split_names(wrong, lengths)


def test_a_graph_refuses_names_that_only_trees_remember() -> None:
    X, y = people()
    model = MemoryClassifier().fit(X, y)
    assert PERSON in model.compile().graph(None).rows.tokens.tolist()  # type: ignore[union-attr]
    model.forget(X[:5], y[:5])
    with pytest.raises(ValueError, match=r"call refit\(\) first"):
        model.compile().graph(None)
    assert PERSON not in model.refit().compile().graph(None).rows.tokens.tolist()  # type: ignore[union-attr]


@pytest.mark.parametrize("seed", range(3))
def test_noise_does_not_turn_training_rows_against_their_labels(seed: int) -> None:
    rng = np.random.default_rng(seed)
    X, y = pd.DataFrame(rng.normal(size=(200, 10))).add_prefix("x"), rng.integers(0, 2, 200)
    model = MemoryClassifier().fit(X, y)
    assert (model.predict(X) == y).mean() >= max(y.mean(), 1 - y.mean()) - 0.02
