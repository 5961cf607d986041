"""A table that others read and count, as engines do: the model chooses and fits its vote."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hammemo.edits.fit import count_plan, weigh_plan
from hammemo.edits.task import RowBatch
from hammemo.tasks.numbers.choose import choose
from hammemo.tasks.numbers.count import count
from hammemo.tasks.numbers.read import TARGET_DTYPE
from hammemo.tokens.vocabulary import Vocabulary

if TYPE_CHECKING:
    from collections.abc import Callable

    from hammemo.stores.kept_rows import KeptRows
    from hammemo.tasks.numbers.memory import NumberMemory
    from hammemo.tasks.numbers.settings import NumberSettings
    from hammemo.tasks.numbers.state import NumberState
    from hammemo.tokens.columns import Columns


def fit_table_of_numbers(
    settings: NumberSettings,
    columns: Columns,
    kept_rows: KeptRows,
    seed: int,
    count_all: Callable[[NumberState], NumberMemory],
) -> NumberState:
    """Choose by kept rows and fit the vote to them.

    Where they are not all rows of the table, `count_all` counts all.
    """
    batch = RowBatch(kept_rows.examples(), columns, TARGET_DTYPE, Vocabulary())
    plan = choose(settings, columns, batch.examples, seed)

    def count_table(state: NumberState) -> NumberMemory:
        if kept_rows.holds_all:
            return count(state, [batch.examples], precomputed=plan.precomputed)
        return count_all(state)

    state = count_plan(settings, plan, batch, store=kept_rows, count_all=count_table)
    return weigh_plan(settings, state, plan, batch)
