"""Predictions of one row: answered without threads and timers, and counted and refused as all requests are."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import httpx
import numpy as np
import pytest

import running_servers as serving
from hammemo import MemoryClassifier, save
from hammemo.client import Client
from hammemo_server.http.admission import Rate
from hammemo_server.http.answering import ReadyVersion
from hammemo_server.http.deadlines import Late, within
from hammemo_server.http.messages import Refused, header
from hammemo_server.http.tokens import new_token, write_entries

if TYPE_CHECKING:
    from collections.abc import Iterator


def names(n: int = 200) -> tuple[list[list[Any]], list[str]]:
    """Return rows of names with labels that hang on two columns together."""
    codes = np.random.default_rng(0).integers(0, 4, (n, 3)).tolist()
    labels = ["yes" if (a + b) % 2 else "no" for a, b, _ in codes]
    return [[f"{column}{code}" for column, code in zip("abc", row, strict=True)] for row in codes], labels


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[serving.Running, Client, str]]:
    folder = tmp_path_factory.mktemp("one-row")
    rows, labels = names()
    save(MemoryClassifier().fit(np.array(rows, dtype=object), labels), folder / "names.model")
    token, entry = new_token("acme", ["read", "admin"])
    reader, reading = new_token("other", ["read"])
    write_entries(folder / "tokens.json", [entry, reading])
    with (
        serving.in_thread(folder / "models", folder / "tokens.json") as running,
        Client(running.url, token) as client,
    ):
        client.upload("names", folder / "names.model")
        yield running, client, reader


def counted(client: Client, url: str, what: str) -> float:
    text = httpx.get(f"{url}/metrics", headers=client._http.headers).text
    found = re.search(rf"^{re.escape(what)} (\S+)$", text, re.MULTILINE)
    return float(found[1]) if found else 0.0


def test_answers_are_those_of_the_long_way(server: tuple[serving.Running, Client, str]) -> None:
    running, client, _ = server
    rows, _ = names(12)
    rows += [["a0", "b1", "never seen"], ["a1", None, "c2"]]
    wanted = client.predict("names", rows)  # many rows are answered in a thread
    assert len(set(wanted)) == 2
    with patch.object(running.service, "in_thread", side_effect=AssertionError("a thread was used")):
        assert [client.predict("names", [row])[0] for row in rows[:-1]] == wanted[:-1]
    with patch.object(ReadyVersion, "predict_one", return_value=None):
        assert [client.predict("names", [row])[0] for row in rows[:-1]] == wanted[:-1]
    assert client.predict("names", rows[-1:]) == wanted[-1:]  # a missing value takes the long way


def test_each_is_counted_and_leaves(server: tuple[serving.Running, Client, str]) -> None:
    running, client, _ = server
    asked = 'hammemo_requests_total{ask="predict",status="200"}', 'hammemo_request_seconds_count{ask="predict"}'
    before = [counted(client, running.url, what) for what in asked]
    for _ in range(5):
        client.predict("names", [["a0", "b1", "c2"]])
    assert [counted(client, running.url, what) for what in asked] == [n + 5 for n in before]
    assert running.service.admission.inside == 0


def test_refusals_are_those_of_all_requests(server: tuple[serving.Running, Client, str]) -> None:
    running, client, reader = server
    url = f"{running.url}/v1/models/names/predict"

    def status(token: str, row: list[Any], **headers: str) -> int:
        given = {"authorization": f"Bearer {token}", **headers}
        return httpx.post(url, json={"rows": [row]}, headers=given).status_code

    mine, row = client._http.headers["authorization"].split()[1], ["a0", "b1", "c2"]
    assert status(mine, row) == 200
    assert status(mine[:-1] + ("A" if mine[-1] != "A" else "B"), row) == 401
    assert status(reader, row) == 404  # another tenant's model is none
    assert status(mine, row[:2]) == 422
    assert status(mine, ["x" * 5_000, "b1", "c2"]) == 413
    assert status(mine, row, **{"content-type": "text/plain"}) == 415
    assert status(mine, row, origin="http://elsewhere.example") == 403
    assert status(mine, row, host="elsewhere.example") == 421
    assert counted(client, running.url, "hammemo_refused_tokens_total") >= 1


def test_the_rate_of_a_tenant_holds(server: tuple[serving.Running, Client, str]) -> None:
    running, client, _ = server
    body, url = {"rows": [["a0", "b1", "c2"]]}, f"{running.url}/v1/models/names/predict"
    stopped = Rate(2.0, lambda: 0.0)  # its clock stands still
    with patch.dict(running.service.admission._rates, acme=stopped), httpx.Client(headers=client._http.headers) as http:
        assert [http.post(url, json=body).status_code for _ in range(6)] == [200] * 4 + [429] * 2


async def _fails_with(error: Exception) -> None:
    await asyncio.sleep(0)
    raise error


def test_work_that_does_not_wait_needs_no_timer() -> None:
    async def at_once() -> str:
        return "done"

    with patch("asyncio.timeout_at", side_effect=AssertionError("a timer was set")):
        assert asyncio.run(within(1.0, at_once())) == "done"


def test_work_that_waits_has_its_time() -> None:
    ended = []

    async def slow() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            ended.append("cancelled")

    assert asyncio.run(within(60.0, asyncio.sleep(0.001, "done"))) == "done"
    with pytest.raises(Late):
        asyncio.run(within(0.001, slow()))
    assert ended == ["cancelled"]


@pytest.mark.parametrize("error", [TimeoutError("of the work"), ValueError("no")])
def test_errors_of_the_work_are_its_own(error: Exception) -> None:
    with pytest.raises(type(error), match=str(error)):
        asyncio.run(within(60.0, _fails_with(error)))


def test_a_cancelled_request_cancels_its_work() -> None:
    async def run() -> bool:
        work = asyncio.get_running_loop().create_future()
        request = asyncio.ensure_future(within(60.0, work))
        await asyncio.sleep(0)
        request.cancel()
        with pytest.raises(asyncio.CancelledError):
            await request
        return work.cancelled()

    assert asyncio.run(run())


def test_a_header_that_is_there_twice_is_refused_each_time() -> None:
    scope = {"headers": [(b"host", b"a"), (b"origin", b"b"), (b"origin", b"c"), (b"origin", b"d")]}
    for _ in range(2):
        assert header(scope, b"host") == b"a"
        assert header(scope, b"range") is None
        with pytest.raises(Refused, match="The header origin is there more than once"):
            header(scope, b"origin")
