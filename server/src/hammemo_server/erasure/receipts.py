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

from hammemo.receipts.chains import ReceiptFile
from hammemo.receipts.keys import Keys, read_keys
from hammemo.receipts.receipt import Receipt, SignedReceipt, library_versions, processor_kind
from hammemo.receipts.row_hash import RowHash
from hammemo.receipts.strict_json import now
from hammemo_server.edits.operations import LoggedChoice, LoggedRefit, Malformed, decode_body
from hammemo_server.erasure.journal import Journal, first_position, unseal_facts
from hammemo_server.store.audit import Line
from hammemo_server.store.log import NEWEST_RECEIPT, Erasure, IssuedReceipt

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Collection, Iterable, Sequence

    from hammemo.estimators.learners import Learner
    from hammemo.receipts.recording import Moment
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

    def sign(
        self,
        request: str,
        before: Moment,
        after: Moment,
        *,
        body: bytes,
        forgotten_rows: Iterable[list[Any]],
        backups: Iterable[tuple[str, str]] = (),
    ) -> SignedReceipt:
        """Return the receipt of one edit.

        Parameters
        ----------
        request : str
            The operation id, as the client sent it.
        before, after : Moment
            The model without the edit, and with it.
        body : bytes
            What the log keeps of the edit.
        forgotten_rows : iterable of lists
            The rows that the edit forgets, as a receipt hashes them.
        backups : iterable of (str, str)
            Names of the backups that may hold these rows, and when they expire.
        """
        content = decode_body(body)
        refitted: frozenset[str] = frozenset()
        if isinstance(content, LoggedChoice):
            refitted = frozenset({"layout", "weights"})
        elif isinstance(content, LoggedRefit):
            refitted = frozenset({"weights"})
        newest = self._log.mark(NEWEST_RECEIPT)
        return replace(after, refitted=refitted).receipt_since(
            before,
            RowHash(self._keys()).plus(forgotten_rows),
            request,
            previous=None if newest is None else newest.hex(),
            backups=backups,
        )

    def is_of(self, signed: SignedReceipt, forgotten_rows: Iterable[list[Any]]) -> bool:
        """Return whether a receipt is that of an edit which forgets these rows."""
        receipt = signed.receipt
        return receipt.rows_hash == RowHash(self._keys()).plus(forgotten_rows).of_request(
            receipt.request
        )

    def store_form(self, op: str, signed: SignedReceipt) -> IssuedReceipt:
        """Return a receipt as the log keeps it; `op` is the id as it is stored."""
        body = signed.encode()
        if self._notes is not None:
            body = self._notes.seal(body, _place(op))
        return IssuedReceipt(bytes.fromhex(signed.hash), body)

    def find(self, op: str) -> tuple[int, str] | None:
        """Return the version after an edit and its receipt; None for an edit without one."""
        entry = self._log.receipt(op)
        if entry is None:
            return None
        version, body = entry
        if self._notes is not None:
            body = self._notes.unseal(body, _place(op))
        return version, body.decode()


def _place(op: str) -> bytes:
    return b"receipt " + op.encode()


def receipt_of(journal: Journal, erasure: Erasure) -> bytes:
    """Return the receipt of an erasure, no bytes as long as there is none."""
    if not erasure.receipt:
        return b""
    return journal.vault.notes.unseal(erasure.receipt, erasure.op.encode())


def issue_receipts(
    log: Log, journal: Journal, erasures: Sequence[Erasure], *, model: Learner, version: int
) -> None:
    """Sign and keep the receipts (step 4).

    `model` is what the snapshot holds, with this version.
    """
    vault = journal.vault
    vault.drop_expired()
    keys = vault.keys()
    parts_after = model.digest(parts=True)
    libraries = library_versions()
    processor = processor_kind()
    newest = log.mark(NEWEST_RECEIPT)
    previous = None if newest is None else newest.hex()
    finished: list[tuple[Erasure, Line]] = []
    for erasure in erasures:
        facts = unseal_facts(journal, erasure)
        signed = Receipt(
            request=facts.request,
            version_before=facts.version_before,
            version_after=version,
            digest_before=facts.digest_before,
            parts_after=parts_after,
            rows=facts.rows,
            rows_hash=facts.rows_hash,
            labels=facts.labels,
            layout_refitted=facts.layout_refitted,
            weights_refitted=facts.weights_refitted,
            backups=vault.backups_with(first_position(erasure.key)),
            libraries=libraries,
            processor=processor,
            previous=previous,
            time=now(),
        ).sign(keys)
        previous = signed.hash
        sealed = vault.notes.seal(signed.encode(), erasure.op.encode())
        line = Line(
            at=time.time(),
            token="",
            kind="erased",
            op=log.hash_op(erasure.op),
            rows=facts.rows,
            before=facts.version_before,
            after=version,
            receipt=bytes.fromhex(signed.hash),
        )
        finished.append((erasure._replace(receipt=sealed), line))
    log.finish_erasures(finished)


class WantedReceipts(NamedTuple):
    """What a restored model must know.

    Parameters
    ----------
    receipts : tuple of SignedReceipt
    sent_again : frozenset of str
        Requests that need not be known: they will be sent again.
    """

    receipts: tuple[SignedReceipt, ...]
    sent_again: frozenset[str]

    @classmethod
    def read(
        cls,
        path: str | os.PathLike[str],
        keys: str | os.PathLike[str] | None,
        sent_again: Collection[str],
    ) -> WantedReceipts:
        """Return those of a file.

        ValueError where one is not signed, or the last one is signed with another key.
        """
        receipts = ReceiptFile(path).read()
        for line, signed in enumerate(receipts, 1):
            if not signed.verify():
                raise ValueError(
                    f"{path}, line {line}: the signature is wrong. "
                    "The receipt was changed, or is forged."
                )
        if keys is not None and receipts[-1].public_key != read_keys(keys).public_key:
            raise ValueError(
                f"{path} is signed with another key than that of the key file: "
                "name the model's own file."
            )
        return cls(tuple(receipts), frozenset(sent_again))

    def check_chain(self, log: Log) -> None:
        """Refuse receipts among which the newest one of the backup is not.

        They are another model's, or not all.
        """
        newest = log.mark(NEWEST_RECEIPT)
        expected = {self.receipts[0].receipt.previous, *(signed.hash for signed in self.receipts)}
        if newest is not None and newest.hex() not in expected:
            raise Malformed(
                "The receipts do not hold the newest one of the backup: "
                "they are of another model, or some are missing."
            )

    def check_known(self, log: Log, vault: Vault | None, recorded: Collection[str] = ()) -> None:
        """Refuse a model that does not know a request which removed rows.

        `recorded` are hashes of erasures that were carried out again, or of subjects that came
        after the backup.
        """
        requests = dict.fromkeys(
            signed.receipt.request for signed in self.receipts if signed.receipt.rows
        )
        missing = [
            request
            for request in requests
            if request not in self.sent_again and not _is_known(log, vault, recorded, request)
        ]
        if missing:
            listed = ", ".join(missing[:_LISTED]) + (", …" if len(missing) > _LISTED else "")
            raise Malformed(
                f"The backup does not know {len(missing)} of the requests that have receipts, "
                "and there is no record of them beside the key file: "
                f"{listed}. Use the newest key file and records. "
                "If they were plain forgets, say with again= that you will send them again."
            )


def _is_known(log: Log, vault: Vault | None, recorded: Collection[str], request: str) -> bool:
    op = request if vault is None else vault.hash_op(request)
    return op in recorded or log.receipt(op) is not None or log.erasure(op) is not None
