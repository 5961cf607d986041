"""Signed receipts of single edits of served models: what they say, how they are chained, and that they stay."""

from __future__ import annotations

from concurrent.futures import wait
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from hammemo.receipts import recorded
from hammemo.receipts.keys import new_key_file, read_keys
from hammemo.receipts.receipt import SignedReceipt
from hammemo.receipts.verifying import Result, check_documents, check_rows
from hammemo_server.edits.operations import Acknowledgement, Edit, Malformed, NotStored, OpReused, Unavailable
from hammemo_server.models.backups import back_up, restore
from hammemo_server.models.host import Host
from hammemo_server.models.waiting import Upkeep
from hammemo_server.store.audit import find_first_broken
from pace import wait_until
from postgres_server import postgres
from service_hosts import done, fail_next_commit, hosts
from visit_models import visits, visits_file

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from hammemo_server.models.served import ServedModel

__all__ = ["hosts", "postgres", "visits_file"]

SETTINGS: dict[str, Any] = {"columns": 2, "seed": 1}
ROWS: list[list[Any]] = [[f"a{i % 4}", i % 5] for i in range(40)]
LABELS: list[Any] = [f"l{i % 2}" for i in range(39)] + ["rare"]


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    new_key_file(tmp_path / "keys.json")
    return tmp_path / "keys.json"


def signed(model: ServedModel, edit: Edit) -> SignedReceipt:
    return SignedReceipt.decode(done(model, edit).receipt.encode())


def forget(op: str, *places: int, subjects: list[str] | None = None, receipt: bool = True) -> Edit:
    rows, labels = [ROWS[i] for i in places], [LABELS[i] for i in places]
    return Edit(op, "forget", rows, labels, subjects=subjects or [], receipt=receipt)


def untimed(signed: SignedReceipt) -> Any:
    """Return what a receipt says, but for when it was issued and what a process and a log count differently."""
    return replace(signed.receipt, time="", version_before=0, version_after=0)


def test_the_receipt_is_that_of_the_library(hosts: Callable[..., Host], keys: Path) -> None:
    model = hosts(keys=keys).create("t", "m", SETTINGS)
    done(model, Edit("1", "learn", ROWS, LABELS))
    twin = model.with_names()
    assert twin is not None
    twin, held = twin.snapshot(), read_keys(keys)
    first = signed(model, forget("f", 0, 1, 39))
    with recorded(twin, held, "f") as record:
        twin.forget([ROWS[i] for i in (0, 1, 39)], [LABELS[i] for i in (0, 1, 39)])
    assert untimed(first) == untimed(record.signed)
    assert (first.receipt.rows, first.receipt.labels) == (3, 1)
    assert (first.receipt.version_before, first.receipt.version_after) == (1, 2)
    with recorded(twin, held, "r", previous=first) as record:
        twin.refit()
    second = signed(model, Edit("r", "refit", receipt=True))
    assert untimed(second) == untimed(record.signed)
    assert second.receipt.layout_refitted
    assert all(one.verify(held.public_key) for one in (first, second))
    assert second.receipt.digest_after == model.describe(digest=True)["digest"]
    found = model.with_names()
    assert found is not None
    assert check_rows(found, (ROWS[2:39], LABELS[2:39])).result is Result.PROVEN
    start, lines = model.audit()
    assert find_first_broken(start, lines) is None
    assert [line.line.receipt.hex() for line in lines] == ["", first.hash, second.hash]


def test_a_repeated_edit_has_the_same_receipt(hosts: Callable[..., Host], keys: Path, tmp_path: Path) -> None:
    upkeep = Upkeep(retention=0.0)
    for name, settings in (("m", SETTINGS), ("p", {**SETTINGS, "subjects": "required"})):
        subjects = ["s"] if name == "p" else []
        host = hosts(keys=keys, upkeep=upkeep)
        model = host.create("t", name, settings)
        done(model, Edit("1", "learn", ROWS, LABELS, subjects=subjects * 40))
        answer = done(model, forget("f", 3, subjects=subjects))
        again = Acknowledgement(answer.version, "repeated", answer.receipt)
        assert done(model, forget("f", 3, subjects=subjects)) == again
        assert done(model, forget("f", 3, subjects=subjects, receipt=False)) == Acknowledgement(2, "repeated")
        with pytest.raises(OpReused):
            done(model, forget("f", 4, subjects=subjects))
        done(model, forget("plain", 4, subjects=subjects, receipt=False))
        with pytest.raises(OpReused, match="without a receipt"):
            done(model, forget("plain", 4, subjects=subjects))
        model.snapshot()  # with it the ids go
        assert done(model, forget("f", 3, subjects=subjects)) == again
        for other in (forget("f", 5, subjects=subjects), Edit("f", "refit", receipt=True)):
            with pytest.raises(OpReused, match="'f' was used for another edit"):
                done(model, other)
        with pytest.raises(OpReused, match="Nothing was changed"):
            done(model, forget("f", 3, 5, subjects=subjects * 2))
        if subjects:
            with pytest.raises(OpReused):
                done(model, forget("f", 3, subjects=["another"]))
        assert model.version == 3
        written = back_up(host.store, "t", name, tmp_path / "backups", keys=keys)
        host.close()
        host = hosts(keys=keys)
        assert done(host.get("t", name), forget("f", 3, subjects=subjects)) == again
        restore(host.store, written.path, keys=keys, to=("u", name))
        copy = host.get("u", name)
        assert done(copy, forget("f", 3, subjects=subjects)) == again
        assert (
            signed(copy, forget("g", 5, subjects=subjects)).receipt.previous
            == SignedReceipt.decode(answer.receipt.encode()).hash
        )


