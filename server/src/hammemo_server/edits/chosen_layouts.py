"""What a model has chosen by its rows, as bytes: what the log keeps of a choice.

Sites, cells of numbers, reserved tokens, the settings of the vote and its weights are logged as the file of a model
without rows. A process that applies the log counts the rows that it keeps under them, and so has the same bytes as the
writer. It chooses nothing: that takes seconds to minutes, and depends on the processor and on versions of libraries.

While sites are chosen, the writer goes on with edits. They are counted under the new layout with all other rows, since
the choice is applied to the version that it meets.
"""

from __future__ import annotations

from hammemo.files.contents import file_bytes, from_bytes
from hammemo.models.classifiers import MemoryClassifier
from hammemo.models.editing import edit, take_state
from hammemo.models.learn import chosen_if_doubled
from hammemo.models.refit import with_choice
from hammemo_server.edits.weights import compressed, decompressed


def chooses(model: MemoryClassifier) -> bool:
    """Return whether the sites of a model are chosen by its rows: its kernel is automatic, and it keeps all rows."""
    return model.settings().kernel_is_automatic and model.state.can_choose_by_rows


def chooses_at_refit(model: MemoryClassifier) -> bool:
    """Return whether a refit chooses sites: also by documents, by which nothing is chosen beside edits."""
    return model.settings().kernel_is_automatic and model.state.can_choose


def chosen_quickly(model: MemoryClassifier) -> bytes:
    """Return what a model chooses by its rows now, as `partial_fit` does; the model itself does not change."""
    version = model.snapshot()
    edit(version, lambda private: chosen_if_doubled(private.settings(), private.state))
    return packed_choice(version)


def packed_choice(model: MemoryClassifier) -> bytes:
    """Return layout, vote and weights of a model without its rows; `TooLarge` where a log cannot keep them."""
    bare = model.snapshot()
    state = model.state
    take_state(bare, state.with_memory(state.memory.empty_like(), store=None))
    return compressed(file_bytes(bare))


def take_choice(model: MemoryClassifier, choice: bytes) -> None:
    """Give a model the layout that `packed_choice` returned, checked, and count its rows under it."""
    chosen = from_bytes(decompressed(choice))
    if not isinstance(chosen, MemoryClassifier):
        raise ValueError("these are no sites and no vote, but a compiled model")
    edit(model, lambda private: with_choice(private.settings(), private.state, chosen.state))
