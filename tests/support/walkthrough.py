"""Walk through one page of documentation as a reader would: run what it shows, in its order, and stop at a difference.

    python walkthrough.py PAGE

Python blocks (with ``>>>``) are run as doctests that share their names, console blocks (with ``$ ``) by a shell, all
from the current folder. In expected output ``...`` stands for anything. ``pip install`` is left to whoever prepared the
environment: this script needs the standard library alone.
"""

from __future__ import annotations

import doctest
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

_BLOCK = re.compile(r"^```(python|console)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FLAGS = doctest.ELLIPSIS | doctest.FAIL_FAST


@dataclass(frozen=True)
class Command:
    """A line that a reader types into a shell, and what the page says it prints."""

    text: str
    output: str


@dataclass(frozen=True)
class Block:
    """A fenced block of a page, and the line where it begins."""

    kind: str
    text: str
    line: int


def blocks(page: str) -> Iterator[Block]:
    """Yield the Python and console blocks of a page, in its order."""
    for match in _BLOCK.finditer(page):
        yield Block(match[1], match[2], page.count("\n", 0, match.start()) + 2)


def commands(block: Block) -> Iterator[Command]:
    """Yield the commands of a console block; a line that begins with ``> `` continues the one before."""
    for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
        first, *rest = part.splitlines()
        while rest and rest[0].startswith("> "):
            first += "\n" + rest.pop(0)[2:]
        yield Command(first, "".join(f"{line}\n" for line in rest))


def installations(page: str) -> list[str]:
    """Return what the page installs, such as ``hammemo[cli]``, ``.[cli]`` or ``lightgbm``, in its order."""
    typed = [command.text for block in blocks(page) if block.kind == "console" for command in commands(block)]
    return [word for text in typed if text.startswith("pip install ") for word in shlex.split(text)[2:]]


def walk(name: str, page: str) -> str:
    """Return what differs first, or an empty text where all is as the page says."""
    names: dict[str, Any] = {"__name__": "__main__"}
    for block in blocks(page):
        difference = _run_python(name, block, names) if block.kind == "python" else _run_console(name, block)
        if difference:
            return difference
    return ""


def _run_python(name: str, block: Block, names: dict[str, Any]) -> str:
    test = doctest.DocTestParser().get_doctest(block.text, names, name, name, block.line - 1)
    said: list[str] = []
    runner = doctest.DocTestRunner(optionflags=_FLAGS, verbose=False)
    runner.run(test, out=said.append, clear_globs=False)
    names.update(test.globs)
    return "".join(said)


def _run_console(name: str, block: Block) -> str:
    for command in commands(block):
        if command.text.startswith("pip install "):
            continue
        outcome = subprocess.run(
            command.text, shell=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8", check=False
        )
        same = doctest.OutputChecker().check_output(command.output, outcome.stdout, _FLAGS)
        if not same or outcome.returncode:
            return (
                f"{name}, in the block at line {block.line}: $ {command.text}\nExpected:\n{command.output}"
                f"Got (exit code {outcome.returncode}):\n{outcome.stdout}"
            )
    return ""


if __name__ == "__main__":
    difference = walk(Path(sys.argv[1]).name, Path(sys.argv[1]).read_text(encoding="utf-8"))
    sys.exit(difference or None)
