"""Folders that several processes use: what a killed one leaves, and reading while another one writes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from folder_cases import rows
from hammemo import Exact, MemoryClassifier, compact, editing, load, save
from hammemo.files.folders import HEAD

if TYPE_CHECKING:
    from pathlib import Path

KILLED_EDIT = """
import os, signal, sys
from hammemo import editing
replace = os.replace
def kill(source, target):
    if str(target).endswith(sys.argv[2]):
        os.kill(os.getpid(), signal.SIGKILL)
    replace(source, target)
with editing(sys.argv[1]) as model:
    model.learn_one(["a", "b", "e"], "x")
    os.replace = kill
"""


def fitted() -> MemoryClassifier:
    return MemoryClassifier(memory=Exact(), vote="sum").fit(*rows(60, 0))


# ---------------------------------------------------------------- what a killed process leaves


@pytest.mark.skipif(os.name != "posix", reason="signals are POSIX")
@pytest.mark.parametrize(
    ("name", "change"), [(HEAD, "edit"), (HEAD, "save"), (HEAD, "compact"), ("a.model", "edit"), ("a.model", "save")]
)
def test_what_a_killed_edit_left_goes_with_the_next_change(name: str, change: str, tmp_path: Path) -> None:
    where, parts = (tmp_path, 2) if name == HEAD else (tmp_path / name, 0)
    save(fitted(), where, parts=parts)
    ended = subprocess.run([sys.executable, "-c", KILLED_EDIT, str(where), name], check=False)
    assert ended.returncode == -signal.SIGKILL
    assert len(list(tmp_path.glob("*.tmp"))) == 1
    if change == "edit":
        with editing(where) as model:
            model.learn_one(["a", "b", "c"], "x")
    elif change == "save":
        save(load(where), where)
    else:
        compact(where)
    assert not list(tmp_path.glob("*.tmp"))
