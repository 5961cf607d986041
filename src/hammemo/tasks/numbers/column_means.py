"""What a column says of the targets: their mean for each of its values, in the rows that a model keeps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from hammemo.explain import column_plot
from hammemo.explain.column_axes import MOST_RANGES, MOST_VALUES, column_place, name_axis, range_axis
from hammemo.tasks.numbers.sums import targets_of
from hammemo.tokens.columns import ColumnKind

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from hammemo.tasks.numbers.sums import NumberState


def plot_means(state: NumberState, column: Any, ax: Axes | None = None) -> Axes:
    """Draw the mean target by the values of a column, in the rows that a model keeps; return the axes."""
    place = column_place(state.columns, column)
    kept = state.rows
    if kept is None:
        raise ValueError("The model keeps no rows, so nothing is known of single columns: fit it with keep=True.")
    if not len(kept):
        raise ValueError("There is nothing to draw: the model holds no rows.")
    examples = kept.examples()
    tokens, ranks, counts = examples.contexts.vocabulary, examples.contexts.ranks[:, place], examples.multiplicity
    kind = state.columns.letters[place]
    if kind == ColumnKind.NAMES:
        values, bins, ordered = name_axis(tokens, ranks, counts, MOST_VALUES[0])
    else:
        values, bins, ordered = range_axis(kind, tokens, ranks, counts, MOST_RANGES[0])
    targets, n = targets_of(examples), len(values)
    totals = np.bincount(bins, counts, n).astype(np.int64)
    held = np.maximum(totals, 1)
    means = np.bincount(bins, counts * targets, n) / held
    errors = np.sqrt(np.bincount(bins, counts * (targets - means[bins]) ** 2, n)) / held
    source = f"all {state.n_examples:,} rows" if kept.holds_all else f"{totals.sum():,} kept rows"
    name = f"column {place}" if state.columns.names is None else str(state.columns.names[place])
    return column_plot.draw_means(ax, name, values, totals, means, errors, source, ordered=ordered)
