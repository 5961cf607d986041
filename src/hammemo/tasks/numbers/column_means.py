"""What a column, or a pair, says of the targets: their mean for each of its values.

Means are of the rows that a model keeps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hammemo.explain import column_plot
from hammemo.explain.column_axes import (
    MOST_RANGES,
    MOST_VALUES,
    contexts_of_places,
    find_places,
    name_axis,
    name_columns,
    range_axis,
)
from hammemo.tasks.numbers.layout import extract_targets
from hammemo.tokens.column_kinds import ColumnKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

    from hammemo._arrays.types import Floats, Ints
    from hammemo.tasks.numbers.state import NumberState


def plot_columns(state: NumberState, columns: Sequence[Any], label: Any, ax: Axes | None) -> Axes:
    """Draw the mean target by the values of one or two columns; return the axes."""
    if label is not None:
        raise ValueError("label= is for a model that predicts labels: leave it out.")
    places = find_places(state.columns, columns)
    kept_rows = state.rows
    if kept_rows is None:
        raise ValueError(
            "The model keeps no rows, so nothing is known of single columns: fit it with keep=True."
        )
    if not len(kept_rows):
        raise ValueError("There is nothing to draw: the model holds no rows.")
    examples = kept_rows.examples()
    counts = examples.multiplicity

    # The ranges or names of each column, and in which of them each row is.
    contexts, rank_places = contexts_of_places(state.columns, examples.contexts, places)
    tokens = contexts.vocabulary
    is_pair = len(places) > 1
    most_values = MOST_VALUES[len(places) - 1]
    most_ranges = MOST_RANGES[len(places) - 1]
    axes = []
    for place, rank_place in zip(places, rank_places, strict=True):
        ranks = contexts.ranks[:, rank_place]
        kind = state.columns.kinds[place]
        if kind is ColumnKind.NAMES:
            axes.append(name_axis(tokens, ranks, counts, most_values))
        else:
            axis = range_axis(
                kind,
                tokens,
                ranks,
                totals=counts,
                max_values=most_ranges,
                order=state.columns.order_of(place),
            )
            axes.append(axis)

    # The means of the targets in them.
    shape = [len(values) for values, _, _ in axes]
    bins = np.ravel_multi_index([bins for _, bins, _ in axes], shape)
    targets = average_targets(bins, extract_targets(examples), counts, shape)
    if kept_rows.holds_all:
        source = f"all {state.n_examples:,} rows"
    else:
        source = f"{targets.totals.sum():,} kept rows"
    names = name_columns(state.columns, places)
    column_axes = [
        column_plot.ColumnAxis(name, axis.values, axis.is_ordered)
        for name, axis in zip(names, axes, strict=True)
    ]
    if is_pair:
        return column_plot.draw_mean_pair(
            ax, column_axes, targets.totals, targets.means, source=source
        )
    return column_plot.draw_means(
        ax,
        column_axes[0],
        targets.totals,
        targets.means,
        errors=targets.errors,
        source=source,
    )


class MeanTargets(NamedTuple):
    """How many rows have each value or pair of values, the mean of their targets, and its error."""

    totals: Ints
    means: Floats
    errors: Floats
    """Standard errors."""


def average_targets(bins: Ints, targets: Floats, counts: Ints, shape: Sequence[int]) -> MeanTargets:
    """Return the means of targets in bins; `counts` say how often rows occur; 0 where no row is.

    Examples
    --------
    >>> import numpy as np
    >>> from hammemo.tasks.numbers.column_means import average_targets
    >>> bins, counts = np.array([0, 0, 2]), np.array([2, 1, 1])
    >>> averages = average_targets(bins, np.array([1.0, 4.0, 5.0]), counts, [3])
    >>> averages.totals.tolist(), averages.means.tolist()
    ([3, 0, 1], [2.0, 0.0, 5.0])
    """
    n_bins = int(np.prod(shape))
    totals = np.bincount(bins, counts, n_bins).astype(np.int64)
    divisors = np.maximum(totals, 1)
    means = np.bincount(bins, counts * targets, n_bins) / divisors
    squares = np.bincount(bins, counts * (targets - means[bins]) ** 2, n_bins)
    errors = np.sqrt(squares) / divisors
    return MeanTargets(totals.reshape(shape), means.reshape(shape), errors.reshape(shape))
