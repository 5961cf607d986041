"""Servers for tests: one in a thread of this process, or ``hammemo serve`` in another process."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import forked
from hammemo_server.http.app import make_app
from hammemo_server.http.logs import LOGGER
from hammemo_server.http.server import ServerSettings, _long_questions, _server, listen
from hammemo_server.http.service import Service
from hammemo_server.http.tokens import ROLES, Tokens, new_token, write_entries
from hammemo_server.models.host import Host

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from hammemo_server.edits.limits import Limits


@dataclass
class Running:
    """A server in a thread of this process."""

    url: str
    port: int
    service: Service
    connections: set[Any]
    """Those that are open."""


@contextmanager
def in_thread(
    folder: Path,
    tokens: Path | None = None,
    limits: Limits | None = None,
    keys: Path | None = None,
    question_processes: int = 0,
) -> Iterator[Running]:
    """Serve a folder on a free loopback port for the time of the block."""
    # A command line that an earlier test ran in this process has sent the log to standard error,
    # and pytest captures that during tests only: lines written between two tests would reach the
    # terminal.
    for name in (LOGGER, "uvicorn.error"):
        logger = logging.getLogger(name)
        logger.handlers = [logging.NullHandler()]
        logger.propagate = True
    settings = ServerSettings(
        str(folder), port=0, log_level="error", question_processes=question_processes
    )
    listening = listen(settings.host, 0, shared=False)
    port = listening.getsockname()[1]
    with Host(folder, limits=limits, keys=keys) as host:
        long = _long_questions(settings, host.limits)
        service = Service(host, None if tokens is None else Tokens(tokens), long=long)
        app = make_app(service, settings.names, loopback=True)
        server = _server(app, settings, service.limits, tls=False)

        async def serve() -> None:
            await server.serve([listening])
            await service.end()

        thread = threading.Thread(target=lambda: asyncio.run(serve()))
        thread.start()
        try:
            while not server.started and thread.is_alive():
                time.sleep(0.005)
            yield Running(
                url=f"http://127.0.0.1:{port}",
                port=port,
                service=service,
                connections=server.server_state.connections,
            )
        finally:
            server.should_exit = True
            thread.join()


def free_port() -> int:
    """Return a port that is free now; another program may take it until it is used."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


class Process:
    """``hammemo serve`` in another process.

    A fresh process imports everything first, which takes seconds. It can have a command in front
    of it, such as one that changes the user.
    """

    def __init__(
        self,
        folder: Path,
        *options: str,
        environment: Mapping[str, str] | None = None,
        fresh: bool = False,
        before: tuple[str, ...] = (),
    ) -> None:
        self.lines: list[dict[str, Any]] = []
        self._ready = threading.Event()
        variables = {**os.environ, "OMP_NUM_THREADS": "1", **(environment or {})}
        self._process: forked.Command | subprocess.Popen[str]
        if fresh:
            program = [*before, sys.executable, "-m", "hammemo"]
            command = [*program, "serve", str(folder), "--port", "0", *options]
            self._process = subprocess.Popen(
                command, stderr=subprocess.PIPE, env=variables, text=True
            )
        else:
            self._process = forked.Command(
                "hammemo", "serve", str(folder), "--port", "0", *options, environment=variables
            )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self._ready.wait()
        addresses = [line["address"] for line in self.lines if line.get("event") == "serving"]
        if not addresses:
            raise RuntimeError(f"The server did not start: {self.lines}")
        self.url: str = addresses[0]

    def _read(self) -> None:
        assert self._process.stderr is not None
        for text in self._process.stderr:
            try:
                line = json.loads(text)
            except ValueError:
                line = {"text": text}
            self.lines.append(line)
            if line.get("event") == "serving":
                self._ready.set()
        self._ready.set()

    @property
    def pid(self) -> int:
        """The id of the process."""
        return self._process.pid

    def kill(self) -> None:
        """End it as a power cut would, without a chance to do anything."""
        self._process.kill()
        self._finish()

    def end(self) -> int:
        """End it as an operator would, and return its exit code."""
        os.kill(self.pid, signal.SIGTERM)
        return self._finish()

    def _finish(self) -> int:
        self._reader.join()  # it reads until the process, and its workers, have ended
        code = self._process.wait()
        assert self._process.stderr is not None
        self._process.stderr.close()
        return code

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self.end()


def token_file(path: Path, **tenants: tuple[str, ...]) -> dict[str, str]:
    """Write a token file with one token for each tenant, and return the tokens.

    A tenant without roles has all roles.
    """
    tokens = {}
    entries = []
    for tenant, roles in tenants.items():
        token, entry = new_token(tenant, roles or ROLES)
        tokens[tenant] = token
        entries.append(entry)
    write_entries(path, entries)
    return tokens
