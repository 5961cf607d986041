"""Sets of tuples against Python's sorted sets."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hammemo._arrays.tuple_sets import TupleSet

pytestmark = pytest.mark.quick

randomly = settings(max_examples=60, deadline=None)
Row = tuple[int, ...]


def array(rows: list[Row], length: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    return np.array(rows, np.int64).reshape(len(rows), length)


def complete(rows: list[Row]) -> list[Row]:
    return sorted({row for row in rows if min(row) >= 0})


def indices(rows: list[Row], held: list[Row]) -> list[int]:
    place = {row: rank for rank, row in enumerate(held)}
    return [place.get(row, -1) for row in rows]


def row_lists(n: int, length: int) -> st.SearchStrategy[list[Row]]:
    entries = st.integers(-1, min(n, 3) - 1) | st.integers(max(n - 2, 0), n - 1) | st.integers(0, n - 1)
    return st.lists(st.tuples(*[entries] * length), max_size=25)


@pytest.mark.parametrize("n", [1, 3, 2**20])
@pytest.mark.parametrize("length", [1, 2, 3, 4, 5])
@given(data=st.data())
@randomly
def test_a_tuple_set_is_the_sorted_set_of_the_complete_rows(length: int, n: int, data: st.DataObject) -> None:
    rows, asked = data.draw(row_lists(n, length)), data.draw(row_lists(n, length))
    tuples, index = TupleSet.collect(array(rows, length), n)
    held = complete(rows)
    assert len(tuples) == len(held)
    assert [tuple(row) for row in tuples.rows().tolist()] == held
    assert tuples.rows().shape == (len(held), length)
    assert index.tolist() == indices(rows, held)
    assert tuples.find(array(rows + asked, length)).tolist() == indices(rows + asked, held)


@pytest.mark.parametrize("n", [2, 2**20])
def test_many_long_tuples_of_many_types_do_not_collide(n: int) -> None:
    rng = np.random.default_rng(0)
    rows = rng.integers(0, n, (2000, 5))[rng.integers(0, 2000, 3000)]
    asked = np.concatenate([rows, rng.integers(-1, n, (500, 5))])
    tuples, index = TupleSet.collect(rows, n)
    held = complete([tuple(row) for row in rows.tolist()])
    assert [tuple(row) for row in tuples.rows().tolist()] == held
    assert index.tolist() == indices([tuple(row) for row in rows.tolist()], held)
    assert tuples.find(asked).tolist() == indices([tuple(row) for row in asked.tolist()], held)


def test_an_empty_position_is_not_the_last_token_of_the_tuple_before() -> None:
    tuples, _ = TupleSet.collect(np.array([[0, 3], [1, 2]]), n=4)
    assert tuples.find(np.array([[1, -1], [0, 3], [-1, 3], [-1, -1]])).tolist() == [-1, 0, -1, -1]


def test_tuples_of_another_length_are_refused() -> None:
    tuples, _ = TupleSet.collect(np.array([[0, 1]]), n=2)
    with pytest.raises(ValueError):
        tuples.find(np.array([[0, 1, 1]]))
