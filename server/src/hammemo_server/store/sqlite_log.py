"""The log of a model in SQLite, for one node: a folder for each model, ``DIR/tenant/name``.

- ``log.sqlite``: bodies and ids, in SQLite's write-ahead mode with ``synchronous=FULL``: a
  commit has returned when the disk has it.
- ``model.safetensors``: the newest snapshot, its position in the notes. It is replaced whole
  (`hammemo.files.atomic`), and only then are the bodies up to it deleted, so that a crash
  between the two costs nothing.
- ``writer.lock``: held by the process that writes.

**Deletion.** ``secure_delete`` overwrites deleted bodies in the database file; the checkpoint
copies the write-ahead log into it and cuts that to nothing. Afterwards no file of the folder
holds them. The file system, the disk and backups may.

``DIR/tenant/.named.sqlite`` says which names stand for which models, and holds named lists of
labels.

A model's folder appears whole: it is made under a name that begins with a dot, and renamed. It
goes the same way.
"""

from __future__ import annotations

import os
import secrets
import shutil
import time
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import apsw

from hammemo import __version__
from hammemo.files.archive import Archive, FileError, refusing
from hammemo.files.atomic import delete_leftovers, flush, write_private
from hammemo.files.descriptions import parse_notes
from hammemo.files.locks import Held, LockedError, locked, take
from hammemo.files.models import save
from hammemo_server.edits.operations import NAME, InUse, NoSuchModel
from hammemo_server.store.base_log import FORMAT, HIDDEN, Ends, Log, Store, check_format, learner_of
from hammemo_server.store.log import Copied, LogDamaged, LogError
from hammemo_server.store.shared_tables import EDITS, NAMED_TABLES, TABLES, table_statements

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from hammemo.estimators.learners import Learner

LOG: Final = "log.sqlite"
MODEL: Final = "model.safetensors"
NAMED: Final = ".named.sqlite"
"""Aliases and lists of a tenant."""
POSITION: Final = "service-position"
"""The note of a snapshot that says its position."""

_PROBE_BYTES: Final = 2**16
"""What is written to find out whether the disk takes edits."""

MODEL_NUMBER: Final = 1
"""What tables that other engines have, too, say in their column `model`."""

_BUSY: Final = 5_000
"""Milliseconds to wait for a reader or a checkpoint of another process."""

_OLDEST: Final = (3, 51, 3)
"""Older versions of SQLite can damage a database when its write-ahead log restarts
(sqlite.org/wal.html)."""


