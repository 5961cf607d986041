"""What a server says of itself, and what it refuses rather than pretend."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
from typing import TYPE_CHECKING, Any

import httpx
import msgspec
import pytest

import running_servers as serving
from hammemo.client import Client
from hammemo.files.locks import LockedError
from hammemo.receipts.keys import new_key_file
from hammemo_server.edits.operations import Acknowledgement, Edit, Unavailable
from hammemo_server.http.admission import Strangers
from hammemo_server.http.app import make_app
from hammemo_server.http.server import ServerSettings, _alone, _remove_old_sockets
from hammemo_server.models.host import Host
from hammemo_server.models.waiting import Upkeep
from hammemo_server.models.writer import WrittenModel
from hammemo_server.store import base_log
from hammemo_server.store.log import LogError
from pace import wait_until
from postgres_server import postgres
from service_hosts import done, hosts

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


__all__ = ["hosts", "postgres"]


def learn(op: str, token: str = "a") -> Edit:
    return Edit(op, "learn", [[token]], ["x"])


# The folder


def test_nothing_is_acknowledged_into_a_folder_that_was_deleted(tmp_path: Path) -> None:
    with Host(tmp_path / "models") as host:
        model = host.create("t", "m", {"columns": 1})
        done(model, learn("1"))
        shutil.rmtree(tmp_path / "models" / "t" / "m")
        for op in ("2", "3"):
            with pytest.raises(Unavailable):
                done(model, learn(op))
        assert not model.can_edit
        assert model.answering()[0].predict([["a"]]) == ["x"]  # it still answers
        with pytest.raises(Unavailable):
            model.snapshot()
    assert not (tmp_path / "models" / "t" / "m").exists()


def test_a_folder_that_was_replaced_is_not_written(tmp_path: Path) -> None:
    folder = tmp_path / "models" / "t" / "m"
    with Host(tmp_path / "models") as host:
        model = host.create("t", "m", {"columns": 1})
        done(model, learn("1"))
        model.snapshot()
        shutil.copytree(folder, tmp_path / "copy")
        done(model, learn("2"))
        folder.rename(tmp_path / "old")
        shutil.copytree(tmp_path / "copy", folder)
        before = {path.name: path.read_bytes() for path in folder.iterdir()}
        with pytest.raises(Unavailable):
            done(model, learn("3"))
        with pytest.raises(Unavailable):
            model.snapshot()
        assert wait_until(lambda: not model.can_edit, 60)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    with Host(tmp_path / "models") as host:
        assert host.get("t", "m").version == 1
    shutil.rmtree(folder)
    (tmp_path / "old").rename(folder)
    with Host(tmp_path / "models") as host:  # what was refused is in doubt, what was acknowledged is there
        assert done(host.get("t", "m"), learn("2")) == Acknowledgement(2, "repeated")


def test_an_idle_writer_notices_and_goes_on_when_the_folder_is_back(tmp_path: Path) -> None:
    with Host(tmp_path / "models") as host:
        model = host.create("t", "m", {"columns": 1})
        (tmp_path / "models" / "t" / "m").rename(tmp_path / "away")
        assert wait_until(lambda: not model.can_edit, 60)
        (tmp_path / "away").rename(tmp_path / "models" / "t" / "m")
        assert wait_until(lambda: model.can_edit, 60)
        assert done(model, learn("1")).version == 1


def test_snapshots_are_for_their_owner_alone(tmp_path: Path) -> None:
    with Host(tmp_path / "models") as host:
        model = host.create("t", "m", {"columns": 1})
        for op in "12":
            done(model, learn(op))
            model.snapshot()
            assert (tmp_path / "models" / "t" / "m" / "model.safetensors").stat().st_mode & 0o777 == 0o600


# The key file


def test_a_model_without_its_key_file_answers_and_says_what_is_lost(hosts: Callable[..., Host], tmp_path: Path) -> None:
    new_key_file(tmp_path / "keys")
    host = hosts(keys=tmp_path / "keys", upkeep=Upkeep(at_close=False))
    model = host.create("t", "m", {"columns": 1, "subjects": "required"})
    for op in "123":
        done(model, Edit(op, "learn", [["a"]], ["x"], subjects=["s"]))
        if op == "2":
            model.snapshot()
    in_folder = (tmp_path / "models" / "t" / "m").exists()
    host.close()
    for replica in (False, True):
        host = hosts(replica=replica)
        if not in_folder:  # all of it is encrypted
            with pytest.raises(Unavailable, match="lost"):
                host.get("t", "m")
            continue
        model = host.get("t", "m")
        assert model.answering()[0].predict([["a"]]) == ["x"]
        assert (model.version, model.can_edit) == (2, False)
        about = model.describe()
        assert (about["journal"], about["unreadable_edits"], about["examples"]) == ("lost", 1, 2)
        with pytest.raises(Unavailable, match="1 later edits cannot be read"):
            model.edit(Edit("4", "learn", [["a"]], ["x"], subjects=["s"]))
        with pytest.raises(Unavailable):
            model.erasure("5")
        host.close()
    model = hosts(keys=tmp_path / "keys").get("t", "m")  # nothing was changed
    assert (model.version, done(model, Edit("3", "learn", [["a"]], ["x"], subjects=["s"])).status) == (3, "repeated")


# Time


def test_no_wall_clock_lets_an_old_operation_in_again(hosts: Callable[..., Host], monkeypatch: Any) -> None:
    host = hosts(upkeep=Upkeep(retention=3600.0))
    model = host.create("t", "m", {"columns": 1})
    done(model, learn("1"))
    now = time.time
    monkeypatch.setattr(time, "time", lambda: now() + 8 * 86_400)
    done(model, learn("2", "b"))
    model.snapshot()
    monkeypatch.setattr(time, "time", now)
    assert done(model, learn("1")) == Acknowledgement(1, "repeated")
    host.close()
    model = hosts(upkeep=Upkeep(retention=3600.0)).get("t", "m")
    assert done(model, learn("1")).status == "repeated"


def test_ids_go_after_that_time_of_running(hosts: Callable[..., Host], monkeypatch: Any) -> None:
    class Later:
        hours = 0.0

    running = base_log.Log._running
    monkeypatch.setattr(base_log.Log, "_running", lambda log: running(log) + 3600 * Later.hours)
    monkeypatch.setattr("hammemo_server.models.writer._UPKEEP_SECONDS", 0.0)
    host = hosts(upkeep=Upkeep(retention=5400.0))
    model = host.create("t", "m", {"columns": 1})
    done(model, learn("1"))
    model.snapshot()
    Later.hours = 1.0
    assert done(model, learn("1")).status == "repeated"
    done(model, learn("2", "b"))  # what has run is stored with it
    host.close()
    Later.hours = 0.9
    host = hosts(upkeep=Upkeep(retention=5400.0))
    model = host.get("t", "m")
    log: Any = model._log
    assert wait_until(lambda: not log.find_ids(["1"]), 60)  # by a writer without work
    assert done(model, learn("1")) == Acknowledgement(3, "applied")


# Probes, metrics and answers


def status(server: serving.Running, path: str, token: str | None = None) -> int:
    headers = {} if token is None else {"authorization": f"Bearer {token}"}
    return httpx.get(f"{server.url}{path}", headers=headers, timeout=60).status_code


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hammemo_server.models.health._KEPT_SECONDS", -1.0)


@pytest.mark.usefixtures("at_once")
def test_probes_tell_what_can_be_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "models"
    with serving.in_thread(folder) as server:
        assert (status(server, "/readyz"), status(server, "/readyz/edits")) == (200, 200)  # no model yet
        model = server.service.host.create("default", "m", {"columns": 1})
        done(model, learn("1"))
        with monkeypatch.context() as patched:

            def full(_: int) -> None:
                raise OSError(errno.ENOSPC, "No space left on device")

            patched.setattr(os, "fsync", full)
            assert (status(server, "/readyz"), status(server, "/readyz/edits")) == (200, 503)
        assert status(server, "/readyz/edits") == 200
        assert not list(folder.glob(".probe-*"))
        folder.rename(tmp_path / "away")
        folder.mkdir()
        for path in ("/readyz", "/readyz/edits", "/v2/health/ready"):
            assert status(server, path) == 503
        folder.rmdir()
        (tmp_path / "away").rename(folder)
        assert wait_until(lambda: status(server, "/readyz/edits") == 200, 60)
        server.service.draining = True
        assert (status(server, "/readyz"), status(server, "/readyz/edits")) == (503, 503)


@pytest.mark.usefixtures("at_once")
def test_probes_name_the_model_that_cannot_be_written(tmp_path: Path) -> None:
    """To those who can reach the health port; strangers learn only how many there are."""
    tokens = serving.token_file(tmp_path / "tokens.json", acme=())
    for file, is_named in ((None, True), (tmp_path / "tokens.json", False)):
        with serving.in_thread(tmp_path / f"models-{is_named}", file) as server:
            host = server.service.host
            broken, whole = (host.create("acme", name, {"columns": 1}) for name in ("broken", "whole"))
            assert isinstance(broken, WrittenModel)
            broken._must_recover = True
            broken._log.reopen = broken._log.renew_lease = failing  # type: ignore[method-assign]
            answer = httpx.get(f"{server.url}/readyz/edits", timeout=60)
            assert answer.status_code == 503
            assert "1 open models" in answer.text
            assert ("acme/broken" in answer.text) == is_named
            assert "whole" not in answer.text
            assert whole.can_edit
            assert status(server, "/readyz") == 200
            private = make_app(server.service, frozenset(), loopback=True, probes=True)
            transport = httpx.ASGITransport(private)

            async def on_health_port(transport: httpx.ASGITransport = transport) -> str:
                async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
                    return (await client.get("/readyz/edits")).text

            assert "acme/broken" in asyncio.run(on_health_port())
            assert status(server, "/v1/models", tokens["acme"]) == 200


def failing(*_: object) -> None:
    raise LogError("as if")


def test_probes_do_not_wait_for_a_disk_that_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    go_on = threading.Event()
    monkeypatch.setattr("hammemo_server.http.probes._LATE_SECONDS", 0.2)
    with serving.in_thread(tmp_path / "models") as server:
        done(server.service.host.create("default", "m", {"columns": 1}), learn("1"))
        for name in ("is_there", "check_writable"):
            monkeypatch.setattr(server.service.host.store, name, go_on.wait)
        try:
            for _ in range(20):  # more than there are threads
                assert (status(server, "/readyz"), status(server, "/readyz/edits")) == (200, 503)
            assert not go_on.is_set()
        finally:
            go_on.set()


def test_figures_of_deleted_models_go(tmp_path: Path) -> None:
    with serving.in_thread(tmp_path) as server, Client(server.url) as client:
        for name in ("kept", "deleted"):
            client.create(name, columns=1)
            client.learn(name, [["a"]], ["x"])
        client.delete("deleted")
        figures = httpx.get(f"{server.url}/metrics", timeout=60).text
        assert 'hammemo_edits_total{kind="learn",model="kept",status="applied"} 1.0' in figures
        assert "deleted" not in figures
        client.create("deleted", columns=1)
        client.learn("deleted", [["a"]], ["x"])
        figures = httpx.get(f"{server.url}/metrics", timeout=60).text
        assert 'hammemo_edits_total{kind="learn",model="deleted",status="applied"} 1.0' in figures


@pytest.mark.usefixtures("at_once")
def test_a_damaged_model_is_a_metric_and_tells_no_path(tmp_path: Path) -> None:
    tokens = serving.token_file(tmp_path / "tokens.json", t=())
    metrics = serving.token_file(tmp_path / "metrics.json", t=("metrics",))
    with Host(tmp_path / "models") as host:
        for name in ("good", "bad"):
            done(host.create("t", name, {"columns": 1}), learn("1"))
    (tmp_path / "models" / "t" / "bad" / "model.safetensors").write_bytes(b"damaged")
    for file, token in ((tmp_path / "tokens.json", tokens["t"]), (tmp_path / "metrics.json", metrics["t"])):
        with serving.in_thread(tmp_path / "models", file) as server:
            headers = {"authorization": f"Bearer {token}"}
            text = httpx.get(f"{server.url}/metrics", headers=headers, timeout=60).text
            assert 'hammemo_model_is_open{model="good"} 1.0' in text
            assert 'hammemo_model_is_open{model="bad"} 0.0' in text
            assert 'hammemo_model_can_edit{model="bad"} 0.0' in text
            assert "hammemo_refused_tokens_total 0.0" in text
            assert status(server, "/readyz") == 200
            answer = httpx.get(f"{server.url}/v1/models/bad", headers=headers, timeout=60)
            if file.name == "metrics.json":
                assert answer.status_code == 403
                continue
            assert answer.status_code == 503
            assert str(tmp_path) not in answer.text
            assert status(server, "/v1/models", "hm_wrong") == 401
            with Host(tmp_path / "models") as other:
                done(other.create("t", "elsewhere", {"columns": 1}), learn("1"))
                answer = httpx.get(f"{server.url}/v1/models/elsewhere", headers=headers, timeout=60)
                assert answer.status_code == 503
                for secret in (str(tmp_path), str(os.getpid()), socket.gethostname()):
                    assert secret not in answer.text
            server.service._strangers = Strangers(0.001)
            assert [status(server, "/v1/models") for _ in range(3)] == [401, 429, 429]
            assert status(server, "/v1/models", token) == 200
            text = httpx.get(f"{server.url}/metrics", headers=headers, timeout=60).text
            assert "hammemo_refused_tokens_total 4.0" in text


def test_edits_are_not_ready_without_postgres(hosts: Callable[..., Host]) -> None:
    host = hosts()
    assert (host.health.answers.value().result(), host.health.unwritable.value().result()) == (True, [])
    assert hosts(replica=True).health.unwritable.value().result() is None
    store: Any = host.store
    if hasattr(store, "_address"):
        other = hosts()
        lost: Any = other.store
        lost._address = "postgresql://127.0.0.1:1/nothing"
        assert (other.health.answers.value().result(), other.health.unwritable.value().result()) == (
            False,
            None,
        )  # nothing is open yet


def test_a_request_with_two_lengths_ends_its_connection(tmp_path: Path) -> None:
    with serving.in_thread(tmp_path) as server, socket.create_connection(("127.0.0.1", server.port), 60) as client:
        head = "POST /v1/models/m/predict HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
        body = "0\r\n\r\nGET /v1/models HTTP/1.1\r\nhost: localhost\r\n\r\n"
        lengths = f"content-length: {len(body)}\r\ntransfer-encoding: chunked\r\n\r\n"
        client.sendall((head + lengths + body).encode())
        answer = b""
        while piece := client.recv(4096):
            answer += piece
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert answer.count(b"HTTP/1.1") == 1


# Processes

posix = pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")


@posix
def test_one_server_writes_a_folder_survives_a_hangup_and_logs_what_fails(tmp_path: Path) -> None:
    settings = ServerSettings(str(tmp_path / "models"))
    with serving.Process(tmp_path / "models") as first:
        with (
            pytest.raises(LockedError, match=rf"is served by process {first.pid} on .*Stop that one"),
            _alone(settings),
        ):
            pass
        with _alone(msgspec.structs.replace(settings, replica=True)):  # replicas write nothing
            pass
        os.kill(first.pid, signal.SIGHUP)
        assert wait_until(lambda: any(line.get("event") == "hangup" for line in first.lines), 60)
        httpx.put(f"{first.url}/v1/models/m", json={"columns": 1}, timeout=60).raise_for_status()
        shutil.rmtree(tmp_path / "models")
        assert wait_until(lambda: any(line.get("event") == "core" for line in first.lines), 60)
        (line,) = [line for line in first.lines if line.get("event") == "core"][:1]
        assert (line["tenant"], line["model"], line["level"], "time" in line) == ("default", "m", "error", True)
        assert "deleted" in line["text"]
        assert wait_until(lambda: httpx.get(f"{first.url}/readyz", timeout=60).status_code == 503, 60)
    with _alone(settings):
        pass


@posix
@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl")
def test_a_hangup_reads_a_new_certificate(tmp_path: Path) -> None:
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"

    def make() -> str:
        command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
        command += ["-days", "1", "-subj", "/CN=localhost", "-keyout", str(key), "-out", str(cert)]
        subprocess.run(command, check=True, capture_output=True)
        return ssl.DER_cert_to_PEM_cert(ssl.PEM_cert_to_DER_cert(cert.read_text()))

    first = make()
    with serving.Process(tmp_path / "models", "--tls-cert", str(cert), "--tls-key", str(key)) as server:
        place = ("127.0.0.1", int(server.url.rpartition(":")[2]))
        assert ssl.get_server_certificate(place) == first
        cert.write_text("no certificate")
        os.kill(server.pid, signal.SIGHUP)
        assert wait_until(lambda: any(line.get("event") == "certificate_not_read" for line in server.lines), 60)
        assert ssl.get_server_certificate(place) == first
        second = make()
        os.kill(server.pid, signal.SIGHUP)
        assert wait_until(lambda: ssl.get_server_certificate(place) == second, 60)


@posix
def test_private_folders_of_killed_writers_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    for name in ("killed", "alive", "new"):
        (tmp_path / f"hammemo-serve-{name}").mkdir()
    with socket.socket(socket.AF_UNIX) as alive:
        with socket.socket(socket.AF_UNIX) as killed:
            killed.bind(str(tmp_path / "hammemo-serve-killed" / "writer"))
        alive.bind(str(tmp_path / "hammemo-serve-alive" / "writer"))
        alive.listen()
        _remove_old_sockets()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["hammemo-serve-alive", "hammemo-serve-new"]
