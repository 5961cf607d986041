r"""Which features of a hashed memory have rows of their own, and how they are known.

A reserved row is a proof only if nothing else can reach it. A feature's 64-bit hash says where to
look, but an attacker who knows the seed can make another token or tuple with that hash. So a
reserved token also has an identity (:func:`hammemo.tokens.hashing.vocabulary_identities`): the
value of a number, a 256-bit digest of a string. Tokens stand in one list, ascending by hash; the
place of a token in it is found by its hash and confirmed by its identity. A reserved tuple is a
tuple of places, found by its hash and compared entry by entry. What is not confirmed is not
reserved and goes to its bucket. Of several tokens, or tuples, with one hash at most one is
reserved.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hammemo._arrays.checked import StoredArrays, is_ascending
from hammemo._arrays.integers import find_sorted, narrow
from hammemo._arrays.tuple_sets import TupleSet
from hammemo.tokens import hashing
from hammemo.tokens.vocabulary import NO_TOKEN, Vocabulary, factorize

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from hammemo._arrays.types import Array, Bools, Ints, Words
    from hammemo.kernels.sites import Sites
    from hammemo.tokens.contexts import Contexts, Examples


@dataclass(frozen=True, eq=False)
class TokenList:
    """Tokens that can be recognised and not read: hashes, ascending, and identities."""

    hashes: Words
    identities: NDArray[np.uint8]
    keyed: bool = False

    def __len__(self) -> int:
        return len(self.hashes)

    def arrays(self) -> dict[str, Array]:
        """Return the hashes, the kinds, and the digests of tokens that have one, end to end."""
        kinds = self.identities[:, 0]
        digests = self.identities[:, 1:][_digest_mask(kinds, keyed=self.keyed)]
        return {"hashes": self.hashes, "kinds": kinds.copy(), "digests": digests}

    @classmethod
    def from_arrays(cls, stored: StoredArrays, seed: int, key: bytes | None) -> TokenList:
        """Return the list with these arrays, checked: undo `arrays`."""
        hashes = stored.ascending("hashes", "uint64")
        kinds = stored.take("kinds", "uint8", (len(hashes),))
        if (kinds > hashing.STRING).any():
            raise ValueError("a reserved token is of no known kind")
        identities = np.zeros((len(hashes), hashing.IDENTITY_BYTES), np.uint8)
        if key is None:  # numbers follow from their hashes
            for kind, name in ((hashing.INTEGER, "integers"), (hashing.FLOAT, "floats")):
                words = hashing.unhash_numbers(hashes[kinds == kind], seed, name)
                identities[kinds == kind] = hashing.number_identities(words, seed, None, name)
        identities[:, 0] = kinds
        mask = _digest_mask(kinds, keyed=key is not None)
        identities[:, 1:][mask] = stored.take("digests", "uint8", (int(mask.sum()),))
        return cls(hashes, identities, key is not None)

    def places(self, vocabulary: Vocabulary, hashes: Words, seed: int, key: bytes | None) -> Ints:
        """Return the place of each token with these hashes, -1 where it is not here: (tokens,)."""

        def identities(ranks: Ints) -> NDArray[np.uint8]:
            mask = np.zeros(len(vocabulary), bool)
            mask[ranks] = True
            return hashing.vocabulary_identities(vocabulary.keep(mask), seed, key)

        return self._confirm(hashes, identities)

    def integer_places(self, integers: Ints, hashes: Words, seed: int, key: bytes | None) -> Ints:
        """Return the place of each integer with these hashes, -1 where it is not here: (n,)."""
        words = integers.view(np.uint64)

        def identities(places: Ints) -> NDArray[np.uint8]:
            return hashing.number_identities(words[places], seed, key)

        return self._confirm(hashes, identities)

    def _confirm(self, hashes: Words, identities: Callable[[Ints], NDArray[np.uint8]]) -> Ints:
        """Return the place of each hash, -1 where the token's identity is another.

        `identities` returns those of some of the tokens: only tokens that are found need one.
        """
        places = find_sorted(self.hashes, hashes)
        by_hash = np.flatnonzero(places >= 0)
        is_same = (identities(by_hash) == self.identities[places[by_hash]]).all(axis=1)
        places[by_hash[~is_same]] = -1
        return places


def _digest_mask(kinds: NDArray[np.uint8], *, keyed: bool) -> Bools:
    """Return which bytes behind the kind are a digest.

    They are 32 of a string and, under a key, 16 of a number.
    """
    lengths = np.where(kinds == hashing.STRING, hashing.IDENTITY_BYTES - 1, 16 if keyed else 0)
    return np.asarray(np.arange(hashing.IDENTITY_BYTES - 1) < lengths[:, None])


@dataclass(frozen=True, eq=False)
class Reserved:
    """The features with rows of their own, for each group of sites (see `site_groups`).

    Parameters
    ----------
    hashes : tuple of ndarray of uint64, ascending
        For each group the hash of each feature, in the order of their rows.
    tokens : TokenList
        All tokens that are reserved or stand in a reserved tuple.
    places : tuple of ndarray of shape (features, positions of a site)
        For each group the features as places in `tokens`.
    """

    hashes: tuple[Words, ...]
    tokens: TokenList
    places: tuple[Ints, ...]

    def arrays(self) -> dict[str, Array]:
        """Return the canonical arrays.

        What follows from the rest is not kept: the hash of a tuple and, without a key, the value of
        a number.
        """
        tokens = {f"reserved.{name}": array for name, array in self.tokens.arrays().items()}
        groups = {f"reserved.{group}": narrow(places) for group, places in enumerate(self.places)}
        return {**tokens, **groups}

    def digest(self) -> str:
        """Return a short name of what is reserved: equal names, equal features."""
        digest = hashlib.blake2b(digest_size=16)
        places = [group.astype("<u4") for group in self.places]
        for array in (*self.tokens.arrays().values(), *places):
            digest.update(len(array).to_bytes(8, "little") + array.tobytes())
        return digest.hexdigest()


def site_groups(sites: Sites) -> list[int]:
    """Return for each site which reserved list it uses.

    There is one for all sites of one position, and one for each other site.
    """
    groups = []
    next_group = int(any(len(site) == 1 for site in sites.positions))
    for site in sites.positions:
        if len(site) == 1:
            groups.append(0)
        else:
            groups.append(next_group)
            next_group += 1
    return groups


def group_sites(sites: Sites) -> list[tuple[int, ...]]:
    """Return a site of each group, in the order of the groups."""
    site_of_group = dict(zip(site_groups(sites), sites.positions, strict=True))
    return [site for _, site in sorted(site_of_group.items())]


def site_words(seed: int, site: tuple[int, ...]) -> tuple[int, int]:
    """Return a site's odd multiplier, and where folding its tuples starts.

    The multiplier spreads hashes over the buckets.
    """
    low, high = hashing.key_words(seed, "site", *site)
    return low | 1, high


def reserve_nothing(sites: Sites) -> Reserved:
    """Return that nothing has a row of its own."""
    tokens = TokenList(np.empty(0, np.uint64), np.empty((0, hashing.IDENTITY_BYTES), np.uint8))
    places = [np.empty((0, len(site)), np.int64) for site in group_sites(sites)]
    return reserve_places(sites, 0, tokens, places)


def reserve_places(sites: Sites, seed: int, tokens: TokenList, places: Sequence[Ints]) -> Reserved:
    """Return features given by their places in a list of tokens; their hashes are computed."""
    hashes = []
    for site, rows in zip(group_sites(sites), places, strict=True):
        columns = [tokens.hashes[column] for column in rows.T]
        if len(site) == 1:
            hashes.append(columns[0])
        else:
            _, start = site_words(seed, site)
            hashes.append(hashing.fold(columns, start))
    return Reserved(tuple(hashes), tokens, tuple(places))


def site_hashes(
    contexts: Contexts, sites: Sites, seed: int, key: bytes | None
) -> list[tuple[Words, Bools]]:
    """Return for each site the hash of what each context holds, and whether it holds anything."""
    hashes, has_token = token_columns(contexts, seed, key)
    columns = []
    for site in sites.positions:
        if len(site) == 1:
            columns.append((hashes[:, site[0]], has_token[:, site[0]]))
            continue
        _, start = site_words(seed, site)
        features = hashing.fold([hashes[:, r] for r in site], start)
        is_whole = np.asarray(has_token[:, list(site)].all(axis=1))
        columns.append((features, is_whole))
    return columns


def token_columns(contexts: Contexts, seed: int, key: bytes | None) -> tuple[Words, Bools]:
    """Return the hash of each token, and whether there is one: (m, h), (m, h)."""
    if contexts.integers is not None:
        integers = contexts.integers.astype(np.int64, copy=False)
        return hashing.hash_numbers(integers.view(np.uint64), seed, key), integers != NO_TOKEN
    hashes = hashing.vocabulary_hashes(contexts.vocabulary, seed, key)
    hashes = np.append(hashes, np.uint64(0))  # rank -1 reads the last entry
    return hashes[contexts.ranks], contexts.ranks >= 0


def most_frequent(
    examples: Examples,
    sites: Sites,
    *,
    seed: int,
    key: bytes | None,
    numbers: Sequence[int],
) -> Reserved:
    """Return for each group of sites its most frequent features, ties by hash.

    `numbers` says how many each group has.
    """
    has_tuples = any(len(site) > 1 for site in sites.positions)
    columns = site_hashes(examples.contexts, sites, seed, key) if has_tuples else []
    features = []
    for group, (site, number) in enumerate(zip(group_sites(sites), numbers, strict=True)):
        if len(site) == 1:
            features.append(_frequent_tokens(examples, sites, seed=seed, key=key, number=number))
        else:
            hashes, is_whole = columns[site_groups(sites).index(group)]
            features.append(_frequent_tuples(examples, site, hashes, is_whole, number=number))
    vocabulary, groups = _vocabulary_and_ranks(examples.contexts, features)
    return _list_features(vocabulary, groups, sites, seed=seed, key=key)


def _frequent_tokens(
    examples: Examples, sites: Sites, *, seed: int, key: bytes | None, number: int
) -> Ints:
    """Return the tokens most frequent at the sites of one position: (number, 1).

    They are as in `_values`.
    """
    contexts = examples.contexts
    single = [site[0] for site in sites.positions if len(site) == 1]
    if contexts.integers is None or len(single) == contexts.h:
        vocabulary = contexts.vocabulary
        ranks = contexts.ranks[:, single]
    else:  # the other columns need no ranks
        vocabulary, ranks = factorize(contexts.integers[:, single])
    weights = np.repeat(examples.multiplicity, len(single))
    totals = np.bincount(ranks.ravel() + 1, weights, len(vocabulary) + 1)[1:]
    present = np.flatnonzero(totals > 0)
    hashes = hashing.vocabulary_hashes(vocabulary, seed, key)[present]
    best = present[_heaviest(hashes, totals[present], number)]
    values = best if contexts.integers is None else vocabulary.ints[best]
    return values[:, None]


def _frequent_tuples(
    examples: Examples, site: tuple[int, ...], hashes: Words, is_whole: Bools, *, number: int
) -> Ints:
    """Return the tuples most frequent at a site, each token as in `_values`: (number, l)."""
    if not number:
        return np.empty((0, len(site)), np.int64)
    values = _values(examples.contexts)
    times = examples.multiplicity
    columns = [values[:, r] for r in site]
    if not is_whole.all():
        columns = [column[is_whole] for column in columns]
        times = times[is_whole]
        hashes = hashes[is_whole]
    # count by hash, and take one row with each hash that is frequent enough
    distinct, index = np.unique(hashes, return_inverse=True)
    best = _heaviest(distinct, np.bincount(index, times, len(distinct)), number)
    is_best = np.zeros(len(distinct), bool)
    is_best[best] = True
    best_rows = np.flatnonzero(is_best[index])
    best_hashes = index[best_rows]
    first = np.zeros(len(distinct), np.int64)
    first[best_hashes] = best_rows
    # two tuples with one hash, which is no accident, are counted by their tokens; among the other
    # rows two tuples of one hash would not be chosen either
    if any((column[best_rows] != column[first[best_hashes]]).any() for column in columns):
        ranks = examples.contexts.ranks[is_whole][:, list(site)]
        _, index = TupleSet.collect(ranks, len(examples.contexts.vocabulary))
        first = np.zeros(int(index.max()) + 1, np.int64)
        first[index] = np.arange(len(index))
        best = _heaviest(hashes[first], np.bincount(index, times, len(first)), number)
    return np.stack([column[first[best]] for column in columns], axis=1).astype(np.int64)


def _values(contexts: Contexts) -> Array:
    """Return the tokens as integers that are equal where they are: themselves, or ranks."""
    return contexts.ranks if contexts.integers is None else contexts.integers


def _heaviest(hashes: Words, totals: Array, number: int) -> Ints:
    """Return which features have the highest totals, ties by hash.

    Of those with one hash it is the first one only.
    """
    order = _descending(hashes, totals, number)
    distinct, firsts = np.unique(hashes[order], return_index=True)
    if len(distinct) < len(order):  # those that go make room for others
        order = _descending(hashes, totals, len(hashes))
        _, firsts = np.unique(hashes[order], return_index=True)
    return order[np.sort(firsts)[:number]]


def _descending(hashes: Words, totals: Array, number: int) -> Ints:
    """Return which features have the highest totals, ties by hash.

    Only as many as requested are put in order.
    """
    if number >= len(totals):
        return np.lexsort((hashes, -totals))
    least = np.inf
    if number:
        least = np.partition(totals, len(totals) - number)[len(totals) - number]
    within = np.flatnonzero(totals >= least)
    return within[np.lexsort((hashes[within], -totals[within]))[:number]]


def _vocabulary_and_ranks(
    contexts: Contexts, features: list[Ints]
) -> tuple[Vocabulary, list[Ints]]:
    """Return the tokens that features hold, and the features as ranks among them."""
    flat = np.concatenate([rows.ravel() for rows in features])
    values, index = np.unique(flat, return_inverse=True)
    if contexts.integers is None:
        mask = np.zeros(len(contexts.vocabulary), bool)
        mask[values] = True
        vocabulary = contexts.vocabulary.keep(mask)
    else:
        vocabulary = Vocabulary(values)
    flat_ranks = np.split(index, np.cumsum([rows.size for rows in features])[:-1])
    ranks = [
        ranks_of_group.reshape(rows.shape)
        for ranks_of_group, rows in zip(flat_ranks, features, strict=True)
    ]
    return vocabulary, ranks


def _list_features(
    vocabulary: Vocabulary,
    groups: list[Ints],
    sites: Sites,
    *,
    seed: int,
    key: bytes | None,
) -> Reserved:
    """Return features as places in a list of their tokens, groups in the order of hashes.

    `groups` has the features of each group as ranks in the vocabulary.
    """
    hashes = hashing.vocabulary_hashes(vocabulary, seed, key)
    distinct, keep = np.unique(hashes, return_index=True)
    if len(distinct) < len(hashes):
        # two tokens of different groups have one hash: features with the second one go
        is_kept = np.zeros(len(hashes), bool)
        is_kept[keep] = True
        groups = [rows[is_kept[rows].all(axis=1)] for rows in groups]
        is_used = np.zeros(len(hashes), bool)
        for rows in groups:
            is_used[rows] = True
        groups = [(np.cumsum(is_used) - 1)[rows] for rows in groups]
        return _list_features(vocabulary.keep(is_used), groups, sites, seed=seed, key=key)
    place = np.empty(len(hashes), np.int64)
    place[keep] = np.arange(len(keep))
    identities = hashing.vocabulary_identities(vocabulary, seed, key)[keep]
    tokens = TokenList(distinct, identities, key is not None)
    unordered = reserve_places(sites, seed, tokens, [place[rows] for rows in groups])
    ordered = [
        rows[np.argsort(row_hashes)]
        for row_hashes, rows in zip(unordered.hashes, unordered.places, strict=True)
    ]
    return reserve_places(sites, seed, tokens, ordered)


def read_reserved(
    stored: StoredArrays, sites: Sites, *, seed: int, key: bytes | None, most: Sequence[int]
) -> Reserved:
    """Return the reserved features from a file, checked.

    No group may have more than its entry of `most`.
    """
    tokens = TokenList.from_arrays(stored.part("reserved"), seed, key)
    n_tokens = max(len(tokens), 1)
    places = [
        stored.whole_numbers(f"reserved.{group}", (None, len(site)), below=n_tokens).astype(
            np.int64
        )
        for group, site in enumerate(group_sites(sites))
    ]
    # a mapped file is not trusted here either
    if any(rows.size and rows.max() >= len(tokens) for rows in places):
        raise ValueError("a reserved feature names a token that is not in the list")
    if any(len(rows) > number for rows, number in zip(places, most, strict=True)):
        raise ValueError("a group of sites has more reserved features than its reserved= allows")
    reserved = reserve_places(sites, seed, tokens, places)
    if stored.trusted:
        return reserved
    if len(np.unique(np.concatenate([rows.ravel() for rows in places]))) != len(tokens):
        raise ValueError("the list of reserved tokens holds one that no feature needs")
    if not all(is_ascending(hashes) for hashes in reserved.hashes):
        raise ValueError("the reserved features of a group are not in the order of their hashes")
    return reserved
