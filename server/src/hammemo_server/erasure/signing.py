"""Signed receipts of single edits: what a `forget` or a `refit` of a served model did.

A receipt compares the model before the edit with the one after it, so such an edit makes a group of its own. The
receipt is written in the transaction of the edit, with its hash in the edit's line of the audit record: there is no
edit without the receipt that was asked for. An edit that is sent again gets the same receipt, also after its id is
forgotten. Receipts of edits and of erasures (:mod:`hammemo_server.erasure.erasing`) make one chain for each model.

A model with subjects stores a receipt encrypted, because it names the operation id.
"""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hammemo.receipts.recording import Moment
from hammemo.receipts.row_hash import RowHash
from hammemo_server.edits.operations import LoggedChoice, LoggedRefit, decoded
from hammemo_server.store.log import NEWEST_RECEIPT, IssuedReceipt

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from hammemo.models.learners import Learner
    from hammemo.receipts.keys import Keys
    from hammemo.receipts.receipt import SignedReceipt
    from hammemo_server.store.base_log import Log
    from hammemo_server.store.vault import Cipher


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
        self._log, self._keys, self._notes = log, keys, notes
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

        Models come with their versions; `body` is what the log keeps of the edit, `asked` are the rows that it forgets.
        """
        content = decoded(body)
        refitted = frozenset(("layout", "weights")) if isinstance(content, LoggedChoice) else frozenset[str]()
        if isinstance(content, LoggedRefit):
            refitted = frozenset(("weights",))
        newest = self._log.mark(NEWEST_RECEIPT)
        previous = None if newest is None else newest.hex()
        first, then = Moment.of(*before), replace(Moment.of(*after), refitted=refitted)
        return then.receipt_since(first, RowHash(self._keys()).plus(asked), request, previous, backups)

    def is_of(self, signed: SignedReceipt, asked: Iterable[list[Any]]) -> bool:
        """Return whether a receipt is that of an edit which forgets these rows."""
        receipt = signed.receipt
        return receipt.rows_hash == RowHash(self._keys()).plus(asked).of_request(receipt.request)

    def issued(self, op: str, signed: SignedReceipt) -> IssuedReceipt:
        """Return a receipt as the log keeps it; `op` is the id as it is stored."""
        line = signed.encoded()
        return IssuedReceipt(
            bytes.fromhex(signed.hash), line if self._notes is None else self._notes.sealed(line, _place(op))
        )

    def kept(self, op: str) -> tuple[int, str] | None:
        """Return the version after an edit and its receipt; None for an edit without one."""
        found = self._log.receipt(op)
        if found is None:
            return None
        position, stored = found
        return position, (stored if self._notes is None else self._notes.opened(stored, _place(op))).decode()


def _place(op: str) -> bytes:
    return b"receipt " + op.encode()
