"""The figure of an explanation: one bar a label, stacked by site. It needs the ``plot`` extra.

Colours are Okabe and Ito's, with a dark red of Tol's as the eighth: people with any colour vision tell them apart. Bars
have white edges, so that neighbours are told apart in print too. Parts above zero are stacked to the right of it, parts
below zero to the left, so that the score, marked by a diamond, is the length to the right minus the length to the left.
A kernel with many sites gives the most telling ones a colour each and the rest one together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from numpy.typing import NDArray

COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#882255")
_PRIOR, _REST = "#999999", "#DDDDDD"


def draw(
    ax: Axes | None,
    title: str,
    labels: Sequence[str],
    base: NDArray[np.float64],
    sites: Sequence[str],
    contributions: NDArray[np.float64],
    scores: NDArray[np.float64],
    interval: tuple[str, NDArray[np.float64], NDArray[np.float64]] | None,
) -> Axes:
    """Draw one bar for each of K labels, stacked by S sites, on the axes or on those of a new figure; return them.

    Parameters
    ----------
    ax : matplotlib Axes or None
    title : str
    labels, sites : sequences of str
        Names of the bars, the best one first, and of their parts.
    base, scores : ndarray of shape (K,)
    contributions : ndarray of shape (S, K)
    interval : name, ndarray of shape (K,) and ndarray of shape (K,), or None
        What the exact scores may be, from and to.
    """
    ax = _new_axes(len(labels)) if ax is None else ax
    places = np.arange(len(labels))
    right, left = np.zeros(len(labels)), np.zeros(len(labels))
    named: list[Any] = []  # what the legend shows, in this order
    for name, values, colour in _layers(base, sites, contributions):
        style: dict[str, Any] = {"color": colour, "edgecolor": "white", "linewidth": 0.8, "label": _shortened(name)}
        named.append(ax.barh(places, values, 0.62, np.where(values >= 0, right, left), **style))
        right, left = right + np.maximum(values, 0), left + np.minimum(values, 0)
    named += ax.plot(scores, places, "D", color="black", markersize=5, mec="white", zorder=4, label="score")
    if interval is not None:
        named.append(_draw_interval(ax, places, *interval))
    ax.axvline(0, color="black", linewidth=0.8)
    ax.set_yticks(places, [_shortened(label, 32) for label in labels])
    ax.set_ylim(len(labels) - 0.5, -0.5)  # the best label on top
    ax.set_xlabel("contribution to the score")
    ax.set_title(title, loc="left", fontsize=10)
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.tick_params(axis="y", length=0)
    ax.grid(visible=True, axis="x", alpha=0.3)
    ax.set_axisbelow(True)
    ax.legend(handles=named, loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False, fontsize=8)
    return ax


def _new_axes(n_labels: int) -> Axes:
    try:
        from matplotlib import pyplot
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("Figures need Matplotlib: pip install 'hammemo[plot]'") from error
    _, axes = pyplot.subplots(figsize=(8.5, 1.6 + 0.45 * max(n_labels, 3)), layout="constrained")
    return axes


def _layers(
    base: NDArray[np.float64], sites: Sequence[str], contributions: NDArray[np.float64]
) -> list[tuple[str, NDArray[np.float64], str]]:
    """Return name, values and colour of each part of the bars, in the order of the sites."""
    order = np.argsort(-np.abs(contributions).sum(axis=1), kind="stable")
    most = len(COLOURS) if len(sites) <= len(COLOURS) else len(COLOURS) - 1
    shown, rest = np.sort(order[:most]), order[most:]
    layers = [("prior", base, _PRIOR)] if base.any() else []
    layers += [(sites[k], contributions[k], COLOURS[place]) for place, k in enumerate(shown.tolist())]
    if len(rest):
        layers.append((f"{len(rest)} other sites", contributions[rest].sum(axis=0), _REST))
    return layers


def _draw_interval(
    ax: Axes, places: NDArray[np.int64], name: str, low: NDArray[np.float64], high: NDArray[np.float64]
) -> Any:
    """Draw a line from `low` to `high` for each label, and return what the legend shows of them."""
    ends, twice = np.concatenate([low, high]), np.concatenate([places, places])
    ax.plot(ends, twice, "|", color="black", markersize=8, zorder=3)
    return ax.hlines(places, low, high, color="black", linewidth=1.4, zorder=3, label=name)


def _shortened(text: str, longest: int = 52) -> str:
    return text if len(text) <= longest else text[: longest - 1] + "…"
