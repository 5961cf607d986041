"""memory = count(layout, rows): the memory of a classifier is a sum over rows under its layout.

Every function returns a new memory. It shares with the one before all pages that stay as they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hammemo.memories.errors import LayoutError
from hammemo.tasks.labels.layout import is_in_segments

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hammemo._arrays.types import Ints
    from hammemo.memories import Memory
    from hammemo.stores.kept import Kept
    from hammemo.tasks.labels.choose import LabelPlan
    from hammemo.tasks.labels.layout import LabelState, Layout
    from hammemo.tokens.contexts import Examples
    from hammemo.tokens.vocabulary import Vocabulary
    from hammemo.votes.tree_label_weights import WeightedRows


def count(
    state: LabelState,
    batches: Iterable[Examples],
    sign: int = 1,
    *,
    precomputed: WeightedRows | None = None,
) -> Memory:
    """Return the memory of a state with batches of examples added or, with sign -1, subtracted.

    `precomputed` are the rows that the vote was chosen by: where they are a whole batch, the cells
    of trees are counted already.
    """
    return add_batches(state.memory, state.layout, batches, sign, precomputed=precomputed)


def add_batches(
    memory: Memory,
    layout: Layout,
    batches: Iterable[Examples],
    sign: int = 1,
    *,
    precomputed: WeightedRows | None = None,
) -> Memory:
    """Return a memory of a layout with batches of examples added or, with sign -1, subtracted."""
    counted = memory.snapshot()
    cells = layout.cells
    for examples in batches:
        if not len(examples):
            continue
        if cells is None:
            counted.update(examples, sign)
        else:
            tree_counts = None
            if precomputed is not None and precomputed.count_all(examples):
                tree_counts = precomputed.rows.tree_counts
            counted.update_cells(cells, cells.learn(examples), sign, tree_counts=tree_counts)
    return counted


def count_one(state: LabelState, context: Sequence[Any], label: Any, sign: int) -> Memory:
    """Return the memory with one example added or, with sign -1, subtracted: in microseconds."""
    counted = state.memory.snapshot()
    cells = state.layout.cells
    if cells is None:
        counted.update_one(context, label, sign)
    else:
        counted.update_one_row(cells, context, label, sign)
    return counted


def count_examples(memory: Memory) -> int:
    """Return how many examples a memory holds."""
    return int(memory.label_counts.sum())


def list_labels(memory: Memory) -> Vocabulary:
    """Return all labels of a memory, with or without examples, in the order of answers."""
    return memory.labels


def count_by_label(memory: Memory) -> Ints:
    """Return how many examples each label has."""
    return memory.label_counts


def count_new_labels(memory: Memory, labels: Vocabulary) -> int:
    """Return how many of some labels a memory does not have."""
    return int((memory.labels.find(labels) < 0).sum())


def can_answer(state: LabelState) -> bool:
    """Return whether there is a label to answer with."""
    return len(state.memory.labels) > 0


def is_layout_undecided(state: LabelState) -> bool:
    """Return whether the first rows settle something, such as reserved tokens of a sketch."""
    return bool(state.memory.list_undecided())


def empty_memory(state: LabelState) -> Memory:
    """Return a memory of the same layout without rows and without declared labels."""
    return state.memory.empty_like()


def list_declared(memory: Memory) -> Vocabulary:
    """Return the labels that a memory keeps while they have no example."""
    return memory.declared


def declare(memory: Memory, labels: Vocabulary) -> Memory:
    """Return a memory that keeps these labels, too, while they have no example."""
    if not len(labels):
        return memory
    with_labels = memory.snapshot()
    with_labels.declare_labels(labels)
    return with_labels


def open_memory(plan: LabelPlan, kept_examples: Kept | None) -> Memory:
    """Return an empty memory of a plan, with its layout settled as far as it can be.

    Where only some rows are kept, these settle what is open. Where all are kept, they are counted
    first and settle it then.
    """
    if kept_examples is None or kept_examples.holds_all:
        return plan.memory.snapshot()
    return settle(plan.memory, plan.layout, kept_examples)


def settle(memory: Memory, layout: Layout, kept_examples: Kept) -> Memory:
    """Return an empty memory, given one; where its layout is open, the kept rows settle it."""
    if not memory.list_undecided():
        return memory.snapshot()
    return add_batches(memory, layout, kept_examples.batches()).empty_like()


def trust(memory: Memory, *before: LabelState) -> Memory:
    """Return a memory that has forgotten rows, each of which was looked up.

    So its bounds hold as before.
    """
    forgot_unchecked = any(state.memory.forgot_unchecked for state in before)
    if memory.forgot_unchecked == forgot_unchecked:
        return memory
    trusted = memory.snapshot()
    trusted.forgot_unchecked = forgot_unchecked
    return trusted


def merge(state: LabelState, other: LabelState, sign: int) -> Memory:
    """Return the sum of two memories or, with sign -1, the difference.

    Raises
    ------
    LayoutError
        Where their layouts differ.
    """
    cells = state.layout.cells
    other_cells = other.layout.cells
    if cells is not other_cells and cells != other_cells:
        raise LayoutError(
            "The two models cut numbers differently: give the second one layout= of the first."
        )
    memory = state.memory.snapshot()
    if sign > 0:
        memory.merge(other.memory)
    else:
        memory.unmerge(other.memory)
    return memory


def can_count_again(memory: Memory) -> bool:
    """Return whether the rows may be counted under another layout: a table in segments is not."""
    return not is_in_segments(memory)


def fingerprint(state: LabelState) -> str:
    """Return a short name of the layout, which the memory knows."""
    return state.memory.fingerprint()


def has_layout_of(state: LabelState, other: LabelState) -> bool:
    """Return False: rows are counted again also under an equal layout, because that is quick."""
    del state, other
    return False
