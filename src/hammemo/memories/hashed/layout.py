r"""Which row of a hashed memory's tables each site of a context reads: the layout, as a function.

A site of one position holds the 64-bit hash :math:`g` of its token, a site of several the fold of its tokens' hashes. A
feature that is reserved (:mod:`hammemo.memories.hashed.reserved`) has a row of its own. Any other goes to the bucket

.. math:: \lfloor B_k \cdot \mathrm{high}(a_k (g \mathbin{|} 1)) / 2^{32} \rfloor,

where :math:`a_k` is the site's odd multiplier and :math:`B_k` its number of buckets, the product is taken modulo
:math:`2^{64}` and high() is its upper half. So two hashes share a bucket with probability :math:`1/B_k`,
independently at each site.

All of it is a pure function of the layout: any process that knows it finds the same rows. The compiled loops compute
the same for up to 2048 sites; NumPy answers for more, and is what the loops are tested against.
"""

from __future__ import annotations

import weakref
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import numpy as np

from hammemo import _native
from hammemo._arrays.integers import find_sorted
from hammemo._versions import cached_property
from hammemo.memories.hashed.reserved import Reserved, site_groups, site_words, token_columns
from hammemo.tokens.hashing import INTEGER, fold, number_key, vocabulary_hashes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from hammemo._arrays.types import Array, Ints, Words
    from hammemo.kernels.sites import Sites
    from hammemo.tokens.contexts import Contexts
    from hammemo.tokens.vocabulary import Vocabulary

Cells: TypeAlias = "tuple[Ints, Ints, Ints]"
"""Rows, columns and counts of the cells of one site's table."""

_MAX_SITES = 2048  # what the compiled loops take
_LAID_OUT: tuple[Literal["C"], Literal["A"]] = ("C", "A")  # so must arrays be for them: row by row, and aligned
_NO_ROW = 2**32 - 1  # as they write it
_NOTHING = np.empty(0, np.uint64), np.empty(0, np.int32)


class LoopContexts(NamedTuple):
    """Contexts as the compiled loops take them: integers, or ranks with the hash and the place of each rank's token."""

    tokens: Array
    hashes: Words | None
    places: NDArray[np.int32] | None


