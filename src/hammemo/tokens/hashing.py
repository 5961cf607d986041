"""From a token to fixed-width words: the one place where tokens become numbers for codes.

For Gaussian codes, `feature_words`: integers keep their value, so two of them never collide. Floats
keep their bits. Strings and tuples of tokens become 128-bit BLAKE2b digests of an encoding that no
two of them share; a collision would need about 2^64 of them.

For buckets, `token_hashes`: one 64-bit word. Strings are hashed by BLAKE2b with the seed, once for
each distinct one. Integers go through an invertible mix of the seed and the value, so that no two
of them collide. This is fast, but it does not protect: a person who chooses the integers can make
them all fall into one bucket. With a secret key, all hashes are keyed: BLAKE2b for strings,
SipHash-2-4 for numbers. Use a key when tokens come from people you do not trust. The hash of a
tuple combines the hashes of its tokens with the same mix. With a key these are not known, so no
enemy can choose where a tuple falls.

An attacker can also make an integer, a float or a tuple that has the word of another token or
tuple. So a word proves nothing. For proofs, `vocabulary_identities`: what no two tokens share,
unless there is a known collision of a cryptographic hash. The kind (integer, float, string), then
the number's 64 bits themselves, or BLAKE2b-256 of the string with its kind before it. With a key
BLAKE2b-256 is keyed, and a number is known by SipHash-2-4-128, so that nothing readable is kept.
"""

from __future__ import annotations

import hashlib
import struct
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from hammemo._arrays.types import Ints, Words
    from hammemo.tokens.vocabulary import Token, Vocabulary

Feature: TypeAlias = "Token | tuple[Token, ...]"
"""What one site holds: a token, or a tuple of them for a site of several positions."""

INTEGER: Final = 0
FLOAT: Final = 1
STRING: Final = 2
_TUPLE: Final = 3

IDENTITY_BYTES: Final = 33
"""The length of what `vocabulary_identities` returns for a token."""
NAME_BYTES: Final = 16
"""The length of what `name_hashes` returns for a token."""

_MASK: Final = 2**64 - 1
_FEATURE: Final = hashlib.blake2b(digest_size=16, person=b"hammemo")
"""The hash of strings and tuples at its start: to copy it takes half the time of a new one."""

# The constants of SplitMix64's finaliser.
_FIRST_FACTOR: Final = 0xBF58476D1CE4E5B9
_SECOND_FACTOR: Final = 0x94D049BB133111EB

# The constants of SipHash-2-4: "somepseudorandomlygeneratedbytes", which the key is mixed with;
# what ends a message for an output of 8 and of 16 bytes, and the numbers of rounds.
_SIP_START: Final = (
    0x736F6D6570736575,
    0x646F72616E646F6D,
    0x6C7967656E657261,
    0x7465646279746573,
)
_SIP_END_64: Final = 0xFF
_SIP_END_128: Final = 0xEE
_SIP_SECOND_HALF: Final = 0xDD
_SIP_MESSAGE_ROUNDS: Final = 2
_SIP_LAST_ROUNDS: Final = 4
_SIP_LENGTH_BLOCK: Final = 8 << 56
"""The last block of a message of 8 bytes: its length in the highest byte."""


class FeatureWords(NamedTuple):
    """Three 64-bit words that name a token or a tuple of tokens."""

    low: int
    """A number itself, or the lower half of a digest."""
    high: int
    """Zero for a number, or the upper half of a digest."""
    kind: int
    """`INTEGER`, `FLOAT`, `STRING` or that of tuples."""


def feature_words(feature: Feature) -> FeatureWords:
    """Return the words that name a token or a tuple of tokens.

    Examples
    --------
    >>> from hammemo.tokens.hashing import feature_words
    >>> feature_words(7)
    FeatureWords(low=7, high=0, kind=0)
    >>> feature_words(-1) == (2**64 - 1, 0, 0), feature_words("7") == feature_words(7)
    (True, False)
    """
    words: list[int] = []
    add_feature_words(words, feature)
    return FeatureWords._make(words)


