"""A PostgreSQL server for tests, from the system's packages.

It listens on a Unix socket in a temporary folder.
"""

from __future__ import annotations

import functools
import os
import shutil
import signal
import subprocess
import tempfile
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pace import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

USER = "postgres"


@functools.cache
def binaries() -> Path | None:
    """Return the folder with the newest server's programs, or None where there is none."""
    programs = Path("/usr/lib/postgresql").glob("*/bin/initdb")
    by_version = sorted(programs, key=lambda path: int(path.parents[1].name))
    if by_version:
        return by_version[-1].parent
    program = shutil.which("initdb")
    return None if program is None else Path(program).parent


def why_not() -> str | None:
    """Return why no server can be started here, or None if one can."""
    if binaries() is None:
        return "PostgreSQL is not installed: apt-get install postgresql"
    if os.getuid() == 0:  # the server refuses to run as root
        import pwd  # not on Windows

        try:
            pwd.getpwnam(USER)
        except KeyError:
            return f"there is no user {USER}, as whom root could start PostgreSQL"
    return None


needs_postgres = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))
one_server = pytest.mark.xdist_group("postgres")
"""Tests that share a server share a process."""


class Server:
    """A server whose files are in a folder.

    Parameters
    ----------
    folder : path
        It is made; the user ``postgres`` must be able to reach it.
    options : sequence of str
        Settings such as ``"fsync=off"``.
    """

    def __init__(self, folder: Path, *options: str) -> None:
        self.folder = folder
        self.data = folder / "data"
        settings = ("listen_addresses=", "max_connections=40", *options)
        self.options = [f"-c{setting}" for setting in settings]
        # a socket's path must be short
        self.sockets = Path(tempfile.mkdtemp(prefix="hammemo-pg-", dir="/tmp"))
        self._own(self.sockets)
        folder.mkdir(parents=True, exist_ok=True)
        self._own(folder)
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        """Where clients connect."""
        return f"postgresql://{USER}@/postgres?host={self.sockets}"

    def make(self) -> None:
        """Make an empty database."""
        folder = f"--pgdata={self.data}"
        self.run("initdb", folder, "--auth=trust", f"--username={USER}", "--no-sync")

    def start(self) -> None:
        """Start the server and wait until it answers."""
        self.process = subprocess.Popen(
            [self.program("postgres"), "-D", self.data, f"-k{self.sockets}", *self.options],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            start_new_session=True,
            **self._as_user(),
        )
        assert wait_until(self._is_ready, 60), "PostgreSQL does not start"

    def _is_ready(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, "PostgreSQL ended at once"
        command: list[str | Path] = [self.program("pg_isready"), "-q", "-h", self.sockets]
        return subprocess.run(command, check=False).returncode == 0

    def stop(self) -> None:
        """Stop the server in good order."""
        if self.process is not None:
            self.process.send_signal(signal.SIGINT)
            self.process.wait()

    def processes(self) -> list[int]:
        """Return the server and all its children."""
        assert self.process is not None
        pid = self.process.pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return [pid, *map(int, children)]

    def signal(self, number: int) -> None:
        """Send a signal to the server and all its children."""
        for pid in self.processes():
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def kill(self) -> None:
        """End the server and all its children as a crash would."""
        assert self.process is not None
        children = self.processes()
        self.signal(signal.SIGKILL)
        self.process.wait()
        while any(Path(f"/proc/{pid}").exists() for pid in children):
            time.sleep(0.01)

    def remove(self) -> None:
        """Stop the server and remove its files."""
        if self.process is not None and self.process.poll() is None:
            self.stop()
        shutil.rmtree(self.sockets, ignore_errors=True)
        shutil.rmtree(self.folder, ignore_errors=True)

    def program(self, name: str) -> Path:
        """Return the path of one of PostgreSQL's programs."""
        folder = binaries()
        assert folder is not None
        return folder / name

    def run(self, name: str, *arguments: str) -> None:
        """Run one of PostgreSQL's programs to its end."""
        done = subprocess.run(
            [str(self.program(name)), *arguments],
            capture_output=True,
            check=False,
            cwd="/",
            **self._as_user(),
        )
        assert done.returncode == 0, done.stderr.decode()

    def _own(self, folder: Path) -> None:
        if os.getuid() == 0:
            shutil.chown(folder, USER, USER)

    def _as_user(self) -> dict[str, Any]:
        """Return options of a process that does not run as root: PostgreSQL refuses to."""
        if os.getuid() != 0:
            return {}
        return {"user": USER, "group": USER, "extra_groups": []}


@contextmanager
def server(*options: str) -> Iterator[Server]:
    """Run a server for the time of a block."""
    folder = Path(tempfile.mkdtemp(prefix="hammemo-pg-", dir="/tmp"))
    postgres_server = Server(folder, *options)
    try:
        postgres_server.make()
        postgres_server.start()
        yield postgres_server
    finally:
        postgres_server.remove()


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    """A server for all tests of a process; each takes tenants of its own."""
    reason = why_not()
    if reason is not None:
        pytest.skip(reason)
    with server() as postgres_server:
        yield postgres_server
