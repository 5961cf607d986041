"""Figures that pages state are those of the file of measured figures, and old ones are found."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from datetime import date
from typing import TYPE_CHECKING, Any

import pytest

import figures
import first_picture
from figure_rules import RULES
from places import ROOT

if TYPE_CHECKING:
    from pathlib import Path

RUNS = figures.read_runs()
with_git = pytest.mark.skipif(shutil.which("git") is None, reason="needs git")


def shown() -> set[tuple[str, ...]]:
    """Return the run and the name of each figure that a page shows."""
    texts = [page.read_text(encoding="utf-8") for page in figures.pages()]
    return {tuple(found[1].split(".", 1)) for text in texts for found in figures.SHOWN.finditer(text)}


@pytest.mark.parametrize("page", figures.pages(), ids=lambda page: page.name)
def test_a_page_states_what_was_measured(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert text.count("<!--figure:") == text.count("<!--/figure-->") == len(figures.SHOWN.findall(text))
    assert text == figures.fill_page(text, RUNS)
    assert not re.search(r"^\s*<!--figure:[^>]*-->.", text, re.MULTILINE)  # it would end a paragraph
    assert "<!--figure:" not in figures.fill_page(text, RUNS, comments=False)


def _is_table(value: Any) -> bool:
    return isinstance(value, list) and isinstance(value[0], str)


def test_every_decimal_of_the_readme_is_a_measured_figure() -> None:
    readme = figures.SHOWN.sub("", (ROOT / "README.md").read_text(encoding="utf-8"))
    prose = re.sub(r"^```.*?^```$", "", readme, flags=re.MULTILINE | re.DOTALL)
    assert set(re.findall(r"\d+\.\d+", prose)) == {"3.11", "3.14"}  # versions of Python


def test_every_figure_is_shown_on_a_page_or_in_the_first_picture() -> None:
    drawn = {(run, "sets") for run in ("names", "numbers")} | {("deletion", "rows")}
    drawn |= {
        (run, name) for run in RUNS for name, one in RUNS[run]["figures"].items() if one["unit"] == first_picture.MEANS
    }
    stated = {(run, name) for run in RUNS for name, one in RUNS[run]["figures"].items() if not _is_table(one["value"])}
    assert stated <= shown() | drawn  # long tables may be in the file alone
    assert shown() | drawn <= {(run, name) for run in RUNS for name in RUNS[run]["figures"]}
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for run, title in (("names", "tables of names"), ("numbers", "tables with numbers")):
        assert f"| [{RUNS[run]['figures']['sets']['value']} {title}]" in readme


@pytest.mark.parametrize("name", RUNS)
def test_a_run_says_where_it_comes_from(name: str) -> None:
    run = RUNS[name]
    assert name in RULES
    assert re.fullmatch(r"[0-9a-f]{8}", run["commit"])
    assert re.fullmatch(r"[0-9a-f]{16}", run["tree"])
    assert date.fromisoformat(run["date"])
    assert run["machine"]
    assert all((ROOT / path).exists() for path in run["code"])
    command = re.match(r"python (-m )?[\w./]+", run["command"])
    assert command is not None
    assert f"`{command[0]}" in (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    assert all(figure["unit"] and figure["value"] is not None for figure in run["figures"].values())


def git(folder: Path, *arguments: str) -> str:
    who = ("-c", "user.name=a", "-c", "user.email=a@b")
    return subprocess.run(
        ["git", *who, *arguments], cwd=folder, check=True, capture_output=True, text=True
    ).stdout.strip()


@with_git
def test_figures_that_are_older_than_their_code_are_found(tmp_path: Path) -> None:
    def commit(text: str) -> str:
        (tmp_path / "code.py").write_text(text, encoding="utf-8")
        git(tmp_path, "add", ".")
        git(tmp_path, "commit", "-qm", "code")
        return git(tmp_path, "rev-parse", "--short=8", "HEAD")

    git(tmp_path, "init", "-q")
    first = commit("one")
    run = {"code": ["code.py"], "commit": first, "date": "2026-01-01", "command": "python measure.py"}
    runs = {"speed": {**run, "tree": figures.tree(run["code"], root=tmp_path)}}
    assert figures.find_outdated(runs, tmp_path) == []
    second = commit("two")
    assert figures.find_outdated(runs, tmp_path) == [
        f"speed: measured at {first} on 2026-01-01; its code has changed in 1 commit, the last is {second}. "
        "Measure again: python measure.py"
    ]
    runs["speed"]["commit"] = "0" * 8  # not in this clone
    assert "its code has changed" in figures.find_outdated(runs, tmp_path)[0]
    commit("one")
    assert figures.find_outdated(runs, tmp_path) == []


def rows_of_tables(**more: Any) -> list[dict[str, Any]]:
    """Return rows as a benchmark writes them: ours and two others on two sets."""
    return [
        {
            "set": name,
            "learner": learner,
            "rows": 5000,
            "labels": 2,
            "folds": 5,
            "accuracy": accuracy,
            "log_loss": 1 - accuracy,
            "fit_seconds": took,
            "predictions_per_second": 1000.0,
            "mebibytes": 0.1,
            "forget_microseconds": 80.0,
            "forgets_exactly": True,
            "seed": 0,
            "measured": {"commit": "HEAD", "date": "2026-01-02", "machine": "a machine"},
            **more,
        }
        for name in ("first", "second")
        for learner, accuracy, took in (("ours", 0.9, 3.0), ("LightGBM", 0.8, 2.0), ("CatBoost", 0.85, 30.0))
    ]


@pytest.mark.parametrize("name", ["names", "numbers"])
def test_rules_make_figures_of_rows(name: str) -> None:
    found = RULES[name](rows_of_tables())
    assert found["ours"] == [0.9, 0.1]
    assert found["lead over LightGBM"] == [0.1, 0.1]
    assert found["price"] == 1.5
    assert found["table"][0].startswith("| set | rows | labels | ours | LightGBM | CatBoost |")
    assert {*found} >= {one for one in RUNS[name]["figures"] if "forest" not in one} - {
        *("naive Bayes", "logistic, one-hot", "ours, in 10 pieces", "histogram boosting", "LightGBM, early stopping")
    }


@with_git
def test_a_run_takes_new_values_of_one_commit(tmp_path: Path) -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("a source distribution has no commits")
    known: dict[str, Any] = {
        "command": "python measure.py",
        "code": ["README.md"],
        "figures": {"ours": {"unit": "share", "value": 0}},
    }
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(map(json.dumps, rows_of_tables())), encoding="utf-8")
    run = figures.take_figures("names", known, [path], None)
    assert run["figures"]["ours"] == {"unit": "share", "value": [0.9, 0.1]}
    assert (run["date"], run["machine"]) == ("2026-01-02", "a machine")
    assert run["tree"] == figures.tree(["README.md"])
    path.write_text("\n".join(map(json.dumps, rows_of_tables(measured={"commit": "a-dirty"}))), encoding="utf-8")
    with pytest.raises(SystemExit, match="of one commit"):
        figures.take_figures("names", known, [path], None)
    assert figures.take_figures("names", known, [path], "HEAD")["commit"] == figures.git(
        "rev-parse", "--short=8", "HEAD"
    )
    path.write_text(json.dumps(rows_of_tables()[0]), encoding="utf-8")  # ours alone
    with pytest.raises(SystemExit, match="no rows for \\['LightGBM'\\]"):
        figures.take_figures("names", known, [path], "HEAD")
    path.write_text("\n".join(map(json.dumps, rows_of_tables())), encoding="utf-8")
    more = {**known, "figures": {"ours": known["figures"]["ours"], "EBM": {"unit": "share", "value": 0}}}
    with pytest.raises(SystemExit, match="no rows for \\['EBM'\\]"):
        figures.take_figures("names", more, [path], "HEAD")
