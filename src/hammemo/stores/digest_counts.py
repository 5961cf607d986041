r"""Keyed digests of examples, and how often each is held: a multiset in arrays.

An example becomes

.. math:: \mathrm{BLAKE2b}_{key}(x_1, \dots, x_h, y) \in \{0, 1\}^{128}

over fixed-width words of its tokens and its label, so the digest tells nothing to a reader without the key. The whole
context is digested, also positions that no site compares, and of a row with numbers the numbers themselves, not the
ranges that are counted. Tokens have one identity: 3 and 3.0 are the same. Two different examples share a digest with
probability 2^-128.

Digests are held in ascending order, as two arrays of 64-bit words and one of counts. That base never changes. Small
edits go into an overlay, as in :mod:`hammemo.stores.kept_rows`.
"""

from __future__ import annotations

import struct
from collections import Counter
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hammemo._arrays.integers import narrow
from hammemo._versions import Cached, cached_property
from hammemo.memories.errors import never_stored
from hammemo.stores.layered_counts import LayeredCounts
from hammemo.tokens.contexts import MAX_EXAMPLES, Examples
from hammemo.tokens.hashing import feature_words, joined_digests, vocabulary_words
from hammemo.tokens.vocabulary import NO_TOKEN

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from hammemo._arrays.checked import StoredArrays

DIGEST_BYTES: Final = 16
_NO_TOKEN_WORDS: Final = (0, 0, 2**64 - 1)
"""The words of an empty position: no token has this kind."""

_FEW: Final = 16
"""Edits of up to this number of digests go into the overlay; so do those of up to 1/32 of the base."""

_SMALL_OVERLAY: Final = 1024
"""An overlay of up to this number of digests stays one, however small the base is."""


class Digester:
    """Makes the digests of examples under a key of 16 to 64 bytes."""

    def __init__(self, key: bytes) -> None:
        self._start = blake2b(digest_size=DIGEST_BYTES, key=key, person=b"hammemo digests")

    def of_rows(self, examples: Examples) -> NDArray[np.uint64]:
        """Return the digest of each example.

        Shapes
        ------
        returned : (len(examples), 2)
        """
        contexts = examples.contexts
        empty = np.array([_NO_TOKEN_WORDS], np.uint64)  # which rank -1 reads
        words = np.concatenate([vocabulary_words(contexts.vocabulary), empty])
        tokens = words[contexts.ranks].reshape(len(contexts), 3 * contexts.h)
        rows = np.concatenate([tokens, vocabulary_words(examples.labels)[examples.label_ranks]], axis=1, dtype="<u8")
        data, width = rows.tobytes(), rows.shape[1] * rows.itemsize
        return _as_words(joined_digests(self._start, (data[at : at + width] for at in range(0, len(data), width))))

    def of_row(self, tokens: Sequence[Any], label: Any) -> bytes:
        """Return the digest of one example, whose tokens are canonical."""
        words = [word for token in tokens for word in (_NO_TOKEN_WORDS if token == NO_TOKEN else feature_words(token))]
        return joined_digests(self._start, [struct.pack(f"<{len(words) + 3}Q", *words, *feature_words(label))])


