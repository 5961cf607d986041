"""The state of a model: one value that never changes, replaced as a whole by every edit.

The rule of all models: the layout is a function of the kept rows, the memory is a sum over rows
under that layout, and the vote is a function of the kept rows and the memory. Nothing else is
learned. What the three are, and how they are made, is a matter of the task
(:mod:`hammemo.edits.task`): labels or numbers. The edits in this package are written once, as
functions from one state to the next.

A memory is a value as well: an edit asks the task for the memory with more rows, or with fewer.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeAlias

from hammemo.edits.task import L, M, V

if TYPE_CHECKING:
    import numpy as np

    from hammemo._arrays.types import Ints
    from hammemo.edits.task import ModelTask
    from hammemo.stores.kept import Kept, ModelStore
    from hammemo.stores.kept_documents import KeptDocuments
    from hammemo.stores.kept_rows import KeptRows
    from hammemo.tokens.columns import Columns
    from hammemo.tokens.contexts import Examples
    from hammemo.tokens.cutting import Cutting
    from hammemo.tokens.vocabulary import Vocabulary

WEIGHTS_FITTED: Final = frozenset({"weights"})
EVERYTHING_FITTED: Final = frozenset({"layout", "weights"})
NOTHING_FITTED: Final[frozenset[str]] = frozenset()


class Witness(Protocol):
    """Counts and hashes the rows that a model forgets; it is a value."""

    @property
    def rows(self) -> int:
        """How many rows were forgotten."""

    def plus_examples(self, examples: Examples) -> Witness:
        """Return it with more forgotten rows."""


@dataclass(frozen=True, eq=False)
class ModelState(Generic[L, M, V]):
    """All that a model has learned.

    Parameters
    ----------
    task : ModelTask
        What differs between labels and numbers.
    layout : L
        What is fixed while rows are added: sites, cuts, trees.
    memory : M
        The sum over rows under this layout.
    vote : V
        With its fitted weights.
    columns : Columns
    seed : int
        What the hashes of rows and tokens depend on.
    target_dtype : dtype
        The type that labels or numbers have in answers.
    store : ModelStore, optional
        What is stored of the rows or documents: those that are kept, which `refit` chooses by and
        fits the vote to, and digests of all.
    cutting : Cutting, optional
        How streams were cut into windows, if any were learned, all alike.
    pinned : bool
        Whether the layout was given, so that `refit` does not choose another one.
    chosen_at : int
        How many examples were held when layout and vote were chosen; 0 where they were not.
    stale : bool
        Whether rows were forgotten on which what was chosen or fitted may still depend. It is not
        in digests.
    refitted : frozenset of str
        Which of "layout" and "weights" the last edit chose and fitted by all rows that the model
        holds since.
    witness : Witness, optional
        What counts the forgotten rows while a receipt is made; copies of the state do not have it.
    position : str, optional
        Up to where the model has followed its source, as the source says it. It is not in digests.
    """

    task: ModelTask[ModelState[L, M, V], L, M, V]
    layout: L
    memory: M
    vote: V
    columns: Columns
    seed: int
    target_dtype: np.dtype[Any]
    store: ModelStore | None = None
    cutting: Cutting | None = None
    pinned: bool = False
    chosen_at: int = 0
    stale: bool = False
    refitted: frozenset[str] = NOTHING_FITTED
    witness: Witness | None = None
    position: str | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "witness": None}

    def with_changes(self, **changes: Any) -> ModelState[L, M, V]:
        """Return a copy with other values.

        It is `dataclasses.replace` without checks, since single edits take microseconds.
        """
        changed = object.__new__(ModelState)
        object.__setattr__(changed, "__dict__", {**self.__dict__, **changes})
        return changed

    def with_layout_of(self, other: ModelState[L, M, V]) -> ModelState[L, M, V]:
        """Return it with the layout and the fitted vote of another state; memory and rows stay."""
        return self.with_changes(
            layout=other.layout,
            vote=copy.deepcopy(other.vote),
            seed=other.seed,
            chosen_at=other.chosen_at,
        )

    @property
    def carried(self) -> dict[str, Any]:
        """What a state that is made again from the same rows takes over."""
        return {"witness": self.witness, "position": self.position}

    @property
    def n_examples(self) -> int:
        """How many examples it holds."""
        return self.task.counting.count_examples(self.memory)

    @property
    def holds_nothing(self) -> bool:
        """Whether no example is held."""
        return not self.n_examples

    @property
    def labels(self) -> Vocabulary:
        """All labels, in the order of answers; none where the model predicts numbers."""
        return self.task.counting.list_labels(self.memory)

    @property
    def label_counts(self) -> Ints:
        """How many examples each of these labels has."""
        return self.task.counting.count_by_label(self.memory)

    @property
    def can_answer(self) -> bool:
        """Whether there is anything to answer with."""
        return self.task.counting.can_answer(self)

    @property
    def is_layout_undecided(self) -> bool:
        """Whether the next rows settle something of the layout for good."""
        return self.task.counting.is_layout_undecided(self)

    @property
    def declared(self) -> Vocabulary:
        """The labels that stay while they have no example."""
        return self.task.counting.list_declared(self.memory)

    @property
    def fingerprint(self) -> str:
        """A short name of the layout: models with equal ones can be merged."""
        return self.task.counting.fingerprint(self)

    def empty_memory(self) -> M:
        """Return a memory of this layout without rows, in which declared labels stay declared."""
        counting = self.task.counting
        return counting.declare(counting.empty_memory(self), self.declared)

    def edit_store(self, examples: Examples, sign: int) -> ModelStore | None:
        """Return what is stored, with examples added or, with sign -1, removed."""
        return None if self.store is None else self.store.edit(examples, sign)

    def cut(self, X: Any) -> Any:
        """Return contexts of one length, where the model knows how to cut others."""
        return X if self.cutting is None else self.cutting.contexts(X, self.columns.n)

    @property
    def kept(self) -> Kept | None:
        """The rows or documents that are kept; None where none are."""
        return None if self.store is None else self.store.kept

    @property
    def rows(self) -> KeptRows | None:
        """The rows that are kept; None where none or documents are."""
        return None if self.store is None else self.store.kept_rows

    @property
    def documents(self) -> KeptDocuments | None:
        """The documents that are kept; None where none or rows are."""
        return None if self.store is None else self.store.kept_documents

    @property
    def all_kept(self) -> Kept | None:
        """The rows or documents that are kept, where these are all that the model holds."""
        kept_examples = self.kept
        if kept_examples is None or not kept_examples.holds_all:
            return None
        return kept_examples

    @property
    def can_choose(self) -> bool:
        """Whether another layout may be chosen by the kept rows or documents.

        All must be kept, and the layout must not have been given.
        """
        return (
            self.all_kept is not None
            and not self.pinned
            and self.task.counting.can_count_again(self.memory)
        )

    @property
    def can_choose_by_rows(self) -> bool:
        """Whether these are rows: by documents only `refit` chooses."""
        return self.rows is not None and self.can_choose

    @property
    def refits_whole(self) -> bool:
        """Whether `refit` needs no data to make a model that depends on no forgotten row."""
        return self.kept is not None and (self.kept.holds_all or self.pinned)


AnyState: TypeAlias = ModelState[Any, Any, Any]
"""A state, for what does not look into layout, memory and vote."""


def way_to_refit(state: AnyState) -> str:
    """Return the call after which nothing depends on forgotten rows."""
    if state.refits_whole:
        return "refit()"
    if state.cutting is not None:
        return "fit_stream(…), with the documents that are left"
    return "refit(rows=(X, y)), with the rows that are left"


def refuse_to_record(state: AnyState | None) -> None:
    """Refuse an edit that learns or merges while a receipt is made of what is forgotten."""
    if state is not None and state.witness is not None:
        raise ValueError(
            "A receipt is being made, and it counts the rows that forget and forget_stream remove: "
            "learn and merge before or after the block. Nothing was changed."
        )
