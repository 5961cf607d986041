"""The logs of all models in PostgreSQL: one node writes a model, others follow or wait.

**Order by commit.** The position of an edit is taken in the transaction that writes it, from
the row of its model, which stays locked until the commit: positions have no gaps, and a reader
never sees a later one before an earlier one. (A sequence would give out numbers that become
visible in another order.)

**A fenced lease.** A writer holds a lease, which it prolongs with every commit and while it
waits. Another one may take it when it has run out, or when the session that took it has ended.
To take it is to count up the epoch of the model, and every commit asks, in its transaction,
whether the epoch is still its own: a writer that was away and has lost the lease cannot write,
whatever its clock says. Only the server's clock is read.

**Snapshots** are kept in the database, in parts, so that nodes need no common disk, and made in
memory. A snapshot, the deletion of the bodies that it holds and the deletion of the snapshot
before are one transaction.

**Durability** is the server's: ``fsync`` on, and ``synchronous_commit`` at "on" or higher,
which is set here where it is lower. With a synchronous standby an edit is acknowledged when
both servers have it. What is deleted stays in the server's write-ahead log until that is
recycled, and in dead rows until they are vacuumed. So the snapshots of a model with subjects
are encrypted under a contents key (:mod:`hammemo_server.store.vault`), part by part: no file
holds them in the clear.
"""

from __future__ import annotations

import logging
import os
import socket
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, cast

from hammemo import __version__
from hammemo._lazy import explain_missing
from hammemo.files.contents import file_bytes
from hammemo_server.edits.operations import InUse, NoSuchModel
from hammemo_server.store.base_log import FORMAT, HIDDEN, Ends, Log, Store, check_format
from hammemo_server.store.log import Copied, LeaseLost, LogDamaged, LogError
from hammemo_server.store.shared_tables import NAMED_TABLES, TABLES, table_statements
from hammemo_server.store.vault import KeyGone, Vault

with explain_missing("A log in PostgreSQL needs its driver: pip install 'hammemo[postgres]'"):
    import psycopg

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from hammemo.estimators.learners import Learner

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

_SCHEMA_LOCK: Final = 0x68616D6D656D6F  # "hammemo": any number that no other program uses

_RESTORE_LOCK: Final = 0x726573746F7265  # "restore"

_MODELS: Final = """
create table if not exists hammemo_about(format text not null, version text not null);
create table if not exists hammemo_models(
    id bigint generated always as identity primary key,
    tenant text not null, name text not null, settings text not null, key bytea not null,
    unique (tenant, name),
    head bigint not null default 0, base bigint not null default 0,
    has_snapshot boolean not null default false,
    ran double precision not null default 0, epoch bigint not null default 0,
    holder text, backend_pid integer, backend_start timestamptz, lease_until timestamptz);
create table if not exists hammemo_snapshots(
    model bigint not null references hammemo_models on delete cascade,
    position bigint not null, part integer not null, data bytea not null,
    primary key (model, position, part));
"""

_TIMES: Final = "set lock_timeout = '10s'; set idle_in_transaction_session_timeout = '10s'"
"""A process that is frozen in the middle of a transaction keeps no lock for longer than that.

There is no time after which a statement is cancelled: a commit that waits for its standby and
is cancelled is reported as done, although only one server has it.
"""


