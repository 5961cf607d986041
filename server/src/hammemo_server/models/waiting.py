"""An edit on its way to the writer of a model, and when the writer does its upkeep."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hammemo_server.edits.operations import (
    Acknowledgement,
    Content,
    LoggedChange,
    decode_body,
    list_edited_rows,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hammemo.receipts.receipt import SignedReceipt


@dataclass(frozen=True)
class Upkeep:
    """When things are done that no request asks for."""

    group: int = 500
    """The most edits of one transaction."""
    group_bytes: int = 16 * 2**20
    """The bytes of bodies after which no more are taken into it."""
    snapshot_edits: int = 20_000
    """Edits without a snapshot after which one is made."""
    snapshot_bytes: int = 64 * 2**20
    """Bytes of their bodies after which one is made."""
    snapshot_seconds: float = 300.0
    """Age of the oldest of them at which one is made: about how long a forgotten example stays
    in the log."""
    retention: float = 7 * 86_400.0
    """Seconds of running for which ids are kept: how long a client may send an edit again."""
    audit: float = 3 * 365 * 86_400.0
    """Seconds for which the audit record keeps a line."""
    at_close: bool = True
    """Whether to make a last snapshot."""
    choose: bool = True
    """Whether models choose again when their examples have doubled."""


@dataclass(eq=False)
class Waiting:
    """An edit on its way."""

    op: str
    body: bytes
    content: Content
    digest: bytes
    began: tuple[int, int] | None = None
    """Of a choice: how many refits and how many edits that forget there had been when it began."""
    token: str = ""
    receipt: bool = False
    """Whether a receipt is to be issued."""
    issued: SignedReceipt | None = None
    """The receipt."""
    future: Future[Acknowledgement] = field(default_factory=Future)
    request: str = ""
    """The operation id as the client gave it; where a model has subjects, `op` is a hash of it."""

    # Of a model with subjects

    parts: dict[bytes, bytes] = field(default_factory=dict)
    """The rows of each subject, by the subject's hash."""
    owners: list[int] = field(default_factory=list)
    refit: bool | None = None
    """Of an erasure: whether the model is refitted with it."""
    sent: dict[bytes, bytes] | None = None
    """Of an edit that forgets everything: the parts as they were sent; `parts` then has all
    subjects."""

    @property
    def erases(self) -> bool:
        """Whether a subject is forgotten."""
        return self.refit is not None

    @property
    def empties(self) -> bool:
        """Whether everything is forgotten."""
        return isinstance(self.content, LoggedChange) and self.content.everything

    @property
    def forgets(self) -> bool:
        """Whether something is forgotten, so that the journal must know what came before."""
        if isinstance(self.content, LoggedChange):
            return self.content.forgets
        return self.erases or self.content.kind in ("forget", "forgetstream")

    def list_hashed_rows(self) -> Iterator[list[Any]]:
        """Yield what is forgotten, as a receipt hashes it.

        Rows of a model with subjects have the subject in front. An erasure has one row for its
        subject, which says whether the model is refitted.
        """
        if not self.parts:
            yield from list_edited_rows(self.content)
        for subject, part in self.parts.items():
            if self.erases:
                yield [subject.hex(), bool(self.refit)]
            else:
                for row in list_edited_rows(decode_body(part)):
                    yield [subject.hex(), *row]

    def acknowledge(self, version: int) -> None:
        """Answer that it was applied, with its receipt."""
        receipt = "" if self.issued is None else self.issued.encode().decode()
        self.future.set_result(Acknowledgement(version, "applied", receipt))

    def refuse(self, error: BaseException) -> None:
        """Answer with an error."""
        self.future.set_exception(error)
