"""What the samples that a state keeps have in common: keys with hashes below a threshold, and how often each is stored.

Whether a key is kept depends on nothing but its hash, so a sample is additive like the counts: learning, forgetting and
merging act on it exactly, in any order. Where it grows beyond its size by a quarter, the threshold falls to where it
has its size again. The threshold belongs to the layout: `empty_like()` and `layout=` hand it on.

A key is an example (:mod:`hammemo.models.kept_sample`) or a whole case (:mod:`hammemo.models.kept_cases`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np

from hammemo._arrays.checked import StoredArrays
from hammemo._versions import Cached
from hammemo.memories.ledgered import Ledger

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from hammemo.tokens.contexts import Examples

EVERYTHING: Final = 2**64
"""The threshold below which every hash lies."""

Self = TypeVar("Self", bound="Kept")


@dataclass(frozen=True, eq=False)
class Kept(Cached, ABC):
    """A sample: a value that never changes.

    Parameters
    ----------
    h : int
        Tokens of a context.
    seed : int
        What the hash depends on.
    most : int
        About how many examples are kept.
    threshold : int
    ledger : Ledger
        How often each key is stored.
    """

    h: int
    seed: int
    most: int
    threshold: int = EVERYTHING
    ledger: Ledger[Any] = field(default_factory=Ledger)

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def changed(self: Self, examples: Examples, sign: int) -> Self | None:
        """Return the sample with these examples learnt or, with sign -1, forgotten; None where it cannot tell."""

    @abstractmethod
    def plus(self: Self, other: Self, sign: int) -> Self | None:
        """Return the sample of both or, with sign -1, without the other's; None where the other tells too little."""

    @abstractmethod
    def examples(self) -> Examples:
        """Return what is kept, in an order that depends on nothing but what it is."""

    @abstractmethod
    def settled(self: Self) -> Self:
        """Return the sample cut to its size: what is kept then does not depend on how the examples were grouped."""

    @abstractmethod
    def state(self) -> dict[str, NDArray[Any]]:
        """Return what is kept as canonical arrays."""

    @abstractmethod
    def restored(self: Self, stored: StoredArrays) -> Self:
        """Return the sample of this layout with these arrays, checked: undo `state`."""

    @abstractmethod
    def _holding(self: Self, held: dict[Any, int]) -> Self:
        """Return a sample of the same layout that holds these keys, so often."""

    @property
    def _largest(self) -> int:
        """How many examples are kept before the threshold falls."""
        return self.most + self.most // 4

    def emptied(self: Self) -> Self:
        """Return a sample of the same layout with nothing in it."""
        return self._holding({})

    def packed(self) -> dict[str, NDArray[Any]]:
        """Return what is kept and the threshold as arrays, for other processes; `unpacked` undoes it."""
        last = np.array([self.threshold - 1], np.uint64)  # the threshold itself may need 65 bits
        return {**self.state(), "last": last}

    def unpacked(self: Self, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Return a sample of this seed and size that holds what `packed` returned."""
        held = dict(arrays)
        threshold = int(held.pop("last")[0]) + 1
        return replace(self, threshold=threshold).restored(StoredArrays(held))