class SqliteLog(Log):
    """The log in one folder; see :class:`hammemo_server.store.base_log.Log`.

    Parameters
    ----------
    folder : path
    replica : bool
        Whether only to read, beside another process that writes.
    """

    def __init__(self, folder: Path, *, replica: bool = False) -> None:
        super().__init__(f"The log in {folder}", failures, replica=replica)
        self.folder = folder
        with ExitStack() as opened:
            if not replica:
                opened.callback(take_writer_lock(folder).release)
                delete_leftovers(folder / MODEL)  # they hold parts of a model
            self._db = connect(folder / LOG, writes=not replica)
            opened.callback(lambda: self._db.close(force=True))
            self._read_about()
            if not replica:
                self._began = time.monotonic() - self._ends().ran
                snapshot = self._newest(verify=False)
                if snapshot is not None:
                    position = snapshot[1]
                    if position > self.base():  # a crash came before the bodies were deleted
                        self.trim(position)
            self._opened = opened.pop_all()

    def body_bytes(self) -> int:
        """Return about how many bytes of bodies there are: the size of the file."""
        return _size(self.folder / LOG) + _size(self.folder / f"{LOG}-wal")

    def snapshot_bytes(self) -> int:
        """Return how many bytes the newest snapshot has."""
        return _size(self.folder / MODEL)

    def snapshot_parts(self) -> tuple[int, Iterator[bytes]] | None:
        """Return the position of the newest snapshot and its file.

        It may be newer than the base, within `reading`.
        """
        snapshot = self._newest()
        if snapshot is None:
            return None
        archive, position = snapshot
        return position, iter([archive.data.tobytes()])

    def _newest(self, *, verify: bool = True) -> tuple[Archive, int] | None:
        """Return the file of the newest snapshot and its position; None if there is none."""
        path = self.folder / MODEL
        try:
            with refusing(path):
                archive = Archive(path, verify=verify)
                position = parse_notes(archive.about).get(POSITION, "")
        except FileNotFoundError:
            return None
        except (FileError, OSError) as error:
            raise LogDamaged(f"The snapshot cannot be read: {error}") from error
        if not position.isdecimal():
            raise LogDamaged(
                f"{path} is not a snapshot of this service: its note {POSITION!r} says no position."
            )
        return archive, int(position)

    def keep_snapshot(self, model: Learner, position: int) -> None:
        """Make this the newest snapshot, then delete all bodies up to it, also in the WAL."""
        self._check_place()
        try:
            _save_privately(model, self.folder / MODEL, position)
        except OSError as error:
            raise LogError(f"The snapshot could not be written: {error.strerror}.") from error
        self.trim(position)

    def keep_received(self) -> None:
        """Write the snapshot of a backup, if there is no newer one; the log is closed."""
        if self.received is not None and not (self.folder / MODEL).exists():
            _save_privately(learner_of(self.received[0]), self.folder / MODEL, self.received[1])

    def trim(self, position: int) -> None:
        """Delete all bodies up to a position that the snapshot holds."""
        with self._writing():
            self._execute(f"delete from {EDITS} where model = %s and position <= %s", position)
            self._db.execute(
                "insert or replace into about values('base', ?)", (max(position, self.base()),)
            )
        with self._failing():
            # a page for each row that is fetched
            self._db.execute("pragma incremental_vacuum").fetchall()
            self._checkpoint()

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Read one state of the log for the time of a block.

        The write-ahead log cannot be cut meanwhile.
        """
        with self._failing(), self._db:
            yield

    def is_current(self) -> bool:
        """Return whether the folder still has the file that is open."""
        with suppress(OSError):
            return identity(self.folder / LOG) == self._file
        return False

    def _check_place(self) -> None:
        """Refuse to write where the folder was deleted or replaced: nothing would find it there."""
        if not self._replica and not self.is_current():
            raise LogDamaged(
                "The folder of the model was deleted or replaced: "
                "put it back, or restart the server."
            )

    def renew_lease(self) -> None:
        """Look whether the folder is there; the lock lasts as long as the process."""
        self._check_place()

    def reopen(self) -> None:
        """Connect again.

        What is in the write-ahead log may be in the memory of the machine only, if it was a
        flush that failed: a writer copies it into the database, which is flushed, before it
        believes it.
        """
        self._check_place()
        with self._lock:
            with suppress(apsw.Error):
                self._db.close(force=True)
            self._db = connect(self.folder / LOG, writes=not self._replica)
            self._read_about()
            if not self._replica:
                with self._failing():
                    self._checkpoint()

    def close(self) -> None:
        """Close the database and let the lock go."""
        with self._lock:
            self._opened.close()

    def _checkpoint(self) -> None:
        """Copy the write-ahead log into the database and cut it.

        Wait for readers that need it, within reason.
        """
        for _ in range(3):
            with suppress(apsw.BusyError):
                self._db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
                return
        raise LogError(
            "The write-ahead log could not be cut: another process reads it without end."
        )

    def _read_about(self) -> None:
        with self._failing():
            rows: list[Any] = self._db.execute("select name, value from about").fetchall()
        about = dict(rows)
        check_format(self.folder / LOG, about.get("format"), about.get("version"))
        if not isinstance(about.get("key"), bytes):
            raise LogDamaged(f"{self.folder / LOG} is not a log of this version of the service.")
        self.settings = about["settings"]
        self.key = about["key"]
        self._file = identity(self.folder / LOG)

    def _ends(self) -> Ends:
        about = "select value from about where name ="
        columns = f"({about} 'base'), ({about} 'ran'), max(position)"
        ((base, ran, position),) = self._rows(f"select {columns} from {EDITS} where model = %s")
        return Ends(head=max(base, position or 0), base=base, ran=ran)

    def _execute(self, statement: str, *values: Any) -> apsw.Cursor:
        return self._db.execute(statement.replace("%s", "?"), (MODEL_NUMBER, *values))

    def _insert(self, table: str, rows: Iterable[Sequence[Any]]) -> None:
        insert_rows(self._db, table, rows)

    @contextmanager
    def _writing(self, after: int | None = None, by: int = 0) -> Iterator[None]:  # noqa: ARG002
        """Run a block as one durable transaction; positions are taken by writing them."""
        with self._failing(), self._db:
            if after not in (None, self.head()):
                raise LogDamaged(
                    f"{self._called} does not end at position {after}: another process wrote it."
                )
            self._db.execute("insert or replace into about values('ran', ?)", (self._running(),))
            yield
        self._check_place()  # afterwards: what was written is then in the file that others find


class FolderStore(Store):
    """Logs in folders, ``DIR/tenant/name``; see :class:`hammemo_server.store.base_log.Store`."""

    def __init__(self, folder: Path) -> None:
        self.folder = Path(folder).absolute()
        missing = [path for path in (self.folder, *self.folder.parents) if not path.exists()]
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for path in missing:
            flush_folder(path.parent)
        self._opened = identity(self.folder)

    def tenants(self) -> list[str]:
        """Return the tenants that have a folder."""
        return sorted(
            entry.name
            for entry in self.folder.iterdir()
            if NAME.fullmatch(entry.name) and entry.is_dir()
        )

    def names(self, tenant: str) -> list[str]:
        """Return the names of a tenant's models."""
        try:
            entries = list((self.folder / tenant).iterdir())
        except FileNotFoundError:
            return []
        except OSError as error:
            raise LogError(f"The folder of the tenant cannot be read: {error.strerror}.") from error
        return sorted(
            entry.name for entry in entries if NAME.fullmatch(entry.name) and (entry / LOG).exists()
        )

    @contextmanager
    def _draft(self, tenant: str) -> Iterator[Path]:
        """Yield a folder in which a log is made; it is removed where it was not placed."""
        draft = self.folder / tenant / f".new-{secrets.token_hex(8)}"
        try:
            draft.parent.mkdir(mode=0o700, exist_ok=True)
            draft.mkdir(mode=0o700)
            yield draft
        except OSError as error:
            raise LogError(f"The model could not be made: {error.strerror}.") from error
        finally:
            shutil.rmtree(draft, ignore_errors=True)
            if tenant.startswith(HIDDEN):
                with suppress(OSError):  # it is empty where there is no model
                    draft.parent.rmdir()

    def _place(self, source: Path, tenant: str, name: str) -> bool:
        """Give a folder its place, durably; return False if there is one."""
        place = self.folder / tenant / name
        try:
            place.parent.mkdir(mode=0o700, exist_ok=True)
            flush_folder(self.folder)
            flush_folder(source)
            source.rename(place)
            flush_folder(place.parent)
        except OSError as error:
            if place.exists():  # there was one, or another process was quicker
                return False
            raise LogError(f"The model could not be made: {error.strerror}.") from error
        return True

    def open(self, tenant: str, name: str, *, replica: bool) -> SqliteLog:
        """Open the log in a folder."""
        folder = self.folder / tenant / name
        if not (folder / LOG).exists():
            raise NoSuchModel(f"There is no model {name!r}.")
        return SqliteLog(folder, replica=replica)

    def delete(self, tenant: str, name: str) -> bool:
        """Delete a folder: it is renamed first, so that it is there whole or not at all."""
        folder = self.folder / tenant / name
        if not (folder / LOG).exists():
            return False
        with ExitStack() as lock:
            lock.callback(take_writer_lock(folder).release)
            doomed = folder.with_name(f".deleted-{secrets.token_hex(8)}")
            folder.rename(doomed)
            flush_folder(doomed.parent)
        shutil.rmtree(doomed, ignore_errors=True)
        if tenant.startswith(HIDDEN):
            shutil.rmtree(self.folder / tenant, ignore_errors=True)
        return True

    def receive(self, tenant: str, name: str, copied: Copied) -> bool:
        """Make a folder with a log, whole or not at all."""
        with self._draft(tenant) as draft:
            make_log(draft / LOG, copied)
            if copied.snapshot is not None and copied.vault is None:
                model = copied.snapshot
                if isinstance(model, bytes):
                    model = learner_of(model)
                _save_privately(model, draft / MODEL, copied.base)
            return self._place(draft, tenant, name)

    @contextmanager
    def restoring(self, wait: float) -> Iterator[None]:
        """Hold the lock of restores, or say who has it."""
        with ExitStack() as stack:
            try:
                # the lock is .restores.lock
                stack.enter_context(locked(self.folder / ".restores", wait=wait))
            except LockedError as error:
                raise InUse(f"One restore runs at a time: {error}") from None
            yield

    def drafts(self) -> list[tuple[str, str]]:
        """Return models that are being restored."""
        return [
            (path.parents[1].name, path.parent.name)
            for path in self.folder.glob(f"{HIDDEN}*/*/{LOG}")
        ]

    def rename(self, tenant: str, name: str, to: tuple[str, str]) -> bool:
        """Move a folder."""
        is_placed = self._place(self.folder / tenant / name, *to)
        with suppress(OSError):
            (self.folder / tenant).rmdir()
        return is_placed

    @contextmanager
    def _naming(self, tenant: str, *, writes: bool = False) -> Iterator[Callable[..., list[Any]]]:
        """Yield what runs a statement on the tables of a tenant.

        They are made when the first name is kept.
        """
        path = self.folder / tenant / NAMED
        if not writes and not path.exists():
            yield lambda *_: []
            return
        try:
            path.parent.mkdir(mode=0o700, exist_ok=True)
            path.touch(mode=0o600)
        except OSError as error:
            raise LogError(f"The names cannot be written: {error.strerror}.") from error
        with failures(), closing(connect(path, writes=writes)) as db, db:
            db.execute(NAMED_TABLES)

            def run(statement: str, *values: Any) -> list[Any]:
                return db.execute(statement.replace("%s", "?"), values).fetchall()

            yield run

    def is_there(self) -> bool:
        """Return whether the folder is the one that was opened."""
        with suppress(OSError):
            return identity(self.folder) == self._opened
        return False

    def check_writable(self) -> None:
        """Write a file as large as some edits, flush it, and remove it."""
        path = self.folder / f".probe-{secrets.token_hex(8)}"
        try:
            write_private(path, [os.urandom(_PROBE_BYTES)])
        except OSError as error:
            raise LogError(f"The folder cannot be written: {error.strerror or error}.") from error
        finally:
            with suppress(OSError):
                path.unlink()

    def remove_leftovers(self) -> None:
        """Remove what a crash has left of folders that were being made or deleted.

        A folder that is being made may belong to another process, unless it is an hour old.
        """
        for pattern in (".probe-*", "*/.new-*", "*/.deleted-*"):
            for path in self.folder.glob(pattern):
                with suppress(OSError):
                    is_new = path.name.startswith(".new-")
                    if is_new and path.stat().st_mtime >= time.time() - 3600:
                        continue
                    shutil.rmtree(path, ignore_errors=True)
                    path.unlink(missing_ok=True)


