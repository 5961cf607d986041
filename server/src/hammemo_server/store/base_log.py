"""The log of a model, as far as it is the same in all engines; an engine adds how it is stored.

:mod:`hammemo_server.store.log` says what a log promises.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from threading import RLock
from typing import TYPE_CHECKING, Final

from hammemo import __version__
from hammemo.files.archive import FileError
from hammemo.files.contents import from_bytes
from hammemo.files.models import load
from hammemo.models.learners import Learner
from hammemo_server.store.log import LogDamaged, Overtaken, Seen
from hammemo_server.store.shared_tables import EDITS, IDS, SharedTables

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from hammemo_server.store.log import Entry

FORMAT: Final = "4"
"""The form of a log; one of another form is refused."""
HIDDEN: Final = ".restoring-"
"""What the tenant of a model is called that is being restored: no client can name it."""


class Log(SharedTables):
    """The log of one model.

    Parameters
    ----------
    called : str
        How messages call it.
    replica : bool
        Whether only to read, beside another process that writes.
    """

    received: tuple[bytes, int] | None = None
    """Of a model that is being restored: the snapshot of the backup and its position, until there is a newer one."""
    _began: float
    """When the model would have been opened for writing, had it been written without a pause, by a monotonic clock."""

    def __init__(self, called: str, *, replica: bool) -> None:
        self._called = called
        self._replica = replica
        self._lock = RLock()

    def _running(self) -> float:
        """Return for how many seconds the model was written, in all processes; no clock that is set moves it."""
        return time.monotonic() - self._began

    def seen(self, ops: Sequence[str]) -> dict[str, Seen]:
        """Return those of these ids that are known."""
        places = ", ".join(["%s"] * len(ops))
        with self._failing():
            found = self._rows(f"select op, position, digest from {IDS} where model = %s and op in ({places})", *ops)
        return {op: Seen(position, bytes(digest)) for op, position, digest in found}

    def append(self, after: int, entries: Sequence[Entry]) -> None:
        """Append entries at the positions after `after`, which must be the head, durably, all or none."""
        with self._writing(after, len(entries)):
            ran = self._running()
            self._insert(EDITS, [(position, entry.body) for position, entry in enumerate(entries, after + 1)])
            self._insert(IDS, [(entry.op, at, entry.digest, ran) for at, entry in enumerate(entries, after + 1)])
            self._append_audit(after, entries)
            self._append_receipts(after, entries)
            self._append_journal(after, entries)

    def read(self, after: int, most: int) -> list[bytes]:
        """Return at most `most` bodies, those after `after`; raise `Overtaken` if they are deleted."""
        statement = f"select position, body from {EDITS} where model = %s and position > %s order by position limit %s"
        with self.reading():
            return self._in_order(after, self.base(), self._rows(statement, after, most))

    def forget_ids(self, older_than: float) -> None:
        """Forget the ids of edits whose bodies are deleted and that are older than `older_than` seconds of running."""
        statement = f"delete from {IDS} where model = %s and position <= %s and ran < %s"
        with self._writing():
            self._run(statement, self.base(), self._running() - older_than)

    def keep_received(self) -> None:
        """Keep the snapshot of a backup, if there is no newer one; a database has it. The log is closed."""

    @contextmanager
    def _failing(self) -> Iterator[None]:
        """Turn what the engine raises into `LogError`; one thread at a time."""
        with self._lock, self._failures():
            yield

    def _in_order(self, after: int, base: int, found: Sequence[tuple[int, bytes]]) -> list[bytes]:
        """Return the bodies of the positions after `after`, in order; refuse a gap, and what a snapshot replaces."""
        if after < base:
            raise Overtaken
        if [position for position, _ in found] != list(range(after + 1, after + 1 + len(found))):
            raise LogDamaged(f"{self._called} has a gap after position {after}.")
        return [bytes(body) for _, body in found]


def check_format(where: object, form: object, written_by: object) -> None:
    """Refuse a log of another form than this version reads, and name both."""
    if form != FORMAT:
        by = f", written by hammemo {written_by}," if isinstance(written_by, str) else ""
        raise LogDamaged(
            f"{where} has format {str(form)[:20]}{by} and hammemo {__version__} reads format {FORMAT}: serve it with "
            "the version that wrote it, or download its models there and upload them here."
        )


def loaded_snapshot(path: Path) -> Learner:
    """Return the model in the file of a snapshot, or say that the log is damaged."""
    try:
        return _learner(load(path))
    except FileError as error:
        raise LogDamaged(f"The snapshot cannot be read: {str(error).replace(str(path), 'the file')}") from error


def received_model(snapshot: bytes) -> Learner:
    """Return the model in a file that a backup or a database holds, or say that it is damaged."""
    try:
        return _learner(from_bytes(snapshot))
    except (FileError, ValueError) as error:
        raise LogDamaged(f"The snapshot cannot be read: {error}") from error


def _learner(model: object) -> Learner:
    if not isinstance(model, Learner):
        raise LogDamaged("The snapshot is compiled for answering and cannot learn.")
    return model
