"""Tokens and tuples that are made to have the 64-bit hash of others.

Anyone who knows the seed can make them. The mix of `hashing` is invertible, so for every word there
is an integer, and mostly a float, that has it as its hash; and for every tuple, every other
beginning can be completed to a tuple with the same hash.
"""

from __future__ import annotations

import math
import struct
from typing import TYPE_CHECKING

import numpy as np

from hammemo.tokens.hashing import fold, key_words, mix, number_key, token_hashes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hammemo.tokens.vocabulary import Token


def numbers_hashed_to(
    words: NDArray[np.uint64], seed: int, name: str = "integers"
) -> NDArray[np.uint64]:
    """Return the numbers, as 64-bit words, whose hashes without a key are these.

    It is the mix of `hashing`, backwards: an odd factor is undone by its inverse modulo 2**64.
    """
    first, second = number_key(seed, None, name)
    x = words ^ np.uint64(second)
    x = _undo_shift(x, 31) * np.uint64(pow(0x94D049BB133111EB, -1, 2**64))
    x = _undo_shift(x, 27) * np.uint64(pow(0xBF58476D1CE4E5B9, -1, 2**64))
    return np.asarray(_undo_shift(x, 30) ^ np.uint64(first), np.uint64)


def integers_hashed_to(words: NDArray[np.uint64], seed: int) -> NDArray[np.int64]:
    """Return the integers whose hashes are these words."""
    return numbers_hashed_to(words, seed).view(np.int64)


def integer_like(token: Token, seed: int) -> int:
    """Return the integer that has the hash of this token."""
    return int(integers_hashed_to(token_hashes([token], seed), seed)[0])


def float_like(token: Token, seed: int) -> float | None:
    """Return the float that has the hash of this token, or None.

    Not finite numbers are no tokens, and whole ones are those of integers.
    """
    word = numbers_hashed_to(token_hashes([token], seed), seed, "floats")
    value: float = struct.unpack("<d", word.tobytes())[0]
    if not math.isfinite(value) or value.is_integer():
        return None
    return value


def tuples_like(
    tuples: NDArray[np.int64], beginnings: NDArray[np.int64], site: tuple[int, ...], seed: int
) -> NDArray[np.int64]:
    """Return tuples with these beginnings that have the hashes of `tuples` at a site.

    Shapes
    ------
    tuples : (n, l); beginnings : (n, l - 1); returned : (n, l)
    """
    start = key_words(seed, "site", *site)[1]
    hashes = _hash_integers(tuples, seed)
    tuple_folds = fold(list(hashes.T[:-1]), start)
    beginning_folds = fold(list(_hash_integers(beginnings, seed).T), start)
    # mix(beginning ^ last) is then mix(tuple without its last ^ hash of its last)
    last = tuple_folds ^ hashes[:, -1] ^ beginning_folds
    return np.column_stack([beginnings, integers_hashed_to(last, seed)])


def _hash_integers(values: NDArray[np.int64], seed: int) -> NDArray[np.uint64]:
    first, second = number_key(seed)
    return mix(np.ascontiguousarray(values).view(np.uint64) ^ np.uint64(first)) ^ np.uint64(second)


def _undo_shift(x: NDArray[np.uint64], bits: int) -> NDArray[np.uint64]:
    """Return y such that y ^ (y >> bits) is x, for shifts of at least 22 bits."""
    return np.asarray(x ^ (x >> np.uint64(bits)) ^ (x >> np.uint64(2 * bits)), np.uint64)
