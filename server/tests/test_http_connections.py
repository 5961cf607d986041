"""Connections by address, proxies that are trusted, and the port for probes."""

from __future__ import annotations

import asyncio
import socket
import time
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any

import httpx
import pytest

import running_servers as serving
from hammemo_server.edits.limits import Limits
from hammemo_server.http import messages
from hammemo_server.http.addresses import Addresses, parse_networks
from hammemo_server.http.cross_site import CrossSiteGuard
from hammemo_server.http.server import ServerSettings

if TYPE_CHECKING:
    from pathlib import Path

PROXIES = parse_networks(["10.0.0.0/8", "fd00::/8"])


@pytest.mark.parametrize(
    ("peer", "headers", "found"),
    [
        ("10.0.0.1", ["192.0.2.1"], "192.0.2.1"),
        ("10.0.0.1", ["1.1.1.1, 192.0.2.1"], "192.0.2.1"),  # the first one was sent by the client itself
        ("10.0.0.1", ["1.1.1.1", "192.0.2.1:5555"], "192.0.2.1"),
        ("10.0.0.1", ["192.0.2.1, 10.0.0.2"], "192.0.2.1"),  # two trusted proxies
        ("10.0.0.1", ["10.0.0.3, 10.0.0.2"], "10.0.0.3"),
        ("10.0.0.1", ["192.0.2.1, unknown"], "10.0.0.1"),
        ("10.0.0.1", ["192.0.2.1,"], "10.0.0.1"),
        ("10.0.0.1", [], "10.0.0.1"),
        ("fd00::1", ["[2001:db8:1:2:3::4]:80"], "2001:db8:1:2::/64"),
        ("::ffff:10.0.0.1", ["::ffff:192.0.2.1"], "192.0.2.1"),
        ("192.0.2.9", ["192.0.2.1"], None),  # no trusted proxy: what it says is not trusted
        ("", ["192.0.2.1"], None),
    ],
)
def test_the_address_that_a_trusted_proxy_reports(peer: str, headers: list[str], found: str | None) -> None:
    scope = {"client": (peer, 1), "headers": [(b"x-forwarded-for", value.encode()) for value in headers]}
    assert Addresses(1, PROXIES).client_behind_proxy(scope) == found
    assert Addresses(1).client_behind_proxy(scope) is None
    assert (Addresses(1, PROXIES).peer(peer) is None) == (found is not None or not peer)
    assert Addresses(1, counts_peers=False).peer(peer) is None


def test_requests_through_a_proxy_are_counted_by_their_address() -> None:
    async def run() -> None:
        may_end, statuses = asyncio.Event(), []

        async def app(scope: Any, receive: Any, send: Any) -> None:
            await may_end.wait()

        async def note(message: Any) -> None:
            statuses.append(message.get("status"))

        async def ask(client: str) -> None:
            headers = [(b"host", b"localhost"), (b"x-forwarded-for", client.encode())]
            scope = {"type": "http", "method": "GET", "client": ("10.0.0.1", 1), "headers": headers}
            await guard(scope, note, note)  # type: ignore[arg-type]

        guard = CrossSiteGuard(app, frozenset(["localhost"]), loopback=True, addresses=Addresses(2, PROXIES))
        running = [asyncio.create_task(ask(client)) for client in ("192.0.2.1", "192.0.2.1", "192.0.2.2")]
        await asyncio.sleep(0)
        await ask("192.0.2.1")
        assert statuses[0] == 429
        may_end.set()
        await asyncio.gather(*running)
        await ask("192.0.2.1")
        assert statuses.count(429) == 1

    asyncio.run(run())


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"trusted_proxy": ("10.0.0.1",)}, "behind_proxy="),
        ({"trusted_proxy": ("proxy",), "behind_proxy": True, "token_file": "t"}, "in numbers"),
        ({"port": 80, "health_port": 80}, "another one"),
    ],
)
def test_settings_that_cannot_be_right(given: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        ServerSettings("models", **given).check()


def _is_open(connection: socket.socket) -> bool:
    """Return whether the server has not closed a connection on which nothing was sent."""
    connection.settimeout(0.05)
    try:
        return connection.recv(1) != b""
    except TimeoutError:
        return True
    except OSError:
        return False


def test_idle_connections_do_not_stop_probes(tmp_path: Path) -> None:
    with serving.Process(tmp_path, "--health-port", "0", "--address-connections", "20") as server, ExitStack() as stack:
        health = next(line["health"] for line in server.lines if "health" in line)
        port = int(server.url.rsplit(":", 1)[1])
        idle = [stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=60)) for _ in range(40)]
        with pytest.raises(httpx.TransportError):
            httpx.get(f"{server.url}/v2/health/live")
        for path in ("/v2/health/live", "/v2/health/ready", "/metrics"):
            assert httpx.get(f"{health}{path}").status_code == 200
        assert httpx.get(f"{health}/v1/models").status_code == 404  # nothing else is there
        assert sum(map(_is_open, idle)) <= 20
        stack.close()
        with httpx.Client(transport=httpx.HTTPTransport(retries=20)) as client:
            while True:  # until the server has seen that they are closed
                try:
                    assert client.get(f"{server.url}/v1/models").status_code == 200
                    break
                except httpx.TransportError:
                    continue


def test_a_caller_who_does_not_read_loses_the_connection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(messages, "_PIECE_SECONDS", 0.1)
    with serving.in_thread(tmp_path, limits=Limits(head_seconds=0.3)) as server:
        monkeypatch.setattr(server.service.host, "names", lambda _: ["a long name" * 100] * 20_000)
        assert len(httpx.get(f"{server.url}/v1/models").content) > 20_000_000  # who reads gets all of it
        with socket.socket() as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.connect(("127.0.0.1", server.port))
            connection.sendall(b"GET /v1/models HTTP/1.1\r\nhost: localhost\r\n\r\n")
            until = time.monotonic() + 60
            while not server.connections and time.monotonic() < until:
                time.sleep(0.01)
            while server.connections and time.monotonic() < until:
                time.sleep(0.01)
            assert not server.connections
            connection.settimeout(60)
            held = 0
            with suppress(ConnectionError):
                while piece := connection.recv(65_536):
                    held += len(piece)
            assert held < 20_000_000  # it was cut, and not answered in full
