r"""Which row of a hashed memory's tables each site of a context reads: the layout, as a function.

A site of one position holds the 64-bit hash :math:`g` of its token, a site of several the fold of
its tokens' hashes. A feature that is reserved (:mod:`hammemo.memories.hashed.reserved`) has a row
of its own. Any other goes to the bucket

.. math:: \lfloor B_k \cdot \mathrm{high}(a_k (g \mathbin{|} 1)) / 2^{32} \rfloor,

where :math:`a_k` is the site's odd multiplier and :math:`B_k` its number of buckets, the product is
taken modulo :math:`2^{64}` and high() is its upper half. So two hashes share a bucket with
probability :math:`1/B_k`, independently at each site.

All of it is a pure function of the layout: any process that knows it finds the same rows. The
compiled loops compute the same for up to 2048 sites; NumPy answers for more, and is what the loops
are tested against.
"""

from __future__ import annotations

import weakref
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

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

_MAX_SITES = 2048
"""More sites are not taken by the compiled loops."""

_LAID_OUT: tuple[Literal["C"], Literal["A"]] = ("C", "A")
"""How arrays lie that the compiled loops take: row by row, and aligned."""

_NO_ROW = 2**32 - 1
"""No row, as the compiled loops write it."""

_NOTHING = (np.empty(0, np.uint64), np.empty(0, np.int32))
"""The hashes and places of no tokens."""


class TableCells(NamedTuple):
    """Rows, columns and counts of some cells of one site's table."""

    rows: Ints
    columns: Ints
    counts: Ints


class IntegerTokens(NamedTuple):
    """The reserved tokens that an integer can be."""

    hashes: Words

    places: NDArray[np.uint32]
    """Where they stand in the list of reserved tokens."""

    checks: Words
    """Under a key, their SipHash-128 in two words each; else empty."""


