"""Backups of served models: what they keep, who can read them, and that the erased stay erased."""

from __future__ import annotations

import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from hammemo.client import Client, ServerError
from hammemo.files.archive import FileError
from hammemo.receipts import backup_keys
from hammemo.receipts.erasure_records import ErasedSubject, read_records
from hammemo.receipts.keys import change_keys, drop_expired, drop_unneeded_records, new_key_file, read_keys
from hammemo_server.edits.operations import (
    Acknowledgement,
    Edit,
    Exists,
    InUse,
    KeysDropped,
    Malformed,
    NoSuchModel,
    NoSuchSubject,
    OpReused,
    Unavailable,
)
from hammemo_server.erasure import journal as journals
from hammemo_server.models import backups as backup_module
from hammemo_server.models.backups import back_up, restore
from hammemo_server.models.erasable import ErasableModel
from hammemo_server.models.host import Host, store_of
from hammemo_server.models.waiting import Upkeep
from hammemo_server.store.audit import find_first_broken
from hammemo_server.store.sqlite_log import SqliteLog
from hammemo_server.store.vault import Vault
from pace import wait_until
from postgres_server import Server, needs_postgres, one_server, postgres
from running_servers import in_thread
from service_hosts import await_erasure, done, hosts

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from hammemo_server.models.served import ServedModel

__all__ = ["hosts", "postgres"]

SETTINGS: dict[str, Any] = {"columns": 2, "seed": 1, "kernel": "positional", "vote": "log-linear"}
BY_PERSON: dict[str, Any] = {**SETTINGS, "subjects": "required"}


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    new_key_file(tmp_path / "keys.json")
    return tmp_path / "keys.json"


def learn(i: int, subject: str = "") -> Edit:
    subjects = [subject] if subject else []
    return Edit(f"op{i}", "learn", [[f"{subject}a{i % 4}", f"b{i % 5}"]], [f"l{i % 2}"], subjects=subjects)


def erase(op: str, subject: str) -> Edit:
    return Edit(op, "forget_subject", subjects=[subject])


def recorded(keys: Path) -> list[ErasedSubject]:
    return [one for model in read_keys(keys).erased for one in read_records(keys, model)]


def digest(model: ServedModel) -> Any:
    return model.describe(digest=True)["digest"]


def holds(folder: Path, marker: str) -> bool:
    wanted = (marker.encode(), marker.encode().hex().encode())
    return any(any(one in path.read_bytes() for one in wanted) for path in folder.rglob("*") if path.is_file())


def test_a_restored_model_goes_on_where_the_backup_was(hosts: Callable[..., Host], tmp_path: Path) -> None:
    host = hosts()
    model = host.create("t", "m", SETTINGS)
    for i in range(30):
        done(model, learn(i))
        if i == 9:
            model.snapshot()
        if i == 19:
            done(model, Edit("refit", "refit"))
    written = back_up(host.store, "t", "m", tmp_path / "backups")  # while it is served
    assert (written.version, written.header.expires, written.path.parent.name) == (31, None, "t")
    assert written.path.stat().st_mode & 0o77 == 0
    before, n_lines = digest(model), len(model.audit()[1])
    done(model, learn(30))
    with pytest.raises(Exists, match="'m'"):
        restore(host.store, written.path)
    assert restore(host.store, written.path, to=("u", "n")) == ("u", "n", 31, 0)
    host.delete("t", "m")
    assert restore(host.store, written.path) == ("t", "m", 31, 0)
    for again in (host.get("t", "m"), host.get("u", "n")):
        assert (again.version, digest(again)) == (31, before)
        assert done(again, learn(3)) == Acknowledgement(4, "repeated")
        with pytest.raises(OpReused):
            done(again, Edit("op3", "learn", [["x", "y"]], ["l1"]))
        start, lines = again.audit()
        assert find_first_broken(start, lines) is None
        assert len(lines) == n_lines + 1
        assert (lines[-1].line.kind, lines[-1].line.after) == ("restored", 31)
        assert done(again, learn(30)) == Acknowledgement(32, "applied")
    assert digest(host.get("t", "m")) == digest(host.get("u", "n"))


