"""CONTRIBUTING.md shows the packages that are there, in the order in which they may import each other."""

from __future__ import annotations

import ast
import re
import tomllib
from collections import Counter
from functools import cache
from typing import TYPE_CHECKING

import grimp
import pytest

from places import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.quick

PACKAGE = ROOT / "src" / "hammemo"
SERVER = ROOT / "server" / "src" / "hammemo_server"
PACKAGES = [*PACKAGE.glob("*/__init__.py"), *SERVER.glob("*/__init__.py")]


@cache
def parsed(text: str) -> ast.Module:
    """Parse a file once for all tests."""
    return ast.parse(text)


def shown() -> list[list[str]]:
    """Return the packages of the library and of the server, as the section "Layout" lists them."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    section = text.split("## Layout\n")[1].split("\n## ")[0]
    return [re.findall(r"^    (\w+)/ +\S", half, re.MULTILINE) for half in section.split("The server from the top:")]


@pytest.mark.parametrize(("package", "number"), [(PACKAGE, 0), (SERVER, 1)])
def test_packages_are_shown_in_the_order_of_imports(package: Path, number: int) -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = [c for c in settings["tool"]["importlinter"]["contracts"] if c["type"] == "layers"]
    (contract,) = [c for c in contracts if c["containers"] == [package.name]]
    layers = [name.strip() for layer in contract["layers"] for name in layer.split("|")]
    assert [name for name in layers if (package / name).is_dir()] == shown()[number]


def test_no_modules_import_each_other_in_a_circle() -> None:
    """Not even for types. The compiled `hammemo._native` is no Python file: its import looks like one of `hammemo`."""
    graph = grimp.build_graph("hammemo", "hammemo_server", cache_dir=None)
    for importer in graph.find_modules_that_directly_import("hammemo"):
        graph.remove_import(importer=importer, imported="hammemo")
    left = {name: set(graph.find_modules_directly_imported_by(name)) for name in graph.modules}
    while free := {name for name, imported in left.items() if not imported & left.keys()}:
        left = {name: imported for name, imported in left.items() if name not in free}
    assert not left


def test_rooms_take_nothing_but_the_compiled_module_from_the_package_itself() -> None:
    """The layers cannot check these imports. Commands are above everything, and import inside functions."""
    taken = {
        (path.relative_to(PACKAGE).parts[0], name.name)
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(parsed(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and node.module == "hammemo" and not node.level
        for name in node.names
    }
    assert {name for room, name in taken if room != "cli"} == {"_native"}


def test_no_two_classes_have_one_name() -> None:
    """A client has an acknowledgement of its own: it imports nothing of the server."""
    names = [
        node.name.lstrip("_")
        for path in [*PACKAGE.rglob("*.py"), *SERVER.rglob("*.py")]
        for node in ast.walk(parsed(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef)
    ]
    assert {name for name, times in Counter(names).items() if times > 1} == {"Acknowledgement"}


FUNCTION = ast.FunctionDef | ast.AsyncFunctionDef
MOST_PARAMETERS = 8
LONG_SIGNATURES = {
    # estimators and their streams: documented keyword arguments
    "memories.gaussian.memory.Gaussian.__init__",
    "estimators.classifiers.MemoryClassifier.__init__",
    "estimators.classifiers.MemoryClassifier.fit_stream",
    "estimators.classifiers.MemoryClassifier.forget_stream",
    "estimators.classifiers.MemoryClassifier.partial_fit_stream",
    "paper.memo.MeMoClassifier.__init__",
    "planning.planner.plan",
    "tasks.labels.streams.Stream.read",
    "votes.log_linear.LogLinear.__init__",
}


def parameter_counts(node: ast.AST, name: str) -> Iterator[tuple[str, int]]:
    """Yield the name of each function below a node, and how many parameters it has beside self or cls."""
    for child in ast.iter_child_nodes(node):
        inner = (
            f"{name}.{child.name}" if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) else name
        )
        if isinstance(child, FUNCTION):
            given = child.args
            taken = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
            yield inner, len([one for one in taken if one is not None and one.arg not in ("self", "cls")])
        yield from parameter_counts(child, inner)


def test_no_function_has_more_than_eight_parameters() -> None:
    """Others take a settings object. The list of exceptions may only become shorter."""
    found = {
        name
        for package in (PACKAGE, SERVER)
        for path in package.rglob("*.py")
        for name, number in parameter_counts(
            parsed(path.read_text(encoding="utf-8")), ".".join(path.relative_to(package).with_suffix("").parts)
        )
        if number > MOST_PARAMETERS
    }
    assert found == LONG_SIGNATURES


@pytest.mark.parametrize("path", PACKAGES, ids=lambda path: path.parent.name)
def test_every_package_says_what_is_in_it_and_what_it_imports(path: Path) -> None:
    docstring = ast.get_docstring(parsed(path.read_text(encoding="utf-8")))
    assert docstring is not None
    assert re.search(r"\b[Ii]mports?\b", docstring), "a sentence on what it imports, and what may import it, is missing"


def test_the_guide_names_files_that_exist() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`([\w/.]+/[\w/.]+)`", text))
    assert len(named) > 15
    for name in named:
        assert any((base / name).exists() for base in (ROOT, PACKAGE, PACKAGE.parent)), name
