"""Models by tenant and name: made, edited from many threads, followed, snapshotted, restarted, uploaded and deleted."""

from __future__ import annotations

import subprocess
import sys
import threading
import warnings
from collections import Counter
from typing import TYPE_CHECKING, Any

import apsw
import pytest

from hammemo import MeMoClassifier, MemoryClassifier, __version__, load, save
from hammemo.memories import Exact
from hammemo.stores import Digests
from hammemo_server.edits.limits import Limits
from hammemo_server.edits.operations import (
    Acknowledgement,
    Edit,
    Exists,
    InUse,
    Malformed,
    NoSuchModel,
    NothingLearnt,
    NotReached,
    NotStored,
    OpReused,
    ServiceError,
    TooLarge,
    TooMany,
    Unavailable,
)
from hammemo_server.models import writer as writing
from hammemo_server.models.host import Host
from hammemo_server.models.waiting import Upkeep
from hammemo_server.models.writer import WrittenModel
from hammemo_server.store import sqlite_log
from hammemo_server.store.log import LogError
from hammemo_server.store.sqlite_log import SqliteLog
from pace import patience
from postgres_server import Server, needs_postgres, one_server, postgres
from service_hosts import done, fail_next_commit, hosts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from hammemo_server.models.served import ServedModel

__all__ = ["hosts", "postgres"]


def learn(op: str, *rows: list[Any], label: Any = "x") -> Edit:
    return Edit(op, "learn", list(rows), [label] * len(rows))


def forget(op: str, *rows: list[Any], label: Any = "x") -> Edit:
    return Edit(op, "forget", list(rows), [label] * len(rows))


def state_bytes(model: ServedModel) -> bytes:
    clf = model.state().model
    assert clf is not None
    return clf.memory_.state_bytes()


def test_an_edit_is_applied_once_and_survives(hosts: Callable[..., Host]) -> None:
    host = hosts()
    model = host.create("t", "m", {"columns": 2})
    assert done(model, learn("1", ["a", "b"])) == Acknowledgement(1, "applied")
    assert done(model, learn("1", ["a", "b"])) == Acknowledgement(1, "repeated")
    assert done(model, learn("2", ["a", "c"], label="y")) == Acknowledgement(2, "applied")
    with pytest.raises(OpReused):
        done(model, learn("1", ["a", "c"]))
    with pytest.raises(OpReused):
        done(model, forget("1", ["a", "b"]))
    assert done(model, forget("3", ["a", "b"])) == Acknowledgement(3, "applied")
    assert done(model, learn("1", ["a", "b"])) == Acknowledgement(1, "repeated")  # and it does not come back
    before = state_bytes(model)
    host.close()
    with pytest.raises(Unavailable):
        model.edit(learn("4", ["a", "b"]))
    again = hosts().get("t", "m")
    assert (again.version, state_bytes(again)) == (3, before)
    assert done(again, forget("3", ["a", "b"])) == Acknowledgement(3, "repeated")
    clf, version = again.answering()
    assert (clf.classes_.tolist(), version) == (["y"], 3)


def test_a_refused_edit_is_not_remembered_and_the_others_go_on(hosts: Callable[..., Host]) -> None:
    model = hosts().create("t", "m", {})
    with pytest.raises(NotStored):
        done(model, forget("1", ["a", "b"]))
    with pytest.raises(NothingLearnt):
        model.answering()
    futures = [
        model.edit(edit)
        for edit in (
            learn("1", ["a", "b"]),
            forget("2", ["never", "b"]),
            learn("3", ["a", "b", "c"]),
            forget("4", ["a", "b"]),
            forget("5", ["a", "b"]),
            learn("6", ["c", "d"]),
        )
    ]
    results = [future.exception() or future.result() for future in futures]
    assert list(map(type, results)) == [
        Acknowledgement,
        NotStored,
        Malformed,
        Acknowledgement,
        NotStored,
        Acknowledgement,
    ]
    assert model.version == 3
    done(model, learn("2", ["e", "f"]))  # the id of a refused edit is free


