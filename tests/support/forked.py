"""Scripts and commands in processes that begin at once.

They are children of a server that has imported the package before.

A fresh interpreter takes seconds until hammemo, scikit-learn and SciPy are imported, and many tests
kill one. The server is made once in each process of the tests and has no threads, so that its
children may be killed at any place.
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
_PRELOADED = [
    "hammemo_server.http.server",
    "hammemo.engines",
    "hammemo.files.folders",
    "hammemo.cli.app",
    "apsw",
]
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
    """Run a script with these arguments in a process of its own, and wait for its end."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "script.py")
        path.write_text(script, "utf-8")
        command = Command(str(path), *map(str, arguments), environment=environment)
        stdout, stderr = command.communicate()
        return Ended(command.wait(), stdout, stderr)


def _run(name: str, arguments: list[str], environment: dict[str, str]) -> None:
    """Run a file or a module as the main one."""
    os.environ.update(environment)
    sys.argv = [name, *arguments]
    # as Python does
    sys.path.insert(0, str(Path(name).parent) if name.endswith(".py") else os.getcwd())
    try:
        if name.endswith(".py"):
            runpy.run_path(name, run_name="__main__")
        else:
            runpy.run_module(name, run_name="__main__", alter_sys=True)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()


class Command:
    """A module or a file as a command, with pipes, like `subprocess.Popen`."""

    def __init__(
        self,
        name: str,
        *arguments: str,
        cwd: Path | None = None,
        environment: dict[str, str] | None = None,
    ) -> None:
        read_input, write_input = os.pipe()
        read_output, write_output = os.pipe()
        read_errors, write_errors = os.pipe()
        # A connection can be sent to the server of processes, and a file descriptor cannot.
        child_ends = [
            Connection(read_input, writable=False),
            Connection(write_output, readable=False),
            Connection(write_errors, readable=False),
        ]
        folder = str(cwd or Path.cwd())
        self._process = _CONTEXT.Process(
            target=_run_command,
            args=(child_ends, folder, name, list(arguments), environment or {}),
        )
        self._process.start()
        for end in child_ends:
            end.close()
        self.stdin = open(write_input, "w", encoding="utf-8")  # noqa: SIM115
        self.stdout = open(read_output, encoding="utf-8")  # noqa: SIM115
        self.stderr = open(read_errors, encoding="utf-8")  # noqa: SIM115

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
        """Write to standard input, wait for the end, and return standard output and error.

        A thread reads errors: a process that fills one pipe stops until it is read.
        """
        errors: list[str] = []
        reader = threading.Thread(target=lambda: errors.append(self.stderr.read()))
        reader.start()
        self.stdin.write(text)
        self.stdin.close()
        output = self.stdout.read()
        reader.join()
        self.wait()
        return output, errors[0]


def _run_command(
    ends: list[Connection], cwd: str, name: str, arguments: list[str], environment: dict[str, str]
) -> None:
    """Make these ends the standard input, output and error, and run a file or a module."""
    for number, end in enumerate(ends):
        os.dup2(end.fileno(), number)
        end.close()
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", encoding="utf-8", buffering=1, closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", encoding="utf-8", buffering=1, closefd=False)  # noqa: SIM115
    os.chdir(cwd)
    _run(name, arguments, environment)
