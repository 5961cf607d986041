"""How many questions a second a server of a shop's model takes.

`benchmarks/shop.py --serve` prints it.

The server has one core and the client the others. The client asks at a fixed rate, whether answers
come or not (an open loop), each question for 20 items of one visit so far, and the time of an
answer begins when its question was due. A rate is held if nine of ten answers take less than 7 ms
and every question is answered. Rates of a few seconds go up by a quarter until one is not held,
then down by a tenth until one is held for the whole time. On a machine that does other work, too,
perhaps none is; the rate a second of *processor time* of the server can be compared all the same.
"""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections import deque
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from hammemo.client import Client
from measures import thread_seconds
from serving import OwnServer, request
from sessions.neighbours import VMISkNN

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from hammemo.paper.experiments.measuring import Row

MOST_MS: Final = 7.0
"""What nine of ten answers have to take less than."""
ITEMS: Final = 20
CONNECTIONS: Final = 64
FIRST_RATE = 100.0
UP = 1.25
DOWN = 0.9
TRIES: Final = 12
"""Rates that are tried for the whole time: a machine that does other work, too, may hold none."""
PATIENCE: Final = 5.0
"""Seconds for which the client waits for the last answers."""
IN_STOCK: Final = 0.8
"""Share of the items that the named list has."""
NEIGHBOURS: Final = {"m": 100, "k": 100, "last": 3, "again": False}
"""Settings of VMIS-kNN: those that validation has chosen on bol, as in `benchmarks.sessions.rates`.
"""


class Held(NamedTuple):
    """What was measured at one rate."""

    rate: float
    p50_ms: float
    p90_ms: float
    p99_ms: float
    is_held: bool


class _Connection(asyncio.Protocol):
    """A connection that asks one question at a time."""

    def __init__(self, loop: OpenLoop) -> None:
        self._loop = loop
        self._received = b""
        self._due = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def ask(self, due: float, sent: bytes) -> None:
        """Send a question that was due at a time."""
        self._due = due
        self._received = b""
        self._transport.write(sent)

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, has_head, body = self._received.partition(b"\r\n\r\n")
        length = re.search(rb"content-length: (\d+)", head) if has_head else None
        if length is not None and len(body) >= int(length[1]):
            self._loop.note_answer(self, self._due, is_right=b" 200 " in head[:16])

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self._loop.lost += 1

    def close(self) -> None:
        """Close it."""
        self._transport.close()


class OpenLoop:
    """Asks questions at a fixed rate.

    Parameters
    ----------
    port : int
    questions : sequence of bytes
        Whole requests; they are asked in turn.
    """

    def __init__(self, port: int, questions: Sequence[bytes]) -> None:
        self._port = port
        self._questions = questions
        self.lost = 0

    def run(self, rate: float, seconds: float) -> Held:
        """Return how long answers took."""
        return asyncio.run(self._run(rate, seconds))

    async def _run(self, rate: float, seconds: float) -> Held:
        self._taken: list[float] = []
        self._wrong = 0
        self._waiting = deque[tuple[float, bytes]]()
        self.lost = 0
        loop = asyncio.get_running_loop()
        self._idle = deque[_Connection]()
        for _ in range(CONNECTIONS):
            _, connection = await loop.create_connection(
                lambda: _Connection(self), "127.0.0.1", self._port
            )
            self._idle.append(connection)
        connections = list(self._idle)
        began = time.perf_counter()
        n = max(1, int(rate * seconds))
        for number in range(n):
            due = began + number / rate
            while time.perf_counter() < due:
                await asyncio.sleep(0)  # a timer of the loop would be up to a millisecond late
            self._waiting.append((due, self._questions[number % len(self._questions)]))
            self._hand_out()
        until = time.perf_counter() + PATIENCE
        while len(self._taken) < n and time.perf_counter() < until:
            await asyncio.sleep(0.001)
        is_whole = len(self._taken) == n and not self._wrong and not self.lost
        for connection in connections:
            connection.close()
        if not self._taken:
            return Held(rate, np.inf, np.inf, np.inf, is_held=False)
        p50, p90, p99 = (1e3 * np.percentile(self._taken, [50, 90, 99])).tolist()
        return Held(rate, p50, p90, p99, is_held=bool(is_whole and p90 < MOST_MS))

    def note_answer(self, connection: _Connection, due: float, *, is_right: bool) -> None:
        """Take note of an answer."""
        self._taken.append(time.perf_counter() - due)
        self._wrong += not is_right
        self._idle.append(connection)
        self._hand_out()

    def _hand_out(self) -> None:
        while self._waiting and self._idle:
            self._idle.popleft().ask(*self._waiting.popleft())


