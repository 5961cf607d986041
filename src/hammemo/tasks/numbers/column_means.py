"""What a column, or a pair, says of the targets: their mean for each of its values, in the rows that a model keeps."""

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
from hammemo.tasks.numbers.sums import targets_of
from hammemo.tokens.columns import ColumnKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

    from hammemo._arrays.types import Floats, Ints
    from hammemo.tasks.numbers.sums import NumberState


def plot_means(state: NumberState, columns: Sequence[Any], ax: Axes | None = None) -> Axes:
    """Draw the mean target by the values of one or two columns, in the rows that a model keeps; return the axes."""
    places = find_places(state.columns, columns)
    kept = state.rows
    if kept is None:
        raise ValueError(
            "The model keeps no rows, so nothing is known of single columns: fit it with keep=True."
        )
    if not len(kept):
        raise ValueError("There is nothing to draw: the model holds no rows.")
    examples = kept.examples()
    counts = examples.multiplicity
    contexts, rank_places = contexts_of_places(state.columns, examples.contexts, places)
    tokens = contexts.vocabulary
    size = len(places) - 1
    axes = []
    for place, rank_place in zip(places, rank_places, strict=True):
        ranks = contexts.ranks[:, rank_place]
        kind = state.columns.letters[place]
        if kind == ColumnKind.NAMES:
            axes.append(name_axis(tokens, ranks, counts, MOST_VALUES[size]))
        else:
            axes.append(range_axis(kind, tokens, ranks, counts, MOST_RANGES[size]))
    shape = [len(values) for values, _, _ in axes]
    means = average_targets(
        np.ravel_multi_index([bins for _, bins, _ in axes], shape),
        targets_of(examples),
        counts,
        shape,
    )
    source = (
        f"all {state.n_examples:,} rows" if kept.holds_all else f"{means.totals.sum():,} kept rows"
    )
    names = name_columns(state.columns, places)
    if size:
        return column_plot.draw_mean_pair(
            ax, names, [values for values, _, _ in axes], means.totals, means.means, source
        )
    values, _, ordered = axes[0]
    return column_plot.draw_means(
        ax, names[0], values, means.totals, means.means, means.errors, source, ordered=ordered
    )


class MeanTargets(NamedTuple):
    """How many rows have each value or pair of values, the mean of their targets, and its standard error."""

    totals: Ints
    means: Floats
    errors: Floats


def average_targets(bins: Ints, targets: Floats, counts: Ints, shape: Sequence[int]) -> MeanTargets:
    """Return the means of targets in bins, of rows that occur so often; 0 where no row is.

    Examples
    --------
    >>> import numpy as np
    >>> from hammemo.tasks.numbers.column_means import average_targets
    >>> found = average_targets(np.array([0, 0, 2]), np.array([1.0, 4.0, 5.0]), np.array([2, 1, 1]), [3])
    >>> found.totals.tolist(), found.means.tolist()
    ([3, 0, 1], [2.0, 0.0, 5.0])
    """
    n = int(np.prod(shape))
    totals = np.bincount(bins, counts, n).astype(np.int64)
    divisors = np.maximum(totals, 1)
    means = np.bincount(bins, counts * targets, n) / divisors
    errors = np.sqrt(np.bincount(bins, counts * (targets - means[bins]) ** 2, n)) / divisors
    return MeanTargets(totals.reshape(shape), means.reshape(shape), errors.reshape(shape))