def test_an_erasure_of_another_subject_under_a_used_id_is_refused(hosts: Callable[..., Host], keys: Path) -> None:
    model = hosts(keys=keys, upkeep=Upkeep(retention=0.0)).create("t", "m", {**SETTINGS, "subjects": "required"})
    for i in range(8):
        done(model, Edit(f"{i}", "learn", [ROWS[i]], [LABELS[i]], subjects=[f"s{i % 4}"]))
    answer = done(model, Edit("e", "forget_subject", subjects=["s1"]))
    assert wait_until(lambda: bool(_receipt(model, Edit("e", "forget_subject", subjects=["s1"]))), 60)
    for _ in range(2):  # with the id, and after it is forgotten
        assert done(model, Edit("e", "forget_subject", subjects=["s1"])).version == answer.version
        for other in (
            Edit("e", "forget_subject", subjects=["s2"]),
            Edit("e", "forget_subject", subjects=["s1"], refit=False),
        ):
            with pytest.raises(OpReused, match="'e' was used for another edit"):
                done(model, other)
        done(model, Edit("more", "learn", [ROWS[9]], [LABELS[9]], subjects=["s3"]))
        model.snapshot()
        assert not model._log.find_ids([model._journal.vault.hash_op("e")])  # type: ignore[union-attr]
    done(model, Edit("e2", "forget_subject", subjects=["s2"]))  # s2 was there all the time


def test_receipts_of_edits_and_erasures_are_one_chain(hosts: Callable[..., Host], keys: Path, tmp_path: Path) -> None:
    host = hosts(keys=keys)
    model = host.create("t", "m", {**SETTINGS, "subjects": "required", "vote": "sum", "kernel": "positional"})
    for i in range(40):
        done(model, Edit(f"{i}", "learn", [ROWS[i]], [LABELS[i]], subjects=[f"s{i % 4}"]))
    edits = [forget("Zq0", 0, subjects=["s0"]), Edit("Zq1", "forget_subject", subjects=["s1"])]
    edits += [forget("Zq2", 2, subjects=["s2"]), Edit("Zq3", "forget_subject", subjects=["s3"], receipt=True)]
    edits += [forget("Zq4", 4, 6, subjects=["s0", "s2"])]
    answers = [model.edit(edit) for edit in edits]
    wait(answers)
    assert wait_until(lambda: all(_receipt(model, edit) for edit in edits), 60)
    found = [SignedReceipt.decode(_receipt(model, edit).encode()) for edit in edits]
    follows = {one.receipt.previous: one for one in found}
    chain = [follows[None]]
    while chain[-1].hash in follows:
        chain.append(follows[chain[-1].hash])
    assert len(chain) == 5
    by_line = [line.line.receipt.hex() for line in model.audit()[1] if line.line.receipt]
    assert by_line == [one.hash for one in chain]
    written = back_up(host.store, "t", "m", tmp_path / "backups", keys=keys)
    assert signed(model, forget("Zq5", 8, subjects=["s0"])).receipt.backups == (
        (written.header.id, written.header.expires),
    )
    assert signed(model, Edit("Zq6", "refit", receipt=True)).receipt.backups == ()
    host.close()
    for path in (tmp_path / "models").rglob("*"):
        assert not path.is_file() or b"Zq0" not in path.read_bytes()


def _receipt(model: ServedModel, edit: Edit) -> str:
    """Return a receipt that is there; of an edit that was not an erasure, by sending it again."""
    if edit.kind != "forget_subject":
        return done(model, edit).receipt
    found = model.erasure(edit.op)
    return "" if found is None else found.receipt.decode()


def test_documents_have_receipts_too(tmp_path: Path, keys: Path, visits_file: Path) -> None:
    with Host(tmp_path / "models", keys=keys) as host:
        model = host.upload("t", "m", visits_file)
        forgotten = visits()[0]
        assert signed(model, Edit("f", "forget", documents=[forgotten], receipt=True)).receipt.rows == len(forgotten)
        done(model, Edit("r", "refit"))
        found = model.with_names()
        assert found is not None
        assert check_documents(found, visits()[1:]).result is not Result.REFUTED


def test_what_cannot_have_a_receipt_is_refused(tmp_path: Path, keys: Path) -> None:
    with Host(tmp_path / "models", keys=keys) as host:
        model = host.create("t", "m", SETTINGS)
        with pytest.raises(Malformed, match="only a forget or a refit"):
            model.edit(Edit("1", "learn", ROWS, LABELS, receipt=True))
        done(model, Edit("1", "learn", ROWS, LABELS))
        with pytest.raises(NotStored):
            done(model, Edit("2", "forget", [["no", "row"]], ["l0"], receipt=True))
        assert signed(model, forget("3", 1)).receipt.previous is None
    with Host(tmp_path / "models") as host:
        with pytest.raises(Malformed, match="no key file"):
            host.get("t", "m").edit(forget("4", 2))
        assert host.get("t", "m").version == 2


@pytest.mark.parametrize("written", [False, True])
def test_a_commit_in_doubt_issues_one_receipt(tmp_path: Path, keys: Path, monkeypatch: Any, written: bool) -> None:
    with Host(tmp_path / "models", keys=keys) as host:
        model = host.create("t", "m", SETTINGS)
        done(model, Edit("1", "learn", ROWS, LABELS))
        fail_next_commit(monkeypatch, written=written)
        with pytest.raises(Unavailable):
            done(model, forget("f", 0))
        answer = done(model, forget("f", 0))
        assert answer.status == ("repeated" if written else "applied")
        first = SignedReceipt.decode(answer.receipt.encode())
        assert first.receipt.previous is None
        assert first.receipt.digest_after == model.describe(digest=True)["digest"]
        assert signed(model, forget("g", 1)).receipt.previous == first.hash
