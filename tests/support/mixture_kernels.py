"""Kernels for tests of the mixture vote: every kind of site, alone and together; and random
weights.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hammemo.kernels import Bag, Copy, Recent, SiteKernel, Suffixes, Together
from hammemo.votes.mixture.gates import BUCKETS
from hammemo.votes.mixture.static_tables import get_static_tables

H = 5
KERNELS = {
    "suffixes": Suffixes(3),
    "skips": Suffixes(1) + SiteKernel([(-3, -1), -2]),
    "bag": Suffixes(2) + Bag(4),
    "together": Suffixes(1) + Together(3),
    "copies": Suffixes(1) + Copy(4) + Recent(5),
    "all": Suffixes(3) + Bag(3) + Recent(2) + Together(5) + Copy(5) + Recent(4),
}


def with_weights(clf: Any, seed: int) -> Any:
    """Give random weights, and none at all for some seeds: then many labels tie."""
    components = clf.vote_.components(clf.sites_)
    rng = np.random.default_rng(seed)
    clf.vote_.weights_ = rng.normal(size=(components.n, BUCKETS)) * rng.integers(0, 3)
    groups = np.unique(components.groups)[1:]
    # left out
    clf.vote_.weights_[np.isin(components.groups, groups[rng.random(len(groups)) < 0.3])] = -np.inf
    clf.vote_.discounts_ = get_static_tables(
        clf.memory_.static_reader(), components
    ).discounts() * rng.integers(0, 2)
    return clf
