"""One warning for strings that are probably numbers or dates: the column, its values, and what helps."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest

from hammemo import MemoryClassifier, MemoryRegressor
from hammemo.tokens.column_letters import encode_letters

N = 60
LABELS = ["a", "b"] * (N // 2)
PRICES = [f"{i}.5" for i in range(N)]
DAYS = pd.Series(pd.date_range("2012-01-01", periods=N, freq="9D"))


def warning_of(X: Any) -> str:
    """Return the one warning of a fit, or nothing."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        MemoryClassifier().fit(X, LABELS)
    assert len(told) <= 1
    return str(told[0].message) if told else ""


def test_na_among_numbers_as_strings_names_the_column_the_values_and_the_line() -> None:
    X = pd.DataFrame({"job": ["cook", "clerk"] * 30, "bill": ["NA", "?", *PRICES[2:]], "mass": ["NA", *PRICES[1:]]})
    said = warning_of(X)
    assert said.startswith("Column 'bill' holds numbers as strings and '?' and 'NA', so it is read as names")
    assert 'df["bill"] = pd.to_numeric(df["bill"], errors="coerce")' in said
    assert "Columns of the same sort: 'mass'." in said
    fixed = X.assign(**{name: pd.to_numeric(X[name], errors="coerce") for name in ("bill", "mass")})
    assert warning_of(fixed) == ""
    assert encode_letters(MemoryClassifier().fit(fixed, LABELS).state.columns.kinds) == "snn"


def test_na_among_numbers_in_objects() -> None:
    mixed = np.array([[1.5] if i else ["NA"] for i in range(N)], object)
    assert 'X[:, 0] = pd.to_numeric(X[:, 0], errors="coerce")' in warning_of(mixed)
    with pytest.warns(UserWarning, match="numbers as strings and 'NA'"):
        MemoryRegressor().fit(pd.DataFrame({"x": ["NA", *PRICES[1:]]}), range(N))


@pytest.mark.parametrize(
    ("written", "asked"),
    [
        ("%Y/%m/%d", "%Y/%m/%d"),
        ("%Y-%m-%d", "ISO8601"),
        ("%Y-%m-%dT%H:%M:%S", "ISO8601"),
        ("%d.%m.%Y", "%d.%m.%Y"),
        ("%B %d, %Y", "%B %d, %Y"),
    ],
)
def test_dates_as_strings_say_the_line_that_converts_them(written: str, asked: str) -> None:
    X = pd.DataFrame({"when": DAYS.dt.strftime(written), "x": np.arange(N) / 4})
    said = warning_of(X)
    assert said.startswith("Column 'when' holds dates as strings, such as")
    assert f'df["when"] = pd.to_datetime(df["when"], format="{asked}").' in said
    fixed = X.assign(when=pd.to_datetime(X["when"], format=asked))
    assert warning_of(fixed) == ""
    assert (fixed["when"] == DAYS).all()
    X.loc[3, "when"] = "NA"
    assert f'format="{asked}", errors="coerce")' in warning_of(X)


def test_the_order_of_day_and_month_is_the_users() -> None:
    days = [f"{i % 12 + 1:02}/{i % 5 + 1:02}/2012" for i in range(N)]
    said = warning_of(pd.DataFrame({"when": days}))
    assert "do not say which number is the day" in said
    assert 'format="%d/%m/%Y") or ' in said
    assert 'format="%m/%d/%Y")' in said
    both = [*days[:30], *(day.replace("/", "-") for day in days[30:])]
    assert "more than one format" in warning_of(pd.DataFrame({"when": both}))


@pytest.mark.parametrize(
    "values",
    [
        ["NA", *["1", "2", "3"] * 20][:N],  # codes
        ["2012/01/01", "2012/01/02"] * 30,
        [f"{i:03}" for i in range(N)],
        ["NA", "null"] * 30,
        ["cook", "NA"] * 30,
        [*PRICES[:59], "none"],
        [f"case {i}" for i in range(N)],
        ["2012/01/01", 3] * 30,
    ],
)
def test_names_are_not_warned_of(values: list[Any]) -> None:
    assert "as strings" not in warning_of(pd.DataFrame({"x": pd.Series(values, dtype=object)}))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        MemoryClassifier(numeric="none").fit(pd.DataFrame({"x": ["NA", *PRICES[1:]]}), LABELS)