class PostgresLog(Log):
    """The log of one model; see :class:`hammemo_server.store.base_log.Log`.

    Parameters
    ----------
    address : str
        Of the server, ``postgresql://…``.
    tenant, name : str
    replica : bool
        Whether only to read.
    lease : float
        Seconds for which the lease lasts.
    """

    def __init__(
        self, address: str, tenant: str, name: str, *, replica: bool = False, lease: float = LEASE
    ) -> None:
        super().__init__(f"The log of {name!r}", failures, replica=replica)
        self._address = address
        self._name = name
        self._lease = lease
        self._epoch = -1
        self._db = connect(address)
        try:
            with self._failing():
                row = self._db.execute(
                    "select id, settings, key from hammemo_models where tenant = %s and name = %s",
                    (tenant, name),
                ).fetchone()
            if row is None:
                raise NoSuchModel(f"There is no model {name!r}.")
            self._id, self.settings, self.key = row
            if not replica:
                self._take_lease()
        except BaseException:
            self._db.close()
            raise

    def body_bytes(self) -> int:
        """Return how many bytes of bodies there are."""
        return self._octets("hammemo_edits", "body")

    def snapshot_bytes(self) -> int:
        """Return how many bytes the newest snapshot has."""
        return self._octets("hammemo_snapshots", "data")

    def _octets(self, table: str, column: str) -> int:
        return int(
            self._one(
                f"select coalesce(sum(octet_length({column})), 0) from {table} where model = %s"
            )[0]
        )

    def snapshot_parts(self) -> tuple[int, Iterator[bytes]] | None:
        """Return the position of the newest snapshot and its file, opened."""
        query = (
            "select data from hammemo_snapshots where model = %s and position = %s order by part"
        )
        with self._failing():
            base, has_snapshot = self._one(
                "select base, has_snapshot from hammemo_models where id = %s"
            )
            if not has_snapshot:
                return None
            parts = [data for (data,) in self._each(query, base, at_a_time=4)]
        return base, iter(parts) if self.vault is None else _unseal_parts(self.vault, base, parts)

    def _newest(self) -> tuple[bytes, int] | None:
        try:
            with self.reading():
                snapshot = self.snapshot_parts()
            if snapshot is None:
                return None
            position, parts = snapshot
            return b"".join(parts), position
        except KeyGone as error:  # replaced by a newer snapshot, or destroyed
            raise LogError(f"The snapshot cannot be read: {error}") from error
        except ValueError as error:
            raise LogDamaged(f"The snapshot cannot be read: {error}") from error

    def keep_snapshot(self, model: Learner, position: int) -> None:
        """Make this the newest snapshot and delete all bodies up to it.

        That is one transaction, beside those of edits.
        """
        data = file_bytes(model)
        with failures(), connect(self._address) as db, db.transaction():
            _write_snapshot(db, self._id, position, data=data, vault=self.vault)
            changed = db.execute(
                "update hammemo_models set base = %s, has_snapshot = true where id = %s and "
                "epoch = %s and base <= %s",
                (position, self._id, self._epoch, position),
            )
            if changed.rowcount != 1:
                raise LeaseLost("Another process writes this model now: the snapshot was dropped.")
            db.execute(
                "delete from hammemo_edits where model = %s and position <= %s",
                (self._id, position),
            )
            db.execute(
                "delete from hammemo_snapshots where model = %s and position <> %s",
                (self._id, position),
            )

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Read one state of the log for the time of a block."""
        with self._failing(), self._db.transaction():
            self._db.execute("set transaction isolation level repeatable read read only")
            # it may wait for a disk
            self._db.execute("set local idle_in_transaction_session_timeout = 0")
            yield

    def is_current(self) -> bool:
        """Return whether the model is still there."""
        return bool(self._rows("select id from hammemo_models where id = %s"))

    def renew_lease(self) -> None:
        """Prolong the lease."""
        if not self._replica:
            with self.fence():
                pass

    def reopen(self) -> None:
        """Connect again, and take the lease again; without it the log can still be read."""
        with self._lock:
            self._db.close()
            self._db = connect(self._address)
            if not self._replica:
                self._take_lease()

    def close(self) -> None:
        """Give the lease back and disconnect."""
        with self._lock:
            with suppress(LogError), failures():  # the lease runs out by itself
                if not self._replica:
                    statement = (
                        "update hammemo_models set lease_until = null where id = %s and epoch = %s"
                    )
                    self._execute(statement, self._epoch)
            self._db.close()

    def _take_lease(self) -> None:
        holder = f"process {os.getpid()} on {socket.gethostname()}"
        with self._failing():
            row = self._db.execute(
                "update hammemo_models m set epoch = epoch + 1, holder = %s, backend_pid = "
                "pg_backend_pid(), backend_start = (select backend_start from pg_stat_activity "
                "where pid = pg_backend_pid()), lease_until = clock_timestamp() + %s * interval "
                f"'1 second' where id = %s and {_IS_FREE} returning epoch, ran",
                (holder, self._lease, self._id),
            ).fetchone()
            if row is None:
                holders = self._rows("select holder, lease_until from hammemo_models where id = %s")
                who = "another process"
                if holders:
                    holder, until = holders[0]
                    who = f"{holder} (until {until:%H:%M:%S} or longer)"
                raise InUse(
                    f"The model {self._name!r} is written by {who}: "
                    "send edits to that one, or stop it."
                )
            self._epoch = int(row[0])
            self._began = time.monotonic() - float(row[1])

    def _execute(self, statement: str, *values: Any) -> psycopg.Cursor[Any]:
        return self._db.execute(cast("Any", statement), (self._id, *values))

    def _each(
        self, statement: str, *values: Any, at_a_time: int = 1_000
    ) -> Iterator[tuple[Any, ...]]:
        with self._db.cursor(name="hammemo_rows") as rows:
            rows.itersize = at_a_time
            rows.execute(cast("Any", statement), (self._id, *values))
            yield from rows

    def _insert(self, table: str, rows: Iterable[Sequence[Any]]) -> None:
        insert_rows(self._db, self._id, table, rows)

    @contextmanager
    def _writing(self, after: int | None = None, by: int = 0) -> Iterator[None]:
        """Run a block as one durable transaction, which prolongs the lease and takes positions."""
        with self._failing(), self._db.transaction():
            row = self._db.execute(
                "update hammemo_models set lease_until = clock_timestamp() + %s * interval '1 "
                "second', head = head + %s, ran = %s where id = %s and epoch = %s returning head",
                (self._lease, by, self._running(), self._id, self._epoch),
            ).fetchone()
            if row is None:
                raise LeaseLost("Another process writes this model now: nothing was written.")
            if after is not None and row[0] != after + by:
                raise LogDamaged(f"{self._called} does not end at position {after}.")
            yield

    def _ends(self) -> Ends:
        return Ends(*self._one("select head, base, ran from hammemo_models where id = %s"))

    def _one(self, query: str) -> Any:
        for row in self._rows(query):
            return row
        raise LogError("The model was deleted.")


class PostgresStore(Store):
    """The logs of one database; see :class:`hammemo_server.store.base_log.Store`.

    Parameters
    ----------
    address : str
        Of the server, ``postgresql://…``; the tables are made if they are not there.
    lease : float
        Seconds for which the lease of a writer lasts.
    """

    def __init__(self, address: str, lease: float = LEASE) -> None:
        self._address = address
        self._lease = lease
        make_tables(address)

    def tenants(self) -> list[str]:
        """Return the tenants that have a model."""
        return self._column(
            "select distinct tenant from hammemo_models where not starts_with(tenant, %s)", HIDDEN
        )

    def names(self, tenant: str) -> list[str]:
        """Return the names of a tenant's models."""
        return self._column("select name from hammemo_models where tenant = %s", tenant)

    def open(self, tenant: str, name: str, *, replica: bool) -> PostgresLog:
        """Open a log; a writer takes its lease."""
        return PostgresLog(self._address, tenant, name, replica=replica, lease=self._lease)

    def delete(self, tenant: str, name: str) -> bool:
        """Delete a log that no process writes."""
        with failures(), connect(self._address) as db:
            where = "m.tenant = %s and m.name = %s"
            deleted = db.execute(
                f"delete from hammemo_models m where {where} and {_IS_FREE}", (tenant, name)
            )
            if deleted.rowcount:
                return True
            writer = db.execute(
                f"select holder from hammemo_models m where {where}", (tenant, name)
            ).fetchone()
            if writer is not None:
                raise InUse(
                    f"The model {name!r} is written by {writer[0]}: "
                    "delete it there, or stop that process."
                )
            return False

    def receive(self, tenant: str, name: str, copied: Copied) -> bool:
        """Make a log, whole or not at all."""
        snapshot = copied.snapshot
        with failures(), connect(self._address) as db, db.transaction():
            db.execute("set local idle_in_transaction_session_timeout = 0")
            row = db.execute(
                "insert into hammemo_models(tenant, name, settings, key, head, base, has_snapshot) "
                "values(%s, %s, %s, %s, %s, %s, %s) on conflict do nothing returning id",
                (
                    tenant,
                    name,
                    copied.settings,
                    copied.key,
                    copied.head,
                    copied.base,
                    snapshot is not None,
                ),
            ).fetchone()
            if row is None:
                return False
            if snapshot is not None:
                data = snapshot if isinstance(snapshot, bytes) else file_bytes(snapshot)
                _write_snapshot(db, row[0], copied.base, data=data, vault=copied.vault)
            for table, rows in copied.rows:
                insert_rows(db, row[0], table, rows)
            return True

    @contextmanager
    def restoring(self, wait: float) -> Iterator[None]:
        """Hold a lock of the database, which ends with the session, or refuse."""
        until = time.monotonic() + wait
        with connect(self._address) as db:
            with failures():
                while db.execute(
                    "select pg_try_advisory_lock(%s)", (_RESTORE_LOCK,)
                ).fetchone() != (True,):
                    if time.monotonic() >= until:
                        raise InUse(
                            "One restore runs at a time: "
                            "another process restores into this database."
                        )
                    time.sleep(0.1)
            yield

    def drafts(self) -> list[tuple[str, str]]:
        """Return models that are being restored."""
        tenants = self._column("select distinct tenant from hammemo_models")
        return [
            (tenant, name)
            for tenant in tenants
            if tenant.startswith(HIDDEN)
            for name in self.names(tenant)
        ]

    def rename(self, tenant: str, name: str, to: tuple[str, str]) -> bool:
        """Give a log another tenant and name."""
        with failures(), connect(self._address) as db:
            changed = db.execute(
                "update hammemo_models set tenant = %s, name = %s where tenant = %s and name = "
                "%s and not exists (select from hammemo_models where tenant = %s and name = %s)",
                (*to, tenant, name, *to),
            )
            return changed.rowcount == 1

    @contextmanager
    def _naming(
        self,
        tenant: str,  # noqa: ARG002
        *,
        writes: bool = False,  # noqa: ARG002
    ) -> Iterator[Callable[..., list[Any]]]:
        """Yield what runs a statement on the tables of names."""
        with failures(), connect(self._address) as db, db.transaction():

            def run(statement: str, *values: Any) -> list[Any]:
                done = db.execute(cast("Any", statement), values)
                return [] if done.description is None else done.fetchall()

            yield run

    def check_writable(self) -> None:
        """Ask the server whether it takes writes."""
        with failures(), connect(self._address) as db:
            row = db.execute(
                "select pg_is_in_recovery(), current_setting('transaction_read_only')"
            ).fetchone()
        if row != (False, "off"):
            raise LogError("The server takes no writes.")

    def _column(self, query: Any, *values: Any) -> list[str]:
        with failures(), connect(self._address) as db:
            return sorted(row[0] for row in db.execute(query, values).fetchall())