def test_the_erased_stay_erased(hosts: Callable[..., Host], tmp_path: Path, keys: Path, monkeypatch: Any) -> None:
    """Erased before the backup, between backup and restore, in the middle of it, and never."""
    monkeypatch.setattr(journals, "BUCKET", 3)
    monkeypatch.setattr(backup_module, "BUCKET", 3)
    folder, host = tmp_path / "models", hosts(keys=keys)
    model = host.create("t", "m", BY_PERSON)
    for i in range(40):
        done(model, learn(i, f"Zq{i % 8}mark"))
    done(model, erase("e0", "Zq0mark"))
    first = await_erasure(model, "e0")
    assert first.receipt.backups == ()
    done(model, Edit("refit", "refit"))
    for i in range(40, 48):
        done(model, learn(i, f"Zq{i % 8}mark"))  # the first one is back, with a new key
    written = back_up(host.store, "t", "m", tmp_path / "backups", keys=keys, days=30)
    assert not any(holds(tmp_path / "backups", f"Zq{i}mark") for i in range(8))
    done(model, learn(50, "late"))
    done(model, erase("e1", "Zq1mark"))
    assert await_erasure(model, "e1").receipt.backups == ((written.header.id, written.header.expires),)
    done(model, erase("late", "late"))  # came after the backup
    assert await_erasure(model, "late").receipt.backups == ()
    done(model, erase("e2", "Zq2mark"))
    await_erasure(model, "e2")
    host.delete("t", "m")
    found = restore(host.store, written.path, keys=keys)
    assert (found.version, found.erased) == (written.version + 3, 2)  # with the refit
    again = host.get("t", "m")
    assert not any(holds(folder, f"Zq{i}mark") for i in (1, 2))
    for op, subject in (("new", "Zq1mark"), ("new", "Zq2mark"), ("new", "late")):
        with pytest.raises(NoSuchSubject):
            done(again, erase(op, subject))
    assert await_erasure(again, "e0") == first
    assert done(again, erase("e1", "Zq1mark")).status == "repeated"
    replayed = await_erasure(again, "e1")
    assert replayed.verify(read_keys(keys).public_key)
    assert (replayed.receipt.request, replayed.receipt.previous) == ("e1", first.hash)
    assert [name for name, _ in replayed.receipt.backups] == [written.header.id]
    assert await_erasure(again, "e2").receipt.previous == replayed.hash
    assert done(again, learn(1, "Zq1mark")).status == "repeated"
    assert done(again, learn(4, "Zq4mark")).status == "repeated"
    start, lines = again.audit()
    assert find_first_broken(start, lines) is None
    assert lines[-1].line.kind == "restored"
    done(again, erase("e4", "Zq4mark"))  # journals open under the new keys
    assert await_erasure(again, "e4").receipt.rows == 6
    host.close()
    host = hosts(keys=keys)
    fresh = host.create("t", "fresh", BY_PERSON)
    for i in range(48):
        if i % 8 not in (1, 2, 4) and not (i < 40 and i % 8 == 0):
            done(fresh, learn(i, f"Zq{i % 8}mark"))
    again = host.get("t", "m")
    for one in (again, fresh):
        done(one, Edit("same", "refit"))
    assert digest(again) == digest(fresh)


