"""Missing values of a table: a token of their own, empty positions, or refused, wherever rows come in."""

from __future__ import annotations

import pickle
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from typer.testing import CliRunner

from hammemo import NO_TOKEN, MeMoClassifier, MemoryClassifier, Rolling, load, save
from hammemo.cli.app import app
from hammemo.memories import Exact, Hashed
from hammemo.tokens.missing import MISSING

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.quick

NAN = float("nan")
KINDS: list[Any] = [None, NAN, np.nan, pd.NA, pd.NaT, np.float32("nan")]


@pytest.mark.parametrize("missing", KINDS)
@pytest.mark.parametrize(("way", "token"), [("token", MISSING), ("empty", NO_TOKEN)])
def test_every_missing_value_becomes_what_the_parameter_says(missing: Any, way: str, token: Any) -> None:
    rows, y = [["a", missing], ["b", "c"], ["a", "c"]], ["x", "y", "y"]
    same = [["a", token], ["b", "c"], ["a", "c"]]
    clf = MemoryClassifier(missing=way).fit(np.array(rows, object), y)
    plain = MemoryClassifier(missing="refuse").fit(np.array(same, object), y)
    assert clf.memory_.state_bytes() == plain.memory_.state_bytes()
    assert clf.predict_proba(rows).tolist() == plain.predict_proba(same).tolist()
    assert clf.compile().predict(rows).tolist() == plain.predict(same).tolist()
    assert clf.compile()(rows[0]) == plain.compile()(same[0])
    assert str(clf.explain(rows[0])) == str(plain.explain(same[0]))
    assert clf.learn_one(rows[0], "z").memory_.state_bytes() == plain.learn_one(same[0], "z").memory_.state_bytes()
    assert clf.forget_one(rows[0], "z").forget(rows[:1], y[:1]).memory_.label_counts.tolist() == [2]


def test_columns_of_frames_and_arrays_of_numbers() -> None:
    y = [0, 1, 0]
    frames: list[Any] = [
        np.array([[1.0, NAN], [2.0, 3.0], [1.0, 3.0]]),
        pd.DataFrame({"a": [1, 2, 1], "b": [NAN, 3, 3]}),
        pd.DataFrame({"a": pd.array([1, 2, 1], "Int64"), "b": pd.array([None, 3, 3], "Int64")}),
        pl.DataFrame({"a": [1, 2, 1], "b": [None, 3, 3]}),
    ]
    states = {MemoryClassifier(numeric="none").fit(frame, y).memory_.state_bytes() for frame in frames}
    assert states == {MemoryClassifier(numeric="none").fit([[1, MISSING], [2, 3], [1, 3]], y).memory_.state_bytes()}
    strings: list[Any] = [
        pd.DataFrame({"a": ["u", None, "v"]}, dtype="string"),
        pd.DataFrame({"a": pd.Categorical(["u", None, "v"])}),
        pl.DataFrame({"a": ["u", None, "v"]}),
    ]
    states = {MemoryClassifier().fit(frame, y).memory_.state_bytes() for frame in strings}
    assert states == {MemoryClassifier().fit([["u"], [MISSING], ["v"]], y).memory_.state_bytes()}


def test_refused_where_one_says_so_and_by_the_paper_s_model() -> None:
    for clf in (MemoryClassifier(missing="refuse"), MeMoClassifier(d=64)):
        with pytest.raises(ValueError, match="is not a token"):
            clf.fit([["a"], [None]], ["x", "y"])
    with pytest.raises(ValueError, match=r"missing='ignore' is not known: use 'token', 'empty' or 'refuse'\."):
        MemoryClassifier(missing="ignore").fit([["a"]], ["x"])
    with pytest.raises(ValueError, match="is not a token"):
        MemoryClassifier(missing="refuse").fit([["a"]], ["x"]).compile()([None])
    with pytest.raises(ValueError, match="label"):
        MemoryClassifier().fit([["a"], ["b"]], np.array(["x", None], object))


def test_infinity_is_no_missing_value() -> None:
    with pytest.raises(ValueError, match="inf is not a token"):
        MemoryClassifier(numeric="none").fit([[float("inf")], [1.0]], [0, 1])


def test_a_window_forgets_missing_values_too() -> None:
    rolling = Rolling(MemoryClassifier(memory=Exact()), last=2)
    for row, label in ((["a", None], "x"), (["b", "c"], "y"), ([NAN, "c"], "y")):
        rolling.partial_fit([row], [label])
    rest = MemoryClassifier(memory=Exact()).fit([["b", "c"], [None, "c"]], ["y", "y"])
    assert rolling.estimator_.memory_.state_bytes() == rest.memory_.state_bytes()
    assert rolling.explain([None, "c"]).labels == ("y",)


@pytest.mark.parametrize("way", ["token", "empty", "refuse"])
def test_files_keep_the_way(tmp_path: Path, way: str) -> None:
    clf = MemoryClassifier(memory=Hashed(8, 2), vote="sum", missing=way).fit([["a"], ["b"]], ["x", "y"])
    for model in (clf, clf.compile()):
        save(model, tmp_path / "m")
        again = load(tmp_path / "m")
        assert again.missing == way
        assert pickle.loads(pickle.dumps(again)).missing == way  # noqa: S301


def test_the_command_line_reads_them_as_the_library_does(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,b,y\n1,,u\n2,3,v\n1,3,v\n")
    run = CliRunner().invoke
    rows = {"none": [["1", None], ["2", "3"], ["1", "3"]], "auto": [[1.0, None], [2.0, 3.0], [1.0, 3.0]]}
    for way, numeric in product(("token", "empty"), rows):
        line = ["fit", str(tmp_path / "t.csv"), "--label", "y", "--missing", way, "--numeric", numeric]
        assert run(app, [*line, "--out", str(tmp_path / "m")]).exit_code == 0
        model = load(tmp_path / "m")
        places = [] if numeric == "none" else [0, 1]
        same = MemoryClassifier(missing=way, numeric=places).fit(rows[numeric], ["u", "v", "v"])
        assert model.memory_.state_bytes() == same.memory_.state_bytes()
        assert model.missing == way
    (tmp_path / "t.jsonl").write_text('{"a": 1, "y": "u"}\n{"a": null, "y": "v"}\n{"a": 2, "y": "v"}\n' * 6)
    assert run(app, ["fit", str(tmp_path / "t.jsonl"), "--label", "y", "--out", str(tmp_path / "m")]).exit_code == 0
    (tmp_path / "q.csv").write_text('a\n1\n""\n')
    assert run(app, ["predict", str(tmp_path / "m"), str(tmp_path / "q.csv")]).output.splitlines() == ["u", "v"]
