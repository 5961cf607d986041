"""Missing values and dates that text files write in their own ways: the model is that of the clean frame.

The tables are made up in the shape of Palmer's penguins (``NA`` in columns of measurements) and of the weather in
Seattle (dates with slashes).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from hammemo import MemoryClassifier, MemoryRegressor, load
from hammemo.cli.app import app
from hammemo.files.models import read_notes
from hammemo.sources import read_tables
from hammemo.sources.read_tables import read_table
from hammemo.sources.reading_notes import name_column
from hammemo.tokens.column_letters import encode_letters

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.filterwarnings("ignore:Column .* holds (dates|numbers)")  # of twins in Python

N = 120
SPECIES = ("--label", "species")
WEATHER = ("--label", "weather")


def run(*arguments: object, code: int = 0, **options: Any) -> Any:
    result = CliRunner().invoke(app, [*map(str, arguments)], **options)
    assert result.exit_code == code, result.output
    return result


def penguins() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    species = rng.choice(["Adelie", "Gentoo"], N)
    is_large = species == "Gentoo"
    frame = pd.DataFrame(
        {
            "bill": (rng.normal(39, 2, N) + 8 * is_large).round(1),
            "mass": (rng.normal(3700, 300, N) + 1300 * is_large).round(-1),
            "sex": rng.choice(["male", "female", "NA"], N),
        }
    )
    frame.loc[::17, ["bill", "mass"]] = np.nan
    return frame.assign(species=species)


def weather() -> pd.DataFrame:
    rng = np.random.default_rng(1)
    days = pd.Timestamp("2012-01-01") + pd.to_timedelta(rng.integers(0, 1400, N), unit="D")
    frame = pd.DataFrame({"date": days, "wind": rng.normal(3, 1, N).round(2)})
    return frame.assign(weather=np.where(frame["date"].dt.month.isin([5, 6, 7, 8]), "sun", "rain"))


def fitted(frame: pd.DataFrame, label: str) -> MemoryClassifier:
    return MemoryClassifier().fit(frame.drop(columns=label), frame[label])


@pytest.fixture
def bills(tmp_path: Path) -> Path:
    penguins().to_csv(tmp_path / "penguins.csv", index=False, na_rep="NA")
    return tmp_path / "penguins.csv"


@pytest.fixture
def days(tmp_path: Path) -> Path:
    weather().to_csv(tmp_path / "weather.csv", index=False, date_format="%Y/%m/%d")
    return tmp_path / "weather.csv"


def in_small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read tables in batches of 7 rows, and keep no more of them than one batch."""
    defaults: Any = read_table.__kwdefaults__
    monkeypatch.setitem(defaults, "batch_rows", 7)
    monkeypatch.setattr(read_tables, "BATCH_ROWS", 7)


# ---------------------------------------------------------------- missing values


