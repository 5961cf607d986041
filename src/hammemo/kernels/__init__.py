"""Kernels: which sites of a context are compared, and their weights.

Imports `tokens` and `_arrays`; memories, votes and models build on it.
"""

from hammemo.kernels.kernels import (
    Decaying,
    Joined,
    Pairs,
    PositionalHamming,
    SiteKernel,
    SiteOneHot,
    SkipPairs,
    Suffixes,
)
from hammemo.kernels.selection import AutoSites, Selection
from hammemo.kernels.sites import Site, Sites

__all__ = [
    "AutoSites",
    "Decaying",
    "Joined",
    "Pairs",
    "PositionalHamming",
    "Selection",
    "Site",
    "SiteKernel",
    "SiteOneHot",
    "Sites",
    "SkipPairs",
    "Suffixes",
]
