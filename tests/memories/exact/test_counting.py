"""The count table of a batch against a plain count of (site, tuple, label), row by row."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hammemo import NO_TOKEN
from hammemo.kernels import SiteKernel
from hammemo.memories.exact.table import CountTable
from hammemo.tokens.contexts import Examples

H = 9
SITES = SiteKernel([0, 3, (0, 1), (1, 4, 7), tuple(range(H))]).resolve(H)


def plain(X: Any, y: Any, times: Any) -> Counter[Any]:
    found: Counter[Any] = Counter()
    for row, label, n in zip(X.tolist(), y.tolist(), times.tolist(), strict=True):
        for k, site in enumerate(SITES.positions):
            held = tuple(row[r] for r in site)
            if NO_TOKEN not in held:
                found[k, held, label] += n
    return found


def entries(table: CountTable) -> dict[Any, int]:
    tokens, labels = table.vocabulary.tolist(), table.label_counts.labels.tolist()
    found = {}
    for k, rows in enumerate(table.site_rows()):
        starts = np.concatenate([[0], np.cumsum(rows.lengths)])
        for i, held in enumerate(rows.tuples.tolist()):
            for entry in range(starts[i], starts[i + 1]):
                name = (k, tuple(tokens[rank] for rank in held), labels[rows.labels[entry]])
                assert name not in found
                found[name] = int(rows.counts[entry])
    return found


values = st.sampled_from([0, 1, 2, 5, 10**9, NO_TOKEN])


@settings(max_examples=60, deadline=None)
@given(
    rows=st.lists(st.tuples(*[values] * H), min_size=1, max_size=20),
    labels=st.lists(st.integers(0, 3), min_size=20, max_size=20),
    often=st.booleans(),
)
def test_a_batch_is_counted_as_row_by_row(rows: list[Any], labels: list[int], often: bool) -> None:
    X, y = np.array(rows, np.int64), np.array(labels[: len(rows)])
    times = np.arange(1, len(rows) + 1) if often else np.ones(len(rows), np.int64)
    assert entries(CountTable.from_examples(Examples.of(X, y, times), SITES)) == plain(X, y, times)


@pytest.mark.parametrize("often", [False, True])
def test_tuples_of_more_than_63_bits(often: bool) -> None:
    """Nine positions of 500 tokens: a tuple is no number of 64 bits; three of them are."""
    rng = np.random.default_rng(0)
    X, y = rng.integers(0, 500, (3000, H)), rng.integers(0, 3, 3000)
    X[rng.random(X.shape) < 0.05] = NO_TOKEN
    times = rng.integers(1, 4, 3000) if often else np.ones(3000, np.int64)
    assert entries(CountTable.from_examples(Examples.of(X, y, times), SITES)) == plain(X, y, times)


def test_no_rows_and_rows_without_tokens() -> None:
    assert not entries(CountTable.from_examples(Examples.of(np.empty((0, H), np.int64), []), SITES))
    nothing = np.full((4, H), NO_TOKEN)
    assert not entries(CountTable.from_examples(Examples.of(nothing, [1, 1, 0, 2]), SITES))
