"""A classifier that has learned nothing, with the layout that its first rows would get."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hammemo.edits.column_changes import reset_kinds
from hammemo.edits.fit import start
from hammemo.edits.task import RowBatch
from hammemo.tasks.labels.choose import choose_by_first_rows
from hammemo.tokens.columns import Columns
from hammemo.tokens.contexts import Examples
from hammemo.tokens.vocabulary import Vocabulary

if TYPE_CHECKING:
    from hammemo.tasks.labels.layout import LabelState
    from hammemo.tasks.labels.settings import ModelSettings


def open_state(settings: ModelSettings, h: int) -> LabelState:
    """Return the state of a model of h columns that has learned nothing."""
    columns = reset_kinds(settings, Columns.from_count(h))
    no_rows = Examples.of(np.empty((0, h), object), np.empty(0, object))
    batch = RowBatch(no_rows, columns, np.dtype(object), Vocabulary())
    plan = choose_by_first_rows(settings, columns, batch, n_labels=0, seed=settings.seed())
    return start(settings, plan, columns, batch.target_dtype)