class RowLayout:
    """Rows of every site: those of reserved hashes first, then buckets.

    Parameters
    ----------
    sites : Sites
    seed : int
    key : bytes or None
    buckets : int or sequence of int
        Number of shared rows: one number for every site, or one per site.
    reserved : Reserved
        The features with rows of their own, for each group of sites (see `site_groups`).
    """

    _last_source: tuple[weakref.ref[Vocabulary] | None, tuple[Words, NDArray[np.int32]]] = (None, _NOTHING)

    def __init__(
        self, sites: Sites, seed: int, key: bytes | None, buckets: int | Sequence[int], reserved: Reserved
    ) -> None:
        self.sites = sites
        self.seed = seed
        self.key = key
        self.buckets = per_site(buckets, len(sites.positions))
        self.reserved = reserved
        self.groups = site_groups(sites)
        words = [site_words(seed, site) for site in sites.positions]
        self.multipliers = [multiplier for multiplier, _ in words]
        self.tuple_seeds = [start for _, start in words]

    def own(self, k: int) -> Words:
        """Return the hashes of the features that have rows of their own at site k, in the order of the rows."""
        return self.reserved.hashes[self.groups[k]]

    @cached_property
    def first_rows(self) -> Ints:
        """Where each site's rows start when all are stacked and, at the end, their number."""
        sizes = [len(self.own(k)) + self.buckets[k] for k in range(len(self.groups))]
        return np.concatenate([[0], np.cumsum(sizes)])

    @cached_property
    def sizes(self) -> tuple[Ints, Ints]:
        """How many rows of its own each site has, (S,), and how many buckets, (S, 1)."""
        return np.array([len(self.own(k)) for k in range(len(self.groups))]), np.array(self.buckets)[:, None]

    def rows(self, contexts: Contexts) -> Ints:
        """Return the row of each site's own table that each context reads; -1 for a site that holds no token.

        Shapes
        ------
        returned : (m, S)
        """
        hashes, held = token_columns(contexts, self.seed, self.key)
        places = self._places(contexts, hashes)
        rows = np.full((len(contexts), len(self.groups)), -1, np.int64)
        for k, site in enumerate(self.sites.positions):
            if len(site) == 1:
                features, own = hashes[:, site[0]], self.single_rows[places[:, site[0]]]
            else:
                features = fold([hashes[:, r] for r in site], self.tuple_seeds[k])
                own = self._confirmed(k, find_sorted(self.own(k), features), places[:, list(site)])
            there = held[:, list(site)].all(axis=1)
            rows[there, k] = self._placed(k, features, own)[there]
        return rows

    def found(self, contexts: Contexts) -> Ints:
        """Return what `rows` does, by the compiled loops where they can be used."""
        if self.compiled is None:
            return self.rows(contexts)
        found = np.empty((len(contexts), len(self.groups)), np.int64)
        self.compiled.own_rows(*self.source(contexts), found)
        return found

    def _placed(self, k: int, hashes: Words, own: Ints) -> Ints:
        """Return the reserved row where there is one (not -1), and the bucket of the hash elsewhere."""
        buckets = hash_buckets(hashes, self.multipliers[k], self.buckets[k])
        return np.where(own >= 0, own, len(self.own(k)) + buckets)

    def _places(self, contexts: Contexts, hashes: Words) -> Ints:
        """Return the place of each token in the list of reserved tokens, -1 where it has none: (m, h)."""
        if contexts.integers is None:
            known = self.vocabulary_source(contexts.vocabulary)[1]
            return np.append(known, -1)[contexts.ranks].astype(np.int64)  # rank -1 reads the last entry
        integers = contexts.integers.astype(np.int64).ravel()
        places = self.reserved.tokens.integer_places(integers, hashes.ravel(), self.seed, self.key)
        return places.reshape(hashes.shape)

    @cached_property
    def single_rows(self) -> Ints:
        """For each place the row of that token at sites of one position, -1 for none; one more entry for no place."""
        rows = np.full(len(self.reserved.tokens) + 1, -1, np.int64)
        if len(self.sites.positions[self.groups.index(0)]) == 1:
            places = self.reserved.places[0][:, 0]
            rows[places] = np.arange(len(places))
        return rows

    def _confirmed(self, k: int, own: Ints, places: Ints) -> Ints:
        """Return the rows of tuples that were found by hash, -1 where the tokens are others."""
        if not len(self.own(k)):
            return own
        return np.where((self.reserved.places[self.groups[k]][own] == places).all(axis=1), own, -1)

    @cached_property
    def compiled(self) -> Any:
        """The same function compiled, or None for more sites than the compiled loops take."""
        if max(self.sites.h, len(self.sites.positions)) > _MAX_SITES:
            return None
        hashes, places, checks = self.integer_tokens()
        single = np.empty((0, 1), np.uint64)  # a token alone is confirmed by its place
        doubled = [2 * part.astype(np.uint64, order="C") for part in self.reserved.places]  # as the loops write places
        entries = [part if part.shape[1] > 1 else single for part in doubled]
        return _native.Layout(
            self.sites.h,
            self.sites.positions,
            self.multipliers,
            self.tuple_seeds,
            self.groups,
            [np.require(words, requirements=_LAID_OUT) for words in self.reserved.hashes],
            entries,
            hashes,
            places,
            checks,
            np.where(self.single_rows < 0, _NO_ROW, self.single_rows)[:-1].astype(np.uint32),
            self.buckets,
            number_key(self.seed, self.key),
            self.key is not None,
        )

    def integer_tokens(self) -> tuple[Words, NDArray[np.uint32], Words]:
        """Return the hashes and places of the tokens that an integer can be and, under a key, their SipHash-128.

        Without a key no two integers have one hash, so that an integer found among the hashes of integers is that one.
        """
        tokens = self.reserved.tokens
        places = np.flatnonzero(tokens.identities[:, 0] == INTEGER)
        halves = np.ascontiguousarray(tokens.identities[places, 1:17]).view("<u8").astype(np.uint64)
        return tokens.hashes[places], places.astype(np.uint32), halves[: None if self.key is not None else 0]

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
        made_again = {"compiled", "_last_source"}
        return {name: value for name, value in dict(vars(self)).items() if name not in made_again}

    def source(self, contexts: Contexts) -> LoopContexts:
        """Return contexts as the compiled loops take them."""
        if contexts.integers is not None:
            return LoopContexts(np.require(contexts.integers, requirements=_LAID_OUT), None, None)
        ranks = np.require(contexts.ranks, requirements=_LAID_OUT)
        return LoopContexts(ranks, *self.vocabulary_source(contexts.vocabulary))

    def vocabulary_source(self, vocabulary: Vocabulary) -> tuple[Words, NDArray[np.int32]]:
        """Return the hash of each token and its place in the list of reserved tokens, -1 where it has none.

        What was found for the last vocabulary is kept: one query may read several tables.
        """
        asked, found = self._last_source
        if asked is not None and asked() is vocabulary:
            return found
        hashes = vocabulary_hashes(vocabulary, self.seed, self.key)
        places = self.reserved.tokens.places(vocabulary, hashes, self.seed, self.key)
        found = hashes, places.astype(np.int32)
        self._last_source = weakref.ref(vocabulary), found  # one assignment: other threads do the same
        return found


def hash_buckets(hashes: Words, multiplier: int, buckets: int) -> Ints:
    """Return the bucket of each hash at a site with this multiplier."""
    product = (hashes | np.uint64(1)) * np.uint64(multiplier)
    return (((product >> np.uint64(32)) * np.uint64(buckets)) >> np.uint64(32)).astype(np.int64)


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
