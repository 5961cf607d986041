"""Ordered categories in commands: `--ordered`, and columns of Parquet and Arrow with an order."""

from __future__ import annotations

import json
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet
from typer.testing import CliRunner

from hammemo import MemoryClassifier, MemoryRegressor, load, save
from hammemo.cli.app import app
from hammemo.evaluation.peers import LightGBMNumbers
from hammemo.tokens.column_kinds import ColumnKind
from hammemo.tokens.orders import find_places

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.quick

SIZES = ["S", "M", "L", "XL"]


def run(*arguments: object) -> str:
    """Run a command and return what it prints."""
    result = CliRunner().invoke(app, [*map(str, arguments)])
    assert result.exit_code == 0, result.output
    return result.output


def refuse(*arguments: object) -> str:
    """Run a command that is refused and return its message."""
    result = CliRunner().invoke(app, [*map(str, arguments)])
    assert result.exit_code in (1, 2), result.output
    return " ".join(result.output.split())


def make_table(n: int = 120) -> pd.DataFrame:
    """Make a table whose labels follow the order of sizes."""
    rng = np.random.default_rng(3)
    sizes = rng.choice(SIZES, n)
    is_large = np.isin(sizes, ["L", "XL"])
    return pd.DataFrame(
        {
            "size": sizes,
            "colour": rng.choice(["red", "blue"], n),
            "price": rng.normal(size=n).round(2),
            "label": np.where(is_large, "dear", "cheap"),
            "amount": is_large * 2.0 + rng.normal(size=n).round(1),
        }
    )


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Write the table of labels as CSV."""
    path = tmp_path / "rows.csv"
    make_table().drop(columns="amount").to_csv(path, index=False)
    return path


def fit(table: Path, *options: object) -> Any:
    """Fit a model of labels in the folder of the table and load it."""
    out = table.parent / "model"
    run("fit", table, "--label", "label", *options, "--out", out)
    return load(out)


def test_a_model_has_the_order_and_the_parameter(table: Path) -> None:
    model = fit(table, "--ordered", "size=S,M,L,XL")
    assert model.state.columns.kinds[0] is ColumnKind.ORDERED_CATEGORIES
    assert model.state.columns.order_of(0) == tuple(SIZES)
    assert model.ordered == {"size": SIZES}
    frame = pd.read_csv(table)
    fresh = MemoryClassifier(ordered={"size": SIZES}).fit(frame.drop(columns="label"), frame.label)
    assert model.digest() == fresh.digest()


@pytest.mark.parametrize("keep", ["none", "10"])
def test_rows_that_are_not_kept_are_read_once_more(table: Path, keep: str) -> None:
    model = fit(table, "--ordered", "size=S,M,L,XL", "--keep", keep)
    frame = pd.read_csv(table)
    rows = False if keep == "none" else int(keep)
    fresh = MemoryClassifier(ordered={"size": SIZES}, keep=rows)
    fresh.fit(frame.drop(columns="label"), frame.label)
    assert model.digest() == fresh.digest()


def test_categories_may_be_quoted_and_numbers(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    frame = make_table()[["size", "label"]]
    frame["grade"] = frame["size"].map({"S": 1, "M": 2, "L": 10, "XL": 11})
    frame["size"] = frame["size"].replace("XL", "very, very large")
    frame.to_csv(path, index=False)
    options = ("--ordered", 'size=S,M,L,"very, very large"', "--ordered", "grade=11,10,2,1")
    model = fit(path, *options)
    assert model.state.columns.order_of(0) == ("S", "M", "L", "very, very large")
    assert model.state.columns.order_of(1) == (11, 10, 2, 1)
    orders: dict[str, list[Any]] = {
        "size": ["S", "M", "L", "very, very large"],
        "grade": [11, 10, 2, 1],
    }
    fresh = MemoryClassifier(ordered=orders).fit(frame[["size", "grade"]], frame.label)
    assert model.digest() == fresh.digest()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--ordered", "size"], "'size' names no column: write COLUMN=A,B"),
        (["--ordered", "=S,M"], "names no column"),
        (["--ordered", "size="], "gives the column 'size' no category"),
        (["--ordered", "size=S,,L"], "gives the column 'size' the empty category ''"),
        (["--ordered", "size=S,M,S"], "the column 'size' the category 'S' twice"),
        (["--ordered", "size=S", "--ordered", "size=M"], "names the column 'size' twice"),
        (["--ordered", "weight=S,M"], "--ordered names the column 'weight', which is none of"),
        (["--ordered", "label=dear,cheap"], "--ordered names the label 'label'"),
        (["--ordered", "size=S,M,L"], "rows.csv, line"),
        (["--ordered", "size=S,M,L"], "'size' holds ordered categories, and 'XL' is none of 'S' <"),
        (["--ordered", "size=S,M,L,XL", "--numeric", "size"], "'size' is in --numeric"),
        (["--ordered", "size=S,M", "--date-format", "size=%Y-%m-%d"], "'size' has a --date-format"),
        (["--ordered", "size=S,M", "--columns", "colour"], "'size', which is none of the context"),
    ],
)
@pytest.mark.parametrize("command", ["fit", "evaluate"])
def test_mistakes_name_the_column_and_the_value(table: Path, command: str, options: list[str], message: str) -> None:
    out = ["--out", table.parent / "model"] if command == "fit" else []
    assert message in refuse(command, table, "--label", "label", *options, *out)
    assert not (table.parent / "model").exists()


def test_sequences_have_no_ordered_columns(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("1 2 3 4\n")
    message = refuse("fit", tmp_path / "a.txt", "--h", 1, "--ordered", "a=1", "--out", tmp_path / "m")
    assert "--ordered is for tables" in message


def test_texts_for_missing_values_are_missing_unless_they_are_categories(tmp_path: Path) -> None:
    frame = make_table()[["size", "label"]]
    frame.loc[:9, "size"] = "NA"
    frame.to_csv(tmp_path / "rows.csv", index=False)
    model = fit(tmp_path / "rows.csv", "--ordered", "size=S,M,L,XL")
    frame["size"] = frame["size"].replace("NA", None)
    fresh = MemoryClassifier(ordered={"size": SIZES}).fit(frame[["size"]], frame.label)
    assert model.digest() == fresh.digest()
    model = fit(tmp_path / "rows.csv", "--ordered", "size=NA,S,M,L,XL")
    assert model.state.columns.order_of(0) == ("NA", *SIZES)
    assert "'size' has no value" in refuse(
        *("fit", tmp_path / "rows.csv", "--label", "label", "--ordered", "size=S,M,L,XL"),
        *("--missing", "refuse", "--out", tmp_path / "other"),
    )


def test_a_column_without_values_keeps_its_order_for_later_rows(tmp_path: Path) -> None:
    frame = make_table()[["size", "price", "label"]]
    first = frame[:60].assign(size=None)
    first.to_csv(tmp_path / "first.csv", index=False)
    frame[60:].to_csv(tmp_path / "more.csv", index=False)
    model = fit(tmp_path / "first.csv", "--ordered", "size=S,M,L,XL")
    assert model.state.columns.kinds[0] is ColumnKind.NAMES
    run("add", tmp_path / "model", tmp_path / "more.csv", "--refit")
    fresh = MemoryClassifier(ordered={"size": SIZES})
    together = pd.concat([first, frame[60:]])
    fresh.fit(together[["size", "price"]], together.label)
    assert load(tmp_path / "model").digest() == fresh.digest()


def test_numbers_and_orders_may_both_be_named(table: Path) -> None:
    model = fit(table, "--ordered", "size=S,M,L,XL", "--numeric", "price")
    run("refit", table.parent / "model")
    frame = pd.read_csv(table)
    fresh = MemoryClassifier(numeric=["price"], ordered={"size": SIZES})
    fresh.fit(frame.drop(columns="label"), frame.label)
    assert model.digest() == fresh.digest() == load(table.parent / "model").digest()
    model = fit(table, "--ordered", "size=S,M,L,XL", "--numeric", "none")
    kinds = [kind.name for kind in model.state.columns.kinds]
    assert kinds == ["ORDERED_CATEGORIES", "NAMES", "NAMES"]


def test_later_rows_are_read_in_the_order_and_named_when_wrong(table: Path) -> None:
    fit(table, "--ordered", "size=S,M,L,XL", "--keep", "rows")
    model = table.parent / "model"
    wrong = table.parent / "wrong.csv"
    wrong.write_text("size,colour,price,label\nXXL,red,1,dear\n")
    for command in ("add", "forget", "sync"):
        message = refuse(command, model, wrong)
        assert "wrong.csv, line 2: column 'size' holds ordered categories, and 'XXL'" in message
    with pytest.warns(UserWarning, match="XXL"):
        answers = run("predict", model, wrong)  # in a question, it is missing
    missing = table.parent / "missing.csv"
    missing.write_text("size,colour,price,label\n,red,1,dear\n")
    assert run("predict", model, missing) == answers


def test_a_layout_fixes_the_orders(table: Path) -> None:
    fit(table, "--ordered", "size=S,M,L,XL", "--vote", "sum")
    other = table.parent / "other"
    options = ("--label", "label", "--vote", "sum", "--layout", table.parent / "model")
    assert "--ordered is fixed by --layout" in refuse("fit", table, *options, "--ordered", "size=S,M", "--out", other)
    run("fit", table, *options, "--out", other)
    run("merge", table.parent / "model", other, "--out", table.parent / "both")
    run("add", table.parent / "both", table)
    assert load(table.parent / "both").state.n_examples == 360


def test_arrow_and_parquet_files_say_orders(tmp_path: Path) -> None:
    frame = make_table().drop(columns="label")
    frame["size"] = pd.Categorical(frame["size"], categories=SIZES, ordered=True)
    fresh = MemoryRegressor().fit(frame.drop(columns="amount"), frame.amount)
    rows = pa.Table.from_pandas(frame, preserve_index=False)
    parquet.write_table(rows, tmp_path / "rows.parquet", row_group_size=50)
    with pa.ipc.new_stream(tmp_path / "rows.arrow", rows.schema) as writer:
        writer.write_table(rows, max_chunksize=50)
    for name in ("rows.parquet", "rows.arrow"):
        out = tmp_path / f"{name}.model"
        run("fit", tmp_path / name, "--target", "amount", "--out", out)
        assert load(out).digest() == fresh.digest()
    frame.to_csv(tmp_path / "rows.csv", index=False)
    run("sync", tmp_path / "rows.parquet.model", tmp_path / "rows.csv")
    assert load(tmp_path / "rows.parquet.model").digest() == fresh.digest()


def test_the_option_goes_before_the_file(tmp_path: Path) -> None:
    frame = make_table()[["size", "label"]]
    frame["size"] = pd.Categorical(frame["size"], categories=SIZES, ordered=True)
    frame.to_parquet(tmp_path / "rows.parquet")
    turned = ("--ordered", "size=XL,L,M,S")
    message = refuse(*("fit", tmp_path / "rows.parquet", "--label", "label", *turned, "--out", tmp_path / "m"))
    assert "'size' was learned in the order 'XL' < 'L' < 'M' < 'S', and here 'S' comes" in message
    model = fit(tmp_path / "rows.parquet", "--ordered", "size=XS,S,M,L,XL")
    assert model.state.columns.order_of(0) == ("XS", *SIZES)


def test_another_order_in_later_rows_is_refused(tmp_path: Path) -> None:
    frame = make_table()[["size", "label"]]
    frame["size"] = pd.Categorical(frame["size"], categories=SIZES, ordered=True)
    frame.to_parquet(tmp_path / "rows.parquet")
    frame["size"] = pd.Categorical(frame["size"], categories=SIZES[::-1], ordered=True)
    frame.to_parquet(tmp_path / "turned.parquet")
    fit(tmp_path / "rows.parquet")
    message = refuse("add", tmp_path / "model", tmp_path / "turned.parquet")
    assert "'XL' comes before 'L': give the column the order that was learned" in message


def test_an_order_that_parquet_has_lost_is_not_made_up(tmp_path: Path) -> None:
    frame = make_table()[["size", "label"]]
    frame["size"] = pd.Categorical(frame["size"], categories=SIZES, ordered=True)
    rows = pa.Table.from_pandas(frame, preserve_index=False)
    parquet.write_table(rows, tmp_path / "rows.parquet", use_dictionary=False)
    out = run("fit", tmp_path / "rows.parquet", "--label", "label", "--out", tmp_path / "model")
    assert "the file does not have their order" in out
    assert "--ordered" in out
    model: Any = load(tmp_path / "model")
    assert model.state.columns.kinds == (ColumnKind.NAMES,)
    model = fit(tmp_path / "rows.parquet", "--ordered", "size=S,M,L,XL")
    assert model.state.columns.kinds == (ColumnKind.ORDERED_CATEGORIES,)


def test_an_evaluation_reads_orders(tmp_path: Path) -> None:
    levels = [f"level {number}" for number in np.random.default_rng(0).permutation(60)]
    places = np.random.default_rng(1).integers(0, 60, 100)
    labels = np.where(places < 30, "a", "b")
    frame = pd.DataFrame({"level": np.array(levels)[places], "label": labels})
    frame.to_csv(tmp_path / "rows.csv", index=False)

    def accuracy(*options: str) -> float:
        command = ("evaluate", tmp_path / "rows.csv", "--label", "label", "--json", *options)
        return float(json.loads(run(*command))["learners"]["this model"]["accuracy"])

    assert accuracy("--ordered", f"level={','.join(levels)}") > accuracy() + 0.03


def test_a_peer_gets_the_places_of_categories(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[Any, Any]] = []

    class Learner:
        def __init__(self, **_: Any) -> None:
            pass

        def fit(self, X: Any, y: Any, categorical_feature: list[int]) -> None:
            calls.append((X.tolist(), categorical_feature))

    monkeypatch.setitem(sys.modules, "lightgbm", SimpleNamespace(LGBMRegressor=Learner))
    rows = np.array([["L", "red", 1.5], ["S", "blue", 2.0], ["M", "red", 0.5]], object)
    peer = LightGBMNumbers(numeric=[2], ordered={0: ["S", "M", "L"]})
    peer.fit(rows, np.arange(3.0))
    assert calls == [([[2, 0, 1.5], [0, 1, 2], [1, 0, 0.5]], [1])]


def test_text_on_the_command_line_is_a_category(table: Path) -> None:
    fit(table, "--ordered", "size=S,M,L,XL")
    shown = run("explain", table.parent / "model", "L", "red", "0.5", "--json")
    assert "L" in json.loads(shown)["tokens"] or "'L'" in shown or '"L"' in shown


def test_engines_read_orders(table: Path) -> None:
    model = fit(table, "--ordered", "size=S,M,L,XL")
    with_engine = fit(table, "--ordered", "size=S,M,L,XL", "--engine", "threads")
    assert with_engine.digest() == model.digest()
    message = refuse(
        *("fit", table, "--label", "label", "--ordered", "size=S,M,L", "--engine", "threads"),
        *("--out", table.parent / "m"),
    )
    assert "'XL' is none of" in message


@pytest.mark.parametrize("texts", [("False", "True"), ("false", "true"), ("0", "1")])
def test_booleans_of_a_frame_are_read_from_the_texts_of_a_file(tmp_path: Path, texts: tuple[str, str]) -> None:
    rng = np.random.default_rng(5)
    flags = rng.integers(0, 2, 60).astype(bool)
    frame = pd.DataFrame(
        {
            "flag": pd.Categorical(flags, categories=[False, True], ordered=True),
            "colour": rng.choice(["red", "blue"], 60),
        }
    )
    labels = np.where(flags, "yes", "no").astype(object)  # as files have them
    save(MemoryClassifier().fit(frame[:40], labels[:40]), tmp_path / "model")
    rows = frame.assign(flag=[texts[int(flag)] for flag in flags], label=labels)[40:]
    rows.to_csv(tmp_path / "rows.csv", index=False)
    answers = run("predict", tmp_path / "model", tmp_path / "rows.csv", "--columns", "flag,colour").split()
    assert answers == labels[40:].tolist()
    run("add", tmp_path / "model", tmp_path / "rows.csv", "--label", "label")
    whole = MemoryClassifier().fit(frame[:40], labels[:40]).partial_fit(frame[40:], labels[40:])
    assert load(tmp_path / "model").digest() == whole.digest()


def test_a_text_of_a_boolean_is_no_category_of_other_numbers() -> None:
    with pytest.raises(ValueError, match="'True' is none of 0 < 1 < 2"):
        find_places(np.array(["True"], object), (0, 1, 2), "Column 0", learning=True)
