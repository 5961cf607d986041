"""Threads for independent parts of one computation, where compiled loops release the interpreter.

Inside `threads_used`, `in_threads` calls a function for several items in several threads. An item
is computed alone and results come in the order of the items, so they are the same to the bit for
any number of threads. A thread that asks for threads itself gets none.

An error, or an interrupt of the thread that waits, cancels what has not begun and waits for what
has: no thread works on after the call. Of several errors the one of the first item is raised.
"""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import TYPE_CHECKING, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

Item = TypeVar("Item")
Result = TypeVar("Result")


class _Threads(NamedTuple):
    pool: ThreadPoolExecutor
    number: int


_used: ContextVar[_Threads | None] = ContextVar("threads_used", default=None)
"""The threads of this block; a thread of theirs has a context of its own, and none."""


@contextmanager
def threads_used(number: int) -> Iterator[None]:
    """Let `in_threads` use this many threads.

    They start when they are needed, and have ended after the block.
    """
    if number == 1:
        yield
        return
    with ThreadPoolExecutor(number, thread_name_prefix="hammemo-fit") as pool:
        before = _used.set(_Threads(pool, number))
        try:
            yield
        finally:
            _used.reset(before)


def in_threads(
    function: Callable[[Item], Result],
    items: Sequence[Item],
    on_done: Callable[[int, int], None] | None = None,
) -> list[Result]:
    """Return what the function returns for each item, in the order of the items.

    Parameters
    ----------
    function : callable
    items : sequence
    on_done : callable, optional
        Called, in the thread of the caller, with (items done, items).

    Examples
    --------
    >>> from hammemo._arrays.threads import in_threads, threads_used
    >>> with threads_used(2):
    ...     in_threads(abs, [-3, 2, -1])
    [3, 2, 1]
    """
    threads = _used.get()
    results = []
    futures: list[Future[Result]] = []
    try:
        if threads is not None and len(items) > 1:
            # at exit no thread is started any more: a daemon thread does the rest itself
            with suppress(RuntimeError):
                # one by one, so that after an interrupt those that began are known
                for item in items:
                    futures.append(threads.pool.submit(function, item))  # noqa: PERF401
        for place, item in enumerate(items):
            if place < len(futures):
                results.append(futures[place].result())
            else:
                results.append(function(item))
            if on_done is not None:
                on_done(len(results), len(items))
        return results
    finally:
        for future in futures:
            future.cancel()
        wait(futures)


def thread_pieces(n: int, least: int = 1, each: int = 4) -> list[slice]:
    """Return slices of n items: one without threads, else `each` for each thread.

    There are several for each thread because some take longer. A slice has at least `least` items,
    as far as there are any.

    Examples
    --------
    >>> from hammemo._arrays.threads import thread_pieces, threads_used
    >>> thread_pieces(10)
    [slice(0, 10, None)]
    >>> with threads_used(2):
    ...     thread_pieces(10, least=4)
    [slice(0, 5, None), slice(5, 10, None)]
    """
    threads = _used.get()
    number = 1
    if threads is not None:
        number = max(1, min(each * threads.number, n // least))
    return [slice(n * i // number, n * (i + 1) // number) for i in range(number)]
