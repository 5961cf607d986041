"""Packed rows: equal rows have equal tokens in whatever form they come, and what is no packed row is refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from scipy import sparse

from hammemo.tokens.contexts import Contexts
from hammemo.tokens.packed_rows import pack_rows, unpack_rows, unpack_table

pytestmark = pytest.mark.quick

NUMBERS = st.sampled_from([0.0, 0.0, 0.0, -0.0, 1.0, -2.5, np.nan, np.inf, -np.inf, 5e-324, 1e308])
TABLES = arrays.arrays(np.float64, st.tuples(st.integers(1, 6), st.integers(1, 12)), elements=NUMBERS)


@given(TABLES)
@settings(max_examples=200)
def test_rows_come_back_and_forms_are_equal(X: np.ndarray) -> None:
    packed = pack_rows(X)
    finite = np.clip(X, -np.finfo(float).max, np.finfo(float).max)
    contexts = Contexts(packed)
    np.testing.assert_array_equal(unpack_table(contexts, X.shape[1]), finite)
    for form in (sparse.csr_array, sparse.csc_array, sparse.coo_array, sparse.lil_matrix):
        assert (pack_rows(form(X)) == packed).all()


def test_explicit_zeros_and_repeated_entries_are_no_other_rows() -> None:
    rows = sparse.csr_array((np.array([1.0, 0.0, 2.0, 3.0]), np.array([2, 0, 2, 1]), np.array([0, 4])), shape=(1, 4))
    before = rows.data.copy()
    assert (pack_rows(rows) == pack_rows(np.array([[0.0, 3.0, 3.0, 0.0]]))).all()
    np.testing.assert_array_equal(rows.data, before)  # the caller's matrix is not changed


def test_some_columns_of_entries() -> None:
    X = np.array([[0.0, 1.0, 0.0, np.nan], [2.0, 0.0, 3.0, 0.0]])
    entries = unpack_rows(Contexts(pack_rows(X)), 4)
    np.testing.assert_array_equal(entries.select_columns(np.array([1, 3])), X[:, [1, 3]])
    np.testing.assert_array_equal(entries.take_rows(np.array([1, 1, 0])).select_columns(np.arange(4)), X[[1, 1, 0]])


@pytest.mark.parametrize(
    "token",
    [
        "",
        "x",
        "s1",
        "d12345678",
        "s" + (np.array([4], "<u4").tobytes() + np.array([1.0]).tobytes()).decode("latin-1"),
        "s" + (np.array([2, 1], "<u4").tobytes() + np.array([1.0, 1.0]).tobytes()).decode("latin-1"),
        "s\u0100",
    ],
)
def test_what_is_no_packed_row_is_refused(token: str) -> None:
    row = np.empty((1, 1), object)
    row[0, 0] = token
    with pytest.raises(ValueError, match="not one of 4 columns"):
        unpack_rows(Contexts(row), 4)
