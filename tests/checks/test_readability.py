"""`.ci/readability.py` refuses what its rules name, accepts what they ask for, and its list only gets shorter."""

from __future__ import annotations

import importlib.util
import sys
import tomllib
from typing import TYPE_CHECKING, Any

import pytest

from places import ROOT

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.quick


def load_script() -> Any:
    """Import the script, which lies in no package."""
    spec = importlib.util.spec_from_file_location("readability_check", ROOT / ".ci" / "readability.py")
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = script  # its dataclasses look there
    spec.loader.exec_module(script)
    return script


SCRIPT = load_script()
NAMES = SCRIPT.Names(frozenset({"count_rows", "Rows"}), variadic=frozenset(), packages=frozenset({".", "hammemo"}))


def findings(code: str) -> list[tuple[int, str]]:
    """Return what the script says of a module."""
    return list(SCRIPT.check_module(SCRIPT.Module(code), NAMES))


REFUSED = {
    "packed": ("width, height = 3, 4", "One statement assigns 2 values"),
    "packed by a condition": ("state, bytes_used = ('none', 0) if slot is None else (slot.state, 1)", "assigns 2"),
    "packed with a rest": ("first, *others = 1, 2, 3", "assigns 2"),
    "a splat of a tuple": ("def f():\n    sizes = (1, 2)\n    return area(*sizes)", "'sizes' is built to be splatted"),
    "a splat of a literal": ("def f(more):\n    return area(*(1, more))", "A tuple is built to be splatted"),
    "three values": ("def split(rows):\n    return rows, rows, rows", "split returns a tuple of three"),
    "three values in a branch": ("def split(x):\n    return (1, 2, 3) if x else None", "split returns a tuple"),
    "three values by annotation": ("def split() -> tuple[int, int, int]:\n    return cut()", "split returns a tuple"),
    "three values or None": ("def split() -> 'tuple[int, int, int] | None':\n    return cut()", "split returns"),
    "three values by an alias": ("Cut = tuple[int, int, int]\ndef split() -> Cut:\n    return cut()", "split returns"),
    "five positional arguments": ("count_rows(1, 2, 3, 4, 5)", "count_rows gets 5 arguments by position"),
    "five for a method": ("table.count_rows(1, 2, 3, 4, 5)", "table.count_rows gets 5"),
    "five for a class": ("Rows(1, 2, 3, 4, 5)", "Rows gets 5"),
    "five for an import": ("from hammemo import _native\n_native.walk(1, 2, 3, 4, 5)", "_native.walk gets 5"),
    "nested conditions": ("kind = 1 if a else 2 if b else 3", "Conditional expressions are nested"),
    "a nested condition in a call": ("kind = 1 if a else size(2 if b else 3)", "are nested"),
    "a long lambda": ("key = lambda row: (\n    row\n)", "A lambda spans lines"),
    "a participle": ("def fitted_vote():\n    pass", "The name of fitted_vote begins with a participle"),
    "an irregular participle": ("class A:\n    def _grown(self):\n        pass", "_grown begins with a participle"),
    "a vague local": ("def f():\n    found = 1\n    return found", "f: 'found' says nothing"),
    "a vague loop": ("def f(rows):\n    for given in rows:\n        print(given)", "f: 'given' says nothing"),
    "a vague parameter": ("def f(*, held):\n    return held", "f: 'held' says nothing"),
    "a long line": ("x = 1  # " + 93 * "-", "The line has 102 characters"),
}