def add_feature_words(words: list[int], feature: Feature) -> None:
    """Add the words of `feature_words` to a list.

    Edits of single rows take microseconds: they build no tuple for each token.
    """
    if isinstance(feature, int):
        words += (feature & _MASK, 0, INTEGER)
    elif isinstance(feature, float):
        (bits,) = struct.unpack("<Q", struct.pack("<d", feature))
        words += (bits, 0, FLOAT)
    else:
        kind = STRING if isinstance(feature, str) else _TUPLE
        digest = _FEATURE.copy()
        digest.update(_encode(feature))
        words += struct.unpack("<QQ", digest.digest())
        words.append(kind)


def vocabulary_words(vocabulary: Vocabulary) -> Words:
    """Return `feature_words` of a whole vocabulary.

    Shapes
    ------
    returned : (number of tokens, 3)

    Examples
    --------
    >>> from hammemo.tokens.hashing import feature_words, vocabulary_words
    >>> from hammemo.tokens.vocabulary import Vocabulary
    >>> words = vocabulary_words(Vocabulary.of([-1, 0.5, "a"]))
    >>> words.tolist() == [list(feature_words(token)) for token in (-1, 0.5, "a")]
    True
    """
    n_ints = len(vocabulary.ints)
    n_numbers = n_ints + len(vocabulary.floats)
    words = np.zeros((len(vocabulary), 3), np.uint64)
    words[:n_ints, 0] = vocabulary.ints.view(np.uint64)
    words[:n_ints, 2] = INTEGER
    words[n_ints:n_numbers, 0] = vocabulary.floats.view(np.uint64)
    words[n_ints:n_numbers, 2] = FLOAT
    digests = join_digests(_FEATURE, _encode_strings(vocabulary))
    words[n_numbers:, :2] = np.frombuffer(digests, "<u8").reshape(-1, 2)
    words[n_numbers:, 2] = STRING
    return words


def features_of(tokens: Sequence[Token], rows: Ints) -> list[Feature]:
    """Return the features that rows of ranks name: tokens, or tuples of several tokens.

    Examples
    --------
    >>> import numpy as np
    >>> from hammemo.tokens.hashing import features_of
    >>> features_of(["a", "b"], np.array([[1], [0]])), features_of(["a", "b"], np.array([[1, 0]]))
    (['b', 'a'], [('b', 'a')])
    """
    if rows.shape[1] == 1:
        return [tokens[rank] for rank in rows[:, 0].tolist()]
    return [tuple(tokens[rank] for rank in row) for row in rows.tolist()]


@lru_cache(maxsize=4096, typed=True)
def key_words(*names: int | str) -> tuple[int, int]:
    """Return two 64-bit words that depend on every name: the key of one family of codes."""
    payload = b"".join(_prefix_length(str(name).encode()) for name in names)
    digest = hashlib.blake2b(payload, digest_size=16, person=b"hammemo key").digest()
    low, high = struct.unpack("<QQ", digest)
    return low, high


def token_hashes(tokens: Sequence[Token], seed: int, key: bytes | None = None) -> Words:
    """Return one 64-bit word for each token, a pure function of the seed, the key and the token.

    Examples
    --------
    >>> from hammemo.tokens.hashing import token_hashes
    >>> a, b = token_hashes(["cat", "dog"], seed=0), token_hashes(["dog"], seed=0)
    >>> bool(a[1] == b[0]), bool(a[0] == a[1])
    (True, False)
    """
    words = np.empty(len(tokens), np.uint64)
    kinds = np.fromiter(map(_kind, tokens), np.int8, len(tokens))
    chosen = np.flatnonzero(kinds == STRING)
    words[chosen] = _hash_encoded([_encode(tokens[i]) for i in chosen.tolist()], seed, key)
    for kind, name in ((INTEGER, "integers"), (FLOAT, "floats")):
        chosen = np.flatnonzero(kinds == kind)
        numbers = np.array([feature_words(tokens[i])[0] for i in chosen.tolist()], np.uint64)
        words[chosen] = hash_numbers(numbers, seed, key, name)
    return words


