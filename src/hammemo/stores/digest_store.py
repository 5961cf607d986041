r"""Digests of all examples, with or without rows: forgetting that refuses what was never learnt.

A memory of counts cannot know which examples it holds. ModelStore (a, c) → y and (d, b) → y: then a stands at the first
position once, b at the second once, and y has two examples, so removing (a, b) → y makes no count negative, although
(a, b) was never stored. A sketch knows even less. Kept rows know it while all of them are kept. This store knows it
always: it holds a keyed digest of each example, and how often it was stored (:mod:`hammemo.stores.digest_store`). An
example is removed only if its digest is there often enough; otherwise `NotStoredError` is raised and nothing changes.

Rows or documents may be kept beside the digests, up to their budget: what `refit` chooses by and fits weights to.
Without them no row is stored in plain text.

What digests reveal: anyone who holds the key can test whether a guessed example is stored; anyone else learns how many
distinct examples there are and how often each occurs. Without a key of its own, a store uses one made from the seed,
which is not a secret: then anyone with the model and the seed can recompute the digests of examples that can be
guessed.

Keyed digests of examples, and how often each is held: a multiset in arrays.

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
from sklearn.base import BaseEstimator

from hammemo._arrays.integers import narrow
from hammemo._versions import Cached, cached_property
from hammemo.memories.errors import LayoutError, NotStoredError, never_stored, not_held
from hammemo.memories.secret_keys import SecretKey, check_secret, secret_digest
from hammemo.stores.kept import Kept, LayeredCounts, ModelStore
from hammemo.stores.kept_rows import row_of
from hammemo.tokens.contexts import MAX_EXAMPLES, Examples
from hammemo.tokens.hashing import feature_words, joined_digests, key_words, vocabulary_words
from hammemo.tokens.vocabulary import NO_TOKEN

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from hammemo._arrays.checked import StoredArrays
    from hammemo._arrays.types import Array, Ints, Words
    from hammemo.tokens.streams import Block
    from hammemo.tokens.vocabulary import Vocabulary

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

    def of_rows(self, examples: Examples) -> Words:
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

    words: Words = field(default_factory=lambda: np.empty((0, 2), np.uint64))
    counts: Array = field(default_factory=lambda: np.empty(0, np.uint8))
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
    def high(self) -> Words:
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

    def times(self, words: Words) -> Ints:
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

    def plus(self, words: Words, times: Ints) -> DigestCounts:
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

    def merged(self, words: Words, times: Ints) -> DigestCounts:
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

    def state(self) -> dict[str, Array]:
        """Return the digests in ascending order and their counts, as arrays."""
        base = self.base
        data = base.words.astype(">u8").tobytes()
        return {"digests": np.frombuffer(data, np.uint8).reshape(-1, DIGEST_BYTES), "digest_counts": base.counts}

    @classmethod
    def restored(cls, stored: StoredArrays) -> DigestCounts:
        """Return the digests of these arrays, checked: undo `state`."""
        digests = stored.take("digests", "uint8", (None, DIGEST_BYTES))
        counts = stored.multiplicities("digest_counts", (len(digests),), below=MAX_EXAMPLES, least=1)
        words = _as_words(digests.tobytes())
        high, low = words[:, 0], words[:, 1]
        if not ((high[1:] > high[:-1]) | ((high[1:] == high[:-1]) & (low[1:] > low[:-1]))).all():
            raise ValueError("the digests of its rows are not strictly ascending")
        return cls(words, counts)


def distinct_digests(words: Words) -> tuple[Ints, Ints]:
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


def _as_words(digests: bytes) -> Words:
    return np.frombuffer(digests, ">u8").astype(np.uint64).reshape(-1, 2)


def _as_bytes(words: Words) -> list[bytes]:
    data = words.astype(">u8").tobytes()
    return [data[start : start + DIGEST_BYTES] for start in range(0, len(data), DIGEST_BYTES)]


NAMES: Final[dict[str, str | bool]] = {"digests": False, "auto+digests": "auto", "rows+digests": True}
"""The short spellings of `Digests`, and which rows each keeps."""


class Digests(BaseEstimator):
    """A value of ``keep``: a model stores keyed digests of all its rows, so that `forget` refuses rows never learnt.

    ``keep="digests"`` is short for ``Digests()``, ``"rows+digests"`` for ``Digests(rows=True)`` and ``"auto+digests"``
    for ``Digests(rows="auto")``.

    Parameters
    ----------
    rows : {"auto", True, False} or int
        The rows in plain text that are kept beside the digests, as ``keep`` of `MemoryClassifier`.
    key : bytes, optional
        A secret of 16 to 64 bytes. Without it, anyone who knows the seed can recompute the digests of examples that can
        be guessed. Models that are to be merged need the same key.

    Examples
    --------
    >>> from hammemo import MemoryClassifier
    >>> from hammemo.memories import Hashed
    >>> clf = MemoryClassifier(memory=Hashed(buckets=64, reserved=8), keep="digests")
    >>> clf = clf.fit([["a", "c"], ["d", "b"]], ["y", "y"])
    >>> clf.forget([["a", "b"]], ["y"])  # its tokens are all there, but this example never was
    Traceback (most recent call last):
        ...
    hammemo.memories.errors.NotStoredError: 1 of 1 examples to be removed is not stored, or not that many ...
    >>> clf.forget([["a", "c"]], ["y"]).memory_.label_counts.tolist()
    [1]
    """

    key = SecretKey()
    secret = "key"

    def __init__(self, rows: str | bool | int = False, key: bytes | None = None) -> None:
        self.rows = rows
        self.key = key

    @classmethod
    def of(cls, keep: Any) -> Digests | None:
        """Return what a value of ``keep`` says of digests; None where it asks for none."""
        if isinstance(keep, str) and keep in NAMES:
            return cls(NAMES[keep])
        return keep if isinstance(keep, Digests) else None


@dataclass(frozen=True, eq=False)
class DigestStore(ModelStore):
    """Digests of all examples, and the rows or documents that are kept beside them, if any are.

    Parameters
    ----------
    h, seed
        As in `ModelStore`.
    key : bytes, optional
        The secret; without it, one is made from the seed.
    digests : DigestCounts
    beside : Kept, optional

    Examples
    --------
    >>> from hammemo.stores.digest_store import DigestStore
    >>> from hammemo.tokens.contexts import Examples
    >>> two = Examples.of([["a", "b"], ["c", "b"]], ["x", "y"])
    >>> store = DigestStore(h=2, seed=0).changed(two, 1).changed(two, 1)
    >>> len(store.digests), store.digests.total, store.changed(two, -1).digests.total
    (2, 4, 2)
    """

    key: bytes | None = field(default=None, repr=False)
    digests: DigestCounts = field(default_factory=DigestCounts)
    beside: Kept | None = None

    def __post_init__(self) -> None:
        check_secret(self.key)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_digester"}

    @cached_property
    def _digester(self) -> Digester:
        secret = struct.pack("<QQ", *key_words(self.seed, "digests")) if self.key is None else bytes(self.key)
        return Digester(secret)

    @property
    def kept(self) -> Kept | None:
        """The rows or documents beside the digests."""
        return self.beside

    @property
    def knows_all(self) -> bool:
        """Always True."""
        return True

    def holds(self, examples: Examples) -> Array:
        """Return how often each of these examples is stored.

        Shapes
        ------
        returned : (len(examples),)
        """
        return self.digests.times(self._digester.of_rows(examples))

    def distinct(self, examples: Examples) -> tuple[Ints, Words, Ints]:
        """Return a place of each distinct example, its digest, and how often it occurs.

        Shapes
        ------
        returned : (d,), (d, 2), (d,)
        """
        words = self._digester.of_rows(examples)
        order, firsts = distinct_digests(words)
        times = np.add.reduceat(examples.multiplicity[order], firsts) if len(firsts) else examples.multiplicity
        return order[firsts], words[order[firsts]], times

    def changed(self, examples: Examples, sign: int) -> DigestStore:
        """Return it with examples learnt or, with sign -1, forgotten; NotStoredError where one is not stored."""
        digests = self._digests_with(examples, sign)
        return self._but(digests, None if self.beside is None else self.beside.changed(examples, sign))

    def _digests_with(self, examples: Examples, sign: int) -> DigestCounts:
        words = self._digester.of_rows(examples)
        try:
            return self.digests.plus(words, sign * examples.multiplicity)
        except NotStoredError:
            asked = DigestCounts().plus(words, examples.multiplicity).times(words)
            raise not_held((self.digests.times(words) < asked).nonzero()[0].tolist(), len(examples)) from None

    def changed_one(self, context: Sequence[Any], label: Any, by: int) -> DigestStore:
        """Return it with one example learnt `by` times or, below zero, forgotten: in microseconds."""
        *tokens, last = row_of(context, label)
        try:
            digests = self.digests.plus_few({self._digester.of_row(tokens, last): by})
        except NotStoredError:
            raise not_held([0], 1) from None
        return self._but(digests, None if self.beside is None else self.beside.changed_one(context, label, by))

    def _but(self, digests: DigestCounts, beside: Kept | None) -> DigestStore:
        changed = object.__new__(DigestStore)  # not `replace`: single edits take microseconds
        vars(changed).update(vars(self), digests=digests, beside=beside)
        return changed

    def with_windows(self, block: Block, labels: Vocabulary | None, sign: int) -> DigestStore:
        """Return it with the windows of a block learnt or forgotten; whole documents come later, by `with_kept`."""
        examples = block.examples() if labels is None else block.examples().only(labels)
        digests = self._digests_with(examples, sign)
        return self._but(digests, None if self.beside is None else self.beside.with_windows(block, labels, sign))

    def with_kept(self, kept: Kept | None) -> DigestStore:
        """Return it with other rows or documents beside the same digests."""
        return self._but(self.digests, kept)

    def plus(self, other: ModelStore, sign: int) -> DigestStore:
        """Return the sum or, with sign -1, the difference; LayoutError where the other has other digests, or none."""
        theirs = self._digests_of(other).base
        try:
            digests = self.digests.plus(theirs.words, sign * theirs.counts.astype("int64"))
        except NotStoredError:
            raise NotStoredError(
                "The other model is not part of this one: it holds an example that is not stored here, or not that "
                "many times. Nothing was changed."
            ) from None
        return self._but(digests, None if self.beside is None else self.beside.plus(other, sign))

    def _digests_of(self, other: ModelStore) -> DigestCounts:
        """Return the digests of another store under this one's key; made of its rows, where it keeps all of them."""
        if isinstance(other, DigestStore) and self.is_keyed_like(other):
            return other.digests
        if other.kept is None or not other.kept.holds_all or other.h != self.h:
            raise LayoutError(
                "Only one of the two models has digests, or they have different keys or seeds. Give both the same "
                "keep=, with the same key, and the same random_state."
            )
        return self.of_batches(other.kept.batches()).digests

    def is_keyed_like(self, other: ModelStore) -> bool:
        """Return whether another store has digests under the same key or, without one, the same seed."""
        same = isinstance(other, DigestStore) and (other.h, other.key) == (self.h, self.key)
        return same and (self.key is not None or other.seed == self.seed)

    def of_batches(self, batches: Iterable[Examples]) -> DigestStore:
        """Return one with the digests of these examples and nothing else."""
        made = self._but(DigestCounts(), None)
        for examples in batches:
            made = made.changed(examples, 1)
        return made

    def emptied(self) -> DigestStore:
        """Return one of the same layout with nothing in it."""
        return self._but(DigestCounts(), None if self.beside is None else self.beside.emptied())

    def stores_like(self, other: ModelStore | None) -> bool:
        """Return whether another store has the same key, and keeps the same beside its digests."""
        if not isinstance(other, DigestStore) or not self.is_keyed_like(other):
            return False
        return other.beside is None if self.beside is None else self.beside.stores_like(other.beside)

    def described(self) -> dict[str, Any]:
        """Return how it stores, for files: of a secret key, only a digest."""
        kept = None if self.beside is None else self.beside.described()
        return {"of": "digests", "seed": self.seed, "key": secret_digest(self.key), "kept": kept}

    def state(self) -> dict[str, Array]:
        """Return the digests, and what is kept beside them, as canonical arrays."""
        return {**self.digests.state(), **({} if self.beside is None else self.beside.state())}

    def restored(self, stored: StoredArrays) -> DigestStore:
        """Return one of this layout with these arrays, checked: undo `state`."""
        digests = DigestCounts.restored(stored)
        return self._but(digests, None if self.beside is None else self.beside.restored(stored))
