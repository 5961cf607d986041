"""``hammemo evaluate``, ``--time``, and the options that commands share."""

from __future__ import annotations

import json
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from typer.testing import CliRunner

from hammemo import MemoryClassifier, load
from hammemo.cli.app import app
from hammemo.evaluation.measures import evaluate
from hammemo.evaluation.splits import TableMaterial, folds

if TYPE_CHECKING:
    from pathlib import Path

runner = CliRunner()


def said(*line: str, fails: int = 0) -> str:
    result = runner.invoke(app, list(line))
    assert result.exit_code == fails, result.output
    return result.stdout if not fails else result.stderr


def table(folder: Path, n: int = 120) -> tuple[Path, Any, Any]:
    rng = np.random.default_rng(0)
    X = rng.integers(0, 3, (n, 3)).astype(str)
    y = np.where(X[:, 0] == X[:, 1], "same", "other")
    file = folder / "table.csv"
    days = (f"2024-01-{1 + row % 28:02d} 10:{row % 60:02d}" for row in range(n))
    rows = [",".join([*row, when, label]) for row, when, label in zip(X, days, y, strict=True)]
    file.write_text("\n".join(["a,b,c,when,label", *rows]) + "\n")
    return file, X, y


def test_a_table_is_judged_as_the_library_judges_it(tmp_path: Path) -> None:
    file, X, y = table(tmp_path)
    found = json.loads(
        said(
            *("evaluate", str(file), "--label", "label", "--columns", "a,b,c", "--numeric", "none"),
            *("--folds", "4", "--seed", "7", "--json"),
        )
    )
    rows = TableMaterial(X.astype(object), y.astype(object))
    same = evaluate(MemoryClassifier(random_state=7), rows, folds(rows, 4, seed=7)).to_dict()
    for result in (found, same):
        result.pop("fit_seconds")
    assert found == json.loads(json.dumps(same))
    assert found["split"] == "4 folds of rows"


