"""Scripts and commands in processes that begin at once: children of a server that has imported the package before.

A fresh interpreter takes seconds until hammemo, scikit-learn and SciPy are imported, and many tests kill one. The
server is made once in each process of the tests and has no threads, so that its children may be killed at any place.
"""

from __future__ import annotations

import multiprocessing
import os
import runpy
import sys
import tempfile
import threading
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple

_CONTEXT = multiprocessing.get_context("forkserver")
_PRELOADED = ["hammemo_server.http.server", "hammemo.engines", "hammemo.files.folders", "hammemo.cli.app", "apsw"]
_CONTEXT.set_forkserver_preload(_PRELOADED)


def preload(*modules: str) -> None:
    """Import more modules in the server; call this before the first process begins."""
    _CONTEXT.set_forkserver_preload([*_PRELOADED, *modules])


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
        command = Command(str(path), *map(str, arguments), environment=environment)
        printed, said = command.communicate()
        return Ended(command.wait(), printed, said)


def _run(name: str, arguments: list[str], environment: dict[str, str]) -> None:
    """Run a file or a module as the main one."""
    os.environ.update(environment)
    sys.argv = [name, *arguments]
    sys.path.insert(0, str(Path(name).parent) if name.endswith(".py") else os.getcwd())  # as Python does
    try:
        if name.endswith(".py"):
            runpy.run_path(name, run_name="__main__")
        else:
            runpy.run_module(name, run_name="__main__", alter_sys=True)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()


class Command:
    """A module or a file as a command, with pipes: what `subprocess.Popen` has, for processes that begin at once."""

    def __init__(
        self, name: str, *arguments: str, cwd: Path | None = None, environment: dict[str, str] | None = None
    ) -> None:
        pipes = [os.pipe() for _ in range(3)]
        theirs = [Connection(pipes[i][min(i, 1)], writable=i > 0, readable=i == 0) for i in range(3)]
        given = (theirs, str(cwd or Path.cwd()), name, list(arguments), environment or {})
        self._process = _CONTEXT.Process(target=_command, args=given)
        self._process.start()
        for end in theirs:
            end.close()
        self.stdin = open(pipes[0][1], "w", encoding="utf-8")  # noqa: SIM115
        self.stdout, self.stderr = (open(pipes[i][0], encoding="utf-8") for i in (1, 2))  # noqa: SIM115

    @property
    def pid(self) -> int:
        """The id of the process."""
        assert self._process.pid is not None
        return self._process.pid

    def kill(self) -> None:
        """End it at once."""
        self._process.kill()

    def poll(self) -> int | None:
        """Return how it ended, or None while it runs."""
        return self._process.exitcode

    def wait(self) -> int:
        """Return how it ended, as `Ended.returncode`; what it printed and was not read is gone."""
        self._process.join()
        for pipe in (self.stdin, self.stdout, self.stderr):
            pipe.close()
        assert self._process.exitcode is not None
        return self._process.exitcode

    def communicate(self, text: str = "") -> tuple[str, str]:
        """Write to standard input, wait for the end, and return what it printed and said."""
        said: list[str] = []
        reading = threading.Thread(target=lambda: said.append(self.stderr.read()))
        reading.start()
        self.stdin.write(text)
        self.stdin.close()
        printed = self.stdout.read()
        reading.join()
        self.wait()
        return printed, said[0]


def _command(ends: list[Connection], cwd: str, name: str, arguments: list[str], environment: dict[str, str]) -> None:
    for number, end in enumerate(ends):
        os.dup2(end.fileno(), number)
        end.close()
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stdout, sys.stderr = (open(i, "w", encoding="utf-8", buffering=1, closefd=False) for i in (1, 2))  # noqa: SIM115
    os.chdir(cwd)
    _run(name, arguments, environment)
