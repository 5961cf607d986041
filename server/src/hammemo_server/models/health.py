"""Whether a host can answer, and whether edits can be made durable: what probes ask.

Probes need no token, so a result is kept for a second. One thread looks at the store, and all probes wait for the same
result: a disk that hangs holds this thread, and no other one.
"""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Generic, Protocol, TypeVar

from hammemo_server.edits.operations import ServiceError
from hammemo_server.models.writer import WrittenModel
from hammemo_server.store.log import LogError

if TYPE_CHECKING:
    from collections.abc import Callable

    from hammemo_server.models.served import ServedModel
    from hammemo_server.store.base_log import Store

_KEPT_SECONDS: Final = 1.0

Result = TypeVar("Result")


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
        self.answers = _Looked(self._look_for_answers)
        """Whether a question can be answered: the folder is there, and a model opens, or there is none yet."""
        self.unwritable = _Looked(self._look_for_edits)
        """The open models, as tenant/name, whose edits cannot be made durable; None where the store takes none."""

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

    def _look_for_edits(self) -> list[str] | None:
        host = self._host
        if host.replica or not host.store.is_there():
            return None
        try:
            host.store.check_writable()
        except LogError:
            return None
        written = [model for model in host.opened() if isinstance(model, WrittenModel)]
        return sorted(f"{model.tenant}/{model.name}" for model in written if not model.can_edit)


class _Looked(Generic[Result]):
    """A result that is found out again when it is older than a second."""

    def __init__(self, look: Callable[[], Result]) -> None:
        self._look, self._lock = look, threading.Lock()
        self._threads = ThreadPoolExecutor(1, "probe")
        self._found: Future[Result] | None = None
        self._at = 0.0

    def value(self) -> Future[Result]:
        """Return the result, to be waited for; the lock is held for no longer than it takes to read it."""
        with self._lock:
            found = self._found
            if found is None or (found.done() and time.monotonic() - self._at > _KEPT_SECONDS):
                found = self._found = self._threads.submit(self._looked)
            return found

    def _looked(self) -> Result:
        found = self._look()
        self._at = time.monotonic()
        return found
