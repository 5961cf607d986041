"""`NUMBERS`: a row has a target, and a memory sums targets.

A vote turns sums into one number and its likely errors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hammemo.tasks.numbers import (
    choose,
    column_means,
    count,
    counted_tables,
    describe,
    read,
    schedule,
    streams,
    weigh,
)

if TYPE_CHECKING:
    from hammemo.edits.task import (
        ChoiceSchedule,
        ColumnPlot,
        DocumentFit,
        LayoutChoice,
        ModelDescription,
        RowCount,
        TableLearning,
        TargetReading,
        VoteFit,
    )
    from hammemo.tasks.numbers.layout import NumberLayout
    from hammemo.tasks.numbers.memory import NumberMemory
    from hammemo.tasks.numbers.state import NumberState
    from hammemo.tasks.numbers.vote import NumberVote


class NumberTask:
    """The modules that are written for numbers: see :class:`hammemo.edits.task.ModelTask`."""

    reading: TargetReading[NumberState] = read
    schedule: ChoiceSchedule[NumberState, NumberLayout] = schedule
    choosing: LayoutChoice[NumberState, NumberLayout, NumberMemory, NumberVote] = choose
    documents: DocumentFit[NumberState] = streams
    tables: TableLearning[NumberState] = counted_tables
    counting: RowCount[NumberState, NumberLayout, NumberMemory, NumberVote] = count
    weighing: VoteFit[NumberState, NumberVote] = weigh
    describing: ModelDescription[NumberState] = describe
    plotting: ColumnPlot[NumberState] = column_means


NUMBERS: Final = NumberTask()
