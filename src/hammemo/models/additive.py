"""Models that add and subtract: each is a sum over its examples, so ``a + b`` has learnt what both have."""

from __future__ import annotations

import copy
import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from sklearn.utils.validation import check_is_fitted

from hammemo._versions import Versioned
from hammemo.memories import Ledgered
from hammemo.memories.errors import LayoutError
from hammemo.models.kept_rows import KeptRows
from hammemo.tokens.columns import KIND_WORDS, NAMES
from hammemo.tokens.labels import common_label_dtype

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from hammemo.kernels.cells import Cells
    from hammemo.memories import Memory
    from hammemo.models.kept import Kept
    from hammemo.tokens.column_kinds import ColumnKinds
    from hammemo.tokens.contexts import Examples
    from hammemo.tokens.cutting import Cutting

Self = TypeVar("Self", bound="Additive")


class Additive(Versioned):
    """A model around one memory."""

    memory_: Memory
    label_dtype_: np.dtype[Any]
    _kept: Kept | None = None
    """The rows or documents that are kept: what `refit` chooses by and fits the vote to."""
    _pinned: bool = False
    """Whether the layout was given, so that `refit` does not choose another one."""
    _chosen_at: int = 0
    """How many examples were held when sites and vote were chosen; 0 where they were not."""
    _stale: bool = False
    """Whether rows were forgotten on which what was chosen or fitted may still depend. It is not in digests."""
    cutting_: Cutting | None
    n_features_in_: int
    _columns: str | None = None
    """The kinds of the columns of a table with numbers or dates; None where all are names."""
    _types: str | None = None
    """How values of columns came (:mod:`hammemo.tokens.column_evidence`); None where kinds are not decided again."""
    _cells: Cells | None = None
    """How rows with numbers become contexts; None for names."""
    _kinds: ColumnKinds | None = None
    """Of what kind the columns are; None where that is not known, as after `load`."""

    @property
    def classes_(self) -> NDArray[Any]:
        """Labels in sorted order."""
        raise NotImplementedError

    def merge(self: Self, other: Additive) -> Self:
        """Add everything that another classifier has learnt.

        Models of the same layout, seed included, add their counts and kept rows. With another layout, one of the two
        must keep all its rows: they are counted under the layout of the other model, or of this one where both keep
        all. `LayoutError` is raised where neither does, and where both layouts were given. Nothing is chosen or fitted
        here; `refit` does it.

        Examples
        --------
        >>> from hammemo import MemoryClassifier
        >>> monday = MemoryClassifier().fit([["a", "b"]], ["no"])
        >>> tuesday = MemoryClassifier().partial_fit([["d", "c"]], ["yes"], layout=monday)
        >>> monday.merge(tuesday).predict([["d", "b"], ["d", "c"]]).tolist()
        ['no', 'yes']
        """
        self._check_operand(other, "merge")
        given = other._now()
        self._check_names(given)

        def add(model: Additive) -> None:
            other = model._agreed(given)
            dtype = common_label_dtype(model.classes_, other.classes_)
            cutting = model._cutting_with(other.cutting_, other.memory_)
            memory, theirs = _memories(model, other)
            try:
                model._check_cells(other)
                memory.merge(theirs)
                model.memory_, model._kept = memory, model._kept_with(other, 1)
            except LayoutError as error:
                model._merge_rows(other, error)
            model.cutting_, model.label_dtype_ = cutting, dtype
            model._stale = model._stale or given._stale
            if model._kinds is not None:
                model._kinds = model._kinds.plus(other._kinds)

        self._edited(add)
        self._warn_of_other_weights(given)
        return self

    def unmerge(self: Self, other: Additive) -> Self:
        """Remove everything that another classifier has learnt: the exact inverse of `merge`.

        A model of another layout must keep all its rows.
        Raises `NotStoredError`, with nothing changed, where the memory can tell that the other is not part of this one.
        A label whose last example goes is no longer a class, unless ``classes`` declared it here.

        Examples
        --------
        >>> from hammemo import MemoryClassifier
        >>> from hammemo.memories import Exact
        >>> monday = MemoryClassifier(memory=Exact()).fit([["a", "b"]], ["no"])
        >>> tuesday = MemoryClassifier(memory=Exact()).fit([["d", "c"]], ["yes"])
        >>> week = monday + tuesday
        >>> week.unmerge(monday).memory_.state_bytes() == tuesday.memory_.state_bytes()
        True
        """
        self._check_operand(other, "unmerge")
        given = other._now()
        self._check_names(given)

        def subtract(model: Additive) -> None:
            other = model._as_mine(given)
            memory, theirs = _memories(model, other)
            rows = all_kept(other)
            try:
                model._check_cells(other)
                memory.unmerge(theirs)
                model.memory_, model._kept = memory, model._kept_with(other, -1)
            except LayoutError:
                if rows is None:
                    raise
                model._take_back_kept(rows)
            if other.memory_.label_counts.any():
                model._note_forgetting(None)

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
        """Return an empty model of the same layout: a shard for `partial_fit`, then `merge` or ``+``.

        The layout is all that is settled before the first example, such as the seed and which tokens a hashed memory
        reserves. Declared classes are not carried over. `refit` of the new model does not choose another layout.

        Examples
        --------
        >>> from hammemo import MemoryClassifier
        >>> from hammemo.memories import Hashed
        >>> X, y = [["a", "b"], ["a", "c"], ["d", "c"]], ["no", "no", "yes"]
        >>> whole = MemoryClassifier(memory=Hashed(buckets=4, reserved=2)).fit(X, y)
        >>> shards = [whole.empty_like().partial_fit([row], [label]) for row, label in zip(X, y, strict=True)]
        >>> sum(shards).memory_.state_bytes() == whole.memory_.state_bytes()
        True
        """
        fresh = self._apart()
        fresh.memory_ = fresh.memory_.empty_like()
        fresh._kept = None if fresh._kept is None else fresh._kept.emptied()
        fresh._pinned, fresh._chosen_at = True, 0
        fresh._settle_ledger()
        return fresh

    def _settle_ledger(self, before: Kept | None = None) -> None:
        """Let the kept rows be the ledger of the memory while all are kept; else it has one, of the rows `before`."""
        memory = self.memory_
        if not isinstance(memory, Ledgered):
            return
        rows = self._kept if isinstance(self._kept, KeptRows) and self._kept.holds_all else None
        if rows is not None and (memory.has_ledger or memory._noted):
            self.memory_ = memory.snapshot()
            self.memory_.drop_ledger()
        elif rows is None and not memory.has_ledger:
            self.memory_ = memory.snapshot()
            self.memory_.make_ledger([] if before is None else before.batches())

    def _note_forgetting(self, examples: Examples | None) -> None:
        """Note that rows were forgotten; None where it is not known which."""
        raise NotImplementedError

    def _take_back_kept(self, rows: Kept) -> None:
        """Forget the rows or documents that another model keeps."""
        raise NotImplementedError

    def _merge_rows(self, other: Additive, error: LayoutError) -> None:
        """Count the rows of one model under the layout of the other, whose layout is another one."""
        mine, theirs = all_kept(self), all_kept(other)
        if (self._pinned and other._pinned) or self.n_features_in_ != other.n_features_in_:
            raise error
        rows, left = (theirs, self) if theirs is not None else (mine, other)
        if rows is None:
            raise error
        memory = left.memory_.snapshot()
        memory.declare_labels((other if left is self else self).memory_.declared)
        left._count_kept(memory, rows, 1)
        kept = None if left._kept is None else _sum(left._kept, rows, 1)
        if left is other:
            self._take_layout(other)
        self._pinned |= other._pinned
        self.memory_, self._kept = memory, kept

    def _agreed(self: Self, other: Additive) -> Additive:
        """Let both models have columns of the same kinds, where rows decide them; return the other one, or a copy."""
        raise NotImplementedError

    def _as_mine(self, other: Additive) -> Additive:
        """Return another model with its rows as those of a table with the kinds of this one's columns."""
        raise NotImplementedError

    def _check_names(self, other: Additive) -> None:
        """Refuse a model whose columns have other names, or come in another order."""
        mine, theirs = (getattr(model, "feature_names_in_", None) for model in (self, other))
        if mine is None or theirs is None or len(mine) != len(theirs) or mine.tolist() == theirs.tolist():
            return  # of their number, the layouts tell
        at = next(j for j, pair in enumerate(zip(mine.tolist(), theirs.tolist(), strict=True)) if pair[0] != pair[1])
        same = " The columns are the same in another order." if set(mine) == set(theirs) else ""
        raise LayoutError(
            f"Column {at} is {mine[at]!r} here and {theirs[at]!r} there.{same} Give both tables the same columns in "
            "the same order."
        )

    def _check_kinds(self, other: Additive) -> None:
        """Refuse a model whose columns are of other kinds."""
        if self._columns == other._columns:
            return
        mine, theirs = (model._columns or NAMES * model.n_features_in_ for model in (self, other))
        if len(mine) != len(theirs):
            raise LayoutError(f"The tables have {len(mine)} columns here and {len(theirs)} there.")
        names = getattr(self, "feature_names_in_", range(len(mine)))
        at = next(j for j, pair in enumerate(zip(mine, theirs, strict=True)) if len(set(pair)) > 1)
        raise LayoutError(
            f"Column {names[at]!r} holds {KIND_WORDS[mine[at]]} here and {KIND_WORDS[theirs[at]]} there: give both "
            "tables the same types, or both models the same numeric=[…]; empty_like() takes the kinds over."
        )

    def _check_cells(self, other: Additive) -> None:
        if self._cells is not other._cells and self._cells != other._cells:
            raise LayoutError("The two models cut numbers differently: give the second one layout= of the first.")

    def _count(self, memory: Memory, examples: Examples, sign: int) -> None:
        """Add examples to a memory, or subtract them, as contexts of cells where they have numbers."""
        if self._cells is None:
            memory.update(examples, sign)
        else:
            memory.update_cells(self._cells, examples, sign)

    def _count_kept(self, memory: Memory, kept: Kept, sign: int) -> None:
        """Add what is kept to a memory, or subtract it."""
        for examples in kept.batches():
            if len(examples):
                self._count(memory, examples, sign)

    def _take_layout(self, other: Additive) -> None:
        """Take the kernel, the sites and the vote of another model."""
        raise NotImplementedError

    def _cutting_with(self, theirs: Cutting | None, memory: Memory | None = None) -> Cutting | None:
        """Return how streams are cut of which some more were learnt, cut so; None where the two differ."""
        if theirs == self.cutting_ or not self.memory_.label_counts.any():
            return theirs
        return self.cutting_ if memory is not None and not memory.label_counts.any() else None

    def _kept_with(self, other: Additive, sign: int) -> Kept | None:
        """Return the kept rows with the other's added or subtracted; None where one of them has none."""
        if self._kept is None or other._kept is None:
            return None
        return _sum(self._kept, other._kept, sign)

    def _apart(self: Self) -> Self:
        """Return a model of this version with parameters and a vote of its own; what is stored is not copied."""
        check_is_fitted(self)
        version = self.snapshot()
        memory, kept = version.__dict__.pop("memory_"), version.__dict__.pop("_kept", None)
        model = copy.deepcopy(version)
        model.memory_, model._kept = memory.snapshot(), kept
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


