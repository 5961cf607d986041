"""Every memory that must keep the contract, and random examples to try it on.

A new memory is added to `MEMORIES`; nothing else in the suite changes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from hypothesis import strategies as st
from sklearn.base import clone

from hammemo import NO_TOKEN, Exact, Gaussian, Hashed, Ledgered, PositionalHamming, SiteKernel, Tiered
from hammemo.tokens.contexts import Examples

if TYPE_CHECKING:
    from hammemo.kernels.sites import Sites
    from hammemo.memories import Memory


@dataclass(frozen=True)
class Entry:
    """A memory, and whether its state is made of integers (equal to the byte) or of floats (equal to rounding)."""

    memory: Memory
    integer: bool
    forms: tuple[str, ...]
    float_answers: bool = False
    """Whether compiled forms answer in float32, so that scores agree to rounding only."""

    def __str__(self) -> str:
        return repr(self.memory)

    def for_sites(self, n_sites: int) -> Memory:
        """Return a copy that was not opened; what it lists per site is as long as there are sites."""
        memory: Memory = clone(self.memory)
        lists = {name: value for name, value in memory.get_params().items() if isinstance(value, list)}
        return memory.set_params(**{name: (value * n_sites)[:n_sites] for name, value in lists.items()})  # type: ignore[no-any-return]

    def opened(self, sites: Sites, seed: int = 1) -> Memory:
        """Return a copy with nothing stored, its layout settled, so that any two of them can be compared."""
        memory = self.for_sites(len(sites.positions))
        memory.open(sites, seed)
        inner = memory.memory_ if isinstance(memory, Ledgered) else memory
        if (isinstance(inner, Hashed) and inner.reserved) or isinstance(inner, Tiered):
            inner.reserve(examples([([0, "a", "ß"], "yes", 2), ([0, 1, 2], "no", 1)]))
        return memory


MEMORIES = [
    Entry(Exact(), integer=True, forms=("sparse", "dense")),
    Entry(Hashed(buckets=3, reserved=0), integer=True, forms=("table",)),
    Entry(Hashed(buckets=4, reserved=2), integer=True, forms=("table",)),
    Entry(Hashed(buckets=5, reserved=1, key=b"sixteen bytes or more"), integer=True, forms=("table",)),
    Entry(Hashed(buckets=[3, 1, 5, 4], reserved=[0, 2, 0, 1]), integer=True, forms=("table",)),
    Entry(Ledgered(Hashed(buckets=[2, 3, 4, 5], reserved=[1, 0, 3, 0])), integer=True, forms=("table",)),
    Entry(Tiered(Hashed(buckets=[2, 3, 1, 5], reserved=[1, 0, 3, 0])), integer=True, forms=("tiered",)),
    Entry(Tiered(Hashed(buckets=3, reserved=2)), integer=True, forms=("tiered",)),
    Entry(Gaussian(d=32), integer=False, forms=("fused", "two-stage")),
    Entry(Gaussian(d=24, d_h=5), integer=False, forms=("fused", "two-stage")),
    Entry(Gaussian(d=32, tied=True), integer=False, forms=("fused", "two-stage")),
    Entry(Gaussian(d=32, exact=True), integer=True, forms=("fused", "two-stage"), float_answers=True),
    Entry(Gaussian(d=24, d_h=5, tied=True, exact=True), integer=True, forms=("fused", "two-stage"), float_answers=True),
    Entry(Ledgered(Exact()), integer=True, forms=("sparse", "dense")),
    Entry(Ledgered(Hashed(buckets=4, reserved=2), key=b"sixteen bytes or more"), integer=True, forms=("table",)),
    Entry(Ledgered(Gaussian(d=32)), integer=False, forms=("fused", "two-stage")),
]

POSITIONS = PositionalHamming().resolve(3)
TUPLES = SiteKernel([0, 2, (0, 2), (-3, -2, -1)], weights=[1, 2, 3, 4]).resolve(3)
KERNELS: list[Sites] = [POSITIONS, TUPLES]

TOKENS = [0, 1, 2, 7, 0.5, "a", "b", "ß", NO_TOKEN]
LABELS = ["no", "yes", "b", "ß"]

rows = st.tuples(st.lists(st.sampled_from(TOKENS), min_size=3, max_size=3), st.sampled_from(LABELS), st.integers(1, 3))
batches = st.lists(rows, min_size=1, max_size=12)


def examples(batch: list[tuple[list[Any], str, int]]) -> Examples:
    """Return rows (context, label, multiplicity) as examples."""
    X = np.empty((len(batch), 3), object)
    for i, (context, _, _) in enumerate(batch):
        X[i] = context
    return Examples.of(X, [label for _, label, _ in batch], [count for _, _, count in batch])
