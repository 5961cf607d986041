"""From a token to fixed-width words: the one place where tokens become numbers for codes.

Integers keep their value, so two of them never collide. Floats keep their bits. Strings and tuples of tokens become
128-bit BLAKE2b digests of an encoding that no two of them share; a collision would need about 2^64 of them.
"""

from __future__ import annotations

import hashlib
import struct
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from hammemo.tokens import Token

Feature: TypeAlias = "Token | tuple[Token, ...]"
"""What one site holds: a token, or a tuple of them for a site of several positions."""

_INTEGER, _FLOAT, _STRING, _TUPLE = range(4)
_MASK = 2**64 - 1


def feature_words(feature: Feature) -> tuple[int, int, int]:
    """Return three 64-bit words (value, value, kind) that name a token or a tuple of tokens.

    Examples
    --------
    >>> from hammemo.hashing import feature_words
    >>> feature_words(7)
    (7, 0, 0)
    >>> feature_words(-1) == (2**64 - 1, 0, 0), feature_words("7") == feature_words(7)
    (True, False)
    """
    if isinstance(feature, int):
        return feature & _MASK, 0, _INTEGER
    if isinstance(feature, float):
        return struct.unpack("<Q", struct.pack("<d", feature))[0], 0, _FLOAT
    kind = _STRING if isinstance(feature, str) else _TUPLE
    low, high = struct.unpack("<QQ", hashlib.blake2b(_encode(feature), digest_size=16, person=b"hammemo").digest())
    return low, high, kind


def features_of(tokens: Sequence[Token], rows: NDArray[np.int64]) -> list[Feature]:
    """Return the features that rows of ranks name: the token itself where a row has one entry, else a tuple.

    Examples
    --------
    >>> import numpy as np
    >>> from hammemo.hashing import features_of
    >>> features_of(["a", "b"], np.array([[1], [0]])), features_of(["a", "b"], np.array([[1, 0]]))
    (['b', 'a'], [('b', 'a')])
    """
    if rows.shape[1] == 1:
        return [tokens[rank] for rank in rows[:, 0].tolist()]
    return [tuple(tokens[rank] for rank in row) for row in rows.tolist()]


def key_words(*parts: int | str) -> tuple[int, int]:
    """Return two 64-bit words that depend on every part: the key of one family of codes."""
    payload = b"".join(_length_prefixed(str(part).encode()) for part in parts)
    low, high = struct.unpack("<QQ", hashlib.blake2b(payload, digest_size=16, person=b"hammemo key").digest())
    return low, high


def _encode(feature: Feature) -> bytes:
    if isinstance(feature, tuple):
        return b"".join(_length_prefixed(bytes([_kind(token)]) + _encode(token)) for token in feature)
    if isinstance(feature, int):
        return struct.pack("<q", feature)
    if isinstance(feature, float):
        return struct.pack("<d", feature)
    return feature.encode("utf-8", "surrogatepass")


def _kind(token: Token) -> int:
    return _INTEGER if isinstance(token, int) else _FLOAT if isinstance(token, float) else _STRING


def _length_prefixed(data: bytes) -> bytes:
    return struct.pack("<Q", len(data)) + data
