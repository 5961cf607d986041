"""A kernel that compares every second position, counted from the end."""

from __future__ import annotations

from hammemo.kernels import SiteKernel, Sites


class EverySecond(SiteKernel):
    """Positions h - 1, h - 3 and so on; the last one has the weight `last`, the others 1.

    Examples
    --------
    >>> from own_parts import EverySecond
    >>> EverySecond(last=2).resolve(4).positions
    ((1,), (3,))
    """

    def __init__(self, last: float = 1.0) -> None:
        self.last = last

    def resolve(self, h: int) -> Sites:
        """Return the sites for contexts of h tokens."""
        positions = sorted(range(h - 1, -1, -2))
        return SiteKernel(positions, [1.0] * (len(positions) - 1) + [self.last]).resolve(h)

    def least_sites(self, h: int) -> int:
        """Return how many sites there are, without making them."""
        return (h + 1) // 2
