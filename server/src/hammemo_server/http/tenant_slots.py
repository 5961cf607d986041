"""Slots that tenants share: each waits in its own queue, and free slots go around the queues.

One tenant never holds all slots where there is more than one, so a question of another tenant
waits for no more than the questions of its own.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

from hammemo_server.edits.operations import TooMany

if TYPE_CHECKING:
    from collections.abc import Callable

Result = TypeVar("Result")


class Shares:
    """Gives out slots; used from the thread of the event loop alone, so it needs no lock.

    Parameters
    ----------
    slots : int
        A tenant holds at most all but one of them, and at least one.

    Examples
    --------
    >>> import asyncio
    >>> from hammemo_server.http.tenant_slots import Shares
    >>> async def in_turns():
    ...     shares, order = Shares(1), []
    ...     async def ask(tenant):
    ...         await shares.enter(tenant)
    ...         order.append(tenant)
    ...         await asyncio.sleep(0)
    ...         shares.leave(tenant)
    ...     await asyncio.gather(*map(ask, ["acme", "acme", "acme", "shop"]))
    ...     return order
    >>> asyncio.run(in_turns())
    ['acme', 'acme', 'shop', 'acme']
    """

    def __init__(self, slots: int) -> None:
        self._free = slots
        self._most = max(1, slots - 1)
        self._held: Counter[str] = Counter()
        self._queues: dict[str, deque[asyncio.Future[None]]] = {}

    async def enter(self, tenant: str) -> None:
        """Wait for a slot; every `enter` that returns is followed by one `leave`."""
        if self._free and self._held[tenant] < self._most and tenant not in self._queues:
            self._take(tenant)
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queues.setdefault(tenant, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # the slot and the end came together
                self.leave(tenant)
            raise  # a turn that was cancelled is passed over

    async def enter_within(self, tenant: str, seconds: float | None) -> None:
        """Wait for a slot, but leave enough time to use it."""
        try:
            async with asyncio.timeout(seconds):
                await self.enter(tenant)
        except TimeoutError:
            raise TooMany(
                "As many long questions of this tenant wait as can be answered: try again later."
            ) from None

    def leave(self, tenant: str) -> None:
        """Give a slot back; it goes to the next tenant that waits and may have one."""
        self._free += 1
        self._held[tenant] -= 1
        for waiting in list(self._queues):
            if not self._free:
                return
            turn = self._next(waiting) if self._held[waiting] < self._most else None
            if turn is not None:
                self._take(waiting)
                turn.set_result(None)

    def _next(self, tenant: str) -> asyncio.Future[None] | None:
        """Return the next of a tenant; the rest of its queue goes behind the other tenants."""
        queue = self._queues.pop(tenant)
        while queue:
            turn = queue.popleft()
            if not turn.done():  # it is done where the request was cancelled
                if queue:
                    self._queues[tenant] = queue
                return turn
        return None

    def _take(self, tenant: str) -> None:
        self._free -= 1
        self._held[tenant] += 1


class SharedThreads:
    """Some threads that tenants share."""

    def __init__(self, threads: int, name: str) -> None:
        self._shares = Shares(threads)
        self._threads = ThreadPoolExecutor(threads, name)

    async def run(
        self, tenant: str, work: Callable[[], Result], most_seconds: float | None = None
    ) -> Result:
        """Return what work returns.

        What has begun is finished, also where nothing waits for it any more.
        """
        await self._shares.enter_within(tenant, most_seconds)
        running = asyncio.get_running_loop().run_in_executor(self._threads, work)
        running.add_done_callback(lambda _: self._shares.leave(tenant))
        return await asyncio.shield(running)

    def close(self) -> None:
        """End the threads."""
        self._threads.shutdown()
