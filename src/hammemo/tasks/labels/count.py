"""The second step of the rule, memory = count(layout, rows): a memory is a sum over rows under a layout.

Every function changes the memory that it is given, which is the caller's own: ``memory.snapshot()`` first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hammemo.kernels.cells import Cells
    from hammemo.memories import Memory
    from hammemo.stores.kept import Kept
    from hammemo.tasks.labels.choose import LayoutPlan
    from hammemo.tokens.contexts import Examples


def count(memory: Memory, cells: Cells | None, batches: Iterable[Examples], sign: int = 1) -> Memory:
    """Add batches of examples to a memory or, with sign -1, subtract them; return it."""
    for examples in batches:
        if len(examples):
            count_batch(memory, cells, examples, sign)
    return memory


def count_batch(memory: Memory, cells: Cells | None, examples: Examples, sign: int = 1) -> None:
    """Add examples or subtract them, as contexts of cells where they have numbers."""
    if cells is None:
        memory.update(examples, sign)
    else:
        memory.update_cells(cells, cells.learn(examples), sign)


def empty_memory(plan: LayoutPlan, kept: Kept | None) -> Memory:
    """Return an empty memory of a plan; where only some rows are kept, these settle what is open in its layout.

    Where all are kept, they are counted first and settle it then.
    """
    memory = plan.memory.snapshot()
    return memory if kept is None or kept.holds_all else settled(memory, plan.layout.cells, kept)


def settled(memory: Memory, cells: Cells | None, kept: Kept) -> Memory:
    """Return an empty memory, given one; where its layout is open, the kept rows settle it."""
    return count(memory, cells, kept.batches()).empty_like() if memory.list_undecided() else memory
