"""What the digest of a regressor is made of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hammemo._arrays.array_digest import array_digest
from hammemo.edits.digests import list_column_names
from hammemo.edits.task import AnswerFacts, Described

if TYPE_CHECKING:
    from hammemo.tasks.numbers.settings import NumberSettings
    from hammemo.tasks.numbers.state import NumberState


def describe(state: NumberState) -> Described:
    """Return layout, sums and vote, ready to be hashed."""
    return Described(
        layout=[state.layout.digest, state.pinned],
        declared=[list_column_names(state)],
        vote=None,
        counts=array_digest(state.memory.arrays()),
        weights=state.vote.state(),
    )


def describe_answers(settings: NumberSettings, state: NumberState) -> AnswerFacts:
    """Return that answers are numbers, and their bounds."""
    del state
    return AnswerFacts(examples=[0.0], classes=[], bounds=settings.bounds.parameter, parts={})
