"""How much a tenant may store: models, labels, examples, bytes."""

from __future__ import annotations

import gc
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import httpx
import numpy as np
import pytest

import running_servers as serving
from hammemo import MemoryClassifier, save
from hammemo.client import Client, ServerError
from hammemo_server.edits.limits import Limits
from hammemo_server.edits.operations import Edit, QuotaReached
from hammemo_server.edits.quotas import most_allowed
from hammemo_server.models.host import Host
from places import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def refused(ask: Callable[[], object]) -> str:
    """Return what a refusal says that a quota is reached."""
    with pytest.raises(ServerError) as error:
        ask()
    assert (error.value.status, error.value.code) == (507, "quota_reached")
    return str(error.value)


def test_a_tenant_stores_no_more_than_its_quota(tmp_path: Path) -> None:
    tokens = serving.token_file(tmp_path / "tokens.json", full=(), other=())
    limits = Limits(models=2, stored_labels=3, stored_examples=5, stored_bytes=0)
    save(MemoryClassifier().fit([["a"], ["b"]] * 2, ["x", "y"] * 2), tmp_path / "model")
    with (
        serving.in_thread(tmp_path / "models", tmp_path / "tokens.json", limits) as server,
        Client(server.url, tokens["full"]) as client,
        Client(server.url, tokens["other"]) as other,
    ):
        for name in ("m", "n"):
            client.create(name, columns=1)
        assert "2 models" in refused(lambda: client.create("o"))
        client.learn("m", [["a"], ["b"]], ["x", "y"], op="first")
        client.learn("n", [["a"], ["b"]], ["x", "x"])
        assert "3 labels" in refused(lambda: client.learn("m", [["a"]], ["z"]))
        assert "4 examples" in refused(lambda: client.learn("m", [["a"], ["b"]], ["x", "y"]))
        client.learn("m", [["a"]], ["x"])
        assert "5 examples" in refused(lambda: client.learn("m", [["a"]], ["x"]))
        assert client.describe("m")["version"] == 2
        assert client.learn("m", [["a"], ["b"]], ["x", "y"], op="first").status == "repeated"  # it adds nothing
        quota = client.describe("m")["quota"]
        assert quota["examples"] == {"used": 5, "most": 5}
        assert quota["labels"] == {"used": 3, "most": 3}
        assert quota["models"] == {"used": 2, "most": 2}
        assert quota["bytes"]["most"] is None
        assert quota["bytes"]["used"] > client.describe("m")["bytes"] > 0
        figures = httpx.get(f"{server.url}/metrics", headers={"authorization": f"Bearer {tokens['full']}"}).text
        assert 'hammemo_stored{what="examples"} 5.0' in figures
        assert 'hammemo_quota{what="labels"} 3.0' in figures
        assert 'hammemo_quota{what="bytes"}' not in figures
        other.upload("m", tmp_path / "model")  # of another tenant, who has four examples now
        assert "2 labels and may store 3; this adds 2" in refused(lambda: other.upload("n", tmp_path / "model"))
        client.forget("m", [["a"]], ["x"])
        client.learn("m", [["b"]], ["y"])
        client.delete("n")
        client.learn("m", [["a"]], ["z"])


def test_bytes_are_those_of_snapshots_and_logs(tmp_path: Path) -> None:
    learn, forget = Edit("1", "learn", [["a"]], ["x"]), Edit("3", "forget", [["a"]], ["x"])
    with Host(tmp_path) as host:
        model = host.create("acme", "m", {"columns": 1})
        model.edit(learn).result()
        before = model.usage().bytes
        model.snapshot()
        assert (tmp_path / "acme" / "m" / "model.safetensors").stat().st_size < model.usage().bytes
    with Host(tmp_path, limits=Limits(stored_bytes=before)) as host:
        model = host.get("acme", "m")
        with pytest.raises(QuotaReached, match="bytes"):
            model.edit(Edit("2", "learn", [["a" * 4_000]] * 1_000, ["x"] * 1_000)).result()
        assert model.edit(learn).result().status == "repeated"
        assert model.edit(forget).result().status == "applied"  # what is forgotten is never refused


def test_models_that_learn_at_once_stay_within_it_together(tmp_path: Path) -> None:
    with Host(tmp_path, limits=Limits(stored_examples=25)) as host, ThreadPoolExecutor(4) as threads:
        models = [host.create("acme", name, {"columns": 1}) for name in "abc"]
        asked = [(model, Edit(str(i), "learn", [["a"]], ["x"])) for i in range(20) for model in models]
        futures = list(threads.map(lambda one: one[0].edit(one[1]), asked))
        answers = [future.exception() for future in futures]
        assert answers.count(None) == 25
        assert {type(answer) for answer in answers} == {type(None), QuotaReached}
        assert host.usage("acme").examples == 25


