"""Models that only answer: followers of another process's log, and models without a key file.

A replica looks for new edits many times a second and applies them in groups. Where a snapshot
has taken the place of bodies that it had not read yet, it loads the snapshot.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any, Final

from hammemo_server.edits.operations import Acknowledgement, Edit, ErasureState, Unavailable
from hammemo_server.models.applying import State
from hammemo_server.models.served import ServedModel, logger
from hammemo_server.store.log import LogError

if TYPE_CHECKING:
    from concurrent.futures import Future

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
            self._gone = not self._log.is_current()
            self._checked = time.monotonic()
        if self._log.has_changed():
            self._catch_up()


class ModelWithoutKeys(ServedModel):
    """A model with subjects whose key file is not there: it answers from its newest snapshot.

    Nothing else is possible. Edits after the snapshot are ciphertexts that nothing opens, and
    so is the journal: whose each row is cannot be told any more, and no subject can be erased.
    In PostgreSQL snapshots are encrypted, too: such a model cannot be opened. The parameters
    are those of `ServedModel`.
    """

    def __init__(self, tenant: str, name: str, log: Log) -> None:
        super().__init__(tenant, name, log)
        self._lost = log.head() - self.version
        """How many edits after the snapshot cannot be read."""
        logger.error(
            "no key file: the journal and %d edits cannot be read", self._lost, extra=self._facts()
        )

    def _first_state(self) -> State:
        try:
            snapshot = self._log.snapshot()
        except LogError as error:
            raise Unavailable(
                f"The model {self.name!r} has subjects, and all of it is encrypted: "
                "name the key file, keys=. Without it the model is lost."
            ) from error
        return State(*snapshot) if snapshot is not None else State(None, 0)

    def edit(self, edit: Edit, token: str = "") -> Future[Acknowledgement]:  # noqa: ARG002
        """Refuse an edit."""
        raise self._refusal()

    def erasure(self, op: str) -> ErasureState | None:  # noqa: ARG002
        """Refuse to say how far an erasure is."""
        raise self._refusal()

    def describe(self, *, digest: bool = False) -> dict[str, Any]:
        """Return what is known of the model, and that its journal is lost."""
        return {
            **super().describe(digest=digest),
            "journal": "lost",
            "unreadable_edits": self._lost,
        }

    def _refusal(self) -> Unavailable:
        return Unavailable(
            f"The model {self.name!r} has subjects, and the server has no key file (keys=): "
            f"the journal cannot be read. Questions are answered from version {self.version}; "
            f"{self._lost} later edits cannot be read."
        )
