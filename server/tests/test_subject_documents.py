"""Models of documents that are made on a server, and whose each document is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from hammemo import MemoryClassifier
from hammemo.client import Client, ServerError
from hammemo.receipts.keys import new_key_file
from hammemo.receipts.receipt import SignedReceipt
from hammemo.receipts.verifying import Result, check_documents
from hammemo.tokens.vocabulary import NO_TOKEN
from hammemo_server.edits.operations import Acknowledgement, Edit, Malformed, NotStored
from hammemo_server.models.backups import back_up, restore
from hammemo_server.models.host import Host
from hammemo_server.models.waiting import Upkeep
from pace import patience
from postgres_server import postgres
from running_servers import in_thread
from service_hosts import await_erasure, done, hosts
from visit_models import list_contents, list_published, visits

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from hammemo_server.models.served import ServedModel

__all__ = ["hosts", "postgres"]

PAD: dict[str, Any] = {"documents": {"h": 3, "short": "pad"}, "seed": 1}
DROP: dict[str, Any] = {"documents": {"h": 2}, "seed": 1}


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    new_key_file(tmp_path / "keys.json")
    return tmp_path / "keys.json"


def learn(op: str, documents: list[list[Any]], subjects: list[str], kind: Any = "learn") -> Edit:
    return Edit(op, kind, documents=documents, subjects=subjects)


def digest(model: ServedModel) -> Any:
    return model.describe(digest=True)["digest"]


def named(model: ServedModel) -> MemoryClassifier:
    found = model.with_names()
    assert found is not None
    return found


@pytest.mark.parametrize("settings", [PAD, DROP])
def test_a_visitor_is_erased_with_all_visits(
    hosts: Callable[..., Host], keys: Path, settings: dict[str, Any], tmp_path: Path
) -> None:
    """Visits of several visitors in one edit, too short ones among them, after a restart and from a replica."""
    all_visits, host = visits(90), hosts(keys=keys, upkeep=Upkeep(at_close=False))
    subjects = [f"s{i % 7}" for i in range(90)]
    model = host.create("t", "m", {**settings, "subjects": "required"})
    for i in range(0, 60, 10):
        done(model, learn(f"{i}", all_visits[i : i + 10], subjects[i : i + 10]))
    done(model, Edit("r", "refit"))
    done(model, learn("60", all_visits[60:], subjects[60:]))
    assert done(model, learn("60", all_visits[60:], subjects[60:])) == Acknowledgement(8, "repeated")
    longest = max(range(0, 90, 7), key=lambda i: len(all_visits[i]))
    with pytest.raises(NotStored):
        done(model, learn("f", [all_visits[longest]], ["s1"], "forget"))
    done(model, learn("f", [all_visits[longest]], ["s0"], "forget"))
    before = digest(model)
    host.close()
    host = hosts(keys=keys)
    model, followed = host.get("t", "m"), hosts(keys=keys, replica=True).get("t", "m")
    assert digest(model) == before
    written = back_up(host.store, "t", "m", tmp_path / "backups", keys=keys)
    n_windows = int(named(model).memory_.label_counts.sum())
    version = done(model, Edit("e", "forget_subject", subjects=["s1"])).version + 1
    receipt = await_erasure(model, "e").receipt
    assert (receipt.rows, receipt.version_after) == (n_windows - int(named(model).memory_.label_counts.sum()), version)
    rest = [visit for i, visit in enumerate(all_visits) if i % 7 != 1 and i != longest]
    assert check_documents(named(model), rest).result is Result.PROVEN
    assert followed.answering(version, wait=patience(60))[0].digest() == digest(model)
    restore(host.store, written.path, keys=keys, to=("t", "copy"))
    assert digest(host.get("t", "copy")) == digest(model)
    for i in range(7):
        if i != 1:
            done(model, Edit(f"e{i}", "forget_subject", subjects=[f"s{i}"]))
            await_erasure(model, f"e{i}")
    assert check_documents(named(model), []).result is Result.PROVEN
    done(model, learn("again", rest, ["s"] * len(rest)))
    done(model, Edit("r2", "refit"))
    assert check_documents(named(model), rest).result is Result.PROVEN


def test_a_visitor_of_whom_nothing_was_learnt_is_erased(tmp_path: Path, keys: Path) -> None:
    with Host(tmp_path / "models", keys=keys) as host:
        for name, settings, short in (("pad", PAD, [NO_TOKEN, NO_TOKEN]), ("drop", DROP, [1, 2])):
            model = host.create("t", name, {**settings, "subjects": "required"})
            done(model, learn("1", [short, [1, 2, 3, 4], short], ["a", "b", "b"]))
            done(model, Edit("e", "forget_subject", subjects=["a"]))
            assert await_erasure(model, "e").receipt.rows == 0
            done(model, Edit("f", "forget_subject", subjects=["b"]))
            assert await_erasure(model, "f").receipt.rows == (4 if name == "pad" else 2)


def test_without_subjects_a_refit_makes_what_fit_stream_makes(tmp_path: Path) -> None:
    with Host(tmp_path / "models") as host:
        model = host.create("t", "m", {**PAD, "keep": "auto"})
        for i in range(0, 300, 100):
            done(model, Edit(f"{i}", "learn", documents=visits(300)[i : i + 100]))
        done(model, Edit("r", "refit"))
        twin = MemoryClassifier(memory="exact", random_state=1).fit_stream(visits(300), h=3, short="pad")
        assert list_published(model) == list_contents(twin)
        assert check_documents(named(model), visits(300)).result is Result.PROVEN


@pytest.mark.parametrize(
    "wrong",
    [
        {"documents": 3},
        {"documents": {"short": "pad"}},
        {"documents": {"h": 0}},
        {"documents": {"h": 10**6}},
        {"documents": {"h": 3, "short": "cut"}},
        {"documents": {"h": 3, "pad": "(start)"}},
        {"documents": {"h": 3, "more": 1}},
        {"documents": {"h": 3}, "columns": 3},
    ],
)
def test_other_settings_of_documents_are_refused(wrong: dict[str, Any], tmp_path: Path) -> None:
    with Host(tmp_path / "models") as host, pytest.raises(Malformed, match="documents"):
        host.create("t", "m", wrong)


def test_over_http_with_the_client(tmp_path: Path, keys: Path) -> None:
    with in_thread(tmp_path / "models", keys=keys) as server, Client(server.url) as client:
        client.create("shop", documents={"h": 3, "short": "pad", "pad": "(start)"}, subjects="required")
        client.learn_stream("shop", [["tea", "cup"], ["pen", "ink"]], subjects=["ann", "bob"])
        client.learn_stream("shop", [["tea", "pot"], ["tea", "jar"]], subjects="ann")
        client.forget_stream("shop", [["tea", "jar"]], subjects=["ann"])
        for wrong in (list[str](), ["ann"]):
            with pytest.raises(ServerError, match="subjects"):
                client.learn_stream("shop", [["a", "b"], ["c", "d"]], subjects=wrong)
        with pytest.raises(ServerError, match="learns documents"):
            client.learn("shop", [["a", "b", "c"]], ["d"], subjects=["ann"])
        assert client.predict("shop", [["pen"]]) == ["ink"]
        found = client.forget_subject("shop", "ann")
        assert SignedReceipt.decode(found.receipt.encode()).receipt.rows == 4
        assert client.describe("shop")["examples"] == 2
        assert client.predict("shop", [["tea"]], min_version=found.version)[0] in ("pen", "ink")