def _save_privately(model: Learner, path: Path, position: int) -> None:
    """Write a snapshot that only its owner may read.

    Its folder is closed to others from the beginning.
    """
    save(model, path, notes={POSITION: str(position)}, force=True)
    path.chmod(0o600)  # files that replace it keep this


def _size(path: Path) -> int:
    with suppress(FileNotFoundError):  # the model may be deleted at this moment
        return path.stat().st_size
    return 0


def take_writer_lock(folder: Path) -> Held:
    """Take the lock of a model's folder, or say who has it."""
    try:
        return take(folder / "writer")  # the lock is writer.lock
    except LockedError as error:
        raise InUse(
            f"{error} One process writes a model: send edits to that one, or stop it."
        ) from None


def connect(path: Path, *, writes: bool = True) -> apsw.Connection:
    """Open a database, with what durability and deletion need."""
    version = tuple(map(int, apsw.sqlite_lib_version().split(".")))
    if version < _OLDEST:
        raise LogError(
            f"apsw uses SQLite {apsw.sqlite_lib_version()}, which can damage a write-ahead log: "
            "pip install -U apsw, whose packages bring a newer one."
        )
    with failures():
        db = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
        db.set_busy_timeout(_BUSY)
        # of a file without tables; others keep what they have
        db.pragma("auto_vacuum", "incremental")
        if db.pragma("journal_mode", "wal") != "wal":
            raise LogError(f"{path} cannot have a write-ahead log: use a local file system.")
        safe = {
            "synchronous": "full",
            "secure_delete": True,
            "temp_store": "memory",
            "trusted_schema": False,
            "fullfsync": True,  # macOS: past the cache of the disk
            "checkpoint_fullfsync": True,
        }
        for name, value in safe.items():
            db.pragma(name, value)
        db.transaction_mode = "IMMEDIATE" if writes else "DEFERRED"
    return db