@needs_postgres
@one_server
def test_a_model_moves_from_one_engine_to_the_other_and_back(tmp_path: Path, keys: Path, postgres: Server) -> None:
    """With an edit that waits in the log, a refit, receipts of both kinds, and erasures before and after each move."""
    with (
        Host(tmp_path / "sqlite", keys=keys) as first,
        Host(tmp_path / "postgres", postgres.address, keys=keys) as other,
    ):
        for settings, subject in ((BY_PERSON, "s"), (SETTINGS, "")):
            name = f"moves{subject}"
            model = first.create("t", name, settings)
            for i in range(24):
                done(model, learn(i, subject and f"s{i % 6}"))
            done(model, Edit("refit", "refit"))
            model.snapshot()
            done(model, learn(24, subject and "s0"))
            forget = Edit(
                "f", "forget", [learn(1, subject and "s1").rows[0]], ["l1"], subjects=["s1"] if subject else []
            )
            signed = done(model, msgspec.structs.replace(forget, receipt=True)).receipt
            for number, (host, to) in enumerate(((first, other), (other, first), (first, other))):
                if subject:
                    done(model, erase(f"e{number}", f"s{number}"))
                    await_erasure(model, f"e{number}")
                written = back_up(host.store, "t", name, tmp_path / "backups", keys=keys)
                if subject:
                    done(model, erase(f"late{number}", f"s{5 - number}"))
                    await_erasure(model, f"late{number}")
                before = digest(model)
                host.delete("t", name)
                found = restore(to.store, written.path, keys=keys, original_lost=True)
                assert found.erased == bool(subject)
                model = to.get("t", name)
                assert (digest(model), found.version) == (before, model.version)
                start, lines = model.audit()
                assert find_first_broken(start, lines) is None
                assert lines[-1].line.kind == "restored"
                assert done(model, msgspec.structs.replace(forget, receipt=True)).receipt == signed
                assert done(model, learn(24, subject and "s0")).status == "repeated"
            assert done(model, learn(30, subject and "new")).status == "applied"
            to.delete("t", name)


def test_an_old_copy_of_the_key_file_is_found_out_by_receipts(tmp_path: Path, keys: Path) -> None:
    """Erased before the backup, after it, and after the key file was copied; and a plain forget with a receipt."""
    lines: dict[str, bytes] = {}

    def receipts(*names: str) -> Path:
        tmp_path.joinpath("receipts").write_bytes(b"".join(lines[name] + b"\n" for name in names))
        return tmp_path / "receipts"

    with Host(tmp_path / "models", keys=keys) as host:
        model = host.create("t", "m", {**BY_PERSON, "vote": "sum"})
        for i in range(12):
            done(model, learn(i, f"s{i % 6}"))
        done(model, erase("e0", "s0"))
        lines["e0"] = await_erasure(model, "e0").encode()
        written = back_up(host.store, "t", "m", tmp_path / "backups", keys=keys)
        done(model, erase("e1", "s1"))
        lines["e1"] = await_erasure(model, "e1").encode()
        shutil.copy(keys, tmp_path / "old.json")
        shutil.copytree(f"{keys}.erased", tmp_path / "old.json.erased")
        done(model, erase("e2", "s2"))
        lines["e2"] = await_erasure(model, "e2").encode()
        forget = Edit("f", "forget", learn(3, "s3").rows, ["l1"], subjects=["s3"], receipt=True)
        lines["f"] = done(model, forget).receipt.encode()
        host.delete("t", "m")

        def restored(name: str, key_file: Path, path: Path, *again: str) -> int:
            found = restore(host.store, written.path, keys=key_file, to=("t", name), receipts=path, again=again)
            return found.erased

        for key_file, missing in ((tmp_path / "old.json", "2 of the requests .*: e2, f"), (keys, "1 of .*: f")):
            with pytest.raises(Malformed, match=missing):
                restored("m", key_file, receipts("e0", "e1", "e2", "f"))
            assert host.names("t") == []
        assert restored("n", tmp_path / "old.json", receipts("e0", "e1")) == 1
        assert restored("m", keys, receipts("e1", "e2", "f"), "f") == 2
        assert done(host.get("t", "m"), forget).status == "applied"
        for wrong, why in ((("e2", "f"), "do not hold the newest"), (("e0", "e2"), "does not name the receipt before")):
            with pytest.raises((Malformed, ValueError), match=why):
                restored("o", keys, receipts(*wrong))
        lines["e1"] = lines["e1"].replace(b'"rows":2', b'"rows":1')
        with pytest.raises(ValueError, match="line 1: the signature"):
            restored("o", keys, receipts("e1"))
        new_key_file(tmp_path / "other.json")
        with pytest.raises(ValueError, match="another key"):
            restored("o", tmp_path / "other.json", receipts("e2"))
        assert host.names("t") == ["m", "n"]


