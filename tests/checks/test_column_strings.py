"""No function and no class takes kinds, types, contents or token types of columns as a string."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

import pytest

from places import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.quick

LETTERS = ROOT / "src" / "hammemo" / "tokens" / "column_letters.py"
"""The one module that makes and reads the letters of files, notes and digests."""

STILL_STRINGS = ("hammemo/sources/", "hammemo/cli/batches.py", "hammemo/cli/models.py", "hammemo/engines/")
"""What reads files, and has alphabets of its own still."""

NAME = re.compile(r"(^|_)(kinds|letters|types|column_contents)($|_)")
STRING = re.compile(r"str|str \| None|None \| str|Sequence\[str\]|Iterable\[str\]")


def find_strings(code: str) -> Iterator[str]:
    """Yield the parameters, fields and results of a module that are named as facts about columns and are strings."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.arg):
            name, annotation = node.arg, node.annotation
        elif isinstance(node, ast.AnnAssign):
            name, annotation = ast.unparse(node.target), node.annotation
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            name, annotation = node.name, node.returns
            if name.lstrip("_").startswith("describe"):
                continue  # for a file
        else:
            continue
        if annotation is not None and NAME.search(name) and STRING.fullmatch(ast.unparse(annotation).strip("'\"")):
            yield f"{name}: {ast.unparse(annotation)}"


def list_modules() -> Iterator[Path]:
    """Yield the modules of the library and the server that keep to the rule."""
    for folder in (ROOT / "src", ROOT / "server" / "src"):
        for path in sorted(folder.rglob("*.py")):
            if path != LETTERS and not any(part in path.as_posix() for part in STILL_STRINGS):
                yield path


def test_facts_about_columns_are_no_strings() -> None:
    """One letter for each column looks like any other string, and several alphabets overlap: "s" was a name, a
    category, a string token, or a string of a file. A type checker cannot tell them apart, so a wrong one was an answer
    that is wrong without an error. Tuples of enum members (`hammemo.tokens.column_kinds`) cannot be mixed up.
    """
    found = [f"{path.relative_to(ROOT)}: {text}" for path in list_modules() for text in find_strings(path.read_text())]
    assert found == []


@pytest.mark.parametrize(
    "code",
    [
        "def is_wide(kinds: str) -> bool: ...",
        "def read(*, column_types: 'str | None' = None) -> int: ...",
        "class Cells:\n    kinds: str",
        "class Cells:\n    def table_kinds(self) -> str: ...",
    ],
)
def test_a_string_is_found(code: str) -> None:
    assert list(find_strings(code))


def test_other_names_and_tuples_are_not_found() -> None:
    code = "def read(kind: str, kinds: ColumnKinds, typesetting: str, kinds_of: dict[str, str]) -> str: ..."
    assert not list(find_strings(code))
