"""A file of receipts: one signed receipt per line, each with the hash of the line before.

One file belongs to one model. Old receipts may be deleted from the front: the first line then
names one that is not there. A receipt must not be there before the model is, and must not be
lost when a process is killed between the two. So a receipt waits in a file beside it,
``FILE.pending``, while the model is written. What is found there later is compared with the
model: it becomes a line if the model was written, and goes if it was not.
"""

from __future__ import annotations

from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hammemo.files.atomic import write_file
from hammemo.files.locks import locked
from hammemo.receipts.receipt import SignedReceipt, hash_digest

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator

    from hammemo.receipts.keys import Keys

_MAX_FILE_BYTES: Final = 2**30


class ReceiptFile:
    """The receipts of one model.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from hammemo import MemoryClassifier, save
    >>> from hammemo.receipts import Keys, ReceiptFile, recorded
    >>> clf, keys = MemoryClassifier().fit([["a", "b"], ["c", "d"]], ["x", "y"]), Keys.new()
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = ReceiptFile(Path(folder, "receipts.jsonl"))
    ...     with file.locked():
    ...         last = file.settle(clf.digest(), keys)
    ...         with recorded(clf, keys, "2026-17", previous=last) as record:
    ...             _ = clf.forget([["a", "b"]], ["x"]).refit()
    ...         file.add(record.signed, lambda: save(clf, Path(folder, "a.model")))
    ...     [signed.receipt.request for signed in file.read()]
    ['2026-17']
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._pending = self.path.with_name(f"{self.path.name}.pending")

    @contextmanager
    def locked(self, wait: float | None = None) -> Iterator[None]:
        """Hold the lock of the file for the time of the block."""
        with locked(self.path, wait):
            yield

    def refuse_waiting(self) -> None:
        """Refuse to go on while a receipt waits: its command runs still, or was killed."""
        if self._pending.exists():
            raise ValueError(
                f"{self._pending} holds a receipt that waits for its model: "
                "a command is running, or was killed. Run it again, with the same request id."
            )

    def read(self) -> list[SignedReceipt]:
        """Return all receipts; ValueError where a line is none or the chain is broken.

        Signatures are not checked.
        """
        if self.path.stat().st_size > _MAX_FILE_BYTES:
            raise ValueError(
                f"{self.path} has more than {_MAX_FILE_BYTES:,} bytes: "
                "it is not a file of receipts."
            )
        lines = self.path.read_bytes().split(b"\n")
        if lines.pop():
            raise ValueError(f"{self.path} does not end with a whole line: it was cut or changed.")
        if not lines:
            raise ValueError(f"{self.path} holds no receipt.")
        receipts: list[SignedReceipt] = []
        for number, line in enumerate(lines, 1):
            try:
                receipts.append(SignedReceipt.decode(line))
            except ValueError as error:
                raise ValueError(
                    f"{self.path}, line {number}, is not a receipt: {error}."
                ) from None
            if number > 1 and receipts[-1].receipt.previous != receipts[-2].hash:
                raise ValueError(
                    f"{self.path}, line {number}, does not name the receipt before it: "
                    "one was changed or left out."
                )
        return receipts

    def settle(self, digest: str, keys: Keys) -> SignedReceipt | None:
        """Add or drop a receipt that still waits; return the last one, None if there is none.

        Parameters
        ----------
        digest : str
            That of the model, as it is written.
        keys : Keys
            Those that sign.
        """
        with suppress(FileNotFoundError):
            waiting = SignedReceipt.decode(self._pending.read_bytes())
            if waiting.receipt.digest_after == digest:
                # does nothing if it was appended before the process was killed
                self._append(waiting)
            elif waiting.receipt.digest_before != hash_digest(keys, digest):
                raise ValueError(
                    f"{self._pending} waits for another model, or for one that has changed since: "
                    "give each model a file of receipts of its own, "
                    "or move that file away and keep it."
                )
            self._pending.unlink()
        return self.read()[-1] if self.path.exists() else None

    def add(self, signed: SignedReceipt, write_model: Callable[[], None]) -> None:
        """Write the model, then add its receipt. The lock must be held."""
        write_file(self._pending, [signed.encode()])
        write_model()
        self._append(signed)
        self._pending.unlink()

    def _append(self, signed: SignedReceipt) -> None:
        receipts = self.read() if self.path.exists() else []
        if not receipts or receipts[-1] != signed:
            lines = [receipt.encode() + b"\n" for receipt in [*receipts, signed]]
            write_file(self.path, lines)
