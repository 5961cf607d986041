"""Models that add and subtract: each is a sum over its examples, so ``a + b`` has learnt what both have."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, TypeVar

from sklearn.utils.validation import check_is_fitted

from hammemo.tokens.labels import common_label_dtype

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from hammemo.memories import Memory

Self = TypeVar("Self", bound="Additive")


class Additive:
    """A model around one memory."""

    memory_: Memory
    label_dtype_: np.dtype[Any]

    @property
    def classes_(self) -> NDArray[Any]:
        """Labels in sorted order."""
        raise NotImplementedError

    def merge(self: Self, other: Additive) -> Self:
        """Add all that another classifier has learnt; its memory must have the same layout, seed included.

        Counts are added, and nothing else: kernel weights and fitted vote weights stay those of this model, also where
        the other's differ. `fit_vote` fits a log-linear vote to what is there now.

        Examples
        --------
        >>> from hammemo import MemoryClassifier
        >>> monday = MemoryClassifier().fit([["a", "b"]], ["no"])
        >>> tuesday = MemoryClassifier().partial_fit([["d", "c"]], ["yes"], layout=monday)
        >>> monday.merge(tuesday).predict([["d", "b"], ["d", "c"]]).tolist()
        ['no', 'yes']
        """
        self._check_operand(other, "merge")
        dtype = common_label_dtype(self.classes_, other.classes_)
        self.memory_.merge(other.memory_)
        self.label_dtype_ = dtype
        return self

    def unmerge(self: Self, other: Additive) -> Self:
        """Take back all that another classifier has learnt: the exact inverse of `merge`.

        Raises `NotStoredError`, with nothing changed, where the memory can tell that the other is no part of this one.
        A label whose last example goes is no longer a class, unless ``classes`` declared it here.

        Examples
        --------
        >>> from hammemo import Exact, MemoryClassifier
        >>> monday = MemoryClassifier(memory=Exact()).fit([["a", "b"]], ["no"])
        >>> tuesday = MemoryClassifier(memory=Exact()).fit([["d", "c"]], ["yes"])
        >>> week = monday + tuesday
        >>> week.unmerge(monday).memory_.state_bytes() == tuesday.memory_.state_bytes()
        True
        """
        self._check_operand(other, "unmerge")
        self.memory_.unmerge(other.memory_)
        return self

    def __add__(self: Self, other: Any) -> Self:
        """Return a new model that has learnt what both have: ``a + b``, or ``sum([a, b, c])``.

        Kernel weights, vote (fitted weights included) and parameters are those of the left one; neither operand is
        changed. `fit_vote` fits a log-linear vote to the sum.
        """
        return copy.deepcopy(self).merge(other) if isinstance(other, Additive) else NotImplemented

    def __radd__(self: Self, other: Any) -> Self:
        """Return a copy for ``0 + model``, which is how `sum` begins."""
        if not (isinstance(other, int) and other == 0):
            return NotImplemented
        check_is_fitted(self)
        return copy.deepcopy(self)

    def __sub__(self: Self, other: Any) -> Self:
        """Return a new model without what the right one has learnt; neither operand is changed."""
        return copy.deepcopy(self).unmerge(other) if isinstance(other, Additive) else NotImplemented

    def empty_like(self: Self) -> Self:
        """Return a model of the same layout that has learnt nothing: a shard for `partial_fit`, then `merge` or ``+``.

        The layout is all that is settled before the first example, such as the seed and which tokens a hashed memory
        reserves. Declared classes are not carried over.

        Examples
        --------
        >>> from hammemo import Hashed, MemoryClassifier
        >>> X, y = [["a", "b"], ["a", "c"], ["d", "c"]], ["no", "no", "yes"]
        >>> whole = MemoryClassifier(memory=Hashed(buckets=4, reserved=2)).fit(X, y)
        >>> shards = [whole.empty_like().partial_fit([row], [label]) for row, label in zip(X, y, strict=True)]
        >>> sum(shards).memory_.state_bytes() == whole.memory_.state_bytes()
        True
        """
        check_is_fitted(self)
        fresh = copy.copy(self)
        fresh.memory_ = self.memory_.empty_like()
        return copy.deepcopy(fresh)

    def _check_operand(self, other: Any, name: str) -> None:
        check_is_fitted(self)
        if not isinstance(other, Additive):
            raise TypeError(f"{name} takes another MemoryClassifier, not {other!r}.")
        check_is_fitted(other)
