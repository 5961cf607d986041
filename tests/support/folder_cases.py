"""What models in parts are tried with: kernels, tokens of every kind, and random examples of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from hammemo import NO_TOKEN, PositionalHamming, SiteKernel, Suffixes

if TYPE_CHECKING:
    from numpy.typing import NDArray

KERNELS = {
    "positions": PositionalHamming(),
    "suffixes": Suffixes(3),
    "wide": SiteKernel([(0, 1, 2), (0,), (1, 2)]),
}
TOKENS = [1, 2, 5, 2.5, "a", "b", "é", NO_TOKEN]


def rows(n: int, seed: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return n contexts of three tokens, and their labels."""
    rng = np.random.default_rng(seed)
    X = np.empty((n, 3), object)
    X[:] = [[TOKENS[j] for j in row] for row in rng.integers(0, len(TOKENS), (n, 3))]
    return X, np.array([["x", "y", "z", "w"][j] for j in rng.integers(0, 4, n)], object)
