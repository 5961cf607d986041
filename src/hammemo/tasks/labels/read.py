"""What a user gives as labels, one or many, as the edits take it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from hammemo.edits.task import RowBatch
from hammemo.tokens.contexts import check_column_names
from hammemo.tokens.labels import classes_array, common_label_dtype, holds_label, label_array
from hammemo.tokens.vocabulary import Vocabulary

if TYPE_CHECKING:
    import numpy as np

    from hammemo._arrays.types import Array
    from hammemo.tasks.labels.layout import LabelState
    from hammemo.tasks.labels.settings import ModelSettings
    from hammemo.tokens.contexts import Examples
    from hammemo.tokens.user_input import CheckedRows


read_targets: Final = label_array
"""Reads labels of any kind as an array."""


def read_target(
    settings: ModelSettings, state: LabelState, label: Any, sign: int
) -> tuple[Any, np.dtype[Any]]:
    """Return one label as it is, and the type of all labels once it is learned.

    The memory checks the label.
    """
    del settings
    dtype = state.target_dtype
    if sign < 0 or holds_label(dtype, label):
        return label, dtype
    return label, common_label_dtype(label_array([label]), label_ends(state))


def read_batch(
    settings: ModelSettings, rows: CheckedRows, classes: Any, before: LabelState | None
) -> RowBatch:
    """Return rows that are to be learned, and the classes that are declared with them."""
    del settings
    declared = rows.labels[:0]
    if classes is not None:
        declared = label_array(classes)
    if before is None:
        dtype = common_label_dtype(rows.labels, declared)
    else:
        dtype = common_label_dtype(rows.labels, declared, label_ends(before))
    examples = rows.examples()
    if before is None and not len(examples) and not len(declared):
        raise ValueError(
            "There is nothing to learn: every sample_weight is zero and no class was declared."
        )
    if before is None and rows.columns.names is not None:
        check_column_names(rows.columns.names)
    return RowBatch(examples, rows.columns, dtype, Vocabulary.of(declared))


def common_dtype(state: LabelState, other: LabelState) -> np.dtype[Any]:
    """Return the type of the labels of both models."""
    return common_label_dtype(classes_of(state), classes_of(other))


def list_declared_targets(state: LabelState) -> Array | None:
    """Return the declared labels as a user declares them; None where there are none."""
    declared = state.memory.declared
    if not len(declared):
        return None
    return classes_array(declared, state.target_dtype)


def warn_of_targets(labels: Array) -> None:
    """Warn of nothing: all labels count alike."""
    del labels


def reads_numbers() -> bool:
    """Return False: labels may be of any kind."""
    return False


def check_targets(settings: ModelSettings, labels: Array) -> None:
    """Refuse nothing: every label can be learned."""
    del settings, labels


def collect_labels(examples: Examples) -> Vocabulary:
    """Return the labels of some rows."""
    return examples.labels


def classes_of(state: LabelState) -> Array:
    """Return the labels in sorted order, as answers have them."""
    return classes_array(state.memory.labels, state.target_dtype)


def label_ends(state: LabelState) -> Array:
    """Return a few labels that have the type of all, and their largest and smallest number."""
    return classes_array(state.memory.labels.ends(), state.target_dtype)