def _write_snapshot(
    db: psycopg.Connection[Any], model: int, position: int, data: bytes, vault: Vault | None
) -> None:
    """Write a file in parts; with a vault their ciphertexts, each with the number of its key."""
    number = 0 if vault is None else vault.newest_contents()
    starts = range(0, len(data), _PART)
    for part, start in enumerate(starts):
        stored = data[start : start + _PART]
        if vault is not None:
            sealed = vault.contents(number).seal(stored, _place(vault, position, part, len(starts)))
            stored = number.to_bytes(_NUMBER, "big") + sealed
        db.execute(
            "insert into hammemo_snapshots values(%s, %s, %s, %s)", (model, position, part, stored)
        )


def _unseal_parts(vault: Vault, position: int, parts: Sequence[bytes]) -> Iterator[bytes]:
    """Yield the parts of a file whose ciphertexts these are."""
    for part, data in enumerate(parts):
        cipher = vault.contents(int.from_bytes(data[:_NUMBER], "big"))
        yield cipher.unseal(data[_NUMBER:], _place(vault, position, part, len(parts)))


def _place(vault: Vault, position: int, part: int, n_parts: int) -> bytes:
    return f"{vault.model} snapshot {position} {part} {n_parts}".encode()


def make_tables(address: str) -> None:
    """Make the tables where they are not there, or refuse those of another form."""
    with failures(), connect(address) as db, db.transaction():
        # two processes may start at once
        db.execute("select pg_advisory_xact_lock(%s)", (_SCHEMA_LOCK,))
        db.execute(_MODELS + NAMED_TABLES)
        db.execute(
            cast(
                "Any",
                table_statements("bigint not null references hammemo_models on delete cascade"),
            )
        )
        about = db.execute("select format, version from hammemo_about").fetchone()
        if about is None:  # just made, or without a note of its form: it is of this one
            db.execute("insert into hammemo_about values(%s, %s)", (FORMAT, __version__))
        else:
            check_format("The database", *about)