def test_receipts_of_a_model_without_subjects_are_known_too(tmp_path: Path, keys: Path) -> None:
    path = tmp_path / "receipts"
    with Host(tmp_path / "models", keys=keys) as host:
        model = host.create("t", "m", SETTINGS)
        for i in range(9):
            done(model, learn(i))
        edits = [Edit(f"f{i}", "forget", learn(i).rows, learn(i).labels, receipt=True) for i in range(2)]
        path.write_text(done(model, edits[0]).receipt + "\n")
        written = back_up(host.store, "t", "m", tmp_path / "backups")
        with path.open("a") as file:
            file.write(done(model, edits[1]).receipt + "\n")
        host.delete("t", "m")
        with pytest.raises(Malformed, match=r"1 of the requests .*: f1"):
            restore(host.store, written.path, receipts=path)
        assert restore(host.store, written.path, receipts=path, again=["f1"]).version == 10
        assert [done(host.get("t", "m"), edit).status for edit in edits] == ["repeated", "applied"]


def test_two_databases_of_a_model_drop_none_of_each_others_keys(tmp_path: Path, keys: Path) -> None:
    with Host(tmp_path / "models", keys=keys) as host:
        model = host.create("t", "m", BY_PERSON)
        for i in range(9):
            done(model, learn(i, f"s{i % 3}"))
        written = back_up(host.store, "t", "m", tmp_path / "backups", keys=keys)
        restore(host.store, written.path, keys=keys, to=("t", "copy"))
        copy = host.get("t", "copy")
        done(copy, erase("e", "s0"))
        await_erasure(copy, "e")
        done(model, erase("f", "s1"))
        assert await_erasure(model, "f").receipt.rows == 3
        done(copy, erase("g", "s2"))
        assert await_erasure(copy, "g").receipt.rows == 3
        host.delete("t", "copy")
        done(model, erase("h", "s2"))
        assert await_erasure(model, "h").receipt.rows == 3
        n = len(read_keys(keys).named)
        restore(host.store, written.path, keys=keys, to=("t", "last"), original_lost=True)
        assert len(read_keys(keys).named) <= n
    with Host(tmp_path / "models", keys=keys) as host:
        assert host.get("t", "last").version == 9 + 2 + 1 + 1  # s0 and s2 with a refit, as in the copy, and s1
        with pytest.raises(KeysDropped):
            host.get("t", "m")


def test_a_database_whose_keys_were_dropped_is_refused_at_once(tmp_path: Path, keys: Path) -> None:
    with in_thread(tmp_path / "models", keys=keys) as server, Client(server.url) as client:
        for name in ("m", "closed"):
            client.create(name, **BY_PERSON)
            client.learn(name, [["a", "b"], ["c", "d"]], ["x", "y"], subjects=["ann", "bob"])
        host, tenant = server.service.host, server.service._local.tenant
        written = {name: back_up(host.store, tenant, name, tmp_path / "backups", keys=keys) for name in ("m", "closed")}
        for name, one in written.items():
            restore(host.store, one.path, keys=keys, to=(tenant, f"{name}-2"), original_lost=True)
        for subject in ("ann", "new"):  # the first one's key is still open in this process
            with pytest.raises(ServerError, match="Use the restored model") as refused:
                client.learn("m", [["e", "f"]], ["x"], subjects=[subject])
            assert (refused.value.status, refused.value.code) == (410, "keys_dropped")
        with pytest.raises(ServerError, match="Use the restored model"):
            client.forget_subject("m", "ann")
        assert client.forget_subject("m-2", "ann").state == "erased"
    with in_thread(tmp_path / "models", keys=keys) as server, Client(server.url) as client:
        for ask in (client.describe, lambda name: client.forget_subject(name, "ann")):
            with pytest.raises(ServerError) as refused:
                ask("closed")
            assert refused.value.status == 410
        with pytest.raises(KeysDropped):
            back_up(server.service.host.store, tenant, "closed", tmp_path / "backups", keys=keys)
        client.delete("closed")
        client.delete("m")
        assert client.forget_subject("closed-2", "bob").state == "erased"


