"""Backups of served models, made while they are served, and how a model is restored from one.

**What a backup holds** is one state of the whole log, read in one transaction: the newest
snapshot, the bodies after it, operation ids with their age, the audit record, and for a model
with subjects the journals, erasures and receipts. A model that is restored has the version it
had then; an operation that it knew is answered ``repeated``; the chains of the audit record and
of receipts go on. Both engines write the same file, so a model can also move between them.

**Subjects.** Erasing a person destroys keys, and a backup that held only ciphertexts under
these keys could not be restored after the first erasure. So it holds the keys of subjects and
the snapshot opened, all of it encrypted under a key of its own. This key lies in the key file
and has an expiry date. When it is dropped, nothing opens the backup.

**Erasures since.** A backup knows nothing of later requests, and the database that knew them
may be lost. So every erasure is recorded beside the key file
(:mod:`hammemo.receipts.erasure_records`), before it is applied. That is the one place outside
the database and its backups that every node has. A restore makes a model that no client can
name, erases from it all recorded subjects whose erasure it does not hold, destroys their keys
and issues the receipts; only then the model gets its name. Backups and erasures are compared by
positions in the log, never by clocks. A record is kept until all backups of its model hold the
erasure. If records are missing, the restore is refused, unless the file of receipts is named: a
request with a receipt that the restored model does not know is refused.

The restored model is a database of its own, with its own wrapping and contents keys: the one
that the backup was made of may still run.

**Order.** The key of a backup is in the key file before the log is read, so that an erasure
either is in what is read, or finds the backup when its receipt is issued.

No draft holds a subject in plain text: its snapshot is written when the erasures are done. One
restore runs at a time, so that what a killed one has left is known, and removed with its keys
by the next restore or start of a server.
"""

from __future__ import annotations

import secrets
import time
from contextlib import closing, suppress
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from hammemo.files.archive import FileError
from hammemo.files.atomic import replacement
from hammemo.receipts.erasure_records import ErasedSubject, records_path
from hammemo.receipts.keys import drop_expired, read_keys
from hammemo.receipts.strict_json import now
from hammemo_server.edits.limits import Limits
from hammemo_server.edits.operations import Exists, InUse, Malformed, Unavailable, check_name
from hammemo_server.edits.settings import Settings
from hammemo_server.erasure.journal import (
    BUCKET,
    Journal,
    seal_body,
    unseal_body,
    unwrap,
    vault_of,
    wrap,
)
from hammemo_server.erasure.receipts import WantedReceipts
from hammemo_server.models.erasable import ErasableModel
from hammemo_server.models.served import ServedModel
from hammemo_server.models.waiting import Upkeep
from hammemo_server.store.audit import Line
from hammemo_server.store.backup_files import (
    FrameDigests,
    Header,
    read_backup,
    read_header,
    write_backup,
)
from hammemo_server.store.base_log import HIDDEN, Log
from hammemo_server.store.log import Copied, LogError, StoredKey
from hammemo_server.store.shared_tables import EDITS, TABLES
from hammemo_server.store.vault import DATABASE, Cipher, KeyGone, Vault, drop_database

if TYPE_CHECKING:
    import os
    from collections.abc import Collection, Iterable, Iterator

    from hammemo.receipts.backup_keys import BackupKey
    from hammemo_server.store.base_log import Store

    AnyPath = str | os.PathLike[str]
    Frames = Iterator[tuple[str, list[tuple[Any, ...]]]]

ENDING: Final = ".backup"
_TRIES: Final = 5
_DATABASE_BYTES: Final = 8
_PATIENCE: Final = 10.0
"""Seconds for which a restore waits for another one."""
_SUBJECTS = "hammemo_subjects"
_MARKS = "hammemo_marks"
_AS_THEY_ARE: Final = tuple(table for table in TABLES if table not in (EDITS, _SUBJECTS))


class Written(NamedTuple):
    """A backup that was written."""

    path: Path
    header: Header
    version: int


class Restored(NamedTuple):
    """A model that was restored."""

    tenant: str
    model: str
    version: int
    erased: int
    """How many subjects were erased that the backup held."""


