"""``hammemo serve`` as a process: how it ends, what a crash leaves, workers; and short forms of the stress scripts."""

from __future__ import annotations

import shutil
import ssl
import subprocess
import threading
import time
from typing import TYPE_CHECKING

import httpx
import pytest

import forked
import running_servers as serving
import service_http_edits
import service_malformed
import service_soak
from hammemo import MemoryClassifier, save
from hammemo.client import Client, ServerError
from hammemo.kernels import Bag, Suffixes
from hammemo.votes import Mixture

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.long


def test_it_ends_in_order(tmp_path: Path) -> None:
    with serving.Process(tmp_path, fresh=True) as server, Client(server.url) as client:
        client.create("m")
        client.learn("m", [["a"]], ["x"])
        assert server.end() == 0
        assert [line["event"] for line in server.lines][-2:] == ["draining", "ended"]
        with pytest.raises(ServerError) as gone:
            Client(server.url, patience=0.0).predict("m", [["a"]])
        assert gone.value.code == "no_answer"
    with serving.Process(tmp_path) as server, Client(server.url) as client:
        told = client.describe("m")
        assert (told["version"], told["snapshot_version"], told["examples"]) == (1, 1, 1)


def test_edits_that_come_while_it_ends_are_refused_and_those_begun_are_kept(tmp_path: Path) -> None:
    acknowledged: list[int] = []
    refused: set[int] = set()
    with serving.Process(tmp_path, "--log-level", "warning") as server:
        with Client(server.url) as client:
            client.create("m")

        def edit(number: int) -> None:
            with Client(server.url, patience=0.0) as client:
                try:
                    while True:
                        acknowledged.append(client.learn("m", [[str(number)]], ["x"]).version)
                except ServerError as error:
                    refused.add(error.status)

        threads = [threading.Thread(target=edit, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        while len(acknowledged) < 20:
            time.sleep(0.01)
        assert server.end() == 0
        for thread in threads:
            thread.join()
    assert refused <= {0, 503}
    with serving.Process(tmp_path) as server, Client(server.url) as client:
        assert client.describe("m")["version"] >= max(acknowledged)
        assert len(set(acknowledged)) == len(acknowledged)


def test_workers_answer_and_pass_edits_on(tmp_path: Path) -> None:
    path = tmp_path / "tokens.json"
    tokens = serving.token_file(path, acme=(), other=("read",))
    with serving.Process(tmp_path / "models", "--workers", "2", "--token-file", str(path)) as server:
        headers = {"authorization": f"Bearer {tokens['acme']}"}
        answered: set[int] = set()
        metrics: set[str] = set()
        until = time.monotonic() + 120
        version = 0
        while time.monotonic() < until and len(answered) < 3:  # each connection reaches one of three processes
            with Client(server.url, tokens["acme"]) as client:
                client.create("m", columns=1)
                version = client.learn("m", [["a"]], ["x"]).version
                assert client.predict("m", [["a"]], min_version=version) == ["x"]
            text = httpx.get(f"{server.url}/metrics", headers=headers).text
            metrics |= {line for line in text.splitlines() if line.startswith("process_start_time_seconds")}
            answered |= {line["pid"] for line in server.lines if line.get("ask") == "predict"}
            with Client(server.url, tokens["other"]) as stranger, pytest.raises(ServerError) as refused:
                stranger.learn("m", [["a"]], ["x"])
            assert refused.value.status == 403
        assert len(answered) == 3
        assert len(metrics) == 1  # always those of the writer
        assert version > 1
        assert server.end() == 0


def test_workers_pass_documents_and_refits_on(tmp_path: Path) -> None:
    visits = [["tea", "cup", "pot"], ["pen", "ink"], ["tea", "pot"]] * 9
    save(MemoryClassifier(Suffixes(1) + Bag(3), vote=Mixture()).fit_stream(visits, h=3, short="pad"), tmp_path / "m")
    with serving.Process(tmp_path / "models", "--workers", "1") as server:
        with Client(server.url) as client:
            client.upload("m", tmp_path / "m")
        answered: set[int] = set()
        until = time.monotonic() + 120
        while time.monotonic() < until and len(answered) < 2:  # each connection reaches one of two processes
            with Client(server.url) as client:
                client.learn_stream("m", [["ufo", "pig"]])
                version = client.forget_stream("m", [["ufo", "pig"]]).version
                assert client.predict("m", [["ufo"]], min_version=version) != ["pig"]
                version = client.refit("m").version
                assert client.describe("m")["examples"] == 63
            answered |= {line["pid"] for line in server.lines if line.get("ask") == "learn-stream"}
        assert len(answered) == 2
        assert server.end() == 0


def test_a_replica_answers_and_refuses_edits(tmp_path: Path) -> None:
    with serving.Process(tmp_path) as writer, Client(writer.url) as client:
        client.create("m")
        client.learn("m", [["a"]], ["x"])
        with serving.Process(tmp_path, "--replica") as replica, Client(replica.url, patience=0.0) as asking:
            version = client.learn("m", [["b"]], ["y"]).version
            assert asking.predict("m", [["b"]], min_version=version) == ["y"]
            with pytest.raises(ServerError) as refused:
                asking.learn("m", [["a"]], ["x"])
            assert refused.value.status == 503
            assert replica.end() == 0
        assert client.describe("m")["version"] == 2


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl")
def test_connections_are_encrypted(tmp_path: Path) -> None:
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    made = [
        "openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=localhost",
        "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", str(key), "-out", str(cert),
    ]  # fmt: skip
    subprocess.run(made, check=True, capture_output=True)
    options = ("--tls-cert", str(cert), "--tls-key", str(key), "--workers", "1")
    with serving.Process(tmp_path / "models", *options) as server:
        assert server.url.startswith("https://")
        with Client(server.url, verify=ssl.create_default_context(cafile=str(cert))) as client:
            client.create("m")
            assert client.learn("m", [["a"]], ["x"]).version == 1
        with Client(server.url, patience=0.0) as doubting, pytest.raises(ServerError) as unknown:
            doubting.models()
        assert unknown.value.code == "no_answer"
        assert server.end() == 0


def test_no_worker_is_left_after_a_crash(tmp_path: Path) -> None:
    server = serving.Process(tmp_path, "--workers", "1")
    port = int(server.url.rsplit(":", 1)[1])
    server.kill()
    until = time.monotonic() + 60
    while time.monotonic() < until:
        try:
            httpx.get(f"http://127.0.0.1:{port}/v2/health/live")
        except httpx.TransportError:
            break
        time.sleep(0.1)
    else:
        raise AssertionError("a worker still answers")


def test_wrong_usage_is_one_line(tmp_path: Path) -> None:
    command = forked.Command("hammemo", "serve", str(tmp_path), "--host", "0.0.0.0")
    said = command.communicate()[1]
    assert command.poll() in (1, 2)
    assert said.startswith("Error: ")
    assert len(said.splitlines()) == 1


def test_every_edit_is_applied_once(tmp_path: Path) -> None:
    found = service_http_edits.run(400, 0, 16, tmp_path)
    assert (found["lost"], found["versions once"], found["bytes equal"], found["exit code"]) == (0, True, True, 0)
    assert found["repeated"] > 40


def test_kill_9_loses_nothing(tmp_path: Path) -> None:
    found = service_http_edits.run(600, 2, 4, tmp_path)
    assert (found["lost"], found["versions once"], found["bytes equal"], found["exit code"]) == (0, True, True, 0)
    assert found["kills"] == 2


def test_malformed_requests_break_nothing(tmp_path: Path) -> None:
    found = service_malformed.run(1_500, 1, tmp_path)
    assert (found["wrong"], found["failures"], found["alive"]) == (0, [], True)
    assert {400, 404, 415, 422} & set(found["statuses"])


def test_every_answer_is_that_of_its_version(tmp_path: Path) -> None:
    found = service_soak.run(3, 0, tmp_path)
    assert found["wrong"] == 0
    assert found["answers"] > 10
