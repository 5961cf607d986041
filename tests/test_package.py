"""The package itself: every public name is found when asked for, and nothing is loaded before."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

import hammemo
from hammemo._moved import MOVED


def test_every_public_name_is_there_and_listed() -> None:
    assert set(hammemo.__all__) <= set(dir(hammemo))
    for name in hammemo.__all__:
        assert getattr(hammemo, name) is not None


def test_type_checkers_see_the_same_names() -> None:
    tree = ast.parse(Path(hammemo.__file__).read_text(encoding="utf-8"))
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    public = [node for node in imports if re.match(r"hammemo\.[a-z]", node.module or "")]
    seen = {alias.name for node in public for alias in node.names}
    assert seen == set(hammemo.__all__)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        hammemo.nothing  # noqa: B018


def test_packages_are_found_without_an_import_of_their_own() -> None:
    code = "import hammemo; print(hammemo.files.inspect.__name__, hammemo.theory.recovery.__name__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["inspect", "recovery"]


def test_help_does_not_load_scikit_learn() -> None:
    code = (
        "import sys; from typer.testing import CliRunner; from hammemo.cli.app import app;"
        "assert CliRunner().invoke(app, ['--help']).exit_code == 0;"
        "print([name for name in ('sklearn', 'scipy', 'pyarrow', 'matplotlib') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("old", sorted(MOVED))
def test_import_paths_of_the_first_version_still_work(old: str) -> None:
    sys.modules.pop(f"hammemo.{old}", None)
    with pytest.warns(DeprecationWarning, match=f"hammemo.{old} has moved: import hammemo.{MOVED[old]}"):
        moved = importlib.import_module(f"hammemo.{old}")
    assert moved is importlib.import_module(f"hammemo.{MOVED[old]}")
    assert moved.__name__ == f"hammemo.{MOVED[old]}"


NAMED_IN_THE_FIRST_DOCS = (
    "engines.GroupReport",
    "engines.fit",
    "experiments.figures",
    "experiments.votes",
    "files.inspect",
    "files.read_notes",
    "memories.Memory",
    "memories.base.NotStoredError",
    "memories.gaussian_errors.standard_errors",
    "sources.Source",
    "sources.open_source",
    "theory.decompose",
    "theory.growth.expected_features",
    "tokens.NO_TOKEN",
)


@pytest.mark.parametrize("path", NAMED_IN_THE_FIRST_DOCS)
@pytest.mark.filterwarnings("ignore:.*has moved:DeprecationWarning")
def test_paths_that_the_first_docs_named_still_lead_to_something(path: str) -> None:
    package, _, name = path.rpartition(".")
    module = importlib.import_module(f"hammemo.{package}")
    assert hasattr(module, name) or importlib.import_module(f"hammemo.{path}")
