"""What rows say of labels: the compiled sum is that of NumPy to the bit; rows without a case are counted one by one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hammemo import _native
from hammemo.memories.exact import Entries
from hammemo.votes.mixture.held_out_counts import CountRows, LeftOut, RowEntries
from hammemo.votes.mixture.row_shares import RowShares
from twins.row_shares import add_up


def some_rows(seed: int, n_rows: int, m: int, n_labels: int) -> RowShares:
    rng = np.random.default_rng(seed)
    lengths = rng.integers(0, n_labels + 1, n_rows)
    columns = [np.sort(rng.permutation(n_labels)[:length]) for length in lengths]
    entries = Entries(
        lengths,
        np.concatenate([np.empty(0, np.int64), *columns]),
        rng.geometric(0.4, lengths.sum()).astype(np.int64) - 1,
    )
    lost = np.sort(rng.random((n_rows, 4)) * [0, 1, 2, 3], axis=1)
    contexts = rng.integers(0, m, n_rows)
    return RowShares(contexts, contexts, rng.random(n_rows), entries, lost, 0.1 + rng.random(n_rows))


@given(st.integers(0, 2**32), st.integers(0, 9), st.integers(1, 4), st.integers(1, 6))
def test_the_compiled_sum_is_that_of_numpy(seed: int, n_rows: int, m: int, n_labels: int) -> None:
    rows, totals = some_rows(seed, n_rows, m, n_labels), np.random.default_rng(seed).random(m) + 0.5
    assert rows.add_up(totals, n_labels).tobytes() == add_up(rows, totals, n_labels).tobytes()


@pytest.mark.parametrize(
    ("name", "value"),
    [("contexts", 9), ("contexts", -1), ("lengths", 2**40), ("lengths", -1), ("columns", 5), ("counts", -1)],
)
def test_places_outside_the_arrays_are_refused(name: str, value: int) -> None:
    rows = {name: np.zeros(2, np.int64) for name in ("contexts", "lengths", "columns", "counts")}
    rows["lengths"][:] = 1
    rows[name][1] = value
    numbers = np.ones(2), np.ones(2), np.zeros((2, 4))
    with pytest.raises(ValueError, match="outside the arrays"):
        _native.add_row_shares(
            rows["contexts"], *numbers, rows["lengths"], rows["columns"], rows["counts"], np.zeros((1, 5))
        )


@given(st.integers(0, 2**32))
def test_whole_rows_without_a_case_are_counted_one_by_one(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n_rows, n_labels, n_cases = 4, 5, 3
    own = RowEntries(*(rng.integers(-1, size, 12) for size in (n_cases, n_rows, n_labels)))
    own.cases[:] = np.maximum(own.cases, 0)
    table = rng.integers(0, 3, (n_rows, n_labels))
    added = np.zeros((n_cases, n_rows, n_labels), np.int64)
    for case, row, label in zip(own.cases, own.rows, own.labels, strict=True):
        if row >= 0 and label >= 0:
            added[case, row, label] += 1
    keys = np.flatnonzero(table)
    rows = CountRows.from_entries(keys, table.ravel()[keys], n_labels, n_rows)
    cases, asked = rng.integers(0, n_cases, 8), rng.integers(-1, n_rows, 8)
    like = LeftOut(rows, own).read_rows(cases, asked)
    lengths, labels, counts = like.entries.lengths, like.entries.columns, like.entries.counts
    ends = np.cumsum(lengths)
    for k, (case, row) in enumerate(zip(cases, asked, strict=True)):
        part = slice(ends[k] - lengths[k], ends[k])
        if row < 0:
            assert not lengths[k]
            assert not like.totals[k]
            continue
        left = np.maximum(table[row] - added[case, row], 0)
        assert labels[part].tolist() == np.flatnonzero(table[row]).tolist()
        assert counts[part].tolist() == left[table[row] > 0].tolist()
        assert like.totals[k] == left.sum()
        assert like.classes[k, 1:].tolist() == np.bincount(np.minimum(left[left > 0], 3), minlength=4)[1:].tolist()
