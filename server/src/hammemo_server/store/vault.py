"""The secrets of one model: what the key file holds for it, and what they encrypt.

- **Wrapping keys** wrap the keys of subjects, at most 1,024 each. The wrapped keys lie in the
  database, so destroying a subject's key is: wrap the other keys of its bucket under a new
  wrapping key, then drop the old one from the file.
- **Contents keys** encrypt what holds rows of many subjects: snapshots in PostgreSQL, and
  bodies of refits. A new one is made with every erasure; when the snapshot of the erasure is
  there, the older ones are dropped.
- **Keys of backups** have an expiry date (:mod:`hammemo_server.models.backups`).
- **Records of erasures** lie in a file of their own for each model
  (:mod:`hammemo.receipts.erasure_records`).
- **Hashes** of subjects and operation ids are keyed with the hashing key of the file and the model.

A model that was restored from a backup is another *database* of the same model: hashes and
ciphertexts of journals stay as they are, and wrapping and contents keys have names of their
own, so that none of the two drops keys of the other.

All encryption is AES-256-GCM with random nonces; what a ciphertext belongs to is authenticated
with it. The key file is read again whenever it was replaced: nodes share it.
"""

from __future__ import annotations

import os
import threading
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hammemo._lazy import explain_missing
from hammemo.files.atomic import delete_leftovers
from hammemo.files.locks import locked
from hammemo.receipts.backup_keys import BackupKey
from hammemo.receipts.erasure_records import (
    ErasedSubject,
    add_records,
    read_records,
    records_path,
    records_size,
)
from hammemo.receipts.keys import Keys, NamedKey, change_keys, drop_expired, read_keys

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

DATABASE: Final = "database"
"""The mark that tells a database that was restored from others of the same model."""

HASH_BYTES: Final = 16
_NONCE: Final = 12


class KeyGone(Exception):  # noqa: N818
    """A key was destroyed, or the key file is another one."""


class Cipher:
    """AES-256-GCM under one key, with random nonces.

    Examples
    --------
    >>> from hammemo_server.store.vault import Cipher
    >>> cipher = Cipher(bytes(32))
    >>> cipher.unseal(cipher.seal(b"rows", b"place"), b"place")
    b'rows'
    """

    def __init__(self, secret: bytes) -> None:
        hint = "Subjects need the package cryptography: pip install 'hammemo[erase]'"
        with explain_missing(hint):
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM
        self._aes = AESGCM(secret)

    def seal(self, plain: bytes, place: bytes) -> bytes:
        """Return a ciphertext that belongs to this place only."""
        nonce = os.urandom(_NONCE)
        return nonce + self._aes.encrypt(nonce, plain, place)

    def unseal(self, sealed: bytes, place: bytes) -> bytes:
        """Return what was sealed for this place; ValueError for anything else."""
        from cryptography.exceptions import InvalidTag

        try:
            return self._aes.decrypt(sealed[:_NONCE], sealed[_NONCE:], place)
        except (InvalidTag, ValueError):  # the second of what is too short
            raise ValueError("a ciphertext was changed, or belongs elsewhere") from None


