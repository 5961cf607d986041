"""CONTRIBUTING.md shows the packages and modules that are there, in the order in which they may import each other."""

from __future__ import annotations

import ast
import re
import tomllib
from collections import Counter

import grimp
import pytest

from places import ROOT

pytestmark = pytest.mark.quick

PACKAGE = ROOT / "src" / "hammemo"
BY_WORDS = {"cli", "experiments"}
"""Packages with one module for each command or experiment: these are not listed."""


def shown() -> dict[str, list[str]]:
    """Return the modules of each package, as the section "Layout" lists them."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    section = text.split("## Layout\n")[1].split("\n## ")[0]
    section = re.sub(r"\n +· ", " · ", section)
    return {name: listed.split(" · ") for name, listed in re.findall(r"^    (\w+)/ +(.+)$", section, re.MULTILINE)}


def folders() -> set[str]:
    return {path.parent.name for path in PACKAGE.glob("*/__init__.py")}


def test_every_package_is_shown() -> None:
    assert set(shown()) == folders()


def test_packages_are_shown_in_the_order_of_imports() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contract = next(c for c in settings["tool"]["importlinter"]["contracts"] if c["type"] == "layers")
    layers = [name.strip() for layer in contract["layers"] for name in layer.split("|")]
    assert [name for name in layers if name in folders()] == list(shown())


def test_no_modules_import_each_other_in_a_circle() -> None:
    """Not even for types. The compiled `hammemo._native` is no Python file: its import looks like one of `hammemo`."""
    graph = grimp.build_graph("hammemo", cache_dir=None)
    graph.remove_import(importer="hammemo._arrays.native", imported="hammemo")
    left = {name: set(graph.find_modules_directly_imported_by(name)) for name in graph.modules}
    while free := {name for name, imported in left.items() if not imported & left.keys()}:
        left = {name: imported for name, imported in left.items() if name not in free}
    assert not left


def test_no_two_classes_have_one_name() -> None:
    """A client has an acknowledgement of its own: it imports nothing of the service."""
    names = [
        node.name.lstrip("_")
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef)
    ]
    assert {name for name, times in Counter(names).items() if times > 1} == {"Acknowledgement"}


@pytest.mark.parametrize("package", sorted(set(shown()) - BY_WORDS))
def test_every_module_is_shown(package: str) -> None:
    inside = {path.stem for path in (PACKAGE / package).glob("*.py")} - {"__init__"}
    inside |= {path.parent.name for path in (PACKAGE / package).glob("*/__init__.py")}
    assert set(shown()[package]) == inside


@pytest.mark.parametrize("package", sorted(folders()))
def test_every_package_says_what_is_in_it_and_what_it_imports(package: str) -> None:
    docstring = ast.get_docstring(ast.parse((PACKAGE / package / "__init__.py").read_text(encoding="utf-8")))
    assert docstring is not None
    assert re.search(r"\b[Ii]mports?\b", docstring), "a sentence on what it imports, and what may import it, is missing"


def test_the_guide_names_files_that_exist() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`([\w/.]+/[\w/.]+)`", text))
    assert len(named) > 15
    for name in named:
        assert any((base / name).exists() for base in (ROOT, PACKAGE, PACKAGE.parent)), name
