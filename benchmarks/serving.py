"""How fast ``hammemo serve`` is, beside what limits it: `python benchmarks/serving.py`.

Printed in one run, so that limits show:

- how often a second this disk flushes (fdatasync after a write of 4 KiB), the limit of edits that
do not share a flush;
- edits: one example each from 16 clients, and 100 examples each; the same in a folder in memory,
  where a flush costs nothing;
- single predictions (a hashed memory, 64 labels, contexts of 8 strings), asked by wrk where it is
  installed, else by the loop that sends the edits; the same requests to a bare Starlette
  application with msgspec, but no model;
- how long 10,000 edits take to be replayed after kill -9;
- edits of one row and of one whole visit (4 clicks on average), of a model of 23,753 visits to a
  shop; `python benchmarks/serving.py visits` measures these alone.

`python benchmarks/serving.py fair` asks whether one tenant can slow another one down: tenant A
sends the heaviest questions that the limits allow from 32 connections, and tenant B predicts, lists
and edits, alone and beside A. B's p99 beside A may be three times that of B alone, or 50 ms. The
client of A runs at a lower priority: on a network it is on another machine. `python
benchmarks/serving.py routes` prints B's p99 and longest prediction beside each of A's routes by
itself, refits that queue and models that are deleted while their writers are busy among them.

`python benchmarks/serving.py one-row` asks how much of the price of a request is the server's own
work: predictions of one row each of the default model of a table of names, with a token and
without, beside the same requests to the bare Starlette application, in turns, as medians.

`python benchmarks/serving.py --before old/bin/python` compares single edits and predictions with
another installed version, in turns.

The server runs on one core and those who ask on the others. On a machine that does other work, too,
the rates a second of *processor time* of the server are what can be compared: they are printed
beside those of the clock.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from functools import partial
from itertools import count, cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hammemo.paper.experiments.measuring import Row, cells
from hammemo.paper.experiments.measuring import seconds as seconds_of
from measures import options

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

ROOT: Final = Path(__file__).parents[1]
CLIENTS: Final = 16
LABELS: Final = 64
TOKENS: Final = 8
EXACT_SUM: Final = {"columns": TOKENS, "vote": "sum"}
HASHED: Final = {"columns": TOKENS, "memory": "hashed", "vote": "sum", "seed": 0}

BARE: Final = """
import sys, msgspec, uvicorn
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route
from hammemo_server.http.bodies import Question, Labels
decoder, encoder = msgspec.json.Decoder(Question), msgspec.json.Encoder()
async def predict(request):
    question = decoder.decode(await request.body())
    labels = Labels(["l0"] * len(question.rows), 1)
    return Response(encoder.encode(labels), media_type="application/json")
