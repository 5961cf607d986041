"""The layout of a classifier: what is compared, and why."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from hammemo.memories.exact import InSegments
from hammemo.votes.choose_weights import HeldOut, WeightTrial

if TYPE_CHECKING:
    from hammemo.edits.state import ModelState
    from hammemo.edits.task import ModelTask
    from hammemo.features.cells import Cells
    from hammemo.kernels import SiteKernel
    from hammemo.kernels.sites import Sites
    from hammemo.memories import Memory
    from hammemo.votes import Vote


@dataclass(frozen=True)
class Choices:
    """Why the parts of a model are what they are: plain values, ready to be copied and pickled."""

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
        held_out = None
        if trials:
            held_out = HeldOut.from_trial(trials[0])
        return replace(
            self,
            trials=tuple(trials),
            vote=f"auto: {why}, the best of {len(trials)} tried",
            held_out=held_out,
        )


class Layout(NamedTuple):
    """What is fixed while rows are added."""

    kernel: SiteKernel
    sites: Sites
    choices: Choices
    cells: Cells | None = None
    """How rows with numbers become contexts; None for names."""


LabelState: TypeAlias = "ModelState[Layout, Memory, Vote]"
"""All that a classifier has learned."""


LabelSteps: TypeAlias = "ModelTask[LabelState, Layout, Memory, Vote]"
"""The task of a classifier."""


def is_in_segments(memory: Memory) -> bool:
    """Return whether the table of a memory lies in the segments of a folder."""
    return isinstance(memory, InSegments) and memory.segmented is not None
