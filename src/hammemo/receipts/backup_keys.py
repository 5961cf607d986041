"""What the key file knows of backups: each one of a model with subjects has a key of its own, with an expiry date."""

from __future__ import annotations

import secrets
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from hammemo.receipts import strict_json as strict


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
        expires = (made + timedelta(days=days)).strftime(strict.TIME_FORMAT)
        return cls(secrets.token_bytes(32), made.strftime(strict.TIME_FORMAT), expires, model, database)

    def may_hold(self, database: str, first: int) -> bool:
        """Return whether a subject may be in it whose first row was learnt at a position of a database."""
        return self.position is None or self.database != database or self.position >= first

    def to_json(self) -> dict[str, Any]:
        """Return it as the key file holds it."""
        return {**asdict(self), "secret": self.secret.hex()}

    @classmethod
    def from_json(cls, given: Any) -> BackupKey:
        """Return what `to_json` returned; ValueError for anything else."""
        held = strict.check_names(given, cls.__dataclass_fields__, "a backup")
        position = held["position"]
        return cls(
            strict.check_secret(held["secret"], "the key of a backup"),
            strict.check_time(held["made"], "the time of a backup"),
            strict.check_time(held["expires"], "the expiry of a backup"),
            strict.check_line(held["model"], "the model of a backup"),
            strict.check_line(held["database"], "the database of a backup"),
            None if position is None else strict.check_number(position, "the version in a backup"),
        )
