r"""A ledger beside a memory: forgetting that refuses what was never learnt.

A memory of counts cannot know which examples it holds. Store (a, c) → y and (d, b) → y: then a stands at the first
position once, b at the second once, and y has two examples, so taking back (a, b) → y makes no count negative, although
(a, b) was never stored. A sketch knows even less. The ledger closes that gap: it keeps for each stored example

.. math:: \mathrm{BLAKE2b}_{key}(x_1, \dots, x_h, y) \in \{0, 1\}^{128}

and how often it was stored, but no token. An example is removed only if its digest is there often enough; otherwise
`NotStoredError` is raised and nothing is changed. (Two different examples share a digest with probability 2^-128.)

The whole context is digested, also positions that no site compares, and of a row with numbers the numbers themselves,
not the ranges that are counted. Tokens have one identity: 3 and 3.0 are the same. The digest of a string is computed
once a batch for each distinct one; then an example costs one call.

The ledger is part of the state: it adds, subtracts and has its canonical form, digests in ascending order.

**A model that keeps all its rows is its own ledger.** It looks up there what it has to forget, so no row is stored
twice: the memory has no digests then (`has_ledger` is False) and checks nothing itself. In an edit it notes what it
adds and removes, so that the digests can be made should the model have to drop rows.

What a ledger reveals: who holds the key can test whether a guessed example is stored; who does not, learns how many
distinct examples there are and how often each occurs. Without a key of its own the ledger uses one made from the seed,
which is not a secret: then anyone who has the state and the seed can recompute the digests of guessable examples.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Hashable
from hashlib import blake2b
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np
from sklearn.base import clone

from hammemo._arrays.integers import narrow
from hammemo.memories.base import Memory
from hammemo.memories.errors import LayoutError, NotStoredError
from hammemo.memories.hashed import Hashed
from hammemo.memories.secret_keys import SecretKey, check_secret, secret_digest
from hammemo.tokens.contexts import MAX_EXAMPLES, Examples, as_label
from hammemo.tokens.hashing import feature_words, key_words, vocabulary_words
from hammemo.tokens.vocabulary import NO_TOKEN, as_token

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from hammemo._arrays.checked import StoredArrays
    from hammemo.kernels.cells import Cells
    from hammemo.memories.label_counts import LabelCounts
    from hammemo.memories.reader import Compiled, Reader
    from hammemo.tokens.vocabulary import Token, Vocabulary

Key = TypeVar("Key", bound=Hashable)

DIGEST_BYTES = 16
_NO_TOKEN_WORDS = np.array((0, 0, 2**64 - 1), np.uint64)  # no feature has this kind


class Ledger(Generic[Key]):
    """How often each key, such as a digest, is held: a sum of layers that never change, so that versions share them.

    An edit appends a layer with what it changes. Neighbours of similar size become one, so there are few layers, and n
    edits cost O(n log n).
    """

    def __init__(self, layers: tuple[Mapping[Key, int], ...] = ()) -> None:
        self._layers = layers

    def __getstate__(self) -> dict[str, Any]:
        return {"_layers": (self.counts(),)}  # a key that was taken away is still in two layers: copies do not have it

    def count(self, key: Key) -> int:
        """Return how often a key is held."""
        return sum(layer.get(key, 0) for layer in self._layers)

    def counts(self) -> dict[Key, int]:
        """Return all keys that are held, and how often."""
        return dict(_without_zeros(_sum_of(self._layers)))

    @property
    def n_entries(self) -> int:
        """At least the number of keys that are held."""
        return sum(map(len, self._layers))

    def plus(self, entries: Mapping[Key, int], sign: int = 1) -> Ledger[Key]:
        """Return the ledger with these entries added or, with sign -1, taken away."""
        layers: list[Mapping[Key, int]] = [*self._layers, {key: sign * n for key, n in entries.items()}]
        while len(layers) > 1 and len(layers[-2]) <= 2 * len(layers[-1]):
            layers[-2:] = [_sum_of(layers[-2:])]
        if len(layers) == 1:
            layers = [_without_zeros(layers[0])]
        return Ledger(tuple(layers))


def _sum_of(layers: Sequence[Mapping[Key, int]]) -> dict[Key, int]:
    total: dict[Key, int] = dict(layers[0]) if layers else {}
    for layer in layers[1:]:
        for key, count in layer.items():
            total[key] = total.get(key, 0) + count
    return total


def _without_zeros(layer: Mapping[Key, int]) -> dict[Key, int]:
    return {key: count for key, count in layer.items() if count}


class Ledgered(Memory):
    """Any memory with a ledger of its examples, so that `forget` refuses examples that were never learnt.

    Parameters
    ----------
    memory : Memory, optional
        The memory that counts and answers; `Hashed()` by default.
    key : bytes, optional
        A secret of 16 to 64 bytes. Without it anyone who knows the seed can recompute the digests of examples that can
        be guessed.

    Attributes
    ----------
    memory_ : Memory
        The inner memory, after `open`.

    Examples
    --------
    >>> from hammemo import MemoryClassifier
    >>> from hammemo.memories import Hashed, Ledgered
    >>> clf = MemoryClassifier(memory=Ledgered(Hashed(buckets=64, reserved=8)))
    >>> clf = clf.fit([["a", "c"], ["d", "b"]], ["y", "y"])
    >>> clf.forget([["a", "b"]], ["y"])  # its tokens are all there, but this example never was
    Traceback (most recent call last):
        ...
    hammemo.memories.errors.NotStoredError: 1 of 1 examples to be removed is not stored (so often): row 0 ...
    >>> clf.forget([["a", "c"]], ["y"]).memory_.n_examples
    1
    """

    key = SecretKey()
    secret = "key"
    inner = ("memory",)

    memory_: Memory
    _ledger: Ledger[bytes] | None
    """None where the rows that a model keeps are the ledger."""
    _noted: tuple[tuple[Examples, int] | tuple[list[Token], Any, int], ...] = ()
    """Without a ledger: what was added and, below zero, removed in this edit; single examples as they came."""

    def __init__(self, memory: Memory | None = None, key: bytes | None = None) -> None:
        self.memory = memory
        self.key = key

    @property
    def keeps_free_sites(self) -> bool:  # type: ignore[override]
        """Whether the inner memory counts sites without a position."""
        return self._inner().keeps_free_sites

    @property
    def n_examples(self) -> int:
        """How many examples are stored, multiplicities counted."""
        return int(self.observed().counts.sum())

    def holds(self, examples: Examples) -> NDArray[np.int64]:
        """Return how often each of these examples is stored.

        Shapes
        ------
        returned : (len(examples),)
        """
        if self._ledger is None:
            raise ValueError("The rows that the model keeps are its ledger: ask a memory of a model with keep=False.")
        stored = map(self._ledger.count, self._digests(examples))
        return np.fromiter(stored, np.int64, len(examples))

    @property
    def has_ledger(self) -> bool:
        """Whether it has digests of its own; else a model looks rows up in those that it keeps."""
        return self._ledger is not None

    @property
    def is_bare(self) -> bool:
        """Whether it has neither digests nor notes of what this edit adds and removes."""
        return self._ledger is None and not self._noted

    def drop_ledger(self) -> None:
        """Have no digests, and nothing noted: a model keeps all rows."""
        self._ledger, self._noted = None, ()

    def make_ledger(self, rows: Iterable[Examples]) -> None:
        """Make the digests of the rows that a model kept before this edit, and of what was noted since."""
        ledger: Ledger[bytes] = Ledger()
        for examples in rows:
            ledger = ledger.plus(self._entries(examples))
        for noted in self._noted:
            *what, by = noted
            added = Examples.of([what[0]], [what[1]]) if len(what) > 1 else what[0]
            ledger = ledger.plus(self._entries(added), by)
        self._ledger, self._noted = ledger, ()

    def update(self, examples: Examples, sign: int) -> None:
        """Add examples; or take them back, or raise `NotStoredError` where one of them is not stored often enough."""
        self._change(examples, sign, lambda memory: memory.update(examples, sign))

    def update_cells(self, cells: Cells, examples: Examples, sign: int) -> None:
        """Add rows with numbers, or take them back: the ledger holds the rows, the inner memory counts their cells."""
        self._change(examples, sign, lambda memory: memory.update_cells(cells, examples, sign))

    def _change(self, examples: Examples, sign: int, update: Callable[[Memory], None]) -> None:
        memory, ledger = self.memory_.snapshot(), self._ledger
        if ledger is None:
            update(memory)
            self.memory_, self._noted = memory, (*self._noted, (examples, sign))
            return
        entries = self._entries(examples)
        if sign < 0:
            self._check_held(ledger, entries, examples)
        update(memory)
        self.memory_, self._ledger = memory, ledger.plus(entries, sign)

    def update_one(self, tokens: Sequence[Any], label: Any, by: int) -> None:
        """Add one example `by` times or, below zero, take it back; no slower than one call of BLAKE2b a string."""
        context = [as_token(token) for token in tokens]
        self._change_one(context, label, by, lambda memory: memory.update_one(context, label, by))

    def update_one_row(self, cells: Cells, row: Sequence[Any], label: Any, by: int) -> None:
        """Add one row with numbers, or take it back."""
        context = [as_token(token) for token in row]
        self._change_one(context, label, by, lambda memory: memory.update_one_row(cells, context, label, by))

    def _change_one(self, context: list[Token], label: Any, by: int, update: Callable[[Memory], None]) -> None:
        ledger, memory = self._ledger, self.memory_.snapshot()
        if ledger is None:
            update(memory)
            self.memory_, self._noted = memory, (*self._noted, (context, label, by))
            return
        words = [word for token in context for word in _words(token)]
        digest = self._digest(struct.pack(f"<{len(words) + 3}Q", *words, *feature_words(as_label(label))))
        if ledger.count(digest) + by < 0:
            raise not_held([0], 1)
        update(memory)
        self.memory_, self._ledger = memory, ledger.plus({digest: by})

    def keeps_rows(self) -> bool:
        """Return whether the reader of the inner memory has rows of counts."""
        return self._inner().keeps_rows()

    def make_reader(self) -> Reader:
        """Return the reader of the inner memory: the ledger is not needed to answer."""
        return self.memory_.reader()

    def static_reader(self) -> Reader:
        """Return that of the inner memory."""
        return self.memory_.static_reader()

    def compile(self, form: str | None = None, vocabulary: Vocabulary | None = None, threads: int = 1) -> Compiled:
        """Return a compiled form of the inner memory; the ledger is not needed to answer."""
        return self.memory_.compile(form, vocabulary, threads)

    def declare_labels(self, labels: Vocabulary) -> None:
        """Keep these labels as candidates, in the inner memory too."""
        super().declare_labels(labels)
        self.memory_ = self.memory_.snapshot()
        self.memory_.declare_labels(labels)

    def empty_like(self) -> Ledgered:
        """Return a memory of the same layout, that of the inner memory included, with nothing stored."""
        fresh: Ledgered = super().empty_like()
        fresh.memory_ = self.memory_.empty_like()
        return fresh

    def layout(self) -> dict[str, Any]:
        """Return what must agree for two states to be added, by name; of a secret key, only a digest."""
        return {
            **super().layout(),
            "key": secret_digest(self.key),
            "seed": self.seed if self.key is None else None,
            **{f"memory.{name}": value for name, value in self.memory_.layout().items()},
        }

    def clear(self) -> None:
        """Start an empty ledger and an empty inner memory."""
        self._prepare()
        self.memory_ = clone(self._inner()).open(self.sites, self.seed, self.declared)

    def _prepare(self) -> None:
        check_secret(self.key)
        self._secret = struct.pack("<QQ", *key_words(self.seed, "ledger")) if self.key is None else bytes(self.key)
        self._ledger, self._noted = Ledger(), ()

    def _inner(self) -> Memory:
        inner = Hashed() if self.memory is None else self.memory
        if not isinstance(inner, Memory):
            raise TypeError(f"memory={inner!r} is not a memory: pass an instance such as Hashed() or Exact().")
        return inner

    def restore_arrays(self, all_labels: LabelCounts, stored: StoredArrays) -> None:
        """Take the inner memory's state and the digests."""
        self._prepare()
        self.memory_ = clone(self._inner())
        self.memory_.restore_inside(self, all_labels, stored.part("memory"))
        if "ledger.digests" not in stored:
            self._ledger = None
            return
        digests = stored.take("ledger.digests", "uint8", (None, DIGEST_BYTES))
        counts = stored.whole_numbers("ledger.counts", (len(digests),), below=MAX_EXAMPLES, least=1)
        data = digests.tobytes()
        keys = [data[start : start + DIGEST_BYTES] for start in range(0, len(data), DIGEST_BYTES)]
        if any(before >= after for before, after in pairwise(keys)):
            raise ValueError("the digests of the ledger are not strictly ascending")
        if int(counts.sum(dtype=np.int64)) != int(all_labels.counts.sum()):
            raise ValueError("the ledger does not hold as many examples as the labels have")
        self._ledger = Ledger((dict(zip(keys, counts.tolist(), strict=True)),))

    def undecided(self) -> frozenset[str]:
        """Return what the inner memory has still to settle."""
        return frozenset(f"memory.{name}" for name in self.memory_.undecided())

    def _digests(self, examples: Examples) -> list[bytes]:
        """Return the digest of each example: one call for each, over fixed-width words of its tokens and label."""
        contexts = examples.contexts
        words = np.append(vocabulary_words(contexts.vocabulary), [_NO_TOKEN_WORDS], axis=0)  # which rank -1 reads
        tokens = words[contexts.ranks].reshape(len(contexts), 3 * contexts.h)
        rows = np.concatenate([tokens, vocabulary_words(examples.labels)[examples.label_ranks]], axis=1, dtype="<u8")
        data, width = rows.tobytes(), rows.shape[1] * rows.itemsize
        return [self._digest(data[start : start + width]) for start in range(0, len(data), width)]

    def _digest(self, example: bytes) -> bytes:
        return blake2b(example, digest_size=DIGEST_BYTES, key=self._secret, person=b"hammemo ledger").digest()

    def _entries(self, examples: Examples) -> Counter[bytes]:
        digests = self._digests(examples)
        if (examples.multiplicity == 1).all():
            return Counter(digests)
        entries: Counter[bytes] = Counter()
        for digest, count in zip(digests, examples.multiplicity.tolist(), strict=True):
            entries[digest] += count
        return entries

    def _check_held(self, ledger: Ledger[bytes], entries: Counter[bytes], examples: Examples) -> None:
        missing = {digest for digest, count in entries.items() if ledger.count(digest) < count}
        if missing:
            rows = [row for row, digest in enumerate(self._digests(examples)) if digest in missing]
            raise not_held(rows, len(examples))

    def add_state(self, other: Ledgered, sign: int) -> None:
        """Add the other's ledger and inner memory, or subtract them."""
        memory, ledger = self.memory_.snapshot(), self._ledger
        if ledger is None or other._ledger is None:
            if ledger is not other._ledger:
                raise LayoutError("One of the two has a ledger, and the rows of a model are that of the other.")
            memory.add_state(other.memory_, sign)
            self.memory_ = memory
            return
        theirs = other._ledger.counts()
        if sign < 0 and any(ledger.count(digest) < count for digest, count in theirs.items()):
            raise NotStoredError(
                "The other memory is not part of this one: its ledger holds an example that is not stored here "
                "(so often). Nothing was changed."
            )
        memory.add_state(other.memory_, sign)
        self.memory_, self._ledger = memory, ledger.plus(theirs, sign)

    def observed(self) -> LabelCounts:
        """Return the labels that have examples, and how many."""
        return self.memory_.observed()

    def observed_labels(self) -> Vocabulary:
        """Return the labels that have examples: those of the inner memory, which may know them without counting."""
        return self.memory_.observed_labels()

    def state_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the inner memory's arrays, and the digests, if there are any, in ascending order with their counts."""
        inner = {f"memory.{name}": array for name, array in self.memory_.state_arrays().items()}
        if self._ledger is None:
            return inner
        held = self._ledger.counts()
        digests = sorted(held)
        counts = np.fromiter(map(held.__getitem__, digests), np.int64, len(digests))
        return {
            **inner,
            "ledger.digests": np.frombuffer(b"".join(digests), np.uint8).reshape(-1, DIGEST_BYTES),
            "ledger.counts": narrow(counts),
        }


def _words(token: Token) -> Sequence[int]:
    return _NO_TOKEN_WORDS.tolist() if token == NO_TOKEN else feature_words(token)


def not_held(rows: Sequence[int], n_examples: int) -> NotStoredError:
    """Return the error for rows, the first of them named, that are not stored so often as they are to be removed."""
    return NotStoredError(
        f"{len(rows)} of {n_examples} examples to be removed {'is' if len(rows) == 1 else 'are'} not stored "
        f"(so often): row {rows[0]} is the first of them. Nothing was changed."
    )
