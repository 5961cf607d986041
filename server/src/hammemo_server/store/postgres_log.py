"""The logs of all models in PostgreSQL, for several nodes: one writes a model, others follow it or wait to take over.

**Order by commit.** The position of an edit is taken in the transaction that writes it, from the row of its model,
which stays locked until the commit: positions have no gaps, and a reader never sees a later one before an earlier one.
(A sequence would give out numbers that become visible in another order.)

**A fenced lease.** A writer holds a lease, which it prolongs with every commit and while it waits. Another one may take
it when it has run out, or when the session that took it has ended. To take it is to count up the epoch of the model,
and every commit asks, in its transaction, whether the epoch is still its own: a writer that was away and has lost the
lease cannot write, whatever its clock says. Only the server's clock is read.

**Snapshots** are kept in the database, in parts, so that nodes need no common disk. A snapshot, the deletion of the
bodies that it holds and the deletion of the snapshot before are one transaction.

**Durability** is the server's: ``fsync`` on, and ``synchronous_commit`` at "on" or higher, which is set here where it
is lower. With a synchronous standby an edit is acknowledged when both servers have it. What is deleted stays in the
server's write-ahead log until that is recycled, and in dead rows until they are vacuumed. So the snapshots of a model
with subjects are encrypted under a contents key (:mod:`hammemo_server.store.vault`), part by part. They are made in
memory: no file holds them in the clear.
"""

from __future__ import annotations

import logging
import os
import secrets
import shutil
import socket
import tempfile
import time
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final, cast

from hammemo.files.contents import file_bytes
from hammemo.files.models import save
from hammemo_server.edits.operations import KEY_BYTES, InUse, NoSuchModel
from hammemo_server.store.base_log import (
    HIDDEN,
    BaseLog,
    RunningTime,
    loaded_snapshot,
    received_model,
)
from hammemo_server.store.log import Copied, Entry, LeaseLost, ListFacts, LogDamaged, LogError, Seen
from hammemo_server.store.postgres_connection import connected, failures, insert_rows, make_tables, one_restore
from hammemo_server.store.vault import KeyGone, Vault

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import psycopg

    from hammemo.models.learners import Learner

_logger = logging.getLogger("hammemo_server")

LEASE: Final = 10.0
"""Seconds for which a lease lasts without being prolonged."""

_PART: Final = 2**20
"""Bytes of one part of a snapshot."""

_NUMBER: Final = 8
"""Bytes of the number of a contents key."""


_IS_FREE: Final = """(m.lease_until is null or m.lease_until < clock_timestamp() or not exists (
    select from pg_stat_activity a where a.pid = m.backend_pid
    and (a.backend_start is null or a.backend_start = m.backend_start)))"""
"""Whether the lease is free: it has run out, or the session that took it has ended."""


_DUMPED: Final = {
    "edits": "select e.position, e.body from hammemo_edits e join hammemo_models m on m.id = e.model "
    "where m.id = %s and e.position > m.base order by e.position",
    "ids": "select i.op, i.position, i.digest, m.ran - i.ran from hammemo_ids i "
    "join hammemo_models m on m.id = i.model where m.id = %s",
}


