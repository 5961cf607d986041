"""Kernels: which sites of a context are compared, and their weights.

Imports `tokens` and `_arrays`; features, memories, votes and models build on it.
"""

from hammemo.kernels.free_sites import Bag, Copy, Recent, Together
from hammemo.kernels.selection import AutoSites, Selection
from hammemo.kernels.site_kernels import (
    Decaying,
    Joined,
    Pairs,
    PositionalHamming,
    SiteKernel,
    SiteOneHot,
    SkipPairs,
    Suffixes,
)
from hammemo.kernels.sites import FreeSite, Site, Sites

__all__ = [
    "AutoSites",
    "Bag",
    "Copy",
    "Decaying",
    "FreeSite",
    "Joined",
    "Pairs",
    "PositionalHamming",
    "Recent",
    "Selection",
    "Site",
    "SiteKernel",
    "SiteOneHot",
    "Sites",
    "SkipPairs",
    "Suffixes",
    "Together",
]
