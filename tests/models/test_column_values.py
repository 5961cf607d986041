"""What a column or a pair of columns says: counts by value and label, from counted sites or from kept rows."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hammemo import MemoryClassifier
from hammemo.kernels import PositionalHamming, SiteKernel
from hammemo.memories import Hashed
from hammemo.tasks.labels.column_values import column_values

rows_of_names = st.lists(st.tuples(*[st.sampled_from("abc")] * 2, st.sampled_from("xyz")), min_size=1, max_size=30)
PAIR = PositionalHamming() + SiteKernel([(0, 1)])


def mixed(n: int = 400) -> tuple[pd.DataFrame, Any]:
    rng = np.random.default_rng(1)
    X = pd.DataFrame(
        {
            "age": rng.normal(40, 10, n).round(),
            "job": rng.choice(np.array(["a", "b", None], object), n),
            "day": pd.Timestamp("2026-01-01") + pd.to_timedelta(rng.integers(0, 90, n), unit="D"),
        }
    )
    X.loc[::20, "age"] = np.nan
    return X, np.where(X["age"].fillna(40) + rng.normal(0, 5, n) > 40, "old", "young")


@given(rows_of_names, rows_of_names)
@settings(max_examples=40)
@pytest.mark.parametrize("model", [MemoryClassifier(PAIR), MemoryClassifier(memory=Hashed(8), keep=True)])
def test_names_are_counted_and_what_was_forgotten_is_gone(model: Any, held: Any, forgotten: Any) -> None:
    """Sites that are counted say the same as kept rows, and both what counting by hand does."""
    rows = held + forgotten
    clf = MemoryClassifier(**model.get_params(deep=False)).fit([row[:2] for row in rows], [row[2] for row in rows])
    clf.forget([row[:2] for row in forgotten], [row[2] for row in forgotten])
    for places in ([0], [1], [0, 1], [1, 0]):
        expected = Counter((*(row[place] for place in places), row[2]) for row in held)
        found = column_values(clf.state, places)
        cells = {
            (*(values[i] for values, i in zip(found.values, at[:-1], strict=True)), found.labels[at[-1]]): count
            for at, count in np.ndenumerate(found.counts)
            if count
        }
        assert cells == dict(expected)
        assert found.source == f"all {len(held):,} rows"


def test_numbers_and_dates_are_ranges_of_kept_rows() -> None:
    X, y = mixed()
    clf = MemoryClassifier().fit(X, y)
    found = column_values(clf.state, ["age"])
    assert found.ordered == (True,)
    assert found.values[0][0].startswith("below ")
    assert found.values[0][-1] == "missing"
    assert found.counts.sum(axis=0).tolist() == [int((y == label).sum()) for label in found.labels]
    assert found.counts[-1].sum() == X["age"].isna().sum()
    assert found.counts[0, list(found.labels).index("young")] > 0.9 * found.counts[0].sum()
    pair = column_values(clf.state, ["day", "job"])
    assert pair.counts.sum() == len(y)
    assert pair.values[0][0].startswith("below 2026-01")
    assert pair.values[1] == tuple(X["job"].fillna("missing").value_counts().index)


def test_ranges_that_are_counted_need_no_rows() -> None:
    X, y = mixed()
    clf = MemoryClassifier(vote="sum", keep=False).fit(X, y)
    found = column_values(clf.state, ["age"])
    assert clf.state.layout.cells is not None
    cuts = clf.state.layout.cells.ranges[0]
    expected = np.bincount(np.searchsorted(cuts, X["age"].dropna(), side="right"), minlength=len(cuts) + 1)
    assert found.counts.sum(axis=1).tolist() == [*expected.tolist(), int(X["age"].isna().sum())]
    with pytest.raises(ValueError, match="keep=True"):
        column_values(clf.state, ["age", "job"])


def test_of_many_names_the_most_frequent_are_shown() -> None:
    X = [[f"name {i % 30}" if i % 3 else "often", "b"] for i in range(300)]  # 20 names and one
    found = column_values(MemoryClassifier().fit(X, ["x", "y"] * 150).state, [0])
    assert found.values[0][0] == "often"
    assert found.values[0][-1] == "1 others"
    assert len(found.values[0]) == 21
    assert found.counts.sum() == 300


def test_missing_values_that_match_nothing_are_shown_and_documents_have_positions() -> None:
    clf = MemoryClassifier(missing="empty").fit([["a", None], ["b", "c"]] * 30, ["x", "y"] * 30)
    assert column_values(clf.state, [1]).values == (("c", "missing"),)
    stream = MemoryClassifier(memory=Hashed(8), keep=True).fit_stream([list("abab")] * 3, h=2)
    found = column_values(stream.state, [-1])
    assert found.values == (("b", "a"),) or found.values == (("a", "b"),)
    assert found.counts.sum() == 6


@pytest.mark.parametrize(
    ("columns", "message"), [(["agee"], "'age', 'job', 'day'"), ([3], "no column 3"), (["age", 0], "the same column")]
)
def test_wrong_columns_are_named(columns: list[Any], message: str) -> None:
    X, y = mixed(60)
    with pytest.raises(ValueError, match=message):
        column_values(MemoryClassifier().fit(X, y).state, columns)


def test_figures() -> None:
    pytest.importorskip("matplotlib").use("agg")
    from matplotlib import pyplot

    X, y = mixed()
    clf = MemoryClassifier().fit(X, y)
    axes = clf.plot_column("age", label="old")
    assert axes.get_xlabel() == "age"
    assert axes.get_ylabel() == "share of old"
    assert clf.plot_column("age", "job", ax=pyplot.figure().subplots()).get_xlabel() == "job"
    one = MemoryClassifier().fit([["a"]] * 3, ["x"] * 3)
    assert one.plot_column(0).get_ylabel() == "share of x"
    with pytest.raises(ValueError, match="not one of the labels: 'old', 'young'"):
        clf.plot_column("age", label="oldest")
    with pytest.raises(ValueError, match="holds no rows"):
        one.forget([["a"]] * 3, ["x"] * 3).plot_column(0)
    pyplot.close("all")