def test_what_is_applied_is_what_was_handed_over(hosts: Callable[..., Host]) -> None:
    model = hosts().create("t", "m", {})
    row: list[Any] = ["a"]
    future = model.edit(learn("1", row))
    row[0] = "b"
    future.result()
    done(model, forget("2", ["a"]))


def test_versions_are_waited_for(hosts: Callable[..., Host]) -> None:
    model = hosts().create("t", "m", {})
    done(model, learn("1", ["a"]))
    assert model.answering(1)[1] == 1
    with pytest.raises(NotReached):
        model.answering(2)
    timer = threading.Timer(0.05, lambda: done(model, learn("2", ["a"])))
    timer.start()
    assert model.answering(2, wait=patience(60))[1] == 2
    timer.join()


def test_a_version_that_was_given_out_does_not_change(hosts: Callable[..., Host]) -> None:
    model = hosts().create("t", "m", {})
    done(model, learn("1", ["a"]))
    clf, _ = model.answering()
    done(model, learn("2", ["b"], label="y"))
    assert clf.classes_.tolist() == ["x"]


def test_many_clients_with_repetitions_are_exactly_once(hosts: Callable[..., Host]) -> None:
    host = hosts(upkeep=Upkeep(snapshot_edits=40))
    model = host.create("t", "m", {"columns": 2})
    acknowledgements: dict[str, list[Acknowledgement]] = {}

    def client(k: int) -> None:
        for n in range(20):
            edit = learn(f"{k}-{n}", [f"c{k}", n % 5])
            futures = [model.edit(edit) for _ in range(1 + n % 3)]
            acknowledgements[edit.op] = [future.result() for future in futures]
            if n % 4 == 3:
                done(model, forget(f"{k}-{n}-", [f"c{k}", n % 5]))

    threads = [threading.Thread(target=client, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(acknowledgements) == 160
    for one in acknowledgements.values():
        assert len({acknowledgement.version for acknowledgement in one}) == 1
        assert Counter(acknowledgement.status for acknowledgement in one)["applied"] == 1
    assert model.version == 160 + 40
    clf = model.state().model
    assert clf is not None
    kept = [([f"c{k}", n % 5], "x") for k in range(8) for n in range(20) if n % 4 != 3]
    fresh = clf.empty_like().partial_fit([row for row, _ in kept], [label for _, label in kept])
    assert state_bytes(model) == fresh.memory_.state_bytes()
    host.close()
    assert state_bytes(hosts().get("t", "m")) == fresh.memory_.state_bytes()


def test_snapshots_are_made_by_number_by_bytes_by_time_and_on_request(hosts: Callable[..., Host]) -> None:
    for name, upkeep in {
        "number": Upkeep(snapshot_edits=3),
        "bytes": Upkeep(snapshot_bytes=20),
        "time": Upkeep(snapshot_seconds=0.01),
    }.items():
        host = hosts(upkeep=upkeep)
        model = host.create("t", name, {})
        for n in range(5):
            done(model, learn(str(n), ["a", n]))
        while not model.describe()["snapshot_version"]:
            threading.Event().wait(0.01)
        host.close()
    model = hosts().create("t", "request", {})
    assert model.snapshot() == 0
    done(model, learn("1", ["a"]))
    assert model.snapshot() == 1
    about = model.describe()
    assert (about["snapshot_version"], about["version"], about["classes"], about["examples"]) == (1, 1, ["x"], 1)
    assert about["snapshot_time"] is not None


def test_a_restart_replays_what_no_snapshot_holds(hosts: Callable[..., Host]) -> None:
    host = hosts(upkeep=Upkeep(at_close=False))
    model = host.create("t", "m", {"memory": "hashed"})
    for n in range(30):
        done(model, learn(f"a{n}", ["a", n, "c"], ["b", n % 3, "c"]))
    model.snapshot()
    for n in range(30):
        done(model, forget(f"b{n}", ["a", n, "c"]))
    before = state_bytes(model)
    host.close()
    again = hosts().get("t", "m")
    assert (again.version, again.replayed, state_bytes(again)) == (60, 30, before)


def test_a_replica_answers_like_the_writer_and_refuses_edits(hosts: Callable[..., Host]) -> None:
    writer, replica = hosts(), hosts(replica=True)
    with pytest.raises(NoSuchModel):
        replica.get("t", "m")
    model = writer.create("t", "m", {})
    followed = replica.get("t", "m")
    for n in range(5):
        version = done(model, learn(str(n), ["a", n])).version
        clf, met = followed.answering(version, wait=patience(60))
        assert (met, clf.memory_.state_bytes()) == (version, state_bytes(model))
    with pytest.raises(Unavailable):
        followed.edit(learn("9", ["a", 9]))
    for refused in (followed.snapshot, lambda: replica.delete("t", "m"), lambda: replica.create("t", "n", {})):
        with pytest.raises(Unavailable):
            refused()


def test_a_replica_that_was_overtaken_loads_the_snapshot(
    hosts: Callable[..., Host], monkeypatch: pytest.MonkeyPatch
) -> None:
    writer, replica = hosts(), hosts(replica=True)
    model = writer.create("t", "m", {})
    done(model, learn("1", ["a", 1]))
    followed: Any = replica.get("t", "m")
    looked = threading.Event()

    def sees_nothing() -> bool:
        looked.set()
        return False

    monkeypatch.setattr(followed._log, "has_changed", sees_nothing)
    looked.wait()  # the look before has ended
    done(model, learn("2", ["a", 2]))
    model.snapshot()
    done(model, learn("3", ["a", 3]))
    assert followed.version == 1
    monkeypatch.undo()
    assert followed.answering(3, wait=patience(60))[0].memory_.state_bytes() == state_bytes(model)
    assert followed.describe()["snapshot_version"] == 2


def test_a_replica_meets_a_model_of_the_same_name_that_is_another(hosts: Callable[..., Host]) -> None:
    writer, replica = hosts(), hosts(replica=True)
    done(writer.create("t", "m", {}), learn("1", ["a", 1]))
    assert replica.get("t", "m").version == 1
    writer.delete("t", "m")
    while True:  # it takes the replica about a second to see it
        try:
            replica.get("t", "m")
        except NoSuchModel:
            break
        threading.Event().wait(0.05)
    model = writer.create("t", "m", {})
    for op in "12":
        done(model, learn(op, ["b"]))
    assert replica.get("t", "m").answering(2, wait=patience(60))[0].n_features_in_ == 1


def test_a_second_writer_is_refused(hosts: Callable[..., Host]) -> None:
    hosts().create("t", "m", {})
    with pytest.raises(InUse, match=r"by process \d+ on"):
        hosts().get("t", "m")


def test_models_belong_to_tenants(hosts: Callable[..., Host]) -> None:
    host = hosts()
    host.create("t", "m", {})
    with pytest.raises(NoSuchModel):
        host.get("u", "m")
    assert (host.names("t"), host.names("u")) == (["m"], [])
    for tenant, name in (("..", "m"), ("t", "../t/m"), ("t", ""), ("T", "m"), ("t", "m\x00")):
        with pytest.raises(Malformed):
            host.get(tenant, name)
        with pytest.raises(Malformed):
            host.create(tenant, name, {})


def test_a_model_is_made_again_with_the_same_settings_only(hosts: Callable[..., Host]) -> None:
    host = hosts()
    model = host.create("t", "m", {"columns": 2})
    assert host.create("t", "m", {"columns": 2}) is model
    with pytest.raises(Exists):
        host.create("t", "m", {"columns": 3})
    host.delete("t", "m")
    with pytest.raises(NoSuchModel):
        host.delete("t", "m")
    assert host.create("t", "m", {"columns": 3}).describe()["columns"] == 3


def test_files_go_in_and_out(hosts: Callable[..., Host], tmp_path: Path) -> None:
    import pandas as pd

    host = hosts()
    frame = pd.DataFrame({"colour": ["red", "green"], "form": ["round", "long"]})
    clf = MemoryClassifier(memory=Exact(), keep="auto+digests").fit(frame, ["apple", "bean"])
    save(clf, tmp_path / "in.safetensors")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = host.upload("t", "m", tmp_path / "in.safetensors")
        done(model, learn("1", ["red", "long"], label="pepper"))
        done(model, learn("2", ["red", "long"], ["red", "flat"], label="pepper"))
    assert model.describe()["settings"] == {"columns": ["colour", "form"]}
    assert host.write_file("t", "m", tmp_path / "out.safetensors") == 2
    again = load(tmp_path / "out.safetensors")
    assert again.feature_names_in_.tolist() == ["colour", "form"]
    assert again.memory_.state_bytes() == state_bytes(model)
    with pytest.raises(Exists):
        host.upload("t", "m", tmp_path / "in.safetensors")
    with pytest.raises(Exists):
        host.create("t", "m", {})
    host.close()
    assert hosts().get("t", "m").version == 2


def test_files_that_are_no_models_are_refused(tmp_path: Path) -> None:
    clf = MemoryClassifier(memory=Exact(), keep=Digests("auto", bytes(32))).fit([["a"], ["b"]], ["x", "y"])
    save(clf, tmp_path / "keyed")
    save(MemoryClassifier().fit([["a"], ["b"]], ["x", "y"]).compile(), tmp_path / "compiled")
    save(MeMoClassifier(d=8).fit([["a"], ["b"]], ["x", "y"]), tmp_path / "floats")
    (tmp_path / "damaged").write_bytes(b"damaged")
    (tmp_path / "large").write_bytes(bytes(100_000))
    with Host(tmp_path / "models", limits=Limits(file=50_000)) as host:
        for name in ("keyed", "compiled", "damaged", "floats"):
            with pytest.raises(Malformed):
                host.upload("t", "m", tmp_path / name)
        with pytest.raises(TooLarge):
            host.upload("t", "m", tmp_path / "large")
        assert host.names("t") == []
        host.create("t", "m", {})
        with pytest.raises(NothingLearnt):
            host.write_file("t", "m", tmp_path / "out")


def test_too_many_that_wait_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    go = threading.Event()
    append = SqliteLog.append

    def slow(*arguments: Any) -> None:
        go.wait()
        append(*arguments)

    monkeypatch.setattr(SqliteLog, "append", slow)
    with Host(tmp_path, limits=Limits(queued=3)) as host:
        model: Any = host.create("t", "m", {})
        futures = [model.edit(learn("0", ["a"]))]
        while model.waiting:
            threading.Event().wait(0.001)
        futures += [model.edit(learn(str(n), ["a"])) for n in range(1, 4)]
        with pytest.raises(TooMany):
            model.edit(learn("4", ["a"]))
        assert futures[1].cancel()  # its client has gone away
        closer = threading.Thread(target=model.close)
        closer.start()
        while not model._closing:
            threading.Event().wait(0.001)
        with pytest.raises(Unavailable):
            model.edit(learn("5", ["a"]))
        go.set()
        closer.join()  # edits that waited are finished
        assert [future.result().version for future in futures if not future.cancelled()] == [1, 2, 3]


@pytest.mark.parametrize("written", [False, True])
def test_a_commit_that_fails_is_must_recover_until_the_log_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: bool, caplog: pytest.LogCaptureFixture
) -> None:
    with Host(tmp_path) as host:
        model = host.create("t", "m", {})
        done(model, learn("1", ["secret-a"]))
        fail_next_commit(monkeypatch, written=written)
        futures = [model.edit(learn("2", ["secret-b"])), model.edit(forget("3", ["secret-never"]))]
        results = [future.exception() for future in futures]
        assert isinstance(results[0], Unavailable)
        assert isinstance(results[1], (Unavailable, NotStored))
        assert done(model, learn("2", ["secret-b"])) == Acknowledgement(2, "repeated" if written else "applied")
        assert model.version == 2
    assert "a group failed" in caplog.text
    assert "secret" not in caplog.text


def test_an_unexpected_error_in_the_writer_stops_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Host(tmp_path) as host:
        model = host.create("t", "m", {})
        monkeypatch.setattr(SqliteLog, "find_ids", lambda *_: 1 / 0)
        with pytest.raises(Unavailable):
            done(model, learn("1", ["a"]))
        monkeypatch.undo()
        assert done(model, learn("1", ["a"])) == Acknowledgement(1, "applied")


def everywhere(folder: Path, marker: bytes) -> int:
    return sum(path.read_bytes().count(marker) for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize("memory", ["exact", "hashed"])
def test_nothing_forgotten_is_in_any_file_after_a_snapshot(tmp_path: Path, memory: str) -> None:
    with Host(tmp_path) as host:
        model = host.create("t", "m", {"memory": memory})
        for future in [
            model.edit(learn(f"a{n}", [f"MARKER{n}", "x" * n, n], ["stays", "y" * n, n])) for n in range(80)
        ]:
            future.result(patience(60))
        done(model, learn("long", ["MARKER" * 600, 1, 2]))  # on pages of its own
        assert everywhere(tmp_path, b"MARKER") > 80
        model.snapshot()
        assert everywhere(tmp_path, b"MARKER") > (80 if memory == "exact" else 0)
        for future in [model.edit(forget(f"b{n}", [f"MARKER{n}", "x" * n, n])) for n in range(80)]:
            future.result(patience(60))
        done(model, forget("long-", ["MARKER" * 600, 1, 2]))
        model.snapshot()
        assert everywhere(tmp_path, b"MARKER") == 0
        assert everywhere(tmp_path, b"stays") > (0 if memory == "exact" else -1)
    assert everywhere(tmp_path, b"MARKER") == 0


def test_what_a_crash_left_of_a_snapshot_is_removed(tmp_path: Path) -> None:
    with Host(tmp_path, upkeep=Upkeep(at_close=False)) as host:
        model = host.create("t", "m", {})
        done(model, learn("1", ["MARKER"]))
    left = tmp_path / "t" / "m" / "model.safetensors.0123456789abcdef.tmp"
    left.write_bytes(b"MARKER")
    doomed = tmp_path / "t" / ".deleted-0123"
    doomed.mkdir()
    with Host(tmp_path) as host:
        assert host.get("t", "m").version == 1
        assert not left.exists()
        assert not doomed.exists()


def test_a_crash_between_snapshot_and_deletion_costs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(*_: Any) -> None:
        raise LogError("as if")

    with Host(tmp_path, upkeep=Upkeep(at_close=False)) as host:
        model = host.create("t", "m", {})
        done(model, learn("1", ["MARKER"]))
        done(model, forget("2", ["MARKER"]))
        monkeypatch.setattr(SqliteLog, "trim", crash)
        with pytest.raises(Unavailable):
            model.snapshot()
        monkeypatch.undo()
    assert everywhere(tmp_path, b"MARKER") > 0
    with Host(tmp_path, upkeep=Upkeep(at_close=False)) as host:
        model = host.get("t", "m")
        assert (model.version, model.describe()["snapshot_version"]) == (2, 2)
        assert everywhere(tmp_path, b"MARKER") == 0


def test_damaged_logs_are_not_served(tmp_path: Path) -> None:
    with Host(tmp_path, upkeep=Upkeep(at_close=False)) as host:
        model = host.create("t", "m", {})
        for n in range(4):
            done(model, learn(str(n), ["a", n]))
    path = tmp_path / "t" / "m" / sqlite_log.LOG

    def refused(change: str) -> str:
        before = path.read_bytes()
        db = apsw.Connection(str(path))
        db.execute(change)
        db.close()
        with Host(tmp_path) as host, pytest.raises(Unavailable) as caught:
            host.get("t", "m")
        path.write_bytes(before)
        return str(caught.value)

    assert "gap" in refused("delete from hammemo_edits where position = 2")
    assert "not an edit" in refused("update hammemo_edits set body = x'c1' where position = 2")
    assert "does not fit" in refused(  # MessagePack of ["forget", [["b", 9]], ["x"]]
        "update hammemo_edits set body = x'93a6666f72676574919" + "2a16209" + "91a178' where position = 2"
    )
    other = refused("update about set value = '99' where name = 'format'")
    assert f"has format 99, written by hammemo {__version__}, and hammemo {__version__} reads format 4" in other
    assert "not a log" in refused("update about set value = 1 where name = 'key'")
    with Host(tmp_path) as host:
        assert host.get("t", "m").version == 4


def test_a_snapshot_that_is_missing_or_older_than_the_log_is_not_served(tmp_path: Path) -> None:
    with Host(tmp_path, upkeep=Upkeep(at_close=False)) as host:
        model = host.create("t", "m", {})
        done(model, learn("1", ["a"]))
        model.snapshot()
        path = tmp_path / "t" / "m" / sqlite_log.MODEL
        older = path.read_bytes()
        done(model, learn("2", ["a"]))
        model.snapshot()
    path.write_bytes(older)
    with Host(tmp_path) as host, pytest.raises(Unavailable, match="edits after it are deleted"):
        host.get("t", "m")
    path.unlink()
    with Host(tmp_path) as host, pytest.raises(Unavailable, match="edits after it are deleted"):
        host.get("t", "m")


def test_deleted_bodies_take_no_room(tmp_path: Path) -> None:
    with Host(tmp_path) as host:
        model = host.create("t", "m", {})
        for n in range(20):
            done(model, learn(str(n), *[["a" * 1000, n, k] for k in range(100)]))
        assert model.describe()["log_bytes"] > 2e6
        model.snapshot()
        assert model.describe()["log_bytes"] < 1e5


def test_a_missing_package_is_named() -> None:
    code = "import sys; sys.modules['psycopg'] = None; import hammemo_server.store.postgres_log"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert "pip install 'hammemo[postgres]'" in ended.stderr.splitlines()[-1]


def test_models_are_opened_when_they_are_asked_for(hosts: Callable[..., Host]) -> None:
    host = hosts()
    for tenant, name in (("t", "a"), ("t", "b"), ("u", "a")):
        done(host.create(tenant, name, {}), learn("1", ["a"]))
    host.close()
    with pytest.raises(Unavailable, match="stops"):
        host.get("t", "a")
    again = hosts()
    assert again.open_models() == []
    for tenant in again.tenants():
        for name in again.names(tenant):
            again.get(tenant, name)
    assert {(model.tenant, model.name, model.version) for model in again.open_models()} == {
        ("t", "a", 1),
        ("t", "b", 1),
        ("u", "a", 1),
    }


def test_an_address_that_is_no_log_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="'mysql' is not known"):
        Host(tmp_path, "mysql://user:secret@host/db")
    pytest.importorskip("psycopg")
    with pytest.raises(Unavailable, match="cannot be reached") as caught:
        Host(tmp_path, "postgresql://someone:secret@/db?host=/nowhere")
    assert "secret" not in str(caught.value)


def test_a_snapshot_that_fails_is_made_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    failed, save_it = threading.Event(), save

    def failing(*_: Any, **__: Any) -> None:
        monkeypatch.setattr(sqlite_log, "save", save_it)
        failed.set()
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(writing, "_RETRY_SECONDS", 0.01)
    monkeypatch.setattr(sqlite_log, "save", failing)
    with Host(tmp_path, upkeep=Upkeep(snapshot_edits=2)) as host:
        model = host.create("t", "m", {})
        for n in range(4):
            done(model, learn(str(n), ["a", n]))
        assert failed.wait(patience(60))
        while model.describe()["snapshot_version"] < 2:
            threading.Event().wait(0.01)


def test_a_damaged_snapshot_is_not_served(tmp_path: Path) -> None:
    with Host(tmp_path) as host:
        done(host.create("t", "m", {}), learn("1", ["a"]))
    path = tmp_path / "t" / "m" / sqlite_log.MODEL
    whole = path.read_bytes()
    model = load(path)
    for damaged in (b"", whole[:-1], whole[:-20] + bytes(20)):
        path.write_bytes(damaged)
        with Host(tmp_path) as host, pytest.raises(Unavailable, match="cannot be read"):
            host.get("t", "m")
    path.unlink()
    save(model, path)  # a model, but no snapshot
    with Host(tmp_path) as host, pytest.raises(Unavailable, match="says no position"):
        host.get("t", "m")
    path.write_bytes(whole)
    with Host(tmp_path) as host:
        assert host.get("t", "m").version == 1


def test_a_place_where_nothing_can_be_written_is_told(tmp_path: Path) -> None:
    with Host(tmp_path) as host:
        done(host.create("t", "m", {}), learn("1", ["a"]))
        with pytest.raises(Unavailable, match="could not be written"):
            host.write_file("t", "m", tmp_path / "none" / "file")
        (tmp_path / "u").write_bytes(b"a file in the place of a folder")
        with pytest.raises(Unavailable, match="cannot be made"):
            host.create("u", "m", {})


def test_errors_have_the_statuses_of_http() -> None:
    def all_of(cls: type[ServiceError]) -> Iterator[type[ServiceError]]:
        for one in cls.__subclasses__():
            yield one
            yield from all_of(one)

    here = ServiceError.__module__  # other modules may have errors of their own
    assert {cls.__name__: cls.status for cls in all_of(ServiceError) if cls.__module__ == here} == {
        "KeysDropped": 410,
        "NoSuchList": 404,
        "NoSuchModel": 404,
        "NoSuchSubject": 404,
        "NotStored": 409,
        "NothingLearnt": 409,
        "NothingKept": 409,
        "Exists": 409,
        "TooLarge": 413,
        "OpReused": 422,
        "QuotaReached": 507,
        "Malformed": 422,
        "NotReached": 425,
        "TooMany": 429,
        "Unavailable": 503,
        "InUse": 503,
    }


@one_server
@needs_postgres
def test_a_writer_that_lost_its_lease_follows_and_takes_over_again(postgres: Server, tmp_path: Path) -> None:
    from hammemo_server.store.postgres_log import PostgresStore

    store = PostgresStore(postgres.address, lease=3600)
    store.create("over", "m", '{"given": {}, "seed": 1, "uploaded": false}', None)
    first = WrittenModel("over", "m", store.open("over", "m", replica=False))
    done(first, learn("1", ["a"]))
    db = first._log._db  # type: ignore[attr-defined]
    db.execute("update hammemo_models set lease_until = clock_timestamp() - interval '1 s' where tenant = 'over'")
    second = WrittenModel("over", "m", store.open("over", "m", replica=False))
    done(second, learn("2", ["b"]))
    with pytest.raises(Unavailable):  # and not "not stored": it may not say so
        done(first, forget("4", ["b"]))
    with pytest.raises(InUse):
        done(first, learn("3", ["a"]))
    assert first.answering(2, wait=patience(60))[1] == 2  # it has read what the other wrote
    second.close()
    while True:
        try:
            assert done(first, learn("3", ["a"])) == Acknowledgement(3, "applied")
            break
        except Unavailable:
            threading.Event().wait(0.05)
    first.close()