HASHED = {"columns": 1, "memory": {"class": "Hashed", "params": {"buckets": 2**20, "reserved": 16}}}


@pytest.mark.parametrize("columns", [1, None])
def test_a_sketch_is_counted_before_it_is_made(tmp_path: Path, columns: int | None) -> None:
    """A small edit with 64 labels would make a table of 2^26 counts."""
    labels: list[Any] = [f"l{i}" for i in range(64)]
    many = Edit("2", "learn", [[label] for label in labels], labels)
    with Host(tmp_path, limits=Limits(stored_bytes=16 * 2**20)) as host:
        model = host.create("acme", "m", {**HASHED, "columns": columns})
        if columns:
            model.edit(Edit("1", "learn", [["a"]], ["x"])).result()
            assert model.usage().bytes > 2**20
        before = _memory()
        with pytest.raises(QuotaReached, match="bytes"):
            model.edit(many).result()
        assert _memory() - before < 2**24
    with Host(tmp_path, limits=Limits(stored_bytes=0)) as host:
        assert host.get("acme", "m").edit(many).result().status == "applied"
        assert host.get("acme", "m").usage().bytes > 64 * 2**20


def _memory() -> int:
    """Return the bytes of all arrays that can be traced."""
    gc.collect()
    return sum(found.nbytes for found in gc.get_objects() if isinstance(found, np.ndarray) and found.base is None)


def test_models_and_lists_are_counted_together(tmp_path: Path) -> None:
    limits = Limits(stored_bytes=8 * 2**20)
    save(MemoryClassifier().fit([["a"]], ["x"]), tmp_path / "model")
    with Host(tmp_path / "models", limits=limits) as host:
        host.create("acme", "m", {"columns": 1})
        free = limits.stored_bytes - host.usage("acme").bytes
        items = [f"{i}" + "x" * 4_000 for i in range(free // 2 // 4_200)]
        host.set_list("acme", "all", items)  # its file, and as much in memory
        assert host.usage("acme").bytes > limits.stored_bytes * 0.8
        host.set_list("acme", "all", items[:-1])  # it takes the place of the old one
        with pytest.raises(QuotaReached, match="bytes"):
            host.set_list("acme", "more", items[: len(items) // 2])
        assert set(host.lists("acme")) == {"all"}
        with pytest.raises(QuotaReached, match="bytes"):
            host.upload("acme", "n", tmp_path / "model")
        with pytest.raises(QuotaReached, match="bytes"):
            host.create("acme", "n", {"columns": 1})
        assert host.create("acme", "m", {"columns": 1}) is host.get("acme", "m")  # which is there already
        assert host.names("acme") == ["m"]
        host.create("other", "n", {"columns": 1})
    with Host(tmp_path / "models", limits=limits) as host:  # they are counted after a restart, too
        host.get("acme", "m")
        with pytest.raises(QuotaReached, match="bytes"):
            host.set_list("acme", "more", items[: len(items) // 2])
        host.delete_list("acme", "all")
        host.set_list("acme", "more", items[: len(items) // 2])


def test_a_body_that_finds_no_room_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving.in_thread(tmp_path, limits=Limits(stored_bytes=2**20)) as server, Client(server.url) as client:
        monkeypatch.setattr("hammemo_server.http.name_operations.read_body", None)
        assert "bytes" in refused(lambda: client.set_list("l", ["x" * 4_000] * 500))
        monkeypatch.setattr("hammemo_server.http.model_operations.pieces", None)
        headers = {"content-type": "application/octet-stream"}
        sent = httpx.put(f"{server.url}/v1/models/m/file", content=bytes(2**21), headers=headers, timeout=60)
        assert (sent.status_code, sent.json()["error"]["code"]) == (507, "quota_reached")


def test_the_defaults_bound_a_tenant(tmp_path: Path) -> None:
    """A server that is told nothing has quotas; the guide says which."""
    from hammemo_server.commands.serve import LimitOptions

    most, told = most_allowed(Limits()), LimitOptions().limits
    assert tuple(most) == tuple(told[name] for name in ("stored_labels", "stored_examples", "stored_bytes"))
    assert all(most)
    text = (ROOT / "docs" / "serving.md").read_text("utf-8")
    for option, value in (("--max-labels", f"{most.labels:,}"), ("--max-examples", f"{most.examples:,}")):
        assert f"`{option}`, {value}" in text
    assert f"`--max-stored`, {most.bytes // 2**30} GiB" in text