def test_the_table_of_figures_and_the_drawing(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    file, _, _ = table(tmp_path)
    out = said("evaluate", str(file), "--label", "label", "--holdout", "0.25", "--plot", str(tmp_path / "a.png"))
    assert "30 answers, a random 25% of rows; 2 labels" in out
    assert "naive Bayes" in out
    assert "majority" in out
    assert (tmp_path / "a.png").stat().st_size > 1000


def test_figures_of_learners_without_probabilities_stand_under_their_titles(tmp_path: Path) -> None:
    file, _, _ = table(tmp_path)
    shown = said("evaluate", str(file), "--label", "label", "--folds", "2", "--vote", "sum")
    rows = [[cell.strip() for cell in line.split("│")] for line in shown.splitlines() if "│" in line]
    by_name = {cells[1]: cells for cells in rows}
    assert len({len(cells) for cells in rows}) == 1
    assert "none" in by_name["this model"]


def boosting_of_scikit_learn(learner: Any) -> Any:
    """Return a learner of scikit-learn that takes what LightGBM takes."""

    class Standing(learner):
        def __init__(self, **_: Any) -> None:
            super().__init__()

        def fit(self, X: Any, y: Any, categorical_feature: list[int]) -> Any:
            assert all((X[:, place] >= 0).all() for place in categorical_feature)
            return super().fit(X, y)

    return Standing


@pytest.fixture
def lightgbm(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a learner of scikit-learn in the place of LightGBM, which need not be installed."""
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    learners = SimpleNamespace(
        LGBMClassifier=boosting_of_scikit_learn(HistGradientBoostingClassifier),
        LGBMRegressor=boosting_of_scikit_learn(HistGradientBoostingRegressor),
    )
    monkeypatch.setattr("hammemo.evaluation.peers.library", lambda: learners)


@pytest.mark.usefixtures("lightgbm")
def test_a_peer_stands_in_the_same_table_and_picture(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    file, _, _ = table(tmp_path)
    options = ("evaluate", str(file), "--label", "label", "--columns", "a,b,c,when", "--folds", "2")
    shown = said(*options, "--numeric", "a,when", "--peer", "lightgbm", "--plot", str(tmp_path / "a.svg"))
    assert [line.split()[1] for line in shown.splitlines() if "│" in line] == ["this", "LightGBM", "naive", "majority"]
    assert (tmp_path / "a.svg").stat().st_size > 1000
    found, alone = (json.loads(said(*options, *more, "--json"))["learners"] for more in (("--peer", "lightgbm"), ()))
    assert 0.5 < found["LightGBM"]["accuracy"] <= 1
    assert found["LightGBM"]["log_loss"] > 0
    assert {name: found[name] for name in alone} == alone


@pytest.mark.usefixtures("lightgbm")
def test_a_peer_predicts_numbers_too(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    numbers = np.random.default_rng(0).normal(size=(80, 2)).round(3)
    rows = [f"{a},{b},{a + b}" for a, b in numbers]
    (tmp_path / "table.csv").write_text("\n".join(["a,b,y", *rows]) + "\n")
    options = ("evaluate", str(tmp_path / "table.csv"), "--target", "y", "--folds", "2", "--peer", "lightgbm")
    found = json.loads(said(*options, "--json", "--plot", str(tmp_path / "a.png")))["learners"]
    assert list(found) == ["this model", "LightGBM", "mean"]
    assert found["LightGBM"]["rmse"] < found["mean"]["rmse"]
    assert found["LightGBM"]["pinball"] is found["LightGBM"]["coverage"] is None


def test_a_peer_that_cannot_be_measured_is_refused_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, _, _ = table(tmp_path)
    monkeypatch.setitem(sys.modules, "lightgbm", None)  # as if it were not installed
    options = ("evaluate", str(file), "--label", "label", "--peer")
    assert "LightGBM is not installed: pip install lightgbm" in said(*options, "lightgbm", fails=1)
    assert "--peer catboost is not known: use lightgbm." in said(*options, "catboost", fails=2)
    (tmp_path / "a.txt").write_text("to be or not to be\n" * 10)
    line = ("evaluate", str(tmp_path / "a.txt"), "--h", "2", "--tokens", "words", "--peer", "lightgbm")
    assert "leave it out for documents" in said(*line, fails=2)


def test_lightgbm_itself_learns_the_rows_of_a_table(tmp_path: Path) -> None:
    pytest.importorskip("lightgbm")
    file, _, _ = table(tmp_path)
    line = ("evaluate", str(file), "--label", "label", "--peer", "lightgbm", "--folds", "2", "--json")
    assert json.loads(said(*line)) | {"fit_seconds": 0} == json.loads(said(*line)) | {"fit_seconds": 0}


def test_clicks_are_judged_by_the_first_twenty_too(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    visits = [" ".join(str(item) for item in (start + rng.integers(0, 6, 5).cumsum()) % 150) for start in range(200)]
    (tmp_path / "visits.txt").write_text("\n".join(visits) + "\n")
    options = ("evaluate", str(tmp_path / "visits.txt"), "--h", "2", "--short", "pad", "--holdout", "0.5")
    found = json.loads(said(*options, "--json"))
    assert found["labels"] > 100
    page = said(*options)
    assert "top-20" in page
    assert "MRR@20" in page
    for measures in found["learners"].values():
        assert measures["top_5"] <= measures["top_20"] <= 1
        assert measures["accuracy"] <= measures["reciprocal_rank_20"] <= measures["top_20"]
        for name in ("top_5", "top_20", "reciprocal_rank_20"):
            assert f"{measures[name]:.4f}" in page


def test_few_labels_are_not_judged_by_the_first_twenty(tmp_path: Path) -> None:
    file, _, _ = table(tmp_path)
    options = ("evaluate", str(file), "--label", "label", "--columns", "a,b,c", "--folds", "2")
    page = said(*options)
    assert "top-5" not in page  # of two labels
    assert "ROC AUC" in page
    assert "20" not in page.split("answers")[1]
    for measures in json.loads(said(*options, "--json"))["learners"].values():
        assert measures["top_5"] is measures["top_20"] is measures["reciprocal_rank_20"] is None


def test_time_holds_out_the_last_and_is_no_part_of_the_context(tmp_path: Path) -> None:
    file, _, _ = table(tmp_path)
    found = json.loads(said("evaluate", str(file), "--label", "label", "--time", "when", "--json"))
    assert found["split"] == "the last 20% of rows in time"
    assert found["asked"] == 24
    said("fit", str(file), "--label", "label", "--time", "when", "--out", str(tmp_path / "m"))
    assert load(tmp_path / "m").feature_names_in_.tolist() == ["a", "b", "c"]
    assert len(said("predict", str(tmp_path / "m"), str(file)).splitlines()) == 120


LOG = "case,event,at\n1,close,2024-03-01\n2,open,2024-02-01\n1,open,2024-01-01\n1,work,2024-02-01\n2,close,2024-02-03\n"


def test_time_sorts_the_events_of_a_case_and_the_model_remembers_it(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text(LOG)
    shared = (str(tmp_path / "log.csv"), "--h", "1", "--case", "case", "--event", "event", "--time", "at")
    said("fit", *shared, "--out", str(tmp_path / "m"))
    model = load(tmp_path / "m")
    assert model.predict([["open"], ["work"]]).tolist() == ["close", "close"]
    assert sorted(model.classes_.tolist()) == ["close", "work"]
    (tmp_path / "ask.csv").write_text("case,event,at\n7,work,5\n7,open,3\n")
    assert said("predict", str(tmp_path / "m"), str(tmp_path / "ask.csv")) == "7\tclose\n"
    assert said("forget", str(tmp_path / "m"), str(tmp_path / "log.csv")).startswith("3 examples forgotten")


def test_cases_stay_together(tmp_path: Path) -> None:
    rows = [f"{case},{event},{10 * case + place}" for case in range(20) for place, event in enumerate("abc")]
    (tmp_path / "log.csv").write_text("\n".join(["case,event,at", *rows[::-1]]) + "\n")
    shared = (str(tmp_path / "log.csv"), "--h", "1", "--case", "case", "--event", "event", "--time", "at", "--json")
    found = json.loads(said("evaluate", *shared))
    assert (found["split"], found["asked"], found["learnt"]) == ("the last 20% of cases in time", 8, 32)
    assert found["learners"]["this model"]["accuracy"] == 1
    found = json.loads(said("evaluate", *shared, "--folds", "5", "--classes-top", "1"))
    assert (found["split"], found["asked"]) == ("5 folds of cases", 20)


def test_lines_of_text_are_documents(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("to be or not to be\n" * 10)
    found = json.loads(said("evaluate", str(tmp_path / "a.txt"), "--h", "2", "--tokens", "words", "--json"))
    assert (found["split"], found["asked"]) == ("5 folds of documents", 40)
    assert found["learners"]["this model"]["accuracy"] == 1


@pytest.mark.parametrize(
    ("options", "message", "code"),
    [
        (("--folds", "3", "--holdout", "0.2"), "give one of them", 2),
        (("--holdout", "2"), "--holdout 2.0 is a share above 0 and below 1", 1),
        (("--layout", "other.model"), "may have seen the held-out data", 2),
        (("--plot", "a.txt"), "ends in .png, .svg or .pdf", 2),
        (("--time", "d", "--columns", "a"), "holds 'soon', which is not a time. Write times as", 1),
        (("--time", "nowhere"), "has no column 'nowhere'", 1),
        (("--folds", "1000"), "--folds 1000 of 120 rows", 1),
    ],
)
def test_mistakes_are_said_in_one_line(tmp_path: Path, options: tuple[str, ...], message: str, code: int) -> None:
    file, _, _ = table(tmp_path)
    if "d" in options:
        file.write_text("a,d,label\nx,1,y\nx,soon,y\n")
    error = said("evaluate", str(file), "--label", "label", *options, fails=code)
    assert message in error
    assert error.count("\n") == 1


def test_time_needs_events_or_rows(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a b c\n")
    error = said("evaluate", str(tmp_path / "a.txt"), "--h", "1", "--tokens", "words", "--time", "t", fails=1)
    assert "give --case and --event too" in error


def test_top_k_gives_probabilities(tmp_path: Path) -> None:
    file, X, _ = table(tmp_path)
    said("fit", str(file), "--label", "label", "--columns", "a,b,c", "--numeric", "none", "--out", str(tmp_path / "m"))
    lines = said("top-k", str(tmp_path / "m"), str(file), "--k", "2", "--proba", "--json").splitlines()
    model, answers = load(tmp_path / "m"), [json.loads(line) for line in lines]
    del model.feature_names_in_
    expected = np.sort(model.predict_proba(X.astype(object)), axis=1)[:, ::-1]
    assert np.array([answer["probability"] for answer in answers]) == pytest.approx(expected)
    said("fit", str(file), "--label", "label", "--vote", "sum", "--out", str(tmp_path / "s"))
    assert "not probabilities" in said("top-k", str(tmp_path / "s"), str(file), "--proba", fails=1)


def test_plan_and_evaluate_take_the_options_of_fit() -> None:
    import typer

    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    names = {name: {param.opts[0] for param in commands[name].params} for name in ("fit", "plan", "evaluate")}
    own = {"--out", "--segments", "--wait", "--engine", "--workers", "--address", "--resume", "source"}
    assert names["fit"] - own <= names["evaluate"]
    assert names["fit"] - own - {"--numeric", "--ordered", "--target"} <= names["plan"]  # a plan is for counts of names


def test_a_plan_refuses_what_it_is_to_answer(tmp_path: Path) -> None:
    file, _, _ = table(tmp_path)
    line = ("plan", str(file), "--label", "label", "--budget", "1 MiB")
    assert "--memory: the plan says which memory" in said(*line, "--memory", "exact", fails=2)
    assert "hammemo fit with: --kernel positional" in said(*line)
