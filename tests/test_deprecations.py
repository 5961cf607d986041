"""Deprecated names keep to the policy in CONTRIBUTING.md: they work, warn once in each place, and name the new one."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
import warnings
from pathlib import Path

import numpy as np
import pytest

import hammemo
from hammemo import Exact, Hashed, MemoryClassifier
from hammemo._moved import GOES_IN, MOVED
from hammemo.memories.base import _READER_NAMES
from places import ROOT


def shown(code: str, tmp_path: Path) -> list[tuple[int, str]]:
    """Run a program as a user would, and return the lines and texts of its warnings about deprecated names."""
    program = tmp_path / "program.py"
    program.write_text(code, encoding="utf-8")
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = re.findall(r"^(.+?):(\d+): DeprecationWarning: (.*)$", done.stderr, re.MULTILINE)
    assert all(path == str(program) for path, _, _ in found), (
        "a warning falls on somebody else's code, where nobody sees it"
    )
    return [(int(line), text) for _, line, text in found]


def test_every_old_path_warns_once_where_it_is_used(tmp_path: Path) -> None:
    names = sorted(MOVED)
    loops = [f"for _ in range(3): import hammemo.{name}" for name in names]
    warned = shown("\n".join([*loops, *loops]), tmp_path)
    assert [line for line, _ in warned] == list(range(1, len(names) + 1))  # neither again in the loop nor at the end
    for name, (_, text) in zip(names, warned, strict=True):
        assert (
            text == f"hammemo.{name} has moved: import hammemo.{MOVED[name]}. The old name goes in version {GOES_IN}."
        )


def test_an_old_path_as_an_attribute_warns_where_it_is_used(tmp_path: Path) -> None:
    names = sorted(name for name in MOVED if "." not in name)
    warned = shown("\n".join(["import hammemo", *(f"hammemo.{name}" for name in names)]), tmp_path)
    assert [line for line, _ in warned] == list(range(2, len(names) + 2))


def test_every_question_to_a_memory_warns_once_in_each_place(tmp_path: Path) -> None:
    fitted = "from hammemo import *\nm = MemoryClassifier(memory='hashed', vote='sum').fit([['a']], ['b']).memory_"
    uses = [f"for _ in range(3): m.{name}; m.{name}" for name in _READER_NAMES]
    warned = shown("\n".join([fitted, *uses, *uses]), tmp_path)
    assert [line for line, _ in warned] == list(range(3, 3 + 2 * len(uses)))
    for name, (_, text) in zip([*_READER_NAMES, *_READER_NAMES], warned, strict=True):
        assert f"Memory.{name} " in text
        assert f"memory.reader().{name}" in text
        assert text.endswith(f"The old name goes in version {GOES_IN}.")


@pytest.mark.parametrize("name", _READER_NAMES)
def test_questions_to_a_memory_are_answered_by_its_reader(name: str) -> None:
    memory = MemoryClassifier(memory=Hashed(4, 2), vote="sum").fit([["a", "b"], ["c", "d"]], ["x", "y"]).memory_
    with pytest.warns(DeprecationWarning, match=f"Memory.{name} has moved"):
        asked = getattr(memory, name)
    assert asked == getattr(memory.reader(), name)


def test_names_that_stay_do_not_warn() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        memory = MemoryClassifier(memory=Exact(), vote="sum").fit(np.array([["a"], ["b"]]), ["x", "y"]).memory_
        assert memory.state_bytes()
        with pytest.raises(AttributeError, match="nothing"):
            memory.nothing  # noqa: B018


def test_what_was_to_go_has_gone() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    now, end = (tuple(map(int, text.split(".")[:2])) for text in (project["version"], GOES_IN))
    assert now < end, f"version {project['version']} must not have the names of _moved.py any more: delete them"


def test_no_other_deprecation_escapes_this_file() -> None:
    """A new warning belongs to the two places that are tested here, or gets a test of its own in this file."""
    package = Path(hammemo.__file__).parent
    found = {
        path.relative_to(package).as_posix()
        for path in package.rglob("*.py")
        if re.search(r"\b(Pending)?DeprecationWarning\b|\bFutureWarning\b", path.read_text(encoding="utf-8"))
    }
    assert found == {"_moved.py", "memories/base.py"}


def test_the_policy_is_written_down() -> None:
    guide = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert "## Deprecations\n" in guide
    assert "`tests/test_deprecations.py`" in guide