class LoopContexts(NamedTuple):
    """Contexts as the compiled loops take them."""

    tokens: Array
    """The tokens if they are integers, else their ranks."""

    hashes: Words | None
    """The hash of each rank's token."""

    places: NDArray[np.int32] | None
    """The place of each rank's token in the list of reserved tokens, -1 for none."""


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

    _last_source: tuple[weakref.ref[Vocabulary] | None, tuple[Words, NDArray[np.int32]]] = (
        None,
        _NOTHING,
    )

    def __init__(
        self,
        sites: Sites,
        seed: int,
        key: bytes | None,
        buckets: int | Sequence[int],
        reserved: Reserved,
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
        """Return the hashes of the features with rows of their own at site k, in row order."""
        return self.reserved.hashes[self.groups[k]]

    @cached_property
    def first_rows(self) -> Ints:
        """Where each site's rows start when all are stacked and, at the end, their number."""
        sizes = [len(self.own(k)) + self.buckets[k] for k in range(len(self.groups))]
        return np.concatenate([[0], np.cumsum(sizes)])

    @cached_property
    def sizes(self) -> tuple[Ints, Ints]:
        """How many rows of its own each site has, (S,), and how many buckets, (S, 1)."""
        n_own = np.array([len(self.own(k)) for k in range(len(self.groups))])
        return n_own, np.array(self.buckets)[:, None]

    def rows(self, contexts: Contexts) -> Ints:
        """Return the row of each site's own table that each context reads.

        It is -1 for a site that holds no token.

        Shapes
        ------
        returned : (m, S)
        """
        hashes, has_token = token_columns(contexts, self.seed, self.key)
        places = self._places(contexts, hashes)
        rows = np.full((len(contexts), len(self.groups)), -1, np.int64)
        for k, site in enumerate(self.sites.positions):
            if len(site) == 1:
                features = hashes[:, site[0]]
                reserved_rows = self.single_rows[places[:, site[0]]]
            else:
                features = fold([hashes[:, r] for r in site], self.tuple_seeds[k])
                by_hash = find_sorted(self.own(k), features)
                reserved_rows = self._confirm(k, by_hash, places[:, list(site)])
            is_whole = has_token[:, list(site)].all(axis=1)
            rows[is_whole, k] = self._place(k, features, reserved_rows)[is_whole]
        return rows

    def find_rows(self, contexts: Contexts) -> Ints:
        """Return what `rows` does, by the compiled loops where they can be used."""
        if self.compiled is None:
            return self.rows(contexts)
        rows = np.empty((len(contexts), len(self.groups)), np.int64)
        tokens, hashes, places = self.source(contexts)
        self.compiled.own_rows(tokens, hashes, places, rows)
        return rows

    def _place(self, k: int, hashes: Words, reserved_rows: Ints) -> Ints:
        """Return the reserved row where there is one (not -1), else the bucket of the hash."""
        buckets = hash_buckets(hashes, self.multipliers[k], self.buckets[k])
        return np.where(reserved_rows >= 0, reserved_rows, len(self.own(k)) + buckets)

    def _places(self, contexts: Contexts, hashes: Words) -> Ints:
        """Return the place of each token in the list of reserved tokens, -1 for none: (m, h)."""
        if contexts.integers is None:
            _, token_places = self.vocabulary_source(contexts.vocabulary)
            places = np.append(token_places, -1)[contexts.ranks]  # rank -1 reads the last entry
            return places.astype(np.int64)
        integers = contexts.integers.astype(np.int64).ravel()
        places = self.reserved.tokens.integer_places(integers, hashes.ravel(), self.seed, self.key)
        return places.reshape(hashes.shape)

    @cached_property
    def single_rows(self) -> Ints:
        """The row of each place's token at sites of one position, -1 for none.

        One more entry is for no place.
        """
        rows = np.full(len(self.reserved.tokens) + 1, -1, np.int64)
        if len(self.sites.positions[self.groups.index(0)]) == 1:
            places = self.reserved.places[0][:, 0]
            rows[places] = np.arange(len(places))
        return rows

    def _confirm(self, k: int, rows: Ints, places: Ints) -> Ints:
        """Return the rows of tuples that were found by hash, -1 where the tokens are others."""
        if not len(self.own(k)):
            return rows
        has_places = (self.reserved.places[self.groups[k]][rows] == places).all(axis=1)
        return np.where(has_places, rows, -1)

    @cached_property
    def compiled(self) -> Any:
        """The same function compiled, or None for more sites than the compiled loops take."""
        if max(self.sites.h, len(self.sites.positions)) > _MAX_SITES:
            return None
        integers = self.integer_tokens()
        # the loops write places doubled; a token alone is confirmed by its place
        doubled = [2 * places.astype(np.uint64, order="C") for places in self.reserved.places]
        single = np.empty((0, 1), np.uint64)
        single_rows = np.where(self.single_rows < 0, _NO_ROW, self.single_rows)[:-1]
        return _native.Layout(
            h=self.sites.h,
            positions=self.sites.positions,
            multipliers=self.multipliers,
            tuple_seeds=self.tuple_seeds,
            groups=self.groups,
            reserved=[np.require(words, requirements=_LAID_OUT) for words in self.reserved.hashes],
            entries=[places if places.shape[1] > 1 else single for places in doubled],
            token_hashes=integers.hashes,
            token_places=integers.places,
            token_checks=integers.checks,
            single_rows=single_rows.astype(np.uint32),
            buckets=self.buckets,
            integer_key=number_key(self.seed, self.key),
            keyed=self.key is not None,
        )

    def integer_tokens(self) -> IntegerTokens:
        """Return the tokens that an integer can be.

        Without a key no two integers have one hash, so that an integer found among the hashes of
        integers is that one, and no checks are needed.
        """
        tokens = self.reserved.tokens
        places = np.flatnonzero(tokens.identities[:, 0] == INTEGER)
        checks = np.ascontiguousarray(tokens.identities[places, 1:17]).view("<u8").astype(np.uint64)
        if self.key is None:
            checks = checks[:0]
        return IntegerTokens(tokens.hashes[places], places.astype(np.uint32), checks)

    def cells(self, n_labels: int) -> NDArray[np.uint32]:
        """Return zeros for every row of the stacked tables.

        One row more, the last, is for sites that hold nothing.
        """
        return np.zeros((int(self.first_rows[-1]) + 1, n_labels), np.uint32)

    def collect_cells(self, cells: NDArray[np.uint32]) -> list[TableCells]:
        """Return for each site the cells that are not zero."""
        sites = []
        for first, last in pairwise(self.first_rows):
            site_cells = cells[first:last]
            rows, columns = np.nonzero(site_cells)
            sites.append(TableCells(rows, columns, site_cells[rows, columns].astype(np.int64)))
        return sites

    def __getstate__(self) -> dict[str, Any]:
        caches = {"compiled", "_last_source"}
        return {name: value for name, value in dict(vars(self)).items() if name not in caches}

    def source(self, contexts: Contexts) -> LoopContexts:
        """Return contexts as the compiled loops take them."""
        if contexts.integers is not None:
            return LoopContexts(np.require(contexts.integers, requirements=_LAID_OUT), None, None)
        ranks = np.require(contexts.ranks, requirements=_LAID_OUT)
        hashes, places = self.vocabulary_source(contexts.vocabulary)
        return LoopContexts(ranks, hashes, places)

    def vocabulary_source(self, vocabulary: Vocabulary) -> tuple[Words, NDArray[np.int32]]:
        """Return the hash of each token and its place among reserved tokens, -1 for none.

        What was found for the last vocabulary is kept: one query may read several tables.
        """
        last_vocabulary, source = self._last_source
        if last_vocabulary is not None and last_vocabulary() is vocabulary:
            return source
        hashes = vocabulary_hashes(vocabulary, self.seed, self.key)
        places = self.reserved.tokens.places(vocabulary, hashes, self.seed, self.key)
        source = (hashes, places.astype(np.int32))
        # one assignment: other threads do the same
        self._last_source = (weakref.ref(vocabulary), source)
        return source


def hash_buckets(hashes: Words, multiplier: int, buckets: int) -> Ints:
    """Return the bucket of each hash at a site with this multiplier."""
    product = (hashes | np.uint64(1)) * np.uint64(multiplier)
    return (((product >> np.uint64(32)) * np.uint64(buckets)) >> np.uint64(32)).astype(np.int64)


def per_site(numbers: int | Sequence[int], n_sites: int) -> tuple[int, ...]:
    """Return one number for each site, from one for all or from as many as there are."""
    if isinstance(numbers, (int, np.integer)):
        return (int(numbers),) * n_sites
    if len(numbers) != n_sites:
        raise ValueError(
            f"{list(numbers)!r} has {len(numbers)} entries, but the kernel has {n_sites} sites."
        )
    return tuple(int(number) for number in numbers)


def one_if_equal(numbers: tuple[int, ...]) -> int | list[int]:
    """Return one number if it is the same for all sites, else the list: undo `per_site`."""
    return numbers[0] if len(set(numbers)) == 1 else list(numbers)


def per_group(numbers: Sequence[int], groups: list[int]) -> list[int]:
    """Return for each group of sites the largest number of its sites."""
    largest = [0] * (max(groups) + 1)
    for number, group in zip(numbers, groups, strict=True):
        largest[group] = max(largest[group], number)
    return largest
