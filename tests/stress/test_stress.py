"""Short forms of the scripts in this folder; the long ones are run by hand and by .ci/nightly."""

from __future__ import annotations

import shutil
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
    assert run("threads.py", "5").startswith("in all: {'answers'")


@pytest.mark.skipif(sys.platform != "linux" or shutil.which("g++") is None, reason="needs Linux and g++")
@pytest.mark.slow  # a minute of processor time; .ci/nightly has it
def test_a_failed_allocation_in_the_compiled_loops_leaves_the_state_before_or_after() -> None:
    calls = r"^Hashed\(buckets=16, reserved=4\) (bulk|forget$)|^(Tiered|Exact).*\) partial_fit$|^Suffixes.* sum"
    assert "half states: 0" in run("allocations.py", calls)


def test_an_exception_anywhere_in_an_edit_leaves_the_state_before_or_after() -> None:
    assert "half states: 0" in run("injection.py", "12", "1")
