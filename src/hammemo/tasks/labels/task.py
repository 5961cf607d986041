"""`LABELS`: a row has a label, and a memory counts labels.

A vote turns counts into one score for each label.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hammemo.tasks.labels import (
    choose,
    column_values,
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
    from hammemo.memories import Memory
    from hammemo.tasks.labels.layout import LabelState, Layout
    from hammemo.votes import Vote


class LabelTask:
    """The modules that are written for labels: see :class:`hammemo.edits.task.ModelTask`."""

    reading: TargetReading[LabelState] = read
    schedule: ChoiceSchedule[LabelState, Layout] = schedule
    choosing: LayoutChoice[LabelState, Layout, Memory, Vote] = choose
    documents: DocumentFit[LabelState] = streams
    tables: TableLearning[LabelState] = counted_tables
    counting: RowCount[LabelState, Layout, Memory, Vote] = count
    weighing: VoteFit[LabelState, Vote] = weigh
    describing: ModelDescription[LabelState] = describe
    plotting: ColumnPlot[LabelState] = column_values


LABELS: Final = LabelTask()
