"""Every kind of column goes every way: files, commands, engines, graphs, explanations, a server.

A kind that one of them does not know is a failing test here, and not a user's discovery. The cases
are in `column_kind_cases`; a new kind of column needs one more there.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import running_servers
from column_kind_cases import (
    KIND_CASES,
    MODEL_CASES,
    N_REMAINING,
    KindCase,
    ModelCase,
    fit_table_case,
    make_table,
    split_target,
)
from engine_fits import fit_rows_of
from hammemo import load, save
from hammemo.cli.app import app
from hammemo.client import Client
from hammemo.tokens.column_kinds import ColumnKind

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

pytestmark = pytest.mark.filterwarnings("ignore:.*that nearly all differ:UserWarning")

every_kind = pytest.mark.parametrize("kind", list(KIND_CASES))
every_model = pytest.mark.parametrize("model_name", list(MODEL_CASES))


def run(*arguments: object) -> str:
    """Run a command and return what it prints."""
    result = CliRunner().invoke(app, [*map(str, arguments)])
    assert result.exit_code == 0, result.output
    return result.stdout


def queries_of(table: pd.DataFrame) -> pd.DataFrame:
    """Return some rows without label and target, the first of them without a value."""
    queries = table[["value", "size"]].tail(20).reset_index(drop=True)
    queries["value"] = queries["value"].mask(queries.index == 0)
    return queries


def as_json_rows(queries: pd.DataFrame) -> list[list[Any]]:
    """Return rows as JSON has them: dates as ISO strings, and None for what is missing."""
    return json.loads(queries.to_json(orient="values", date_format="iso", date_unit="us"))  # type: ignore[no-any-return]


def sort_rows(rows: list[list[Any]]) -> list[list[Any]]:
    """Return rows of a value that may be missing and a number in one order."""
    return sorted(rows, key=lambda row: (row[0] is not None, str(row[0]), row[1]))


def test_every_kind_of_column_has_a_case() -> None:
    assert set(KIND_CASES) == {kind.name for kind in ColumnKind}


@every_kind
def test_the_column_is_read_as_its_kind_and_matters(kind: str) -> None:
    table = make_table(kind)
    for case in MODEL_CASES.values():
        model = fit_table_case(table, case)
        assert model.state.columns.kinds[0] == ColumnKind[kind]
    case = MODEL_CASES["labels"]
    model = fit_table_case(table[:N_REMAINING], case)
    X, y = split_target(table[N_REMAINING:], case)
    assert model.score(X, y) > 0.85


@every_kind
@every_model
def test_a_refit_after_edits_is_the_fit_of_the_remaining_rows(kind: str, model_name: str) -> None:
    table = make_table(kind)
    case = MODEL_CASES[model_name]
    model = fit_table_case(table[:100], case)
    model.partial_fit(*split_target(table[100:], case))
    model.forget(*split_target(table[N_REMAINING:], case))
    fresh = fit_table_case(table[:N_REMAINING], case)
    assert model.refit().digest() == fresh.digest()


@every_kind
@every_model
def test_single_rows_are_learned_and_forgotten_as_tables_are(kind: str, model_name: str) -> None:
    table = make_table(kind)
    case = MODEL_CASES[model_name]
    model = fit_table_case(table[:N_REMAINING], case)
    before = model.digest()
    X, y = split_target(table[N_REMAINING : N_REMAINING + 3], case)
    for row, target in zip(X.itertuples(index=False), y, strict=True):
        model.learn_one(list(row), target)
    for row, target in zip(X.itertuples(index=False), y, strict=True):
        model.forget_one(list(row), target)
    assert model.digest() == before


@every_kind
@every_model
def test_sync_gives_the_model_of_the_table(kind: str, model_name: str) -> None:
    table = make_table(kind)
    case = MODEL_CASES[model_name]
    model = fit_table_case(table, case)
    changes = model.sync(*split_target(table[:N_REMAINING], case))
    assert model.refit().digest() == fit_table_case(table[:N_REMAINING], case).digest()
    rows, _ = changes.forgotten_rows()
    expected = as_json_rows(table.loc[N_REMAINING:, ["value", "size"]])
    shown = as_json_rows(pd.DataFrame(rows, columns=["value", "size"]))
    assert sort_rows(shown) == sort_rows(expected)


@every_kind
@every_model
def test_a_file_holds_the_whole_model(kind: str, model_name: str, tmp_path: Path) -> None:
    table = make_table(kind)
    case = MODEL_CASES[model_name]
    model = fit_table_case(table, case)
    save(model, tmp_path / "model")
    loaded: Any = load(tmp_path / "model")
    queries = queries_of(table)
    assert np.array_equal(loaded.predict(queries), model.predict(queries))
    assert loaded.digest() == model.digest()
    loaded.forget(*split_target(table[N_REMAINING:], case)).refit()
    assert loaded.digest() == fit_table_case(table[:N_REMAINING], case).digest()


@every_kind
@every_model
def test_a_compiled_model_answers_alike(kind: str, model_name: str) -> None:
    table = make_table(kind)
    model = fit_table_case(table, MODEL_CASES[model_name])
    predictor = model.compile()
    queries = queries_of(table)
    answers = model.predict(queries)
    assert np.array_equal(predictor.predict(queries), answers)
    rows = [list(row) for row in queries.itertuples(index=False)]
    assert [predictor(row) for row in rows] == answers.tolist()
    with pytest.raises(ValueError, match="in the same order"):
        predictor.predict(queries[["size", "value"]])


@every_kind
@every_model
def test_an_explanation_shows_the_value(kind: str, model_name: str) -> None:
    table = make_table(kind, missing=False)
    model = fit_table_case(table, MODEL_CASES[model_name])
    row = table[["value", "size"]].iloc[3]
    text = str(model.explain(row))
    shown = row["value"].date().isoformat() if kind == "DATES" else str(row["value"])
    assert "value" in text
    if model_name != "labels, sum vote":  # which shows the range of a number
        assert shown in text


@every_kind
@every_model
@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_commands_do_as_python_does(kind: str, model_name: str, form: str, tmp_path: Path) -> None:
    table = make_table(kind)
    case = MODEL_CASES[model_name]
    columns = ["value", "size", case.target]
    path = tmp_path / "model"

    def write(rows: pd.DataFrame, name: str) -> Path:
        file = tmp_path / f"{name}.{form}"
        if form == "csv":
            rows.to_csv(file, index=False)
        else:
            rows.to_parquet(file, index=False)
        return file

    kind_options: tuple[str, ...] = ()
    parameters: Mapping[str, Any] = {}
    if form == "csv":
        kind_options = KIND_CASES[kind].csv_options
        parameters = KIND_CASES[kind].csv_parameters

    def digest_of_fit(rows: pd.DataFrame) -> dict[str, str]:
        return fit_table_case(rows, case, parameters).digest(parts=True)  # type: ignore[no-any-return]

    first = write(table.loc[:99, columns], "first")
    run("fit", first, case.option, case.target, *case.options, *kind_options, "--out", path)
    assert load(path).digest(parts=True) == digest_of_fit(table[:100])
    run("add", path, write(table.loc[100:, columns], "more"))
    run("forget", path, write(table.loc[N_REMAINING:, columns], "gone"), "--refit")
    assert load(path).digest(parts=True) == digest_of_fit(table[:N_REMAINING])
    queries = queries_of(table)
    asked = write(queries, "queries")
    answers = [json.loads(line)["prediction"] for line in run("predict", path, asked, "--json").splitlines()]
    assert answers == fit_table_case(table[:N_REMAINING], case).predict(queries).tolist()
    assert "value" in run("explain", path, "--file", asked, "--first", 2)
    everything = write(table.loc[:, columns], "all")
    run("sync", path, everything, "--refit")
    run("refit", path)
    assert load(path).digest(parts=True) == digest_of_fit(table)
    run("verify", path, "--rows", everything)


@every_kind
@every_model
def test_engines_fit_the_same_model(kind: str, model_name: str, tmp_path: Path) -> None:
    table = make_table(kind)
    case = MODEL_CASES[model_name]
    table[["value", "size", case.target]].to_parquet(tmp_path / "rows.parquet", index=False)
    model = fit_rows_of(case.make_model(), tmp_path / "rows.parquet", case.target, engine="threads", workers=1)
    assert model.digest(parts=True) == fit_table_case(table, case).digest(parts=True)


@every_kind
@every_model
def test_engines_fit_the_same_model_from_texts(kind: str, model_name: str, tmp_path: Path) -> None:
    table = make_table(kind)
    case = MODEL_CASES[model_name]
    parameters = KIND_CASES[kind].csv_parameters
    rows = table[["value", "size", case.target]]
    rows[:50].to_csv(tmp_path / "1.csv", index=False)
    rows[50:].to_csv(tmp_path / "2.csv", index=False)
    empty = case.make_model().set_params(**parameters)
    model = fit_rows_of(empty, tmp_path, case.target, engine="threads", workers=1)
    fresh = fit_table_case(table, case, parameters)
    assert model.digest(parts=True) == fresh.digest(parts=True)


@every_kind
@pytest.mark.parametrize("model_name", ["labels", "numbers"])
def test_graphs_answer_alike_or_are_refused(kind: str, model_name: str, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    onnxruntime = pytest.importorskip("onnxruntime")
    case: KindCase = KIND_CASES[kind]
    table = make_table(kind, missing=False)
    model = fit_table_case(table, MODEL_CASES[model_name])
    predictor = model.compile()
    if not case.has_graphs:
        with pytest.raises(ValueError, match="no dates"):
            predictor.to_onnx(tmp_path / "model.onnx")
        with pytest.raises(ValueError, match="no dates"):
            predictor.to_torch()
        return
    queries = table[["value", "size"]].tail(20)
    answers = model.predict(queries)
    assert np.array_equal(predictor.to_torch().predict(queries), answers)
    predictor.to_onnx(tmp_path / "model.onnx")
    session = onnxruntime.InferenceSession((tmp_path / "model.onnx").read_bytes(), providers=["CPUExecutionProvider"])
    if kind == "NAMES":
        inputs = {
            "names": queries[["value"]].to_numpy(object),
            "numbers": queries[["size"]].to_numpy(np.float64),
        }
    elif kind == "ORDERED_CATEGORIES":  # a graph takes the place of a category
        inputs = {"numbers": queries.assign(value=queries["value"].cat.codes).to_numpy(np.float64)}
    else:
        inputs = {"numbers": queries.to_numpy(np.float64)}
    (found, *_) = session.run(None, inputs)
    assert np.array_equal(np.asarray(found).ravel(), answers)


@every_kind
@every_model
def test_a_server_answers_edits_and_explains_alike(kind: str, model_name: str, tmp_path: Path) -> None:
    table = make_table(kind)
    case: ModelCase = MODEL_CASES[model_name]
    save(fit_table_case(table[:100], case), tmp_path / "first.model")
    rows, targets = as_json_rows(table[["value", "size"]]), table[case.target].tolist()
    with running_servers.in_thread(tmp_path / "models") as server, Client(server.url) as client:
        client.upload("m", tmp_path / "first.model")
        client.learn("m", rows[100:], targets[100:])
        client.forget("m", rows[N_REMAINING:], targets[N_REMAINING:])
        client.refit("m")
        answers = client.predict("m", as_json_rows(queries_of(table)))
        client.download("m", tmp_path / "last.model")
    fresh = fit_table_case(table[:N_REMAINING], case)
    assert answers == fresh.predict(queries_of(table)).tolist()
    loaded = load(tmp_path / "last.model").digest(parts=True)
    differences = {name for name, part in fresh.digest(parts=True).items() if loaded[name] != part}
    assert differences <= {"declared"}  # labels of JSON are objects