class PostgresLog(BaseLog):
    """The log of one model; see :class:`hammemo_server.store.log.Log`.

    Parameters
    ----------
    address : str
        Of the server, ``postgresql://…``.
    tenant, name : str
    scratch : path
        A folder for snapshots on their way.
    replica : bool
        Whether only to read.
    lease : float
        Seconds for which the lease lasts.
    """

    def __init__(
        self, address: str, tenant: str, name: str, scratch: Path, *, replica: bool = False, lease: float = LEASE
    ) -> None:
        super().__init__(f"The log of {name!r}", replica=replica)
        self._address, self._name, self._scratch, self._lease = address, name, scratch, lease
        self._epoch = -1
        self._met: tuple[int, int] | None = None
        self._db = connected(address)
        try:
            with self._failing():
                row = self._db.execute(
                    "select id, settings, key from hammemo_models where tenant = %s and name = %s", (tenant, name)
                ).fetchone()
            if row is None:
                raise NoSuchModel(f"There is no model {name!r}.")
            self._id, self.settings, self.key = int(row[0]), str(row[1]), bytes(row[2])
            if not replica:
                self._take_lease()
        except BaseException:
            self._db.close()
            raise

    def head(self) -> int:
        """Return the position of the last edit, 0 if there was none."""
        return self._ends()[0]

    def base(self) -> int:
        """Return the position up to which bodies are deleted."""
        return self._ends()[1]

    def body_bytes(self) -> int:
        """Return how many bytes of bodies there are."""
        with self._failing():
            query = "select coalesce(sum(octet_length(body)), 0) from hammemo_edits where model = %s"
            return int(self._one(query, self._id)[0])

    def snapshot_bytes(self) -> int:
        """Return how many bytes the newest snapshot has."""
        with self._failing():
            query = "select coalesce(sum(octet_length(data)), 0) from hammemo_snapshots where model = %s"
            return int(self._one(query, self._id)[0])

    def seen(self, ops: Sequence[str]) -> dict[str, Seen]:
        """Return those of these ids that are known."""
        with self._failing():
            rows = self._db.execute(
                "select op, position, digest from hammemo_ids where model = %s and op = any(%s)", (self._id, list(ops))
            ).fetchall()
        return {op: Seen(position, bytes(digest)) for op, position, digest in rows}

    def append(self, after: int, entries: Sequence[Entry]) -> None:
        """Append entries, durably, all or none, if the lease is still this writer's."""
        positions = list(range(after + 1, after + 1 + len(entries)))
        with self._failing(), self._db.transaction():
            self._renew(after, len(entries))
            self._db.execute(
                "insert into hammemo_edits select %s, * from unnest(%s::bigint[], %s::bytea[])",
                (self._id, positions, [entry.body for entry in entries]),
            )
            self._db.execute(
                "insert into hammemo_ids(model, op, position, digest, ran) "
                "select %s, *, %s from unnest(%s::text[], %s::bigint[], %s::bytea[])",
                (
                    self._id,
                    self._running.now(),
                    [entry.op for entry in entries],
                    positions,
                    [entry.digest for entry in entries],
                ),
            )
            self._append_audit(after, entries)
            self._append_receipts(after, entries)
            self._append_journal(after, entries)

    def read(self, after: int, most: int) -> list[bytes]:
        """Return at most `most` bodies, those of the positions after `after`."""
        with self._failing():  # one statement: the base and the bodies belong together
            rows = self._db.execute(
                "select m.base, e.position, e.body from hammemo_models m left join lateral (select position, body from "
                "hammemo_edits where model = m.id and position > %s order by position limit %s) e on true "
                "where m.id = %s order by e.position",
                (after, most, self._id),
            ).fetchall()
        if not rows:
            raise LogError("The model was deleted.")
        found = [(position, bytes(body)) for _, position, body in rows if position is not None]
        return self._in_order(after, rows[0][0], found)

    def snapshot(self) -> tuple[Learner, int] | None:
        """Return the newest snapshot and its position, or None if there is none yet."""
        if self.vault is not None:
            return self._sealed_snapshot(self.vault)
        with self._temporary() as path:
            with open(path, "wb") as file:
                position = self._fetch(file)
            return None if position is None else (loaded_snapshot(path), position)

    def _sealed_snapshot(self, vault: Vault) -> tuple[Learner, int] | None:
        parts = _Parts([])
        position = self._fetch(parts)
        if position is None:
            return None
        try:
            opened = _opened_parts(vault, position, parts.written)
            return received_model(b"".join(opened)), position
        except KeyGone as error:  # replaced by a newer snapshot, or destroyed
            raise LogError(f"The snapshot of position {position} cannot be read: {error}") from error
        except ValueError as error:
            raise LogDamaged(f"The snapshot cannot be read: {error}") from error

    def _fetch(self, file: BinaryIO | _Parts) -> int | None:
        """Write the parts of the newest snapshot, and return its position; None if there is none."""
        with self._failing(), self._db.transaction():
            self._db.execute("set transaction isolation level repeatable read read only")
            return self._read_parts(file)

    def _read_parts(self, file: BinaryIO | _Parts) -> int | None:
        base, has_snapshot = self._one("select base, has_snapshot from hammemo_models where id = %s", self._id)
        if not has_snapshot:
            return None
        with self._db.cursor(name="hammemo_parts") as parts:
            parts.itersize = 4
            parts.execute(
                "select data from hammemo_snapshots where model = %s and position = %s order by part",
                (self._id, base),
            )
            for (data,) in parts:
                file.write(data)
        return int(base)

    def keep_snapshot(self, model: Learner, position: int) -> None:
        """Make this the newest snapshot and delete all bodies up to it, in one transaction beside that of edits."""
        if self.vault is not None:
            self._send(_sealed_parts(self.vault, position, file_bytes(model)), position)
            return
        try:
            with self._temporary() as path:
                save(model, path, force=True)
                self._send(_parts_of(path), position)
        except OSError as error:
            raise LogError(f"The snapshot could not be written: {error.strerror}.") from error

    def _send(self, parts: Iterable[bytes], position: int) -> None:
        with failures(), connected(self._address) as db, db.transaction():
            _write_parts(db, self._id, position, parts)
            changed = db.execute(
                "update hammemo_models set base = %s, has_snapshot = true where id = %s and epoch = %s and base <= %s",
                (position, self._id, self._epoch, position),
            )
            if changed.rowcount != 1:
                raise LeaseLost("Another process writes this model now: the snapshot was dropped.")
            db.execute("delete from hammemo_edits where model = %s and position <= %s", (self._id, position))
            db.execute("delete from hammemo_snapshots where model = %s and position <> %s", (self._id, position))

    def forget_ids(self, older_than: float) -> None:
        """Forget the ids of edits whose bodies are deleted and that are older than `older_than` seconds of running."""
        with self._writing():
            self._db.execute(
                "delete from hammemo_ids i using hammemo_models m where m.id = i.model and m.id = %s and "
                "i.position <= m.base and i.ran < m.ran - %s",
                (self._id, older_than),
            )

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Read one state of the log for the time of a block."""
        with self._failing(), self._db.transaction():
            self._db.execute("set transaction isolation level repeatable read read only")
            self._db.execute("set local idle_in_transaction_session_timeout = 0")  # it may wait for a disk
            yield

    def dumped(self, table: str) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of a table."""
        if table not in _DUMPED:
            yield from super().dumped(table)
            return
        with self._failing():
            yield from self._each(_DUMPED[table])

    def snapshot_parts(self) -> tuple[int, Iterator[bytes]] | None:
        """Return the position of the newest snapshot and its file, opened."""
        parts = _Parts([])
        with self._failing():
            position = self._read_parts(parts)
        if position is None:
            return None
        written = parts.written
        return position, iter(written) if self.vault is None else _opened_parts(self.vault, position, written)

    def has_changed(self) -> bool:
        """Return whether there are new edits or a new snapshot since the last call."""
        now = self._ends()
        changed, self._met = now != self._met, now
        return changed

    def is_current(self) -> bool:
        """Return whether the model is still there."""
        with self._failing():
            return self._db.execute("select from hammemo_models where id = %s", (self._id,)).fetchone() is not None

    def renew_lease(self) -> None:
        """Prolong the lease."""
        if not self._replica:
            with self._writing():
                pass

    def reopen(self) -> None:
        """Connect again, and take the lease again; without it the log can still be read."""
        with self._lock:
            self._db.close()
            self._db = connected(self._address)
            if not self._replica:
                self._take_lease()

    def close(self) -> None:
        """Give the lease back and disconnect."""
        with self._lock:
            with suppress(LogError), failures():  # the lease runs out by itself
                if not self._replica and not self._db.closed:
                    self._db.execute(
                        "update hammemo_models set lease_until = null where id = %s and epoch = %s",
                        (self._id, self._epoch),
                    )
            self._db.close()

    def _take_lease(self) -> None:
        holder = f"process {os.getpid()} on {socket.gethostname()}"
        with self._failing():
            row = self._db.execute(
                "update hammemo_models m set epoch = epoch + 1, holder = %s, backend_pid = pg_backend_pid(), "
                "backend_start = (select backend_start from pg_stat_activity where pid = pg_backend_pid()), "
                "lease_until = clock_timestamp() + %s * interval '1 second' "
                f"where id = %s and {_IS_FREE} returning epoch, ran",
                (holder, self._lease, self._id),
            ).fetchone()
            if row is None:
                found = self._db.execute(
                    "select holder, lease_until from hammemo_models where id = %s", (self._id,)
                ).fetchone()
                who = "another process" if found is None else f"{found[0]} (until {found[1]:%H:%M:%S} or longer)"
                raise InUse(f"The model {self._name!r} is written by {who}: send edits to that one, or stop it.")
            self._epoch, self._running = int(row[0]), RunningTime(float(row[1]))

    def _renew(self, after: int | None, by: int) -> None:
        """Lock the model's row, if the lease is still this writer's, renew it and take positions."""
        row = self._db.execute(
            "update hammemo_models set lease_until = clock_timestamp() + %s * interval '1 second', head = head + %s, "
            "ran = %s where id = %s and epoch = %s returning head",
            (self._lease, by, self._running.now(), self._id, self._epoch),
        ).fetchone()
        if row is None:
            raise LeaseLost("Another process writes this model now: nothing was written.")
        if after is not None and row[0] != after + by:
            raise LogDamaged(f"{self._called} does not end at position {after}.")

    def _rows(self, statement: str, *values: Any) -> list[Any]:
        return self._db.execute(cast("Any", statement), (self._id, *values)).fetchall()

    def _each(self, statement: str, *values: Any) -> Iterator[tuple[Any, ...]]:
        with self._db.cursor(name="hammemo_rows") as rows:
            rows.itersize = 1_000
            rows.execute(cast("Any", statement), (self._id, *values))
            yield from rows

    def _run(self, statement: str, *values: Any) -> None:
        self._db.execute(cast("Any", statement), (self._id, *values))

    def _insert(self, table: str, rows: Iterable[Sequence[Any]]) -> None:
        insert_rows(self._db, self._id, table, rows)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Run a block as one durable transaction, in which the lease stays this writer's."""
        with self._failing(), self._db.transaction():
            self._renew(None, 0)
            yield

    def _ends(self) -> tuple[int, int]:
        with self._failing():
            head, base = self._one("select head, base from hammemo_models where id = %s", self._id)
            return int(head), int(base)

    def _one(self, query: Any, *values: Any) -> Any:
        row = self._db.execute(query, values).fetchone()
        if row is None:
            raise LogError("The model was deleted.")
        return row

    def _failures(self) -> AbstractContextManager[None]:
        return failures()

    @contextmanager
    def _temporary(self) -> Iterator[Path]:
        with tempfile.TemporaryDirectory(prefix=".snapshot-", dir=self._scratch) as folder:
            yield Path(folder, "model.safetensors")


