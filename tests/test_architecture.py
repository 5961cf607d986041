"""docs/architecture.md names functions that exist, in the order in which they are called."""

from __future__ import annotations

import re
import sys
import threading
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import hammemo
from hammemo import MemoryClassifier
from places import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
X = np.random.default_rng(0).integers(0, 5, (300, 3))
Y = X[:, 0] ^ X[:, 1]


def named(heading: str) -> list[str]:
    """Return the functions that a section lists, in their order."""
    section = PAGE.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    return re.findall(r"^\d+\. `([\w.]+)`", section, re.MULTILINE)


@contextmanager
def calls() -> Iterator[list[str]]:
    """Yield a list that grows by each function of hammemo that is called, in this thread and those begun meanwhile."""
    found: list[str] = []

    def note(frame: Any, event: str, _: object) -> None:
        module = str(frame.f_globals.get("__name__"))
        if event == "call" and module.startswith(("hammemo.", "hammemo_server.")):
            found.append(f"{module.removeprefix('hammemo.')}.{frame.f_code.co_qualname}")

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        yield found
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def assert_in_order(heading: str, called: list[str]) -> None:
    listed = named(heading)
    assert len(listed) > 8
    place = 0
    for name in listed:
        assert name in called[place:], f"{heading}: {name} is not called after those before it"
        place = called.index(name, place) + 1


def test_all_functions_exist() -> None:
    for name in re.findall(r"`((?:_\w+|[a-z]\w*)\.[\w.]+)`", PAGE):
        module, _, rest = name.rpartition(".")
        while True:
            try:
                found: Any = import_module(module if module.startswith("hammemo_server") else f"hammemo.{module}")
                break
            except ModuleNotFoundError:
                assert module, f"{name} is no function"
                module, _, last = module.rpartition(".")
                rest = f"{last}.{rest}"
        for attribute in rest.split("."):
            found = getattr(found, attribute)


def test_every_package_has_a_paragraph() -> None:
    section = PAGE.split("\n## The packages\n")[1]
    for package in (ROOT / "src" / "hammemo").glob("*/__init__.py"):
        assert f"**`{package.parent.name}`**" in section


def test_fit_and_predict() -> None:
    with calls() as called:
        model = MemoryClassifier(numeric="none").fit(X, Y)
    assert_in_order("Fit", called)
    with calls() as called:
        model.predict(X)
    assert_in_order("Predict", called)


def test_a_question_to_a_folder(tmp_path: Path) -> None:
    hammemo.save(MemoryClassifier(numeric="none").fit(X, Y), tmp_path / "model", segments=2)
    with calls() as called:
        hammemo.load(tmp_path / "model").predict(X)
    assert_in_order("Predict from a folder", called)


def test_one_http_edit(tmp_path: Path) -> None:
    pytest.importorskip("uvicorn")
    import running_servers as serving
    from hammemo.client import Client

    with calls() as called, serving.in_thread(tmp_path) as running, Client(running.url) as client:
        client.create("m", columns=2)
        client.learn("m", [["a", "b"]], ["x"])
        called.clear()
        client.learn("m", [["a", "b"]], ["x"])
    assert_in_order("One HTTP edit", called)
