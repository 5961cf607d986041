r"""Digests of all examples, with or without rows: forgetting that refuses what was never learnt.

A memory of counts cannot know which examples it holds. ModelStore (a, c) → y and (d, b) → y: then a stands at the first
position once, b at the second once, and y has two examples, so removing (a, b) → y makes no count negative, although
(a, b) was never stored. A sketch knows even less. Kept rows know it while all of them are kept. This store knows it
always: it holds a keyed digest of each example, and how often it was stored (:mod:`hammemo.stores.digest_counts`). An
example is removed only if its digest is there often enough; otherwise `NotStoredError` is raised and nothing changes.

Rows or documents may be kept beside the digests, up to their budget: what `refit` chooses by and fits weights to.
Without them no row is stored in plain text.

What digests reveal: anyone who holds the key can test whether a guessed example is stored; anyone else learns how many
distinct examples there are and how often each occurs. Without a key of its own, a store uses one made from the seed,
which is not a secret: then anyone with the model and the seed can recompute the digests of examples that can be
guessed.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from sklearn.base import BaseEstimator

from hammemo._versions import cached_property
from hammemo.memories.errors import LayoutError, NotStoredError, not_held
from hammemo.memories.secret_keys import SecretKey, check_secret, secret_digest
from hammemo.stores.digest_counts import DigestCounts, Digester, distinct_digests
from hammemo.stores.kept import Kept, ModelStore
from hammemo.stores.kept_rows import row_of
from hammemo.tokens.hashing import key_words

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from hammemo._arrays.checked import StoredArrays
    from hammemo.tokens.contexts import Examples
    from hammemo.tokens.streams import Block
    from hammemo.tokens.vocabulary import Vocabulary

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

    def holds(self, examples: Examples) -> NDArray[Any]:
        """Return how often each of these examples is stored.

        Shapes
        ------
        returned : (len(examples),)
        """
        return self.digests.times(self._digester.of_rows(examples))

    def distinct(self, examples: Examples) -> tuple[NDArray[np.int64], NDArray[np.uint64], NDArray[np.int64]]:
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

    def state(self) -> dict[str, NDArray[Any]]:
        """Return the digests, and what is kept beside them, as canonical arrays."""
        return {**self.digests.state(), **({} if self.beside is None else self.beside.state())}

    def restored(self, stored: StoredArrays) -> DigestStore:
        """Return one of this layout with these arrays, checked: undo `state`."""
        digests = DigestCounts.restored(stored)
        return self._but(digests, None if self.beside is None else self.beside.restored(stored))
