"""A model that follows the log of another process, or of another node, and answers.

It looks for new edits many times a second and applies them in groups. Where a snapshot has taken the place of bodies
that it had not read yet, it loads the snapshot.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING, Final

from hammemo_server.models.applying import caught_up
from hammemo_server.models.served import ServedModel
from hammemo_server.store.log import LogError

if TYPE_CHECKING:
    from hammemo_server.erasure.journal import Journal
    from hammemo_server.store.base_log import Log

_logger = logging.getLogger("hammemo_server")

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
        self._thread = threading.Thread(target=self._follow, name=f"hammemo replica {tenant}/{name}", daemon=True)
        self._thread.start()

    def close(self, *, last_snapshot: bool = True) -> None:
        """Stop following."""
        self._stop.set()
        self._thread.join()
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
                    shown = error if isinstance(error, LogError) else ""
                    _logger.error(
                        "cannot follow: %s %s",
                        type(error).__name__,
                        shown,
                        extra={"tenant": self.tenant, "model": self.name, "version": self.version},
                    )
                pause = _LATER

    def _look(self) -> None:
        if time.monotonic() - self._checked >= _IDENTITY:
            self._gone, self._checked = not self._log.is_current(), time.monotonic()
        if not self._log.has_changed():
            return
        state = caught_up(self._log, self._state, self.settings, self._journal)
        if state is not self._state:
            self._snapshot_version = self._log.base()
            self._publish(state)
