"""The receipts that a restored model must know: how missing records of erasures are found out.

Erasures are recorded beside the key file, so that a restored model can carry them out again
(:mod:`hammemo_server.models.backups`). If the key file and the records were themselves restored from an older copy, the
newest records are missing, and persons who were erased would be back. The file of receipts is kept elsewhere. The
restored model must know each of its requests that removed rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from hammemo.receipts.chains import ReceiptFile
from hammemo.receipts.keys import read_keys
from hammemo_server.edits.operations import Malformed
from hammemo_server.store.log import NEWEST_RECEIPT

if TYPE_CHECKING:
    import os
    from collections.abc import Collection

    from hammemo.receipts.receipt import SignedReceipt
    from hammemo_server.store.base_log import Log
    from hammemo_server.store.vault import Vault

_LISTED: Final = 10
"""How many requests a refusal names."""


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
        cls, path: str | os.PathLike[str], keys: str | os.PathLike[str] | None, again: Collection[str]
    ) -> WantedReceipts:
        """Return those of a file; ValueError where one is not signed, or the last one with another key."""
        found = ReceiptFile(path).read()
        for line, signed in enumerate(found, 1):
            if not signed.verify():
                raise ValueError(f"{path}, line {line}: the signature is wrong. The receipt was changed, or is forged.")
        if keys is not None and found[-1].public_key != read_keys(keys).public_key:
            raise ValueError(f"{path} is signed with another key than that of the key file: name the model's own file.")
        return cls(tuple(found), frozenset(again))

    def check_chain(self, log: Log) -> None:
        """Refuse receipts among which the newest one of the backup is not: they are another model's, or not all."""
        newest = log.mark(NEWEST_RECEIPT)
        known = {self.receipts[0].receipt.previous, *(signed.hash for signed in self.receipts)}
        if newest is not None and newest.hex() not in known:
            raise Malformed(
                "The receipts do not hold the newest one of the backup: they are of another model, or some are missing."
            )

    def check_known(self, log: Log, vault: Vault | None, recorded: Collection[str] = ()) -> None:
        """Refuse a model that does not know a request which removed rows.

        `recorded` are hashes of erasures that were carried out again, or of subjects that came after the backup.
        """
        asked = dict.fromkeys(signed.receipt.request for signed in self.receipts if signed.receipt.rows)
        missing = [
            request for request in asked if request not in self.again and not _is_known(log, vault, recorded, request)
        ]
        if missing:
            listed = ", ".join(missing[:_LISTED]) + (", …" if len(missing) > _LISTED else "")
            raise Malformed(
                f"The backup does not know {len(missing)} of the requests that have receipts, and there is no record "
                f"of them beside the key file: {listed}. Use the newest key file and records. If they were plain "
                "forgets, say with again= that you will send them again."
            )


def _is_known(log: Log, vault: Vault | None, recorded: Collection[str], request: str) -> bool:
    op = request if vault is None else vault.hashed_op(request)
    return op in recorded or log.receipt(op) is not None or log.erasure(op) is not None
