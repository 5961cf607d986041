"""The figure of an explanation: a waterfall from the prior to the score of one label.

Each bar starts where the one above it ends: the prior, then what each site adds, the largest
contribution first, and at the bottom the score that they add up to. Blue speaks for the label,
orange against it: Okabe and Ito's colours, which people with any colour vision tell apart. A kernel
with many sites shows those that add most, and all others as one bar. A predicted number starts at
the base: otherwise its bars would be thin lines far from zero. It needs the ``plot`` extra.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from hammemo._lazy import explain_missing
from hammemo.explain.number_text import NumberFormat

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

    from hammemo._arrays.types import Floats

    Names = Sequence[str]

COLOURS: Final = (
    "#0072B2",
    "#E69F00",
    "#009E73",
    "#CC79A7",
    "#56B4E9",
    "#D55E00",
    "#F0E442",
    "#882255",
)
"""Okabe and Ito's colours, and one more."""

_FOR: Final = COLOURS[0]
_AGAINST: Final = COLOURS[1]
_TOTAL: Final = "#777777"

_MOST_SITES: Final = 12
"""The most bars of sites."""


class Interval(NamedTuple):
    """A range of the score."""

    name: str
    low: float
    high: float


@dataclass(frozen=True, eq=False)
class Waterfall:
    """What a waterfall shows.

    Parameters
    ----------
    title : str
    base : float
        The score where no site says anything.
    sites : sequence of str
        The names of the S sites.
    contributions : ndarray of shape (S,)
    score_name : str
        What the last row is called.
    score : float
        What base and contributions add up to.
    interval : Interval, optional
        What the exact score may be.
    starts_at_base : bool
        Whether base and score are points, and the axis need not show zero: for numbers, whose base
        is often hundreds of times as large as any contribution. Otherwise both are bars from zero.
    """

    title: str
    base: float
    sites: Names
    contributions: Floats
    score_name: str
    score: float
    interval: Interval | None = None
    starts_at_base: bool = False


def draw(ax: Axes | None, waterfall: Waterfall) -> Axes:
    """Draw a waterfall on the axes, or on those of a new figure; return them."""
    bars = _choose_bars(waterfall)
    n_rows = len(bars.names)
    if ax is None:
        ax = new_axes(8.5, 1.4 + 0.36 * max(n_rows, 4))
    _draw_bars(ax, waterfall, bars)
    ends = bars.ends
    if not bars.has_base:
        ends = ends[1:]
    _join_bars(ax, ends)
    _set_limits(ax, waterfall, bars.ends)
    if waterfall.interval is not None:
        _draw_interval(ax, n_rows - 1, waterfall, waterfall.interval)
    _write_numbers(ax, waterfall, bars)
    ax.set_yticks(range(n_rows), [shorten(name) for name in bars.names])
    ax.set_ylim(n_rows - 0.4, -0.6)  # the base on top
    ax.set_title(waterfall.title, loc="left", fontsize=10)
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.tick_params(axis="y", length=0)
    ax.grid(visible=True, axis="x", alpha=0.3)
    ax.set_axisbelow(True)
    return ax


class _Bars(NamedTuple):
    """The rows of a waterfall."""

    names: list[str]
    """All rows: the base, if it is shown, the steps and the score."""
    has_base: bool
    steps: Floats
    """What each step adds: (n,)."""
    ends: Floats
    """The base, and where each step ends: (1 + n,)."""


def _choose_bars(waterfall: Waterfall) -> _Bars:
    """Choose a bar for each of the sites that add most, and one for all others."""
    contributions = waterfall.contributions
    order = np.argsort(-np.abs(contributions), kind="stable")
    if len(order) > _MOST_SITES:
        order = order[: _MOST_SITES - 1]
    n_others = len(waterfall.sites) - len(order)
    names = [waterfall.sites[k] for k in order.tolist()]
    steps = contributions[order].tolist()
    if n_others:
        names.append(f"{n_others:,} other sites")
        steps.append(float(contributions.sum() - contributions[order].sum()))
    has_base = bool(waterfall.base) or waterfall.starts_at_base
    if has_base:
        names.insert(0, "base" if waterfall.starts_at_base else "prior")
    return _Bars(
        names=[*names, waterfall.score_name],
        has_base=has_base,
        steps=np.array(steps, np.float64),
        ends=np.cumsum([waterfall.base, *steps]),
    )


