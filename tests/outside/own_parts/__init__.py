"""A memory, a kernel and three votes outside hammemo, which follow the lists of CONTRIBUTING.md."""

from own_parts.kernel import EverySecond
from own_parts.memory import Tallied, TalliedRows
from own_parts.votes import Points, RootMean, SmoothedRatios

__all__ = ["EverySecond", "Points", "RootMean", "SmoothedRatios", "Tallied", "TalliedRows"]
