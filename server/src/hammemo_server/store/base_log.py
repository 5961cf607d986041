"""What the logs of all engines share: who they are, one thread at a time, and what is checked of the bodies they read.

:class:`hammemo_server.store.log.Log` says what a log promises; an engine adds how it is stored.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from contextlib import AbstractContextManager, contextmanager
from threading import RLock
from typing import TYPE_CHECKING, Final

from hammemo import __version__
from hammemo.files.archive import FileError
from hammemo.files.contents import from_bytes
from hammemo.files.models import load
from hammemo.models.learners import Learner
from hammemo_server.store.log import LogDamaged, Overtaken
from hammemo_server.store.shared_tables import SharedTables

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

FORMAT: Final = "3"
"""The form of a log; one of another form is refused."""
HIDDEN: Final = ".restoring-"
"""What the tenant of a model is called that is being restored: no client can name it."""


class RunningTime:
    """Seconds for which a model was open for writing, in all processes: no clock that is set can move it.

    Parameters
    ----------
    stored : float
        What the log has stored.

    Examples
    --------
    >>> from hammemo_server.store.base_log import RunningTime
    >>> 60.0 <= RunningTime(60.0).now() < 120.0
    True
    """

    def __init__(self, stored: float) -> None:
        self._stored, self._since = stored, time.monotonic()

    def now(self) -> float:
        """Return the seconds up to now."""
        return self._stored + time.monotonic() - self._since


class BaseLog(SharedTables):
    """A log that is open.

    Parameters
    ----------
    called : str
        How messages call it.
    replica : bool
        Whether only to read, beside another process that writes.
    """

    settings: str
    """The settings that the model was made with, as JSON."""

    def __init__(self, called: str, *, replica: bool) -> None:
        self._called = called
        self._replica = replica
        self._lock = RLock()
        self.received: tuple[bytes, int] | None = None

    def keep_received(self) -> None:
        """Keep the snapshot of a backup: a database has it, encrypted."""

    @abstractmethod
    def _failures(self) -> AbstractContextManager[None]:
        """Turn what the engine raises into `LogError`."""

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
        return [body for _, body in found]


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