def vocabulary_hashes(vocabulary: Vocabulary, seed: int, key: bytes | None = None) -> Words:
    """Return `token_hashes` of a whole vocabulary, its numbers all at once."""
    return np.concatenate(
        [
            hash_numbers(vocabulary.ints.view(np.uint64), seed, key),
            hash_numbers(vocabulary.floats.view(np.uint64), seed, key, "floats"),
            _hash_encoded(_encode_strings(vocabulary), seed, key),
        ]
    )


def vocabulary_identities(
    vocabulary: Vocabulary, seed: int, key: bytes | None = None
) -> NDArray[np.uint8]:
    """Return the identity of each token.

    Its first byte is the kind; then come up to 32 bytes, and zeros behind.

    Shapes
    ------
    returned : (number of tokens, IDENTITY_BYTES)

    Examples
    --------
    >>> from hammemo.tokens.hashing import vocabulary_identities
    >>> from hammemo.tokens.vocabulary import Vocabulary
    >>> vocabulary_identities(Vocabulary.of([7, "7"]), seed=0)[:, :3].tolist()[0]
    [0, 7, 0]
    """
    strings = np.zeros((len(vocabulary.strings), IDENTITY_BYTES), np.uint8)
    strings[:, 0] = STRING
    start = hashlib.blake2b(
        bytes([STRING]),
        digest_size=32,
        key=_derive_secret(key),
        salt=_family_salt(seed),
        person=b"hammemo identity",
    )
    digests = np.frombuffer(join_digests(start, _encode_strings(vocabulary)), np.uint8)
    strings[:, 1:] = digests.reshape(-1, IDENTITY_BYTES - 1)
    return np.concatenate(
        [
            number_identities(vocabulary.ints.view(np.uint64), seed, key),
            number_identities(vocabulary.floats.view(np.uint64), seed, key, "floats"),
            strings,
        ]
    )


def name_hashes(tokens: Iterable[Token], key: bytes) -> list[bytes]:
    """Return a keyed hash of each token, `NAME_BYTES` long.

    With the key one can test a guess, but not read a name.

    Examples
    --------
    >>> from hammemo.tokens.hashing import name_hashes
    >>> first, second = name_hashes(["7", 7], bytes(16))
    >>> len(first), first == second, name_hashes([7], bytes(16)) == [second]
    (16, False, True)
    """
    start = hashlib.blake2b(digest_size=NAME_BYTES, key=key, person=b"hammemo name")
    return _digest_list(start, (bytes([_kind(token)]) + _encode(token) for token in tokens))


def _hash_encoded(encoded: list[bytes], seed: int, key: bytes | None) -> Words:
    """Return the hashes of encoded strings."""
    start = hashlib.blake2b(
        digest_size=8, key=_derive_secret(key), salt=_family_salt(seed), person=b"hammemo string"
    )
    return np.frombuffer(join_digests(start, encoded), "<u8").astype(np.uint64)


def _encode_strings(vocabulary: Vocabulary) -> list[bytes]:
    return [string.encode("utf-8", "surrogatepass") for string in vocabulary.strings.tolist()]


def join_digests(start: Any, encoded: Iterable[bytes]) -> bytes:
    """Return the digest of each message, end to end."""
    return b"".join(_digest_list(start, encoded))


def _digest_list(start: Any, encoded: Iterable[bytes]) -> list[bytes]:
    """Return the digest of each message; `start` is the hash before the message."""
    digests = []
    for message in encoded:
        message_hash = start.copy()
        message_hash.update(message)
        digests.append(message_hash.digest())
    return digests


def number_identities(
    words: Words, seed: int, key: bytes | None = None, name: str = "integers"
) -> NDArray[np.uint8]:
    """Return the identities of numbers given as 64-bit words, as in `vocabulary_identities`.

    Behind the kind come the 8 bytes of the word itself or, with a key, the 16 of its SipHash.

    Parameters
    ----------
    words : ndarray of uint64, shape (n,)
    seed : int
    key : bytes, optional
    name : {"integers", "floats"}
        What the words are the bits of.

    Shapes
    ------
    returned : (n, IDENTITY_BYTES)
    """
    if key is None:
        parts = [words]
    else:
        parts = siphash128(words, *number_key(seed, key, name))
    identities = np.zeros((len(words), IDENTITY_BYTES), np.uint8)
    identities[:, 0] = INTEGER if name == "integers" else FLOAT
    for j, part in enumerate(parts):
        part_bytes = part.astype("<u8")[:, None].view(np.uint8)
        identities[:, 1 + 8 * j : 9 + 8 * j] = part_bytes
    return identities