@pytest.mark.parametrize("source", ["file", "standard input"])
@pytest.mark.parametrize("is_small", [False, True])
def test_na_among_numbers_is_missing(bills: Path, source: str, is_small: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if is_small:
        in_small_batches(monkeypatch)
    model = bills.with_name("m")
    if source == "file":
        said = run("fit", bills, *SPECIES, "--out", model).stderr
    else:
        said = run("fit", "-", *SPECIES, "--out", model, input=bills.read_bytes()).stderr
    assert said.count("Column 'bill': 8 values 'NA' are read as missing.") == 1
    assert said.count("Column 'mass': 8 values 'NA' are read as missing.") == 1
    assert "'sex'" not in said
    same = fitted(penguins(), "species")
    assert encode_letters(same.state.columns.kinds) == "nns"
    assert load(model).digest(parts=True) == same.digest(parts=True)


def test_all_commands_read_na_alike(bills: Path) -> None:
    frame = penguins()
    model = bills.with_name("m")
    gone = bills.with_name("gone.csv")
    rest = bills.with_name("rest.csv")
    frame[:20].to_csv(gone, index=False, na_rep="NA")
    frame[20:].to_csv(rest, index=False, na_rep="N/A")
    run("fit", bills, *SPECIES, "--out", model)
    whole = load(model).digest()
    same = fitted(frame, "species")
    assert run("predict", model, bills).stdout.split() == same.predict(frame.drop(columns="species")).tolist()
    run("forget", model, gone, "--refit")
    assert load(model).digest() == fitted(frame[20:], "species").digest()
    run("verify", model, "--rows", rest)
    run("add", model, gone, "--refit")
    assert load(model).digest() == whole
    synced = run("sync", model, rest, "--refit").stdout
    assert "100" in synced
    assert load(model).digest() == fitted(frame[20:], "species").digest()


def test_a_row_alone_is_read_as_the_table_was(bills: Path) -> None:
    model = bills.with_name("m")
    run("fit", bills, *SPECIES, "--out", model)
    same = load(model)
    for bill in ("", "NA", "nan", "?", "None", " NULL "):
        alone = run("predict", model, "--proba", input=f"bill,mass,sex\n{bill},5000,NA\n").stdout.split()
        [[*expected]] = same.predict_proba(pd.DataFrame({"bill": [np.nan], "mass": [5000.0], "sex": ["NA"]}))
        assert float(alone[1]) == pytest.approx(max(expected), rel=1e-5)
        typed = json.loads(run("explain", model, "--json", bill, "5000", "NA").stdout)
        assert typed == same.explain([None, 5000.0, "NA"], 5).to_dict()
    said = run("predict", model, input="bill,mass,sex\nlong,5000,NA\n", code=1).stderr
    assert "'bill' holds numbers, and 'long' is not one" in said
    assert "--na 'long'" in said


def test_evaluate_reads_na_as_the_empty_fields_that_it_stands_for(bills: Path) -> None:
    empty = bills.with_name("empty.csv")
    penguins().to_csv(empty, index=False)

    def measure(path: Path) -> Any:
        learners = json.loads(run("evaluate", path, *SPECIES, "--folds", "3", "--json").stdout)["learners"]
        return learners["this model"]

    assert measure(bills) == measure(empty)


def test_na_texts_can_be_named_or_switched_off(bills: Path) -> None:
    model = bills.with_name("m")
    dashes = bills.with_name("dashes.csv")
    penguins().to_csv(dashes, index=False, na_rep="-9999")
    run("fit", dashes, *SPECIES, "--na", "-9999", "--na", "unknown", "--out", model)
    expected = penguins().assign(sex=penguins()["sex"])
    assert load(model).digest() == fitted(expected, "species").digest()
    row = "bill,mass,sex\n-9999,unknown,male\n"
    assert run("predict", model, input=row).stdout == run("predict", model, input=row.replace("-9999", "")).stdout
    assert "'NA' is not one" in run("predict", model, input="bill,mass,sex\nNA,1,male\n", code=1).stderr
    run("predict", model, "--na", "NA", input="bill,mass,sex\nNA,1,male\n")
    assert json.loads(read_notes(model)["na"]) == ["-9999", "unknown"]
    run("fit", bills, *SPECIES, "--na", "", "--out", model)
    assert not load(model).state.columns.has_ordered
    assert json.loads(read_notes(model)["na"]) == []
    said = run("fit", bills, "--h", "2", "--na", "x", "--out", model, code=2).stderr
    assert "--na is for tables" in said


def test_na_in_other_files_and_parts_changes_no_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    in_small_batches(monkeypatch)
    frame = penguins()
    only_na = frame.assign(bill="NA")[:20]
    only_na.to_csv(tmp_path / "a.csv", index=False, na_rep="NA")
    frame[20:].to_csv(tmp_path / "b.csv", index=False, na_rep="NA")
    expected = pd.concat([frame[:20].assign(bill=np.nan), frame[20:]])
    for first, second in (("a.csv", "b.csv"), ("b.csv", "a.csv")):
        run("fit", tmp_path / first, tmp_path / second, *SPECIES, "--out", tmp_path / "m")
        assert load(tmp_path / "m").digest() == fitted(expected, "species").digest()
    run("fit", tmp_path / "a.csv", *SPECIES, "--out", tmp_path / "m")  # a column of NA alone says nothing
    assert encode_letters(load(tmp_path / "m").state.columns.kinds) == "sns"
    run("forget", tmp_path / "m", tmp_path / "a.csv")


def test_a_name_after_many_numbers_makes_names_of_all_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_small_batches(monkeypatch)
    frame = penguins()
    frame["bill"] = [*map(str, frame["bill"].fillna(40.5)[:-1]), "broken"]
    frame.to_csv(tmp_path / "a.csv", index=False, na_rep="NA")
    said = run("fit", tmp_path / "a.csv", *SPECIES, "--out", tmp_path / "m").stderr
    assert "Column 'bill' holds 119 numbers, but also 'broken': they are all read as names." in said
    assert "--na 'broken'" in said
    assert load(tmp_path / "m").digest() == fitted(frame, "species").digest()
    run("forget", tmp_path / "m", tmp_path / "a.csv")


def test_targets_are_never_na(bills: Path) -> None:
    model = bills.with_name("m")
    said = run("fit", bills, "--target", "mass", "--out", model, code=1).stderr
    assert "line 2: column 'mass' has no value" in said
    clean = penguins().dropna(subset=["mass"])
    clean.to_csv(bills, index=False, na_rep="NA")
    run("fit", bills, "--target", "mass", "--out", model)
    same = MemoryRegressor().fit(clean.drop(columns="mass"), clean["mass"])
    assert load(model).digest() == same.digest()


# ---------------------------------------------------------------- dates


@pytest.mark.parametrize(
    ("written", "is_small"),
    [
        ("%Y/%m/%d", False),
        ("%d.%m.%Y", True),
        ("%m/%d/%Y", False),
        ("%d %b %Y", False),
        ("%Y/%m/%d %H:%M", False),
        ("%b %d, %Y %I:%M %p", True),
        ("%Y-%m-%d", True),
    ],
)
def test_dates_of_one_format_are_those_of_the_frame(
    tmp_path: Path, written: str, is_small: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if is_small:
        in_small_batches(monkeypatch)
    frame = weather()
    frame.loc[::11, "date"] = pd.NaT
    file, model, gone = tmp_path / "w.csv", tmp_path / "m", tmp_path / "gone.csv"
    frame.to_csv(file, index=False, date_format=written, na_rep="NA")
    frame[:4].to_csv(gone, index=False, date_format=written, na_rep="NA")
    said = run("fit", file, *WEATHER, "--out", model).stderr
    assert "Column 'date': 11 values 'NA' are read as missing." in said
    same = fitted(frame, "weather")
    assert encode_letters(same.state.columns.kinds) == "dn"
    assert load(model).digest(parts=True) == same.digest(parts=True)
    assert run("predict", model, file).stdout.split() == same.predict(frame.drop(columns="weather")).tolist()
    alone = frame[3:4].to_csv(index=False, date_format=written)  # its day and month alone may say nothing
    assert run("predict", model, input=alone).stdout.split() == [same.predict(frame[["date", "wind"]][3:4])[0]]
    run("forget", model, gone, "--refit")
    assert load(model).digest() == fitted(frame[4:], "weather").digest()
    run("add", model, gone)
    run("predict", model, file)


def test_a_file_that_contradicts_is_a_clear_error_and_an_option_reads_it(days: Path) -> None:
    model = days.with_name("m")
    run("fit", days, *WEATHER, "--out", model)
    before = model.read_bytes()
    other = days.with_name("other.csv")
    weather().to_csv(other, index=False, date_format="%d.%m.%Y")
    for command in ("predict", "add", "forget"):
        said = run(command, model, other, code=1).stderr
        for words in ("other.csv, line 2", "'date' holds dates written as %Y/%m/%d", "--date-format 'date="):
            assert words in said
    assert model.read_bytes() == before
    answers = run("predict", model, days).stdout
    assert run("predict", model, other, "--date-format", "date=%d.%m.%Y").stdout == answers
    run("forget", model, other, "--date-format", "date=%d.%m.%Y")
    run("add", model, days)  # the format of the model is as it was
    for iso in ("2012-01-31", "20120131"):  # which other modules read as dates
        said = run("predict", model, input=f"date,wind\n{iso},3\n", code=1).stderr
        assert f"{iso!r} is not one" in said


def test_the_order_of_day_and_month_is_not_guessed(tmp_path: Path) -> None:
    frame = weather()
    frame["date"] = frame["date"].dt.to_period("M").dt.to_timestamp() + pd.to_timedelta(frame.index % 12, unit="D")
    file, model = tmp_path / "w.csv", tmp_path / "m"
    frame.to_csv(file, index=False, date_format="%d/%m/%Y")
    said = run("fit", file, *WEATHER, "--out", model).stderr
    for words in ("Column 'date' holds dates", "'01/", "which number is the day", "read as names"):
        assert words in said
    assert "--date-format 'date=%d/%m/%Y' or --date-format 'date=%m/%d/%Y'" in said
    assert encode_letters(load(model).state.columns.kinds) == "sn"
    for written, day_first in (("%d/%m/%Y", True), ("%m/%d/%Y", False)):
        said = run("fit", file, *WEATHER, "--date-format", f"date={written}", "--out", model).stderr
        assert said == ""
        expected = pd.read_csv(file)
        expected["date"] = pd.to_datetime(expected["date"], dayfirst=day_first)
        assert load(model).digest() == fitted(expected, "weather").digest()
        run("forget", model, file)


@pytest.mark.parametrize(
    ("written", "words", "kinds"),
    [
        ("%m/%d/%y", "two-digit years", "sn"),
        ("%Y%m%d", "whole numbers that are all dates as eight digits", "nn"),
    ],
)
def test_dates_that_may_be_something_else_are_left_to_the_user(
    tmp_path: Path, written: str, words: str, kinds: str
) -> None:
    file, model = tmp_path / "w.csv", tmp_path / "m"
    weather().to_csv(file, index=False, date_format=written)
    said = run("fit", file, *WEATHER, "--out", model).stderr
    assert words in said
    assert f"--date-format 'date={written}'" in said
    assert encode_letters(load(model).state.columns.kinds) == kinds
    run("fit", file, *WEATHER, "--date-format", f"date={written}", "--out", model)
    assert load(model).digest() == fitted(weather(), "weather").digest()
    assert run("predict", model, file).exit_code == 0


def test_two_formats_in_one_column_are_names_with_a_hint(tmp_path: Path) -> None:
    frame = weather()
    frame["date"] = [*frame["date"][:60].dt.strftime("%Y/%m/%d"), *frame["date"][60:].dt.strftime("%d.%m.%Y")]
    frame.to_csv(tmp_path / "w.csv", index=False)
    said = run("fit", tmp_path / "w.csv", *WEATHER, "--out", tmp_path / "m").stderr
    assert "Column 'date' holds dates in more than one format" in said
    assert load(tmp_path / "m").digest() == fitted(frame, "weather").digest()


def test_wrong_date_formats_are_refused_with_the_way_out(days: Path) -> None:
    model = days.with_name("m")
    for option, words in (
        ("when=%Y/%m/%d", "names the column 'when', which is none of the context: date, wind"),
        ("date", "names no column: write COLUMN=FORMAT"),
        ("date=%Y/%m", "lacks the day"),
        ("date=%d.%m.%Y", "written as %d.%m.%Y, and"),
        ("weather=%d.%m.%Y", "names the label"),
    ):
        assert words in run("fit", days, *WEATHER, "--date-format", option, "--out", model, code=1).stderr
    twice = ("--date-format", "date=%Y/%m/%d", "--date-format", "date=%Y/%m/%d")
    assert "twice" in run("fit", days, *WEATHER, *twice, "--out", model, code=1).stderr
    both = ("--date-format", "date=%Y/%m/%d", "--numeric")
    assert "leave one" in run("fit", days, *WEATHER, *both, "none", "--out", model, code=1).stderr
    assert "lacks 'date'" in run("fit", days, *WEATHER, *both, "wind", "--out", model, code=1).stderr
    run("fit", days, *WEATHER, *both, "wind,date", "--out", model)
    said = run("predict", model, days, "--date-format", "wind=%Y/%m/%d", code=1).stderr
    assert "'wind', which was learned as numbers" in said


def test_a_shard_is_read_as_its_layout_was(days: Path) -> None:
    model, shard, few = days.with_name("m"), days.with_name("s"), days.with_name("few.csv")
    frame = weather().astype({"wind": object})
    frame.loc[0, "wind"] = "-"
    frame.to_csv(days, index=False, date_format="%Y/%m/%d")
    run("fit", days, *WEATHER, "--na", "-", "--out", model)
    frame[:2].to_csv(few, index=False, date_format="%Y/%m/%d")
    for engine in ((), ("--engine", "threads")):
        run("fit", few, *WEATHER, "--layout", model, *engine, "--out", shard)
        run("forget", shard, few)
        run("merge", model, shard, "--out", days.with_name("both"))
        run("predict", days.with_name("both"), days)


def test_times_of_another_format_are_read_with_an_option(days: Path) -> None:
    asked = ("evaluate", days, *WEATHER, "--columns", "wind", "--time", "date", "--json")
    assert "not a time" in run(*asked, code=1).stderr
    found = json.loads(run(*asked, "--date-format", "date=%Y/%m/%d").stdout)
    iso = days.with_name("iso.csv")
    weather().to_csv(iso, index=False)
    expected = json.loads(run("evaluate", iso, *asked[2:]).stdout)
    assert found["learners"] == expected["learners"]


# ---------------------------------------------------------------- other formats


def test_json_lines_have_no_dates_and_write_them_as_strings(tmp_path: Path) -> None:
    frame = weather()
    texts = frame.assign(date=frame["date"].dt.strftime("%d.%m.%Y"))
    texts["wind"] = texts["wind"].astype(object)
    texts.loc[::10, "wind"] = "NA"
    texts.to_json(tmp_path / "w.jsonl", orient="records", lines=True)
    said = run("fit", tmp_path / "w.jsonl", *WEATHER, "--out", tmp_path / "m").stderr
    assert "Column 'wind': 12 values 'NA' are read as missing." in said
    frame.loc[::10, "wind"] = np.nan
    assert load(tmp_path / "m").digest() == fitted(frame, "weather").digest()
    run("forget", tmp_path / "m", tmp_path / "w.jsonl")
    codes = texts.assign(wind=[f"{i}.5" for i in range(N)])  # strings that say what they are
    codes.to_json(tmp_path / "c.jsonl", orient="records", lines=True)
    said = run("fit", tmp_path / "c.jsonl", *WEATHER, "--out", tmp_path / "m").stderr
    assert encode_letters(load(tmp_path / "m").state.columns.kinds) == "ds"


def test_strings_of_parquet_files_stay_names_with_a_hint(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    frame = weather()
    texts = frame.assign(date=frame["date"].dt.strftime("%Y/%m/%d"), wind=frame["wind"].astype(str))
    texts.to_parquet(tmp_path / "w.parquet")
    said = run("fit", tmp_path / "w.parquet", *WEATHER, "--out", tmp_path / "m").stderr
    assert "Column 'date' holds dates as strings" in said
    assert "--date-format 'date=%Y/%m/%d'" in said
    assert "Column 'wind' holds numbers as strings" in said
    assert not load(tmp_path / "m").state.columns.has_ordered
    option = ("--date-format", "date=%Y/%m/%d")
    run("fit", tmp_path / "w.parquet", *WEATHER, *option, "--out", tmp_path / "m")
    expected = frame.assign(wind=texts["wind"])
    assert load(tmp_path / "m").digest() == fitted(expected, "weather").digest()


# ---------------------------------------------------------------- engines


@pytest.mark.parametrize("target", [False, True])
def test_engines_read_text_columns_as_fit_does(tmp_path: Path, target: bool) -> None:
    frame = penguins().dropna(subset=["mass"])
    dates = weather()["date"].iloc[: len(frame)].sort_values().to_numpy()
    frame = frame.assign(day=dates)
    folder = tmp_path / "parts"
    folder.mkdir()
    for part, rows in enumerate(np.array_split(np.arange(len(frame)), 5)):
        some = frame.iloc[rows]
        some = some.assign(bill="NA") if part == 0 else some
        some.to_csv(folder / f"{part}.csv", index=False, na_rep="NA", date_format="%d.%m.%Y")
    files = sorted(folder.iterdir())
    wanted = ("--target", "mass") if target else SPECIES
    plain = run("fit", *files, *wanted, "--out", tmp_path / "plain")
    many = run("fit", *files, *wanted, "--engine", "threads", "--out", tmp_path / "many")
    assert "Column 'bill'" in plain.stderr
    assert plain.stderr == many.stderr
    assert (tmp_path / "plain").read_bytes() == (tmp_path / "many").read_bytes()
    assert json.loads(read_notes(tmp_path / "many")["dates"]) == {"%d.%m.%Y": [[3, 3]]}
    run("forget", tmp_path / "many", files[0])


@pytest.mark.parametrize("target", ["--label", "--target"])
def test_warnings_name_a_column_as_the_file_does(target: str, tmp_path: Path) -> None:
    hours = np.arange(N) % 24
    table = pd.DataFrame(
        {
            "name": np.where(hours % 3, "a", "b"),
            "seen": [f"2026-01-{1 + place % 28:02}T{hour:02}:00:00+02:00" for place, hour in enumerate(hours)],
            "late": (hours > 12).astype(int),
        }
    )
    table.to_csv(tmp_path / "seen.csv", index=False)
    fit = ("fit", tmp_path / "seen.csv", target, "late", "--out", tmp_path / "model")
    evaluate = ("evaluate", tmp_path / "seen.csv", target, "late", "--folds", 2)
    for command in (fit, evaluate):
        with pytest.warns(UserWarning, match="offset") as warned:
            run(*command)
        (sentence,) = {str(one.message) for one in warned if "offset" in str(one.message)}
        assert sentence.startswith("Column 'seen' holds times with an offset from UTC")


def test_names_take_the_place_of_places_at_the_start_alone() -> None:
    columns = ["name", "price"]
    assert name_column("Column 1 is 2 of 3.", columns) == "Column 'price' is 2 of 3."
    for other in ("Column 2 is unknown.", "In column 1, 2 values.", "Column 'x' holds 1."):
        assert name_column(other, columns) == other
    assert name_column("Column 1 is it.", None) == "Column 1 is it."
