"""Whether a host can answer, and whether edits can be made durable: what probes ask.

Probes need no token, so a result is kept for a second. One thread looks at the store, and all
probes wait for the same result: a disk that hangs holds this thread, and no other one.
"""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Final, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

_KEPT_SECONDS: Final = 1.0

Result = TypeVar("Result")


class Health:
    """What probes ask of a host.

    Parameters
    ----------
    can_answer : function
        Returns whether a question can be answered.
    unwritable : function
        Returns the open models, as tenant/name, whose edits cannot be made durable; None where
        the store takes none.
    """

    def __init__(
        self, can_answer: Callable[[], bool], unwritable: Callable[[], list[str] | None]
    ) -> None:
        self.answers = _Looked(can_answer)
        self.unwritable = _Looked(unwritable)


class _Looked(Generic[Result]):
    """A result that is found out again when it was asked for more than a second ago."""

    def __init__(self, look: Callable[[], Result]) -> None:
        self._look = look
        self._lock = threading.Lock()
        self._threads = ThreadPoolExecutor(1, "probe")
        self._found: Future[Result] | None = None
        self._at = 0.0

    def value(self) -> Future[Result]:
        """Return the result, to be waited for.

        The lock is held for no longer than it takes to read it.
        """
        with self._lock:
            result = self._found
            if result is None or (result.done() and time.monotonic() - self._at > _KEPT_SECONDS):
                result = self._threads.submit(self._look)
                self._at = time.monotonic()
                self._found = result
            return result