def hash_numbers(
    words: Words, seed: int, key: bytes | None = None, name: str = "integers"
) -> Words:
    """Return the hashes of numbers given as 64-bit words: mixed with the seed, or SipHash."""
    first, second = number_key(seed, key, name)
    if key is None:
        return mix(words ^ np.uint64(first)) ^ np.uint64(second)
    return siphash(words, first, second)


def unhash_numbers(hashes: Words, seed: int, name: str = "integers") -> Words:
    """Return the numbers, as 64-bit words, that have these hashes: undo `hash_numbers`.

    Hashes under a key cannot be reversed.

    Examples
    --------
    >>> import numpy as np
    >>> from hammemo.tokens.hashing import hash_numbers, unhash_numbers
    >>> unhash_numbers(hash_numbers(np.array([7, 2**64 - 1], np.uint64), seed=3), seed=3)
    array([                   7, 18446744073709551615], dtype=uint64)
    """
    first, second = number_key(seed, None, name)
    # The steps of `mix` from the last to the first; odd factors have an inverse modulo 2^64.
    words = _undo_shift(hashes ^ np.uint64(second), 31)
    words = _undo_shift(words * np.uint64(pow(_SECOND_FACTOR, -1, 2**64)), 27)
    words = _undo_shift(words * np.uint64(pow(_FIRST_FACTOR, -1, 2**64)), 30)
    return np.asarray(words ^ np.uint64(first), np.uint64)


def _undo_shift(words: Words, bits: int) -> Words:
    """Return the x for which ``x ^ (x >> bits)`` is `words`, for shifts of at least 22 bits.

    With y for `words` and s for the shift, x is y ^ (y >> s) ^ (y >> 2s) ^ (y >> 3s) ^ ...: each
    term cancels what the one before has added. From 3s on nothing of 64 bits is left.
    """
    once = words >> np.uint64(bits)
    twice = words >> np.uint64(2 * bits)
    return np.asarray(words ^ once ^ twice, np.uint64)


def number_key(seed: int, key: bytes | None = None, name: str = "integers") -> tuple[int, int]:
    """Return the two words that `hash_numbers` mixes in or, with a secret key, hashes under."""
    if key is None:
        return key_words(seed, name)
    digest = hashlib.blake2b(
        _derive_secret(key) + _family_salt(seed), digest_size=16, salt=name.encode()
    ).digest()
    first, second = struct.unpack("<QQ", digest)
    return first, second


def _derive_secret(key: bytes | None) -> bytes:
    """Return a key of the length that BLAKE2b takes, from one of any length or none."""
    return hashlib.blake2b(key or b"", digest_size=32, person=b"hammemo secret").digest()


def _family_salt(seed: int) -> bytes:
    """Return the salt of all hashes of one seed: hashes of two seeds are independent."""
    return struct.pack("<QQ", *key_words(seed, "buckets"))


def fold(columns: Sequence[Words], start: int) -> Words:
    """Return the hashes of tuples of tokens from the hashes of their tokens.

    Parameters
    ----------
    columns : sequence of ndarray of uint64
        One array for each position: the hashes of the tokens there, one for each tuple.
    start : int
        The word that folding starts with; each site has one of its own.
    """
    words = np.full(len(columns[0]), np.uint64(start))
    for column in columns:
        words = mix(words ^ column)
    return words


def mix(words: Words) -> Words:
    """Return the words well mixed: an invertible map (the finaliser of SplitMix64)."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(_FIRST_FACTOR)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(_SECOND_FACTOR)
    return np.asarray(words ^ (words >> np.uint64(31)), np.uint64)


def mix_one(word: int) -> int:
    """Return `mix` of one word, for single rows: NumPy's calls would take most of the time."""
    word = ((word ^ (word >> 30)) * _FIRST_FACTOR) & _MASK
    word = ((word ^ (word >> 27)) * _SECOND_FACTOR) & _MASK
    return word ^ (word >> 31)


