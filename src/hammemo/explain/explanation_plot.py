"""The figure of an explanation: a waterfall from the prior to the score of one label. It needs the ``plot`` extra.

Each bar starts where the one above it ends: the prior, then what each site adds, the largest part first, and at the
bottom the score that they add up to. Blue speaks for the label, orange against it: Okabe and Ito's colours, which
people with any colour vision tell apart. A kernel with many sites shows the most telling ones, and the rest as one bar.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from hammemo._lazy import needed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

    from hammemo._arrays.types import Floats

    Names = Sequence[str]
    Score = tuple[str, float]
    Interval = tuple[str, float, float] | None

COLOURS: Final = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#882255")
_FOR, _AGAINST, _WHOLE = COLOURS[0], COLOURS[1], "#777777"
_MOST_SITES: Final = 12


def draw(
    ax: Axes | None, title: str, base: float, sites: Names, contributions: Floats, score: Score, interval: Interval
) -> Axes:
    """Draw the waterfall of one label on the axes, or on those of a new figure; return them.

    Parameters
    ----------
    ax : matplotlib Axes or None
    title : str
    base : float
        The score where no site says anything.
    sites : sequence of str
        The names of the S sites.
    contributions : ndarray of shape (S,)
    score : name and float
        What the last bar is called, and its length.
    interval : name, float and float, or None
        What the exact score may be, from and to.
    """
    names, parts = _bars(base, sites, contributions)
    ax = new_axes(8.5, 1.4 + 0.36 * max(len(names) + 1, 3)) if ax is None else ax
    ends = np.cumsum(parts)
    starts = ends - parts
    name, total = score
    names, starts = [*names, name], np.append(starts, 0.0)
    lengths = np.append(parts, total)
    colours = [_FOR if part >= 0 else _AGAINST for part in parts.tolist()] + [_WHOLE]
    if base:
        colours[0] = _WHOLE
    places = np.arange(len(names))
    ax.barh(places, lengths, 0.62, starts, color=colours, zorder=2)
    for place, end in enumerate(ends.tolist()):
        ax.plot([end, end], [place, place + 1], color="0.5", linewidth=0.8, zorder=1)
    if interval is not None:
        _draw_interval(ax, len(names) - 1, *interval)
    _write_numbers(ax, starts, lengths)
    reached = np.concatenate([[0.0], starts, starts + lengths, [] if interval is None else interval[1:]])
    room = 0.04 * (float(np.ptp(reached)) or 1.0)
    ax.set_xlim(float(reached.min()) - room, float(reached.max()) + 3 * room)
    ax.axvline(0, color="black", linewidth=0.8)
    ax.set_yticks(places, [shortened(text) for text in names])
    ax.set_ylim(len(names) - 0.4, -0.6)  # the prior on top
    ax.set_title(title, loc="left", fontsize=10)
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.tick_params(axis="y", length=0)
    ax.grid(visible=True, axis="x", alpha=0.3)
    ax.set_axisbelow(True)
    return ax


def _bars(base: float, sites: Names, contributions: Floats) -> tuple[list[str], Floats]:
    """Return names and lengths of the bars but the last: the prior, the most telling sites, and the rest as one."""
    order = np.argsort(-np.abs(contributions), kind="stable")
    order = order if len(order) <= _MOST_SITES else order[: _MOST_SITES - 1]
    rest = len(sites) - len(order)
    names = ["prior"] * bool(base) + [sites[k] for k in order.tolist()]
    parts = [base] * bool(base) + contributions[order].tolist()
    if rest:
        names.append(f"{rest:,} other sites")
        parts.append(float(contributions.sum() - contributions[order].sum()))
    return names, np.array(parts, np.float64)


def _write_numbers(ax: Axes, starts: Floats, lengths: Floats) -> None:
    """Write what each bar adds behind its end."""
    digits = 2 if np.abs(lengths).max(initial=0.0) >= 0.1 else 4
    for place, (start, length) in enumerate(zip(starts.tolist(), lengths.tolist(), strict=True)):
        is_last = place == len(starts) - 1
        text = f"{length:.{digits}f}" if is_last else f"{length:+.{digits}f}"
        weight, end = "bold" if is_last else "normal", (max(start, start + length), place)
        ax.annotate(text, end, (4, 0), textcoords="offset points", va="center", fontsize=8, fontweight=weight)


def _draw_interval(ax: Axes, place: int, name: str, low: float, high: float) -> None:
    """Draw a line from `low` to `high` on the last bar."""
    ax.plot([low, high], [place, place], "|-", color="black", markersize=8, linewidth=1.4, zorder=3, label=name)
    ax.legend(loc="best", frameon=False, fontsize=8)


def new_axes(width: float, height: float) -> Axes:
    """Return the axes of a figure of its own, of this size in inches."""
    with needed("Figures need Matplotlib: pip install 'hammemo[plot]'"):
        from matplotlib import pyplot
    return pyplot.subplots(figsize=(width, height), layout="constrained")[1]


def shortened(text: str, longest: int = 52) -> str:
    """Return the text, cut to at most this many characters."""
    return text if len(text) <= longest else text[: longest - 1] + "…"