def test_an_expired_backup_cannot_be_read(tmp_path: Path, keys: Path) -> None:
    with Host(tmp_path / "models", keys=keys) as host:
        model = host.create("t", "m", BY_PERSON)
        done(model, learn(1, "s"))
        written = back_up(host.store, "t", "m", tmp_path / "backups", keys=keys, days=30)
        short = back_up(host.store, "t", "m", tmp_path / "backups", keys=keys, days=0)
        assert drop_expired(keys) == [short.header.id]
        with pytest.raises(FileError, match="expires"):
            restore(host.store, short.path, keys=keys, to=("t", "n"))
        with pytest.raises(Malformed, match="keys="):
            restore(host.store, written.path, to=("t", "n"))
        with pytest.raises(Malformed, match="keys="):
            back_up(host.store, "t", "m", tmp_path / "backups")
        new_key_file(tmp_path / "other.json")
        with pytest.raises(FileError, match="its key"):
            restore(host.store, written.path, keys=tmp_path / "other.json", to=("t", "n"))
        with pytest.raises(Unavailable, match="not the one"):
            back_up(host.store, "t", "m", tmp_path / "backups", keys=tmp_path / "other.json")
        done(model, erase("e", "s"))
        assert [name for name, _ in await_erasure(model, "e").receipt.backups] == [written.header.id]
        change_keys(keys, lambda held: held.without_backups([written.header.id]))
        drop_unneeded_records(keys, read_keys(keys))
        assert len(recorded(keys)) == 1  # a backup may be under way that lacks the erasure
        done(model, learn(2, "t"))
        later = back_up(host.store, "t", "m", tmp_path / "backups", keys=keys)
        drop_unneeded_records(keys, read_keys(keys))
        assert not recorded(keys)
        assert restore(host.store, later.path, keys=keys, to=("t", "later")).erased == 0
        with pytest.raises(NoSuchModel):
            host.get("t", "n")


def test_a_damaged_backup_is_refused_whole(tmp_path: Path, keys: Path) -> None:
    with Host(tmp_path / "models", keys=keys) as host:
        for name, settings, subject in (("m", SETTINGS, ""), ("p", BY_PERSON, "s")):
            model = host.create("t", name, settings)
            for i in range(5):
                done(model, learn(i, subject))
            model.snapshot()
            written = back_up(host.store, "t", name, tmp_path / "backups", keys=keys)
            data = written.path.read_bytes()
            line = data.index(b"\n") + 1
            wrong = [data[:-1], data[: line + 4], data[:line], b"", b"{}\n", data + b"\0\0\0\1x", data[:-9] + b"\0" * 9]
            wrong += [
                data.replace(b'"version":2', b'"version":1', 1),
                data.replace(b'"tenant":"t"', b'"tenant":"u"', 1),
            ]
            named = set(read_keys(keys).named)
            for number, other in enumerate(wrong):
                written.path.write_bytes(other)
                with pytest.raises(FileError):
                    restore(host.store, written.path, keys=keys, to=("t", f"n{number}"))
            assert set(read_keys(keys).named) == named
            assert host.names("t") == ["m", "p"][: len(host.names("t"))]
            assert [path.name for path in (tmp_path / "models").iterdir() if path.is_dir()] == ["t"]


def test_a_backup_beside_edits_and_erasures_is_one_state(
    hosts: Callable[..., Host], tmp_path: Path, keys: Path
) -> None:
    host = hosts(keys=keys, upkeep=Upkeep(snapshot_seconds=0.05))
    model = host.create("t", "m", {**BY_PERSON, "vote": "sum"})
    stop = threading.Event()

    def work() -> None:
        i = 0
        while not stop.is_set():
            done(model, learn(i, f"s{i % 7}"))
            if i % 10 == 9:
                done(model, erase(f"e{i}", f"s{i % 7}"))
            i += 1

    worker = threading.Thread(target=work)
    worker.start()
    try:
        assert wait_until(lambda: model.version > 20, 60)
        written = [back_up(host.store, "t", "m", tmp_path / "backups", keys=keys) for _ in range(3)]
    finally:
        stop.set()
        worker.join()
    n_lines = len(model.audit(0, 10_000)[1])
    assert n_lines > written[-1].version
    for number, one in enumerate(written):
        restore(host.store, one.path, keys=keys, to=("t", f"n{number}"))
        again = host.get("t", f"n{number}")
        start, lines = again.audit(0, 10_000)
        assert find_first_broken(start, lines) is None
        assert [line.line.after for line in lines if line.line.kind in ("learn", "forget_subject")] == sorted(
            line.line.after for line in lines if line.line.kind in ("learn", "forget_subject")
        )
        assert isinstance(again, ErasableModel)
        assert recorded(keys)
        assert not again._log.erasures()


