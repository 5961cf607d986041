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
from hammemo_server.edits.weights import compressed, decompressed


def chooses(model: MemoryClassifier) -> bool:
    """Return whether the sites of a model are chosen by its rows: its kernel is automatic, and it keeps all rows."""
    return model._kernel_is_automatic() and model._can_choose()


def chooses_at_refit(model: MemoryClassifier) -> bool:
    """Return whether a refit chooses sites: also by documents, by which nothing is chosen beside edits."""
    return chooses(model) or (model._kernel_is_automatic() and model._can_choose_by_documents())


def chosen_quickly(model: MemoryClassifier) -> bytes:
    """Return what a model chooses by its rows now, as `partial_fit` does; the model itself does not change."""
    version = model.snapshot()
    version._edited(lambda private: private._choose_if_doubled())
    return packed_choice(version)


def packed_choice(model: MemoryClassifier) -> bytes:
    """Return layout, vote and weights of a model without its rows; `TooLarge` where a log cannot keep them."""
    bare = model.snapshot()
    bare.memory_, bare._kept = model.memory_.empty_like(), None
    return compressed(file_bytes(bare))


def take_choice(model: MemoryClassifier, choice: bytes) -> None:
    """Give a model the layout that `packed_choice` returned, checked, and count its rows under it."""
    chosen = from_bytes(decompressed(choice))
    if not isinstance(chosen, MemoryClassifier):
        raise ValueError("these are no sites and no vote, but a compiled model")
    model._take_choice(chosen)