def back_up(
    store: Store,
    tenant: str,
    model: str,
    target: AnyPath,
    *,
    keys: AnyPath | None = None,
    days: float = 30.0,
) -> Written:
    """Write a backup of one model, which another process may write and serve, into a folder.

    Parameters
    ----------
    store : Store
    tenant, model : str
    target : path
        A folder; the file gets a name of its own in the folder of its tenant there.
    keys : path, optional
        The key file, which models with subjects need.
    days : float
        After how many days the key of the backup expires.
    """
    with closing(store.open(tenant, model, replica=True)) as log:
        if not Settings.from_text(log.settings).has_subjects:
            return _write(log, tenant, model, Path(target))
        if keys is None:
            raise Malformed(f"The model {model!r} has subjects: name the key file with keys=.")
        drop_expired(keys)
        try:
            log.vault = vault_of(log, keys)
            Journal(log, log.vault, writer=False).check_keys(model)  # both refuse another key file
            return _write(log, tenant, model, Path(target), vault=log.vault, days=days)
        except KeyGone as error:
            raise Unavailable(f"The model {model!r} cannot be backed up: {error}") from error


def _write(
    log: Log,
    tenant: str,
    model: str,
    target: Path,
    *,
    vault: Vault | None = None,
    days: float = 0.0,
) -> Written:
    """Write a backup, again where keys were destroyed while it was read."""
    folder = target / tenant
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for attempt in range(1, _TRIES + 1):
        name = f"{model}-{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{secrets.token_hex(4)}"
        key = None if vault is None else vault.new_backup(name, days)
        expires = None if key is None else key.expires
        header = Header(id=name, tenant=tenant, model=model, made=now(), expires=expires)
        path = folder / f"{name}{ENDING}"
        try:
            with replacement(path) as temporary:
                Path(temporary).chmod(0o600)
                with open(temporary, "wb") as file, log.reading():
                    head = log.head()
                    records = _records(log, vault, head)
                    sealing = FrameDigests() if key is None else Cipher(key.secret)
                    write_backup(file, header, sealing, records)
            if vault is not None:
                vault.finish_backup(name, head)
            return Written(path, header, head)
        except BaseException as error:
            if vault is not None:
                vault.drop_backup(name)
            if not isinstance(error, (KeyGone, _Newer)) or attempt == _TRIES:
                raise
    raise AssertionError


class _Newer(LogError):  # noqa: N818
    """A snapshot was written meanwhile that is newer than what is read."""


