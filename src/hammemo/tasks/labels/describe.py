"""What the digest of a classifier is made of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hammemo.edits.digests import describe_parameter, names_of
from hammemo.edits.task import Described
from hammemo.tasks.labels.choose import get_held_out

if TYPE_CHECKING:
    from hammemo.tasks.labels.layout import LabelState


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
            names_of(state),
            described_cutting,
        ],
        vote=describe_parameter(state.vote),
        counts=memory.state_digest(),
        weights=state.vote.state(),
    )
