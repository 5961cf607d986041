"""Kernels for tests of the mixture vote: every kind of site, alone and together."""

from __future__ import annotations

from hammemo import Bag, Copy, Recent, SiteKernel, Suffixes, Together

H = 5
KERNELS = {
    "suffixes": Suffixes(3),
    "skips": Suffixes(1) + SiteKernel([(-3, -1), -2]),
    "bag": Suffixes(2) + Bag(4),
    "together": Suffixes(1) + Together(3),
    "copies": Suffixes(1) + Copy(4) + Recent(5),
    "all": Suffixes(3) + Bag(3) + Recent(2) + Together(5) + Copy(5) + Recent(4),
}