def _records(log: Log, vault: Vault | None, head: int) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Yield all that a backup holds; first what needs a key, which an erasure may destroy."""
    snapshot = log.snapshot_parts()
    base = log.base()
    parts: Iterable[bytes] = ()
    if snapshot is not None:
        base, parts = snapshot
    if base > head:
        raise _Newer("Snapshots follow each other too fast for a backup: try again later.")
    newest = 0 if vault is None else vault.newest_contents()
    yield "about", (log.settings, log.key, head, base, snapshot is not None, newest)
    for part in parts:
        for start in range(0, len(part), 2**20):
            yield "snapshot", (part[start : start + 2**20],)
    if vault is not None:
        for row in log.dump(_SUBJECTS):
            stored = StoredKey(row[0], bytes(row[1]), row[2], bytes(row[3]))
            yield _SUBJECTS, (stored.key, stored.subject, unwrap(vault, stored))
    for position, body in log.dump(EDITS):
        if position > base:
            plain_body = None if vault is None else unseal_body(vault, bytes(body), position)
            if plain_body is None:
                yield EDITS, (position, bytes(body), False)
            else:
                yield EDITS, (position, plain_body, True)
    for table in _AS_THEY_ARE:
        for row in log.dump(table):
            plain = [bytes(value) if isinstance(value, memoryview) else value for value in row]
            yield table, tuple(plain)


# Restoring


def newest_backups(folder: AnyPath) -> list[Path]:
    """Return the newest backup of each model in a folder and the folders in it."""
    newest: dict[tuple[str, str], tuple[str, str, Path]] = {}
    for path in sorted(Path(folder).rglob(f"*{ENDING}")):
        with path.open("rb") as file:
            header = read_header(file)
        backup = (header.made, header.id, path)
        place = (header.tenant, header.model)
        newest[place] = max(newest.get(place, backup), backup)
    if not newest:
        raise FileError(f"{folder} has no backup.")
    return [path for _, _, path in newest.values()]


def restore(
    store: Store,
    path: AnyPath,
    *,
    keys: AnyPath | None = None,
    to: tuple[str, str] | None = None,
    original_lost: bool = False,
    receipts: AnyPath | None = None,
    again: Collection[str] = (),
) -> Restored:
    """Make a model of a backup.

    Parameters
    ----------
    store : Store
    path : path
        The backup.
    keys : path, optional
        The key file, which models with subjects need.
    to : (str, str), optional
        Tenant and name, by default those of the backup. There must be no such model.
    original_lost : bool
        Whether to drop the keys of all other databases of this model, so that nothing opens
        them, should they be found.
    receipts : path, optional
        The file of the model's receipts. The model is refused if it does not know a request
        that removed rows: its record is missing, or it was a plain forget, which no file
        records.
    again : collection of str
        Ids of such requests that you will send again.
    """
    expected = None if receipts is None else WantedReceipts.read(receipts, keys, again)
    with open(path, "rb") as file:
        header = read_header(file)
        tenant, name = to or (header.tenant, header.model)
        check_name("tenant", tenant)
        check_name("model", name)
        if name in store.names(tenant):
            raise Exists(
                f"There is a model {name!r}: delete it first, or restore under another name."
            )
        if name in store.aliases(tenant):
            raise Exists(f"The name {name!r} stands for another model: restore under another name.")
        with store.restoring(_PATIENCE):
            _remove_drafts(store, keys)
            database = secrets.token_bytes(_DATABASE_BYTES)
            hidden = f"{HIDDEN}{database.hex()}"
            key = _key_of(header, keys)
            frames = read_backup(file, FrameDigests() if key is None else Cipher(key.secret))
            copied = _read_copied(frames, keys, database)
            try:
                store.receive(hidden, name, copied)
                log = store.open(hidden, name, replica=False)
                draft = _Draft(hidden, name, log, header=header, copied=copied, expected=expected)
                version, erased = draft.finish(keys, key)
                if not store.rename(hidden, name, (tenant, name)):
                    raise Exists(
                        f"There is a model {name!r} meanwhile: "
                        "delete it first, or restore under another name."
                    )
            except BaseException:
                with suppress(LogError):
                    store.delete(hidden, name)
                if copied.vault is not None:
                    copied.vault.drop_all()
                raise
    if original_lost and copied.vault is not None:
        copied.vault.drop_others()
    return Restored(tenant, name, version, erased)


def _key_of(header: Header, keys: AnyPath | None) -> BackupKey | None:
    """Return the key of a backup; None for one that is not encrypted."""
    if header.expires is None:
        return None
    if keys is None:
        raise Malformed(
            "The backup is encrypted, because its model has subjects: name the key file with keys=."
        )
    drop_expired(keys)
    key = read_keys(keys).backups.get(header.id)
    if key is None:
        raise FileError(
            f"The backup {header.id} cannot be read: the key file does not hold its key, "
            f"which expires {header.expires}."
        )
    return key


def _read_copied(frames: Frames, keys: AnyPath | None, database: bytes) -> Copied:
    """Return what a backup holds, encrypted with new keys if it has subjects.

    Rows are read when they are needed.
    """
    kind, rows = next(frames)
    if kind != "about" or len(rows) != 1:
        raise FileError("The backup is damaged: it does not begin with what it is about.")
    settings, key, head, base, has_snapshot, newest = rows[0]
    snapshot: bytes | None = None
    if has_snapshot:
        snapshot, frames = _read_snapshot(frames)
    vault = None
    if Settings.from_text(settings).has_subjects:
        assert keys is not None  # such a backup is encrypted
        vault = Vault(keys, key, database)
        vault.new_contents(after=newest)  # above what unfinished erasures name
    return Copied(
        settings,
        key,
        head=head,
        base=base,
        snapshot=snapshot,
        rows=_seal_again(frames, vault, database),
        vault=vault,
    )


def _read_snapshot(frames: Frames) -> tuple[bytes, Frames]:
    """Return the snapshot of a backup and the frames after it."""
    pieces: list[bytes] = []
    for kind, rows in frames:
        if kind != "snapshot":
            return b"".join(pieces), chain([(kind, rows)], frames)
        pieces += [data for (data,) in rows]
    return b"".join(pieces), iter(())


def _seal_again(frames: Frames, vault: Vault | None, database: bytes) -> Frames:
    """Yield rows as the new database holds them."""
    wrapping = 0
    n_wrapped = BUCKET  # the first key needs a wrapping key
    for kind, rows in frames:
        if kind == _SUBJECTS and vault is not None:
            for key, subject, secret in rows:
                if n_wrapped >= BUCKET:
                    wrapping = vault.new_wrapping(wrapping)
                    n_wrapped = 0
                n_wrapped += 1
                yield kind, [(key, subject, wrapping, wrap(vault, key, secret, wrapping))]
        elif kind == EDITS:
            bodies = [
                (at, seal_body(vault, body, at) if is_plain and vault else body)
                for at, body, is_plain in rows
            ]
            yield kind, bodies
        elif kind == _MARKS:
            yield kind, [row for row in rows if row[0] != DATABASE]
        elif kind in _AS_THEY_ARE:
            yield kind, rows
        else:
            raise FileError("The backup is damaged: it holds something unknown.")
    if vault is not None:
        yield _MARKS, [(DATABASE, database)]


class _Draft(NamedTuple):
    """A model that is being restored, which no client can name yet."""

    tenant: str
    name: str
    log: Log
    header: Header
    copied: Copied
    expected: WantedReceipts | None
    """The receipts that the model must know."""

    def finish(self, keys: AnyPath | None, key: BackupKey | None) -> tuple[int, int]:
        """Erase what was erased since the backup; return the version and how many that were.

        The draft is closed, and can then get its name.
        """
        log = self.log
        model: ServedModel | None = None
        try:
            if self.expected is not None:
                self.expected.check_chain(log)
            since: dict[str, ErasedSubject] = {}
            n_erased = 0
            if keys is None or key is None:  # without subjects
                model = ServedModel(self.tenant, self.name, log)
            else:
                vault = log.vault = vault_of(log, keys)
                self._check_records(vault, keys)
                since = vault.erasures_since(key.database, log.head())
                model = erasable = self._open_erasable(vault)
                records = [record for record in since.values() if log.erasure(record.op) is None]
                n_erased = erasable.erase_again(records)
                vault.settle_records(model.version)
            if self.expected is not None:
                self.expected.check_known(log, log.vault, since)
            version = model.version
            log.add_audit(
                Line(
                    at=time.time(),
                    token="",
                    kind="restored",
                    op=log.hash_op(self.header.id),
                    rows=0,
                    before=version,
                    after=version,
                )
            )
        finally:
            if model is None:
                log.close()
            else:
                model.close()
        log.keep_received()
        return version, n_erased

    def _check_records(self, vault: Vault, keys: AnyPath) -> None:
        """Refuse records of erasures that are not whole, unless receipts take their place."""
        if self.expected is None and vault.lacks_records():
            raise Malformed(
                f"{records_path(keys, vault.model)} lacks records of erasures, "
                "so persons who were erased could be back: "
                "put a whole copy there, or name the receipts of the model with receipts=."
            )

    def _open_erasable(self, vault: Vault) -> ErasableModel:
        """Open the model for the erasures; its snapshot is in memory until they are done."""
        snapshot = self.copied.snapshot
        self.log.received = None if snapshot is None else (snapshot, self.copied.base)
        journal = Journal(self.log, vault, writer=True)
        return ErasableModel(
            self.tenant,
            self.name,
            self.log,
            limits=Limits(),
            upkeep=Upkeep(choose=False),
            journal=journal,
        )


def remove_drafts(store: Store, keys: AnyPath | None) -> None:
    """Remove what killed restores have left, unless a restore runs now: it removes them itself."""
    if store.drafts():
        with suppress(InUse), store.restoring(0):
            _remove_drafts(store, keys)


def _remove_drafts(store: Store, keys: AnyPath | None) -> None:
    """Remove all drafts, and the keys that were made for them; no restore runs."""
    for tenant, name in store.drafts():
        with suppress(InUse):
            store.delete(tenant, name)
            if keys is not None:
                drop_database(keys, tenant.rpartition("-")[2])
