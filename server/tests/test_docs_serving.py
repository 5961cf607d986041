"""The commands of docs/serving.md that use curl, followed to the letter."""

from __future__ import annotations

import re
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

import running_servers as serving
from places import ROOT

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
def test_the_page_says_what_happens(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "serving.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```console\n(.*?)```", text, re.DOTALL)
    steps = [part.partition("\n")[::2] for part in re.split(r"^\$ ", "".join(blocks), flags=re.MULTILINE)[1:]]
    steps = [(command, printed) for command, printed in steps if command.startswith("curl ")]
    assert len(steps) == 6
    with serving.in_thread(tmp_path) as server:
        for command, printed in steps:
            command = command.replace("http://127.0.0.1:8080", server.url)
            done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
            assert (command, done.stdout.strip()) == (command, printed.strip())


def test_every_option_that_the_page_names_is_there() -> None:
    from typer.testing import CliRunner

    from hammemo.cli.app import app

    text = (ROOT / "docs" / "serving.md").read_text(encoding="utf-8")
    told = "".join(
        CliRunner().invoke(app, [*command, "--help"], env={"COLUMNS": "200"}).output
        for command in (["serve"], ["tokens", "add"], ["audit"], ["send"], ["erase"], ["backup"], ["restore"])
    )
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", text))
    assert len(named) > 15
    assert not {option for option in named if option not in told}
