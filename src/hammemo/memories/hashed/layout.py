r"""Which row of a hashed memory's tables each site of a context reads: the layout, as a function.

A site of one position holds the 64-bit hash :math:`g` of its token, a site of several the fold of its tokens' hashes. A
hash that is reserved has a row of its own. Any other goes to the bucket

.. math:: \lfloor B_k \cdot \mathrm{high}(a_k (g \mathbin{|} 1)) / 2^{32} \rfloor,

where :math:`a_k` is the site's odd multiplier and :math:`B_k` its number of buckets, the product is taken modulo
:math:`2^{64}` and high() is its upper half. So two hashes share a bucket with probability :math:`1/B_k`, at each site
anew.

All of it is a pure function of the layout: any process that knows it finds the same rows. The compiled loops compute
the same; this is what they are tested against.
"""

from __future__ import annotations

from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from hammemo._arrays.integers import sorted_find
from hammemo._arrays.native import native
from hammemo.tokens.hashing import fold, hash_numbers, key_words, number_key, vocabulary_hashes
from hammemo.tokens.vocabulary import NO_TOKEN

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from hammemo._arrays.checked import StoredArrays
    from hammemo.kernels.sites import Sites
    from hammemo.tokens.contexts import Contexts, Examples

Cells: TypeAlias = "tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]"
"""Rows, columns and counts of the cells of one site's table."""

_MOST_SITES = 2048  # what the compiled loops take
_LAID_OUT: tuple[Literal["C"], Literal["A"]] = ("C", "A")  # so must arrays be for them: row by row, and aligned


