"""What a column, or a pair of columns, says of the labels: how often each label occurs with each value.

Counts are read where the model counts such a site with exact counts in memory, and otherwise from the rows that it
keeps. Neither contains forgotten rows. Numbers and dates are put into ranges. Of many names the most frequent ones are
shown, the others together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from hammemo.explain import column_plot
from hammemo.kernels.cells import MISSING_RANGE, quantile_cuts, range_text, token_values
from hammemo.memories.exact import InSegments, SparseCounts
from hammemo.tasks.numbers.sums import NumberState, targets_of
from hammemo.tokens.columns import ColumnKind
from hammemo.tokens.contexts import Contexts, joined_examples
from hammemo.tokens.missing import MISSING
from hammemo.tokens.packed_rows import unpack_rows
from hammemo.tokens.vocabulary import NO_TOKEN

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

    from hammemo._arrays.types import Floats, Ints
    from hammemo.edits.state import ModelState, RowsState
    from hammemo.tokens.vocabulary import Vocabulary

MOST_VALUES: Final = (20, 10)
"""The most names that are shown one by one: of one column, and of each column of a pair."""
_RANGES: Final = (16, 8)
"""The most ranges of numbers, likewise."""


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
            raise ValueError(f"label={label!r} is not one of the labels: {', '.join(map(repr, self.labels[:10]))}.")
        place = None if label is None else self.labels.index(label)
        names = list(map(str, self.labels))
        if len(self.columns) == 1:
            return column_plot.draw_one(
                ax, self.columns[0], self.values[0], self.counts, names, place, self.source, ordered=self.ordered[0]
            )
        return column_plot.draw_pair(ax, self.columns, self.values, self.counts, names, place, self.source)


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


def column_values(state: ModelState, columns: Sequence[Any]) -> ColumnValues:
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
    places = _find_places(state, columns)
    cases = _counted(state, places) or _kept(state, places)
    kinds = state.columns.letters
    totals = np.bincount(cases.rows, cases.counts, len(cases.ranks)).astype(np.int64)
    size, axes = len(places) - 1, []
    for ranks, place in zip(cases.ranks.T, places, strict=True):
        if kinds[place] == ColumnKind.NAMES:
            axes.append(_names(cases.tokens, ranks, totals, MOST_VALUES[size]))
        elif cases.are_ranges:
            axes.append(_ranges(state, place, cases.tokens, ranks))
        else:
            axes.append(_cut(kinds[place], cases.tokens, ranks, totals, _RANGES[size]))
    n_labels = len(state.memory.labels)
    counts = np.zeros((*(len(values) for values, _, _ in axes), n_labels), np.int64)
    np.add.at(counts, (*(bins[cases.rows] for _, bins, _ in axes), cases.labels), cases.counts)
    return ColumnValues(
        columns=_name_columns(state, places),
        values=tuple(values for values, _, _ in axes),
        ordered=tuple(ordered for _, _, ordered in axes),
        labels=tuple(state.classes.tolist()),
        counts=counts,
        source=cases.source,
    )


def plot_means(state: NumberState, columns: Sequence[Any], ax: Axes | None = None) -> Axes:
    """Draw the mean target by the values of one or two columns, in the rows that a model keeps; return the axes."""
    places = _find_places(state, columns)
    kept = state.rows
    if kept is None:
        raise ValueError("The model keeps no rows, so nothing is known of single columns: fit it with keep=True.")
    if not len(kept):
        raise ValueError("There is nothing to draw: the model holds no rows.")
    examples = kept.examples()
    counts = examples.multiplicity
    contexts, rank_places = _of_places(state, examples.contexts, places)
    tokens = contexts.vocabulary
    size = len(places) - 1
    axes = []
    for place, rank_place in zip(places, rank_places, strict=True):
        ranks = contexts.ranks[:, rank_place]
        kind = state.columns.letters[place]
        if kind == ColumnKind.NAMES:
            axes.append(_names(tokens, ranks, counts, MOST_VALUES[size]))
        else:
            axes.append(_cut(kind, tokens, ranks, counts, _RANGES[size]))
    shape = [len(values) for values, _, _ in axes]
    means = average_targets(
        np.ravel_multi_index([bins for _, bins, _ in axes], shape), targets_of(examples), counts, shape
    )
    source = f"all {state.n_examples:,} rows" if kept.holds_all else f"{means.totals.sum():,} kept rows"
    names = _name_columns(state, places)
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
    >>> from hammemo.tasks.labels.column_values import average_targets
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


def _find_places(state: RowsState, columns: Sequence[Any]) -> list[int]:
    """Return the places of columns, which must differ."""
    places = [_place(state, column) for column in columns]
    if len(set(places)) < len(places):
        raise ValueError(f"{columns[0]!r} and {columns[1]!r} are the same column: name two.")
    return places


def _name_columns(state: RowsState, places: Sequence[int]) -> tuple[str, ...]:
    """Return what columns are called in a figure."""
    names = state.columns.names
    return tuple(f"column {place}" if names is None else str(names[place]) for place in places)


def _of_places(state: RowsState, contexts: Contexts, places: list[int]) -> tuple[Contexts, list[int]]:
    """Return contexts in which these columns have tokens of their own, and where: of packed rows, they alone."""
    if not state.columns.packed:
        return contexts, places
    values = unpack_rows(contexts, state.columns.n).of_columns(np.array(sorted(places)))
    tokens = np.where(np.isnan(values), float(NO_TOKEN), values)
    return Contexts(tokens), [sorted(places).index(place) for place in places]


def _place(state: RowsState, column: Any) -> int:
    """Return the place of a column that is given by its name, or by its place."""
    listed, h = state.columns.listed() or [], state.columns.n
    if column in listed:
        return int(listed.index(column))
    if isinstance(column, (int, np.integer)) and not isinstance(column, bool) and -h <= column < h:
        return int(column) % h
    known = ", ".join(map(repr, listed[:20])) if listed else f"the places 0 to {h - 1}"
    raise ValueError(f"There is no column {column!r}; the table has {known}.")


def _counted(state: ModelState, places: list[int]) -> _Cases | None:
    """Return the cases of a site that compares these columns; None where there is none with exact counts in memory."""
    site, sites, memory = tuple(sorted(places)), state.sites, state.memory
    if state.cells is not None and state.cells.narrowing is not None:
        return None  # its sites are columns of narrow rows
    if site not in sites.positions or (isinstance(memory, InSegments) and memory.segmented is not None):
        return None
    reader = memory.now().reader()
    if not isinstance(reader, SparseCounts):
        return None
    k, table = sites.positions.index(site), reader.table
    matrix = table.matrices(reader.labels)[k].tocoo()
    ranks = table.tuples[k].rows()[:, [site.index(place) for place in places]]
    n = int(reader.label_counts.sum())
    left = reader.label_counts - np.asarray(matrix.sum(axis=0)).ravel().astype(np.int64)  # rows without such values
    return _Cases(
        tokens=table.vocabulary,
        ranks=np.concatenate([ranks, np.full((1, len(places)), -1)]),
        rows=np.append(matrix.row, np.full(len(left), len(ranks))).astype(np.int64),
        labels=np.append(matrix.col, np.arange(len(left))).astype(np.int64),
        counts=np.append(matrix.data, left).astype(np.int64),
        source=f"all {n:,} rows",
        are_ranges=True,
    )


def _kept(state: ModelState, places: list[int]) -> _Cases:
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
    contexts, places = _of_places(state, examples.contexts, places)
    return _Cases(
        tokens=contexts.vocabulary,
        ranks=contexts.ranks[:, places],
        rows=np.arange(len(examples)),
        labels=labels.find(examples.labels)[examples.label_ranks],
        counts=counts,
        source=f"all {n:,} rows" if kept.holds_all else f"{int(counts.sum()):,} kept rows of {n:,}",
        are_ranges=False,
    )


_Axis = tuple[tuple[str, ...], "Ints", bool]
"""The values as they are shown, the value of each case, and whether values are in order."""


def _names(tokens: Vocabulary, ranks: Ints, totals: Ints, most: int) -> _Axis:
    """Return names, the most frequent first; whole numbers in their order where they are few."""
    listed = tokens.tolist()
    sums = np.bincount(ranks + 1, totals, len(listed) + 1).astype(np.int64)  # the first is for no token
    used = [rank for rank in np.flatnonzero(sums).tolist() if rank]
    are_numbers = len(used) <= most and not any(isinstance(listed[rank - 1], str) for rank in used)
    order = used if are_numbers else sorted(used, key=lambda rank: (-int(sums[rank]), rank))
    bins = np.full(len(listed) + 1, min(len(order), most), np.int64)
    bins[order[:most]] = np.arange(len(order[:most]))
    shown = [column_plot.MISSING if listed[rank - 1] == MISSING else str(listed[rank - 1]) for rank in order[:most]]
    if len(order) > most:
        shown.append(f"{len(order) - most:,} {column_plot.OTHERS}")
    if sums[0]:
        bins[0] = len(shown)
        shown.append(column_plot.MISSING)
    return tuple(shown), np.minimum(bins[ranks + 1], max(len(shown) - 1, 0)), are_numbers


def _ranges(state: ModelState, place: int, tokens: Vocabulary, ranks: Ints) -> _Axis:
    """Return the ranges that the model compares."""
    assert state.cells is not None
    cuts = state.cells.ranges[place]
    found = token_values(tokens)[ranks]
    bins = np.where(np.isnan(found) | (found == MISSING_RANGE), len(cuts) + 1, found).astype(np.int64)
    return _with_missing(state.cells.kinds[place], cuts, bins)


def _cut(kind: str, tokens: Vocabulary, ranks: Ints, totals: Ints, most: int) -> _Axis:
    """Return ranges of about as many rows each."""
    found = token_values(tokens)[ranks]
    cuts = quantile_cuts(found, totals, most - 1)
    bins = np.where(np.isnan(found), len(cuts) + 1, np.searchsorted(cuts, found, side="right"))
    return _with_missing(kind, cuts, bins)


def _with_missing(kind: str, cuts: Floats, bins: Ints) -> _Axis:
    shown = [range_text(kind, cuts, bin_) for bin_ in range(len(cuts) + 1)]
    return (*shown, *([column_plot.MISSING] if (bins > len(cuts)).any() else [])), bins, True
