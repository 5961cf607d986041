"""Receipts of a served model: signed for single edits, and wanted of a model that was restored.

**Signed.** A receipt of a `forget` or a `refit` compares the model before the edit with the one
after it, so such an edit makes a group of its own. The receipt is written in the transaction of
the edit, with its hash in the edit's line of the audit record: there is no edit without the
receipt that was asked for. An edit that is sent again gets the same receipt, also after its id
is forgotten. Receipts of edits and of erasures (:mod:`hammemo_server.erasure.journal`) make one
chain for each model. A model with subjects stores a receipt encrypted, because it names the
operation id.

**Wanted.** Erasures are recorded beside the key file, so that a restored model can carry them
out again (:mod:`hammemo_server.models.backups`). If the key file and the records were
themselves restored from an older copy, the newest records are missing, and persons who were
erased would be back. The file of receipts is kept elsewhere. The restored model must know each
of its requests that removed rows.
"""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from hammemo.receipts.chains import ReceiptFile
from hammemo.receipts.keys import Keys, read_keys
from hammemo.receipts.receipt import Receipt, SignedReceipt, used_libraries, used_processor
from hammemo.receipts.recording import Moment
from hammemo.receipts.row_hash import RowHash
from hammemo.receipts.strict_json import now
from hammemo_server.edits.operations import LoggedChoice, LoggedRefit, Malformed, decode_body
from hammemo_server.erasure.journal import Journal, first_position, opened_facts
from hammemo_server.store.audit import Line
from hammemo_server.store.log import NEWEST_RECEIPT, Erasure, IssuedReceipt

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Collection, Iterable, Sequence

    from hammemo.estimators.learners import Learner
    from hammemo_server.store.base_log import Log
    from hammemo_server.store.vault import Cipher, Vault

_LISTED: Final = 10
"""How many requests a refusal names."""


class Signing:
    """Signs the receipts of one model.

    Parameters
    ----------
    log : Log
    keys : function that returns the keys
        They are read again for each receipt: the key file may have been replaced.
    notes : Cipher, optional
        What encrypts stored receipts.
    """

    def __init__(self, log: Log, keys: Callable[[], Keys], notes: Cipher | None = None) -> None:
        self._log = log
        self._keys = keys
        self._notes = notes
        self.lock = threading.Lock()
        """Held from the moment the newest receipt is read until the next one is written."""

    def signed(
        self,
        request: str,
        before: tuple[Learner, int],
        after: tuple[Learner, int],
        body: bytes,
        asked: Iterable[list[Any]],
        backups: Iterable[tuple[str, str]] = (),
    ) -> SignedReceipt:
        """Return the receipt of one edit.

        Models come with their versions; `body` is what the log keeps of the edit, `asked` are
        the rows that it forgets.
        """
        refitted = {LoggedChoice: ("layout", "weights"), LoggedRefit: ("weights",)}.get(
            type(decode_body(body)), ()
        )
        newest = self._log.mark(NEWEST_RECEIPT)
        previous = None if newest is None else newest.hex()
        first = Moment.of(*before)
        then = replace(Moment.of(*after), refitted=frozenset(refitted))
        return then.receipt_since(
            first, RowHash(self._keys()).plus(asked), request, previous, backups
        )

    def is_of(self, signed: SignedReceipt, asked: Iterable[list[Any]]) -> bool:
        """Return whether a receipt is that of an edit which forgets these rows."""
        receipt = signed.receipt
        return receipt.rows_hash == RowHash(self._keys()).plus(asked).of_request(receipt.request)

    def issued(self, op: str, signed: SignedReceipt) -> IssuedReceipt:
        """Return a receipt as the log keeps it; `op` is the id as it is stored."""
        line = (
            signed.encoded()
            if self._notes is None
            else self._notes.sealed(signed.encoded(), _place(op))
        )
        return IssuedReceipt(bytes.fromhex(signed.hash), line)

    def kept(self, op: str) -> tuple[int, str] | None:
        """Return the version after an edit and its receipt; None for an edit without one."""
        found = self._log.receipt(op)
        if found is None:
            return None
        position, stored = found
        return position, (
            stored if self._notes is None else self._notes.opened(stored, _place(op))
        ).decode()


def _place(op: str) -> bytes:
    return b"receipt " + op.encode()


def receipt_of(journal: Journal, erasure: Erasure) -> bytes:
    """Return the receipt of an erasure, no bytes as long as there is none."""
    return (
        journal.vault.notes.opened(erasure.receipt, erasure.op.encode()) if erasure.receipt else b""
    )


def issue(
    log: Log, journal: Journal, erasures: Sequence[Erasure], model: Learner, version: int
) -> None:
    """Sign and keep the receipts (step 4).

    `model` is what the snapshot holds, with this version.
    """
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
        op = log.hashed_op(erasure.op)
        link = bytes.fromhex(signed.hash)
        finished.append(
            (
                kept,
                Line(
                    time.time(), "", "erased", op, facts.rows, facts.version_before, version, link
                ),
            )
        )
    log.finish_erasures(finished)


class WantedReceipts(NamedTuple):
    """What a restored model must know.

    Parameters
    ----------
    receipts : tuple of SignedReceipt
    again : frozenset of str
        Requests that need not be known: they will be sent again.
    """

    receipts: tuple[SignedReceipt, ...]
    again: frozenset[str]

    @classmethod
    def read(
        cls,
        path: str | os.PathLike[str],
        keys: str | os.PathLike[str] | None,
        again: Collection[str],
    ) -> WantedReceipts:
        """Return those of a file.

        ValueError where one is not signed, or the last one with another key.
        """
        found = ReceiptFile(path).read()
        for line, signed in enumerate(found, 1):
            if not signed.verify():
                raise ValueError(
                    f"{path}, line {line}: the signature is wrong. The receipt was changed, or "
                    "is forged."
                )
        if keys is not None and found[-1].public_key != read_keys(keys).public_key:
            raise ValueError(
                f"{path} is signed with another key than that of the key file: name the "
                "model's own file."
            )
        return cls(tuple(found), frozenset(again))

    def check_chain(self, log: Log) -> None:
        """Refuse receipts among which the newest one of the backup is not.

        They are another model's, or not all.
        """
        newest = log.mark(NEWEST_RECEIPT)
        known = {self.receipts[0].receipt.previous, *(signed.hash for signed in self.receipts)}
        if newest is not None and newest.hex() not in known:
            raise Malformed(
                "The receipts do not hold the newest one of the backup: they are of another "
                "model, or some are missing."
            )

    def check_known(self, log: Log, vault: Vault | None, recorded: Collection[str] = ()) -> None:
        """Refuse a model that does not know a request which removed rows.

        `recorded` are hashes of erasures that were carried out again, or of subjects that came
        after the backup.
        """
        asked = dict.fromkeys(
            signed.receipt.request for signed in self.receipts if signed.receipt.rows
        )
        missing = [
            one
            for one in asked
            if one not in self.again and not _is_known(log, vault, recorded, one)
        ]
        if missing:
            listed = ", ".join(missing[:_LISTED]) + (", …" if len(missing) > _LISTED else "")
            raise Malformed(
                f"The backup does not know {len(missing)} of the requests that have receipts, "
                f"and there is no record of them beside the key file: {listed}. Use the newest "
                "key file and records. If they were plain forgets, say with again= that you will "
                "send them again."
            )


def _is_known(log: Log, vault: Vault | None, recorded: Collection[str], request: str) -> bool:
    op = request if vault is None else vault.hashed_op(request)
    return op in recorded or log.receipt(op) is not None or log.erasure(op) is not None
