"""The figure of a column or of a pair of columns: shares of labels or mean targets, and how many rows have each value.

It needs the ``plot`` extra. For one column, a line for each label is its share among the rows with a value, with one
standard error; grey bars are the rows. For a pair, a field is the share of one label, and its number the rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from hammemo.explain.explanation_plot import COLOURS, new_axes, shortened

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

    from hammemo._arrays.types import Floats, Ints

    Names = Sequence[str]

MISSING: Final = "missing"
OTHERS: Final = "others"
"""How missing values, and values that are not shown one by one, are called."""
_MOST_LINES: Final = 5
_BAR_HEIGHT: Final = 0.3
"""The part of the height that the bars of rows take."""
_TILTED: Final[dict[str, Any]] = {
    "rotation": 60,
    "horizontalalignment": "right",
    "rotation_mode": "anchor",
}
"""How many names stand below an axis."""


def draw_one(
    ax: Axes | None,
    column: str,
    values: Names,
    counts: Ints,
    labels: Names,
    label: int | None,
    source: str,
    *,
    ordered: bool,
) -> Axes:
    """Draw the shares of labels for each value of a column on the axes, or on those of a new figure; return them.

    Parameters
    ----------
    ax : matplotlib Axes or None
    column : str
    values, labels : sequences of str
    counts : ndarray of int64, shape (V, L)
    label : int or None
        The only label that is drawn; by default the second of two, or the most frequent ones.
    source : str
        What was counted.
    ordered : bool
        Whether the values are in order, so that a line may join them.
    """
    ax = new_axes(max(7.0, 2.2 + 0.42 * len(values)), 4.2) if ax is None else ax
    totals, places = counts.sum(axis=1), np.arange(len(values))
    _draw_rows(ax, places, totals, values)
    shown = _shown_labels(counts, label)
    held = np.flatnonzero(totals)
    for colour, place in zip(COLOURS, shown, strict=False):
        shares = counts[held, place] / totals[held]
        errors = np.sqrt(shares * (1 - shares) / totals[held])
        _draw_points(
            ax,
            held,
            shares,
            errors,
            values if ordered else None,
            colour,
            shortened(labels[place], 32),
        )
        ax.axhline(
            counts[:, place].sum() / totals.sum(), color=colour, linewidth=0.8, linestyle=":"
        )
    _name_values(ax, column, values)
    ax.set_ylim(0, 1.02)
    of = f"of {shortened(labels[shown[0]], 32)}" if len(shown) == 1 else "of each label"
    ax.set_ylabel(f"share {of}")
    ax.set_title(
        f"{column}: share {of} by value; dotted, over all values ({source})",
        loc="left",
        fontsize=10,
    )
    ax.spines[["top"]].set_visible(False)
    if len(shown) > 1:
        ax.legend(loc="upper left", bbox_to_anchor=(1.08, 1.0), frameon=False, fontsize=8)
    return ax


def draw_means(
    ax: Axes | None,
    column: str,
    values: Names,
    totals: Ints,
    means: Floats,
    errors: Floats,
    source: str,
    *,
    ordered: bool,
) -> Axes:
    """Draw the mean target for each value of a column, with one standard error, and how many rows have the value."""
    ax = new_axes(max(7.0, 2.2 + 0.42 * len(values)), 4.2) if ax is None else ax
    _draw_rows(ax, np.arange(len(values)), totals, values)
    held = np.flatnonzero(totals)
    _draw_points(ax, held, means[held], errors[held], values if ordered else None, COLOURS[0])
    ax.axhline(
        float(np.average(means[held], weights=totals[held])),
        color=COLOURS[0],
        linewidth=0.8,
        linestyle=":",
    )
    _name_values(ax, column, values)
    ax.set_ylabel("mean target")
    ax.set_title(
        f"mean target by {shortened(column, 32)}, ± one standard error ({source})",
        loc="left",
        fontsize=10,
    )
    return ax


def _name_values(ax: Axes, column: str, values: Names) -> None:
    """Write the values of a column below the axis."""
    names = [shortened(value, 24) for value in values]
    ax.set_xticks(range(len(names)), names, **(_TILTED if len(names) > 3 else {}))
    ax.set_xlabel(column)


def draw_pair(
    ax: Axes | None,
    columns: Names,
    values: Sequence[Names],
    counts: Ints,
    labels: Names,
    label: int | None,
    source: str,
) -> Axes:
    """Draw the share of one label for each pair of values; the second column runs to the right.

    Parameters
    ----------
    ax, labels, source
        As for one column.
    columns : sequence of two str
    values : two sequences of str
    counts : ndarray of int64, shape (V, W, L)
    label : int or None
        By default the second of two labels, or the most frequent one.
    """
    totals = counts.sum(axis=2)
    place = _shown_labels(counts.reshape(-1, counts.shape[2]), label)[0]
    shares = np.where(totals > 0, counts[:, :, place] / np.maximum(totals, 1), np.nan)
    name = shortened(labels[place], 32)
    what = f"share of {name}"
    return _draw_fields(ax, columns, values, Fields(totals, shares, (0.0, 1.0), what, source))


def draw_mean_pair(
    ax: Axes | None,
    columns: Names,
    values: Sequence[Names],
    totals: Ints,
    means: Floats,
    source: str,
) -> Axes:
    """Draw the mean target for each pair of values; the second column runs to the right."""
    known = means[totals > 0]
    limits = (float(known.min()), float(known.max()))
    numbers = np.where(totals > 0, means, np.nan)
    return _draw_fields(ax, columns, values, Fields(totals, numbers, limits, "mean target", source))


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


def _draw_fields(ax: Axes | None, columns: Names, values: Sequence[Names], fields: Fields) -> Axes:
    """Draw a coloured field, with its number of rows, for each pair of values."""
    height, width = fields.totals.shape
    ax = new_axes(2.8 + 0.62 * width, 1.8 + 0.42 * height) if ax is None else ax
    low, high = fields.limits
    image = ax.imshow(fields.numbers, cmap="cividis", vmin=low, vmax=high, aspect="auto")
    for row, column in np.argwhere(fields.totals > 0).tolist():
        colour = "white" if fields.numbers[row, column] < (low + high) / 2 else "black"
        text = f"{fields.totals[row, column]:,}"
        ax.text(column, row, text, ha="center", va="center", color=colour, fontsize=7)
    ax.set_xticks(range(width), [shortened(value, 20) for value in values[1]], **_TILTED)
    ax.set_yticks(range(height), [shortened(value, 20) for value in values[0]])
    ax.set(xlabel=columns[1], ylabel=columns[0])
    ax.set_title(
        f"{fields.what}; in each field its rows ({fields.source})", loc="left", fontsize=10
    )
    ax.figure.colorbar(image, ax=ax, label=fields.what)
    return ax


def _shown_labels(counts: Ints, label: int | None) -> list[int]:
    """Return the labels that are drawn: one of two, else the most frequent ones, in their order."""
    if label is not None:
        return [label]
    if counts.shape[1] == 2:
        return [1]
    return list(np.argsort(-counts.sum(axis=0), kind="stable")[:_MOST_LINES].tolist())


def _draw_rows(ax: Axes, places: Ints, totals: Ints, values: Names) -> None:
    """Draw how many rows have each value, behind the shares; the bar of many values together may be cut off."""
    single = [
        total
        for total, value in zip(totals.tolist(), values, strict=True)
        if not value.endswith(OTHERS)
    ]
    most = max(single) or int(totals.max())
    rows = ax.twinx()
    rows.bar(places, totals, 0.8, color="#DDDDDD", zorder=0)
    rows.set_ylim(0, most / _BAR_HEIGHT)
    rows.set_yticks([0, most], ["0", f"{most:,}"])
    rows.set_ylabel("rows", loc="bottom")
    rows.spines[["top"]].set_visible(False)
    ax.set_zorder(rows.get_zorder() + 1)
    ax.patch.set_visible(False)


def _draw_points(
    ax: Axes,
    held: Ints,
    heights: Floats,
    errors: Floats,
    joined: Names | None,
    colour: str,
    label: str = "",
) -> None:
    """Draw one value, with one standard error, where there are rows; join those of `joined` values in order."""
    style: dict[str, Any] = {
        "markersize": 5,
        "capsize": 2,
        "elinewidth": 1,
        "zorder": 3,
        "clip_on": False,
    }
    ax.errorbar(held, heights, errors, fmt="o", color=colour, label=label, **style)
    if joined is not None:
        known = np.array([joined[place] != MISSING for place in held.tolist()], bool)
        ax.plot(held[known], heights[known], color=colour, linewidth=1.4, zorder=2)
