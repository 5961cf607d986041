"""What all stores have in common (`ModelStore`), and kept rows and documents (`Kept`).

Rows and documents are kept below a threshold, up to a size. Whether a key is kept depends on
nothing but its hash, so what is kept is additive like the counts: learning, forgetting and merging
act on it exactly, in any order. Thresholds lie on a public grid, eight to an octave: a threshold
that is the hash of an example would tell of it, also after that was forgotten. Where there are more
keys than fit, the threshold falls to the highest of the grid with no more examples below it. So
after any learning and merging it is a function of what was learnt, in whichever groups. Forgetting
never raises it. The threshold belongs to the layout: `empty_like()` and `layout=` hand it on.

A key is an example (:mod:`hammemo.stores.kept_rows`) or a document
(:mod:`hammemo.stores.kept_documents`). A store may also hold digests of all examples, with or
without such a sample (:mod:`hammemo.stores.digest_store`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isqrt
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

import numpy as np

from hammemo._arrays.checked import StoredArrays
from hammemo._versions import Cached
from hammemo.tokens.contexts import Examples

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hammemo._arrays.types import Array, Bools, Ints, Words
    from hammemo.tokens.stream_blocks import Block
    from hammemo.tokens.vocabulary import Vocabulary
    from hammemo.votes import Vote

EVERYTHING: Final = 2**64
"""The threshold below which every hash lies."""

THRESHOLDS: Final = tuple(sorted({isqrt(isqrt(isqrt(2**k))) for k in range(8 * 64 + 1)}))
"""The grid, ascending: 2^64 and, eight times an octave, the whole numbers below 2^(k/8)."""

Self = TypeVar("Self", bound="ModelStore")


@dataclass(frozen=True, eq=False)
class ModelStore(Cached, ABC):
    """What a model stores of its examples beside the counts: a value that never changes.

    Parameters
    ----------
    h : int
        Tokens of a context.
    seed : int
        What hashes and digests depend on.
    """

    h: int
    seed: int

    @property
    @abstractmethod
    def kept(self) -> Kept | None:
        """The rows or documents that are kept; None where none are."""

    @property
    def kept_rows(self) -> Any:  # KeptRows or None: modules import each other in one direction
        """The same where they are rows."""
        if self.kept is None or self.kept is self:
            return None
        return self.kept.kept_rows

    @property
    def kept_documents(self) -> Any:
        """The same where they are documents."""
        if self.kept is None or self.kept is self:
            return None
        return self.kept.kept_documents

    @property
    @abstractmethod
    def knows_all(self) -> bool:
        """Whether it knows of every example if it is stored, and refuses to forget others."""

    @abstractmethod
    def edit(self: Self, examples: Examples, sign: int) -> Self:
        """Return it with examples learned or, with sign -1, forgotten.

        NotStoredError says that one is not stored.
        """

    def edit_one(self: Self, context: Sequence[Any], label: Any, by: int) -> Self:
        """Return it with one example learnt or, with -1, forgotten."""
        return self.edit(Examples.of([context], [label]), by)

    def with_windows(self: Self, block: Block, labels: Vocabulary | None, sign: int) -> Self:
        """Return it with the windows of a block learned or, with sign -1, forgotten.

        `labels` are those that are learned.
        """
        examples = block.examples()
        if labels is not None:
            examples = examples.only(labels)
        return self.edit(examples, sign)

    def with_kept(self, kept: Kept | None) -> Any:
        """Return it with other rows or documents in place of those that are kept."""
        return kept

    @abstractmethod
    def plus(self: Self, other: ModelStore, sign: int) -> Self | None:
        """Return what both hold or, with sign -1, without the other's.

        None says that the other tells too little.
        """

    @abstractmethod
    def empty_copy(self: Self) -> Self:
        """Return one of the same layout with nothing in it."""

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """Return how it stores, for files."""

    @abstractmethod
    def state(self) -> dict[str, Array]:
        """Return what is stored as canonical arrays."""

    @abstractmethod
    def restore(self: Self, stored: StoredArrays) -> Self:
        """Return one of this layout with these arrays, checked: undo `state`."""

    def pack(self) -> dict[str, Array]:
        """Return all that it holds and the threshold as arrays, for other processes.

        `unpack` undoes it.
        """
        threshold = EVERYTHING
        if self.kept is not None:
            threshold = self.kept.lowest_threshold
        last = np.array([threshold - 1], np.uint64)  # the threshold itself may need 65 bits
        return {**self.state(), "last": last}

    def unpack(self: Self, arrays: Mapping[str, Array]) -> Self:
        """Return one of this layout that holds what `pack` returned."""
        state = dict(arrays)
        empty = self.empty_copy()
        threshold = int(state.pop("last")[0]) + 1
        if empty.kept is not None:
            empty = empty.with_kept(replace(empty.kept, threshold=threshold))
        return empty.restore(StoredArrays(state))

    @abstractmethod
    def stores_like(self, other: ModelStore | None) -> bool:
        """Return whether another store has the same room and the same key."""


@dataclass(frozen=True, eq=False)
class Kept(ModelStore):
    """Rows or documents with hashes below a threshold.

    Parameters
    ----------
    h, seed
        As in `ModelStore`.
    most : int
        How many rows, or tokens of documents, are kept at most; more only where a single key, or
        the keys of one step of the grid, have more.
    threshold : int
        Kept are the keys with hashes below it.
    """

    most: int
    threshold: int = EVERYTHING

    @property
    def kept(self) -> Kept:
        """Itself."""
        return self

    @property
    def knows_all(self) -> bool:
        """Whether nothing was dropped."""
        return self.threshold == EVERYTHING

    @property
    def lowest_threshold(self) -> int:
        """The threshold of `state`, which may be lower where there is more than fits."""
        return self.threshold

    @property
    def holds_all(self) -> bool:
        """Whether everything that was learnt is kept."""
        return self.threshold == EVERYTHING and self.lowest_threshold == EVERYTHING

    @abstractmethod
    def __len__(self) -> int:
        """Return how many distinct keys are kept."""

    @abstractmethod
    def batches(self) -> Iterator[Examples]:
        """Yield the examples of all that is kept, in an order that depends on nothing else."""

    @abstractmethod
    def fitting_sample(self, vote: Vote) -> Examples:
        """Return the examples that a vote is fitted to."""

    def are_low(self, words: Words) -> Bools:
        """Return which hashes lie below the threshold."""
        if self.threshold == EVERYTHING:  # it needs 65 bits
            return np.ones(len(words), bool)
        return words < np.uint64(self.threshold)

    def describe(self) -> dict[str, Any]:
        """Return how it keeps, for files."""
        kind = "rows" if self.kept_documents is None else "documents"
        return {
            "of": kind,
            "seed": self.seed,
            "most": self.most,
            "threshold": self.lowest_threshold,
        }

    def stores_like(self, other: ModelStore | None) -> bool:
        """Return whether another store keeps in the same way, and as much."""
        return type(self) is type(other) and self.most == other.most


def highest_threshold(words: Words, sizes: Ints, most: int) -> int:
    """Return the highest threshold below which keys have a size of at most `most`.

    At least one key lies below it.

    Parameters
    ----------
    words : ndarray of uint64, shape (n,)
        The hashes of the keys.
    sizes : ndarray of int64, shape (n,)
        How much each counts.
    most : int

    Examples
    --------
    >>> import numpy as np
    >>> from hammemo.stores.kept import highest_threshold
    >>> words = np.array([9, 40, 70, 100], np.uint64)
    >>> highest_threshold(words, np.ones(4, np.int64), 2)
    69
    >>> highest_threshold(words, np.full(4, 5), 2)
    10
    """
    order = np.argsort(words)
    n_fitting = int(np.searchsorted(np.cumsum(sizes[order]), most, "right"))
    if n_fitting == len(words):
        return EVERYTHING
    # the places in the grid behind the first key, and behind the first that is too many
    behind_first = bisect_right(THRESHOLDS, int(words[order[0]]))
    behind_last = bisect_right(THRESHOLDS, int(words[order[n_fitting]]))
    return THRESHOLDS[max(behind_first, behind_last - 1)]


Key = TypeVar("Key", bound=Hashable)


class LayeredCounts(Generic[Key]):
    """How often each key, such as a row, is held.

    It is a sum of layers that never change, so that versions share them.

    An edit appends a layer with what it changes. Neighbours of similar size become one, so there
    are few layers, and n edits cost O(n log n).
    """

    def __init__(self, layers: tuple[Mapping[Key, int], ...] = ()) -> None:
        self._layers = layers

    def __getstate__(self) -> dict[str, Any]:
        # a key that was removed is still in two layers: copies must not have it
        return {"_layers": (self.counts(),)}

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

    def plus(self, entries: Mapping[Key, int], sign: int = 1) -> LayeredCounts[Key]:
        """Return the counts with these entries added or, with sign -1, removed."""
        new_layer = {key: sign * n for key, n in entries.items()}
        layers: list[Mapping[Key, int]] = [*self._layers, new_layer]
        while len(layers) > 1 and len(layers[-2]) <= 2 * len(layers[-1]):
            layers[-2:] = [_sum_of(layers[-2:])]
        if len(layers) == 1:
            layers = [_without_zeros(layers[0])]
        return LayeredCounts(tuple(layers))


def _sum_of(layers: Sequence[Mapping[Key, int]]) -> dict[Key, int]:
    total: dict[Key, int] = dict(layers[0]) if layers else {}
    for layer in layers[1:]:
        for key, count in layer.items():
            total[key] = total.get(key, 0) + count
    return total


def _without_zeros(layer: Mapping[Key, int]) -> dict[Key, int]:
    return {key: count for key, count in layer.items() if count}
