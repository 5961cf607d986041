"""How many bytes the state of a memory will take (`memory_.nbytes`), from a sample of the data.

What has a known shape is computed: rows times labels times the width of a number, the narrowest one
that holds the largest count. What grows with the data (the sparse table's entries, rows and
vocabulary) is extrapolated (:func:`hammemo.planning.growth.estimate_features`).
"""

from __future__ import annotations

from functools import cache
from math import log2, sqrt
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from hammemo.memories.hashed.reserved import most_frequent
from hammemo.memories.label_counts import LabelCounts
from hammemo.planning.growth import estimate_distinct, estimate_features
from hammemo.planning.reports import Estimate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hammemo.planning.trials import HashedSample
    from hammemo.tokens.contexts import Examples
    from hammemo.tokens.vocabulary import Vocabulary

_TOKEN_ERROR: Final = 0.15
"""The interval of the exact table is from this share fewer tokens to this share more: their numbers
may then have another width."""

_SIZE_ERROR: Final = 0.05
"""What is added to both sides of the interval, as a share of the size."""

_FAR_TIMES: Final = 12
"""Times the sample from which on each doubling makes the upper end larger. Far beyond the sample
the expected size is too small: what is rarer than anything in the sample is not expected."""

_FAR_ERROR: Final = 0.2
"""By how much: by a trial on a text with its words as labels and on Zipf streams."""


def width(largest: float) -> int:
    """Return the bytes of the narrowest unsigned integer that holds numbers up to `largest`.

    Examples
    --------
    >>> from hammemo.planning.sizes import width
    >>> width(255), width(256), width(2**33)
    (1, 2, 8)
    """
    return int(np.min_scalar_type(max(int(largest), 0)).itemsize)


class LargestCounts(NamedTuple):
    """The largest counts that are expected at a site of a hashed memory."""

    reserved: float
    """In a reserved row."""
    bucket: float


class SiteGrowth(NamedTuple):
    """What a site of an exact table will hold."""

    features: float
    entries: float
    """Pairs of a feature and a label."""


