"""What the digest of a classifier is made of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hammemo.edits.digests import describe_parameter, list_column_names
from hammemo.edits.task import AnswerFacts, Described
from hammemo.tasks.labels.choose import get_held_out
from hammemo.tasks.labels.read import classes_of

if TYPE_CHECKING:
    from hammemo.tasks.labels.layout import LabelState
    from hammemo.tasks.labels.settings import ModelSettings


def describe(state: LabelState) -> Described:
    """Return layout, counts, declared labels and vote, ready to be hashed."""
    memory = state.memory.now()
    held_out = get_held_out(state)
    cutting = state.cutting
    cells = state.layout.cells
    layout = [
        memory.layout(),
        state.layout.sites.weights.tolist(),
        state.pinned,
        None if cells is None else cells.digest(),
        None if held_out is None else list(vars(held_out).values()),
    ]
    described_cutting = None if cutting is None else [cutting.short, cutting.pad]
    return Described(
        layout=layout,
        declared=[
            memory.declared.tolist(),
            state.target_dtype.str,
            list_column_names(state),
            described_cutting,
        ],
        vote=describe_parameter(state.vote),
        counts=memory.state_digest(),
        weights=state.vote.state(),
    )


def describe_answers(settings: ModelSettings, state: LabelState) -> AnswerFacts:
    """Return the labels, and the parts that find them."""
    del settings
    classes = classes_of(state).tolist()
    parts = {
        "kernel": repr(state.layout.kernel),
        "memory": repr(state.memory),
        "vote": repr(state.vote),
    }
    return AnswerFacts(examples=classes, classes=classes, bounds=None, parts=parts)
