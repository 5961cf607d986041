"""What the key file knows of backups: their keys, and which subjects were erased since.

A backup of a model with subjects is encrypted with a key of its own, which has an expiry date. A *record of an erasure*
names a subject by its keyed hash. It lies here because it must outlive the database: a backup that is restored brings
back an older one, which knows nothing of later requests. The records go with the last backup that may need them.
"""

from __future__ import annotations

import secrets
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from hammemo.receipts.strict_json import (
    TIME_FORMAT,
    check_hex,
    check_line,
    check_names,
    check_number,
    check_time,
    check_truth,
    now,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_SLACK: Final = timedelta(days=1)
"""A record is kept for backups begun up to a day later: an erasure is recorded before it is applied."""


@dataclass(frozen=True)
class BackupKey:
    """The key of one backup.

    Parameters
    ----------
    secret : bytes
    made, expires : str
        Times in UTC, such as ``2026-11-17T08:00:00Z``.
    model, database : str
        Of which model it is, and of which database of it: a model that was restored has a new one.
    position : int or None
        The version of the model in it; None until it is written.
    """

    secret: bytes = field(repr=False)
    made: str
    expires: str
    model: str
    database: str
    position: int | None = None

    @classmethod
    def new(cls, days: float, model: str, database: str) -> BackupKey:
        """Return a random key that expires in some days."""
        made = datetime.now(UTC)
        expires = (made + timedelta(days=days)).strftime(TIME_FORMAT)
        return cls(secrets.token_bytes(32), made.strftime(TIME_FORMAT), expires, model, database)

    def may_hold(self, database: str, first: int) -> bool:
        """Return whether a subject may be in it whose first row was learnt at a position of a database."""
        return self.position is None or self.database != database or self.position >= first

    def to_json(self) -> dict[str, Any]:
        """Return it as the key file holds it."""
        return {**asdict(self), "secret": self.secret.hex()}

    @classmethod
    def from_json(cls, given: Any) -> BackupKey:
        """Return what `to_json` returned; ValueError for anything else."""
        held = check_names(given, cls.__dataclass_fields__, "a backup")
        position = held["position"]
        return cls(
            bytes.fromhex(check_hex(held["secret"], "the key of a backup")),
            check_time(held["made"], "the time of a backup"),
            check_time(held["expires"], "the expiry of a backup"),
            check_line(held["model"], "the model of a backup"),
            check_line(held["database"], "the database of a backup"),
            None if position is None else check_number(position, "the version in a backup"),
        )


@dataclass(frozen=True)
class ErasedSubject:
    """The record of an erasure.

    Parameters
    ----------
    model : str
        Of which model.
    op, subject : str
        Keyed hashes of the operation id and of the subject, in hexadecimal digits.
    request : str
        The operation id, which the receipt names, encrypted, in hexadecimal digits.
    refit : bool
        Whether the model was refitted.
    time : str
    """

    model: str
    op: str
    subject: str
    request: str
    refit: bool
    time: str = field(default_factory=now)

    @classmethod
    def from_json(cls, given: Any) -> ErasedSubject:
        """Return the record that a JSON object describes; ValueError for anything else."""
        held = check_names(given, cls.__dataclass_fields__, "the record of an erasure")
        return cls(
            check_line(held["model"], "the model of an erasure"),
            check_hex(held["op"], "the operation of an erasure", 16),
            check_hex(held["subject"], "the subject of an erasure", 16),
            check_line(held["request"], "the request of an erasure", 400),
            check_truth(held["refit"], "the refit of an erasure"),
            check_time(held["time"], "the time of an erasure"),
        )


def joined_records(held: Iterable[ErasedSubject], new: Iterable[ErasedSubject]) -> tuple[ErasedSubject, ...]:
    """Return all records, one for each operation of a model: the newest."""
    return tuple({(one.model, one.op): one for one in [*held, *new]}.values())


def needed_records(
    records: Iterable[ErasedSubject], backups: Mapping[str, BackupKey], at: str
) -> tuple[ErasedSubject, ...]:
    """Return the records that a backup may need at some time: one that is there, or one that is just being made."""
    return tuple(
        record
        for record in records
        if _later(record.time) >= at
        or any(key.model == record.model and key.made <= _later(record.time) for key in backups.values())
    )


def _later(time: str) -> str:
    try:
        return (datetime.fromisoformat(time) + _SLACK).strftime(TIME_FORMAT)
    except OverflowError:
        return time