class Sizes:
    """The sizes of memories of `n` examples like those of a sample.

    Parameters
    ----------
    examples : Examples
    sample : HashedSample
    n_labels : int
        How many labels there will be.
    """

    def __init__(self, examples: Examples, sample: HashedSample, n_labels: int) -> None:
        self.examples = examples
        self.sample = sample
        self.n_labels = n_labels
        self.times = sample.n / sample.m
        self._count_reserved_bytes = cache(self._compute_reserved_bytes)
        self._grow_site = cache(self._estimate_site)

    @property
    def frame(self) -> int:
        """The bytes of the labels and of how many examples each has."""
        counts = LabelCounts(self.examples.labels, self.sample.label_counts).counts
        label_bytes = _average_token_bytes(self.examples.labels)
        return round(self.n_labels * (label_bytes + width(counts.max() * self.times)))

    # Hashed memories

    def measure_hashed(
        self, buckets: int, reserved: Sequence[int], largest: Sequence[LargestCounts]
    ) -> Estimate:
        """Return the size of a hashed memory.

        Parameters
        ----------
        buckets : int
        reserved : sequence of int
            Reserved features of each group of sites.
        largest : sequence of LargestCounts
            For each site.
        """
        other_bytes = self._count_reserved_bytes(tuple(reserved)) + self.frame
        low, value, high = (
            self._count_table_bytes(buckets, reserved, largest, sign=sign) + other_bytes
            for sign in (-1, 0, 1)
        )
        return Estimate(value, low, high, "computed")

    def _compute_reserved_bytes(self, numbers: tuple[int, ...]) -> int:
        """Return the bytes by which reserved features are recognised.

        One that the sample lacks counts as a new token.
        """
        reserved = most_frequent(
            self.examples, self.sample.sites, seed=self.sample.seed, key=None, numbers=numbers
        )
        n_missing = sum(numbers) - sum(map(len, reserved.hashes))
        n_bytes = sum(array.nbytes for array in reserved.arrays().values())
        return n_bytes + n_missing * self.reserved_token

    @property
    def reserved_token(self) -> int:
        """The bytes of a reserved token: its hash, kind, place and, for strings, a digest."""
        has_strings = bool(len(self.examples.contexts.vocabulary.strings))
        return 8 + 1 + 2 + 32 * has_strings

    def _count_table_bytes(
        self,
        buckets: int,
        reserved: Sequence[int],
        largest: Sequence[LargestCounts],
        *,
        sign: int,
    ) -> int:
        """Return the bytes of all tables, if the largest counts are as expected.

        With `sign` they are off to one side, as far as they may be.
        """
        n_numbers = 0
        for group, counts in zip(self.sample.groups, largest, strict=True):
            reserved_width, bucket_width = (
                width(count * (1 + sign * self.spread(count))) for count in counts
            )
            n_numbers += reserved[group] * reserved_width + buckets * bucket_width
        return self.n_labels * n_numbers

    def spread(self, count: float) -> float:
        """Return by which share the largest count may be off.

        It depends on how small the count is in the sample.
        """
        if self.times <= 1:
            return 0.0
        sample_count = max(count / self.times, 1.0)
        return min(0.02 + 1.5 / sqrt(sample_count), 0.9)

    # Other memories

    def measure_gaussian(self, d: int) -> int:
        """Return the size of a square Gaussian memory."""
        n_sites = len(self.sample.site_samples)
        return 8 * n_sites * max(1, round(d / n_sites)) * d + self.frame

    def measure_exact(self, largest_count: float) -> Estimate:
        """Return the size of the sparse exact table."""
        contexts = self.examples.contexts
        positions = {r for site in self.sample.sites.positions for r in site}
        ranks = contexts.ranks[:, sorted(positions)]
        counts = np.bincount(ranks[ranks >= 0], minlength=len(contexts.vocabulary))
        n_tokens = max(estimate_features(counts[counts > 0], self.times), 1.0)
        low, value, high = (
            self._estimate_exact(largest_count, n_tokens * factor)
            for factor in (1 - _TOKEN_ERROR, 1.0, 1 + _TOKEN_ERROR)
        )
        far_doublings = max(0.0, log2(self.times / _FAR_TIMES))
        return Estimate(
            value=round(value),
            low=round((1 - _SIZE_ERROR) * low),
            high=round((1 + _SIZE_ERROR + _FAR_ERROR * far_doublings) * high),
            method="extrapolated",
        )

    def _estimate_exact(self, largest_count: float, n_tokens: float) -> float:
        """Return the bytes of an exact table with this many tokens.

        A site's tuples are stored token by token: each level numbers its beginnings of tuples.
        """
        sample = self.sample
        token_bytes = _average_token_bytes(self.examples.contexts.vocabulary)
        total = self.frame + token_bytes * n_tokens
        for k, site in enumerate(sample.sites.positions):
            features, entries = self._grow_site(k)
            n_parents = 1.0
            for length in range(1, len(site) + 1):
                n_tuples = features
                if length < len(site):
                    n_tuples = self._estimate_prefixes(site[:length])
                total += n_tuples * width(n_parents * n_tokens)
                n_parents = n_tuples
            total += features * width(min(self.n_labels, sample.n))
            total += entries * (width(self.n_labels - 1) + width(largest_count))
        return total

    def _estimate_site(self, k: int) -> SiteGrowth:
        """Return what site k will hold."""
        features = self.sample.features_at(k, self.sample.n)
        entry_counts = self.sample.site_samples[k].entry_counts(self.sample.n_labels)
        entries = max(estimate_distinct(entry_counts, self.times), features)
        return SiteGrowth(features, min(entries, features * self.n_labels))

    def _estimate_prefixes(self, positions: tuple[int, ...]) -> float:
        """Return how many distinct beginnings of tuples there will be."""
        ranks = self.examples.contexts.ranks[:, list(positions)]
        tuples = ranks[(ranks >= 0).all(axis=1)]
        _, counts = np.unique(tuples, axis=0, return_counts=True)
        return estimate_features(counts, self.times)


def _average_token_bytes(vocabulary: Vocabulary) -> float:
    """Return how many bytes of a state one token or label takes on average."""
    n_bytes = sum(array.nbytes for array in vocabulary.arrays().values())
    return n_bytes / max(len(vocabulary), 1)
