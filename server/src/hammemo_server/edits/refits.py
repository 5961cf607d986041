"""What a refit has fitted or chosen, as bytes: what the log keeps of it.

**Weights.** The log keeps what was fitted, not the request to fit. So a process that applies
the log, after a crash or on another node, has the weights that answers were given with, to the
bit: whatever its processor does to the last digit of a sum, and whichever examples its own
sample holds (that depends on how edits were grouped, once examples are more than the sample has
room for). And it need not fit again, which takes seconds.

**Choices.** Sites, cells of numbers, reserved tokens, the settings of the vote and its weights
are logged as the file of a model without rows. A process that applies the log counts the rows
that it keeps under them, and so has the same bytes as the writer. It chooses nothing: that
takes seconds to minutes, and depends on the processor and on versions of libraries.

While sites are chosen, the writer goes on with edits. They are counted under the new layout
with all other rows, since the choice is applied to the version that it meets.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any, Final

import safetensors.numpy
from safetensors import SafetensorError

from hammemo._arrays.checked import StoredArrays
from hammemo.edits.editing import edit, take_state
from hammemo.edits.learn import choose_again_by_rows
from hammemo.edits.take_choice import take_choice as take_chosen_layout
from hammemo.files.contents import file_bytes, from_bytes
from hammemo.tasks.labels.weigh import with_weights
from hammemo_server.edits.operations import TooLarge

if TYPE_CHECKING:
    from hammemo.edits.state import AnyState
    from hammemo.estimators.classifiers import MemoryClassifier
    from hammemo.estimators.learners import Learner
    from hammemo.votes import Vote

MAX_BYTES: Final = 2**28
"""The most bytes of weights: what logs can keep in one body, with room to spare."""


def is_choice_due(model: Learner, since: int) -> bool:
    """Return whether a model chooses by its rows and has twice as many as at the last choice.

    `since` is how many it had when the last choice beside edits began.
    """
    settings: Any = model.settings()
    return chooses(model) and bool(
        settings.task.schedule.is_choice_due(settings, model.state, since)
    )


def chooses(model: Learner) -> bool:
    """Return whether a model chooses its layout by its rows: automatically, with all rows kept."""
    return model.settings().kernel_is_automatic and model.state.can_choose_by_rows


def chooses_at_refit(model: Learner) -> bool:
    """Return whether a refit chooses a layout, which it does by documents, too."""
    settings: Any = model.settings()
    return bool(settings.task.schedule.chooses_at_refit(settings, model.state))


def choose_beside_edits(model: Learner) -> bytes:
    """Return what a model chooses by its rows now, as `partial_fit` does.

    The model itself does not change.
    """

    def choose(private: Any) -> AnyState:
        settings = private.settings()
        state: AnyState = private.state
        if settings.task.schedule.is_choice_due(settings, state):
            return choose_again_by_rows(settings, state)
        return state

    version = model.snapshot()
    edit(version, choose)
    return pack_choice(version)


def pack_choice(model: Learner) -> bytes:
    """Return layout, vote and weights of a model without its rows; `TooLarge` for a log."""
    bare = model.snapshot()
    state: AnyState = model.state
    memory = state.task.counting.empty_memory(state)
    take_state(bare, state.with_changes(memory=memory, store=None, position=None))
    return compress(file_bytes(bare))


def take_choice(model: Learner, choice: bytes) -> None:
    """Give a model the layout that `pack_choice` returned, checked, and count its rows under it."""
    chosen: Any = from_bytes(decompress(choice))
    if type(chosen) is not type(model):
        raise ValueError("this is not the layout and the vote of such a model")
    edit(model, lambda private: take_chosen_layout(private.settings(), private.state, chosen.state))


def pack_weights(vote: Vote) -> bytes:
    """Return what was fitted; `TooLarge` where a log cannot keep it."""
    return compress(safetensors.numpy.save(vote.state()))


def compress(fitted: bytes) -> bytes:
    """Return what was fitted or chosen as a log keeps it; `TooLarge` where it cannot."""
    if len(fitted) > MAX_BYTES:
        raise TooLarge(
            f"The weights have {len(fitted):,} bytes, and a log keeps {MAX_BYTES:,}: "
            "download the model, refit it, and upload it under another name."
        )
    return zlib.compress(fitted, 1)  # weights that labels share come with zeros for each label


def decompress(data: bytes) -> bytes:
    """Return what `compress` was given; ValueError where the bytes are damaged."""
    unpacker = zlib.decompressobj()
    try:
        unpacked = unpacker.decompress(data, MAX_BYTES)
    except zlib.error as error:
        raise ValueError(f"these are not weights ({type(error).__name__})") from None
    if not unpacker.eof or unpacker.unused_data:
        raise ValueError("these are not weights: they end too early or too late")
    return unpacked


def take_weights(model: MemoryClassifier, weights: bytes) -> None:
    """Give a model the weights that `pack_weights` returned, checked.

    ValueError where they are not its own.
    """
    try:
        stored = StoredArrays(safetensors.numpy.load(decompress(weights)))
    except SafetensorError as error:
        raise ValueError(f"these are not weights ({type(error).__name__})") from None
    edit(model, lambda private: with_weights(private.settings(), private.state, stored))
