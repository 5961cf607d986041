"""Models that add and subtract: each is a sum over its examples, so ``a + b`` has learnt what both have."""

from __future__ import annotations

import copy
import warnings
from typing import TYPE_CHECKING, Any, TypeVar

from sklearn.utils.validation import check_is_fitted

from hammemo._versions import Versioned
from hammemo.tokens.labels import common_label_dtype

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from hammemo.memories import Memory
    from hammemo.models.kept import Kept
    from hammemo.tokens.column_kinds import ColumnKinds
    from hammemo.tokens.cutting import Cutting

Self = TypeVar("Self", bound="Additive")


class Additive(Versioned):
    """A model around one memory."""

    memory_: Memory
    label_dtype_: np.dtype[Any]
    sample_: Kept | None = None
    """What `refit` fits the vote to."""
    cutting_: Cutting | None
    _kinds: ColumnKinds | None = None
    """Of what kind the columns are; None where that is not known, as after `load`."""

    @property
    def classes_(self) -> NDArray[Any]:
        """Labels in sorted order."""
        raise NotImplementedError

    def merge(self: Self, other: Additive) -> Self:
        """Add all that another classifier has learnt; its memory must have the same layout, seed included.

        Counts are added, and the samples that a log-linear vote is fitted to; kernel weights and fitted vote weights
        stay those of this model, also where the other's differ. `refit` fits the vote to what is there now.

        Examples
        --------
        >>> from hammemo import MemoryClassifier
        >>> monday = MemoryClassifier().fit([["a", "b"]], ["no"])
        >>> tuesday = MemoryClassifier().partial_fit([["d", "c"]], ["yes"], layout=monday)
        >>> monday.merge(tuesday).predict([["d", "b"], ["d", "c"]]).tolist()
        ['no', 'yes']
        """
        self._check_operand(other, "merge")
        other = other._now()

        def add(model: Additive) -> None:
            dtype = common_label_dtype(model.classes_, other.classes_)
            memory = model.memory_.snapshot()
            memory.merge(other.memory_)
            model.cutting_ = model._cutting_with(other.cutting_, other.memory_)
            model.memory_, model.label_dtype_ = memory, dtype
            model.sample_ = model._sample_with(other, 1)
            if model._kinds is not None:
                model._kinds = model._kinds.plus(other._kinds)

        self._edited(add)
        self._warn_of_other_weights(other)
        return self

    def unmerge(self: Self, other: Additive) -> Self:
        """Take back all that another classifier has learnt: the exact inverse of `merge`.

        Raises `NotStoredError`, with nothing changed, where the memory can tell that the other is not part of this one.
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
        other = other._now()

        def subtract(model: Additive) -> None:
            memory = model.memory_.snapshot()
            memory.unmerge(other.memory_)
            model.memory_, model.sample_ = memory, model._sample_with(other, -1)

        self._edited(subtract)
        return self

    def __add__(self: Self, other: Any) -> Self:
        """Return a new model that has learnt what both have: ``a + b``, or ``sum([a, b, c])``.

        Kernel weights, vote (fitted weights included) and parameters are those of the left one; neither operand is
        changed. `refit` fits a log-linear vote to the sum.
        """
        return self._apart().merge(other) if isinstance(other, Additive) else NotImplemented

    def __radd__(self: Self, other: Any) -> Self:
        """Return a copy for ``0 + model``, which is how `sum` begins."""
        if not (isinstance(other, int) and other == 0):
            return NotImplemented
        return self._apart()

    def __sub__(self: Self, other: Any) -> Self:
        """Return a new model without what the right one has learnt; neither operand is changed."""
        return self._apart().unmerge(other) if isinstance(other, Additive) else NotImplemented

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
        fresh = self._apart()
        fresh.memory_ = fresh.memory_.empty_like()
        fresh.sample_ = None if fresh.sample_ is None else fresh.sample_.emptied()
        return fresh

    def _cutting_with(self, theirs: Cutting | None, memory: Memory | None = None) -> Cutting | None:
        """Return how streams are cut of which some more were learnt, cut so; None where the two differ."""
        if theirs == self.cutting_ or not self.memory_.label_counts.any():
            return theirs
        return self.cutting_ if memory is not None and not memory.label_counts.any() else None

    def _sample_with(self, other: Additive, sign: int) -> Kept | None:
        """Return the kept sample with the other's added or subtracted; None where one of them has none."""
        if self.sample_ is None or other.sample_ is None:
            return None
        return self.sample_.plus(other.sample_, sign) if type(self.sample_) is type(other.sample_) else None

    def _apart(self: Self) -> Self:
        """Return a model of this version with parameters and a vote of its own; what is stored is not copied."""
        check_is_fitted(self)
        version = self.snapshot()
        memory, sample = version.__dict__.pop("memory_"), version.__dict__.pop("sample_", None)
        model = copy.deepcopy(version)
        model.memory_, model.sample_ = memory.snapshot(), sample
        return model

    def _warn_of_other_weights(self, other: Additive) -> None:
        """Say that of two sets of fitted weights one is kept."""
        mine, theirs = (getattr(model, "vote_", None) for model in (self, other))
        if mine and theirs and mine.state() and theirs.state() and not mine.is_fitted_like(theirs):
            warnings.warn(
                "The two models have different fitted weights: the merged one has those of the left. Fit them to what "
                "both have learnt with refit(), or with fit_vote(X, y).",
                UserWarning,
                stacklevel=3,
            )

    def _check_operand(self, other: Any, name: str) -> None:
        check_is_fitted(self)
        if not isinstance(other, Additive):
            raise TypeError(f"{name} takes another MemoryClassifier, not {other!r}.")
        check_is_fitted(other)
