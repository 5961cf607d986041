"""The log of a model: what was acknowledged, in order, on a disk that can be trusted.

Edits have positions 1, 2, 3, …: the position of an edit is the version of the model after it.
The log keeps

- **bodies** (rows and labels, documents, fitted weights), until a snapshot of the model holds them;
- **ids** of operations with the position and the keyed digest of their body, for a longer time:
  as long as clients may send an edit again. Their age is counted in seconds for which the model
  was open for writing, by a monotonic clock and stored with every commit: a wall clock that is
  set wrong lets no old edit in again, and downtime does not count;
- the **audit record** (:mod:`hammemo_server.store.audit`): one line for each edit, without its
  content, for years;
- the newest **snapshot**: a model file and its position. To restore the model is to load it and
  to apply the bodies after it.

What an implementation promises, and `server/tests/test_log_contract.py` checks:

- `append` is one transaction. When it has returned, its entries survive a crash of process,
  machine and power, all of them. When it raises `LogError`, they are there or not, all or none;
  `reopen` and `head` tell.
- A position has one entry and is never used again. Readers see positions without a gap, in this
  order.
- Only one writer appends: another one cannot open the log, or is fenced off when the first has
  lost it.
- A new snapshot takes the place of the old one at once; bodies up to it are then deleted, so
  that no file holds them (where the engine can do that).

All methods may be called by any thread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hammemo.estimators.learners import Learner
    from hammemo_server.store.vault import Vault


NEWEST_RECEIPT: Final = "newest receipt"
"""The mark that holds the hash of the newest receipt: the next one names it."""


class LogError(Exception):
    """The log failed, and what was to be written is in doubt: `reopen`, then look.

    The message holds no example.
    """


class LeaseLost(LogError):  # noqa: N818
    """Another writer has this model now: nothing was written."""


class LogDamaged(LogError):  # noqa: N818
    """The log or the snapshot does not hold what it must; opening it again does not help."""


class Overtaken(Exception):  # noqa: N818
    """A reader asked for bodies that a snapshot has taken the place of: load that."""


class StoredKey(NamedTuple):
    """The key of a subject as the database holds it: wrapped by a key of the key file."""

    key: int
    subject: bytes
    """A keyed hash; of a subject whose erasure was applied, the number of the key."""
    wrapping: int
    wrapped: bytes


class Erasure(NamedTuple):
    """A request to forget a subject, from the edit that applies it to the receipt."""

    op: str
    key: int
    position: int
    facts: bytes
    """What the receipt will say, sealed."""
    receipt: bytes = b""
    """The receipt, sealed; nothing before the key is destroyed."""

    @property
    def state(self) -> Literal["applied", "erased"]:
        """Whether the key of the subject is destroyed."""
        return "erased" if self.receipt else "applied"


class IssuedReceipt(NamedTuple):
    """A signed receipt of an edit, as the log keeps it."""

    hash: bytes
    body: bytes
    """The receipt; encrypted where the model has subjects."""


class Entry(NamedTuple):
    """An edit that is to be appended."""

    op: str
    digest: bytes
    body: bytes
    kind: str = ""
    """What the audit record says of it, beside its version: its kind, how many rows it has, and
    the token's name."""
    rows: int = 0
    token: str = ""
    journal: tuple[tuple[int, bytes], ...] = ()
    """Of a model with subjects: the ciphertext of each subject's rows, by the subject's key."""
    new_keys: tuple[StoredKey, ...] = ()
    """Keys of subjects that this edit is the first to name."""
    erasure: Erasure | None = None
    """The subject that it erases."""
    receipt: IssuedReceipt | None = None
    """Written in the same transaction, and the newest one from then on."""


class Seen(NamedTuple):
    """An id that the log knows."""

    position: int
    digest: bytes


class Copied(NamedTuple):
    """A whole model as a store makes it, encrypted with keys of the database that it is for."""

    settings: str
    key: bytes
    head: int
    base: int
    snapshot: Learner | bytes | None
    """A model, or its file as a backup holds it."""
    rows: Iterable[tuple[str, list[tuple[Any, ...]]]]
    """Rows of tables, by the names that `Log.dump` takes."""
    vault: Vault | None


class ListFacts(NamedTuple):
    """What is known of a named list of labels without reading it."""

    version: int
    """No other list of the tenant has it, or had it."""
    items: int
