"""Columns that are probably misread get one warning that names them and the line that mends it."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from typer.testing import CliRunner

from hammemo import MemoryClassifier, MemoryRegressor
from hammemo.cli.app import app
from hammemo.tokens.column_letters import encode_letters

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

N = 120
LABELS = np.arange(N) % 2
CODES = np.arange(N) * 7 % 30
LEVELS = [f"level {k:02}" for k in range(30)]
WORDS = [f"w{k}" for k in range(12)]


def ordered(*, has_order: bool = True) -> pd.DataFrame:
    """Return a table with a category."""
    return pd.DataFrame({"x": CODES / 7, "size": pd.Categorical.from_codes(CODES, LEVELS, ordered=has_order)})


def texts(n_distinct: int, n_words: int) -> list[str]:
    """Return strings of some words, so many of them different."""
    return [" ".join([f"t{i % n_distinct}", *WORDS[: n_words - 1]]) for i in range(N)]


def messages(X: Any, model: Any = MemoryClassifier) -> list[str]:
    """Return the warnings of a fit."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model().fit(X, LABELS)
    return [str(warning.message) for warning in caught]


@pytest.mark.parametrize("model", [MemoryClassifier, MemoryRegressor])
@pytest.mark.parametrize(
    "make",
    [
        lambda: ordered(),
        lambda: pl.DataFrame({"size": pl.Series([LEVELS[k] for k in CODES], dtype=pl.Enum(LEVELS))}),
        lambda: pa.table({"size": pa.DictionaryArray.from_arrays(CODES, LEVELS, ordered=True)}),
    ],
    ids=["pandas", "polars", "Arrow"],
)
def test_categories_with_an_order_are_read_as_such_without_a_warning(make: Callable[[], Any], model: Any) -> None:
    assert messages(make(), model) == []
    assert model().fit(make(), LABELS).state.columns.order_of(-1 + make().shape[1]) == tuple(LEVELS)


