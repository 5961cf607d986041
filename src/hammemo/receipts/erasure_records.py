"""Records of erasures: a file per model beside the key file, to which lines are only added.

A backup that is restored brings back an older database, which knows nothing of later requests.
So each erasure adds a line that names the subject by a keyed hash. It says from which position
of which database on the erasure is in the log, and a backup says which position of which
database it holds: no clock is compared.

The key file says how long each file is (`Keys.erased`), so a file that lost its end is noticed.
A line costs the same however many there are. Lines are dropped, which reads the whole file,
when backups are.
"""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from hammemo.files.atomic import write_private
from hammemo.receipts import strict_json as strict

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from hammemo.receipts.backup_keys import BackupKey

MODEL_BYTES: Final = 8
"""Bytes of the id by which the key file knows a model."""
_LONGEST_LINE: Final = 2_048


@dataclass(frozen=True)
class ErasedSubject:
    """The record of an erasure.

    Parameters
    ----------
    op, subject : str
        Keyed hashes of the operation id and of the subject, in hexadecimal digits.
    request : str
        The operation id, which the receipt names, encrypted, in hexadecimal digits.
    refit : bool
        Whether the model was refitted.
    database : str
        A database of the model.
    position : int
        From which position of its log on the subject is erased there.
    """

    op: str
    subject: str
    request: str
    refit: bool
    database: str
    position: int

    def is_in(self, database: str, position: int | None) -> bool:
        """Return whether the log of a database, up to a position, is known to hold the erasure."""
        return self.database == database and position is not None and self.position <= position

    @classmethod
    def from_json(cls, value: Any) -> ErasedSubject:
        """Return the record that a JSON object describes; ValueError for anything else."""
        facts = strict.check_names(value, cls.__dataclass_fields__, "the record of an erasure")
        return cls(
            op=strict.check_hex(facts["op"], "the operation of an erasure", 16),
            subject=strict.check_hex(facts["subject"], "the subject of an erasure", 16),
            request=strict.check_line(facts["request"], "the request of an erasure", 400),
            refit=strict.check_truth(facts["refit"], "the refit of an erasure"),
            database=strict.check_line(facts["database"], "the database of an erasure"),
            position=strict.check_number(facts["position"], "the position of an erasure"),
        )


def records_path(keys: str | os.PathLike[str], model: str) -> Path:
    """Return the file of a model's records."""
    name = strict.check_hex(model, "the id of a model", MODEL_BYTES)
    return Path(f"{os.fspath(keys)}.erased", f"{name}.jsonl")


def records_size(keys: str | os.PathLike[str], model: str) -> int:
    """Return how many bytes of records a model has."""
    path = records_path(keys, model)
    return path.stat().st_size if path.exists() else 0


def add_records(keys: str | os.PathLike[str], model: str, records: Iterable[ErasedSubject]) -> int:
    """Add records durably, and return how many bytes they have.

    The lock of the key file must be held.
    """
    path = records_path(keys, model)
    if not path.exists():
        path.parent.mkdir(mode=0o700, exist_ok=True)
        write_private(path, [])
    with path.open("r+b") as file:
        start = _cut_torn_line(file)
        file.writelines(map(_line, records))
        file.flush()
        os.fsync(file.fileno())
        return file.tell() - start


def _cut_torn_line(file: BinaryIO) -> int:
    """Go to the end of a file, and remove a line that a crash has left without its end.

    Nothing relied on it.
    """
    size = file.seek(0, os.SEEK_END)
    start = file.seek(max(0, size - _LONGEST_LINE))
    file.truncate(start + file.read().rfind(b"\n") + 1)
    return file.seek(0, os.SEEK_END)


def read_records(keys: str | os.PathLike[str], model: str) -> Iterator[ErasedSubject]:
    """Yield the records of a model, the oldest first; ValueError for a line that is damaged."""
    path = records_path(keys, model)
    if not path.exists():
        return
    with path.open("rb") as file:
        while (line := file.readline(_LONGEST_LINE)).endswith(b"\n"):
            try:
                yield ErasedSubject.from_json(strict.read_object(line[:-1]))
            except ValueError as error:
                raise ValueError(
                    f"{path} is damaged: {error}. Put a whole copy in its place."
                ) from None


def keep_records(
    keys: str | os.PathLike[str], model: str, records: Iterable[ErasedSubject]
) -> None:
    """Put records in the place of all that a model has; the lock of the key file must be held."""
    write_private(records_path(keys, model), map(_line, records))


def select_needed(
    records: Iterable[ErasedSubject], backups: Iterable[BackupKey]
) -> list[ErasedSubject]:
    """Return the records of a model without those of erasures that every one of its backups has.

    While there is no backup, all are needed: one may have read the log before an erasure was in it.
    """
    newest = {(record.op, record.database): record for record in records}
    backups = list(backups)
    if not backups:
        return list(newest.values())
    # an erasure has a record for each database of the model
    backups_with = dict[str, set[int]]()
    for record in newest.values():
        numbers = backups_with.setdefault(record.op, set())
        for number, backup in enumerate(backups):
            if record.is_in(backup.database, backup.position):
                numbers.add(number)
    return [record for record in newest.values() if len(backups_with[record.op]) < len(backups)]


def _line(record: ErasedSubject) -> bytes:
    return strict.canonical(asdict(record)) + b"\n"