def highest(loop: OpenLoop, seconds: float, step_seconds: float) -> Held:
    """Return the highest rate that was held for the whole time.

    If none was, return the lowest that was tried.
    """
    rate = FIRST_RATE
    best = None
    while (step := loop.run(rate, step_seconds)).is_held:
        rate = rate * UP
        best = step
    rate = FIRST_RATE if best is None else best.rate
    for _ in range(TRIES):
        if (tried := loop.run(rate, seconds)).is_held:
            break
        rate *= DOWN
    return tried


def measure_server(
    folder: Path, path: Path, questions: list[list[int]], items: NDArray[Any], seconds: float
) -> Row:
    """Return the highest rate that a server of a model file holds.

    Return the times at that rate with a named list, too.
    """
    step_seconds = min(3.0, seconds)
    with OwnServer.of(folder / "served") as server, _on_other_cores():
        with Client(f"http://127.0.0.1:{server.port}", timeout=600) as client:
            client.upload("shop", path)
            rng = np.random.default_rng(0)
            client.set_list(
                "in_stock", rng.choice(items, int(IN_STOCK * len(items)), replace=False)
            )
            for more in ({}, {"allow": {"list": "in_stock"}}):
                # the first answer makes the model ready
                client.ask("shop", "top-k", questions[:1], k=ITEMS, **more)
        plain, in_stock = (
            OpenLoop(server.port, [_question(visit, **more) for visit in questions])
            for more in ({}, {"allow": {"list": "in_stock"}})
        )
        plain.run(FIRST_RATE, step_seconds)  # to warm it up
        result = highest(plain, seconds, step_seconds)
        used = server.processor_seconds
        again = in_stock.run(result.rate, step_seconds)
        used = server.processor_seconds - used
    return {
        "served_a_second": result.rate if result.is_held else 0.0,
        "served_asked_a_second": result.rate,
        "served_p50_ms": result.p50_ms,
        "served_p90_ms": result.p90_ms,
        "served_p99_ms": result.p99_ms,
        "served_in_stock_p90_ms": again.p90_ms,
        "served_a_processor_second": max(1, int(result.rate * step_seconds)) / max(used, 0.01),
    }


def _question(visit: list[int], **more: Any) -> bytes:
    return request("POST", "/v1/models/shop/top-k", {"rows": [visit], "k": ITEMS, **more})


class _on_other_cores:  # noqa: N801  (used as a function is)
    """Keeps this process off the core of the server for the time of a block."""

    def __enter__(self) -> None:
        self._cores = os.sched_getaffinity(0)
        os.sched_setaffinity(0, self._cores - {0} or self._cores)

    def __exit__(self, *_: object) -> None:
        os.sched_setaffinity(0, self._cores)


def neighbours(sessions: list[list[int]], n_items: int, questions: list[list[int]]) -> Row:
    """Return the times of VMIS-kNN, which has no server: questions are calls in this process."""
    model = VMISkNN("clicks", **NEIGHBOURS)
    model.fit(sessions, n_items)
    times = [thread_seconds(model.top_k, [visit], ITEMS) for visit in questions]
    p50, p90, p99 = (1e3 * np.percentile(times, [50, 90, 99])).tolist()
    return {
        "vmis_knn_in_process_a_second": len(times) / sum(times),
        "vmis_knn_in_process_p50_ms": p50,
        "vmis_knn_in_process_p90_ms": p90,
        "vmis_knn_in_process_p99_ms": p99,
    }