def test_categories_without_an_order_and_those_that_are_numbers_get_no_warning() -> None:
    assert messages(ordered(has_order=False)) == []
    assert messages(ordered().assign(size=lambda X: X["size"].cat.codes)) == []
    days = pd.Categorical(pd.date_range("2026-01-01", periods=N), ordered=True)
    assert messages(pd.DataFrame({"day": days})) == []
    few = pl.DataFrame({"colour": pl.Series(["red", "blue"] * (N // 2), dtype=pl.Enum(["red", "blue"]))})
    assert messages(few) == []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        MemoryClassifier(numeric="none").fit(ordered()[["size"]], LABELS)


@pytest.mark.parametrize("model", [MemoryClassifier, MemoryRegressor])
@pytest.mark.parametrize(
    ("strings", "what"),
    [(texts(N, 1), "strings that nearly all differ"), (texts(N * 2 // 3, 8), "long texts")],
    ids=["unique", "texts"],
)
def test_unique_strings_and_texts_get_one_warning(strings: list[str], what: str, model: Any) -> None:
    names = ["a", "b"] * (N // 2)
    for X in (
        pd.DataFrame({"group": names, "note": strings, "other": strings}),
        pl.DataFrame({"group": names, "note": strings, "other": strings}),
    ):
        [message] = messages(X, model)
        assert message.startswith(f"Column 'note' holds {what}; as names, almost none of them will match later.")
        assert "Leave the column out" in message
        assert "TfidfVectorizer" in message
    rows = [list(row) for row in zip(names, strings, strict=True)]
    [message] = messages(rows, model)
    assert message.startswith(f"Column 1 holds {what};")


def test_names_that_repeat_and_short_tables_get_no_warning() -> None:
    assert messages(pd.DataFrame({"name": texts(N // 3, 8)})) == []
    assert messages(pd.DataFrame({"name": texts(N * 2 // 3, 2)})) == []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        MemoryClassifier().fit(pd.DataFrame({"name": texts(N, 1)[:40]}), LABELS[:40])


def test_a_column_gets_one_of_the_hints() -> None:
    numbers = pd.DataFrame({"x": [f"{i}.5" for i in range(N)]})
    [message] = messages(numbers)
    assert "numbers as strings" in message
    ids = pd.DataFrame({"id": np.arange(N) * 3, "code": texts(N, 1)})
    [message] = messages(ids)
    assert message.startswith("Column 'id' holds whole numbers that nearly all differ")


OTHER_TABLES: dict[str, tuple[Any, str]] = {
    "LazyFrame": (pl.LazyFrame({"a": [1, 2]}), r"polars LazyFrame, .* pass X\.collect\(\)"),
    "dict": ({"a": [1, 2]}, r"X is a dict, .* pd\.DataFrame\(X\)"),
    "list of dicts": ([{"a": 1}, {"a": 2}], r"X is a list of dicts, .* pd\.DataFrame\(X\)"),
}


@pytest.mark.parametrize(("X", "advice"), OTHER_TABLES.values(), ids=OTHER_TABLES)
@pytest.mark.parametrize("model", [MemoryClassifier, MemoryRegressor])
def test_what_is_no_table_yet_is_refused_with_the_line_that_makes_one(X: Any, advice: str, model: Any) -> None:
    fitted = model().fit([[1], [2]], [0, 1])
    for act in (model().fit, fitted.partial_fit, fitted.forget):
        with pytest.raises(TypeError, match=advice):
            act(X, [0, 1])
    with pytest.raises(TypeError, match=advice):
        fitted.predict(X)


def test_a_warning_of_another_type_names_values_that_are_there() -> None:
    numbers = MemoryClassifier(numeric="none").fit([[1], [2]] * 9, [0, 1] * 9)
    with pytest.warns(
        UserWarning, match=r"held numbers when it was learned, and is queried with strings such as '1': "
    ):
        numbers.predict([["1"], ["x"]])
    strings = MemoryClassifier().fit([["u"], ["v"]] * 9, [0, 1] * 9)
    with pytest.warns(UserWarning, match=r"held strings when it was learned, and is queried with numbers such as 7: "):
        strings.predict([[7]])


def test_the_smallest_integer_is_a_target_and_as_a_label_gets_a_plain_sentence() -> None:
    with pytest.raises(
        ValueError, match=r"y holds -9223372036854775808, the smallest integer .* cannot be a label: use another number"
    ):
        MemoryClassifier().fit([[1], [2]], [-(2**63), 1])
    X = np.arange(40)[:, None]
    y = np.where(X[:, 0] < 20, -(2**63), 0)
    predicted = MemoryRegressor(keep=True).fit(X, y).predict(X)
    assert predicted[0] < -(2.0**62)


def test_dates_stay_dates_where_numbers_are_listed() -> None:
    X = pd.DataFrame({"x": CODES / 7, "code": CODES, "day": pd.date_range("2026-01-01", periods=N)})
    for model in (MemoryClassifier, MemoryRegressor):
        fitted = model(numeric=["x"], keep=True).fit(X, LABELS)
        assert encode_letters(fitted.state.columns.kinds) == "nsd"
        whole = fitted.digest()
        fitted.forget(X[:9], LABELS[:9])
        fitted.partial_fit(X[:9], LABELS[:9])
        assert fitted.refit().digest() == whole
        fitted.set_params(numeric=["code"])
        assert encode_letters(fitted.refit().state.columns.kinds) == "snd"


@pytest.mark.parametrize("name", ["t.csv", "t.parquet"])
def test_labels_that_are_fractions_are_sent_to_target(name: str, tmp_path: Path) -> None:
    table = pd.DataFrame({"a": ["u", "v"] * (N // 2), "t": np.arange(N) / 7})
    path = tmp_path / name
    if name.endswith("csv"):
        table.to_csv(path, index=False)
        with pytest.warns(UserWarning, match="The label 't' holds 120 different numbers .* target='t' and no label="):
            CliRunner().invoke(app, ["fit", str(path), "--label", "t", "--out", str(tmp_path / "m")])
    else:
        table.to_parquet(path)
        result = CliRunner().invoke(app, ["fit", str(path), "--label", "t", "--out", str(tmp_path / "m")])
        assert result.exit_code == 1
        assert "use --target 't' and no --label" in result.output.replace("\n", " ")


def test_explain_says_that_there_are_more_rows(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    pd.DataFrame({"a": ["u", "v"] * 20, "y": ["x", "z"] * 20}).to_csv(path, index=False)
    run = CliRunner().invoke
    run(app, ["fit", str(path), "--label", "y", "--out", str(tmp_path / "m")])
    result = run(app, ["explain", str(tmp_path / "m"), "--file", str(path), "--first", "1"])
    assert "Explained the first 1 only, and there are more: --first N explains N." in result.output
