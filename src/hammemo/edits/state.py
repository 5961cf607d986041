"""The state of a model: one value that never changes, replaced as a whole by every edit.

The rule of all models: the layout is a function of the kept rows, the memory is a sum over rows under that layout, and
the weights are a function of the kept rows and the memory. Nothing else is learnt. The edits in this package are
compositions of the three, from one state to the next.

A memory is an object that an edit changes, but always one of its own: ``memory.snapshot()`` first.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeVar

from hammemo.memories.exact import InSegments
from hammemo.tokens.labels import classes_array
from hammemo.votes.choosing import HeldOut, WeightTrial

if TYPE_CHECKING:
    import numpy as np

    from hammemo._arrays.types import Array
    from hammemo.kernels import SiteKernel
    from hammemo.kernels.cells import Cells
    from hammemo.kernels.sites import Sites
    from hammemo.memories import Memory
    from hammemo.stores.kept import Kept, ModelStore
    from hammemo.stores.kept_documents import KeptDocuments
    from hammemo.stores.kept_rows import KeptRows
    from hammemo.tokens.column_schema import ColumnSchema
    from hammemo.tokens.contexts import Examples
    from hammemo.tokens.cutting import Cutting
    from hammemo.votes import Vote

WEIGHTS_FITTED: Final = frozenset({"weights"})
EVERYTHING_FITTED: Final = frozenset({"layout", "weights"})


State = TypeVar("State", bound="RowsState")


class Witness(Protocol):
    """Counts and hashes the rows that a model forgets; it is a value."""

    @property
    def rows(self) -> int:
        """How many rows were forgotten."""

    def plus_examples(self, examples: Examples) -> Witness:
        """Return it with more forgotten rows."""


@dataclass(frozen=True)
class Choices:
    """Why the parts of a model are what they are: plain values, so that they can be copied and pickled."""

    kernel: str = "as given"
    memory: str = "as given"
    vote: str = "as given"
    losses: tuple[float, ...] = ()
    """The loss on folds left out after each round of choosing sites."""
    taken: int = 0
    """Which of these rounds was taken."""
    folds: int = 0
    trials: tuple[WeightTrial, ...] = ()
    """What was tried for the vote, the best first."""
    held_out: HeldOut | None = None
    """How good the best one is on the folds; None where nothing was tried."""

    def with_trials(self, trials: list[WeightTrial], why: str) -> Choices:
        """Return the choices with the vote that is the best of some."""
        held_out = HeldOut.of(trials[0]) if trials else None
        return replace(
            self, trials=tuple(trials), vote=f"auto: {why}, the best of {len(trials)} tried", held_out=held_out
        )


class Layout(NamedTuple):
    """What is fixed while rows are added."""

    kernel: SiteKernel
    sites: Sites
    choices: Choices
    cells: Cells | None = None
    """How rows with numbers become contexts; None for names."""


class Part(NamedTuple):
    """A layout, and the memory that counts rows under it."""

    layout: Layout
    memory: Memory


class RowsState:
    """What the states of all models have in common: columns, and the rows or documents that are kept."""

    columns: ColumnSchema
    store: ModelStore | None
    cutting: Cutting | None
    pinned: bool
    stale: bool
    refitted: frozenset[str]
    witness: Witness | None
    position: str | None

    @property
    def carried(self) -> dict[str, Any]:
        """What a state that is made again from the same rows takes over."""
        return {"witness": self.witness, "position": self.position}

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "witness": None}

    def but(self: State, **changes: Any) -> State:
        """Return it with other values: `dataclasses.replace`, quickly, because single edits take microseconds."""
        changed = object.__new__(type(self))
        object.__setattr__(changed, "__dict__", {**self.__dict__, **changes})
        return changed

    @property
    def n_examples(self) -> int:
        """How many examples it holds."""
        raise NotImplementedError

    @property
    def holds_nothing(self) -> bool:
        """Whether no example is held."""
        return not self.n_examples

    def apart(self: State) -> State:
        """Return a state that shares nothing which an edit changes."""
        raise NotImplementedError

    def cut(self, X: Any) -> Any:
        """Return contexts of one length where it is known how to make them of shorter and longer ones."""
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
        kept = self.kept
        return kept if kept is not None and kept.holds_all else None

    @property
    def can_choose(self) -> bool:
        """Whether another layout may be chosen by the kept rows or documents: all are kept, and none was given."""
        return self.all_kept is not None and not self.pinned

    @property
    def can_choose_by_rows(self) -> bool:
        """Whether these are rows: by documents only `refit` chooses."""
        return self.rows is not None and self.can_choose

    @property
    def refits_whole(self) -> bool:
        """Whether `refit` needs no data to make a model that depends on no forgotten row."""
        return self.kept is not None and (self.kept.holds_all or self.pinned)


@dataclass(frozen=True, eq=False)
class ModelState(RowsState):
    """All that a model has learnt.

    Parameters
    ----------
    parts : tuple of Part
        What answers: one part.
    vote : Vote
        With its fitted weights.
    columns : ColumnSchema
    label_dtype : dtype
        The type that labels have in answers.
    store : ModelStore, optional
        What is stored of the rows or documents: those that are kept, which `refit` chooses by and fits the vote to,
        and digests of all.
    cutting : Cutting, optional
        How streams were cut into windows, if any were learnt, all alike.
    pinned : bool
        Whether the layout was given, so that `refit` does not choose another one.
    chosen_at : int
        How many examples were held when sites and vote were chosen; 0 where they were not.
    stale : bool
        Whether rows were forgotten on which what was chosen or fitted may still depend. It is not in digests.
    refitted : frozenset of str
        Which of "layout" and "weights" the last edit chose and fitted by all rows that the model holds since.
    witness : Witness, optional
        What counts the forgotten rows while a receipt is made; copies of the state do not have it.
    position : str, optional
        Up to where the model has followed its source, as the source says it. It is not in digests.
    """

    parts: tuple[Part, ...]
    vote: Vote
    columns: ColumnSchema
    label_dtype: np.dtype[Any]
    store: ModelStore | None = None
    cutting: Cutting | None = None
    pinned: bool = False
    chosen_at: int = 0
    stale: bool = False
    refitted: frozenset[str] = frozenset()
    witness: Witness | None = None
    position: str | None = None

    def with_memory(self, memory: Memory, **changes: Any) -> ModelState:
        """Return it with another memory of the same layout."""
        return self.but(parts=(Part(self.parts[0].layout, memory),), **changes)

    def with_layout(self, layout: Layout, **changes: Any) -> ModelState:
        """Return it with another layout and the same memory."""
        return self.but(parts=(Part(layout, self.parts[0].memory),), **changes)

    def like_layout_of(self, other: ModelState) -> ModelState:
        """Return it with the layout and the fitted vote of another state, and its own memory."""
        return self.with_layout(other.layout, vote=copy.deepcopy(other.vote), chosen_at=other.chosen_at)

    @property
    def layout(self) -> Layout:
        """The layout of the only part."""
        return self.parts[0].layout

    @property
    def memory(self) -> Memory:
        """The memory of the only part."""
        return self.parts[0].memory

    @property
    def cells(self) -> Cells | None:
        """How rows with numbers become contexts; None for names."""
        return self.parts[0].layout.cells

    @property
    def sites(self) -> Sites:
        """What is compared."""
        return self.parts[0].layout.sites

    @property
    def n_examples(self) -> int:
        """How many examples it holds."""
        return int(self.memory.label_counts.sum())

    @property
    def fingerprint(self) -> str:
        """A short name of the layout: models with equal ones can be merged."""
        return self.memory.fingerprint()

    @property
    def classes(self) -> Array:
        """The labels in sorted order, as answers have them."""
        return classes_array(self.memory.labels, self.label_dtype)

    @property
    def holds_nothing(self) -> bool:
        """Whether no example is held."""
        return not self.memory.label_counts.any()

    @property
    def can_choose(self) -> bool:
        """Whether another layout may be chosen: no table in segments is counted again."""
        return super().can_choose and not is_in_segments(self.memory)

    def apart(self) -> ModelState:
        """Return a state with a memory and a vote of its own; what is stored is not copied."""
        return self.with_memory(self.memory.snapshot(), vote=copy.deepcopy(self.vote))


def is_in_segments(memory: Memory) -> bool:
    """Return whether the table of a memory lies in the segments of a folder."""
    return isinstance(memory, InSegments) and memory.segmented is not None


def way_to_refit(state: RowsState) -> str:
    """Return the call after which nothing depends on forgotten rows."""
    if state.refits_whole:
        return "refit()"
    if state.cutting is not None:
        return "fit_stream(…), with the documents that are left"
    return "refit(rows=(X, y)), with the rows that are left"
