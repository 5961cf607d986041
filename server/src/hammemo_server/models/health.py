"""Whether a host can answer, and whether edits can be made durable: what probes ask.

Probes need no token, so a result is kept for a second, and one thread at a time looks at the store.
"""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Protocol

from hammemo_server.edits.operations import ServiceError
from hammemo_server.models.writer import WrittenModel
from hammemo_server.store.log import LogError

if TYPE_CHECKING:
    from collections.abc import Callable

    from hammemo_server.models.served import ServedModel
    from hammemo_server.store.log import Store

_KEPT_SECONDS: Final = 1.0


class Probed(Protocol):
    """What is known of a host here."""

    replica: bool
    store: Store

    def opened(self) -> list[ServedModel]:
        """Return the models that are open."""

    def tenants(self) -> list[str]:
        """Return all tenants."""

    def names(self, tenant: str) -> list[str]:
        """Return the names of a tenant's models."""

    def get(self, tenant: str, name: str) -> ServedModel:
        """Return a model, opened if it was not."""


class Health:
    """What probes ask of a host."""

    def __init__(self, host: Probed) -> None:
        self._host = host
        self._answers = _Looked(self._look_for_answers)
        self._edits = _Looked(self._look_for_edits)

    def can_answer(self) -> bool:
        """Return whether a question can be answered: the folder is there, and a model opens, or there is none yet."""
        return self._answers.value()

    def can_edit(self) -> bool:
        """Return whether edits can be made durable: the store takes writes, and so does a model, if any is open."""
        return self._edits.value()

    def _look_for_answers(self) -> bool:
        host = self._host
        if not host.store.is_there():
            return False
        if host.opened():
            return True
        try:
            places = [(tenant, name) for tenant in host.tenants() for name in host.names(tenant)]
        except ServiceError:
            return False
        for tenant, name in places:
            with suppress(ServiceError):
                host.get(tenant, name)
                return True
        return not places

    def _look_for_edits(self) -> bool:
        host = self._host
        if host.replica or not host.store.is_there():
            return False
        try:
            host.store.check_writable()
        except LogError:
            return False
        written = [model for model in host.opened() if isinstance(model, WrittenModel)]
        return not written or any(model.can_edit for model in written)


class _Looked:
    """A result that is found out again when it is older than a second."""

    def __init__(self, look: Callable[[], bool]) -> None:
        self._look, self._lock = look, threading.Lock()
        self._found: tuple[float, bool] | None = None

    def value(self) -> bool:
        """Return the result."""
        with self._lock:
            if self._found is None or time.monotonic() - self._found[0] > _KEPT_SECONDS:
                found = self._look()
                self._found = time.monotonic(), found
            return self._found[1]
