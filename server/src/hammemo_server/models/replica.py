"""A model that follows the log of another process, or of another node, and answers.

It looks for new edits many times a second and applies them in groups. Where a snapshot has taken the place of bodies
that it had not read yet, it loads the snapshot.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Final

from hammemo_server.models.served import ServedModel

if TYPE_CHECKING:
    from hammemo_server.erasure.journal import Journal
    from hammemo_server.store.base_log import Log


LOOKS: Final = 0.01
"""Seconds between two looks at the log."""

_IDENTITY: Final = 1.0
"""Seconds between two looks whether the model is still there."""

_LATER: Final = 0.5
"""Seconds before the next look after a failure."""


class ReplicaModel(ServedModel):
    """A model that is edited elsewhere; the parameters are those of `ServedModel`."""

    def __init__(self, tenant: str, name: str, log: Log, journal: Journal | None = None) -> None:
        super().__init__(tenant, name, log, journal)
        self._stop = threading.Event()
        self._gone = False
        self._checked = time.monotonic()
        self._following = self._thread("replica", self._follow)

    def close(self, *, last_snapshot: bool = True) -> None:
        """Stop following."""
        self._stop.set()
        self._following.join()
        super().close(last_snapshot=last_snapshot)

    @property
    def is_gone(self) -> bool:
        """Whether the model was deleted; a new one of that name is another model."""
        return self._gone

    def _follow(self) -> None:
        pause = 0.0
        while not self._stop.wait(pause):
            try:
                if pause == _LATER:
                    self._log.reopen()
                self._look()
                pause = LOOKS
            except Exception as error:  # a log that is gone may come back
                if pause != _LATER:
                    self._report("cannot follow", error)
                pause = _LATER

    def _look(self) -> None:
        if time.monotonic() - self._checked >= _IDENTITY:
            self._gone, self._checked = not self._log.is_current(), time.monotonic()
        if self._log.has_changed():
            self._catch_up()
