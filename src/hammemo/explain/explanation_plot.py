"""The figure of an explanation: a waterfall from the prior to the score of one label. It needs the ``plot`` extra.

Each bar starts where the one above it ends: the prior, then what each site adds, the largest part first, and at the
bottom the score that they add up to. Blue speaks for the label, orange against it: Okabe and Ito's colours, which
people with any colour vision tell apart. A kernel with many sites shows the most telling ones, and the rest as one bar.
A predicted number starts at the base: its bars would be thin lines far from zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hammemo._lazy import explain_missing
from hammemo.explain.number_text import NumberFormat

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

    from hammemo._arrays.types import Floats

    Names = Sequence[str]
    Score = tuple[str, float]
    Interval = tuple[str, float, float] | None

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
_FOR, _AGAINST, _WHOLE = COLOURS[0], COLOURS[1], "#777777"
_MOST_SITES: Final = 12


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
    score : name and float
        What the last row is called, and what base and contributions add up to.
    interval : name, float and float, or None
        What the exact score may be, from and to.
    starts_at_base : bool
        Whether base and score are points, and the axis need not show zero: so it is with numbers, of which the base is
        often hundreds of times as large as any contribution. Otherwise both are bars from zero.
    """

    title: str
    base: float
    sites: Names
    contributions: Floats
    score: Score
    interval: Interval = None
    starts_at_base: bool = False


def draw(ax: Axes | None, waterfall: Waterfall) -> Axes:
    """Draw a waterfall on the axes, or on those of a new figure; return them."""
    has_base = bool(waterfall.base) or waterfall.starts_at_base
    base_name = "base" if waterfall.starts_at_base else "prior"
    names, steps = _choose_bars(waterfall.sites, waterfall.contributions)
    before = [base_name] if has_base else []
    rows = [*before, *names, waterfall.score[0]]
    ax = new_axes(8.5, 1.4 + 0.36 * max(len(rows), 4)) if ax is None else ax
    ends = np.cumsum([waterfall.base, *steps])  # the base, and where each step ends
    first = len(before)
    places = np.arange(first, first + len(steps))
    colours = [_FOR if step >= 0 else _AGAINST for step in steps.tolist()]
    if waterfall.starts_at_base:
        ax.barh(places, steps, 0.62, ends[:-1], color=colours, zorder=2)
        points = [(0, waterfall.base), (len(rows) - 1, waterfall.score[1])]
        ax.scatter([x for _, x in points], [y for y, _ in points], s=36, color=_WHOLE, zorder=4)
        ax.axvline(waterfall.base, color="0.5", linewidth=0.8, linestyle=":")
    else:
        lengths = [*([waterfall.base] if has_base else []), *steps, waterfall.score[1]]
        starts = [*([0.0] if has_base else []), *ends[:-1], 0.0]
        whole = [_WHOLE] if has_base else []
        ax.barh(
            np.arange(len(rows)), lengths, 0.62, starts, color=[*whole, *colours, _WHOLE], zorder=2
        )
        ax.axvline(0, color="black", linewidth=0.8)
    _join_bars(ax, ends if has_base else ends[1:])
    _set_limits(ax, waterfall, ends)
    if waterfall.interval is not None:
        _draw_interval(ax, len(rows) - 1, waterfall)
    _write_numbers(ax, waterfall, steps, ends, has_base=has_base)
    ax.set_yticks(range(len(rows)), [shortened(text) for text in rows])
    ax.set_ylim(len(rows) - 0.4, -0.6)  # the base on top
    ax.set_title(waterfall.title, loc="left", fontsize=10)
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.tick_params(axis="y", length=0)
    ax.grid(visible=True, axis="x", alpha=0.3)
    ax.set_axisbelow(True)
    return ax


def _choose_bars(sites: Names, contributions: Floats) -> tuple[list[str], Floats]:
    """Return names and lengths of bars: the most telling sites, and the rest as one."""
    order = np.argsort(-np.abs(contributions), kind="stable")
    order = order if len(order) <= _MOST_SITES else order[: _MOST_SITES - 1]
    rest = len(sites) - len(order)
    names = [sites[k] for k in order.tolist()]
    steps = contributions[order].tolist()
    if rest:
        names.append(f"{rest:,} other sites")
        steps.append(float(contributions.sum() - contributions[order].sum()))
    return names, np.array(steps, np.float64)


def _join_bars(ax: Axes, ends: Floats) -> None:
    """Draw a thin line from the end of each row to the next row."""
    for place, end in enumerate(ends.tolist()):
        ax.plot([end, end], [place, place + 1], color="0.5", linewidth=0.8, zorder=1)


def _set_limits(ax: Axes, waterfall: Waterfall, ends: Floats) -> None:
    """Let the axis show all bars and ends of the interval that are finite, with room for numbers on the right."""
    reached = [*ends.tolist(), waterfall.score[1]]
    if not waterfall.starts_at_base:
        reached.append(0.0)
    if waterfall.interval is not None:
        reached += [end for end in waterfall.interval[1:] if np.isfinite(end)]
    room = float(np.ptp(reached)) or abs(reached[0]) or 1.0
    ax.set_xlim(min(reached) - 0.04 * room, max(reached) + 0.14 * room)


def _write_numbers(
    ax: Axes, waterfall: Waterfall, steps: Floats, ends: Floats, *, has_base: bool
) -> None:
    """Write the base, what each bar adds and the score: behind the end of the bar, and of the interval."""
    score = waterfall.score[1]
    show = NumberFormat(steps, np.array([waterfall.base, score]))
    numbers = [
        (max(before, after), show.one(after - before, "+"))
        for before, after in pairwise(ends.tolist())
    ]
    if has_base:
        sign = "" if waterfall.starts_at_base else "+"
        reached = waterfall.base if waterfall.starts_at_base else max(waterfall.base, 0.0)
        numbers.insert(0, (reached, show.one(waterfall.base, sign)))
    right = score if waterfall.starts_at_base else max(score, 0.0)
    if waterfall.interval is not None:
        right = max(right, min(waterfall.interval[2], ax.get_xlim()[1]))
    numbers.append((right, show.one(score)))
    for place, (end, text) in enumerate(numbers):
        weight = "bold" if place == len(numbers) - 1 else "normal"
        style: dict[str, Any] = {"va": "center", "fontsize": 8, "fontweight": weight}
        ax.annotate(text, (end, place), (6, 0), textcoords="offset points", **style)


def _draw_interval(ax: Axes, place: int, waterfall: Waterfall) -> None:
    """Draw a line from the low to the high end on the last row; an infinite end is the end of the axis."""
    assert waterfall.interval is not None
    name, low, high = waterfall.interval
    left, right = ax.get_xlim()
    shown = [max(low, left), min(high, right)]
    ax.plot(
        shown,
        [place, place],
        "|-",
        color="black",
        markersize=8,
        linewidth=1.4,
        zorder=3,
        label=name,
    )
    if not waterfall.starts_at_base:  # there, the row itself says what the line is
        ax.legend(loc="best", frameon=False, fontsize=8)


def new_axes(width: float, height: float) -> Axes:
    """Return the axes of a figure of its own, of this size in inches."""
    with explain_missing("Figures need Matplotlib: pip install 'hammemo[plot]'"):
        from matplotlib import pyplot
    return pyplot.subplots(figsize=(width, height), layout="constrained")[1]


def shortened(text: str, longest: int = 52) -> str:
    """Return the text, cut to at most this many characters."""
    return text if len(text) <= longest else text[: longest - 1] + "…"
