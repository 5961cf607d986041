"""Aliases: names that stand for models in questions, and are switched without a question that has no answer."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import httpx
import pytest

import running_servers as serving
from hammemo.client import Client, ServerError
from hammemo_server.edits.limits import Limits
from hammemo_server.edits.operations import Edit, Exists, Malformed, NoSuchModel, QuotaReached, Unavailable
from hammemo_server.models.backups import back_up, restore
from hammemo_server.models.host import Host
from hammemo_server.store.sqlite_log import NAMED
from postgres_server import postgres
from service_hosts import hosts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

__all__ = ["hosts", "postgres"]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[serving.Running]:
    with serving.in_thread(tmp_path_factory.mktemp("models")) as running, Client(running.url) as client:
        for name, label in (("blue", "x"), ("green", "y")):
            client.create(name, columns=1)
            client.learn(name, [["a"]], [label], op="first")
        yield running


def test_a_question_follows_an_alias_and_an_edit_does_not(server: serving.Running) -> None:
    with Client(server.url) as client:
        client.set_alias("live", "blue")
        assert client.aliases() == {"live": "blue"}
        assert client.models() == ["blue", "green"]
        assert client.predict("live", [["a"]]) == ["x"]
        assert client.describe("live")["name"] == "blue"
        answer = httpx.post(f"{server.url}/v1/models/live/predict", json={"rows": [["a"]]})
        assert answer.headers["x-hammemo-model"] == "blue"
        assert httpx.get(f"{server.url}/v2/models/live/ready").json()["ready"]
        with pytest.raises(ServerError, match="no model 'live'"):
            client.learn("live", [["a"]], ["z"])
        client.set_alias("live", "green")
        assert client.predict("live", [["a"]]) == ["y"]
        client.delete_alias("live")
        with pytest.raises(ServerError, match="no model 'live'"):
            client.predict("live", [["a"]])
        with pytest.raises(ServerError, match="no alias 'live'"):
            client.delete_alias("live")


def test_no_question_is_without_an_answer_while_models_are_switched(server: serving.Running) -> None:
    answers: set[str] = set()
    ended = threading.Event()

    def ask() -> None:
        with Client(server.url) as client:
            while not ended.is_set():
                answers.update(client.predict("switched", [["a"]]))

    with Client(server.url) as client:
        client.set_alias("switched", "blue")
        asking = [threading.Thread(target=ask) for _ in range(3)]
        for thread in asking:
            thread.start()
        for turn in range(30):
            client.set_alias("switched", ("green", "blue")[turn % 2])
        ended.set()
        for thread in asking:
            thread.join()
        client.delete_alias("switched")
    assert answers <= {"x", "y"}  # and no thread has raised: an exception in one is an error of the test


def test_names_are_not_taken_twice(server: serving.Running) -> None:
    with Client(server.url) as client:
        client.set_alias("taken", "blue")
        for wrong in (
            lambda: client.create("taken"),
            lambda: client.set_alias("green", "blue"),
            lambda: client.delete("blue"),
        ):
            with pytest.raises(ServerError) as caught:
                wrong()
            assert caught.value.status == 409
        with pytest.raises(ServerError, match="no model 'none'"):
            client.set_alias("other", "none")
        assert client.aliases() == {"taken": "blue"}
        client.delete_alias("taken")


def test_aliases_are_kept(hosts: Callable[..., Host]) -> None:
    with hosts() as host:
        for name in ("one", "two"):
            host.create("shop", name, {"columns": 1}).edit(Edit("1", "learn", [["a"]], [name])).result()
        host.set_alias("shop", "live", "one")
        host.set_alias("shop", "next", "two")
        host.set_alias("shop", "live", "two")
        assert host.aliases("shop") == {"live": "two", "next": "two"}
        assert host.aliases("other") == {}
        host.delete_alias("shop", "next")
        with pytest.raises(Exists, match="stands for the model 'two'"):
            host.delete("shop", "two")
        with pytest.raises(NoSuchModel):
            host.set_alias("other", "live", "two")
        with pytest.raises(Malformed):
            host.set_alias("shop", "../live", "two")
    with hosts(replica=True) as host:
        assert host.aliases("shop") == {"live": "two"}
        with pytest.raises(Unavailable, match="only answers"):
            host.set_alias("shop", "live", "one")
    with hosts() as host:
        host.delete_alias("shop", "live")


def test_a_backup_is_not_restored_under_an_alias(tmp_path: Path) -> None:
    with Host(tmp_path) as host:
        host.create("shop", "one", {"columns": 1})
        host.set_alias("shop", "live", "one")
        written = back_up(host.store, "shop", "one", tmp_path / "copies")
        with pytest.raises(Exists, match="stands for another model"):
            restore(host.store, written.path, to=("shop", "live"))


def test_a_damaged_file_of_names_is_said_to_be(tmp_path: Path) -> None:
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / NAMED).write_bytes(b"no database" * 100)
    with Host(tmp_path) as host, pytest.raises(Unavailable, match="not a database"):
        host.aliases("shop")


def test_aliases_are_limited(tmp_path: Path) -> None:
    with Host(tmp_path, limits=Limits(models=2)) as host:
        host.create("shop", "one", {"columns": 1})
        for alias in ("a", "b", "b"):
            host.set_alias("shop", alias, "one")
        with pytest.raises(QuotaReached):
            host.set_alias("shop", "c", "one")