app = Starlette(routes=[Route("/v1/models/{model}/predict", predict, methods=["POST"])])
uvicorn.run(app, port=int(sys.argv[1]), log_level="warning", http="h11")
"""


def row(
    what: str, a_second: float, times: Sequence[float] = (), used: float | None = None, n: float = 0
) -> Row:
    """Return one line of the table, of n things that used so much of the server's processor.

    `times` are latencies in seconds.
    """
    figures: Row = {
        "what": what,
        "a_second": a_second,
        "p50_ms": None,
        "p99_ms": None,
        "a_processor_second": None,
    }
    if times:
        figures["p50_ms"], figures["p99_ms"] = (1e3 * np.percentile(times, [50, 99])).tolist()
    if used is not None:
        figures["a_processor_second"] = n / max(used, 0.01)
    return figures


class OwnServer:
    """A server in a process of its own, on one core if it is not to have all."""

    def __init__(
        self,
        command: list[str],
        url: str | None = None,
        python: str = sys.executable,
        *,
        one_core: bool = True,
    ) -> None:
        can_pin = one_core and shutil.which("taskset") and (os.cpu_count() or 1) > 1
        pin = ["taskset", "-c", "0"] if can_pin else []
        self._process = subprocess.Popen(
            [*pin, python, *command],
            stderr=subprocess.PIPE if url is None else None,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            text=True,
        )
        if url is None:
            assert self._process.stderr is not None
            line = next(line for line in self._process.stderr if '"serving"' in line)
            url = json.loads(line)["address"]
        self.port = int(url.rsplit(":", 1)[1])
        while not self._answers():
            time.sleep(0.05)

    def _answers(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
        except OSError:
            return False
        return True

    def __enter__(self) -> OwnServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    async def ask(self, *requests: bytes) -> list[bytes]:
        """Return the answers to requests, sent one after another."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        answers = [await _ask(reader, writer, sent) for sent in requests]
        writer.close()
        return answers

    @classmethod
    def of(
        cls, folder: Path, python: str = sys.executable, *more: str, one_core: bool = True
    ) -> OwnServer:
        """Serve a folder, with the version that an interpreter has."""
        options = [
            "--port",
            "0",
            "--log-level",
            "warning",
            "--rate",
            "1000000",
            "--max-body",
            str(2**24),
            *more,
        ]
        return cls(
            ["-m", "hammemo", "serve", str(folder), *options], python=python, one_core=one_core
        )

    @property
    def processor_seconds(self) -> float:
        """How long its threads have run."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def end(self, *, kill: bool = False) -> None:
        """End it."""
        self._process.kill() if kill else self._process.terminate()
        self._process.wait()


def request(method: str, path: str, body: Any, token: str = "") -> bytes:
    """Return a whole request as bytes."""
    content = json.dumps(body).encode()
    head = f"{method} {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    head += f"authorization: Bearer {token}\r\n" if token else ""
    return f"{head}content-length: {len(content)}\r\n\r\n".encode() + content


async def _ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, sent: bytes) -> bytes:
    writer.write(sent)
    head = await reader.readuntil(b"\r\n\r\n")
    if b" 200 " not in head[:16] and b" 201 " not in head[:16]:
        raise RuntimeError(head.decode("latin-1"))
    length = re.search(rb"content-length: (\d+)", head)
    assert length is not None
    return await reader.readexactly(int(length[1]))


async def _load(
    port: int,
    clients: int,
    seconds: float,
    make: Callable[[], bytes],
    *,
    most: int,
    pause: float = 0.0,
) -> list[float]:
    """Let clients send one request after another; return how long each answer took."""
    until = time.perf_counter() + seconds
    times: list[float] = []

    async def client() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        while time.perf_counter() < until and len(times) < most:
            began = time.perf_counter()
            await _ask(reader, writer, make())
            times.append(time.perf_counter() - began)
            if pause:
                await asyncio.sleep(pause)
        writer.close()

    await asyncio.gather(*(client() for _ in range(clients)))
    return times


def load(
    server: OwnServer,
    what: str,
    seconds: float,
    make: Callable[[], bytes],
    *,
    each: int = 1,
    clients: int = CLIENTS,
    most: int = 10**9,
) -> Row:
    """Measure requests that count for `each`."""
    began = time.perf_counter()
    used = server.processor_seconds
    times = asyncio.run(_load(server.port, clients, seconds, make, most=most))
    n = len(times) * each
    rate = n / (time.perf_counter() - began)
    return row(what, rate, times, used=server.processor_seconds - used, n=n)


def one_row(folder: Path, rounds: int, n_requests: int) -> list[Row]:
    """Measure predictions of one row of a default model of names.

    The same requests go to Starlette, in turns.
    """
    from hammemo import MemoryClassifier, save
    from hammemo.client import Client
    from hammemo_server.http.tokens import ROLES, new_token, write_entries

    rows, labels = names(20_000)
    save(MemoryClassifier().fit(np.array(rows, dtype=object), labels), folder / "names.model")
    token, entry = new_token("acme", ROLES)
    write_entries(folder / "tokens.json", [entry])
    bare = OwnServer(["-c", BARE, "8799"], "http://127.0.0.1:8799")
    open_to_all = OwnServer.of(folder / "open")
    with_tokens = OwnServer.of(
        folder / "tokens", sys.executable, "--token-file", str(folder / "tokens.json")
    )
    with bare, open_to_all, with_tokens:
        for server in (open_to_all, with_tokens):
            with Client(f"http://127.0.0.1:{server.port}", token=token, timeout=600) as client:
                client.upload("m", folder / "names.model")
        contenders = [
            ("Starlette without a model", bare, ""),
            ("one row, no tokens", open_to_all, ""),
            ("Starlette without a model, asked with a token", bare, token),
            ("one row, with a token", with_tokens, token),
        ]
        rows_of_each: list[list[Row]] = [[] for _ in contenders]
        for number in range(-1, rounds):  # the first round warms all up and is not counted
            for (what, server, row_token), lines in zip(contenders, rows_of_each, strict=True):
                make = partial(next, cycle(_row_requests(rows, row_token)))
                line = load(server, what, 600, make, clients=8, most=n_requests)
                lines += [line] if number >= 0 else []
    return [_median_of(lines) for lines in rows_of_each]


def names(n: int, seed: int = 0) -> tuple[list[list[str]], list[str]]:
    """Return rows of 8 names, as many a column as a census has.

    Four columns say which of two labels is likely.
    """
    draw = random.Random(seed)
    sizes = (9, 16, 7, 15, 6, 5, 2, 42)
    codes = [[min(int(draw.expovariate(3 / size)), size - 1) for size in sizes] for _ in range(n)]
    labels = ["over" if draw.random() < 1 / (1 + 2.0 ** (a - b % 4 + c - 2 * d)) else "under"
              for a, b, c, _, _, _, d, _ in codes]  # fmt: skip
    return [[f"column {j}, value {code}" for j, code in enumerate(row)] for row in codes], labels


def _row_requests(rows: list[list[str]], token: str) -> list[bytes]:
    return [request("POST", "/v1/models/m/predict", {"rows": [row]}, token) for row in rows[:500]]


def _median_of(lines: list[Row]) -> Row:
    numbers = {
        key: statistics.median(line[key] for line in lines) for key in lines[0] if key != "what"
    }
    return {"what": lines[0]["what"], **numbers}


def wrk(server: OwnServer, what: str, seconds: float, rows: list[list[str]]) -> Row:
    """Measure single predictions with wrk: eight connections, another row each time."""
    bodies = ",".join(f"'{json.dumps({'rows': [row]})}'" for row in rows[:200])
    script = f"""
