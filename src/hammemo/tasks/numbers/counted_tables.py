"""A table that others read and count, as engines do: the model chooses and fits its vote."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hammemo.edits.fit import count_plan, weigh_plan
from hammemo.edits.task import RowBatch
from hammemo.tasks.numbers.choose import choose
from hammemo.tasks.numbers.count import count
from hammemo.tasks.numbers.read import TARGET_DTYPE
from hammemo.tasks.numbers.vote import NO_VOTE
from hammemo.tokens.missing import check_missing_rule
from hammemo.tokens.vocabulary import Vocabulary

if TYPE_CHECKING:
    from collections.abc import Callable

    from hammemo.edits.task import TableFacts
    from hammemo.stores.kept import ModelStore
    from hammemo.tasks.numbers.memory import NumberMemory
    from hammemo.tasks.numbers.settings import NumberSettings
    from hammemo.tasks.numbers.state import NumberState
    from hammemo.tokens.columns import Columns


def check_request(*, classes: Any, layout: Any) -> None:
    """Refuse both: numbers are not declared, and are learned in no layout of another model."""
    if classes is not None or layout is not None:
        raise ValueError("classes= and layout= are for a MemoryClassifier: leave them out.")


def empty_store(
    settings: NumberSettings, columns: Columns, seed: int, layout: NumberState | None
) -> ModelStore | None:
    """Return the empty store of a table of these columns, which others are to read."""
    del layout
    check_missing_rule(settings.missing)
    return settings.empty_store(columns.width, seed, NO_VOTE)


def learn_table(
    settings: NumberSettings,
    facts: TableFacts,
    classes: Any,
    layout: NumberState | None,
    *,
    count_all: Callable[[NumberState], NumberMemory],
    kept_are_counted: bool,
) -> NumberState:
    """Choose by kept rows and fit the vote to them.

    Where they are not all rows of the table, `count_all` counts all. Numbers are not declared.
    """
    del classes, layout, kept_are_counted
    assert facts.store is not None
    kept_rows = facts.store.kept_rows
    assert kept_rows is not None
    columns = facts.columns()
    batch = RowBatch(kept_rows.examples(), columns, TARGET_DTYPE, Vocabulary())
    plan = choose(settings, columns, batch.examples, facts.seed)

    def count_table(state: NumberState) -> NumberMemory:
        if kept_rows.holds_all:
            return count(state, [batch.examples], precomputed=plan.precomputed)
        return count_all(state)

    state = count_plan(settings, plan, batch, store=kept_rows, count_all=count_table)
    return weigh_plan(settings, state, plan, batch)
