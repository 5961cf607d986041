"""The types of the state and of the steps of a regressor."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from hammemo.edits.state import ModelState
    from hammemo.edits.task import ModelTask
    from hammemo.tasks.numbers.layout import NumberLayout
    from hammemo.tasks.numbers.memory import NumberMemory
    from hammemo.tasks.numbers.vote import NumberVote

NumberState: TypeAlias = "ModelState[NumberLayout, NumberMemory, NumberVote]"
"""All that a regressor has learned."""

NumberSteps: TypeAlias = "ModelTask[NumberState, NumberLayout, NumberMemory, NumberVote]"
"""The task of a regressor."""