local bodies, i = {{{bodies}}}, 0
request = function()
  i = i % #bodies + 1
  local headers = {{["content-type"] = "application/json"}}
  return wrk.format("POST", "/v1/models/m/predict", headers, bodies[i])
end
done = function(summary, latency)
  local wrong = summary.errors.status + summary.errors.read + summary.errors.timeout
  local p50, p99 = latency:percentile(50), latency:percentile(99)
  print(string.format("RESULT %d %f %f %f %d",
    summary.requests, summary.duration, p50, p99, wrong))
end
"""
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as file:
        file.write(script)
        file.flush()
        used = server.processor_seconds
        address = f"http://127.0.0.1:{server.port}"
        command = ["wrk", "-t1", "-c8", f"-d{max(1, round(seconds))}s", "-s", file.name, address]
        output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        used = server.processor_seconds - used
    result = re.search(r"RESULT (.*)", output)
    assert result is not None, output
    n, duration, p50, p99, wrong = map(float, result[1].split())
    if wrong:
        raise RuntimeError(f"{wrong:g} answers were wrong")
    figures = row(f"{what} (wrk)", n / (duration / 1e6), used=used, n=n)
    return figures | {"p50_ms": p50 / 1e3, "p99_ms": p99 / 1e3}


def predictions(server: OwnServer, what: str, seconds: float, rows: list[list[str]]) -> Row:
    """Measure single predictions."""
    if shutil.which("wrk"):
        wrk(server, what, 1, rows)  # to warm it up
        return wrk(server, what, seconds, rows)
    requests = [request("POST", "/v1/models/m/predict", {"rows": [row]}) for row in rows[:200]]
    return load(server, what, seconds, lambda: random.choice(requests), clients=8)


def flushes(folder: Path, seconds: float) -> Row:
    """Measure how often a second a small write is flushed to the disk."""
    with tempfile.TemporaryFile(dir=folder) as file:

        def flush() -> None:
            file.write(bytes(4096))
            file.flush()
            os.fdatasync(file.fileno())

        times: list[float] = []
        while sum(times) < seconds:
            times.append(seconds_of(flush, clock=time.perf_counter))
    return row("flushes of this disk", len(times) / sum(times), times)


def examples(n: int, seed: int = 0) -> tuple[list[list[str]], list[str]]:
    """Return rows of 8 strings with one of 64 labels."""
    draw = random.Random(seed)
    rows = [[f"token {draw.randrange(5_000)}" for _ in range(TOKENS)] for _ in range(n)]
    return rows, [f"label {draw.randrange(LABELS)}" for _ in range(n)]


class Edits:
    """Requests to learn examples, each under an id of its own."""

    def __init__(self, each: int) -> None:
        self._rows, self._labels = examples(20_000)
        self._each = each
        self._n = 0

    def __call__(self) -> bytes:
        """Return the next one."""
        self._n += 1
        at = random.randrange(len(self._rows) - self._each)
        rows = self._rows[at : at + self._each]
        labels = self._labels[at : at + self._each]
        op = f"{id(self)}-{self._n}-{time.time_ns()}"
        return request("POST", "/v1/models/m/learn", {"op": op, "rows": rows, "labels": labels})


def create_model(server: OwnServer, settings: Any) -> None:
    """Make the model ``m`` with 20,000 examples."""
    learn = learn_in_parts(*examples(20_000), "/v1/models/m/learn", "")
    asyncio.run(server.ask(request("PUT", "/v1/models/m", settings), *learn))


def edits(folder: Path, where: str, seconds: float) -> list[Row]:
    """Measure edits of an exact and a hashed model in a folder."""
    measured_rows = []
    for name, settings in (("exact", {"columns": TOKENS}), ("hashed", HASHED)):
        with OwnServer.of(folder / name) as server:
            create_model(server, settings)
            measured_rows.append(
                load(server, f"{name}: edits of 1 example, 16 clients{where}", seconds, Edits(1))
            )
            measured_rows.append(
                load(
                    server,
                    f"{name}: examples in edits of 100, 16 clients{where}",
                    seconds,
                    Edits(100),
                    each=100,
                )
            )
    return measured_rows


def compare(before: str, folder: Path, rounds: int, n_edits: int) -> None:
    """Print edits and predictions a processor second of another version and this one, in turns."""
    requests = [
        request("POST", "/v1/models/m/predict", {"rows": [row]}) for row in examples(200, 1)[0]
    ]
    sent: list[tuple[str, int, Callable[[], Callable[[], bytes]]]] = [
        ("edits of 1 example", 1, lambda: Edits(1)),
        ("edits of 1 example", CLIENTS, lambda: Edits(1)),
        ("predictions of 1 row", 8, lambda: partial(next, cycle(requests))),
    ]
    for name, settings in (
        ("exact", {"columns": TOKENS}),
        ("exact, sum", EXACT_SUM),
        ("hashed, sum", HASHED),
    ):
        with tempfile.TemporaryDirectory(dir=folder) as models:
            servers = [
                OwnServer.of(Path(models, str(i)), python)
                for i, python in enumerate((before, sys.executable))
            ]
            for server in servers:
                create_model(server, settings)
            for what, clients, make in sent:
                pairs = []
                for number in range(-1, rounds):  # the first round warms both up and is not counted
                    order = servers if number % 2 else servers[::-1]
                    rates = {id(one): _rate(one, clients, n_edits, make()) for one in order}
                    pairs += [tuple(rates[id(server)] for server in servers)] if number >= 0 else []
                old, new = (statistics.median(rates) for rates in zip(*pairs, strict=True))
                ratio = statistics.median(after / before for before, after in pairs)
                title = f"{name}: {what}, {clients} clients"
                print(
                    f"{title:48}{old:8,.0f} to {new:8,.0f} a processor second, {ratio:.2f} times",
                    flush=True,
                )
            for server in servers:
                server.end(kill=True)


def _rate(server: OwnServer, clients: int, most: int, make: Callable[[], bytes]) -> float:
    return float(
        load(server, "", 600, make, clients=clients, most=most)["a_processor_second"] or 0.0
    )


def visits(folder: Path, seconds: float) -> list[Row]:
    """Measure edits of one row and of one whole visit, of a model that was fitted to visits."""
    from hammemo import MemoryClassifier, save, windows
    from hammemo.client import Client
    from hammemo.datasets import load_sessions

    learnt, later = load_sessions()
    save(MemoryClassifier().fit_stream(learnt, h=30, short="pad"), folder / "shop.model")
    contexts, items = (part.tolist() for part in windows(later, h=30, short="pad"))
    bodies: dict[str, list[dict[str, Any]]] = {
        "learn": [
            {"rows": [row], "labels": [item]} for row, item in zip(contexts, items, strict=True)
        ],
        "learn-stream": [{"documents": [list(map(int, visit))]} for visit in later],
    }
    numbers = count()

    def edit(ask: str) -> bytes:
        number = next(numbers)
        body = bodies[ask][number % len(bodies[ask])]
        return request("POST", f"/v1/models/m/{ask}", {"op": f"visits-{number}", **body})

    with OwnServer.of(folder / "visits") as server:
        with Client(f"http://127.0.0.1:{server.port}", timeout=600) as client:
            client.upload("m", folder / "shop.model")
            client.predict("m", contexts[:1])  # a model that is asked is edited in its live form
        return [
            load(
                server,
                f"visits: edits of 1 {what}, {clients} clients",
                seconds,
                partial(edit, ask),
                clients=clients,
            )
            for clients in (1, CLIENTS)
            for what, ask in (("row", "learn"), ("visit", "learn-stream"))
        ]


def heaviest(token: str) -> list[bytes]:
    """Return the heaviest questions that the limits allow, of the model ``a``.

    It has 20,000 labels and 4 columns.
    """
    rows = [[f"token {k} {(j * 7 + k) % 50}" for k in range(4)] for j in range(10_000)]
    calls = (
        ("explain", {"rows": rows[:100], "k": 1_000}),
        ("top-k", {"rows": rows[:1_000], "k": 1_000}),
        ("predict", {"rows": rows}),
        ("probabilities", {"rows": rows[:50]}),  # the largest answer: twice, since it comes fastest
        ("probabilities", {"rows": rows[:50]}),
        ("certify", {"rows": rows}),
        # as heavy as one that is answered by the server itself
        ("explain", {"rows": rows[:1], "k": 1}),
    )
    return [request("POST", f"/v1/models/a/{ask}", body, token) for ask, body in calls]


async def _ask_on(port: int, sent: list[bytes]) -> None:
    """Send questions from 32 connections until this process is ended; refusals are answers, too."""

    async def client(number: int) -> None:
        while True:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                with contextlib.suppress(RuntimeError):
                    while True:
                        await _ask(reader, writer, sent[number % len(sent)])
                writer.close()

    await asyncio.gather(*map(client, range(32)))


class Neighbour:
    """Tenant A.

    It is a process that asks the heaviest questions, or all on one route, for the time of a block.
    """

    def __init__(self, port: int, token: str, route: str = "") -> None:
        command = [sys.executable, __file__, "neighbour", "--port", str(port), "--route", route]
        self._process = subprocess.Popen(command, env={**os.environ, "HAMMEMO_TOKEN": token})

    def __enter__(self) -> Neighbour:
        time.sleep(5.0)  # until processes for long questions have begun
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()


def learn_in_parts(rows: list[list[str]], labels: list[str], path: str, token: str) -> list[bytes]:
    """Return requests that learn examples, 5,000 at a time."""
    parts = [slice(start, start + 5_000) for start in range(0, len(rows), 5_000)]
    bodies = [
        {"op": f"first-{part.start}", "rows": rows[part], "labels": labels[part]} for part in parts
    ]
    return [request("POST", path, body, token) for body in bodies]


def routes_of(token: str) -> dict[str, Callable[[], list[bytes]]]:
    """Return what A sends, route by route.

    Requests go to the model ``a``, one after another, with new ids.
    """
    rows, labels = examples(2_000, 3)
    numbers = map(str, count(time.time_ns()))
    posted: dict[str, Callable[[], Any]] = {
        "learn": lambda: {"op": next(numbers), "rows": rows, "labels": labels},
        "forget": lambda: {"op": next(numbers), "rows": rows[:1], "labels": labels[:1]},
        "refit": lambda: {"op": next(numbers)},
        "predict": lambda: {"rows": rows},
        "top-k": lambda: {"rows": rows[:1_000], "k": 1_000},
        "probabilities": lambda: {"rows": rows},
        "explain": lambda: {"rows": rows[:100], "k": 1_000},
        "certify": lambda: {"rows": rows},
        "snapshot": lambda: None,
    }

    def post(ask: str) -> list[bytes]:
        return [request("POST", f"/v1/models/a/{ask}", posted[ask](), token)]

    def of_one_model() -> list[bytes]:
        """Make a model, let it learn, queue refits, delete it while they run, and ask it."""
        path = f"/v1/models/d{next(numbers)}"
        edits = [request("POST", f"{path}/learn", posted["learn"](), token)]
        edits += [
            request("POST", f"{path}/{ask}", posted[ask](), token)
            for ask in ("refit", "forget") * 2
        ]
        return [
            request("PUT", path, {"columns": TOKENS}, token),
            *edits,
            request("DELETE", path, None, token),
            request("POST", f"{path}/predict", {"rows": rows[:1]}, token),
        ]

    others: dict[str, Callable[[], list[bytes]]] = {
        "describe": lambda: [request("GET", "/v1/models/a", None, token)],
        "download": lambda: [request("GET", "/v1/models/a/file", None, token)],
        "audit": lambda: [request("GET", "/v1/models/a/audit", None, token)],
        "metrics": lambda: [request("GET", "/metrics", None, token)],
        "set-list": lambda: [request("PUT", "/v1/lists/l", {"items": list(range(200_000))}, token)],
        "read-list": lambda: [request("GET", "/v1/lists/l", None, token)],
        "create, edit, delete": of_one_model,
    }
    return {ask: partial(post, ask) for ask in posted} | others


async def _send_on(port: int, make: Callable[[], list[bytes]]) -> None:
    """Send what A sends on one route from 8 connections until this process is ended.

    Refusals are answers, too.
    """

    async def client() -> None:
        while True:
            # each on a connection of its own, so that one that waits holds no other
            for sent in make():
                with contextlib.suppress(
                    OSError, RuntimeError, asyncio.IncompleteReadError, TimeoutError
                ):
                    reader, writer = await asyncio.open_connection("127.0.0.1", port)
                    async with asyncio.timeout(2.0):
                        await _ask(reader, writer, sent)
                    writer.close()

    await asyncio.gather(*(client() for _ in range(8)))


def answers_to(server: OwnServer, token: str) -> int:
    """Return how many requests of a tenant were answered so far."""
    figures = asyncio.run(server.ask(request("GET", "/metrics", None, token)))[0].decode()
    return sum(int(float(n)) for n in re.findall(r"hammemo_requests_total\{.*\} (\S+)", figures))


def _serve_two_tenants(folder: Path) -> OwnServer:
    """Serve the tenants whose tokens are in the folder."""
    path = str(folder / "tokens.json")
    return OwnServer.of(folder / "fair", sys.executable, "--token-file", path, one_core=False)


def beside_routes(folder: Path, seconds: float) -> None:
    """Print B's p99 and longest prediction alone, and beside each of A's routes."""
    from hammemo_server.http.tokens import ROLES, new_token, write_entries

    tokens_of_tenants = {tenant: new_token(tenant, ROLES) for tenant in ("a", "b")}
    write_entries(folder / "tokens.json", [entry for _, entry in tokens_of_tenants.values()])
    of_a, of_b = (token for token, _ in tokens_of_tenants.values())
    setup = [
        request("PUT", f"/v1/models/{name}", {"columns": TOKENS}, tokens_of_tenants[name][0])
        for name in tokens_of_tenants
    ]
    for name, (token, _) in tokens_of_tenants.items():
        setup += learn_in_parts(*examples(5_000), f"/v1/models/{name}/learn", token)
    rows, _ = examples(1_000, 2)

    def one() -> bytes:
        return request("POST", "/v1/models/b/predict", {"rows": [random.choice(rows)]}, of_b)

    with _serve_two_tenants(folder) as server:
        asyncio.run(server.ask(*setup))
        for route in ("", *routes_of(of_a)):
            with Neighbour(server.port, of_a, route) if route else contextlib.nullcontext():
                before = answers_to(server, of_a)
                times = 1e3 * np.array(
                    asyncio.run(_load(server.port, 1, seconds, one, most=10**9, pause=0.01))
                )
                n = answers_to(server, of_a) - before
            p50, p99 = np.percentile(times, [50, 99])
            line = (
                f"{route or 'alone':22} p50 {p50:6.1f}  p99 {p99:6.1f}  longest "
                f"{times.max():6.1f} ms"
            )
            busy = f"{n} answers to A, load average {os.getloadavg()[0]:.1f}"
            print(f"{line}  ({len(times)} predictions, {busy})", flush=True)


def latencies(port: int, token: str, seconds: float) -> dict[str, float]:
    """Return B's p99 of each request in milliseconds.

    Each is sent by a client of its own, 50 a second at most.
    """
    rows, labels = examples(1_000, 2)
    numbers = map(str, count(time.time_ns()))

    def ask_prediction() -> bytes:
        question = {"rows": [random.choice(rows)]}
        return request("POST", "/v1/models/b/predict", question, token)

    def edit() -> bytes:
        example = {"rows": [random.choice(rows)], "labels": [random.choice(labels)]}
        return request("POST", "/v1/models/b/learn", {"op": next(numbers), **example}, token)

    makers: dict[str, Callable[[], bytes]] = {
        "predict": ask_prediction,
        "list": lambda: request("GET", "/v1/models", None, token),
        "edit": edit,
    }

    async def run() -> list[list[float]]:
        return await asyncio.gather(
            *(_load(port, 1, seconds, make, most=10**9, pause=0.02) for make in makers.values())
        )

    return {
        what: float(1e3 * np.percentile(times, 99))
        for what, times in zip(makers, asyncio.run(run()), strict=True)
    }


def fair(folder: Path, seconds: float, rounds: int) -> None:
    """Print B's p99 alone and beside A, in turns, and the median over the rounds."""
    from hammemo_server.http.tokens import ROLES, new_token, write_entries

    tokens_of_tenants = {tenant: new_token(tenant, ROLES) for tenant in ("a", "b")}
    write_entries(folder / "tokens.json", [entry for _, entry in tokens_of_tenants.values()])
    of_a, of_b = (token for token, _ in tokens_of_tenants.values())
    rows = [[f"token {k} {(j * 7 + k) % 50}" for k in range(4)] for j in range(20_000)]
    setup = [
        request("PUT", "/v1/models/a", {"columns": 4}, of_a),
        request("PUT", "/v1/models/b", {"columns": 8}, of_b),
    ]
    setup += learn_in_parts(rows, [f"label {j}" for j in range(20_000)], "/v1/models/a/learn", of_a)
    setup += learn_in_parts(*examples(5_000), "/v1/models/b/learn", of_b)
    rounds_of_p99: list[dict[str, tuple[float, float]]] = []
    with _serve_two_tenants(folder) as server:
        asyncio.run(server.ask(*setup))
        for _ in range(rounds):
            alone = latencies(server.port, of_b, seconds)
            with Neighbour(server.port, of_a):
                beside = latencies(server.port, of_b, seconds)
            rounds_of_p99.append({what: (alone[what], beside[what]) for what in alone})
            changes = ", ".join(
                f"{what} {a:.1f} to {b:.1f}" for what, (a, b) in rounds_of_p99[-1].items()
            )
            print(
                f"p99 alone to p99 beside A, ms: {changes}; load average {os.getloadavg()[0]:.1f}",
                flush=True,
            )
        figures = asyncio.run(server.ask(request("GET", "/metrics", None, of_a)))[0].decode()
    counted = re.findall(
        r'hammemo_requests_total\{ask="(explain|top-k|pr\w+|certify)",status="(\d+)"\} (\d+)',
        figures,
    )
    print("answers to A:", ", ".join(f"{n} {ask} with {status}" for ask, status, n in counted))
    for what in rounds_of_p99[0]:
        alone_ms, beside_ms = (
            statistics.median(times)
            for times in zip(*(line[what] for line in rounds_of_p99), strict=True)
        )
        most = max(3 * alone_ms, 50.0)
        verdict = "fair" if beside_ms <= most else "NOT FAIR"
        print(
            f"{what:10} p99 alone {alone_ms:7.1f} ms, beside A {beside_ms:7.1f} ms, "
            f"at most {most:7.1f}: {verdict}"
        )


