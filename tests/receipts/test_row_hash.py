"""The keyed hash of forgotten rows, against its plain twin: the sorted list of rows."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hammemo.receipts import Keys, RowHash
from hammemo.tokens.contexts import Examples

pytestmark = pytest.mark.quick

KEYS = Keys(bytes(range(32)), bytes(range(32, 64)))
VALUES = st.one_of(st.none(), st.sampled_from(["", "a", "b", "1"]), st.integers(-2, 2), st.sampled_from([0.5, 2.5]))
ROWS = st.lists(st.lists(VALUES, min_size=1, max_size=2), max_size=4)


def twin(rows: list[list[Any]]) -> list[str]:
    return sorted(map(json.dumps, rows))


@given(ROWS, ROWS, st.randoms(), st.integers(0, 4))
def test_equal_multisets_and_only_these_have_equal_hashes(rows: Any, others: Any, rng: Any, at: int) -> None:
    empty, mixed = RowHash(KEYS), list(rows)
    rng.shuffle(mixed)
    found = empty.plus(rows).of_request("r")
    assert found == empty.plus(mixed[:at]).plus(mixed[at:]).of_request("r")
    assert (found == empty.plus(others).of_request("r")) == (twin(rows) == twin(others))
    assert found != empty.plus(rows).of_request("s")
    assert found != RowHash(Keys.new()).plus(rows).of_request("r")


def test_examples_are_the_rows_that_they_were_made_of() -> None:
    rows, labels, times = [["a", 1], ["b", 2], ["a", 1]], ["x", "y", "x"], [2, 3, 1]
    listed = [[*row, label] for row, label, n in zip(rows, labels, times, strict=True) for _ in range(n)]
    found = RowHash(KEYS).plus_examples(Examples.of(rows, labels, times))
    assert found == RowHash(KEYS).plus(listed)
    assert found.rows == 6


def test_equal_numbers_are_equal_and_strings_are_not_numbers() -> None:
    def of(*values: Any) -> int:
        return RowHash(KEYS).plus([values]).total

    assert of(1) == of(1.0) == of(np.int64(1)) == of(np.float32(1)) == of(True)
    assert of(None) == of(float("nan"))
    assert len({of("1"), of(1), of(None), of(float("inf")), of(2**53), of(2**53 + 1)}) == 6


def test_no_secret_is_shown() -> None:
    assert repr(RowHash(KEYS).plus([["a"]])) == "RowHash(rows=1)"
