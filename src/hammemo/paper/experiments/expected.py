"""How long an experiment takes on this machine, said before it starts.

Where all draws of one kind cost the same (`synthetic`, `bounds`), one of each kind is timed. The
others were run once: their processor seconds then are multiplied by how long a fixed piece of work,
a probe, takes here, over how long it took there. Processor seconds are counted, so that is the time
if no other program needs the cores.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

import numpy as np
from threadpoolctl import threadpool_limits

from hammemo.memories.gaussian.codes import standard_normals
from hammemo.paper.experiments.measuring import seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

PROBE_SECONDS: Final = 0.054
"""What `probe` returned on the machine where `PROCESSOR_SECONDS` were measured."""

PROCESSOR_SECONDS: Final[dict[str, float]] = {
    "inference": 39,
    "wikitext": 1850,  # a quarter of an hour on two cores, as docs/reproduction.md says
    "wikitext, quick": 56,
}
"""Processor seconds of ``hammemo reproduce`` by command and options, with one process."""


def probe() -> float:
    """Return the processor seconds of work like that of the experiments, the best of five."""
    rng = np.random.default_rng(0)
    left = rng.random((300, 300))
    right = rng.random((300, 300))

    def work() -> None:
        standard_normals((1, 2), [(i, 0, 0) for i in range(200)], 1024)
        for _ in range(20):
            left @ right
        sums: dict[int, int] = {}
        for i in range(100_000):
            sums[i % 997] = sums.get(i % 997, 0) + i

    with threadpool_limits(1):
        return min(seconds(work) for _ in range(5))


def by_probe(name: str, share: float = 1.0, jobs: int = 1) -> float:
    """Return the wall seconds to expect of a command, or of a share of its draws."""
    return share * PROCESSOR_SECONDS[name] * probe() / PROBE_SECONDS / _cores(jobs)


def by_draws(draws: Iterable[tuple[Callable[[], object], int]], jobs: int = 1) -> float:
    """Return the wall seconds to expect of draws.

    Of each kind there is a function that makes one draw, and how many there are.
    """
    total = 0.0
    with threadpool_limits(1):  # as in the processes that will draw
        for i, (draw, number) in enumerate(draws):
            if i == 0:
                draw()  # imports, and fills caches
            total += number * seconds(draw)
    return total / _cores(jobs)


def format_duration(expected: float) -> str:
    """Return a number of seconds as one says it.

    Examples
    --------
    >>> from hammemo.paper.experiments.expected import format_duration
    >>> [format_duration(seconds) for seconds in (0.4, 42.0, 100.0, 1900.0, 9000.0)]
    ['a few seconds', 'about 40 seconds', 'about 2 minutes', 'about 32 minutes', 'about 2.5 hours']
    """
    if expected < 10:
        return "a few seconds"
    if expected < 90:
        return f"about {round(expected, -1):.0f} seconds"
    if expected < 5400:
        return f"about {expected / 60:.0f} minutes"
    return f"about {expected / 3600:.1f} hours"


def _cores(jobs: int) -> int:
    return max(1, min(jobs, os.cpu_count() or 1))
