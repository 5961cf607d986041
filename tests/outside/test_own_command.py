"""A command of another package, as CONTRIBUTING describes it, appears in ``hammemo`` and runs."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

from hammemo import MemoryClassifier, save

if TYPE_CHECKING:
    from pathlib import Path

MODULE = '''
from pathlib import Path
from typing import Annotated

import typer


def labels(model: Annotated[Path, typer.Argument(help="A model file.")]) -> None:
    """Print the labels of a model."""
    from hammemo import load

    found = load(model).classes_.tolist()
    if len(found) < 2:
        raise ValueError(f"{model} has one label only: learn rows of another one.")
    typer.echo(" ".join(map(str, found)))


def add_commands(app, panel):
    app.command("labels", rich_help_panel=panel)(labels)
'''


def hammemo(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    paths = os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [sys.executable, "-m", "hammemo", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": paths}, check=False)


def test_it_is_listed_runs_and_refuses(tmp_path: Path) -> None:
    (tmp_path / "own_commands.py").write_text(MODULE)
    metadata = tmp_path / "own_commands-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: own-commands\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[hammemo.commands]\nown = own_commands:add_commands\n")
    save(MemoryClassifier().fit([["a"], ["b"]], ["no", "yes"]), tmp_path / "two")
    save(MemoryClassifier().fit([["a"]], ["no"]), tmp_path / "one")
    assert "labels" in hammemo(tmp_path, "--help").stdout
    assert hammemo(tmp_path, "labels", str(tmp_path / "two")).stdout == "no yes\n"
    refused = hammemo(tmp_path, "labels", str(tmp_path / "one"))
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "one label only" in refused.stderr