def test_drafts_of_killed_restores_are_removed(tmp_path: Path, keys: Path, monkeypatch: Any) -> None:
    with Host(tmp_path / "models", keys=keys) as host:
        done(host.create("t", "m", BY_PERSON), learn(1, "s"))
        written = back_up(host.store, "t", "m", tmp_path / "backups", keys=keys)
        named = set(read_keys(keys).named)
    store = store_of(tmp_path / "models", None, replica=False)
    with monkeypatch.context() as patched:
        patched.setattr(store, "rename", lambda *_: shutil.copytree(tmp_path / "models", tmp_path / "killed") and 1 / 0)
        patched.setattr(Vault, "drop_all", lambda _: None)
        with pytest.raises(ZeroDivisionError):
            restore(store, written.path, keys=keys, to=("t", "n"))
    assert len(list((tmp_path / "killed").glob(".restoring-*"))) == 1
    assert set(read_keys(keys).named) > named
    with Host(tmp_path / "killed", keys=keys) as host:
        assert host.tenants() == ["t"]
        assert not list((tmp_path / "killed").glob(".restoring-*"))
        assert set(read_keys(keys).named) == named
        assert host.get("t", "m").version == 1


def test_a_restore_that_is_killed_leaves_no_plain_text_of_an_erased_subject(
    tmp_path: Path, keys: Path, monkeypatch: Any
) -> None:
    with Host(tmp_path / "models", keys=keys) as host:
        model = host.create("t", "m", BY_PERSON)
        done(model, learn(1, "Zq1mark"))
        done(model, learn(2, "Zq2mark"))
        model.snapshot()
        written = back_up(host.store, "t", "m", tmp_path / "backups", keys=keys)
        done(model, erase("e", "Zq1mark"))
        await_erasure(model, "e")
        host.delete("t", "m")
    store = store_of(tmp_path / "models", None, replica=False)
    killed, place = tmp_path / "killed", ("t", "m")

    def killed_here(*_: Any) -> None:
        shutil.copytree(tmp_path / "models", killed)
        raise ZeroDivisionError

    for kind, moment in ((ErasableModel, "erase_again"), (SqliteLog, "keep_received")):
        with monkeypatch.context() as patched:
            patched.setattr(kind, moment, killed_here)
            with pytest.raises(ZeroDivisionError):
                restore(store, written.path, keys=keys)
        assert list(killed.glob(".restoring-*/m/log.sqlite"))
        assert not holds(killed, "Zq1mark")
        shutil.rmtree(killed)
    monkeypatch.setattr(backup_module, "_PATIENCE", 0.1)
    with (
        store.restoring(0),
        ThreadPoolExecutor(1) as other,
        pytest.raises(InUse, match="One restore runs at a time"),
    ):
        other.submit(restore, store, written.path, keys=keys).result()
    assert restore(store, written.path, keys=keys)[:2] == place
    with Host(tmp_path / "models", keys=keys) as host:
        assert host.get(*place).describe()["examples"] == 1


def test_a_snapshot_without_later_edits_is_restored(hosts: Callable[..., Host], tmp_path: Path, keys: Path) -> None:
    host = hosts(keys=keys)
    model = host.create("t", "m", BY_PERSON)
    done(model, learn(1, "s"))
    model.snapshot()
    written = back_up(host.store, "t", "m", tmp_path / "backups", keys=keys)
    restore(host.store, written.path, keys=keys, to=("t", "n"))
    assert digest(host.get("t", "n")) == digest(model)


