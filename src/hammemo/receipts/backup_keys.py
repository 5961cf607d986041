"""What the key file knows of backups: that of a model with subjects has a key, which expires."""

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
        created = datetime.now(UTC)
        expires = (created + timedelta(days=days)).strftime(strict.TIME_FORMAT)
        return cls(
            secret=secrets.token_bytes(32),
            made=created.strftime(strict.TIME_FORMAT),
            expires=expires,
            model=model,
            database=database,
        )

    def may_hold(self, database: str, first: int) -> bool:
        """Return whether it may have a subject, whose first row is at a position of a database."""
        return self.position is None or self.database != database or self.position >= first

    def to_json(self) -> dict[str, Any]:
        """Return it as the key file holds it."""
        return {**asdict(self), "secret": self.secret.hex()}

    @classmethod
    def from_json(cls, value: Any) -> BackupKey:
        """Return what `to_json` returned; ValueError for anything else."""
        facts = strict.check_names(value, cls.__dataclass_fields__, "a backup")
        position = facts["position"]
        if position is not None:
            position = strict.check_number(position, "the version in a backup")
        return cls(
            secret=strict.check_secret(facts["secret"], "the key of a backup"),
            made=strict.check_time(facts["made"], "the time of a backup"),
            expires=strict.check_time(facts["expires"], "the expiry of a backup"),
            model=strict.check_line(facts["model"], "the model of a backup"),
            database=strict.check_line(facts["database"], "the database of a backup"),
            position=position,
        )