def connect(address: str) -> psycopg.Connection[Any]:
    """Return a connection whose commits are durable."""
    with failures():
        db: psycopg.Connection[Any] = psycopg.connect(
            address,
            autocommit=True,
            connect_timeout=10,
            keepalives_idle=10,
            tcp_user_timeout=30_000,
        )
        db.execute(_TIMES)
        try:
            query = "select current_setting('synchronous_commit'), current_setting('fsync')"
            ((commits, flushes),) = db.execute(query).fetchall()
            if commits in ("off", "local"):
                db.execute("set synchronous_commit to on")
            if flushes != "on":
                _logger.warning(
                    "PostgreSQL runs with fsync=off: acknowledged edits can be lost when power is"
                )
        except BaseException:
            db.close()
            raise
        return db


def insert_rows(
    db: psycopg.Connection[Any], model: int, table: str, rows: Iterable[Sequence[Any]]
) -> None:
    """Insert rows of a model into a table, within a transaction."""
    columns = list(zip(*rows, strict=True))
    if columns:
        arrays = ", ".join(f"%s::{kind}[]" for kind in TABLES[table].values())
        statement = f"insert into {table} select %s, * from unnest({arrays})"
        db.execute(cast("Any", statement), (model, *map(list, columns)))


@contextmanager
def failures() -> Iterator[None]:
    """Turn what the driver raises into `LogError`.

    The detail of an error is left out: it may hold a row.
    """
    try:
        yield
    except psycopg.OperationalError as error:
        first_line = (str(error).splitlines() or [""])[0]
        raise LogError(f"PostgreSQL: {type(error).__name__}: {first_line}") from None
    except psycopg.Error as error:
        raise LogError(
            f"PostgreSQL: {type(error).__name__} {error.sqlstate or ''}".rstrip()
        ) from None
