"""Tables with numbers on the command line: the model is that of the frame that pandas reads from the same file."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from hammemo import MemoryClassifier, load, save
from hammemo.cli.app import app
from hammemo.sources.read_tables import read_table
from hammemo.sources.schemas import TableSchema
from hammemo.tokens.column_letters import encode_letters

if TYPE_CHECKING:
    from pathlib import Path

N = 120
LABELLED = ("--label", "label")


def run(*arguments: object, code: int = 0, **options: Any) -> Any:
    result = CliRunner().invoke(app, [*map(str, arguments)], **options)
    assert result.exit_code == code, result.output
    return result


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Return a table of whole numbers with missing values, fractions, names and codes."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "age": pd.array(rng.integers(17, 80, N), "Int64"),
            "price": rng.normal(0, 100, N).round(2),
            "job": rng.choice(np.array(["cook", "clerk", None], object), N),
            "code": [f"{code:03d}" for code in rng.integers(0, 12, N)],
        }
    )
    frame.loc[::9, "age"] = pd.NA
    frame["label"] = np.where(frame["price"] + 50 * (frame["job"] == "cook") > 0, "yes", "no")
    frame.to_csv(tmp_path / "all.csv", index=False)
    frame[:10].to_csv(tmp_path / "gone.csv", index=False)
    frame[10:].to_csv(tmp_path / "rest.csv", index=False)
    return tmp_path / "all.csv"


def read(path: Path) -> tuple[pd.DataFrame, pd.Series]:
    frame = pd.read_csv(path, dtype={"code": str})
    return frame.drop(columns="label"), frame["label"]


@pytest.mark.parametrize("batch_rows", [2**16, 50])
def test_the_model_is_that_of_the_frame(file: Path, monkeypatch: pytest.MonkeyPatch, batch_rows: int) -> None:
    defaults: Any = read_table.__kwdefaults__
    monkeypatch.setitem(defaults, "batch_rows", batch_rows)
    model = file.with_name("m")
    run("fit", file, *LABELLED, "--out", model)
    same = MemoryClassifier().fit(*read(file))
    assert encode_letters(same.state.columns.kinds) == "nnss"
    assert load(model).digest(parts=True) == same.digest(parts=True)
    assert run("predict", model, file).stdout.split() == same.predict(read(file)[0]).tolist()
    run("fit", file, *LABELLED, "--numeric", "price", "--out", model)
    X, y = read(file)
    X["age"] = pd.read_csv(file, dtype=str)["age"]
    assert load(model).digest(parts=True) == MemoryClassifier(numeric=["price"]).fit(X, y).digest(parts=True)


@pytest.mark.filterwarnings("ignore:.*times with an offset from UTC")  # they name no zone
@pytest.mark.parametrize("form", ["%Y-%m-%d", "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%MZ", "%Y-%m-%dT%H:%M:%S.%f+02:00"])
def test_dates_of_text_files_are_those_of_the_frame(tmp_path: Path, form: str) -> None:
    rng = np.random.default_rng(1)
    when = pd.Timestamp("2026-01-01") + pd.to_timedelta(rng.integers(0, 10**7, N), unit="s")
    X = pd.DataFrame({"when": when.strftime(form), "x": rng.normal(size=N).round(3), "code": "2026-13-01"})
    X.loc[::7, "when"] = None
    X["label"] = np.where(when.hour < 12, "am", "pm")
    file, model = tmp_path / "all.csv", tmp_path / "m"
    X.to_csv(file, index=False)
    run("fit", file, *LABELLED, "--out", model)
    frame = pd.read_csv(file, parse_dates=["when"])
    same = MemoryClassifier().fit(frame.drop(columns="label"), frame["label"])
    assert encode_letters(same.state.columns.kinds) == "dns"
    assert load(model).digest(parts=True) == same.digest(parts=True)
    assert run("predict", model, file).stdout.split() == same.predict(frame.drop(columns="label")).tolist()
    run("fit", file, *LABELLED, "--numeric", "x,when", "--out", model)
    assert encode_letters(load(model).state.columns.kinds) == "dns"
    run("fit", file, *LABELLED, "--numeric", "none", "--out", model)
    assert not load(model).state.columns.has_ordered


def test_what_is_forgotten_leaves_the_model_of_the_rest(file: Path) -> None:
    model, rest = file.with_name("m"), file.with_name("never")
    run("fit", file, *LABELLED, "--out", model)
    run("fit", file.with_name("rest.csv"), *LABELLED, "--out", rest)
    whole = model.read_bytes()
    run("forget", model, file.with_name("gone.csv"), "--refit")
    assert load(model).digest() == load(rest).digest()
    run("add", model, file.with_name("gone.csv"), "--refit")
    assert model.read_bytes() == whole
    run("verify", model)


def test_words_and_other_formats_are_read_as_the_model_learnt_them(file: Path) -> None:
    pytest.importorskip("pyarrow")
    model, (X, y) = file.with_name("m"), read(file)
    run("fit", file, *LABELLED, "--out", model)
    same = load(model)
    for ending, write in (("jsonl", "to_json"), ("parquet", "to_parquet")):
        other = file.with_suffix(f".{ending}")
        options: Any = {"orient": "records", "lines": True} if ending == "jsonl" else {}
        getattr(X.assign(label=y), write)(other, **options)
        assert run("predict", model, other).stdout.split() == same.predict(X).tolist()
        run("fit", other, *LABELLED, "--out", file.with_name("other"))
        assert load(file.with_name("other")).digest() == same.digest()
    typed = json.loads(run("explain", model, "", "12.5", "cook", "007", "--json").stdout)
    assert typed == same.explain([None, 12.5, "cook", "007"], 5).to_dict()


def test_a_model_from_python_knows_its_numbers(file: Path) -> None:
    same, model = MemoryClassifier().fit(*read(file)), file.with_name("m")
    for saved in (same, same.compile()):
        save(saved, model)
        named = run("predict", model, file, "--columns", "age,price,job,code")  # a compiled model has no names
        assert named.stdout.split() == same.predict(read(file)[0]).tolist()
    typed = json.loads(run("explain", model, "30", "1e1", "cook", "007", "--json").stdout)
    assert typed["labels"] == same.explain([30, 10.0, "cook", "007"], 5).to_dict()["labels"]


def test_what_is_no_number_is_refused_with_its_place_and_the_way_out(file: Path) -> None:
    model, bad = file.with_name("m"), file.with_name("bad.csv")
    run("fit", file, *LABELLED, "--out", model)
    before = model.read_bytes()
    bad.write_text("age,price,job,code,label\n30,1,cook,001,yes\n31,cheap,cook,001,yes\n")
    for command in ("predict", "add", "forget"):
        said = run(command, model, bad, code=1).stderr
        for words in ("bad.csv, line 3", "'price'", "'cheap'", "--numeric"):
            assert words in said
    said = run("explain", model, "old", "1", "cook", "007", code=1).stderr
    assert "'age' holds numbers, and 'old' is not one" in said
    said = run("explain", model, "--columns", "age", "1", "1", "cook", "007", code=1).stderr
    assert "--columns names 1 columns" in said
    assert model.read_bytes() == before
    assert (
        "names the column 'prize'" in run("fit", file, *LABELLED, "--numeric", "prize", "--out", model, code=1).stderr
    )
    run("fit", file, *LABELLED, "--missing", "refuse", "--out", model, code=1)
    said = run("fit", file, "--h", "2", "--numeric", "age", "--out", model, code=2).stderr
    assert "--numeric is for tables" in said


def test_what_is_evaluated_is_what_fit_learns(file: Path) -> None:
    def accuracy(*options: str) -> float:
        found = json.loads(run("evaluate", file, *LABELLED, "--folds", "3", *options, "--json").stdout)
        return float(found["learners"]["this model"]["accuracy"])

    assert accuracy() > 0.9
    assert accuracy("--numeric", "age,price") == accuracy()
    assert accuracy("--numeric", "none") < 0.8


def test_a_shard_is_read_as_its_layout(file: Path) -> None:
    model, shard, few = file.with_name("m"), file.with_name("s"), file.with_name("few.csv")
    run("fit", file, *LABELLED, "--out", model)
    few.write_text("age,price,job,code,label\n,1,7,7,yes\n")  # nothing here tells that 7 is a name and age a number
    run("fit", few, *LABELLED, "--layout", model, "--out", shard)
    assert encode_letters(load(shard).state.columns.kinds) == "nnss"
    run("merge", model, shard, "--out", file.with_name("both"))
    assert (
        "--layout" in run("fit", few, *LABELLED, "--layout", model, "--numeric", "none", "--out", shard, code=2).stderr
    )


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (["1", "", "2.5", "-1e3"], "n"),
        (["1", "+.5", "5.", " 7 ", "0", "-0.5"], "n"),
        (["1", "007"], "s"),
        (["1", "x"], "s"),
        (["1", "inf"], "s"),
        (["1", "NA"], "n"),
        (["cook", "NA"], "s"),
        (["2024-01-31", "", "2024-02-01 12:30"], "d"),
        (["2024-01-31T12:00:05.123456789Z", " 2024-02-01T00:00:00+0130"], "d"),
        (["2024-01-31", "2024-02-30"], "s"),
        (["2024-01-31", "20240201"], "s"),
        (["2024-01-31", "1"], "s"),
        (["2024/01/31", "2024/02/01"], "d"),
        (["31.01.2024", "NA"], "d"),
        (["01.02.2024", "02.01.2024"], "s"),
        (["", ""], "?"),
    ],
)
def test_which_columns_of_text_are_numbers(values: list[str], kind: str, tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("a,y\n" + "".join(f"{value},x\n" for value in values))
    [batch] = TableSchema("y", numeric="auto", tell=lambda _: None).examples([str(path)])
    assert [column.value for column in batch.kinds] == [kind, "s"]
    if kind == "n":
        expected = pd.read_csv(path)["a"].to_numpy(float)
        assert np.array_equal(batch.X[:, 0].astype(float), expected, equal_nan=True)


def test_dates_of_parquet_files_are_dates(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    days = pd.date_range("2024-01-01", periods=60, freq="7h")
    frame = pd.DataFrame({"when": days.where(np.arange(60) % 7 > 0)})
    y = np.where(days.hour < 12, "early", "late")
    frame.assign(label=y).to_parquet(tmp_path / "rows.parquet")
    frame.assign(label=y).to_csv(tmp_path / "rows.csv", index=False)
    run("fit", tmp_path / "rows.parquet", *LABELLED, "--out", tmp_path / "m")
    same = MemoryClassifier().fit(frame, y.astype(object))
    assert load(tmp_path / "m").digest() == same.digest()
    for name in ("rows.parquet", "rows.csv"):
        assert run("predict", tmp_path / "m", tmp_path / name).stdout.split() == same.predict(frame).tolist()
    run("fit", tmp_path / "rows.parquet", *LABELLED, "--numeric", "none", "--out", tmp_path / "m", code=1)


def test_times_may_come_after_a_first_file_without_any(tmp_path: Path) -> None:
    """The first file shows no value of a column, so the rows that are added decide what it is."""
    nothing = pd.Series([None] * 4, dtype="datetime64[us]")
    times = pd.Series(pd.to_datetime(["2026-01-02 02:00", None, "2026-01-06 06:00", None]))
    first = pd.DataFrame({"when": nothing, "size": [1.5, 2.5, 3.5, 4.5], "label": ["a", "b", "a", "b"]})
    then = first.assign(when=times)
    first.to_parquet(tmp_path / "first.parquet")
    then.to_parquet(tmp_path / "then.parquet")
    run("fit", tmp_path / "first.parquet", "--label", "label", "--out", tmp_path / "model")
    run("add", tmp_path / "model", tmp_path / "then.parquet")
    run("refit", tmp_path / "model")
    table = pd.concat([first, then], ignore_index=True)
    fresh = MemoryClassifier().fit(table[["when", "size"]], table["label"])
    assert load(tmp_path / "model").digest(parts=True)["kept rows"] == fresh.digest(parts=True)["kept rows"]
