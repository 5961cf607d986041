r"""Digests of all examples, with or without rows: forgetting that refuses what was never learnt.

A memory of counts cannot know which examples it holds. Store (a, c) → y and (d, b) → y: then a
stands at the first position once, b at the second once, and y has two examples, so removing (a, b)
→ y makes no count negative, although (a, b) was never stored. A sketch knows even less. Kept rows
know it while all of them are kept. This store knows it always: it holds a keyed digest of each
example, and how often it was stored (:mod:`hammemo.stores.digest_store`). An example is removed
only if its digest is there often enough; otherwise `NotStoredError` is raised and nothing changes.

Rows or documents may be kept beside the digests, up to their budget: what `refit` chooses by and
fits weights to. Without them no row is stored in plain text.

What digests reveal: anyone who holds the key can test whether a guessed example is stored; anyone
else learns how many distinct examples there are and how often each occurs. Without a key of its
own, a store uses one made from the seed, which is not a secret: then anyone with the model and the
seed can recompute the digests of examples that can be guessed.

An example becomes

.. math:: \mathrm{BLAKE2b}_{key}(x_1, \dots, x_h, y) \in \{0, 1\}^{128}

over fixed-width words of its tokens and its label, so the digest tells nothing to a reader without
the key. The whole context is digested, also positions that no site compares, and of a row with
numbers the numbers themselves, not the ranges that are counted. Tokens have one identity: 3 and 3.0
are the same. Two different examples share a digest with probability 2^-128.

Digests are held in ascending order, as two arrays of 64-bit words and one of counts. That base
never changes. Small edits go into an overlay, as in :mod:`hammemo.stores.kept_rows`.
"""

from __future__ import annotations

import struct
from collections import Counter
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator

from hammemo._arrays.integers import narrow
from hammemo._versions import Cached, cached_property
from hammemo.memories.errors import LayoutError, NotStoredError, never_stored, not_held
from hammemo.memories.secret_keys import SecretKey, check_secret, secret_digest
from hammemo.stores.kept import Kept, LayeredCounts, ModelStore
from hammemo.stores.kept_rows import row_of
from hammemo.tokens.contexts import MAX_EXAMPLES, Examples
from hammemo.tokens.hashing import add_feature_words, join_digests, key_words, vocabulary_words
from hammemo.tokens.vocabulary import NO_TOKEN

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from hammemo._arrays.checked import StoredArrays
    from hammemo._arrays.types import Array, Ints, Words
    from hammemo.tokens.stream_blocks import Block
    from hammemo.tokens.vocabulary import Vocabulary

DIGEST_BYTES: Final = 16
_NO_TOKEN_WORDS: Final = (0, 0, 2**64 - 1)
"""The words of an empty position: no token has this kind."""

