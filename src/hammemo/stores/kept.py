"""What the kept rows and the kept documents of a model have in common: a threshold of hashes, and a size.

Whether a key is kept depends on nothing but its hash, so what is kept is additive like the counts: learning, forgetting
and merging act on it exactly, in any order. Thresholds lie on a public grid, eight to an octave: a threshold that is
the hash of an example would tell of it, also after that was forgotten. Where there are more keys than fit, the
threshold falls to the highest of the grid with no more examples below it. So after any learning and merging it is a
function of what was learnt, in whichever groups. Forgetting never raises it. The threshold belongs to the layout:
`empty_like()` and `layout=` hand it on.

A key is an example (:mod:`hammemo.stores.kept_rows`) or a document (:mod:`hammemo.stores.kept_documents`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from dataclasses import dataclass, replace
from math import isqrt
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np

from hammemo._arrays.checked import StoredArrays
from hammemo._versions import Cached

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from hammemo.tokens.contexts import Examples
    from hammemo.votes import Vote

EVERYTHING: Final = 2**64
"""The threshold below which every hash lies."""

THRESHOLDS: Final = tuple(sorted({isqrt(isqrt(isqrt(2**k))) for k in range(8 * 64 + 1)}))
"""The grid, ascending: 2^64 and, eight times an octave, the whole numbers below 2^(k/8)."""

Self = TypeVar("Self", bound="Kept")


@dataclass(frozen=True, eq=False)
class Kept(Cached, ABC):
    """What a model keeps of its examples: a value that never changes.

    Parameters
    ----------
    h : int
        Tokens of a context.
    seed : int
        What the hash depends on.
    most : int
        How many rows, or tokens of documents, are kept at most; more only where a single key, or the keys of one step
        of the grid, have more.
    threshold : int
        Kept are the keys with hashes below it.
    """

    h: int
    seed: int
    most: int
    threshold: int = EVERYTHING

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
    def changed(self: Self, examples: Examples, sign: int) -> Self:
        """Return it with examples learnt or, with sign -1, forgotten; NotStoredError where one is not kept."""

    @abstractmethod
    def plus(self: Self, other: Kept, sign: int) -> Self | None:
        """Return what both keep or, with sign -1, without the other's; None where the other tells too little."""

    @abstractmethod
    def emptied(self: Self) -> Self:
        """Return one of the same layout with nothing in it."""

    @abstractmethod
    def batches(self) -> Iterator[Examples]:
        """Yield the examples of all that is kept, in an order that depends on nothing but what it is."""

    @abstractmethod
    def fitting_sample(self, vote: Vote) -> Examples:
        """Return the examples that a vote is fitted to."""

    @abstractmethod
    def state(self) -> dict[str, NDArray[Any]]:
        """Return what is kept as canonical arrays."""

    @abstractmethod
    def restored(self: Self, stored: StoredArrays) -> Self:
        """Return one of this layout with these arrays, checked: undo `state`."""

    def are_low(self, words: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Return which hashes lie below the threshold."""
        return words < np.uint64(self.threshold) if self.threshold < EVERYTHING else np.ones(len(words), bool)

    def packed(self) -> dict[str, NDArray[Any]]:
        """Return what is kept and the threshold as arrays, for other processes; `unpacked` undoes it."""
        last = np.array([self.lowest_threshold - 1], np.uint64)  # the threshold itself may need 65 bits
        return {**self.state(), "last": last}

    def unpacked(self: Self, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Return one of this seed and size that holds what `packed` returned."""
        held = dict(arrays)
        threshold = int(held.pop("last")[0]) + 1
        return replace(self.emptied(), threshold=threshold).restored(StoredArrays(held))


def highest_threshold(words: NDArray[np.uint64], sizes: NDArray[np.int64], most: int) -> int:
    """Return the highest threshold below which the keys have a total size of at most `most`, but at least one key.

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
    >>> highest_threshold(words, np.ones(4, np.int64), 2), highest_threshold(words, np.full(4, 5), 2)
    (69, 10)
    """
    order = np.argsort(words)
    out = int(np.searchsorted(np.cumsum(sizes[order]), most, "right"))  # the first that is too many
    if out == len(words):
        return EVERYTHING
    first, beyond = (bisect_right(THRESHOLDS, int(words[order[place]])) for place in (0, out))
    return THRESHOLDS[max(first, beyond - 1)]
