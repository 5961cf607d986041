"""How much a tenant may store: models, labels, examples, bytes."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import httpx
import pytest

import running_servers as serving
from hammemo import MemoryClassifier, save
from hammemo.client import Client, ServerError
from hammemo_server.edits.limits import Limits
from hammemo_server.edits.operations import Edit, QuotaReached
from hammemo_server.models.host import Host

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
