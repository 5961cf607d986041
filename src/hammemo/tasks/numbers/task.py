"""`NUMBERS`: a row has a target, and a memory sums targets.

A vote turns sums into one number and its likely errors.
"""

from __future__ import annotations

from typing import Final

from hammemo.tasks.numbers import choose as choosing
from hammemo.tasks.numbers import column_means, schedule
from hammemo.tasks.numbers import count as counting
from hammemo.tasks.numbers import describe as describing
from hammemo.tasks.numbers import read as reading
from hammemo.tasks.numbers import weigh as weighing


class NumberTask:
    """Where each step of :class:`hammemo.edits.task.ModelTask` is written for numbers."""

    read_targets = staticmethod(reading.read_targets)
    read_target = staticmethod(reading.read_target)
    read_batch = staticmethod(reading.read_batch)
    common_dtype = staticmethod(reading.common_dtype)
    declared_targets = staticmethod(reading.list_declared_targets)

    chooses_by_first_rows = staticmethod(schedule.chooses_by_first_rows)
    begins_again = staticmethod(schedule.begins_again)
    is_choice_due = staticmethod(schedule.is_choice_due)
    chooses_at_refit = staticmethod(schedule.chooses_at_refit)
    choose = staticmethod(choosing.choose)
    choose_by_first_rows = staticmethod(choosing.choose_by_first_rows)
    choose_like = staticmethod(choosing.choose_like)
    choose_by_sample = staticmethod(choosing.choose_by_sample)
    keep_layout = staticmethod(choosing.keep_layout)
    choice_rows = staticmethod(choosing.choice_rows)
    is_sample_enough = staticmethod(choosing.is_sample_enough)
    fit_documents = staticmethod(choosing.fit_documents)
    is_choice_due_at_once = staticmethod(schedule.is_choice_due_at_once)
    is_layout_open = staticmethod(schedule.is_layout_open)
    make_room = staticmethod(schedule.make_room)
    warn_of_choice = staticmethod(schedule.warn_of_choice)
    layout_is_by_rows = staticmethod(schedule.layout_is_by_rows)

    n_examples = staticmethod(counting.count_examples)
    list_labels = staticmethod(counting.list_labels)
    count_by_label = staticmethod(counting.count_by_label)
    count_new_labels = staticmethod(counting.count_new_labels)
    can_answer = staticmethod(counting.can_answer)
    is_layout_undecided = staticmethod(counting.is_layout_undecided)
    declared = staticmethod(counting.list_declared)
    declare = staticmethod(counting.declare)
    empty_memory = staticmethod(counting.empty_memory)
    open_memory = staticmethod(counting.open_memory)
    count = staticmethod(counting.count)
    count_one = staticmethod(counting.count_one)
    trust = staticmethod(counting.trust)
    merge = staticmethod(counting.merge)
    can_count_again = staticmethod(counting.can_count_again)
    fingerprint = staticmethod(counting.fingerprint)
    has_layout_of = staticmethod(counting.has_layout_of)

    weigh = staticmethod(weighing.weigh)
    weigh_learned = staticmethod(weighing.weigh_learned)
    unfitted = staticmethod(weighing.clear_vote)
    check_fit = staticmethod(weighing.check_fit)
    depends_on_rows = staticmethod(weighing.depends_on_rows)

    describe = staticmethod(describing.describe)
    describe_answers = staticmethod(describing.describe_answers)
    plot_columns = staticmethod(column_means.plot_columns)
    warn_of_targets = staticmethod(reading.warn_of_targets)


NUMBERS: Final = NumberTask()
