r"""Centred counts in fixed point.

A bucket adds up the counts of several features. With T its count of a label, M the sum of that label over all B buckets
of the site, :math:`(BT - M)/(B - 1)` is unbiased for each feature's own count (:mod:`hammemo.memories.hashed.memory`).
It is rounded to quarters of a count, so that sums are exact in any order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

FRACTION_BITS = 2
"""Scores are whole multiples of 2^-FRACTION_BITS counts."""


def centred(counts: NDArray[Any], n_reserved: int) -> NDArray[np.int64]:
    """Return fixed-point rows: reserved counts as they are, bucket counts centred and rounded to the nearest."""
    exact = counts.astype(np.int64)
    rows = exact << FRACTION_BITS
    shared = exact[n_reserved:]
    rows[n_reserved:] = centred_counts(shared, shared.sum(axis=0), len(shared))
    return rows


def centred_counts(
    shared: NDArray[np.int64], sums: NDArray[np.int64], buckets: int | NDArray[np.int64]
) -> NDArray[np.int64]:
    r"""Return bucket rows, centred by the sums over all buckets of their sites, in fixed point.

    With T a count, M its label's sum and B the number of buckets, this is :math:`4(BT - M)/(B - 1)` to the nearest
    whole number, halves up. The product BT may need more than 64 bits, so it is computed as
    :math:`4T + 4(T - M)/(B - 1)`, the second part rounded: both are below 2^56, because counts are below 2^53. A
    single bucket tells nothing of any of its features: zero.
    """
    others = np.maximum(buckets, 2) - 1
    doubled = (shared - sums) << (FRACTION_BITS + 1)
    values = (shared << FRACTION_BITS) + (doubled + others) // (2 * others)
    return np.where(buckets == 1, 0, values) if np.min(buckets) == 1 else values
