"""Every line of docs/upgrading.md, tried with files that version 0.1 wrote (tests/upgrading/write_with_0_1.py).

A point of the page begins with bold words; the test of a point is marked with them, and a test compares the two lists.
The slow test does what a user does: it installs 0.1, writes files, installs this version over it, and reads them.
"""

from __future__ import annotations

import importlib
import json
import os
import pickle
import re
import subprocess
import sys
import tomllib
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import hammemo
from hammemo import (
    Exact,
    Gaussian,
    Hashed,
    LayoutError,
    Ledgered,
    LogLinear,
    MeMoClassifier,
    MemoryClassifier,
    PositionalHamming,
    Tiered,
    files,
    load,
    save,
)
from hammemo._moved import MOVED
from places import ROOT, TESTS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from types import ModuleType

FOLDER = TESTS / "upgrading"
OLD = FOLDER / "written_with_0_1"
LAST_COMMIT_OF_0_1 = "724dfc97ee9eb4929928714c51adad44953ade9c"
EXPECTED: dict[str, Any] = json.loads((OLD / "expected.json").read_text("utf-8"))
PAGE = (ROOT / "docs" / "upgrading.md").read_text(encoding="utf-8")
TESTED: set[str] = set()


def _writer() -> ModuleType:
    spec = importlib.util.spec_from_file_location("write_with_0_1", FOLDER / "write_with_0_1.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


WRITER = _writer()
X, Y, QUERIES = WRITER.X, WRITER.Y, WRITER.QUERIES
NAMES = sorted(set(EXPECTED) - {"commands"})


def point(words: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Mark the test of the point of the page that begins with these words."""
    TESTED.add(words)
    return lambda test: test


def agree(said: dict[str, Any], said_by_0_1: dict[str, Any], without: tuple[str, ...] = ()) -> bool:
    """Return whether two answers are the same; scores and probabilities are those of another BLAS and libm at most."""
    assert set(said) == set(said_by_0_1)
    rounded = ("scores", "probabilities")
    return all(
        np.allclose(said[key], said_by_0_1[key], rtol=1e-5, atol=1e-6)
        if key in rounded
        else said[key] == said_by_0_1[key]
        for key in set(said) - set(without)
    )


def command(*words: str | Path, folder: Path | None = None) -> str:
    """Run a command of hammemo and return what it prints."""
    whole = [sys.executable, "-m", "hammemo", *map(str, words)]
    done = subprocess.run(whole, cwd=folder or OLD, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def number(path: Path) -> int:
    """Return the format number of a file."""
    return int(files.inspect(path)["format"])


def test_every_point_of_the_page_has_a_test() -> None:
    assert set(re.findall(r"^- \*\*(.+?)\*\*", PAGE, re.MULTILINE)) == TESTED


# What to write to keep what you had.

ROWS = re.findall(r"^\| `(.+?)` \| `(.+?)` \|$", PAGE, re.MULTILINE)


def test_the_table_has_the_rows_that_are_tested() -> None:
    assert [old for old, _ in ROWS] == [
        "MemoryClassifier()",
        "MemoryClassifier(kernel)",
        "MemoryClassifier(memory=Exact())",
        "MeMoClassifier(d=1024)",
        "hammemo fit FILE …",
        "hammemo plan FILE …",
    ]


@pytest.mark.parametrize(("row", "name"), [(0, "default"), (1, "default"), (2, "exact"), (3, "paper")])
def test_what_the_table_says_gives_the_answers_of_0_1(row: int, name: str) -> None:
    code = ROWS[row][1].replace("d=1024", "d=16, random_state=3")
    names = {"MemoryClassifier": MemoryClassifier, "MeMoClassifier": MeMoClassifier, "Exact": Exact}
    model = eval(code, names, {"kernel": PositionalHamming()})
    assert agree(
        WRITER.facts(name, model.fit(X, Y)), EXPECTED[name], ("state",) if name in ("default", "paper") else ()
    )


@pytest.mark.slow  # starts the command many times
@pytest.mark.parametrize("row", [4, 5])
def test_commands_of_the_table_give_the_model_of_0_1(row: int, tmp_path: Path) -> None:
    options = ROWS[row][1].partition("…")[2].split()
    small = ["--buckets", "8", "--reserved", "4"]
    if row == 4:
        command("fit", "table.csv", "--label", "fate", *options, *small, "--out", tmp_path / "model")
        assert command("predict", tmp_path / "model", "queries.csv") == EXPECTED["commands"]["predict"]
        assert files.inspect(tmp_path / "model")["memory"] == files.inspect(OLD / "table.model")["memory"]
    else:
        assert "Exact" in command("plan", "table.csv", "--label", "fate", *options, "--budget", "1 MiB")


# The default.


@point("`MemoryClassifier()` chooses.")
def test_the_default_chooses_and_says_what() -> None:
    model = MemoryClassifier().fit(X, Y)
    assert isinstance(model.memory_, Exact)
    assert isinstance(model.vote_, LogLinear)
    assert model.predict_proba(QUERIES).shape == (len(QUERIES), 3)
    assert "Exact" in str(model.report())


@point("`None` keeps its meaning")
def test_none_is_positions_and_a_hashed_table() -> None:
    model = MemoryClassifier(None, None, "sum").fit(X, Y)
    assert isinstance(model.kernel_, PositionalHamming)
    assert isinstance(model.memory_, Hashed)


@pytest.mark.slow  # starts the command many times
@point("`hammemo fit` and `hammemo plan` choose, too")
def test_commands_choose(tmp_path: Path) -> None:
    command("fit", "table.csv", "--label", "fate", "--out", tmp_path / "model")
    told = files.inspect(tmp_path / "model")
    assert told["memory"] == "Exact()"
    assert told["vote"].startswith("LogLinear(")
    command("plan", "table.csv", "--label", "fate", "--budget", "1 MiB")


@point("Missing values are learnt")
@pytest.mark.parametrize("missing", [pytest.param(None, marks=pytest.mark.slow), float("nan")])
def test_missing_values_are_learnt_unless_refused(missing: Any, tmp_path: Path) -> None:
    rows = np.array([["a", missing], ["b", "c"]], dtype=object)
    assert MemoryClassifier(memory="exact", vote="sum").fit(rows, ["x", "y"]).predict(rows).tolist() == ["x", "y"]
    with pytest.raises(ValueError, match="is not a token"):
        MemoryClassifier(missing="refuse").fit(rows, ["x", "y"])
    (tmp_path / "cells.csv").write_text("a,b,label\n1,,x\n1,2,y\n")
    fit = [sys.executable, "-m", "hammemo", "fit", "cells.csv", "--label", "label", "--out", "model"]
    assert subprocess.run(fit, cwd=tmp_path, capture_output=True, check=False).returncode == 0
    refused = subprocess.run([*fit, "--missing", "refuse"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert refused.returncode != 0
    assert "--missing" in refused.stderr


@point("A log-linear vote that was not fitted")
def test_weights_of_a_vote_that_was_not_fitted() -> None:
    model = MemoryClassifier(None, Exact(), LogLinear()).partial_fit(X, Y)
    one = MemoryClassifier(None, Exact(), LogLinear(weights=[1.0, 1.0, 1.0])).fit(X, Y)
    share = MemoryClassifier(None, Exact(), LogLinear(weights=[1 / 3, 1 / 3, 1 / 3])).fit(X, Y)
    assert np.allclose(model.predict_proba(QUERIES), one.predict_proba(QUERIES))
    assert not np.allclose(model.predict_proba(QUERIES), share.predict_proba(QUERIES))


@point("A fitted log-linear vote may have other weights")
def test_weights_depend_neither_on_order_nor_on_repetition() -> None:
    model = MemoryClassifier(None, Exact(), LogLinear()).fit(X, Y)
    other = MemoryClassifier(None, Exact(), LogLinear()).fit(X[::-1], Y[::-1])
    assert np.array_equal(model.predict_proba(QUERIES), other.predict_proba(QUERIES))


@point("The state of a fitted vote is larger")
def test_the_sample_is_kept_or_not(tmp_path: Path) -> None:
    sizes = []
    for keep in (True, False):
        path = tmp_path / f"{keep}"
        save(MemoryClassifier(None, Exact(), LogLinear(keep=keep)).fit(X, Y), path)
        sizes.append(path.stat().st_size)
    assert sizes[0] > sizes[1]
    model = load(tmp_path / "True").forget(X[:4], Y[:4]).refit()
    rest = MemoryClassifier(None, Exact(), LogLinear()).fit(X[4:], Y[4:])
    assert np.array_equal(model.predict_proba(QUERIES), rest.predict_proba(QUERIES))


@point("`certify` says True for every answer from exact counts")
@pytest.mark.parametrize("vote", ["sum", "mean", "log-linear"])
def test_exact_answers_are_certified(vote: str) -> None:
    assert MemoryClassifier(None, Exact(), vote).fit(X, Y).certify(QUERIES).all()


# Files.


@point("Files of 0.1 have format 1.")
@pytest.mark.filterwarnings("ignore:This model has forgotten examples without a ledger")
@pytest.mark.parametrize("name", NAMES)
def test_files_of_0_1_answer_learn_forget_and_are_saved(name: str, tmp_path: Path) -> None:
    assert number(OLD / f"{name}.model") == 1
    model = load(OLD / f"{name}.model")
    assert agree(WRITER.facts(name, model), EXPECTED[name], ("proven",) if name == "default" else ())
    if hasattr(model, "memory_") and name != "stream":
        rows, labels = [["red", "small", "old"], ["pink", "huge", "lost"]], ["keep", "new"]
        model.partial_fit(rows, labels)
        assert model.memory_.state_bytes() != load(OLD / f"{name}.model").memory_.state_bytes()
        model.forget(rows, labels)
        if not name.startswith("paper"):  # its counts are floats: sums of them round
            assert WRITER.facts(name, model)["state"] == EXPECTED[name]["state"]
    save(model, tmp_path / "again")
    assert number(tmp_path / "again") == 1
    assert load(tmp_path / "again").predict(QUERIES if name != "stream" else [["the", "cat"]]) is not None


@pytest.mark.slow  # starts the command many times
def test_commands_read_files_of_0_1() -> None:
    assert command("predict", "table.model", "queries.csv") == EXPECTED["commands"]["predict"]
    assert command("complete", "text.model", "the cat") == EXPECTED["commands"]["complete"]


@pytest.mark.slow  # starts the command many times
@point("Files of 0.2 have formats 1 to 4")
def test_format_numbers(tmp_path: Path) -> None:
    models = {
        1: MemoryClassifier(None, Exact(), "sum"),
        2: MemoryClassifier(None, Hashed(4, 2), "sum"),
        3: MemoryClassifier(None, Exact(), "sum", missing="refuse"),
    }
    for format_number, model in models.items():
        path = tmp_path / f"{format_number}"
        save(model.fit(X, Y), path)
        assert number(path) == format_number
        assert json.loads(command("inspect", path, "--json"))["format"] == format_number
    for name, model in {
        "auto": MemoryClassifier(),
        "sample": MemoryClassifier(None, Exact(), LogLinear()),
        "named": MemoryClassifier(None, "exact", "sum"),
    }.items():
        save(model.fit(X, Y), tmp_path / name)
        assert number(tmp_path / name) == 3
    save(models[3], tmp_path / "parts", parts=2)
    assert number(tmp_path / "parts") == 4


@point("0.1 refuses a file of a newer format")
@pytest.mark.parametrize("memory", [Exact(), Gaussian(d=8)], ids=repr)
@pytest.mark.parametrize("vote", ["sum", "mean"])
def test_models_that_0_1_can_read(memory: Any, vote: str, tmp_path: Path) -> None:
    """That 0.1 itself reads them, and refuses others, is tried by the slow test."""
    save(MemoryClassifier(None, memory, vote).fit(X, Y), tmp_path / "model")
    assert number(tmp_path / "model") == 1


@point("An old hashed file proves less.")
def test_proofs_come_back_when_it_is_learnt_anew() -> None:
    assert EXPECTED["default"]["proven"] == [True] * 4
    assert not load(OLD / "default.model").certify(QUERIES).all()
    assert MemoryClassifier(memory="hashed", vote="sum").fit(X, Y).certify(QUERIES).all()


@point("An old hashed file cannot be merged with a new one.")
def test_an_old_hashed_file_merges_with_shards_of_its_own_layout() -> None:
    old = load(OLD / "default.model")
    new = MemoryClassifier(memory="hashed", vote="sum").fit(X, Y)
    with pytest.raises(LayoutError, match=r"empty_like\(\)"):
        old.merge(new)
    shard = old.empty_like().partial_fit(X[:3], Y[:3])
    assert (old + shard).memory_.label_counts.sum() == len(X) + 3


@point("`state_bytes()` of hashed memories is another one")
@pytest.mark.parametrize("name", ["default", "exact", "gaussian-exact"])
def test_states_learnt_now_and_by_0_1(name: str) -> None:
    models = {
        "default": MemoryClassifier(memory="hashed", vote="sum"),
        "exact": MemoryClassifier(None, Exact(), "sum"),
        "gaussian-exact": MemoryClassifier(None, Gaussian(d=16, exact=True), "sum", random_state=3),
    }
    assert (WRITER.facts(name, models[name].fit(X, Y))["state"] == EXPECTED[name]["state"]) == (name != "default")


@pytest.mark.parametrize("memory", [Tiered(Hashed(4, 2)), Ledgered(Hashed(4, 2))], ids=lambda one: type(one).__name__)
def test_states_that_hold_a_hashed_one_are_of_format_2(memory: Any, tmp_path: Path) -> None:
    save(MemoryClassifier(None, memory, "sum").fit(X, Y), tmp_path / "model")
    assert number(tmp_path / "model") == 2


@point("`save` refuses to undo the work of others")
def test_save_and_the_work_of_others(tmp_path: Path) -> None:
    path = tmp_path / "model"
    path.write_bytes((OLD / "exact.model").read_bytes())
    mine, theirs = load(path), load(path)
    save(theirs.partial_fit(X[:1], Y[:1]), path)
    with pytest.raises(hammemo.FileError, match="force=True"):
        save(mine.partial_fit(X[1:2], Y[1:2]), path)
    save(mine, path, force=True)


@point("`NAME.lock` lies beside a model")
def test_the_lock_beside_a_model(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    path = tmp_path / "model"
    path.write_bytes((OLD / "table.model").read_bytes())
    command("add", path, OLD / "table.csv")
    lock = tmp_path / "model.lock"
    assert lock.exists()
    lock.unlink()
    with hammemo.editing(path) as model:
        model.partial_fit(pandas.DataFrame(X[:1], columns=WRITER.COLUMNS), Y[:1])
    assert lock.exists()


@point("Pickles belong to one version")
def test_a_pickle_of_this_version_works_in_this_version() -> None:
    model = MemoryClassifier().fit(X, Y)
    again = pickle.loads(pickle.dumps(model))  # noqa: S301, made on the line itself
    assert again.predict(QUERIES).tolist() == model.predict(QUERIES).tolist()


# Names.


@point("Modules have moved into packages.")
def test_old_paths_work_and_strict_programs_find_them() -> None:
    assert MOVED["classifiers"] == "models.classifiers"
    strict = [sys.executable, "-W", "error::DeprecationWarning", "-c"]
    old, new = (
        subprocess.run([*strict, f"import hammemo.{name}"], capture_output=True, text=True, check=False)
        for name in ("classifiers", "models.classifiers")
    )
    assert old.returncode == 1
    assert "import hammemo.models.classifiers" in old.stderr
    assert "0.4" in old.stderr
    assert new.returncode == 0, new.stderr


@point("Memories no longer answer questions themselves")
def test_questions_that_the_page_names_warn() -> None:
    words = ["scores", "bounds", "leaders", "proven", "row_width", "seen", "site_counts", "site_scores", "winners"]
    memory = MemoryClassifier(memory="hashed", vote="sum").fit(X, Y).memory_
    for word in words:
        assert f"`{word}`" in PAGE or f"memory.{word}(" in PAGE
        with pytest.warns(DeprecationWarning, match=f"reader\\(\\).{word}"):
            getattr(memory, word)


@point("Five modules without documentation are gone")
def test_modules_that_are_gone() -> None:
    (sentence,) = re.findall(r"^- \*\*Five modules.*$", PAGE, re.MULTILINE)
    names = re.findall(r"`(hammemo\.[\w.]+)`", sentence)
    assert len(names) == 5
    for name in names:
        with pytest.raises(ModuleNotFoundError):
            importlib.import_module(name)


# What is refused now.


@point("Masked arrays")
def test_masked_arrays_are_refused() -> None:
    masked = np.ma.array([[1, 2], [3, 4]], mask=[[True, False], [False, False]])
    with pytest.raises(ValueError, match="mask"):
        MemoryClassifier().fit(masked, ["x", "y"])


@point("Missing labels")
def test_missing_labels_are_refused() -> None:
    pandas = pytest.importorskip("pandas")
    for labels in (pandas.array(["x", pandas.NA], dtype="string"), np.array(["x", None], dtype=object)):
        with pytest.raises(ValueError, match="label"):
            MemoryClassifier().fit([["a"], ["b"]], labels)


@point("`fit_vote` of a vote without weights")
def test_fit_vote_without_weights_is_refused() -> None:
    model = MemoryClassifier(None, Exact(), "sum").fit(X, Y)
    with pytest.raises((TypeError, ValueError), match="weights"):
        model.fit_vote(X, Y)


# Packages.


def project() -> dict[str, Any]:
    whole = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return {**whole["project"], "groups": whole["dependency-groups"]}


@point("`filelock` is new")
def test_dependencies() -> None:
    names = {re.split(r"[<>=\[ ]", line)[0] for line in project()["dependencies"]}
    assert names == {"numpy", "scipy", "scikit-learn", "joblib", "safetensors", "filelock", "threadpoolctl"}


@point("The extra `text`")
def test_the_extra_for_texts() -> None:
    assert {re.split(r"[<>=]", line)[0] for line in project()["optional-dependencies"]["text"]} == {
        "pyarrow",
        "tokenizers",
    }


@point("The extras `dev`, `docs` and `ray-tests`")
def test_groups_in_place_of_extras() -> None:
    for name in ("dev", "docs", "ray-tests"):
        assert name in project()["groups"]
        assert name not in project()["optional-dependencies"]


@point("Python 3.11 or newer")
def test_python() -> None:
    assert project()["requires-python"] == ">=3.11"


# The whole way, with 0.1 itself.

READS_WITH_0_1 = """
import sys, hammemo
assert hammemo.__version__.startswith("0.1."), hammemo.__version__
for path in sys.argv[1:]:
    try:
        print(hammemo.load(path).predict([["red", "small", "new"]]).tolist())
    except hammemo.FileError as error:
        print(error)
"""
READS_WITH_THIS = """
import json, sys, hammemo
sys.path.insert(0, sys.argv[1])
from write_with_0_1 import facts
said = {name: facts(name, hammemo.load(f"{name}.model")) for name in sys.argv[2:]}
print(json.dumps([hammemo.__version__, said]))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="the folders of an environment are others")
def test_this_version_is_installed_over_0_1(tmp_path: Path) -> None:
    """A shallow clone has no 0.1 that could be built; the files that it wrote are tested above all the same.

    HAMMEMO_OLD_WHEEL may name a wheel of 0.1 that was built before, HAMMEMO_WHEEL one of this version.
    """

    def run(*words: str | Path, folder: Path = tmp_path) -> str:
        done = subprocess.run([str(word) for word in words], cwd=folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{words}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    old, new = os.environ.get("HAMMEMO_OLD_WHEEL"), os.environ.get("HAMMEMO_WHEEL")
    if old is None:
        known = subprocess.run(
            ["git", "cat-file", "-e", LAST_COMMIT_OF_0_1], cwd=ROOT, capture_output=True, check=False
        )
        if known.returncode != 0:
            pytest.skip("the history of the repository is not here")
        run("git", "archive", "--output", tmp_path / "old.tar", LAST_COMMIT_OF_0_1, folder=ROOT)
        (tmp_path / "source").mkdir()
        run("tar", "-xf", tmp_path / "old.tar", "-C", tmp_path / "source")
    run(sys.executable, "-m", "venv", tmp_path / "environment")
    python = tmp_path / "environment" / "bin" / "python"
    pip = (python, "-m", "pip", "--disable-pip-version-check", "install", "--quiet")
    run(*pip, f"{old or tmp_path / 'source'}[cli,text]")  # 0.1 read texts with pyarrow
    run(python, FOLDER / "write_with_0_1.py", tmp_path / "written")
    written = json.loads((tmp_path / "written" / "expected.json").read_text("utf-8"))
    for name in NAMES:
        without = ("state",) if name == "paper" else ()
        assert agree(written[name], EXPECTED[name], without), f"{name} in the repository is not what 0.1 writes"

    save(MemoryClassifier(None, Exact(), "sum").fit(X, Y), tmp_path / "format-1")
    save(MemoryClassifier().fit(X, Y), tmp_path / "format-3")
    read = run(python, "-c", READS_WITH_0_1, tmp_path / "format-1", tmp_path / "format-3").splitlines()
    assert read[0] == "['keep']"
    assert "Install a newer version" in read[1]

    run(*pip, "--upgrade", f"{new or ROOT}[cli]")
    version, said = json.loads(run(python, "-c", READS_WITH_THIS, FOLDER, *NAMES, folder=tmp_path / "written"))
    assert version == project()["version"]
    for name in NAMES:
        assert agree(said[name], written[name], ("proven",) if name == "default" else ()), name
    predicted = run(python, "-m", "hammemo", "predict", "table.model", "queries.csv", folder=tmp_path / "written")
    assert predicted == written["commands"]["predict"]
