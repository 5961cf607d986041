"""Malformed requests: ``service_malformed.py N [SEED]`` sends N byte mutations of valid requests to a server.

Every request is one that the server would take, with a few bytes changed, removed, doubled or swapped: in its body
(with the length declared as it then is) or anywhere. No answer may be a 500, none may take longer than a minute, the
memory of the server must stay level, and a valid request must still be answered at the end. An answer of 503 is counted
as wrong, too: nothing here fills the disk.
"""

from __future__ import annotations

import json
import random
import socket
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[3] / "tests" / "support"))
sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

import httpx

from hammemo import MemoryClassifier, save
from hammemo.client import Client
from hammemo.kernels import Bag, Suffixes
from hammemo.votes import Mixture
from running_servers import Process

_ROWS: list[list[Any]] = [["red", 1], ["grün", None], ["blue", -2.5]]
_QUESTION = {"rows": _ROWS, "min_version": 1}
_VISITS: list[list[Any]] = [["tea", "cup", "pot", "tea"], ["grün", "ink"], ["tea"]]
_AT_ONCE = 8
_TENSOR = {"name": "rows", "shape": [1, 2], "datatype": "BYTES", "data": ["red", "x"]}


def valid_requests() -> list[tuple[bytes, bytes]]:
    """Return requests that the server takes: what is before the body, without its length, and the body."""

    def made(method: str, path: str, body: Any = None, kind: str = "application/json") -> tuple[bytes, bytes]:
        head = f"{method} {path} HTTP/1.1\r\nhost: localhost\r\n"
        content = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        return (head + (f"content-type: {kind}\r\n" if body is not None else "")).encode(), content

    model = "/v1/models/m"
    edit = {"op": "op-1", "rows": _ROWS, "labels": ["x", "y", "z"]}
    described = {"class": "Hashed", "params": {"buckets": 64}}
    return [
        *(made("POST", f"{model}/{ask}", _QUESTION) for ask in ("predict", "probabilities", "certify")),
        *(made("POST", f"{model}/{ask}", {**_QUESTION, "k": 3}) for ask in ("top-k", "explain")),
        *(made("POST", f"{model}/{kind}", edit) for kind in ("learn", "forget")),
        *(made("POST", f"/v1/models/visits/{ask}", {"op": "op-3", "documents": _VISITS})
          for ask in ("learn-stream", "forget-stream")),
        made("POST", "/v1/models/visits/top-k", {"rows": _VISITS, "k": 2}),
        made("POST", "/v1/models/visits/top-k", {"rows": _VISITS, "exclude": "seen", "allow": {"list": "stock"}}),
        made("PUT", "/v1/lists/stock", {"items": [1, "a", 2.5, 3, True]}),
        made("PUT", "/v1/lists/other", {"items": ["a"] * 50}),
        made("GET", "/v1/lists"),
        made("GET", "/v1/lists/stock"),
        made("DELETE", "/v1/lists/other"),
        made("POST", f"{model}/refit", {"op": "op-2"}),
        made("POST", "/v1/models/visits/refit", {"op": "op-4"}),
        made("PUT", "/v1/models/n", {"columns": ["a", "b"], "memory": "hashed", "vote": "sum", "seed": 1}),
        made("PUT", "/v1/models/n", {"columns": 2, "memory": described, "missing": "empty"}),
        made("PUT", f"{model}/file", bytes(range(256)), "application/octet-stream"),
        made("POST", "/v2/models/m/infer", {"id": "1", "inputs": [_TENSOR], "parameters": {"min_version": 1}}),
        made("GET", "/v1/models"),
        made("GET", model),
        made("GET", "/v2/models/m/ready"),
        made("GET", "/openapi.json"),
        made("GET", "/metrics"),
        made("DELETE", "/v1/models/n"),
    ]  # fmt: skip


def mutated(data: bytes, draw: random.Random) -> bytes:
    """Return bytes with one to four changes."""
    changed = bytearray(data)
    for _ in range(draw.randint(1, 4)):
        if not changed:
            return bytes(changed)
        at = draw.randrange(len(changed))
        end = min(len(changed), at + draw.choice((1, 1, 2, 8)))
        way = draw.randrange(6)
        if way == 0:
            changed[at] = draw.randrange(256)
        elif way == 1:
            del changed[at:end]
        elif way == 2:
            changed[at:at] = changed[at:end] * draw.choice((1, 2, 50))
        elif way == 3:
            changed[at:end] = bytes(reversed(changed[at:end]))
        elif way == 4:
            changed[at:at] = draw.choice(
                (b"\x00", b'"', b"[", b"]", b"{", b"}", b"9" * 40, b"1e999", b"\\ud800", b"\xff", b"NaN")
            )
        else:
            other = draw.randrange(len(changed))
            changed[at], changed[other] = changed[other], changed[at]
    return bytes(changed)


