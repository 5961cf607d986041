"""Erasing subjects: from the edit that removes their rows to the receipt.

1. The writer appends and applies the edit while the key of the subject still exists, and refits the model
   (:mod:`hammemo_server.models.writer`). From now on the state of the erasure is ``applied``.
2. A snapshot that holds the edit takes the place of the log before it.
3. The key is destroyed: the other keys of its bucket are wrapped under a new wrapping key, in one transaction that also
   deletes the key and the journal of the subject; then the old wrapping key and the old contents keys are dropped
   from the key file.
4. The receipt is signed and kept, with a line of the audit record. It names the backups that may still hold the
   subject. The state is ``erased``.

All erasures that wait share each step. Every step can be done again: after a crash the process that writes next begins
with 2. What 3 dropped is found by comparing the key file with the database, so it is dropped even if the crash came
between the two.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import msgspec

from hammemo.receipts.receipt import Receipt, keyed_digest, used_libraries, used_processor
from hammemo.receipts.strict_json import now
from hammemo_server.erasure.journal import Journal, first_position, unwrapped, wrapped
from hammemo_server.store.audit import Line
from hammemo_server.store.log import NEWEST_RECEIPT, Erasure, StoredKey

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hammemo.models.learners import Learner
    from hammemo_server.store.base_log import Log


class ErasureFacts(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What the receipt will say, as far as it is known when the edit is applied."""

    request: str
    version_before: int
    digest_before: str
    """Keyed."""
    rows: int
    labels: int
    layout_refitted: bool
    weights_refitted: bool
    rows_hash: str
    """Keyed: that of the subject."""
    contents: int
    """The contents key from which on nothing holds the subject."""


def sealed_facts(journal: Journal, op: str, facts: ErasureFacts) -> bytes:
    """Return the facts as the database keeps them: the request id is for the owner of the key file."""
    return journal.vault.notes.sealed(msgspec.msgpack.encode(facts), op.encode())


def opened_facts(journal: Journal, erasure: Erasure) -> ErasureFacts:
    """Return the facts of an erasure that the database keeps."""
    return msgspec.msgpack.decode(journal.vault.notes.opened(erasure.facts, erasure.op.encode()), type=ErasureFacts)


def keyed_digest_of(journal: Journal, model: Learner) -> str:
    """Return the keyed hash of a model's digest, as a receipt has it."""
    return keyed_digest(journal.vault.keys(), model.digest())


def receipt_of(journal: Journal, erasure: Erasure) -> bytes:
    """Return the receipt of an erasure, no bytes as long as there is none."""
    return journal.vault.notes.opened(erasure.receipt, erasure.op.encode()) if erasure.receipt else b""


def destroy(log: Log, journal: Journal, erasures: Sequence[Erasure]) -> None:
    """Destroy the keys of subjects whose rows a snapshot no longer holds (step 3)."""
    vault, doomed = journal.vault, log.stored_keys([erasure.key for erasure in erasures])
    facts = [opened_facts(journal, erasure) for erasure in erasures]
    with journal.lock:  # no key is made meanwhile
        rewrapped = []
        numbers = sorted({stored.wrapping for stored in doomed.values()})
        newest = max([0, *log.wrapping_keys()])
        for number in numbers:
            newest = vault.new_wrapping(newest)
            others = [stored for stored in log.wrapped_by(number) if stored.key not in doomed]
            rewrapped += [_rewrapped(journal, stored, newest) for stored in others]
        if doomed:
            log.destroy_keys(list(doomed), numbers, rewrapped)
        journal.forget_keys()
        with log.fenced():  # a process that lost the lease must not drop what its successor has just made
            vault.drop(log.wrapping_keys(), max((fact.contents for fact in facts), default=0))


def _rewrapped(journal: Journal, stored: StoredKey, wrapping: int) -> StoredKey:
    again = wrapped(journal.vault, stored.key, unwrapped(journal.vault, stored), wrapping)
    return stored._replace(wrapping=wrapping, wrapped=again)


def issue(log: Log, journal: Journal, erasures: Sequence[Erasure], model: Learner, version: int) -> None:
    """Sign and keep the receipts (step 4); `model` is what the snapshot holds, with this version."""
    vault = journal.vault
    vault.drop_expired()
    keys = vault.keys()
    same: dict[str, Any] = {"version_after": version, "parts_after": model.digest(parts=True)}
    same |= {"libraries": used_libraries(), "processor": used_processor()}
    newest = log.mark(NEWEST_RECEIPT)
    previous = None if newest is None else newest.hex()
    finished: list[tuple[Erasure, Line]] = []
    for erasure in erasures:
        facts = opened_facts(journal, erasure)
        said = msgspec.structs.asdict(facts)
        del said["contents"]
        backups = vault.backups_with(first_position(erasure.key))
        signed = Receipt(**said, **same, previous=previous, time=now(), backups=backups).sign(keys)
        previous = signed.hash
        kept = erasure._replace(receipt=vault.notes.sealed(signed.encoded(), erasure.op.encode()))
        op, link = log.hashed_op(erasure.op), bytes.fromhex(signed.hash)
        finished.append((kept, Line(time.time(), "", "erased", op, facts.rows, facts.version_before, version, link)))
    log.finish_erasures(finished)
