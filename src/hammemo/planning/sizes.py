"""How many bytes the state of a memory will take: `memory_.nbytes`, from what a sample says of all the data.

Parts whose shape is known are computed: rows times labels times the width of a number, the narrowest one that holds the
largest count. What grows with the data (the sparse table's entries, rows and vocabulary) is extrapolated
(:func:`hammemo.planning.growth.expected_features`).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log2, sqrt
from typing import TYPE_CHECKING

import numpy as np

from hammemo.memories.hashed.reserved import most_frequent
from hammemo.memories.label_counts import LabelCounts
from hammemo.planning.growth import expected_features

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hammemo.planning.trials import HashedSample
    from hammemo.tokens.contexts import Examples
    from hammemo.tokens.vocabulary import Vocabulary


@dataclass(frozen=True)
class Size:
    """A number of bytes and an interval for it."""

    value: int
    low: int
    high: int


def width(largest: float) -> int:
    """Return the bytes of the narrowest unsigned integer that holds numbers up to `largest`.

    Examples
    --------
    >>> from hammemo.planning.sizes import width
    >>> width(255), width(256), width(2**33)
    (1, 2, 8)
    """
    return int(np.min_scalar_type(max(int(largest), 0)).itemsize)


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
        self._sites: dict[int, tuple[float, float]] = {}
        self._known: dict[tuple[int, ...], int] = {}

    @property
    def frame(self) -> int:
        """The labels and how many examples each has."""
        counts = LabelCounts(self.examples.labels, self.sample.label_counts)
        each = _token_bytes(self.examples.labels) + width(counts.counts.max() * self.times)
        return round(self.n_labels * each)

    def hashed(self, buckets: int, reserved: Sequence[int], largest: list[tuple[float, float]]) -> Size:
        """Return the size of a hashed memory.

        Parameters
        ----------
        buckets : int
        reserved : sequence of int
            Reserved features of each group of sites.
        largest : list of pairs
            For each site the largest count expected in a reserved row and in a bucket.
        """
        low, value, high = (self._tables(buckets, reserved, largest, sign) for sign in (-1, 0, 1))
        rest = self._reserved(tuple(reserved)) + self.frame
        return Size(value + rest, low + rest, high + rest)

    def _reserved(self, numbers: tuple[int, ...]) -> int:
        """Return the bytes by which reserved features are known; one that the sample lacks is taken for a new token."""
        if numbers not in self._known:
            sample = self.sample
            found = most_frequent(self.examples, sample.sites, sample.seed, None, numbers)
            missing = sum(numbers) - sum(map(len, found.hashes))
            known = sum(part.nbytes for part in found.arrays().values())
            self._known[numbers] = known + missing * self.reserved_token
        return self._known[numbers]

    @property
    def reserved_token(self) -> int:
        """The bytes of a token by which it is recognised: hash, kind, place and, where there are strings, a digest."""
        return 8 + 1 + 2 + 32 * bool(len(self.examples.contexts.vocabulary.strings))

    def _tables(self, buckets: int, reserved: Sequence[int], largest: list[tuple[float, float]], sign: int) -> int:
        """Return the bytes of all tables where the largest counts are as expected (0), or off to one side."""
        total = 0
        for group, (own, shared) in zip(self.sample.groups, largest, strict=True):
            widths = [width(count * (1 + sign * self.spread(count))) for count in (own, shared)]
            total += self.n_labels * (reserved[group] * widths[0] + buckets * widths[1])
        return total

    def spread(self, count: float) -> float:
        """Return by which share the largest count may be off: what a count as small as the sample's may be off."""
        return 0.0 if self.times <= 1 else min(0.02 + 1.5 / sqrt(max(count / self.times, 1.0)), 0.9)

    def gaussian(self, d: int) -> int:
        """Return the size of a square Gaussian memory."""
        n_sites = len(self.sample.parts)
        return 8 * n_sites * max(1, round(d / n_sites)) * d + self.frame

    def exact(self, largest_count: float) -> Size:
        """Return the size of the sparse exact table.

        The interval is 5 % to either side of what it is with 15 % fewer and 15 % more tokens, whose numbers may then
        have another width. Far beyond the sample the expected size is too small: what is rarer than anything in the
        sample is not expected. So each doubling past twelve times the sample adds 20 % to the upper end, a figure set
        on a text with its words as labels and on Zipf streams.
        """
        contexts, positions = self.examples.contexts, self.sample.sites.positions
        used = contexts.ranks[:, sorted({r for site in positions for r in site})]
        counts = np.bincount(used[used >= 0], minlength=len(contexts.vocabulary))
        tokens = max(expected_features(counts[counts > 0], self.times), 1.0)
        low, value, high = (self._exact(largest_count, tokens * factor) for factor in (0.85, 1.0, 1.15))
        beyond = max(0.0, log2(self.times / 12))
        return Size(round(value), round(0.95 * low), round((1.05 + 0.2 * beyond) * high))

    def _exact(self, largest_count: float, tokens: float) -> float:
        sample, n = self.sample, self.sample.n
        total = self.frame + _token_bytes(self.examples.contexts.vocabulary) * tokens
        for k, site in enumerate(sample.sites.positions):
            features, entries = self._grown_site(k)
            parents = 1.0
            for length in range(1, len(site) + 1):
                level = features if length == len(site) else self._prefixes(site[:length])
                total += level * width(parents * tokens)
                parents = level
            total += features * width(min(self.n_labels, n))
            total += entries * (width(self.n_labels - 1) + width(largest_count))
        return total

    def _grown_site(self, k: int) -> tuple[float, float]:
        """Return how many features, and how many pairs of feature and label, site k will hold."""
        if k not in self._sites:
            features = self.sample.features_at(k, self.sample.n)
            entries = max(self.sample.entries_at(k, self.sample.n), features)
            self._sites[k] = features, min(entries, features * self.n_labels)
        return self._sites[k]

    def _prefixes(self, positions: tuple[int, ...]) -> float:
        """Return how many distinct beginnings of tuples there will be."""
        ranks = self.examples.contexts.ranks[:, list(positions)]
        held = ranks[(ranks >= 0).all(axis=1)]
        return expected_features(np.unique(held, axis=0, return_counts=True)[1], self.times)


def _token_bytes(vocabulary: Vocabulary) -> float:
    """Return how many bytes of a state one token or label takes on average."""
    return sum(array.nbytes for array in vocabulary.arrays().values()) / max(len(vocabulary), 1)