class PostgresStore:
    """The logs of one database; see :class:`hammemo_server.store.log.Store`.

    Parameters
    ----------
    address : str
        Of the server, ``postgresql://…``; the tables are made if they are not there.
    scratch : path
        A folder for snapshots on their way.
    lease : float
        Seconds for which the lease of a writer lasts.
    """

    def __init__(self, address: str, scratch: Path, lease: float = LEASE) -> None:
        self._address, self._scratch, self._lease = address, scratch, lease
        scratch.mkdir(mode=0o700, parents=True, exist_ok=True)
        _remove_old(scratch)
        make_tables(address)

    def tenants(self) -> list[str]:
        """Return the tenants that have a model."""
        found = self._column("select distinct tenant from hammemo_models")
        return [tenant for tenant in found if not tenant.startswith(HIDDEN)]

    def names(self, tenant: str) -> list[str]:
        """Return the names of a tenant's models."""
        return self._column("select name from hammemo_models where tenant = %s", tenant)

    def create(self, tenant: str, name: str, settings: str, model: Learner | None) -> bool:
        """Make an empty log, whole or not at all."""
        with (
            tempfile.TemporaryDirectory(prefix=".snapshot-", dir=self._scratch) as folder,
            failures(),
            connected(self._address) as db,
            db.transaction(),
        ):
            row = db.execute(
                "insert into hammemo_models(tenant, name, settings, key, has_snapshot) values(%s, %s, %s, %s, %s) "
                "on conflict do nothing returning id",
                (tenant, name, settings, secrets.token_bytes(KEY_BYTES), model is not None),
            ).fetchone()
            if row is not None and model is not None:
                path = Path(folder, "model.safetensors")
                save(model, path, force=True)
                _write_parts(db, int(row[0]), 0, _parts_of(path))
            return row is not None

    def open(self, tenant: str, name: str, *, replica: bool) -> PostgresLog:
        """Open a log; a writer takes its lease."""
        return PostgresLog(self._address, tenant, name, self._scratch, replica=replica, lease=self._lease)

    def delete(self, tenant: str, name: str) -> bool:
        """Delete a log that no process writes."""
        with failures(), connected(self._address) as db:
            where = "m.tenant = %s and m.name = %s"
            gone = db.execute(f"delete from hammemo_models m where {where} and {_IS_FREE}", (tenant, name))
            if gone.rowcount:
                return True
            held = db.execute(f"select holder from hammemo_models m where {where}", (tenant, name)).fetchone()
            if held is not None:
                raise InUse(f"The model {name!r} is written by {held[0]}: delete it there, or stop that process.")
            return False

    def receive(self, tenant: str, name: str, copied: Copied) -> None:
        """Make a log of what a backup holds, whole or not at all."""
        with failures(), connected(self._address) as db, db.transaction():
            db.execute("set local idle_in_transaction_session_timeout = 0")
            has_snapshot = copied.snapshot is not None
            row = db.execute(
                "insert into hammemo_models(tenant, name, settings, key, head, base, has_snapshot) "
                "values(%s, %s, %s, %s, %s, %s, %s) returning id",
                (tenant, name, copied.settings, copied.key, copied.head, copied.base, has_snapshot),
            ).fetchone()
            assert row is not None
            if copied.snapshot is not None:
                data, vault = copied.snapshot, copied.vault
                plain = (data[start : start + _PART] for start in range(0, len(data), _PART))
                _write_parts(
                    db, row[0], copied.base, plain if vault is None else _sealed_parts(vault, copied.base, data)
                )
            for table, rows in copied.rows:
                insert_rows(db, row[0], table, rows)

    def restoring(self, wait: float) -> AbstractContextManager[None]:
        """Hold a lock of the database; it ends with the session."""
        return one_restore(self._address, wait)

    def drafts(self) -> list[tuple[str, str]]:
        """Return models that are being restored."""
        tenants = self._column("select distinct tenant from hammemo_models")
        return [(tenant, name) for tenant in tenants if tenant.startswith(HIDDEN) for name in self.names(tenant)]

    def rename(self, tenant: str, name: str, to: tuple[str, str]) -> bool:
        """Give a log another tenant and name."""
        with failures(), connected(self._address) as db:
            changed = db.execute(
                "update hammemo_models set tenant = %s, name = %s where tenant = %s and name = %s and not exists "
                "(select from hammemo_models where tenant = %s and name = %s)",
                (*to, tenant, name, *to),
            )
            return changed.rowcount == 1

    def aliases(self, tenant: str) -> dict[str, str]:
        """Return the models behind other names."""
        with failures(), connected(self._address) as db:
            rows = db.execute("select alias, model from hammemo_aliases where tenant = %s", (tenant,))
            return dict(rows.fetchall())

    def set_alias(self, tenant: str, alias: str, model: str | None) -> None:
        """Change a row of the aliases."""
        with failures(), connected(self._address) as db:
            if model is None:
                db.execute("delete from hammemo_aliases where tenant = %s and alias = %s", (tenant, alias))
            else:
                db.execute(
                    "insert into hammemo_aliases values(%s, %s, %s) "
                    "on conflict (tenant, alias) do update set model = excluded.model",
                    (tenant, alias, model),
                )

    def lists(self, tenant: str) -> dict[str, ListFacts]:
        """Return the lists of labels that a tenant has."""
        with failures(), connected(self._address) as db:
            rows = db.execute("select name, version, items from hammemo_lists where tenant = %s", (tenant,))
            return {name: ListFacts(version, items) for name, version, items in rows.fetchall()}

    def list_sizes(self, tenant: str) -> dict[str, int]:
        """Return how many bytes each list of labels has."""
        with failures(), connected(self._address) as db:
            rows = db.execute("select name, octet_length(data) from hammemo_lists where tenant = %s", (tenant,))
            return dict(rows.fetchall())

    def read_list(self, tenant: str, name: str) -> tuple[ListFacts, bytes] | None:
        """Return a list of labels."""
        with failures(), connected(self._address) as db:
            row = db.execute(
                "select version, items, data from hammemo_lists where tenant = %s and name = %s", (tenant, name)
            ).fetchone()
            return None if row is None else (ListFacts(row[0], row[1]), bytes(row[2]))

    def keep_list(self, tenant: str, name: str, items: int, data: bytes) -> ListFacts:
        """Replace a row; the number that versions are taken from stays when a list is deleted."""
        with failures(), connected(self._address) as db, db.transaction():
            row = db.execute(
                "insert into hammemo_list_versions values(%s, 1) "
                "on conflict (tenant) do update set newest = hammemo_list_versions.newest + 1 returning newest",
                (tenant,),
            ).fetchone()
            assert row is not None
            db.execute(
                "insert into hammemo_lists values(%s, %s, %s, %s, %s) on conflict (tenant, name) do update "
                "set version = excluded.version, items = excluded.items, data = excluded.data",
                (tenant, name, row[0], items, data),
            )
        return ListFacts(int(row[0]), items)

    def drop_list(self, tenant: str, name: str) -> bool:
        """Delete a row."""
        with failures(), connected(self._address) as db:
            gone = db.execute("delete from hammemo_lists where tenant = %s and name = %s", (tenant, name))
            return gone.rowcount == 1

    def is_there(self) -> bool:
        """Return True: models that are open answer without the server."""
        return True

    def check_writable(self) -> None:
        """Ask the server whether it takes writes."""
        with failures(), connected(self._address) as db:
            row = db.execute("select pg_is_in_recovery(), current_setting('transaction_read_only')").fetchone()
        if row != (False, "off"):
            raise LogError("The server takes no writes.")

    def close(self) -> None:
        """Nothing is open here."""

    def _column(self, query: Any, *values: Any) -> list[str]:
        with failures(), connected(self._address) as db:
            return sorted(row[0] for row in db.execute(query, values).fetchall())


