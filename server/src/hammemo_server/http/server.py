"""Runs the server: one process that writes and answers, and as many as wanted that only answer.

**One writer.** The first process owns the folder: all edits go through it. It also answers.

**Workers** (``workers=N``) are processes that run this module, with settings on standard input.
They load the newest snapshot, follow the log and answer. They listen on the same port
(``SO_REUSEPORT``: the system spreads connections), so a client needs to know one address only.
An edit that reaches a worker is passed on to the writer over a Unix socket in a folder that
only this user may enter, with its token and host as they came: the writer checks them as if the
client had come by itself, so the socket gives no rights. A redirect would make every client
follow it, and the writer would need an address of its own.

A worker ends when its standard input does, and that is a pipe which the writer holds: also
after kill -9 of the writer none is left.

**The end.** After SIGTERM or SIGINT new edits get 503, those that were begun are finished and
acknowledged, a snapshot of each model is written, and the exit code is 0.

**SIGHUP** reads the certificate again.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import ipaddress
import logging
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import httpx
import msgspec
import uvicorn

from hammemo.files.locks import LockedError, take
from hammemo_server.edits.limits import Limits
from hammemo_server.edits.operations import ServiceError, Unavailable
from hammemo_server.http import logs
from hammemo_server.http.addresses import Addresses, parse_networks
from hammemo_server.http.app import make_app
from hammemo_server.http.connections import protocol
from hammemo_server.http.long_questions import InProcesses, LongQuestions
from hammemo_server.http.messages import Answer, Call, pieces
from hammemo_server.http.service import Service
from hammemo_server.http.tokens import Tokens
from hammemo_server.models.host import Host
from hammemo_server.models.waiting import Upkeep

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from starlette.types import ASGIApp

    from hammemo_server.http.service import Relay


_ENDING_SECONDS: Final = 30
"""How long requests that were begun may take to end."""
_HEAD_BYTES: Final = 2**15
"""The most bytes of the head of a request."""
_WRITER_SECONDS: Final = 60.0
"""How long a worker tries to reach the writer."""
_PRIVATE: Final = "hammemo-serve-"
"""How the folder begins in which workers find the writer."""
_TURN_SECONDS: Final = 0.001
"""How long a thread runs Python code while others wait: the event loop, which every answer
passes, is one of them."""
_PASSED_ON: Final = (b"authorization", b"host", b"content-type", b"content-length")

log = logging.getLogger(logs.LOGGER)


class ServerSettings(msgspec.Struct, frozen=True):
    """How a server runs; the help of ``hammemo serve`` explains each.

    Examples
    --------
    >>> from hammemo_server.http.server import ServerSettings
    >>> ServerSettings("models", host="0.0.0.0").check()  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    ValueError: host='0.0.0.0' can be reached from elsewhere: give token_file=, and tls_cert= ...
    """

    folder: str
    host: str = "127.0.0.1"
    port: int = 8080
    token_file: str | None = None
    log: str | None = None
    workers: int = 0
    replica: bool = False
    tls_cert: str | None = None
    tls_key: str | None = None
    behind_proxy: bool = False
    allow_host: list[str] | None = None
    log_level: str = "info"
    limits: Limits = Limits()
    upkeep: Upkeep = Upkeep()
    keys: str | None = None
    question_processes: int = 2
    trusted_proxy: list[str] | None = None
    health_port: int | None = None

    @property
    def is_loopback(self) -> bool:
        """Whether only programs on this machine can reach it."""
        with contextlib.suppress(ValueError):
            return ipaddress.ip_address(self.host).is_loopback
        return self.host == "localhost"

    def check(self) -> None:
        """Refuse settings that would let in callers without a token."""
        if not self.is_loopback and (
            self.token_file is None or not (self.tls_cert or self.behind_proxy)
        ):
            raise ValueError(
                f"host={self.host!r} can be reached from elsewhere: "
                "give token_file=, and tls_cert= or behind_proxy=."
            )
        if self.behind_proxy and self.token_file is None:
            raise ValueError("behind_proxy= lets others in through the proxy: give token_file=.")
        if (self.tls_cert is None) != (self.tls_key is None):
            raise ValueError("tls_cert= and tls_key= belong together: give both, or neither.")
        if self.trusted_proxy and not self.behind_proxy:
            raise ValueError(
                "trusted_proxy= is a proxy in front of the server: give behind_proxy=, too."
            )
        parse_networks(self.trusted_proxy or ())
        if self.health_port is not None and self.health_port == self.port != 0:
            raise ValueError(
                f"health_port={self.health_port} is the port of the server: give another one."
            )
        if self.workers and not hasattr(socket, "SO_REUSEPORT"):
            raise ValueError(
                "workers= needs SO_REUSEPORT, which this system does not have: leave it out."
            )

    @property
    def names(self) -> frozenset[str]:
        """The names under which it may be called, beside addresses in numbers."""
        names = {name.lower().rstrip(".") for name in self.allow_host or ()}
        names.add("localhost")
        if not self.is_loopback:
            names.add(self.host.lower())
        return frozenset(names)

    def addresses(self, limits: Limits) -> Addresses:
        """Return what counts the connections of each address."""
        trusted = parse_networks(self.trusted_proxy or ())
        counts_peers = bool(trusted) or not self.behind_proxy
        return Addresses(limits.address_connections, trusted, counts_peers=counts_peers)


def run(settings: ServerSettings) -> None:
    """Serve until a signal comes."""
    settings.check()
    _allow_open_files()
    tokens = _begin(settings)
    with (
        _alone(settings),
        listen(settings.host, settings.port, shared=settings.workers > 0) as listening,
    ):
        host = _host(settings)
        try:
            asyncio.run(_write_and_answer(settings, host, tokens, listening))
        finally:
            host.close()
            log.info("ended")


def _begin(settings: ServerSettings) -> Tokens | None:
    """Begin the log and return the tokens, in the writer and in a worker."""
    sys.setswitchinterval(_TURN_SECONDS)
    logs.begin(settings.log_level)
    return None if settings.token_file is None else Tokens(Path(settings.token_file))


def _allow_open_files() -> None:
    """Allow as many open files as the system lets this process have: each connection is one."""
    if sys.platform != "win32":
        import resource

        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


@contextlib.contextmanager
def _alone(settings: ServerSettings) -> Iterator[None]:
    """Be the one server that writes a folder.

    In PostgreSQL each model has a lease, and replicas write nothing.
    """
    if settings.replica or settings.log is not None:
        yield
        return
    folder = Path(settings.folder)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        lock = take(folder / "server")
    except LockedError as error:
        who = str(error).partition(" is locked by ")[2].rpartition(": ")[0]
        raise LockedError(
            f"{folder} is served by {who}: one server writes a folder. Stop that one first."
        ) from None
    try:
        yield
    finally:
        lock.release()


def _remove_old_sockets() -> None:
    """Remove folders with sockets to writers of this user that were killed."""
    for path in Path(tempfile.gettempdir()).glob(f"{_PRIVATE}*"):
        with (
            contextlib.suppress(OSError),
            socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client,
        ):
            facts = path.stat()
            if facts.st_uid != os.getuid():
                continue
            try:
                client.connect(str(path / "writer"))
            except ConnectionRefusedError:
                shutil.rmtree(path, ignore_errors=True)
            except FileNotFoundError:
                if facts.st_mtime < time.time() - 3600:  # else it may have no socket yet
                    shutil.rmtree(path, ignore_errors=True)


def _host(settings: ServerSettings) -> Host:
    """Return the host with all models open, so that no request waits for a replay.

    Failures are logged.
    """
    host = Host(
        settings.folder,
        settings.log,
        replica=settings.replica,
        limits=settings.limits,
        upkeep=settings.upkeep,
        keys=settings.keys,
    )
    for tenant in host.tenants():
        for name in host.names(tenant):
            try:
                host.get(tenant, name)
            except ServiceError as error:  # asked for later, it is tried again
                facts = {"tenant": tenant, "model": name, "error": type(error).__name__}
                log.error("not_opened", extra={"facts": facts})
    gc.collect()
    # else a long body makes Python look at all that was imported: 0.1 s in which nothing else
    # is answered
    gc.freeze()
    return host


def listen(address: str, port: int, *, shared: bool) -> socket.socket:
    """Return a socket that listens.

    `shared` lets other processes of this user listen on the same port.
    """
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    # The protocol is named: asyncio turns off the delay of small packets, 40 ms an answer, only
    # where it is.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if shared:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    try:
        listening.bind((address, port))
    except OSError as error:
        listening.close()
        raise OSError(
            f"host={address!r} with port={port} cannot be used: {error.strerror}."
        ) from error
    listening.setblocking(False)
    return listening


class _Server(uvicorn.Server):
    """uvicorn's server, without its handling of signals.

    Here one signal ends several servers in order.
    """

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _server(
    app: Any,
    settings: ServerSettings,
    limits: Limits,
    *,
    tls: bool,
    addresses: Addresses | None = None,
) -> _Server:
    http = protocol(limits, addresses or Addresses(limits.address_connections))
    config = uvicorn.Config(
        app,
        http=http,
        loop="asyncio",
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        date_header=False,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=_ENDING_SECONDS,
        h11_max_incomplete_event_size=_HEAD_BYTES,
        ssl_certfile=settings.tls_cert if tls else None,
        ssl_keyfile=settings.tls_key if tls else None,
    )
    return _Server(config)


def _app_and_server(service: Service, settings: ServerSettings) -> tuple[ASGIApp, _Server]:
    """Return what answers, and its server for clients.

    It counts the connections of each address.
    """
    limits = service.limits
    tls = settings.tls_cert is not None
    addresses = settings.addresses(limits)
    app = make_app(service, settings.names, loopback=settings.is_loopback, addresses=addresses)
    return app, _server(app, settings, limits, tls=tls, addresses=addresses)


async def _write_and_answer(
    settings: ServerSettings, host: Host, tokens: Tokens | None, listening: socket.socket
) -> None:
    limits = host.limits
    service = Service(host, tokens, long=_long_questions(settings, host.limits))
    service.remove_leftovers()
    app, server = _app_and_server(service, settings)
    servers = [(server, listening)]
    async with contextlib.AsyncExitStack() as stack:
        # with connections of its own, which no other ones can use up
        if settings.health_port is not None:
            probes = make_app(service, settings.names, loopback=settings.is_loopback, probes=True)
            probed = stack.enter_context(listen(settings.host, settings.health_port, shared=False))
            servers.append(
                (_server(probes, settings, limits, tls=settings.tls_cert is not None), probed)
            )
        stack.push_async_callback(service.end)
        workers = None
        if settings.workers:
            _remove_old_sockets()
            inside = (
                Path(stack.enter_context(tempfile.TemporaryDirectory(prefix=_PRIVATE))) / "writer"
            )
            passed_on = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            passed_on.bind(str(inside))
            passed_on.listen()
            passed_on.setblocking(False)
            servers.append((_server(app, settings, limits, tls=False), passed_on))
            workers = _Workers(settings, listening.getsockname()[1], inside)
            stack.push_async_callback(workers.end)
        _on_hangup(settings, [server for server, _ in servers], workers)
        await _serve(service, servers, settings)


def _long_questions(settings: ServerSettings, limits: Limits) -> LongQuestions | None:
    """Return what answers long questions; None for threads of this process."""
    if not settings.question_processes:
        return None
    names = ("folder", "log", "keys", "log_level", "limits")
    needed = {
        name: value for name, value in msgspec.structs.asdict(settings).items() if name in names
    }
    return InProcesses(settings.question_processes, limits, needed)


def _on_hangup(
    settings: ServerSettings, servers: list[_Server], workers: _Workers | None = None
) -> None:
    """Read the certificate again at SIGHUP, here and in all workers.

    Connections that are open keep the old one.
    """
    if not hasattr(signal, "SIGHUP"):
        return

    def read_again() -> None:
        try:
            for server in servers:
                if settings.tls_cert is not None and server.config.ssl is not None:
                    server.config.ssl.load_cert_chain(settings.tls_cert, settings.tls_key)
            log.info("hangup", extra={"facts": {"certificate": settings.tls_cert is not None}})
        except OSError as error:  # ssl.SSLError is one
            log.error("certificate_not_read", extra={"facts": {"error": type(error).__name__}})
        if workers is not None:
            workers.hang_up()

    loop = asyncio.get_running_loop()
    signal.signal(signal.SIGHUP, lambda *_: loop.call_soon_threadsafe(read_again))


async def _serve(
    service: Service, servers: list[tuple[_Server, socket.socket]], settings: ServerSettings
) -> None:
    """Run servers until a signal comes, then let them finish what they have begun."""
    loop = asyncio.get_running_loop()

    def end() -> None:
        if not service.draining:
            log.info("draining")
        service.draining = True
        for server, _ in servers:
            server.should_exit = True

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: loop.call_soon_threadsafe(end))
    running = [asyncio.create_task(server.serve([listening])) for server, listening in servers]
    while not all(
        server.started or task.done() for (server, _), task in zip(servers, running, strict=True)
    ):
        await asyncio.sleep(0.01)
    address, port = servers[0][1].getsockname()[:2]
    scheme = "https" if settings.tls_cert else "http"
    where = f"[{address}]" if ":" in address else address
    facts = {"address": f"{scheme}://{where}:{port}"}
    if settings.health_port is not None:
        facts["health"] = f"{scheme}://{where}:{servers[1][1].getsockname()[1]}"
    log.log(logs.NOTICE, "serving", extra={"facts": facts})
    await asyncio.gather(*running)


class _Workers:
    """Keeps processes that only answer running."""

    def __init__(self, settings: ServerSettings, port: int, writer: Path) -> None:
        worker_settings = {
            **msgspec.structs.asdict(settings),
            "port": port,
            "replica": True,
            "workers": 0,
        }
        self._given_to_worker = (
            msgspec.json.encode({"settings": worker_settings, "writer": str(writer)}) + b"\n"
        )
        self._running: list[asyncio.subprocess.Process] = []
        self._tasks = [asyncio.create_task(self._keep(i)) for i in range(settings.workers)]

    async def _keep(self, i: int) -> None:
        """Start a worker, and another one after it if it ends."""
        while True:
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "hammemo_server.http.server", stdin=subprocess.PIPE
            )
            self._running.append(process)
            assert process.stdin is not None
            process.stdin.write(self._given_to_worker)
            code = await process.wait()
            self._running.remove(process)
            log.error("worker_ended", extra={"facts": {"worker": i, "code": code}})
            await asyncio.sleep(1.0)

    def hang_up(self) -> None:
        """Let all read the certificate again."""
        for process in self._running:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGHUP)

    async def end(self) -> None:
        """End all processes."""
        for task in self._tasks:
            task.cancel()
        for process in self._running:
            if process.stdin is not None:
                process.stdin.close()
        await asyncio.gather(*(process.wait() for process in self._running), return_exceptions=True)


# A worker


def run_worker(given_settings: bytes) -> None:
    """Answer, and pass edits on, until standard input ends."""
    message = msgspec.json.decode(given_settings)
    settings = msgspec.convert(message["settings"], ServerSettings)
    tokens = _begin(settings)
    for name in ("SIGTERM", "SIGINT", "SIGHUP"):
        if hasattr(signal, name):
            # a signal to the whole group: the writer says when
            signal.signal(getattr(signal, name), signal.SIG_IGN)
    with _host(settings) as host, listen(settings.host, settings.port, shared=True) as listening:
        asyncio.run(_answer(settings, host, tokens, listening, writer=message["writer"]))


async def _answer(
    settings: ServerSettings,
    host: Host,
    tokens: Tokens | None,
    listening: socket.socket,
    *,
    writer: str,
) -> None:
    limits = host.limits
    async with httpx.AsyncClient(
        transport=httpx.AsyncHTTPTransport(
            uds=writer, limits=httpx.Limits(max_connections=limits.at_once_in_all)
        )
    ) as client:
        service = Service(host, tokens, _passing_on(client, limits))
        _, server = _app_and_server(service, settings)
        _on_hangup(settings, [server])
        loop = asyncio.get_running_loop()

        def end() -> None:
            service.draining = True
            server.should_exit = True

        def watch() -> None:
            sys.stdin.buffer.read()  # nothing comes; it ends with the writer
            loop.call_soon_threadsafe(end)

        threading.Thread(target=watch, daemon=True).start()
        await server.serve([listening])
        await service.end()


def _passing_on(client: httpx.AsyncClient, limits: Limits) -> Relay:
    async def forward(call: Call, seconds: float) -> Answer:
        headers = [(name, value) for name, value in call.scope["headers"] if name in _PASSED_ON]
        body: bytes | AsyncIterator[bytes] = call.body
        if call.has_more:
            body = pieces(call, limits.file, limits.file_seconds)
        try:
            method = call.scope["method"]
            place = f"http://writer{call.scope['path']}"
            timeout = httpx.Timeout(_WRITER_SECONDS, read=seconds)
            answer = await client.request(
                method, place, headers=headers, content=body, timeout=timeout
            )
        except httpx.TransportError:
            raise Unavailable(
                "The writer cannot be reached: send the edit again with the same op."
            ) from None
        return Answer(answer.content, answer.status_code, answer.headers["content-type"].encode())

    return forward


if __name__ == "__main__":
    run_worker(sys.stdin.buffer.readline())