class RowLayout:
    """Rows of every site: those of reserved hashes first, then buckets.

    Parameters
    ----------
    sites : Sites
    seed : int
    key : bytes or None
    buckets : int or sequence of int
        Shared rows: of every site, or one number for each.
    reserved : list of ndarray of uint64, ascending
        The hashes with rows of their own, one list for each group of sites (see `groups`).
    """

    def __init__(
        self,
        sites: Sites,
        seed: int,
        key: bytes | None,
        buckets: int | Sequence[int],
        reserved: list[NDArray[np.uint64]],
    ) -> None:
        self.sites = sites
        self.seed = seed
        self.key = key
        self.buckets = per_site(buckets, len(sites.positions))
        self.reserved = reserved
        self.groups = site_groups(sites)
        words = [key_words(seed, "site", *site) for site in sites.positions]
        self._multipliers = [low | 1 for low, _ in words]
        self._tuple_seeds = [high for _, high in words]

    def own(self, k: int) -> NDArray[np.uint64]:
        """Return the reserved hashes of site k."""
        return self.reserved[self.groups[k]]

    @cached_property
    def first_rows(self) -> NDArray[np.int64]:
        """Where each site's rows start when all are stacked and, at the end, their number."""
        sizes = [len(self.own(k)) + self.buckets[k] for k in range(len(self.groups))]
        return np.concatenate([[0], np.cumsum(sizes)])

    def rows(self, contexts: Contexts) -> NDArray[np.int64]:
        """Return the row of each site's own table that each context reads; -1 for a site that holds no token.

        Shapes
        ------
        returned : (m, S)
        """
        columns = site_hashes(contexts, self.sites, self.seed, self.key)
        rows = np.full((len(contexts), len(columns)), -1, np.int64)
        for k, (hashes, held) in enumerate(columns):
            rows[held, k] = self.rows_at(k, hashes)[held]
        return rows

    def rows_at(self, k: int, hashes: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Return the row of site k's own table that each hash reads.

        Shapes
        ------
        hashes : (m,); returned : (m,)
        """
        product = (hashes | np.uint64(1)) * np.uint64(self._multipliers[k])
        buckets = ((product >> np.uint64(32)) * np.uint64(self.buckets[k])) >> np.uint64(32)
        own = sorted_find(self.own(k), hashes)
        return np.where(own >= 0, own, len(self.own(k)) + buckets.astype(np.int64))

    @cached_property
    def compiled(self) -> Any:
        """The same function compiled, or None where the compiled loops cannot be used."""
        loops = native()
        if loops is None or max(self.sites.h, len(self.sites.positions)) > _MOST_SITES:
            return None
        return loops.Layout(
            self.sites.h,
            self.sites.positions,
            self._multipliers,
            self._tuple_seeds,
            self.groups,
            [np.require(words, requirements=_LAID_OUT) for words in self.reserved],
            self.buckets,
            number_key(self.seed, self.key),
            self.key is not None,
        )

    def cells(self, n_labels: int) -> NDArray[np.uint32]:
        """Return zeros for every row of the stacked tables and, last, one for sites that hold nothing."""
        return np.zeros((int(self.first_rows[-1]) + 1, n_labels), np.uint32)

    def touched(self, cells: NDArray[np.uint32]) -> list[Cells]:
        """Return for each site the cells that are not zero."""
        sites = []
        for first, last in pairwise(self.first_rows):
            part = cells[first:last]
            rows, columns = np.nonzero(part)
            sites.append((rows, columns, part[rows, columns].astype(np.int64)))
        return sites

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "compiled"}  # made again when needed

    def source(self, contexts: Contexts) -> tuple[NDArray[Any], NDArray[np.uint64] | None]:
        """Return contexts as the compiled loops take them: integers, or ranks and the hashes of the ranks."""
        if contexts.integers is not None:
            return np.require(contexts.integers, requirements=_LAID_OUT), None
        ranks = np.require(contexts.ranks, requirements=_LAID_OUT)
        return ranks, vocabulary_hashes(contexts.vocabulary, self.seed, self.key)


def site_groups(sites: Sites) -> list[int]:
    """Return for each site which reserved list it uses: one for all sites of one position, one for each other."""
    groups, others = [], int(any(len(site) == 1 for site in sites.positions))
    for site in sites.positions:
        groups.append(0 if len(site) == 1 else others)
        others += len(site) > 1
    return groups


def none_reserved(sites: Sites) -> list[NDArray[np.uint64]]:
    """Return empty reserved lists, one for each group of sites."""
    return [np.empty(0, np.uint64) for _ in set(site_groups(sites))]


def per_site(numbers: int | Sequence[int], n_sites: int) -> tuple[int, ...]:
    """Return one number for each site, from one for all or from as many as there are."""
    if isinstance(numbers, (int, np.integer)):
        return (int(numbers),) * n_sites
    if len(numbers) != n_sites:
        raise ValueError(f"{list(numbers)!r} has {len(numbers)} entries, but the kernel has {n_sites} sites.")
    return tuple(int(number) for number in numbers)


def one_if_equal(numbers: tuple[int, ...]) -> int | list[int]:
    """Return the number of all sites if it is the same for all, and else the list: undo `per_site`."""
    return numbers[0] if len(set(numbers)) == 1 else list(numbers)


def per_group(numbers: Sequence[int], groups: list[int]) -> list[int]:
    """Return for each group of sites the largest number of its sites."""
    largest = [0] * (max(groups) + 1)
    for number, group in zip(numbers, groups, strict=True):
        largest[group] = max(largest[group], number)
    return largest


def stored_reserved(stored: StoredArrays, most: Sequence[int]) -> list[NDArray[np.uint64]]:
    """Return the reserved hashes of each group from a file, checked; no group has more than its entry of `most`."""
    reserved = [stored.ascending(f"reserved.{group}", "uint64") for group in range(len(most))]
    if any(len(words) > number for words, number in zip(reserved, most, strict=True)):
        raise ValueError("a group of sites has more reserved features than its reserved= allows")
    return reserved


def site_hashes(
    contexts: Contexts, sites: Sites, seed: int, key: bytes | None
) -> list[tuple[NDArray[np.uint64], NDArray[np.bool_]]]:
    """Return for each site the hash of what each context holds there, and whether it holds anything."""
    if contexts.integers is not None:
        integers = contexts.integers.astype(np.int64, copy=False)
        held = integers != NO_TOKEN
        hashes = hash_numbers(integers.view(np.uint64), seed, key)
    else:
        held = contexts.ranks >= 0
        known = vocabulary_hashes(contexts.vocabulary, seed, key)
        hashes = np.append(known, np.uint64(0))[contexts.ranks]  # rank -1 reads the last entry
    columns = []
    for site in sites.positions:
        if len(site) == 1:
            columns.append((hashes[:, site[0]], held[:, site[0]]))
            continue
        start = key_words(seed, "site", *site)[1]
        columns.append((fold([hashes[:, r] for r in site], start), held[:, list(site)].all(axis=1)))
    return columns


def most_frequent(
    examples: Examples, sites: Sites, seed: int, key: bytes | None, numbers: Sequence[int]
) -> list[NDArray[np.uint64]]:
    """Return for each group of sites its most frequent hashes, ascending, as many as `numbers` says; ties by hash."""
    groups = site_groups(sites)
    parts: list[list[tuple[NDArray[np.uint64], NDArray[np.int64]]]] = [[] for _ in range(max(groups) + 1)]
    single = [site[0] for site in sites.positions if len(site) == 1]
    if single:  # tokens are counted before they are hashed: there are far fewer distinct ones
        ranks = examples.contexts.ranks[:, single]
        totals = np.bincount(
            ranks.ravel() + 1, np.repeat(examples.multiplicity, len(single)), len(examples.contexts.vocabulary) + 1
        )
        hashes = vocabulary_hashes(examples.contexts.vocabulary, seed, key)
        parts[0].append((hashes[totals[1:] > 0], totals[1:][totals[1:] > 0].astype(np.int64)))
    columns = site_hashes(examples.contexts, sites, seed, key) if len(single) < len(groups) else []
    for group, site, (hashes, held) in zip(groups, sites.positions, columns, strict=False):
        if len(site) > 1:
            parts[group].append((hashes[held], examples.multiplicity[held]))
    return [_heaviest(group_parts, number) for group_parts, number in zip(parts, numbers, strict=True)]


def _heaviest(parts: Sequence[tuple[NDArray[np.uint64], NDArray[np.int64]]], number: int) -> NDArray[np.uint64]:
    words, place = np.unique(np.concatenate([w for w, _ in parts]), return_inverse=True)
    totals = np.zeros(len(words), np.int64)
    np.add.at(totals, place, np.concatenate([t for _, t in parts]))
    best = np.lexsort((words, -totals))[:number]
    return np.sort(words[best])
