"""``--receipt`` of the commands that change a model: they add a signed line to a file."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path  # noqa: TC003  (typer reads annotations at run time)
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

from hammemo.cli.console import UsageError, check_writable, format_count, print_result
from hammemo.cli.options import ModelChange, setting

if TYPE_CHECKING:
    from hammemo.cli.models import OpenModel
    from hammemo.receipts.chains import ReceiptFile
    from hammemo.receipts.keys import Keys
    from hammemo.receipts.receipt import SignedReceipt

Note = Callable[[Iterable[Iterable[Any]]], None]
"""A function that takes rows, each with its label last, or documents."""


@dataclass(frozen=True)
class ReceiptOptions:
    """Where the receipt goes, and who signs it."""

    panel: ClassVar = "Receipts (needs the extra erase)"

    receipt: Path | None = setting(
        "FILE", "Append a signed receipt to this file, which is for this model only."
    )
    keys: Path | None = setting("FILE", "The key file that hammemo keys new wrote.")
    request: str | None = setting(
        "ID", "The id of the request; do not use a person's name.", "a random one"
    )

    @contextmanager
    def evidence(self, change: ModelChange) -> Iterator[ReceiptFiles]:
        """Yield an object that writes the changed model and, with --receipt, its receipt.

        The file of receipts is locked during the block.
        """
        if self.receipt is None:
            if self.keys is not None or self.request is not None:
                raise UsageError(
                    "--keys and --request are for a receipt: name its file with --receipt."
                )
            yield ReceiptFiles(change)
            return
        if self.keys is None:
            raise UsageError("--receipt needs --keys FILE: hammemo keys new FILE writes one.")
        from hammemo.receipts import ReceiptFile, read_keys
        from hammemo.receipts.keys import require_ed25519
        from hammemo.receipts.strict_json import check_line

        require_ed25519()
        check_writable(self.receipt, "--receipt")
        keys = read_keys(self.keys)
        file = ReceiptFile(self.receipt)
        request = self.request
        if request is None:
            request = secrets.token_hex(8)
        check_line(request, "--request")
        with file.locked(change.wait):
            yield SignedReceiptFiles(change, file, keys, request)


class ReceiptFiles:
    """Writes a model without a receipt."""

    facts: Mapping[str, Any] = MappingProxyType({})
    """The receipt for --json."""

    sentence = ""
    """The receipt in words."""

    is_signed = False
    """Whether there will be a receipt."""

    def __init__(self, change: ModelChange) -> None:
        self._change = change

    def is_done(self, *_: Any, **__: Any) -> bool:
        """Record what the model is before the command; return whether the request is done already.

        If it is, this says so. `read` hands the rows that are to be forgotten to a function, and
        forgets nothing. `repeats`, where no rows are given, returns whether nothing is left to do.
        """
        return False

    def note(self, rows: Iterable[Iterable[Any]]) -> None:
        """Record rows that are forgotten."""

    def write(self, opened: OpenModel, learnt: int = 0) -> None:  # noqa: ARG002
        """Write the model."""
        opened.write(self._change.target, self._change.wait)


class SignedReceiptFiles(ReceiptFiles):
    """Writes a model and then its receipt; the lock of the file of receipts is held."""

    is_signed = True

    def __init__(self, change: ModelChange, file: ReceiptFile, keys: Keys, request: str) -> None:
        from hammemo.receipts import RowHash

        super().__init__(change)
        self._file = file
        self._keys = keys
        self._request = request
        self._forgotten = RowHash(keys)

    def note(self, rows: Iterable[Iterable[Any]]) -> None:
        """Record rows that are forgotten."""
        self._forgotten = self._forgotten.plus(rows)

    def is_done(
        self,
        opened: OpenModel,
        read: Callable[[Note], None] | None = None,
        repeats: Callable[[], bool] | None = None,
    ) -> bool:
        """See `ReceiptFiles.is_done`."""
        from hammemo.receipts import Moment

        self._before = Moment.of(opened.as_written(self._change.model))
        last = self._file.settle(self._before.digest, self._keys)
        self._previous = None
        if last is None:
            return False
        self._previous = last.hash
        if all(signed.receipt.request != self._request for signed in self._file.read()):
            return False
        is_last = last.receipt.request == self._request
        if not is_last or last.receipt.digest_after != self._before.digest:
            raise ValueError(
                f"{self._file.path} has a receipt of request {self._request}, and the model is "
                "another one now: use another id."
            )
        if read is not None:
            read(self.note)
        if repeats is None:
            is_same = last.receipt.rows_hash == self._forgotten.of_request(self._request)
        else:
            is_same = repeats()
        if not is_same:
            raise ValueError(
                f"{self._file.path} has a receipt of request {self._request} for other rows, so "
                "nothing was done: use another id for these."
            )
        self._describe(last)
        sentence = f"This request was carried out before; nothing has changed. {self.sentence}"
        facts = {"repeated": True, **self.facts}
        print_result(facts, sentence, as_json=self._change.as_json)
        return True

    def write(self, opened: OpenModel, learnt: int = 0) -> None:
        """Write the model, then its receipt; `learnt` counts the rows that the edit has learned."""
        from hammemo.receipts import Moment

        after = Moment.of(opened.as_written(self._change.model))
        signed = after.receipt_since(
            self._before, self._forgotten, self._request, previous=self._previous, learnt=learnt
        )
        self._file.add(signed, lambda: super(SignedReceiptFiles, self).write(opened))
        self._describe(signed)

    def _describe(self, signed: SignedReceipt) -> None:
        """Set the facts and the sentence of a receipt."""
        receipt = signed.receipt
        rows = format_count(receipt.rows, "row")
        labels = format_count(receipt.labels, "label")
        self.sentence = (
            f"Receipt of request {receipt.request} ({rows} and {labels} removed): {self._file.path}"
        )
        self.facts = {
            "receipt": receipt.to_json(),
            "receipt_hash": signed.hash,
            "receipts": str(self._file.path),
        }