def _draw_bars(ax: Axes, waterfall: Waterfall, bars: _Bars) -> None:
    """Draw the steps; base and score as points, or as bars from zero."""
    colours = [_FOR if step >= 0 else _AGAINST for step in bars.steps.tolist()]
    last = len(bars.names) - 1
    places = np.arange(len(bars.steps)) + bars.has_base
    starts = bars.ends[:-1]
    if waterfall.starts_at_base:
        ax.barh(places, bars.steps, 0.62, starts, color=colours, zorder=2)
        points = [waterfall.base, waterfall.score]
        ax.scatter(points, [0, last], s=36, color=_TOTAL, zorder=4)
        ax.axvline(waterfall.base, color="0.5", linewidth=0.8, linestyle=":")
        return
    lengths = [*bars.steps, waterfall.score]
    all_starts = [*starts, 0.0]
    colours.append(_TOTAL)
    if bars.has_base:
        lengths.insert(0, waterfall.base)
        all_starts.insert(0, 0.0)
        colours.insert(0, _TOTAL)
    ax.barh(np.arange(last + 1), lengths, 0.62, all_starts, color=colours, zorder=2)
    ax.axvline(0, color="black", linewidth=0.8)


def _join_bars(ax: Axes, ends: Floats) -> None:
    """Draw a thin line from the end of each row to the next row."""
    for place, end in enumerate(ends.tolist()):
        ax.plot([end, end], [place, place + 1], color="0.5", linewidth=0.8, zorder=1)


def _set_limits(ax: Axes, waterfall: Waterfall, ends: Floats) -> None:
    """Let the axis show all bars and the finite ends of the interval, with room for numbers."""
    shown = [*ends.tolist(), waterfall.score]
    if not waterfall.starts_at_base:
        shown.append(0.0)
    if waterfall.interval is not None:
        limits = (waterfall.interval.low, waterfall.interval.high)
        shown += [limit for limit in limits if np.isfinite(limit)]
    room = float(np.ptp(shown)) or abs(shown[0]) or 1.0
    ax.set_xlim(min(shown) - 0.04 * room, max(shown) + 0.14 * room)


def _write_numbers(ax: Axes, waterfall: Waterfall, bars: _Bars) -> None:
    """Write the base, what each bar adds and the score behind the ends of the bars."""
    score = waterfall.score
    show = NumberFormat([bars.steps, np.array([waterfall.base, score])])
    numbers = [
        (max(before, after), show.one(after - before, "+"))
        for before, after in pairwise(bars.ends.tolist())
    ]
    right = score
    base_text = show.one(waterfall.base)
    base_right = waterfall.base
    if not waterfall.starts_at_base:  # bars begin at zero
        right = max(score, 0.0)
        base_text = show.one(waterfall.base, "+")
        base_right = max(waterfall.base, 0.0)
    if bars.has_base:
        numbers.insert(0, (base_right, base_text))
    if waterfall.interval is not None:
        right = max(right, min(waterfall.interval.high, ax.get_xlim()[1]))
    numbers.append((right, show.one(score)))
    for place, (end, text) in enumerate(numbers):
        ax.annotate(
            text,
            (end, place),
            (6, 0),
            textcoords="offset points",
            va="center",
            fontsize=8,
            fontweight="bold" if place == len(numbers) - 1 else "normal",
        )


def _draw_interval(ax: Axes, place: int, waterfall: Waterfall, interval: Interval) -> None:
    """Draw a line from the low to the high end on a row; an infinite end is that of the axis."""
    left, right = ax.get_xlim()
    ax.plot(
        [max(interval.low, left), min(interval.high, right)],
        [place, place],
        "|-",
        color="black",
        markersize=8,
        linewidth=1.4,
        zorder=3,
        label=interval.name,
    )
    if not waterfall.starts_at_base:  # there, the row itself says what the line is
        ax.legend(loc="best", frameon=False, fontsize=8)


def new_axes(width: float, height: float) -> Axes:
    """Return the axes of a figure of its own, of this size in inches."""
    with explain_missing("Figures need Matplotlib: pip install 'hammemo[plot]'"):
        from matplotlib import pyplot
    return pyplot.subplots(figsize=(width, height), layout="constrained")[1]


def shorten(text: str, longest: int = 52) -> str:
    """Return the text, cut to at most this many characters."""
    if len(text) <= longest:
        return text
    return text[: longest - 1] + "…"