def _sum(mine: Kept, theirs: Kept, sign: int) -> Kept | None:
    """Return what both keep; where nothing was learnt here, documents stay documents and rows stay rows."""
    if type(mine) is not type(theirs) and mine.holds_all and not len(mine):
        mine = replace(theirs.emptied(), seed=mine.seed, threshold=mine.threshold)
    return mine.plus(theirs, sign)


def _memories(model: Additive, other: Additive) -> tuple[Memory, Memory]:
    """Return the memories of two models, which are to be added, for changes; both with a ledger, or both without.

    Without one, both models keep all rows, and both together no more than are kept.
    """
    mine, theirs = model.memory_.snapshot(), other.memory_.snapshot()
    if not isinstance(mine, Ledgered) or not isinstance(theirs, Ledgered) or (mine.has_ledger and theirs.has_ledger):
        return mine, theirs
    kept, more = model._kept, other._kept
    fits = kept is not None and more is not None and len(kept) + len(more) <= kept.most and kept.seed == more.seed
    if fits and not mine.has_ledger and not theirs.has_ledger:
        return mine, theirs
    for memory, rows in ((mine, kept), (theirs, more)):
        if not memory.has_ledger and rows is not None:
            memory.make_ledger(rows.batches())
    return mine, theirs


def all_kept(model: Additive) -> Kept | None:
    """Return the rows or documents that a model keeps, where it keeps all that it holds."""
    kept = model._kept
    return kept if kept is not None and kept.holds_all else None