def replay(folder: Path) -> Row:
    """Measure how long 10,000 edits take to be replayed after kill -9."""
    server = OwnServer.of(folder)
    create_model(server, {"columns": TOKENS})
    load(server, "", 600, Edits(1), clients=64, most=10_000)
    server.end(kill=True)
    with OwnServer.of(folder) as server:
        facts = json.loads(asyncio.run(server.ask(request("GET", "/v1/models/m", None)))[0])
    if facts["version"] < 10_000:
        raise RuntimeError(f"only {facts['version']} edits came back")
    seconds = facts["replay_seconds"]
    print(f"replay of {facts['version']:,} edits after kill -9: {seconds:.2f} s", flush=True)
    return row("edits replayed", facts["version"] / seconds)


def main() -> None:
    """Measure everything and print a table."""
    parser = options(__doc__)
    parser.add_argument("--seconds", type=float, help="of each measurement: 5, or 60 for fair")
    parser.add_argument(
        "--folder",
        type=Path,
        default=Path(tempfile.gettempdir()),
        help="on the disk to be measured",
    )
    parser.add_argument(
        "only",
        nargs="?",
        choices=["visits", "fair", "routes", "neighbour", "one-row"],
        help="only this part; fair starts neighbour",
    )
    parser.add_argument("--port", type=int, help="for neighbour")
    parser.add_argument(
        "--route", help="for neighbour: what it sends, by the name that routes prints"
    )
    parser.add_argument("--json", type=Path)
    parser.add_argument(
        "--before", help="the interpreter of another version: only edits and predictions, in turns"
    )
    parser.add_argument(
        "--rounds",
        type=int,
        help="how often two versions or servers take turns (9), or how many runs (5 for fair)",
    )
    parser.add_argument("--edits", type=int, default=1_000, help="edits or predictions of one turn")
    parser.add_argument(
        "--requests", type=int, default=10_000, help="requests of one turn of one-row"
    )
    arguments = parser.parse_args()
    if arguments.only == "neighbour":
        os.nice(10)
        token = os.environ["HAMMEMO_TOKEN"]
        if arguments.route:
            asyncio.run(_send_on(arguments.port, routes_of(token)[arguments.route]))
        asyncio.run(_ask_on(arguments.port, heaviest(token)))
    if arguments.only == "fair":
        with tempfile.TemporaryDirectory(dir=arguments.folder) as name:
            fair(Path(name), arguments.seconds or 60.0, arguments.rounds or 5)
        return
    arguments.seconds = arguments.seconds or 5.0
    if arguments.only == "routes":
        with tempfile.TemporaryDirectory(dir=arguments.folder) as name:
            beside_routes(Path(name), arguments.seconds)
        return
    if arguments.before:
        compare(arguments.before, arguments.folder, arguments.rounds or 9, arguments.edits)
        return
    rows, _ = examples(200, 1)
    measured: list[Row] = []

    def note(*lines: Row) -> None:
        for line in lines:
            measured.append(line)
            times = "" if line["p50_ms"] is None else "  p50 {p50_ms:8.2f} ms  p99 {p99_ms:8.2f} ms"
            used = (
                ""
                if line["a_processor_second"] is None
                else "  {a_processor_second:9,.0f} a processor second"
            )
            print(cells("{what:58}{a_second:10,.0f}/s" + times + used, line), flush=True)

    print(f"{os.cpu_count()} cores, load average {os.getloadavg()[0]:.1f}")
    with tempfile.TemporaryDirectory(dir=arguments.folder) as name:
        folder = Path(name)
        if arguments.only == "one-row":
            note(*one_row(folder, arguments.rounds or 9, arguments.requests))
            bare, ours, bare_with_token, with_token = (
                line["a_processor_second"] for line in measured
            )
            print(
                f"of what Starlette answers: {ours / bare:.2f}, "
                f"with a token {with_token / bare_with_token:.2f}"
            )
            return
        note(*visits(folder, arguments.seconds))
        if arguments.only:
            return
        note(flushes(folder, arguments.seconds))
        note(*edits(folder, "", arguments.seconds))
        if os.access("/dev/shm", os.W_OK):
            with tempfile.TemporaryDirectory(dir="/dev/shm") as memory:
                note(*edits(Path(memory), ", no flush", arguments.seconds))
        with OwnServer.of(folder / "predict") as server:
            create_model(server, HASHED)
            note(predictions(server, "single predictions, hashed", arguments.seconds, rows))
        with OwnServer(["-c", BARE, "8799"], "http://127.0.0.1:8799") as bare:
            note(
                predictions(bare, "the same of Starlette without a model", arguments.seconds, rows)
            )
        note(replay(folder / "replay"))
    if arguments.json:
        arguments.json.write_text(json.dumps(measured, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
