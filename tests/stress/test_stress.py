"""Short forms of the scripts in this folder; the long ones are run by hand and by .ci/nightly."""

from __future__ import annotations

import subprocess
import sys

import pytest

from places import TESTS

pytestmark = pytest.mark.long


def run(script: str, *arguments: str) -> str:
    """Run a script without coverage, whose trace function it would replace; return its last line."""
    command = [sys.executable, str(TESTS / "stress" / script), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout.splitlines()[-1]


def test_every_answer_is_that_of_one_version() -> None:
    assert run("threads.py", "8").startswith("in all: {'answers'")


def test_an_exception_anywhere_in_an_edit_leaves_the_state_before_or_after() -> None:
    assert "half states: 0" in run("injection.py", "25", "1")
