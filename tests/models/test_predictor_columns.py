"""Compiled predictors find columns as their model does: by name where it has names, else by position."""

from __future__ import annotations

import json
import pickle
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from typer.testing import CliRunner

from hammemo import FileError, MeMoClassifier, MemoryClassifier, MemoryRegressor, load, save
from hammemo.cli.app import app
from hammemo.estimators.predictor import Predictor
from hammemo.memories import Exact, Hashed
from mutated_files import join_file, seal, split_file

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def numbers(n: int = 120) -> pd.DataFrame:
    """Return three columns of numbers and one of names, of which some are missing."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(n, 3)).round(2), columns=["a", "b", "c"])
    table["town"] = rng.choice(np.array(["Ulm", "Bonn", None], object), n)
    table.loc[::9, "b"] = np.nan
    return table


def names(n: int = 120) -> pd.DataFrame:
    """Return columns of names, of which some are missing."""
    rng = np.random.default_rng(1)
    values = np.array(["red", "blue", "green", None], object)
    return pd.DataFrame({name: rng.choice(values, n) for name in ("a", "b", "c")})


def fit_numbers() -> Any:
    table = numbers()
    return MemoryClassifier().fit(table, (table["a"] > 0).astype(int))


def fit_names() -> Any:
    table = names()
    return MemoryClassifier().fit(table, (table["a"] == "red").astype(int))


def fit_hashed() -> Any:
    table = names()
    return MemoryClassifier("positional", Hashed(64, 4)).fit(table, (table["a"] == "red").astype(int))


def fit_paper() -> Any:
    table = names().fillna("none")
    return MeMoClassifier(d=64).fit(table, (table["a"] == "red").astype(int))


def fit_targets() -> Any:
    table = numbers()
    return MemoryRegressor().fit(table, table["a"])


def fit_targets_of_names() -> Any:
    table = names()
    return MemoryRegressor().fit(table, (table["a"] == "red").astype(float))


def fit_without_names() -> Any:
    table = numbers()
    return MemoryClassifier().fit(table.to_numpy(object), (table["a"] > 0).astype(int))


MODELS: dict[str, tuple[Callable[[], Any], Callable[[], pd.DataFrame]]] = {
    "numbers": (fit_numbers, numbers),
    "names": (fit_names, names),
    "hashed": (fit_hashed, names),
    "paper": (fit_paper, lambda: names().fillna("none")),
    "targets": (fit_targets, numbers),
    "targets of names": (fit_targets_of_names, names),
    "without names": (fit_without_names, numbers),
}


@pytest.fixture(scope="module", params=list(MODELS))
def fitted(request: pytest.FixtureRequest) -> tuple[Any, pd.DataFrame]:
    fit, table = MODELS[request.param]
    return fit(), table()


def compiled_forms(model: Any, folder: Path) -> dict[str, Any]:
    """Return all forms of a predictor of a model: as it is, pickled, saved and loaded, and as a torch module."""
    predictor = model.compile()
    forms = {"compiled": predictor, "pickled": pickle.loads(pickle.dumps(predictor))}  # noqa: S301
    if isinstance(predictor, Predictor):
        save(predictor, folder / "predictor")
        forms["loaded"] = load(folder / "predictor")
        forms["loaded unverified"] = load(folder / "predictor", verify=False)
    return forms


CLASS_NAMES = (
    "NumberPredictor",
    "TorchPredictor",
    "Predictor",
    "MemoryClassifier",
    "MemoryRegressor",
    "MeMoClassifier",
)


def outcome(ask: Callable[[Any], Any], X: Any) -> tuple[str, str]:
    """Return the answers to a question, or its error without the name of the class that was asked."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return "answers", str(np.asarray(ask(X)).tolist())
        except (TypeError, ValueError) as error:
            words = str(error)
            for name in CLASS_NAMES:
                words = words.replace(name, "model")
            return type(error).__name__, words


def questions(table: pd.DataFrame) -> dict[str, Any]:
    """Return tables as users hand them over: with the same columns, and with others."""
    first, *others = table.columns
    swapped = table[[*others, first]]
    return {
        "the same": table,
        "one row": table[:1],
        "swapped": swapped,
        "without a column": table[others],
        "with one more": table.assign(more=1.0),
        "renamed": table.rename(columns={first: "other"}),
        "names that are numbers": table.set_axis(range(table.shape[1]), axis=1),
        "a name twice": table.set_axis([first, first, *others[1:]], axis=1),
        "polars": pl.from_pandas(table),
        "polars, swapped": pl.from_pandas(swapped),
        "arrow": pa.Table.from_pandas(table, preserve_index=False),
        "arrow, swapped": pa.Table.from_pandas(swapped, preserve_index=False),
        "an array": table.to_numpy(object),
        "a narrow array": table.to_numpy(object)[:, 1:],
        "a list": table.astype(object).to_numpy().tolist(),
        "ragged": [table.iloc[0].tolist(), table.iloc[0].tolist()[1:]],
        "a row": table.iloc[0],
        "a dict": table.to_dict("list"),
        "dicts": table[:3].to_dict("records"),
        "a word": "red",
        "None": None,
    }


def test_tables_are_accepted_and_refused_as_by_the_model(fitted: tuple[Any, pd.DataFrame], tmp_path: Path) -> None:
    model, table = fitted
    for name, predictor in compiled_forms(model, tmp_path).items():
        for question, X in questions(table).items():
            assert outcome(predictor.predict, X) == outcome(model.predict, X), (name, question)
            if hasattr(model, "predict_proba"):
                assert outcome(predictor.predict_proba, X) == outcome(model.predict_proba, X), (name, question)


