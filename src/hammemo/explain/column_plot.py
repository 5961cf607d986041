"""The figure of a column or a pair of columns: shares of labels or mean targets, and rows by value.

For one column, a line for each label is its share among the rows with a value, with one standard
error; grey bars are the rows. For a pair, a field is the share of one label, and its number the
rows. It needs the ``plot`` extra.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from hammemo.explain.explanation_plot import COLOURS, new_axes, shorten

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

    from hammemo._arrays.types import Floats, Ints

    Names = Sequence[str]

MISSING: Final = "missing"
"""What missing values are called."""

OTHERS: Final = "others"
"""What values that are not shown one by one are called."""

_MOST_LINES: Final = 5
"""The most labels in one figure."""

_BAR_HEIGHT: Final = 0.3
"""The share of the height that the bars of rows take."""

_MOST_UPRIGHT_NAMES: Final = 3
"""The most names below an axis that are not tilted."""

_TILTED: Final[dict[str, Any]] = {
    "rotation": 60,
    "horizontalalignment": "right",
    "rotation_mode": "anchor",
}
"""How names below an axis are written where they are many."""


class ColumnAxis(NamedTuple):
    """A column with its values, as a figure shows them."""

    name: str
    values: Names
    is_ordered: bool
    """Whether the values are in order, so that a line may join them."""


class ShownCounts(NamedTuple):
    """How often each label occurs with each value, or pair of values."""

    counts: Ints
    """By value, or by the values of both columns, then by label: (V, L) or (V, W, L)."""
    labels: Names
    label: int | None
    """The only label that is drawn; by default the second of two, or the most frequent ones."""
    source: str
    """What was counted."""


def draw_shares(ax: Axes | None, column: ColumnAxis, counted: ShownCounts) -> Axes:
    """Draw the shares of labels for each value of a column.

    They are drawn on the axes, or on those of a new figure, which are returned.
    """
    counts = counted.counts
    if ax is None:
        ax = _new_column_axes(column)
    totals = counts.sum(axis=1)
    _draw_rows(ax, totals, column.values)
    drawn_labels = _choose_labels(counts, counted.label)
    places = np.flatnonzero(totals)
    for colour, label in zip(COLOURS, drawn_labels, strict=False):
        shares = counts[places, label] / totals[places]
        errors = np.sqrt(shares * (1 - shares) / totals[places])
        name = shorten(counted.labels[label], 32)
        _draw_points(ax, column, Points(places, shares, errors), colour=colour, label=name)
        mean_share = counts[:, label].sum() / totals.sum()
        ax.axhline(mean_share, color=colour, linewidth=0.8, linestyle=":")
    _name_values(ax, column)
    ax.set_ylim(0, 1.02)
    of = "of each label"
    if len(drawn_labels) == 1:
        of = f"of {shorten(counted.labels[drawn_labels[0]], 32)}"
    ax.set_ylabel(f"share {of}")
    ax.set_title(
        f"{column.name}: share {of} by value; dotted, over all values ({counted.source})",
        loc="left",
        fontsize=10,
    )
    ax.spines[["top"]].set_visible(False)
    if len(drawn_labels) > 1:
        ax.legend(loc="upper left", bbox_to_anchor=(1.08, 1.0), frameon=False, fontsize=8)
    return ax


def draw_means(
    ax: Axes | None, column: ColumnAxis, totals: Ints, means: Floats, *, errors: Floats, source: str
) -> Axes:
    """Draw the mean target for each value of a column, with one standard error, and its rows."""
    if ax is None:
        ax = _new_column_axes(column)
    _draw_rows(ax, totals, column.values)
    places = np.flatnonzero(totals)
    points = Points(places, means[places], errors[places])
    _draw_points(ax, column, points, colour=COLOURS[0])
    overall_mean = float(np.average(means[places], weights=totals[places]))
    ax.axhline(overall_mean, color=COLOURS[0], linewidth=0.8, linestyle=":")
    _name_values(ax, column)
    ax.set_ylabel("mean target")
    ax.set_title(
        f"mean target by {shorten(column.name, 32)}, ± one standard error ({source})",
        loc="left",
        fontsize=10,
    )
    return ax


def draw_pair(ax: Axes | None, columns: Sequence[ColumnAxis], counted: ShownCounts) -> Axes:
    """Draw the share of one label for each pair of values; the second column runs to the right."""
    counts = counted.counts
    totals = counts.sum(axis=2)
    label = _choose_labels(counts.reshape(-1, counts.shape[2]), counted.label)[0]
    shares = np.where(totals > 0, counts[:, :, label] / np.maximum(totals, 1), np.nan)
    what = f"share of {shorten(counted.labels[label], 32)}"
    fields = Fields(totals, shares, limits=(0.0, 1.0), what=what, source=counted.source)
    return _draw_fields(ax, columns, fields)


def draw_mean_pair(
    ax: Axes | None, columns: Sequence[ColumnAxis], totals: Ints, means: Floats, *, source: str
) -> Axes:
    """Draw the mean target for each pair of values; the second column runs to the right."""
    has_rows = totals > 0
    limits = (float(means[has_rows].min()), float(means[has_rows].max()))
    numbers = np.where(has_rows, means, np.nan)
    fields = Fields(totals, numbers, limits=limits, what="mean target", source=source)
    return _draw_fields(ax, columns, fields)


class Fields(NamedTuple):
    """What the fields of a figure of two columns show.

    Parameters
    ----------
    totals : ndarray of int64, shape (V, W)
        How many rows have each pair of values.
    numbers : ndarray of float64, shape (V, W)
        What colours them; NaN where there are no rows.
    limits : two floats
        The numbers of the darkest and of the lightest colour.
    what : str
        What the numbers are.
    source : str
        What was counted.
    """

    totals: Ints
    numbers: Floats
    limits: tuple[float, float]
    what: str
    source: str


def _draw_fields(ax: Axes | None, columns: Sequence[ColumnAxis], fields: Fields) -> Axes:
    """Draw a coloured field, with its number of rows, for each pair of values."""
    vertical, horizontal = columns
    height, width = fields.totals.shape
    if ax is None:
        ax = new_axes(2.8 + 0.62 * width, 1.8 + 0.42 * height)
    low, high = fields.limits
    image = ax.imshow(fields.numbers, cmap="cividis", vmin=low, vmax=high, aspect="auto")
    for row, column in np.argwhere(fields.totals > 0).tolist():
        colour = "white" if fields.numbers[row, column] < (low + high) / 2 else "black"
        text = f"{fields.totals[row, column]:,}"
        ax.text(column, row, text, ha="center", va="center", color=colour, fontsize=7)
    ax.set_xticks(range(width), [shorten(value, 20) for value in horizontal.values], **_TILTED)
    ax.set_yticks(range(height), [shorten(value, 20) for value in vertical.values])
    ax.set(xlabel=horizontal.name, ylabel=vertical.name)
    ax.set_title(
        f"{fields.what}; in each field its rows ({fields.source})", loc="left", fontsize=10
    )
    ax.figure.colorbar(image, ax=ax, label=fields.what)
    return ax


def _new_column_axes(column: ColumnAxis) -> Axes:
    return new_axes(max(7.0, 2.2 + 0.42 * len(column.values)), 4.2)


def _name_values(ax: Axes, column: ColumnAxis) -> None:
    """Write the values of a column below the axis."""
    names = [shorten(value, 24) for value in column.values]
    if len(names) > _MOST_UPRIGHT_NAMES:
        ax.set_xticks(range(len(names)), names, **_TILTED)
    else:
        ax.set_xticks(range(len(names)), names)
    ax.set_xlabel(column.name)


def _choose_labels(counts: Ints, label: int | None) -> list[int]:
    """Return the labels that are drawn: the second of two, otherwise the most frequent ones."""
    if label is not None:
        return [label]
    if counts.shape[1] == 2:
        return [1]
    return list(np.argsort(-counts.sum(axis=0), kind="stable")[:_MOST_LINES].tolist())


def _draw_rows(ax: Axes, totals: Ints, values: Names) -> None:
    """Draw how many rows have each value, behind the shares.

    The bar of many values together may be cut off.
    """
    single_totals = [
        total
        for total, value in zip(totals.tolist(), values, strict=True)
        if not value.endswith(OTHERS)
    ]
    highest = max(single_totals) or int(totals.max())
    rows = ax.twinx()
    rows.bar(np.arange(len(values)), totals, 0.8, color="#DDDDDD", zorder=0)
    rows.set_ylim(0, highest / _BAR_HEIGHT)
    rows.set_yticks([0, highest], ["0", f"{highest:,}"])
    rows.set_ylabel("rows", loc="bottom")
    rows.spines[["top"]].set_visible(False)
    ax.set_zorder(rows.get_zorder() + 1)
    ax.patch.set_visible(False)


class Points(NamedTuple):
    """Numbers of the values that rows have."""

    places: Ints
    """Which of the values of the column they are: (n,)."""
    heights: Floats
    """Shape (n,)."""
    errors: Floats
    """Standard errors: (n,)."""


def _draw_points(
    ax: Axes, column: ColumnAxis, points: Points, *, colour: str, label: str = ""
) -> None:
    """Draw points with one standard error; a line joins them if the values are in order."""
    places, heights, errors = points
    ax.errorbar(
        places,
        heights,
        errors,
        fmt="o",
        color=colour,
        label=label,
        markersize=5,
        capsize=2,
        elinewidth=1,
        zorder=3,
        clip_on=False,
    )
    if column.is_ordered:  # a missing value has no place in the order
        is_joined = np.array([column.values[place] != MISSING for place in places.tolist()], bool)
        ax.plot(places[is_joined], heights[is_joined], color=colour, linewidth=1.4, zorder=2)