def _remove_old(scratch: Path) -> None:
    """Remove snapshots on their way that killed processes have left, an hour ago or more: they hold models."""
    for folder in scratch.glob(".snapshot-*"):
        with suppress(OSError):
            if folder.stat().st_mtime < time.time() - 3600:
                shutil.rmtree(folder, ignore_errors=True)


def _write_parts(db: psycopg.Connection[Any], model: int, position: int, parts: Iterable[bytes]) -> None:
    """Write a file into the table of snapshots."""
    for part, data in enumerate(parts):
        db.execute("insert into hammemo_snapshots values(%s, %s, %s, %s)", (model, position, part, data))


def _parts_of(path: Path) -> Iterator[bytes]:
    """Yield a file part by part."""
    with open(path, "rb") as file:
        yield from iter(lambda: file.read(_PART), b"")


def _sealed_parts(vault: Vault, position: int, data: bytes) -> Iterator[bytes]:
    """Yield the ciphertexts of the parts of a file, each with the number of its key."""
    number, starts = vault.newest_contents(), range(0, len(data), _PART)
    cipher = vault.contents(number)
    for part, start in enumerate(starts):
        sealed = cipher.sealed(data[start : start + _PART], _place(vault, position, part, len(starts)))
        yield number.to_bytes(_NUMBER, "big") + sealed


def _opened_parts(vault: Vault, position: int, parts: Sequence[bytes]) -> Iterator[bytes]:
    """Yield what `_sealed_parts` sealed."""
    for part, data in enumerate(parts):
        cipher = vault.contents(int.from_bytes(data[:_NUMBER], "big"))
        yield cipher.opened(data[_NUMBER:], _place(vault, position, part, len(parts)))


def _place(vault: Vault, position: int, part: int, n_parts: int) -> bytes:
    return f"{vault.model} snapshot {position} {part} {n_parts}".encode()


@dataclass
class _Parts:
    """Takes parts as a file does, and keeps them apart."""

    written: list[bytes]

    def write(self, data: bytes) -> None:
        """Take one part."""
        self.written.append(bytes(data))
