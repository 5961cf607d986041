"""``--target``: models that predict numbers, through the command line."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from hammemo import MemoryClassifier, MemoryRegressor, load, save
from hammemo.cli.app import app

if TYPE_CHECKING:
    from pathlib import Path

N, GONE = 240, 24
TARGET = ("--target", "price")


def run(*arguments: object, code: int = 0, **options: Any) -> Any:
    result = CliRunner().invoke(app, [*map(str, arguments)], **options)
    assert result.exit_code == code, (result.output, result.exception)
    return result


def houses() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"size": rng.normal(90, 30, N).round(1), "town": rng.choice(list("abc"), N)})
    table.insert(1, "built", pd.date_range("1990-01-01", periods=N).strftime("%Y-%m-%d"))
    noise = rng.normal(0, 5, N)
    return table.assign(price=(2 * table["size"] + 30 * (table["town"] == "b") + noise).round(2))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a model, the rows that go, those that remain, and rows to ask about."""
    place, table = tmp_path_factory.mktemp("houses"), houses()
    table.to_csv(place / "all.csv", index=False)
    table[:GONE].to_csv(place / "gone.csv", index=False)
    table[GONE:].to_csv(place / "rest.csv", index=False)
    table.drop(columns="price")[:5].to_csv(place / "ask.csv", index=False)
    run("fit", place / "all.csv", *TARGET, "--out", place / "houses.model")
    return place


def test_a_fit_is_that_of_a_frame(folder: Path) -> None:
    table = pd.read_csv(folder / "all.csv", parse_dates=["built"])
    model: Any = load(folder / "houses.model")
    assert model.digest() == MemoryRegressor().fit(table.drop(columns="price"), table["price"]).digest()
    shown = json.loads(run("inspect", folder / "houses.model", "--json").stdout)
    assert shown["kind"] == "regressor"
    assert (shown["examples"], shown["kept_rows"], shown["keeps_all"]) == (N, N, True)
    assert "labels" not in shown


def test_an_engine_makes_the_same_file(folder: Path, tmp_path: Path) -> None:
    for keep in ((), ("--keep", 50)):
        every = (folder / "all.csv", *TARGET, *keep)
        run("fit", *every, "--out", tmp_path / "one")
        run("fit", *every, "--engine", "threads", "--out", tmp_path / "two")
        assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    refused = run("fit", *every, "--segments", 2, "--out", tmp_path / "three", code=1)
    assert "a model of numbers has none" in refused.stderr


def test_predict_prints_numbers_and_intervals(folder: Path) -> None:
    asked = pd.read_csv(folder / "ask.csv", parse_dates=["built"])
    model: Any = load(folder / "houses.model")
    lines = run("predict", folder / "houses.model", folder / "ask.csv", "--interval", "0.5").stdout.splitlines()
    found = np.array([line.split("\t") for line in lines], float)
    wanted = np.column_stack([model.predict(asked), model.predict_interval(asked, 0.5)])
    assert np.allclose(found, wanted, rtol=1e-4)
    out = folder / "answers.csv"
    run("predict", folder / "houses.model", folder / "ask.csv", "--interval", "0.5", "--out", out)
    assert np.allclose(pd.read_csv(out)[["prediction", "low", "high"]], wanted)


def test_after_forgetting_and_refit_the_file_is_that_of_the_rest(folder: Path, tmp_path: Path) -> None:
    model, again = tmp_path / "houses.model", tmp_path / "again.model"
    shutil.copy(folder / "houses.model", model)
    told = run("forget", model, folder / "gone.csv").stdout
    assert f"the model holds {N - GONE} examples." in told
    assert "hammemo refit" in told
    assert "Counts proven" in run("verify", model, "--rows", folder / "rest.csv", code=1).stdout
    run("verify", model, code=1)
    assert f"fitted to {N - GONE} kept examples and have changed" in run("refit", model).stdout
    assert "Proven" in run("verify", model, "--rows", folder / "rest.csv").stdout
    run("verify", model)
    run("verify", model, "--rows", folder / "all.csv", code=1)
    run("fit", folder / "rest.csv", *TARGET, "--out", again)
    assert model.read_bytes() == again.read_bytes()
    run("add", model, folder / "gone.csv", "--refit")
    assert model.read_bytes() == (folder / "houses.model").read_bytes()
    run("forget", model, folder / "gone.csv", "--target", "price", "--refit")
    assert model.read_bytes() == again.read_bytes()