ACCEPTED = {
    "a swap": "left, right = right, left",
    "the result of a call": "width, height = measure()",
    "a result with a rest": "first, *others = measure()",
    "a splat of a parameter": "def f(*sizes):\n    return area(*sizes)",
    "a splat of a list that grows": "def f():\n    sizes = [1]\n    sizes.append(2)\n    return area(*sizes)",
    "a splat of another function's tuple": "def f():\n    b = (1, 2)\n    def g(b):\n        return area(*b)",
    "any number of values": "def list_columns(columns, label, weight):\n    return (*columns, label, weight)",
    "a pair": "def split(rows) -> tuple[int, int]:\n    return 1, 2",
    "a tuple of any length": "def split(rows) -> tuple[int, ...]:\n    return cut()",
    "a tuple of three inside": "def outer():\n    class A:\n        def __reduce__(self):\n            return 1, 2, 3",
    "keywords": "count_rows(1, 2, 3, 4, depth=5)",
    "five for another library": "import struct\nstruct.pack('>iiii', 1, 2, 3, 4)",
    "five for a builtin": "print(1, 2, 3, 4, 5)",
    "five for a method of another library": "def f(axis):\n    axis.plot(1, 2, 3, 4, 5)",
    "one condition": "kind = 1 if a else 2",
    "two conditions side by side": "kinds = [1 if a else 2, 3 if b else 4]",
    "a short lambda": "key = lambda row: row.label",
    "a command": "def fit_vote():\n    pass\ndef embed_rows():\n    pass\ndef __exited__():\n    pass",
    "a property": "class A:\n    @property\n    def fitted(self):\n        return 1",
    "locals that say what they hold": "def f(other):\n    before = 1\n    left, right = cut(other)\n    return before",
    "an attribute": "def f(self):\n    self.found = 1",
    "a long address": "# https://example.org/" + 100 * "a",
    "a line of 100": "x = 1  # " + 91 * "-",
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_rule_refuses(name: str) -> None:
    code, sentence = REFUSED[name]
    (finding,) = findings(code)
    assert sentence in finding[1]
    assert 1 <= finding[0] <= code.count("\n") + 1


@pytest.mark.parametrize("name", ACCEPTED)
def test_a_rule_accepts(name: str) -> None:
    assert findings(ACCEPTED[name]) == []


def test_a_function_with_any_number_of_arguments_may_get_many() -> None:
    module = SCRIPT.Module("def count_rows(*rows):\n    pass\ncount_rows(1, 2, 3, 4, 5)")
    names = SCRIPT.Names.from_modules([module], {"."})
    assert list(SCRIPT.check_module(module, names)) == []


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with a room that follows the rules, one that does not, and a module that is a room by itself."""
    for path, code in (
        ("src/hammemo/good/__init__.py", "left = 1\n"),
        ("src/hammemo/bad/rows.py", "left, right = 1, 2\n"),
        ("src/hammemo/single.py", "def found_rows():\n    pass\n"),
        ("benchmarks/deep/speed.py", "left = 1\n"),
    ):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(code, encoding="utf-8")
    return tmp_path


def test_an_offence_outside_the_list_fails_with_its_place(repository: Path) -> None:
    failures = SCRIPT.check(repository, frozenset())
    assert [failure.partition(": ")[0] for failure in failures] == [
        "src/hammemo/bad/rows.py:1",
        "src/hammemo/single.py:1",
    ]


def test_listed_rooms_are_counted(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert SCRIPT.check(repository, frozenset({"src/hammemo/bad", "src/hammemo/single.py"})) == []
    printed = capsys.readouterr().out
    assert "1 offences in src/hammemo/bad," in printed
    assert "good" not in printed


def test_a_room_that_is_finished_must_leave_the_list(repository: Path) -> None:
    listed = frozenset({"src/hammemo/bad", "src/hammemo/single.py", "benchmarks", "src/hammemo/gone"})
    finished, gone = SCRIPT.check(repository, listed)
    assert finished.startswith("benchmarks breaks no rule any more: remove it")
    assert gone.startswith("src/hammemo/gone is no room")


def test_every_room_has_the_settings_of_the_project() -> None:
    """Where a room or a folder above it has a `ruff.toml`, as tests have, it changes nothing for the room."""
    project = ROOT / "pyproject.toml"
    assert tomllib.loads(project.read_text(encoding="utf-8"))["tool"]["ruff"]["line-length"] == SCRIPT.LONGEST_LINE
    for room in SCRIPT.read_rooms(ROOT):
        folders = [ROOT / room, *(ROOT / room).parents]
        settings = next(
            path for folder in folders for path in (folder / "ruff.toml", folder / "pyproject.toml") if path.is_file()
        )
        if settings.name == "ruff.toml":
            own = tomllib.loads(settings.read_text(encoding="utf-8"))
            assert own.keys() == {"extend"}, room
            settings = (settings.parent / own["extend"]).resolve()
        assert settings in (project, ROOT / "server" / "pyproject.toml"), room


def test_each_exception_is_a_function_of_ours() -> None:
    rooms = SCRIPT.read_rooms(ROOT)
    functions = {f.name for files in rooms.values() for module in files.values() for f in module.functions}
    assert set(SCRIPT.ALLOWED_PARTICIPLES) <= functions
