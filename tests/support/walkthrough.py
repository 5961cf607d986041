"""Walk through one page of documentation as a reader would: run what it shows, in its order, and
stop at a difference.

    python walkthrough.py PAGE

Python blocks (with ``>>>``) are run as doctests that share their names, console blocks (with ``$
``) by a shell, all from the current folder. In expected output ``...`` stands for anything. ``pip
install`` is not run: prepare the environment before. This script needs the standard library alone.
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
    from collections.abc import Callable, Iterator

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
    """Yield the commands of a console block; a line that begins with ``> `` continues the one
    before.
    """
    for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
        first, *rest = part.splitlines()
        while rest and rest[0].startswith("> "):
            first += "\n" + rest.pop(0)[2:]
        yield Command(first, "".join(f"{line}\n" for line in rest))


def installations(page: str) -> list[str]:
    """Return what the page installs, such as ``hammemo[cli]``, ``.[cli]`` or ``lightgbm``, in its
    order.
    """
    typed = [
        command.text
        for block in blocks(page)
        if block.kind == "console"
        for command in commands(block)
    ]
    return [
        word for text in typed if text.startswith("pip install ") for word in shlex.split(text)[2:]
    ]


def run_in_shell(command: str) -> tuple[int, str]:
    """Return the exit code of a command, and what it printed."""
    outcome = subprocess.run(
        command,
        shell=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        check=False,
    )
    return outcome.returncode, outcome.stdout


def walk(name: str, page: str, run: Callable[[str], tuple[int, str]] = run_in_shell) -> str:
    """Return what differs first, or an empty text where all is as the page says; `run` is given the
    commands.
    """
    names: dict[str, Any] = {"__name__": "__main__"}
    for block in blocks(page):
        if block.kind == "python":
            difference = run_python(name, block, names)
        else:
            difference = _run_console(name, block, run)
        if difference:
            return difference
    return ""


def run_python(name: str, block: Block, names: dict[str, Any]) -> str:
    """Return what differs in a block of Python; it finds and leaves its variables in `names`."""
    test = doctest.DocTestParser().get_doctest(block.text, names, name, name, block.line - 1)
    output: list[str] = []
    runner = doctest.DocTestRunner(optionflags=_FLAGS, verbose=False)
    runner.run(test, out=output.append, clear_globs=False)
    names.update(test.globs)
    return "".join(output)


def _run_console(name: str, block: Block, run: Callable[[str], tuple[int, str]]) -> str:
    for command in commands(block):
        if command.text.startswith("pip install "):
            continue
        code, printed = run(command.text)
        if code or not doctest.OutputChecker().check_output(command.output, printed, _FLAGS):
            return (
                f"{name}, in the block at line {block.line}: $ {command.text}\n"
                f"Expected:\n{command.output}"
                f"Got (exit code {code}):\n{printed}"
            )
    return ""


if __name__ == "__main__":
    difference = walk(Path(sys.argv[1]).name, Path(sys.argv[1]).read_text(encoding="utf-8"))
    sys.exit(difference or None)
