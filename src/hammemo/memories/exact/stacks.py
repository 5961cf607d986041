"""Tables of counts in two stacks of falling size: what was learnt in bulk, and what was taken back.

:mod:`hammemo.memories.exact.memory` says why. Also here: when a live table takes their place.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, reduce
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hammemo._arrays.native import native
from hammemo._versions import Cached
from hammemo.memories.errors import never_stored
from hammemo.memories.exact.live.live import Live
from hammemo.memories.exact.table import CountTable, check_empty_sites
from hammemo.tokens.contexts import MAX_EXAMPLES

if TYPE_CHECKING:
    from hammemo.memories.label_counts import LabelCounts

MOST_ROW_BY_ROW: Final = 64
"""A batch of more examples is learnt in bulk, unless the table is live and the batch is small beside it."""


@dataclass(frozen=True, eq=False)
class Stacks(Cached):
    """One version of what is stored: tables to add, tables to subtract, and the examples of each label."""

    added: tuple[CountTable, ...]
    removed: tuple[CountTable, ...]
    label_counts: LabelCounts
    on_disk: bool = False

    @cached_property
    def total(self) -> CountTable:
        """The difference of the two stacks."""
        total = reduce(CountTable.plus, reversed(self.added))
        return total.plus(reduce(CountTable.plus, reversed(self.removed)), sign=-1) if self.removed else total

    @cached_property
    def live(self) -> Live:
        """The same counts as a live table."""
        return Live.of(self.total)

    @property
    def made_live(self) -> Live | None:
        """The live table, if it was made already."""
        return vars(self).get("live")

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in super().__getstate__().items() if name != "live"}

    @classmethod
    def of(cls, stored: CountTable | Live) -> Stacks:
        """Return the stack of one table, or of what a live table stands for."""
        table = stored.total if isinstance(stored, Live) else stored
        return cls((table,), (), table.label_counts)

    def changed(self, table: CountTable, sign: int) -> Stacks:
        """Return the version with one more table added or taken back, or refuse to go below zero."""
        label_counts = self.label_counts.plus(table.label_counts, sign)
        added, removed = self.added, self.removed
        gross = table.label_counts.total + sum(part.label_counts.total for part in added)
        if "total" in vars(self) or gross >= MAX_EXAMPLES:  # asked for, or needed: what follows starts from it
            added, removed = (self.total,), ()
        if sign > 0:
            return Stacks(stacked(added, table), removed, label_counts)
        if 2 * entries_of((*removed, table)) > entries_of(added):
            return Stacks((self.total.plus(table, sign),), (), label_counts)  # refuses by itself
        _check_held(added, removed, table)
        return Stacks(added, stacked(removed, table), label_counts)


def live_for(stored: Stacks | Live, n_examples: int) -> Live | None:
    """Return the live table in which so many examples are to be edited; None where bulk learning is faster."""
    if isinstance(stored, Live):
        return stored if n_examples <= max(MOST_ROW_BY_ROW, stored.version.examples // 8) else None
    return None if n_examples > MOST_ROW_BY_ROW or native() is None else stored.live


def _check_held(added: tuple[CountTable, ...], removed: tuple[CountTable, ...], table: CountTable) -> None:
    """Refuse to take back more of any entry than is stored."""
    held = np.zeros(len(table.entry_counts), np.int64)
    for part in added:
        held += part.counts_at(table)
    for part in removed:
        held -= part.counts_at(table)
    if (held < table.entry_counts).any():
        raise never_stored()
    check_empty_sites(added, (*removed, table))


def stacked(stack: tuple[CountTable, ...], table: CountTable) -> tuple[CountTable, ...]:
    """Return the stack with one more table, neighbours of similar size added up."""
    tables = [*stack, table]
    while len(tables) > 1 and len(tables[-2].entry_counts) <= 2 * len(tables[-1].entry_counts):
        tables[-2:] = [tables[-2].plus(tables[-1])]
    return tuple(tables)


def entries_of(stack: tuple[CountTable, ...]) -> int:
    """Return how many entries tables have together."""
    return sum(len(table.entry_counts) for table in stack)