class Prober:
    """Sends requests to one server over a connection that is opened again where the server closed it."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._connection: socket.socket | None = None
        self.statuses: Counter[int] = Counter()

    def send(self, data: bytes, *, ended: bool) -> int:
        """Send bytes and return the status of the answer, 0 where none came; `ended` says that no more will come."""
        if self._connection is None:
            self._connection = socket.create_connection(("127.0.0.1", self._port), timeout=60)
        try:
            self._connection.sendall(data)
            if ended:
                self._connection.shutdown(socket.SHUT_WR)
            status, keep = self._answer(self._connection)
        except ConnectionError:
            status, keep = 0, False
        if ended or not keep:
            self.close()
        self.statuses[status] += 1
        return status

    def _answer(self, connection: socket.socket) -> tuple[int, bool]:
        held = b""
        while b"\r\n\r\n" not in held:
            piece = connection.recv(65_536)
            if not piece:
                return 0, False
            held += piece
        head, _, body = held.partition(b"\r\n\r\n")
        length = next(
            int(line.split(b":")[1]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length")
        )
        while len(body) < length:
            piece = connection.recv(65_536)
            if not piece:
                break
            body += piece
        return int(head.split(b" ")[1]), b"connection: close" not in head.lower() and len(body) == length

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def memory_of(pid: int) -> int:
    """Return how many bytes a process holds in memory."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096


class Sender(threading.Thread):
    """Sends mutated requests, one after the other."""

    def __init__(self, port: int, n: int, seed: int) -> None:
        super().__init__()
        self._prober, self._n, self._draw = Prober(port), n, random.Random(seed)
        self.statuses = self._prober.statuses
        self.wrong: list[bytes] = []
        self.failed: BaseException | None = None

    def run(self) -> None:
        """Send everything; an answer that does not come ends it."""
        try:
            valid = valid_requests()
            for _ in range(self._n):
                self._send(*self._draw.choice(valid))
        except BaseException as error:
            self.failed = error
        finally:
            self._prober.close()

    def _send(self, head: bytes, body: bytes) -> None:
        draw = self._draw
        if body and draw.random() < 0.8:
            body = mutated(body, draw)
            data = head + b"content-length: %d\r\n\r\n" % len(body) + body
            status = self._prober.send(data, ended=False)
        else:
            data = mutated(head + b"content-length: %d\r\n\r\n" % len(body) + body, draw)
            status = self._prober.send(data, ended=True)
        if status >= 500:
            self.wrong.append(data)
            print(status, data, file=sys.stderr)


def run(n: int, seed: int, folder: Path) -> dict[str, Any]:
    """Send mutated requests to a server of its own, eight at a time."""
    with Process(folder, "--log-level", "error", "--max-models", "8", "--deadline", "120") as server:
        with Client(server.url) as client:
            client.create("m", columns=2)
            client.learn("m", _ROWS, ["x", "y", "z"], op="first")
            visits = MemoryClassifier(Suffixes(1) + Bag(3), vote=Mixture()).fit_stream(_VISITS * 9, h=3, short="pad")
            with tempfile.TemporaryDirectory() as scratch:
                save(visits, Path(scratch, "visits"))
                client.upload("visits", Path(scratch, "visits"))
        port = int(server.url.rsplit(":", 1)[1])
        senders = [Sender(port, n // _AT_ONCE, 1_000 * seed + number) for number in range(_AT_ONCE)]
        for sender in senders:
            sender.start()
        sizes: list[int] = []
        while any(sender.is_alive() for sender in senders):
            if sum(sender.statuses.total() for sender in senders) >= len(sizes) * n // 10:
                sizes.append(memory_of(server.pid))
            time.sleep(0.05)
        for sender in senders:
            sender.join()
            if sender.failed is not None:
                raise sender.failed
        sizes.append(memory_of(server.pid))
        alive = httpx.get(f"{server.url}/v2/health/live").status_code == 200
        failures = [line for line in server.lines if line.get("event") == "failed"]
    statuses = sum((sender.statuses for sender in senders), Counter[int]())
    return {
        "requests": statuses.total(),
        "statuses": dict(sorted(statuses.items())),
        "wrong": sum(len(sender.wrong) for sender in senders),
        "failures": failures[:5],
        "alive": alive,
        "MiB": [round(size / 2**20) for size in sizes],
    }


def main() -> None:
    """Run and print."""
    given = [int(text) for text in sys.argv[1:]]
    n, seed = given + [1_000, 0][len(given) :]
    with tempfile.TemporaryDirectory() as folder:
        found = run(n, seed, Path(folder))
    print(found)
    middle, last = found["MiB"][len(found["MiB"]) // 2], found["MiB"][-1]
    if found["wrong"] or not found["alive"] or last > 1.1 * middle + 10:
        sys.exit("an answer was wrong, the server is gone, or its memory has grown")


if __name__ == "__main__":
    main()
