"""Every memory that must keep the contract, and random examples to try it on.

A new memory is added to `MEMORIES`; nothing else in the suite changes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hypothesis import strategies as st
from sklearn.base import clone

from contract_checks.batches import LABELS, TOKENS, examples
from contract_checks.memories import default_sites
from contract_checks.subject import Subject
from hammemo.memories import Exact, Gaussian, Hashed, Tiered

if TYPE_CHECKING:
    from hammemo.kernels.sites import Sites
    from hammemo.memories import Memory


@dataclass(frozen=True)
class Entry:
    """A memory and what its answers are equal to."""

    memory: Memory
    integer: bool
    """Whether its state is made of integers, equal to the byte, or of floats, equal to rounding."""
    forms: tuple[str, ...]
    """Its compiled forms."""
    float_answers: bool = False
    """Whether compiled forms answer in float32, so that scores agree to rounding only."""

    def __str__(self) -> str:
        return repr(self.memory)

    def for_sites(self, n_sites: int) -> Memory:
        """Return a copy that was not opened; its lists have one item for each site."""
        memory: Memory = clone(self.memory)
        for name, value in memory.get_params().items():
            if isinstance(value, list):
                memory.set_params(**{name: (value * n_sites)[:n_sites]})
        return memory

    def subject(self, sites: Sites) -> Subject:
        """Return what the checks of the contract take; a dense table has positions only."""
        has_tuples = any(len(site) > 1 for site in sites.positions)
        forms = tuple(form for form in self.forms if not (form == "dense" and has_tuples))
        return Subject(
            lambda subject_sites: self.for_sites(len(subject_sites.positions)),
            sites,
            forms,
            exact_answers=self.integer and not self.float_answers,
        )

    def open_memory(self, sites: Sites) -> Memory:
        """Return a copy with nothing stored and a settled layout: any two can be compared."""
        return self.subject(sites).open_memory()


__all__ = [
    "KERNELS",
    "LABELS",
    "MEMORIES",
    "POSITIONS",
    "TOKENS",
    "TUPLES",
    "Entry",
    "batches",
    "examples",
]

KEY = b"sixteen bytes or more"
FUSED = ("fused", "two-stage")

# One of each kind, and of each parameter that takes another way through the code: no reserved
# tokens (the layout is settled from the beginning), a key, numbers listed per site, projections and
# outputs that share codes, whole steps.
MEMORIES = [
    Entry(Exact(), integer=True, forms=("sparse", "dense")),
    Entry(Hashed(buckets=3, reserved=0), integer=True, forms=("table",)),
    Entry(Hashed(buckets=5, reserved=1, key=KEY), integer=True, forms=("table",)),
    Entry(Hashed(buckets=[3, 1, 5, 4], reserved=[0, 2, 0, 1]), integer=True, forms=("table",)),
    Entry(
        Tiered(Hashed(buckets=[2, 3, 1, 5], reserved=[1, 0, 3, 0])), integer=True, forms=("tiered",)
    ),
    Entry(Gaussian(d=32), integer=False, forms=FUSED),
    Entry(Gaussian(d=24, d_h=5, tied=True), integer=False, forms=FUSED),
    Entry(Gaussian(d=32, exact=True), integer=True, forms=FUSED, float_answers=True),
]

KERNELS: list[Sites] = default_sites()
POSITIONS, TUPLES = KERNELS

rows = st.tuples(
    st.lists(st.sampled_from(TOKENS), min_size=3, max_size=3),
    st.sampled_from(LABELS),
    st.integers(1, 3),
)
batches = st.lists(rows, min_size=1, max_size=12)