def siphash(words: Words, k0: int, k1: int) -> Words:
    """Return SipHash-2-4 of each word as an 8-byte little-endian message under the key (k0, k1).

    By hand because hashlib has no SipHash and a call per integer would be slow; tested on the
    authors' vectors.
    """
    v = _sip_absorb(words, k0, k1)
    v[2] = v[2] ^ np.uint64(_SIP_END_64)
    return _sip_finish(v)


def siphash128(words: Words, k0: int, k1: int) -> list[Words]:
    """Return SipHash-2-4-128 of each word as an 8-byte message under the key (k0, k1).

    The two results are the lower and the upper half.
    """
    v = _sip_absorb(words, k0, k1, tweak=_SIP_END_128)
    v[2] = v[2] ^ np.uint64(_SIP_END_128)
    low = _sip_finish(v)  # works on `v` itself: the upper half goes on from there
    v[1] = v[1] ^ np.uint64(_SIP_SECOND_HALF)
    high = _sip_finish(v)
    return [low, high]


def _sip_absorb(words: Words, k0: int, k1: int, *, tweak: int = 0) -> list[Words]:
    """Return SipHash's state of four words after a message of one word.

    `tweak` sets outputs of 16 bytes apart from those of 8, for which it is zero.
    """
    first = np.uint64(k0)
    second = np.uint64(k1)
    v = [
        np.full(words.shape, first ^ np.uint64(_SIP_START[0])),
        np.full(words.shape, second ^ np.uint64(_SIP_START[1] ^ tweak)),
        np.full(words.shape, first ^ np.uint64(_SIP_START[2])),
        np.full(words.shape, second ^ np.uint64(_SIP_START[3])),
    ]
    length_block = np.full(words.shape, np.uint64(_SIP_LENGTH_BLOCK))
    for block in (words, length_block):
        v[3] = v[3] ^ block
        _sip_rounds(v, _SIP_MESSAGE_ROUNDS)
        v[0] = v[0] ^ block
    return v


def _sip_finish(v: list[Words]) -> Words:
    """Run the last rounds on a state, and return the hash."""
    _sip_rounds(v, _SIP_LAST_ROUNDS)
    return np.asarray(v[0] ^ v[1] ^ v[2] ^ v[3], np.uint64)


def _sip_rounds(v: list[Words], rounds: int) -> None:
    for _ in range(rounds):
        v[0] = v[0] + v[1]
        v[1] = _rotate(v[1], 13) ^ v[0]
        v[0] = _rotate(v[0], 32)
        v[2] = v[2] + v[3]
        v[3] = _rotate(v[3], 16) ^ v[2]
        v[0] = v[0] + v[3]
        v[3] = _rotate(v[3], 21) ^ v[0]
        v[2] = v[2] + v[1]
        v[1] = _rotate(v[1], 17) ^ v[2]
        v[2] = _rotate(v[2], 32)


def _rotate(words: Words, bits: int) -> Words:
    return (words << np.uint64(bits)) | (words >> np.uint64(64 - bits))


def _encode(feature: Feature) -> bytes:
    """Return a feature as bytes that no other feature of its kind has.

    In a tuple each token has its length and its kind before it, so that where one ends and the next
    begins is certain.
    """
    if isinstance(feature, tuple):
        return b"".join(_prefix_length(bytes([_kind(token)]) + _encode(token)) for token in feature)
    if isinstance(feature, int):
        return struct.pack("<q", feature)
    if isinstance(feature, float):
        return struct.pack("<d", feature)
    return feature.encode("utf-8", "surrogatepass")  # a token may have a lone surrogate


def _kind(token: Token) -> int:
    if isinstance(token, int):
        return INTEGER
    return FLOAT if isinstance(token, float) else STRING


def _prefix_length(data: bytes) -> bytes:
    return struct.pack("<Q", len(data)) + data
