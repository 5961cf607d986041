"""What a column, or a pair, says of the labels: how often each label occurs with each value.

Counts are read where the model counts such a site with exact counts in memory, and otherwise from
the rows that it keeps. Neither contains forgotten rows. Numbers and dates are put into ranges. Of
many names the most frequent ones are shown, the others together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from hammemo.explain import column_plot
from hammemo.explain.column_axes import (
    MOST_RANGES,
    MOST_VALUES,
    contexts_of_places,
    find_places,
    label_ranges,
    name_axis,
    name_columns,
    range_axis,
)
from hammemo.features.cells import MISSING_RANGE, token_values
from hammemo.memories.exact import SparseCounts
from hammemo.tasks.labels.layout import is_in_segments
from hammemo.tasks.labels.read import classes_of
from hammemo.tokens.column_kinds import ColumnKind
from hammemo.tokens.contexts import join_examples

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

    from hammemo._arrays.types import Ints
    from hammemo.explain.column_axes import Axis
    from hammemo.tasks.labels.layout import LabelState
    from hammemo.tokens.vocabulary import Vocabulary


@dataclass(frozen=True, eq=False)
class ColumnValues:
    """How often each label occurs with each value of one or two columns.

    `MemoryClassifier.plot_column` draws it.

    Parameters
    ----------
    columns : tuple of str
    values : tuple of tuples of str
        For each column its values, as they are shown.
    ordered : tuple of bool
        For each column whether its values are ranges in order.
    labels : tuple
    counts : ndarray of int64, shape (V, L), or (V, W, L) for two columns
        How many rows with these values have each label.
    source : str
        What was counted.
    """

    columns: tuple[str, ...]
    values: tuple[tuple[str, ...], ...]
    ordered: tuple[bool, ...]
    labels: tuple[Any, ...]
    counts: Ints
    source: str

    def plot(self, label: Any = None, ax: Axes | None = None) -> Axes:
        """Draw the share of the labels, or of one of them, for each value; return the axes.

        Beside it stands how many rows have the value.
        """
        if not self.counts.any():
            raise ValueError("There is nothing to draw: the model holds no rows.")
        if label is not None and label not in self.labels:
            labels = ", ".join(map(repr, self.labels[:10]))
            raise ValueError(f"label={label!r} is not one of the labels: {labels}.")
        place = None
        if label is not None:
            place = self.labels.index(label)
        names = list(map(str, self.labels))
        columns = [
            column_plot.ColumnAxis(name, values, is_ordered)
            for name, values, is_ordered in zip(
                self.columns, self.values, self.ordered, strict=True
            )
        ]
        counted = column_plot.ShownCounts(self.counts, names, place, self.source)
        if len(columns) == 1:
            return column_plot.draw_shares(ax, columns[0], counted)
        return column_plot.draw_pair(ax, columns, counted)


@dataclass(frozen=True, eq=False)
class _Cases:
    """Rows of values with how often each label occurs in them.

    They are a site of a table of counts, or kept rows.
    """

    tokens: Vocabulary
    ranks: Ints
    """The values of the columns, -1 where there is none: shape (n, number of columns)."""
    rows: Ints
    labels: Ints
    counts: Ints
    """Entries: the row, the label's column and how often."""
    source: str
    are_ranges: bool


def plot_columns(state: LabelState, columns: Sequence[Any], label: Any, ax: Axes | None) -> Axes:
    """Draw the shares of the labels, or of one of them, by the values of one or two columns."""
    return column_values(state, columns).plot(label, ax)