@dataclass(frozen=True, eq=False)
class DigestCounts(Cached):
    """How often each digest is held: a value that never changes.

    Parameters
    ----------
    words : ndarray of uint64, shape (n, 2)
        The digests of the base, ascending; the first word has the higher bits.
    counts : ndarray of shape (n,)
    overlay : LayeredCounts
        How much more often, or less, digests are held than in the base.
    """

    words: NDArray[np.uint64] = field(default_factory=lambda: np.empty((0, 2), np.uint64))
    counts: NDArray[Any] = field(default_factory=lambda: np.empty(0, np.uint8))
    overlay: LayeredCounts[bytes] = field(default_factory=LayeredCounts)

    def __getstate__(self) -> dict[str, Any]:
        base = self.base  # a digest that was removed is in base and overlay still: copies do not have it
        return {name: value for name, value in vars(base).items() if name not in ("base", "high")}

    def __len__(self) -> int:
        return len(self.base.counts)

    @property
    def total(self) -> int:
        """How many examples are held, copies counted."""
        return int(self.base.counts.sum(dtype=np.int64))

    @cached_property
    def base(self) -> DigestCounts:
        """The same digests without an overlay."""
        counts = self.overlay.counts()
        made = replace(self, overlay=LayeredCounts()) if self.overlay.n_entries else self
        times = np.fromiter(counts.values(), np.int64, len(counts))
        return made.merged(_as_words(b"".join(counts)), times) if counts else made

    @cached_property
    def high(self) -> NDArray[np.uint64]:
        """The first word of each digest of the base."""
        return np.ascontiguousarray(self.words[:, 0])

    def count(self, digest: bytes) -> int:
        """Return how often a digest is held."""
        high, low = struct.unpack(">QQ", digest)
        place, found = int(self.high.searchsorted(np.uint64(high))), 0
        while place < len(self.words) and int(self.high[place]) == high:
            if int(self.words[place, 1]) == low:
                found = int(self.counts[place])
            place += 1
        return found + self.overlay.count(digest)

    def times(self, words: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Return how often each of these digests is held.

        Shapes
        ------
        words : (m, 2)
        returned : (m,)
        """
        base = self.base
        places, last = base.high.searchsorted(words[:, 0]), len(base.words) - 1
        if last < 0:
            return np.zeros(len(words), np.int64)
        while True:  # once, unless two digests share the first word
            here = base.words[np.minimum(places, last)]
            same = (here[:, 0] == words[:, 0]) & (places <= last)
            lower = same & (here[:, 1] < words[:, 1])
            if not lower.any():
                break
            places = places + lower
        same &= here[:, 1] == words[:, 1]
        return np.where(same, base.counts[np.minimum(places, last)].astype(np.int64), 0)

    def plus(self, words: NDArray[np.uint64], times: NDArray[np.int64]) -> DigestCounts:
        """Return it with these digests held more often or, with numbers below zero, less; or raise NotStoredError.

        Shapes
        ------
        words : (m, 2)
        times : (m,)
        """
        if len(words) > max(_FEW, len(self.words) // 32) or len(words) >= len(self.words):
            return self.base.merged(words, times)
        entries: Counter[bytes] = Counter()
        for digest, by in zip(_as_bytes(words), times.tolist(), strict=True):
            entries[digest] += by
        return self.plus_few(entries)

    def plus_few(self, entries: Mapping[bytes, int]) -> DigestCounts:
        """Return the same as `plus` by a change of the overlay: in microseconds."""
        if any(by < 0 and self.count(digest) + by < 0 for digest, by in entries.items()):
            raise never_stored()
        changed = object.__new__(DigestCounts)  # not `replace`: single edits take microseconds
        overlay = self.overlay.plus(entries)
        vars(changed).update(vars(self), overlay=overlay)  # also what is known of the base, which both share
        vars(changed).pop("base", None)
        return changed.base if overlay.n_entries > max(_SMALL_OVERLAY, len(self.words) // 16) else changed

    def merged(self, words: NDArray[np.uint64], times: NDArray[np.int64]) -> DigestCounts:
        """Return the base with these digests held more or less often."""
        words = np.concatenate([self.words, words])
        times = np.concatenate([self.counts.astype(np.int64), times])
        order, firsts = distinct_digests(words)
        words, times = words[order], times[order]
        sums = np.add.reduceat(times, firsts) if len(firsts) else times
        if (sums < 0).any():
            raise never_stored()
        held = sums > 0
        return DigestCounts(words[firsts[held]], narrow(sums[held]))

    def state(self) -> dict[str, NDArray[Any]]:
        """Return the digests in ascending order and their counts, as arrays."""
        base = self.base
        data = base.words.astype(">u8").tobytes()
        return {"digests": np.frombuffer(data, np.uint8).reshape(-1, DIGEST_BYTES), "digest_counts": base.counts}

    @classmethod
    def restored(cls, stored: StoredArrays) -> DigestCounts:
        """Return the digests of these arrays, checked: undo `state`."""
        digests = stored.take("digests", "uint8", (None, DIGEST_BYTES))
        counts = stored.whole_numbers("digest_counts", (len(digests),), below=MAX_EXAMPLES, least=1)
        words = _as_words(digests.tobytes())
        high, low = words[:, 0], words[:, 1]
        if not ((high[1:] > high[:-1]) | ((high[1:] == high[:-1]) & (low[1:] > low[:-1]))).all():
            raise ValueError("the digests of its rows are not strictly ascending")
        return cls(words, counts)


def distinct_digests(words: NDArray[np.uint64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the ascending order of digests, and where in it each distinct one stands first.

    The base is in order already, so that a stable sort merges.

    Shapes
    ------
    words : (n, 2); returned : (n,), (d,)
    """
    order = np.argsort(words[:, 0], kind="stable")
    high, low = words[order, 0], words[order, 1]
    if ((high[1:] == high[:-1]) & (low[1:] < low[:-1])).any():  # two digests share the first word
        order = np.lexsort((words[:, 1], words[:, 0]))
    words = words[order]
    return order, np.flatnonzero(np.append(True, (words[1:] != words[:-1]).any(axis=1))[: len(words)])


def _as_words(digests: bytes) -> NDArray[np.uint64]:
    return np.frombuffer(digests, ">u8").astype(np.uint64).reshape(-1, 2)


def _as_bytes(words: NDArray[np.uint64]) -> list[bytes]:
    data = words.astype(">u8").tobytes()
    return [data[start : start + DIGEST_BYTES] for start in range(0, len(data), DIGEST_BYTES)]