def test_models_of_numbers_are_merged(folder: Path, tmp_path: Path) -> None:
    parts = [tmp_path / "one.model", tmp_path / "two.model"]
    for rows, part in zip(("gone.csv", "rest.csv"), parts, strict=True):
        run("fit", folder / rows, *TARGET, "--out", part)
    facts = json.loads(run("merge", *parts, "--out", tmp_path / "sum.model", "--refit", "--json").stdout)
    assert facts["examples"] == N
    assert "labels" not in facts
    assert (tmp_path / "sum.model").read_bytes() == (folder / "houses.model").read_bytes()


def test_a_receipt_tells_what_was_forgotten(folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("cryptography")
    model, receipts, keys = tmp_path / "houses.model", tmp_path / "receipts", tmp_path / "keys"
    shutil.copy(folder / "houses.model", model)
    run("keys", "new", keys)
    signed = ("--receipt", receipts, "--keys", keys, "--request", "17", "--refit")
    run("forget", model, folder / "gone.csv", *signed)
    receipt = json.loads(receipts.read_text())["receipt"]
    assert (receipt["removed"]["rows"], receipt["removed"]["labels"]) == (GONE, 0)
    assert "carried out before" in run("forget", model, folder / "gone.csv", *signed).stdout
    assert "Proven" in run("verify", model, "--receipt", receipts, "--rows", folder / "rest.csv").stdout
    refused = run("forget", model, folder / "gone.csv", code=1)
    assert "line 2 was never learnt" in refused.stderr


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--label", "town"), "give one of them"),
        (("--h", 3), "give one of them"),
        (("--label", "town", "--bounds", "0,"), "give one of them"),
        (("--vote", "sum"), "--vote is for labels"),
        (("--key-file", "key"), "--key-file is for labels"),
        (("--keep", "digests"), "digests are for labels"),
        (("--classes-top", 3), "--classes-top is for sequences"),
    ],
)
def test_options_that_numbers_do_not_have(folder: Path, tmp_path: Path, options: Any, sentence: str) -> None:
    refused = run("fit", folder / "all.csv", *TARGET, *options, "--out", tmp_path / "m", code=2)
    assert sentence in refused.stderr
    assert not (tmp_path / "m").exists()


@pytest.mark.parametrize(
    ("value", "sentence"),
    [("", "column 'price' has no value"), ("inf", "not a finite number"), ("cheap", "'cheap', which is not a finite")],
)
def test_targets_that_are_refused(tmp_path: Path, value: str, sentence: str) -> None:
    (tmp_path / "t.csv").write_text(f"size,price\n3,4\n5,{value}\n")
    refused = run("fit", tmp_path / "t.csv", *TARGET, "--out", tmp_path / "m", code=1)
    assert f"{tmp_path / 't.csv'}, line 3: " in refused.stderr
    assert sentence in refused.stderr


def test_answers_that_a_model_does_not_have(folder: Path, tmp_path: Path) -> None:
    asked = (folder / "houses.model", folder / "ask.csv")
    for option in ("--proba", "--certify"):
        assert f"{option} is for a model of labels" in run("predict", *asked, option, code=2).stderr
    assert "predicts numbers" in run("top-k", *asked, code=1).stderr
    assert "between 0 and 1" in run("predict", *asked, "--interval", "1.5", code=1).stderr
    run("fit", folder / "all.csv", "--label", "town", "--out", tmp_path / "labels.model")
    refused = run("predict", tmp_path / "labels.model", folder / "all.csv", "--interval", "0.8", code=2)
    assert "--interval is for a model of numbers" in refused.stderr


