"""Scripts in processes of their own that begin at once: children of a server that has imported the package before.

A fresh interpreter takes seconds until hammemo, scikit-learn and SciPy are imported, and many tests kill one. The
server is made once in each process of the tests and has no threads, so that its children may be killed at any place.
"""

from __future__ import annotations

import multiprocessing
import os
import runpy
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["hammemo.service.host", "hammemo.engines", "hammemo.files.folders", "apsw"])


class Ended(NamedTuple):
    """A process that has ended."""

    returncode: int
    """As in `subprocess`: the negative number of a signal."""
    stdout: str
    stderr: str


def run(script: str, *arguments: object, environment: dict[str, str] | None = None) -> Ended:
    """Run a script with `sys.argv[1:]` in a process of its own, and return how it ended and what it printed."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "script.py")
        path.write_text(script, "utf-8")
        process = _CONTEXT.Process(target=_child, args=(str(path), [str(one) for one in arguments], environment or {}))
        process.start()
        process.join()
        printed = (Path(folder, name) for name in ("stdout", "stderr"))
        stdout, stderr = (file.read_text("utf-8", "replace") if file.exists() else "" for file in printed)
        assert process.exitcode is not None
        return Ended(process.exitcode, stdout, stderr)


def _child(path: str, arguments: list[str], environment: dict[str, str]) -> None:
    for number, name in ((1, "stdout"), (2, "stderr")):
        os.dup2(os.open(Path(path).parent / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
    sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", closefd=False)  # noqa: SIM115
    os.environ.update(environment)
    sys.argv = [path, *arguments]
    try:
        runpy.run_path(path, run_name="__main__")
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
