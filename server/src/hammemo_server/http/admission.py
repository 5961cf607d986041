"""Which requests are let in: rates, and how many at once.

One process keeps these counts: with several workers each of them keeps its own.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Final

from hammemo_server.edits.operations import TooMany, Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable

    from hammemo_server.edits.limits import Limits

_MOST_STRANGERS: Final = 10_000
"""Addresses of callers without a token that are remembered."""


class Rate:
    """A bucket of permissions that fills at a steady pace.

    Examples
    --------
    >>> from hammemo_server.http.admission import Rate
    >>> now = [0.0]
    >>> rate = Rate(2.0, lambda: now[0])
    >>> [rate.take() for _ in range(5)]
    [True, True, True, True, False]
    >>> now[0] = 0.5
    >>> rate.take(), rate.take()
    (True, False)
    """

    def __init__(self, a_second: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._a_second = a_second
        self._most = max(2 * a_second, 1.0)
        self._clock = clock
        self._left = self._most
        self._at = clock()

    def take(self) -> bool:
        """Take one permission, if there is one."""
        now = self._clock()
        self._left = min(self._most, self._left + (now - self._at) * self._a_second)
        self._at = now
        if self._left < 1:
            return False
        self._left -= 1
        return True


class Strangers:
    """Limits how often an address may send a token that is not known.

    Callers with a token are not slowed down.

    Examples
    --------
    >>> from hammemo_server.http.admission import Strangers
    >>> strangers = Strangers(2.0)
    >>> [strangers.may_ask("203.0.113.7") for _ in range(5)], strangers.may_ask("203.0.113.8")
    ([True, True, True, True, False], True)
    """

    def __init__(self, a_second: float = 100.0) -> None:
        self._rates: defaultdict[str, Rate] = defaultdict(lambda: Rate(a_second))

    def may_ask(self, address: str) -> bool:
        """Return whether one more request is answered with what is wrong with it."""
        if len(self._rates) >= _MOST_STRANGERS and address not in self._rates:
            self._rates.clear()
        return self._rates[address].take()


class Admission:
    """Lets a request in, or refuses it.

    Used from the thread of the event loop alone, so it needs no lock.

    Examples
    --------
    >>> from hammemo_server.http.admission import Admission
    >>> from hammemo_server.edits.limits import Limits
    >>> admission = Admission(Limits(at_once=1))
    >>> admission.enter("acme")
    >>> admission.enter("acme")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    hammemo_server.edits.operations.TooMany: 1 requests of this tenant are being answered, ...
    >>> admission.leave("acme"); admission.enter("acme")
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        # tenants have tokens: so few
        self._rates: defaultdict[str, Rate] = defaultdict(lambda: Rate(limits.rate))
        self._inside: Counter[str] = Counter()
        self.inside = 0
        """How many requests are being answered."""

    def enter(self, tenant: str) -> None:
        """Let a request of a tenant in; every `enter` that returns is followed by one `leave`."""
        limits = self._limits
        inside = self._inside[tenant]
        if not self._rates[tenant].take():
            raise TooMany(
                f"This tenant may send {limits.rate:g} requests per second: try again later."
            )
        if inside >= limits.at_once:
            raise TooMany(
                f"{inside} requests of this tenant are being answered, the most at once: "
                "try again later."
            )
        if self.inside >= limits.at_once_in_all:
            raise Unavailable(
                "The server answers as many requests as it may at once: try again later."
            )
        self._inside[tenant] += 1
        self.inside += 1

    def leave(self, tenant: str) -> None:
        """Take note that a request of a tenant was answered."""
        self._inside[tenant] -= 1
        self.inside -= 1
