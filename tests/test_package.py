"""The package itself: every public name is found when asked for, and nothing is loaded before."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import hammemo


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
    code = "import hammemo; print(hammemo.files.inspect.__name__, hammemo.planning.plan.__name__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["inspect", "plan"]


def test_every_package_can_be_imported_first() -> None:
    folder = Path(hammemo.__file__).parent
    names = [".".join(path.parent.relative_to(folder.parent).parts) for path in folder.rglob("__init__.py")]
    assert len(names) > 20
    code = """if True:
        import importlib, sys
        for name in sys.argv[1:]:
            for known in [known for known in sys.modules if known.startswith("hammemo") and "_native" not in known]:
                del sys.modules[known]
            importlib.import_module(name)
    """
    subprocess.run([sys.executable, "-c", code, *names], check=True)


def test_help_does_not_load_scikit_learn() -> None:
    code = (
        "import sys; from typer.testing import CliRunner; from hammemo.cli.app import app;"
        "assert CliRunner().invoke(app, ['--help']).exit_code == 0;"
        "print([name for name in ('sklearn', 'scipy', 'pyarrow', 'matplotlib') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