def test_a_model_that_was_saved_in_python(tmp_path: Path) -> None:
    table = houses()
    model = MemoryRegressor().fit(table[["size", "town"]], table["price"])
    save(model, tmp_path / "m")
    table.to_csv(tmp_path / "all.csv", index=False)
    table[:GONE].to_csv(tmp_path / "gone.csv", index=False)
    printed = run("predict", tmp_path / "m", tmp_path / "all.csv").stdout.splitlines()
    assert np.allclose(np.array(printed, float), model.predict(table[["size", "town"]]), rtol=1e-4)
    run("forget", tmp_path / "m", tmp_path / "gone.csv", "--target", "price", "--refit")
    rest = MemoryRegressor().fit(table[["size", "town"]][GONE:], table["price"][GONE:])
    found: Any = load(tmp_path / "m")
    assert found.digest() == rest.digest()


def test_a_model_without_rows_cannot_be_refitted(folder: Path, tmp_path: Path) -> None:
    run("fit", folder / "all.csv", *TARGET, "--keep", "none", "--out", tmp_path / "m")
    assert "keeps no sample of its examples" in run("refit", tmp_path / "m", code=1).stderr
    run("forget", tmp_path / "m", folder / "gone.csv")
    assert "Counts proven" in run("verify", tmp_path / "m", "--rows", folder / "rest.csv", code=1).stdout


def test_labels_and_numbers_are_not_merged(folder: Path, tmp_path: Path) -> None:
    save(MemoryClassifier().fit([["a"]], ["x"]), tmp_path / "m")
    for models in ((folder / "houses.model", tmp_path / "m"), (tmp_path / "m", folder / "houses.model")):
        assert "takes another Memory" in run("merge", *models, "--out", tmp_path / "sum", code=1).stderr


