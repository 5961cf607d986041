"""Deadlines that fit the machine: what takes a second on a quiet one takes many where others work
as well.

How slow the machine is now is measured, by a loop whose time on a quiet machine is known and by the
number of processes that want a core. A deadline is its time on a quiet machine times that factor,
which is never below one.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

STEPS = 1_000_000
QUIET_SECONDS = 0.1
"""What the loop takes on a quiet core of 2020; a faster one gains nothing."""


def slowness() -> float:
    """Return how many times longer than on a quiet machine work takes now."""
    started = time.perf_counter()
    for _ in range(STEPS):
        pass
    measured = (time.perf_counter() - started) / QUIET_SECONDS
    waiting = os.getloadavg()[0] / (os.cpu_count() or 1) if hasattr(os, "getloadavg") else 1.0
    return max(1.0, measured, waiting)


def patience(seconds: float) -> float:
    """Return a time that would be ``seconds`` on a quiet machine."""
    return seconds * slowness()


def wait_until(condition: Callable[[], bool], seconds: float, every: float = 0.02) -> bool:
    """Return whether a condition comes true before the deadline; it is measured again before time
    is called up.
    """
    started = time.monotonic()
    allowed = seconds
    while not condition():
        if time.monotonic() - started > allowed:
            allowed = patience(seconds)
            if time.monotonic() - started > allowed:
                return False
        time.sleep(every)
    return True