def column_values(state: LabelState, columns: Sequence[Any]) -> ColumnValues:
    """Return what one or two columns say in one version of a fitted model.

    Examples
    --------
    >>> from hammemo import MemoryClassifier
    >>> from hammemo.tasks.labels.column_values import column_values
    >>> X = [["sun", "calm"], ["sun", "wind"], ["rain", "wind"]] * 30
    >>> model = MemoryClassifier().fit(X, ["play", "play", "stay"] * 30)
    >>> weather = column_values(model.state, [0])
    >>> weather.values, weather.labels, weather.counts.tolist(), weather.source
    ((('sun', 'rain'),), ('play', 'stay'), [[60, 0], [0, 30]], 'all 90 rows')
    """
    places = find_places(state.columns, columns)
    cases = _count_in_site(state, places) or _count_kept_rows(state, places)
    kinds = state.columns.kinds
    totals = np.bincount(cases.rows, cases.counts, len(cases.ranks)).astype(np.int64)
    most_values = MOST_VALUES[len(places) - 1]
    most_ranges = MOST_RANGES[len(places) - 1]
    axes = []
    for ranks, place in zip(cases.ranks.T, places, strict=True):
        if kinds[place] is ColumnKind.NAMES:
            axes.append(name_axis(cases.tokens, ranks, totals, most_values))
        elif cases.are_ranges:
            axes.append(_ranges_of_layout(state, place, cases.tokens, ranks))
        else:
            axis = range_axis(
                kinds[place],
                cases.tokens,
                ranks,
                totals=totals,
                max_values=most_ranges,
                order=state.columns.order_of(place),
            )
            axes.append(axis)
    shape = [len(values) for values, _, _ in axes]
    counts = np.zeros((*shape, len(state.memory.labels)), np.int64)
    value_places = [bins[cases.rows] for _, bins, _ in axes]
    np.add.at(counts, (*value_places, cases.labels), cases.counts)
    return ColumnValues(
        columns=name_columns(state.columns, places),
        values=tuple(values for values, _, _ in axes),
        ordered=tuple(ordered for _, _, ordered in axes),
        labels=tuple(classes_of(state).tolist()),
        counts=counts,
        source=cases.source,
    )


def _count_in_site(state: LabelState, places: list[int]) -> _Cases | None:
    """Return the cases of a site that compares these columns.

    None where there is no such site with exact counts in memory.
    """
    site = tuple(sorted(places))
    positions = state.layout.sites.positions
    cells = state.layout.cells
    if cells is not None and cells.narrowing is not None:
        return None  # its sites are columns of narrow rows
    if site not in positions or is_in_segments(state.memory):
        return None
    reader = state.memory.now().reader()
    if not isinstance(reader, SparseCounts):
        return None
    table = reader.table
    site_number = positions.index(site)
    matrix = table.matrices(reader.labels)[site_number].tocoo()
    ranks = table.tuples[site_number].rows()[:, [site.index(place) for place in places]]

    # Rows without such values are in no row of the matrix: they become one more case of each label.
    n_labels = len(reader.label_counts)
    counted = np.asarray(matrix.sum(axis=0)).ravel().astype(np.int64)
    n_rows = int(reader.label_counts.sum())
    return _Cases(
        tokens=table.vocabulary,
        ranks=np.concatenate([ranks, np.full((1, len(places)), -1)]),
        rows=np.append(matrix.row, np.full(n_labels, len(ranks))).astype(np.int64),
        labels=np.append(matrix.col, np.arange(n_labels)).astype(np.int64),
        counts=np.append(matrix.data, reader.label_counts - counted).astype(np.int64),
        source=f"all {n_rows:,} rows",
        are_ranges=True,
    )


def _count_kept_rows(state: LabelState, places: list[int]) -> _Cases:
    """Return the rows that are kept as cases; ValueError where none are."""
    kept_examples = state.kept
    if kept_examples is None:
        raise ValueError(
            "Nothing is known of these columns alone: the model neither counts them as a site "
            "with exact counts, nor keeps rows. Fit it with keep=True."
        )
    batches = [batch for batch in kept_examples.batches() if len(batch)]
    if not batches:
        raise ValueError("There is nothing to draw: the model holds no rows.")
    examples = join_examples(batches)
    counts = examples.multiplicity
    contexts, rank_places = contexts_of_places(state.columns, examples.contexts, places)
    n_rows = int(state.memory.label_counts.sum())
    source = f"all {n_rows:,} rows"
    if not kept_examples.holds_all:
        source = f"{int(counts.sum()):,} kept rows of {n_rows:,}"
    return _Cases(
        tokens=contexts.vocabulary,
        ranks=contexts.ranks[:, rank_places],
        rows=np.arange(len(examples)),
        labels=state.memory.labels.find(examples.labels)[examples.label_ranks],
        counts=counts,
        source=source,
        are_ranges=False,
    )


def _ranges_of_layout(state: LabelState, place: int, tokens: Vocabulary, ranks: Ints) -> Axis:
    """Return the ranges that the model compares."""
    assert state.layout.cells is not None
    cuts = state.layout.cells.ranges[place]
    ranges = token_values(tokens)[ranks]
    is_missing = np.isnan(ranges) | (ranges == MISSING_RANGE)
    bins = np.where(is_missing, len(cuts) + 1, ranges).astype(np.int64)
    kind = state.layout.cells.kinds[place]
    return label_ranges(kind, cuts, bins, order=state.columns.order_of(place))
