"""How a log in SQLite is opened and made: what durability and deletion need of a connection."""

from __future__ import annotations

import os
from contextlib import ExitStack, closing, contextmanager
from typing import TYPE_CHECKING, Any, Final

import apsw

from hammemo import __version__
from hammemo.files.atomic import flush
from hammemo.files.locks import Held, LockedError, locked, take
from hammemo_server.edits.operations import InUse
from hammemo_server.store.base_log import FORMAT
from hammemo_server.store.log import LogError
from hammemo_server.store.shared_tables import TABLES, table_statements

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

MODEL_NUMBER: Final = 1
"""What tables that other engines have, too, say in their column `model`."""

_WRITER: Final = "writer"  # its lock is writer.lock
_RESTORES: Final = ".restores"  # its lock is .restores.lock

_BUSY: Final = 5_000
"""Milliseconds to wait for a reader or a checkpoint of another process."""

_OLDEST: Final = (3, 51, 3)
"""Older versions of SQLite can damage a database when its write-ahead log restarts (sqlite.org/wal.html)."""

_SCHEMA: Final = "create table about(name text primary key, value) without rowid;\n" + table_statements(
    "integer not null", " without rowid"
)


def taken(folder: Path) -> Held:
    """Take the lock of a model's folder, or say who has it."""
    try:
        return take(folder / _WRITER)
    except LockedError as error:
        raise InUse(f"{error} One process writes a model: send edits to that one, or stop it.") from None


@contextmanager
def one_restore(folder: Path, wait: float) -> Iterator[None]:
    """Hold the lock of restores into a folder, or say who has it."""
    with ExitStack() as stack:
        try:
            stack.enter_context(locked(folder / _RESTORES, wait=wait))
        except LockedError as error:
            raise InUse(f"One restore runs at a time: {error}") from None
        yield


def connected(path: Path) -> apsw.Connection:
    """Open a database, with what durability and deletion need."""
    version = tuple(map(int, apsw.sqlite_lib_version().split(".")))
    if version < _OLDEST:
        raise LogError(
            f"apsw uses SQLite {apsw.sqlite_lib_version()}, which can damage a write-ahead log: "
            "pip install -U apsw, whose packages bring a newer one."
        )
    with refusing():
        db = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
        db.set_busy_timeout(_BUSY)
        db.pragma("auto_vacuum", "incremental")  # of a file without tables; others keep what they have
        if db.pragma("journal_mode", "wal") != "wal":
            raise LogError(f"{path} cannot have a write-ahead log: use a local file system.")
        db.pragma("synchronous", "full")
        db.pragma("fullfsync", True)  # macOS: past the cache of the disk
        db.pragma("checkpoint_fullfsync", True)
        db.pragma("secure_delete", True)
        db.pragma("temp_store", "memory")
        db.pragma("trusted_schema", False)
    return db


def make_log(path: Path, settings: str, key: bytes, base: int) -> None:
    """Make the file of an empty log."""
    path.touch(mode=0o600)
    about = {"format": FORMAT, "settings": settings, "key": key, "base": base, "version": __version__, "ran": 0.0}
    with refusing(), closing(connected(path)) as db, db:
        db.execute(_SCHEMA)
        db.executemany("insert into about values(?, ?)", about.items())


def insert_rows(db: apsw.Connection, table: str, rows: Iterable[Sequence[Any]]) -> None:
    """Insert rows into a table, within a transaction."""
    db.executemany(f"insert into {table} values({MODEL_NUMBER}{', ?' * len(TABLES[table])})", rows)


@contextmanager
def refusing() -> Iterator[None]:
    """Turn what SQLite raises into `LogError`."""
    try:
        yield
    except apsw.Error as error:
        raise LogError(f"SQLite: {type(error).__name__}: {error}") from None  # it names no value of a row


def identity(path: Path) -> tuple[int, int]:
    """Return what tells a file or folder from another one of its name."""
    found = path.stat()
    return found.st_dev, found.st_ino


def flush_folder(folder: Path) -> None:
    """Wait until the names in a folder are on the disk."""
    if os.name == "posix":  # elsewhere a folder cannot be flushed
        flush(str(folder), os.O_RDONLY)
