"""How a log in PostgreSQL is reached: connections whose commits are durable, and the tables."""

from __future__ import annotations

import logging
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, cast

from hammemo import __version__
from hammemo._lazy import needed
from hammemo_server.edits.operations import InUse
from hammemo_server.store.base_log import FORMAT, check_format
from hammemo_server.store.log import LogError
from hammemo_server.store.shared_tables import NAMED_TABLES, TABLES, table_statements

with needed("A log in PostgreSQL needs its driver: pip install 'hammemo[postgres]'"):
    import psycopg

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

_logger = logging.getLogger("hammemo_server")

_SCHEMA_LOCK: Final = 0x68616D6D656D6F  # "hammemo": any number that no other program uses

_RESTORE_LOCK: Final = 0x726573746F7265  # "restore"

_MODELS: Final = """
create table if not exists hammemo_about(format text not null, version text not null);
create table if not exists hammemo_models(
    id bigint generated always as identity primary key,
    tenant text not null, name text not null, settings text not null, key bytea not null,
    head bigint not null default 0, base bigint not null default 0, has_snapshot boolean not null default false,
    ran double precision not null default 0,
    epoch bigint not null default 0, holder text, backend_pid integer, backend_start timestamptz,
    lease_until timestamptz,
    unique (tenant, name));
create table if not exists hammemo_snapshots(
    model bigint not null references hammemo_models on delete cascade,
    position bigint not null, part integer not null, data bytea not null, primary key (model, position, part));
"""

_SCHEMA: Final = (
    _MODELS + NAMED_TABLES + table_statements("bigint not null references hammemo_models on delete cascade")
)

_TIMES: Final = "set lock_timeout = '10s'; set idle_in_transaction_session_timeout = '10s'"
"""A process that is frozen in the middle of a transaction keeps no lock for longer than that.

There is no time after which a statement is cancelled: a commit that waits for its standby and is cancelled is reported
as done, although only one server has it.
"""


def make_tables(address: str) -> None:
    """Make the tables where they are not there, or refuse those of another form."""
    with failures(), connected(address) as db, db.transaction():
        db.execute("select pg_advisory_xact_lock(%s)", (_SCHEMA_LOCK,))  # two processes may start at once
        db.execute(_SCHEMA)
        found = db.execute("select format, version from hammemo_about").fetchone()
        if found is None:  # just made, or without a note of its form: it is of this one
            db.execute("insert into hammemo_about values(%s, %s)", (FORMAT, __version__))
        else:
            check_format("The database", *found)


@contextmanager
def one_restore(address: str, wait: float) -> Iterator[None]:
    """Hold the lock of restores into a database, or refuse."""
    until = time.monotonic() + wait
    with connected(address) as db:
        with failures():
            while db.execute("select pg_try_advisory_lock(%s)", (_RESTORE_LOCK,)).fetchone() != (True,):
                if time.monotonic() >= until:
                    raise InUse("One restore runs at a time: another process restores into this database.")
                time.sleep(0.1)
        yield


def connected(address: str) -> psycopg.Connection[Any]:
    """Return a connection whose commits are durable."""
    with failures():
        db: psycopg.Connection[Any] = psycopg.connect(
            address, autocommit=True, connect_timeout=10, keepalives_idle=10, tcp_user_timeout=30_000
        )
        db.execute(_TIMES)
        try:
            row = db.execute("select current_setting('synchronous_commit'), current_setting('fsync')").fetchone()
            assert row is not None
            if row[0] in ("off", "local"):
                db.execute("set synchronous_commit to on")
            if row[1] != "on":
                _logger.warning("PostgreSQL runs with fsync=off: acknowledged edits can be lost when power is")
        except BaseException:
            db.close()
            raise
        return db


def insert_rows(db: psycopg.Connection[Any], model: int, table: str, rows: Iterable[Sequence[Any]]) -> None:
    """Insert rows of a model into a table, within a transaction."""
    columns = list(zip(*rows, strict=True))
    if columns:
        arrays = ", ".join(f"%s::{kind}[]" for kind in TABLES[table].values())
        statement = f"insert into {table} select %s, * from unnest({arrays})"
        db.execute(cast("Any", statement), (model, *map(list, columns)))


@contextmanager
def failures() -> Iterator[None]:
    """Turn what the driver raises into `LogError`. The detail of an error may hold a row: it is left out."""
    try:
        yield
    except psycopg.OperationalError as error:
        raise LogError(f"PostgreSQL: {type(error).__name__}: {(str(error).splitlines() or [''])[0]}") from None
    except psycopg.Error as error:
        raise LogError(f"PostgreSQL: {type(error).__name__} {error.sqlstate or ''}".rstrip()) from None