class Ahead(datetime):
    """A clock that is three days ahead."""

    @classmethod
    def now(cls, tz: Any = None) -> Any:
        return datetime.now(tz) + timedelta(days=3)


def test_a_clock_that_was_wrong_brings_nobody_back(tmp_path: Path, keys: Path, monkeypatch: Any) -> None:
    """A backup is made while the clock is ahead; then it is set right, a subject is erased, and days pass."""
    with Host(tmp_path / "models", keys=keys) as host:
        model = host.create("t", "m", BY_PERSON)
        for i in range(6):
            done(model, learn(i, f"s{i % 3}"))
        with monkeypatch.context() as ahead:
            ahead.setattr(backup_keys, "datetime", Ahead)
            written = back_up(host.store, "t", "m", tmp_path / "backups", keys=keys)
        done(model, erase("e", "s0"))
        await_erasure(model, "e")
        host.delete("t", "m")
        for at in ("2020-01-01T00:00:00Z", "9999-01-01T00:00:00Z"):
            monkeypatch.setattr("hammemo.receipts.strict_json.now", lambda at=at: min(at, written.header.expires or ""))
            drop_unneeded_records(keys, read_keys(keys))
        monkeypatch.setattr("hammemo.receipts.strict_json.now", lambda: "2020-01-01T00:00:00Z")
        assert restore(host.store, written.path, keys=keys).erased == 1


def test_a_subject_that_came_back_after_a_restore_is_not_erased_by_the_next_one(tmp_path: Path, keys: Path) -> None:
    """The first backup does not hold the subject, so there was nothing to erase; the rows after that are new."""
    with Host(tmp_path / "models", keys=keys) as host:
        model = host.create("t", "m", BY_PERSON)
        done(model, learn(1, "s1"))
        first = back_up(host.store, "t", "m", tmp_path / "backups", keys=keys)
        done(model, learn(2, "s2"))
        done(model, erase("e", "s2"))
        line = await_erasure(model, "e").encode()
        tmp_path.joinpath("receipts").write_bytes(line + b"\n")
        host.delete("t", "m")
        assert restore(host.store, first.path, keys=keys, receipts=tmp_path / "receipts").erased == 0
        done(host.get("t", "m"), learn(3, "s2"))
        second = back_up(host.store, "t", "m", tmp_path / "backups", keys=keys)
        host.delete("t", "m")
        assert restore(host.store, second.path, keys=keys).erased == 0
        assert host.get("t", "m").describe()["examples"] == 2


def test_missing_records_of_erasures_are_refused_unless_receipts_show_that_none_is_lacking(
    tmp_path: Path, keys: Path
) -> None:
    with Host(tmp_path / "models", keys=keys) as host:
        model = host.create("t", "m", BY_PERSON)
        for i in range(6):
            done(model, learn(i, f"s{i % 3}"))
        written = back_up(host.store, "t", "m", tmp_path / "backups", keys=keys)
        done(model, erase("e", "s0"))
        tmp_path.joinpath("receipts").write_bytes(await_erasure(model, "e").encode() + b"\n")
        (path,) = tmp_path.joinpath("keys.json.erased").iterdir()
        whole = path.read_bytes()
        path.write_bytes(whole[:-1])
        for _ in range(2):
            with pytest.raises(Malformed, match="lacks records"):
                restore(host.store, written.path, keys=keys, to=("t", "n"))
            done(model, erase("f", "s1"))  # the next record does not hide the gap
            await_erasure(model, "f")
        with pytest.raises(Malformed, match=r"1 of the requests .*: e\."):
            restore(host.store, written.path, keys=keys, to=("t", "n"), receipts=tmp_path / "receipts")
        path.write_bytes(whole + path.read_bytes())
        assert restore(host.store, written.path, keys=keys, to=("t", "n")).erased == 2
        path.write_bytes(b"{}\n" + path.read_bytes())
        with pytest.raises(ValueError, match="damaged"):
            restore(host.store, written.path, keys=keys, to=("t", "o"))
    with Host(tmp_path / "models", keys=keys) as host:  # a server starts all the same
        assert host.names("t") == ["m", "n"]