_FEW: Final = 16
"""Edits of up to so many digests go into the overlay; so do those of up to 1/32 of the base."""

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
        labels = vocabulary_words(examples.labels)[examples.label_ranks]
        rows = np.concatenate([tokens, labels], axis=1, dtype="<u8")
        data = rows.tobytes()
        width = rows.shape[1] * rows.itemsize
        row_bytes = (data[at : at + width] for at in range(0, len(data), width))
        return _as_words(join_digests(self._start, row_bytes))

    def of_row(self, tokens: Sequence[Any], label: Any) -> bytes:
        """Return the digest of one example, whose tokens are canonical."""
        words: list[int] = []
        for token in tokens:
            if token == NO_TOKEN:
                words += _NO_TOKEN_WORDS
            else:
                add_feature_words(words, token)
        add_feature_words(words, label)
        return join_digests(self._start, [struct.pack(f"<{len(words)}Q", *words)])


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
        # a digest that was removed is in base and overlay still: copies must not have it
        state = vars(self.base)
        return {name: value for name, value in state.items() if name not in ("base", "high")}

    def __len__(self) -> int:
        return len(self.base.counts)

    @property
    def total(self) -> int:
        """How many examples are held, copies counted."""
        return int(self.base.counts.sum(dtype=np.int64))

    @cached_property
    def base(self) -> DigestCounts:
        """The same digests without an overlay."""
        if not self.overlay.n_entries:
            return self
        base = replace(self, overlay=LayeredCounts())
        counts = self.overlay.counts()
        if not counts:
            return base
        times = np.fromiter(counts.values(), np.int64, len(counts))
        return base.merge(_as_words(b"".join(counts)), times)

    @cached_property
    def high(self) -> Words:
        """The first word of each digest of the base."""
        return np.ascontiguousarray(self.words[:, 0])

    def count(self, digest: bytes) -> int:
        """Return how often a digest is held."""
        high, low = struct.unpack(">QQ", digest)
        place = int(self.high.searchsorted(np.uint64(high)))
        count_in_base = 0
        while place < len(self.words) and int(self.high[place]) == high:
            if int(self.words[place, 1]) == low:
                count_in_base = int(self.counts[place])
            place += 1
        return count_in_base + self.overlay.count(digest)

    def times(self, words: Words) -> Ints:
        """Return how often each of these digests is held.

        Shapes
        ------
        words : (m, 2)
        returned : (m,)
        """
        base = self.base
        places = base.high.searchsorted(words[:, 0])
        last = len(base.words) - 1
        if last < 0:
            return np.zeros(len(words), np.int64)
        while True:  # once, unless two digests share the first word
            candidates = base.words[np.minimum(places, last)]
            same = (candidates[:, 0] == words[:, 0]) & (places <= last)
            lower = same & (candidates[:, 1] < words[:, 1])
            if not lower.any():
                break
            places = places + lower
        same &= candidates[:, 1] == words[:, 1]
        return np.where(same, base.counts[np.minimum(places, last)].astype(np.int64), 0)

    def plus(self, words: Words, times: Ints) -> DigestCounts:
        """Return it with these digests held more often or, with numbers below zero, less.

        It raises NotStoredError where one would be held a negative number of times.

        Shapes
        ------
        words : (m, 2)
        times : (m,)
        """
        if len(words) > max(_FEW, len(self.words) // 32) or len(words) >= len(self.words):
            return self.base.merge(words, times)
        entries: Counter[bytes] = Counter()
        for digest, by in zip(_as_bytes(words), times.tolist(), strict=True):
            entries[digest] += by
        return self.plus_few(entries)

    def plus_few(self, entries: Mapping[bytes, int]) -> DigestCounts:
        """Return the same as `plus` by a change of the overlay: in microseconds."""
        if any(by < 0 and self.count(digest) + by < 0 for digest, by in entries.items()):
            raise never_stored()
        # not `replace`: single edits take microseconds; what is known of the base, both share
        version = object.__new__(DigestCounts)
        overlay = self.overlay.plus(entries)
        vars(version).update(vars(self), overlay=overlay)
        vars(version).pop("base", None)
        if overlay.n_entries > max(_SMALL_OVERLAY, len(self.words) // 16):
            return version.base
        return version

    def merge(self, words: Words, times: Ints) -> DigestCounts:
        """Return the base with these digests held more or less often."""
        words = np.concatenate([self.words, words])
        times = np.concatenate([self.counts.astype(np.int64), times])
        order, firsts = distinct_digests(words)
        words = words[order]
        times = times[order]
        sums = times
        if len(firsts):
            sums = np.add.reduceat(times, firsts)
        if (sums < 0).any():
            raise never_stored()
        stays = sums > 0
        return DigestCounts(words[firsts[stays]], narrow(sums[stays]))

    def state(self) -> dict[str, Array]:
        """Return the digests in ascending order and their counts, as arrays."""
        base = self.base
        data = base.words.astype(">u8").tobytes()
        return {
            "digests": np.frombuffer(data, np.uint8).reshape(-1, DIGEST_BYTES),
            "digest_counts": base.counts,
        }

    @classmethod
    def from_stored(cls, stored: StoredArrays) -> DigestCounts:
        """Return the digests of these arrays, checked: undo `state`."""
        digests = stored.take("digests", "uint8", (None, DIGEST_BYTES))
        shape = (len(digests),)
        counts = stored.multiplicities("digest_counts", shape, below=MAX_EXAMPLES, least=1)
        words = _as_words(digests.tobytes())
        high = words[:, 0]
        low = words[:, 1]
        ascends = (high[1:] > high[:-1]) | ((high[1:] == high[:-1]) & (low[1:] > low[:-1]))
        if not ascends.all():
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
    high = words[order, 0]
    low = words[order, 1]
    if ((high[1:] == high[:-1]) & (low[1:] < low[:-1])).any():  # two digests share the first word
        order = np.lexsort((words[:, 1], words[:, 0]))
    words = words[order]
    is_first = np.ones(len(words), bool)
    is_first[1:] = (words[1:] != words[:-1]).any(axis=1)
    return order, np.flatnonzero(is_first)


def _as_words(digests: bytes) -> Words:
    return np.frombuffer(digests, ">u8").astype(np.uint64).reshape(-1, 2)


def _as_bytes(words: Words) -> list[bytes]:
    data = words.astype(">u8").tobytes()
    return [data[start : start + DIGEST_BYTES] for start in range(0, len(data), DIGEST_BYTES)]


NAMES: Final[dict[str, str | bool]] = {
    "digests": False,
    "auto+digests": "auto",
    "rows+digests": True,
}
"""The short spellings of `Digests`, and which rows each keeps."""


class Digests(BaseEstimator):
    """A value of ``keep``: a model stores keyed digests of all its rows.

    Then `forget` refuses rows that were never learned.

    ``keep="digests"`` is short for ``Digests()``, ``"rows+digests"`` for ``Digests(rows=True)`` and
    ``"auto+digests"`` for ``Digests(rows="auto")``.

    Parameters
    ----------
    rows : {"auto", True, False} or int
        The rows in plain text that are kept beside the digests, as ``keep`` of `MemoryClassifier`.
    key : bytes, optional
        A secret of 16 to 64 bytes. Without it, anyone who knows the seed can recompute the digests
        of examples that can be guessed. Models that are to be merged need the same key.

    Examples
    --------
    >>> from hammemo import MemoryClassifier
    >>> from hammemo.memories import Hashed
    >>> clf = MemoryClassifier(memory=Hashed(buckets=64, reserved=8), keep="digests")
    >>> clf = clf.fit([["a", "c"], ["d", "b"]], ["y", "y"])
    >>> clf.forget([["a", "b"]], ["y"])  # its tokens are all there, but this example never was
    Traceback (most recent call last):
        ...
    hammemo.memories.errors.NotStoredError: 1 of 1 examples to be removed is not stored, ...
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
        if isinstance(keep, Digests):
            return keep
        return None


class DistinctExamples(NamedTuple):
    """The distinct ones among some examples.

    Shapes
    ------
    places : (d,); words : (d, 2); times : (d,)
    """

    places: Ints
    """A place of each."""

    words: Words
    """Its digest."""

    times: Ints
    """How often it occurs."""


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
    >>> store = DigestStore(h=2, seed=0).edit(two, 1).edit(two, 1)
    >>> len(store.digests), store.digests.total, store.edit(two, -1).digests.total
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
        if self.key is not None:
            return Digester(bytes(self.key))
        low, high = key_words(self.seed, "digests")
        return Digester(struct.pack("<QQ", low, high))

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

    def distinct(self, examples: Examples) -> DistinctExamples:
        """Return the distinct ones among examples."""
        words = self._digester.of_rows(examples)
        order, firsts = distinct_digests(words)
        times = examples.multiplicity
        if len(firsts):
            times = np.add.reduceat(examples.multiplicity[order], firsts)
        return DistinctExamples(order[firsts], words[order[firsts]], times)

    def edit(self, examples: Examples, sign: int) -> DigestStore:
        """Return it with examples learned or, with sign -1, forgotten.

        NotStoredError says that one is not stored.
        """
        digests = self._digests_with(examples, sign)
        beside = self.beside
        if beside is not None:
            beside = beside.edit(examples, sign)
        return self._with(digests, beside)

    def _digests_with(self, examples: Examples, sign: int) -> DigestCounts:
        """Return the digests with those of examples added or removed, or name the first refused."""
        words = self._digester.of_rows(examples)
        try:
            return self.digests.plus(words, sign * examples.multiplicity)
        except NotStoredError:
            removed = DigestCounts().plus(words, examples.multiplicity).times(words)
            too_few = (self.digests.times(words) < removed).nonzero()[0]
            raise not_held(too_few.tolist(), len(examples)) from None

    def edit_one(self, context: Sequence[Any], label: Any, by: int) -> DigestStore:
        """Return it with one example learned `by` times or, below zero, forgotten."""
        *tokens, last = row_of(context, label)
        try:
            digests = self.digests.plus_few({self._digester.of_row(tokens, last): by})
        except NotStoredError:
            raise not_held([0], 1) from None
        beside = self.beside
        if beside is not None:
            beside = beside.edit_one(context, label, by)
        return self._with(digests, beside)

    def _with(self, digests: DigestCounts, beside: Kept | None) -> DigestStore:
        """Return it with other digests, and others beside them."""
        store = object.__new__(DigestStore)  # not `replace`: single edits take microseconds
        vars(store).update(vars(self), digests=digests, beside=beside)
        return store

    def with_windows(self, block: Block, labels: Vocabulary | None, sign: int) -> DigestStore:
        """Return it with the windows of a block learned or forgotten.

        Whole documents come later, by `with_kept`.
        """
        examples = block.examples()
        if labels is not None:
            examples = examples.only(labels)
        digests = self._digests_with(examples, sign)
        beside = self.beside
        if beside is not None:
            beside = beside.with_windows(block, labels, sign)
        return self._with(digests, beside)

    def with_kept(self, kept: Kept | None) -> DigestStore:
        """Return it with other rows or documents beside the same digests."""
        return self._with(self.digests, kept)

    def plus(self, other: ModelStore, sign: int) -> DigestStore:
        """Return the sum or, with sign -1, the difference.

        LayoutError says that the other has other digests, or none.
        """
        added = self._digests_of(other).base
        try:
            digests = self.digests.plus(added.words, sign * added.counts.astype("int64"))
        except NotStoredError:
            raise NotStoredError(
                "The other model is not part of this one: it holds an example that is not stored "
                "here, or not that many times. Nothing was changed."
            ) from None
        beside = self.beside
        if beside is not None:
            beside = beside.plus(other, sign)
        return self._with(digests, beside)

    def _digests_of(self, other: ModelStore) -> DigestCounts:
        """Return the digests of another store under this one's key.

        They are made of its rows, where it keeps all of them.
        """
        if isinstance(other, DigestStore) and self.is_keyed_like(other):
            return other.digests
        if other.kept is None or not other.kept.holds_all or other.h != self.h:
            raise LayoutError(
                "Only one of the two models has digests, or they have different keys or seeds. "
                "Give both the same keep=, with the same key, and the same random_state."
            )
        return self.of_batches(other.kept.batches()).digests

    def is_keyed_like(self, other: ModelStore) -> bool:
        """Return whether another store has the same key or, without one, the same seed."""
        if not isinstance(other, DigestStore) or (other.h, other.key) != (self.h, self.key):
            return False
        return self.key is not None or other.seed == self.seed

    def of_batches(self, batches: Iterable[Examples]) -> DigestStore:
        """Return one with the digests of these examples and nothing else."""
        store = self._with(DigestCounts(), None)
        for examples in batches:
            store = store.edit(examples, 1)
        return store

    def empty_copy(self) -> DigestStore:
        """Return one of the same layout with nothing in it."""
        beside = self.beside
        if beside is not None:
            beside = beside.empty_copy()
        return self._with(DigestCounts(), beside)

    def stores_like(self, other: ModelStore | None) -> bool:
        """Return whether another store has the same key, and keeps the same beside its digests."""
        if not isinstance(other, DigestStore) or not self.is_keyed_like(other):
            return False
        if self.beside is None:
            return other.beside is None
        return self.beside.stores_like(other.beside)

    def describe(self) -> dict[str, Any]:
        """Return how it stores, for files: of a secret key, only a digest."""
        described_beside = None
        if self.beside is not None:
            described_beside = self.beside.describe()
        return {
            "of": "digests",
            "seed": self.seed,
            "key": secret_digest(self.key),
            "kept": described_beside,
        }

    def state(self) -> dict[str, Array]:
        """Return the digests, and what is kept beside them, as canonical arrays."""
        arrays = self.digests.state()
        if self.beside is None:
            return arrays
        return {**arrays, **self.beside.state()}

    def restore(self, stored: StoredArrays) -> DigestStore:
        """Return one of this layout with these arrays, checked: undo `state`."""
        digests = DigestCounts.from_stored(stored)
        beside = self.beside
        if beside is not None:
            beside = beside.restore(stored)
        return self._with(digests, beside)
