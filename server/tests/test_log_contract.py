"""What every log promises, asked of both: the same tests for SQLite and for PostgreSQL."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

import pytest

from hammemo import MemoryClassifier
from hammemo.memories import Exact
from hammemo_server.edits.operations import InUse, NoSuchModel
from hammemo_server.store.log import Entry, LogDamaged, LogError, Overtaken, Seen
from hammemo_server.store.sqlite_log import FolderStore
from pace import wait_until
from postgres_server import Server, needs_postgres, one_server, postgres

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from hammemo_server.store.base_log import Log, Store

__all__ = ["postgres"]

SETTINGS = '{"given": {}, "seed": 1, "uploaded": false}'


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=[needs_postgres, one_server])])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    made: Store
    if request.param == "sqlite":
        made = FolderStore(tmp_path)
    else:
        from hammemo_server.store.postgres_log import PostgresStore

        server: Server = request.getfixturevalue("postgres")
        made = PostgresStore(server.address)
    for tenant in made.tenants():
        for name in made.names(tenant):
            made.delete(tenant, name)
    return made


@pytest.fixture
def opened(store: Store) -> Iterator[Callable[..., Log]]:
    """Return a function that opens the log t/m, made first; all are closed in the end."""
    logs: list[Log] = []

    def make(*, replica: bool = False) -> Log:
        store.create("t", "m", SETTINGS, None)
        logs.append(store.open("t", "m", replica=replica))
        return logs[-1]

    yield make
    for log in logs:
        log.close()


def entries(*numbers: int) -> list[Entry]:
    return [Entry(f"op-{n}", bytes([n]) * 16, b"body %d \x00\xff" % n) for n in numbers]


def model(*rows: list[str]) -> MemoryClassifier:
    clf = MemoryClassifier(memory=Exact(), keep="auto+digests").open(2)
    return clf.partial_fit(rows, ["x"] * len(rows)) if rows else clf


def test_a_new_log_is_empty(opened: Callable[..., Log]) -> None:
    log = opened()
    assert (log.head(), log.base(), log.read(0, 10), log.snapshot(), log.find_ids(["op-1"])) == (0, 0, [], None, {})
    assert log.settings == SETTINGS
    assert len(log.key) == 32


def test_what_was_appended_is_there_in_order_and_after_opening_again(store: Store, opened: Callable[..., Log]) -> None:
    log = opened()
    key = log.key
    log.append(0, entries(1, 2))
    log.append(2, entries(3))
    log.close()
    log = store.open("t", "m", replica=False)
    try:
        assert log.head() == 3
        assert log.key == key
        assert log.read(0, 10) == [entry.body for entry in entries(1, 2, 3)]
        assert log.read(1, 1) == [entries(2)[0].body]
        assert log.read(3, 10) == []
        assert log.find_ids(["op-3", "op-1", "no"]) == {"op-3": Seen(3, b"\x03" * 16), "op-1": Seen(1, b"\x01" * 16)}
    finally:
        log.close()


def test_a_group_is_appended_whole_or_not_at_all(opened: Callable[..., Log]) -> None:
    log = opened()
    log.append(0, entries(1))
    with pytest.raises(LogError):
        log.append(1, entries(2, 1))  # the second id is taken
    log.reopen()
    assert (log.head(), log.find_ids(["op-2"]), len(log.read(0, 10))) == (1, {}, 1)
    log.append(1, entries(2))
    assert log.head() == 2


def test_an_entry_goes_to_the_end_only(opened: Callable[..., Log]) -> None:
    log = opened()
    log.append(0, entries(1))
    for after in (0, 2):
        with pytest.raises(LogDamaged, match="does not end at position"):
            log.append(after, entries(2))
    assert (log.head(), log.read(0, 10)) == (1, [entries(1)[0].body])


def test_a_snapshot_takes_the_place_of_bodies_and_ids_stay(opened: Callable[..., Log]) -> None:
    log = opened()
    log.append(0, entries(1, 2, 3))
    kept = model(["a", "b"])
    log.keep_snapshot(kept, 2)
    assert (log.head(), log.base()) == (3, 2)
    found = log.snapshot()
    assert found is not None
    assert found[1] == 2
    assert found[0].memory_.state_bytes() == kept.memory_.state_bytes()
    assert log.read(2, 10) == [entries(3)[0].body]
    assert len(log.find_ids(["op-1", "op-2", "op-3"])) == 3
    with pytest.raises(Overtaken):
        log.read(1, 10)
    log.keep_snapshot(model(["a", "b"], ["c", "d"]), 3)
    assert (log.head(), log.base(), log.read(3, 10)) == (3, 3, [])
    log.append(3, entries(4))
    assert log.head() == 4


def test_ids_are_forgotten_by_age_and_never_before_their_bodies(opened: Callable[..., Log]) -> None:
    log = opened()
    log.append(0, entries(1, 2))
    log.keep_snapshot(model(["a", "b"]), 1)
    log.forget_ids(3600)
    assert len(log.find_ids(["op-1", "op-2"])) == 2
    log.forget_ids(-1)  # all are older than a second from now
    assert set(log.find_ids(["op-1", "op-2"])) == {"op-2"}


def test_a_second_writer_is_refused_and_told_who_writes(store: Store, opened: Callable[..., Log]) -> None:
    log = opened()
    with pytest.raises(InUse, match=r"by process \d+ on "):
        store.open("t", "m", replica=False)
    with pytest.raises(InUse):
        store.delete("t", "m")
    log.close()
    store.open("t", "m", replica=False).close()
    assert store.delete("t", "m")


def test_a_replica_sees_what_is_written(opened: Callable[..., Log]) -> None:
    log, replica = opened(), opened(replica=True)
    assert replica.has_changed()  # the first look
    assert not replica.has_changed()
    log.append(0, entries(1, 2))
    assert replica.has_changed()
    assert len(replica.read(0, 10)) == 2
    assert not replica.has_changed()
    log.keep_snapshot(model(["a", "b"]), 2)
    assert replica.has_changed()
    with pytest.raises(Overtaken):
        replica.read(1, 10)
    found = replica.snapshot()
    assert found is not None
    assert found[1] == 2


def test_replicas_never_see_a_gap(opened: Callable[..., Log]) -> None:
    log, replica = opened(), opened(replica=True)
    done = threading.Event()
    met: list[bytes] = []

    def follow() -> None:
        while True:
            ended = done.is_set()
            bodies = replica.read(len(met), 7)  # raises where there is a gap
            met.extend(bodies)
            if ended and not bodies:
                return

    thread = threading.Thread(target=follow)
    thread.start()
    for n in range(0, 120, 3):
        log.append(n, [Entry(str(i), b"", b"%d" % i) for i in range(n, n + 3)])
    done.set()
    thread.join()
    assert met == [b"%d" % i for i in range(120)]


def test_models_are_made_once_listed_and_deleted(store: Store) -> None:
    assert store.create("t", "b", "{}", model(["a", "b"]))
    assert not store.create("t", "b", "{}", None)
    assert store.create("t", "a", "{}", None)
    assert store.create("u", "b", "{}", None)
    assert (store.names("t"), store.names("u"), store.names("none")) == (["a", "b"], ["b"], [])
    assert set(store.tenants()) == {"t", "u"}
    log = store.open("t", "b", replica=False)
    found = log.snapshot()
    assert found is not None
    assert (found[1], found[0].memory_.state_bytes()) == (0, model(["a", "b"]).memory_.state_bytes())
    log.close()
    assert store.delete("t", "b")
    assert not store.delete("t", "b")
    assert store.names("t") == ["a"]
    with pytest.raises(NoSuchModel):
        store.open("t", "b", replica=True)


def test_the_size_can_be_asked_while_the_model_is_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from pathlib import Path as AnyPath

    store = FolderStore(tmp_path)
    store.create("t", "m", SETTINGS, None)
    log = store.open("t", "m", replica=False)
    assert log.body_bytes() > 0
    log.close()
    store.delete("t", "m")
    monkeypatch.setattr(AnyPath, "exists", lambda _: True)  # as if it was deleted after a look
    assert log.body_bytes() == 0


def test_a_model_of_a_deleted_name_begins_anew(opened: Callable[..., Log], store: Store) -> None:
    log = opened()
    log.append(0, entries(1))
    key = log.key
    log.close()
    assert store.delete("t", "m")
    log = opened()
    assert (log.head(), log.find_ids(["op-1"])) == (0, {})
    assert log.key != key


@one_server
@needs_postgres
def test_a_writer_that_lost_its_lease_cannot_write(postgres: Server) -> None:
    from hammemo_server.store.log import LeaseLost
    from hammemo_server.store.postgres_log import PostgresStore

    store = PostgresStore(postgres.address, lease=0.2)
    store.create("lease", "m", "{}", None)
    first = store.open("lease", "m", replica=False)
    first.append(0, entries(1))
    second = _taken_over(store, "lease")  # the lease runs out, because it is not renewed
    for attempt in (
        lambda: first.append(1, entries(2)),
        lambda: first.keep_snapshot(model(["a", "b"]), 1),
        first.renew_lease,
    ):
        with pytest.raises(LeaseLost):
            cast("Any", attempt)()
    assert (second.head(), second.base(), second.snapshot()) == (1, 0, None)
    second.append(1, entries(2))
    assert first.read(0, 10) == [entry.body for entry in entries(1, 2)]  # it may still read
    for log in (first, second):
        log.close()


@one_server
@needs_postgres
def test_a_lease_is_free_when_the_session_that_took_it_has_ended(postgres: Server) -> None:
    from hammemo_server.store.postgres_log import PostgresStore

    store = PostgresStore(postgres.address, lease=3600)
    store.create("ended", "m", "{}", None)
    first = store.open("ended", "m", replica=False)
    first._db.close()  # as when the process is killed
    second = _taken_over(store, "ended")  # the server needs a moment to see it
    second.append(0, entries(1))
    assert second.head() == 1
    second.close()


def _taken_over(store: Any, tenant: str) -> Any:
    """Return the log m of a tenant, opened as soon as its lease is free."""
    logs: list[Any] = []

    def is_free() -> bool:
        with suppress(InUse):
            logs.append(store.open(tenant, "m", replica=False))
        return bool(logs)

    assert wait_until(is_free, 30)
    return logs[0]


@one_server
@needs_postgres
def test_a_database_of_another_format_is_refused(postgres: Server) -> None:
    import psycopg

    from hammemo_server.store.postgres_log import PostgresStore

    PostgresStore(postgres.address)
    with psycopg.connect(postgres.address, autocommit=True) as db:
        db.execute("update hammemo_about set format = '99'")
        try:
            with pytest.raises(LogDamaged, match=r"The database has format 99, written by hammemo .* reads format 4"):
                PostgresStore(postgres.address)
        finally:
            db.execute("update hammemo_about set format = '4'")
    PostgresStore(postgres.address)
