"""One tenant cannot stop another one: turns, separate threads, deadlines, callers that have gone, other processes."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import signal
import socket
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import running_servers as serving
from hammemo import MemoryClassifier
from hammemo.client import Client, ServerError
from hammemo_server.edits.limits import Limits
from hammemo_server.edits.operations import Malformed
from hammemo_server.http import answering
from hammemo_server.http.answering import ReadyVersion, go_on
from hammemo_server.http.questions import KINDS, Stopped, Stopping
from hammemo_server.http.server import ServerSettings, _host
from hammemo_server.http.tenant_slots import Shares

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from hammemo_server.http.answering import Stop

MANY = [["a"]] * 100


# Turns


@settings(max_examples=50, deadline=None)
@given(
    st.integers(1, 4),
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 3), st.booleans()), max_size=30),
)
def test_slots_are_never_too_many_nor_lost(slots: int, asked: list[tuple[str, int, bool]]) -> None:
    """Some who ask are cancelled, while they wait or while they hold a slot."""
    held: Counter[str] = Counter()

    async def ask(shares: Shares, tenant: str, steps: int) -> None:
        await shares.enter(tenant)
        held[tenant] += 1
        try:
            assert held.total() <= slots
            assert held[tenant] <= max(1, slots - 1)
            for _ in range(steps):
                await asyncio.sleep(0)
        finally:
            held[tenant] -= 1
            shares.leave(tenant)

    async def run() -> None:
        shares = Shares(slots)
        tasks = []
        for tenant, steps, cancelled in asked:
            tasks.append(asyncio.create_task(ask(shares, tenant, steps)))
            for _ in range(steps):
                await asyncio.sleep(0)
            if cancelled:
                tasks[len(tasks) // 2].cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert held.total() == 0
        await asyncio.gather(*(ask(shares, tenant, 1) for tenant in "aabbcc"))  # all slots are there again

    asyncio.run(run())


def test_a_tenant_that_waits_does_not_wait_for_the_queue_of_another() -> None:
    async def run() -> list[str]:
        shares, order = Shares(2), []

        async def ask(tenant: str) -> None:
            await shares.enter(tenant)
            order.append(tenant)
            await asyncio.sleep(0)
            shares.leave(tenant)

        many = [asyncio.create_task(ask("a")) for _ in range(20)]
        await asyncio.sleep(0)
        await ask("b")
        assert order.count("a") <= 2
        await asyncio.gather(*many)
        return order

    assert len(asyncio.run(run())) == 21


# Blocks


@pytest.fixture(scope="module")
def ready() -> ReadyVersion:
    rows = [[f"a{i % 5}", f"b{i % 3}"] for i in range(60)]
    return ReadyVersion(MemoryClassifier(vote="log-linear").fit(rows, [f"l{i % 7}" for i in range(60)]), 1).prepare()


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.lists(st.sampled_from(["a0", "a1", "b0", "b2", "x"]), min_size=2, max_size=2), max_size=8),
    st.integers(1, 9),
    st.sampled_from([None, "seen", ["l1", "l2"], "a row"]),
    st.booleans(),
)
def test_blocks_give_the_answer_of_the_whole(
    ready: ReadyVersion, rows: list[list[str]], k: int, exclude: Any, scores: bool
) -> None:
    if exclude == "a row":
        exclude = [[f"l{i % 7}"] for i in range(len(rows))]
    plain = {"rows": rows}
    more = {**plain, "k": k, "exclude": exclude, "scores": scores}
    for ask, body in {
        "predict": plain, "certify": plain, "probabilities": plain, "explain": {**plain, "k": k}, "top-k": more,
    }.items():  # fmt: skip
        kind, limits = KINDS[ask], Limits()
        question = kind.read(json.dumps(body).encode(), "m", limits)
        whole = kind.answer(ready, question, limits, go_on)
        calls: list[int] = []
        stop = partial(calls.append, 1)
        with pytest.MonkeyPatch.context() as changed:
            changed.setattr(answering, "_BLOCK_MICROSECONDS", 0)
            assert kind.answer(ready, question, limits, stop) == whole
        assert len(calls) == len(rows) * (2 if ask == "certify" else 1)


def test_lists_of_rows_are_not_cut_where_they_are_wrong(ready: ReadyVersion, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answering, "_BLOCK_MICROSECONDS", 0)
    kind = KINDS["top-k"]
    for exclude in ([["l1"]], [["l1"], ["l2"], ["l3"]], [["l1"], "l2"]):
        body = {"rows": [["a0", "b0"], ["a1", "b1"]], "exclude": exclude}
        with pytest.raises(Malformed, match="lists or labels for 2"):
            kind.answer(ready, kind.read(json.dumps(body).encode(), "m", Limits()), Limits(), go_on)


def test_a_question_stops_between_two_blocks(ready: ReadyVersion, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answering, "_BLOCK_MICROSECONDS", 0)
    stop = Stopping(600)
    rows: list[Any] = []

    def explained(_: ReadyVersion, row: Any, k: int) -> dict[str, Any]:
        rows.append((row, k))
        stop.now()
        return {}

    monkeypatch.setattr(ReadyVersion, "_explain_row", explained)
    question = KINDS["explain"].read(json.dumps({"rows": [["a0", "b0"]] * 5}).encode(), "m", Limits())
    with pytest.raises(Stopped):
        ready.explain(question, Limits(), stop)
    assert len(rows) == 1
    with pytest.raises(Stopped):
        Stopping(0)()


def _noted(asked: list[int], allowed: bool) -> bool:
    asked.append(1)
    return allowed


def test_questions_of_some_milliseconds_are_long_where_they_are_many(ready: ReadyVersion) -> None:
    asked: list[int] = []
    for ask, rows, expected in (("predict", 1, 0), ("explain", 1, 1), ("explain", 100, 0)):
        question = KINDS[ask].read(json.dumps({"rows": [["a0", "b0"]] * rows}).encode(), "m", Limits())
        for allowed in (True, False):
            asked.clear()
            is_long = KINDS[ask].is_long(ready, question, partial(_noted, asked, allowed))
            assert len(asked) == expected
            assert is_long == (rows == 100 or (ask == "explain" and not allowed))


def test_the_number_of_labels_costs_nothing_where_only_rows_are_read() -> None:
    visits = [[i % 50, (i + 1) % 50, (i + 3) % 50] for i in range(200)]
    mixture = ReadyVersion(MemoryClassifier(vote="mixture", random_state=0).fit_stream(visits, h=3, short="pad"), 1)
    mixture.prepare()._n_labels = 10**6
    questions = {
        ask: KINDS[ask].read(json.dumps({"rows": [[1]]}).encode(), "m", Limits())
        for ask in ("predict", "top-k", "probabilities", "explain")
    }
    quick = {ask for ask, question in questions.items() if KINDS[ask].is_quick(mixture, question)}
    assert quick == {"predict", "top-k"}
    for more in ({"rows": [[1]] * 20}, {"k": 100}, {"allow": [1, 2]}, {"exclude": [[1]]}):
        asked = KINDS["top-k"].read(json.dumps({"rows": [[1]], **more}).encode(), "m", Limits())
        assert not KINDS["top-k"].is_quick(mixture, asked)
    long = {ask for ask, question in questions.items() if KINDS[ask].is_long(mixture, question, lambda: False)}
    assert long == {"probabilities", "explain"}


# Over HTTP


class Endless:
    """In place of explanations: questions that end only when they are stopped."""

    def __init__(self) -> None:
        self.running, self.stopped = threading.Semaphore(0), threading.Semaphore(0)

    def __call__(self, ready: ReadyVersion, question: Any, limits: Limits, stop: Stop) -> Any:
        self.running.release()
        try:
            while True:
                stop()
                time.sleep(0.002)
        finally:
            self.stopped.release()


@pytest.fixture
def endless(monkeypatch: pytest.MonkeyPatch) -> Endless:
    found = Endless()
    monkeypatch.setattr(ReadyVersion, "explain", lambda *given: found(*given))
    monkeypatch.setitem(KINDS, "explain", KINDS["explain"].__class__("explain", KINDS["explain"].decoder, found))
    return found


def asking(port: int, token: str, rows: list[list[str]]) -> socket.socket:
    """Send a request to explain, and return its connection."""
    body = json.dumps({"rows": rows, "k": 5}).encode()
    head = (
        "POST /v1/models/m/explain HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
        f"authorization: Bearer {token}\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    connection = socket.create_connection(("127.0.0.1", port), timeout=60)
    connection.sendall(head.encode() + body)
    return connection


@pytest.fixture
def tokens(tmp_path: Path) -> dict[str, str]:
    return serving.token_file(tmp_path / "tokens.json", heavy=(), light=())


def test_a_heavy_tenant_does_not_stop_another_one(tmp_path: Path, tokens: dict[str, str], endless: Endless) -> None:
    with (
        serving.in_thread(tmp_path / "models", tmp_path / "tokens.json", Limits(deadline=600)) as server,
        Client(server.url, tokens["heavy"]) as heavy,
        Client(server.url, tokens["light"]) as light,
    ):
        for client in (heavy, light):
            client.create("m", columns=1)
            client.learn("m", [["a"]], ["x"])
        connections = [asking(server.port, tokens["heavy"], MANY) for _ in range(12)]
        endless.running.acquire()
        light.learn("m", [["b"]], ["y"])
        assert light.models() == ["m"]
        assert light.predict("m", [["b"], ["a"]]) == ["y", "x"]
        assert light.top_k("m", [["b"]], 1) == [["y"]]
        assert light.describe("m")["examples"] == 2
        assert light.predict("m", MANY * 100) == ["x"] * 10_000  # a long one: there is a slot that is not the other's
        assert httpx.get(f"{server.url}/metrics", headers={"authorization": f"Bearer {tokens['light']}"}).is_success
        assert httpx.get(f"{server.url}/v2/health/ready").is_success
        assert heavy.predict("m", [["a"]]) == ["x"]
        for connection in connections:  # nothing else ends these questions
            connection.close()
        endless.stopped.acquire()
        assert heavy.predict("m", MANY * 100) == ["x"] * 10_000  # and their slot is free


def test_a_question_ends_at_its_deadline(tmp_path: Path, endless: Endless) -> None:
    with serving.in_thread(tmp_path / "models", limits=Limits(deadline=0.3)) as server, Client(server.url) as client:
        hosted = server.service.host.create("default", "m", {"columns": 1})
        assert hosted.edit(_edit("1")).result().version == 1
        with pytest.raises(ServerError, match=r"within 0\.3 seconds") as refused:  # and it is not asked again
            client.explain("m", MANY)
        assert (refused.value.status, refused.value.code) == (504, "too_long")
        endless.stopped.acquire()


def test_a_long_body_makes_python_look_at_nothing_that_was_imported(tmp_path: Path) -> None:
    """A full collection of garbage took 0.1 s and more, while a body of thousands of rows was read."""
    _host(ServerSettings(str(tmp_path))).close()
    try:
        assert gc.get_freeze_count() > 9 * len(gc.get_objects())
    finally:
        gc.unfreeze()


def _edit(op: str) -> Any:
    from hammemo_server.edits.operations import Edit

    return Edit(op, "learn", [["a"]], ["x"])


def test_an_edit_that_nothing_waits_for_is_finished(
    tmp_path: Path, tokens: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from hammemo_server.http import endpoints
    from hammemo_server.models.writer import WrittenModel

    commit, may_go_on = WrittenModel._commit, threading.Event()

    def waiting(*given: Any) -> Any:
        may_go_on.wait()
        return commit(*given)

    monkeypatch.setattr(endpoints, "_EDIT_SECONDS", 0.2)
    with serving.in_thread(tmp_path / "models", limits=Limits(deadline=0.2)) as server:
        hosted = server.service.host.create("default", "m", {"columns": 1})
        monkeypatch.setattr(WrittenModel, "_commit", waiting)
        body = {"op": "o", "rows": [["a"]], "labels": ["x"]}
        late = httpx.post(f"{server.url}/v1/models/m/learn", json=body, timeout=60)
        assert (late.status_code, late.json()["error"]["code"]) == (504, "unfinished")
        may_go_on.set()
        with Client(server.url) as client:
            assert client.learn("m", [["a"]], ["x"], op="o").status == "repeated"
        assert hosted.version == 1


# Other processes


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Iterator[serving.Running]:
    folder = tmp_path_factory.mktemp("other")
    with serving.in_thread(folder, limits=Limits(deadline=600), question_processes=1) as server:
        yield server


def _children(server: serving.Running) -> list[int]:
    return [process._process.pid for process in server.service._long._all]  # type: ignore[union-attr]


def test_long_questions_are_answered_by_another_process(other: serving.Running) -> None:
    rows = [[f"a{i % 50}"] for i in range(5_000)]
    labels = [f"l{i % 50}" for i in range(5_000)]
    with Client(other.url) as client:
        client.create("m", columns=1)
        client.learn("m", rows, labels)
        assert client.predict("m", [["a3"]]) == ["l3"]
        assert _children(other) == []  # short ones are not
        assert client.predict("m", rows) == labels
        (child,) = _children(other)
        assert child != os.getpid()
        for n in range(5):  # never older than an edit that was acknowledged
            client.learn("m", [[f"new{n}"]] * 2, [f"n{n}"] * 2)
            assert client.predict("m", [[f"new{n}"]] * 5_000) == [f"n{n}"] * 5_000
        assert len(client.explain("m", rows[:5], 3)) == 5
        with pytest.raises(ServerError) as refused:
            client.predict("m", [["a", "b"]] * 5_000)
        assert (refused.value.status, refused.value.code) == (422, "malformed")
        client.delete("m")
        client.create("m", columns=1)
        with pytest.raises(ServerError, match="holds no example"):
            client.predict("m", rows)
        client.learn("m", [["a1"]], ["another model"])
        assert set(client.predict("m", rows)) == {"another model"}
        assert _children(other) == [child]


def test_a_process_that_was_killed_is_replaced(other: serving.Running) -> None:
    rows = [["a"]] * 5_000
    with Client(other.url) as client:
        client.create("killed", columns=1)
        client.learn("killed", [["a"]], ["x"])
        client.predict("killed", rows)
        (child,) = _children(other)
        os.kill(child, signal.SIGKILL)
        assert client.predict("killed", rows) == ["x"] * 5_000  # the client asks again after 503
        assert _children(other) != [child]


def test_a_question_whose_caller_has_gone_frees_the_process(other: serving.Running) -> None:
    rows = [[f"t{i % 7}"] for i in range(5_000)]
    with Client(other.url) as client:
        client.create("gone", columns=1)
        client.learn("gone", rows[:1_000], [f"l{i}" for i in range(1_000)])
        client.predict("gone", rows)
        before = _children(other)
        body = json.dumps({"rows": rows}).encode()
        head = f"POST /v1/models/gone/predict HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(body)}\r\n"
        with ThreadPoolExecutor(4) as threads:
            for _ in range(4):
                threads.submit(_leave, other.port, f"{head}content-type: application/json\r\n\r\n".encode() + body)
        assert len(client.predict("gone", rows)) == 5_000
        assert _children(other) == before


def _leave(port: int, sent: bytes) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        connection.sendall(sent)
