"""The log of a model: what was acknowledged, in the order in which it is applied, on a disk that can be trusted.

Edits have positions 1, 2, 3, …: the position of an edit is the version of the model after it. The log keeps

- **bodies** (rows and labels, documents, fitted weights), until a snapshot of the model holds them;
- **ids** of operations with the position and the keyed digest of their body, for a longer time: as long as clients may
  send an edit again;
- the newest **snapshot**: a model file and its position. To restore the model is to load it and to apply the bodies
  after it.

What an implementation promises, and `tests/service/test_log_contract.py` checks:

- `append` is one transaction. When it has returned, its entries survive a crash of process, machine and power, all of
  them. When it raises `LogError`, they are there or not, all or none; `reopen` and `head` tell.
- A position has one entry and is never used again. Readers see positions without a gap, in this order.
- Only one writer appends: another one cannot open the log, or is fenced off when the first has lost it.
- A new snapshot takes the place of the old one at once; bodies up to it are then deleted, so that no file holds them
  (where the engine can do that).

All methods may be called by any thread.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hammemo.models.classifiers import MemoryClassifier


class LogError(Exception):
    """The log failed: what was to be written is in doubt. `reopen`, then look. The message holds no example."""


class LeaseLost(LogError):  # noqa: N818
    """Another writer has this model now: nothing was written."""


class LogDamaged(LogError):  # noqa: N818
    """The log or the snapshot does not hold what it must; opening it again does not help."""


class Overtaken(Exception):  # noqa: N818
    """A reader asked for bodies that a snapshot has taken the place of: load that."""


@dataclass(frozen=True)
class Entry:
    """An edit that is to be appended."""

    op: str
    digest: bytes
    body: bytes


@dataclass(frozen=True)
class Seen:
    """An id that the log knows."""

    position: int
    digest: bytes


class Log(Protocol):
    """The log of one model."""

    @property
    def settings(self) -> str:
        """The settings that the model was made with, as `Settings.text` writes them."""

    @property
    def key(self) -> bytes:
        """The secret of the digests of ids."""

    def head(self) -> int:
        """Return the position of the last edit, 0 if there was none."""

    def base(self) -> int:
        """Return the position up to which bodies are deleted: that of the newest snapshot."""

    def body_bytes(self) -> int:
        """Return about how many bytes of bodies there are."""

    def seen(self, ops: Sequence[str]) -> dict[str, Seen]:
        """Return those of these ids that are known."""

    def append(self, after: int, entries: Sequence[Entry]) -> None:
        """Append entries at the positions after `after`, which must be the head, durably, all or none."""

    def read(self, after: int, most: int) -> list[bytes]:
        """Return at most `most` bodies, those after `after`; raise `Overtaken` if they are deleted."""

    def snapshot(self) -> tuple[MemoryClassifier, int] | None:
        """Return the newest snapshot and its position, or None if there is none yet."""

    def keep_snapshot(self, model: MemoryClassifier, position: int) -> None:
        """Make this the newest snapshot, then delete all bodies up to it."""

    def forget_ids(self, older_than: float) -> None:
        """Forget the ids of edits whose bodies are deleted and that are older than `older_than` seconds."""

    def has_changed(self) -> bool:
        """Return whether there may be something new since the last call: cheap, for readers that look often."""

    def is_current(self) -> bool:
        """Return whether this is still the log of that name: the model was not deleted."""

    def renew_lease(self) -> None:
        """Renew the lease of the writer, where the engine has one; called now and then while nothing is written."""

    def reopen(self) -> None:
        """Open the log again after `LogError`, as a writer if it was one."""

    def close(self) -> None:
        """Let the log go."""


class Store(Protocol):
    """Where the logs of all models are."""

    def tenants(self) -> list[str]:
        """Return the tenants that have a model, sorted."""

    def names(self, tenant: str) -> list[str]:
        """Return the names of a tenant's models, sorted."""

    def create(self, tenant: str, name: str, settings: str, model: MemoryClassifier | None) -> bool:
        """Make an empty log, with `model` as the snapshot of position 0; return False if there is one of that name."""

    def open(self, tenant: str, name: str, *, follower: bool) -> Log:
        """Open a log; raise `NoSuchModel`, or `InUse` where another process writes it."""

    def delete(self, tenant: str, name: str) -> bool:
        """Delete a log that is not open here; return False if there is none."""

    def close(self) -> None:
        """Let the store go."""
