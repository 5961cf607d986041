"""What the digest of a classifier is made of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hammemo.edits.digests import describe_parameter, names_of
from hammemo.edits.task import Described
from hammemo.tasks.labels.choose import held_out

if TYPE_CHECKING:
    from hammemo.tasks.labels.layout import LabelState


def describe(state: LabelState) -> Described:
    """Return layout, counts, declared labels and vote, ready to be hashed."""
    memory, measured, cutting = state.memory.now(), held_out(state), state.cutting
    cells = state.layout.cells
    layout = [
        memory.layout(),
        state.layout.sites.weights.tolist(),
        state.pinned,
        None if cells is None else cells.digest(),
        None if measured is None else list(vars(measured).values()),
    ]
    cut = None if cutting is None else [cutting.short, cutting.pad]
    return Described(
        layout=layout,
        declared=[memory.declared.tolist(), state.target_dtype.str, names_of(state), cut],
        vote=describe_parameter(state.vote),
        counts=memory.state_digest(),
        weights=state.vote.state(),
    )