class Vault:
    """The secrets of one model.

    Parameters
    ----------
    path : str or path
        The key file.
    log_key : bytes
        The secret of the model's log, by which the model is known in the key file.
    database : bytes
        Which database of the model, of one that was restored.
    """

    def __init__(self, path: str | os.PathLike[str], log_key: bytes, database: bytes = b"") -> None:
        self.path = Path(path)
        self._lock = threading.Lock()
        self._read: tuple[tuple[int, ...], Keys] | None = None
        self.model = blake2b(log_key, digest_size=8, person=b"hammemo model").hexdigest()
        self.database = f"{self.model}.{database.hex()}" if database else self.model
        model_key = bytes.fromhex(self.keys().hash_with_key(self.model.encode(), b"model"))
        self._subjects = blake2b(b"subjects", key=model_key, digest_size=32).digest()
        self._ops = blake2b(b"operations", key=model_key, digest_size=32).digest()
        self.notes = Cipher(blake2b(b"notes", key=model_key, digest_size=32).digest())
        """For what is kept as long as the key file: request ids and receipts."""

    @property
    def fingerprint(self) -> bytes:
        """Tells another key file from this one."""
        return blake2b(b"fingerprint", key=self._ops, digest_size=HASH_BYTES).digest()

    def keys(self) -> Keys:
        """Return what the key file holds now."""
        with self._lock:
            try:
                facts = self.path.stat()
            except FileNotFoundError:
                raise KeyGone(f"The key file {self.path} is not there: put it back.") from None
            mark = (facts.st_mtime_ns, facts.st_size, facts.st_ino)
            if self._read is None or self._read[0] != mark:
                self._read = mark, read_keys(self.path)
            return self._read[1]

    def hash_subject(self, subject: str) -> bytes:
        """Return the keyed hash by which a subject is stored."""
        return blake2b(subject.encode(), key=self._subjects, digest_size=HASH_BYTES).digest()

    def hash_op(self, op: str) -> str:
        """Return the keyed hash by which an operation id is stored."""
        return blake2b(op.encode(), key=self._ops, digest_size=HASH_BYTES).hexdigest()

    # Wrapping keys

    def wrapping(self, number: int) -> Cipher:
        """Return the cipher of a wrapping key; `KeyGone` if it was destroyed."""
        return self._cipher("wrapping", number)

    def new_wrapping(self, after: int) -> int:
        """Make a wrapping key, durably, and return its number, which is above `after`."""
        return self._new("wrapping", after)

    def wrapping_numbers(self) -> list[int]:
        """Return the numbers of the wrapping keys that the key file holds."""
        return self._numbers("wrapping")

    @property
    def is_empty(self) -> bool:
        """Whether the key file holds no key of this database: no subjects yet, or dropped keys."""
        return not self._own_names()

    def place(self, key: int, position: int) -> bytes:
        """Return what a ciphertext belongs to: a subject's key, and the position of an edit.

        Zeros for neither.
        """
        return f"{self.model} {key} {position}".encode()

    # Contents keys

    def contents(self, number: int) -> Cipher:
        """Return the cipher of a contents key; `KeyGone` if it was destroyed."""
        return self._cipher("contents", number)

    def newest_contents(self) -> int:
        """Return the number of the contents key in use; one is made if there is none."""
        return max(self._numbers("contents"), default=0) or self.new_contents()

    def new_contents(self, erased: Sequence[ErasedSubject] = (), after: int = 0) -> int:
        """Make a contents key, with records of erasures, durably.

        Return its number, which is above `after`.
        """
        with locked(self.path):
            n_bytes = add_records(self.path, self.model, erased) if erased else 0
            return self._new("contents", after, n_bytes)

    def drop(self, wrapping: Iterable[int], contents: int) -> None:
        """Keep only these wrapping keys of the model, and no contents key before this one."""
        remaining = {self._name("wrapping", number) for number in wrapping}
        remaining |= {
            self._name("contents", number)
            for number in self._numbers("contents")
            if number >= contents
        }
        self._drop(name for name in self._own_names() if name not in remaining)

    def _drop(self, names: Iterable[str]) -> None:
        """Drop keys, and files of killed processes beside the key file: they may hold keys."""
        gone = list(names)
        with locked(self.path):
            delete_leftovers(self.path)
            if gone:
                self._change(lambda keys: keys.without(*gone))

    def drop_all(self) -> None:
        """Drop all keys of the model but those of its backups: it was deleted.

        Its records of erasures go, too, where no backup and no other database of the model is left.
        """
        self._drop(self._own_names())
        with locked(self.path):
            keys = self.keys()
            if (
                self.model in keys.erased
                and not keys.backups_of(self.model)
                and not self._names_of_model(keys)
            ):
                self._change(lambda keys: keys.with_erased(self.model, 0))
                records_path(self.path, self.model).unlink(missing_ok=True)

    def drop_others(self) -> None:
        """Drop the keys of all other databases of the model: nothing may open those later."""
        self._drop(set(self._names_of_model(self.keys())).difference(self._own_names()))

    def _own_names(self) -> list[str]:
        return [name for name in self.keys().named if name.startswith(f"{self.database}/")]

    def _names_of_model(self, keys: Keys) -> list[str]:
        return [
            name for name in keys.named if name.startswith((f"{self.model}/", f"{self.model}."))
        ]

    # Backups

    def new_backup(self, name: str, days: float) -> BackupKey:
        """Make the key of a backup, durably, and return it."""
        key = BackupKey.new(days, self.model, self.database)
        self._change(lambda keys: keys.with_backup(name, key))
        return key

    def finish_backup(self, name: str, position: int) -> None:
        """Take note which version a backup holds."""
        self._change(
            lambda keys: keys.with_backup(name, replace(keys.backups[name], position=position))
        )

    def drop_backup(self, name: str) -> None:
        """Drop the key of a backup that was not written."""
        self._change(lambda keys: keys.without_backups([name]))

    def drop_expired(self) -> None:
        """Drop the keys of backups that have expired."""
        drop_expired(self.path)

    def backups_with(self, first: int) -> tuple[tuple[str, str], ...]:
        """Return the backups that may hold a subject, and when each expires.

        `first` is the position of the subject's first row.
        """
        backups = self.keys().backups.items()
        holding = [
            (name, key)
            for name, key in backups
            if key.model == self.model and key.may_hold(self.database, first)
        ]
        return tuple(sorted((name, key.expires) for name, key in holding))

    # Records of erasures

    def record(
        self, op: str, subject: bytes, request: str, *, refit: bool, position: int
    ) -> ErasedSubject:
        """Return the record of an erasure, by the hashes of its operation id and of the subject."""
        sealed = self.notes.seal(request.encode(), b"record " + op.encode())
        return ErasedSubject(
            op,
            subject=subject.hex(),
            request=sealed.hex(),
            refit=refit,
            database=self.database,
            position=position,
        )

    def request_of(self, record: ErasedSubject) -> str:
        """Return the operation id of an erasure that was recorded."""
        return self.notes.unseal(
            bytes.fromhex(record.request), b"record " + record.op.encode()
        ).decode()

    def erasures(self) -> dict[tuple[str, str], ErasedSubject]:
        """Return the newest records of erasures of the model, by operation and database."""
        return {
            (record.op, record.database): record for record in read_records(self.path, self.model)
        }

    def erasures_since(self, database: str, position: int) -> dict[str, ErasedSubject]:
        """Return by operation the erasures that a database does not hold up to a position."""
        records = self.erasures()
        ops_in_log = {record.op for record in records.values() if record.is_in(database, position)}
        return {record.op: record for record in records.values() if record.op not in ops_in_log}

    def lacks_records(self) -> bool:
        """Return whether the records of erasures are shorter than the key file says."""
        return records_size(self.path, self.model) < self.keys().erased.get(self.model, 0)

    def settle_records(self, position: int) -> None:
        """Record that this restored database holds all erasures of the model from a position on."""
        with locked(self.path):
            records = self.erasures()
            unsettled = {
                op: record
                for (op, _), record in records.items()
                if (op, self.database) not in records
            }
            if unsettled:
                settled = [
                    replace(record, database=self.database, position=position)
                    for record in unsettled.values()
                ]
                add_records(self.path, self.model, settled)
                size = records_size(self.path, self.model)
                self._change(lambda keys: keys.with_erased(self.model, size))

    def _cipher(self, kind: str, number: int) -> Cipher:
        keys = self.keys()
        name = self._name(kind, number)
        if name not in keys.named:
            raise KeyGone(
                f"The key file holds no {kind} key {number} of this model: it was destroyed."
            )
        return Cipher(keys.named[name].secret)

    def _new(self, kind: str, after: int, records: int = 0) -> int:
        """Make a key; `records` is how many bytes of records of erasures were added before."""
        with locked(self.path):
            number = 1 + max([after, *self._numbers(kind)])
            name = self._name(kind, number)
            size = self.keys().erased.get(self.model, 0) + records
            self._change(
                lambda keys: keys.with_erased(self.model, size).with_key(name, NamedKey.new())
            )
        return number

    def _numbers(self, kind: str) -> list[int]:
        start = f"{self.database}/{kind}/"
        return [
            int(name.removeprefix(start)) for name in self.keys().named if name.startswith(start)
        ]

    def _name(self, kind: str, number: int) -> str:
        return f"{self.database}/{kind}/{number}"

    def _change(self, change: Callable[[Keys], Keys]) -> None:
        change_keys(self.path, change)
        with self._lock:
            self._read = None  # read again: another process may have been quicker


def drop_database(path: str | os.PathLike[str], database: str) -> None:
    """Drop the keys of a database that was being restored, by its mark in hexadecimal digits."""
    if gone := [
        name for name in read_keys(path).named if name.partition("/")[0].endswith(f".{database}")
    ]:
        change_keys(path, lambda keys: keys.without(*gone))
