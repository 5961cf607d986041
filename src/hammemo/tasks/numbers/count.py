"""memory = count(layout, rows): the memory of a regressor is a sum over rows under its layout."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hammemo.memories.errors import LayoutError, never_stored
from hammemo.tasks.numbers.layout import TargetTooFarError
from hammemo.tasks.numbers.memory import NumberMemory, NumberRows
from hammemo.tokens.contexts import Examples
from hammemo.tokens.vocabulary import Vocabulary

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hammemo._arrays.types import Ints
    from hammemo.stores.kept import Kept
    from hammemo.tasks.numbers.choose import NumberPlan, RowsOfChoice
    from hammemo.tasks.numbers.state import NumberState

_NO_LABELS: Final = Vocabulary()


def count(
    state: NumberState,
    batches: Iterable[Examples],
    sign: int = 1,
    *,
    precomputed: RowsOfChoice | None = None,
) -> NumberMemory:
    """Return the memory of a state with rows added or, with sign -1, subtracted.

    `precomputed` has the rows of the only batch, where the layout was chosen by them just now: the
    memory is empty then.
    """
    layout = state.layout
    memory = state.memory
    if precomputed is not None:
        return memory.with_rows(layout, precomputed.rows, sign, precomputed.gram)
    for examples in batches:
        if len(examples):
            memory = memory.with_rows(layout, _read_rows(state, examples, sign), sign)
    return memory


def _read_rows(state: NumberState, examples: Examples, sign: int) -> NumberRows:
    """Return rows as the layout sees them; NotStoredError for rows to forget outside its unit."""
    try:
        return NumberRows.from_examples(state.layout, examples, state.seed)
    except TargetTooFarError:
        if sign > 0:
            raise
        raise never_stored() from None


def count_one(state: NumberState, context: Sequence[Any], target: float, sign: int) -> NumberMemory:
    """Return the memory with one row added or, with sign -1, subtracted."""
    return count(state, [Examples.of([context], [target])], sign)


def count_examples(memory: NumberMemory) -> int:
    """Return how many rows a memory holds."""
    return memory.gram.n


def list_labels(memory: NumberMemory) -> Vocabulary:
    """Return no labels."""
    del memory
    return _NO_LABELS


def count_by_label(memory: NumberMemory) -> Ints:
    """Return nothing: there are no labels."""
    del memory
    return np.zeros(0, np.int64)


def count_new_labels(memory: NumberMemory, labels: Vocabulary) -> int:
    """Return 0: a target is added to a sum."""
    del memory, labels
    return 0


def can_answer(state: NumberState) -> bool:
    """Return whether there are rows: their mean is an answer."""
    return not state.holds_nothing


def is_layout_undecided(state: NumberState) -> bool:
    """Return whether there are no rows: everything is chosen by the first ones."""
    return state.holds_nothing


def empty_memory(state: NumberState) -> NumberMemory:
    """Return a memory of the same layout without rows."""
    return NumberMemory.empty(state.layout)


def open_memory(plan: NumberPlan, kept_rows: Kept | None) -> NumberMemory:
    """Return the empty memory of a plan: nothing in its layout is open."""
    del kept_rows
    return plan.memory


def list_declared(memory: NumberMemory) -> Vocabulary:
    """Return no labels."""
    del memory
    return _NO_LABELS


def declare(memory: NumberMemory, labels: Vocabulary) -> NumberMemory:
    """Return the memory as it is: a target needs no declaration."""
    del labels
    return memory


def trust(memory: NumberMemory, *before: NumberState) -> NumberMemory:
    """Return the memory as it is: it has no bounds that depend on what was forgotten."""
    del before
    return memory


def merge(state: NumberState, other: NumberState, sign: int) -> NumberMemory:
    """Return the sum of two memories or, with sign -1, the difference.

    Raises
    ------
    LayoutError
        Where their layouts differ.
    """
    if has_layout_of(state, other):
        return state.memory.plus(other.memory, sign)
    if sign > 0:
        raise LayoutError(
            "The two models have different layouts, and one of them must keep all its rows, "
            "so that these can be counted under the layout of the other: "
            "make the second model with empty_like() of the first."
        )
    raise LayoutError(
        "The two models have different layouts, and the second one does not keep all its rows."
    )


def can_count_again(memory: NumberMemory) -> bool:
    """Return True: sums lie in memory."""
    del memory
    return True


def fingerprint(state: NumberState) -> str:
    """Return a short name of the layout."""
    return state.layout.digest[:32]


def has_layout_of(state: NumberState, other: NumberState) -> bool:
    """Return whether two states count in the same cells.

    The seed says in which fold of the base a row is.
    """
    return state.layout.digest == other.layout.digest and state.seed == other.seed
