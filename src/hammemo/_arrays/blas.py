"""One thread of BLAS while weights are fitted: more threads would only wait.

OpenBLAS shares out every product above some ten thousand numbers. Fitting makes thousands of those,
each of a few microseconds. A second thread gains nothing there, doubles the processor time, and
where other programs use the cores a product waits until its second thread gets one. Besides, sums
are added in one order: weights do not depend on the number of cores.

The number of threads belongs to the process. So threads that fit at the same time are counted: the
first one sets the limit, and the last one takes it back. A library is left alone if someone else
has set its number meanwhile.

A number is set under a lock of the library, which a process that is forked at this moment would
find taken for ever. So a fork waits until no number is being set.
"""

from __future__ import annotations

import os
import threading
from contextlib import ContextDecorator
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from threadpoolctl import ThreadpoolController

if TYPE_CHECKING:
    from types import TracebackType


_FORK_SECONDS: Final = 1.0
"""How long a fork waits at most.

Numbers are set in microseconds, but the thread that sets them may be the one that forks, in a
signal handler.
"""


class OneBlasThread(ContextDecorator):
    """A block, or a function, during which BLAS uses one thread.

    Blocks may lie in one another, in any threads.
    """

    def __init__(self) -> None:
        self._holders = 0
        self._before: list[tuple[Any, int]] = []
        self.free_after_fork()

    def __enter__(self) -> None:
        with self._lock:
            if not self._holders:
                # numbers are still noted if an interrupt came while they were put back
                self._restore()
                self._limit()
            self._holders += 1

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._lock:
            self._holders -= 1
            if not self._holders:
                self._restore()

    def free_after_fork(self) -> None:
        """Take a new lock: the thread that held the old one is not in the child.

        Where a thread was fitting, the limit stays.
        """
        self._lock = threading.Lock()
        self._forker = 0

    def wait_before_fork(self) -> None:
        """Let no other thread set numbers until the process is forked."""
        if self._lock.acquire(timeout=_FORK_SECONDS):
            self._forker = threading.get_ident()

    def go_on_after_fork(self) -> None:
        """Let them set numbers again."""
        if self._forker == threading.get_ident():
            self._forker = 0
            self._lock.release()

    def _limit(self) -> None:
        self._before = [(library, library.get_num_threads()) for library in _libraries()]
        try:
            for library, threads in self._before:
                if threads != 1:
                    _set(library, 1)
        except BaseException:
            self._restore()
            raise

    def _restore(self) -> None:
        for library, threads in self._before:
            if threads != 1 and library.get_num_threads() == 1:
                _set(library, threads)
        self._before = []


def _set(library: Any, threads: int) -> None:
    """Set the number of threads of a library.

    From threadpoolctl 3.8 on, this does nothing while another thread is inside a block of its own.
    """
    library.set_num_threads(threads)
    release = getattr(library, "clear_controlling_thread", None)
    if release is not None:
        # otherwise no other thread could set it, and the last to leave may be another one
        release()


@cache
def _libraries() -> list[Any]:
    """Return the BLAS libraries of NumPy and SciPy.

    They are loaded by the time that something is fitted. The search takes 10 ms, so it is cached.
    """
    return list(ThreadpoolController().select(user_api="blas").lib_controllers)


one_blas_thread = OneBlasThread()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=one_blas_thread.wait_before_fork,
        after_in_parent=one_blas_thread.go_on_after_fork,
        after_in_child=one_blas_thread.free_after_fork,
    )