def test_a_batch_without_rows_has_no_answers_and_its_columns_are_compared(
    fitted: tuple[Any, pd.DataFrame], tmp_path: Path
) -> None:
    model, table = fitted
    named = model.state.columns.names is not None
    for predictor in compiled_forms(model, tmp_path).values():
        assert predictor.predict(table[:0] if named else table[:0].to_numpy(object)).tolist() == []
        for wrong in (table[:0].iloc[:, 1:], table[:0].iloc[:, ::-1], table[:0].assign(more=1)):
            kind, _ = outcome(predictor.predict, wrong)
            assert kind == "ValueError" or (not named and wrong.shape[1] == table.shape[1])


def test_rows_are_accepted_and_refused_as_by_the_model(fitted: tuple[Any, pd.DataFrame], tmp_path: Path) -> None:
    model, table = fitted
    row = table.iloc[5]
    named = model.state.columns.names is not None
    expected = model.predict(table[5:6] if named else [row.tolist()]).tolist()[0]
    swapped = row[[*row.index[1:], row.index[0]]]
    for name, predictor in compiled_forms(model, tmp_path).items():
        for right in (row, row.tolist(), tuple(row.tolist()), row.to_numpy()):
            assert predictor(right) == expected, name
        if named:
            assert outcome(predictor, swapped)[0] == outcome(model.explain, swapped)[0] == "ValueError"
        for wrong in (row[1:], row.tolist()[1:], [*row.tolist(), 1], table, row.to_dict(), "red", [row.tolist()]):
            assert outcome(predictor, wrong)[0] == outcome(model.explain, wrong)[0] != "answers", (name, wrong)
            if hasattr(predictor, "probabilities_of") and hasattr(model, "predict_proba"):
                assert outcome(predictor.probabilities_of, wrong)[0] == outcome(model.explain, wrong)[0]


def test_a_row_without_names_is_answered_without_a_warning_and_a_table_with_one() -> None:
    for fit, table in (MODELS["numbers"], MODELS["names"], MODELS["targets"]):
        predictor, rows = fit().compile(), table().astype(object).to_numpy().tolist()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for row in rows:  # some have missing values
                predictor(row)
        with pytest.warns(UserWarning, match="Predictor was fitted with feature names"):
            predictor.predict(rows)


def test_strings_where_numbers_were_learnt_are_warned_of_once() -> None:
    table = pd.DataFrame({"a": range(100), "b": range(100, 200)}).astype({"b": float})
    model = MemoryClassifier().fit(table, table["a"] > 50)
    wrong = table.astype({"a": str})
    with pytest.warns(UserWarning, match="Column 'a' held numbers"):
        model.predict(wrong)
    predictor = model.compile()
    with pytest.warns(UserWarning, match="Column 'a' held numbers"):
        predictor.predict(wrong)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        predictor.predict(wrong)


def test_names_are_attributes_as_of_an_estimator() -> None:
    for name, (fit, table) in MODELS.items():
        predictor = fit().compile()
        assert predictor.n_features_in_ == predictor.n_columns == table().shape[1]
        if name == "without names":
            assert not hasattr(predictor, "feature_names_in_")
        else:
            assert predictor.feature_names_in_.tolist() == list(table().columns)
        if isinstance(predictor, Predictor):
            assert not hasattr(predictor.with_column_names(None), "feature_names_in_")


def test_a_torch_module_finds_columns_by_name() -> None:
    pytest.importorskip("torch")
    for name in ("numbers", "names", "targets", "targets of names", "without names"):
        fit, table = MODELS[name]
        model, X = fit(), table()
        module = model.compile().to_torch()
        for question, asked in questions(X).items():
            assert outcome(module.predict, asked) == outcome(model.predict, asked), (name, question)


def test_an_onnx_file_names_the_columns_of_its_inputs(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    expected = {
        "numbers": {"numbers": ["a", "b", "c"], "names": ["town"]},
        "names": {"tokens": ["a", "b", "c"]},
        "targets": {"numbers": ["a", "b", "c"], "names": ["town"]},
        "without names": None,
    }
    for name, columns in expected.items():
        fit, _ = MODELS[name]
        fit().compile().to_onnx(tmp_path / "graph.onnx")
        metadata = {entry.key: entry.value for entry in onnx.load(tmp_path / "graph.onnx").metadata_props}
        assert json.loads(metadata.get("hammemo.columns", "null")) == columns, name


def test_a_file_whose_predictor_has_other_names_is_refused(tmp_path: Path) -> None:
    save(fit_names().compile(), tmp_path / "predictor")
    header, about, body = split_file((tmp_path / "predictor").read_bytes())
    for wrong in (["a"], ["a", "b", 3], "abc", ["a", "b", "x" * 2**20]):
        (tmp_path / "wrong").write_bytes(seal(join_file(header, {**about, "feature_names_in": wrong}, body)))
        with pytest.raises(FileError):
            load(tmp_path / "wrong")


def test_the_command_line_finds_columns_of_a_predictor_by_name(tmp_path: Path) -> None:
    table = names().fillna("none")
    model = MemoryClassifier("positional", Exact()).fit(table, (table["a"] == "red").astype(int))
    save(model.compile(), tmp_path / "predictor")
    table[["c", "a", "b"]].to_csv(tmp_path / "swapped.csv", index=False)
    result = CliRunner().invoke(app, ["predict", str(tmp_path / "predictor"), str(tmp_path / "swapped.csv")])
    assert result.exit_code == 0, result.output
    assert result.stdout.split() == [str(label) for label in model.predict(table).tolist()]
    table[["c", "a"]].to_csv(tmp_path / "narrow.csv", index=False)
    result = CliRunner().invoke(app, ["predict", str(tmp_path / "predictor"), str(tmp_path / "narrow.csv")])
    assert result.exit_code != 0