def make_log(path: Path, copied: Copied) -> None:
    """Make the file of a log, with the rows of a backup."""
    path.touch(mode=0o600)
    about = {
        "format": FORMAT,
        "settings": copied.settings,
        "key": copied.key,
        "base": copied.base,
        "version": __version__,
        "ran": 0.0,
    }
    with failures(), closing(connect(path)) as db, db:
        db.execute("create table about(name text primary key, value) without rowid")
        db.execute(table_statements("integer not null", " without rowid"))
        db.executemany("insert into about values(?, ?)", about.items())
        for table, rows in copied.rows:
            insert_rows(db, table, rows)


def insert_rows(db: apsw.Connection, table: str, rows: Iterable[Sequence[Any]]) -> None:
    """Insert rows into a table, within a transaction."""
    db.executemany(f"insert into {table} values({MODEL_NUMBER}{', ?' * len(TABLES[table])})", rows)


@contextmanager
def failures() -> Iterator[None]:
    """Turn what SQLite raises into `LogError`."""
    try:
        yield
    except apsw.Error as error:
        # it names no value of a row
        raise LogError(f"SQLite: {type(error).__name__}: {error}") from None


def identity(path: Path) -> tuple[int, int]:
    """Return what tells a file or folder from another one of its name."""
    facts = path.stat()
    return facts.st_dev, facts.st_ino


def flush_folder(folder: Path) -> None:
    """Wait until the names in a folder are on the disk."""
    if os.name == "posix":  # elsewhere a folder cannot be flushed
        flush(str(folder), os.O_RDONLY)
