"""The session of docs/cli.md, followed to the letter."""

from __future__ import annotations

import re
import shlex
import subprocess

import pytest
from typer.testing import CliRunner

pytest.importorskip("pyarrow")

from typing import TYPE_CHECKING

from hammemo.cli.app import app
from places import ROOT

if TYPE_CHECKING:
    from pathlib import Path

PAGE = ROOT / "docs" / "cli.md"
runner = CliRunner()


def session() -> list[tuple[str, str]]:
    """Return the commands of the page and what each is said to print."""
    blocks = re.findall(r"```console\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    parts = re.split(r"^\$ ", "".join(blocks), flags=re.MULTILINE)[1:]
    return [(command, printed) for command, _, printed in (part.partition("\n") for part in parts)]


def shell(command: str) -> str:
    return subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True).stdout


def follow(line: str) -> str:
    """Run one line of the page: what is before hammemo in a shell, hammemo here, and grep on what it prints."""
    before, found, command = line.rpartition(" | hammemo ") if " | hammemo " in line else ("", "", line)
    if not found and not command.startswith("hammemo "):
        return shell(line)
    command, _, word = command.removeprefix("hammemo ").partition(" | grep ")
    result = runner.invoke(app, shlex.split(command), input=shell(before) if found else None)
    return "".join(text for text in result.output.splitlines(keepends=True) if word in text)


def test_the_page_says_what_happens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    steps = session()
    assert len(steps) > 20
    for command, printed in steps:
        assert (command, follow(command)) == (command, printed)
