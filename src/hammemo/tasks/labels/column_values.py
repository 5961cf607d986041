"""What a column, or a pair of columns, says of the labels: how often each label occurs with each value.

Counts are read where the model counts such a site with exact counts in memory, and otherwise from the rows that it
keeps. Neither contains forgotten rows. Numbers and dates are put into ranges. Of many names the most frequent ones are
shown, the others together.
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
from hammemo.memories.exact import InSegments, SparseCounts
from hammemo.tasks.labels.read import classes_of
from hammemo.tokens.column_kinds import ColumnKind
from hammemo.tokens.contexts import joined_examples

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

    from hammemo._arrays.types import Ints
    from hammemo.explain.column_axes import Axis
    from hammemo.tasks.labels.layout import LabelState
    from hammemo.tokens.vocabulary import Vocabulary


@dataclass(frozen=True, eq=False)
class ColumnValues:
    """How often each label occurs with each value of one or two columns; what `MemoryClassifier.plot_column` draws.

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
        """Draw the share of the labels, or of one of them, for each value, and how many rows have it."""
        if not self.counts.any():
            raise ValueError("There is nothing to draw: the model holds no rows.")
        if label is not None and label not in self.labels:
            raise ValueError(
                f"label={label!r} is not one of the labels: {', '.join(map(repr, self.labels[:10]))}."
            )
        place = None if label is None else self.labels.index(label)
        names = list(map(str, self.labels))
        if len(self.columns) == 1:
            return column_plot.draw_one(
                ax,
                self.columns[0],
                self.values[0],
                self.counts,
                names,
                place,
                self.source,
                ordered=self.ordered[0],
            )
        return column_plot.draw_pair(
            ax, self.columns, self.values, self.counts, names, place, self.source
        )


@dataclass(frozen=True, eq=False)
class _Cases:
    """Rows of values with how often each label occurs in them: a site of a table of counts, or kept rows."""

    tokens: Vocabulary
    ranks: Ints
    """The values of the columns, -1 where there is none: shape (n, number of columns)."""
    rows: Ints
    labels: Ints
    counts: Ints
    """Entries: the row, the label's column and how often."""
    source: str
    are_ranges: bool


def column_values(state: LabelState, columns: Sequence[Any]) -> ColumnValues:
    """Return what one or two columns say in one version of a fitted model.

    Examples
    --------
    >>> from hammemo import MemoryClassifier
    >>> from hammemo.tasks.labels.column_values import column_values
    >>> X, y = [["sun", "calm"], ["sun", "wind"], ["rain", "wind"]] * 30, ["play", "play", "stay"] * 30
    >>> found = column_values(MemoryClassifier().fit(X, y).state, [0])
    >>> found.values, found.labels, found.counts.tolist(), found.source
    ((('sun', 'rain'),), ('play', 'stay'), [[60, 0], [0, 30]], 'all 90 rows')
    """
    places = find_places(state.columns, columns)
    cases = _counted(state, places) or _kept(state, places)
    kinds = state.columns.kinds
    totals = np.bincount(cases.rows, cases.counts, len(cases.ranks)).astype(np.int64)
    size, axes = len(places) - 1, []
    for ranks, place in zip(cases.ranks.T, places, strict=True):
        if kinds[place] is ColumnKind.NAMES:
            axes.append(name_axis(cases.tokens, ranks, totals, MOST_VALUES[size]))
        elif cases.are_ranges:
            axes.append(_ranges(state, place, cases.tokens, ranks))
        else:
            axes.append(range_axis(kinds[place], cases.tokens, ranks, totals, MOST_RANGES[size]))
    n_labels = len(state.memory.labels)
    counts = np.zeros((*(len(values) for values, _, _ in axes), n_labels), np.int64)
    np.add.at(counts, (*(bins[cases.rows] for _, bins, _ in axes), cases.labels), cases.counts)
    return ColumnValues(
        columns=name_columns(state.columns, places),
        values=tuple(values for values, _, _ in axes),
        ordered=tuple(ordered for _, _, ordered in axes),
        labels=tuple(classes_of(state).tolist()),
        counts=counts,
        source=cases.source,
    )


def _counted(state: LabelState, places: list[int]) -> _Cases | None:
    """Return the cases of a site that compares these columns; None where there is none with exact counts in memory."""
    site, sites, memory = tuple(sorted(places)), state.layout.sites, state.memory
    cells = state.layout.cells
    if cells is not None and cells.narrowing is not None:
        return None  # its sites are columns of narrow rows
    if site not in sites.positions or (
        isinstance(memory, InSegments) and memory.segmented is not None
    ):
        return None
    reader = memory.now().reader()
    if not isinstance(reader, SparseCounts):
        return None
    k, table = sites.positions.index(site), reader.table
    matrix = table.matrices(reader.labels)[k].tocoo()
    ranks = table.tuples[k].rows()[:, [site.index(place) for place in places]]
    n = int(reader.label_counts.sum())
    left = reader.label_counts - np.asarray(matrix.sum(axis=0)).ravel().astype(
        np.int64
    )  # rows without such values
    return _Cases(
        tokens=table.vocabulary,
        ranks=np.concatenate([ranks, np.full((1, len(places)), -1)]),
        rows=np.append(matrix.row, np.full(len(left), len(ranks))).astype(np.int64),
        labels=np.append(matrix.col, np.arange(len(left))).astype(np.int64),
        counts=np.append(matrix.data, left).astype(np.int64),
        source=f"all {n:,} rows",
        are_ranges=True,
    )


def _kept(state: LabelState, places: list[int]) -> _Cases:
    """Return the rows that are kept as cases; ValueError where none are."""
    kept, labels = state.kept, state.memory.labels
    if kept is None:
        raise ValueError(
            "Nothing is known of these columns alone: the model neither counts them as a site with exact counts, nor "
            "keeps rows. Fit it with keep=True."
        )
    batches = [batch for batch in kept.batches() if len(batch)]
    if not batches:
        raise ValueError("There is nothing to draw: the model holds no rows.")
    examples, n = joined_examples(batches), int(state.memory.label_counts.sum())
    counts = examples.multiplicity
    contexts, places = contexts_of_places(state.columns, examples.contexts, places)
    return _Cases(
        tokens=contexts.vocabulary,
        ranks=contexts.ranks[:, places],
        rows=np.arange(len(examples)),
        labels=labels.find(examples.labels)[examples.label_ranks],
        counts=counts,
        source=f"all {n:,} rows" if kept.holds_all else f"{int(counts.sum()):,} kept rows of {n:,}",
        are_ranges=False,
    )


"""The values as they are shown, the value of each case, and whether values are in order."""


def _ranges(state: LabelState, place: int, tokens: Vocabulary, ranks: Ints) -> Axis:
    """Return the ranges that the model compares."""
    assert state.layout.cells is not None
    cuts = state.layout.cells.ranges[place]
    found = token_values(tokens)[ranks]
    bins = np.where(np.isnan(found) | (found == MISSING_RANGE), len(cuts) + 1, found).astype(
        np.int64
    )
    return label_ranges(state.layout.cells.kinds[place], cuts, bins)
