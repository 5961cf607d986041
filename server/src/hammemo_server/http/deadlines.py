"""Time limits that cost nothing where there is nothing to wait for.

`asyncio.timeout` sets a timer and cancels it again, 10 µs each time. Most bodies have come with
the head of the request, and the answer to one row takes less than the timer: such work is done
at once, before any timer is set.
"""

from __future__ import annotations

import asyncio
import time
import types
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Generator

Result = TypeVar("Result")


class Late(Exception):  # noqa: N818  (named after what it says)
    """Work was not done in time; a TimeoutError of the work itself is another thing."""


async def within(seconds: float, work: Awaitable[Result]) -> Result:
    """Return what work returns, or cancel it when its time is over and raise `Late`.

    Examples
    --------
    >>> import asyncio
    >>> from hammemo_server.http.deadlines import within
    >>> asyncio.run(within(0.01, asyncio.sleep(0, "done")))
    'done'
    >>> asyncio.run(within(0.01, asyncio.sleep(60)))
    Traceback (most recent call last):
    ...
    hammemo_server.http.deadlines.Late
    """
    began = time.monotonic()  # the clock of the event loop
    steps = work.__await__()
    try:
        waits_for = next(steps)
    except StopIteration as done:
        result: Result = done.value
        return result
    deadline = asyncio.timeout_at(began + seconds)
    try:
        async with deadline:
            return await _rest(steps, waits_for)
    except TimeoutError:
        if deadline.expired():
            raise Late from None
        raise


@types.coroutine
def _rest(steps: Generator[Any, Any, Result], waits_for: Any) -> Generator[Any, Any, Result]:
    """Go on with work that was begun and waits for a future."""
    try:
        while True:
            try:
                sent = yield waits_for
            except BaseException as error:
                waits_for = steps.throw(error)
            else:
                waits_for = steps.send(sent)
    except StopIteration as done:
        result: Result = done.value
        return result