def test_evaluate_measures_numbers(folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    line = ("evaluate", folder / "all.csv", *TARGET)
    found = json.loads(run(*line, "--folds", 2, "--json").stdout)
    assert found["asked"] == N
    assert found["learners"]["this model"]["rmse"] < 0.5 * found["learners"]["mean"]["rmse"]
    told = run(*line, "--time", "built", "--plot", tmp_path / "p.png").stdout
    assert "the last 20% of rows in time" in told
    assert all(word in told for word in ("RMSE", "MAE", "R²", "pinball", "in 80 % interval"))
    assert (tmp_path / "p.png").stat().st_size


def test_sync_makes_the_model_that_of_a_table(folder: Path, tmp_path: Path) -> None:
    model, again, table = tmp_path / "houses.model", tmp_path / "again.model", tmp_path / "now.csv"
    shutil.copy(folder / "houses.model", model)
    rest = houses()[GONE:]
    rest.loc[rest.index[:3], "price"] += 1  # a target that changed is another row
    rest.to_csv(table, index=False)
    run("fit", table, *TARGET, "--out", again)
    assert f"{GONE + 3} rows forgotten, 3 learnt" in run("sync", model, table, "--dry-run").stdout
    assert model.read_bytes() == (folder / "houses.model").read_bytes()
    told = json.loads(run("sync", model, table, *TARGET, "--position", "v2", "--json").stdout)
    assert (told["forgotten"], told["learnt"], told["examples"], told["position"]) == (GONE + 3, 3, N - GONE, "v2")
    assert "labels" not in told
    assert f"The model holds {N - GONE} examples." in run("sync", model, table, "--refit", "--position", "v3").stdout
    assert load(model).digest() == load(again).digest()
    assert "is as it was" in run("sync", model, table).stdout


def test_bounds_on_the_command_line(folder: Path, tmp_path: Path) -> None:
    table = pd.read_csv(folder / "all.csv", parse_dates=["built"])
    bounded = MemoryRegressor(bounds=(-9, None)).fit(table.drop(columns="price"), table["price"])
    for engine in ((), ("--engine", "threads")):
        run("fit", folder / "all.csv", *TARGET, "--bounds", "-9,", *engine, "--out", tmp_path / "m")
        assert load(tmp_path / "m").digest() == bounded.digest()
        refused = run("fit", folder / "all.csv", *TARGET, "--bounds", "1e9,", *engine, "--out", tmp_path / "no", code=1)
        assert "in row 0 is below bounds=(1000000000.0, None)" in refused.stderr
    assert json.loads(run("inspect", tmp_path / "m", "--json").stdout)["bounds"] == [-9.0, None]
    asked = ("predict", tmp_path / "m", folder / "ask.csv")
    assert set(run(*asked, "--bounds", ",-7").stdout.split()) == {"-7"}
    with pytest.warns(UserWarning, match="ends of intervals are infinite"):
        lines = run(*asked, "--interval", 0.999, "--json").stdout.splitlines()
    assert {(answer["low"], answer["high"]) for answer in map(json.loads, lines)} == {(-9.0, None)}
    few = tmp_path / "few.csv"
    table.assign(price=table["price"].clip(upper=200))[:60].to_csv(few, index=False)
    line = ("evaluate", few, *TARGET, "--folds", 2, "--json")
    plain, clipped = (json.loads(run(*line, *given).stdout) for given in ((), ("--bounds", ",200")))
    assert clipped["learners"]["this model"]["rmse"] < plain["learners"]["this model"]["rmse"]


def test_every_form_of_a_model_clips(tmp_path: Path) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2))
    y = (2 * X[:, 0] + X[:, 1]).clip(-1, 1)
    asked = 3 * rng.normal(size=(50, 2))  # further out than any row
    unbounded = MemoryRegressor().fit(X, y)
    bounded = MemoryRegressor(bounds=(-1, 1)).fit(X, y)
    expected = unbounded.predict(asked).clip(-1, 1)
    ends = unbounded.predict_interval(asked, 0.8).clip(-1, 1)
    for numbers, clipped in ((unbounded.predict(asked), expected), (unbounded.predict_interval(asked, 0.8), ends)):
        assert numbers.min() < clipped.min() == -1
        assert numbers.max() > clipped.max() == 1

    save(bounded, tmp_path / "m")
    predictor = bounded.compile()
    for form in (bounded, load(tmp_path / "m"), predictor, load(tmp_path / "m").compile()):
        assert np.array_equal(form.predict(asked), expected)
        assert np.array_equal(form.predict_interval(asked, 0.8), ends)
    assert [predictor(row) for row in asked.tolist()] == expected.tolist()

    predictor.to_onnx(tmp_path / "m.onnx", [0.1, 0.9])
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx", providers=["CPUExecutionProvider"])
    answers, quantiles = session.run(["prediction", "quantiles"], {"numbers": asked})
    assert np.array_equal(answers, expected)
    assert np.array_equal(quantiles, ends)

    pd.DataFrame(asked).to_csv(tmp_path / "ask.csv", index=False, header=False)
    command = ("predict", tmp_path / "m", tmp_path / "ask.csv", "--no-header", "--interval", 0.8, "--json")
    lines = [json.loads(line) for line in run(*command).stdout.splitlines()]
    assert [line["prediction"] for line in lines] == expected.tolist()
    assert [[line["low"], line["high"]] for line in lines] == ends.tolist()


@pytest.mark.parametrize("text", ["1", "1,0", "a,", "1,2,3", "nan,"])
def test_bounds_that_are_refused(folder: Path, tmp_path: Path, text: str) -> None:
    refused = run("fit", folder / "all.csv", *TARGET, "--bounds", text, "--out", tmp_path / "m", code=2)
    assert f"--bounds {text}: give two numbers" in refused.stderr
